/* SPDX-License-Identifier: Apache-2.0 */
/* The codes of each call, by NVIDIA's documentation of cuMemCreate(), cuMemMap() and cuMemSetAccess(). */
#include "hostmem.h"

#include <string.h>

#define DEVICE CU_MEM_LOCATION_TYPE_DEVICE
#define HOST CU_MEM_LOCATION_TYPE_HOST
#define NUMA CU_MEM_LOCATION_TYPE_HOST_NUMA
#define CURRENT CU_MEM_LOCATION_TYPE_HOST_NUMA_CURRENT
#define NONE CU_MEM_HANDLE_TYPE_NONE

static const struct creation {
	const char *name;
	CUmemLocationType type;
	int id;
	CUmemAllocationHandleType handle_types;
	size_t granules, more; /* bytes beyond these */
	unsigned long long flags;
	CUresult expected;
} creations[] = {
	{"host", HOST, 0, NONE, 1, 0, 0, CUDA_SUCCESS},
	{"host, any id", HOST, 77, NONE, 1, 0, 0, CUDA_SUCCESS},
	{"host, negative id", HOST, -1, NONE, 2, 0, 0, CUDA_SUCCESS},
	{"host, to share", HOST, 0, BY_FILE, 1, 0, 0, CUDA_ERROR_INVALID_VALUE},
	{"host, as fabric", HOST, 0, CU_MEM_HANDLE_TYPE_FABRIC, 1, 0, 0, CUDA_ERROR_INVALID_VALUE},
	{"node 0", NUMA, 0, NONE, 1, 0, 0, CUDA_SUCCESS},
	{"node 0, to share", NUMA, 0, BY_FILE, 3, 0, 0, CUDA_SUCCESS},
	{"node -1", NUMA, -1, NONE, 1, 0, 0, CUDA_ERROR_INVALID_VALUE},
	{"node 1000", NUMA, 1000, NONE, 1, 0, 0, CUDA_ERROR_INVALID_VALUE},
	{"node 100000", NUMA, 100000, NONE, 1, 0, 0, CUDA_ERROR_INVALID_VALUE},
	{"current node", CURRENT, 0, NONE, 1, 0, 0, CUDA_ERROR_INVALID_VALUE},
	{"no place", CU_MEM_LOCATION_TYPE_INVALID, 0, NONE, 1, 0, 0, CUDA_ERROR_INVALID_VALUE},
	{"half a granule", HOST, 0, NONE, 0, 4096, 0, CUDA_ERROR_INVALID_VALUE},
	{"a byte more", NUMA, 0, NONE, 1, 1, 0, CUDA_ERROR_INVALID_VALUE},
	{"nothing", HOST, 0, NONE, 0, 0, 0, CUDA_ERROR_INVALID_VALUE},
	{"flags", HOST, 0, NONE, 1, 0, 1, CUDA_ERROR_INVALID_VALUE},
	{"more than there is", HOST, 0, NONE, (size_t)1 << 30, 0, 0, CUDA_ERROR_OUT_OF_MEMORY},
};

static void create_one(const struct creation *c)
{
	CUmemAllocationProp prop = properties(c->type, c->id, c->handle_types), got;
	CUmemGenericAllocationHandle handle = 0;

	probe_begin("create", c->name);
	GIVES(cuMemCreate(&handle, c->granules * granule + c->more, &prop, c->flags), c->expected);
	if (c->expected != CUDA_SUCCESS)
		return;
	OK(cuMemGetAllocationPropertiesFromHandle(&got, handle));
	EXPECT(got.type == prop.type && got.requestedHandleTypes == prop.requestedHandleTypes);
	/* HOST has the node here. */
	EXPECT(got.location.type == (c->type == HOST ? NUMA : c->type) &&
	       (c->type == HOST || got.location.id == c->id));
	OK(cuMemRelease(handle));
	GIVES(cuMemRelease(handle), CUDA_ERROR_INVALID_VALUE);
}

