/* SPDX-License-Identifier: Apache-2.0 */
/* Memory pools in host memory: ask-pool.c has the codes. */
#include "hostmem.h"

#include <pthread.h>

#define DEVICE CU_MEM_LOCATION_TYPE_DEVICE
#define HOST CU_MEM_LOCATION_TYPE_HOST
#define NUMA CU_MEM_LOCATION_TYPE_HOST_NUMA

#define BYTES 300000u
#define N 1000u

static CUmemoryPool new_pool(CUmemLocationType type)
{
	CUmemPoolProps props = {.allocType = CU_MEM_ALLOCATION_TYPE_PINNED, .location = {type, 0}};
	CUmemAccessDesc access = {{DEVICE, 0}, RW};
	CUmemoryPool pool = NULL;

	OK(cuMemPoolCreate(&pool, &props));
	OK(cuMemPoolSetAccess(pool, &access, 1));
	return pool;
}

static CUdeviceptr take(CUmemoryPool pool, CUstream stream)
{
	CUdeviceptr p = 0;

	OK(cuMemAllocFromPoolAsync(&p, BYTES, pool, stream));
	return p;
}

static uint64_t attribute(CUmemoryPool pool, CUmemPool_attribute which)
{
	uint64_t value = 0;

	OK(cuMemPoolGetAttribute(pool, which, &value));
	return value;
}

/* Both sides use the memory at one address. */
static void use(CUmemLocationType type, const char *name)
{
	CUmemoryPool pool = new_pool(type);
	CUdeviceptr p = take(pool, NULL);
	uint32_t wrong = 0;

	probe_begin("pool is used", name);
	OK(cuStreamSynchronize(NULL));
	EXPECT(!write_faults(p) && !write_faults(p + BYTES - 4));
	for (uint32_t i = 0; i < N; i++)
		words(p)[i] = i;
	step(p, 3, N);
	for (uint32_t i = 0; i < N; i++)
		wrong += words(p)[i] != 3 * i + 1;
	EXPECT(!wrong);
	OK(cuMemsetD32_v2(p, 7, N));
	EXPECT(words(p)[N - 1] == 7);
	OK(cuMemFreeAsync(p, NULL));
	GIVES(cuMemFreeAsync(p, NULL), CUDA_ERROR_INVALID_VALUE);
	GIVES(cuMemFree_v2(p), CUDA_ERROR_INVALID_VALUE);
	GIVES(cuMemFreeHost((void *)(uintptr_t)p), CUDA_ERROR_INVALID_VALUE);
	OK(cuMemPoolDestroy(pool));
	GIVES(cuMemPoolDestroy(pool), CUDA_ERROR_INVALID_VALUE);
}

/* Memory that work in a stream still uses is not given to another stream. */
static void keep_order(void)
{
	uint64_t keep = UINT64_MAX;
	CUmemoryPool pool = new_pool(HOST);
	CUstream first, second;
	CUdeviceptr p, q, again;

	probe_begin("pool", "in the order of streams");
	OK(cuStreamCreate(&first, CU_STREAM_NON_BLOCKING));
	OK(cuStreamCreate(&second, CU_STREAM_NON_BLOCKING));
	OK(cuMemPoolSetAttribute(pool, CU_MEMPOOL_ATTR_RELEASE_THRESHOLD, &keep));
	p = take(pool, first);
	OK(cuStreamSynchronize(first));
	words(p)[0] = 0;
	/* The kernel waits for that word. */
	OK(cuStreamWaitValue32_v2(first, p, 1, CU_STREAM_WAIT_VALUE_EQ));
	OK(cuMemsetD32Async(p + 4, 5, N, first));
	OK(cuMemFreeAsync(p, first));
	q = take(pool, second);
	EXPECT(q != p);
	OK(cuStreamSynchronize(second));
	words(q)[1] = 9;
	*words(p) = 1;
	OK(cuStreamSynchronize(first));
	EXPECT(words(q)[1] == 9);
	again = take(pool, second);
	EXPECT(again == p);
	EXPECT(attribute(pool, CU_MEMPOOL_ATTR_USED_MEM_CURRENT) == 2 * BYTES);
	OK(cuMemFreeAsync(q, second));
	OK(cuMemFree_v2(again));
	OK(cuMemPoolDestroy(pool));
	OK(cuStreamDestroy_v2(first));
	OK(cuStreamDestroy_v2(second));
}

