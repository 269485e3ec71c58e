/* SPDX-License-Identifier: Apache-2.0 */
#include "ipc.h"

#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/share.h"

#define DESCRIPTOR CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR

_Static_assert(sizeof(CUipcMemHandle) == sizeof(struct vcuda_share_handle) &&
		       sizeof(CUipcMemHandle) == VCUDA_SHARE_NOTE_BYTES,
	       "CUDA says how large handles are");
_Static_assert(sizeof(CUipcEventHandle) == VCUDA_SHARE_NOTE_BYTES, "CUDA says how large handles are");
_Static_assert(sizeof(CUmemPoolPtrExportData) == VCUDA_SHARE_NOTE_BYTES, "CUDA says how large they are");

/* An exported object, found by the driver's name for it: an address or a handle. */
struct export
{
	enum vcuda_share_kind kind;
	uint64_t object;
	uint8_t note[VCUDA_SHARE_NOTE_BYTES]; /* the driver's */
	struct vcuda_share_handle handle;
	unsigned int refs; /* the driver gives one object several times, to be released as often */
	struct export *next;
};

static struct vcuda_backend_ops driver;
static const struct vcuda_backend_ops *above; /* with what others put between the worker and this */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct export *_Atomic exports;
static _Atomic bool has_shared;

/* With the lock held; NULL at the end of the list. */
static struct export *find(enum vcuda_share_kind kind, uint64_t object)
{
	struct export *e;

	for (e = exports; e && (e->kind != kind || e->object != object); e = e->next)
		continue;
	return e;
}

static void withdraw_locked(struct export *e)
{
	struct export *before = exports;

	if (--e->refs)
		return;
	while (before != e && before->next != e)
		before = before->next;
	if (before == e)
		exports = e->next;
	else
		before->next = e->next;
	vcuda_share_withdraw(&e->handle);
	free(e);
}

/* Before the object ends: its name may be another's as soon as it has. */
static void withdraw(enum vcuda_share_kind kind, uint64_t object)
{
	struct export *e;

	if (!exports)
		return;
	pthread_mutex_lock(&lock);
	e = find(kind, object);
	if (e)
		withdraw_locked(e);
	pthread_mutex_unlock(&lock);
}

/* Some kinds are the keeper's. False: not possible; the descriptor is closed. */
static bool offer_new(const struct vcuda_share_kept *what, struct vcuda_share_handle *handle)
{
	if (what->kind == VCUDA_SHARE_DRIVER_MEMORY || what->kind == VCUDA_SHARE_DRIVER_EVENT)
		return vcuda_share_offer_note(what->kind, what->note, what->fd, handle);
	return !vcuda_share_keep(what, handle);
}

static CUresult offer_locked(const struct vcuda_share_kept *what, uint64_t object, void *handle)
{
	const enum vcuda_share_kind kind = what->kind;
	const void *note = what->note;
	struct export *e = find(kind, object);
	const int fd = what->fd;

	/*
	 * An object that ended unseen, with its context, left its name behind. The driver's data for memory of a pool
	 * are other ones at each export, and all of them are valid: the first stay.
	 */
	if (e && note && kind != VCUDA_SHARE_DRIVER_POINTER && memcmp(e->note, note, sizeof(e->note))) {
		e->refs = 1;
		withdraw_locked(e);
		e = NULL;
	}
	if (e) {
		memcpy(handle, &e->handle, sizeof(e->handle));
		if (fd >= 0)
			close(fd);
		return CUDA_SUCCESS;
	}
	e = calloc(1, sizeof(*e));
	if (!e || !offer_new(what, &e->handle)) {
		if (!e && fd >= 0)
			close(fd);
		free(e);
		return CUDA_ERROR_OUT_OF_MEMORY;
	}
	e->kind = kind;
	e->object = object;
	if (note)
		memcpy(e->note, note, sizeof(e->note));
	e->refs = 1;
	e->next = exports;
	exports = e;
	memcpy(handle, &e->handle, sizeof(e->handle));
	return CUDA_SUCCESS;
}

/* The guest's handle for an object, the same one as long as it is offered. Takes the descriptor over. */
static CUresult offer(const struct vcuda_share_kept *what, uint64_t object, void *handle)
{
	CUresult result;

	pthread_mutex_lock(&lock);
	result = offer_locked(what, object, handle);
	pthread_mutex_unlock(&lock);
	if (result == CUDA_SUCCESS)
		atomic_store(&has_shared, true);
	return result;
}

