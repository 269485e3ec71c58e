/* SPDX-License-Identifier: Apache-2.0 */
/* Memory and kernels: calls of CUDA 9 to 12 with other structures or parameters. */
#include <string.h>

#include "runtime.h"
#include "version.h"

/* ---- where memory is: until CUDA 12 a device's ordinal, or cudaCpuDeviceId ---- */

CUDART_API cudaError_t cudaMemAdvise_v2(const void *address, size_t bytes, enum cudaMemoryAdvise advice,
					struct cudaMemLocation location);
CUDART_API cudaError_t cudaMemPrefetchAsync_v2(const void *address, size_t bytes, struct cudaMemLocation location,
					       unsigned int flags, cudaStream_t stream);

static struct cudaMemLocation location_of(int device)
{
	if (device == cudaCpuDeviceId)
		return (struct cudaMemLocation){cudaMemLocationTypeHost, 0};
	return (struct cudaMemLocation){cudaMemLocationTypeDevice, device};
}

CUDART_API cudaError_t cudaMemAdvise_12(const void *address, size_t bytes, enum cudaMemoryAdvise advice, int device)
{
	return cudaMemAdvise_v2(address, bytes, advice, location_of(device));
}

CUDART_API cudaError_t cudaMemPrefetchAsync_12(const void *address, size_t bytes, int device, cudaStream_t stream)
{
	return cudaMemPrefetchAsync_v2(address, bytes, location_of(device), 0, stream);
}

CUDART_API cudaError_t cudaMemPrefetchAsync_12_ptsz(const void *address, size_t bytes, int device, cudaStream_t stream)
{
	return cudaMemPrefetchAsync_12(address, bytes, device, cudart_per_thread(stream));
}

/* ---- what a pointer points to ---- */

struct pointer_attributes_9 {
	enum cudaMemoryType memoryType;
	int device;
	void *devicePointer;
	void *hostPointer;
	int isManaged;
};

struct pointer_attributes_10 {
	enum cudaMemoryType memoryType; /* managed memory is the device's in this one */
	enum cudaMemoryType type;
	int device;
	void *devicePointer;
	void *hostPointer;
	int isManaged;
};

_Static_assert(sizeof(struct pointer_attributes_9) == 32 && sizeof(struct pointer_attributes_10) == 40, "as they were");

/* CUDA 11 and 12 have the members of today's without what is reserved. */
CUDART_API cudaError_t cudaPointerGetAttributes_12(void *attributes, const void *pointer)
{
	struct cudaPointerAttributes now;

	if (!attributes)
		return cudart_record(cudaErrorInvalidValue);
	CUDART_TRY(cudart_pointer_attributes(&now, pointer));
	memcpy(attributes, &now, offsetof(struct cudaPointerAttributes, reserved));
	return cudaSuccess;
}

/* Memory that CUDA does not know was an error: `now` is then all zero but for the device. */
static cudaError_t attributes_before_11(struct cudaPointerAttributes *now, const void *pointer)
{
	cudaError_t error = cudart_pointer_attributes(now, pointer);

	if (error || now->type != cudaMemoryTypeUnregistered)
		return error;
	*now = (struct cudaPointerAttributes){.device = -1};
	return cudaErrorInvalidValue;
}

static enum cudaMemoryType without_managed(enum cudaMemoryType type)
{
	return type == cudaMemoryTypeManaged ? cudaMemoryTypeDevice : type;
}

CUDART_API cudaError_t cudaPointerGetAttributes_10(struct pointer_attributes_10 *attributes, const void *pointer)
{
	struct cudaPointerAttributes now = {0};
	cudaError_t error;

	if (!attributes)
		return cudart_record(cudaErrorInvalidValue);
	error = attributes_before_11(&now, pointer);
	*attributes = (struct pointer_attributes_10){
		without_managed(now.type), now.type,        now.device,
		now.devicePointer,         now.hostPointer, now.type == cudaMemoryTypeManaged};
	return cudart_record(error);
}

CUDART_API cudaError_t cudaPointerGetAttributes_9(struct pointer_attributes_9 *attributes, const void *pointer)
{
	struct cudaPointerAttributes now = {0};
	cudaError_t error;

	if (!attributes)
		return cudart_record(cudaErrorInvalidValue);
	error = attributes_before_11(&now, pointer);
	*attributes = (struct pointer_attributes_9){without_managed(now.type), now.device, now.devicePointer,
						    now.hostPointer, now.type == cudaMemoryTypeManaged};
	return cudart_record(error);
}

/* ---- kernels ---- */

/* Without clusters. */
CUDART_API cudaError_t cudaFuncGetAttributes_11(void *attributes, const void *host)
{
	struct cudaFuncAttributes now;

	/* The last of the 56 bytes are padding. */
	_Static_assert(offsetof(struct cudaFuncAttributes, clusterDimMustBeSet) == 52, "the members of CUDA 9 to 11");
	if (!attributes)
		return cudart_record(cudaErrorInvalidValue);
	CUDART_TRY(cudart_function_attributes(&now, host));
	memcpy(attributes, &now, offsetof(struct cudaFuncAttributes, clusterDimMustBeSet));
	return cudaSuccess;
}

/* Converted doubles for devices that had none. Those are gone: there is nothing to do. */
CUDART_API cudaError_t cudaSetDoubleForDevice(double *value)
{
	return value ? cudaSuccess : cudart_record(cudaErrorInvalidValue);
}

CUDART_API cudaError_t cudaSetDoubleForHost(double *value)
{
	return value ? cudaSuccess : cudart_record(cudaErrorInvalidValue);
}

/* ---- driver functions: without a status, and one that is missing is an error ---- */

CUDART_API cudaError_t cudaGetDriverEntryPoint_11(const char *symbol, void **function, unsigned long long flags)
{
	return cudart_driver_function(symbol, function, (unsigned int)cudart_version,
				      flags == cudaEnableDefault ? cudaEnableLegacyStream : flags, NULL);
}

CUDART_API cudaError_t cudaGetDriverEntryPoint_11_ptsz(const char *symbol, void **function, unsigned long long flags)
{
	return cudart_driver_function(symbol, function, (unsigned int)cudart_version,
				      flags == cudaEnableDefault ? cudaEnablePerThreadDefaultStream : flags, NULL);
}
