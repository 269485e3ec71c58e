/* SPDX-License-Identifier: Apache-2.0 */
/* registration: registers host memory in many ways and counts the probes that fail. */
#include "registration.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static struct {
	char name[128];
	unsigned int probes, failed, failures;
	bool has_failed;
	uint8_t value;
	CUdeviceptr device;
} now;

#define DEVICE_BYTES (1u << 20)

void probe_expect(bool holds, const char *file, int line, const char *what, long value)
{
	if (holds)
		return;
	if (!now.has_failed)
		now.failed++;
	now.has_failed = true;
	if (now.failures++ < 400)
		printf("%s: %s:%d: %s: %ld\n", now.name, strrchr(file, '/') + 1, line, what, value);
}

void probe_begin(const char *name, const char *variant)
{
	snprintf(now.name, sizeof(now.name), "%s %s", name, variant);
	now.probes++;
	now.has_failed = false;
}

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
	printf("registration: %u probes, %u failed\n", now.probes, now.failed);
	return now.failed ? 1 : 0;
}
