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
	    (p->location.type == CU_MEM_LOCATION_TYPE_HOST && p->requestedHandleTypes) ||
	    p->allocFlags.compressionType || p->allocFlags.gpuDirectRDMACapable)
		return CUDA_ERROR_INVALID_VALUE;
	return CUDA_SUCCESS;
}

static bool is_on_host(const CUmemLocation *where)
{
	return where->type == CU_MEM_LOCATION_TYPE_HOST || where->type == CU_MEM_LOCATION_TYPE_HOST_NUMA;
}

/* NVIDIA's driver for Linux refuses those of other systems, and looks at no bits that mean nothing. */
static CUresult check_handle_types(unsigned int types)
{
	if (types & (CU_MEM_HANDLE_TYPE_WIN32 | CU_MEM_HANDLE_TYPE_WIN32_KMT))
		return CUDA_ERROR_INVALID_VALUE;
	if (!(types & CU_MEM_HANDLE_TYPE_FABRIC))
		return CUDA_SUCCESS;
	vcuda_log_once("handles of mapped memory other than file descriptors are not supported yet");
	return CUDA_ERROR_NOT_SUPPORTED;
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
	return result == CUDA_SUCCESS ? check_handle_types((unsigned int)p->requestedHandleTypes) : result;
}

/* The device whose granularity it is. NVIDIA's driver tells that of every place and device, whether it is there. */
static CUdevice device_of(const CUmemAllocationProp *p)
{
	bool is_there = p->location.type == CU_MEM_LOCATION_TYPE_DEVICE &&
			libcuda_require_device(p->location.id) == CUDA_SUCCESS;

	return libcuda_device_host(is_there ? p->location.id : 0);
}

VCUDA_EXPORT CUresult cuMemGetAllocationGranularity(size_t *granularity, const CUmemAllocationProp *prop,
						    CUmemAllocationGranularity_flags option)
{
	CUresult result = libcuda_require_init();

	if (result != CUDA_SUCCESS)
		return result;
	if (!granularity || !prop)
		return CUDA_ERROR_INVALID_VALUE;
	return vcuda_call_vcudaMemGranularity(granularity, device_of(prop), (int)option);
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
	made.bytes = size;
	if (is_on_host(&prop->location))
		result = create_on_host(&made, size);
	else
		result = vcuda_call_vcudaMemCreate(&allocation, libcuda_device_host(prop->location.id), size,
						   prop->requestedHandleTypes != CU_MEM_HANDLE_TYPE_NONE);
	return result == CUDA_SUCCESS ? libcuda_allocation_add(allocation, &made, handle) : result;
}

/* Mappings of the memory stay. */
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
		.requestedHandleTypes = (CUmemAllocationHandleType)(made.is_imported ? 0 : made.handle_types),
		.location = made.location,
	};
	/* NVIDIA's driver says the node. */
	if (made.location.type == CU_MEM_LOCATION_TYPE_HOST)
		prop->location = (CUmemLocation){CU_MEM_LOCATION_TYPE_HOST_NUMA, 0};
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

static CUresult map_host(const struct libcuda_range *r, CUdeviceptr ptr, size_t size,
			 CUmemGenericAllocationHandle handle, const struct libcuda_allocation *made)
{
	size_t granularity;
	CUresult result =
		vcuda_call_vcudaMemGranularity(&granularity, libcuda_device_host(0), CU_MEM_ALLOC_GRANULARITY_MINIMUM);

	if (result == CUDA_SUCCESS && ptr % granularity)
		result = CUDA_ERROR_INVALID_VALUE;
	return result == CUDA_SUCCESS ? libcuda_host_map(r, ptr, size, handle, made->memory) : result;
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
	if (flags || !size)
		return CUDA_ERROR_INVALID_VALUE;
	/* As with NVIDIA's driver, all of an allocation is mapped, from its start. */
	if (offset || (made.bytes && size != made.bytes))
		return CUDA_ERROR_NOT_SUPPORTED;
	if (!find_reservation(ptr, size, &r) && made.memory)
		return CUDA_ERROR_INVALID_VALUE;
	return made.memory ? map_host(&r, ptr, size, handle, &made) : map_device(&r, ptr, size, offset, handle);
}

/* Unmaps `m` and the mappings that follow it in the reservation without a gap, up to `end`. */
static CUresult unmap_run(const struct libcuda_mapping *m, uint64_t end, uint64_t *run_end)
{
	struct libcuda_mapping next;
	struct libcuda_range r;

	*run_end = m->start + m->bytes;
	find_reservation(m->start, m->bytes, &r);
	if (r.bytes && r.start + r.bytes < end)
		end = r.start + r.bytes;
	while (*run_end < end && libcuda_mapping_next(*run_end, end, &next) && next.start == *run_end)
		*run_end = next.start + next.bytes;
	return libcuda_host_unmap(&r, m->start, *run_end - m->start);
}

/* All whole mappings in there, of which there may be none. */
VCUDA_EXPORT CUresult cuMemUnmap(CUdeviceptr ptr, size_t size)
{
	CUresult result = libcuda_require_init();
	uint64_t end = ptr + size, at = ptr;
	struct libcuda_mapping m;
	struct libcuda_range r;

	if (result != CUDA_SUCCESS)
		return result;
	if (!size || end < ptr || !libcuda_range_find(ptr, &r) || r.kind != LIBCUDA_RANGE_RESERVED ||
	    libcuda_mappings_are_cut(ptr, size))
		return CUDA_ERROR_INVALID_VALUE;
	while (result == CUDA_SUCCESS && libcuda_mapping_next(at, end, &m))
		result = unmap_run(&m, end, &at);
	return result;
}

