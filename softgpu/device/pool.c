/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Stream-ordered allocation. Memory is allocated at the call, which is earlier than its stream needs it, and freed when
 * the stream reaches the free. The device's free list serves all pools. A pool only counts its allocations and holds
 * nothing back: reserved memory is used memory, and trimming does nothing.
 */
#include "device/pool.h"

#include <stdlib.h>
#include <string.h>

#include "device/arena.h"
#include "device/device.h"
#include "device/ipc.h"
#include "device/memory.h"
#include "device/registry.h"
#include "device/stream.h"

struct free_op {
	struct softgpu_op op;
	uint64_t address;
	struct CUctx_st *context;
};

/* By device. */
static CUmemoryPool default_pools[SOFTGPU_MOST_DEVICES], device_pools[SOFTGPU_MOST_DEVICES];

CUmemoryPool softgpu_pool_new(CUdevice dev, uint64_t limit)
{
	CUmemoryPool pool = calloc(1, sizeof(*pool));

	if (!pool)
		return NULL;
	*pool = (struct CUmemPoolHandle_st){
		.refs = 1,
		.limit = limit,
		.reuse = {1, 1, 1},
		.device = dev,
		.access = (uint8_t)(1u << dev),
	};
	if (softgpu_registry_add(pool, SOFTGPU_POOL))
		return pool;
	free(pool);
	return NULL;
}

CUmemoryPool softgpu_pool_find(CUmemoryPool handle)
{
	return softgpu_registry_has(handle, SOFTGPU_POOL) ? handle : NULL;
}

static void put(CUmemoryPool pool)
{
	if (--pool->refs)
		return;
	if (pool->offered)
		vcuda_share_withdraw(&pool->name);
	free(pool);
}

void softgpu_pool_took(CUmemoryPool pool, uint64_t bytes)
{
	pool->refs++;
	pool->used += bytes;
	if (pool->used > pool->used_high)
		pool->used_high = pool->used;
	if (pool->used > pool->reserved_high)
		pool->reserved_high = pool->used;
}

void softgpu_pool_freed(CUmemoryPool pool, uint64_t bytes)
{
	pool->used -= bytes;
	put(pool);
}

/* A device's default pool, made at its first use. NULL: no memory. */
static CUmemoryPool get_default(CUdevice dev)
{
	if (!default_pools[dev])
		default_pools[dev] = softgpu_pool_new(dev, 0);
	if (!device_pools[dev])
		device_pools[dev] = default_pools[dev];
	return default_pools[dev];
}

static CUresult alloc(struct CUctx_st *c, CUdeviceptr *dptr, size_t bytes, CUmemoryPool pool, CUstream handle)
{
	uint64_t address;
	CUresult result;

	if (!dptr || !bytes || !pool || pool->imported)
		return CUDA_ERROR_INVALID_VALUE;
	if (!softgpu_stream_find(c, handle))
		return CUDA_ERROR_INVALID_HANDLE;
	if (pool->limit && bytes > pool->limit - pool->used)
		return CUDA_ERROR_OUT_OF_MEMORY;
	result = softgpu_memory_alloc_pooled(c, bytes, pool, &address);
	if (result != CUDA_SUCCESS)
		return result;
	softgpu_pool_took(pool, bytes);
	*dptr = address;
	return CUDA_SUCCESS;
}

CUresult softgpu_cuMemAllocAsync(CUdeviceptr *dptr, size_t bytesize, CUstream hStream)
{
	struct CUctx_st *c;
	CUresult result = softgpu_enter(&c);

	if (result != CUDA_SUCCESS)
		return result;
	get_default(c->device);
	return softgpu_leave(alloc(c, dptr, bytesize, device_pools[c->device], hStream));
}

CUresult softgpu_cuMemAllocFromPoolAsync(CUdeviceptr *dptr, size_t bytesize, CUmemoryPool pool, CUstream hStream)
{
	struct CUctx_st *c;
	CUresult result = softgpu_enter(&c);

	if (result != CUDA_SUCCESS)
		return result;
	if (!softgpu_registry_has(pool, SOFTGPU_POOL))
		return softgpu_leave(CUDA_ERROR_INVALID_VALUE);
	return softgpu_leave(alloc(c, dptr, bytesize, pool, hStream));
}

static void free_run(struct softgpu_op *op, uint64_t unit, uint64_t count)
{
	struct free_op *f = (struct free_op *)op;

	(void)unit;
	softgpu_lock();
	softgpu_memory_free_now(f->context, f->address);
	softgpu_unlock();
}

static void free_finish(struct softgpu_op *op)
{
	free(op);
}

