/* SPDX-License-Identifier: Apache-2.0 */
/* Module images, launches, streams and events, against a worker that is a thread. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <cmocka.h>

#include <elf.h>
#include <stdlib.h>

#include "guest/libcuda/module/image.h"
#include "guest/client/session.h"
#include "protocol/cuda-functions.h"
#include "test-libcuda-fake.h"
#include "guest/client/transport.h"
#include "protocol/wire.h"

static const char ptx[] = "\n.version 8.0\n.target sm_75\n";

static int setup(void **state)
{
	CUcontext c;

	setenv("VCUDA_TRANSPORT", "local", 1);
	unsetenv("CUDA_VISIBLE_DEVICES");
	unsetenv("CUDA_LAUNCH_BLOCKING");
	return cuInit(0) || cuDevicePrimaryCtxRetain(&c, 0) || cuCtxSetCurrent(c);
}

static uint64_t sum(const void *data, size_t bytes)
{
	uint64_t s = 0;

	for (size_t i = 0; i < bytes; i++)
		s += ((const uint8_t *)data)[i];
	return s;
}

struct container {
	uint32_t magic;
	uint16_t version, header;
	uint64_t bytes;
	char entries[48];
};

struct wrapper {
	uint32_t magic, version;
	const void *data, *extra;
};

static void lengths(void **state)
{
	struct container c = {.magic = 0xba55ed50, .version = 1, .header = 16, .bytes = 48};
	struct wrapper w = {.magic = 0x466243b1, .version = 1, .data = &c};
	struct {
		Elf64_Ehdr head;
		char code[100];
		Elf64_Shdr sections[2];
	} elf = {.head = {.e_ident = ELFMAG "\2\1\1",
			  .e_shoff = offsetof(__typeof__(elf), sections),
			  .e_shnum = 2,
			  .e_shentsize = sizeof(Elf64_Shdr)}};
	struct container parts[2] = {c, c};
	const void *list[] = {&parts[0], &parts[1], NULL};
	const void *data;
	size_t bytes;

	memset(parts[1].entries, 7, sizeof(parts[1].entries));
	assert_int_equal(libcuda_image_find(ptx, &data, &bytes), CUDA_SUCCESS);
	assert_true(data == ptx && bytes == sizeof(ptx));
	assert_int_equal(libcuda_image_find(&c, &data, &bytes), CUDA_SUCCESS);
	assert_true(data == &c && bytes == 64);
	assert_int_equal(libcuda_image_find(&w, &data, &bytes), CUDA_SUCCESS);
	assert_true(data == &c && bytes == 64);
	w.data = ptx;
	assert_int_equal(libcuda_image_find(&w, &data, &bytes), CUDA_SUCCESS);
	assert_true(data == ptx && bytes == sizeof(ptx));
	assert_int_equal(libcuda_image_find(&elf, &data, &bytes), CUDA_SUCCESS);
	assert_true(data == &elf && bytes == sizeof(elf));
	elf.sections[1].sh_offset = ~0ull;
	assert_int_equal(libcuda_image_find(&elf, &data, &bytes), CUDA_ERROR_INVALID_IMAGE);
	assert_int_equal(libcuda_image_find("hello world", &data, &bytes), CUDA_ERROR_INVALID_IMAGE);
	assert_int_equal(libcuda_image_find(NULL, &data, &bytes), CUDA_ERROR_INVALID_VALUE);
	c.bytes = 1ull << 40;
	assert_int_equal(libcuda_image_find(&c, &data, &bytes), CUDA_ERROR_INVALID_IMAGE);
	/* Relocatable code: what it was linked from, behind what it was linked to, */
	c.bytes = 48;
	w = (struct wrapper){.magic = 0x466243b1, .version = 2, .data = &c, .extra = list};
	assert_int_equal(libcuda_image_find(&w, &data, &bytes), CUDA_SUCCESS);
	assert_int_equal(bytes, 3 * 64);
	assert_memory_equal(data, &c, 64);
	assert_memory_equal((const char *)data + 64, &parts[0], 64);
	assert_memory_equal((const char *)data + 128, &parts[1], 64);
	/* The container is empty where it was not linked. */
	c.bytes = 0;
	assert_int_equal(libcuda_image_find(&w, &data, &bytes), CUDA_SUCCESS);
	assert_int_equal(bytes, 16 + 2 * 64);
	assert_memory_equal(data, &c, 16);
	assert_memory_equal((const char *)data + 16, &parts[0], 64);
	assert_memory_equal((const char *)data + 80, &parts[1], 64);
	parts[1].magic = 1;
	assert_int_equal(libcuda_image_find(&w, &data, &bytes), CUDA_ERROR_INVALID_IMAGE);
}

