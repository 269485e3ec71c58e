/* SPDX-License-Identifier: Apache-2.0 */
/* Memory in two steps: addresses that are reserved, allocations that are mapped there. No context has to do with it. */
#include "memory/allocation.h"
#include "core/request.h"
#include "core/device.h"
#include "protocol/guest-calls.h"
#include "common/log.h"
#include "memory/range.h"

static CUresult check_properties(const CUmemAllocationProp *p)
{
	CUresult result = libcuda_require_init();

	if (result != CUDA_SUCCESS)
		return result;
	if (!p || p->type != CU_MEM_ALLOCATION_TYPE_PINNED)
		return CUDA_ERROR_INVALID_VALUE;
	if (p->location.type != CU_MEM_LOCATION_TYPE_DEVICE ||
	    p->requestedHandleTypes & ~(unsigned int)CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR) {
		vcuda_log_once(
			"mapped memory of the host, and handles other than file descriptors, are not supported yet");
		return CUDA_ERROR_NOT_SUPPORTED;
	}
	return libcuda_require_device(p->location.id);
}

VCUDA_EXPORT CUresult cuMemGetAllocationGranularity(size_t *granularity, const CUmemAllocationProp *prop,
						    CUmemAllocationGranularity_flags option)
{
	CUresult result = check_properties(prop);

	if (result != CUDA_SUCCESS)
		return result;
	return vcuda_call_vcudaMemGranularity(granularity, libcuda_device_host(prop->location.id), (int)option);
}

VCUDA_EXPORT CUresult cuMemAddressReserve(CUdeviceptr *ptr, size_t size, size_t alignment, CUdeviceptr wish,
					  uint64_t flags)
{
	struct libcuda_range r = {.bytes = size, .kind = LIBCUDA_RANGE_RESERVED};
	CUresult result = libcuda_require_init();
	CUdeviceptr start;

	if (result != CUDA_SUCCESS)
		return result;
	if (!ptr || !size || flags)
		return CUDA_ERROR_INVALID_VALUE;
	result = vcuda_call_cuMemAddressReserve(&start, size, alignment, wish, flags);
	if (result != CUDA_SUCCESS)
		return result;
	r.start = start;
	if (!libcuda_range_add(&r)) {
		vcuda_call_cuMemAddressFree(r.start, size);
		return CUDA_ERROR_OUT_OF_MEMORY;
	}
	*ptr = r.start;
	return CUDA_SUCCESS;
}

VCUDA_EXPORT CUresult cuMemAddressFree(CUdeviceptr ptr, size_t size)
{
	CUresult result = libcuda_require_init();
	struct libcuda_range r;

	if (result != CUDA_SUCCESS)
		return result;
	if (!libcuda_range_find(ptr, &r) || r.kind != LIBCUDA_RANGE_RESERVED || r.start != ptr || r.bytes != size)
		return CUDA_ERROR_INVALID_VALUE;
	result = vcuda_call_cuMemAddressFree(ptr, size);
	if (result == CUDA_SUCCESS)
		libcuda_range_remove(ptr, LIBCUDA_RANGE_RESERVED, &r);
	return result;
}

VCUDA_EXPORT CUresult cuMemCreate(CUmemGenericAllocationHandle *handle, size_t size, const CUmemAllocationProp *prop,
				  unsigned long long flags)
{
	CUresult result = check_properties(prop);
	vcuda_allocation allocation;

	if (result != CUDA_SUCCESS)
		return result;
	if (!handle || !size || flags)
		return CUDA_ERROR_INVALID_VALUE;
	result = vcuda_call_vcudaMemCreate(&allocation, libcuda_device_host(prop->location.id), size,
					   prop->requestedHandleTypes != CU_MEM_HANDLE_TYPE_NONE);
	if (result != CUDA_SUCCESS)
		return result;
	return libcuda_allocation_add(allocation, prop->location.id, (unsigned int)prop->requestedHandleTypes, handle);
}

/* What is mapped of it stays. */
VCUDA_EXPORT CUresult cuMemRelease(CUmemGenericAllocationHandle handle)
{
	CUresult result = libcuda_require_init();

	return result == CUDA_SUCCESS ? libcuda_allocation_release(handle) : result;
}

