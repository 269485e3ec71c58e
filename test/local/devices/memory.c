/* SPDX-License-Identifier: Apache-2.0 */
/* Memory of several devices. */
#include "devices.h"

#include <pthread.h>

#define LARGE (64u << 20)

static size_t left(int device)
{
	size_t bytes, total;

	use(device);
	OK(cuMemGetInfo_v2(&bytes, &total));
	return bytes;
}

/* An allocation is its context's device's, and takes memory of that device only. */
void memory(void)
{
	CUdeviceptr p[MOST];

	open_devices();
	for (int i = 0; i < device_count; i++) {
		int other = (i + 1) % device_count;
		size_t before = left(i), before_other = left(other);
		CUcontext context;

		use(i);
		OK(cuMemAlloc_v2(&p[i], LARGE));
		CHECK(owner(p[i]) == i);
		OK(cuPointerGetAttribute(&context, CU_POINTER_ATTRIBUTE_CONTEXT, p[i]));
		CHECK(context == devices[i].context);
		CHECK(before - left(i) >= LARGE && before - left(i) < 2 * LARGE);
		CHECK(left(other) == before_other);
	}
	for (int i = 0; i < device_count; i++) {
		size_t before = left(i);

		/* From another device's context. */
		use((i + 1) % device_count);
		OK(cuMemFree_v2(p[i]));
		CHECK(left(i) - before >= LARGE);
	}
}

/* Each thread has a device, and the devices' primary contexts do not mix. */
static void *thread(void *device)
{
	int i = (int)(intptr_t)device;
	CUdevice now;

	use(i);
	for (uint32_t round = 0; round < 20; round++) {
		add(i, devices[i].memory, (uint32_t)i + 1);
		OK(cuCtxGetDevice(&now));
		CHECK(now == i);
	}
	OK(finish(i));
	expect(devices[i].memory, 1000 * (uint32_t)i + 20 * ((uint32_t)i + 1));
	return NULL;
}

void threads(void)
{
	pthread_t all[MOST];

	open_devices();
	for (int i = 0; i < device_count; i++) {
		use(i);
		fill(devices[i].memory, 1000 * (uint32_t)i);
	}
	for (int i = 0; i < device_count; i++)
		CHECK(!pthread_create(&all[i], NULL, thread, (void *)(intptr_t)i));
	for (int i = 0; i < device_count; i++)
		CHECK(!pthread_join(all[i], NULL));
}

static void copy_box(struct device *to, const struct device *from)
{
	CUDA_MEMCPY3D_PEER c = {
		.srcMemoryType = CU_MEMORYTYPE_DEVICE,
		.srcDevice = from->memory,
		.srcContext = from->context,
		.srcPitch = 256,
		.srcHeight = 16,
		.dstMemoryType = CU_MEMORYTYPE_DEVICE,
		.dstDevice = to->memory,
		.dstContext = to->context,
		.dstPitch = 256,
		.dstHeight = 16,
		.WidthInBytes = 256,
		.Height = 16,
		.Depth = BYTES / 256 / 16,
	};

	OK(cuMemcpy3DPeer(&c));
}

/* Copies need no peer access. */
void copies(void)
{
	struct device *a, *b = &devices[0];

	open_devices();
	use(0);
	fill(devices[0].memory, 0);
	for (int i = 0; i < device_count; i++) {
		int to = (i + 1) % device_count;
		uint32_t first = 10 * (uint32_t)i;

		a = &devices[i];
		b = &devices[to];
		use(i);
		OK(cuMemcpyPeer(b->memory, b->context, a->memory, a->context, BYTES));
		use(to);
		expect(b->memory, first);
		add(to, b->memory, 1);
		OK(cuMemcpyPeerAsync(a->memory, a->context, b->memory, b->context, BYTES, b->stream));
		OK(finish(to));
		use(i);
		expect(a->memory, first + 1);
		add(i, a->memory, 1);
		OK(finish(i));
		copy_box(b, a);
		expect(b->memory, first + 2);
		add(to, b->memory, 1);
		OK(finish(to));
		/* No thread of the host waits for these two. */
		OK(cuMemcpy(a->memory, b->memory, BYTES));
		OK(cuCtxSynchronize());
		use(i);
		expect(a->memory, first + 3);
		add(i, a->memory, 7);
		OK(finish(i));
		OK(cuMemcpyDtoD_v2(b->memory, a->memory, BYTES));
		OK(cuCtxSynchronize());
		use(to);
		expect(b->memory, first + 10);
	}
}

