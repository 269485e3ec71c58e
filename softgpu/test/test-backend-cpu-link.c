/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The software GPU's linker: what is said of a part when it is added, and what only of the whole.
 *
 * usage: test-backend-cpu-link [COMPUTE_CAPABILITY]
 */
#include "softgpu/test/backend-cpu-test.h"

#include <elf.h>
#include <stdlib.h>
#include <string.h>

#define HEAD ".version 7.0\n.target sm_60\n.address_size 64\n"

static const char defines[] = HEAD ".visible .global .align 4 .u32 shared_one = 3;\n";
static const char uses[] =
	HEAD ".extern .global .align 4 .u32 shared_one;\n.extern .func nobody_has();\n"
	     ".visible .entry reads(.param .u64 p)\n{\n.reg .b64 %l; .reg .b32 %r;\nld.param.u64 %l, [p];\n"
	     "ld.global.u32 %r, [shared_one];\nst.global.u32 [%l], %r;\nret;\n}\n";
static const char bad[] = HEAD ".visible .entry k()\n{\nadd.u32 nowhere, 1, 2;\n}\n";

static void *create(unsigned int count, CUjit_option *options, void **values)
{
	void *link;

	assert_int_equal(cuda->cuLinkCreate_v2(count, options, values, &link), CUDA_SUCCESS);
	return link;
}

/* From memory that ends there, for the sanitizer. */
static CUresult add(void *link, CUjitInputType type, const void *data, size_t bytes, char *name)
{
	void *copy = malloc(bytes);
	CUresult result;

	memcpy(copy, data, bytes);
	result = cuda->cuLinkAddData_v2(link, (int)type, copy, bytes, name, 0, NULL, NULL);
	free(copy);
	return result;
}

static CUresult add_text(void *link, const char *text)
{
	return add(link, CU_JIT_INPUT_PTX, text, strlen(text), "text");
}

/* Loads as the guest does: it passes the contents of the outer container. */
static CUmodule load_linked(void *link)
{
	CUmodule module;
	char *image;
	size_t bytes;

	assert_int_equal(cuda->cuLinkComplete(link, &image, &bytes), CUDA_SUCCESS);
	vcuda_cpu_set_image_bound(bytes - 16);
	assert_int_equal(cuda->cuModuleLoadData(&module, image + 16), CUDA_SUCCESS);
	return module;
}

static void expect_variable(CUmodule module, const char *name)
{
	CUdeviceptr p;

	assert_int_equal(cuda->cuModuleGetGlobal_v2(&p, NULL, module, name), CUDA_SUCCESS);
}

static void test_parts(void **state)
{
	void *link = create(0, NULL, NULL), *image;
	CUmodule module;
	CUdeviceptr p = alloc(4);
	void *params[] = {&p};
	uint32_t word;
	size_t bytes;

	assert_int_equal(cuda->cuLinkComplete(link, &image, &bytes), CUDA_ERROR_INVALID_VALUE);
	assert_int_equal(add_text(link, uses), CUDA_SUCCESS);
	/* each of these fails by itself, and nothing of it stays */
	assert_int_equal(add_text(link, bad), CUDA_ERROR_INVALID_PTX);
	assert_int_equal(add_text(link, HEAD ".visible .entry k()\n{\nret;\n"), CUDA_ERROR_INVALID_PTX);
	assert_int_equal(add_text(link, "hello, this is no program\n"), CUDA_ERROR_INVALID_PTX);
	assert_int_equal(add_text(link, ".version 7.0\n.target sm_131\n.address_size 64\n"),
			 CUDA_ERROR_NO_BINARY_FOR_GPU);
	/* comments have no effect */
	assert_int_equal(add_text(link, "// .version 1.0, .target sm_131 and so on\n" HEAD), CUDA_SUCCESS);
	/* text in place of machine code */
	assert_int_equal(add(link, CU_JIT_INPUT_CUBIN, defines, sizeof(defines), "c"), CUDA_SUCCESS);
	assert_int_equal(add(link, CU_JIT_INPUT_CUBIN, "\177ELF", 4, "c"), CUDA_ERROR_NOT_SUPPORTED);
	assert_int_equal(add(link, CU_JIT_INPUT_CUBIN, defines, 3, "c"), CUDA_ERROR_NOT_SUPPORTED);
	assert_int_equal(add(link, CU_JIT_INPUT_NVVM, defines, sizeof(defines), "n"), CUDA_ERROR_NOT_SUPPORTED);
	assert_int_equal(add(link, CU_JIT_NUM_INPUT_TYPES, defines, sizeof(defines), "x"), CUDA_ERROR_INVALID_VALUE);
	module = load_linked(link);
	assert_int_equal(cuda->cuLinkDestroy(link), CUDA_SUCCESS);
	assert_int_equal(launch(function(module, "reads"), 1, 1, NULL, params), CUDA_SUCCESS);
	assert_int_equal(cuda->cuMemcpyDtoH_v2(&word, p, 4), CUDA_SUCCESS);
	assert_int_equal(word, 3);
	assert_int_equal(cuda->cuModuleUnload(module), CUDA_SUCCESS);
	assert_int_equal(cuda->cuLinkDestroy(link), CUDA_ERROR_INVALID_HANDLE);
	assert_int_equal(cuda->cuLinkComplete(link, &image, &bytes), CUDA_ERROR_INVALID_HANDLE);
	assert_int_equal(add_text(link, uses), CUDA_ERROR_INVALID_HANDLE);
}