static void keep_memory(void)
{
	uint64_t keep = 16u << 20, none = 0;
	CUmemoryPool pool = new_pool(NUMA);
	CUdeviceptr p;

	probe_begin("pool", "what it keeps");
	OK(cuMemPoolSetAttribute(pool, CU_MEMPOOL_ATTR_RELEASE_THRESHOLD, &keep));
	p = take(pool, NULL);
	OK(cuMemFreeAsync(p, NULL));
	OK(cuStreamSynchronize(NULL));
	EXPECT(attribute(pool, CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT) >= BYTES);
	EXPECT(attribute(pool, CU_MEMPOOL_ATTR_USED_MEM_CURRENT) == 0);
	EXPECT(attribute(pool, CU_MEMPOOL_ATTR_USED_MEM_HIGH) == BYTES);
	EXPECT(take(pool, NULL) == p);
	OK(cuMemFreeAsync(p, NULL));
	OK(cuStreamSynchronize(NULL));
	OK(cuMemPoolTrimTo(pool, 0));
	EXPECT(attribute(pool, CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT) == 0);
	EXPECT(read_faults(p));
	OK(cuMemPoolSetAttribute(pool, CU_MEMPOOL_ATTR_USED_MEM_HIGH, &none));
	EXPECT(attribute(pool, CU_MEMPOOL_ATTR_USED_MEM_HIGH) == 0);
	OK(cuMemPoolDestroy(pool));
}

static void limit(void)
{
	CUmemPoolProps props = {
		.allocType = CU_MEM_ALLOCATION_TYPE_PINNED, .location = {HOST, 0}, .maxSize = 64u << 20};
	CUmemoryPool pool = NULL;
	CUdeviceptr p;

	probe_begin("pool", "no more than its limit");
	OK(cuMemPoolCreate(&pool, &props));
	GIVES(cuMemAllocFromPoolAsync(&p, 65u << 20, pool, NULL), CUDA_ERROR_OUT_OF_MEMORY);
	OK(cuMemAllocFromPoolAsync(&p, 1u << 20, pool, NULL));
	OK(cuMemFreeAsync(p, NULL));
	OK(cuMemPoolDestroy(pool));
}

/* Allocations outlive the pool. */
static void destroy_early(void)
{
	CUmemoryPool pool = new_pool(HOST), of = pool;
	CUdeviceptr p = take(pool, NULL);

	probe_begin("pool", "destroyed before its memory");
	OK(cuPointerGetAttribute(&of, CU_POINTER_ATTRIBUTE_MEMPOOL_HANDLE, p));
	EXPECT(of == pool);
	OK(cuMemPoolDestroy(pool));
	GIVES(cuMemAllocFromPoolAsync(&p, BYTES, pool, NULL), CUDA_ERROR_INVALID_VALUE);
	OK(cuStreamSynchronize(NULL));
	words(p)[3] = 3;
	step(p, 2, 4);
	EXPECT(words(p)[3] == 7);
	OK(cuMemFreeAsync(p, NULL));
	OK(cuStreamSynchronize(NULL));
}

/* Without access a device neither copies nor fills. */
static void give_access(void)
{
	CUmemPoolProps props = {.allocType = CU_MEM_ALLOCATION_TYPE_PINNED, .location = {HOST, 0}};
	CUmemAccessDesc access = {{DEVICE, 0}, RW};
	CUmemoryPool pool = NULL;
	CUdeviceptr p;

	probe_begin("pool", "access of the device");
	OK(cuMemPoolCreate(&pool, &props));
	p = take(pool, NULL);
	OK(cuStreamSynchronize(NULL));
	GIVES(cuMemsetD8_v2(p, 1, 16), CUDA_ERROR_INVALID_VALUE);
	OK(cuMemPoolSetAccess(pool, &access, 1));
	OK(cuMemsetD8_v2(p, 1, 16));
	EXPECT(words(p)[3] == 0x01010101);
	OK(cuMemFreeAsync(p, NULL));
	OK(cuMemPoolDestroy(pool));
}

