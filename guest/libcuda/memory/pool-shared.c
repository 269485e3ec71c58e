/* SPDX-License-Identifier: Apache-2.0 */
/* Pools of several processes. */
#include <string.h>

#include "core/request.h"
#include "memory/memory.h"
#include "core/context.h"
#include "protocol/guest-calls.h"
#include "core/object.h"
#include "memory/host-pool.h"
#include "memory/pool.h"
#include "memory/range.h"
#include "memory/shareable.h"

_Static_assert(sizeof(CUmemPoolPtrExportData) == sizeof(CUipcMemHandle), "one size");

static CUresult check(CUmemoryPool pool, const void *place)
{
	CUresult result = libcuda_require_init();

	if (result != CUDA_SUCCESS)
		return result;
	return place && libcuda_object_find(LIBCUDA_OBJECT_POOL, pool) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

VCUDA_EXPORT CUresult cuMemPoolExportToShareableHandle(void *to, CUmemoryPool pool, CUmemAllocationHandleType type,
						       unsigned long long flags)
{
	CUresult result = check(pool, to);
	CUipcMemHandle shared;

	libcuda_memory_is_watched = true;
	if (result == CUDA_SUCCESS && flags)
		result = CUDA_ERROR_INVALID_VALUE;
	if (result == CUDA_SUCCESS && libcuda_host_pool_is(pool))
		result = CUDA_ERROR_INVALID_VALUE;
	if (result == CUDA_SUCCESS && type != CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR)
		result = CUDA_ERROR_INVALID_VALUE;
	if (result == CUDA_SUCCESS)
		result = vcuda_call_vcudaMemPoolExport(&shared, pool);
	return result == CUDA_SUCCESS ? libcuda_shareable_give(&shared, to) : result;
}

VCUDA_EXPORT CUresult cuMemPoolImportFromShareableHandle(CUmemoryPool *pool, void *from, CUmemAllocationHandleType type,
							 unsigned long long flags)
{
	CUresult result = libcuda_require_init();
	CUipcMemHandle shared;

	libcuda_memory_is_watched = true;
	if (result != CUDA_SUCCESS)
		return result;
	if (!pool || flags || type != CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR)
		return CUDA_ERROR_INVALID_VALUE;
	if (!libcuda_shareable_read((int)(intptr_t)from, &shared))
		return CUDA_ERROR_INVALID_VALUE;
	result = vcuda_call_vcudaMemPoolImport(pool, shared);
	if (result != CUDA_SUCCESS)
		return result;
	return libcuda_pool_add(*pool, libcuda_context_current() ? libcuda_context_current()->device : 0);
}

VCUDA_EXPORT CUresult cuMemPoolExportPointer(CUmemPoolPtrExportData *data, CUdeviceptr dptr)
{
	CUresult result = libcuda_require_context();
	CUipcMemHandle shared;
	struct libcuda_range r;

	if (result != CUDA_SUCCESS)
		return result;
	if (!data || !libcuda_range_find(dptr, &r) || r.kind != LIBCUDA_RANGE_DEVICE)
		return CUDA_ERROR_INVALID_VALUE;
	result = vcuda_call_vcudaMemPoolExportPointer(&shared, dptr);
	if (result == CUDA_SUCCESS)
		memcpy(data, &shared, sizeof(shared));
	return result;
}

/* Memory that is imported again has one address, and ends with the first time that it is freed. */
VCUDA_EXPORT CUresult cuMemPoolImportPointer(CUdeviceptr *dptr, CUmemoryPool pool, CUmemPoolPtrExportData *data)
{
	CUresult result = check(pool, data);
	CUipcMemHandle shared;
	struct libcuda_range r;
	CUdeviceptr start;
	size_t bytes;

	if (result == CUDA_SUCCESS)
		result = dptr ? libcuda_require_context() : CUDA_ERROR_INVALID_VALUE;
	if (result != CUDA_SUCCESS)
		return result;
	memcpy(&shared, data, sizeof(shared));
	result = vcuda_call_vcudaMemPoolImportPointer(&start, &bytes, pool, shared);
	if (result != CUDA_SUCCESS)
		return result;
	*dptr = start;
	if (libcuda_range_find(start, &r) && r.start == start)
		return CUDA_SUCCESS;
	if (!libcuda_range_add(&(struct libcuda_range){.start = start,
						       .bytes = bytes,
						       .kind = LIBCUDA_RANGE_DEVICE,
						       .stream_ordered = true,
						       .context = libcuda_context_current()})) {
		vcuda_call_cuMemFree_v2(start);
		return CUDA_ERROR_OUT_OF_MEMORY;
	}
	return CUDA_SUCCESS;
}
