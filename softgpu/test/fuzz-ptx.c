/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Hostile PTX: parsed, compiled, and its kernels run on memory between guards. For any kernel, its context ends with
 * one of CUDA's errors, memory of another context stays as it was, and a good kernel runs well after it.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "protocol/backend.h"
#include "softgpu/backend-cpu.h"
#include "test/fuzz/fuzz.h"
#include "test/ptx/random-kernel.h"

#define BYTES 4096u
#define MOST_PARAMETERS 256
#define MOST_KERNELS 4
#define NAMES_BYTES 1024
#define GOOD_THREADS 32

static const char good[] =
	".version 7.0\n.target sm_70\n.address_size 64\n"
	".visible .entry good(.param .u64 p, .param .u32 n)\n{\n"
	".reg .b32 %r<3>; .reg .b64 %d<3>;\n"
	"ld.param.u64 %d1, [p];\nld.param.u32 %r1, [n];\nmov.u32 %r2, %tid.x;\n"
	"add.u32 %r1, %r1, %r2;\nmad.wide.u32 %d1, %r2, 4, %d1;\nst.global.u32 [%d1], %r1;\nret;\n}\n";

static const struct vcuda_backend_ops *cuda;
static CUcontext home;     /* of the guards and the good kernel */
static CUdeviceptr guards; /* three times BYTES */
static CUfunction good_kernel;
static uint8_t pattern[3 * BYTES], seen[3 * BYTES];
static double time_limit; /* of a kernel, in seconds */

