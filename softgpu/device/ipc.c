/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Allocations that several processes use. The first offer of an allocation moves it into a file, at the same address; a
 * process that opens it maps that file. These functions do not wait for work on the allocation, since the work may wait
 * for the program's next call.
 *
 * A larger allocation has whole pages, and gets its own file. The pages of a small allocation hold others as well. All
 * such pages go to one file; a page's offset in the file is its offset in the arena. A process that opens a small
 * allocation also maps the rest of its pages, as with CUDA, whose pages have 2 MiB; kernels reach the allocation only.
 */
#include "device/ipc.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "device/arena.h"
#include "device/device.h"
#include "common/log.h"
#include "device/memory.h"
#include "device/pool.h"
#include "common/share.h"

#define PAGE 4096u
#define LEAST (16 * PAGE) /* from here on memory has whole pages: arena.c */

_Static_assert(sizeof(struct vcuda_share_handle) == sizeof(CUipcMemHandle), "CUDA says how large handles are");

struct export
{
	uint64_t address, bytes;
	bool offered;
	struct vcuda_share_handle handle;
	struct export *next;
};

struct import {
	uint64_t address;
	uint64_t start, bytes;     /* of the pages */
	uint64_t slot, slot_bytes; /* address space around them: no other memory is in their granules (stray.c) */
	struct CUctx_st *context;
	CUdevice device; /* the device with the memory */
	struct vcuda_share_handle handle;
	struct CUmemPoolHandle_st *pool; /* the imported pool with the memory; NULL: opened by a handle of its own */
	unsigned int refs;               /* times that it was opened */
	struct import *next;
};

/* A page in the file of small allocations. */
struct page {
	uint64_t address;
	struct page *next;
};

static struct page *pages;
static int pages_fd = -1;
static struct export *exports;
static struct import *imports;

/* Handles have the number of the memory's device in their last byte, which is zero where there is one device. */
#define DEVICE_BYTE (sizeof(((struct vcuda_share_handle *)0)->zero) - 1)

void softgpu_ipc_set_device(struct vcuda_share_handle *handle, CUdevice dev)
{
	handle->zero[DEVICE_BYTE] = (uint8_t)dev;
}

CUdevice softgpu_ipc_device(const struct vcuda_share_handle *handle)
{
	return handle->zero[DEVICE_BYTE];
}

CUresult softgpu_ipc_result(int err)
{
	if (!err)
		return CUDA_SUCCESS;
	return err == -ENOMEM ? CUDA_ERROR_OUT_OF_MEMORY : CUDA_ERROR_INVALID_VALUE;
}

static uint64_t whole_pages(uint64_t bytes)
{
	return (bytes + PAGE - 1) / PAGE * PAGE;
}

/* Maps private zeroed pages. */
static bool map_own(uint64_t address, uint64_t bytes)
{
	return mmap((void *)(uintptr_t)address, whole_pages(bytes), PROT_READ | PROT_WRITE,
		    MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED, -1, 0) != MAP_FAILED;
}

static bool map_file(uint64_t address, uint64_t bytes, int fd, uint64_t offset)
{
	return mmap((void *)(uintptr_t)address, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, fd,
		    (off_t)offset) != MAP_FAILED;
}

/* ---- pages of small allocations ---- */

static bool is_shared(uint64_t address)
{
	const struct page *p;

	for (p = pages; p && p->address != address; p = p->next)
		continue;
	return p;
}

static bool share_page(uint64_t address, uint64_t arena)
{
	struct page *p = calloc(1, sizeof(*p));

	if (!p || !softgpu_move_to_file(address, PAGE, pages_fd, address - arena)) {
		free(p);
		return false;
	}
	softgpu_memory_in_files(PAGE);
	*p = (struct page){address, pages};
	pages = p;
	return true;
}

/* Moves the pages of an allocation to the file, those that are not there. Returns another descriptor of it; -1: no. */
static int share_pages(uint64_t start, uint64_t end, struct vcuda_share_part *part)
{
	uint64_t arena, length;

	softgpu_arena_range(&arena, &length);
	if (pages_fd < 0)
		pages_fd = vcuda_share_file(whole_pages(length));
	if (pages_fd < 0)
		return -1;
	for (uint64_t at = start & ~(uint64_t)(PAGE - 1); at < end; at += PAGE)
		if (!is_shared(at) && !share_page(at, arena))
			return -1;
	*part = (struct vcuda_share_part){start - arena, end - start};
	return fcntl(pages_fd, F_DUPFD_CLOEXEC, 0);
}

