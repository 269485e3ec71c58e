/* SPDX-License-Identifier: Apache-2.0 */
/* Stream-ordered allocation and its pools. The structures of the two APIs are the same. */
#include "runtime.h"

_Static_assert(sizeof(struct cudaMemPoolProps) == sizeof(CUmemPoolProps), "one layout");
_Static_assert(sizeof(struct cudaMemAccessDesc) == sizeof(CUmemAccessDesc), "one layout");

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

CUDART_API cudaError_t cudaMemPoolCreate(cudaMemPool_t *pool, const struct cudaMemPoolProps *props)
{
	CUDART_CALL(cuMemPoolCreate(pool, (const CUmemPoolProps *)props));
}

CUDART_API cudaError_t cudaMemPoolDestroy(cudaMemPool_t pool)
{
	CUDART_CALL(cuMemPoolDestroy(pool));
}

CUDART_API cudaError_t cudaMemPoolTrimTo(cudaMemPool_t pool, size_t keep)
{
	CUDART_CALL(cuMemPoolTrimTo(pool, keep));
}

CUDART_API cudaError_t cudaMemPoolGetAttribute(cudaMemPool_t pool, enum cudaMemPoolAttr attribute, void *value)
{
	CUDART_CALL(cuMemPoolGetAttribute(pool, (CUmemPool_attribute)attribute, value));
}

CUDART_API cudaError_t cudaMemPoolSetAttribute(cudaMemPool_t pool, enum cudaMemPoolAttr attribute, void *value)
{
	CUDART_CALL(cuMemPoolSetAttribute(pool, (CUmemPool_attribute)attribute, value));
}

CUDART_API cudaError_t cudaMemPoolGetAccess(enum cudaMemAccessFlags *flags, cudaMemPool_t pool,
					    struct cudaMemLocation *location)
{
	CUDART_CALL(cuMemPoolGetAccess((CUmemAccess_flags *)flags, pool, (CUmemLocation *)location));
}

CUDART_API cudaError_t cudaMemPoolSetAccess(cudaMemPool_t pool, const struct cudaMemAccessDesc *access, size_t count)
{
	CUDART_CALL(cuMemPoolSetAccess(pool, (const CUmemAccessDesc *)access, count));
}

CUDART_API cudaError_t cudaDeviceGetDefaultMemPool(cudaMemPool_t *pool, int device)
{
	CUDART_TRY(cudart_check_device(device));
	return cudart_result(cuDeviceGetDefaultMemPool(pool, device));
}

CUDART_API cudaError_t cudaDeviceGetMemPool(cudaMemPool_t *pool, int device)
{
	CUDART_TRY(cudart_check_device(device));
	return cudart_result(cuDeviceGetMemPool(pool, device));
}

CUDART_API cudaError_t cudaDeviceSetMemPool(int device, cudaMemPool_t pool)
{
	CUDART_TRY(cudart_check_device(device));
	return cudart_result(cuDeviceSetMemPool(device, pool));
}

CUDART_API cudaError_t cudaMemGetDefaultMemPool(cudaMemPool_t *pool, struct cudaMemLocation *where,
						enum cudaMemAllocationType type)
{
	CUDART_CALL(cuMemGetDefaultMemPool(pool, (CUmemLocation *)where, (CUmemAllocationType)type));
}

CUDART_API cudaError_t cudaMemGetMemPool(cudaMemPool_t *pool, struct cudaMemLocation *where,
					 enum cudaMemAllocationType type)
{
	CUDART_CALL(cuMemGetMemPool(pool, (CUmemLocation *)where, (CUmemAllocationType)type));
}

CUDART_API cudaError_t cudaMemSetMemPool(struct cudaMemLocation *where, enum cudaMemAllocationType type,
					 cudaMemPool_t pool)
{
	CUDART_CALL(cuMemSetMemPool((CUmemLocation *)where, (CUmemAllocationType)type, pool));
}

/* ---- of several processes ---- */

CUDART_API cudaError_t cudaMemPoolExportToShareableHandle(void *handle, cudaMemPool_t pool,
							  enum cudaMemAllocationHandleType type, unsigned int flags)
{
	CUDART_CALL(cuMemPoolExportToShareableHandle(handle, pool, (CUmemAllocationHandleType)type, flags));
}

CUDART_API cudaError_t cudaMemPoolImportFromShareableHandle(cudaMemPool_t *pool, void *handle,
							    enum cudaMemAllocationHandleType type, unsigned int flags)
{
	CUDART_CALL(cuMemPoolImportFromShareableHandle(pool, handle, (CUmemAllocationHandleType)type, flags));
}

CUDART_API cudaError_t cudaMemPoolExportPointer(struct cudaMemPoolPtrExportData *data, void *address)
{
	CUDART_CALL(cuMemPoolExportPointer((CUmemPoolPtrExportData *)data, (uintptr_t)address));
}

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
