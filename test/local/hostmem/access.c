/* SPDX-License-Identifier: Apache-2.0 */
/* Processors and kernels may access the memory only after cuMemSetAccess(). */
#include "hostmem.h"

#define DEVICE CU_MEM_LOCATION_TYPE_DEVICE
#define HOST CU_MEM_LOCATION_TYPE_HOST
#define NUMA CU_MEM_LOCATION_TYPE_HOST_NUMA
#define CURRENT CU_MEM_LOCATION_TYPE_HOST_NUMA_CURRENT
#define NONE CU_MEM_ACCESS_FLAGS_PROT_NONE
#define READ CU_MEM_ACCESS_FLAGS_PROT_READ

static const struct access {
	const char *name;
	CUmemLocationType memory, type;
	int id;
	CUmemAccess_flags flags;
	CUresult expected;
} accesses[] = {
	{"host to HOST", HOST, HOST, 0, RW, CUDA_SUCCESS},
	{"host to HOST, any id", HOST, HOST, 55, RW, CUDA_SUCCESS},
	{"host to HOST_NUMA", HOST, NUMA, 0, RW, CUDA_SUCCESS},
	{"node to HOST_NUMA", NUMA, NUMA, 0, RW, CUDA_SUCCESS},
	{"node to HOST_NUMA, any id", NUMA, NUMA, 55, RW, CUDA_SUCCESS},
	{"node to HOST", NUMA, HOST, 0, RW, CUDA_SUCCESS},
	{"node to the current one", NUMA, CURRENT, 0, RW, CUDA_ERROR_INVALID_VALUE},
	{"host to no place", HOST, CU_MEM_LOCATION_TYPE_INVALID, 0, RW, CUDA_ERROR_INVALID_VALUE},
	{"host to a device", HOST, DEVICE, 0, RW, CUDA_SUCCESS},
	{"host to no device", HOST, DEVICE, 100, RW, CUDA_ERROR_INVALID_VALUE},
	{"host, bad flags", HOST, HOST, 0, (CUmemAccess_flags)2, CUDA_ERROR_INVALID_VALUE},
	{"device, bad flags", HOST, DEVICE, 0, (CUmemAccess_flags)8, CUDA_ERROR_INVALID_VALUE},
	{"host to HOST, reading", HOST, HOST, 0, READ, CUDA_SUCCESS},
	{"host to a device, reading", HOST, DEVICE, 0, READ, CUDA_SUCCESS},
};

static unsigned long long access_of(CUdeviceptr p, CUmemLocationType type)
{
	CUmemLocation where = {type, 0};
	unsigned long long flags = 99;

	OK(cuMemGetAccess(&flags, &where, p));
	return flags;
}

static void set_one(const struct access *a)
{
	CUmemGenericAllocationHandle handle = create(a->memory, 1);
	bool is_device = a->type == DEVICE, is_set = a->expected == CUDA_SUCCESS;
	CUdeviceptr p;

	probe_begin("access", a->name);
	OK(cuMemAddressReserve(&p, granule, 0, 0, 0));
	OK(cuMemMap(p, granule, 0, handle, 0));
	EXPECT(access_of(p, DEVICE) == NONE && access_of(p, HOST) == NONE);
	EXPECT(read_faults(p));
	GIVES(give(p, granule, a->type, a->id, a->flags), a->expected);
	EXPECT(access_of(p + granule - 1, DEVICE) == (is_set && is_device ? a->flags : NONE));
	/* NVIDIA's driver says the device's where processors have none. */
	EXPECT(access_of(p + granule - 1, HOST) == (is_set ? a->flags : NONE));
	EXPECT(access_of(p + granule - 1, NUMA) == (is_set && !is_device ? a->flags : NONE));
	EXPECT(read_faults(p + 4096) != (is_set && !is_device));
	EXPECT(write_faults(p + granule - 4) != (is_set && !is_device && a->flags == RW));
	/* A driver may say later what it cannot write to. */
	if (has_places || a->flags != READ)
		GIVES(cuMemsetD8_v2(p, 1, 16),
		      is_set && is_device && a->flags == RW ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE);
	unmap(p, granule);
	OK(cuMemRelease(handle));
}

