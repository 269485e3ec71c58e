/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Times what a program feels of the driver API: copies, launches, allocations. The same binary runs natively and through virtio-cuda;
 * bench/compare.py runs both side by side and prints ratios. Prints one line a figure: NAME VALUE UNIT, medians.
 *
 * usage: driver-bench [--quick] [--max-mib N]
 */
#include <dlfcn.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "bench.h"
#include "cuda-abi.h"

#define FUNCTIONS(X) \
	X(cuInit, (unsigned int)) \
	X(cuDeviceGet, (CUdevice *, int)) \
	X(cuDeviceGetName, (char *, int, CUdevice)) \
	X(cuDevicePrimaryCtxRetain, (CUcontext *, CUdevice)) \
	X(cuCtxSetCurrent, (CUcontext)) \
	X(cuCtxSynchronize, (void)) \
	X(cuMemAlloc_v2, (CUdeviceptr *, size_t)) \
	X(cuMemFree_v2, (CUdeviceptr)) \
	X(cuMemHostAlloc, (void **, size_t, unsigned int)) \
	X(cuMemFreeHost, (void *)) \
	X(cuMemcpyHtoD_v2, (CUdeviceptr, const void *, size_t)) \
	X(cuMemcpyDtoH_v2, (void *, CUdeviceptr, size_t)) \
	X(cuMemcpyHtoDAsync_v2, (CUdeviceptr, const void *, size_t, CUstream)) \
	X(cuMemcpyDtoHAsync_v2, (void *, CUdeviceptr, size_t, CUstream)) \
	X(cuModuleLoadData, (CUmodule *, const void *)) \
	X(cuModuleGetFunction, (CUfunction *, CUmodule, const char *)) \
	X(cuLaunchKernel, (CUfunction, unsigned int, unsigned int, unsigned int, unsigned int, unsigned int, unsigned int, unsigned int, \
			   CUstream, void **, void **))

#define DECLARE(name, parameters) static CUresult(*name) parameters;
FUNCTIONS(DECLARE)

static const char kernel_ptx[] =
	".version 6.3\n.target sm_50\n.address_size 64\n"
	".visible .entry empty(.param .u64 p)\n{\nret;\n}\n";

enum direction { H2D, D2H };

static void bench_copy(const char *kind, void *host, CUdeviceptr device, size_t bytes, enum direction direction, int rounds)
{
	double times[256], us;

	for (int i = 0; i < rounds; i++) {
		double start = now_us();

		if (direction == H2D)
			check(cuMemcpyHtoD_v2(device, host, bytes), "copy to the device");
		else
			check(cuMemcpyDtoH_v2(host, device, bytes), "copy from the device");
		times[i] = now_us() - start;
	}
	us = median(times, rounds);
	if (bytes >= 1 << 20)
		printf("%s_%s_%zuKiB %.2f GB/s\n", kind, direction == H2D ? "h2d" : "d2h", bytes >> 10, (double)bytes / us * 1e-3);
	else
		printf("%s_%s_%zuB %.2f us\n", kind, direction == H2D ? "h2d" : "d2h", bytes, us);
}

/* As bandwidth tests do it: several copies in flight, one wait. */
static void bench_async(void *pinned, CUdeviceptr device, size_t bytes, enum direction direction, int rounds)
{
	enum { BURST = 8 };
	double rates[256];

	for (int i = 0; i < rounds; i++) {
		double start = now_us();

		for (int k = 0; k < BURST; k++)
			check(direction == H2D ? cuMemcpyHtoDAsync_v2(device, pinned, bytes, NULL)
					       : cuMemcpyDtoHAsync_v2(pinned, device, bytes, NULL),
			      "asynchronous copy");
		check(cuCtxSynchronize(), "cuCtxSynchronize");
		rates[i] = (double)bytes * BURST / (now_us() - start) * 1e-3;
	}
	printf("async_%s_%zuKiB %.2f GB/s\n", direction == H2D ? "h2d" : "d2h", bytes >> 10, median(rates, rounds));
}

