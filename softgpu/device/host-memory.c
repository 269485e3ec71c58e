/* SPDX-License-Identifier: Apache-2.0 */
/* Registered host memory: kernels use it at its own address. */
#include <errno.h>
#include <stdint.h>
#include <sys/mman.h>

#include "device/arena.h"
#include "device/device.h"
#include "device/memory.h"

#ifndef MADV_POPULATE_READ
#define MADV_POPULATE_READ 22
#define MADV_POPULATE_WRITE 23
#endif

#define PAGE 4096u

/*
 * Whether the process itself may read, or write, all of it: a kernel's access must not fault. The pages are made
 * present, as a registration that pins them would.
 */
static bool accessible(uint64_t start, uint64_t bytes, bool write)
{
	uint64_t first = start / PAGE * PAGE, length = (start + bytes - first + PAGE - 1) / PAGE * PAGE;
	void *p = (void *)(uintptr_t)first;

	if (madvise(p, length, write ? MADV_POPULATE_WRITE : MADV_POPULATE_READ) == 0)
		return true;
	/*
	 * EINVAL: a kernel before 5.14, or memory of a device. That something is mapped there is all that can be seen
	 * then.
	 */
	return errno == EINVAL && msync(p, length, MS_ASYNC) == 0;
}

CUresult softgpu_host_check(uint64_t start, uint64_t bytes, bool write)
{
	uint64_t arena, length;

	softgpu_arena_range(&arena, &length);
	/* Device memory is not host memory. */
	if (start < arena + length && start + bytes > arena)
		return CUDA_ERROR_INVALID_VALUE;
	return accessible(start, bytes, write) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

CUresult softgpu_cuMemHostRegister_v2(void *p, size_t bytesize, unsigned Flags)
{
	const unsigned int known = CU_MEMHOSTREGISTER_PORTABLE | CU_MEMHOSTREGISTER_DEVICEMAP |
				   CU_MEMHOSTREGISTER_IOMEMORY | CU_MEMHOSTREGISTER_READ_ONLY;
	uint64_t start = (uint64_t)(uintptr_t)p;
	bool read_only = Flags & CU_MEMHOSTREGISTER_READ_ONLY;
	struct softgpu_range range = {
		.start = start,
		.size = bytesize,
		.kind = SOFTGPU_HOST,
		.reads = SOFTGPU_ALL_DEVICES,
		.writes = read_only ? 0 : SOFTGPU_ALL_DEVICES,
		.copy_writes = !read_only,
	};
	struct CUctx_st *c;
	CUresult result = softgpu_enter(&c);

	if (result != CUDA_SUCCESS)
		return result;
	softgpu_unlock();
	if (!p || bytesize == 0 || (Flags & ~known) || start + bytesize < start)
		return CUDA_ERROR_INVALID_VALUE;
	if (Flags & CU_MEMHOSTREGISTER_IOMEMORY)
		return CUDA_ERROR_NOT_SUPPORTED;
	result = softgpu_host_check(start, bytesize, !read_only);
	if (result == CUDA_SUCCESS)
		result = softgpu_enter(&c);
	if (result != CUDA_SUCCESS)
		return result;
	if (softgpu_range_overlaps(start, bytesize))
		return softgpu_leave(CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED);
	range.context = c;
	return softgpu_leave(softgpu_range_add(&range) ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY);
}

const struct softgpu_range *softgpu_host_find(uint64_t start, bool managed)
{
	const struct softgpu_range *range = softgpu_range_find(start, 1);

	return range && range->start == start && range->kind == SOFTGPU_HOST && !range->context == managed ? range
													   : NULL;
}

/* Waits until no work of any context that was submitted so far can touch host memory. */
static void wait_for_all(void)
{
	struct softgpu_scope scope = {.last = softgpu_submitted()};

	softgpu_wait(&scope);
}

bool softgpu_host_remove(uint64_t start, bool managed)
{
	if (!softgpu_host_find(start, managed))
		return false;
	/* Queued kernels look at the table when they start, so they come first. */
	wait_for_all();
	if (!softgpu_host_find(start, managed))
		return false;
	softgpu_range_remove(start);
	/* The caller may unmap the memory next: work that came meanwhile must not use it either. */
	wait_for_all();
	return true;
}

/*
 * Also unregisters in a failed context, and returns its error nevertheless: no kernel may use the memory when the
 * caller unmaps it. An error of the work that ends here is reported to the waiters of that work. If several calls race,
 * one unregisters.
 */
CUresult softgpu_hostUnregister(void *p, int *done)
{
	struct CUctx_st *c;
	CUresult result = softgpu_enter_failed(&c), failed;

	*done = 0;
	if (result != CUDA_SUCCESS)
		return result;
	failed = c->error;
	*done = p && softgpu_host_remove((uint64_t)(uintptr_t)p, false);
	if (!*done)
		result = p ? CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED : CUDA_ERROR_INVALID_VALUE;
	return softgpu_leave(failed ? failed : result);
}

CUresult softgpu_cuMemHostUnregister(void *p)
{
	int done;

	return softgpu_hostUnregister(p, &done);
}

CUresult softgpu_cuMemHostGetDevicePointer_v2(CUdeviceptr *pdptr, void *p, unsigned Flags)
{
	const struct softgpu_range *range;
	struct CUctx_st *c;
	CUresult result = softgpu_enter(&c);

	if (result != CUDA_SUCCESS)
		return result;
	if (!pdptr || !p || Flags)
		return softgpu_leave(CUDA_ERROR_INVALID_VALUE);
	range = softgpu_range_find((uint64_t)(uintptr_t)p, 1);
	if (!range || range->kind != SOFTGPU_HOST)
		return softgpu_leave(CUDA_ERROR_INVALID_VALUE);
	*pdptr = (CUdeviceptr)(uintptr_t)p;
	return softgpu_leave(CUDA_SUCCESS);
}
