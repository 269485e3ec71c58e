/* SPDX-License-Identifier: Apache-2.0 */
/* Allocation: device, pinned, registered and managed memory, and what a pointer points to. */
#include <string.h>

#include "runtime.h"

/* Rows start where any vector type may be read. */
#define PITCH_ELEMENT 4

CUDART_API cudaError_t cudaMalloc(void **address, size_t bytes)
{
	CUdeviceptr device = 0;

	if (!address)
		return cudart_record(cudaErrorInvalidValue);
	CUDART_TRY(cudart_enter());
	if (bytes)
		CUDART_TRY((cudaError_t)cuMemAlloc_v2(&device, bytes));
	*address = (void *)(uintptr_t)device;
	return cudaSuccess;
}

static cudaError_t alloc_pitch(struct cudaPitchedPtr *out, size_t width, size_t height, size_t depth)
{
	CUdeviceptr device = 0;
	size_t rows, pitch = 0;

	if (__builtin_mul_overflow(height, depth, &rows))
		return cudaErrorInvalidValue;
	if (width && rows) {
		CUresult result = cuMemAllocPitch_v2(&device, &pitch, width, rows, PITCH_ELEMENT);

		if (result)
			return (cudaError_t)result;
	}
	*out = (struct cudaPitchedPtr){(void *)(uintptr_t)device, pitch, width, height};
	return cudaSuccess;
}

CUDART_API cudaError_t cudaMallocPitch(void **address, size_t *pitch, size_t width, size_t height)
{
	struct cudaPitchedPtr made;

	if (!address || !pitch)
		return cudart_record(cudaErrorInvalidValue);
	CUDART_TRY(cudart_enter());
	CUDART_TRY(alloc_pitch(&made, width, height, 1));
	*address = made.ptr;
	*pitch = made.pitch;
	return cudaSuccess;
}

CUDART_API cudaError_t cudaMalloc3D(struct cudaPitchedPtr *pitched, struct cudaExtent extent)
{
	if (!pitched)
		return cudart_record(cudaErrorInvalidValue);
	CUDART_TRY(cudart_enter());
	return cudart_record(alloc_pitch(pitched, extent.width, extent.height, extent.depth));
}

CUDART_API cudaError_t cudaFree(void *address)
{
	/* The driver frees nothing at a null pointer, but says whether the context is still good. */
	CUDART_CALL(cuMemFree_v2(cudart_address(address)));
}

CUDART_API cudaError_t cudaHostAlloc(void **address, size_t bytes, unsigned int flags)
{
	if (!address)
		return cudart_record(cudaErrorInvalidValue);
	CUDART_TRY(cudart_enter());
	if (!bytes) {
		*address = NULL;
		return cudaSuccess;
	}
	return cudart_result(cuMemHostAlloc(address, bytes, flags));
}

CUDART_API cudaError_t cudaMallocHost(void **address, size_t bytes)
{
	return cudaHostAlloc(address, bytes, cudaHostAllocDefault);
}

CUDART_API cudaError_t cudaFreeHost(void *address)
{
	CUDART_TRY(cudart_enter());
	if (!address)
		return cudaSuccess;
	return cudart_result(cuMemFreeHost(address));
}

CUDART_API cudaError_t cudaHostGetDevicePointer(void **device, void *host, unsigned int flags)
{
	CUdeviceptr address;

	if (!device)
		return cudart_record(cudaErrorInvalidValue);
	CUDART_TRY(cudart_enter());
	CUDART_TRY((cudaError_t)cuMemHostGetDevicePointer_v2(&address, host, flags));
	*device = (void *)(uintptr_t)address;
	return cudaSuccess;
}

CUDART_API cudaError_t cudaMemGetInfo(size_t *available, size_t *total)
{
	size_t sizes[2];

	CUDART_TRY(cudart_enter());
	CUDART_TRY((cudaError_t)cuMemGetInfo_v2(&sizes[0], &sizes[1]));
	if (available)
		*available = sizes[0];
	if (total)
		*total = sizes[1];
	return cudaSuccess;
}

