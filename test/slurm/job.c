/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A job's use of its device.
 *
 *   job memory        prints the device's memory in MiB, as cuMemGetInfo() says, the number of pieces of 1 MiB that
 *                     cuMemAlloc() gives, and the result of the next call
 *   job compute FILE  says "computes", and fills, copies and compares until FILE is there; then "right"
 *
 * Exits with 1 and "cuNAME: ERROR" where a call fails, and with 2 where there is no library. Links with none: it finds
 * libcuda.so.1 as any program does.
 */
#include <dlfcn.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "protocol/cuda-functions.h"

#define MIB (1ul << 20)
#define MOST 4096

static void *library;

static void *find(const char *name)
{
	void *function = dlsym(library, name);

	if (function)
		return function;
	printf("%s: missing\n", name);
	exit(2);
}

#define CALL(name, ...)                                                                                                \
	do {                                                                                                           \
		CUresult result_ = ((__typeof__(&name))find(#name))(__VA_ARGS__);                                      \
		if (result_) {                                                                                         \
			printf("%s: %d\n", #name, (int)result_);                                                       \
			exit(1);                                                                                       \
		}                                                                                                      \
	} while (0)

static void begin(void)
{
	CUcontext context;

	library = dlopen("libcuda.so.1", RTLD_NOW);
	if (!library) {
		printf("%s\n", dlerror());
		exit(2);
	}
	CALL(cuInit, 0);
	CALL(cuDevicePrimaryCtxRetain, &context, 0);
	CALL(cuCtxSetCurrent, context);
}

static void memory(void)
{
	__typeof__(&cuMemAlloc_v2) take = find("cuMemAlloc_v2");
	size_t free_bytes, total;
	CUdeviceptr piece;
	CUresult result = 0;
	int pieces = 0;

	CALL(cuMemGetInfo_v2, &free_bytes, &total);
	while (pieces < MOST && !(result = take(&piece, MIB)))
		pieces++;
	printf("has %zu takes %d then %d\n", total / MIB, pieces, (int)result);
}

static void compute(const char *file)
{
	static uint32_t back[MIB / sizeof(uint32_t)];
	CUdeviceptr block;

	CALL(cuMemAlloc_v2, &block, MIB);
	for (uint32_t value = 1; access(file, F_OK); value++) {
		CALL(cuMemsetD32_v2, block, value, MIB / sizeof(uint32_t));
		CALL(cuMemcpyDtoH_v2, back, block, MIB);
		if (back[0] != value || back[MIB / sizeof(uint32_t) - 1] != value) {
			puts("wrong");
			exit(1);
		}
		if (value == 1)
			puts("computes");
		usleep(10000);
	}
	puts("right");
}

int main(int argc, char **argv)
{
	setvbuf(stdout, NULL, _IOLBF, 0);
	begin();
	if (argc == 2 && !strcmp(argv[1], "memory"))
		memory();
	else if (argc == 3 && !strcmp(argv[1], "compute"))
		compute(argv[2]);
	else
		return 2;
	return 0;
}