/* The lengths in a file may be wrong. */
static void lengths_in_files(void **state)
{
	struct container c = {.magic = 0xba55ed50, .version = 1, .header = 16, .bytes = 48};
	struct wrapper w = {.magic = 0x466243b1, .version = 1, .data = &c};
	struct {
		Elf64_Ehdr head;
		Elf64_Shdr sections[2];
	} elf = {.head = {.e_ident = ELFMAG "\2\1\1",
			  .e_shoff = offsetof(__typeof__(elf), sections),
			  .e_shnum = 2,
			  .e_shentsize = sizeof(Elf64_Shdr)}};
	const void *data;
	size_t bytes;

	assert_int_equal(libcuda_image_in_file(ptx, sizeof(ptx) - 1, &data, &bytes), CUDA_SUCCESS);
	assert_int_equal(bytes, sizeof(ptx));
	assert_int_equal(libcuda_image_in_file(&c, 64, &data, &bytes), CUDA_SUCCESS);
	assert_int_equal(libcuda_image_in_file(&c, 62, &data, &bytes), CUDA_ERROR_INVALID_IMAGE);
	assert_int_equal(libcuda_image_in_file(&c, 8, &data, &bytes), CUDA_ERROR_INVALID_IMAGE);
	assert_int_equal(libcuda_image_in_file(&w, sizeof(w), &data, &bytes), CUDA_ERROR_INVALID_IMAGE);
	assert_int_equal(libcuda_image_in_file(&elf, sizeof(elf), &data, &bytes), CUDA_SUCCESS);
	assert_int_equal(libcuda_image_in_file(&elf, sizeof(elf) - 1, &data, &bytes), CUDA_ERROR_INVALID_IMAGE);
	elf.head.e_shoff = 1u << 29;
	assert_int_equal(libcuda_image_in_file(&elf, sizeof(elf), &data, &bytes), CUDA_ERROR_INVALID_IMAGE);
	assert_int_equal(libcuda_image_in_file(&elf, 4, &data, &bytes), CUDA_ERROR_INVALID_IMAGE);
}

/* The result of cuLinkComplete() for the software GPU: containers in a container, which can be kept in a file. */
static void linked_images(void **state)
{
	struct {
		uint32_t magic;
		uint16_t version, header;
		uint64_t bytes;
		struct container part;
	} image = {0xba55ed50, 1, 16, 64, {.magic = 0xba55ed50, .version = 1, .header = 16, .bytes = 48}};
	const void *data;
	size_t found;
	CUmodule m;

	assert_int_equal(libcuda_image_in_file(&image, sizeof(image), &data, &found), CUDA_SUCCESS);
	assert_true(data == &image.part && found == 64);
	assert_int_equal(libcuda_image_in_file(&image, sizeof(image) - 9, &data, &found), CUDA_ERROR_INVALID_IMAGE);
	assert_int_equal(cuModuleLoadData(&m, &image), CUDA_SUCCESS);
	assert_int_equal(fake.image_bytes, 64);
	assert_int_equal(fake.image_sum, sum(&image.part, 64));
	assert_int_equal(cuModuleUnload(m), CUDA_SUCCESS);
}

static CUresult add(CUlinkState link, CUjitInputType type, const void *data, size_t bytes, const char *name)
{
	return cuLinkAddData_v2(link, type, (void *)data, bytes, name, 0, NULL, NULL);
}

