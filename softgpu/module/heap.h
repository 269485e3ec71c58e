/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What kernels' malloc() and free() take memory from: a piece of device memory for each context, made when a kernel
 * that uses it is first launched. It keeps what kernels leave in it until the context ends.
 */
#ifndef VCUDA_CPU_HEAP_H
#define VCUDA_CPU_HEAP_H

#include "device/context.h"

struct softgpu_heap;

/* The context's heap, of the size that its limit says. With the lock held. */
CUresult softgpu_heap_get(struct CUctx_st *context, struct softgpu_heap **heap);

/* For kernels: any thread, without the lock. 16-byte aligned; 0: none left. */
uint64_t softgpu_heap_allocate(void *heap, uint64_t bytes);
/* False: nothing was allocated there. */
bool softgpu_heap_release(void *heap, uint64_t address);

#endif
