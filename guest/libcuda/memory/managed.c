/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Managed memory: pinned memory at one address on both sides. Nothing ever moves, so that prefetches and advice cost
 * nothing; what was advised is remembered, for who asks.
 */
#include <string.h>

#include "core/capture.h"
#include "core/request.h"
#include "core/device.h"
#include "protocol/guest-calls.h"
#include "common/log.h"
#include "memory/managed.h"
#include "memory/memory.h"

#define ALL_DEVICES 64

VCUDA_EXPORT CUresult cuMemAllocManaged(CUdeviceptr *dptr, size_t bytes, unsigned int flags)
{
	CUresult result = libcuda_require_context();
	void *p;

	if (result == CUDA_SUCCESS)
		result = libcuda_capture_unsafe();
	if (result != CUDA_SUCCESS)
		return result;
	if (!dptr || !bytes || (flags != CU_MEM_ATTACH_GLOBAL && flags != CU_MEM_ATTACH_HOST))
		return CUDA_ERROR_INVALID_VALUE;
	if (!libcuda_device_attribute(libcuda_context_current()->device, CU_DEVICE_ATTRIBUTE_MANAGED_MEMORY))
		return CUDA_ERROR_NOT_SUPPORTED;
	result = libcuda_pinned_alloc(libcuda_context_current(), &p, bytes, LIBCUDA_RANGE_MANAGED, flags);
	if (result == CUDA_SUCCESS)
		*dptr = (uintptr_t)p;
	return result;
}

CUresult libcuda_managed_place(const void *owner, uint32_t count, struct libcuda_context *context)
{
	CUresult result = CUDA_SUCCESS;
	size_t bytes = 0;

	for (uint32_t i = 0; i < count && result == CUDA_SUCCESS; i++) {
		result = vcuda_call_vcudaManagedBytes((vcuda_code)owner, i, &bytes);
		if (result == CUDA_SUCCESS)
			result = libcuda_pinned_variable(owner, i, bytes, context);
	}
	if (result == CUDA_ERROR_OUT_OF_MEMORY)
		vcuda_log("no memory for a __managed__ variable of %zu bytes", bytes);
	return result;
}