static const struct granularity {
	const char *name;
	CUmemLocationType type;
	CUmemAllocationGranularity_flags option;
	CUresult expected;
} granularities[] = {
	{"host, least", HOST, CU_MEM_ALLOC_GRANULARITY_MINIMUM, CUDA_SUCCESS},
	{"host, best", HOST, CU_MEM_ALLOC_GRANULARITY_RECOMMENDED, CUDA_SUCCESS},
	{"node, least", NUMA, CU_MEM_ALLOC_GRANULARITY_MINIMUM, CUDA_SUCCESS},
	{"node, best", NUMA, CU_MEM_ALLOC_GRANULARITY_RECOMMENDED, CUDA_SUCCESS},
	{"host, another option", HOST, (CUmemAllocationGranularity_flags)7, CUDA_ERROR_INVALID_VALUE},
	{"current node", CURRENT, CU_MEM_ALLOC_GRANULARITY_MINIMUM, CUDA_SUCCESS},
};

static void ask_granularity(const struct granularity *g)
{
	CUmemAllocationProp prop = properties(g->type, 0, NONE);
	size_t bytes = 0;

	probe_begin("granularity", g->name);
	GIVES(cuMemGetAllocationGranularity(&bytes, &prop, g->option), g->expected);
	EXPECT(g->expected != CUDA_SUCCESS || (bytes && bytes % granule == 0));
}

static void ask_attributes(void)
{
	static const struct {
		const char *name;
		CUdevice_attribute attribute;
		int value;
	} asked[] = {
		{"HOST", CU_DEVICE_ATTRIBUTE_HOST_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED, 1},
		{"HOST_NUMA", CU_DEVICE_ATTRIBUTE_HOST_NUMA_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED, 1},
		{"pools, HOST", CU_DEVICE_ATTRIBUTE_HOST_MEMORY_POOLS_SUPPORTED, 1},
		{"pools, HOST_NUMA", CU_DEVICE_ATTRIBUTE_HOST_NUMA_MEMORY_POOLS_SUPPORTED, 1},
		{"several machines", CU_DEVICE_ATTRIBUTE_HOST_NUMA_MULTINODE_IPC_SUPPORTED, 0},
	};
	CUmemAllocationProp prop = properties(NUMA, 0, BY_FILE);
	CUmemGenericAllocationHandle handle;
	int value;

	for (size_t i = 0; i < sizeof(asked) / sizeof(asked[0]); i++) {
		probe_begin("attribute", asked[i].name);
		value = -2;
		OK(cuDeviceGetAttribute(&value, asked[i].attribute, 0));
		EXPECT(value == asked[i].value);
	}
	/* As NCCL does. */
	probe_begin("attribute", "HOST_NUMA_ID");
	value = -2;
	OK(cuDeviceGetAttribute(&value, CU_DEVICE_ATTRIBUTE_HOST_NUMA_ID, 0));
	EXPECT(value >= -1);
	prop.location.id = value < 0 ? 0 : value;
	OK(cuMemCreate(&handle, granule, &prop, 0));
	OK(cuMemRelease(handle));
}

