/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Loads cubins of softgpu/test/sass-*.ptx, and uses their variables and kernels. usage: machine-code PART ARCHITECTURE
 * CUBIN... with the part variables or kernels, of sass-sample.ptx, calls or strays, of sass-caller.ptx and
 * sass-callee.ptx, grids or lone-blocks, of sass-grid.ptx, addresses, of sass-address.ptx, tables, of
 * sass-branch.ptx, functions, of sass-table.ptx, pointers, of sass-pointers.ptx, diverged, of sass-diverged.ptx,
 * reconverge, of sass-reconverge.ptx, or arrivals, of sass-arrive.ptx.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "api.h"

#define THREADS 64
#define MAX_BYTES (1 << 20)

static CUmodule load(const char *path)
{
	static char cubin[MAX_BYTES];
	FILE *file = fopen(path, "rb");
	CUmodule module;

	CHECK(file);
	memset(cubin, 0, sizeof(cubin)); /* behind PTX */
	CHECK(fread(cubin, 1, sizeof(cubin), file) > 64);
	fclose(file);
	OK(cuModuleLoadData(&module, cubin));
	return module;
}

static CUdeviceptr variable(CUmodule module, const char *name, size_t expected)
{
	CUdeviceptr address;
	size_t bytes;

	OK(cuModuleGetGlobal_v2(&address, &bytes, module, name));
	CHECK(bytes == expected);
	return address;
}

static void check_variables(CUmodule module)
{
	CUdeviceptr pointers[2], counter = variable(module, "counter", 4), words = variable(module, "words", 20);
	unsigned int values[5];
	char text[6];

	OK(cuMemcpyDtoH_v2(values, counter, 4));
	CHECK(values[0] == 7);
	OK(cuMemcpyDtoH_v2(values, words, 20));
	CHECK(values[0] == 1 && values[4] == 5);
	OK(cuMemcpyDtoH_v2(pointers, variable(module, "pointer", 16), 16));
	CHECK(pointers[0] == counter && pointers[1] == words + 8);
	OK(cuMemcpyDtoH_v2(text, variable(module, "format", 6), 6));
	CHECK(!memcmp(text, "n %d\n", 6));
	/* adjacent, as in the constant bank */
	CHECK(variable(module, "three", 3) - variable(module, "doubles", 16) < 40);
	CHECK(words - variable(module, "doubles", 16) < 40);
}

static CUfunction kernel(CUmodule module, const char *name)
{
	CUfunction f;

	OK(cuModuleGetFunction(&f, module, name));
	return f;
}

static void run_params(CUmodule module)
{
	unsigned int b[8] = {[3] = 1000}, results[THREADS];
	unsigned char a = 200;
	CUdeviceptr c;
	void *params[] = {&a, b, &c};

	OK(cuMemAlloc_v2(&c, sizeof(results)));
	OK(cuLaunchKernel(kernel(module, "params"), 1, 1, 1, THREADS, 1, 1, THREADS * 4, NULL, params, NULL));
	OK(cuMemcpyDtoH_v2(results, c, sizeof(results)));
	for (unsigned int i = 0; i < THREADS; i++)
		CHECK(results[i] == 1200 + (i ^ 1));
	OK(cuMemFree_v2(c));
}

static void run_variables(CUmodule module)
{
	unsigned int n = 3, result, more = 100;
	CUdeviceptr p;
	void *params[] = {&p, &n};

	OK(cuMemAlloc_v2(&p, 4));
	OK(cuMemcpyHtoD_v2(variable(module, "zeroes", 400) + 12, &more, 4));
	OK(cuLaunchKernel(kernel(module, "variables"), 1, 1, 1, 32, 1, 1, 0, NULL, params, NULL));
	OK(cuMemcpyDtoH_v2(&result, p, 4));
	CHECK(result == 4 + 17 + 100);
	OK(cuMemFree_v2(p));
}

