/* SPDX-License-Identifier: Apache-2.0 */
/* The two halves of making a kernel run that know LLVM's machine code: compiling and linking. */
#ifndef VCUDA_BACKEND_CPU_PTX_COMPILE_H
#define VCUDA_BACKEND_CPU_PTX_COMPILE_H

#include <llvm-c/Error.h>

#include "ptx-lower.h"

/* Which code of a kernel. */
struct ptx_version {
	const char *name; /* of the function in the object; no two objects of a module share one */
	unsigned lanes;
	bool masked;
};

/* Starts LLVM; any number of calls, from any thread. */
void ptx_compile_start(void);

/* False, with `error` set, if there is a problem; which is freed. */
bool ptx_compile_report(struct ptx_error *error, LLVMErrorRef problem);

/*
 * Compiles one version of a kernel to an object file, which the caller owns; `stack` is what a fiber needs to run it.
 * Threads may compile at once as long as `body` and `low` are their own.
 */
enum ptx_status ptx_compile(struct ptx_body *body, struct ptx_lowering *low, const struct ptx_version *version,
			    LLVMMemoryBufferRef *object, uint64_t *stack, struct ptx_error *error);

/* Loads an object, which is taken over also on failure. One thread of a module at a time. */
bool ptx_jit_link(struct ptx_module *module, LLVMMemoryBufferRef object, const char *name, ptx_code *code,
		  struct ptx_error *error);

#endif