VCUDA_EXPORT CUresult cuMemRetainAllocationHandle(CUmemGenericAllocationHandle *handle, void *address)
{
	CUresult result = libcuda_require_init();

	if (result != CUDA_SUCCESS)
		return result;
	return handle ? libcuda_allocation_retain((uintptr_t)address, handle) : CUDA_ERROR_INVALID_VALUE;
}

VCUDA_EXPORT CUresult cuMemGetAllocationPropertiesFromHandle(CUmemAllocationProp *prop,
							     CUmemGenericAllocationHandle handle)
{
	CUresult result = libcuda_require_init();
	unsigned int handle_types;
	CUdevice device;

	if (result == CUDA_SUCCESS)
		result = libcuda_allocation_find(handle, &device, &handle_types);
	if (result != CUDA_SUCCESS)
		return result;
	if (!prop)
		return CUDA_ERROR_INVALID_VALUE;
	*prop = (CUmemAllocationProp){
		.type = CU_MEM_ALLOCATION_TYPE_PINNED,
		.requestedHandleTypes = (CUmemAllocationHandleType)handle_types,
		.location = {CU_MEM_LOCATION_TYPE_DEVICE, device},
	};
	return CUDA_SUCCESS;
}

VCUDA_EXPORT CUresult cuMemMap(CUdeviceptr ptr, size_t size, size_t offset, CUmemGenericAllocationHandle handle,
			       unsigned long long flags)
{
	CUresult result = libcuda_require_init();

	if (result == CUDA_SUCCESS)
		result = libcuda_allocation_find(handle, NULL, NULL);
	if (result == CUDA_SUCCESS && flags)
		result = CUDA_ERROR_INVALID_VALUE;
	if (result == CUDA_SUCCESS)
		result = vcuda_call_vcudaMemMap(ptr, size, offset, (vcuda_allocation)(uintptr_t)handle);
	if (result != CUDA_SUCCESS)
		return result;
	result = libcuda_allocation_map(handle, ptr, size);
	if (result != CUDA_SUCCESS)
		vcuda_call_cuMemUnmap(ptr, size);
	return result;
}

VCUDA_EXPORT CUresult cuMemUnmap(CUdeviceptr ptr, size_t size)
{
	CUresult result = libcuda_require_init();

	if (result == CUDA_SUCCESS)
		result = vcuda_call_cuMemUnmap(ptr, size);
	if (result == CUDA_SUCCESS)
		libcuda_allocation_unmap(ptr, size);
	return result;
}

VCUDA_EXPORT CUresult cuMemGetAccess(unsigned long long *flags, const CUmemLocation *location, CUdeviceptr ptr)
{
	CUresult result = libcuda_require_init();
	CUmemLocation host;
	uint64_t given;

	if (result != CUDA_SUCCESS)
		return result;
	if (!flags || !location || !ptr)
		return CUDA_ERROR_INVALID_VALUE;
	host = *location;
	if (host.type == CU_MEM_LOCATION_TYPE_DEVICE) {
		result = libcuda_require_device(location->id);
		if (result != CUDA_SUCCESS)
			return result;
		host.id = libcuda_device_host(location->id);
	}
	result = vcuda_call_vcudaMemGetAccess(&given, (int)host.type, host.id, ptr);
	if (result == CUDA_SUCCESS)
		*flags = given;
	return result;
}

VCUDA_EXPORT CUresult cuMemSetAccess(CUdeviceptr ptr, size_t size, const CUmemAccessDesc *desc, size_t count)
{
	CUresult result = libcuda_require_init();

	if (result == CUDA_SUCCESS && (!desc || !count))
		result = CUDA_ERROR_INVALID_VALUE;
	for (size_t i = 0; i < count && result == CUDA_SUCCESS; i++) {
		if (desc[i].location.type != CU_MEM_LOCATION_TYPE_DEVICE)
			return CUDA_ERROR_INVALID_VALUE;
		result = libcuda_require_device(desc[i].location.id);
		if (result == CUDA_SUCCESS)
			result = vcuda_call_vcudaMemSetAccess(ptr, size, libcuda_device_host(desc[i].location.id),
							      (int)desc[i].flags);
	}
	return result;
}
