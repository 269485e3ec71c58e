/* SPDX-License-Identifier: Apache-2.0 */
/* Pools of stream-ordered memory. Pools of several processes: pool-shared.c. Allocation: api/allocate.c. */
#include <string.h>

#include "core/capture.h"
#include "core/request.h"
#include "core/device.h"
#include "protocol/guest-calls.h"
#include "common/log.h"
#include "core/object.h"
#include "memory/host-memory.h"
#include "memory/host-pool.h"
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

static bool is_on_host(const CUmemLocation *where)
{
	return where->type == CU_MEM_LOCATION_TYPE_HOST || where->type == CU_MEM_LOCATION_TYPE_HOST_NUMA;
}

/* A device or a node that is not there. */
static bool is_elsewhere(const CUmemLocation *where)
{
	if (where->type == CU_MEM_LOCATION_TYPE_DEVICE)
		return libcuda_require_device(where->id) != CUDA_SUCCESS;
	return is_on_host(where) && !libcuda_host_memory_has_place(where);
}

static CUresult refuse_managed(void)
{
	vcuda_log_once("pools of managed memory are not supported yet");
	return CUDA_ERROR_NOT_SUPPORTED;
}

static CUresult create_on_host(CUmemoryPool *pool, const CUmemPoolProps *props)
{
	CUresult result;

	if (!libcuda_host_memory_has_place(&props->location) ||
	    (props->location.type == CU_MEM_LOCATION_TYPE_HOST && props->handleTypes != CU_MEM_HANDLE_TYPE_NONE))
		return CUDA_ERROR_INVALID_VALUE;
	if (props->handleTypes != CU_MEM_HANDLE_TYPE_NONE) {
		vcuda_log_once("pools of host memory for several processes are not supported");
		return CUDA_ERROR_NOT_SUPPORTED;
	}
	result = libcuda_capture_unsafe();
	return result == CUDA_SUCCESS ? libcuda_host_pool_create(props, pool) : result;
}

VCUDA_EXPORT CUresult cuMemPoolCreate(CUmemoryPool *pool, const CUmemPoolProps *props)
{
	CUresult result = libcuda_require_init();

	if (result != CUDA_SUCCESS)
		return result;
	if (!pool || !props)
		return CUDA_ERROR_INVALID_VALUE;
	if (props->allocType == CU_MEM_ALLOCATION_TYPE_MANAGED)
		return is_elsewhere(&props->location) ? CUDA_ERROR_INVALID_VALUE : refuse_managed();
	if (props->allocType != CU_MEM_ALLOCATION_TYPE_PINNED)
		return CUDA_ERROR_INVALID_VALUE;
	if (props->location.type != CU_MEM_LOCATION_TYPE_DEVICE)
		return create_on_host(pool, props);
	if (libcuda_require_device(props->location.id) != CUDA_SUCCESS)
		return CUDA_ERROR_INVALID_VALUE;
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

	/* A pool that the worker does not have is none of a device. */
	if (result == CUDA_SUCCESS && libcuda_host_pool_is(given))
		result = CUDA_ERROR_INVALID_VALUE;
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
	if (libcuda_host_pool_is(pool))
		result = libcuda_host_pool_get_attribute(pool, attribute, &wide);
	else
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
	if (libcuda_host_pool_is(pool))
		return libcuda_host_pool_set_attribute(pool, attribute, wide);
	return vcuda_call_vcudaMemPoolSetAttribute(pool, (int)attribute, wide);
}

VCUDA_EXPORT CUresult cuMemPoolTrimTo(CUmemoryPool pool, size_t keep)
{
	struct libcuda_object *o;
	CUresult result = find(pool, &o);

	if (result == CUDA_SUCCESS)
		result = libcuda_capture_unsafe();
	if (result != CUDA_SUCCESS)
		return result;
	return libcuda_host_pool_is(pool) ? libcuda_host_pool_trim(pool, keep)
					  : vcuda_call_cuMemPoolTrimTo(pool, keep);
}

VCUDA_EXPORT CUresult cuMemPoolDestroy(CUmemoryPool pool)
{
	struct libcuda_object *o;
	CUresult result = find(pool, &o);

	if (result == CUDA_SUCCESS)
		result = libcuda_capture_unsafe();
	if (result != CUDA_SUCCESS)
		return result;
	if (libcuda_host_pool_is(pool))
		return libcuda_host_pool_destroy(pool);
	result = vcuda_call_cuMemPoolDestroy(pool);
	if (result == CUDA_SUCCESS)
		libcuda_object_drop(pool);
	return result;
}

/* ---- access ---- */

/* Processors have access to pools of host memory, and to no others: that cannot be changed. */
static CUresult set_processor_access(CUmemoryPool pool, const CUmemAccessDesc *access)
{
	if (!libcuda_host_pool_is(pool))
		return CUDA_ERROR_NOT_SUPPORTED;
	if (!is_on_host(&access->location))
		return CUDA_ERROR_INVALID_VALUE;
	return access->flags == CU_MEM_ACCESS_FLAGS_PROT_NONE ? CUDA_ERROR_NOT_SUPPORTED : CUDA_SUCCESS;
}

