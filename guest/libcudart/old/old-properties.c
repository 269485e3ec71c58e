/* SPDX-License-Identifier: Apache-2.0 */
/* The property structures of CUDA 9 to 12. */
#include <string.h>

#include "properties.h"
#include "runtime.h"

/* CUDA 12's. */
struct properties_12 {
	char name[256];
	cudaUUID_t uuid;
	char luid[8];
	unsigned int luidDeviceNodeMask;
	size_t totalGlobalMem;
	size_t sharedMemPerBlock;
	int regsPerBlock;
	int warpSize;
	size_t memPitch;
	int maxThreadsPerBlock;
	int maxThreadsDim[3];
	int maxGridSize[3];
	int clockRate;
	size_t totalConstMem;
	int major;
	int minor;
	size_t textureAlignment;
	size_t texturePitchAlignment;
	int deviceOverlap;
	int multiProcessorCount;
	int kernelExecTimeoutEnabled;
	int integrated;
	int canMapHostMemory;
	int computeMode;
	int maxTexture1D;
	int maxTexture1DMipmap;
	int maxTexture1DLinear;
	int maxTexture2D[2];
	int maxTexture2DMipmap[2];
	int maxTexture2DLinear[3];
	int maxTexture2DGather[2];
	int maxTexture3D[3];
	int maxTexture3DAlt[3];
	int maxTextureCubemap;
	int maxTexture1DLayered[2];
	int maxTexture2DLayered[3];
	int maxTextureCubemapLayered[2];
	int maxSurface1D;
	int maxSurface2D[2];
	int maxSurface3D[3];
	int maxSurface1DLayered[2];
	int maxSurface2DLayered[3];
	int maxSurfaceCubemap;
	int maxSurfaceCubemapLayered[2];
	size_t surfaceAlignment;
	int concurrentKernels;
	int ECCEnabled;
	int pciBusID;
	int pciDeviceID;
	int pciDomainID;
	int tccDriver;
	int asyncEngineCount;
	int unifiedAddressing;
	int memoryClockRate;
	int memoryBusWidth;
	int l2CacheSize;
	int persistingL2CacheMaxSize;
	int maxThreadsPerMultiProcessor;
	int streamPrioritiesSupported;
	int globalL1CacheSupported;
	int localL1CacheSupported;
	size_t sharedMemPerMultiprocessor;
	int regsPerMultiprocessor;
	int managedMemory;
	int isMultiGpuBoard;
	int multiGpuBoardGroupID;
	int hostNativeAtomicSupported;
	int singleToDoublePrecisionPerfRatio;
	int pageableMemoryAccess;
	int concurrentManagedAccess;
	int computePreemptionSupported;
	int canUseHostPointerForRegisteredMem;
	int cooperativeLaunch;
	int cooperativeMultiDeviceLaunch;
	size_t sharedMemPerBlockOptin;
	int pageableMemoryAccessUsesHostPageTables;
	int directManagedMemAccessFromHost;
	int maxBlocksPerMultiProcessor;
	int accessPolicyMaxWindowSize;
	size_t reservedSharedMemPerBlock;
	int hostRegisterSupported;
	int sparseCudaArraySupported;
	int hostRegisterReadOnlySupported;
	int timelineSemaphoreInteropSupported;
	int memoryPoolsSupported;
	int gpuDirectRDMASupported;
	unsigned int gpuDirectRDMAFlushWritesOptions;
	int gpuDirectRDMAWritesOrdering;
	unsigned int memoryPoolSupportedHandleTypes;
	int deferredMappingCudaArraySupported;
	int ipcEventSupported;
	int clusterLaunch;
	int unifiedFunctionPointers;
	int reserved[63];
};