/* A kernel without parameters writes the block's size. */
static void run_shape(CUmodule module)
{
	unsigned int result;

	OK(cuLaunchKernel(kernel(module, "shape"), 1, 1, 1, 96, 1, 1, 0, NULL, NULL, NULL));
	OK(cuMemcpyDtoH_v2(&result, variable(module, "zeroes", 400), 4));
	CHECK(result == 96);
}

/* Shared memory of the launch alone. */
static void run_swaps(CUmodule module)
{
	unsigned int results[THREADS];
	CUdeviceptr p;
	void *params[] = {&p};

	OK(cuMemAlloc_v2(&p, sizeof(results)));
	OK(cuLaunchKernel(kernel(module, "swaps"), 1, 1, 1, THREADS, 1, 1, sizeof(results), NULL, params, NULL));
	OK(cuMemcpyDtoH_v2(results, p, sizeof(results)));
	for (unsigned int i = 0; i < THREADS; i++)
		CHECK(results[i] == (i ^ 1));
	OK(cuMemFree_v2(p));
}

static void run_prints(CUmodule module, unsigned int architecture)
{
	void *params[] = {&architecture};

	OK(cuLaunchKernel(kernel(module, "prints"), 1, 1, 1, 1, 1, 1, 0, NULL, params, NULL));
	OK(cuCtxSynchronize());
}

/* Functions of another file, with recursion: the products are counted. */
static void run_calls(CUmodule module)
{
	unsigned int results[THREADS], products, expected[8] = {1, 1};
	CUdeviceptr p;
	void *params[] = {&p};

	for (unsigned int n = 2; n < 8; n++)
		expected[n] = n * expected[n - 1];
	OK(cuMemAlloc_v2(&p, sizeof(results)));
	OK(cuLaunchKernel(kernel(module, "calls"), 1, 1, 1, THREADS, 1, 1, 0, NULL, params, NULL));
	OK(cuMemcpyDtoH_v2(results, p, sizeof(results)));
	for (unsigned int i = 0; i < THREADS; i++)
		CHECK(results[i] == expected[i % 8]);
	OK(cuMemcpyDtoH_v2(&products, variable(module, "products", 4), 4));
	CHECK(products == THREADS / 8 * 21);
	OK(cuMemFree_v2(p));
}

/* Lanes of a warp shuffle together from two loops. */
static void run_diverged(CUmodule module)
{
	unsigned int rows = 3, results[THREADS / 32 * 3];
	CUdeviceptr p;
	void *params[] = {&p, &rows};

	OK(cuMemAlloc_v2(&p, sizeof(results)));
	OK(cuLaunchKernel(kernel(module, "diverged"), 1, 1, 1, THREADS, 1, 1, 0, NULL, params, NULL));
	OK(cuMemcpyDtoH_v2(results, p, sizeof(results)));
	for (unsigned int i = 0; i < THREADS / 32 * rows; i++)
		CHECK(results[i] == 496 + i / rows * 32 * 32 + i % rows * 32);
	OK(cuMemFree_v2(p));
}

/* The functions of sass-reconverge.ptx. */
static unsigned int first(unsigned int x)
{
	unsigned int rounds = x & 7;

	if (rounds == 1)
		return x * 3 + 1;
	do
		x = x * 5 + 7;
	while (rounds > 1 && --rounds);
	return x;
}

static unsigned int second(unsigned int x)
{
	unsigned int rounds = x & 3;

	do
		x = x * 5 + 3;
	while (rounds > 1 && --rounds);
	return x;
}

/* In each round half of a warp's lanes call a function before all lanes shuffle, twice. */
static void run_reconverge(CUmodule module)
{
	unsigned int results[THREADS], x[THREADS], before[THREADS];
	CUdeviceptr p;
	void *params[] = {&p};

	OK(cuMemAlloc_v2(&p, sizeof(results)));
	OK(cuLaunchKernel(kernel(module, "reconverge"), 1, 1, 1, THREADS, 1, 1, 0, NULL, params, NULL));
	OK(cuMemcpyDtoH_v2(results, p, sizeof(results)));
	for (unsigned int i = 0; i < THREADS; i++)
		x[i] = i;
	for (unsigned int step = 0; step < 6; step++) {
		unsigned int bit = 1u << step % 2;

		for (unsigned int i = 0; i < THREADS; i++)
			before[i] = !(i & bit) ? x[i] : bit == 1 ? first(x[i]) : second(x[i]);
		for (unsigned int i = 0; i < THREADS; i++)
			x[i] = before[i] + before[i ^ bit];
	}
	for (unsigned int i = 0; i < THREADS; i++)
		CHECK(results[i] == x[i]);
	OK(cuMemFree_v2(p));
}

