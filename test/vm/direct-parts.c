/* SPDX-License-Identifier: Apache-2.0 */
#include "direct.h"

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#define DEFINE(name, ...) CUresult (*name)(__VA_ARGS__);
DRIVER(DEFINE)

unsigned int warmed, parts, pieces, blocks;

unsigned long status_kib(const char *row)
{
	char line[128];
	unsigned long kib = 0;
	FILE *status = fopen("/proc/self/status", "r");

	while (status && fgets(line, sizeof(line), status))
		if (!strncmp(line, row, strlen(row)) && sscanf(line + strlen(row), " %lu", &kib) == 1)
			break;
	if (status)
		fclose(status);
	return kib;
}

unsigned long pinned_kib(void)
{
	return status_kib("VmPin:");
}

static _Atomic bool watching;
static _Atomic unsigned long peak;

static void *watch(void *unused)
{
	unsigned long now;

	while (watching) {
		now = pinned_kib();
		if (now > peak)
			peak = now;
	}
	return unused;
}

static pthread_t start_watch(void)
{
	pthread_t thread;

	watching = true;
	peak = 0;
	CHECK(!pthread_create(&thread, NULL, watch, NULL));
	return thread;
}

static void end_watch(pthread_t thread)
{
	watching = false;
	pthread_join(thread, NULL);
}

/* ---- memory ---- */

uint8_t *memory(size_t bytes, size_t offset)
{
	size_t whole = (bytes + offset + 2 * GRAIN) / GRAIN * GRAIN;
	uint8_t *p = mmap(NULL, whole + GRAIN, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	CHECK(p != MAP_FAILED);
	p += -(uintptr_t)p % GRAIN;
	madvise(p, whole, MADV_HUGEPAGE);
	memset(p, 0xee, whole);
	return p + offset;
}

uint8_t *scattered(size_t bytes)
{
	uint8_t *p = mmap(NULL, bytes + GRAIN, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0), *filler;

	filler = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	CHECK(p != MAP_FAILED && filler != MAP_FAILED);
	p += -(uintptr_t)p % GRAIN;
	CHECK(!madvise(p, bytes, MADV_NOHUGEPAGE) && !madvise(filler, bytes, MADV_NOHUGEPAGE));
	for (size_t at = 0; at < bytes; at += 4096)
		p[at] = filler[at] = 1;
	return p;
}

static uint64_t word(uint64_t seed, size_t i)
{
	return (seed + i) * 0x9e3779b97f4a7c15ull;
}

void fill(void *to, size_t bytes, uint64_t seed)
{
	uint64_t w;

	for (size_t i = 0; i < bytes / 8; i++) {
		w = word(seed, i);
		memcpy((char *)to + 8 * i, &w, 8);
	}
	w = word(seed, bytes / 8);
	memcpy((char *)to + bytes / 8 * 8, &w, bytes % 8);
}

bool is_filled(const void *from, size_t bytes, uint64_t seed)
{
	uint64_t w, there;

	for (size_t i = 0; i < bytes / 8; i++) {
		memcpy(&there, (const char *)from + 8 * i, 8);
		if (there != word(seed, i))
			return false;
	}
	w = word(seed, bytes / 8);
	return !memcmp((const char *)from + bytes / 8 * 8, &w, bytes % 8);
}

/* ---- copies that do not go directly ---- */

static unsigned int times(size_t bytes, size_t each)
{
	return (unsigned int)((bytes + each - 1) / each);
}

void expect_staged(size_t bytes, bool posted)
{
	if (posted)
		pieces += times(bytes, PIECE);
	else
		blocks += times(bytes, SMALL);
}

void put(CUdeviceptr device, const uint8_t *from, size_t bytes)
{
	for (size_t at = 0; at < bytes; at += SMALL) {
		size_t part = bytes - at < SMALL ? bytes - at : SMALL;

		CHECK(!cuMemcpyHtoD_v2(device + at, from + at, part));
		expect_staged(part, true);
	}
}

void get(uint8_t *to, CUdeviceptr device, size_t bytes)
{
	for (size_t at = 0; at < bytes; at += SMALL) {
		CHECK(!cuMemcpyDtoH_v2(to + at, device + at, bytes - at < SMALL ? bytes - at : SMALL));
		blocks++;
	}
}

void expect(const uint8_t *host, size_t bytes, bool posted)
{
	size_t start = -(uintptr_t)host % GRAIN, end = bytes - ((uintptr_t)host + bytes) % GRAIN;
	size_t part = (end - start) / 4 / GRAIN * GRAIN;

	part = part < 8 * MIB ? 8 * MIB : part > 32 * MIB ? 32 * MIB : part;
	if (bytes < WARM) {
		expect_staged(bytes, posted);
		return;
	}
	parts += (unsigned int)((end - start + part - 1) / part);
	expect_staged(start, posted);
	expect_staged(bytes - end, posted);
}

CUdeviceptr device_memory(size_t bytes)
{
	CUdeviceptr device;

	CHECK(!cuMemAlloc_v2(&device, bytes));
	return device;
}

void warm_up(void)
{
	uint8_t *host = memory(WARM, 0);
	CUdeviceptr device = device_memory(WARM);
	time_t end = time(NULL) + 60;
	pthread_t thread = start_watch();

	for (; !peak; warmed++) {
		CHECK(time(NULL) < end);
		CHECK(!cuMemcpyHtoD_v2(device, host, WARM));
	}
	end_watch(thread);
	CHECK(!cuMemFree_v2(device));
}

CUcontext start_cuda(void)
{
	void *library = dlopen("libcuda.so.1", RTLD_NOW);
	CUcontext context;

	CHECK(library != NULL);
#define LOOK_UP(name, ...) CHECK((name = (CUresult(*)(__VA_ARGS__))dlsym(library, #name)) != NULL);
	DRIVER(LOOK_UP)
	CHECK(!cuInit(0) && !cuDevicePrimaryCtxRetain(&context, 0) && !cuCtxSetCurrent(context));
	return context;
}
