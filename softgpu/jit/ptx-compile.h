/* SPDX-License-Identifier: Apache-2.0 */
/* The two halves of making a kernel run that know LLVM's machine code: compiling and linking. */
#ifndef VCUDA_BACKEND_CPU_PTX_COMPILE_H
#define VCUDA_BACKEND_CPU_PTX_COMPILE_H

#include <llvm-c/Core.h>
#include <llvm-c/Error.h>

#include "lower/ptx-lowering.h"
#include "jit/ptx-version.h"

/* A kernel analysed for a block shape; good for one compilation, on one thread. */
struct ptx_plan {
	struct ptx_body body;
	struct ptx_lowering low;
	unsigned lanes;
	double parse_ms; /* time to parse the kernel's text */
};

/* `scalar`: ptx_body_width(); NULL: not wanted. */
enum ptx_status ptx_plan_create(struct ptx_kernel *kernel, const uint32_t blockdim[3], bool *scalar,
				struct ptx_plan **plan, struct ptx_error *error);
void ptx_plan_destroy(struct ptx_plan *plan);

/* Starts LLVM; any number of calls, from any thread. */
void ptx_compile_start(void);

/* False, with `error` set, if there is a problem; which is freed. */
bool ptx_compile_report(struct ptx_error *error, LLVMErrorRef problem);

/*
 * Compiles one version of a kernel to an object file, which the caller owns and whose function has this name. `stack`
 * is what a fiber needs to run it.
 */
enum ptx_status ptx_compile(struct ptx_plan *plan, struct ptx_version version, const char *name,
			    LLVMMemoryBufferRef *object, uint64_t *stack, struct ptx_times *times,
			    struct ptx_error *error);

void ptx_jit_destroy(struct ptx_jit *jit); /* NULL is fine */
void ptx_jit_make_spare(void);             /* for the next module that needs one */

/* Loads an object, whose function has a name that no other of the module has. From any thread. */
bool ptx_jit_link(struct ptx_module *module, const void *object, size_t size, const char *name, ptx_code *code,
		  struct ptx_error *error);

#endif
