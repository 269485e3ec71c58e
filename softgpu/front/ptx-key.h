/* SPDX-License-Identifier: Apache-2.0 */
/* Keys of the cache: of texts, of facts about texts, and of machine code. */
#ifndef VCUDA_BACKEND_CPU_PTX_KEY_H
#define VCUDA_BACKEND_CPU_PTX_KEY_H

#include "front/ptx-ir.h"

/* Identifies the machine code of a kernel. */
struct ptx_version {
	bool masked;
	bool quick;   /* compiled in a fraction of the time, and slower */
	bool checked; /* each access by itself: ptx_check_accesses() */
	bool scalar;  /* quick code of one lane for a kernel that is to have 32 */
	bool standalone; /* the masked version, made to run from a warp's begin to its end without a full one */
};

/* Finds out the compiler's build, which all keys but a text's need; any number of calls, from any thread. */
void ptx_key_start(void);
void ptx_key_texts(const struct ptx_text *texts, size_t count, struct vcuda_cache_key *key);
/* The key of the facts about a text. Returns as the next function. */
bool ptx_key_facts(const struct vcuda_cache_key *text, struct vcuda_cache_key *key);
/* The key of a kernel's code for a block shape {x, y, z}. Returns whether the compiler knows its own build, which the
 * cache needs. */
bool ptx_key_version(const struct ptx_kernel *kernel, const uint32_t blockdim[3], struct ptx_version version,
		     struct vcuda_cache_key *key);

/*
 * The name of the function in that code's object file. It does not say which compiler made it: a new process takes
 * 0.3 ms to find out, and names need to differ within a module only.
 */
#define PTX_NAME_BYTES 40
void ptx_key_name(const struct ptx_kernel *kernel, const uint32_t blockdim[3], struct ptx_version version,
		  char name[PTX_NAME_BYTES]);

#endif
