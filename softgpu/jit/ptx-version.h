/* SPDX-License-Identifier: Apache-2.0 */
/* The machine code of a kernel for one block shape: full or masked, quick or optimised, from the cache or compiled. */
#ifndef VCUDA_BACKEND_CPU_PTX_VERSION_H
#define VCUDA_BACKEND_CPU_PTX_VERSION_H

#include "front/ptx-cache.h"
#include "runtime/ptx-run.h"

struct ptx_version {
	bool masked;
	bool quick; /* compiled in a fraction of the time, and slower */
};

/* Where the time went, in ms. */
struct ptx_times {
	double analysis, lowering, passes, emission, link;
};

/* Finds out what the compiler is, which all keys but a text's need; any number of calls, from any thread. */
void ptx_key_start(void);
void ptx_key_texts(const struct ptx_text *texts, size_t count, struct vcuda_cache_key *key);
/* Of what is known about a text, beside its machine code. Returns as the next. */
bool ptx_key_facts(const struct vcuda_cache_key *text, struct vcuda_cache_key *key);
/* Returns whether the compiler knows itself well enough for the cache. */
bool ptx_key_version(const struct ptx_binary *binary, struct ptx_version version, struct vcuda_cache_key *key);

/*
 * Makes one version. With `choose`, a version that would take long is made quick, and *version says so; without it, one
 * that would take far too long is refused. `describe`:
 * also fills in what stands in the binary about every version, which must not run yet. `code` is for
 * ptx_binary_publish().
 */
enum ptx_status ptx_version_make(struct ptx_binary *binary, struct ptx_version *version, bool choose, bool describe,
				 struct ptx_machine_code **code, struct ptx_error *error);

#endif
