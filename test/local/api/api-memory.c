/* SPDX-License-Identifier: Apache-2.0 */
/* Managed memory, pools, mapped memory. */
#include "test/local/api.h"

#include <unistd.h>

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
	GIVES(cuMemRangeGetAttribute(&value, 3, CU_MEM_RANGE_ATTRIBUTE_READ_MOSTLY, p, bytes),
	      CUDA_ERROR_INVALID_VALUE);
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

static uint64_t used(CUmemoryPool pool, CUmemPool_attribute attribute)
{
	uint64_t value;

	OK(cuMemPoolGetAttribute(pool, attribute, &value));
	return value;
}

/* A load of two bytes and a swap of four, which libcu++ makes of atomics of one byte: all that is allocated. */
static void word_of_a_byte(void)
{
	static const char ptx[] = ".version 7.0\n.target sm_70\n.address_size 64\n"
				  ".visible .entry byte(.param .u64 p)\n{\n.reg .u64 %a; .reg .u32 %x; .reg .b16 %h;\n"
				  "ld.param.u64 %a, [p];\nld.relaxed.sys.b16 %h, [%a];\ncvt.u32.u16 %x, %h;\n"
				  "and.b32 %x, %x, 255;\nadd.u32 %x, %x, 1;\natom.exch.b32 %x, [%a], %x;\nret;\n}\n";
	CUfunction function;
	CUmodule module;
	CUdeviceptr p;
	uint8_t byte = 0, *pinned;
	void *params[] = {&p};

	OK(cuModuleLoadData(&module, ptx));
	OK(cuModuleGetFunction(&function, module, "byte"));
	OK(cuMemAlloc_v2(&p, 1));
	OK(cuMemsetD8_v2(p, 41, 1));
	OK(cuLaunchKernel(function, 1, 1, 1, 1, 1, 1, 0, NULL, params, NULL));
	OK(cuMemcpyDtoH_v2(&byte, p, 1));
	CHECK(byte == 42);
	OK(cuMemFree_v2(p));
	OK(cuMemHostAlloc((void **)&pinned, 1, 0));
	*pinned = 17;
	p = (CUdeviceptr)(uintptr_t)pinned;
	OK(cuLaunchKernel(function, 1, 1, 1, 1, 1, 1, 0, NULL, params, NULL));
	OK(cuCtxSynchronize());
	CHECK(*pinned == 18);
	OK(cuMemFreeHost(pinned));
	OK(cuModuleUnload(module));
}

void api_pools(void)
{
	const size_t bytes = 1 << 20;
	CUmemPoolProps props = {.allocType = CU_MEM_ALLOCATION_TYPE_PINNED,
				.location = {CU_MEM_LOCATION_TYPE_DEVICE, 0}};
	CUmemAccessDesc access = {{CU_MEM_LOCATION_TYPE_DEVICE, 0}, CU_MEM_ACCESS_FLAGS_PROT_READWRITE};
	uint64_t threshold = UINT64_MAX;
	CUmemoryPool pool, own;
	CUdeviceptr p, q;
	CUstream s;
	uint32_t back[4];
	int policy;

	word_of_a_byte();
	OK(cuStreamCreate(&s, CU_STREAM_NON_BLOCKING));
	OK(cuDeviceGetDefaultMemPool(&pool, 0));
	OK(cuDeviceGetMemPool(&own, 0));
	CHECK(pool == own && used(pool, CU_MEMPOOL_ATTR_USED_MEM_CURRENT) == 0);
	OK(cuMemPoolSetAttribute(pool, CU_MEMPOOL_ATTR_RELEASE_THRESHOLD, &threshold));
	OK(cuMemPoolGetAttribute(pool, CU_MEMPOOL_ATTR_REUSE_ALLOW_OPPORTUNISTIC, &policy));
	CHECK(policy == 1);
	OK(cuMemAllocAsync(&p, bytes, s));
	CHECK(used(pool, CU_MEMPOOL_ATTR_USED_MEM_CURRENT) >= bytes);
	OK(cuMemsetD8Async(p, 0, bytes, s));
	api_step(p, 5, 4, s);
	OK(cuMemcpyDtoHAsync_v2(back, p, 16, s));
	OK(cuMemFreeAsync(p, s));
	GIVES(cuMemFreeAsync(p, s), CUDA_ERROR_INVALID_VALUE);
	OK(cuMemFreeAsync(0, s));
	OK(cuStreamSynchronize(s));
	CHECK(back[3] == 1 && used(pool, CU_MEMPOOL_ATTR_USED_MEM_CURRENT) == 0);
	CHECK(used(pool, CU_MEMPOOL_ATTR_USED_MEM_HIGH) >= bytes);
	GIVES(cuMemcpyDtoH_v2(back, p, 4), CUDA_ERROR_INVALID_VALUE);
	OK(cuMemPoolCreate(&own, &props));
	OK(cuMemPoolSetAccess(own, &access, 1));
	OK(cuDeviceSetMemPool(0, own));
	OK(cuMemAllocAsync(&p, bytes, s));
	OK(cuMemAllocFromPoolAsync(&q, bytes, own, s));
	CHECK(used(own, CU_MEMPOOL_ATTR_USED_MEM_CURRENT) >= 2 * bytes);
	OK(cuMemFree_v2(p));
	OK(cuMemPoolTrimTo(own, 0));
	OK(cuMemPoolDestroy(own));
	GIVES(cuMemAllocFromPoolAsync(&p, bytes, own, s), CUDA_ERROR_INVALID_VALUE);
	/* Allocations of the pool outlive it. */
	OK(cuMemsetD8Async(q, 1, bytes, s));
	OK(cuMemFreeAsync(q, s));
	OK(cuStreamSynchronize(s));
	OK(cuDeviceGetMemPool(&own, 0));
	CHECK(own == pool);
}

