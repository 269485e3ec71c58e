/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the device says of itself. Limits of launches are those of a present GPU, because programs expect them and they
 * cost nothing here. What this back end does not do is 0: textures and surfaces, virtual memory management, cooperative launches, clusters, stream memory operations, sharing between processes.
 */
#include "attributes.h"

#include "device.h"

#define A(name) CU_DEVICE_ATTRIBUTE_##name

static const int values[CU_DEVICE_ATTRIBUTE_MAX] = {
	[A(MAX_THREADS_PER_BLOCK)] = CPU_MAX_THREADS_PER_BLOCK,
	[A(MAX_BLOCK_DIM_X)] = CPU_MAX_THREADS_PER_BLOCK,
	[A(MAX_BLOCK_DIM_Y)] = CPU_MAX_THREADS_PER_BLOCK,
	[A(MAX_BLOCK_DIM_Z)] = CPU_MAX_BLOCK_Z,
	[A(MAX_GRID_DIM_X)] = CPU_MAX_GRID_X,
	[A(MAX_GRID_DIM_Y)] = CPU_MAX_GRID_YZ,
	[A(MAX_GRID_DIM_Z)] = CPU_MAX_GRID_YZ,
	[A(MAX_SHARED_MEMORY_PER_BLOCK)] = CPU_SHARED_PER_BLOCK,
	[A(TOTAL_CONSTANT_MEMORY)] = 65536,
	[A(WARP_SIZE)] = CPU_WARP,
	[A(MAX_PITCH)] = CPU_MAX_PITCH,
	[A(MAX_REGISTERS_PER_BLOCK)] = CPU_REGISTERS,
	[A(TEXTURE_ALIGNMENT)] = 512,
	[A(GPU_OVERLAP)] = 1,
	[A(CAN_MAP_HOST_MEMORY)] = 1,
	[A(SURFACE_ALIGNMENT)] = 512,
	[A(CONCURRENT_KERNELS)] = 1,
	[A(MAX_THREADS_PER_MULTIPROCESSOR)] = CPU_THREADS_PER_SM,
	[A(ASYNC_ENGINE_COUNT)] = 2,
	[A(UNIFIED_ADDRESSING)] = 1,
	[A(TEXTURE_PITCH_ALIGNMENT)] = 32,
	[A(STREAM_PRIORITIES_SUPPORTED)] = 1,
	[A(GLOBAL_L1_CACHE_SUPPORTED)] = 1,
	[A(LOCAL_L1_CACHE_SUPPORTED)] = 1,
	[A(MAX_SHARED_MEMORY_PER_MULTIPROCESSOR)] = CPU_SHARED_PER_SM,
	[A(MAX_REGISTERS_PER_MULTIPROCESSOR)] = CPU_REGISTERS,
	[A(HOST_NATIVE_ATOMIC_SUPPORTED)] = 1,
	[A(SINGLE_TO_DOUBLE_PRECISION_PERF_RATIO)] = 2,
	[A(COMPUTE_PREEMPTION_SUPPORTED)] = 1,
	[A(CAN_USE_HOST_POINTER_FOR_REGISTERED_MEM)] = 1,
	[A(MAX_SHARED_MEMORY_PER_BLOCK_OPTIN)] = CPU_SHARED_PER_BLOCK_OPTIN,
	[A(HOST_REGISTER_SUPPORTED)] = 1,
	[A(MAX_BLOCKS_PER_MULTIPROCESSOR)] = CPU_BLOCKS_PER_SM,
	[A(RESERVED_SHARED_MEMORY_PER_BLOCK)] = CPU_SHARED_RESERVED,
	[A(MEMORY_POOLS_SUPPORTED)] = 1,
	[A(READ_ONLY_HOST_REGISTER_SUPPORTED)] = 1,
	[A(MEM_SYNC_DOMAIN_COUNT)] = 1,
	[A(NUMA_ID)] = -1,
	[A(HOST_NUMA_ID)] = -1,
};

CUresult cpu_attribute(CUdevice_attribute attribute, int *value)
{
	if ((int)attribute <= 0 || attribute >= CU_DEVICE_ATTRIBUTE_MAX)
		return CUDA_ERROR_INVALID_VALUE;
	switch (attribute) {
	case A(MULTIPROCESSOR_COUNT):
		*value = (int)cpu_device()->threads;
		break;
	case A(COMPUTE_CAPABILITY_MAJOR):
		*value = cpu_device()->major;
		break;
	case A(COMPUTE_CAPABILITY_MINOR):
		*value = cpu_device()->minor;
		break;
	case A(CLOCK_RATE):
		*value = cpu_device()->clock_khz;
		break;
	case A(L2_CACHE_SIZE):
		*value = cpu_device()->cache_bytes;
		break;
	default:
		*value = values[attribute];
	}
	return CUDA_SUCCESS;
}
