/* SPDX-License-Identifier: Apache-2.0 */
/* Occupancy questions that are put together from others. */
#include "core/request.h"
#include "core/device.h"
#include "module/function.h"
#include "protocol/guest-calls.h"

#include <pthread.h>

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

static bool find_answer(struct libcuda_function_entry *e, struct libcuda_occupancy *o)
{
	bool found = false;

	pthread_mutex_lock(&lock);
	for (unsigned int i = 0; i < LIBCUDA_OCCUPANCY_ANSWERS && !found; i++) {
		const struct libcuda_occupancy *a = &e->occupancy[i];

		found = a->changes == o->changes && a->shared == o->shared && a->flags == o->flags &&
			a->block_size == o->block_size;
		if (found)
			o->blocks = a->blocks;
	}
	pthread_mutex_unlock(&lock);
	return found;
}

static void keep_answer(struct libcuda_function_entry *e, const struct libcuda_occupancy *o)
{
	pthread_mutex_lock(&lock);
	e->occupancy[e->oldest++ % LIBCUDA_OCCUPANCY_ANSWERS] = *o;
	pthread_mutex_unlock(&lock);
}

/* Libraries ask it again before each launch. */
VCUDA_EXPORT CUresult cuOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(int *blocks, CUfunction f, int block_size,
									   size_t shared, unsigned int flags)
{
	struct libcuda_occupancy o = {libcuda_function_changes() + 1, shared, flags, block_size, 0};
	CUresult result = libcuda_require_context();
	struct libcuda_function_entry *e;

	if (result == CUDA_SUCCESS)
		result = libcuda_function_lookup(libcuda_context_current(), f, &e);
	if (result != CUDA_SUCCESS)
		return result;
	if (!blocks)
		return CUDA_ERROR_INVALID_VALUE;
	if (!find_answer(e, &o)) {
		result = vcuda_call_cuOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(&o.blocks, f, block_size,
											 shared, flags);
		if (result != CUDA_SUCCESS)
			return result;
		keep_answer(e, &o);
	}
	*blocks = o.blocks;
	return CUDA_SUCCESS;
}

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
	CUresult result = libcuda_require_context();
	int best = 0, best_blocks = 0, largest, warp;
	struct libcuda_function_entry *e;
	CUdevice dev;

	if (result == CUDA_SUCCESS)
		result = libcuda_function_lookup(libcuda_context_current(), f, &e);
	if (result != CUDA_SUCCESS)
		return result;
	if (!min_grid || !block || limit < 0)
		return CUDA_ERROR_INVALID_VALUE;
	dev = libcuda_context_current()->device;
	warp = libcuda_device_attribute(dev, CU_DEVICE_ATTRIBUTE_WARP_SIZE);
	result = libcuda_function_attribute(e, CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK, &largest);
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
		    libcuda_device_attribute(dev, CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_MULTIPROCESSOR))
			break;
	}
	*block = best;
	*min_grid = best_blocks * libcuda_device_attribute(dev, CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT);
	return CUDA_SUCCESS;
}

VCUDA_EXPORT CUresult cuOccupancyMaxPotentialBlockSize(int *min_grid, int *block, CUfunction f,
						       CUoccupancyB2DSize shared_of, size_t shared, int limit)
{
	return cuOccupancyMaxPotentialBlockSizeWithFlags(min_grid, block, f, shared_of, shared, limit,
							 CU_OCCUPANCY_DEFAULT);
}

/* ---- clusters ---- */

static CUresult check_config(const void *result_place, CUfunction f, const CUlaunchConfig *c)
{
	CUresult result = libcuda_require_context();
	struct libcuda_function_entry *e;

	if (result == CUDA_SUCCESS)
		result = libcuda_function_lookup(libcuda_context_current(), f, &e);
	if (result != CUDA_SUCCESS)
		return result;
	return result_place && c && (!c->numAttrs || c->attrs) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

static bool has_clusters(void)
{
	return libcuda_device_attribute(libcuda_context_current()->device, CU_DEVICE_ATTRIBUTE_CLUSTER_LAUNCH);
}

VCUDA_EXPORT CUresult cuOccupancyMaxActiveClusters(int *clusters, CUfunction f, const CUlaunchConfig *c)
{
	CUresult result = check_config(clusters, f, c);
	unsigned int x = 0, y = 0, z = 0;

	if (result != CUDA_SUCCESS)
		return result;
	for (unsigned int i = 0; i < c->numAttrs; i++) {
		if (c->attrs[i].id == CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION) {
			x = c->attrs[i].value.clusterDim.x;
			y = c->attrs[i].value.clusterDim.y;
			z = c->attrs[i].value.clusterDim.z;
		}
	}
	if ((x || y || z) && (!x || !y || !z))
		return CUDA_ERROR_INVALID_CLUSTER_SIZE;
	if (has_clusters())
		return vcuda_call_vcudaOccupancyMaxActiveClusters(clusters, f, c->gridDimX, c->gridDimY, c->gridDimZ,
								  c->blockDimX, c->blockDimY, c->blockDimZ, x, y, z,
								  c->sharedMemBytes);
	if (x > 1 || y > 1 || z > 1)
		return CUDA_ERROR_NOT_SUPPORTED;
	/* Each block is a cluster of its own. */
	result = cuOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(clusters, f,
								      (int)(c->blockDimX * c->blockDimY * c->blockDimZ),
								      c->sharedMemBytes, CU_OCCUPANCY_DEFAULT);
	if (result == CUDA_SUCCESS)
		*clusters *= libcuda_device_attribute(libcuda_context_current()->device,
						      CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT);
	return result;
}

VCUDA_EXPORT CUresult cuOccupancyMaxPotentialClusterSize(int *size, CUfunction f, const CUlaunchConfig *c)
{
	CUresult result = check_config(size, f, c);

	if (result != CUDA_SUCCESS)
		return result;
	if (has_clusters())
		return vcuda_call_vcudaOccupancyMaxPotentialClusterSize(size, f, c->gridDimX, c->gridDimY, c->gridDimZ,
									c->blockDimX, c->blockDimY, c->blockDimZ,
									c->sharedMemBytes);
	*size = 1;
	return CUDA_SUCCESS;
}