/* Each part goes to the host when it is added, as it is, and what that makes comes back. */
static void links(void **state)
{
	struct container c = {.magic = 0xba55ed50, .version = 1, .header = 16, .bytes = 48};
	struct wrapper w = {.magic = 0x466243b1, .version = 1, .data = &c};
	CUjit_option registers = CU_JIT_MAX_REGISTERS;
	void *count = (void *)32, *out, *again;
	CUlinkState link, other;
	size_t bytes;

	fake.jit_options = 0;
	assert_int_equal(cuLinkCreate_v2(0, NULL, NULL, &link), CUDA_SUCCESS);
	assert_int_equal(cuLinkComplete(link, &out, &bytes), CUDA_ERROR_INVALID_VALUE);
	assert_int_equal(add(link, CU_JIT_INPUT_CUBIN, "0123", 4, "a"), CUDA_SUCCESS);
	assert_int_equal(fake.image_bytes, 4);
	assert_int_equal(
		cuLinkAddData_v2(link, CU_JIT_INPUT_PTX, (void *)ptx, sizeof(ptx), NULL, 1, &registers, &count),
		CUDA_SUCCESS);
	assert_int_equal(fake.jit_options, 1 << CU_JIT_MAX_REGISTERS);
	/* of a wrapper the container */
	assert_int_equal(add(link, CU_JIT_INPUT_FATBINARY, &w, sizeof(w), "f"), CUDA_SUCCESS);
	assert_int_equal(fake.image_bytes, 64);
	assert_int_equal(fake.image_sum, sum(&c, 64));
	/* errors that are found without the host */
	assert_int_equal(add(link, CU_JIT_INPUT_FATBINARY, ptx, sizeof(ptx), "p"), CUDA_ERROR_INVALID_IMAGE);
	assert_int_equal(add(link, CU_JIT_INPUT_PTX, NULL, 4, "p"), CUDA_ERROR_INVALID_VALUE);
	assert_int_equal(add(link, CU_JIT_INPUT_PTX, ptx, 0, "p"), CUDA_ERROR_INVALID_VALUE);
	assert_int_equal(add(link, CU_JIT_NUM_INPUT_TYPES, ptx, 4, "p"), CUDA_ERROR_INVALID_VALUE);
	assert_int_equal(cuLinkAddFile_v2(link, CU_JIT_INPUT_PTX, "/dev/null/x", 0, NULL, NULL), CUDA_ERROR_FILE_NOT_FOUND);
	assert_int_equal(cuLinkComplete(link, &out, &bytes), CUDA_SUCCESS);
	assert_int_equal(bytes, strlen(out) + 1);
	assert_int_equal(strncmp(out, "0:a=0123;1:=\n.version 8.0\n.target sm_75\n;2:f=", 45), 0);
	assert_int_equal(cuLinkComplete(link, &again, NULL), CUDA_SUCCESS);
	assert_ptr_equal(again, out);
	other = link;
	assert_int_equal(fake.links, 1);
	assert_int_equal(cuLinkDestroy(link), CUDA_SUCCESS);
	assert_int_equal(fake.links, 0);
	assert_int_equal(cuLinkDestroy(other), CUDA_ERROR_INVALID_HANDLE);
}

/* The logs have after each call what the linker has said by then; how much that is, and how long it took, the last one
 * tells. */
static void link_logs(void **state)
{
	CUjit_option options[] = {CU_JIT_WALL_TIME, CU_JIT_ERROR_LOG_BUFFER, CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES};
	char errors[20];
	void *values[] = {values, errors, (void *)sizeof(errors)}, *out;
	CUlinkState link;
	size_t bytes;
	float ms;

	memset(errors, 'x', sizeof(errors));
	assert_int_equal(cuLinkCreate_v2(3, options, values, &link), CUDA_SUCCESS);
	assert_string_equal(errors, "");
	assert_int_equal(add(link, CU_JIT_INPUT_PTX, "good", 4, "a"), CUDA_SUCCESS);
	assert_string_equal(errors, "1:a=good;");
	assert_int_equal(add(link, CU_JIT_INPUT_PTX, "bad", 3, "b"), CUDA_ERROR_INVALID_PTX);
	assert_string_equal(errors, "1:a=good;1:b=bad;");
	assert_int_equal((uintptr_t)values[2], sizeof(errors));
	/* the options themselves are the program's again once the link is made */
	memset(options, 0xff, sizeof(options));
	assert_int_equal(add(link, CU_JIT_INPUT_PTX, "worse", 5, "c"), CUDA_ERROR_INVALID_PTX);
	assert_string_equal(errors, "1:a=good;1:b=bad;1:");
	assert_int_equal(cuLinkComplete(link, &out, &bytes), CUDA_SUCCESS);
	assert_int_equal((uintptr_t)values[2], sizeof(errors) - 1);
	memcpy(&ms, &values[0], sizeof(ms));
	assert_true(ms > 0 && ms < 10000);
	assert_int_equal(cuLinkDestroy(link), CUDA_SUCCESS);
}

