/* SPDX-License-Identifier: Apache-2.0 */
/* Memory pools in host memory. */
#include "ask.h"

#include <unistd.h>

static CUmemPoolProps pool_at(CUmemLocation where, int handle_types)
{
	return (CUmemPoolProps){.allocType = CU_MEM_ALLOCATION_TYPE_PINNED,
				.handleTypes = (CUmemAllocationHandleType)handle_types,
				.location = where};
}

/* ---- cuMemPoolCreate() ---- */

static void create_one(const char *name, CUmemPoolProps props)
{
	CUmemoryPool pool = NULL;
	CUresult code = cuMemPoolCreate(&pool, &props);

	question("cuMemPoolCreate(%s %d, %s)", place_name(props.location.type), props.location.id, name);
	say("%d", code);
	if (code == CUDA_SUCCESS)
		say("destroy %d", cuMemPoolDestroy(pool));
	end();
}

static void creations(const int *unused)
{
	static const CUmemLocation places[] = {
		{DEVICE, 0},   {DEVICE, 100},
		{DEVICE, -1},  {HOST, 0},
		{HOST, 55},    {HOST, -1},
		{NUMA, 0},     {NUMA, 1000},
		{NUMA, -1},    {CURRENT, 0},
		{CURRENT, 55}, {CURRENT, -1},
		{NOWHERE, 0},  {(CUmemLocationType)9, 0},
	};

	(void)unused;
	for (size_t i = 0; i < sizeof(places) / sizeof(places[0]); i++) {
		CUmemPoolProps props = pool_at(places[i], CU_MEM_HANDLE_TYPE_NONE);

		create_one("not to be shared", props);
		props.handleTypes = BY_FILE;
		create_one("descriptors", props);
		props.handleTypes = CU_MEM_HANDLE_TYPE_FABRIC;
		create_one("fabric", props);
		props.handleTypes = CU_MEM_HANDLE_TYPE_NONE;
		props.maxSize = 16 * granule;
		create_one("at most 16 granules", props);
		props.maxSize = 0;
		props.allocType = (CUmemAllocationType)2;
		create_one("allocation type 2", props);
		props.allocType = (CUmemAllocationType)0;
		create_one("allocation type 0", props);
	}
}

/* ---- its memory ---- */

static CUmemoryPool pool_of(CUmemLocationType type, int handle_types)
{
	CUmemPoolProps props = pool_at((CUmemLocation){type, 0}, handle_types);
	CUmemoryPool pool = NULL;

	question("cuMemPoolCreate");
	say("%d", cuMemPoolCreate(&pool, &props));
	end();
	return pool;
}

static void say_pool_access(CUmemoryPool pool)
{
	static const CUmemLocation asked[] = {{DEVICE, 0}, {HOST, 0}, {NUMA, 0}, {CURRENT, 0}};

	for (size_t i = 0; i < 4; i++) {
		CUmemLocation where = asked[i];
		CUmemAccess_flags flags = (CUmemAccess_flags)99;
		CUresult code = cuMemPoolGetAccess(&flags, pool, &where);

		say(code == CUDA_SUCCESS ? "%s %d" : "%s error %d", place_name(asked[i].type),
		    code == CUDA_SUCCESS ? (int)flags : (int)code);
	}
}

static void say_attributes(CUmemoryPool pool)
{
	for (int i = CU_MEMPOOL_ATTR_RELEASE_THRESHOLD; i <= CU_MEMPOOL_ATTR_USED_MEM_HIGH; i++) {
		uint64_t value = 77;
		CUresult code = cuMemPoolGetAttribute(pool, (CUmemPool_attribute)i, &value);

		say("attribute %d", i);
		say(code == CUDA_SUCCESS ? "%llu" : "error %llu",
		    code == CUDA_SUCCESS ? (unsigned long long)value : (unsigned long long)code);
	}
}

/* The calls that an allocation allows. */
static void say_use(CUdeviceptr p)
{
	uint32_t value = 0;

	say("CPU %s", processor_at(p));
	say("memset %d", cuMemsetD32_v2(p, 0x11111111, 1024));
	say("wait %d", cuCtxSynchronize());
	say("copy %d", cuMemcpyDtoH_v2(&value, p + 4, 4));
	say("%#x", value);
	if (!read_faults(p))
		say("CPU sees %#x", words(p)[2]);
}

static void set_access_of(CUmemoryPool pool, CUdeviceptr p, CUmemLocation where, int flags)
{
	CUmemAccessDesc access = {where, (CUmemAccess_flags)flags};

	question("cuMemPoolSetAccess(%s %d, flags %d)", place_name(where.type), where.id, flags);
	say("%d", cuMemPoolSetAccess(pool, &access, 1));
	say_pool_access(pool);
	say("CPU %s", processor_at(p));
	end();
}