CUresult libcuda_managed_find(CUdeviceptr address, size_t bytes, struct libcuda_range *r)
{
	if (!bytes || !libcuda_range_find(address, r) || !(r->kind & LIBCUDA_RANGE_ANY_MANAGED))
		return CUDA_ERROR_INVALID_VALUE;
	return bytes <= r->bytes - (address - r->start) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

CUresult libcuda_managed_check_place(CUmemLocation where)
{
	switch (where.type) {
	case CU_MEM_LOCATION_TYPE_DEVICE:
		return where.id >= 0 && where.id < libcuda_device_count() ? CUDA_SUCCESS : CUDA_ERROR_INVALID_DEVICE;
	case CU_MEM_LOCATION_TYPE_HOST:
	case CU_MEM_LOCATION_TYPE_HOST_NUMA:
	case CU_MEM_LOCATION_TYPE_HOST_NUMA_CURRENT:
		return CUDA_SUCCESS;
	default:
		return CUDA_ERROR_INVALID_VALUE;
	}
}

static void set_accessed_by(struct libcuda_advice *a, CUmemLocation where, bool on)
{
	uint64_t bit;

	if (where.type != CU_MEM_LOCATION_TYPE_DEVICE) {
		a->accessed_by_host = on;
		return;
	}
	bit = 1ull << (where.id % ALL_DEVICES);
	a->accessed_by = on ? a->accessed_by | bit : a->accessed_by & ~bit;
}

VCUDA_EXPORT CUresult cuMemAdvise_v2(CUdeviceptr address, size_t bytes, CUmem_advise advice, CUmemLocation where)
{
	CUresult result = libcuda_require_context();
	bool anywhere = advice == CU_MEM_ADVISE_SET_READ_MOSTLY || advice == CU_MEM_ADVISE_UNSET_READ_MOSTLY ||
			advice == CU_MEM_ADVISE_UNSET_PREFERRED_LOCATION;
	struct libcuda_range r;

	if (result == CUDA_SUCCESS)
		result = libcuda_managed_find(address, bytes, &r);
	if (result == CUDA_SUCCESS && !anywhere)
		result = libcuda_managed_check_place(where);
	if (result != CUDA_SUCCESS)
		return result;
	switch (advice) {
	case CU_MEM_ADVISE_SET_READ_MOSTLY:
	case CU_MEM_ADVISE_UNSET_READ_MOSTLY:
		r.advice.read_mostly = advice == CU_MEM_ADVISE_SET_READ_MOSTLY;
		break;
	case CU_MEM_ADVISE_SET_PREFERRED_LOCATION:
		r.advice.preferred = where;
		break;
	case CU_MEM_ADVISE_UNSET_PREFERRED_LOCATION:
		r.advice.preferred = (CUmemLocation){0};
		break;
	case CU_MEM_ADVISE_SET_ACCESSED_BY:
	case CU_MEM_ADVISE_UNSET_ACCESSED_BY:
		set_accessed_by(&r.advice, where, advice == CU_MEM_ADVISE_SET_ACCESSED_BY);
		break;
	default:
		return CUDA_ERROR_INVALID_VALUE;
	}
	result = libcuda_capture_unsafe();
	if (result != CUDA_SUCCESS)
		return result;
	return libcuda_range_set_advice(address, &r.advice) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

VCUDA_EXPORT CUresult cuMemAdvise(CUdeviceptr address, size_t bytes, CUmem_advise advice, CUdevice dev)
{
	return cuMemAdvise_v2(address, bytes, advice, libcuda_managed_place_of(dev));
}

/* ---- questions ---- */

static int device_of(CUmemLocation where)
{
	if (where.type == CU_MEM_LOCATION_TYPE_DEVICE)
		return where.id;
	return where.type == CU_MEM_LOCATION_TYPE_NONE ? CU_DEVICE_INVALID : CU_DEVICE_CPU;
}

/* Fills `to` with the devices that fit; the rest becomes "none". */
static CUresult list_accessed_by(const struct libcuda_advice *a, int *to, size_t bytes)
{
	size_t room = bytes / sizeof(*to), n = 0;

	if (!bytes || bytes % sizeof(*to))
		return CUDA_ERROR_INVALID_VALUE;
	for (int dev = 0; dev < ALL_DEVICES && n < room; dev++)
		if (a->accessed_by >> dev & 1)
			to[n++] = dev;
	if (a->accessed_by_host && n < room)
		to[n++] = CU_DEVICE_CPU;
	while (n < room)
		to[n++] = CU_DEVICE_INVALID;
	return CUDA_SUCCESS;
}

static CUresult get_attribute(void *data, size_t bytes, CUmem_range_attribute attribute, const struct libcuda_advice *a)
{
	int value;

	switch (attribute) {
	case CU_MEM_RANGE_ATTRIBUTE_READ_MOSTLY:
		value = a->read_mostly;
		break;
	case CU_MEM_RANGE_ATTRIBUTE_PREFERRED_LOCATION:
		value = device_of(a->preferred);
		break;
	case CU_MEM_RANGE_ATTRIBUTE_ACCESSED_BY:
		return list_accessed_by(a, data, bytes);
	case CU_MEM_RANGE_ATTRIBUTE_LAST_PREFETCH_LOCATION:
		value = device_of(a->prefetched);
		break;
	case CU_MEM_RANGE_ATTRIBUTE_PREFERRED_LOCATION_TYPE:
		value = (int)a->preferred.type;
		break;
	case CU_MEM_RANGE_ATTRIBUTE_PREFERRED_LOCATION_ID:
		value = a->preferred.id;
		break;
	case CU_MEM_RANGE_ATTRIBUTE_LAST_PREFETCH_LOCATION_TYPE:
		value = (int)a->prefetched.type;
		break;
	case CU_MEM_RANGE_ATTRIBUTE_LAST_PREFETCH_LOCATION_ID:
		value = a->prefetched.id;
		break;
	default:
		return CUDA_ERROR_INVALID_VALUE;
	}
	if (bytes != sizeof(value))
		return CUDA_ERROR_INVALID_VALUE;
	memcpy(data, &value, sizeof(value));
	return CUDA_SUCCESS;
}

VCUDA_EXPORT CUresult cuMemRangeGetAttributes(void **data, size_t *sizes, CUmem_range_attribute *attributes,
					      size_t count, CUdeviceptr address, size_t bytes)
{
	CUresult result = libcuda_require_context();
	struct libcuda_range r;

	if (result == CUDA_SUCCESS)
		result = libcuda_managed_find(address, bytes, &r);
	if (result == CUDA_SUCCESS && (!data || !sizes || !attributes || !count))
		result = CUDA_ERROR_INVALID_VALUE;
	for (size_t i = 0; i < count && result == CUDA_SUCCESS; i++)
		result =
			data[i] ? get_attribute(data[i], sizes[i], attributes[i], &r.advice) : CUDA_ERROR_INVALID_VALUE;
	return result;
}

VCUDA_EXPORT CUresult cuMemRangeGetAttribute(void *data, size_t size, CUmem_range_attribute attribute,
					     CUdeviceptr address, size_t bytes)
{
	return cuMemRangeGetAttributes(&data, &size, &attribute, 1, address, bytes);
}