void softgpu_ipc_unshare(uint64_t start, uint64_t end)
{
	for (struct page **at = &pages, *p; (p = *at);) {
		if (p->address < start || p->address >= end || !map_own(p->address, PAGE)) {
			at = &p->next;
			continue;
		}
		*at = p->next;
		softgpu_memory_in_files(-(int64_t)PAGE);
		free(p);
	}
}

/* ---- offered ---- */

static struct export *find_export(uint64_t address)
{
	struct export *e;

	for (e = exports; e && e->address != address; e = e->next)
		continue;
	return e;
}

bool softgpu_ipc_is_shared(uint64_t start, uint64_t end)
{
	for (const struct page *p = pages; p; p = p->next)
		if (p->address < end && p->address + PAGE > start)
			return true;
	for (const struct export *e = exports; e; e = e->next)
		if (e->address < end && e->address + e->bytes > start)
			return true;
	return false;
}

/* The allocation has its own pages: it gets a file, and keeps its address. */
static int move_all(uint64_t address, uint64_t bytes)
{
	int fd = vcuda_share_file(whole_pages(bytes));

	softgpu_ipc_unshare(address, address + bytes);
	if (fd < 0)
		return -1;
	if (softgpu_move_to_file(address, whole_pages(bytes), fd, 0)) {
		softgpu_memory_in_files((int64_t)whole_pages(bytes));
		return fd;
	}
	close(fd);
	return -1;
}

/* `pool`: the pool of the memory, which stays shared as long as the pool exists; NULL: none. */
static bool offer_part(const struct CUmemPoolHandle_st *pool, CUdevice dev, struct vcuda_share_part part, int fd,
		       struct vcuda_share_handle *handle)
{
	struct vcuda_share_kept what = {
		.kind = VCUDA_SHARE_POOL_MEMORY,
		.part = part,
		.fd = fd,
		.device = (unsigned int)dev,
		.bytes = whole_pages(part.bytes),
	};
	bool done;

	if (pool) {
		what.pool = &pool->name;
		softgpu_ipc_set_device(handle, dev);
		return !vcuda_share_keep(&what, handle);
	}
	done = vcuda_share_offer(VCUDA_SHARE_MEMORY, part, fd, handle);
	softgpu_ipc_set_device(handle, dev);
	return done;
}

static CUresult offer(CUdevice dev, uint64_t address, uint64_t bytes, const struct CUmemPoolHandle_st *pool)
{
	struct export *e = calloc(1, sizeof(*e));
	struct vcuda_share_part part = {0, bytes};
	int fd;

	if (!e)
		return CUDA_ERROR_OUT_OF_MEMORY;
	fd = bytes < LEAST ? share_pages(address, address + bytes, &part) : move_all(address, bytes);
	if (fd < 0) {
		free(e);
		return CUDA_ERROR_OUT_OF_MEMORY;
	}
	*e = (struct export){.address = address, .bytes = bytes, .next = exports};
	exports = e;
	/* otherwise the allocation stays in a file that no other process has: harmless */
	e->offered = offer_part(pool, dev, part, fd, &e->handle);
	return CUDA_SUCCESS;
}

/* An allocation with a file of its own. */
static void take_out(const struct export *e)
{
	softgpu_memory_in_files(-(int64_t)whole_pages(e->bytes));
	if (!map_own(e->address, e->bytes))
		vcuda_log("freed memory stays shared with the processes that opened it");
}

void softgpu_ipc_freed(uint64_t address)
{
	for (struct export **at = &exports, *e; (e = *at); at = &e->next)
		if (e->address == address) {
			*at = e->next;
			if (e->offered)
				vcuda_share_withdraw(&e->handle);
			/* pages with others on them: softgpu_ipc_unshare() */
			if (e->bytes >= LEAST)
				take_out(e);
			free(e);
			return;
		}
}

/* The handle of an allocation, which is offered from now on. */
static CUresult get_handle(const struct softgpu_range *r, struct vcuda_share_handle *handle)
{
	const uint64_t start = r->start;
	const struct export *e;
	CUresult result = find_export(start) ? CUDA_SUCCESS : offer(r->device, start, r->size, r->pool);

	if (result != CUDA_SUCCESS)
		return result;
	e = find_export(start);
	*handle = e->handle;
	return e->offered ? CUDA_SUCCESS : CUDA_ERROR_NOT_SUPPORTED;
}

