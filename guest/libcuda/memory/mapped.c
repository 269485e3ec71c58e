/* SPDX-License-Identifier: Apache-2.0 */
/* Memory in two steps: addresses that are reserved, allocations that are mapped there. No context has to do with it. */
#include "memory/allocation.h"
#include "core/request.h"
#include "core/device.h"
#include "protocol/guest-calls.h"
#include "common/log.h"
#include "memory/mapped-host.h"
#include "memory/range.h"

/* A place of the host's, for which the driver's documentation has these rules. */
static CUresult check_host_properties(const CUmemAllocationProp *p)
{
	if (!(libcuda_host.features & VCUDA_FEATURE_HOST_MEMORY)) {
		vcuda_log_once("cuMemCreate() in host memory needs a newer host, or another driver there");
		return CUDA_ERROR_NOT_SUPPORTED;
	}
	if (!libcuda_host_memory_has_place(&p->location) ||
	    (p->location.type == CU_MEM_LOCATION_TYPE_HOST && p->requestedHandleTypes))
		return CUDA_ERROR_INVALID_VALUE;
	return CUDA_SUCCESS;
}

static bool is_on_host(const CUmemLocation *where)
{
	return where->type == CU_MEM_LOCATION_TYPE_HOST || where->type == CU_MEM_LOCATION_TYPE_HOST_NUMA;
}

static CUresult check_properties(const CUmemAllocationProp *p)
{
	CUresult result = libcuda_require_init();

	if (result != CUDA_SUCCESS)
		return result;
	if (!p || p->type != CU_MEM_ALLOCATION_TYPE_PINNED ||
	    (p->location.type != CU_MEM_LOCATION_TYPE_DEVICE && !is_on_host(&p->location)))
		return CUDA_ERROR_INVALID_VALUE;
	if (is_on_host(&p->location))
		result = check_host_properties(p);
	else
		result = libcuda_require_device(p->location.id);
	if (result == CUDA_SUCCESS &&
	    p->requestedHandleTypes & ~(unsigned int)CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR) {
		vcuda_log_once("handles of mapped memory other than file descriptors are not supported yet");
		return CUDA_ERROR_NOT_SUPPORTED;
	}
	return result;
}

/* The device whose granularity it is; that of host memory is every device's. */
static CUdevice device_of(const CUmemAllocationProp *p)
{
	return libcuda_device_host(is_on_host(&p->location) ? 0 : p->location.id);
}

VCUDA_EXPORT CUresult cuMemGetAllocationGranularity(size_t *granularity, const CUmemAllocationProp *prop,
						    CUmemAllocationGranularity_flags option)
{
	CUresult result = libcuda_require_init();
	CUmemAllocationProp of;

	if (result != CUDA_SUCCESS)
		return result;
	if (!prop)
		return CUDA_ERROR_INVALID_VALUE;
	of = *prop;
	/* Memory cannot be made there, but it would be like other memory of the host. */
	if (of.location.type == CU_MEM_LOCATION_TYPE_HOST_NUMA_CURRENT)
		of.location.type = CU_MEM_LOCATION_TYPE_HOST;
	result = check_properties(&of);
	return result == CUDA_SUCCESS ? vcuda_call_vcudaMemGranularity(granularity, device_of(&of), (int)option)
				      : result;
}

static void unreserve(const struct libcuda_range *r)
{
	if (libcuda_is_host_reservation(r))
		libcuda_host_unreserve(r);
	else
		vcuda_call_cuMemAddressFree(r->start, r->bytes);
}

VCUDA_EXPORT CUresult cuMemAddressReserve(CUdeviceptr *ptr, size_t size, size_t alignment, CUdeviceptr wish,
					  uint64_t flags)
{
	struct libcuda_range r = {.bytes = size, .kind = LIBCUDA_RANGE_RESERVED};
	CUresult result = libcuda_require_init();
	CUdeviceptr start = 0;

	if (result != CUDA_SUCCESS)
		return result;
	if (!ptr || !size || flags)
		return CUDA_ERROR_INVALID_VALUE;
	if (libcuda_host_reservation_is_due()) {
		result = libcuda_host_reserve(&r, alignment);
	} else {
		result = vcuda_call_cuMemAddressReserve(&start, size, alignment, wish, flags);
		r.start = start;
	}
	if (result != CUDA_SUCCESS)
		return result;
	if (!libcuda_range_add(&r)) {
		unreserve(&r);
		return CUDA_ERROR_OUT_OF_MEMORY;
	}
	*ptr = r.start;
	return CUDA_SUCCESS;
}