/* Takes the note or the descriptor that the guest's handle refers to. */
static CUresult take(const void *handle, enum vcuda_share_kind kind, void *note, int *fd)
{
	struct vcuda_share_handle h;
	uint8_t unused[VCUDA_SHARE_NOTE_BYTES];
	int none = -1, err;

	memcpy(&h, handle, sizeof(h));
	err = vcuda_share_take_note(&h, kind, note ? note : unused, fd ? fd : &none);
	if (none >= 0)
		close(none);
	if (err == -ENOMEM)
		return CUDA_ERROR_OUT_OF_MEMORY;
	if (err || (fd && *fd < 0))
		return CUDA_ERROR_INVALID_VALUE;
	atomic_store(&has_shared, true);
	return CUDA_SUCCESS;
}

bool backend_has_shared(void)
{
	return atomic_load(&has_shared);
}

static bool is_own(const void *handle)
{
	struct vcuda_share_handle h;

	memcpy(&h, handle, sizeof(h));
	return vcuda_share_is_own(&h);
}

/* ---- memory of cuMemAlloc ---- */

/* The driver's handles are of whole allocations. */
static CUresult get_memory(CUipcMemHandle *handle, CUdeviceptr address)
{
	CUdeviceptr base;
	CUipcMemHandle note;
	size_t bytes;
	CUresult result = driver.cuMemGetAddressRange_v2(&base, &bytes, address);

	if (result == CUDA_SUCCESS)
		result = driver.cuIpcGetMemHandle(&note, base);
	if (result != CUDA_SUCCESS)
		return result;
	return offer(&(struct vcuda_share_kept){.kind = VCUDA_SHARE_DRIVER_MEMORY, .note = &note, .fd = -1}, base,
		     handle);
}

static CUresult open_memory(CUdeviceptr *address, CUipcMemHandle handle, unsigned int flags)
{
	CUipcMemHandle note;
	CUresult result;

	if (is_own(&handle))
		return CUDA_ERROR_INVALID_CONTEXT;
	result = take(&handle, VCUDA_SHARE_DRIVER_MEMORY, &note, NULL);
	return result == CUDA_SUCCESS ? driver.cuIpcOpenMemHandle_v2(address, note, flags) : result;
}

static void withdraw_memory(CUdeviceptr address)
{
	withdraw(VCUDA_SHARE_DRIVER_MEMORY, address);
	withdraw(VCUDA_SHARE_DRIVER_POINTER, address);
}

static CUresult free_memory(CUdeviceptr address)
{
	withdraw_memory(address);
	return driver.cuMemFree_v2(address);
}

/* ---- events ---- */

static CUresult get_event(CUipcEventHandle *handle, CUevent event)
{
	CUipcEventHandle note;
	CUresult result = driver.cuIpcGetEventHandle(&note, event);

	if (result != CUDA_SUCCESS)
		return result;
	return offer(&(struct vcuda_share_kept){.kind = VCUDA_SHARE_DRIVER_EVENT, .note = &note, .fd = -1},
		     (uintptr_t)event, handle);
}

static CUresult open_event(CUevent *event, CUipcEventHandle handle)
{
	CUipcEventHandle note;
	CUresult result;

	if (is_own(&handle))
		return CUDA_ERROR_INVALID_CONTEXT;
	result = take(&handle, VCUDA_SHARE_DRIVER_EVENT, &note, NULL);
	return result == CUDA_SUCCESS ? driver.cuIpcOpenEventHandle(event, note) : result;
}

static CUresult destroy_event(CUevent event)
{
	withdraw(VCUDA_SHARE_DRIVER_EVENT, (uintptr_t)event);
	return driver.cuEventDestroy_v2(event);
}

/* ---- memory of cuMemCreate: what the worker calls fabric handles are the guest's, the driver's are descriptors ----
 */

static CUresult create_allocation(uint64_t *handle, size_t size, void *prop, uint64_t flags)
{
	CUmemAllocationProp p = *(CUmemAllocationProp *)prop;

	if (p.requestedHandleTypes == CU_MEM_HANDLE_TYPE_FABRIC)
		p.requestedHandleTypes = DESCRIPTOR;
	return driver.cuMemCreate(handle, size, &p, flags);
}