/* Errors that only the whole of all parts has. */
static void test_whole(void **state)
{
	char errors[200], *image;
	CUjit_option options[] = {CU_JIT_ERROR_LOG_BUFFER, CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES,
				  CU_JIT_INFO_LOG_BUFFER_SIZE_BYTES};
	void *values[] = {errors, (void *)sizeof(errors), (void *)7}, *link = create(3, options, values);
	size_t bytes;

	assert_string_equal(errors, "");
	assert_int_equal(add_text(link, bad), CUDA_ERROR_INVALID_PTX);
	assert_string_equal(errors, "cannot link text: line 6 of the PTX: `nowhere` is not declared\n");
	assert_int_equal((uintptr_t)values[1], sizeof(errors));
	/* the log has nothing of other loads of the thread */
	assert_int_equal(cuda->cuModuleLoadData(&(CUmodule){NULL}, "hello, this is no program\n"),
			 CUDA_ERROR_INVALID_PTX);
	assert_int_equal(add_text(link, defines), CUDA_SUCCESS);
	assert_int_equal(add_text(link, defines), CUDA_SUCCESS);
	assert_int_equal(strlen(errors), 63);
	assert_int_equal(cuda->cuLinkComplete(link, &image, &bytes), CUDA_ERROR_INVALID_PTX);
	assert_non_null(strstr(errors, "nowhere"));
	assert_non_null(strstr(errors, "shared_one"));
	assert_int_equal((uintptr_t)values[1], strlen(errors));
	assert_int_equal((uintptr_t)values[2], 0);
	assert_int_equal(cuda->cuLinkDestroy(link), CUDA_SUCCESS);
	/* no more than there is room for */
	values[1] = (void *)10;
	link = create(2, options, values);
	for (int i = 0; i < 3; i++)
		assert_int_equal(add_text(link, bad), CUDA_ERROR_INVALID_PTX);
	assert_string_equal(errors, "cannot li");
	assert_int_equal(cuda->cuLinkComplete(link, &image, &bytes), CUDA_ERROR_INVALID_VALUE);
	assert_int_equal((uintptr_t)values[1], 9);
	assert_int_equal(cuda->cuLinkDestroy(link), CUDA_SUCCESS);
	options[0] = CU_JIT_NUM_OPTIONS;
	assert_int_equal(cuda->cuLinkCreate_v2(2, options, values, &link), CUDA_ERROR_INVALID_VALUE);
}

/* A container with one entry, as nvcc makes them with -rdc=true. */
struct container {
	uint64_t magic, bytes;
	uint32_t entry[16], option_offset, option_bytes;
	char option[16], text[512];
};

static struct container container(unsigned int kind, const char *text)
{
	struct container c = {.magic = 0xba55ed50ull | 1ull << 32 | 16ull << 48, .bytes = sizeof(c) - 16};

	c.entry[0] = kind | 0x101 << 16;
	c.entry[1] = offsetof(struct container, text) - 16;
	c.entry[2] = sizeof(c.text);
	c.entry[5] = offsetof(struct container, option_offset) - 16;
	c.entry[7] = 60;
	c.option_offset = offsetof(struct container, option) - 16;
	c.option_bytes = sizeof("--compile-only") - 1;
	strcpy(c.option, "--compile-only");
	strcpy(c.text, text);
	return c;
}

static void test_fatbins(void **state)
{
	struct container two[2] = {container(2, "\177ELF"), container(1, defines)}, one = container(1, uses);
	void *link = create(0, NULL, NULL);
	CUmodule module;

	assert_int_equal(add(link, CU_JIT_INPUT_FATBINARY, two, sizeof(two), "f"), CUDA_SUCCESS);
	assert_int_equal(add(link, CU_JIT_INPUT_FATBINARY, &one, sizeof(one), "f"), CUDA_SUCCESS);
	/* nothing for this device, PTX with an error, and what is none */
	assert_int_equal(add(link, CU_JIT_INPUT_FATBINARY, two, sizeof(two[0]), "f"), CUDA_ERROR_NO_BINARY_FOR_GPU);
	one = container(1, bad);
	assert_int_equal(add(link, CU_JIT_INPUT_FATBINARY, &one, sizeof(one), "f"), CUDA_ERROR_INVALID_PTX);
	assert_int_equal(add(link, CU_JIT_INPUT_FATBINARY, &one, sizeof(one) - 1, "f"), CUDA_ERROR_INVALID_IMAGE);
	assert_int_equal(add(link, CU_JIT_INPUT_FATBINARY, &one, 8, "f"), CUDA_ERROR_INVALID_IMAGE);
	module = load_linked(link);
	function(module, "reads");
	expect_variable(module, "shared_one");
	assert_int_equal(cuda->cuModuleUnload(module), CUDA_SUCCESS);
	assert_int_equal(cuda->cuLinkDestroy(link), CUDA_SUCCESS);
}

