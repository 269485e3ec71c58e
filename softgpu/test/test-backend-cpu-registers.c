/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The bounds of a thread's registers, by directives of kernels, options of calls and options in fatbins: what the
 * attribute says, and how many blocks fit a multiprocessor. The kernels name 100 registers, of which 64 count.
 */
#include "softgpu/test/backend-cpu-test.h"

#include "softgpu/module/image.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define HEAD ".version 7.0\n.target sm_60\n.address_size 64\n"
#define ENTRY(name, tuning) ".visible .entry " name "() " tuning "\n{\n.reg .b32 %r<100>;\nret;\n}\n"

static const char text[] = HEAD ENTRY("plain", "") ENTRY("bound", ".maxnreg 40") ENTRY("threads", ".maxntid 1024, 1, 1")
	ENTRY("two", ".maxntid 1024, 1, 1 .minnctapersm 2") ENTRY("odd", ".maxntid 33, 3, 1 .minnctapersm 9")
		ENTRY("few", ".maxntid 96 .minnctapersm 3") ENTRY("impossible", ".maxntid 1024 .minnctapersm 65");

static const char *const names[] = {"plain", "bound", "threads", "two", "odd", "few", "impossible"};

static int registers(CUmodule module, const char *name)
{
	int value;

	assert_int_equal(cuda->cuFuncGetAttribute(&value, CU_FUNC_ATTRIBUTE_NUM_REGS, function(module, name)),
			 CUDA_SUCCESS);
	return value;
}

/* Each kernel has what its directives leave; without directives no more than `bound` (asked of ptxas 13.0). */
static void expect(CUmodule module, int bound)
{
	/* 128 threads in whole warps, 9 times: 56.9, in steps of 8 */
	static const int left[] = {64, 40, 64, 32, 56, 64, 64};

	for (size_t n = 0; n < sizeof(names) / sizeof(names[0]); n++) {
		int expected = n || left[n] < bound ? left[n] : bound;

		if (registers(module, names[n]) != expected)
			fail_msg("%s has %d registers, not %d", names[n], registers(module, names[n]), expected);
	}
}

static int blocks(CUmodule module, const char *name, int threads)
{
	int value;

	assert_int_equal(cuda->cuOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(&value, function(module, name),
										    threads, 0, 0),
			 CUDA_SUCCESS);
	return value;
}

static void test_directives(void **state)
{
	CUmodule module;
	int threads;

	assert_int_equal(cuda->cuDeviceGetAttribute(&threads, CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_MULTIPROCESSOR, 0),
			 CUDA_SUCCESS);
	assert_int_equal(cuda->cuModuleLoadData(&module, text), CUDA_SUCCESS);
	expect(module, 64);
	assert_int_equal(blocks(module, "threads", 1024), 1);
	assert_int_equal(blocks(module, "two", 1024), threads / 1024);
	assert_int_equal(blocks(module, "odd", 99), 9);
	assert_int_equal(cuda->cuModuleUnload(module), CUDA_SUCCESS);
}

static void test_options(void **state)
{
	CUjit_option option = CU_JIT_MAX_REGISTERS;
	void *value = (void *)38;
	CUlibrary library;
	CUkernel kernel;
	CUmodule module;
	int count;

	assert_int_equal(cuda->cuModuleLoadDataEx(&module, text, 1, &option, &value), CUDA_SUCCESS);
	expect(module, 38);
	assert_int_equal(cuda->cuModuleUnload(module), CUDA_SUCCESS);
	assert_int_equal(cuda->cuLibraryLoadData(&library, text, &option, &value, 1, NULL, NULL, 0), CUDA_SUCCESS);
	assert_int_equal(cuda->cuLibraryGetKernel(&kernel, library, "plain"), CUDA_SUCCESS);
	assert_int_equal(cuda->cuFuncGetAttribute(&count, CU_FUNC_ATTRIBUTE_NUM_REGS, (CUfunction)kernel),
			 CUDA_SUCCESS);
	assert_int_equal(count, 38);
	assert_int_equal(cuda->cuLibraryUnload(library), CUDA_SUCCESS);
	/* 0 is no bound */
	value = NULL;
	assert_int_equal(cuda->cuModuleLoadDataEx(&module, text, 1, &option, &value), CUDA_SUCCESS);
	expect(module, 64);
	assert_int_equal(cuda->cuModuleUnload(module), CUDA_SUCCESS);
}

