/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The functions that runtime.c calls, declared without NVIDIA's headers like all else. Calls without parameters have
 * had several forms.
 */
#ifndef TEST_RUNTIME_H
#define TEST_RUNTIME_H

#include <stddef.h>

struct size3 {
	unsigned int x, y, z;
};

typedef void *handle;

int cudaRuntimeGetVersion(int *version);
int cudaGetDeviceProperties(void *prop, int device);
int cudaGetDeviceProperties_v2(void *prop, int device);
int cudaChooseDevice(int *device, const void *prop);
int cudaDeviceGetAttribute(int *value, int attribute, int device);
int cudaMalloc(void **address, size_t bytes);
int cudaMallocHost(void **address, size_t bytes);
int cudaMallocManaged(void **address, size_t bytes, unsigned int flags);
int cudaMemcpy(void *to, const void *from, size_t bytes, int kind);
int cudaPointerGetAttributes(void *attributes, const void *pointer);
int cudaFuncGetAttributes(void *attributes, const void *function);
int cudaCreateTextureObject(unsigned long long *object, const void *resource, const void *texture, const void *view);
int cudaGetTextureObjectResourceDesc(void *resource, unsigned long long object);
int cudaGetTextureObjectTextureDesc(void *texture, unsigned long long object);
int cudaSetDevice(int device);
int cudaGetLastError(void);
int cudaStreamAddCallback(handle stream, void (*callback)(handle, int, void *), void *user, unsigned int flags);
int cudaStreamCreate(handle *stream);
int cudaStreamSynchronize(handle stream);
int cudaDeviceSynchronize(void);
const char *cudaGetErrorName(int error);
void **__cudaRegisterFatBinary(void *wrapper);
void __cudaRegisterFatBinaryEnd(void **fatbin);
void __cudaRegisterFunction(void **fatbin, const char *host, char *device, const char *name, int limit, void *thread,
			    void *block, struct size3 *block_size, struct size3 *grid_size, int *warp);
int cudaLaunchKernel(const void *host, struct size3 grid, struct size3 block, void **args, size_t shared,
		     handle stream);
int cudaConfigureCall(struct size3 grid, struct size3 block, size_t shared, handle stream);
int cudaSetupArgument(const void *argument, size_t size, size_t offset);
int cudaLaunch(const void *host);
int cudaThreadSynchronize(void);
unsigned int __cudaPushCallConfiguration(struct size3 grid, struct size3 block, size_t shared, handle stream);
int __cudaPopCallConfiguration(struct size3 *grid, struct size3 *block, size_t *shared, void *stream);
int cudaGraphInstantiate();
int cudaGraphExecUpdate();
int cudaStreamBeginCapture();
int cudaStreamGetCaptureInfo();
int cudaGraphGetEdges();
int cudaMemPrefetchAsync();
int cudaGetDriverEntryPoint();
int cudaStreamEndCapture(handle stream, handle *graph);
int cudaGraphLaunch(handle exec, handle stream);
int cudaGraphGetNodes(handle graph, handle *nodes, size_t *count);

#endif
