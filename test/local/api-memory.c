/* SPDX-License-Identifier: Apache-2.0 */
/* Managed memory, pools, mapped memory. */
#include "api.h"

#include <unistd.h>

CUresult cuPointerGetAttribute(void *data, CUpointer_attribute attribute, CUdeviceptr p);
CUresult cuMemPrefetchAsync(CUdeviceptr p, size_t bytes, CUdevice device, CUstream stream);
CUresult cuMemAdvise(CUdeviceptr p, size_t bytes, CUmem_advise advice, CUdevice device);

static void managed_questions(CUdeviceptr p, size_t bytes)
{
	int value, list[2];
	unsigned int managed;

	OK(cuPointerGetAttribute(&managed, CU_POINTER_ATTRIBUTE_IS_MANAGED, p + 5));
	CHECK(managed == 1);
	OK(cuPointerGetAttribute(&value, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, p));
	CHECK(value == CU_MEMORYTYPE_DEVICE);
	OK(cuMemAdvise(p, bytes, CU_MEM_ADVISE_SET_READ_MOSTLY, 0));
	OK(cuMemAdvise(p, bytes, CU_MEM_ADVISE_SET_PREFERRED_LOCATION, CU_DEVICE_CPU));
	OK(cuMemAdvise(p, bytes, CU_MEM_ADVISE_SET_ACCESSED_BY, 0));
	OK(cuMemPrefetchAsync(p, bytes, 0, NULL));
	GIVES(cuMemPrefetchAsync(p, bytes, 99, NULL), CUDA_ERROR_INVALID_DEVICE);
	GIVES(cuMemPrefetchAsync(p, bytes + 1, 0, NULL), CUDA_ERROR_INVALID_VALUE);
	OK(cuMemRangeGetAttribute(&value, 4, CU_MEM_RANGE_ATTRIBUTE_READ_MOSTLY, p, bytes));
	CHECK(value == 1);
	OK(cuMemRangeGetAttribute(&value, 4, CU_MEM_RANGE_ATTRIBUTE_PREFERRED_LOCATION, p, bytes));
	CHECK(value == CU_DEVICE_CPU);
	OK(cuMemRangeGetAttribute(&value, 4, CU_MEM_RANGE_ATTRIBUTE_LAST_PREFETCH_LOCATION, p, bytes));
	CHECK(value == 0);
	OK(cuMemRangeGetAttribute(list, sizeof(list), CU_MEM_RANGE_ATTRIBUTE_ACCESSED_BY, p, bytes));
	CHECK(list[0] == 0 && list[1] == CU_DEVICE_INVALID);
	GIVES(cuMemRangeGetAttribute(&value, 3, CU_MEM_RANGE_ATTRIBUTE_READ_MOSTLY, p, bytes), CUDA_ERROR_INVALID_VALUE);
}

void api_managed(void)
{
	const unsigned int n = 100000;
	CUdeviceptr p, q, d;
	CUstream s;
	uint32_t *host;
	void *params[] = {&q};

	GIVES(cuMemAllocManaged(&p, 4, 0), CUDA_ERROR_INVALID_VALUE);
	OK(cuMemAllocManaged(&p, n * 4, CU_MEM_ATTACH_GLOBAL));
	OK(cuMemAllocManaged(&q, n * 4, CU_MEM_ATTACH_HOST));
	OK(cuMemAlloc_v2(&d, n * 4));
	OK(cuStreamCreate(&s, CU_STREAM_NON_BLOCKING));
	OK(cuStreamAttachMemAsync(s, q, 0, CU_MEM_ATTACH_SINGLE));
	managed_questions(p, n * 4);
	host = (uint32_t *)p;
	for (unsigned int i = 0; i < n; i++)
		host[i] = i;
	api_step(p, 3, n, s);
	/* Every kind of copy with managed memory at either end. */
	OK(cuMemcpyAsync(q, p, n * 4, s));
	OK(cuMemcpyAsync(d, q, n * 4, s));
	api_step(d, 1, n, s);
	OK(cuMemsetD8Async(p, 0, n * 4, s));
	OK(cuMemcpyDtoHAsync_v2((void *)p, d, n * 4, s));
	OK(cuStreamSynchronize(s));
	for (unsigned int i = 0; i < n; i++)
		CHECK(host[i] == i * 3 + 2 && ((uint32_t *)q)[i] == i * 3 + 1);
	/* The kernel sees what is written while it runs. */
	*(uint32_t *)q = 0;
	OK(cuLaunchKernel(api_function("hold"), 1, 1, 1, 1, 1, 1, 0, s, params, NULL));
	usleep(10000);
	*(volatile uint32_t *)q = 1;
	OK(cuStreamSynchronize(s));
	OK(cuMemFree_v2(p));
	GIVES(cuMemFree_v2(p), CUDA_ERROR_INVALID_VALUE);
	GIVES(cuMemFreeHost((void *)q), CUDA_ERROR_INVALID_VALUE);
	OK(cuMemFree_v2(q));
}