static void bench_copies(size_t max_bytes, int rounds)
{
	static const size_t sizes[] = {4, 4 << 10, 64 << 10, 1 << 20, 16 << 20, 256 << 20};
	void *pinned, *pageable = malloc(max_bytes);
	CUdeviceptr device;

	check(cuMemHostAlloc(&pinned, max_bytes, 0), "cuMemHostAlloc");
	check(cuMemAlloc_v2(&device, max_bytes), "cuMemAlloc");
	memset(pinned, 1, max_bytes);
	memset(pageable, 2, max_bytes);
	for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]) && sizes[i] <= max_bytes; i++) {
		int n = sizes[i] >= 16 << 20 ? rounds : rounds * 8;

		for (int d = H2D; d <= D2H; d++) {
			bench_copy("pinned", pinned, device, sizes[i], d, n);
			bench_copy("pageable", pageable, device, sizes[i], d, n);
		}
	}
	for (int d = H2D; d <= D2H; d++) {
		bench_async(pinned, device, 1 << 20, d, rounds);
		bench_async(pinned, device, max_bytes, d, rounds);
	}
	check(cuMemFree_v2(device), "cuMemFree");
	check(cuMemFreeHost(pinned), "cuMemFreeHost");
	free(pageable);
}

static void bench_launches(int rounds)
{
	enum { BURST = 500 };
	double issue[256], sustained[256], both[256];
	uint64_t argument = 0;
	void *params[] = {&argument};
	CUfunction f;
	CUmodule m;

	check(cuModuleLoadData(&m, kernel_ptx), "cuModuleLoadData");
	check(cuModuleGetFunction(&f, m, "empty"), "cuModuleGetFunction");
	check(cuLaunchKernel(f, 1, 1, 1, 32, 1, 1, 0, NULL, params, NULL), "first launch");
	check(cuCtxSynchronize(), "cuCtxSynchronize");
	for (int i = 0; i < rounds; i++) {
		double start = now_us();

		for (int k = 0; k < BURST; k++)
			check(cuLaunchKernel(f, 1, 1, 1, 32, 1, 1, 0, NULL, params, NULL), "launch");
		issue[i] = (now_us() - start) / BURST;
		check(cuCtxSynchronize(), "cuCtxSynchronize");
		sustained[i] = (now_us() - start) / BURST;
	}
	for (int i = 0; i < rounds; i++) {
		double start = now_us();

		check(cuLaunchKernel(f, 1, 1, 1, 32, 1, 1, 0, NULL, params, NULL), "launch");
		check(cuCtxSynchronize(), "cuCtxSynchronize");
		both[i] = now_us() - start;
	}
	printf("launch_issue %.3f us\nlaunch_sustained %.3f us\nlaunch_sync %.2f us\n", median(issue, rounds), median(sustained, rounds),
	       median(both, rounds));
}

static void bench_allocations(int rounds)
{
	double alloc[256], release[256];
	CUdeviceptr p;

	for (int i = 0; i < rounds; i++) {
		double start = now_us();

		check(cuMemAlloc_v2(&p, 1 << 20), "cuMemAlloc");
		alloc[i] = now_us() - start;
		start = now_us();
		check(cuMemFree_v2(p), "cuMemFree");
		release[i] = now_us() - start;
	}
	printf("alloc_1MiB %.2f us\nfree_1MiB %.2f us\n", median(alloc, rounds), median(release, rounds));
}

int main(int argc, char **argv)
{
	size_t max_mib = 256;
	int rounds = 24;
	void *library = dlopen("libcuda.so.1", RTLD_NOW);
	char name[256];
	CUcontext context;
	CUdevice device;

	for (int i = 1; i < argc; i++) {
		if (!strcmp(argv[i], "--quick"))
			rounds = 5;
		else if (!strcmp(argv[i], "--max-mib") && i + 1 < argc)
			max_mib = strtoul(argv[++i], NULL, 10);
	}
	if (!library || !max_mib) {
		fprintf(stderr, "driver-bench: %s\n", library ? "--max-mib takes a number" : dlerror());
		return 1;
	}
#define LOOK_UP(function, parameters) *(void **)&function = dlsym(library, #function);
	FUNCTIONS(LOOK_UP)
	check(cuInit(0), "cuInit");
	check(cuDeviceGet(&device, 0), "cuDeviceGet");
	check(cuDeviceGetName(name, sizeof(name), device), "cuDeviceGetName");
	check(cuDevicePrimaryCtxRetain(&context, device), "cuDevicePrimaryCtxRetain");
	check(cuCtxSetCurrent(context), "cuCtxSetCurrent");
	fprintf(stderr, "driver-bench: %s\n", name);
	bench_launches(rounds);
	bench_allocations(rounds);
	bench_copies(max_mib << 20, rounds);
	return 0;
}
