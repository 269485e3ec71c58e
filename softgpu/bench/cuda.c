/* SPDX-License-Identifier: Apache-2.0 */
/* Kernels from PTX through the driver API: of the software GPU's library, called directly, or of a libcuda.so.1. */
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "protocol/backend.h"
#include "softgpu.h"

#define FUNCTIONS(X)                                                                                                   \
	X(cuInit)                                                                                                      \
	X(cuDevicePrimaryCtxRetain)                                                                                    \
	X(cuCtxSetCurrent)                                                                                             \
	X(cuCtxSynchronize)                                                                                            \
	X(cuMemAlloc_v2)                                                                                               \
	X(cuMemFree_v2)                                                                                                \
	X(cuMemcpyHtoD_v2)                                                                                             \
	X(cuMemcpyDtoH_v2)                                                                                             \
	X(cuModuleLoadData)                                                                                            \
	X(cuModuleGetFunction)                                                                                         \
	X(cuLaunchKernel)

static struct vcuda_backend_ops own;
static const struct vcuda_backend_ops *cuda;
static const char *ptx;
static CUmodule module;
static CUfunction function;
static CUdeviceptr buffers[MAX_BUFFERS];

static bool check(CUresult result, const char *what)
{
	if (result != CUDA_SUCCESS)
		fprintf(stderr, "%s failed with CUDA error %d\n", what, (int)result);
	return result == CUDA_SUCCESS;
}

static char *read_file(const char *path)
{
	FILE *f = fopen(path, "r");
	char *text = calloc(1, 1 << 20);

	if (!f || !text || !fread(text, 1, (1 << 20) - 1, f))
		return NULL;
	fclose(f);
	return text;
}

static bool find_functions(void *library)
{
	const struct vcuda_backend_ops *(*get)(void) =
		(const struct vcuda_backend_ops *(*)(void))dlsym(library, "vcuda_backend_cpu");

	if (get) {
		cuda = get();
		return true;
	}
#define FIND(name)                                                                                                     \
	*(void **)&own.name = dlsym(library, #name);                                                                   \
	if (!own.name)                                                                                                 \
		return false;
	FUNCTIONS(FIND)
	cuda = &own;
	return true;
}

/* args: the library, the file with the PTX */
static bool open_cuda(char **args)
{
	void *library = dlopen(args[0], RTLD_NOW);
	CUcontext context;

	if (!library || !find_functions(library)) {
		fprintf(stderr, "%s\n", library ? "not a CUDA driver" : dlerror());
		return false;
	}
	ptx = read_file(args[1]);
	return ptx && check(cuda->cuInit(0), "cuInit") &&
	       check(cuda->cuDevicePrimaryCtxRetain(&context, 0), "cuDevicePrimaryCtxRetain") &&
	       check(cuda->cuCtxSetCurrent(context), "cuCtxSetCurrent");
}

static bool find_kernel(const char *name)
{
	return (module || check(cuda->cuModuleLoadData(&module, ptx), "cuModuleLoadData")) &&
	       check(cuda->cuModuleGetFunction(&function, module, name), name);
}

static bool prepare(const struct bench_case *c, void **host)
{
	for (unsigned n = 0; n < MAX_BUFFERS && c->buffers[n].count; n++)
		if (!check(cuda->cuMemAlloc_v2(&buffers[n], c->buffers[n].count * 4), "cuMemAlloc") ||
		    !check(cuda->cuMemcpyHtoD_v2(buffers[n], host[n], c->buffers[n].count * 4), "cuMemcpyHtoD"))
			return false;
	return find_kernel(c->kernel);
}

static bool run(const struct bench_case *c)
{
	void *params[MAX_BUFFERS + 3];
	unsigned count = 0;

	while (count < MAX_BUFFERS && c->buffers[count].count) {
		params[count] = &buffers[count];
		count++;
	}
	if (c->scale)
		params[count++] = (void *)&c->scale;
	for (unsigned n = 0; n < c->int_count; n++)
		params[count++] = (void *)&c->ints[n];
	return check(cuda->cuLaunchKernel(function, c->grid[0], c->grid[1], 1, c->block[0], c->block[1], 1, 0, NULL, params,
					  NULL), "cuLaunchKernel") &&
	       check(cuda->cuCtxSynchronize(), c->kernel);
}

static void fetch(const struct bench_case *c, void *to)
{
	check(cuda->cuMemcpyDtoH_v2(to, buffers[c->output], c->buffers[c->output].count * 4), "cuMemcpyDtoH");
}

static void end(const struct bench_case *c)
{
	for (unsigned n = 0; n < MAX_BUFFERS && c->buffers[n].count; n++)
		cuda->cuMemFree_v2(buffers[n]);
}

static bool launch_empty(void)
{
	int zero = 0;
	void *params[1] = {&zero};

	return check(cuda->cuLaunchKernel(function, 1, 1, 1, 32, 1, 1, 0, NULL, params, NULL), "cuLaunchKernel");
}

/* Microseconds: `first`: load the module and run a small kernel; `launch`: a launch of many; `sync`: one and the wait
 * for it. */
static int extra(const char *what)
{
	const struct bench_case *c = &bench_cases[0];
	const int count = 20000;
	double start = now_us();

	if (!strcmp(what, "first")) {
		struct bench_case small = *c;
		float *zeroes = calloc(256, 4);
		void *host[3] = {zeroes, zeroes, zeroes};

		for (unsigned n = 0; n < 3; n++)
			small.buffers[n].count = 256;
		small.grid[0] = 1;
		small.ints[0] = 256;
		if (!zeroes || !prepare(&small, host) || !run(&small))
			return -1;
		printf("%.1f\n", now_us() - start);
		return 0;
	}
	if ((strcmp(what, "launch") && strcmp(what, "sync")) || !find_kernel("empty") || !launch_empty() ||
	    !check(cuda->cuCtxSynchronize(), "cuCtxSynchronize"))
		return -1;
	start = now_us();
	for (int n = 0; n < count; n++)
		if (!launch_empty() || (*what == 's' && !check(cuda->cuCtxSynchronize(), "cuCtxSynchronize")))
			return -1;
	if (!check(cuda->cuCtxSynchronize(), "cuCtxSynchronize"))
		return -1;
	printf("%.2f\n", (now_us() - start) / count);
	return 0;
}

const struct side cuda_side = {open_cuda, prepare, run, fetch, end, extra};
