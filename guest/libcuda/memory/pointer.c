/* SPDX-License-Identifier: Apache-2.0 */
/* Questions about pointers: answered from the interval table. */
#include <string.h>

#include "core/request.h"
#include "memory/allocation.h"
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

/* A reservation is what is mapped there. */
static bool is_on_host(const struct libcuda_range *r, uint64_t address)
{
	struct libcuda_host_mapping m;

	if (r->kind == LIBCUDA_RANGE_RESERVED)
		return libcuda_host_mapping_at(address, &m);
	return r->kind & (LIBCUDA_RANGE_ON_HOST | LIBCUDA_RANGE_MIRROR);
}

static uint64_t value_of(const struct libcuda_range *r, CUpointer_attribute attribute, uint64_t address)
{
	bool host = is_on_host(r, address);

	switch (attribute) {
	case CU_POINTER_ATTRIBUTE_CONTEXT:
		return (uintptr_t)r->context;
	case CU_POINTER_ATTRIBUTE_MEMORY_TYPE:
		return host && !(r->kind & LIBCUDA_RANGE_ANY_MANAGED) ? CU_MEMORYTYPE_HOST : CU_MEMORYTYPE_DEVICE;
	case CU_POINTER_ATTRIBUTE_IS_MANAGED:
		return r->kind & LIBCUDA_RANGE_ANY_MANAGED ? 1 : 0;
	case CU_POINTER_ATTRIBUTE_DEVICE_POINTER:
		return address;
	case CU_POINTER_ATTRIBUTE_HOST_POINTER:
		return host ? address : 0;
	case CU_POINTER_ATTRIBUTE_SYNC_MEMOPS:
		return r->sync_memops;
	case CU_POINTER_ATTRIBUTE_BUFFER_ID:
	case CU_POINTER_ATTRIBUTE_MEMORY_BLOCK_ID:
		return r->id;
	case CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL:
		return r->context ? (uint32_t)r->context->device : 0;
	case CU_POINTER_ATTRIBUTE_RANGE_START_ADDR:
	case CU_POINTER_ATTRIBUTE_MAPPING_BASE_ADDR:
		return r->start;
	case CU_POINTER_ATTRIBUTE_RANGE_SIZE:
	case CU_POINTER_ATTRIBUTE_MAPPING_SIZE:
		return r->bytes;
	case CU_POINTER_ATTRIBUTE_MAPPED:
		return 1;
	case CU_POINTER_ATTRIBUTE_ACCESS_FLAGS:
		return CU_POINTER_ATTRIBUTE_ACCESS_FLAG_READWRITE;
	case CU_POINTER_ATTRIBUTE_ALLOWED_HANDLE_TYPES:
		return r->kind == LIBCUDA_RANGE_RESERVED ? libcuda_allocation_types_at(address) : 0;
	default:
		return 0;
	}
}

/* What an unknown pointer has: nothing, on no device. */
static uint64_t unknown(CUpointer_attribute attribute)
{
	return attribute == CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL ? (uint32_t)CU_DEVICE_INVALID : 0;
}

/* A host pointer is a question that only host memory has an answer to. */
static bool has_answer(const struct libcuda_range *r, CUpointer_attribute attribute, uint64_t address)
{
	return attribute != CU_POINTER_ATTRIBUTE_HOST_POINTER || is_on_host(r, address);
}

VCUDA_EXPORT CUresult cuPointerGetAttribute(void *data, CUpointer_attribute attribute, CUdeviceptr ptr)
{
	CUresult result = libcuda_require_init();
	struct libcuda_range r;
	uint64_t value;

	if (result != CUDA_SUCCESS)
		return result;
	if (attribute == CU_POINTER_ATTRIBUTE_P2P_TOKENS)
		return CUDA_ERROR_NOT_SUPPORTED;
	if (!data || !size_of(attribute) || !libcuda_range_find(ptr, &r) || !has_answer(&r, attribute, ptr))
		return CUDA_ERROR_INVALID_VALUE;
	value = value_of(&r, attribute, ptr);
	memcpy(data, &value, size_of(attribute));
	return CUDA_SUCCESS;
}

VCUDA_EXPORT CUresult cuPointerGetAttributes(unsigned int count, CUpointer_attribute *attributes, void **data,
					     CUdeviceptr ptr)
{
	CUresult result = libcuda_require_init();
	struct libcuda_range r;
	bool known;

	if (result != CUDA_SUCCESS)
		return result;
	if (!attributes || !data)
		return CUDA_ERROR_INVALID_VALUE;
	known = libcuda_range_find(ptr, &r);
	for (unsigned int i = 0; i < count; i++) {
		uint64_t value = known ? value_of(&r, attributes[i], ptr) : unknown(attributes[i]);

		if (!size_of(attributes[i]) || !data[i])
			return CUDA_ERROR_INVALID_VALUE;
		memcpy(data[i], &value, size_of(attributes[i]));
	}
	return CUDA_SUCCESS;
}

VCUDA_EXPORT CUresult cuPointerSetAttribute(const void *value, CUpointer_attribute attribute, CUdeviceptr ptr)
{
	CUresult result = libcuda_require_init();
	bool on;

	if (result != CUDA_SUCCESS)
		return result;
	if (!value || attribute != CU_POINTER_ATTRIBUTE_SYNC_MEMOPS)
		return CUDA_ERROR_INVALID_VALUE;
	on = *(const unsigned int *)value;
	if (on)
		libcuda_memory_is_watched = true;
	return libcuda_range_set_sync_memops(ptr, on) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}