static void take_away(void)
{
	CUmemGenericAllocationHandle handle = create(HOST, 1);
	CUdeviceptr p = map(handle, granule);

	probe_begin("access", "taken away from processors");
	*words(p) = 5;
	OK(give(p, granule, HOST, 0, NONE));
	EXPECT(read_faults(p) && write_faults(p));
	step(p, 2, 1);
	OK(give(p, granule, HOST, 0, READ));
	EXPECT(*words(p) == 11 && write_faults(p));
	OK(give(p, granule, HOST, 0, RW));
	*words(p) = 6;

	probe_begin("access", "taken away from the device");
	OK(give(p, granule, DEVICE, 0, NONE));
	GIVES(cuMemsetD8_v2(p, 1, 16), CUDA_ERROR_INVALID_VALUE);
	EXPECT(*words(p) == 6);
	OK(give(p, granule, DEVICE, 0, READ));
	EXPECT(access_of(p, DEVICE) == READ);
	OK(give(p, granule, DEVICE, 0, RW));
	step(p, 1, 1);
	EXPECT(*words(p) == 7);
	unmap(p, granule);
	OK(cuMemRelease(handle));
}

static void give_several(void)
{
	CUmemGenericAllocationHandle handle = create(NUMA, 2);
	CUmemAccessDesc both[2] = {{{DEVICE, 0}, RW}, {{NUMA, 0}, RW}};
	CUdeviceptr p;

	probe_begin("access", "to both at once, as NCCL gives it");
	OK(cuMemAddressReserve(&p, 2 * granule, granule, 0, 0));
	OK(cuMemMap(p, 2 * granule, 0, handle, 0));
	GIVES(cuMemSetAccess(p, 2 * granule, both, 0), CUDA_ERROR_INVALID_VALUE);
	GIVES(cuMemSetAccess(p, 2 * granule, NULL, 1), CUDA_ERROR_INVALID_VALUE);
	OK(cuMemSetAccess(p, 2 * granule, both, 2));
	if (write_faults(p + granule)) {
		EXPECT(!"no access was given");
	} else {
		*words(p + granule) = 3;
		step(p + granule, 7, 1);
		EXPECT(*words(p + granule) == 22);
	}

	probe_begin("access", "to a part");
	GIVES(give(p, granule, HOST, 0, RW), CUDA_ERROR_INVALID_VALUE);
	GIVES(give(p, granule, DEVICE, 0, RW), CUDA_ERROR_INVALID_VALUE);
	GIVES(give(p + granule, granule, HOST, 0, NONE), CUDA_ERROR_INVALID_VALUE);
	GIVES(give(p, 3 * granule, HOST, 0, RW), CUDA_ERROR_INVALID_VALUE);
	unmap(p, 2 * granule);
	OK(cuMemRelease(handle));
}

static void ask_device_memory(void)
{
	CUmemAllocationProp prop = properties(DEVICE, 0, CU_MEM_HANDLE_TYPE_NONE);
	CUmemGenericAllocationHandle handle;
	CUdeviceptr p;

	probe_begin("access", "of processors to device memory");
	OK(cuMemCreate(&handle, granule, &prop, 0));
	OK(cuMemAddressReserve(&p, granule, 0, 0, 0));
	OK(cuMemMap(p, granule, 0, handle, 0));
	GIVES(give(p, granule, HOST, 0, RW), CUDA_ERROR_NOT_SUPPORTED);
	GIVES(give(p, granule, NUMA, 0, RW), CUDA_ERROR_NOT_SUPPORTED);
	OK(give(p, granule, HOST, 0, NONE));
	EXPECT(access_of(p, HOST) == NONE);
	EXPECT(read_faults(p));
	unmap(p, granule);
	OK(cuMemRelease(handle));
}

void probe_access(void)
{
	for (size_t i = 0; i < sizeof(accesses) / sizeof(accesses[0]); i++)
		set_one(&accesses[i]);
	take_away();
	give_several();
	ask_device_memory();
}