/* Two warps wait for each other at barriers whose numbers, and numbers of threads, are in registers. */
static void run_waits(CUmodule module)
{
	unsigned int numbers[2] = {THREADS, 5}, results[THREADS];
	CUdeviceptr p, n;
	void *params[] = {&p, &n};

	OK(cuMemAlloc_v2(&p, sizeof(results)));
	OK(cuMemAlloc_v2(&n, sizeof(numbers)));
	OK(cuMemcpyHtoD_v2(n, numbers, sizeof(numbers)));
	OK(cuLaunchKernel(kernel(module, "waits"), 1, 1, 1, THREADS, 1, 1, 0, NULL, params, NULL));
	OK(cuMemcpyDtoH_v2(results, p, sizeof(results)));
	for (unsigned int i = 0; i < THREADS; i++)
		CHECK(results[i] == (i ^ 1) * 3 + 1 + (i < 32 ? 0 : (i ^ 33) * 3 + 1));
	OK(cuMemFree_v2(n));
	OK(cuMemFree_v2(p));
}

/* Barriers in shared memory. The order in which the lanes of a warp arrive is free. */
static void run_arrivals(CUmodule module)
{
	unsigned int input[THREADS], results[THREADS][3], seen[4] = {0};
	CUdeviceptr p, from;
	void *params[] = {&p, &from};

	for (unsigned int i = 0; i < THREADS; i++)
		input[i] = 7 * i + 3;
	OK(cuMemAlloc_v2(&p, sizeof(results)));
	OK(cuMemAlloc_v2(&from, sizeof(input)));
	OK(cuMemcpyHtoD_v2(from, input, sizeof(input)));
	OK(cuLaunchKernel(kernel(module, "arrives"), 1, 1, 1, THREADS, 1, 1, 0, NULL, params, NULL));
	OK(cuMemcpyDtoH_v2(results, p, sizeof(results)));
	for (unsigned int i = 0; i < THREADS; i++) {
		CHECK(results[i][0] == 40 * (i ^ 33) + 6);
		CHECK(results[i][2] == 7 * (i ^ 35) + 3);
		if (i >= 32)
			continue;
		/* In the end the phase's parity is 0 again: the phase before it is complete. */
		CHECK(results[i][1] > 1000 && results[i][1] % 100 >= 1 && results[i][1] % 100 <= 8);
		seen[results[i][1] / 100 % 10] += results[i][1] % 100;
	}
	CHECK(seen[0] == 2 * 36 && seen[1] == 2 * 36);
	OK(cuMemFree_v2(from));
	OK(cuMemFree_v2(p));
}

/* Static, launched and reserved shared memory do not overlap. The latter does not count in the limits of a block. */
static void run_reserves(CUmodule module)
{
	CUfunction f = kernel(module, "reserves");
	unsigned int results[THREADS];
	int launched[] = {sizeof(results), 0, 0}, most, fixed;
	CUdeviceptr p;
	void *params[] = {&p};

	OK(cuDeviceGetAttribute(&most, CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN, 0));
	OK(cuFuncGetAttribute(&fixed, CU_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES, f));
	CHECK(fixed >= 260 && fixed < 260 + 128);
	launched[1] = 48 * 1024 - fixed;
	launched[2] = most - fixed;
	OK(cuMemAlloc_v2(&p, sizeof(results)));
	for (unsigned int n = 0; n < 3; n++) {
		if (n == 2)
			OK(cuFuncSetAttribute(f, CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES, launched[n]));
		OK(cuMemsetD8_v2(p, 0, sizeof(results)));
		OK(cuLaunchKernel(f, 1, 1, 1, THREADS, 1, 1, (unsigned int)launched[n], NULL, params, NULL));
		OK(cuMemcpyDtoH_v2(results, p, sizeof(results)));
		for (unsigned int i = 0; i < THREADS; i++)
			CHECK(results[i] == 3 * (i ^ 33) + 5001000);
	}
	OK(cuMemFree_v2(p));
}