/*
 * A program's pool that grows by one mapping after the other has allocations in two mappings at times. All words are 1.
 */
static void over_the_boundary(CUdeviceptr p, size_t granule)
{
	CUDA_RESOURCE_DESC resource = {.resType = CU_RESOURCE_TYPE_LINEAR};
	CUdeviceptr boundary = p + granule;
	CUDA_TEXTURE_DESC how = {0};
	uint32_t in[8], out[8];
	CUtexObject texture;

	OK(cuMemcpyDtoH_v2(out, boundary - 16, 32));
	for (uint32_t i = 0; i < 8; i++) {
		CHECK(out[i] == 1);
		in[i] = i + 10;
	}
	OK(cuMemcpyHtoDAsync_v2(boundary - 16, in, 32, NULL));
	OK(cuMemcpyDtoDAsync_v2(p, boundary - 16, 32, NULL));
	OK(cuMemcpyDtoH_v2(out, p, 32));
	CHECK(memcmp(out, in, sizeof(in)) == 0);
	OK(cuMemcpy(boundary - 12, p, 32));
	OK(cuMemcpyDtoH_v2(out, boundary - 12, 32));
	CHECK(memcmp(out, in, sizeof(in)) == 0);
	resource.res.linear.devPtr = boundary - 512;
	resource.res.linear.format = CU_AD_FORMAT_UNSIGNED_INT32;
	resource.res.linear.numChannels = 1;
	resource.res.linear.sizeInBytes = 1024;
	OK(cuTexObjectCreate(&texture, &resource, &how, NULL));
	OK(cuTexObjectDestroy(texture));
	OK(cuMemsetD2D8_v2(boundary - 16, 16, 3, 16, 3));
	OK(cuMemcpyDtoH_v2(out, boundary - 12, 32));
	for (uint32_t i = 0; i < 8; i++)
		CHECK(out[i] == 0x03030303);
	OK(cuMemsetD32Async(boundary - 16, 1, 12, NULL));
	OK(cuMemsetD32Async(p, 1, 8, NULL));
}

/* Two allocations side by side in one reservation. */
void api_mapped(void)
{
	CUmemAllocationProp props = {.type = CU_MEM_ALLOCATION_TYPE_PINNED,
				     .location = {CU_MEM_LOCATION_TYPE_DEVICE, 0}};
	CUmemAccessDesc access = {{CU_MEM_LOCATION_TYPE_DEVICE, 0}, CU_MEM_ACCESS_FLAGS_PROT_READWRITE};
	CUmemGenericAllocationHandle a, b;
	uint32_t in[1] = {0}, out[8];
	size_t granule;
	unsigned int n;
	CUdeviceptr p;

	OK(cuMemGetAllocationGranularity(&granule, &props, CU_MEM_ALLOC_GRANULARITY_MINIMUM));
	n = (unsigned int)(2 * granule / 4);
	GIVES(cuMemAddressReserve(&p, granule + 1, 0, 0, 0), CUDA_ERROR_INVALID_VALUE);
	OK(cuMemAddressReserve(&p, granule, 32 * granule, 0, 0));
	CHECK(p % (32 * granule) == 0);
	OK(cuMemAddressFree(p, granule));
	OK(cuMemAddressReserve(&p, 2 * granule, 0, 0, 0));
	GIVES(cuMemcpyHtoD_v2(p, in, 4), CUDA_ERROR_INVALID_VALUE);
	GIVES(cuMemFree_v2(p), CUDA_ERROR_INVALID_VALUE);
	OK(cuMemCreate(&a, granule, &props, 0));
	OK(cuMemCreate(&b, granule, &props, 0));
	OK(cuMemMap(p, granule, 0, a, 0));
	GIVES(cuMemMap(p, granule, 0, b, 0), CUDA_ERROR_INVALID_VALUE);
	GIVES(cuMemSetAccess(p, 2 * granule, &access, 1), CUDA_ERROR_INVALID_VALUE);
	OK(cuMemMap(p + granule, granule, 0, b, 0));
	OK(cuMemRelease(a));
	GIVES(cuMemRelease(a), CUDA_ERROR_INVALID_VALUE);
	GIVES(cuMemcpyHtoD_v2(p, in, 4), CUDA_ERROR_INVALID_VALUE);
	OK(cuMemSetAccess(p, 2 * granule, &access, 1));
	OK(cuMemsetD8Async(p, 0, 2 * granule, NULL));
	api_step(p, 1, n, NULL);
	over_the_boundary(p, granule);
	OK(cuMemUnmap(p + granule, granule));
	GIVES(cuMemcpyDtoH_v2(out, p + granule, 16), CUDA_ERROR_INVALID_VALUE);
	GIVES(cuMemcpyDtoH_v2(out, p + granule - 16, 32), CUDA_ERROR_INVALID_VALUE);
	GIVES(cuMemsetD8_v2(p + granule - 16, 0, 32), CUDA_ERROR_INVALID_VALUE);
	GIVES(cuMemAddressFree(p, 2 * granule), CUDA_ERROR_INVALID_VALUE);
	/* The written data is still there. */
	OK(cuMemMap(p + granule, granule, 0, b, 0));
	OK(cuMemSetAccess(p + granule, granule, &access, 1));
	OK(cuMemcpyDtoH_v2(out, p + granule + 4, 4));
	CHECK(out[0] == 1);
	OK(cuMemUnmap(p, 2 * granule));
	OK(cuMemRelease(b));
	OK(cuMemAddressFree(p, 2 * granule));
}