void managed(void)
{
	uint32_t *words;
	CUdeviceptr p;
	int where;

	open_devices();
	OK(cuMemAllocManaged(&p, BYTES, CU_MEM_ATTACH_GLOBAL));
	words = (uint32_t *)(uintptr_t)p;
	for (uint32_t i = 0; i < WORDS; i++)
		words[i] = i;
	for (int i = 0; i < device_count; i++) {
		use(i);
		OK(cuMemAdvise(p, BYTES, CU_MEM_ADVISE_SET_PREFERRED_LOCATION, i));
		OK(cuMemAdvise(p, BYTES, CU_MEM_ADVISE_SET_ACCESSED_BY, (i + 1) % device_count));
		OK(cuMemPrefetchAsync(p, BYTES, i, devices[i].stream));
		add(i, p, 5);
		OK(finish(i));
		OK(cuMemRangeGetAttribute(&where, sizeof(where), CU_MEM_RANGE_ATTRIBUTE_PREFERRED_LOCATION, p, BYTES));
		CHECK(where == i);
		OK(cuMemRangeGetAttribute(&where, sizeof(where), CU_MEM_RANGE_ATTRIBUTE_LAST_PREFETCH_LOCATION, p,
					  BYTES));
		CHECK(where == i);
	}
	for (uint32_t i = 0; i < WORDS; i++)
		CHECK(words[i] == i + 5 * (uint32_t)device_count);
	OK(cuMemFree_v2(p));
}

/* ---- pools ---- */

static CUmemoryPool make_pool(int device)
{
	CUmemPoolProps props = {.allocType = CU_MEM_ALLOCATION_TYPE_PINNED,
				.location = {CU_MEM_LOCATION_TYPE_DEVICE, device}};
	CUmemoryPool pool;

	OK(cuMemPoolCreate(&pool, &props));
	return pool;
}

static void open_pool(CUmemoryPool pool, int device, CUmemAccess_flags flags)
{
	CUmemAccessDesc access = {{CU_MEM_LOCATION_TYPE_DEVICE, device}, flags};
	CUmemAccess_flags got = CU_MEM_ACCESS_FLAGS_PROT_READ;

	OK(cuMemPoolSetAccess(pool, &access, 1));
	OK(cuMemPoolGetAccess(&got, pool, &access.location));
	CHECK(got == flags);
}

/* An allocation in the order of a device's stream takes the memory of the pool's device. */
static void expect_from(int device, CUmemoryPool pool, int pool_device)
{
	size_t before = left(pool_device), own = left(device);
	CUdeviceptr p;

	use(device);
	OK(cuMemAllocFromPoolAsync(&p, LARGE, pool, devices[device].stream));
	OK(finish(device));
	CHECK(left(device) == own);
	CHECK(before - left(pool_device) >= LARGE);
	use(device);
	OK(cuMemFreeAsync(p, devices[device].stream));
}

void pools(void)
{
	CUmemAccessDesc own = {{CU_MEM_LOCATION_TYPE_DEVICE, 1}, CU_MEM_ACCESS_FLAGS_PROT_NONE};
	CUmemoryPool pool, defaults[MOST], current;
	CUdeviceptr p, q;

	open_devices();
	for (int i = 0; i < device_count; i++) {
		OK(cuDeviceGetDefaultMemPool(&defaults[i], i));
		for (int j = 0; j < i; j++)
			CHECK(defaults[i] != defaults[j]);
	}
	pool = make_pool(1);
	GIVES(cuDeviceSetMemPool(0, pool), CUDA_ERROR_INVALID_VALUE);
	GIVES(cuMemPoolSetAccess(pool, &own, 1), CUDA_ERROR_INVALID_DEVICE);
	use(1);
	OK(cuMemAllocFromPoolAsync(&p, BYTES, pool, devices[1].stream));
	OK(finish(1));
	CHECK(owner(p) == 1);
	reaches(1, p);
	open_pool(pool, 0, CU_MEM_ACCESS_FLAGS_PROT_READWRITE);
	reaches(0, p);
	/* In the order of another device's stream. */
	use(0);
	OK(cuMemAllocFromPoolAsync(&q, BYTES, pool, devices[0].stream));
	OK(finish(0));
	CHECK(owner(q) == 1);
	reaches(0, q);
	reaches(1, q);
	OK(cuMemFreeAsync(q, devices[0].stream));
	OK(finish(0));
	expect_from(0, pool, 1);
	OK(finish(0));
	OK(cuMemFreeAsync(p, devices[1].stream));
	OK(cuDeviceSetMemPool(1, pool));
	OK(cuDeviceGetMemPool(&current, 0));
	CHECK(current == defaults[0]);
	OK(cuDeviceGetMemPool(&current, 1));
	CHECK(current == pool);
	OK(finish(1));
	OK(cuMemPoolDestroy(pool));
}

