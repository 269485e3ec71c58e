/* SPDX-License-Identifier: Apache-2.0 */
/* Queries about kernels: attributes, names, parameters, occupancy. */
#include <string.h>

#include "launch.h"
#include "register.h"

/* A kernel and the device that its attributes are asked for. */
static cudaError_t find(const void *host, CUkernel *kernel, CUdevice *device)
{
	cudaError_t error = cudart_enter();

	if (!error)
		error = cudart_current_device(device);
	if (!error)
		error = cudart_kernel_or_handle(host, kernel, NULL);
	return error;
}

static cudaError_t get(int *value, CUfunction_attribute attribute, CUkernel kernel, CUdevice device)
{
	return (cudaError_t)cuKernelGetAttribute(value, attribute, kernel, device);
}

cudaError_t cudart_function_attributes(struct cudaFuncAttributes *attributes, const void *host)
{
	int values[CU_FUNC_ATTRIBUTE_MAX] = {0};
	CUkernel kernel;
	CUdevice device;
	cudaError_t error = find(host, &kernel, &device);

	for (int i = 0; i < CU_FUNC_ATTRIBUTE_MAX && !error; i++)
		error = get(&values[i], (CUfunction_attribute)i, kernel, device);
	if (error)
		return error;
	memset(attributes, 0, sizeof(*attributes));
	attributes->maxThreadsPerBlock = values[CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK];
	attributes->sharedSizeBytes = (size_t)values[CU_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES];
	attributes->constSizeBytes = (size_t)values[CU_FUNC_ATTRIBUTE_CONST_SIZE_BYTES];
	attributes->localSizeBytes = (size_t)values[CU_FUNC_ATTRIBUTE_LOCAL_SIZE_BYTES];
	attributes->numRegs = values[CU_FUNC_ATTRIBUTE_NUM_REGS];
	attributes->ptxVersion = values[CU_FUNC_ATTRIBUTE_PTX_VERSION];
	attributes->binaryVersion = values[CU_FUNC_ATTRIBUTE_BINARY_VERSION];
	attributes->cacheModeCA = values[CU_FUNC_ATTRIBUTE_CACHE_MODE_CA];
	attributes->maxDynamicSharedSizeBytes = values[CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES];
	attributes->preferredShmemCarveout = values[CU_FUNC_ATTRIBUTE_PREFERRED_SHARED_MEMORY_CARVEOUT];
	attributes->clusterDimMustBeSet = values[CU_FUNC_ATTRIBUTE_CLUSTER_SIZE_MUST_BE_SET];
	attributes->requiredClusterWidth = values[CU_FUNC_ATTRIBUTE_REQUIRED_CLUSTER_WIDTH];
	attributes->requiredClusterHeight = values[CU_FUNC_ATTRIBUTE_REQUIRED_CLUSTER_HEIGHT];
	attributes->requiredClusterDepth = values[CU_FUNC_ATTRIBUTE_REQUIRED_CLUSTER_DEPTH];
	attributes->nonPortableClusterSizeAllowed = values[CU_FUNC_ATTRIBUTE_NON_PORTABLE_CLUSTER_SIZE_ALLOWED];
	attributes->clusterSchedulingPolicyPreference = values[CU_FUNC_ATTRIBUTE_CLUSTER_SCHEDULING_POLICY_PREFERENCE];
	return cudaSuccess;
}

CUDART_API cudaError_t cudaFuncGetAttributes(struct cudaFuncAttributes *attributes, const void *host)
{
	return cudart_record(attributes ? cudart_function_attributes(attributes, host) : cudaErrorInvalidValue);
}

CUDART_API cudaError_t cudaFuncSetAttribute(const void *host, enum cudaFuncAttribute attribute, int value)
{
	CUkernel kernel;
	CUdevice device;

	CUDART_TRY(find(host, &kernel, &device));
	return cudart_result(cuKernelSetAttribute((CUfunction_attribute)attribute, value, kernel, device));
}

CUDART_API cudaError_t cudaKernelSetAttributeForDevice(cudaKernel_t kernel, enum cudaFuncAttribute attribute, int value,
						       int device)
{
	CUDART_TRY(cudart_check_device(device));
	CUDART_TRY(cudart_enter());
	return cudart_result(cuKernelSetAttribute((CUfunction_attribute)attribute, value, kernel, device));
}

