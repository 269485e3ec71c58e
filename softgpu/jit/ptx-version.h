/* SPDX-License-Identifier: Apache-2.0 */
/* The machine code of a kernel for one block shape: full or masked, quick or optimised, from the cache or compiled. */
#ifndef VCUDA_BACKEND_CPU_PTX_VERSION_H
#define VCUDA_BACKEND_CPU_PTX_VERSION_H

#include "front/ptx-key.h"
#include "runtime/ptx-run.h"

/* Times of the steps, in ms. */
struct ptx_times {
	double parse, analysis, lowering, passes, emission, link;
	double cpu; /* of the thread that compiled */
};

/*
 * Makes one version. With `choose`, a version that would take long is made quick, and *version says so; without it, one
 * that would take far too long is refused. `describe`: also sets the members of the binary that all versions share; no
 * version may run yet. `code` is for ptx_binary_publish().
 */
enum ptx_status ptx_version_make(struct ptx_binary *binary, struct ptx_version *version, bool choose, bool describe,
				 struct ptx_machine_code **code, struct ptx_error *error);

/* Whether versions are to be compiled with each access checked by itself. */
bool ptx_version_is_checked(void);

/* A binary without code, which is in no list yet. For ptx_binary_free(). NULL: there is no memory. */
struct ptx_binary *ptx_binary_new(struct ptx_kernel *kernel, const uint32_t blockdim[3]);

void ptx_binary_free(struct ptx_binary *binary); /* for a binary that is in no list */

/* Puts a binary, which has code, in the place of one with scalar or standalone code. From any thread. */
void ptx_binary_replace(struct ptx_binary *first, struct ptx_binary *better);

/* Puts a version in its place. The caller holds the module's lock, or no other thread knows the binary yet. */
void ptx_binary_publish(struct ptx_binary *binary, bool masked, struct ptx_machine_code *code);

#endif
