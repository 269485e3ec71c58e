/* SPDX-License-Identifier: Apache-2.0 */
/* Choosing and managing devices. Their properties are in properties.c. */
#include "runtime.h"

/* A flag that every context has had for long; programs still test for it. */
#define ALWAYS_SET cudaDeviceMapHost

CUDART_API cudaError_t cudaGetDeviceCount(int *count)
{
	cudaError_t error;

	if (!count)
		return cudart_record(cudaErrorInvalidValue);
	*count = 0;
	error = cudart_init();
	if (!error)
		error = (cudaError_t)cuDeviceGetCount(count);
	return cudart_record(error);
}

CUDART_API cudaError_t cudaSetDevice(int device)
{
	return cudart_record(cudart_set_thread_device(device));
}

CUDART_API cudaError_t cudaGetDevice(int *device)
{
	if (!device)
		return cudart_record(cudaErrorInvalidValue);
	return cudart_record(cudart_current_device(device));
}

CUDART_API cudaError_t cudaSetValidDevices(int *devices, int count)
{
	return cudart_record(cudart_set_valid_devices(devices, count));
}

CUDART_API cudaError_t cudaInitDevice(int device, unsigned int device_flags, unsigned int flags)
{
	CUcontext context;

	CUDART_TRY(cudart_check_device(device));
	if (flags & cudaInitDeviceFlagsAreValid)
		CUDART_TRY(
			(cudaError_t)cuDevicePrimaryCtxSetFlags_v2(device, device_flags & ~(unsigned int)ALWAYS_SET));
	return cudart_record(cudart_primary(device, &context));
}

CUDART_API cudaError_t cudaSetDeviceFlags(unsigned int flags)
{
	CUdevice device;

	if (flags & ~(unsigned int)cudaDeviceMask)
		return cudart_record(cudaErrorInvalidValue);
	CUDART_TRY(cudart_current_device(&device));
	return cudart_result(cuDevicePrimaryCtxSetFlags_v2(device, flags & ~(unsigned int)ALWAYS_SET));
}

CUDART_API cudaError_t cudaGetDeviceFlags(unsigned int *flags)
{
	CUcontext context = NULL;
	CUdevice device;
	int active;

	if (!flags)
		return cudart_record(cudaErrorInvalidValue);
	CUDART_TRY(cudart_current_device(&device));
	if (!cuCtxGetCurrent(&context) && context)
		CUDART_TRY((cudaError_t)cuCtxGetFlags(flags));
	else
		CUDART_TRY((cudaError_t)cuDevicePrimaryCtxGetState(device, flags, &active));
	*flags |= ALWAYS_SET;
	return cudaSuccess;
}

CUDART_API cudaError_t cudaDeviceReset(void)
{
	CUDART_TRY(cudart_init());
	return cudart_record(cudart_reset());
}

CUDART_API cudaError_t cudaDeviceGetPCIBusId(char *id, int length, int device)
{
	if (!id || length <= 0)
		return cudart_record(cudaErrorInvalidValue);
	CUDART_TRY(cudart_check_device(device));
	return cudart_result(cuDeviceGetPCIBusId(id, length, device));
}

CUDART_API cudaError_t cudaDeviceGetByPCIBusId(int *device, const char *id)
{
	if (!device || !id)
		return cudart_record(cudaErrorInvalidValue);
	CUDART_TRY(cudart_init());
	return cudart_result(cuDeviceGetByPCIBusId(device, id));
}

CUDART_API cudaError_t cudaDeviceCanAccessPeer(int *can, int device, int peer)
{
	if (!can)
		return cudart_record(cudaErrorInvalidValue);
	CUDART_TRY(cudart_check_device(device));
	CUDART_TRY(cudart_check_device(peer));
	return cudart_result(cuDeviceCanAccessPeer(can, device, peer));
}

CUDART_API cudaError_t cudaDeviceGetP2PAttribute(int *value, enum cudaDeviceP2PAttr attribute, int source,
						 int destination)
{
	if (!value)
		return cudart_record(cudaErrorInvalidValue);
	CUDART_TRY(cudart_check_device(source));
	CUDART_TRY(cudart_check_device(destination));
	return cudart_result(cuDeviceGetP2PAttribute(value, (CUdevice_P2PAttribute)attribute, source, destination));
}

CUDART_API cudaError_t cudaDeviceEnablePeerAccess(int peer, unsigned int flags)
{
	CUcontext context;

	CUDART_TRY(cudart_enter());
	CUDART_TRY(cudart_primary(peer, &context));
	return cudart_result(cuCtxEnablePeerAccess(context, flags));
}

CUDART_API cudaError_t cudaDeviceDisablePeerAccess(int peer)
{
	CUcontext context;

	CUDART_TRY(cudart_enter());
	CUDART_TRY(cudart_primary(peer, &context));
	return cudart_result(cuCtxDisablePeerAccess(context));
}
