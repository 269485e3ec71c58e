/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Pools cost what they have reserved, whether allocations use it or not. The driver says how much that is; it changes
 * when streams get to a free and when they are waited for, so that each call here looks again. A pool that was
 * destroyed costs what is left of its allocations.
 */
#include <pthread.h>
#include <stdbool.h>
#include <stdlib.h>

#include "charge.h"
#include "ipc.h"
#include "meter.h"

struct pool {
	struct pool *next;
	CUmemoryPool handle; /* NULL: destroyed */
	unsigned int gpu;
	uint64_t charged;
	uint64_t live; /* bytes of its allocations */
	bool is_exported;
	uint64_t told; /* cost of an exported pool that the keeper was told */
};

static struct vcuda_backend_ops driver;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct pool *pools;

static uint64_t attribute(const struct pool *p, CUmemPool_attribute which)
{
	uint64_t value = 0;

	driver.cuMemPoolGetAttribute(p->handle, (int)which, &value);
	return value;
}

/* ---- with the lock held ---- */

static struct pool *add(CUmemoryPool handle, unsigned int gpu)
{
	struct pool *p = calloc(1, sizeof(*p));

	if (p) {
		*p = (struct pool){.next = pools, .handle = handle, .gpu = gpu};
		pools = p;
	}
	return p;
}

/* Pools that the program has not made are the devices' own. */
static unsigned int device_of(CUmemoryPool handle)
{
	CUmemoryPool pool;
	int count = 0;

	driver.cuDeviceGetCount(&count);
	for (int gpu = 0; gpu < count; gpu++)
		if (driver.cuDeviceGetDefaultMemPool(&pool, gpu) == CUDA_SUCCESS && pool == handle)
			return (unsigned int)gpu;
	return backend_meter_gpu();
}

static struct pool *find(CUmemoryPool handle)
{
	struct pool *p;

	for (p = pools; p && p->handle != handle; p = p->next)
		continue;
	return p ? p : add(handle, device_of(handle));
}

static void drop(struct pool *p)
{
	struct pool **at = &pools;

	while (*at != p)
		at = &(*at)->next;
	*at = p->next;
	free(p);
}

static uint64_t wanted(const struct pool *p)
{
	return p->handle ? attribute(p, CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT) : p->live;
}

/* The keeper hears of what descriptors of the pool hold. */
static void note_charge(struct pool *p, uint64_t bytes)
{
	p->charged = bytes;
	if (!p->is_exported || bytes == p->told)
		return;
	p->told = bytes;
	backend_share_resize_pool(p->handle, bytes);
}

/* False: it has more than there may be. */
static bool settle(struct pool *p)
{
	uint64_t bytes = wanted(p);

	if (bytes > p->charged && !backend_charge_take(p->gpu, bytes - p->charged))
		return false;
	if (bytes < p->charged)
		backend_charge_give(p->gpu, p->charged - bytes);
	note_charge(p, bytes);
	return true;
}

/* Lower bound of the bytes by which the pool will grow. */
static uint64_t growth(const struct pool *p, uint64_t bytes)
{
	uint64_t used = attribute(p, CU_MEMPOOL_ATTR_USED_MEM_CURRENT);

	if (__builtin_add_overflow(used, bytes, &used))
		return UINT64_MAX;
	return used > p->charged ? used - p->charged : 0;
}

static bool provide(struct pool *p, uint64_t bytes)
{
	uint64_t more = growth(p, bytes);

	if (!backend_charge_take(p->gpu, more))
		return false;
	p->charged += more;
	return true;
}

/* ---- allocations ---- */

/* A call that is refused reclaims: the calls below hold the lock, others do not. */
static __thread bool has_lock;

static void enter(void)
{
	pthread_mutex_lock(&lock);
	has_lock = true;
}

static CUresult leave(CUresult result)
{
	has_lock = false;
	pthread_mutex_unlock(&lock);
	return result;
}

void backend_meter_pools_hold(void)
{
	enter();
}

void backend_meter_pools_let_go(void)
{
	leave(CUDA_SUCCESS);
}

void backend_meter_settle_pools(void)
{
	bool had_lock = has_lock;

	if (!had_lock)
		enter();
	for (struct pool *p = pools; p; p = p->next) {
		uint64_t bytes = wanted(p);

		if (bytes < p->charged) {
			backend_charge_give(p->gpu, p->charged - bytes);
			note_charge(p, bytes);
		}
	}
	if (!had_lock)
		leave(CUDA_SUCCESS);
}

void backend_meter_reclaim(void)
{
	bool had_lock = has_lock;

	if (!had_lock)
		enter();
	for (struct pool *p = pools; p; p = p->next)
		if (p->handle)
			driver.cuMemPoolTrimTo(p->handle, 0);
	backend_meter_settle_pools();
	if (!had_lock)
		leave(CUDA_SUCCESS);
}