/* Loops end by what another warp stores to shared memory. */
static void run_polls(CUmodule module)
{
	unsigned int result, zero = 0;
	CUdeviceptr p;
	void *params[] = {&p, &zero};

	OK(cuMemAlloc_v2(&p, 2 * sizeof(result)));
	OK(cuLaunchKernel(kernel(module, "polls"), 1, 1, 1, THREADS, 1, 1, 0, NULL, params, NULL));
	OK(cuMemcpyDtoH_v2(&result, p, sizeof(result)));
	CHECK(result == 1536);
	OK(cuMemFree_v2(p));
}

/* All but 16 threads store beside the allocation: in the kernel, and in a function that it calls. */
static void run_strays(CUmodule module)
{
	static const char *const names[] = {"calls", "stores"};

	for (unsigned int n = 0; n < 2; n++) {
		CUdeviceptr p;
		void *params[] = {&p};

		OK(cuMemAlloc_v2(&p, 16 * 4));
		OK(cuLaunchKernel(kernel(module, names[n]), 1, 1, 1, THREADS, 1, 1, 0, NULL, params, NULL));
		OK(cuCtxSynchronize());
		OK(cuMemFree_v2(p));
	}
}

/* Calls through a table of functions: other ones in each lane, in some lanes, in each warp. */
static void run_functions(CUmodule module)
{
	for (unsigned int n = 1; n <= 64; n *= 4) {
		unsigned int results[THREADS];
		CUdeviceptr p;
		void *params[] = {&p, &n};

		OK(cuMemAlloc_v2(&p, sizeof(results)));
		OK(cuLaunchKernel(kernel(module, "dispatches"), 1, 1, 1, THREADS, 1, 1, 0, NULL, params, NULL));
		OK(cuMemcpyDtoH_v2(results, p, sizeof(results)));
		for (unsigned int i = 0; i < THREADS; i++) {
			unsigned int chosen[] = {i + 7, 7 * i, i ^ 7, 7 - i, i * i, i >> 1};
			unsigned int expected[] = {3 * i + 1, 2 * i, i + 100 * (i & 3), i, chosen[i % 6]};

			CHECK(results[i] == expected[i / n % 5]);
		}
		OK(cuMemFree_v2(p));
	}
}

/* The functions of the table in sass-pointers.ptx, for a thread. */
static unsigned int pointed(unsigned int n, unsigned int i)
{
	unsigned int x = i % 32, results[] = {x / 2, 6 * x, x ^ 1, x / 2};

	return results[n];
}

#define KEPT 12

/* Registers keep their values around calls of a function of the driver and of one of the table. */
static void run_keeps(CUmodule module, unsigned int n)
{
	unsigned int words[THREADS][KEPT + 1];
	CUdeviceptr p;
	void *params[] = {&p, &n};

	for (unsigned int i = 0; i < THREADS; i++)
		for (unsigned int k = 0; k < KEPT; k++)
			words[i][k] = 100 * i + k;
	OK(cuMemAlloc_v2(&p, sizeof(words)));
	OK(cuMemcpyHtoD_v2(p, words, sizeof(words)));
	OK(cuLaunchKernel(kernel(module, "keeps"), 1, 1, 1, THREADS, 1, 1, 0, NULL, params, NULL));
	OK(cuMemcpyDtoH_v2(words, p, sizeof(words)));
	for (unsigned int i = 0; i < THREADS; i++) {
		for (unsigned int k = 0; k < KEPT; k++)
			CHECK(words[i][k] == 100 * i + KEPT - 1 - k);
		CHECK(words[i][KEPT] == pointed(n, i));
	}
	OK(cuMemFree_v2(p));
}