/* The bound counts for all parts, whichever of them it came with, and however often the link is completed. */
static void test_link(void **state)
{
	CUjit_option option = CU_JIT_MAX_REGISTERS;
	void *at_create = (void *)50, *at_add = (void *)36, *link;
	char *image;
	CUmodule module;
	size_t bytes;

	assert_int_equal(cuda->cuLinkCreate_v2(1, &option, &at_create, &link), CUDA_SUCCESS);
	assert_int_equal(
		cuda->cuLinkAddData_v2(link, CU_JIT_INPUT_PTX, (void *)text, sizeof(text), "t", 1, &option, &at_add),
		CUDA_SUCCESS);
	for (int i = 0; i < 2; i++)
		assert_int_equal(cuda->cuLinkComplete(link, &image, &bytes), CUDA_SUCCESS);
	vcuda_cpu_set_image_bound(bytes - 16);
	assert_int_equal(cuda->cuModuleLoadData(&module, image + 16), CUDA_SUCCESS);
	assert_int_equal(cuda->cuLinkDestroy(link), CUDA_SUCCESS);
	expect(module, 36);
	assert_int_equal(cuda->cuModuleUnload(module), CUDA_SUCCESS);
}

/* A link has room for so many texts, with a bound or without. */
static void test_link_of_many(void **state)
{
	CUjit_option option = CU_JIT_MAX_REGISTERS;
	void *value = (void *)36, *link;
	char variable[100], *image;
	CUmodule module;
	size_t bytes;

	assert_int_equal(cuda->cuLinkCreate_v2(1, &option, &value, &link), CUDA_SUCCESS);
	for (int i = 0; i < SOFTGPU_IMAGE_TEXTS - 1; i++) {
		bytes = (size_t)snprintf(variable, sizeof(variable), HEAD ".visible .global .u32 v%d;\n", i);
		assert_int_equal(
			cuda->cuLinkAddData_v2(link, CU_JIT_INPUT_PTX, variable, bytes + 1, "v", 0, NULL, NULL),
			CUDA_SUCCESS);
	}
	assert_int_equal(cuda->cuLinkAddData_v2(link, CU_JIT_INPUT_PTX, (void *)text, sizeof(text), "t", 0, NULL, NULL),
			 CUDA_SUCCESS);
	assert_int_equal(cuda->cuLinkComplete(link, &image, &bytes), CUDA_SUCCESS);
	vcuda_cpu_set_image_bound(bytes - 16);
	assert_int_equal(cuda->cuModuleLoadData(&module, image + 16), CUDA_SUCCESS);
	assert_int_equal(cuda->cuLinkDestroy(link), CUDA_SUCCESS);
	expect(module, 36);
	assert_int_equal(cuda->cuModuleUnload(module), CUDA_SUCCESS);
}

/* As nvcc -maxrregcount makes it. */
static void expect_fatbin(const char *options, int bound)
{
	struct {
		uint64_t magic, bytes;
		uint32_t entry[16], option_offset, option_bytes;
		char option[64], text[sizeof(text) + 8 - sizeof(text) % 8];
	} c = {.magic = 0xba55ed50ull | 1ull << 32 | 16ull << 48, .bytes = sizeof(c) - 16};
	CUmodule module;

	c.entry[0] = 1 | 0x101 << 16;
	c.entry[1] = (uint32_t)((char *)c.text - (char *)c.entry);
	c.entry[2] = sizeof(c.text);
	c.entry[5] = (uint32_t)((char *)&c.option_offset - (char *)c.entry);
	c.entry[7] = 60;
	c.option_offset = (uint32_t)(c.option - (char *)c.entry);
	c.option_bytes = (uint32_t)snprintf(c.option, sizeof(c.option), "%s", options);
	memcpy(c.text, text, sizeof(text));
	assert_int_equal(cuda->cuModuleLoadData(&module, &c), CUDA_SUCCESS);
	expect(module, bound);
	assert_int_equal(cuda->cuModuleUnload(module), CUDA_SUCCESS);
}

static void test_fatbins(void **state)
{
	expect_fatbin(" -maxrregcount=32 ", 32);
	expect_fatbin("--compile-only  -maxrregcount=48 ", 48);
	expect_fatbin("-maxrregcount=24", 24);
	expect_fatbin("-maxrregcount=", 64);
	expect_fatbin("-maxrregcount=99999999999999999999", 64);
	expect_fatbin("-maxrregcount", 64);
	expect_fatbin("", 64);
}

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
		IN_CONTEXT(test_directives),   IN_CONTEXT(test_options), IN_CONTEXT(test_link),
		IN_CONTEXT(test_link_of_many), IN_CONTEXT(test_fatbins),
	};

	start_device();
	if (argc > 1)
		setenv("VCUDA_CPU_COMPUTE", argv[1], 1);
	if (cuda->cuInit(0) != CUDA_SUCCESS)
		return 2;
	return cmocka_run_group_tests(tests, NULL, NULL);
}