#define NAME "__nv_relfatbin"

/* An object file with one container, which each of so many sections says is its own. */
struct object {
	Elf64_Ehdr head;
	struct container code;
	char names[16];
	Elf64_Shdr sections[];
};

static struct object *object(const char *text, unsigned int kind, unsigned int sections, size_t *bytes)
{
	struct object *o;

	*bytes = sizeof(*o) + (sections + 1) * sizeof(o->sections[0]);
	o = calloc(1, *bytes);
	assert_non_null(o);
	memcpy(o->head.e_ident, ELFMAG, SELFMAG);
	o->head.e_ident[EI_CLASS] = ELFCLASS64;
	o->head.e_shoff = sizeof(*o);
	o->head.e_shentsize = sizeof(o->sections[0]);
	o->head.e_shnum = (Elf64_Half)(sections + 1);
	o->code = container(kind, text);
	strcpy(o->names, NAME);
	o->sections[0] = (Elf64_Shdr){.sh_name = sizeof(NAME) - 1,
				      .sh_type = SHT_STRTAB,
				      .sh_offset = offsetof(struct object, names),
				      .sh_size = sizeof(o->names)};
	for (unsigned int i = 1; i <= sections; i++)
		o->sections[i] = (Elf64_Shdr){.sh_type = SHT_PROGBITS,
					      .sh_offset = offsetof(struct object, code),
					      .sh_size = sizeof(o->code)};
	return o;
}

static CUresult add_object(void *link, const char *text, unsigned int kind, unsigned int sections)
{
	size_t bytes;
	struct object *o = object(text, kind, sections, &bytes);
	CUresult result = add(link, CU_JIT_INPUT_OBJECT, o, bytes, "o");

	free(o);
	return result;
}

static void test_objects(void **state)
{
	void *link = create(0, NULL, NULL);
	CUmodule module;

	assert_int_equal(add_object(link, defines, 1, 1), CUDA_SUCCESS);
	assert_int_equal(add_object(link, bad, 1, 1), CUDA_ERROR_INVALID_PTX);
	/* no code, or none for this device, is none's fault */
	assert_int_equal(add_object(link, defines, 1, 0), CUDA_SUCCESS);
	assert_int_equal(add_object(link, defines, 2, 1), CUDA_SUCCESS);
	assert_int_equal(add(link, CU_JIT_INPUT_LIBRARY, defines, sizeof(defines), "l"), CUDA_ERROR_INVALID_IMAGE);
	module = load_linked(link);
	expect_variable(module, "shared_one");
	assert_int_equal(cuda->cuModuleUnload(module), CUDA_SUCCESS);
	/* machine code, which is not read, many times */
	assert_int_equal(add_object(link, "\177ELF", 2, 200), CUDA_ERROR_INVALID_IMAGE);
	assert_int_equal(cuda->cuLinkDestroy(link), CUDA_SUCCESS);
}

/* A part of NVIDIA's device library, which this back end has for each device. */
static void test_device_runtime(void **state)
{
	static const char calls[] =
		HEAD ".extern .func (.param .b64 r) __cuda_syscall_CGS_get_intrinsic_handle (.param .b32 a);\n"
		     ".visible .entry handle(.param .u64 p)\n{\n.reg .b64 %l<2>;\nld.param.u64 %l0, [p];\n"
		     "{ .param .b32 a; .param .b64 r; st.param.b32 [a], 1;\n"
		     "call.uni (r), __cuda_syscall_CGS_get_intrinsic_handle, (a); ld.param.b64 %l1, [r]; }\n"
		     "st.global.u64 [%l0], %l1;\nret;\n}\n";
	void *link = create(0, NULL, NULL);
	CUdeviceptr p = alloc(8);
	void *params[] = {&p};
	uint64_t handle = 1;
	CUmodule module;

	assert_int_equal(add_text(link, calls), CUDA_SUCCESS);
	module = load_linked(link);
	assert_int_equal(cuda->cuLinkDestroy(link), CUDA_SUCCESS);
	assert_int_equal(launch(function(module, "handle"), 1, 1, NULL, params), CUDA_SUCCESS);
	assert_int_equal(cuda->cuMemcpyDtoH_v2(&handle, p, 8), CUDA_SUCCESS);
	assert_int_equal(handle, 0);
	assert_int_equal(cuda->cuModuleUnload(module), CUDA_SUCCESS);
}

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
		IN_CONTEXT(test_parts),   IN_CONTEXT(test_whole),          IN_CONTEXT(test_fatbins),
		IN_CONTEXT(test_objects), IN_CONTEXT(test_device_runtime),
	};

	start_device();
	if (argc > 1)
		setenv("VCUDA_CPU_COMPUTE", argv[1], 1);
	if (cuda->cuInit(0) != CUDA_SUCCESS)
		return 2;
	return cmocka_run_group_tests(tests, NULL, NULL);
}
