/* SPDX-License-Identifier: Apache-2.0 */
/* Properties of devices: attributes, the CUDA 13 property structure, and choosing a device by it. */
#include <string.h>

#include "properties.h"

#define MEMBER(member, attribute)                                                                                      \
	{offsetof(struct cudaDeviceProp, member), sizeof(((struct cudaDeviceProp *)0)->member),                        \
	 CU_DEVICE_ATTRIBUTE_##attribute},

/* clang-format off */
static const struct property_source sources[] = {
	SHARED_MEMBERS(MEMBER)
	MEMBER(deviceNumaConfig, NUMA_CONFIG)
	MEMBER(deviceNumaId, NUMA_ID)
	MEMBER(mpsEnabled, MPS_ENABLED)
	MEMBER(hostNumaId, HOST_NUMA_ID)
	MEMBER(gpuPciDeviceID, GPU_PCI_DEVICE_ID)
	MEMBER(gpuPciSubsystemID, GPU_PCI_SUBSYSTEM_ID)
	MEMBER(hostNumaMultinodeIpcSupported, HOST_NUMA_MULTINODE_IPC_SUPPORTED)
};
/* clang-format on */

const struct property_layout cudart_properties_13 = {
	offsetof(struct cudaDeviceProp, name),
	offsetof(struct cudaDeviceProp, uuid),
	offsetof(struct cudaDeviceProp, totalGlobalMem),
	sizeof(sources) / sizeof(*sources),
	sources,
};

cudaError_t cudart_read_properties(const struct property_layout *layout, void *prop, CUdevice device)
{
	char *base = prop;
	CUresult result;

	result = cuDeviceGetName(base + layout->name, sizeof(((struct cudaDeviceProp *)0)->name), device);
	if (!result)
		result = cuDeviceGetUuid_v2((CUuuid *)(void *)(base + layout->uuid), device);
	if (!result)
		result = cuDeviceTotalMem_v2((size_t *)(void *)(base + layout->memory), device);
	for (size_t i = 0; i < layout->count && !result; i++) {
		const struct property_source *source = &layout->sources[i];
		char *member = base + source->offset;
		int value = 0;

		result = cuDeviceGetAttribute(&value, (CUdevice_attribute)source->attribute, device);
		/* A driver older than the structure does not know its last members. */
		if (result == CUDA_ERROR_INVALID_VALUE || result == CUDA_ERROR_NOT_SUPPORTED)
			result = CUDA_SUCCESS;
		if (source->size == sizeof(size_t))
			*(size_t *)(void *)member = (size_t)value;
		else
			*(int *)(void *)member = value;
	}
	return (cudaError_t)result;
}

static cudaError_t read_properties(struct cudaDeviceProp *prop, CUdevice device)
{
	memset(prop, 0, sizeof(*prop));
	return cudart_read_properties(&cudart_properties_13, prop, device);
}

CUDART_API cudaError_t cudaGetDeviceProperties(struct cudaDeviceProp *prop, int device)
{
	if (!prop)
		return cudart_record(cudaErrorInvalidValue);
	CUDART_TRY(cudart_check_device(device));
	return cudart_record(read_properties(prop, device));
}

CUDART_API cudaError_t cudaDeviceGetAttribute(int *value, enum cudaDeviceAttr attribute, int device)
{
	if (!value)
		return cudart_record(cudaErrorInvalidValue);
	CUDART_TRY(cudart_check_device(device));
	return cudart_result(cuDeviceGetAttribute(value, (CUdevice_attribute)attribute, device));
}

/* The number of the most frequent wishes of callers (zero: no wish) that a device grants. */
static int score(const struct cudaDeviceProp *want, const struct cudaDeviceProp *have)
{
	int version = want->major * 100 + want->minor;

	return (!want->name[0] || !strcmp(want->name, have->name)) + (version <= have->major * 100 + have->minor) +
	       (want->totalGlobalMem <= have->totalGlobalMem) + (want->sharedMemPerBlock <= have->sharedMemPerBlock) +
	       (want->maxThreadsPerBlock <= have->maxThreadsPerBlock) +
	       (want->multiProcessorCount <= have->multiProcessorCount) +
	       (want->canMapHostMemory <= have->canMapHostMemory) +
	       (want->concurrentKernels <= have->concurrentKernels) + (want->managedMemory <= have->managedMemory) +
	       (want->cooperativeLaunch <= have->cooperativeLaunch);
}

cudaError_t cudart_choose_device(int *device, const struct cudaDeviceProp *want)
{
	int count, best = -1;
	cudaError_t error = cudart_init();

	if (!error)
		error = (cudaError_t)cuDeviceGetCount(&count);
	if (error)
		return error;
	for (int i = 0; i < count; i++) {
		struct cudaDeviceProp have;
		int points;

		error = read_properties(&have, i);
		if (error)
			return error;
		points = score(want, &have);
		if (points > best) {
			best = points;
			*device = i;
		}
	}
	return cudaSuccess;
}

CUDART_API cudaError_t cudaChooseDevice(int *device, const struct cudaDeviceProp *want)
{
	if (!device || !want)
		return cudart_record(cudaErrorInvalidValue);
	return cudart_record(cudart_choose_device(device, want));
}
