/* SPDX-License-Identifier: Apache-2.0 */
/* Handles and their memory: granularities, cuMemCreate(), properties, retaining, sharing, attributes. */
#include "ask.h"

#include <unistd.h>

static const CUmemLocation places[] = {
	{DEVICE, 0},   {DEVICE, 100}, {DEVICE, -1}, {HOST, 0},
	{HOST, 1},     {HOST, 55},    {HOST, -1},   {NUMA, 0},
	{NUMA, 1000},  {NUMA, -1},    {CURRENT, 0}, {CURRENT, 1},
	{CURRENT, 55}, {CURRENT, -1}, {NOWHERE, 0}, {(CUmemLocationType)9, 0},
};

#define PLACES (sizeof(places) / sizeof(places[0]))

static CUmemAllocationProp properties_at(CUmemLocation where, int handle_types)
{
	return properties(where.type, where.id, (CUmemAllocationHandleType)handle_types);
}

/* ---- granularities ---- */

static void ask_granularity(CUmemLocation where, int option, int handle_types)
{
	CUmemAllocationProp prop = properties_at(where, handle_types);
	size_t bytes = 4711;

	question("cuMemGetAllocationGranularity(%s %d, option %d, handle types %d)", place_name(where.type), where.id,
		 option, handle_types);
	say("%d", cuMemGetAllocationGranularity(&bytes, &prop, (CUmemAllocationGranularity_flags)option));
	say("%zu", bytes);
	end();
}

static void granularities(const int *unused)
{
	(void)unused;
	for (size_t i = 0; i < PLACES; i++) {
		for (int option = 0; option < 3; option++)
			ask_granularity(places[i], option, 0);
		ask_granularity(places[i], 0, BY_FILE);
		ask_granularity(places[i], 0, CU_MEM_HANDLE_TYPE_FABRIC);
	}
}

/* ---- cuMemCreate() ---- */

static void say_properties(CUmemGenericAllocationHandle handle)
{
	CUmemAllocationProp got = {.type = (CUmemAllocationType)77};

	say("properties %d", cuMemGetAllocationPropertiesFromHandle(&got, handle));
	say("type %d handle types %d place %d %d", got.type, got.requestedHandleTypes, got.location.type,
	    got.location.id);
	say("compression %d rdma %d usage %d", got.allocFlags.compressionType, got.allocFlags.gpuDirectRDMACapable,
	    got.allocFlags.usage);
}

static void say_creation(const CUmemAllocationProp *prop, size_t bytes, unsigned long long flags)
{
	CUmemGenericAllocationHandle handle = 0;
	CUresult code = cuMemCreate(&handle, bytes, prop, flags);

	say("%d", code);
	if (code == CUDA_SUCCESS)
		cuMemRelease(handle);
	end();
}

static void create_at(CUmemLocation where, int handle_types)
{
	CUmemAllocationProp prop = properties_at(where, handle_types);

	question("cuMemCreate(%s %d, handle types %d)", place_name(where.type), where.id, handle_types);
	say_creation(&prop, granule, 0);
}

static void create_size(CUmemLocationType type, const char *name, size_t bytes, unsigned long long flags)
{
	CUmemAllocationProp prop = properties(type, 0, CU_MEM_HANDLE_TYPE_NONE);

	question("cuMemCreate(%s, %s)", place_name(type), name);
	say_creation(&prop, bytes, flags);
}

static void create_with(CUmemLocationType type, const char *name, CUmemAllocationProp prop)
{
	prop.location = (CUmemLocation){type, 0};
	question("cuMemCreate(%s, %s)", place_name(type), name);
	say_creation(&prop, granule, 0);
}

