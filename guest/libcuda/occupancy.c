/* SPDX-License-Identifier: Apache-2.0 */
/* Occupancy questions that are put together from others. */
#include "call.h"
#include "device.h"
#include "function.h"

VCUDA_EXPORT CUresult cuOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(int *blocks, CUfunction f, int block_size,
									   size_t shared, unsigned int flags);

VCUDA_EXPORT CUresult cuOccupancyMaxActiveBlocksPerMultiprocessor(int *blocks, CUfunction f, int block_size,
								  size_t shared)
{
	return cuOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(blocks, f, block_size, shared,
								    CU_OCCUPANCY_DEFAULT);
}

/* The largest block size that keeps most threads in flight: tried downwards in whole warps. */
VCUDA_EXPORT CUresult cuOccupancyMaxPotentialBlockSizeWithFlags(int *min_grid, int *block, CUfunction f,
								CUoccupancyB2DSize shared_of, size_t shared, int limit,
								unsigned int flags)
{
	CUresult result = vcuda_require_context();
	int best = 0, best_blocks = 0, largest, warp;
	struct vcuda_function_entry *e;
	CUdevice dev;

	if (result == CUDA_SUCCESS)
		result = vcuda_function_lookup(f, &e);
	if (result != CUDA_SUCCESS)
		return result;
	if (!min_grid || !block || limit < 0)
		return CUDA_ERROR_INVALID_VALUE;
	dev = vcuda_context_current()->device;
	warp = vcuda_device_attribute(dev, CU_DEVICE_ATTRIBUTE_WARP_SIZE);
	result = vcuda_function_attribute(e, CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK, &largest);
	if (result != CUDA_SUCCESS)
		return result;
	if (limit && limit < largest)
		largest = limit;
	for (int size = largest; size > 0 && warp > 0; size = (size - 1) / warp * warp) {
		size_t dynamic = shared_of ? shared_of(size) : shared;
		int blocks;

		result = cuOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(&blocks, f, size, dynamic, flags);
		if (result != CUDA_SUCCESS)
			return result;
		if (blocks * size > best * best_blocks) {
			best = size;
			best_blocks = blocks;
		}
		if (best * best_blocks >=
		    vcuda_device_attribute(dev, CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_MULTIPROCESSOR))
			break;
	}
	*block = best;
	*min_grid = best_blocks * vcuda_device_attribute(dev, CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT);
	return CUDA_SUCCESS;
}

VCUDA_EXPORT CUresult cuOccupancyMaxPotentialBlockSize(int *min_grid, int *block, CUfunction f,
						       CUoccupancyB2DSize shared_of, size_t shared, int limit)
{
	return cuOccupancyMaxPotentialBlockSizeWithFlags(min_grid, block, f, shared_of, shared, limit,
							 CU_OCCUPANCY_DEFAULT);
}
