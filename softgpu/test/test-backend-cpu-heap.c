/* SPDX-License-Identifier: Apache-2.0 */
/* The results of malloc() and free() in kernels, and the limit of their shared heap. */
#include "softgpu/test/backend-cpu-test.h"

#include <string.h>

#include "test/seed.h"

/* Kernels' malloc() and free(): kept from launch to launch, limited, and whatever is no block of it faults. */
static const char heap_ptx[] =
	".version 8.0\n.target sm_75\n.address_size 64\n"
	".extern .func (.param .b64 r) malloc(.param .b64 n);\n.extern .func free(.param .b64 p);\n"
	".visible .entry take(.param .u64 out, .param .u64 bytes)\n{\n.reg .b32 %r<4>;\n.reg .b64 %l<8>;\n.reg .pred "
	"%p;\n"
	"ld.param.u64 %l1, [out];\nld.param.u64 %l2, [bytes];\nmov.u32 %r1, %tid.x;\nmul.wide.u32 %l3, %r1, 8;\n"
	"add.s64 %l3, %l1, %l3;\n{\n.param .b64 a;\n.param .b64 b;\nst.param.b64 [a], %l2;\ncall (b), malloc, (a);\n"
	"ld.param.b64 %l4, [b];\n}\nst.global.u64 [%l3], %l4;\nsetp.eq.u64 %p, %l4, 0;\n@%p bra $end;\n"
	"add.s64 %l5, %l4, %l2;\nst.u32 [%l4], %r1;\nst.u8 [%l5+-1], %r1;\n$end:\nret;\n}\n"
	".visible .entry give(.param .u64 in)\n{\n.reg .b32 %r<4>;\n.reg .b64 %l<8>;\n"
	"ld.param.u64 %l1, [in];\nmov.u32 %r1, %tid.x;\nmul.wide.u32 %l3, %r1, 8;\n"
	"add.s64 %l3, %l1, %l3;\nld.global.u64 %l4, [%l3];\n{\n.param .b64 a;\nst.param.b64 [a], %l4;\n"
	"call free, (a);\n}\nret;\n}\n";

static unsigned int taken(CUfunction take, CUdeviceptr out, uint64_t bytes, uint64_t *pointers)
{
	void *params[] = {&out, &bytes};
	unsigned int count = 0;

	assert_int_equal(launch(take, 1, 64, NULL, params), CUDA_SUCCESS);
	assert_int_equal(cuda->cuMemcpyDtoH_v2(pointers, out, 512), CUDA_SUCCESS);
	for (unsigned int n = 0; n < 64; n++) {
		count += pointers[n] != 0;
		assert_int_equal(pointers[n] % 16, 0);
		for (unsigned int other = 0; other < n; other++)
			assert_true(!pointers[n] || !pointers[other] || pointers[n] >= pointers[other] + bytes ||
				    pointers[other] >= pointers[n] + bytes);
	}
	return count;
}

static uint64_t random_bits(uint64_t *state)
{
	*state ^= *state << 13;
	*state ^= *state >> 7;
	return *state ^= *state << 17;
}

static void test_heap(void **state)
{
	uint64_t pointers[64];
	CUfunction take, give;
	CUdeviceptr out = alloc(sizeof(pointers));
	void *params[] = {&out};
	CUmodule module;

	assert_int_equal(cuda->cuModuleLoadData(&module, heap_ptx), CUDA_SUCCESS);
	take = function(module, "take");
	give = function(module, "give");
	assert_int_equal(cuda->cuCtxSetLimit(CU_LIMIT_MALLOC_HEAP_SIZE, 4 << 20), CUDA_SUCCESS);
	assert_int_equal(taken(take, out, 40, pointers), 64);
	/* the heap exists now */
	assert_int_equal(cuda->cuCtxSetLimit(CU_LIMIT_MALLOC_HEAP_SIZE, 8 << 20), CUDA_ERROR_INVALID_VALUE);
	for (unsigned int round = 0; round < 3; round++) {
		assert_int_equal(launch(give, 1, 64, NULL, params), CUDA_SUCCESS);
		assert_int_equal(taken(take, out, 100000, pointers), (4 << 20) / 100000);
	}
	assert_int_equal(launch(give, 1, 64, NULL, params), CUDA_SUCCESS);
	assert_int_equal(taken(take, out, 1ull << 40, pointers), 0);
	assert_int_equal(launch(give, 1, 64, NULL, params), CUDA_SUCCESS);
	assert_int_equal(cuda->cuCtxSynchronize(), CUDA_SUCCESS);
	pointers[0] = out;
	assert_int_equal(cuda->cuMemcpyHtoD_v2(out, pointers, 8), CUDA_SUCCESS);
	assert_int_equal(launch(give, 1, 1, NULL, params), CUDA_SUCCESS);
	assert_int_equal(cuda->cuCtxSynchronize(), CUDA_ERROR_ILLEGAL_ADDRESS);
}