/* Peer access does not open a pool, and what was open can be closed. */
void pools_closed(void)
{
	CUmemoryPool pool;
	CUdeviceptr p;

	open_devices();
	use(0);
	OK(cuCtxEnablePeerAccess(devices[1].context, 0));
	pool = make_pool(1);
	use(1);
	OK(cuMemAllocFromPoolAsync(&p, BYTES, pool, devices[1].stream));
	OK(finish(1));
	open_pool(pool, 0, CU_MEM_ACCESS_FLAGS_PROT_READWRITE);
	reaches(0, p);
	open_pool(pool, 0, CU_MEM_ACCESS_FLAGS_PROT_NONE);
	faults(0, p);
}

/* ---- mappings ---- */

static CUdeviceptr map(int device)
{
	CUmemAllocationProp prop = {.type = CU_MEM_ALLOCATION_TYPE_PINNED,
				    .location = {CU_MEM_LOCATION_TYPE_DEVICE, device}};
	CUmemGenericAllocationHandle handle;
	size_t step, size;
	CUdeviceptr p;

	OK(cuMemGetAllocationGranularity(&step, &prop, 0));
	size = (BYTES + step - 1) / step * step;
	OK(cuMemAddressReserve(&p, size, 0, 0, 0));
	OK(cuMemCreate(&handle, size, &prop, 0));
	OK(cuMemMap(p, size, 0, handle, 0));
	OK(cuMemRelease(handle));
	return p;
}

static void open_mapping(CUdeviceptr p, int device, CUmemAccess_flags flags)
{
	CUmemAccessDesc access = {{CU_MEM_LOCATION_TYPE_DEVICE, device}, flags};
	unsigned long long got;
	CUdeviceptr start;
	size_t size;

	OK(cuPointerGetAttribute(&start, CU_POINTER_ATTRIBUTE_RANGE_START_ADDR, p));
	OK(cuPointerGetAttribute(&size, CU_POINTER_ATTRIBUTE_RANGE_SIZE, p));
	OK(cuMemSetAccess(start, size, &access, 1));
	OK(cuMemGetAccess(&got, &access.location, p));
	CHECK(got == (unsigned long long)flags);
}

void mappings(void)
{
	size_t before;
	CUdeviceptr p;

	open_devices();
	before = left(1);
	use(0);
	p = map(1);
	CHECK(owner(p) == 1);
	CHECK(before - left(1) >= BYTES);
	use(1);
	open_mapping(p, 1, CU_MEM_ACCESS_FLAGS_PROT_READWRITE);
	reaches(1, p);
	open_mapping(p, 0, CU_MEM_ACCESS_FLAGS_PROT_READWRITE);
	reaches(0, p);
	open_mapping(p, 1, CU_MEM_ACCESS_FLAGS_PROT_NONE);
	use(0);
	reaches(0, p);
}

void mappings_closed(void)
{
	CUdeviceptr p;

	open_devices();
	use(0);
	OK(cuCtxEnablePeerAccess(devices[1].context, 0));
	use(1);
	p = map(1);
	open_mapping(p, 1, CU_MEM_ACCESS_FLAGS_PROT_READWRITE);
	reaches(1, p);
	faults(0, p);
}

/* Read-only for one device does not make it so for the other. */
void mappings_read_only(void)
{
	CUdeviceptr p;

	open_devices();
	use(1);
	p = map(1);
	open_mapping(p, 1, CU_MEM_ACCESS_FLAGS_PROT_READWRITE);
	open_mapping(p, 0, CU_MEM_ACCESS_FLAGS_PROT_READ);
	reaches(1, p);
	faults(0, p);
}

/* The worker measures its memory of the host when it gets so much text of a module. */
static void load_large_module(void)
{
	static const char head[] = ".version 7.0\n.target sm_60\n.address_size 64\n";
	const size_t bytes = 16u << 20;
	char *text = malloc(bytes);
	CUmodule module;

	CHECK(text);
	memset(text, '\n', bytes);
	memcpy(text, head, sizeof(head) - 1);
	text[bytes - 1] = 0;
	OK(cuModuleLoadData(&module, text));
	OK(cuModuleUnload(module));
	free(text);
}

/*
 * With a quota of 300 MiB a device each device has 250, though both are the host's memory, and the process has used it;
 * and no device has more.
 */
void quota(void)
{
	const size_t bytes = 250u << 20;
	CUdeviceptr p, more;

	open_devices();
	for (int i = device_count - 1; i >= 0; i--) {
		use(i);
		OK(cuMemAlloc_v2(&p, bytes));
		OK(cuMemsetD8_v2(p, 1, bytes));
		OK(cuCtxSynchronize());
		load_large_module();
		GIVES(cuMemAlloc_v2(&more, bytes), CUDA_ERROR_OUT_OF_MEMORY);
	}
}