static const struct softgpu_range *find_shareable(const struct CUctx_st *c, uint64_t address)
{
	const struct softgpu_range *r = softgpu_range_find(address, 1);

	return r && r->kind == SOFTGPU_ALLOCATION && r->context == c && !r->pool ? r : NULL;
}

CUresult softgpu_cuIpcGetMemHandle(CUipcMemHandle *pHandle, CUdeviceptr dptr)
{
	struct vcuda_share_handle handle;
	const struct softgpu_range *r;
	struct CUctx_st *c;
	CUresult result = softgpu_enter(&c);

	if (result != CUDA_SUCCESS)
		return result;
	r = pHandle ? find_shareable(c, dptr) : NULL;
	if (!r)
		return softgpu_leave(CUDA_ERROR_INVALID_VALUE);
	result = get_handle(r, &handle);
	if (result == CUDA_SUCCESS)
		memcpy(pHandle, &handle, sizeof(*pHandle));
	return softgpu_leave(result);
}

/* ---- opened ---- */

/* Whether any context has the allocation open; the device counts its memory once. */
static bool is_opened(const struct vcuda_share_handle *handle)
{
	const struct import *i;

	for (i = imports; i && memcmp(&i->handle, handle, sizeof(*handle)); i = i->next)
		continue;
	return i;
}

static void uncount_import(CUdevice dev, uint64_t bytes)
{
	softgpu_memory_in_files(-(int64_t)bytes);
	softgpu_memory_uncount(dev, bytes);
}

static bool map_import(struct import *i, const struct vcuda_share_part *part, int fd)
{
	uint64_t before = part->offset % PAGE;
	/* The context that opens it has access, whatever its device. */
	uint8_t access = i->pool ? i->pool->access : (uint8_t)(1u << i->context->device);

	i->bytes = whole_pages(before + part->bytes);
	i->slot_bytes = (i->bytes + SOFTGPU_MAPPING - 1) / SOFTGPU_MAPPING * SOFTGPU_MAPPING + SOFTGPU_MAPPING;
	i->slot = softgpu_arena_alloc(i->slot_bytes, false);
	if (!i->slot)
		return false;
	i->start = (i->slot + SOFTGPU_MAPPING - 1) / SOFTGPU_MAPPING * SOFTGPU_MAPPING;
	i->address = i->start + before;
	if (!map_file(i->start, i->bytes, fd, part->offset - before))
		goto free_address;
	if (softgpu_range_add(&(struct softgpu_range){
		    .start = i->address,
		    .size = part->bytes,
		    .context = i->context,
		    .kind = SOFTGPU_IMPORTED,
		    .device = i->device,
		    .reads = access,
		    .writes = access,
		    .copy_writes = true,
		    .pool = i->pool,
	    }))
		return true;
	if (!map_own(i->start, i->bytes))
		return false;
free_address:
	softgpu_arena_free(i->slot, i->slot_bytes);
	return false;
}

/* `pool`: the memory's pool, or NULL. A repeated import has the same address; from a pool it adds no reference. */
static CUresult open_file(struct CUctx_st *c, const struct vcuda_share_handle *handle,
			  const struct vcuda_share_part *part, int fd, struct CUmemPoolHandle_st *pool,
			  CUdeviceptr *address)
{
	struct import *i;
	CUdevice dev = softgpu_ipc_device(handle);
	uint64_t bytes;
	bool counts;

	if (softgpu_device_check(dev) != CUDA_SUCCESS)
		return CUDA_ERROR_INVALID_VALUE;
	for (i = imports; i; i = i->next)
		if (i->context == c && !memcmp(&i->handle, handle, sizeof(*handle))) {
			if (!pool)
				i->refs++;
			*address = i->address;
			return CUDA_SUCCESS;
		}
	if (part->bytes > softgpu_device()->memory)
		return CUDA_ERROR_OUT_OF_MEMORY;
	bytes = whole_pages(part->offset % PAGE + part->bytes);
	counts = !is_opened(handle);
	if (counts && !softgpu_memory_count(dev, bytes))
		return CUDA_ERROR_OUT_OF_MEMORY;
	if (counts)
		softgpu_memory_in_files((int64_t)bytes);
	i = calloc(1, sizeof(*i));
	if (i)
		*i = (struct import){
			.context = c,
			.device = dev,
			.handle = *handle,
			.pool = pool,
			.refs = 1,
			.next = imports,
		};
	if (!i || !map_import(i, part, fd)) {
		free(i);
		if (counts)
			uncount_import(dev, bytes);
		return CUDA_ERROR_OUT_OF_MEMORY;
	}
	imports = i;
	if (pool)
		softgpu_pool_took(pool, part->bytes);
	*address = i->address;
	return CUDA_SUCCESS;
}