/* A function calls itself by its name and through a pointer, or is called both ways by a kernel. */
static void run_mixes(CUmodule module, unsigned int n)
{
	unsigned int results[THREADS];
	CUdeviceptr p;
	void *params[] = {&p, &n};

	OK(cuMemAlloc_v2(&p, sizeof(results)));
	OK(cuLaunchKernel(kernel(module, "mixes"), 1, 1, 1, THREADS, 1, 1, 0, NULL, params, NULL));
	OK(cuMemcpyDtoH_v2(results, p, sizeof(results)));
	for (unsigned int i = 0; i < THREADS; i++)
		CHECK(results[i] == pointed(n, i) / 2);
	OK(cuMemFree_v2(p));
}

/* Only the function has static shared memory. The launch's is behind it. */
static void run_places(CUmodule module)
{
	unsigned int results[2 * THREADS];
	CUdeviceptr p;
	void *params[] = {&p};

	OK(cuMemAlloc_v2(&p, sizeof(results)));
	OK(cuLaunchKernel(kernel(module, "places"), 1, 1, 1, THREADS, 1, 1, THREADS * 4, NULL, params, NULL));
	OK(cuMemcpyDtoH_v2(results, p, sizeof(results)));
	for (unsigned int i = 0; i < THREADS; i++) {
		CHECK(results[i] == (i ^ 1));
		CHECK(results[THREADS + i] == 1000 * i);
	}
	OK(cuMemFree_v2(p));
}

static void run_pointers(CUmodule module)
{
	for (unsigned int n = 0; n < 3; n++)
		run_keeps(module, n);
	for (unsigned int n = 0; n < 4; n++)
		run_mixes(module, n);
	run_places(module);
}

/* A jump by a table. */
static void run_tables(CUmodule module)
{
	for (unsigned int n = 0; n < 5; n++) {
		unsigned int results[THREADS];
		CUdeviceptr p;
		void *params[] = {&n, &p};

		OK(cuMemAlloc_v2(&p, sizeof(results)));
		OK(cuLaunchKernel(kernel(module, "chooses"), 1, 1, 1, THREADS, 1, 1, 0, NULL, params, NULL));
		OK(cuMemcpyDtoH_v2(results, p, sizeof(results)));
		for (unsigned int i = 0; i < THREADS; i++) {
			unsigned int expected[] = {5 + i, 5 * i, ((5 ^ i) - i) * 7, (5 - i) * 7};

			CHECK(results[i] == expected[n < 3 ? n : 3]);
		}
		OK(cuMemFree_v2(p));
	}
}

/* Reads parameters by their addresses. */
static void run_address(CUmodule module)
{
	uint64_t n, q = 0x0123456789abcdef, results[2];
	CUdeviceptr p;
	void *params[] = {&n, &p, &q};

	OK(cuMemAlloc_v2(&p, sizeof(results)));
	for (n = 0x7654321000000000; n <= 0x7654321000000001; n++) {
		OK(cuLaunchKernel(kernel(module, "address"), 1, 1, 1, 1, 1, 1, 0, NULL, params, NULL));
		OK(cuMemcpyDtoH_v2(results, p, sizeof(results)));
		CHECK(results[1] == (n & 1 ? q : n));
		CHECK(results[0]);
	}
	OK(cuMemFree_v2(p));
}

#define BLOCKS 8

/* p[i] = i */
static CUdeviceptr numbers(void)
{
	unsigned int values[BLOCKS * THREADS];
	CUdeviceptr p;

	for (unsigned int i = 0; i < BLOCKS * THREADS; i++)
		values[i] = i;
	OK(cuMemAlloc_v2(&p, sizeof(values)));
	OK(cuMemcpyHtoD_v2(p, values, sizeof(values)));
	return p;
}