VCUDA_EXPORT CUresult cuMemAddressFree(CUdeviceptr ptr, size_t size)
{
	CUresult result = libcuda_require_init();

	return result == CUDA_SUCCESS ? libcuda_host_free_addresses(ptr, size) : result;
}

static CUresult create_on_host(struct libcuda_allocation *made, size_t size)
{
	size_t granularity;
	CUresult result =
		vcuda_call_vcudaMemGranularity(&granularity, libcuda_device_host(0), CU_MEM_ALLOC_GRANULARITY_MINIMUM);

	if (result == CUDA_SUCCESS && size % granularity)
		result = CUDA_ERROR_INVALID_VALUE;
	made->bytes = size;
	return result == CUDA_SUCCESS ? libcuda_host_memory_create(&made->location, size, &made->memory) : result;
}

VCUDA_EXPORT CUresult cuMemCreate(CUmemGenericAllocationHandle *handle, size_t size, const CUmemAllocationProp *prop,
				  unsigned long long flags)
{
	CUresult result = check_properties(prop);
	struct libcuda_allocation made = {0};
	vcuda_allocation allocation = NULL;

	if (result != CUDA_SUCCESS)
		return result;
	if (!handle || !size || flags)
		return CUDA_ERROR_INVALID_VALUE;
	made.location = prop->location;
	made.handle_types = (unsigned int)prop->requestedHandleTypes;
	if (is_on_host(&prop->location))
		result = create_on_host(&made, size);
	else
		result = vcuda_call_vcudaMemCreate(&allocation, libcuda_device_host(prop->location.id), size,
						   prop->requestedHandleTypes != CU_MEM_HANDLE_TYPE_NONE);
	return result == CUDA_SUCCESS ? libcuda_allocation_add(allocation, &made, handle) : result;
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
	struct libcuda_allocation made;

	if (result == CUDA_SUCCESS)
		result = libcuda_allocation_find(handle, &made);
	if (result != CUDA_SUCCESS)
		return result;
	if (!prop)
		return CUDA_ERROR_INVALID_VALUE;
	*prop = (CUmemAllocationProp){
		.type = CU_MEM_ALLOCATION_TYPE_PINNED,
		.requestedHandleTypes = (CUmemAllocationHandleType)made.handle_types,
		.location = made.location,
	};
	return CUDA_SUCCESS;
}

/* The reservation that has all of it. False: none, or several, which is the worker's business; then *r is empty. */
static bool find_reservation(CUdeviceptr ptr, size_t size, struct libcuda_range *r)
{
	if (libcuda_range_find(ptr, r) && r->kind == LIBCUDA_RANGE_RESERVED && size &&
	    size <= r->bytes - (ptr - r->start))
		return true;
	*r = (struct libcuda_range){0};
	return false;
}

static CUresult map_host(const struct libcuda_range *r, CUdeviceptr ptr, size_t size, size_t offset,
			 CUmemGenericAllocationHandle handle, const struct libcuda_allocation *made)
{
	size_t granularity;
	CUresult result =
		vcuda_call_vcudaMemGranularity(&granularity, libcuda_device_host(0), CU_MEM_ALLOC_GRANULARITY_MINIMUM);

	if (result != CUDA_SUCCESS)
		return result;
	if (ptr % granularity || size % granularity || offset % granularity)
		return CUDA_ERROR_INVALID_VALUE;
	/* NVIDIA's driver maps all of an allocation from its start, too. */
	if (offset || size != made->bytes)
		return CUDA_ERROR_NOT_SUPPORTED;
	return libcuda_host_map(r, ptr, size, handle, made->memory);
}

