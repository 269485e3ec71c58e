/* SPDX-License-Identifier: Apache-2.0 */
/* Managed memory, for functions that name a range of it. Thread-safe. */
#ifndef VCUDA_MANAGED_H
#define VCUDA_MANAGED_H

#include <stddef.h>

#include "memory/range.h"
#include "protocol/cuda-abi.h"

/* The managed allocation that has all of [address, address + bytes). CUDA_ERROR_INVALID_VALUE: there is none. */
CUresult libcuda_managed_find(CUdeviceptr address, size_t bytes, struct libcuda_range *range);

/* CUDA_ERROR_INVALID_DEVICE, or CUDA_ERROR_INVALID_VALUE for an unknown type of place. */
CUresult libcuda_managed_check_place(CUmemLocation where);

/* A device number of the older functions, or CU_DEVICE_CPU. */
static inline CUmemLocation libcuda_managed_place_of(CUdevice dev)
{
	if (dev == CU_DEVICE_CPU)
		return (CUmemLocation){CU_MEM_LOCATION_TYPE_HOST, 0};
	return (CUmemLocation){CU_MEM_LOCATION_TYPE_DEVICE, dev};
}

#endif