static void map_wrongly(void)
{
	CUmemGenericAllocationHandle handle = create(HOST, 2), other = create(NUMA, 1);
	CUdeviceptr p;

	probe_begin("map", "codes");
	OK(cuMemAddressReserve(&p, 4 * granule, 0, 0, 0));
	GIVES(cuMemMap(p, 2 * granule, granule, handle, 0), CUDA_ERROR_NOT_SUPPORTED);
	GIVES(cuMemMap(p, granule, 0, handle, 0), CUDA_ERROR_NOT_SUPPORTED);
	GIVES(cuMemMap(p, 3 * granule, 0, handle, 0), CUDA_ERROR_NOT_SUPPORTED);
	GIVES(cuMemMap(p, 0, 0, handle, 0), CUDA_ERROR_INVALID_VALUE);
	GIVES(cuMemMap(p + 4096, 2 * granule, 0, handle, 0), CUDA_ERROR_INVALID_VALUE);
	GIVES(cuMemMap(p, 2 * granule, 0, handle, 1), CUDA_ERROR_INVALID_VALUE);
	GIVES(cuMemMap(granule, 2 * granule, 0, handle, 0), CUDA_ERROR_INVALID_VALUE);
	GIVES(cuMemMap(p, 2 * granule, 0, handle + 1000, 0), CUDA_ERROR_INVALID_VALUE);

	probe_begin("map", "over a mapping");
	OK(cuMemMap(p + granule, 2 * granule, 0, handle, 0));
	GIVES(cuMemMap(p + granule, granule, 0, other, 0), CUDA_ERROR_INVALID_VALUE);
	GIVES(cuMemMap(p, 2 * granule, 0, handle, 0), CUDA_ERROR_INVALID_VALUE);
	GIVES(cuMemMap(p + 2 * granule, 2 * granule, 0, handle, 0), CUDA_ERROR_INVALID_VALUE);

	probe_begin("unmap", "codes");
	GIVES(cuMemUnmap(p + granule, granule), CUDA_ERROR_INVALID_VALUE);
	GIVES(cuMemUnmap(p + granule, 0), CUDA_ERROR_INVALID_VALUE);
	GIVES(cuMemUnmap(p, 2 * granule), CUDA_ERROR_INVALID_VALUE);
	OK(cuMemUnmap(p, granule));
	GIVES(cuMemAddressFree(p, 4 * granule), CUDA_ERROR_INVALID_VALUE);
	OK(cuMemUnmap(p, 4 * granule));
	OK(cuMemUnmap(p + granule, 2 * granule));
	OK(cuMemAddressFree(p, 4 * granule));
	GIVES(cuMemUnmap(p, 4 * granule), CUDA_ERROR_INVALID_VALUE);
	OK(cuMemRelease(handle));
	OK(cuMemRelease(other));
}

/* If the mapping exists nevertheless, it is unmapped. */
static void map_beyond(void)
{
	CUmemGenericAllocationHandle handle = create(HOST, 2);
	CUdeviceptr p;
	CUresult code;

	probe_begin("map", "beyond a reservation");
	OK(cuMemAddressReserve(&p, 4 * granule, 0, 0, 0));
	code = cuMemMap(p + 3 * granule, 2 * granule, 0, handle, 0);
	GIVES(code, CUDA_ERROR_INVALID_VALUE);
	if (code == CUDA_SUCCESS)
		OK(cuMemUnmap(p + 3 * granule, 2 * granule));
	OK(cuMemAddressFree(p, 4 * granule));
	OK(cuMemRelease(handle));
}

static void use_as_other_memory(void)
{
	CUmemGenericAllocationHandle handle = create(HOST, 1);
	CUdeviceptr p = map(handle, granule), d;

	probe_begin("memory", "of other calls");
	GIVES(cuMemHostRegister_v2((void *)(uintptr_t)p, 4096, 0), CUDA_ERROR_INVALID_VALUE);
	GIVES(cuMemFreeHost((void *)(uintptr_t)p), CUDA_ERROR_INVALID_VALUE);
	GIVES(cuMemFree_v2(p), CUDA_ERROR_INVALID_VALUE);
	OK(cuMemHostGetDevicePointer_v2(&d, (void *)(uintptr_t)p, 0));
	EXPECT(d == p);
	GIVES(cuMemAddressFree(p, granule), CUDA_ERROR_INVALID_VALUE);
	unmap(p, granule);
	OK(cuMemRelease(handle));
}

void probe_codes(void)
{
	for (size_t i = 0; i < sizeof(creations) / sizeof(creations[0]); i++)
		create_one(&creations[i]);
	for (size_t i = 0; i < sizeof(granularities) / sizeof(granularities[0]); i++)
		ask_granularity(&granularities[i]);
	ask_attributes();
	map_wrongly();
	map_beyond();
	use_as_other_memory();
}
