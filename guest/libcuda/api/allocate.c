/* SPDX-License-Identifier: Apache-2.0 */
/* Stream-ordered allocation, and the end of memory that a graph may have allocated. */
#include "core/capture.h"
#include "core/object.h"
#include "graph/graph.h"
#include "core/request.h"
#include "memory/host-pool.h"
#include "memory/memory.h"
#include "protocol/guest-calls.h"
#include "stream/stream.h"

/* `pool`: NULL is the current one of the device, whose name is not asked for. */
static CUresult record(const struct call_options *how, CUdeviceptr address, size_t bytes, CUmemoryPool pool,
		       CUstream stream)
{
	const struct libcuda_object *o = pool ? libcuda_object_find(LIBCUDA_OBJECT_POOL, pool) : NULL;
	struct libcuda_range r = {
		.start = address,
		.bytes = bytes,
		.kind = LIBCUDA_RANGE_DEVICE,
		.context = libcuda_request_context(how),
		.owner = (uintptr_t)pool,
		.stream_ordered = true,
		.pool_device = o ? o->device : libcuda_request_context(how)->device,
	};

	if (libcuda_range_add(&r))
		return CUDA_SUCCESS;
	vcuda_call_cuMemFreeAsync_with(how, address, stream);
	return CUDA_ERROR_OUT_OF_MEMORY;
}

static bool captured_alloc(const struct call_options *how, CUdeviceptr *dptr, size_t bytes, CUstream resolved,
			   CUresult *result)
{
	CUgraphNodeParams p = {.type = CU_GRAPH_NODE_TYPE_MEM_ALLOC};

	p.alloc.poolProps.allocType = CU_MEM_ALLOCATION_TYPE_PINNED;
	p.alloc.poolProps.location = (CUmemLocation){CU_MEM_LOCATION_TYPE_DEVICE, libcuda_request_context(how)->device};
	p.alloc.bytesize = bytes;
	if (!libcuda_capture_takes(how, resolved, &p, result))
		return false;
	*dptr = p.alloc.dptr;
	return true;
}

/* `pool`: NULL is the current one of the stream's device. */
static CUresult allocate(const struct call_options *how, CUdeviceptr *dptr, size_t bytes, CUmemoryPool pool,
			 CUstream stream)
{
	CUresult result;

	if (libcuda_host_pool_is(pool))
		return libcuda_host_pool_allocate(how, dptr, bytes, pool, stream);
	if (captured_alloc(how, dptr, bytes, stream, &result))
		return result;
	result = libcuda_capture_unsafe();
	if (result != CUDA_SUCCESS)
		return result;
	if (pool)
		result = vcuda_call_cuMemAllocFromPoolAsync_with(how, dptr, bytes, pool, stream);
	else
		result = vcuda_call_cuMemAllocAsync_with(how, dptr, bytes, stream);
	return result == CUDA_SUCCESS ? record(how, *dptr, bytes, pool, stream) : result;
}

VCUDA_EXPORT CUresult cuMemAllocAsync(CUdeviceptr *dptr, size_t bytes, CUstream stream)
{
	struct call_options how;
	CUresult result = libcuda_stream_visit(&stream, &how);

	if (result != CUDA_SUCCESS)
		return result;
	return dptr && bytes ? allocate(&how, dptr, bytes, NULL, stream) : CUDA_ERROR_INVALID_VALUE;
}

VCUDA_EXPORT CUresult cuMemAllocFromPoolAsync(CUdeviceptr *dptr, size_t bytes, CUmemoryPool pool, CUstream stream)
{
	struct call_options how;
	CUresult result = libcuda_stream_visit(&stream, &how);

	if (result != CUDA_SUCCESS)
		return result;
	if (!dptr || !libcuda_object_find(LIBCUDA_OBJECT_POOL, pool))
		return CUDA_ERROR_INVALID_VALUE;
	if (bytes)
		return allocate(&how, dptr, bytes, pool, stream);
	*dptr = 0;
	return CUDA_SUCCESS;
}

static CUresult free_resolved(const struct call_options *how, CUdeviceptr dptr, CUstream stream)
{
	CUgraphNodeParams p = {.type = CU_GRAPH_NODE_TYPE_MEM_FREE, .free = {dptr}};
	struct libcuda_range r;
	CUresult result;

	if (!dptr)
		return CUDA_SUCCESS;
	if (libcuda_capture_takes(how, stream, &p, &result))
		return result;
	result = libcuda_capture_unsafe();
	if (result != CUDA_SUCCESS || libcuda_graph_memory_free(dptr, &result))
		return result;
	if (!libcuda_range_remove(dptr, LIBCUDA_RANGE_DEVICE | LIBCUDA_RANGE_POOLED, &r))
		return CUDA_ERROR_INVALID_VALUE;
	if (r.kind == LIBCUDA_RANGE_POOLED)
		return libcuda_host_pool_free(how, &r, stream);
	return vcuda_call_cuMemFreeAsync_with(how, dptr, stream);
}

VCUDA_EXPORT CUresult cuMemFreeAsync(CUdeviceptr dptr, CUstream stream)
{
	struct call_options how;
	CUresult result = libcuda_stream_visit(&stream, &how);

	if (result != CUDA_SUCCESS)
		return result;
	return free_resolved(&how, dptr, stream);
}

VCUDA_EXPORT CUresult cuMemFree_v2(CUdeviceptr dptr)
{
	CUresult result = libcuda_require_context_or(NULL);
	struct call_options how;
	struct libcuda_range r;

	if (result == CUDA_SUCCESS)
		result = libcuda_capture_unsafe();
	if (result != CUDA_SUCCESS)
		return result;
	if (!dptr)
		return CUDA_SUCCESS;
	if (libcuda_graph_memory_free(dptr, &result))
		return result;
	/* Out of the table first: as soon as the worker has freed it, another thread may be given the same address. */
	if (!libcuda_range_remove(dptr, LIBCUDA_RANGE_DEVICE | LIBCUDA_RANGE_MANAGED | LIBCUDA_RANGE_POOLED, &r))
		return CUDA_ERROR_INVALID_VALUE;
	if (r.kind == LIBCUDA_RANGE_POOLED)
		return libcuda_host_pool_free_now(&r);
	if (r.kind == LIBCUDA_RANGE_MANAGED)
		return libcuda_pinned_release(&r);
	how = libcuda_context_options(r.context);
	return vcuda_call_cuMemFree_v2_with(&how, dptr);
}
