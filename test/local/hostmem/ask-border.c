/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Copies over the border of two mappings side by side. NVIDIA's driver crashes where one is of the host and the other
 * of the device: that is not asked.
 */
#include "ask.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define AT (granule - 4096) /* the border is in the middle of what is copied */
#define BYTES 8192u
#define WORDS (BYTES / 4)
#define OLD 0x01010101u
#define NEW 0x02020202u

/* The border, and the other end of a copy. */
static CUdeviceptr border;
static union {
	void *p;
	CUdeviceptr d;
} other;

static CUDA_MEMCPY2D rows(CUdeviceptr to, CUdeviceptr from)
{
	return (CUDA_MEMCPY2D){.srcMemoryType = CU_MEMORYTYPE_UNIFIED,
			       .srcDevice = from,
			       .srcPitch = 1024,
			       .dstMemoryType = CU_MEMORYTYPE_UNIFIED,
			       .dstDevice = to,
			       .dstPitch = 1024,
			       .WidthInBytes = 1024,
			       .Height = BYTES / 1024};
}

static CUresult rows_into(void)
{
	CUDA_MEMCPY2D c = rows(border, other.d);

	return cuMemcpy2D_v2(&c);
}

static CUresult rows_from(void)
{
	CUDA_MEMCPY2D c = rows(other.d, border);

	return cuMemcpy2D_v2(&c);
}

static void *at_border(void)
{
	return (void *)(uintptr_t)border;
}

static CUresult htod_into(void)
{
	return cuMemcpyHtoD_v2(border, other.p, BYTES);
}
static CUresult htod_from(void)
{
	return cuMemcpyHtoD_v2(other.d, at_border(), BYTES);
}
static CUresult dtoh_into(void)
{
	return cuMemcpyDtoH_v2(at_border(), other.d, BYTES);
}
static CUresult dtoh_from(void)
{
	return cuMemcpyDtoH_v2(other.p, border, BYTES);
}
static CUresult dtod_into(void)
{
	return cuMemcpyDtoD_v2(border, other.d, BYTES);
}
static CUresult dtod_from(void)
{
	return cuMemcpyDtoD_v2(other.d, border, BYTES);
}
static CUresult any_into(void)
{
	return cuMemcpy(border, other.d, BYTES);
}
static CUresult any_from(void)
{
	return cuMemcpy(other.d, border, BYTES);
}
static CUresult htod_async_into(void)
{
	return cuMemcpyHtoDAsync_v2(border, other.p, BYTES, NULL);
}
static CUresult htod_async_from(void)
{
	return cuMemcpyHtoDAsync_v2(other.d, at_border(), BYTES, NULL);
}
static CUresult dtoh_async_into(void)
{
	return cuMemcpyDtoHAsync_v2(at_border(), other.d, BYTES, NULL);
}
static CUresult dtoh_async_from(void)
{
	return cuMemcpyDtoHAsync_v2(other.p, border, BYTES, NULL);
}
static CUresult dtod_async_into(void)
{
	return cuMemcpyDtoDAsync_v2(border, other.d, BYTES, NULL);
}
static CUresult any_async_into(void)
{
	return cuMemcpyAsync(border, other.d, BYTES, NULL);
}
static CUresult any_async_from(void)
{
	return cuMemcpyAsync(other.d, border, BYTES, NULL);
}
static CUresult set_8(void)
{
	return cuMemsetD8_v2(border, NEW & 0xff, BYTES);
}
static CUresult set_32(void)
{
	return cuMemsetD32_v2(border, NEW, WORDS);
}
static CUresult set_32_async(void)
{
	return cuMemsetD32Async(border, NEW, WORDS, NULL);
}
static CUresult set_rows(void)
{
	return cuMemsetD2D32_v2(border, 1024, NEW, 256, BYTES / 1024);
}

enum end { PAGEABLE = 1, PINNED = 2, ALLOCATED = 4, NO_END = 8 };

