/* SPDX-License-Identifier: Apache-2.0 */
/* __managed__ variables of the software GPU: who gives them memory, when, and what becomes of it. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "softgpu/backend-cpu.h"
#include "protocol/backend.h"

#define HEAD ".version 7.0\n.target sm_70\n.address_size 64\n"
#define KERNEL(name, body) ".visible .entry " name "()\n{\n.reg .b32 %r<4>; .reg .b64 %l<4>;\n" body "ret;\n}\n"

static const struct vcuda_backend_ops *cuda;

/* The list's head is managed and holds the addresses of both kinds; so does a plain variable. */
static const char ptx[] = HEAD
	".visible .global .align 4 .u32 plain = 11;\n"
	".visible .global .attribute(.managed) .align 4 .u32 counter = 5;\n"
	".global .attribute(.managed) .align 16 .b8 room[4000];\n"
	".visible .global .attribute(.managed) .align 8 .u64 both[2] = {generic(counter), generic(plain)};\n"
	".visible .global .align 8 .u64 to_counter = generic(counter);\n"
	/* counter += 1; **to_counter += both[1][0] */
	KERNEL("add", "atom.global.add.u32 %r1, [counter], 1;\nld.global.u64 %l1, [to_counter];\n"
	       "ld.global.u64 %l2, [both+8];\nld.u32 %r1, [%l2];\nld.u32 %r2, [%l1];\nadd.u32 %r2, %r2, %r1;\n"
	       "st.u32 [%l1], %r2;\n")
	KERNEL("past", "mov.u32 %r1, 1;\nst.global.u32 [room+4000], %r1;\n");

enum { COUNTER, ROOM, BOTH, COUNT };

struct places {
	char *memory[COUNT];
};

static int make_context(void **state)
{
	CUcontext context;

	assert_int_equal(cuda->cuCtxCreate_v2(&context, 0, 0), CUDA_SUCCESS);
	*state = context;
	return 0;
}

static int destroy_context(void **state)
{
	assert_int_equal(cuda->cuCtxDestroy_v2(*state), CUDA_SUCCESS);
	return 0;
}

static char *page(void)
{
	char *p = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	assert_true(p != MAP_FAILED);
	memset(p, 0x55, 4096);
	return p;
}

/* Kernels that may run on would be seen by the page's end. */
static void give_back(char *p)
{
	assert_int_equal(cuda->managedDrop(p), CUDA_SUCCESS);
	assert_int_equal(munmap(p, 4096), 0);
}

static struct places place_all(void *owner)
{
	struct places p;
	uint32_t count;

	assert_int_equal(cuda->managedCount(owner, &count), CUDA_SUCCESS);
	assert_int_equal(count, COUNT);
	for (uint32_t i = 0; i < COUNT; i++) {
		p.memory[i] = page();
		assert_int_equal(cuda->managedPlace(owner, i, p.memory[i], 4096), CUDA_SUCCESS);
	}
	assert_int_equal(cuda->managedCount(owner, &count), CUDA_SUCCESS);
	assert_int_equal(count, 0);
	return p;
}

static uint32_t word(const char *p)
{
	uint32_t value;

	memcpy(&value, p, sizeof(value));
	return value;
}

static CUresult run(CUfunction f)
{
	CUresult result = cuda->cuLaunchKernel(f, 1, 1, 1, 1, 1, 1, 0, NULL, NULL, NULL);

	return result == CUDA_SUCCESS ? cuda->cuCtxSynchronize() : result;
}

static void used_from_both_sides(void **state)
{
	CUdeviceptr address;
	struct places p;
	CUmodule module;
	CUfunction f;
	size_t bytes;

	assert_int_equal(cuda->cuModuleLoadData(&module, ptx), CUDA_SUCCESS);
	p = place_all(module);
	assert_int_equal(word(p.memory[COUNTER]), 5);
	assert_int_equal(word(p.memory[ROOM]), 0);
	assert_int_equal(word(p.memory[ROOM] + 3996), 0);
	/* memory beside a variable does not change */
	assert_int_equal(word(p.memory[ROOM] + 4000), 0x55555555);
	assert_int_equal(cuda->cuModuleGetGlobal_v2(&address, &bytes, module, "counter"), CUDA_SUCCESS);
	assert_true(address == (uintptr_t)p.memory[COUNTER] && bytes == 4);
	assert_memory_equal(p.memory[BOTH], &address, 8);
	assert_int_equal(cuda->cuModuleGetFunction(&f, module, "add"), CUDA_SUCCESS);
	assert_int_equal(run(f), CUDA_SUCCESS);
	assert_int_equal(word(p.memory[COUNTER]), 5 + 1 + 11);
	*(uint32_t *)(void *)p.memory[COUNTER] = 100;
	assert_int_equal(run(f), CUDA_SUCCESS);
	assert_int_equal(word(p.memory[COUNTER]), 100 + 1 + 11);
	/* a copy reaches it as it does registered memory */
	assert_int_equal(cuda->cuMemsetD32_v2(address, 7, 1), CUDA_SUCCESS);
	assert_int_equal(word(p.memory[COUNTER]), 7);
	assert_int_equal(cuda->cuMemsetD32_v2(address, 7, 2), CUDA_ERROR_INVALID_VALUE);
	assert_int_equal(cuda->cuMemHostUnregister(p.memory[COUNTER]), CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED);
	assert_int_equal(cuda->cuModuleUnload(module), CUDA_SUCCESS);
	for (int i = 0; i < COUNT; i++)
		give_back(p.memory[i]);
	assert_int_equal(cuda->managedDrop(p.memory[0]), CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED);
}