/* The driver has allocated: the pool may have grown by more than what was asked for. */
static CUresult keep(struct pool *p, struct backend_charge *c, CUdeviceptr address, uint64_t bytes, CUstream stream)
{
	if (!settle(p)) {
		driver.cuMemFreeAsync(address, stream);
		backend_charge_free(c);
		return CUDA_ERROR_OUT_OF_MEMORY;
	}
	c->of = p;
	p->live += bytes;
	backend_charge_add(c, address);
	return CUDA_SUCCESS;
}

static CUresult alloc(CUdeviceptr *address, size_t bytes, CUmemoryPool handle, CUstream stream)
{
	struct pool *p = find(handle);
	struct backend_charge *c = p ? backend_charge_new(BACKEND_POOLED, p->gpu, 0) : NULL;
	CUresult result;

	if (!c)
		return CUDA_ERROR_OUT_OF_MEMORY;
	c->live = bytes;
	if (!provide(p, bytes)) {
		backend_charge_free(c);
		return CUDA_ERROR_OUT_OF_MEMORY;
	}
	result = driver.cuMemAllocFromPoolAsync(address, bytes, handle, stream);
	if (result == CUDA_SUCCESS)
		return keep(p, c, *address, bytes, stream);
	backend_charge_free(c);
	settle(p);
	return result;
}

static CUresult alloc_from_pool(CUdeviceptr *address, size_t bytes, CUmemoryPool pool, CUstream stream)
{
	enter();
	return leave(alloc(address, bytes, pool, stream));
}

static CUresult alloc_async(CUdeviceptr *address, size_t bytes, CUstream stream)
{
	CUmemoryPool pool;
	CUresult result = driver.cuDeviceGetMemPool(&pool, (CUdevice)backend_meter_stream_gpu(stream));

	return result == CUDA_SUCCESS ? alloc_from_pool(address, bytes, pool, stream) : result;
}

void backend_meter_pool_freed(CUdeviceptr address)
{
	struct backend_charge *c = backend_charge_remove(BACKEND_POOLED, address);
	struct pool *p;

	if (!c)
		return;
	enter();
	p = c->of;
	p->live -= c->live;
	settle(p);
	if (!p->handle && !p->live)
		drop(p);
	leave(CUDA_SUCCESS);
	backend_charge_free(c);
}

static CUresult free_async(CUdeviceptr address, CUstream stream)
{
	CUresult result = driver.cuMemFreeAsync(address, stream);

	if (result == CUDA_SUCCESS)
		backend_meter_pool_freed(address);
	return result;
}

/* ---- pools ---- */

static CUresult pool_create(CUmemoryPool *pool, void *props)
{
	CUresult result = driver.cuMemPoolCreate(pool, props);

	if (result != CUDA_SUCCESS)
		return result;
	enter();
	add(*pool, (unsigned int)((const CUmemPoolProps *)props)->location.id);
	return leave(CUDA_SUCCESS);
}

static CUresult pool_destroy(CUmemoryPool handle)
{
	struct pool *p;
	CUresult result;

	enter();
	result = driver.cuMemPoolDestroy(handle);
	for (p = pools; p && p->handle != handle; p = p->next)
		continue;
	if (p && result == CUDA_SUCCESS) {
		p->handle = NULL;
		p->is_exported = false;
		settle(p);
		if (!p->live)
			drop(p);
	}
	return leave(result);
}

static CUresult pool_export(void *shared, CUmemoryPool handle, int type, uint64_t flags)
{
	struct pool *p;
	CUresult result;

	enter();
	p = find(handle);
	if (p)
		settle(p);
	result = p ? backend_share_export_pool(shared, handle, p->gpu, p->charged, flags) : CUDA_ERROR_OUT_OF_MEMORY;
	if (p && result == CUDA_SUCCESS) {
		p->is_exported = true;
		p->told = p->charged;
		backend_share_resize_pool(handle, p->told);
	}
	return leave(result);
}

static CUresult pool_trim(CUmemoryPool pool, size_t keep_bytes)
{
	CUresult result = driver.cuMemPoolTrimTo(pool, keep_bytes);

	backend_meter_settle_pools();
	return result;
}

void backend_meter_pools(struct vcuda_backend_ops *ops)
{
	driver = *ops;
	if (!driver.cuMemAllocFromPoolAsync || !driver.cuMemAllocAsync || !driver.cuMemFreeAsync ||
	    !driver.cuMemPoolGetAttribute || !driver.cuMemPoolTrimTo || !driver.cuDeviceGetMemPool ||
	    !driver.cuDeviceGetDefaultMemPool || !driver.cuMemPoolCreate || !driver.cuMemPoolDestroy)
		return;
	ops->cuMemAllocAsync = alloc_async;
	ops->cuMemAllocFromPoolAsync = alloc_from_pool;
	ops->cuMemFreeAsync = free_async;
	ops->cuMemPoolCreate = pool_create;
	ops->cuMemPoolDestroy = pool_destroy;
	ops->cuMemPoolTrimTo = pool_trim;
	if (driver.cuMemPoolExportToShareableHandle)
		ops->cuMemPoolExportToShareableHandle = pool_export;
}
