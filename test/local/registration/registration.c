/* SPDX-License-Identifier: Apache-2.0 */
/* registration: registers host memory in many ways and counts the probes that fail. */
#include "registration.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static struct {
	uint8_t value;
	CUdeviceptr device;
} now;

#define DEVICE_BYTES (1u << 20)

static bool has_only(const uint8_t *p, size_t bytes, uint8_t value)
{
	for (size_t i = 0; i < bytes; i++)
		if (p[i] != value)
			return false;
	return true;
}

void probe_use(uint8_t *p, size_t bytes)
{
	uint8_t first = ++now.value, second = ++now.value;
	CUpointer_attribute attribute = CU_POINTER_ATTRIBUTE_MEMORY_TYPE;
	unsigned int type = 0;
	CUdeviceptr d;

	GIVES(cuPointerGetAttribute(&type, attribute, (CUdeviceptr)(uintptr_t)p), CUDA_SUCCESS);
	EXPECT(type == CU_MEMORYTYPE_HOST);
	memset(p, first, bytes);
	GIVES(cuMemsetD8_v2(now.device, 0, bytes), CUDA_SUCCESS);
	GIVES(cuMemcpyHtoDAsync_v2(now.device, p, bytes, NULL), CUDA_SUCCESS);
	GIVES(cuStreamSynchronize(NULL), CUDA_SUCCESS);
	memset(p, 0, bytes);
	GIVES(cuMemcpyDtoHAsync_v2(p, now.device, bytes, NULL), CUDA_SUCCESS);
	GIVES(cuStreamSynchronize(NULL), CUDA_SUCCESS);
	EXPECT(has_only(p, bytes, first));
	GIVES(cuMemHostGetDevicePointer_v2(&d, p, 0), CUDA_SUCCESS);
	GIVES(cuMemsetD8_v2(d, second, bytes), CUDA_SUCCESS);
	GIVES(cuCtxSynchronize(), CUDA_SUCCESS);
	EXPECT(has_only(p, bytes, second));
}

int main(void)
{
	CUcontext context;

	probe_begin("start", "");
	GIVES(cuInit(0), CUDA_SUCCESS);
	GIVES(cuDevicePrimaryCtxRetain(&context, 0), CUDA_SUCCESS);
	GIVES(cuCtxSetCurrent(context), CUDA_SUCCESS);
	GIVES(cuMemAlloc_v2(&now.device, DEVICE_BYTES), CUDA_SUCCESS);
	probe_layouts();
	probe_codes();
	probe_life();
	probe_late();
	return probe_end("registration");
}
