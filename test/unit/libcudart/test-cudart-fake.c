/* SPDX-License-Identifier: Apache-2.0 */
/*
 * See test-cudart-fake.h. Device memory is host memory. Functions that are missing here return an error, as in the real
 * library.
 */
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "protocol/cuda-functions.h"
#include "test-cudart-fake.h"

#define DEVICES 2

struct fake fake;
unsigned char fake_variable[FAKE_VARIABLE_BYTES];
static unsigned char managed[8];

static char contexts[DEVICES + 1], library, kernels[2];
static bool alive[DEVICES];
static _Thread_local CUcontext current;

static CUresult count(unsigned int *counter)
{
	fake.calls++;
	if (counter)
		++*counter;
	return CUDA_SUCCESS;
}

CUcontext fake_primary(int device)
{
	return (CUcontext)(void *)&contexts[device];
}

CUcontext fake_context(void)
{
	return (CUcontext)(void *)&contexts[DEVICES];
}

CUfunction fake_function(const char *name)
{
	return (CUfunction)(void *)&kernels[!strcmp(name, FAKE_OTHER_KERNEL)];
}

CUresult cuInit(unsigned int flags)
{
	return count(&fake.inits);
}

CUresult cuDeviceGetCount(int *devices)
{
	*devices = DEVICES;
	return count(NULL);
}

CUresult cuDeviceGet(CUdevice *device, int ordinal)
{
	*device = ordinal;
	return count(NULL);
}

CUresult cuDeviceGetName(char *name, int length, CUdevice device)
{
	strcpy(name, device ? "second" : "first");
	return count(NULL);
}

CUresult cuDeviceGetUuid_v2(CUuuid *uuid, CUdevice device)
{
	memset(uuid, device, sizeof(*uuid));
	return count(NULL);
}

CUresult cuDeviceTotalMem_v2(size_t *bytes, CUdevice device)
{
	*bytes = (size_t)(device + 1) << 33;
	return count(NULL);
}