static void nothing_before_all_have_places(void **state)
{
	char *p = page(), *q = page(), *r = page();
	CUdeviceptr address;
	CUmodule module;
	CUfunction f;
	size_t bytes;

	assert_int_equal(cuda->cuModuleLoadData(&module, ptx), CUDA_SUCCESS);
	assert_int_equal(cuda->cuModuleGetFunction(&f, module, "add"), CUDA_ERROR_NOT_READY);
	assert_int_equal(cuda->cuModuleGetGlobal_v2(&address, &bytes, module, "plain"), CUDA_ERROR_NOT_READY);
	assert_int_equal(cuda->managedBytes(module, ROOM, &bytes), CUDA_SUCCESS);
	assert_int_equal(bytes, 4000);
	assert_int_equal(cuda->managedBytes(module, COUNT, &bytes), CUDA_ERROR_INVALID_VALUE);
	assert_int_equal(cuda->managedBytes(&module, 0, &bytes), CUDA_ERROR_INVALID_HANDLE);
	/* a place is large enough, aligned, no device's, there, and given once */
	assert_int_equal(cuda->managedPlace(module, ROOM, p, 3999), CUDA_ERROR_INVALID_VALUE);
	assert_int_equal(cuda->managedPlace(module, ROOM, p + 8, 4000), CUDA_ERROR_INVALID_VALUE);
	assert_int_equal(cuda->managedPlace(module, ROOM, NULL, 4000), CUDA_ERROR_INVALID_VALUE);
	assert_int_equal(cuda->managedPlace(module, ROOM, (void *)0x10000, 4096), CUDA_ERROR_INVALID_VALUE);
	assert_int_equal(cuda->cuMemAlloc_v2(&address, 4096), CUDA_SUCCESS);
	assert_int_equal(cuda->managedPlace(module, ROOM, (void *)address, 4096), CUDA_ERROR_INVALID_VALUE);
	assert_int_equal(cuda->managedPlace(module, ROOM, p, 4096), CUDA_SUCCESS);
	assert_int_equal(cuda->managedPlace(module, ROOM, q, 4096), CUDA_ERROR_INVALID_VALUE);
	assert_int_equal(cuda->managedPlace(module, BOTH, p, 4096), CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED);
	assert_int_equal(cuda->managedPlace(module, BOTH, q, 4096), CUDA_SUCCESS);
	assert_int_equal(cuda->cuModuleGetFunction(&f, module, "add"), CUDA_ERROR_NOT_READY);
	/* taken back before the last one came: its value cannot be written any more */
	give_back(q);
	assert_int_equal(cuda->managedPlace(module, COUNTER, r, 4096), CUDA_ERROR_INVALID_VALUE);
	assert_int_equal(munmap(r, 4096), 0);
	assert_int_equal(cuda->cuModuleGetFunction(&f, module, "add"), CUDA_ERROR_NOT_READY);
	assert_int_equal(cuda->cuModuleUnload(module), CUDA_SUCCESS);
	give_back(p);
}

static void gone_while_used(void **state)
{
	struct places p;
	CUmodule module;
	CUfunction f;

	assert_int_equal(cuda->cuModuleLoadData(&module, ptx), CUDA_SUCCESS);
	p = place_all(module);
	assert_int_equal(cuda->cuModuleGetFunction(&f, module, "add"), CUDA_SUCCESS);
	for (int i = 0; i < COUNT; i++)
		give_back(p.memory[i]);
	assert_int_equal(run(f), CUDA_ERROR_ILLEGAL_ADDRESS);
}

static void exact_bounds(void **state)
{
	struct places p;
	CUmodule module;
	CUfunction f;

	assert_int_equal(cuda->cuModuleLoadData(&module, ptx), CUDA_SUCCESS);
	p = place_all(module);
	assert_int_equal(cuda->cuModuleGetFunction(&f, module, "past"), CUDA_SUCCESS);
	assert_int_equal(run(f), CUDA_ERROR_ILLEGAL_ADDRESS);
	assert_int_equal(word(p.memory[ROOM] + 4000), 0x55555555);
	for (int i = 0; i < COUNT; i++)
		give_back(p.memory[i]);
}

