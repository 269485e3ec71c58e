/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Memory pools of cuMemPoolCreate() in host memory (CU_MEM_LOCATION_TYPE_HOST, HOST_NUMA). The pool is this library's:
 * its memory is pinned memory, which both sides use at one address. Memory that is freed in a stream is used again in
 * the same stream at once, and elsewhere when the stream has reached the free. Unused memory beyond the release
 * threshold is given back at the next call about the pool.
 *
 * An allocation ends with the context that it was made in. A pool lives until it is destroyed and has no allocations.
 * Thread-safe. The functions give CUDA_ERROR_INVALID_HANDLE where no such pool is in host memory.
 */
#ifndef VCUDA_HOST_POOL_H
#define VCUDA_HOST_POOL_H

#include <stdbool.h>

#include "core/request.h"
#include "memory/range.h"

/* A new pool in a place of the host's, which the caller has checked. CUDA_ERROR_OUT_OF_MEMORY. */
CUresult libcuda_host_pool_create(const CUmemPoolProps *props, CUmemoryPool *pool);

/* The pool that a place has from the start, and the one that the application chose last. Errors as above. */
CUresult libcuda_host_pool_default(const CUmemLocation *where, CUmemoryPool *pool);
CUresult libcuda_host_pool_current(const CUmemLocation *where, CUmemoryPool *pool);

/* CUDA_ERROR_INVALID_VALUE: it is a pool of another place. */
CUresult libcuda_host_pool_choose(const CUmemLocation *where, CUmemoryPool pool);

/* Whether the handle is one of a pool in host memory. */
bool libcuda_host_pool_is(CUmemoryPool pool);

/* The application gives the handle back. CUDA_ERROR_INVALID_VALUE: the pool is a place's from the start. */
CUresult libcuda_host_pool_destroy(CUmemoryPool pool);

/*
 * Memory that work in the stream may use from now on. `stream` is resolved, of the context of `how`. Errors:
 * CUDA_ERROR_OUT_OF_MEMORY, CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED, those of pinned memory.
 */
CUresult libcuda_host_pool_allocate(const struct call_options *how, CUdeviceptr *dptr, size_t bytes, CUmemoryPool pool,
				    CUstream stream);

/* Frees a range of the kind POOLED, which was taken out of the table, once the stream has reached this point. */
CUresult libcuda_host_pool_free(const struct call_options *how, const struct libcuda_range *r, CUstream stream);

/* The same at once: no work uses it any more. */
CUresult libcuda_host_pool_free_now(const struct libcuda_range *r);

/* The pool that the range is of; NULL: it was destroyed. */
CUmemoryPool libcuda_host_pool_of(const struct libcuda_range *r);

CUresult libcuda_host_pool_trim(CUmemoryPool pool, size_t keep);

/* All values as 64 bits. CUDA_ERROR_INVALID_VALUE: there is no such attribute, or it cannot have that value. */
CUresult libcuda_host_pool_get_attribute(CUmemoryPool pool, CUmemPool_attribute attribute, uint64_t *value);
CUresult libcuda_host_pool_set_attribute(CUmemoryPool pool, CUmemPool_attribute attribute, uint64_t value);

/* The access of a device that is there: at first none has any. Processors always have access. */
CUresult libcuda_host_pool_get_access(CUmemoryPool pool, CUdevice device, CUmemAccess_flags *flags);
CUresult libcuda_host_pool_set_access(CUmemoryPool pool, CUdevice device, CUmemAccess_flags flags);

/* Whether the device of the current context has access to the pool of a range. */
bool libcuda_host_pool_is_open(const struct libcuda_range *r);

#endif