static void creations(const int *unused)
{
	static const CUmemLocationType types[] = {DEVICE, HOST, NUMA};

	(void)unused;
	for (size_t i = 0; i < PLACES; i++) {
		create_at(places[i], CU_MEM_HANDLE_TYPE_NONE);
		create_at(places[i], BY_FILE);
		create_at(places[i], CU_MEM_HANDLE_TYPE_FABRIC);
		create_at(places[i], 2);
		create_at(places[i], 64);
	}
	for (size_t i = 0; i < 3; i++) {
		CUmemAllocationProp prop = properties(types[i], 0, CU_MEM_HANDLE_TYPE_NONE);

		create_size(types[i], "4 KiB", 4096, 0);
		create_size(types[i], "64 KiB", 65536, 0);
		create_size(types[i], "a granule and a byte", granule + 1, 0);
		create_size(types[i], "size 0", 0, 0);
		create_size(types[i], "flags 1", granule, 1);
		create_size(types[i], "2 PiB", (size_t)1 << 51, 0);
		prop.type = (CUmemAllocationType)0;
		create_with(types[i], "allocation type 0", prop);
		prop.type = (CUmemAllocationType)2;
		create_with(types[i], "allocation type 2", prop);
		prop.type = CU_MEM_ALLOCATION_TYPE_PINNED;
		prop.allocFlags.compressionType = 1;
		create_with(types[i], "compression", prop);
		prop.allocFlags.compressionType = 0;
		prop.allocFlags.gpuDirectRDMACapable = 1;
		create_with(types[i], "rdma", prop);
		prop.allocFlags.gpuDirectRDMACapable = 0;
		prop.allocFlags.usage = 1;
		create_with(types[i], "usage 1", prop);
	}
}

/* ---- handles after their end ---- */

static void handles(const int *with)
{
	CUmemLocationType type = (CUmemLocationType)with[0];
	CUmemGenericAllocationHandle handle = make(type, 1), again = 0;
	CUdeviceptr p = reserve(2);

	question("cuMemRelease of what is not mapped");
	say("%d", cuMemRelease(handle));
	say_properties(handle);
	say("again %d", cuMemRelease(handle));
	say_properties(handle);
	end();
	handle = put(type, p, 1);
	question("cuMemRelease of what is mapped");
	say("%d", cuMemRelease(handle));
	say_properties(handle);
	say("again %d", cuMemRelease(handle));
	say("map %d", cuMemMap(p + granule, granule, 0, handle, 0));
	say("access %d", give(p, granule, DEVICE, 0, RW));
	end();
	question("cuMemRetainAllocationHandle(start)");
	say("%d", cuMemRetainAllocationHandle(&again, (void *)(uintptr_t)p));
	say("%s", again == handle ? "the same handle" : "another handle");
	say_properties(again);
	say("release %d", cuMemRelease(again));
	say("again %d", cuMemRelease(again));
	end();
	question("cuMemRetainAllocationHandle(last byte)");
	say("%d", cuMemRetainAllocationHandle(&again, (void *)(uintptr_t)(p + granule - 1)));
	end();
	question("cuMemRetainAllocationHandle(not mapped)");
	say("%d", cuMemRetainAllocationHandle(&again, (void *)(uintptr_t)(p + granule)));
	end();
	question("cuMemRetainAllocationHandle(NULL)");
	say("%d", cuMemRetainAllocationHandle(&again, NULL));
	end();
	question("unmapped");
	say("unmap %d", cuMemUnmap(p, granule));
	say_properties(again);
	say("release %d", cuMemRelease(again));
	say("again %d", cuMemRelease(again));
	say_properties(again);
	end();
	question("cuMemGetAllocationPropertiesFromHandle(0)");
	say_properties(0);
	end();
}

/* ---- sharing ---- */

static void share(const int *with)
{
	CUmemAllocationProp prop = properties((CUmemLocationType)with[0], 0, (CUmemAllocationHandleType)with[1]);
	CUmemGenericAllocationHandle handle = 0, imported = 0;
	CUdeviceptr p = reserve(2);
	int fd = -1;

	question("cuMemExportToShareableHandle");
	say("create %d", cuMemCreate(&handle, granule, &prop, 0));
	say("export %d", cuMemExportToShareableHandle(&fd, handle, BY_FILE, 0));
	say("%s", fd < 0 ? "no descriptor" : "a descriptor");
	if (fd >= 0) {
		say("import %d", cuMemImportFromShareableHandle(&imported, (void *)(uintptr_t)fd, BY_FILE));
		say("%s", imported == handle ? "the same handle" : "another handle");
		say_properties(imported);
		say("map %d", cuMemMap(p, granule, 0, imported, 0));
		say("device %d", give(p, granule, DEVICE, 0, RW));
		say("HOST %d", give(p, granule, HOST, 0, RW));
		say("HOST_NUMA %d", give(p, granule, NUMA, 0, RW));
		say("CPU %s", processor_at(p));
		close(fd);
	}
	end();
}

