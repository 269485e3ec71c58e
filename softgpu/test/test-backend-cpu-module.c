/* SPDX-License-Identifier: Apache-2.0 */
/* Code on the software GPU: modules, libraries, and the containers that it comes in. */
#include "softgpu/test/backend-cpu-test.h"

#include <stdlib.h>
#include <string.h>

static void test_module(void **state)
{
	CUmodule module = load(), same;
	CUfunction f = function(module, "add");
	size_t bytes, offset, size;
	CUdeviceptr p;
	uint32_t word;
	float scale;
	int value;

	assert_int_equal(cuda->cuModuleGetFunction(&f, module, "subtract"), CUDA_ERROR_NOT_FOUND);
	assert_int_equal(cuda->cuModuleGetGlobal_v2(&p, &bytes, module, "counter"), CUDA_SUCCESS);
	assert_int_equal(bytes, 4);
	assert_int_equal(cuda->cuMemcpyDtoH_v2(&word, p, 4), CUDA_SUCCESS);
	assert_int_equal(word, 7);
	assert_int_equal(cuda->cuMemFree_v2(p), CUDA_ERROR_INVALID_VALUE);
	assert_int_equal(launch(function(module, "count"), 5, 64, NULL, NULL), CUDA_SUCCESS);
	assert_int_equal(cuda->cuMemcpyDtoH_v2(&word, p, 4), CUDA_SUCCESS);
	assert_int_equal(word, 7 + 5 * 64);
	/* A static variable is found as well. */
	assert_int_equal(cuda->cuModuleGetGlobal_v2(&p, NULL, module, "scale"), CUDA_SUCCESS);
	assert_int_equal(cuda->cuMemcpyDtoH_v2(&scale, p, 4), CUDA_SUCCESS);
	assert_true(scale == 1.5f);
	assert_int_equal(cuda->cuModuleGetGlobal_v2(&p, NULL, module, "nothing"), CUDA_ERROR_NOT_FOUND);

	assert_int_equal(cuda->cuFuncGetParamInfo(f, 2, &offset, &size), CUDA_SUCCESS);
	assert_int_equal(offset, 16);
	assert_int_equal(size, 4);
	assert_int_equal(cuda->cuFuncGetParamInfo(f, 3, &offset, &size), CUDA_ERROR_INVALID_VALUE);
	assert_int_equal(cuda->cuFuncGetModule(&same, f), CUDA_SUCCESS);
	assert_ptr_equal(same, module);
	assert_int_equal(cuda->cuFuncGetAttribute(&value, CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK, f), CUDA_SUCCESS);
	assert_int_equal(value, 1024);
	assert_int_equal(cuda->cuFuncSetAttribute(f, CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES, 300000),
			 CUDA_ERROR_INVALID_VALUE);
	assert_int_equal(cuda->cuFuncSetAttribute(f, CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES, 100000),
			 CUDA_SUCCESS);
	assert_int_equal(cuda->cuOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(&value, f, 256, 100000, 0),
			 CUDA_SUCCESS);
	assert_int_equal(value, 1);
	assert_int_equal(cuda->cuModuleUnload(module), CUDA_SUCCESS);
	assert_int_equal(cuda->cuModuleUnload(module), CUDA_ERROR_INVALID_HANDLE);
	assert_int_equal(launch(f, 1, 1, NULL, NULL), CUDA_ERROR_INVALID_HANDLE);
}

static void test_images(void **state)
{
	static const char elf[64] = "\177ELF";
	uint64_t fatbin[16 + sizeof(backend_ptx) / 8] = {0xba55ed50ull | 1ull << 32 | 16ull << 48,
						 64 + (sizeof(backend_ptx) + 7) / 8 * 8};
	uint32_t *entry = (uint32_t *)&fatbin[2];
	size_t bytes = 16 + (size_t)fatbin[1];
	CUlibrary library;
	CUmodule module;
	CUkernel kernel;

	assert_int_equal(cuda->cuModuleLoadData(&module, elf), CUDA_ERROR_NO_BINARY_FOR_GPU);
	assert_int_equal(cuda->cuModuleLoadData(&module, "hello, this is no program\n"), CUDA_ERROR_INVALID_PTX);
	assert_int_equal(cuda->cuModuleLoadData(&module, NULL), CUDA_ERROR_INVALID_VALUE);
	/* A bound cuts a text off: what is left is not PTX. */
	vcuda_cpu_set_image_bound(20);
	assert_int_equal(cuda->cuModuleLoadData(&module, "hello, this is no program\n"), CUDA_ERROR_INVALID_PTX);

	entry[0] = 1 | 0x101 << 16;
	entry[1] = 64;
	entry[2] = (uint32_t)(fatbin[1] - 64);
	entry[7] = 75;
	memcpy(&fatbin[10], backend_ptx, sizeof(backend_ptx));
	assert_int_equal(cuda->cuModuleLoadData(&module, fatbin), CUDA_SUCCESS);
	assert_int_equal(cuda->cuModuleUnload(module), CUDA_SUCCESS);
	vcuda_cpu_set_image_bound(bytes - 1);
	assert_int_equal(cuda->cuModuleLoadData(&module, fatbin), CUDA_ERROR_INVALID_IMAGE);
	vcuda_cpu_set_image_bound(bytes);
	assert_int_equal(cuda->cuLibraryLoadData(&library, fatbin, NULL, NULL, 0, NULL, NULL, 0), CUDA_SUCCESS);
	assert_int_equal(cuda->cuLibraryGetKernel(&kernel, library, "nothing"), CUDA_ERROR_NOT_FOUND);
	assert_int_equal(cuda->cuLibraryUnload(library), CUDA_SUCCESS);
	entry[7] = 131; /* newer than the device */
	assert_int_equal(cuda->cuModuleLoadData(&module, fatbin), CUDA_ERROR_NO_BINARY_FOR_GPU);
	entry[7] = 75;
	entry[0] = 2 | 0x101 << 16;
	assert_int_equal(cuda->cuModuleLoadData(&module, fatbin), CUDA_ERROR_NO_BINARY_FOR_GPU);
}

