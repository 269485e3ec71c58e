/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The heap of kernels' malloc() and free(): a piece of device memory for each context, made when its limit is
 * set or a kernel that uses it is first launched. Blocks that kernels do not free stay until the context ends.
 */
#ifndef VCUDA_CPU_HEAP_H
#define VCUDA_CPU_HEAP_H

#include "device/context.h"

struct softgpu_heap;

/*
 * Sets the limit and takes the memory for it, so that no later launch lacks it. CUDA_ERROR_OUT_OF_MEMORY: the device
 * has not so much left. CUDA_ERROR_INVALID_VALUE: a kernel that uses the heap was launched, so that its size is fixed.
 * With an error the limit stays as it was. With the lock held.
 */
CUresult softgpu_heap_set(struct CUctx_st *context, uint64_t limit);

/* The context's heap, of the size that its limit says. With the lock held. */
CUresult softgpu_heap_get(struct CUctx_st *context, struct softgpu_heap **heap);

/* For kernels: any thread, without the lock. 16-byte aligned; 0: none left. */
uint64_t softgpu_heap_allocate(void *heap, uint64_t bytes);
/* False: nothing was allocated there. */
bool softgpu_heap_release(void *heap, uint64_t address);

#endif