#define AT(member) offsetof(struct properties_12, member)
#define MEMBER(member, attribute)                                                                                      \
	{AT(member), sizeof(((struct properties_12 *)0)->member), CU_DEVICE_ATTRIBUTE_##attribute},

/* clang-format off */
static const struct property_source sources[] = {
	SHARED_MEMBERS(MEMBER)
	/* CUDA 13 has dropped these. */
	MEMBER(clockRate, CLOCK_RATE)
	MEMBER(deviceOverlap, GPU_OVERLAP)
	MEMBER(kernelExecTimeoutEnabled, KERNEL_EXEC_TIMEOUT)
	MEMBER(computeMode, COMPUTE_MODE)
	MEMBER(maxTexture1DLinear, MAXIMUM_TEXTURE1D_LINEAR_WIDTH)
	MEMBER(memoryClockRate, MEMORY_CLOCK_RATE)
	MEMBER(singleToDoublePrecisionPerfRatio, SINGLE_TO_DOUBLE_PRECISION_PERF_RATIO)
	MEMBER(cooperativeMultiDeviceLaunch, COOPERATIVE_MULTI_DEVICE_LAUNCH)
};
/* clang-format on */

static const struct property_layout layout_12 = {
	AT(name), AT(uuid), AT(totalGlobalMem), sizeof(sources) / sizeof(*sources), sources,
};

/* An older structure: its size, and where it has which run of bytes. */
struct shape {
	uint16_t bytes;
	struct {
		uint16_t here, there, bytes;
	} pieces[4];
};

#define UP_TO(member) (AT(member) + sizeof(((struct properties_12 *)0)->member))
#define BYTES_OF_11 AT(hostRegisterSupported)
#define BYTES_OF_10 UP_TO(directManagedMemAccessFromHost)
#define LUID (AT(totalGlobalMem) - AT(uuid)) /* bytes of the members that CUDA 10 put in after the name */

/* The members between persistingL2CacheMaxSize, which came with CUDA 11, and the next one of eight bytes move. */
#define FROM_L2(luid)                                                                                                  \
	{                                                                                                              \
		AT(maxThreadsPerMultiProcessor), AT(persistingL2CacheMaxSize) - (luid),                                \
			UP_TO(localL1CacheSupported) - AT(maxThreadsPerMultiProcessor)                                 \
	}
#define FROM_SHARED(luid, end)                                                                                         \
	{                                                                                                              \
		AT(sharedMemPerMultiprocessor), AT(sharedMemPerMultiprocessor) - (luid),                               \
			(end)-AT(sharedMemPerMultiprocessor)                                                           \
	}

static const struct shape shape_12 = {sizeof(struct properties_12), {{0, 0, sizeof(struct properties_12)}}};
static const struct shape shape_11 = {BYTES_OF_11, {{0, 0, BYTES_OF_11}}};
static const struct shape shape_10 = {BYTES_OF_10,
				      {{0, 0, AT(persistingL2CacheMaxSize)}, FROM_L2(0), FROM_SHARED(0, BYTES_OF_10)}};
static const struct shape shape_9 = {UP_TO(sharedMemPerBlockOptin) - LUID,
				     {{0, 0, AT(uuid)},
				      {AT(totalGlobalMem), AT(uuid), AT(persistingL2CacheMaxSize) - AT(totalGlobalMem)},
				      FROM_L2(LUID),
				      FROM_SHARED(LUID, UP_TO(sharedMemPerBlockOptin))}};

/* Sizes as NVIDIA's libraries write them. */
_Static_assert(sizeof(struct properties_12) == 1032 && BYTES_OF_11 == 728 && BYTES_OF_10 == 712,
	       "the layouts of 10 to 12");
_Static_assert(UP_TO(sharedMemPerBlockOptin) - LUID == 672, "the layout of 9");

static cudaError_t read_as(void *prop, int device, const struct shape *shape)
{
	struct properties_12 all;
	cudaError_t error;

	if (!prop)
		return cudaErrorInvalidValue;
	error = cudart_check_device(device);
	if (error)
		return error;
	memset(&all, 0, sizeof(all));
	error = cudart_read_properties(&layout_12, &all, device);
	if (error)
		return error;
	memset(prop, 0, shape->bytes);
	for (int i = 0; i < 4; i++)
		memcpy((char *)prop + shape->pieces[i].there, (char *)&all + shape->pieces[i].here,
		       shape->pieces[i].bytes);
	return cudaSuccess;
}

static cudaError_t choose_as(int *device, const void *prop, const struct shape *shape)
{
	struct properties_12 all;
	struct cudaDeviceProp want;

	if (!device || !prop)
		return cudaErrorInvalidValue;
	memset(&all, 0, sizeof(all));
	memset(&want, 0, sizeof(want));
	for (int i = 0; i < 4; i++)
		memcpy((char *)&all + shape->pieces[i].here, (const char *)prop + shape->pieces[i].there,
		       shape->pieces[i].bytes);
	memcpy(want.name, all.name, sizeof(want.name));
	want.major = all.major;
	want.minor = all.minor;
	want.totalGlobalMem = all.totalGlobalMem;
	want.sharedMemPerBlock = all.sharedMemPerBlock;
	want.maxThreadsPerBlock = all.maxThreadsPerBlock;
	want.multiProcessorCount = all.multiProcessorCount;
	want.canMapHostMemory = all.canMapHostMemory;
	want.concurrentKernels = all.concurrentKernels;
	want.managedMemory = all.managedMemory;
	want.cooperativeLaunch = all.cooperativeLaunch;
	return cudart_choose_device(device, &want);
}

CUDART_API cudaError_t cudaGetDeviceProperties_v2(void *prop, int device)
{
	return cudart_record(read_as(prop, device, &shape_12));
}

CUDART_API cudaError_t cudaGetDeviceProperties_11(void *prop, int device)
{
	return cudart_record(read_as(prop, device, &shape_11));
}

CUDART_API cudaError_t cudaGetDeviceProperties_10(void *prop, int device)
{
	return cudart_record(read_as(prop, device, &shape_10));
}

CUDART_API cudaError_t cudaGetDeviceProperties_9(void *prop, int device)
{
	return cudart_record(read_as(prop, device, &shape_9));
}

/* CUDA 11 and 12 share the part of the structure that the choice depends on. */
CUDART_API cudaError_t cudaChooseDevice_12(int *device, const void *prop)
{
	return cudart_record(choose_as(device, prop, &shape_11));
}

CUDART_API cudaError_t cudaChooseDevice_10(int *device, const void *prop)
{
	return cudart_record(choose_as(device, prop, &shape_10));
}

CUDART_API cudaError_t cudaChooseDevice_9(int *device, const void *prop)
{
	return cudart_record(choose_as(device, prop, &shape_9));
}
