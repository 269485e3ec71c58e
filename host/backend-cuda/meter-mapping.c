/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Memory of cuMemCreate(): there until its handle is released and it is mapped nowhere. Memory that another process
 * exported is in that process's row.
 */
#include <pthread.h>

#include "charge.h"
#include "meter.h"

static struct vcuda_backend_ops driver;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER; /* of the references */

static void put(struct backend_charge *memory)
{
	bool is_last;

	pthread_mutex_lock(&lock);
	is_last = --memory->refs == 0;
	pthread_mutex_unlock(&lock);
	if (is_last)
		backend_charge_free(memory);
}

static CUresult create(uint64_t *handle, size_t size, void *prop, uint64_t flags)
{
	const CUmemAllocationProp *p = prop;
	struct backend_charge *c = backend_charge_new(BACKEND_MEMORY, (unsigned int)p->location.id, size);
	CUresult result;

	if (!c)
		return CUDA_ERROR_OUT_OF_MEMORY;
	result = driver.cuMemCreate(handle, size, prop, flags);
	if (result == CUDA_SUCCESS)
		backend_charge_add(c, *handle);
	else
		backend_charge_free(c);
	return result;
}

static CUresult release(uint64_t handle)
{
	CUresult result = driver.cuMemRelease(handle);
	struct backend_charge *c = result == CUDA_SUCCESS ? backend_charge_remove(BACKEND_MEMORY, handle) : NULL;

	if (c)
		put(c);
	return result;
}

static void hold(struct backend_charge *memory)
{
	pthread_mutex_lock(&lock);
	memory->refs++;
	pthread_mutex_unlock(&lock);
}

static CUresult map(CUdeviceptr address, size_t size, size_t offset, uint64_t handle, uint64_t flags)
{
	struct backend_charge *memory = backend_charge_find(BACKEND_MEMORY, handle);
	struct backend_charge *c = memory ? backend_charge_new(BACKEND_MAPPING, memory->gpu, 0) : NULL;
	CUresult result;

	if (memory && !c)
		return CUDA_ERROR_OUT_OF_MEMORY;
	result = driver.cuMemMap(address, size, offset, handle, flags);
	if (c && result == CUDA_SUCCESS) {
		hold(memory);
		c->of = memory;
		backend_charge_add(c, address);
	} else if (c) {
		backend_charge_free(c);
	}
	return result;
}

static CUresult unmap(CUdeviceptr address, size_t size)
{
	CUresult result = driver.cuMemUnmap(address, size);
	struct backend_charge *c;

	while (result == CUDA_SUCCESS && (c = backend_charge_remove_in(BACKEND_MAPPING, address, size))) {
		put(c->of);
		backend_charge_free(c);
	}
	return result;
}

void backend_meter_mappings(struct vcuda_backend_ops *ops)
{
	driver = *ops;
	if (!driver.cuMemCreate || !driver.cuMemRelease || !driver.cuMemMap || !driver.cuMemUnmap)
		return;
	ops->cuMemCreate = create;
	ops->cuMemRelease = release;
	ops->cuMemMap = map;
	ops->cuMemUnmap = unmap;
}