static const struct {
	const char *name;
	CUresult (*call)(void);
	bool is_into;
	int ends; /* kinds of memory for the other end */
} calls[] = {
	{"cuMemcpyHtoD into", htod_into, true, PAGEABLE | PINNED | ALLOCATED},
	{"cuMemcpyHtoD from", htod_from, false, ALLOCATED | PINNED},
	{"cuMemcpyDtoH into", dtoh_into, true, ALLOCATED | PINNED},
	{"cuMemcpyDtoH from", dtoh_from, false, PAGEABLE | PINNED | ALLOCATED},
	{"cuMemcpyDtoD into", dtod_into, true, ALLOCATED | PINNED},
	{"cuMemcpyDtoD from", dtod_from, false, ALLOCATED | PINNED},
	{"cuMemcpy into", any_into, true, PAGEABLE | PINNED | ALLOCATED},
	{"cuMemcpy from", any_from, false, PAGEABLE | PINNED | ALLOCATED},
	{"cuMemcpyHtoDAsync into", htod_async_into, true, PAGEABLE | PINNED | ALLOCATED},
	{"cuMemcpyHtoDAsync from", htod_async_from, false, ALLOCATED},
	{"cuMemcpyDtoHAsync into", dtoh_async_into, true, ALLOCATED},
	{"cuMemcpyDtoHAsync from", dtoh_async_from, false, PAGEABLE | PINNED | ALLOCATED},
	{"cuMemcpyDtoDAsync into", dtod_async_into, true, ALLOCATED},
	{"cuMemcpyAsync into", any_async_into, true, PAGEABLE | PINNED | ALLOCATED},
	{"cuMemcpyAsync from", any_async_from, false, PAGEABLE | PINNED | ALLOCATED},
	{"cuMemcpy2D into", rows_into, true, PAGEABLE | PINNED | ALLOCATED},
	{"cuMemcpy2D from", rows_from, false, PAGEABLE | PINNED | ALLOCATED},
	{"cuMemsetD8", set_8, true, NO_END},
	{"cuMemsetD32", set_32, true, NO_END},
	{"cuMemsetD32Async", set_32_async, true, NO_END},
	{"cuMemsetD2D32", set_rows, true, NO_END},
};

/* Each half is within one mapping. */
static CUresult fill_border(uint32_t value)
{
	CUresult first = cuMemsetD32_v2(border, value, WORDS / 2);

	return first ? first : cuMemsetD32_v2(border + BYTES / 2, value, WORDS / 2);
}

static CUresult read_border(uint32_t *value)
{
	CUresult first = cuMemcpyDtoH_v2(value, border, BYTES / 2);

	return first ? first : cuMemcpyDtoH_v2(value + WORDS / 2, border + BYTES / 2, BYTES / 2);
}

static void fill_other(int kind, uint32_t value)
{
	if (kind == ALLOCATED)
		cuMemsetD32_v2(other.d, value, WORDS);
	else if (kind != NO_END)
		for (size_t i = 0; i < WORDS; i++)
			((uint32_t *)other.p)[i] = value;
}

static void take_other(int kind)
{
	other.d = 0;
	if (kind == PAGEABLE)
		other.p = malloc(BYTES);
	else if (kind == PINNED)
		cuMemAllocHost_v2(&other.p, BYTES);
	else if (kind == ALLOCATED)
		cuMemAlloc_v2(&other.d, BYTES);
}

static void say_result(size_t i, int kind)
{
	uint32_t got[WORDS] = {0};
	size_t right = 0;
	CUresult code = CUDA_SUCCESS;

	if (calls[i].is_into)
		code = read_border(got);
	else if (kind == ALLOCATED)
		code = cuMemcpyDtoH_v2(got, other.d, BYTES);
	else
		memcpy(got, other.p, BYTES);
	for (size_t j = 0; j < WORDS; j++)
		right += got[j] == NEW;
	if (code)
		say("reading gives %d", code);
	else
		say("%s", right == WORDS ? "all of it" : right ? "a part of it" : "nothing");
}

static void ask_one(size_t i, int kind, const char *name)
{
	CUresult code;

	if (!(calls[i].ends & kind))
		return;
	question("%s, other end %s", calls[i].name, name);
	take_other(kind);
	code = fill_border(calls[i].is_into ? OLD : NEW);
	fill_other(kind, calls[i].is_into ? NEW : OLD);
	cuCtxSynchronize();
	if (code)
		say("filling gives %d", code);
	say("%d", calls[i].call());
	say("wait %d", cuCtxSynchronize());
	say_result(i, kind);
	end();
}

static void copies(const int *with)
{
	CUmemLocationType first = (CUmemLocationType)with[0], second = (CUmemLocationType)with[1];
	CUdeviceptr p = reserve(2);

	put(first, p, 1);
	put(second, p + granule, 1);
	question("cuMemSetAccess");
	say("%d", give(p, 2 * granule, DEVICE, 0, RW));
	if (first != DEVICE)
		say("HOST %d", give(p, granule, HOST, 0, RW));
	if (second != DEVICE)
		say("HOST %d", give(p + granule, granule, HOST, 0, RW));
	end();
	border = p + AT;
	for (size_t i = 0; i < sizeof(calls) / sizeof(calls[0]); i++) {
		ask_one(i, PAGEABLE, "pageable");
		ask_one(i, PINNED, "pinned");
		ask_one(i, ALLOCATED, "of cuMemAlloc");
		ask_one(i, NO_END, "none");
	}
}

const struct group border_groups[] = {
	{"border, HOST and HOST", copies, {HOST, HOST}},
	{"border, HOST_NUMA and HOST_NUMA", copies, {NUMA, NUMA}},
	{"border, HOST and HOST_NUMA", copies, {HOST, NUMA}},
	{"border, DEVICE and DEVICE", copies, {DEVICE, DEVICE}},
	{NULL, NULL, {0}},
};
