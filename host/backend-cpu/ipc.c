/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Allocations that several processes use. One that is offered for the first time moves into a file, at the same
 * address; whoever opens it maps that file. It must have its pages to itself, as larger ones do. Nothing waits for work
 * on it, which may itself wait for what the program does next.
 */
#include "ipc.h"

#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "arena.h"
#include "device.h"
#include "log.h"
#include "memory.h"
#include "move.h"
#include "share.h"

#define PAGE 4096u
#define LEAST (16 * PAGE) /* from here on memory has whole pages: arena.c */

_Static_assert(sizeof(struct vcuda_share_handle) == sizeof(CUipcMemHandle), "CUDA says how large handles are");

struct export {
	uint64_t address, bytes;
	bool offered;
	struct vcuda_share_handle handle;
	struct export *next;
};

struct import {
	uint64_t address, bytes;
	struct CUctx_st *context;
	struct vcuda_share_handle handle;
	unsigned int refs; /* times that it was opened */
	struct import *next;
};

static struct export *exports;
static struct import *imports;

__attribute__((visibility("default"))) void vcuda_cpu_share_scope(bool (*same_guest)(pid_t worker));

/* For the worker: only what the function says yes to is given memory and events, or asked for them. */
__attribute__((visibility("default"))) void vcuda_cpu_share_scope(bool (*same_guest)(pid_t worker))
{
	vcuda_share_scope(same_guest);
}

static uint64_t whole_pages(uint64_t bytes)
{
	return (bytes + PAGE - 1) / PAGE * PAGE;
}

/* With pages of nobody else's, all zero. */
static bool map_own(uint64_t address, uint64_t bytes)
{
	return mmap((void *)(uintptr_t)address, whole_pages(bytes), PROT_READ | PROT_WRITE,
		    MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED, -1, 0) != MAP_FAILED;
}

static bool map_file(uint64_t address, uint64_t bytes, int fd)
{
	return mmap((void *)(uintptr_t)address, whole_pages(bytes), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, fd,
		    0) != MAP_FAILED;
}

/* ---- offered ---- */

static struct export *find_export(uint64_t address)
{
	struct export *e;

	for (e = exports; e && e->address != address; e = e->next)
		continue;
	return e;
}

/* The memory goes on in a file, under the same address. */
static CUresult offer(uint64_t address, uint64_t bytes)
{
	struct export *e = calloc(1, sizeof(*e));
	int fd = e ? vcuda_share_file(whole_pages(bytes)) : -1;

	if (fd < 0) {
		free(e);
		return CUDA_ERROR_OUT_OF_MEMORY;
	}
	*e = (struct export){.address = address, .bytes = bytes};
	if (!cpu_move_to_file(address, whole_pages(bytes), fd)) {
		close(fd);
		free(e);
		return CUDA_ERROR_OUT_OF_MEMORY;
	}
	e->next = exports;
	exports = e;
	/* else it lies in a file that nobody else has: no harm */
	e->offered = vcuda_share_offer(VCUDA_SHARE_MEMORY, bytes, fd, &e->handle);
	return CUDA_SUCCESS;
}

void cpu_ipc_freed(uint64_t address)
{
	for (struct export **at = &exports, *e; (e = *at); at = &e->next)
		if (e->address == address) {
			*at = e->next;
			if (e->offered)
				vcuda_share_withdraw(&e->handle);
			if (!map_own(e->address, e->bytes))
				cpu_log("freed memory stays shared with the processes that opened it");
			free(e);
			return;
		}
}

static const struct cpu_range *find_shareable(const struct CUctx_st *c, uint64_t address)
{
	const struct cpu_range *r = cpu_range_find(address, 1);

	return r && r->kind == CPU_ALLOCATION && r->context == c && !r->pool ? r : NULL;
}

CUresult cpu_cuIpcGetMemHandle(CUipcMemHandle *pHandle, CUdeviceptr dptr)
{
	const struct cpu_range *r;
	const struct export *e;
	struct CUctx_st *c;
	CUresult result = cpu_enter(&c);

	if (result != CUDA_SUCCESS)
		return result;
	r = pHandle ? find_shareable(c, dptr) : NULL;
	if (!r)
		return cpu_leave(CUDA_ERROR_INVALID_VALUE);
	if (r->size < LEAST) {
		cpu_log("allocations of less than %u KiB cannot be shared between processes", LEAST >> 10);
		return cpu_leave(CUDA_ERROR_NOT_SUPPORTED);
	}
	if (!find_export(r->start))
		result = offer(r->start, r->size);
	if (result != CUDA_SUCCESS)
		return cpu_leave(result);
	e = find_export(r->start);
	if (!e->offered)
		return cpu_leave(CUDA_ERROR_NOT_SUPPORTED);
	memcpy(pHandle, &e->handle, sizeof(*pHandle));
	return cpu_leave(CUDA_SUCCESS);
}