CUresult softgpu_cuMemFreeAsync(CUdeviceptr dptr, CUstream hStream)
{
	const struct softgpu_range *range;
	struct CUstream_st *stream;
	struct free_op *f;
	struct CUctx_st *c;
	CUresult result = softgpu_enter(&c);

	if (result != CUDA_SUCCESS)
		return result;
	stream = softgpu_stream_find(c, hStream);
	if (!stream)
		return softgpu_leave(CUDA_ERROR_INVALID_HANDLE);
	range = softgpu_range_find(dptr, 1);
	if (!range || range->start != dptr || !softgpu_range_is_freed(range))
		return softgpu_leave(CUDA_ERROR_INVALID_VALUE);
	f = calloc(1, sizeof(*f));
	if (!f)
		return softgpu_leave(CUDA_ERROR_OUT_OF_MEMORY);
	f->op.units = 1;
	f->op.run = free_run;
	f->op.finish = free_finish;
	f->op.copies = true;
	f->address = dptr;
	f->context = range->context;
	softgpu_submit(stream, &f->op, false);
	return softgpu_leave(CUDA_SUCCESS);
}

/* ---- pools ---- */

CUresult softgpu_cuMemPoolCreate(CUmemoryPool *pool, void *poolProps)
{
	const CUmemPoolProps *props = poolProps;
	CUmemoryPool made;

	if (!pool || !props || props->allocType != CU_MEM_ALLOCATION_TYPE_PINNED ||
	    props->location.type != CU_MEM_LOCATION_TYPE_DEVICE)
		return CUDA_ERROR_INVALID_VALUE;
	if (softgpu_device_check(props->location.id) != CUDA_SUCCESS)
		return CUDA_ERROR_INVALID_DEVICE;
	if (props->handleTypes & ~(unsigned int)CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR)
		return CUDA_ERROR_NOT_SUPPORTED;
	softgpu_lock();
	made = softgpu_pool_new(props->location.id, props->maxSize);
	if (made) {
		made->shareable = props->handleTypes != CU_MEM_HANDLE_TYPE_NONE;
		*pool = made;
	}
	return softgpu_leave(made ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY);
}

/* Allocations of the pool outlive it. NVIDIA's driver (580) keeps an imported pool while memory of it is imported. */
CUresult softgpu_cuMemPoolDestroy(CUmemoryPool pool)
{
	softgpu_lock();
	if (!softgpu_registry_has(pool, SOFTGPU_POOL) || pool == default_pools[pool->device] ||
	    (pool->imported && softgpu_ipc_pool_is_used(pool)))
		return softgpu_leave(CUDA_ERROR_INVALID_VALUE);
	if (device_pools[pool->device] == pool)
		device_pools[pool->device] = default_pools[pool->device];
	softgpu_registry_remove(pool);
	put(pool);
	return softgpu_leave(CUDA_SUCCESS);
}

/* Whether it is a pool of this process's own. NVIDIA's driver (580) has no attributes of imported ones, nor trims them.
 */
static bool is_own(CUmemoryPool pool)
{
	return softgpu_registry_has(pool, SOFTGPU_POOL) && !pool->imported;
}

CUresult softgpu_cuMemPoolTrimTo(CUmemoryPool pool, size_t minBytesToKeep)
{
	(void)minBytesToKeep;
	softgpu_lock();
	return softgpu_leave(is_own(pool) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE);
}

static uint64_t *counter(CUmemoryPool pool, CUmemPool_attribute attribute)
{
	switch (attribute) {
	case CU_MEMPOOL_ATTR_RELEASE_THRESHOLD:
		return &pool->threshold;
	case CU_MEMPOOL_ATTR_USED_MEM_CURRENT:
	case CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT:
		return &pool->used;
	case CU_MEMPOOL_ATTR_USED_MEM_HIGH:
		return &pool->used_high;
	case CU_MEMPOOL_ATTR_RESERVED_MEM_HIGH:
		return &pool->reserved_high;
	default:
		return NULL;
	}
}

static bool is_policy(CUmemPool_attribute attribute)
{
	return attribute >= CU_MEMPOOL_ATTR_REUSE_FOLLOW_EVENT_DEPENDENCIES &&
	       attribute <= CU_MEMPOOL_ATTR_REUSE_ALLOW_INTERNAL_DEPENDENCIES;
}

CUresult softgpu_cuMemPoolGetAttribute(CUmemoryPool pool, int attr, void *value)
{
	uint64_t *c;

	softgpu_lock();
	if (!is_own(pool) || !value)
		return softgpu_leave(CUDA_ERROR_INVALID_VALUE);
	c = counter(pool, (CUmemPool_attribute)attr);
	if (c)
		memcpy(value, c, sizeof(*c));
	else if (is_policy((CUmemPool_attribute)attr))
		memcpy(value, &pool->reuse[attr - 1], sizeof(int));
	return softgpu_leave(c || is_policy((CUmemPool_attribute)attr) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE);
}

