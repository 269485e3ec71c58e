/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Functions of machine code that kernels call by their addresses (common/sass-callee.h). Each is translated and
 * compiled when a kernel first calls it.
 */
#ifndef VCUDA_CPU_CALLEE_H
#define VCUDA_CPU_CALLEE_H

#include "device/time-limit.h"
#include "module/module.h"

struct softgpu_lifted;

/*
 * The code of the function at an address, for a block shape; else the fault of the kernel that calls it, with a line in
 * the log if the function cannot run. May take long, which `timer`, the launch's, does not count. Without the lock; a
 * launch has a reference to the module.
 */
enum ptx_fault_kind softgpu_callee_find(struct CUmod_st *module, uint64_t address, const uint32_t block[3],
					struct softgpu_timer *timer, const struct ptx_binary **binary);

/* The translation that this is the kernel of; NULL: it is no callee's. With the lock held. */
const struct softgpu_lifted *softgpu_callee_of(const struct CUmod_st *module, const struct ptx_kernel *kernel);

/* No launch of the module is left. With the lock held. */
void softgpu_callees_free(struct CUmod_st *module);

#endif
