/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Functions of streams about managed memory. The memory never moves, so that a prefetch is complete at once; its place
 * is remembered for queries.
 */
#include "core/capture.h"
#include "core/device.h"
#include "core/request.h"
#include "memory/managed.h"
#include "protocol/cuda-functions.h"
#include "stream/stream.h"

VCUDA_EXPORT CUresult cuMemPrefetchAsync_v2(CUdeviceptr address, size_t bytes, CUmemLocation where, unsigned int flags,
					    CUstream stream)
{
	CUresult result = libcuda_stream_enter(&stream);
	struct libcuda_range r;

	if (result == CUDA_SUCCESS && flags)
		result = CUDA_ERROR_INVALID_VALUE;
	if (result == CUDA_SUCCESS)
		result = libcuda_managed_find(address, bytes, &r);
	if (result == CUDA_SUCCESS)
		result = libcuda_managed_check_place(where);
	if (result != CUDA_SUCCESS)
		return result;
	r.advice.prefetched = where;
	return libcuda_range_set_advice(address, &r.advice) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

VCUDA_EXPORT CUresult cuMemPrefetchAsync(CUdeviceptr address, size_t bytes, CUdevice dev, CUstream stream)
{
	return cuMemPrefetchAsync_v2(address, bytes, libcuda_managed_place_of(dev), 0, stream);
}

/* ---- many ranges in one call ---- */

struct ranges {
	const CUdeviceptr *addresses;
	const size_t *sizes;
	size_t count;
	const CUmemLocation *places; /* NULL: nothing is prefetched */
	const size_t *first;         /* the range that each place is for, and those behind it */
	size_t place_count;
};

static CUresult check_places(const struct ranges *b)
{
	CUresult result = CUDA_SUCCESS;

	if (!b->places || !b->first || !b->place_count || b->place_count > b->count || b->first[0])
		return CUDA_ERROR_INVALID_VALUE;
	for (size_t i = 0; i < b->place_count && result == CUDA_SUCCESS; i++) {
		if ((i && b->first[i] <= b->first[i - 1]) || b->first[i] >= b->count)
			return CUDA_ERROR_INVALID_VALUE;
		result = libcuda_managed_check_place(b->places[i]);
	}
	return result;
}

/* Checks all ranges before the call acts on any. Discarded memory may keep its contents: it stays in place. */
static CUresult check_ranges(const struct ranges *b, unsigned long long flags, CUstream stream)
{
	CUstream resolved = stream;
	CUresult result = libcuda_stream_enter(&resolved);
	struct libcuda_range r;

	if (result != CUDA_SUCCESS)
		return result;
	if (!b->addresses || !b->sizes || !b->count || flags || !stream || stream == CU_STREAM_LEGACY)
		return CUDA_ERROR_INVALID_VALUE;
	for (int dev = 0; dev < libcuda_device_count(); dev++)
		if (!libcuda_device_attribute(dev, CU_DEVICE_ATTRIBUTE_CONCURRENT_MANAGED_ACCESS))
			return CUDA_ERROR_NOT_SUPPORTED;
	for (size_t i = 0; i < b->count && result == CUDA_SUCCESS; i++)
		result = libcuda_managed_find(b->addresses[i], b->sizes[i], &r);
	return result;
}

static CUresult prefetch_all(const struct ranges *b, unsigned long long flags, CUstream stream)
{
	CUresult result = check_ranges(b, flags, stream);
	size_t at = 0;

	if (result == CUDA_SUCCESS)
		result = check_places(b);
	for (size_t i = 0; i < b->count && result == CUDA_SUCCESS; i++) {
		if (at + 1 < b->place_count && b->first[at + 1] == i)
			at++;
		result = cuMemPrefetchAsync_v2(b->addresses[i], b->sizes[i], b->places[at], 0, stream);
	}
	return result;
}

VCUDA_EXPORT CUresult cuMemPrefetchBatchAsync(CUdeviceptr *addresses, size_t *sizes, size_t count,
					      CUmemLocation *places, size_t *first, size_t place_count,
					      unsigned long long flags, CUstream stream)
{
	return prefetch_all(&(struct ranges){addresses, sizes, count, places, first, place_count}, flags, stream);
}

VCUDA_EXPORT CUresult cuMemDiscardAndPrefetchBatchAsync(CUdeviceptr *addresses, size_t *sizes, size_t count,
							CUmemLocation *places, size_t *first, size_t place_count,
							unsigned long long flags, CUstream stream)
{
	return prefetch_all(&(struct ranges){addresses, sizes, count, places, first, place_count}, flags, stream);
}

VCUDA_EXPORT CUresult cuMemDiscardBatchAsync(CUdeviceptr *addresses, size_t *sizes, size_t count,
					     unsigned long long flags, CUstream stream)
{
	return check_ranges(&(struct ranges){addresses, sizes, count, NULL, NULL, 0}, flags, stream);
}

/* Checks the arguments only: managed memory is always accessible to all streams. */
VCUDA_EXPORT CUresult cuStreamAttachMemAsync(CUstream stream, CUdeviceptr address, size_t bytes, unsigned int flags)
{
	CUresult result = libcuda_stream_enter(&stream);
	struct libcuda_range r;

	if (result == CUDA_SUCCESS)
		result = libcuda_capture_unsafe();
	if (result != CUDA_SUCCESS)
		return result;
	if (flags != CU_MEM_ATTACH_GLOBAL && flags != CU_MEM_ATTACH_HOST && flags != CU_MEM_ATTACH_SINGLE)
		return CUDA_ERROR_INVALID_VALUE;
	/* Memory cannot be attached to the default stream alone. */
	if (flags == CU_MEM_ATTACH_SINGLE && (!stream || stream == CU_STREAM_LEGACY))
		return CUDA_ERROR_INVALID_VALUE;
	/* The whole allocation, which is said by 0 too. */
	result = libcuda_managed_find(address, bytes ? bytes : 1, &r);
	if (result == CUDA_SUCCESS && (r.start != address || (bytes && bytes != r.bytes)))
		result = CUDA_ERROR_INVALID_VALUE;
	return result;
}