/* ---- attributes ---- */

static void attributes(const int *unused)
{
	static const struct {
		const char *name;
		CUdevice_attribute attribute;
	} asked[] = {
		{"VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED", CU_DEVICE_ATTRIBUTE_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED},
		{"HOST_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED",
		 CU_DEVICE_ATTRIBUTE_HOST_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED},
		{"HOST_NUMA_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED",
		 CU_DEVICE_ATTRIBUTE_HOST_NUMA_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED},
		{"MEMORY_POOLS_SUPPORTED", CU_DEVICE_ATTRIBUTE_MEMORY_POOLS_SUPPORTED},
		{"HOST_MEMORY_POOLS_SUPPORTED", CU_DEVICE_ATTRIBUTE_HOST_MEMORY_POOLS_SUPPORTED},
		{"HOST_NUMA_MEMORY_POOLS_SUPPORTED", CU_DEVICE_ATTRIBUTE_HOST_NUMA_MEMORY_POOLS_SUPPORTED},
		{"MEMPOOL_SUPPORTED_HANDLE_TYPES", CU_DEVICE_ATTRIBUTE_MEMPOOL_SUPPORTED_HANDLE_TYPES},
		{"HOST_NUMA_MULTINODE_IPC_SUPPORTED", CU_DEVICE_ATTRIBUTE_HOST_NUMA_MULTINODE_IPC_SUPPORTED},
		{"HOST_NUMA_ID", CU_DEVICE_ATTRIBUTE_HOST_NUMA_ID},
		{"NUMA_ID", CU_DEVICE_ATTRIBUTE_NUMA_ID},
		{"NUMA_CONFIG", CU_DEVICE_ATTRIBUTE_NUMA_CONFIG},
		{"HOST_ALLOC_DMA_BUF_SUPPORTED", CU_DEVICE_ATTRIBUTE_HOST_ALLOC_DMA_BUF_SUPPORTED},
		{"PAGEABLE_MEMORY_ACCESS", CU_DEVICE_ATTRIBUTE_PAGEABLE_MEMORY_ACCESS},
		{"HANDLE_TYPE_POSIX_FILE_DESCRIPTOR_SUPPORTED",
		 CU_DEVICE_ATTRIBUTE_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR_SUPPORTED},
		{"HANDLE_TYPE_FABRIC_SUPPORTED", CU_DEVICE_ATTRIBUTE_HANDLE_TYPE_FABRIC_SUPPORTED},
	};

	(void)unused;
	for (size_t i = 0; i < sizeof(asked) / sizeof(asked[0]); i++) {
		int value = -77;

		question("cuDeviceGetAttribute(%s)", asked[i].name);
		say("%d", cuDeviceGetAttribute(&value, asked[i].attribute, 0));
		say("%d", value);
		end();
	}
}

const struct group place_groups[] = {
	{"granularity", granularities, {0}},
	{"create", creations, {0}},
	{"handle, DEVICE", handles, {DEVICE}},
	{"handle, HOST", handles, {HOST}},
	{"handle, HOST_NUMA", handles, {NUMA}},
	{"share, DEVICE", share, {DEVICE, BY_FILE}},
	{"share, HOST", share, {HOST, CU_MEM_HANDLE_TYPE_NONE}},
	{"share, HOST_NUMA", share, {NUMA, BY_FILE}},
	{"share, HOST_NUMA not to be shared", share, {NUMA, CU_MEM_HANDLE_TYPE_NONE}},
	{"attribute", attributes, {0}},
	{NULL, NULL, {0}},
};