/* A grid that waits for itself turns the numbers around. */
static void run_grid(CUfunction f, unsigned int alone)
{
	unsigned int results[BLOCKS * THREADS];
	CUdeviceptr p = numbers();
	void *params[] = {&p, &alone};

	OK(cuLaunchCooperativeKernel(f, BLOCKS, 1, 1, THREADS, 1, 1, 0, NULL, params));
	OK(cuMemcpyDtoH_v2(results, p, sizeof(results)));
	for (unsigned int i = 0; i < BLOCKS * THREADS; i++)
		CHECK(results[i] == BLOCKS * THREADS - 1 - i);
	OK(cuMemFree_v2(p));
}

/* The handle of a launch that is not cooperative is 0. */
static void run_without_handle(CUfunction f)
{
	unsigned int results[BLOCKS * THREADS], alone = 0;
	CUdeviceptr p = numbers();
	void *params[] = {&p, &alone};

	OK(cuLaunchKernel(f, BLOCKS, 1, 1, THREADS, 1, 1, 0, NULL, params, NULL));
	OK(cuMemcpyDtoH_v2(results, p, sizeof(results)));
	for (unsigned int i = 0; i < BLOCKS * THREADS; i++)
		CHECK(results[i] == -1u);
	OK(cuMemFree_v2(p));
}

/* Code that does not look at the handle has a fault without a cooperative launch, and does not wait. */
static void run_lone_blocks(const char *path)
{
	CUcontext context;
	CUdeviceptr p;
	void *params[] = {&p};

	OK(cuCtxCreate_v2(&context, 0, 0));
	p = numbers();
	OK(cuLaunchKernel(kernel(load(path), "waits"), BLOCKS, 1, 1, THREADS, 1, 1, 0, NULL, params, NULL));
	CHECK(cuCtxSynchronize() == CUDA_ERROR_ILLEGAL_ADDRESS);
	cuCtxDestroy_v2(context);
}

static void run_grids(CUmodule module)
{
	for (unsigned int n = 0; n < 2; n++) {
		run_grid(kernel(module, "calls"), 0);
		run_grid(kernel(module, "calls"), 1);
		run_grid(kernel(module, "waits"), 0);
	}
	run_without_handle(kernel(module, "calls"));
}

int main(int argc, char **argv)
{
	CUcontext context;

	CHECK(argc >= 4);
	OK(cuInit(0));
	OK(cuDevicePrimaryCtxRetain(&context, 0));
	OK(cuCtxSetCurrent(context));
	for (int n = 2; n + 1 < argc; n += 2) {
		CUmodule module;

		if (!strcmp(argv[1], "lone-blocks")) {
			run_lone_blocks(argv[n + 1]);
			continue;
		}
		module = load(argv[n + 1]);
		if (!strcmp(argv[1], "variables")) {
			check_variables(module);
		} else if (!strcmp(argv[1], "functions")) {
			run_functions(module);
		} else if (!strcmp(argv[1], "pointers")) {
			run_pointers(module);
		} else if (!strcmp(argv[1], "calls")) {
			run_calls(module);
		} else if (!strcmp(argv[1], "diverged")) {
			run_diverged(module);
		} else if (!strcmp(argv[1], "reconverge")) {
			run_reconverge(module);
			run_waits(module);
		} else if (!strcmp(argv[1], "arrivals")) {
			run_arrivals(module);
			run_reserves(module);
			run_polls(module);
		} else if (!strcmp(argv[1], "strays")) {
			run_strays(module);
		} else if (!strcmp(argv[1], "grids")) {
			run_grids(module);
		} else if (!strcmp(argv[1], "tables")) {
			run_tables(module);
		} else if (!strcmp(argv[1], "addresses")) {
			run_address(module);
		} else {
			run_params(module);
			run_variables(module);
			run_shape(module);
			run_swaps(module);
			run_prints(module, (unsigned int)atoi(argv[n]));
		}
		OK(cuModuleUnload(module));
	}
	puts("Test PASSED");
	return 0;
}
