/* SPDX-License-Identifier: Apache-2.0 */
/* The driver's initialisation, the thread's device and the primary contexts that the runtime uses. */
#include <pthread.h>
#include <stdatomic.h>

#include "runtime.h"

#define DEVICE_MAX 64

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static atomic_bool initialised;
static int device_count;

static CUcontext retained[DEVICE_MAX]; /* under `lock` */
static atomic_uint resets;

static int valid_devices[DEVICE_MAX];
static int valid_count;

/* `context` is what the runtime last made current here; it may have been reset since by another thread if `resets` is
 * out of date. */
static _Thread_local struct {
	bool chosen;
	int device;
	CUcontext context;
	int context_device;
	unsigned int resets;
} thread;

static cudaError_t init_locked(void)
{
	CUresult result;
	int count = 0;

	if (atomic_load(&initialised))
		return cudaSuccess;
	result = cuInit(0);
	if (!result)
		result = cuDeviceGetCount(&count);
	if (result)
		return (cudaError_t)result;
	if (count == 0)
		return cudaErrorNoDevice;
	device_count = count < DEVICE_MAX ? count : DEVICE_MAX;
	atomic_store(&initialised, true);
	return cudaSuccess;
}

cudaError_t cudart_init(void)
{
	cudaError_t error;

	if (atomic_load_explicit(&initialised, memory_order_acquire))
		return cudaSuccess;
	pthread_mutex_lock(&lock);
	error = init_locked();
	pthread_mutex_unlock(&lock);
	return error;
}

cudaError_t cudart_check_device(int device)
{
	cudaError_t error = cudart_init();

	if (error)
		return error;
	return device >= 0 && device < device_count ? cudaSuccess : cudaErrorInvalidDevice;
}

int cudart_thread_device(void)
{
	int device;

	if (thread.chosen)
		return thread.device;
	pthread_mutex_lock(&lock);
	device = valid_count ? valid_devices[0] : 0;
	pthread_mutex_unlock(&lock);
	return device;
}

cudaError_t cudart_set_valid_devices(const int *devices, int count)
{
	cudaError_t error = cudart_init();

	if (error)
		return error;
	if (count < 0 || count > device_count || (count && !devices))
		return cudaErrorInvalidValue;
	for (int i = 0; i < count; i++) {
		error = cudart_check_device(devices[i]);
		if (error)
			return error;
	}
	pthread_mutex_lock(&lock);
	for (int i = 0; i < count; i++)
		valid_devices[i] = devices[i];
	valid_count = count;
	pthread_mutex_unlock(&lock);
	return cudaSuccess;
}

/* NVIDIA's runtime (13.0) has one error for all reasons why there is no primary context, but for a few. */
static cudaError_t primary_error(CUresult result)
{
	switch (result) {
	case CUDA_SUCCESS:
	case CUDA_ERROR_OUT_OF_MEMORY:
	case CUDA_ERROR_ECC_UNCORRECTABLE:
	case CUDA_ERROR_NOT_SUPPORTED:
		return (cudaError_t)result;
	default:
		return cudaErrorDevicesUnavailable;
	}
}

cudaError_t cudart_primary(int device, CUcontext *context)
{
	CUresult result = CUDA_SUCCESS;
	cudaError_t error = cudart_check_device(device);

	if (error)
		return error;
	pthread_mutex_lock(&lock);
	if (!retained[device]) {
		CUdevice handle;

		result = cuDeviceGet(&handle, device);
		if (!result)
			result = cuDevicePrimaryCtxRetain(&retained[device], handle);
	}
	*context = retained[device];
	pthread_mutex_unlock(&lock);
	return primary_error(result);
}

static cudaError_t use_primary(int device)
{
	unsigned int now = atomic_load(&resets);
	CUcontext context;
	cudaError_t error = cudart_primary(device, &context);

	if (!error)
		error = (cudaError_t)cuCtxSetCurrent(context);
	if (error)
		return error;
	thread.context = context;
	thread.context_device = device;
	thread.resets = now;
	return cudaSuccess;
}

cudaError_t cudart_set_thread_device(int device)
{
	cudaError_t error = use_primary(device);

	if (error)
		return error;
	thread.chosen = true;
	thread.device = device;
	return cudaSuccess;
}

cudaError_t cudart_enter(void)
{
	CUcontext context = NULL;
	cudaError_t error = cudart_init();

	if (!error)
		error = (cudaError_t)cuCtxGetCurrent(&context);
	if (error)
		return error;
	if (!context)
		return use_primary(cudart_thread_device());
	if (context == thread.context && thread.resets != atomic_load(&resets))
		return use_primary(thread.context_device);
	return cudaSuccess;
}

cudaError_t cudart_current_device(CUdevice *device)
{
	CUcontext context = NULL;
	cudaError_t error = cudart_init();

	if (error)
		return error;
	if (!cuCtxGetCurrent(&context) && context)
		return (cudaError_t)cuCtxGetDevice(device);
	return (cudaError_t)cuDeviceGet(device, cudart_thread_device());
}

/* Under `lock`. The program may have retained a primary context by itself. One that is not active is no context. */
static bool is_primary(CUcontext context, CUdevice device)
{
	CUcontext primary = retained[device];
	unsigned int flags;
	int active = 0;

	if (primary)
		return primary == context;
	if (cuDevicePrimaryCtxGetState(device, &flags, &active) || !active ||
	    cuDevicePrimaryCtxRetain(&primary, device))
		return false;
	cuDevicePrimaryCtxRelease_v2(device);
	return primary == context;
}

cudaError_t cudart_reset(void)
{
	CUcontext context = NULL;
	CUresult result = CUDA_SUCCESS;
	CUdevice device;

	if (cuCtxGetCurrent(&context) || !context || cuCtxGetDevice(&device) || device < 0 || device >= DEVICE_MAX)
		return cudaSuccess;
	pthread_mutex_lock(&lock);
	if (is_primary(context, device)) {
		result = cuDevicePrimaryCtxReset_v2(device);
		if (!result) {
			retained[device] = NULL;
			thread.context = context;
			thread.context_device = device;
			thread.resets = atomic_fetch_add(&resets, 1);
		}
	}
	pthread_mutex_unlock(&lock);
	return (cudaError_t)result;
}