CUresult cuDeviceGetAttribute(int *value, CUdevice_attribute attribute, CUdevice device)
{
	*value = 1000 + (int)attribute;
	count(NULL);
	return attribute < CU_DEVICE_ATTRIBUTE_MAX ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

CUresult cuDevicePrimaryCtxRetain(CUcontext *context, CUdevice device)
{
	*context = fake_primary(device);
	alive[device] = true;
	return count(&fake.retains);
}

CUresult cuDevicePrimaryCtxReset_v2(CUdevice device)
{
	alive[device] = false;
	return count(&fake.resets);
}

CUresult cuCtxGetCurrent(CUcontext *context)
{
	*context = current;
	return count(NULL);
}

CUresult cuCtxSetCurrent(CUcontext context)
{
	current = context;
	return count(NULL);
}

CUresult cuCtxGetDevice(CUdevice *device)
{
	*device = current == fake_primary(0) ? 0 : 1;
	return count(NULL);
}

/* The result of a call in the current context, which may have been reset. */
static CUresult use(void)
{
	for (int i = 0; i < DEVICES; i++)
		if (current == fake_primary(i))
			return alive[i] ? CUDA_SUCCESS : CUDA_ERROR_CONTEXT_IS_DESTROYED;
	return current ? CUDA_SUCCESS : CUDA_ERROR_INVALID_CONTEXT;
}

CUresult cuCtxSynchronize(void)
{
	count(NULL);
	return use() ? use() : fake.sync_result;
}

CUresult cuLibraryLoadData(CUlibrary *out, const void *code, CUjit_option *jit_options, void **jit_values,
			   unsigned int jit_count, CUlibraryOption *options, void **values, unsigned int option_count)
{
	count(&fake.loads);
	fake.image = code;
	*out = (CUlibrary)(void *)&library;
	return fake.load_result;
}

CUresult cuLibraryUnload(CUlibrary unloaded)
{
	return count(&fake.unloads);
}

CUresult cuLibraryGetKernel(CUkernel *kernel, CUlibrary of, const char *name)
{
	count(&fake.kernels);
	*kernel = (CUkernel)(void *)fake_function(name);
	return strcmp(name, FAKE_KERNEL) && strcmp(name, FAKE_OTHER_KERNEL) ? CUDA_ERROR_NOT_FOUND : CUDA_SUCCESS;
}

CUresult cuLibraryGetGlobal(CUdeviceptr *address, size_t *bytes, CUlibrary of, const char *name)
{
	count(NULL);
	*address = (CUdeviceptr)(uintptr_t)fake_variable;
	*bytes = sizeof(fake_variable);
	return strcmp(name, FAKE_VARIABLE) ? CUDA_ERROR_NOT_FOUND : use();
}

CUresult cuLibraryGetManaged(CUdeviceptr *address, size_t *bytes, CUlibrary of, const char *name)
{
	count(NULL);
	*address = (CUdeviceptr)(uintptr_t)managed;
	*bytes = sizeof(managed);
	return strcmp(name, FAKE_MANAGED) ? CUDA_ERROR_NOT_FOUND : use();
}

static bool is_kernel(const void *handle)
{
	return handle == &kernels[0] || handle == &kernels[1];
}

CUresult cuKernelGetAttribute(int *value, CUfunction_attribute attribute, CUkernel kernel, CUdevice device)
{
	*value = (int)attribute + 1;
	count(NULL);
	return is_kernel(kernel) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_HANDLE;
}

CUresult cuLaunchKernel(CUfunction function, unsigned int grid_x, unsigned int grid_y, unsigned int grid_z,
			unsigned int block_x, unsigned int block_y, unsigned int block_z, unsigned int shared,
			CUstream stream, void **params, void **extra)
{
	count(&fake.launches);
	fake.launch = (struct fake_launch){
		.function = function,
		.grid = {grid_x, grid_y, grid_z},
		.block = {block_x, block_y, block_z},
		.shared = shared,
		.stream = stream,
		.params = params,
	};
	if (extra) {
		fake.launch.buffer_size = *(size_t *)extra[3];
		memcpy(fake.launch.buffer, extra[1], fake.launch.buffer_size);
	}
	if (!is_kernel(function))
		return CUDA_ERROR_INVALID_HANDLE;
	return use();
}

CUresult cuLaunchKernelEx(const CUlaunchConfig *config, CUfunction function, void **params, void **extra)
{
	CUresult result = cuLaunchKernel(function, config->gridDimX, config->gridDimY, config->gridDimZ,
					 config->blockDimX, config->blockDimY, config->blockDimZ,
					 config->sharedMemBytes, config->hStream, params, extra);

	fake.launch.attributes = config->numAttrs;
	return result;
}

CUresult cuMemAlloc_v2(CUdeviceptr *address, size_t bytes)
{
	void *memory = use() ? NULL : malloc(bytes);

	count(NULL);
	*address = (CUdeviceptr)(uintptr_t)memory;
	return use() ? use() : memory ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
}

CUresult cuMemFree_v2(CUdeviceptr address)
{
	count(NULL);
	free((void *)(uintptr_t)address);
	return use();
}

static CUresult move(CUdeviceptr to, const void *from, size_t bytes)
{
	count(NULL);
	memcpy((void *)(uintptr_t)to, from, bytes);
	return use();
}

CUresult cuMemcpyHtoD_v2(CUdeviceptr to, const void *from, size_t bytes)
{
	return move(to, from, bytes);
}

CUresult cuMemcpyDtoH_v2(void *to, CUdeviceptr from, size_t bytes)
{
	return move((CUdeviceptr)(uintptr_t)to, (const void *)(uintptr_t)from, bytes);
}

CUresult cuMemcpyHtoDAsync_v2(CUdeviceptr to, const void *from, size_t bytes, CUstream stream)
{
	fake.stream = stream;
	return move(to, from, bytes);
}

CUresult cuMemsetD2D8_v2(CUdeviceptr address, size_t pitch, unsigned char value, size_t width, size_t height)
{
	count(NULL);
	for (size_t y = 0; y < height; y++)
		memset((char *)(uintptr_t)address + y * pitch, value, width);
	return use();
}

CUresult cuStreamSynchronize(CUstream stream)
{
	fake.stream = stream;
	return count(&fake.stream_syncs);
}

CUresult cuStreamQuery(CUstream stream)
{
	fake.stream = stream;
	count(NULL);
	return CUDA_ERROR_NOT_READY;
}