/* The compiler's options and logs. */
static void compiler_options(void **state)
{
	char info[5000], errors[8];
	CUjit_option options[] = {CU_JIT_INFO_LOG_BUFFER,	      CU_JIT_INFO_LOG_BUFFER_SIZE_BYTES, CU_JIT_ERROR_LOG_BUFFER,
				  CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES, CU_JIT_MAX_REGISTERS,	     CU_JIT_FAST_COMPILE};
	void *values[] = {info, (void *)sizeof(info), errors, (void *)(0xabcd00000000 | sizeof(errors)), (void *)32, NULL};
	CUmodule m;

	fake.jit_options = 0;
	assert_int_equal(cuModuleLoadDataEx(&m, ptx, 6, options, values), CUDA_SUCCESS);
	assert_int_equal(fake.jit_options, 1 << CU_JIT_INFO_LOG_BUFFER | 1 << CU_JIT_ERROR_LOG_BUFFER | 1 << CU_JIT_MAX_REGISTERS);
	assert_int_equal((uintptr_t)values[1], 4096);
	assert_int_equal(strlen(info), 4096);
	/* an answer that cannot be is none */
	assert_int_equal((uintptr_t)values[3], 0);
	assert_string_equal(errors, "");
	assert_int_equal(cuModuleUnload(m), CUDA_SUCCESS);
	/* no room: nothing is written */
	values[1] = NULL;
	info[0] = 'x';
	assert_int_equal(cuModuleLoadDataEx(&m, ptx, 2, options, values), CUDA_SUCCESS);
	assert_int_equal(info[0], 'x');
	assert_int_equal(cuModuleUnload(m), CUDA_SUCCESS);
	options[0] = CU_JIT_GLOBAL_SYMBOL_NAMES;
	assert_int_equal(cuModuleLoadDataEx(&m, ptx, 1, options, values), CUDA_ERROR_NOT_SUPPORTED);
	assert_int_equal(cuModuleLoadDataEx(&m, ptx, 1, NULL, values), CUDA_ERROR_INVALID_VALUE);
}

/* Images of several pieces and of one, to workers of either protocol. */
static void upload(void **state)
{
	const size_t most = 700000;
	uint64_t before = fake.images_staged;
	char *text = malloc(most);
	CUmodule m;

	for (int i = 0; i < 4; i++) {
		size_t bytes = i % 2 ? 3000 : most;

		client_session.transport->host_minor = i < 2 ? 0 : VCUDA_PROTOCOL_MINOR;
		memset(text, 'a' + i, bytes - 1);
		text[0] = '/';
		text[bytes - 1] = 0;
		assert_int_equal(cuModuleLoadData(&m, text), CUDA_SUCCESS);
		assert_int_equal(fake.image_bytes, bytes);
		assert_int_equal(fake.image_sum, sum(text, bytes));
		assert_int_equal(fake.images_staged - before, i < 2 ? 0 : i - 1);
		assert_int_equal(cuModuleUnload(m), CUDA_SUCCESS);
		assert_int_equal(cuModuleUnload(m), CUDA_ERROR_INVALID_HANDLE);
	}
	free(text);
}

static CUfunction f;

static CUresult launch(unsigned int gx, unsigned int gy, unsigned int bx, unsigned int shared, CUstream s,
		       void **params, void **extra)
{
	return cuLaunchKernel(f, gx, gy, 1, bx, 1, 1, shared, s, params, extra);
}

