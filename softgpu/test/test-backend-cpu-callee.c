/* SPDX-License-Identifier: Apache-2.0 */
/* Functions that kernels call by their addresses: over a fake translator, fake-sass/fake-sass.c. */
#include "softgpu/test/backend-cpu-test.h"

#include <dlfcn.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#include "softgpu/test/sass-sample.h"

static CUmodule load_sample(void)
{
	struct sass_sample s = sass_sample();
	CUmodule module;

	vcuda_cpu_set_image_bound(sizeof(s));
	assert_int_equal(cuda->cuModuleLoadData(&module, &s), CUDA_SUCCESS);
	return module;
}

#define THREADS 96

/* Thread n of so many in each block calls addresses[n % 2]; words[n]: the result. */
static CUresult call(CUmodule module, unsigned int blocks, unsigned int threads, const uint64_t *addresses,
		     uint64_t *words)
{
	CUfunction f = function(module, "calls");
	size_t count = (size_t)blocks * threads;
	CUdeviceptr p = alloc(count * 8);
	void *params[] = {&p};
	CUresult result;

	for (size_t n = 0; n < count; n++)
		words[n] = addresses[n % 2];
	assert_int_equal(cuda->cuMemcpyHtoD_v2(p, words, count * 8), CUDA_SUCCESS);
	assert_int_equal(cuda->cuLaunchKernel(f, blocks, 1, 1, threads, 1, 1, threads * 4, NULL, params, NULL),
			 CUDA_SUCCESS);
	result = cuda->cuCtxSynchronize();
	if (result != CUDA_SUCCESS)
		return result;
	assert_int_equal(cuda->cuMemcpyDtoH_v2(words, p, count * 8), CUDA_SUCCESS);
	assert_int_equal(cuda->cuMemFree_v2(p), CUDA_SUCCESS);
	return result;
}

static uint64_t in_section(uint32_t section)
{
	return 1ull << 63 | (uint64_t)section << 32;
}

static uint32_t result_of(uint32_t section, uint32_t n, uint32_t threads)
{
	switch (section) {
	case 1:
		return 2 * n + 1;
	case 2:
		return (n + 32) % threads;
	case 3:
		return n % 2 ? 0 : 7; /* the lower half of the address if it has exited */
	default:
		return 3 * n;
	}
}

static void calls_of(uint32_t even, uint32_t odd, unsigned int threads)
{
	uint64_t words[THREADS], addresses[] = {in_section(even), in_section(odd)};
	CUmodule module = load_sample();

	/* better code takes the place of quick code meanwhile */
	for (unsigned int times = 0; times < 3; times++) {
		assert_int_equal(call(module, 1, threads, addresses, words), CUDA_SUCCESS);
		for (unsigned int n = 0; n < threads; n++)
			assert_int_equal((uint32_t)words[n], result_of(n % 2 ? odd : even, n, threads));
	}
	assert_int_equal(cuda->cuModuleUnload(module), CUDA_SUCCESS);
}

/* Whole warps and parts of them, barriers of the block in the callee, exits, recursion. */
static void calls(void **state)
{
	static const unsigned int threads[] = {1, 32, 40, THREADS};

	(void)state;
	for (unsigned int n = 0; n < 4; n++) {
		calls_of(1, 1, threads[n]);
		calls_of(3, 3, threads[n]);
		calls_of(4, 4, threads[n]);
		calls_of(1, 4, threads[n]);
		calls_of(4, 3, threads[n]);
	}
	calls_of(2, 2, 32);
	calls_of(2, 2, THREADS);
}

/* More blocks than the device has threads wait for one another in the function. */
#define WAITING 16

static void blocks_that_wait(void **state)
{
	uint64_t words[WAITING * 64], addresses[] = {in_section(8), in_section(8)};
	CUmodule module = load_sample();

	(void)state;
	assert_int_equal(call(module, WAITING, 64, addresses, words), CUDA_SUCCESS);
	for (unsigned int n = 0; n < WAITING * 64; n++)
		assert_int_equal((uint32_t)words[n], 8);
	assert_int_equal(cuda->cuModuleUnload(module), CUDA_SUCCESS);
}