/* The note of an allocation: a descriptor does not say how large it is. */
struct size_note {
	uint64_t bytes;
	uint8_t zero[VCUDA_SHARE_NOTE_BYTES - sizeof(uint64_t)];
};

CUresult backend_share_export(void *shared, uint64_t handle, unsigned int gpu, uint64_t bytes, uint64_t flags)
{
	const struct size_note note = {.bytes = bytes};
	struct vcuda_share_kept what = {
		.kind = VCUDA_SHARE_DRIVER_ALLOCATION, .note = &note, .fd = -1, .device = gpu, .bytes = bytes};
	CUresult result = driver.cuMemExportToShareableHandle(&what.fd, handle, DESCRIPTOR, flags);

	return result == CUDA_SUCCESS ? offer(&what, handle, shared) : result;
}

static CUresult export_allocation(void *shared, uint64_t handle, int type, uint64_t flags)
{
	return backend_share_export(shared, handle, 0, 0, flags);
}

/* Another handle of the same allocation does not end the export: the driver gives one handle several times. */
static uint64_t note_import(uint64_t handle, const void *shared)
{
	uint64_t exported = 0;
	struct export *e;

	pthread_mutex_lock(&lock);
	e = find(VCUDA_SHARE_DRIVER_ALLOCATION, handle);
	if (e)
		e->refs++;
	for (e = exports; e && !exported; e = e->next)
		if (e->kind == VCUDA_SHARE_DRIVER_ALLOCATION && !memcmp(&e->handle, shared, sizeof(e->handle)))
			exported = e->object;
	pthread_mutex_unlock(&lock);
	return exported;
}

CUresult backend_share_import(uint64_t *handle, void *shared, uint64_t *bytes, uint64_t *exported)
{
	struct size_note note;
	int fd = -1;
	CUresult result = take(shared, VCUDA_SHARE_DRIVER_ALLOCATION, &note, &fd);

	if (result != CUDA_SUCCESS)
		return result;
	result = driver.cuMemImportFromShareableHandle(handle, (void *)(intptr_t)fd, DESCRIPTOR);
	close(fd);
	if (result != CUDA_SUCCESS)
		return result;
	*bytes = note.bytes;
	*exported = note_import(*handle, shared);
	return CUDA_SUCCESS;
}

static CUresult import_allocation(uint64_t *handle, void *shared, int type)
{
	uint64_t bytes, exported;

	return backend_share_import(handle, shared, &bytes, &exported);
}

static CUresult release_allocation(uint64_t handle)
{
	withdraw(VCUDA_SHARE_DRIVER_ALLOCATION, handle);
	return driver.cuMemRelease(handle);
}

/* ---- pools ---- */

CUresult backend_share_export_pool(void *shared, CUmemoryPool pool, unsigned int gpu, uint64_t bytes, uint64_t flags)
{
	struct vcuda_share_kept what = {.kind = VCUDA_SHARE_DRIVER_POOL, .fd = -1, .device = gpu, .bytes = bytes};
	CUresult result = driver.cuMemPoolExportToShareableHandle(&what.fd, pool, DESCRIPTOR, flags);

	return result == CUDA_SUCCESS ? offer(&what, (uintptr_t)pool, shared) : result;
}

static CUresult export_pool(void *shared, CUmemoryPool pool, int type, uint64_t flags)
{
	return backend_share_export_pool(shared, pool, 0, 0, flags);
}

/* False: it is not exported. */
static bool find_pool(CUmemoryPool pool, struct vcuda_share_handle *handle)
{
	const struct export *e;

	pthread_mutex_lock(&lock);
	e = find(VCUDA_SHARE_DRIVER_POOL, (uintptr_t)pool);
	if (e)
		*handle = e->handle;
	pthread_mutex_unlock(&lock);
	return e;
}

void backend_share_resize_pool(CUmemoryPool pool, uint64_t bytes)
{
	struct vcuda_share_handle handle;

	if (exports && find_pool(pool, &handle))
		vcuda_share_resize(&handle, bytes);
}

