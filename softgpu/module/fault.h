/* SPDX-License-Identifier: Apache-2.0 */
/* Faults of kernels: the error of each, and its line in the log. */
#ifndef VCUDA_CPU_FAULT_H
#define VCUDA_CPU_FAULT_H

#include "device/context.h"
#include "module/module.h"

CUresult softgpu_fault_result(enum ptx_fault_kind kind);

/* Logs a fault that has ended a kernel. With the lock held. */
void softgpu_fault_report(const struct CUfunc_st *function, const struct ptx_fault *fault);

/*
 * Whether an access of global memory that the kernel's map does not allow passes as one of the calling thread's did
 * before, in a context of the same softgpu_context_view(). False: softgpu_fault_judge() has to be asked. Without the
 * lock, which it does not take.
 */
bool softgpu_fault_is_known(const struct CUfunc_st *function, uint64_t view, uint64_t address, uint64_t bytes,
			    bool write);

/*
 * Decides by VCUDA_CPU_BOUNDS what follows from an access that is not allowed. The first one of the function that
 * passes is logged. Without the lock; any thread.
 */
enum ptx_stray softgpu_fault_judge(const struct CUctx_st *context, struct CUfunc_st *function,
				   const struct ptx_fault *fault);

#endif
