/* SPDX-License-Identifier: Apache-2.0 */
/* Questions about addresses of such memory, and calls for other memory. */
#include "ask.h"

#include <stdio.h>

/* The first and the last attribute of pointers. */
#define FIRST CU_POINTER_ATTRIBUTE_CONTEXT
#define LAST CU_POINTER_ATTRIBUTE_IS_HW_DECOMPRESS_CAPABLE

static void say_attribute(CUpointer_attribute attribute, CUdeviceptr p, CUdeviceptr start, size_t bytes)
{
	unsigned long long value = 0;
	CUcontext context = NULL;

	cuCtxGetCurrent(&context);
	say("%d", cuPointerGetAttribute(&value, attribute, p));
	if (value - start < bytes)
		say("start + %llu", value - start);
	else if (value && value == (uintptr_t)context)
		say("the context");
	else if (value &&
		 (attribute == CU_POINTER_ATTRIBUTE_BUFFER_ID || attribute == CU_POINTER_ATTRIBUTE_MEMORY_BLOCK_ID))
		say("an id");
	else
		say("%llu", value);
}

static void ask_pointer(const char *name, CUdeviceptr p, CUdeviceptr start, size_t bytes)
{
	CUdeviceptr base = 0;
	unsigned int flags = 99;
	size_t size = 0;

	for (int i = FIRST; i <= LAST; i++) {
		if (i == CU_POINTER_ATTRIBUTE_P2P_TOKENS)
			continue;
		question("cuPointerGetAttribute(%s, attribute %d)", name, i);
		say_attribute((CUpointer_attribute)i, p, start, bytes);
		end();
	}
	question("cuMemGetAddressRange(%s)", name);
	say("%d", cuMemGetAddressRange_v2(&base, &size, p));
	if (base)
		say("start + %llu, %zu bytes", base - start, size);
	end();
	question("cuMemHostGetDevicePointer(%s)", name);
	base = 0;
	say("%d", cuMemHostGetDevicePointer_v2(&base, (void *)(uintptr_t)p, 0));
	say("%s", base == p ? "the same" : base ? "another" : "none");
	end();
	question("cuMemHostGetDevicePointer(%s, flags 1)", name);
	say("%d", cuMemHostGetDevicePointer_v2(&base, (void *)(uintptr_t)p, 1));
	end();
	question("cuMemHostGetFlags(%s)", name);
	say("%d", cuMemHostGetFlags(&flags, (void *)(uintptr_t)p));
	say("%u", flags);
	end();
}

/* Granules 1-2 of a reservation of 4 are one mapping, 3 is another one. */
static void pointers(const int *with)
{
	CUmemLocationType type = (CUmemLocationType)with[0];
	CUdeviceptr p = reserve(4);

	ask_pointer("reserved", p, p, 4 * granule);
	put(type, p + granule, 2);
	put(type, p + 3 * granule, 1);
	ask_pointer("mapped", p + granule + 8, p, 4 * granule);
	ask_pointer("not mapped", p, p, 4 * granule);
	if (type != DEVICE) {
		give(p + granule, 2 * granule, HOST, 0, RW);
		ask_pointer("access of HOST", p + granule + 8, p, 4 * granule);
	}
	give(p + granule, 2 * granule, DEVICE, 0, READ);
	ask_pointer("also reading by DEVICE", p + granule + 8, p, 4 * granule);
	give(p + granule, 2 * granule, DEVICE, 0, RW);
	ask_pointer("also access of DEVICE", p + granule + 8, p, 4 * granule);
	ask_pointer("the second mapping", p + 3 * granule, p, 4 * granule);
}

/* ---- calls for other memory ---- */

static void other_calls(const int *with)
{
	CUdeviceptr p = usable((CUmemLocationType)with[0], 2);
	void *address = (void *)(uintptr_t)p;

	question("cuMemHostRegister(a page)");
	say("%d", cuMemHostRegister_v2(address, 4096, 0));
	end();
	question("cuMemHostRegister(all)");
	say("%d", cuMemHostRegister_v2(address, 2 * granule, 0));
	end();
	question("cuMemHostUnregister");
	say("%d", cuMemHostUnregister(address));
	end();
	question("cuMemFreeHost");
	say("%d", cuMemFreeHost(address));
	end();
	question("cuMemFree");
	say("%d", cuMemFree_v2(p));
	end();
	question("cuMemFreeAsync");
	say("%d", cuMemFreeAsync(p, NULL));
	say("wait %d", cuStreamSynchronize(NULL));
	end();
	question("cuMemAddressFree");
	say("%d", cuMemAddressFree(p, 2 * granule));
	end();
	question("cuMemUnmap");
	say("%d", cuMemUnmap(p, 2 * granule));
	end();
}

static void prefetch(const int *with)
{
	CUdeviceptr p = usable((CUmemLocationType)with[0], 2);
	CUmemLocation device = {DEVICE, 0}, host = {HOST, 0};
	CUipcMemHandle ipc;
	unsigned int on = 1;

	question("cuMemPrefetchAsync");
	say("%d", cuMemPrefetchAsync_v2(p, granule, device, 0, NULL));
	say("%d", cuMemPrefetchAsync_v2(p, granule, host, 0, NULL));
	end();
	question("cuMemAdvise");
	say("%d", cuMemAdvise_v2(p, granule, CU_MEM_ADVISE_SET_READ_MOSTLY, device));
	end();
	question("cuIpcGetMemHandle");
	say("%d", cuIpcGetMemHandle(&ipc, p));
	end();
	question("cuPointerSetAttribute(SYNC_MEMOPS)");
	say("%d", cuPointerSetAttribute(&on, CU_POINTER_ATTRIBUTE_SYNC_MEMOPS, p));
	say_attribute(CU_POINTER_ATTRIBUTE_SYNC_MEMOPS, p, 0, 0);
	end();
}

const struct group pointer_groups[] = {
	{"pointer, DEVICE", pointers, {DEVICE}},    {"pointer, HOST", pointers, {HOST}},
	{"pointer, HOST_NUMA", pointers, {NUMA}},   {"other calls, DEVICE", other_calls, {DEVICE}},
	{"other calls, HOST", other_calls, {HOST}}, {"other calls, HOST_NUMA", other_calls, {NUMA}},
	{"hints, DEVICE", prefetch, {DEVICE}},      {"hints, HOST", prefetch, {HOST}},
	{"hints, HOST_NUMA", prefetch, {NUMA}},     {NULL, NULL, {0}},
};