/* A call that ends the kernel, with a line in the log. */
static void call_ends(CUcontext before, uint64_t even, uint64_t odd, CUresult expected, const char *line)
{
	uint64_t words[64], addresses[] = {even, odd};
	int log_file = memfd_create("log", 0), terminal = dup(STDERR_FILENO);
	char text[2000] = "";
	CUcontext ending;
	CUresult result;

	assert_int_equal(cuda->cuCtxCreate_v2(&ending, 0, 0), CUDA_SUCCESS);
	dup2(log_file, STDERR_FILENO);
	result = call(load_sample(), 1, 64, addresses, words);
	dup2(terminal, STDERR_FILENO);
	assert_int_equal(result, expected);
	assert_true(pread(log_file, text, sizeof(text) - 1, 0) > 0);
	if (!strstr(text, line))
		fail_msg("the log has no `%s`: %s", line, text);
	close(log_file);
	close(terminal);
	cuda->cuCtxDestroy_v2(ending);
	assert_int_equal(cuda->cuCtxSetCurrent(before), CUDA_SUCCESS);
}

static void bad_calls(void **state)
{
	call_ends(*state, 16, 16, CUDA_ERROR_INVALID_PC,
		  "kernel calls: a call through a pointer that is not a function's");
	call_ends(*state, in_section(1) + 16, in_section(1), CUDA_ERROR_INVALID_PC,
		  "kernel calls: a call through a pointer");
	call_ends(*state, in_section(5), in_section(5), CUDA_ERROR_LAUNCH_FAILED, "`HGMMA at 0x120` is not supported");
	call_ends(*state, in_section(6), in_section(6), CUDA_ERROR_LAUNCH_FAILED,
		  "kernel calls: trap, block (0,0,0), thread (0,0,0), offset 0x40 of `sixth` in the machine code");
	call_ends(*state, in_section(7), in_section(7), CUDA_ERROR_LAUNCH_FAILED, "is not of the kernel's kind");
	/* that line comes once */
	call_ends(*state, in_section(11), in_section(11), CUDA_ERROR_LAUNCH_FAILED, "kernel calls: trap");
	/* the lanes that wait in the function keep the others of their warp from the barrier */
	call_ends(*state, in_section(2), in_section(1), CUDA_ERROR_LAUNCH_FAILED,
		  "a barrier that not all threads of the block reach");
}

/* A function that calls itself twice each time, without a loop, ends with the time limit. */
static void endless_recursion(void **state)
{
	call_ends(*state, in_section(9), in_section(9), CUDA_ERROR_LAUNCH_TIMEOUT, "ran for longer than");
}

static unsigned int naps;

static void nap(void)
{
	naps++;
	nanosleep(&(struct timespec){.tv_sec = 2}, NULL);
}

/* The time limit does not count the time in which a function is made. */
static void slow_translation(void **state)
{
	void *library = dlopen("libvcuda-sass.so", RTLD_NOW | RTLD_NOLOAD);
	void (**hook)(void) = library ? dlsym(library, "fake_sass_hook") : NULL;
	uint64_t words[64], addresses[] = {in_section(10), in_section(10)};
	CUmodule module = load_sample();

	(void)state;
	assert_non_null(hook);
	*hook = nap;
	assert_int_equal(call(module, 1, 64, addresses, words), CUDA_SUCCESS);
	*hook = NULL;
	dlclose(library);
	assert_int_equal(naps, 1);
	assert_int_equal((uint32_t)words[5], 10);
	assert_int_equal(cuda->cuModuleUnload(module), CUDA_SUCCESS);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		IN_CONTEXT(calls),
		IN_CONTEXT(blocks_that_wait),
		IN_CONTEXT(bad_calls),
		IN_CONTEXT(slow_translation),
		IN_CONTEXT(endless_recursion),
	};

	start_device();
	init_device();
	return cmocka_run_group_tests(tests, NULL, NULL);
}
