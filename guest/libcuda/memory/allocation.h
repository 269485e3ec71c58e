/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Memory of cuMemCreate(): its handle counts who holds it, and comes back to generation from what is mapped of it. The
 * worker has it until nobody holds it and nothing is mapped. Thread-safe.
 */
#ifndef VCUDA_ALLOCATION_H
#define VCUDA_ALLOCATION_H

#include "protocol/types.h"

/* A new one, which the application holds. CUDA_ERROR_OUT_OF_MEMORY: it is released. */
CUresult libcuda_allocation_add(vcuda_allocation allocation, CUdevice device, unsigned int handle_types,
				CUmemGenericAllocationHandle *handle);

/* What it was made with; either may be NULL. CUDA_ERROR_INVALID_VALUE: nobody holds such a one. */
CUresult libcuda_allocation_find(CUmemGenericAllocationHandle handle, CUdevice *device, unsigned int *handle_types);

CUresult libcuda_allocation_release(CUmemGenericAllocationHandle handle);

/* One that is held is mapped at [start, start + bytes), or what begins in there is not any more. */
CUresult libcuda_allocation_map(CUmemGenericAllocationHandle handle, uint64_t start, uint64_t bytes);
void libcuda_allocation_unmap(uint64_t start, uint64_t bytes);

/* The one that is mapped around an address is held once more. */
CUresult libcuda_allocation_retain(uint64_t address, CUmemGenericAllocationHandle *handle);

#endif