/* An allocation takes a page more than its size. */
#define PAGE 4096

/* A limit is refused where it is set, and the memory for it is taken there, all that the device has if need be. */
static void test_heap_limit(void **state)
{
	uint64_t pointers[64];
	size_t free_before, free_after, total, value;
	CUdeviceptr out = alloc(sizeof(pointers)), rest;
	CUmodule module;

	assert_int_equal(cuda->cuModuleLoadData(&module, heap_ptx), CUDA_SUCCESS);
	assert_int_equal(cuda->cuMemGetInfo_v2(&free_before, &total), CUDA_SUCCESS);
	assert_int_equal(cuda->cuCtxSetLimit(CU_LIMIT_MALLOC_HEAP_SIZE, total), CUDA_ERROR_OUT_OF_MEMORY);
	assert_int_equal(cuda->cuCtxSetLimit(CU_LIMIT_MALLOC_HEAP_SIZE, 2 * total), CUDA_ERROR_OUT_OF_MEMORY);
	assert_int_equal(cuda->cuCtxGetLimit(&value, CU_LIMIT_MALLOC_HEAP_SIZE), CUDA_SUCCESS);
	assert_int_equal(value, 8 << 20);
	assert_int_equal(cuda->cuCtxSetLimit(CU_LIMIT_MALLOC_HEAP_SIZE, 0), CUDA_SUCCESS);
	assert_int_equal(cuda->cuCtxSetLimit(CU_LIMIT_MALLOC_HEAP_SIZE, free_before - 2 * PAGE), CUDA_SUCCESS);
	assert_int_equal(cuda->cuMemGetInfo_v2(&free_after, NULL), CUDA_SUCCESS);
	assert_true(free_after <= 2 * PAGE);
	assert_int_equal(cuda->cuCtxSetLimit(CU_LIMIT_MALLOC_HEAP_SIZE, free_before / 2), CUDA_SUCCESS);
	assert_int_equal(cuda->cuMemGetInfo_v2(&free_after, NULL), CUDA_SUCCESS);
	assert_true(free_after > free_before / 4);
	assert_int_equal(cuda->cuMemAlloc_v2(&rest, free_after - 2 * PAGE), CUDA_SUCCESS);
	/* a refused limit changes neither the limit nor the memory for it */
	assert_int_equal(cuda->cuCtxSetLimit(CU_LIMIT_MALLOC_HEAP_SIZE, free_before), CUDA_ERROR_OUT_OF_MEMORY);
	assert_int_equal(cuda->cuCtxGetLimit(&value, CU_LIMIT_MALLOC_HEAP_SIZE), CUDA_SUCCESS);
	assert_int_equal(value, free_before / 2);
	assert_int_equal(taken(function(module, "take"), out, free_before / 128 / 32 * 32, pointers), 64);
}

/* Blocks of random sizes: none meets another, what is written stays, and all of the heap is there again in the end. */
static void test_heap_at_random(void **state)
{
	enum { ROUNDS = 300 };
	uint64_t pointers[64], bits = test_seed_state(test_seed()), bytes;
	CUfunction take, give;
	CUdeviceptr out = alloc(sizeof(pointers)), in = alloc(sizeof(pointers));
	void *params[] = {&in};
	uint64_t held[2][64] = {{0}};
	CUmodule module;

	assert_int_equal(cuda->cuModuleLoadData(&module, heap_ptx), CUDA_SUCCESS);
	take = function(module, "take");
	give = function(module, "give");
	assert_int_equal(cuda->cuCtxSetLimit(CU_LIMIT_MALLOC_HEAP_SIZE, 1 << 20), CUDA_SUCCESS);
	for (unsigned int round = 0; round < ROUNDS; round++) {
		uint64_t *old = held[round % 2];

		assert_int_equal(cuda->cuMemcpyHtoD_v2(in, old, sizeof(pointers)), CUDA_SUCCESS);
		assert_int_equal(launch(give, 1, 64, NULL, params), CUDA_SUCCESS);
		bytes = random_bits(&bits) % 12000 + 4;
		taken(take, out, bytes, pointers);
		for (unsigned int i = 0; i < 64; i++)
			for (unsigned int j = 0; j < 64 && pointers[i]; j++)
				assert_true(pointers[i] != held[(round + 1) % 2][j]);
		memcpy(old, pointers, sizeof(pointers));
	}
	for (unsigned int i = 0; i < 2; i++) {
		assert_int_equal(cuda->cuMemcpyHtoD_v2(in, held[i], sizeof(pointers)), CUDA_SUCCESS);
		assert_int_equal(launch(give, 1, 64, NULL, params), CUDA_SUCCESS);
	}
	assert_int_equal(taken(take, out, 1 << 20, pointers), 1);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		IN_CONTEXT(test_heap),
		IN_CONTEXT(test_heap_limit),
		IN_CONTEXT(test_heap_at_random),
	};

	init_device();
	return cmocka_run_group_tests(tests, NULL, NULL);
}