static void ask_pointer(CUdeviceptr p, CUmemoryPool pool)
{
	CUdeviceptr other = 0;
	unsigned int host_flags = 99;

	for (int i = CU_POINTER_ATTRIBUTE_CONTEXT; i <= CU_POINTER_ATTRIBUTE_IS_HW_DECOMPRESS_CAPABLE; i++) {
		unsigned long long value = 0;

		if (i == CU_POINTER_ATTRIBUTE_P2P_TOKENS)
			continue;
		question("cuPointerGetAttribute(attribute %d)", i);
		say("%d", cuPointerGetAttribute(&value, (CUpointer_attribute)i, p));
		if (value - (p - granule) < 2 * granule)
			say("start + %lld", (long long)(value - p));
		else if (value == (uintptr_t)pool)
			say("the pool");
		else if (value > 1ull << 32 || i == CU_POINTER_ATTRIBUTE_BUFFER_ID ||
			 i == CU_POINTER_ATTRIBUTE_MEMORY_BLOCK_ID)
			say("a value");
		else
			say("%llu", value);
		end();
	}
	question("cuMemHostGetDevicePointer");
	say("%d", cuMemHostGetDevicePointer_v2(&other, (void *)(uintptr_t)p, 0));
	say("%s", other == p ? "the same" : other ? "another" : "none");
	end();
	question("cuMemHostGetFlags");
	say("%d", cuMemHostGetFlags(&host_flags, (void *)(uintptr_t)p));
	say("%u", host_flags);
	end();
}

static void ask_access(CUmemoryPool pool, CUdeviceptr p)
{
	static const CUmemLocation places[] = {{HOST, 0},    {NUMA, 0},   {NUMA, 55},
					       {CURRENT, 0}, {DEVICE, 0}, {DEVICE, 100}};

	for (size_t i = 0; i < sizeof(places) / sizeof(places[0]); i++) {
		set_access_of(pool, p, places[i], READ);
		set_access_of(pool, p, places[i], NO_ACCESS);
		set_access_of(pool, p, places[i], RW);
	}
}

static void use(const int *with)
{
	CUmemoryPool pool = pool_of((CUmemLocationType)with[0], CU_MEM_HANDLE_TYPE_NONE);
	CUmemGenericAllocationHandle handle = 0;
	unsigned long long flags = 99;
	CUmemLocation where = {DEVICE, 0};
	CUdeviceptr p = 0, q = 0;

	if (!pool)
		return;
	question("a new pool");
	say_pool_access(pool);
	say_attributes(pool);
	end();
	question("cuMemAllocFromPoolAsync");
	say("%d", cuMemAllocFromPoolAsync(&p, 100000, pool, NULL));
	say("wait %d", cuStreamSynchronize(NULL));
	end();
	if (!p)
		return;
	question("an allocation");
	say_use(p);
	end();
	question("attributes of the pool");
	say_attributes(pool);
	end();
	ask_pointer(p, pool);
	question("cuMemGetAccess");
	say("%d", cuMemGetAccess(&flags, &where, p));
	say("flags %llu", flags);
	end();
	question("cuMemRetainAllocationHandle");
	say("%d", cuMemRetainAllocationHandle(&handle, (void *)(uintptr_t)p));
	end();
	ask_access(pool, p);
	question("a second allocation");
	say("%d", cuMemAllocFromPoolAsync(&q, 100000, pool, NULL));
	say("wait %d", cuStreamSynchronize(NULL));
	say_use(q);
	end();
	question("of size 0");
	say("%d", cuMemAllocFromPoolAsync(&q, 0, pool, NULL));
	end();
	question("cuMemFreeAsync");
	say("%d", cuMemFreeAsync(p, NULL));
	say("wait %d", cuStreamSynchronize(NULL));
	say_attributes(pool);
	end();
	question("cuMemFree");
	say("%d", cuMemFree_v2(q));
	end();
	question("cuMemPoolTrimTo, cuMemPoolDestroy");
	say("%d", cuMemPoolTrimTo(pool, 0));
	say("%d", cuMemPoolDestroy(pool));
	end();
}

/* ---- the pools that are there ---- */