/* ---- opened ---- */

/* It counts once, in however many contexts. */
static bool is_opened(const struct vcuda_share_handle *handle)
{
	const struct import *i;

	for (i = imports; i && memcmp(&i->handle, handle, sizeof(*handle)); i = i->next)
		continue;
	return i;
}

static CUresult open_file(struct CUctx_st *c, const struct vcuda_share_handle *handle, uint64_t bytes, int fd,
			  CUdeviceptr *address)
{
	struct import *i;
	bool counts;

	for (i = imports; i; i = i->next)
		if (i->context == c && !memcmp(&i->handle, handle, sizeof(*handle))) {
			i->refs++;
			*address = i->address;
			return CUDA_SUCCESS;
		}
	if (bytes < LEAST)
		return CUDA_ERROR_INVALID_VALUE;
	counts = !is_opened(handle);
	if (bytes > cpu_device()->memory || (counts && !cpu_memory_count(whole_pages(bytes))))
		return CUDA_ERROR_OUT_OF_MEMORY;
	i = calloc(1, sizeof(*i));
	if (!i)
		goto uncount;
	*i = (struct import){cpu_arena_alloc(bytes), bytes, c, *handle, 1, imports};
	if (!i->address)
		goto free_import;
	if (!map_file(i->address, bytes, fd))
		goto free_address;
	if (!cpu_range_add(&(struct cpu_range){i->address, bytes, c, CPU_IMPORTED, true, true, NULL}))
		goto unmap;
	imports = i;
	*address = i->address;
	return CUDA_SUCCESS;

unmap:
	map_own(i->address, bytes);
free_address:
	cpu_arena_free(i->address, bytes);
free_import:
	free(i);
uncount:
	if (counts)
		cpu_memory_uncount(whole_pages(bytes));
	return CUDA_ERROR_OUT_OF_MEMORY;
}

CUresult cpu_cuIpcOpenMemHandle_v2(CUdeviceptr *pdptr, CUipcMemHandle handle, unsigned Flags)
{
	struct vcuda_share_handle h;
	struct CUctx_st *c;
	uint64_t bytes;
	CUresult result;
	int fd;

	if (!pdptr || Flags != CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS)
		return CUDA_ERROR_INVALID_VALUE;
	memcpy(&h, &handle, sizeof(h));
	if (vcuda_share_is_own(&h))
		return CUDA_ERROR_INVALID_CONTEXT;
	result = vcuda_share_take(&h, VCUDA_SHARE_MEMORY, &bytes, &fd);
	if (result != CUDA_SUCCESS)
		return result;
	result = cpu_enter(&c);
	if (result == CUDA_SUCCESS)
		result = cpu_leave(open_file(c, &h, bytes, fd, pdptr));
	close(fd);
	return result;
}

void cpu_ipc_closed(uint64_t address, uint64_t bytes)
{
	for (struct import **at = &imports, *i; (i = *at); at = &i->next)
		if (i->address == address) {
			*at = i->next;
			if (!is_opened(&i->handle))
				cpu_memory_uncount(whole_pages(bytes));
			free(i);
			break;
		}
	/* else the addresses are lost, nothing worse */
	if (map_own(address, bytes))
		cpu_arena_free(address, bytes);
}

CUresult cpu_cuIpcCloseMemHandle(CUdeviceptr dptr)
{
	struct cpu_scope scope = {0};
	struct import *i;
	struct CUctx_st *c;
	CUresult result = cpu_enter(&c);

	if (result != CUDA_SUCCESS)
		return result;
	for (i = imports; i && (i->address != dptr || i->context != c); i = i->next)
		continue;
	if (!i)
		return cpu_leave(CUDA_ERROR_INVALID_VALUE);
	if (--i->refs)
		return cpu_leave(CUDA_SUCCESS);
	/* Queued kernels look at the table when they start, so they come first. */
	i->refs = 1;
	scope.context = c;
	scope.last = cpu_submitted();
	result = cpu_context_wait(c, &scope);
	for (i = imports; i && (i->address != dptr || i->context != c); i = i->next)
		continue;
	if (result != CUDA_SUCCESS || !i || --i->refs)
		return cpu_leave(result);
	cpu_range_remove(dptr);
	cpu_ipc_closed(dptr, i->bytes);
	return cpu_leave(CUDA_SUCCESS);
}
