/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Managed memory: pinned memory at one address on both sides. Nothing ever moves, so that prefetches and advice cost
 * nothing; what was advised is remembered, for who asks.
 */
#include <string.h>

#include "guest/client/call.h"
#include "graph/capture.h"
#include "core/device.h"
#include "protocol/guest-calls.h"
#include "guest/client/log.h"
#include "memory/memory.h"
#include "stream/stream.h"

#define ALL_DEVICES 64

VCUDA_EXPORT CUresult cuMemAllocManaged(CUdeviceptr *dptr, size_t bytes, unsigned int flags)
{
	CUresult result = vcuda_require_context();
	void *p;

	if (result == CUDA_SUCCESS)
		result = vcuda_capture_unsafe();
	if (result != CUDA_SUCCESS)
		return result;
	if (!dptr || !bytes || (flags != CU_MEM_ATTACH_GLOBAL && flags != CU_MEM_ATTACH_HOST))
		return CUDA_ERROR_INVALID_VALUE;
	if (!vcuda_device_attribute(vcuda_context_current()->device, CU_DEVICE_ATTRIBUTE_MANAGED_MEMORY))
		return CUDA_ERROR_NOT_SUPPORTED;
	result = vcuda_pinned_alloc(&p, bytes, VCUDA_RANGE_MANAGED, flags);
	if (result == CUDA_SUCCESS)
		*dptr = (uintptr_t)p;
	return result;
}

CUresult vcuda_managed_place(const void *owner, uint32_t count, struct vcuda_context *context)
{
	CUresult result = CUDA_SUCCESS;
	size_t bytes = 0;

	for (uint32_t i = 0; i < count && result == CUDA_SUCCESS; i++) {
		result = vcuda_call_vcudaManagedBytes((vcuda_code)owner, i, &bytes);
		if (result == CUDA_SUCCESS)
			result = vcuda_pinned_variable(owner, i, bytes, context);
	}
	if (result == CUDA_ERROR_OUT_OF_MEMORY)
		vcuda_log("no memory for a __managed__ variable of %zu bytes", bytes);
	return result;
}

