/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Places of shared variables in a block's shared memory. Offsets and sizes are in bytes. A kernel has only the
 * variables that its code and the functions that it may call name.
 */
#ifndef VCUDA_BACKEND_CPU_PTX_SHARED_H
#define VCUDA_BACKEND_CPU_PTX_SHARED_H

#include "front/ptx-ir.h"

/*
 * Gives a kernel its shared variables, and says how many bytes they take together. Reads the bodies of what the kernel
 * may call, if need be.
 */
enum ptx_status ptx_shared_place(struct ptx_module *module, struct ptx_kernel *kernel, uint64_t *bytes,
				 struct ptx_error *error);

/* The bytes of the kernel's shared memory that a GPU reserves, once the variables have their places. */
uint64_t ptx_shared_reserved(const struct ptx_kernel *kernel);

/* The offset of a variable in the shared memory of this kernel's blocks. */
uint64_t ptx_shared_offset(const struct ptx_kernel *kernel, const struct ptx_symbol *symbol);

#endif
