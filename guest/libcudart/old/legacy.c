/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The launch of CUDA before 9.2 (configure, set up each argument, launch), which CUDA 10.1 dropped, and the calls on
 * "threads" that became calls on devices, which CUDA 13 dropped.
 */
#include <stdlib.h>
#include <string.h>

#include "launch.h"
#include "register.h"

/* Largest number of parameter bytes that kernels of these versions have. */
#define ARGUMENT_BYTES 4096

/* Launches nest as those of __cudaPushCallConfiguration. */
struct configured {
	struct configured *outer;
	struct launch launch;
	size_t bytes;
	_Alignas(16) unsigned char arguments[ARGUMENT_BYTES];
};

static _Thread_local struct configured *innermost;

CUDART_API cudaError_t cudaConfigureCall(dim3 grid, dim3 block, size_t shared, cudaStream_t stream)
{
	struct configured *call = calloc(1, sizeof(*call));

	if (!call)
		return cudart_record(cudaErrorMemoryAllocation);
	call->launch = (struct launch){grid, block, shared, stream};
	call->outer = innermost;
	innermost = call;
	return cudaSuccess;
}

CUDART_API cudaError_t cudaSetupArgument(const void *argument, size_t bytes, size_t offset)
{
	if (!innermost)
		return cudart_record(cudaErrorMissingConfiguration);
	if (!argument || offset > ARGUMENT_BYTES || bytes > ARGUMENT_BYTES - offset)
		return cudart_record(cudaErrorInvalidValue);
	memcpy(innermost->arguments + offset, argument, bytes);
	if (offset + bytes > innermost->bytes)
		innermost->bytes = offset + bytes;
	return cudaSuccess;
}

CUDART_API cudaError_t cudaLaunch(const void *host)
{
	struct configured *call = innermost;
	CUkernel kernel;
	cudaError_t error;

	if (!call)
		return cudart_record(cudaErrorMissingConfiguration);
	innermost = call->outer;
	error = cudart_record(cudart_kernel(host, &kernel));
	if (!error) {
		void *extra[] = {CU_LAUNCH_PARAM_BUFFER_POINTER, call->arguments, CU_LAUNCH_PARAM_BUFFER_SIZE,
				 &call->bytes, CU_LAUNCH_PARAM_END};

		error = cudart_launch((CUfunction)(void *)kernel, &call->launch, NULL, extra);
	}
	free(call);
	return error;
}

CUDART_API cudaError_t cudaLaunch_ptsz(const void *host)
{
	if (innermost)
		innermost->launch.stream = cudart_per_thread(innermost->launch.stream);
	return cudaLaunch(host);
}

cudaError_t cudaDeviceSynchronize(void);
cudaError_t cudaDeviceReset(void);
cudaError_t cudaDeviceGetLimit(size_t *value, enum cudaLimit limit);
cudaError_t cudaDeviceSetLimit(enum cudaLimit limit, size_t value);
cudaError_t cudaDeviceGetCacheConfig(enum cudaFuncCache *config);
cudaError_t cudaDeviceSetCacheConfig(enum cudaFuncCache config);

CUDART_API cudaError_t cudaThreadSynchronize(void)
{
	return cudaDeviceSynchronize();
}

CUDART_API cudaError_t cudaThreadExit(void)
{
	return cudaDeviceReset();
}

CUDART_API cudaError_t cudaThreadGetLimit(size_t *value, enum cudaLimit limit)
{
	return cudaDeviceGetLimit(value, limit);
}

CUDART_API cudaError_t cudaThreadSetLimit(enum cudaLimit limit, size_t value)
{
	return cudaDeviceSetLimit(limit, value);
}

CUDART_API cudaError_t cudaThreadGetCacheConfig(enum cudaFuncCache *config)
{
	return cudaDeviceGetCacheConfig(config);
}

CUDART_API cudaError_t cudaThreadSetCacheConfig(enum cudaFuncCache config)
{
	return cudaDeviceSetCacheConfig(config);
}