/* A container with one entry, as nvcc makes them. */
struct container {
	uint64_t magic, bytes;
	uint32_t entry[16];
	char text[(sizeof(backend_ptx) + 8) & ~(size_t)7];
};

static struct container container(unsigned int kind, const char *text)
{
	struct container c = {.magic = 0xba55ed50ull | 1ull << 32 | 16ull << 48, .bytes = sizeof(c) - 16};

	c.entry[0] = kind | 0x101 << 16;
	c.entry[1] = 64;
	c.entry[2] = sizeof(c.text);
	c.entry[7] = 75;
	strcpy(c.text, text);
	return c;
}

/* Code that a device linker made, with what it was made from behind it. */
static void test_linked_images(void **state)
{
	struct container image[2] = {container(2, "\177ELF"), container(1, backend_ptx)};
	CUmodule module;
	CUdeviceptr p;

	vcuda_cpu_set_image_bound(sizeof(image[0]));
	assert_int_equal(cuda->cuModuleLoadData(&module, image), CUDA_ERROR_NO_BINARY_FOR_GPU);
	vcuda_cpu_set_image_bound(sizeof(image));
	assert_int_equal(cuda->cuModuleLoadData(&module, image), CUDA_SUCCESS);
	assert_int_equal(cuda->cuModuleGetGlobal_v2(&p, NULL, module, "counter"), CUDA_SUCCESS);
	assert_int_equal(cuda->cuModuleUnload(module), CUDA_SUCCESS);
	/* if that is PTX, what it was made from does not count */
	image[0] = container(1, ".version 8.0\n.target sm_75\n.address_size 64\n.visible .global .u32 other;\n");
	vcuda_cpu_set_image_bound(sizeof(image));
	assert_int_equal(cuda->cuModuleLoadData(&module, image), CUDA_SUCCESS);
	assert_int_equal(cuda->cuModuleGetGlobal_v2(&p, NULL, module, "other"), CUDA_SUCCESS);
	assert_int_equal(cuda->cuModuleGetGlobal_v2(&p, NULL, module, "counter"), CUDA_ERROR_NOT_FOUND);
	assert_int_equal(cuda->cuModuleUnload(module), CUDA_SUCCESS);
}

#define TEXT_FOR(target) ".version 8.8\n.target " target "\n.address_size 64\n.visible .global .u32 it;\n"

/*
 * Machine code and PTX in one container: code that this device (8.0) would run is replaced by PTX for a newer device.
 */
static void test_code_beside_ptx(void **state)
{
	static const struct {
		uint32_t code, ptx;
		const char *text;
		CUresult result;
	} cases[] = {
		{80, 86, TEXT_FOR("sm_86"), CUDA_SUCCESS},
		{75, 86, TEXT_FOR("sm_86"), CUDA_ERROR_NO_BINARY_FOR_GPU},
		{90, 121, TEXT_FOR("sm_121"), CUDA_ERROR_NO_BINARY_FOR_GPU},
		{86, 86, TEXT_FOR("sm_86"), CUDA_ERROR_NO_BINARY_FOR_GPU},
		{86, 80, TEXT_FOR("sm_80"), CUDA_SUCCESS},
		{75, 75, TEXT_FOR("sm_75"), CUDA_SUCCESS},
	};

	for (size_t n = 0; n < sizeof(cases) / sizeof(cases[0]); n++) {
		struct container image[2] = {container(2, "\177ELF"), container(1, cases[n].text)};
		CUmodule module;
		CUdeviceptr p;

		image[0].entry[7] = cases[n].code;
		image[1].entry[7] = cases[n].ptx;
		/* the second entry takes the place of the second container's header */
		memmove(&image[1], image[1].entry, sizeof(image[1]) - offsetof(struct container, entry));
		image[0].bytes += sizeof(image[1]) - offsetof(struct container, entry);
		assert_int_equal(cuda->cuModuleLoadData(&module, image), cases[n].result);
		if (cases[n].result != CUDA_SUCCESS)
			continue;
		assert_int_equal(cuda->cuModuleGetGlobal_v2(&p, NULL, module, "it"), CUDA_SUCCESS);
		assert_int_equal(cuda->cuModuleUnload(module), CUDA_SUCCESS);
	}
}