CUresult softgpu_cuIpcOpenMemHandle_v2(CUdeviceptr *pdptr, CUipcMemHandle handle, unsigned Flags)
{
	struct vcuda_share_part part;
	struct vcuda_share_handle h;
	struct CUctx_st *c;
	CUresult result;
	int fd;

	if (!pdptr || Flags != CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS)
		return CUDA_ERROR_INVALID_VALUE;
	memcpy(&h, &handle, sizeof(h));
	if (vcuda_share_is_own(&h))
		return CUDA_ERROR_INVALID_CONTEXT;
	result = softgpu_ipc_result(vcuda_share_take(&h, VCUDA_SHARE_MEMORY, &part, &fd));
	if (result != CUDA_SUCCESS)
		return result;
	result = softgpu_enter(&c);
	if (result == CUDA_SUCCESS)
		result = softgpu_leave(open_file(c, &h, &part, fd, NULL, pdptr));
	close(fd);
	return result;
}

void softgpu_ipc_closed(uint64_t address)
{
	for (struct import **at = &imports, *i; (i = *at); at = &i->next) {
		if (i->address != address)
			continue;
		*at = i->next;
		if (!is_opened(&i->handle))
			uncount_import(i->device, i->bytes);
		/* without the mapping, only the addresses are lost */
		if (map_own(i->start, i->bytes))
			softgpu_arena_free(i->slot, i->slot_bytes);
		free(i);
		return;
	}
}

CUresult softgpu_cuIpcCloseMemHandle(CUdeviceptr dptr)
{
	struct softgpu_scope scope = {0};
	struct import *i;
	struct CUctx_st *c;
	CUresult result = softgpu_enter(&c);

	if (result != CUDA_SUCCESS)
		return result;
	for (i = imports; i && (i->address != dptr || i->context != c || i->pool); i = i->next)
		continue;
	if (!i)
		return softgpu_leave(CUDA_ERROR_INVALID_VALUE);
	if (--i->refs)
		return softgpu_leave(CUDA_SUCCESS);
	/* Queued kernels look at the table when they start, so they come first. */
	i->refs = 1;
	scope.context = c;
	scope.last = softgpu_submitted();
	result = softgpu_context_wait(c, &scope);
	for (i = imports; i && (i->address != dptr || i->context != c || i->pool); i = i->next)
		continue;
	if (result != CUDA_SUCCESS || !i || --i->refs)
		return softgpu_leave(result);
	softgpu_range_remove(dptr);
	softgpu_ipc_closed(dptr);
	return softgpu_leave(CUDA_SUCCESS);
}

/* ---- pools ---- */

_Static_assert(sizeof(struct vcuda_share_handle) == sizeof(CUmemPoolPtrExportData), "CUDA says how large handles are");

static bool offer_pool(struct CUmemPoolHandle_st *pool)
{
	struct vcuda_share_kept what = {.kind = VCUDA_SHARE_POOL, .fd = -1, .device = (unsigned int)pool->device};

	if (!pool->offered) {
		softgpu_ipc_set_device(&pool->name, pool->device);
		pool->offered = !vcuda_share_keep(&what, &pool->name);
	}
	return pool->offered;
}

CUresult softgpu_cuMemPoolExportToShareableHandle(void *handle_out, CUmemoryPool pool, int handleType, uint64_t flags)
{
	if (!handle_out || handleType != CU_MEM_HANDLE_TYPE_FABRIC || flags)
		return CUDA_ERROR_INVALID_VALUE;
	softgpu_lock();
	pool = softgpu_pool_find(pool);
	if (!pool || !pool->shareable)
		return softgpu_leave(CUDA_ERROR_INVALID_VALUE);
	if (!offer_pool(pool))
		return softgpu_leave(CUDA_ERROR_OUT_OF_MEMORY);
	memcpy(handle_out, &pool->name, sizeof(pool->name));
	return softgpu_leave(CUDA_SUCCESS);
}

