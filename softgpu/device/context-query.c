/* SPDX-License-Identifier: Apache-2.0 */
/* Queries and settings of the current context. */
#include "device/context.h"
#include "device/device.h"

CUresult softgpu_cuCtxSynchronize(void)
{
	struct CUctx_st *c;
	struct softgpu_scope scope;
	CUresult result = softgpu_enter_failed(&c);

	if (result != CUDA_SUCCESS)
		return result;
	scope = (struct softgpu_scope){.context = c, .last = softgpu_submitted()};
	return softgpu_leave(softgpu_context_wait(c, &scope));
}

CUresult softgpu_cuCtxGetCacheConfig(CUfunc_cache *pconfig)
{
	struct CUctx_st *c;
	CUresult result = softgpu_enter(&c);

	if (result != CUDA_SUCCESS)
		return result;
	if (!pconfig)
		return softgpu_leave(CUDA_ERROR_INVALID_VALUE);
	*pconfig = c->cache;
	return softgpu_leave(CUDA_SUCCESS);
}

CUresult softgpu_cuCtxSetCacheConfig(CUfunc_cache config)
{
	struct CUctx_st *c;
	CUresult result = softgpu_enter(&c);

	if (result != CUDA_SUCCESS)
		return result;
	if ((unsigned int)config > CU_FUNC_CACHE_PREFER_EQUAL)
		return softgpu_leave(CUDA_ERROR_INVALID_VALUE);
	c->cache = config;
	return softgpu_leave(CUDA_SUCCESS);
}

CUresult softgpu_cuCtxGetStreamPriorityRange(int *leastPriority, int *greatestPriority)
{
	struct CUctx_st *c;
	CUresult result = softgpu_enter(&c);

	if (result != CUDA_SUCCESS)
		return result;
	if (leastPriority)
		*leastPriority = SOFTGPU_PRIORITY_LEAST;
	if (greatestPriority)
		*greatestPriority = SOFTGPU_PRIORITY_GREATEST;
	return softgpu_leave(CUDA_SUCCESS);
}

CUresult softgpu_cuCtxSetFlags(unsigned flags)
{
	struct CUctx_st *c;
	CUresult result = softgpu_enter(&c);

	if (result != CUDA_SUCCESS)
		return result;
	if (flags & ~(unsigned int)CU_CTX_FLAGS_MASK)
		return softgpu_leave(CUDA_ERROR_INVALID_VALUE);
	c->flags = flags;
	return softgpu_leave(CUDA_SUCCESS);
}

CUresult softgpu_cuCtxGetFlags(unsigned *flags)
{
	struct CUctx_st *c;
	CUresult result = softgpu_enter_failed(&c);

	if (result != CUDA_SUCCESS)
		return result;
	if (!flags)
		return softgpu_leave(CUDA_ERROR_INVALID_VALUE);
	*flags = c->flags;
	return softgpu_leave(CUDA_SUCCESS);
}

/*
 * No profiler attaches to this device, so there is nothing to start; a driver without an attached profiler succeeds as
 * well.
 */
static CUresult profiler(void)
{
	struct CUctx_st *c;
	CUresult result = softgpu_enter(&c);

	return result == CUDA_SUCCESS ? softgpu_leave(CUDA_SUCCESS) : result;
}

CUresult softgpu_cuProfilerStart(void)
{
	return profiler();
}

CUresult softgpu_cuProfilerStop(void)
{
	return profiler();
}

/* Every context has all of the device. */
CUresult softgpu_cuCtxGetExecAffinity(CUexecAffinityParam *pExecAffinity, CUexecAffinityType type)
{
	struct CUctx_st *c;
	CUresult result = softgpu_enter(&c);

	if (result != CUDA_SUCCESS)
		return result;
	if (!pExecAffinity)
		return softgpu_leave(CUDA_ERROR_INVALID_VALUE);
	if (type != CU_EXEC_AFFINITY_TYPE_SM_COUNT)
		return softgpu_leave(CUDA_ERROR_UNSUPPORTED_EXEC_AFFINITY);
	*pExecAffinity = (CUexecAffinityParam){.type = type, .param.smCount.val = softgpu_device()->threads};
	return softgpu_leave(CUDA_SUCCESS);
}
