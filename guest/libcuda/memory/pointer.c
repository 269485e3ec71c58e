/* SPDX-License-Identifier: Apache-2.0 */
/* Questions about pointers: answered from the interval table. */
#include <string.h>

#include "core/request.h"
#include "memory/allocation.h"
#include "memory/host-pool.h"
#include "memory/memory.h"
#include "memory/range.h"
#include "protocol/cuda-functions.h"

/* The bytes that each attribute takes; 0: it does not exist. */
static size_t size_of(CUpointer_attribute attribute)
{
	switch (attribute) {
	case CU_POINTER_ATTRIBUTE_CONTEXT:
	case CU_POINTER_ATTRIBUTE_DEVICE_POINTER:
	case CU_POINTER_ATTRIBUTE_HOST_POINTER:
	case CU_POINTER_ATTRIBUTE_BUFFER_ID:
	case CU_POINTER_ATTRIBUTE_RANGE_START_ADDR:
	case CU_POINTER_ATTRIBUTE_RANGE_SIZE:
	case CU_POINTER_ATTRIBUTE_ALLOWED_HANDLE_TYPES:
	case CU_POINTER_ATTRIBUTE_MEMPOOL_HANDLE:
	case CU_POINTER_ATTRIBUTE_MAPPING_SIZE:
	case CU_POINTER_ATTRIBUTE_MAPPING_BASE_ADDR:
	case CU_POINTER_ATTRIBUTE_MEMORY_BLOCK_ID:
		return 8;
	/* Booleans are written as unsigned int: NVIDIA's runtime reads four bytes. */
	case CU_POINTER_ATTRIBUTE_SYNC_MEMOPS:
	case CU_POINTER_ATTRIBUTE_IS_MANAGED:
	case CU_POINTER_ATTRIBUTE_IS_LEGACY_CUDA_IPC_CAPABLE:
	case CU_POINTER_ATTRIBUTE_MAPPED:
	case CU_POINTER_ATTRIBUTE_IS_GPU_DIRECT_RDMA_CAPABLE:
	case CU_POINTER_ATTRIBUTE_IS_HW_DECOMPRESS_CAPABLE:
	case CU_POINTER_ATTRIBUTE_MEMORY_TYPE:
	case CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL:
	case CU_POINTER_ATTRIBUTE_ACCESS_FLAGS:
		return 4;
	default:
		return 0;
	}
}

bool libcuda_memory_is_mapped(uint64_t address, struct libcuda_mapping *mapping)
{
	const struct libcuda_context *context = libcuda_context_current();
	CUdevice device = context ? context->device : 0;

	return libcuda_mapping_at(address, mapping) && device < LIBCUDA_ACCESS_DEVICES &&
	       mapping->devices[device] != CU_MEM_ACCESS_FLAGS_PROT_NONE;
}

/* The memory that an address belongs to. */
struct place {
	uint64_t address;
	struct libcuda_range r;
	struct libcuda_mapping m; /* in a reservation */
	bool for_device;          /* the device has access */
};

/* A reservation is what is mapped there. */
static bool find_place(uint64_t address, struct place *p)
{
	*p = (struct place){.address = address, .for_device = true};
	if (!libcuda_range_find(address, &p->r))
		return false;
	if (p->r.kind == LIBCUDA_RANGE_POOLED)
		p->for_device = libcuda_host_pool_is_open(&p->r);
	if (p->r.kind != LIBCUDA_RANGE_RESERVED)
		return true;
	p->for_device = libcuda_memory_is_mapped(address, &p->m);
	return p->for_device || libcuda_mapping_at(address, &p->m);
}

static bool is_on_host(const struct place *p)
{
	if (p->r.kind == LIBCUDA_RANGE_RESERVED)
		return p->m.is_host;
	return p->r.kind & (LIBCUDA_RANGE_ON_HOST | LIBCUDA_RANGE_MIRROR);
}

/* Memory of cuMemMap() has the access that the device has. */
static unsigned int access_flags(const struct place *p)
{
	const struct libcuda_context *context = libcuda_context_current();

	if (p->r.kind != LIBCUDA_RANGE_RESERVED)
		return CU_POINTER_ATTRIBUTE_ACCESS_FLAG_READWRITE;
	return p->for_device ? p->m.devices[context ? context->device : 0] : CU_POINTER_ATTRIBUTE_ACCESS_FLAG_NONE;
}

/* The attributes that name the mapping that a range is part of. */
static uint64_t mapping_value(const struct place *p, CUpointer_attribute attribute)
{
	bool is_base = attribute == CU_POINTER_ATTRIBUTE_MAPPING_BASE_ADDR;

	switch (p->r.kind) {
	case LIBCUDA_RANGE_RESERVED:
		return is_base ? p->m.start : p->m.bytes;
	case LIBCUDA_RANGE_POOLED:
		return is_base ? p->r.mapping : p->r.mapping_bytes;
	default:
		return is_base ? p->r.start : p->r.bytes;
	}
}

/* A pointer for the device or for processors is a question that only what they may access has an answer to. */
static bool has_answer(const struct place *p, CUpointer_attribute attribute)
{
	if (attribute == CU_POINTER_ATTRIBUTE_DEVICE_POINTER)
		return p->for_device;
	if (attribute != CU_POINTER_ATTRIBUTE_HOST_POINTER)
		return true;
	return is_on_host(p) && (p->r.kind != LIBCUDA_RANGE_RESERVED || p->m.cpu != CU_MEM_ACCESS_FLAGS_PROT_NONE);
}

/* The pool that memory was explicitly allocated from. */
static CUmemoryPool pool_of(const struct libcuda_range *r)
{
	if (r->kind == LIBCUDA_RANGE_POOLED)
		return libcuda_host_pool_of(r);
	return r->kind == LIBCUDA_RANGE_DEVICE ? (CUmemoryPool)(uintptr_t)r->owner : NULL;
}