/* All of [address, address + bytes) lies in one managed allocation. */
static CUresult find(CUdeviceptr address, size_t bytes, struct vcuda_range *r)
{
	if (!bytes || !vcuda_range_find(address, r) || !(r->kind & VCUDA_RANGE_ANY_MANAGED))
		return CUDA_ERROR_INVALID_VALUE;
	return bytes <= r->bytes - (address - r->start) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

static CUresult check_location(CUmemLocation where)
{
	switch (where.type) {
	case CU_MEM_LOCATION_TYPE_DEVICE:
		return where.id >= 0 && where.id < vcuda_device_count() ? CUDA_SUCCESS : CUDA_ERROR_INVALID_DEVICE;
	case CU_MEM_LOCATION_TYPE_HOST:
	case CU_MEM_LOCATION_TYPE_HOST_NUMA:
	case CU_MEM_LOCATION_TYPE_HOST_NUMA_CURRENT:
		return CUDA_SUCCESS;
	default:
		return CUDA_ERROR_INVALID_VALUE;
	}
}

/* A device number as the older functions have it. */
static CUmemLocation location_of(CUdevice dev)
{
	if (dev == CU_DEVICE_CPU)
		return (CUmemLocation){CU_MEM_LOCATION_TYPE_HOST, 0};
	return (CUmemLocation){CU_MEM_LOCATION_TYPE_DEVICE, dev};
}

static void set_accessed_by(struct vcuda_advice *a, CUmemLocation where, bool on)
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
	CUresult result = vcuda_require_context();
	bool anywhere = advice == CU_MEM_ADVISE_SET_READ_MOSTLY || advice == CU_MEM_ADVISE_UNSET_READ_MOSTLY ||
			advice == CU_MEM_ADVISE_UNSET_PREFERRED_LOCATION;
	struct vcuda_range r;

	if (result == CUDA_SUCCESS)
		result = find(address, bytes, &r);
	if (result == CUDA_SUCCESS && !anywhere)
		result = check_location(where);
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
	result = vcuda_capture_unsafe();
	if (result != CUDA_SUCCESS)
		return result;
	return vcuda_range_set_advice(address, &r.advice) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

VCUDA_EXPORT CUresult cuMemAdvise(CUdeviceptr address, size_t bytes, CUmem_advise advice, CUdevice dev)
{
	return cuMemAdvise_v2(address, bytes, advice, location_of(dev));
}

VCUDA_EXPORT CUresult cuMemPrefetchAsync_v2(CUdeviceptr address, size_t bytes, CUmemLocation where, unsigned int flags,
					    CUstream stream)
{
	CUresult result = vcuda_stream_enter(&stream);
	struct vcuda_range r;

	if (result == CUDA_SUCCESS && flags)
		result = CUDA_ERROR_INVALID_VALUE;
	if (result == CUDA_SUCCESS)
		result = find(address, bytes, &r);
	if (result == CUDA_SUCCESS)
		result = check_location(where);
	if (result != CUDA_SUCCESS)
		return result;
	r.advice.prefetched = where;
	return vcuda_range_set_advice(address, &r.advice) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

VCUDA_EXPORT CUresult cuMemPrefetchAsync(CUdeviceptr address, size_t bytes, CUdevice dev, CUstream stream)
{
	return cuMemPrefetchAsync_v2(address, bytes, location_of(dev), 0, stream);
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
		result = check_location(b->places[i]);
	}
	return result;
}

/* All of them or none. What is discarded may keep its contents: the memory stays where it is. */
static CUresult check_ranges(const struct ranges *b, unsigned long long flags, CUstream stream)
{
	CUresult result = vcuda_require_context();
	struct vcuda_range r;

	if (result != CUDA_SUCCESS)
		return result;
	if (!b->addresses || !b->sizes || !b->count || flags || !stream || stream == CU_STREAM_LEGACY)
		return CUDA_ERROR_INVALID_VALUE;
	for (int dev = 0; dev < vcuda_device_count(); dev++)
		if (!vcuda_device_attribute(dev, CU_DEVICE_ATTRIBUTE_CONCURRENT_MANAGED_ACCESS))
			return CUDA_ERROR_NOT_SUPPORTED;
	result = vcuda_stream_resolve(stream, &stream);
	for (size_t i = 0; i < b->count && result == CUDA_SUCCESS; i++)
		result = find(b->addresses[i], b->sizes[i], &r);
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

/* Who may use it when: everybody always may here. */
VCUDA_EXPORT CUresult cuStreamAttachMemAsync(CUstream stream, CUdeviceptr address, size_t bytes, unsigned int flags)
{
	CUresult result = vcuda_stream_enter(&stream);
	struct vcuda_range r;

	if (result == CUDA_SUCCESS)
		result = vcuda_capture_unsafe();
	if (result != CUDA_SUCCESS)
		return result;
	if (flags != CU_MEM_ATTACH_GLOBAL && flags != CU_MEM_ATTACH_HOST && flags != CU_MEM_ATTACH_SINGLE)
		return CUDA_ERROR_INVALID_VALUE;
	/* The default stream is everybody's. */
	if (flags == CU_MEM_ATTACH_SINGLE && (!stream || stream == CU_STREAM_LEGACY))
		return CUDA_ERROR_INVALID_VALUE;
	/* The whole allocation, which is said by 0 too. */
	result = find(address, bytes ? bytes : 1, &r);
	if (result == CUDA_SUCCESS && (r.start != address || (bytes && bytes != r.bytes)))
		result = CUDA_ERROR_INVALID_VALUE;
	return result;
}

/* ---- questions ---- */

static int device_of(CUmemLocation where)
{
	if (where.type == CU_MEM_LOCATION_TYPE_DEVICE)
		return where.id;
	return where.type == CU_MEM_LOCATION_TYPE_NONE ? CU_DEVICE_INVALID : CU_DEVICE_CPU;
}

/* As many devices as there is room for; the rest is filled with "none". */
static CUresult list_accessed_by(const struct vcuda_advice *a, int *to, size_t bytes)
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

static CUresult get_attribute(void *data, size_t bytes, CUmem_range_attribute attribute, const struct vcuda_advice *a)
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
	CUresult result = vcuda_require_context();
	struct vcuda_range r;

	if (result == CUDA_SUCCESS)
		result = find(address, bytes, &r);
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
