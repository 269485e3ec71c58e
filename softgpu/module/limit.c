/* SPDX-License-Identifier: Apache-2.0 */
/* Limits that a program asks of and sets in its current context. */
#include "device/context.h"
#include "device/device.h"
#include "module/heap.h"

/*
 * Limits that programs may set; those of device-side launches and of the L2 are hints, and kept. This device has no
 * persisting L2, and no depth at which launches from kernels synchronise.
 */
static bool has_limit(CUlimit limit)
{
	return limit == CU_LIMIT_STACK_SIZE || limit == CU_LIMIT_PRINTF_FIFO_SIZE ||
	       limit == CU_LIMIT_MALLOC_HEAP_SIZE || limit == CU_LIMIT_DEV_RUNTIME_PENDING_LAUNCH_COUNT ||
	       limit == CU_LIMIT_MAX_L2_FETCH_GRANULARITY;
}

/* Whether the context is one for graphics, may be asked of any, and cuBLAS does: it never is. */
static bool is_fixed(CUlimit limit)
{
	return limit == CU_LIMIT_SHMEM_SIZE || limit == CU_LIMIT_CIG_ENABLED;
}

static CUresult check_limit(CUlimit limit)
{
	if ((unsigned int)limit >= CU_LIMIT_MAX)
		return CUDA_ERROR_INVALID_VALUE;
	return has_limit(limit) || is_fixed(limit) ? CUDA_SUCCESS : CUDA_ERROR_UNSUPPORTED_LIMIT;
}

CUresult softgpu_cuCtxGetLimit(size_t *pvalue, CUlimit limit)
{
	struct CUctx_st *c;
	CUresult result = softgpu_enter(&c);

	if (result != CUDA_SUCCESS)
		return result;
	result = pvalue ? check_limit(limit) : CUDA_ERROR_INVALID_VALUE;
	if (result == CUDA_SUCCESS)
		*pvalue = c->limits[limit];
	return softgpu_leave(result);
}

CUresult softgpu_cuCtxSetLimit(CUlimit limit, size_t value)
{
	struct CUctx_st *c;
	CUresult result = softgpu_enter(&c);

	if (result != CUDA_SUCCESS)
		return result;
	result = check_limit(limit);
	if (result == CUDA_SUCCESS && is_fixed(limit))
		result = CUDA_ERROR_NOT_PERMITTED;
	if (result == CUDA_SUCCESS && value > softgpu_device()->memory)
		result = CUDA_ERROR_OUT_OF_MEMORY;
	if (result == CUDA_SUCCESS && limit == CU_LIMIT_MALLOC_HEAP_SIZE)
		result = softgpu_heap_set(c, value);
	else if (result == CUDA_SUCCESS)
		c->limits[limit] = value;
	return softgpu_leave(result);
}