static CUresult import_pool(CUmemoryPool *pool, void *shared, int type, uint64_t flags)
{
	int fd = -1;
	CUresult result = take(shared, VCUDA_SHARE_DRIVER_POOL, NULL, &fd);

	if (result != CUDA_SUCCESS)
		return result;
	result = driver.cuMemPoolImportFromShareableHandle(pool, (void *)(intptr_t)fd, DESCRIPTOR, flags);
	close(fd);
	return result;
}

static CUresult destroy_pool(CUmemoryPool pool)
{
	withdraw(VCUDA_SHARE_DRIVER_POOL, (uintptr_t)pool);
	return driver.cuMemPoolDestroy(pool);
}

/* Exports the pool that the address is of, if it is not exported yet. */
static CUresult provide_pool(CUdeviceptr address, struct vcuda_share_handle *handle)
{
	CUmemoryPool pool = NULL;
	CUresult result = driver.cuPointerGetAttribute(&pool, CU_POINTER_ATTRIBUTE_MEMPOOL_HANDLE, address);

	if (result != CUDA_SUCCESS || find_pool(pool, handle))
		return result;
	return above->cuMemPoolExportToShareableHandle(handle, pool, CU_MEM_HANDLE_TYPE_FABRIC, 0);
}

/* The pool's descriptors hold each pointer that is exported from the pool. */
static CUresult export_pointer(void *shared, CUdeviceptr address)
{
	CUmemPoolPtrExportData note;
	struct vcuda_share_handle pool;
	struct vcuda_share_kept what = {.kind = VCUDA_SHARE_DRIVER_POINTER, .note = &note, .fd = -1, .pool = &pool};
	CUresult result = driver.cuMemPoolExportPointer(&note, address);

	if (result == CUDA_SUCCESS)
		result = provide_pool(address, &pool);
	return result == CUDA_SUCCESS ? offer(&what, address, shared) : result;
}

static CUresult import_pointer(CUdeviceptr *address, CUmemoryPool pool, void *shared)
{
	CUmemPoolPtrExportData note;
	CUresult result = take(shared, VCUDA_SHARE_DRIVER_POINTER, &note, NULL);

	return result == CUDA_SUCCESS ? driver.cuMemPoolImportPointer(address, pool, &note) : result;
}

static CUresult free_in_order(CUdeviceptr address, CUstream stream)
{
	withdraw_memory(address);
	return driver.cuMemFreeAsync(address, stream);
}

static CUresult enable_peer(CUcontext peer, unsigned int flags)
{
	CUresult result = driver.cuCtxEnablePeerAccess(peer, flags);

	if (result == CUDA_SUCCESS)
		atomic_store(&has_shared, true);
	return result;
}

void backend_share(struct vcuda_backend_ops *ops)
{
	driver = *ops;
	above = ops;
#define BETWEEN(name, function) ops->name = driver.name ? function : NULL
	BETWEEN(cuIpcGetMemHandle, get_memory);
	BETWEEN(cuIpcOpenMemHandle_v2, open_memory);
	BETWEEN(cuMemFree_v2, free_memory);
	BETWEEN(cuIpcGetEventHandle, get_event);
	BETWEEN(cuIpcOpenEventHandle, open_event);
	BETWEEN(cuEventDestroy_v2, destroy_event);
	BETWEEN(cuMemCreate, create_allocation);
	BETWEEN(cuMemExportToShareableHandle, export_allocation);
	BETWEEN(cuMemImportFromShareableHandle, import_allocation);
	BETWEEN(cuMemRelease, release_allocation);
	BETWEEN(cuMemPoolExportToShareableHandle, export_pool);
	BETWEEN(cuMemPoolImportFromShareableHandle, import_pool);
	BETWEEN(cuMemPoolDestroy, destroy_pool);
	BETWEEN(cuMemPoolExportPointer, export_pointer);
	BETWEEN(cuMemPoolImportPointer, import_pointer);
	BETWEEN(cuMemFreeAsync, free_in_order);
	BETWEEN(cuCtxEnablePeerAccess, enable_peer);
#undef BETWEEN
	if (!driver.cuMemGetAddressRange_v2)
		ops->cuIpcGetMemHandle = NULL;
	if (!driver.cuPointerGetAttribute || !driver.cuMemPoolExportToShareableHandle)
		ops->cuMemPoolExportPointer = NULL;
}
