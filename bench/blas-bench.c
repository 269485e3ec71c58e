/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Times what a program feels of cuBLAS. The same binary runs natively, with NVIDIA's library, and through virtio-cuda,
 * with ours or NVIDIA's; `vcuda bench` runs both side by side. Prints one line a figure: NAME VALUE UNIT, medians.
 *
 * usage: blas-bench [LIBRARY [SIZE]]   (libcublas.so.13, 4096: the rows of the large product)
 */
#include <dlfcn.h>
#include <stdint.h>

#include "bench.h"
#include "protocol/cuda-abi.h"

enum { ROUNDS = 9, SMALL = 64, QUEUED = 1000 };

static CUresult (*ctx_synchronize)(void);
static int (*sgemm)(void *, int, int, int, int, int, const float *, const float *, int, const float *, int,
		    const float *, float *, int);
static void *handle;
static CUdeviceptr a, b, c;

static void *function(void *library, const char *name)
{
	void *f = library ? dlsym(library, name) : NULL;

	if (f)
		return f;
	fprintf(stderr, "blas-bench: %s\n", dlerror());
	exit(1);
}

static void multiply(int n)
{
	const float one = 1, zero = 0;

	check(sgemm(handle, 0, 0, n, n, n, &one, (float *)(uintptr_t)a, n, (float *)(uintptr_t)b, n, &zero,
		    (float *)(uintptr_t)c, n),
	      "cublasSgemm");
}

/* Some at a time, and one wait: the time of each, in the median of the rounds. */
static double bench(int n, int count, double *issue)
{
	double issued[ROUNDS], done[ROUNDS];

	multiply(n);
	check(ctx_synchronize(), "cuCtxSynchronize");
	for (int i = 0; i < ROUNDS; i++) {
		double start = now_us();

		for (int k = 0; k < count; k++)
			multiply(n);
		issued[i] = (now_us() - start) / count;
		check(ctx_synchronize(), "cuCtxSynchronize");
		done[i] = (now_us() - start) / count;
	}
	*issue = median(issued, ROUNDS);
	return median(done, ROUNDS);
}

static void set_up(void *driver, void *blas, size_t bytes)
{
	CUresult (*init)(unsigned int) = (CUresult(*)(unsigned int))function(driver, "cuInit");
	CUresult (*retain)(CUcontext *, CUdevice) =
		(CUresult(*)(CUcontext *, CUdevice))function(driver, "cuDevicePrimaryCtxRetain");
	CUresult (*set)(CUcontext) = (CUresult(*)(CUcontext))function(driver, "cuCtxSetCurrent");
	CUresult (*alloc)(CUdeviceptr *, size_t) =
		(CUresult(*)(CUdeviceptr *, size_t))function(driver, "cuMemAlloc_v2");
	CUresult (*fill)(CUdeviceptr, unsigned int, size_t) =
		(CUresult(*)(CUdeviceptr, unsigned int, size_t))function(driver, "cuMemsetD32_v2");
	int (*create)(void **) = (int (*)(void **))function(blas, "cublasCreate_v2");
	CUcontext context;

	*(void **)&ctx_synchronize = function(driver, "cuCtxSynchronize");
	*(void **)&sgemm = function(blas, "cublasSgemm_v2");
	check(init(0), "cuInit");
	check(retain(&context, 0), "cuDevicePrimaryCtxRetain");
	check(set(context), "cuCtxSetCurrent");
	check(alloc(&a, bytes) || alloc(&b, bytes) || alloc(&c, bytes), "cuMemAlloc");
	check(fill(a, 0x3f800000, bytes / 4) || fill(b, 0x3f000000, bytes / 4), "cuMemsetD32");
	check(create(&handle), "cublasCreate");
}

int main(int argc, char **argv)
{
	void *driver = dlopen("libcuda.so.1", RTLD_NOW),
	     *blas = driver ? dlopen(argc > 1 ? argv[1] : "libcublas.so.13", RTLD_NOW) : NULL;
	int n = argc > 2 ? atoi(argv[2]) : 4096;
	double issue, each;

	if (!blas || n < SMALL) {
		fprintf(stderr, "blas-bench: %s\n", blas ? "SIZE is a number, 64 at least" : dlerror());
		return 1;
	}
	set_up(driver, blas, (size_t)n * (size_t)n * sizeof(float));
	each = bench(n, 4, &issue);
	printf("sgemm_%d %.1f us\n", n, each);
	each = bench(SMALL, QUEUED, &issue);
	printf("sgemm_%d_issue %.3f us\nsgemm_%d_queued %.3f us\n", SMALL, issue, SMALL, each);
	return 0;
}