static void test_library(void **state)
{
	CUdeviceptr p, q;
	CUlibrary library;
	CUkernel kernel;
	CUmodule module;
	CUfunction f;
	CUcontext other;
	uint32_t word;
	int value;

	assert_int_equal(cuda->cuLibraryLoadData(&library, backend_ptx, NULL, NULL, 0, NULL, NULL, 0), CUDA_SUCCESS);
	assert_int_equal(cuda->cuLibraryGetKernel(&kernel, library, "count"), CUDA_SUCCESS);
	assert_int_equal(cuda->cuLibraryGetGlobal(&p, NULL, library, "counter"), CUDA_SUCCESS);
	assert_int_equal(launch((CUfunction)kernel, 2, 32, NULL, NULL), CUDA_SUCCESS);
	assert_int_equal(cuda->cuMemcpyDtoH_v2(&word, p, 4), CUDA_SUCCESS);
	assert_int_equal(word, 7 + 64);
	assert_int_equal(cuda->cuKernelSetAttribute(CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES, 65536, kernel, 0),
			 CUDA_SUCCESS);
	assert_int_equal(cuda->cuLibraryGetModule(&module, library), CUDA_SUCCESS);
	assert_int_equal(cuda->cuModuleUnload(module), CUDA_ERROR_NOT_PERMITTED);

	/* Another context has variables of its own, and the kernel's attribute. */
	assert_int_equal(cuda->cuCtxCreate_v2(&other, 0, 0), CUDA_SUCCESS);
	assert_int_equal(cuda->cuLibraryGetGlobal(&q, NULL, library, "counter"), CUDA_SUCCESS);
	assert_true(p != q);
	assert_int_equal(launch((CUfunction)kernel, 1, 1, NULL, NULL), CUDA_SUCCESS);
	assert_int_equal(cuda->cuMemcpyDtoH_v2(&word, q, 4), CUDA_SUCCESS);
	assert_int_equal(word, 8);
	assert_int_equal(cuda->cuKernelGetFunction(&f, kernel), CUDA_SUCCESS);
	assert_int_equal(cuda->cuFuncGetAttribute(&value, CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES, f),
			 CUDA_SUCCESS);
	assert_int_equal(value, 65536);
	assert_int_equal(cuda->cuCtxDestroy_v2(other), CUDA_SUCCESS);
	assert_int_equal(cuda->cuMemcpyDtoH_v2(&word, p, 4), CUDA_SUCCESS);
	assert_int_equal(cuda->cuLibraryUnload(library), CUDA_SUCCESS);
	assert_int_equal(launch((CUfunction)kernel, 1, 1, NULL, NULL), CUDA_ERROR_INVALID_HANDLE);
	assert_int_equal(cuda->cuMemcpyDtoH_v2(&word, p, 4), CUDA_ERROR_INVALID_VALUE);
}

static void test_refused_instruction(void **state)
{
	static const char strange[] =
		".version 7.0\n.target sm_70\n.address_size 64\n"
		".visible .entry strange()\n{\n\t.reg .b32 %r<9>;\n"
		"\tmultimem.ld_reduce.relaxed.gpu.global.add.u32 %r0, [%r8];\n"
		"\tret;\n}\n";
	CUmodule module;
	CUresult result = cuda->cuModuleLoadData(&module, strange);

	/* At the load or at the launch, never with a wrong result. */
	if (result == CUDA_SUCCESS)
		result = launch(function(module, "strange"), 1, 32, NULL, NULL);
	assert_true(result == CUDA_ERROR_NOT_SUPPORTED || result == CUDA_ERROR_INVALID_PTX);
	assert_int_equal(cuda->cuCtxSynchronize(), CUDA_SUCCESS);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		IN_CONTEXT(test_module),
		IN_CONTEXT(test_images),
		IN_CONTEXT(test_linked_images),
		IN_CONTEXT(test_code_beside_ptx),
		IN_CONTEXT(test_library),
		IN_CONTEXT(test_refused_instruction),
	};

	init_device();
	return cmocka_run_group_tests(tests, NULL, NULL);
}