/* One variable for all contexts, which outlives each of them. */
static void shared_by_a_library(void **state)
{
	CUdeviceptr address, plain[2];
	CUlibrary library;
	struct places p;
	CUkernel kernel;
	CUcontext other;
	size_t bytes;

	assert_int_equal(cuda->cuLibraryLoadData(&library, ptx, NULL, NULL, 0, NULL, NULL, 0), CUDA_SUCCESS);
	assert_int_equal(cuda->cuLibraryGetGlobal(&address, NULL, library, "plain"), CUDA_ERROR_NOT_READY);
	assert_int_equal(cuda->cuLibraryGetManaged(&address, NULL, library, "room"), CUDA_ERROR_NOT_READY);
	p = place_all(library);
	assert_int_equal(cuda->cuLibraryGetManaged(&address, &bytes, library, "room"), CUDA_SUCCESS);
	assert_true(address == (uintptr_t)p.memory[ROOM] && bytes == 4000);
	assert_int_equal(cuda->cuLibraryGetManaged(&address, &bytes, library, "plain"), CUDA_ERROR_NOT_FOUND);
	assert_int_equal(cuda->cuLibraryGetKernel(&kernel, library, "add"), CUDA_SUCCESS);
	assert_int_equal(run((CUfunction)kernel), CUDA_SUCCESS);
	assert_int_equal(word(p.memory[COUNTER]), 5 + 1 + 11);
	assert_int_equal(cuda->cuLibraryGetGlobal(&plain[0], NULL, library, "plain"), CUDA_SUCCESS);
	assert_memory_equal(p.memory[BOTH] + 8, &plain[0], 8);
	/* another context has its own `plain`, but the managed value was written once */
	assert_int_equal(cuda->cuCtxCreate_v2(&other, 0, 0), CUDA_SUCCESS);
	assert_int_equal(cuda->cuLibraryGetGlobal(&plain[1], NULL, library, "plain"), CUDA_SUCCESS);
	assert_true(plain[0] != plain[1]);
	assert_memory_equal(p.memory[BOTH] + 8, &plain[0], 8);
	assert_int_equal(run((CUfunction)kernel), CUDA_SUCCESS);
	assert_int_equal(word(p.memory[COUNTER]), 5 + 2 * (1 + 11));
	assert_int_equal(cuda->cuLibraryGetGlobal(&address, NULL, library, "counter"), CUDA_SUCCESS);
	assert_true(address == (uintptr_t)p.memory[COUNTER]);
	assert_int_equal(cuda->cuCtxDestroy_v2(other), CUDA_SUCCESS);
	assert_int_equal(run((CUfunction)kernel), CUDA_SUCCESS);
	assert_int_equal(word(p.memory[COUNTER]), 5 + 3 * (1 + 11));
	assert_int_equal(cuda->cuLibraryUnload(library), CUDA_SUCCESS);
	assert_int_equal(cuda->managedBytes(library, 0, &bytes), CUDA_ERROR_INVALID_HANDLE);
	for (int i = 0; i < COUNT; i++)
		give_back(p.memory[i]);
}

static void refused(void **state)
{
	static const char aligned[] = HEAD ".global .attribute(.managed) .align 8192 .b8 wide[8192];\n";
	static const char large[] = HEAD ".global .attribute(.managed) .align 4 .b8 one[40000000];\n"
					 ".global .attribute(.managed) .align 4 .b8 two[40000000];\n";
	CUlibrary library;
	CUmodule module;

	assert_int_equal(cuda->cuModuleLoadData(&module, aligned), CUDA_ERROR_NOT_SUPPORTED);
	assert_int_equal(cuda->cuModuleLoadData(&module, large), CUDA_ERROR_OUT_OF_MEMORY);
	assert_int_equal(cuda->cuLibraryLoadData(&library, large, NULL, NULL, 0, NULL, NULL, 0), CUDA_ERROR_OUT_OF_MEMORY);
}

#define IN_CONTEXT(test) cmocka_unit_test_setup_teardown(test, make_context, destroy_context)

int main(void)
{
	const struct CMUnitTest tests[] = {
		IN_CONTEXT(used_from_both_sides), IN_CONTEXT(nothing_before_all_have_places),
		IN_CONTEXT(gone_while_used),      IN_CONTEXT(exact_bounds),
		IN_CONTEXT(shared_by_a_library),  IN_CONTEXT(refused),
	};

	setenv("VCUDA_CPU_MEMORY", "64M", 1);
	cuda = vcuda_backend_cpu();
	if (cuda->cuInit(0) != CUDA_SUCCESS)
		return 1;
	return cmocka_run_group_tests(tests, NULL, NULL);
}