static CUresult set_access(CUmemoryPool pool, CUdevice own, const CUmemAccessDesc *access)
{
	CUresult result;

	if (access->flags == CU_MEM_ACCESS_FLAGS_PROT_READ)
		return CUDA_ERROR_NOT_SUPPORTED;
	if (access->flags != CU_MEM_ACCESS_FLAGS_PROT_NONE && access->flags != CU_MEM_ACCESS_FLAGS_PROT_READWRITE)
		return CUDA_ERROR_INVALID_VALUE;
	if (access->location.type != CU_MEM_LOCATION_TYPE_DEVICE)
		return set_processor_access(pool, access);
	result = libcuda_require_device(access->location.id);
	if (result != CUDA_SUCCESS)
		return result;
	if (libcuda_host_pool_is(pool))
		return libcuda_host_pool_set_access(pool, access->location.id, access->flags);
	/* The pool's own device always has access, which cannot be revoked. */
	if (access->location.id == own)
		return access->flags == CU_MEM_ACCESS_FLAGS_PROT_NONE ? CUDA_ERROR_INVALID_DEVICE : CUDA_SUCCESS;
	return vcuda_call_vcudaMemPoolSetAccess(pool, libcuda_device_host(access->location.id), (int)access->flags);
}

VCUDA_EXPORT CUresult cuMemPoolSetAccess(CUmemoryPool pool, const CUmemAccessDesc *access, size_t count)
{
	struct libcuda_object *o;
	CUresult result = find(pool, &o);

	if (result != CUDA_SUCCESS)
		return result;
	if (!access && count)
		return CUDA_ERROR_INVALID_VALUE;
	for (size_t i = 0; i < count && result == CUDA_SUCCESS; i++)
		result = set_access(pool, o->device, &access[i]);
	return result;
}

static CUresult get_device_access(CUmemoryPool pool, CUdevice own, CUdevice device, CUmemAccess_flags *flags)
{
	CUresult result = libcuda_require_device(device);
	int held = CU_MEM_ACCESS_FLAGS_PROT_READWRITE;

	if (result != CUDA_SUCCESS)
		return result;
	if (libcuda_host_pool_is(pool))
		return libcuda_host_pool_get_access(pool, device, flags);
	if (device != own)
		result = vcuda_call_vcudaMemPoolGetAccess(pool, libcuda_device_host(device), &held);
	if (result == CUDA_SUCCESS)
		*flags = (CUmemAccess_flags)held;
	return result;
}

VCUDA_EXPORT CUresult cuMemPoolGetAccess(CUmemAccess_flags *flags, CUmemoryPool pool, CUmemLocation *location)
{
	struct libcuda_object *o;
	CUresult result = find(pool, &o);

	if (result != CUDA_SUCCESS)
		return result;
	if (!flags || !location)
		return CUDA_ERROR_INVALID_VALUE;
	if (location->type == CU_MEM_LOCATION_TYPE_DEVICE)
		return get_device_access(pool, o->device, location->id, flags);
	if (!is_on_host(location))
		return CUDA_ERROR_INVALID_VALUE;
	*flags = libcuda_host_pool_is(pool) ? CU_MEM_ACCESS_FLAGS_PROT_READWRITE : CU_MEM_ACCESS_FLAGS_PROT_NONE;
	return CUDA_SUCCESS;
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

/* CUDA_SUCCESS: a device that is there, or a place of the host's. */
static CUresult check_place(const CUmemLocation *where, CUmemAllocationType type)
{
	CUresult result = libcuda_require_init();

	if (result != CUDA_SUCCESS)
		return result;
	if (!where || (type != CU_MEM_ALLOCATION_TYPE_PINNED && type != CU_MEM_ALLOCATION_TYPE_MANAGED))
		return CUDA_ERROR_INVALID_VALUE;
	if (where->type == CU_MEM_LOCATION_TYPE_HOST_NUMA_CURRENT)
		return CUDA_ERROR_NOT_SUPPORTED;
	if (is_elsewhere(where))
		return CUDA_ERROR_INVALID_VALUE;
	if (type == CU_MEM_ALLOCATION_TYPE_MANAGED)
		return refuse_managed();
	return where->type == CU_MEM_LOCATION_TYPE_DEVICE || is_on_host(where) ? CUDA_SUCCESS
									       : CUDA_ERROR_INVALID_VALUE;
}

VCUDA_EXPORT CUresult cuMemGetDefaultMemPool(CUmemoryPool *pool, CUmemLocation *where, CUmemAllocationType type)
{
	CUresult result = check_place(where, type);

	if (result != CUDA_SUCCESS || where->type == CU_MEM_LOCATION_TYPE_DEVICE)
		return result == CUDA_SUCCESS ? cuDeviceGetDefaultMemPool(pool, where->id) : result;
	return pool ? libcuda_host_pool_default(where, pool) : CUDA_ERROR_INVALID_VALUE;
}

VCUDA_EXPORT CUresult cuMemGetMemPool(CUmemoryPool *pool, CUmemLocation *where, CUmemAllocationType type)
{
	CUresult result = check_place(where, type);

	if (result != CUDA_SUCCESS || where->type == CU_MEM_LOCATION_TYPE_DEVICE)
		return result == CUDA_SUCCESS ? cuDeviceGetMemPool(pool, where->id) : result;
	return pool ? libcuda_host_pool_current(where, pool) : CUDA_ERROR_INVALID_VALUE;
}

VCUDA_EXPORT CUresult cuMemSetMemPool(CUmemLocation *where, CUmemAllocationType type, CUmemoryPool pool)
{
	CUresult result = check_place(where, type);
	struct libcuda_object *o;

	if (result == CUDA_SUCCESS)
		result = find(pool, &o);
	if (result != CUDA_SUCCESS)
		return result;
	if (where->type != CU_MEM_LOCATION_TYPE_DEVICE)
		return libcuda_host_pool_is(pool) ? libcuda_host_pool_choose(where, pool) : CUDA_ERROR_INVALID_VALUE;
	return o->device == where->id ? cuDeviceSetMemPool(where->id, pool) : CUDA_ERROR_INVALID_VALUE;
}
