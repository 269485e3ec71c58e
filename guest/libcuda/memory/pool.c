/* SPDX-License-Identifier: Apache-2.0 */
/* Pools of stream-ordered memory. Pools of several processes: pool-shared.c. Allocation: api/allocate.c. */
#include <string.h>

#include "core/capture.h"
#include "core/request.h"
#include "core/device.h"
#include "protocol/guest-calls.h"
#include "common/log.h"
#include "core/object.h"
#include "memory/pool.h"

CUresult libcuda_pool_add(CUmemoryPool pool, CUdevice dev)
{
	struct libcuda_object *o = libcuda_object_add(LIBCUDA_OBJECT_POOL, pool, NULL, NULL);

	if (!o)
		return CUDA_ERROR_OUT_OF_MEMORY;
	o->device = dev;
	return CUDA_SUCCESS;
}

static CUresult create(CUmemoryPool *pool, const CUmemPoolProps *props)
{
	CUdevice dev = libcuda_device_host(props->location.id);

	if (props->handleTypes == CU_MEM_HANDLE_TYPE_NONE)
		return vcuda_call_vcudaMemPoolCreate(pool, dev, props->maxSize);
	if (props->handleTypes == CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR &&
	    libcuda_device_attribute(props->location.id, CU_DEVICE_ATTRIBUTE_MEMPOOL_SUPPORTED_HANDLE_TYPES))
		return vcuda_call_vcudaMemPoolCreateShared(pool, dev, props->maxSize);
	vcuda_log_once("pools for several processes are there by file descriptor only, and not with every driver of the host");
	return CUDA_ERROR_NOT_SUPPORTED;
}

VCUDA_EXPORT CUresult cuMemPoolCreate(CUmemoryPool *pool, const CUmemPoolProps *props)
{
	CUresult result = libcuda_require_init();

	if (result != CUDA_SUCCESS)
		return result;
	if (!pool || !props || props->allocType != CU_MEM_ALLOCATION_TYPE_PINNED)
		return CUDA_ERROR_INVALID_VALUE;
	if (props->location.type != CU_MEM_LOCATION_TYPE_DEVICE) {
		vcuda_log_once("pools of host memory are not supported yet");
		return CUDA_ERROR_NOT_SUPPORTED;
	}
	result = libcuda_require_device(props->location.id);
	if (result == CUDA_SUCCESS)
		result = libcuda_capture_unsafe();
	if (result == CUDA_SUCCESS)
		result = create(pool, props);
	return result == CUDA_SUCCESS ? libcuda_pool_add(*pool, props->location.id) : result;
}

