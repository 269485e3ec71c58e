/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A program that computes and checks, for tests that disturb it: prints "ready" after the first round, then goes on for
 * SECONDS, or until SIGTERM. Exit status 0: every result was right; 2: a wrong result; 3: a CUDA error (its number is
 * printed).
 *
 * usage: steady SECONDS
 */
#include <dlfcn.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "test/local/cuda-error.h"

#define COUNT 4096

static const char ptx[] =
	".version 6.3\n.target sm_50\n.address_size 64\n"
	".visible .entry add_seven(.param .u64 data, .param .u32 count)\n{\n"
	".reg .pred %p<2>;\n.reg .b32 %r<7>;\n.reg .b64 %rd<5>;\n"
	"ld.param.u64 %rd1, [data];\nld.param.u32 %r1, [count];\n"
	"mov.u32 %r2, %ctaid.x;\nmov.u32 %r3, %ntid.x;\nmov.u32 %r4, %tid.x;\n"
	"mad.lo.s32 %r5, %r2, %r3, %r4;\nsetp.ge.u32 %p1, %r5, %r1;\n@%p1 bra DONE;\n"
	"cvta.to.global.u64 %rd2, %rd1;\nmul.wide.u32 %rd3, %r5, 4;\nadd.s64 %rd4, %rd2, %rd3;\n"
	"ld.global.u32 %r6, [%rd4];\nadd.s32 %r6, %r6, 7;\nst.global.u32 [%rd4], %r6;\n"
	"DONE:\nret;\n}\n";

static volatile sig_atomic_t stop;

static void on_term(int signal)
{
	stop = 1;
}

#define FUNCTION(name, ...) CUresult (*name)(__VA_ARGS__) = (CUresult(*)(__VA_ARGS__))dlsym(library, #name)

int main(int argc, char **argv)
{
	void *library = dlopen("libcuda.so.1", RTLD_NOW);
	time_t end = time(NULL) + (argc > 1 ? atoi(argv[1]) : 1);
	static uint32_t host[COUNT];
	CUcontext context;
	CUmodule module;
	CUfunction f;
	CUdeviceptr device;
	uint32_t count = COUNT;

	if (!library) {
		fprintf(stderr, "steady: %s\n", dlerror());
		return 1;
	}
	FUNCTION(cuInit, unsigned int);
	FUNCTION(cuDevicePrimaryCtxRetain, CUcontext *, CUdevice);
	FUNCTION(cuCtxSetCurrent, CUcontext);
	FUNCTION(cuModuleLoadData, CUmodule *, const void *);
	FUNCTION(cuModuleGetFunction, CUfunction *, CUmodule, const char *);
	FUNCTION(cuMemAlloc_v2, CUdeviceptr *, size_t);
	FUNCTION(cuMemFree_v2, CUdeviceptr);
	FUNCTION(cuMemcpyHtoD_v2, CUdeviceptr, const void *, size_t);
	FUNCTION(cuMemcpyDtoH_v2, void *, CUdeviceptr, size_t);
	FUNCTION(cuLaunchKernel, CUfunction, unsigned int, unsigned int, unsigned int, unsigned int, unsigned int, unsigned int,
		 unsigned int, CUstream, void **, void **);

	signal(SIGTERM, on_term);
	OK(cuInit(0));
	OK(cuDevicePrimaryCtxRetain(&context, 0));
	OK(cuCtxSetCurrent(context));
	OK(cuModuleLoadData(&module, ptx));
	OK(cuModuleGetFunction(&f, module, "add_seven"));
	for (unsigned int round = 0; round == 0 || (!stop && time(NULL) < end); round++) {
		void *params[] = {&device, &count};

		OK(cuMemAlloc_v2(&device, sizeof(host)));
		for (uint32_t i = 0; i < COUNT; i++)
			host[i] = i * round;
		OK(cuMemcpyHtoD_v2(device, host, sizeof(host)));
		OK(cuLaunchKernel(f, COUNT / 128, 1, 1, 128, 1, 1, 0, NULL, params, NULL));
		OK(cuMemcpyDtoH_v2(host, device, sizeof(host)));
		OK(cuMemFree_v2(device));
		for (uint32_t i = 0; i < COUNT; i++) {
			if (host[i] != i * round + 7) {
				printf("steady: round %u: element %u is %u, not %u\n", round, i, host[i], i * round + 7);
				return 2;
			}
		}
		if (round == 0) {
			printf("ready\n");
			fflush(stdout);
		}
	}
	printf("steady: all right\n");
	return 0;
}