static void ask_pools(const char *name, CUmemLocation where, int type)
{
	CUmemoryPool initial = NULL, now = NULL;
	CUdeviceptr p = 0;

	question("%s, allocation type %d", name, type);
	say("default %d", cuMemGetDefaultMemPool(&initial, &where, (CUmemAllocationType)type));
	say("current %d", cuMemGetMemPool(&now, &where, (CUmemAllocationType)type));
	say("%s", !now ? "none" : now == initial ? "the default one" : "another one");
	if (initial) {
		say("set %d", cuMemSetMemPool(&where, (CUmemAllocationType)type, initial));
		say_pool_access(initial);
		say("allocate %d", cuMemAllocFromPoolAsync(&p, 100000, initial, NULL));
		say("wait %d", cuStreamSynchronize(NULL));
		if (p)
			say_use(p);
	}
	end();
}

static void default_pools(const int *unused)
{
	(void)unused;
	for (int type = 1; type <= 2; type++) {
		ask_pools("DEVICE 0", (CUmemLocation){DEVICE, 0}, type);
		ask_pools("DEVICE 100", (CUmemLocation){DEVICE, 100}, type);
		ask_pools("HOST 0", (CUmemLocation){HOST, 0}, type);
		ask_pools("HOST 55", (CUmemLocation){HOST, 55}, type);
		ask_pools("HOST_NUMA 0", (CUmemLocation){NUMA, 0}, type);
		ask_pools("HOST_NUMA -1", (CUmemLocation){NUMA, -1}, type);
		ask_pools("HOST_NUMA_CURRENT 0", (CUmemLocation){CURRENT, 0}, type);
		ask_pools("no place", (CUmemLocation){NOWHERE, 0}, type);
	}
}

/* A pool that the default of its place becomes. */
static void set_pools(const int *with)
{
	CUmemLocation where = {(CUmemLocationType)with[0], 0}, device = {DEVICE, 0};
	CUmemoryPool pool = pool_of((CUmemLocationType)with[0], CU_MEM_HANDLE_TYPE_NONE), now = NULL;

	if (!pool)
		return;
	question("cuMemSetMemPool(its place)");
	say("%d", cuMemSetMemPool(&where, CU_MEM_ALLOCATION_TYPE_PINNED, pool));
	say("get %d", cuMemGetMemPool(&now, &where, CU_MEM_ALLOCATION_TYPE_PINNED));
	say("%s", now && now == pool ? "the same" : "another");
	end();
	question("cuMemSetMemPool(DEVICE 0)");
	say("%d", cuMemSetMemPool(&device, CU_MEM_ALLOCATION_TYPE_PINNED, pool));
	say("cuDeviceSetMemPool %d", cuDeviceSetMemPool(0, pool));
	end();
	question("cuMemPoolDestroy");
	say("%d", cuMemPoolDestroy(pool));
	say("get %d", cuMemGetMemPool(&now, &where, CU_MEM_ALLOCATION_TYPE_PINNED));
	say("%s", now && now == pool ? "the same" : "another");
	end();
}

static void share_pool(const int *with)
{
	CUmemoryPool pool = pool_of((CUmemLocationType)with[0], with[1]), imported = NULL;
	CUmemPoolPtrExportData data;
	CUdeviceptr p = 0, q = 0;
	int fd = -1;

	if (!pool)
		return;
	question("cuMemPoolExportToShareableHandle");
	say("%d", cuMemPoolExportToShareableHandle(&fd, pool, BY_FILE, 0));
	say("allocate %d", cuMemAllocFromPoolAsync(&p, 100000, pool, NULL));
	say("wait %d", cuStreamSynchronize(NULL));
	if (p)
		say("pointer %d", cuMemPoolExportPointer(&data, p));
	if (fd >= 0) {
		say("import %d", cuMemPoolImportFromShareableHandle(&imported, (void *)(uintptr_t)fd, BY_FILE, 0));
		close(fd);
	}
	if (imported) {
		say_pool_access(imported);
		say("pointer %d", cuMemPoolImportPointer(&q, imported, &data));
	}
	if (q)
		say("CPU %s", processor_at(q));
	end();
}

const struct group pool_groups[] = {
	{"pool", creations, {0}},
	{"pool, DEVICE", use, {DEVICE}},
	{"pool, HOST", use, {HOST}},
	{"pool, HOST_NUMA", use, {NUMA}},
	{"pool, HOST_NUMA_CURRENT", use, {CURRENT}},
	{"pools", default_pools, {0}},
	{"pool set, DEVICE", set_pools, {DEVICE}},
	{"pool set, HOST", set_pools, {HOST}},
	{"pool set, HOST_NUMA", set_pools, {NUMA}},
	{"pool shared, DEVICE", share_pool, {DEVICE, BY_FILE}},
	{"pool shared, HOST", share_pool, {HOST, BY_FILE}},
	{"pool shared, HOST_NUMA", share_pool, {NUMA, BY_FILE}},
	{NULL, NULL, {0}},
};