CUresult softgpu_cuMemPoolImportFromShareableHandle(CUmemoryPool *pool_out, void *handle, int handleType,
						    uint64_t flags)
{
	uint8_t note[VCUDA_SHARE_NOTE_BYTES];
	struct vcuda_share_handle h;
	CUmemoryPool pool;
	CUresult result;
	int fd;

	if (!pool_out || !handle || handleType != CU_MEM_HANDLE_TYPE_FABRIC || flags)
		return CUDA_ERROR_INVALID_VALUE;
	memcpy(&h, handle, sizeof(h));
	if (softgpu_device_check(softgpu_ipc_device(&h)) != CUDA_SUCCESS)
		return CUDA_ERROR_INVALID_VALUE;
	result = softgpu_ipc_result(vcuda_share_take_note(&h, VCUDA_SHARE_POOL, note, &fd));
	if (result != CUDA_SUCCESS)
		return result;
	if (fd >= 0)
		close(fd);
	softgpu_lock();
	pool = softgpu_pool_new(softgpu_ipc_device(&h), 0);
	if (!pool)
		return softgpu_leave(CUDA_ERROR_OUT_OF_MEMORY);
	pool->imported = true;
	pool->name = h;
	*pool_out = pool;
	return softgpu_leave(CUDA_SUCCESS);
}

/*
 * An export from a pool is the memory's handle, with the pool's key in bytes that the handle has zero. As with NVIDIA's
 * driver (580), the pool must be exported before its memory.
 */
CUresult softgpu_cuMemPoolExportPointer(void *shareData_out, CUdeviceptr ptr)
{
	struct vcuda_share_handle handle;
	struct CUmemPoolHandle_st *pool;
	const struct softgpu_range *r;
	struct CUctx_st *c;
	CUresult result = softgpu_enter(&c);

	if (result != CUDA_SUCCESS)
		return result;
	r = softgpu_range_find(ptr, 1);
	if (!shareData_out || !r || r->start != ptr || r->kind != SOFTGPU_ALLOCATION || !r->pool || !r->pool->offered)
		return softgpu_leave(CUDA_ERROR_INVALID_VALUE);
	pool = r->pool;
	result = get_handle(r, &handle);
	if (result != CUDA_SUCCESS)
		return softgpu_leave(result);
	memcpy(handle.zero, pool->name.key, sizeof(pool->name.key));
	memcpy(shareData_out, &handle, sizeof(handle));
	return softgpu_leave(CUDA_SUCCESS);
}

/* Whether exported memory is of an imported pool. */
static bool is_of_pool(const struct vcuda_share_handle *handle, CUmemoryPool pool)
{
	pool = softgpu_pool_find(pool);
	return pool && pool->imported && !memcmp(handle->zero, pool->name.key, sizeof(pool->name.key));
}

static CUresult import_pointer(const struct vcuda_share_handle *exported, const struct vcuda_share_part *part, int fd,
			       CUmemoryPool pool, CUdeviceptr *address)
{
	struct CUctx_st *c;
	CUresult result = softgpu_enter(&c);

	if (result != CUDA_SUCCESS)
		return result;
	return softgpu_leave(is_of_pool(exported, pool) ? open_file(c, exported, part, fd, pool, address)
							: CUDA_ERROR_INVALID_VALUE);
}

bool softgpu_ipc_pool_is_used(const struct CUmemPoolHandle_st *pool)
{
	for (const struct import *i = imports; i; i = i->next)
		if (i->pool && !memcmp(i->pool->name.key, pool->name.key, sizeof(pool->name.key)))
			return true;
	return false;
}

CUresult softgpu_cuMemPoolImportPointer(CUdeviceptr *ptr_out, CUmemoryPool pool, void *shareData)
{
	struct vcuda_share_handle h;
	struct vcuda_share_part part;
	CUresult result;
	int fd;

	if (!ptr_out || !shareData)
		return CUDA_ERROR_INVALID_VALUE;
	memcpy(&h, shareData, sizeof(h));
	softgpu_lock();
	if (!is_of_pool(&h, pool))
		return softgpu_leave(CUDA_ERROR_INVALID_VALUE);
	softgpu_unlock();
	result = softgpu_ipc_result(vcuda_share_take(&h, VCUDA_SHARE_POOL_MEMORY, &part, &fd));
	if (result != CUDA_SUCCESS)
		return result;
	result = import_pointer(&h, &part, fd, pool, ptr_out);
	close(fd);
	return result;
}