static double now(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

static void make_home(void)
{
	CUmodule module;

	CHECK(cuda->cuCtxCreate_v2(&home, 0, 0) == CUDA_SUCCESS);
	CHECK(cuda->cuMemAlloc_v2(&guards, sizeof(pattern)) == CUDA_SUCCESS);
	CHECK(cuda->cuModuleLoadData(&module, good) == CUDA_SUCCESS);
	CHECK(cuda->cuModuleGetFunction(&good_kernel, module, "good") == CUDA_SUCCESS);
	CHECK(cuda->cuMemcpyHtoD_v2(guards, pattern, sizeof(pattern)) == CUDA_SUCCESS);
}

static void set_up(void)
{
	setenv("VCUDA_CPU_CACHE", "0", 0);
	setenv("VCUDA_CPU_MEMORY", "64M", 0);
	setenv("VCUDA_CPU_THREADS", "2", 0);
	setenv("VCUDA_CPU_TIME_LIMIT", "0.2", 0);
	/* A fault is to harm the context of the input alone. */
	setenv("VCUDA_CPU_FAULTS", "context", 0);
	time_limit = strtod(getenv("VCUDA_CPU_TIME_LIMIT"), NULL);
	cuda = vcuda_backend_cpu();
	CHECK(cuda->cuInit(0) == CUDA_SUCCESS);
	for (size_t i = 0; i < sizeof(pattern); i++)
		pattern[i] = (uint8_t)(i * 7 + 1);
	make_home();
}

/* ---- a hostile module ---- */

/* Addresses where a parameter has the size of one, small numbers where it has not. */
static size_t fill(uint8_t *parameters, CUfunction f, CUdeviceptr memory)
{
	size_t offset, size, bytes = 0;

	for (size_t n = 0; cuda->cuFuncGetParamInfo(f, n, &offset, &size) == CUDA_SUCCESS; n++) {
		uint64_t value = size == 8 ? memory + n % 2 * BYTES : 3 + n;

		if (offset >= MOST_PARAMETERS || size > MOST_PARAMETERS - offset)
			return 0;
		memset(parameters + offset, 0, size);
		memcpy(parameters + offset, &value, size < 8 ? size : 8);
		bytes = offset + size;
	}
	return bytes;
}

static bool is_expected(CUresult result)
{
	switch (result) {
	case CUDA_SUCCESS:
	case CUDA_ERROR_INVALID_VALUE:
	case CUDA_ERROR_OUT_OF_MEMORY:
	case CUDA_ERROR_INVALID_HANDLE:
	case CUDA_ERROR_INVALID_IMAGE:
	case CUDA_ERROR_INVALID_PTX:
	case CUDA_ERROR_NO_BINARY_FOR_GPU:
	case CUDA_ERROR_UNSUPPORTED_PTX_VERSION:
	case CUDA_ERROR_NOT_FOUND:
	case CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES:
	case CUDA_ERROR_NOT_SUPPORTED:
	case CUDA_ERROR_LAUNCH_TIMEOUT:
	case CUDA_ERROR_ASSERT:
	case CUDA_ERROR_LAUNCH_FAILED:
	case CUDA_ERROR_ILLEGAL_ADDRESS:
	case CUDA_ERROR_ILLEGAL_INSTRUCTION:
	case CUDA_ERROR_MISALIGNED_ADDRESS:
	case CUDA_ERROR_INVALID_ADDRESS_SPACE:
	case CUDA_ERROR_INVALID_PC:
	case CUDA_ERROR_COOPERATIVE_LAUNCH_TOO_LARGE:
	case CUDA_ERROR_INVALID_CLUSTER_SIZE:
		return true;
	default:
		fprintf(stderr, "fuzz-ptx: CUDA error %d\n", (int)result);
		return false;
	}
}

static void run_kernel(CUmodule module, const char *name, CUdeviceptr memory)
{
	uint8_t parameters[MOST_PARAMETERS];
	size_t bytes;
	void *extra[] = {CU_LAUNCH_PARAM_BUFFER_POINTER, parameters, CU_LAUNCH_PARAM_BUFFER_SIZE, &bytes,
			 CU_LAUNCH_PARAM_END};
	CUresult result;
	CUfunction f;

	if (cuda->cuModuleGetFunction(&f, module, name) != CUDA_SUCCESS)
		return;
	bytes = fill(parameters, f, memory);
	result = cuda->cuLaunchKernel(f, 2, 1, 1, 40, 1, 1, 0, NULL, NULL, bytes ? extra : NULL);
	CHECK(is_expected(result));
	CHECK(is_expected(cuda->cuCtxSynchronize()));
}

static void run_kernels(CUmodule module, CUdeviceptr memory)
{
	char names[NAMES_BYTES], *name = names;
	uint32_t count = 0, total = 0;

	if (cuda->codeNames(module, 0, names, sizeof(names), &count, &total) != CUDA_SUCCESS)
		return;
	for (uint32_t i = 0; i < count && i < MOST_KERNELS; i++, name += strlen(name) + 1)
		run_kernel(module, name, memory);
}

static void run_hostile(const char *text, size_t bytes)
{
	CUdeviceptr memory;
	CUcontext context;
	CUmodule module;
	CUresult result;

	CHECK(cuda->cuCtxCreate_v2(&context, 0, 0) == CUDA_SUCCESS);
	CHECK(cuda->cuMemAlloc_v2(&memory, 2 * BYTES) == CUDA_SUCCESS);
	CHECK(cuda->cuMemsetD8_v2(memory, 1, 2 * BYTES) == CUDA_SUCCESS);
	vcuda_cpu_set_image_bound(bytes);
	result = cuda->cuModuleLoadData(&module, text);
	CHECK(is_expected(result));
	if (result == CUDA_SUCCESS)
		run_kernels(module, memory);
	CHECK(cuda->cuCtxDestroy_v2(context) == CUDA_SUCCESS);
}

/* ---- what must not change ---- */

static void check_guards(void)
{
	CHECK(cuda->cuMemcpyDtoH_v2(seen, guards, sizeof(seen)) == CUDA_SUCCESS);
	CHECK(!memcmp(seen, pattern, sizeof(pattern)));
}

/*
 * Runs the good kernel, which changes the pattern. False: the kernel reached the time limit. The limit is wall time, so
 * a kernel on a busy machine may reach the limit, but only after that time.
 */
static bool run_good(void)
{
	struct {
		CUdeviceptr memory;
		uint32_t n;
	} parameters = {guards + BYTES, (uint32_t)rand()};
	size_t bytes = 12;
	void *extra[] = {CU_LAUNCH_PARAM_BUFFER_POINTER, &parameters, CU_LAUNCH_PARAM_BUFFER_SIZE, &bytes,
			 CU_LAUNCH_PARAM_END};
	double begun = now();
	CUresult result;

	CHECK(cuda->cuLaunchKernel(good_kernel, 1, 1, 1, GOOD_THREADS, 1, 1, 0, NULL, NULL, extra) == CUDA_SUCCESS);
	result = cuda->cuCtxSynchronize();
	if (result == CUDA_ERROR_LAUNCH_TIMEOUT && now() - begun > time_limit)
		return false;
	CHECK(result == CUDA_SUCCESS);
	for (uint32_t i = 0; i < GOOD_THREADS; i++) {
		uint32_t value = parameters.n + i;

		memcpy(pattern + BYTES + i * sizeof(value), &value, sizeof(value));
	}
	return true;
}

static void check_home(void)
{
	CHECK(cuda->cuCtxSetCurrent(home) == CUDA_SUCCESS);
	check_guards();
	while (!run_good()) {
		CHECK(cuda->cuCtxDestroy_v2(home) == CUDA_SUCCESS);
		make_home();
	}
	check_guards();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
	char *text;

	if (!cuda)
		set_up();
	/* Anything that is no text is for the fuzzers of containers. */
	if (memchr(data, 0, bytes) || bytes < 8 || data[0] >= 0x80)
		return 0;
	text = calloc(1, bytes + 1);
	memcpy(text, data, bytes);
	run_hostile(text, bytes + 1);
	free(text);
	check_home();
	return 0;
}

/* ---- inputs ---- */

size_t LLVMFuzzerMutate(uint8_t *data, size_t bytes, size_t room) __attribute__((weak));

size_t fuzz_seed(unsigned int number, uint8_t *buffer, size_t room)
{
	struct random_kernel k;
	size_t bytes;
	char *text;

	random_kernel_make(&k, number + 1ull);
	text = random_kernel_text(&k, NULL);
	bytes = strlen(text);
	bytes = bytes < room ? bytes : 0;
	memcpy(buffer, text, bytes);
	free(text);
	random_kernel_free(&k);
	return bytes;
}

/* Takes or copies lines, now and then makes a new kernel, else changes bytes. */
size_t LLVMFuzzerCustomMutator(uint8_t *data, size_t bytes, size_t room, unsigned int seed)
{
	uint8_t *from = bytes ? memchr(data + seed / 16 % bytes, '\n', bytes - seed / 16 % bytes) : NULL, *end;
	size_t line;

	if (seed % 64 == 0)
		return fuzz_seed(seed / 64, data, room);
	end = from ? memchr(from + 1, '\n', (size_t)(data + bytes - from) - 1) : NULL;
	line = end ? (size_t)(end - from) : 0;
	if (seed % 16 == 1 && line) {
		memmove(from, end, (size_t)(data + bytes - end));
		return bytes - line;
	}
	if (seed % 16 == 2 && line && bytes + line <= room) {
		memmove(end, from, (size_t)(data + bytes - from));
		return bytes + line;
	}
	return LLVMFuzzerMutate(data, bytes, room);
}
