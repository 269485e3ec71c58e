/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Memory of cuMemCreate(): there until its handles are released and it is mapped nowhere. A program that exports such
 * memory and imports it again has a second name for it, which the driver may make another handle. Memory that another
 * process exported counts here as well: its maker's row may end before it. Memory whose handles are released counts
 * twice while it is mapped here and a descriptor holds it: here, and with the keeper.
 */
#include <pthread.h>

#include "charge.h"
#include "ipc.h"
#include "meter.h"

static struct vcuda_backend_ops driver;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER; /* protects references and handles */

static void put(struct backend_charge *memory)
{
	struct backend_charge *of = memory->of;
	bool is_last;

	pthread_mutex_lock(&lock);
	is_last = --memory->refs == 0;
	pthread_mutex_unlock(&lock);
	if (!is_last)
		return;
	backend_charge_free(memory);
	if (of)
		put(of);
}

static void hold(struct backend_charge *memory)
{
	pthread_mutex_lock(&lock);
	memory->refs++;
	pthread_mutex_unlock(&lock);
}

static void add(struct backend_charge *memory, uint64_t bytes, uint64_t handle)
{
	memory->live = bytes;
	memory->handles = 1;
	backend_charge_add(memory, handle);
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
		add(c, size, *handle);
	else
		backend_charge_free(c);
	return result;
}

static CUresult release(uint64_t handle)
{
	CUresult result = driver.cuMemRelease(handle);
	struct backend_charge *c;

	if (result != CUDA_SUCCESS)
		return result;
	pthread_mutex_lock(&lock);
	c = backend_charge_find(BACKEND_MEMORY, handle);
	if (c && --c->handles)
		c = NULL;
	if (c)
		backend_charge_remove(BACKEND_MEMORY, handle);
	pthread_mutex_unlock(&lock);
	if (c)
		put(c);
	return CUDA_SUCCESS;
}

/* ---- between processes ---- */

static CUresult export(void *shared, uint64_t handle, int type, uint64_t flags)
{
	const struct backend_charge *c = backend_charge_find(BACKEND_MEMORY, handle);

	return backend_share_export(shared, handle, c ? c->gpu : 0, c ? c->live : 0, flags);
}

/* The program has the handle once more. False: the handle is new. */
static bool is_again(uint64_t handle)
{
	struct backend_charge *c;

	pthread_mutex_lock(&lock);
	c = backend_charge_find(BACKEND_MEMORY, handle);
	if (c)
		c->handles++;
	pthread_mutex_unlock(&lock);
	return c;
}

/* The charge of an allocation of this process's own, held, while the handle lives; NULL: it is another's. */
static struct backend_charge *hold_own(uint64_t exported)
{
	struct backend_charge *c = NULL;

	pthread_mutex_lock(&lock);
	if (exported)
		c = backend_charge_find(BACKEND_MEMORY, exported);
	if (c && c->of)
		c = c->of;
	if (c)
		c->refs++;
	pthread_mutex_unlock(&lock);
	return c;
}

static CUresult charge_import(uint64_t handle, uint64_t bytes, uint64_t exported)
{
	struct backend_charge *own = hold_own(exported);
	struct backend_charge *c = own ? backend_charge_new(BACKEND_MEMORY, own->gpu, 0)
				       : backend_charge_new(BACKEND_MEMORY, backend_meter_gpu(), bytes);

	if (c) {
		c->of = own;
		add(c, bytes, handle);
		return CUDA_SUCCESS;
	}
	driver.cuMemRelease(handle);
	if (own)
		put(own);
	return CUDA_ERROR_OUT_OF_MEMORY;
}

static CUresult import(uint64_t *handle, void *shared, int type)
{
	uint64_t bytes, exported;
	CUresult result = backend_share_import(handle, shared, &bytes, &exported);

	if (result != CUDA_SUCCESS || is_again(*handle))
		return result;
	return charge_import(*handle, bytes, exported);
}

/* ---- mappings ---- */

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
	if (!driver.cuMemExportToShareableHandle || !driver.cuMemImportFromShareableHandle)
		return;
	ops->cuMemExportToShareableHandle = export;
	ops->cuMemImportFromShareableHandle = import;
}