/* Allocations belong to a context, the pool does not. Queued frees of a context end with it, too. */
static void end_context(void)
{
	CUmemoryPool pool = new_pool(HOST);
	CUcontext before, context;
	uint64_t keep = UINT64_MAX;
	CUdeviceptr p;

	probe_begin("pool", "of a context that ends");
	OK(cuMemPoolSetAttribute(pool, CU_MEMPOOL_ATTR_RELEASE_THRESHOLD, &keep));
	OK(cuCtxGetCurrent(&before));
	OK(cuCtxCreate_v2(&context, 0, 0));
	p = take(pool, NULL);
	OK(cuMemFreeAsync(take(pool, NULL), NULL));
	take(pool, NULL);
	OK(cuMemFreeAsync(p, NULL));
	EXPECT(attribute(pool, CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT) >= BYTES);
	OK(cuCtxDestroy_v2(context));
	OK(cuCtxSetCurrent(before));
	EXPECT(attribute(pool, CU_MEMPOOL_ATTR_USED_MEM_CURRENT) == 0);
	EXPECT(attribute(pool, CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT) == 0);
	p = take(pool, NULL);
	OK(cuStreamSynchronize(NULL));
	EXPECT(!write_faults(p));
	OK(cuMemFree_v2(p));
	OK(cuMemPoolDestroy(pool));
}

/* No graph allocates from such a pool. */
static void capture(void)
{
	CUmemoryPool pool = new_pool(HOST);
	CUgraph graph = NULL;
	CUdeviceptr p = 0;
	CUstream stream;

	probe_begin("pool", "in a capture");
	OK(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
	OK(cuStreamBeginCapture_v2(stream, CU_STREAM_CAPTURE_MODE_RELAXED));
	GIVES(cuMemAllocFromPoolAsync(&p, BYTES, pool, stream), CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
	GIVES(cuStreamEndCapture(stream, &graph), CUDA_ERROR_STREAM_CAPTURE_INVALIDATED);
	p = take(pool, stream);
	OK(cuMemFreeAsync(p, stream));
	OK(cuStreamSynchronize(stream));
	OK(cuMemPoolDestroy(pool));
	OK(cuStreamDestroy_v2(stream));
}

#define THREADS 4

static CUmemoryPool common;
static CUcontext current;

/* NULL: all was right. */
static void *allocate_often(void *number)
{
	uint32_t mine = (uint32_t)(uintptr_t)number;
	CUstream stream;
	bool right = true;

	if (cuCtxSetCurrent(current) || cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING))
		return number;
	for (uint32_t i = 0; i < 40 && right; i++) {
		CUdeviceptr p = 0;

		right = !cuMemAllocFromPoolAsync(&p, 4096 * (1 + i % 3), common, stream) &&
			!cuMemsetD32Async(p, mine + i, 1024, stream) && !cuStreamSynchronize(stream) &&
			words(p)[1023] == mine + i && !cuMemsetD32Async(p, 0, 1024, stream) &&
			!cuMemFreeAsync(p, stream);
	}
	return cuStreamDestroy_v2(stream) || !right ? number : NULL;
}

static void share_by_threads(void)
{
	uint64_t keep = UINT64_MAX;
	pthread_t threads[THREADS];
	void *wrong;

	probe_begin("pool", "of several threads");
	common = new_pool(HOST);
	OK(cuMemPoolSetAttribute(common, CU_MEMPOOL_ATTR_RELEASE_THRESHOLD, &keep));
	OK(cuCtxGetCurrent(&current));
	for (uintptr_t i = 0; i < THREADS; i++)
		EXPECT(!pthread_create(&threads[i], NULL, allocate_often, (void *)(1000 * (i + 1))));
	for (int i = 0; i < THREADS; i++)
		EXPECT(!pthread_join(threads[i], &wrong) && !wrong);
	OK(cuCtxSynchronize());
	EXPECT(attribute(common, CU_MEMPOOL_ATTR_USED_MEM_CURRENT) == 0);
	OK(cuMemPoolDestroy(common));
}

void probe_pools(void)
{
	use(HOST, "host");
	use(NUMA, "node");
	keep_order();
	keep_memory();
	limit();
	destroy_early();
	give_access();
	end_context();
	capture();
	share_by_threads();
}
