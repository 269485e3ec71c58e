/* SPDX-License-Identifier: Apache-2.0 */
/* Processors and kernels that use the memory, and questions about its addresses. */
#include "hostmem.h"

#include <string.h>

#define HOST CU_MEM_LOCATION_TYPE_HOST
#define NUMA CU_MEM_LOCATION_TYPE_HOST_NUMA

static const struct kind {
	const char *name;
	CUmemLocationType type;
} kinds[] = {{"host", HOST}, {"node", NUMA}};

static void compute(const struct kind *k)
{
	CUmemGenericAllocationHandle handle = create(k->type, 2);
	CUdeviceptr p = map(handle, 2 * granule);
	uint32_t n = (uint32_t)(2 * granule / 4), wrong = 0;

	probe_begin("use: new memory", k->name);
	for (uint32_t i = 0; i < n; i++)
		wrong += words(p)[i] != 0;
	EXPECT(!wrong);

	probe_begin("use: kernels after processors", k->name);
	for (uint32_t i = 0; i < n; i++)
		words(p)[i] = i;
	step(p, 3, n);
	for (uint32_t i = 0; i < n; i++)
		wrong += words(p)[i] != 3 * i + 1;
	EXPECT(!wrong);
	unmap(p, 2 * granule);
	OK(cuMemRelease(handle));
}

static void count_together(void)
{
	enum { ROUNDS = 200, OURS = 20000 };
	CUmemGenericAllocationHandle handle = create(HOST, 1);
	CUdeviceptr p = map(handle, granule);
	int atomics = 0;

	probe_begin("use: atomics", "of processors and kernels");
	OK(cuDeviceGetAttribute(&atomics, CU_DEVICE_ATTRIBUTE_HOST_NATIVE_ATOMIC_SUPPORTED, 0));
	count(p, ROUNDS);
	for (int i = 0; atomics && i < OURS; i++)
		__atomic_fetch_add((uint32_t *)(uintptr_t)p, 1, __ATOMIC_RELAXED);
	OK(cuCtxSynchronize());
	EXPECT(*words(p) == 256 * ROUNDS + (atomics ? OURS : 0));
	unmap(p, granule);
	OK(cuMemRelease(handle));
}

static void map_twice(void)
{
	CUmemGenericAllocationHandle handle = create(HOST, 1);
	CUdeviceptr p, q;

	probe_begin("use", "one memory at two addresses");
	OK(cuMemAddressReserve(&p, granule, 0, 0, 0));
	OK(cuMemAddressReserve(&q, granule, 0, 0, 0));
	OK(cuMemMap(p, granule, 0, handle, 0));
	OK(cuMemMap(q, granule, 0, handle, 0));
	OK(give(p, granule, HOST, 0, RW));
	OK(give(q, granule, CU_MEM_LOCATION_TYPE_DEVICE, 0, RW));
	EXPECT(p != q && !read_faults(p) && read_faults(q));
	words(p)[1000] = 20;
	step(q + 4000, 2, 1);
	EXPECT(words(p)[1000] == 41);
	unmap(q, granule);
	EXPECT(words(p)[1000] == 41);
	unmap(p, granule);
	OK(cuMemRelease(handle));
}

static void ask_pointer(const struct kind *k)
{
	CUmemAllocationProp prop = properties(NUMA, 0, BY_FILE);
	CUmemGenericAllocationHandle handle = 0;
	CUpointer_attribute type = CU_POINTER_ATTRIBUTE_MEMORY_TYPE, at = CU_POINTER_ATTRIBUTE_DEVICE_POINTER,
			    on_host = CU_POINTER_ATTRIBUTE_HOST_POINTER, managed = CU_POINTER_ATTRIBUTE_IS_MANAGED,
			    types = CU_POINTER_ATTRIBUTE_ALLOWED_HANDLE_TYPES;
	unsigned int value = 9;
	uint64_t address = 0, bits = 99;
	CUdeviceptr p;

	probe_begin("use: pointer attributes", k->name);
	if (k->type == NUMA)
		OK(cuMemCreate(&handle, granule, &prop, 0));
	else
		handle = create(k->type, 1);
	p = map(handle, granule);
	OK(cuPointerGetAttribute(&value, type, p + 100));
	EXPECT(value == CU_MEMORYTYPE_HOST);
	OK(cuPointerGetAttribute(&address, at, p + 100));
	EXPECT(address == p + 100);
	address = 0;
	OK(cuPointerGetAttribute(&address, on_host, p + 100));
	EXPECT(address == p + 100);
	OK(cuPointerGetAttribute(&value, managed, p));
	EXPECT(value == 0);
	OK(cuPointerGetAttribute(&bits, types, p));
	EXPECT(bits == (k->type == NUMA ? BY_FILE : 0u));
	OK(cuMemUnmap(p, granule));
	GIVES(cuPointerGetAttribute(&address, on_host, p), CUDA_ERROR_INVALID_VALUE);
	OK(cuMemAddressFree(p, granule));
	OK(cuMemRelease(handle));
}

void probe_use(void)
{
	for (size_t i = 0; i < 2; i++) {
		compute(&kinds[i]);
		ask_pointer(&kinds[i]);
	}
	count_together();
	map_twice();
}