static void launches(void **state)
{
	uint64_t a = 0x0102030405060708;
	uint32_t b = 0x11121314;
	void *params[] = {&a, &b};
	uint8_t packed[12];
	size_t bytes = sizeof(packed);
	void *extra[] = {CU_LAUNCH_PARAM_BUFFER_POINTER, packed, CU_LAUNCH_PARAM_BUFFER_SIZE, &bytes,
			 CU_LAUNCH_PARAM_END};
	CUmodule m;

	assert_int_equal(cuModuleLoadData(&m, ptx), CUDA_SUCCESS);
	assert_int_equal(cuModuleGetFunction(&f, m, "nothing"), CUDA_ERROR_NOT_FOUND);
	assert_int_equal(cuModuleGetFunction(&f, m, "kernel"), CUDA_SUCCESS);
	assert_int_equal(launch(4096, 1, 1025, 0, NULL, params, NULL), CUDA_ERROR_INVALID_VALUE);
	assert_int_equal(launch(1, 70000, 1, 0, NULL, params, NULL), CUDA_ERROR_INVALID_VALUE);
	assert_int_equal(launch(0, 1, 1, 0, NULL, params, NULL), CUDA_ERROR_INVALID_VALUE);
	assert_int_equal(launch(1, 1, 1, 300000, NULL, params, NULL), CUDA_ERROR_INVALID_VALUE);
	assert_int_equal(launch(1, 1, 1, 0, NULL, NULL, NULL), CUDA_ERROR_INVALID_VALUE);
	assert_int_equal(launch(1, 1, 1, 0, (CUstream)0x77, params, NULL), CUDA_ERROR_INVALID_HANDLE);
	assert_int_equal(fake.launches_sync + fake.launches_async, 0);
	assert_int_equal(launch(1, 1, 1, 0, NULL, params, NULL), CUDA_SUCCESS);
	assert_int_equal(fake.launches_sync, 1);
	assert_int_equal(fake.last_param_bytes, 12);
	assert_int_equal(fake.last_param_sum, sum(&a, 8) + sum(&b, 4));
	memset(packed, 3, sizeof(packed));
	assert_int_equal(launch(1, 1, 512, 49152, NULL, NULL, extra), CUDA_SUCCESS);
	assert_int_equal(cuCtxSynchronize(), CUDA_SUCCESS);
	assert_int_equal(fake.launches_async, 1);
	assert_int_equal(fake.last_param_sum, 36);
	/* Parameters may lack, but not all, and there may not be more. */
	bytes = 0;
	assert_int_equal(launch(1, 1, 1, 0, NULL, NULL, extra), CUDA_ERROR_INVALID_VALUE);
	bytes = 13;
	assert_int_equal(launch(1, 1, 1, 0, NULL, NULL, extra), CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES);
	bytes = 9;
	assert_int_equal(launch(1, 1, 1, 0, NULL, NULL, extra), CUDA_SUCCESS);
	assert_int_equal(cuCtxSynchronize(), CUDA_SUCCESS);
	assert_int_equal(fake.last_param_bytes, 9);
	assert_int_equal(fake.last_param_sum, 27);
	/* An older worker gets all, the rest as 0. */
	client_session.transport->host_minor = 1;
	assert_int_equal(launch(1, 1, 1, 0, NULL, NULL, extra), CUDA_SUCCESS);
	assert_int_equal(cuCtxSynchronize(), CUDA_SUCCESS);
	assert_int_equal(fake.last_param_bytes, 12);
	assert_int_equal(fake.last_param_sum, 27);
	client_session.transport->host_minor = VCUDA_PROTOCOL_MINOR;
	/* More threads than the function may have: the driver knows whether the program said so or there is no room. */
	fake.fail_next = CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES;
	assert_int_equal(launch(1, 1, 513, 0, NULL, params, NULL), CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES);
	fake.fail_next = CUDA_ERROR_INVALID_VALUE;
	assert_int_equal(launch(1, 1, 513, 0, NULL, params, NULL), CUDA_ERROR_INVALID_VALUE);
	assert_int_equal(fake.launches_async, 3);
	assert_int_equal(cuModuleUnload(m), CUDA_SUCCESS);
	assert_int_equal(launch(1, 1, 1, 0, NULL, params, NULL), CUDA_ERROR_INVALID_HANDLE);
}

static void streams(void **state)
{
	CUstream s;
	CUevent e;

	assert_int_equal(cuStreamCreate(&s, 7), CUDA_ERROR_INVALID_VALUE);
	assert_int_equal(cuStreamCreate(&s, CU_STREAM_NON_BLOCKING), CUDA_SUCCESS);
	assert_int_equal(cuEventCreate(&e, 0), CUDA_SUCCESS);
	assert_int_equal(cuEventRecord(e, s), CUDA_SUCCESS);
	assert_int_equal(cuEventRecord(e, CU_STREAM_PER_THREAD), CUDA_SUCCESS);
	assert_int_equal(cuEventRecord(e, (CUstream)0x9999), CUDA_ERROR_INVALID_HANDLE);
	assert_int_equal(cuEventQuery((CUevent)s), CUDA_ERROR_INVALID_HANDLE);
	assert_int_equal(cuStreamSynchronize(s), CUDA_SUCCESS);
	assert_int_equal(cuEventQuery(e), CUDA_SUCCESS);
	assert_int_equal(cuStreamDestroy_v2(s), CUDA_SUCCESS);
	assert_int_equal(cuStreamDestroy_v2(s), CUDA_ERROR_INVALID_HANDLE);
	assert_int_equal(cuStreamDestroy_v2(NULL), CUDA_ERROR_INVALID_HANDLE);
	assert_int_equal(cuStreamSynchronize(s), CUDA_ERROR_INVALID_HANDLE);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(lengths), cmocka_unit_test(lengths_in_files),
		cmocka_unit_test(links),
		cmocka_unit_test(link_logs),
		cmocka_unit_test(linked_images),
		cmocka_unit_test(compiler_options),
		cmocka_unit_test(upload),
		cmocka_unit_test(launches),
		cmocka_unit_test(streams),
	};

	return cmocka_run_group_tests(tests, setup, NULL);
}
