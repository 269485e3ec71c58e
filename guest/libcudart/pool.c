/* SPDX-License-Identifier: Apache-2.0 */
/* Stream-ordered allocation and its pools. The structures of the two APIs are the same. */
#include "runtime.h"

static cudaError_t alloc_async(void **address, size_t bytes, cudaMemPool_t pool, bool from_pool, cudaStream_t stream)
{
	CUdeviceptr device = 0;

	if (!address)
		return cudart_record(cudaErrorInvalidValue);
	CUDART_TRY(cudart_enter());
	if (bytes && from_pool)
		CUDART_TRY((cudaError_t)cuMemAllocFromPoolAsync(&device, bytes, pool, stream));
	else if (bytes)
		CUDART_TRY((cudaError_t)cuMemAllocAsync(&device, bytes, stream));
	*address = (void *)(uintptr_t)device;
	return cudaSuccess;
}

CUDART_API cudaError_t cudaMallocAsync(void **address, size_t bytes, cudaStream_t stream)
{
	return alloc_async(address, bytes, NULL, false, stream);
}

CUDART_API cudaError_t cudaMallocAsync_ptsz(void **address, size_t bytes, cudaStream_t stream)
{
	return alloc_async(address, bytes, NULL, false, cudart_per_thread(stream));
}

CUDART_API cudaError_t cudaMallocFromPoolAsync(void **address, size_t bytes, cudaMemPool_t pool, cudaStream_t stream)
{
	return alloc_async(address, bytes, pool, true, stream);
}

CUDART_API cudaError_t cudaMallocFromPoolAsync_ptsz(void **address, size_t bytes, cudaMemPool_t pool,
						    cudaStream_t stream)
{
	return alloc_async(address, bytes, pool, true, cudart_per_thread(stream));
}

CUDART_API cudaError_t cudaFreeAsync(void *address, cudaStream_t stream)
{
	CUDART_TRY(cudart_enter());
	if (!address)
		return cudaSuccess;
	return cudart_result(cuMemFreeAsync(cudart_address(address), stream));
}

CUDART_API cudaError_t cudaFreeAsync_ptsz(void *address, cudaStream_t stream)
{
	return cudaFreeAsync(address, cudart_per_thread(stream));
}

/* ---- of several processes ---- */

CUDART_API cudaError_t cudaMemPoolImportPointer(void **address, cudaMemPool_t pool, struct cudaMemPoolPtrExportData *data)
{
	CUdeviceptr device;

	if (!address)
		return cudart_record(cudaErrorInvalidValue);
	CUDART_TRY(cudart_enter());
	CUDART_TRY((cudaError_t)cuMemPoolImportPointer(&device, pool, (CUmemPoolPtrExportData *)data));
	*address = (void *)(uintptr_t)device;
	return cudaSuccess;
}
