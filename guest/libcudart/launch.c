/* SPDX-License-Identifier: Apache-2.0 */
/* Launching kernels. */
#include <limits.h>
#include <stdatomic.h>

#include "launch.h"
#include "register.h"

/* Launches nest if their arguments contain further launches. No program is expected to nest more deeply. */
#define PUSHED_MAX 32

static _Thread_local struct {
	unsigned int count;
	struct launch launches[PUSHED_MAX];
} pushed;

cudaError_t cudart_launch(CUfunction function, const struct launch *launch, void **args, void **extra)
{
	CUDART_TRY(cudart_enter());
	if (launch->shared > UINT_MAX)
		return cudart_record(cudaErrorInvalidValue);
	return cudart_result(cuLaunchKernel(function, launch->grid.x, launch->grid.y, launch->grid.z, launch->block.x,
					    launch->block.y, launch->block.z, (unsigned int)launch->shared,
					    launch->stream, args, extra));
}

/* `<<<...>>>` compiles to: push, evaluate the arguments, and in the kernel's host stub pop and launch. */
CUDART_API unsigned int __cudaPushCallConfiguration(dim3 grid, dim3 block, size_t shared, cudaStream_t stream)
{
	if (pushed.count == PUSHED_MAX)
		return cudart_record(cudaErrorLaunchMaxDepthExceeded);
	pushed.launches[pushed.count++] = (struct launch){grid, block, shared, stream};
	return cudaSuccess;
}

CUDART_API cudaError_t __cudaPopCallConfiguration(dim3 *grid, dim3 *block, size_t *shared, void *stream)
{
	const struct launch *launch;

	if (!pushed.count)
		return cudart_record(cudaErrorMissingConfiguration);
	launch = &pushed.launches[--pushed.count];
	*grid = launch->grid;
	*block = launch->block;
	*shared = launch->shared;
	*(cudaStream_t *)stream = launch->stream;
	return cudaSuccess;
}

/*
 * A host stub looks its kernel up once, ignores the result, and launches whatever handle it has ever after. So that the
 * launch of a kernel that could not be found says why, the latest reason is kept.
 */
static _Atomic(cudaError_t) lookup_error = cudaErrorInvalidResourceHandle;

CUDART_API cudaError_t __cudaGetKernel(cudaKernel_t *kernel, const void *host)
{
	cudaError_t error;

	if (!kernel)
		return cudart_record(cudaErrorInvalidValue);
	error = cudart_kernel(host, kernel);
	if (error) {
		*kernel = NULL;
		atomic_store(&lookup_error, error);
	}
	return cudart_record(error);
}

CUDART_API cudaError_t cudaGetKernel(cudaKernel_t *kernel, const void *host)
{
	if (!kernel)
		return cudart_record(cudaErrorInvalidValue);
	return cudart_record(cudart_kernel(host, kernel));
}

CUDART_API cudaError_t __cudaLaunchKernel(cudaKernel_t kernel, dim3 grid, dim3 block, void **args, size_t shared,
					  cudaStream_t stream)
{
	struct launch launch = {grid, block, shared, stream};

	if (!kernel)
		return cudart_record(atomic_load(&lookup_error));
	return cudart_launch((CUfunction)(void *)kernel, &launch, args, NULL);
}

CUDART_API cudaError_t __cudaLaunchKernel_ptsz(cudaKernel_t kernel, dim3 grid, dim3 block, void **args, size_t shared,
					       cudaStream_t stream)
{
	return __cudaLaunchKernel(kernel, grid, block, args, shared, cudart_per_thread(stream));
}

CUDART_API cudaError_t cudaLaunchKernel(const void *host, dim3 grid, dim3 block, void **args, size_t shared,
					cudaStream_t stream)
{
	struct launch launch = {grid, block, shared, stream};
	CUfunction function;

	CUDART_TRY(cudart_launchable(host, &function));
	return cudart_launch(function, &launch, args, NULL);
}

CUDART_API cudaError_t cudaLaunchKernel_ptsz(const void *host, dim3 grid, dim3 block, void **args, size_t shared,
					     cudaStream_t stream)
{
	return cudaLaunchKernel(host, grid, block, args, shared, cudart_per_thread(stream));
}

CUDART_API cudaError_t cudaLaunchCooperativeKernel(const void *host, dim3 grid, dim3 block, void **args, size_t shared,
						   cudaStream_t stream)
{
	CUfunction function;

	CUDART_TRY(cudart_enter());
	CUDART_TRY(cudart_launchable(host, &function));
	if (shared > UINT_MAX)
		return cudart_record(cudaErrorInvalidValue);
	return cudart_result(cuLaunchCooperativeKernel(function, grid.x, grid.y, grid.z, block.x, block.y, block.z,
						       (unsigned int)shared, stream, args));
}

CUDART_API cudaError_t cudaLaunchCooperativeKernel_ptsz(const void *host, dim3 grid, dim3 block, void **args,
							size_t shared, cudaStream_t stream)
{
	return cudaLaunchCooperativeKernel(host, grid, block, args, shared, cudart_per_thread(stream));
}

cudaError_t cudart_launch_config(const cudaLaunchConfig_t *config, CUlaunchConfig *driver)
{
	_Static_assert(sizeof(CUlaunchAttribute) == sizeof(cudaLaunchAttribute), "the two APIs share their attributes");
	if (!config || config->dynamicSmemBytes > UINT_MAX)
		return cudaErrorInvalidValue;
	*driver = (CUlaunchConfig){
		.gridDimX = config->gridDim.x,
		.gridDimY = config->gridDim.y,
		.gridDimZ = config->gridDim.z,
		.blockDimX = config->blockDim.x,
		.blockDimY = config->blockDim.y,
		.blockDimZ = config->blockDim.z,
		.sharedMemBytes = (unsigned int)config->dynamicSmemBytes,
		.hStream = config->stream,
		.attrs = (CUlaunchAttribute *)config->attrs,
		.numAttrs = config->numAttrs,
	};
	return cudaSuccess;
}

static cudaError_t launch_ex(const cudaLaunchConfig_t *config, bool per_thread, const void *host, void **args)
{
	CUlaunchConfig driver;
	CUfunction function;

	CUDART_TRY(cudart_launch_config(config, &driver));
	CUDART_TRY(cudart_enter());
	CUDART_TRY(cudart_launchable(host, &function));
	if (per_thread)
		driver.hStream = cudart_per_thread(driver.hStream);
	return cudart_result(cuLaunchKernelEx(&driver, function, args, NULL));
}

CUDART_API cudaError_t cudaLaunchKernelExC(const cudaLaunchConfig_t *config, const void *host, void **args)
{
	return launch_ex(config, false, host, args);
}

CUDART_API cudaError_t cudaLaunchKernelExC_ptsz(const cudaLaunchConfig_t *config, const void *host, void **args)
{
	return launch_ex(config, true, host, args);
}