CUDART_API cudaError_t cudaMallocManaged(void **address, size_t bytes, unsigned int flags)
{
	CUdeviceptr device = 0;

	if (!address)
		return cudart_record(cudaErrorInvalidValue);
	CUDART_TRY(cudart_enter());
	if (bytes)
		CUDART_TRY((cudaError_t)cuMemAllocManaged(&device, bytes, flags));
	*address = (void *)(uintptr_t)device;
	return cudaSuccess;
}

CUDART_API cudaError_t cudaMemAdvise_v2(const void *address, size_t bytes, enum cudaMemoryAdvise advice,
					struct cudaMemLocation location)
{
	CUmemLocation where = {(CUmemLocationType)location.type, location.id};

	CUDART_CALL(cuMemAdvise_v2(cudart_address(address), bytes, (CUmem_advise)advice, where));
}

CUDART_API cudaError_t cudaMemPrefetchAsync_v2(const void *address, size_t bytes, struct cudaMemLocation location,
					       unsigned int flags, cudaStream_t stream)
{
	CUmemLocation where = {(CUmemLocationType)location.type, location.id};

	CUDART_CALL(cuMemPrefetchAsync_v2(cudart_address(address), bytes, where, flags, stream));
}

CUDART_API cudaError_t cudaMemPrefetchAsync_v2_ptsz(const void *address, size_t bytes, struct cudaMemLocation location,
						    unsigned int flags, cudaStream_t stream)
{
	return cudaMemPrefetchAsync_v2(address, bytes, location, flags, cudart_per_thread(stream));
}

cudaError_t cudart_pointer_attributes(struct cudaPointerAttributes *attributes, const void *pointer)
{
	CUmemorytype type = 0;
	CUdeviceptr device = 0;
	void *host = NULL;
	unsigned int managed = 0;
	int ordinal = cudaInvalidDeviceId;
	CUpointer_attribute names[] = {CU_POINTER_ATTRIBUTE_MEMORY_TYPE, CU_POINTER_ATTRIBUTE_DEVICE_POINTER,
				       CU_POINTER_ATTRIBUTE_HOST_POINTER, CU_POINTER_ATTRIBUTE_IS_MANAGED,
				       CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL};
	void *values[] = {&type, &device, &host, &managed, &ordinal};
	cudaError_t error = cudart_enter();

	if (!error)
		error = (cudaError_t)cuPointerGetAttributes(5, names, values, cudart_address(pointer));
	if (error)
		return error;
	memset(attributes, 0, sizeof(*attributes));
	attributes->device = ordinal;
	attributes->devicePointer = (void *)(uintptr_t)device;
	attributes->hostPointer = host;
	if (managed) {
		attributes->type = cudaMemoryTypeManaged;
	} else if (type == CU_MEMORYTYPE_DEVICE) {
		attributes->type = cudaMemoryTypeDevice;
	} else if (type == CU_MEMORYTYPE_HOST) {
		attributes->type = cudaMemoryTypeHost;
	} else {
		/* Ordinary memory: nothing is known about it. NVIDIA's library names no host pointer either. */
		attributes->type = cudaMemoryTypeUnregistered;
		attributes->device = cudaInvalidDeviceId;
		attributes->devicePointer = NULL;
		attributes->hostPointer = NULL;
	}
	return cudaSuccess;
}

CUDART_API cudaError_t cudaPointerGetAttributes(struct cudaPointerAttributes *attributes, const void *pointer)
{
	return cudart_record(attributes ? cudart_pointer_attributes(attributes, pointer) : cudaErrorInvalidValue);
}

CUDART_API cudaError_t cudaIpcOpenMemHandle(void **address, cudaIpcMemHandle_t handle, unsigned int flags)
{
	CUipcMemHandle driver_handle;
	CUdeviceptr device;

	_Static_assert(sizeof(driver_handle) == sizeof(handle), "the two APIs share their handles");
	if (!address)
		return cudart_record(cudaErrorInvalidValue);
	memcpy(&driver_handle, &handle, sizeof(handle));
	CUDART_TRY(cudart_enter());
	CUDART_TRY((cudaError_t)cuIpcOpenMemHandle_v2(&device, driver_handle, flags));
	*address = (void *)(uintptr_t)device;
	return cudaSuccess;
}