static CUresult map_device(const struct libcuda_range *r, CUdeviceptr ptr, size_t size, size_t offset,
			   CUmemGenericAllocationHandle handle)
{
	CUresult result;

	if (libcuda_is_host_reservation(r)) {
		vcuda_log_once("with this host's GPU, addresses that were reserved while host memory of cuMemCreate() "
			       "waited to be mapped take no device memory: map the host memory first, then call "
			       "cuMemAddressReserve() for the device memory");
		return CUDA_ERROR_NOT_SUPPORTED;
	}
	result = vcuda_call_vcudaMemMap(ptr, size, offset, (vcuda_allocation)(uintptr_t)handle);
	if (result != CUDA_SUCCESS)
		return result;
	result = libcuda_allocation_map(handle, ptr, size);
	if (result != CUDA_SUCCESS)
		vcuda_call_cuMemUnmap(ptr, size);
	return result;
}

VCUDA_EXPORT CUresult cuMemMap(CUdeviceptr ptr, size_t size, size_t offset, CUmemGenericAllocationHandle handle,
			       unsigned long long flags)
{
	CUresult result = libcuda_require_init();
	struct libcuda_allocation made;
	struct libcuda_range r;

	if (result == CUDA_SUCCESS)
		result = libcuda_allocation_find(handle, &made);
	if (result != CUDA_SUCCESS)
		return result;
	if (flags || (!find_reservation(ptr, size, &r) && made.memory))
		return CUDA_ERROR_INVALID_VALUE;
	return made.memory ? map_host(&r, ptr, size, offset, handle, &made) : map_device(&r, ptr, size, offset, handle);
}

VCUDA_EXPORT CUresult cuMemUnmap(CUdeviceptr ptr, size_t size)
{
	CUresult result = libcuda_require_init();
	struct libcuda_range r;

	if (result != CUDA_SUCCESS)
		return result;
	find_reservation(ptr, size, &r);
	return libcuda_host_unmap(&r, ptr, size);
}

/* This library knows the access of this process, and in the arena the access of devices. */
static bool find_access(CUdeviceptr ptr, const CUmemLocation *location, unsigned long long *flags)
{
	struct libcuda_host_mapping m;
	struct libcuda_range r;

	if (!libcuda_host_mapping_at(ptr, &m))
		return false;
	if (is_on_host(location))
		*flags = m.cpu;
	else if (libcuda_range_find(ptr, &r) && libcuda_is_host_reservation(&r))
		*flags = m.devices[location->id];
	else
		return false;
	return true;
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
	if (find_access(ptr, location, flags))
		return CUDA_SUCCESS;
	result = vcuda_call_vcudaMemGetAccess(&given, (int)host.type, host.id, ptr);
	if (result == CUDA_SUCCESS)
		*flags = given;
	return result;
}

static CUresult set_device_access(CUdeviceptr ptr, size_t size, const CUmemAccessDesc *desc)
{
	struct libcuda_range r;

	if (libcuda_require_device(desc->location.id) != CUDA_SUCCESS)
		return CUDA_ERROR_INVALID_VALUE;
	if (find_reservation(ptr, size, &r) && libcuda_is_host_reservation(&r))
		return libcuda_host_set_device(ptr, size, desc->location.id, desc->flags);
	return vcuda_call_vcudaMemSetAccess(ptr, size, libcuda_device_host(desc->location.id), (int)desc->flags);
}

static CUresult set_access(CUdeviceptr ptr, size_t size, const CUmemAccessDesc *desc)
{
	if (desc->flags != CU_MEM_ACCESS_FLAGS_PROT_NONE && desc->flags != CU_MEM_ACCESS_FLAGS_PROT_READ &&
	    desc->flags != CU_MEM_ACCESS_FLAGS_PROT_READWRITE)
		return CUDA_ERROR_INVALID_VALUE;
	if (desc->location.type == CU_MEM_LOCATION_TYPE_DEVICE)
		return set_device_access(ptr, size, desc);
	return is_on_host(&desc->location) ? libcuda_host_set_access(ptr, size, desc) : CUDA_ERROR_INVALID_VALUE;
}

VCUDA_EXPORT CUresult cuMemSetAccess(CUdeviceptr ptr, size_t size, const CUmemAccessDesc *desc, size_t count)
{
	CUresult result = libcuda_require_init();

	if (result == CUDA_SUCCESS && (!desc || !count))
		result = CUDA_ERROR_INVALID_VALUE;
	for (size_t i = 0; i < count && result == CUDA_SUCCESS; i++)
		result = set_access(ptr, size, &desc[i]);
	return result;
}