/* ---- access ---- */

static bool is_flag(CUmemAccess_flags flags)
{
	return flags == CU_MEM_ACCESS_FLAGS_PROT_NONE || flags == CU_MEM_ACCESS_FLAGS_PROT_READ ||
	       flags == CU_MEM_ACCESS_FLAGS_PROT_READWRITE;
}

static bool is_sound(const CUmemAccessDesc *desc)
{
	if (!is_flag(desc->flags))
		return false;
	if (desc->location.type == CU_MEM_LOCATION_TYPE_DEVICE)
		return libcuda_require_device(desc->location.id) == CUDA_SUCCESS;
	return is_on_host(&desc->location);
}

/*
 * HOST_NUMA gives the access of processors. HOST does so too, but gives that of the first device where processors have
 * none, as NVIDIA's driver does.
 */
static unsigned long long access_to(const struct libcuda_mapping *m, const CUmemLocation *location)
{
	if (location->type == CU_MEM_LOCATION_TYPE_DEVICE)
		return m->devices[location->id];
	if (location->type == CU_MEM_LOCATION_TYPE_HOST && m->cpu == CU_MEM_ACCESS_FLAGS_PROT_NONE)
		return m->devices[0];
	return m->cpu;
}

static CUresult get_access(unsigned long long *flags, const CUmemLocation *location, CUdeviceptr ptr)
{
	struct libcuda_mapping m;
	struct libcuda_range r;

	if (libcuda_mapping_at(ptr, &m)) {
		*flags = access_to(&m, location);
		return CUDA_SUCCESS;
	}
	if (!libcuda_range_find(ptr, &r))
		return CUDA_ERROR_INVALID_VALUE;
	/* Other memory has none that could be set. */
	*flags = CU_MEM_ACCESS_FLAGS_PROT_NONE;
	return r.kind == LIBCUDA_RANGE_RESERVED ? CUDA_ERROR_INVALID_VALUE : CUDA_SUCCESS;
}

VCUDA_EXPORT CUresult cuMemGetAccess(unsigned long long *flags, const CUmemLocation *location, CUdeviceptr ptr)
{
	CUresult result = libcuda_require_init();

	if (result != CUDA_SUCCESS)
		return result;
	if (!flags || !location || !ptr)
		return CUDA_ERROR_INVALID_VALUE;
	if (location->type == CU_MEM_LOCATION_TYPE_DEVICE)
		result = libcuda_require_device(location->id);
	else if (!is_on_host(location))
		result = CUDA_ERROR_INVALID_DEVICE;
	return result == CUDA_SUCCESS ? get_access(flags, location, ptr) : result;
}

static CUresult set_device_access(CUdeviceptr ptr, size_t size, const CUmemAccessDesc *desc)
{
	struct libcuda_mapping m;
	struct libcuda_range r;
	CUresult result;

	if (desc->location.id >= LIBCUDA_ACCESS_DEVICES)
		return CUDA_ERROR_INVALID_VALUE;
	if (find_reservation(ptr, size, &r) && libcuda_is_host_reservation(&r))
		return libcuda_host_set_device(ptr, size, desc->location.id, desc->flags);
	result = vcuda_call_vcudaMemSetAccess(ptr, size, libcuda_device_host(desc->location.id), (int)desc->flags);
	for (uint64_t at = ptr; result == CUDA_SUCCESS && libcuda_mapping_next(at, ptr + size, &m);
	     at = m.start + m.bytes) {
		m.devices[desc->location.id] = (uint8_t)desc->flags;
		libcuda_mapping_set(&m);
	}
	return result;
}

/*
 * The bytes from ptr on up to the first gap; 0: a mapping is cut, or nothing is mapped at the begin or at the end of
 * the range. NVIDIA's driver checks no more either, and gives access to the part before the gap.
 */
static size_t find_mapped(CUdeviceptr ptr, size_t size)
{
	uint64_t end = ptr + size, at = ptr;
	struct libcuda_mapping m;

	if (!size || end < ptr || libcuda_mappings_are_cut(ptr, size) || !libcuda_mapping_at(end - 1, &m))
		return 0;
	while (at < end && libcuda_mapping_at(at, &m) && !m.is_ending)
		at = m.start + m.bytes;
	return at - ptr;
}

/* If one argument is wrong, nothing is set; otherwise all are set in order, up to an error. */
VCUDA_EXPORT CUresult cuMemSetAccess(CUdeviceptr ptr, size_t size, const CUmemAccessDesc *desc, size_t count)
{
	CUresult result = libcuda_require_init();
	size_t mapped;

	if (result != CUDA_SUCCESS)
		return result;
	if (!desc || !count)
		return CUDA_ERROR_INVALID_VALUE;
	for (size_t i = 0; i < count; i++)
		if (!is_sound(&desc[i]))
			return CUDA_ERROR_INVALID_VALUE;
	mapped = find_mapped(ptr, size);
	if (!mapped)
		return CUDA_ERROR_INVALID_VALUE;
	for (size_t i = 0; i < count && result == CUDA_SUCCESS; i++)
		result = desc[i].location.type == CU_MEM_LOCATION_TYPE_DEVICE
				 ? set_device_access(ptr, mapped, &desc[i])
				 : libcuda_host_set_access(ptr, mapped, desc[i].flags);
	return result;
}