static CUresult find(CUmemoryPool pool, struct libcuda_object **o)
{
	CUresult result = libcuda_require_init();

	if (result != CUDA_SUCCESS)
		return result;
	*o = libcuda_object_find(LIBCUDA_OBJECT_POOL, pool);
	return *o ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

CUresult vcuda_resolve_pool(CUmemoryPool given, CUmemoryPool *resolved)
{
	struct libcuda_object *o;
	CUresult result = find(given, &o);

	if (result == CUDA_SUCCESS)
		*resolved = given;
	return result;
}

/* Policies are ints, the rest is 64 bits. */
static size_t size_of(CUmemPool_attribute attribute)
{
	return attribute <= CU_MEMPOOL_ATTR_REUSE_ALLOW_INTERNAL_DEPENDENCIES ? sizeof(int) : sizeof(uint64_t);
}

VCUDA_EXPORT CUresult cuMemPoolGetAttribute(CUmemoryPool pool, CUmemPool_attribute attribute, void *value)
{
	struct libcuda_object *o;
	CUresult result = find(pool, &o);
	uint64_t wide = 0;

	if (result != CUDA_SUCCESS)
		return result;
	if (!value)
		return CUDA_ERROR_INVALID_VALUE;
	result = vcuda_call_vcudaMemPoolGetAttribute(pool, (int)attribute, &wide);
	if (result == CUDA_SUCCESS)
		memcpy(value, &wide, size_of(attribute));
	return result;
}

VCUDA_EXPORT CUresult cuMemPoolSetAttribute(CUmemoryPool pool, CUmemPool_attribute attribute, void *value)
{
	struct libcuda_object *o;
	CUresult result = find(pool, &o);
	uint64_t wide = 0;

	if (result != CUDA_SUCCESS)
		return result;
	if (!value)
		return CUDA_ERROR_INVALID_VALUE;
	memcpy(&wide, value, size_of(attribute));
	return vcuda_call_vcudaMemPoolSetAttribute(pool, (int)attribute, wide);
}

VCUDA_EXPORT CUresult cuMemPoolSetAccess(CUmemoryPool pool, const CUmemAccessDesc *access, size_t count)
{
	struct libcuda_object *o;
	CUresult result = find(pool, &o);

	if (result != CUDA_SUCCESS)
		return result;
	if (!access && count)
		return CUDA_ERROR_INVALID_VALUE;
	for (size_t i = 0; i < count && result == CUDA_SUCCESS; i++) {
		if (access[i].location.type != CU_MEM_LOCATION_TYPE_DEVICE)
			return CUDA_ERROR_INVALID_VALUE;
		result = libcuda_require_device(access[i].location.id);
		if (result != CUDA_SUCCESS)
			return result;
		/* Its own device always has access, and nobody can take it away. */
		if (access[i].location.id == o->device && access[i].flags != CU_MEM_ACCESS_FLAGS_PROT_READWRITE)
			return CUDA_ERROR_INVALID_VALUE;
		if (access[i].location.id != o->device)
			result = vcuda_call_vcudaMemPoolSetAccess(pool, libcuda_device_host(access[i].location.id),
								  (int)access[i].flags);
	}
	return result;
}

VCUDA_EXPORT CUresult cuMemPoolGetAccess(CUmemAccess_flags *flags, CUmemoryPool pool, CUmemLocation *location)
{
	struct libcuda_object *o;
	CUresult result = find(pool, &o);
	int held;

	if (result != CUDA_SUCCESS)
		return result;
	if (!flags || !location || location->type != CU_MEM_LOCATION_TYPE_DEVICE)
		return CUDA_ERROR_INVALID_VALUE;
	result = libcuda_require_device(location->id);
	held = CU_MEM_ACCESS_FLAGS_PROT_READWRITE;
	if (result == CUDA_SUCCESS && location->id != o->device)
		result = vcuda_call_vcudaMemPoolGetAccess(pool, libcuda_device_host(location->id), &held);
	if (result == CUDA_SUCCESS)
		*flags = (CUmemAccess_flags)held;
	return result;
}

VCUDA_EXPORT CUresult cuDeviceGetDefaultMemPool(CUmemoryPool *pool, CUdevice dev)
{
	CUresult result = libcuda_require_device(dev);

	if (result == CUDA_SUCCESS)
		result = vcuda_call_cuDeviceGetDefaultMemPool(pool, libcuda_device_host(dev));
	return result == CUDA_SUCCESS ? libcuda_pool_add(*pool, dev) : result;
}

VCUDA_EXPORT CUresult cuDeviceGetMemPool(CUmemoryPool *pool, CUdevice dev)
{
	CUresult result = libcuda_require_device(dev);

	if (result == CUDA_SUCCESS)
		result = vcuda_call_cuDeviceGetMemPool(pool, libcuda_device_host(dev));
	return result == CUDA_SUCCESS ? libcuda_pool_add(*pool, dev) : result;
}

/* ---- pools by place and type of memory ---- */

/* CUDA_SUCCESS: those of a device, which the functions above are about. */
static CUresult check_place(const CUmemLocation *where, CUmemAllocationType type)
{
	bool managed = type == CU_MEM_ALLOCATION_TYPE_MANAGED;
	CUresult result = libcuda_require_init();

	if (result != CUDA_SUCCESS)
		return result;
	if (!where || (type != CU_MEM_ALLOCATION_TYPE_PINNED && !managed))
		return CUDA_ERROR_INVALID_VALUE;
	if (where->type == CU_MEM_LOCATION_TYPE_DEVICE && !managed)
		return libcuda_require_device(where->id);
	if (where->type != CU_MEM_LOCATION_TYPE_DEVICE && where->type != CU_MEM_LOCATION_TYPE_HOST &&
	    where->type != CU_MEM_LOCATION_TYPE_HOST_NUMA && !(where->type == CU_MEM_LOCATION_TYPE_NONE && managed))
		return CUDA_ERROR_INVALID_VALUE;
	vcuda_log_once("pools of host memory and of managed memory are not supported yet");
	return CUDA_ERROR_NOT_SUPPORTED;
}

VCUDA_EXPORT CUresult cuMemGetDefaultMemPool(CUmemoryPool *pool, CUmemLocation *where, CUmemAllocationType type)
{
	CUresult result = check_place(where, type);

	return result == CUDA_SUCCESS ? cuDeviceGetDefaultMemPool(pool, where->id) : result;
}

VCUDA_EXPORT CUresult cuMemGetMemPool(CUmemoryPool *pool, CUmemLocation *where, CUmemAllocationType type)
{
	CUresult result = check_place(where, type);

	return result == CUDA_SUCCESS ? cuDeviceGetMemPool(pool, where->id) : result;
}

VCUDA_EXPORT CUresult cuMemSetMemPool(CUmemLocation *where, CUmemAllocationType type, CUmemoryPool pool)
{
	CUresult result = check_place(where, type);
	struct libcuda_object *o;

	if (result == CUDA_SUCCESS)
		result = find(pool, &o);
	if (result != CUDA_SUCCESS)
		return result;
	return o->device == where->id ? cuDeviceSetMemPool(where->id, pool) : CUDA_ERROR_INVALID_VALUE;
}