CUDART_API cudaError_t cudaFuncSetCacheConfig(const void *host, enum cudaFuncCache config)
{
	CUkernel kernel;
	CUdevice device;

	CUDART_TRY(find(host, &kernel, &device));
	return cudart_result(cuKernelSetCacheConfig(kernel, (CUfunc_cache)config, device));
}

static cudaError_t function_of(CUfunction *function, const void *host)
{
	CUkernel kernel;
	CUdevice device;
	cudaError_t error = find(host, &kernel, &device);

	return error ? error : (cudaError_t)cuKernelGetFunction(function, kernel);
}

CUDART_API cudaError_t cudaGetFuncBySymbol(cudaFunction_t *function, const void *host)
{
	if (!function)
		return cudart_record(cudaErrorInvalidValue);
	return cudart_record(function_of(function, host));
}

CUDART_API cudaError_t cudaFuncSetSharedMemConfig(const void *host, enum cudaSharedMemConfig config)
{
	CUfunction function;

	CUDART_TRY(function_of(&function, host));
	return cudart_result(cuFuncSetSharedMemConfig(function, (CUsharedconfig)config));
}

CUDART_API cudaError_t cudaFuncGetName(const char **name, const void *host)
{
	CUkernel kernel;
	CUdevice device;

	if (!name)
		return cudart_record(cudaErrorInvalidValue);
	*name = cudart_kernel_name(host);
	if (*name)
		return cudaSuccess;
	CUDART_TRY(find(host, &kernel, &device));
	return cudart_result(cuKernelGetName(name, kernel));
}

CUDART_API cudaError_t cudaFuncGetParamInfo(const void *host, size_t index, size_t *offset, size_t *size)
{
	CUkernel kernel;
	CUdevice device;

	CUDART_TRY(find(host, &kernel, &device));
	return cudart_result(cuKernelGetParamInfo(kernel, index, offset, size));
}

CUDART_API cudaError_t cudaOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(int *blocks, const void *host,
									      int block_size, size_t shared,
									      unsigned int flags)
{
	CUkernel kernel;
	CUdevice device;

	CUDART_TRY(find(host, &kernel, &device));
	return cudart_result(cuOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(blocks, (CUfunction)(void *)kernel,
										  block_size, shared, flags));
}

CUDART_API cudaError_t cudaOccupancyMaxActiveBlocksPerMultiprocessor(int *blocks, const void *host, int block_size,
								     size_t shared)
{
	return cudaOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(blocks, host, block_size, shared,
								      cudaOccupancyDefault);
}

CUDART_API cudaError_t cudaOccupancyAvailableDynamicSMemPerBlock(size_t *shared, const void *host, int blocks,
								 int block_size)
{
	CUkernel kernel;
	CUdevice device;

	CUDART_TRY(find(host, &kernel, &device));
	return cudart_result(
		cuOccupancyAvailableDynamicSMemPerBlock(shared, (CUfunction)(void *)kernel, blocks, block_size));
}

CUDART_API cudaError_t cudaOccupancyMaxActiveClusters(int *clusters, const void *host, const cudaLaunchConfig_t *config)
{
	CUlaunchConfig driver;
	CUkernel kernel;
	CUdevice device;

	CUDART_TRY(cudart_launch_config(config, &driver));
	CUDART_TRY(find(host, &kernel, &device));
	return cudart_result(cuOccupancyMaxActiveClusters(clusters, (CUfunction)(void *)kernel, &driver));
}

CUDART_API cudaError_t cudaOccupancyMaxPotentialClusterSize(int *size, const void *host,
							    const cudaLaunchConfig_t *config)
{
	CUlaunchConfig driver;
	CUkernel kernel;
	CUdevice device;

	CUDART_TRY(cudart_launch_config(config, &driver));
	CUDART_TRY(find(host, &kernel, &device));
	return cudart_result(cuOccupancyMaxPotentialClusterSize(size, (CUfunction)(void *)kernel, &driver));
}