/* High-water marks can be set to 0 only: they start again from the present use. */
static CUresult set_counter(CUmemoryPool pool, CUmemPool_attribute attribute, uint64_t value)
{
	if (attribute == CU_MEMPOOL_ATTR_RELEASE_THRESHOLD) {
		pool->threshold = value;
		return CUDA_SUCCESS;
	}
	if (value || (attribute != CU_MEMPOOL_ATTR_USED_MEM_HIGH && attribute != CU_MEMPOOL_ATTR_RESERVED_MEM_HIGH))
		return CUDA_ERROR_INVALID_VALUE;
	*counter(pool, attribute) = pool->used;
	return CUDA_SUCCESS;
}

CUresult softgpu_cuMemPoolSetAttribute(CUmemoryPool pool, int attr, void *value)
{
	uint64_t wide;

	softgpu_lock();
	if (!is_own(pool) || !value)
		return softgpu_leave(CUDA_ERROR_INVALID_VALUE);
	if (is_policy((CUmemPool_attribute)attr)) {
		memcpy(&pool->reuse[attr - 1], value, sizeof(int));
		return softgpu_leave(CUDA_SUCCESS);
	}
	memcpy(&wide, value, sizeof(wide));
	return softgpu_leave(set_counter(pool, (CUmemPool_attribute)attr, wide));
}

CUresult softgpu_cuDeviceGetDefaultMemPool(CUmemoryPool *pool_out, CUdevice dev)
{
	CUresult result = softgpu_device_check(dev);

	if (result != CUDA_SUCCESS || !pool_out)
		return result != CUDA_SUCCESS ? result : CUDA_ERROR_INVALID_VALUE;
	softgpu_lock();
	*pool_out = get_default(dev);
	return softgpu_leave(*pool_out ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY);
}

CUresult softgpu_cuDeviceGetMemPool(CUmemoryPool *pool, CUdevice dev)
{
	CUresult result = softgpu_cuDeviceGetDefaultMemPool(pool, dev);

	if (result != CUDA_SUCCESS)
		return result;
	softgpu_lock();
	*pool = device_pools[dev];
	return softgpu_leave(CUDA_SUCCESS);
}

CUresult softgpu_cuDeviceSetMemPool(CUdevice dev, CUmemoryPool pool)
{
	CUresult result = softgpu_device_check(dev);

	if (result != CUDA_SUCCESS)
		return result;
	softgpu_lock();
	if (!softgpu_registry_has(pool, SOFTGPU_POOL) || pool->imported || pool->device != dev)
		return softgpu_leave(CUDA_ERROR_INVALID_VALUE);
	get_default(dev);
	device_pools[dev] = pool;
	return softgpu_leave(CUDA_SUCCESS);
}

/* ---- access of other devices than the pool's, which always has it ---- */

CUresult softgpu_cuMemPoolSetAccess(CUmemoryPool pool, void *map, size_t count)
{
	const CUmemAccessDesc *d = map;

	if (!d || count != 1 || d->location.type != CU_MEM_LOCATION_TYPE_DEVICE ||
	    (d->flags != CU_MEM_ACCESS_FLAGS_PROT_NONE && d->flags != CU_MEM_ACCESS_FLAGS_PROT_READWRITE))
		return CUDA_ERROR_INVALID_VALUE;
	if (softgpu_device_check(d->location.id) != CUDA_SUCCESS)
		return CUDA_ERROR_INVALID_DEVICE;
	softgpu_lock();
	if (!softgpu_registry_has(pool, SOFTGPU_POOL))
		return softgpu_leave(CUDA_ERROR_INVALID_VALUE);
	if (d->location.id == pool->device)
		return softgpu_leave(d->flags ? CUDA_SUCCESS : CUDA_ERROR_INVALID_DEVICE);
	pool->access &= (uint8_t) ~(1u << d->location.id);
	if (d->flags)
		pool->access |= (uint8_t)(1u << d->location.id);
	softgpu_memory_pool_access(pool);
	return softgpu_leave(CUDA_SUCCESS);
}

CUresult softgpu_cuMemPoolGetAccess(int *flags, CUmemoryPool pool, void *location)
{
	const CUmemLocation *l = location;

	if (!flags || !l || l->type != CU_MEM_LOCATION_TYPE_DEVICE || softgpu_device_check(l->id) != CUDA_SUCCESS)
		return CUDA_ERROR_INVALID_VALUE;
	softgpu_lock();
	if (!softgpu_registry_has(pool, SOFTGPU_POOL))
		return softgpu_leave(CUDA_ERROR_INVALID_VALUE);
	*flags = pool->access >> l->id & 1 ? CU_MEM_ACCESS_FLAGS_PROT_READWRITE : CU_MEM_ACCESS_FLAGS_PROT_NONE;
	return softgpu_leave(CUDA_SUCCESS);
}
