/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The common header of the runtime library. The library keeps little state of its own: the thread's device, last error
 * and launch configurations, the primary contexts it has retained, and the registry of device code (register.h).
 *
 * Nothing happens before the first call that needs the driver. All state is static and never destroyed: programs call
 * in from destructors that run after any of ours could. Any thread may call any function: what threads share has
 * locks, and the device, the last error and the launch configurations are the thread's own.
 */
#ifndef CUDART_RUNTIME_H
#define CUDART_RUNTIME_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "protocol/cuda-runtime-abi.h"
#include "protocol/cuda-functions.h"

#define CUDART_API __attribute__((visibility("default")))

/* ---- errors (error.c) ---- */

/*
 * Remembers `error` as the thread's last error, unless it is success or cudaErrorNotReady, which is an answer and not
 * an error. Returns the program's number of the error (error-number.h): for the program, not for further decisions.
 */
cudaError_t cudart_record(cudaError_t error);

/* The same for a result of the driver: the numbers that the driver returns mean the same in the runtime. */
static inline cudaError_t cudart_result(CUresult result)
{
	return cudart_record((cudaError_t)result);
}

/* cudart_record() for generated code, which knows no types. */
int cudart_fail(int error);

/* ---- devices and contexts (context.c) ---- */

/* Initialises the driver once. */
cudaError_t cudart_init(void);

/*
 * Also makes sure that the calling thread has a current context: the one the program made current through the driver
 * API, else the primary context of the thread's device. Every call that touches a device begins with this.
 */
cudaError_t cudart_enter(void);

/* The device of the current context, else the thread's device. Creates no context. */
cudaError_t cudart_current_device(CUdevice *device);

/* The ordinal that the thread's next context will have. */
int cudart_thread_device(void);
cudaError_t cudart_set_thread_device(int device);
cudaError_t cudart_set_valid_devices(const int *devices, int count);

/* The primary context of a device, retained on first use and then for the life of the process or until the device is
 * reset. */
cudaError_t cudart_primary(int device, CUcontext *context);

/*
 * cudaDeviceReset: destroys the primary context that is current in this thread; the next use makes a fresh one. Its
 * handle stays current. Where none or another context is current there is nothing to reset.
 */
cudaError_t cudart_reset(void);

/* cudaErrorInvalidDevice unless 0 <= device < count. */
cudaError_t cudart_check_device(int device);

/* ---- shared with the forms of calls for older toolkits (old/) ---- */

cudaError_t cudart_pointer_attributes(struct cudaPointerAttributes *attributes, const void *pointer); /* memory.c */
cudaError_t cudart_function_attributes(struct cudaFuncAttributes *attributes, const void *host);      /* function.c */
cudaError_t cudart_driver_function(const char *symbol, void **function, unsigned int version, unsigned long long flags,
				   enum cudaDriverEntryPointQueryResult *status); /* version.c */

/* ---- calls ---- */

/* Leaves the calling function with its error if `call` fails. */
#define CUDART_TRY(call)                                                                                               \
	do {                                                                                                           \
		cudaError_t error_ = (call);                                                                           \
		if (error_ != cudaSuccess)                                                                             \
			return cudart_record(error_);                                                                  \
	} while (0)

/* Enters a context, then returns the driver's answer. */
#define CUDART_CALL(call)                                                                                              \
	do {                                                                                                           \
		CUDART_TRY(cudart_enter());                                                                            \
		return cudart_result(call);                                                                            \
	} while (0)

/* The _ptsz and _ptds entry points: the default stream is the thread's own. */
static inline cudaStream_t cudart_per_thread(cudaStream_t stream)
{
	return stream ? stream : cudaStreamPerThread;
}

static inline CUdeviceptr cudart_address(const void *pointer)
{
	return (CUdeviceptr)(uintptr_t)pointer;
}

#endif