static CUdevice device_of(const struct place *p)
{
	if (p->r.kind == LIBCUDA_RANGE_RESERVED)
		return p->m.device;
	if (p->r.kind == LIBCUDA_RANGE_DEVICE && pool_of(&p->r))
		return p->r.pool_device;
	return p->r.context ? p->r.context->device : 0;
}

static uint64_t value_of(const struct place *p, CUpointer_attribute attribute)
{
	const struct libcuda_range *r = &p->r;
	bool host = is_on_host(p);

	switch (attribute) {
	case CU_POINTER_ATTRIBUTE_CONTEXT:
		return pool_of(r) ? 0 : (uintptr_t)r->context;
	case CU_POINTER_ATTRIBUTE_MEMORY_TYPE:
		return host && !(r->kind & LIBCUDA_RANGE_ANY_MANAGED) ? CU_MEMORYTYPE_HOST : CU_MEMORYTYPE_DEVICE;
	case CU_POINTER_ATTRIBUTE_IS_MANAGED:
		return r->kind & LIBCUDA_RANGE_ANY_MANAGED ? 1 : 0;
	case CU_POINTER_ATTRIBUTE_DEVICE_POINTER:
	case CU_POINTER_ATTRIBUTE_HOST_POINTER:
		return has_answer(p, attribute) ? p->address : 0;
	case CU_POINTER_ATTRIBUTE_SYNC_MEMOPS:
		return r->sync_memops;
	case CU_POINTER_ATTRIBUTE_BUFFER_ID:
	case CU_POINTER_ATTRIBUTE_MEMORY_BLOCK_ID:
		return r->id;
	case CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL:
		return (uint32_t)device_of(p);
	case CU_POINTER_ATTRIBUTE_RANGE_START_ADDR:
		return r->kind == LIBCUDA_RANGE_POOLED && !p->for_device ? 0 : r->start;
	case CU_POINTER_ATTRIBUTE_RANGE_SIZE:
		return r->bytes;
	case CU_POINTER_ATTRIBUTE_MAPPING_BASE_ADDR:
	case CU_POINTER_ATTRIBUTE_MAPPING_SIZE:
		return mapping_value(p, attribute);
	case CU_POINTER_ATTRIBUTE_MAPPED:
		return 1;
	case CU_POINTER_ATTRIBUTE_IS_LEGACY_CUDA_IPC_CAPABLE:
		return r->kind == LIBCUDA_RANGE_DEVICE && !r->stream_ordered;
	case CU_POINTER_ATTRIBUTE_ACCESS_FLAGS:
		return access_flags(p);
	case CU_POINTER_ATTRIBUTE_ALLOWED_HANDLE_TYPES:
		return r->kind == LIBCUDA_RANGE_RESERVED ? libcuda_allocation_types_at(p->address) : 0;
	case CU_POINTER_ATTRIBUTE_MEMPOOL_HANDLE:
		return (uintptr_t)pool_of(r);
	default:
		return 0;
	}
}

/* The value of an attribute for an unknown pointer: 0, and no device. */
static uint64_t unknown(CUpointer_attribute attribute)
{
	return attribute == CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL ? (uint32_t)CU_DEVICE_INVALID : 0;
}

VCUDA_EXPORT CUresult cuPointerGetAttribute(void *data, CUpointer_attribute attribute, CUdeviceptr ptr)
{
	CUresult result = libcuda_require_init();
	struct place place;
	uint64_t value;

	if (result != CUDA_SUCCESS)
		return result;
	if (attribute == CU_POINTER_ATTRIBUTE_P2P_TOKENS)
		return CUDA_ERROR_NOT_SUPPORTED;
	if (!data || !size_of(attribute) || !find_place(ptr, &place) || !has_answer(&place, attribute))
		return CUDA_ERROR_INVALID_VALUE;
	value = value_of(&place, attribute);
	memcpy(data, &value, size_of(attribute));
	return CUDA_SUCCESS;
}

VCUDA_EXPORT CUresult cuPointerGetAttributes(unsigned int count, CUpointer_attribute *attributes, void **data,
					     CUdeviceptr ptr)
{
	CUresult result = libcuda_require_init();
	struct place place;
	bool known;

	if (result != CUDA_SUCCESS)
		return result;
	if (!attributes || !data)
		return CUDA_ERROR_INVALID_VALUE;
	known = find_place(ptr, &place);
	for (unsigned int i = 0; i < count; i++) {
		uint64_t value = known ? value_of(&place, attributes[i]) : unknown(attributes[i]);

		if (!size_of(attributes[i]) || !data[i])
			return CUDA_ERROR_INVALID_VALUE;
		memcpy(data[i], &value, size_of(attributes[i]));
	}
	return CUDA_SUCCESS;
}

VCUDA_EXPORT CUresult cuPointerSetAttribute(const void *value, CUpointer_attribute attribute, CUdeviceptr ptr)
{
	CUresult result = libcuda_require_init();
	struct libcuda_range r;
	bool on;

	if (result != CUDA_SUCCESS)
		return result;
	if (!value || attribute != CU_POINTER_ATTRIBUTE_SYNC_MEMOPS)
		return CUDA_ERROR_INVALID_VALUE;
	if (libcuda_range_find(ptr, &r) && r.kind == LIBCUDA_RANGE_RESERVED)
		return CUDA_ERROR_NOT_SUPPORTED;
	on = *(const unsigned int *)value;
	if (on)
		libcuda_memory_is_watched = true;
	return libcuda_range_set_sync_memops(ptr, on) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}
