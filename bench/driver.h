/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The driver's functions that the timed programs call, found at run time, so that one binary runs natively and through
 * virtio-cuda.
 */
#ifndef BENCH_DRIVER_H
#define BENCH_DRIVER_H

#include <stddef.h>
#include <stdint.h>

#include "bench.h"
#include "protocol/cuda-abi.h"

#define DRIVER_FUNCTIONS(X)                                                                                            \
	X(cuInit, (unsigned int))                                                                                      \
	X(cuDriverGetVersion, (int *))                                                                                 \
	X(cuDeviceGet, (CUdevice *, int))                                                                              \
	X(cuDeviceGetName, (char *, int, CUdevice))                                                                    \
	X(cuDevicePrimaryCtxRetain, (CUcontext *, CUdevice))                                                           \
	X(cuCtxSetCurrent, (CUcontext))                                                                                \
	X(cuCtxSynchronize, (void))                                                                                    \
	X(cuMemAlloc_v2, (CUdeviceptr *, size_t))                                                                      \
	X(cuMemGetInfo_v2, (size_t *, size_t *))                                                                       \
	X(cuMemFree_v2, (CUdeviceptr))                                                                                 \
	X(cuMemAllocAsync, (CUdeviceptr *, size_t, CUstream))                                                          \
	X(cuMemFreeAsync, (CUdeviceptr, CUstream))                                                                     \
	X(cuMemHostAlloc, (void **, size_t, unsigned int))                                                             \
	X(cuMemFreeHost, (void *))                                                                                     \
	X(cuMemcpyHtoD_v2, (CUdeviceptr, const void *, size_t))                                                        \
	X(cuMemcpyDtoH_v2, (void *, CUdeviceptr, size_t))                                                              \
	X(cuMemcpyDtoD_v2, (CUdeviceptr, CUdeviceptr, size_t))                                                         \
	X(cuMemsetD8_v2, (CUdeviceptr, unsigned char, size_t))                                                         \
	X(cuMemcpyHtoDAsync_v2, (CUdeviceptr, const void *, size_t, CUstream))                                         \
	X(cuMemcpyDtoHAsync_v2, (void *, CUdeviceptr, size_t, CUstream))                                               \
	X(cuModuleLoadData, (CUmodule *, const void *))                                                                \
	X(cuModuleUnload, (CUmodule))                                                                                  \
	X(cuModuleGetFunction, (CUfunction *, CUmodule, const char *))                                                 \
	X(cuStreamCreate, (CUstream *, unsigned int))                                                                  \
	X(cuStreamSynchronize, (CUstream))                                                                             \
	X(cuStreamQuery, (CUstream))                                                                                   \
	X(cuStreamWaitEvent, (CUstream, CUevent, unsigned int))                                                        \
	X(cuStreamBeginCapture_v2, (CUstream, CUstreamCaptureMode))                                                    \
	X(cuStreamEndCapture, (CUstream, CUgraph *))                                                                   \
	X(cuGraphInstantiateWithFlags, (CUgraphExec *, CUgraph, unsigned long long))                                   \
	X(cuGraphLaunch, (CUgraphExec, CUstream))                                                                      \
	X(cuGraphExecDestroy, (CUgraphExec))                                                                           \
	X(cuGraphDestroy, (CUgraph))                                                                                   \
	X(cuEventCreate, (CUevent *, unsigned int))                                                                    \
	X(cuEventDestroy_v2, (CUevent))                                                                                \
	X(cuEventRecord, (CUevent, CUstream))                                                                          \
	X(cuEventQuery, (CUevent))                                                                                     \
	X(cuEventSynchronize, (CUevent))                                                                               \
	X(cuEventElapsedTime, (float *, CUevent, CUevent))                                                             \
	X(cuLaunchKernel, (CUfunction, unsigned int, unsigned int, unsigned int, unsigned int, unsigned int,           \
			   unsigned int, unsigned int, CUstream, void **, void **))

#define DRIVER_DECLARE(name, parameters) extern CUresult(*name) parameters;
DRIVER_FUNCTIONS(DRIVER_DECLARE)
#undef DRIVER_DECLARE

/* Kernels: nothing; a few microseconds of arithmetic; the sum of two vectors. */
enum kernel { KERNEL_EMPTY, KERNEL_SHORT, KERNEL_ADD, KERNELS };

extern CUdevice driver_device;
extern const char driver_ptx[];

/* Ends the program with a message where there is no driver, or one that lacks a function. */
void driver_open(void);

/* cuInit and the primary context of the first device. */
void driver_start(void);

/* Loads the kernels at the first call. */
CUfunction driver_kernel(enum kernel kernel);

/* One warp of the empty or the short kernel. */
void driver_launch(enum kernel kernel, CUstream stream);

#endif
