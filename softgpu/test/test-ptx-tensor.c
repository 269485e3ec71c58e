/* SPDX-License-Identifier: Apache-2.0 */
/* Copies of boxes of tensors: where every byte goes. */
#include "softgpu/test/test-ptx-tensor.h"

/* The box at `at`, `offset` bytes into shared memory, is as it should be, and all around it as it was. */
static void check_load(struct tensor *t, const int32_t *at, uint64_t offset, uint64_t fill)
{
	static uint8_t want[SHARED];
	char name[96];
	struct ptx_fault fault;

	memcpy(params.at, at, t->rank * sizeof(*at));
	params.offset = offset;
	params.threads = 1;
	assert_int_equal(encode(t, &params.map, memory.tensor), CUDA_SUCCESS);
	memset(memory.out, EMPTY, sizeof(memory.out));
	memset(want, EMPTY, sizeof(want));
	for (uint64_t n = 0; n < box_bytes(t) / t->size; n++) {
		int64_t from = place(t, at, n);
		uint64_t to = swizzled(t, offset, n * t->size);

		memcpy(want + to, from < 0 ? (const void *)&fill : memory.tensor + from, t->size);
	}
	snprintf(name, sizeof(name),
		 "cp.async.bulk.tensor.%ud.shared::cluster.global.tile.mbarrier::complete_tx::bytes", t->rank);
	run_load(t, name, "%l1", &fault);
	assert_int_equal(fault.kind, PTX_FAULT_NONE);
	assert_memory_equal(memory.out, want, sizeof(want));
}

static void ranks(void **state)
{
	static const cuuint64_t dim[] = {20, 7, 6, 5, 4};
	static const cuuint32_t box[] = {8, 3, 2, 3, 2};
	static const int32_t places[][5] = {{0, 0, 0, 0, 0},  {8, 2, 3, 1, 1},         {-4, -1, -1, -2, -1},
					    {16, 6, 5, 4, 3}, {20, 7, 6, 5, 4},        {-8, 0, 0, 0, 0},
					    {4, 1, 0, 9, 0},  {INT32_MIN, 0, 0, 0, 0}, {INT32_MAX - 3, 1, 1, 1, 1}};

	(void)state;
	numbers();
	for (unsigned rank = 1; rank <= 5; rank++) {
		struct tensor t = plain(PTX_TENSOR_U32, 4, rank, dim, box);

		for (size_t n = 0; n < sizeof(places) / sizeof(places[0]); n++)
			check_load(&t, places[n], 128 * n, 0);
	}
}

/* Rows that are as wide as what chunks change places in, and narrower ones, at all multiples of 128 bytes. */
static void swizzles(void **state)
{
	static const cuuint64_t dim[] = {256, 100};
	static const int32_t places[][2] = {{0, 0}, {104, 50}, {-8, -3}, {248, 95}};

	(void)state;
	numbers();
	for (int swizzle = 0; swizzle <= PTX_TENSOR_SWIZZLE_128; swizzle++)
		for (cuuint32_t wide = 16; wide <= (swizzle ? 16u << swizzle : 256); wide *= 2)
			for (uint64_t offset = 0; offset < 1024; offset += 384) {
				const cuuint32_t box[] = {wide / 2, 33};
				struct tensor t = plain(PTX_TENSOR_U16, 2, 2, dim, box);

				t.swizzle = swizzle;
				check_load(&t, places[offset / 384], offset, 0);
			}
}

static void types(void **state)
{
	static const struct {
		int type;
		unsigned size;
		uint64_t nan;
	} all[] = {{0, 1, 0},      {1, 2, 0},          {2, 4, 0},
		   {3, 4, 0},      {4, 8, 0},          {5, 8, 0},
		   {6, 2, 0x7ff7}, {7, 4, 0x7ff77ff7}, {8, 8, 0x7ff77ff77ff77ff7},
		   {9, 2, 0x7ff7}};

	(void)state;
	numbers();
	for (size_t n = 0; n < sizeof(all) / sizeof(all[0]); n++) {
		const cuuint64_t dim[] = {128 / all[n].size, 20};
		const cuuint32_t box[] = {64 / all[n].size, 6};
		struct tensor t = plain(all[n].type, all[n].size, 2, dim, box);

		check_load(&t, (int32_t[]){(int32_t)(96 / all[n].size), 17}, 0, 0);
		t.fill = all[n].nan != 0;
		check_load(&t, (int32_t[]){-16 / (int32_t)all[n].size, -2}, 0, all[n].nan);
	}
}

/* Every so many elements of the outer dimensions, from rows that lie further apart than they must. */
static void steps(void **state)
{
	static const cuuint64_t dim[] = {32, 40, 9};
	static const cuuint32_t box[] = {16, 17, 5};
	struct tensor t = plain(PTX_TENSOR_U16, 2, 3, dim, box);

	(void)state;
	numbers();
	t.strides[0] = 80;
	t.strides[1] = 80 * 41;
	t.steps[0] = 4;
	t.steps[1] = 3;
	t.steps[2] = 2;
	check_load(&t, (int32_t[]){8, 2, 1}, 0, 0);
	check_load(&t, (int32_t[]){24, 30, -1}, 128, 0);
}

/* A load rounds to what the type says, and flushes nothing; as an H100 does. */
static void rounded(void **state)
{
	static const uint32_t in[] = {0x3f801000, 0x3f800fff, 0x3f803000, 0xbf801fff, 0x7f7fffff,
				      0x7f800001, 0xff800000, 0x80000001, 0x00401000, 0x00000000};
	static const uint32_t want[3][10] = {
		{0x3f801000, 0x3f800fff, 0x3f803000, 0xbf801fff, 0x7f7fffff, 0x7f800001, 0xff800000, 0x80000001,
		 0x00401000, 0},
		{0x3f800000, 0x3f800000, 0x3f804000, 0xbf802000, 0x7f800000, 0x7fffe000, 0xff800000, 0x80000000,
		 0x00400000, 0},
		{0x3f800000, 0x3f800000, 0x3f804000, 0xbf802000, 0x7f800000, 0x7fffe000, 0xff800000, 0x80000000,
		 0x00400000, 0}};
	static const cuuint64_t dim[] = {10};
	static const cuuint32_t box[] = {12};

	(void)state;
	memcpy(memory.tensor, in, sizeof(in));
	for (int type = PTX_TENSOR_F32_FTZ; type <= PTX_TENSOR_TF32_FTZ; type++) {
		struct tensor t = plain(type, 4, 1, dim, box);
		uint32_t nan = 0x7ff77ff7;
		struct ptx_fault fault;

		t.fill = 1;
		params = (typeof(params)){.threads = 1};
		assert_int_equal(encode(&t, &params.map, memory.tensor), CUDA_SUCCESS);
		run_load(&t, "cp.async.bulk.tensor.1d.shared::cta.global.mbarrier::complete_tx::bytes", "%l1", &fault);
		assert_int_equal(fault.kind, PTX_FAULT_NONE);
		assert_memory_equal(memory.out, want[type - PTX_TENSOR_F32_FTZ], sizeof(in));
		assert_memory_equal(memory.out + sizeof(in), &nan, 4);
	}
}

static void run_store(unsigned rank, const char *name, struct ptx_fault *fault)
{
	static char body[8192];

	snprintf(body, sizeof(body),
		 "%s@%%p1 bra $done;\n%s [%%l1, %s], [%%r2];\ncp.async.bulk.commit_group;\n"
		 "cp.async.bulk.wait_group 0;\n$done:\n",
		 in_from_global, name, coords[rank]);
	run(body, fault);
}

/* The tensor has the box's contents from shared memory, and its other elements are unchanged. */
static void check_store(struct tensor *t, const int32_t *at, uint64_t offset)
{
	struct ptx_fault fault;
	char name[96];

	numbers();
	for (size_t n = 0; n < sizeof(memory.out); n++)
		memory.out[n] = (uint8_t)(n * 11 + (n >> 8));
	memcpy(params.at, at, t->rank * sizeof(*at));
	params.offset = offset;
	params.threads = 1;
	assert_int_equal(encode(t, &params.map, memory.tensor), CUDA_SUCCESS);
	for (uint64_t n = 0; n < box_bytes(t) / t->size; n++) {
		int64_t to = place(t, at, n);

		if (to >= 0)
			memcpy(before + to, memory.out + swizzled(t, offset, n * t->size), t->size);
	}
	snprintf(name, sizeof(name), "cp.async.bulk.tensor.%ud.global.shared::cta.tile.bulk_group", t->rank);
	run_store(t->rank, name, &fault);
	assert_int_equal(fault.kind, PTX_FAULT_NONE);
	assert_memory_equal(memory.tensor, before, sizeof(before));
}

static void stores(void **state)
{
	static const cuuint64_t dim[] = {24, 7, 6, 5, 4};
	static const cuuint32_t box[] = {16, 3, 2, 3, 2};
	static const int32_t places[][5] = {
		{0, 0, 0, 0, 0}, {8, 2, 3, 1, 1}, {16, 5, 4, 3, 3}, {16, 6, 5, 4, 3}, {24, 0, 0, 0, 0}};

	(void)state;
	for (unsigned rank = 1; rank <= 5; rank++)
		for (size_t n = 0; n < sizeof(places) / sizeof(places[0]); n++) {
			struct tensor t = plain(PTX_TENSOR_F16, 2, rank, dim, box);

			t.swizzle = (int)(n % 4);
			check_store(&t, places[n], 256 * n);
		}
}

/* In each row: what the operation makes of 5 and 3, or PTX_FAULT_TENSOR_MAP where there is none. */
static void reductions(void **state)
{
	static const struct {
		const char *operation;
		int type;
		unsigned size;
		uint64_t old, operand, want;
	} all[] = {
		{"add", PTX_TENSOR_U32, 4, 5, 3, 8},
		{"add", PTX_TENSOR_U64, 8, 5, -6ull, -1ull},
		{"add", PTX_TENSOR_F16, 2, 0x3c00, 0x4000, 0x4200},
		{"add", PTX_TENSOR_BF16, 2, 0x3f80, 0x4000, 0x4040},
		{"add", PTX_TENSOR_F32, 4, 0x3f800000, 0x40000000, 0x40400000},
		{"add", PTX_TENSOR_F64, 8, 0x3ff0000000000000, 0x4000000000000000, 0x4008000000000000},
		{"add", PTX_TENSOR_F32, 4, 0x00300007, 0x00400001, 0x00700008},
		{"add", PTX_TENSOR_F32, 4, 0x80400001, 0x00400000, 0x80000001},
		{"add", PTX_TENSOR_F32_FTZ, 4, 0x00300007, 0x00400001, 0},
		{"add", PTX_TENSOR_F32_FTZ, 4, 0x80400001, 0x00400000, 0},
		{"add", PTX_TENSOR_F32_FTZ, 4, 0x80000000, 0x80000001, 0x80000000},
		{"add", PTX_TENSOR_F32_FTZ, 4, 0x3f800000, 0x40000000, 0x40400000},
		{"add", PTX_TENSOR_TF32, 4, 0x3f800001, 0x3f000000, 0x3fc00001},
		{"add", PTX_TENSOR_TF32, 4, 1, 1, 2},
		{"add", PTX_TENSOR_TF32_FTZ, 4, 0x3f800001, 0x3f000000, 0x3fc00001},
		{"add", PTX_TENSOR_TF32_FTZ, 4, 1, 1, 0},
		{"min", PTX_TENSOR_S64, 8, 5, -3ull, -3ull},
		{"max", PTX_TENSOR_S64, 8, 5, -3ull, 5},
		{"min", PTX_TENSOR_S32, 4, 5, 0xfffffffd, 0xfffffffd},
		{"min", PTX_TENSOR_U32, 4, 5, 0xfffffffd, 5},
		{"max", PTX_TENSOR_U64, 8, 5, -3ull, -3ull},
		{"max", PTX_TENSOR_F16, 2, 0x3c00, 0x4000, 0x4000},
		{"inc", PTX_TENSOR_U32, 4, 5, 3, 0},
		{"dec", PTX_TENSOR_U32, 4, 0, 3, 3},
		{"and", PTX_TENSOR_S32, 4, 5, 3, 1},
		{"or", PTX_TENSOR_U64, 8, 5, 3, 7},
		{"xor", PTX_TENSOR_U32, 4, 5, 3, 6},
		{"add", PTX_TENSOR_U8, 1, 0, 0, 0},
		{"add", PTX_TENSOR_S64, 8, 0, 0, 0},
		{"and", PTX_TENSOR_S64, 8, 0, 0, 0},
		{"or", PTX_TENSOR_S64, 8, 0, 0, 0},
		{"xor", PTX_TENSOR_S64, 8, 0, 0, 0},
		{"max", PTX_TENSOR_TF32, 4, 0, 0, 0},
		{"inc", PTX_TENSOR_S32, 4, 0, 0, 0},
		{"xor", PTX_TENSOR_F32, 4, 0, 0, 0},
		{"min", PTX_TENSOR_F32, 4, 0, 0, 0},
	};

	(void)state;
	for (size_t n = 0; n < sizeof(all) / sizeof(all[0]); n++) {
		unsigned size = all[n].size;
		const cuuint64_t dim[] = {32 / size, 3};
		const cuuint32_t box[] = {32 / size, 2};
		struct tensor t = plain(all[n].type, size, 2, dim, box);
		struct ptx_fault fault;
		char name[96];

		params = (typeof(params)){.threads = 1, .at = {16 / (int32_t)size, 2}};
		assert_int_equal(encode(&t, &params.map, memory.tensor), CUDA_SUCCESS);
		for (size_t k = 0; k < 128; k += size) {
			memcpy(memory.tensor + k, &all[n].old, size);
			memcpy(memory.out + k, &all[n].operand, size);
		}
		snprintf(name, sizeof(name), "cp.reduce.async.bulk.tensor.2d.global.shared::cta.%s.bulk_group",
			 all[n].operation);
		run_store(2, name, &fault);
		assert_int_equal(fault.kind, all[n].old || all[n].operand ? PTX_FAULT_NONE : PTX_FAULT_TENSOR_MAP);
		for (size_t k = 0; k < 128; k += size) {
			bool inside = k >= 64 + 16 && k < 96;

			if (memcmp(memory.tensor + k, inside ? &all[n].want : &all[n].old, size))
				fail_msg("%s of type %d: wrong at %zu", all[n].operation, all[n].type, k);
		}
	}
}

/* A map in constant and in global memory, policies, and blocks of a cluster that are not there. */
static void ways(void **state)
{
	struct tensor t = usual();
	struct ptx_fault fault;
	uint64_t at = 2 * 64 * 4 + 4 * 4;

	(void)state;
	numbers();
	memset(memory.out, EMPTY, sizeof(memory.out));
	run_load(&t, LOAD, "%l1", &fault);
	assert_int_equal(fault.kind, PTX_FAULT_NONE);
	assert_memory_equal(memory.out, memory.tensor + at, 128);
	for (threads = 1; threads <= 64; threads += 63) {
		memcpy(memory.tensor, before, sizeof(before));
		memset(memory.out, EMPTY, sizeof(memory.out));
		/* through global memory, which the kernel copies it to, and constant memory, where there is none */
		run("@%p1 bra $done;\nadd.u64 %l6, %l2, 16384;\nmov.u32 %r12, 0;\n$copy:\ncvt.u64.u32 %l7, "
		    "%r12;\nadd.u64 %l8, "
		    "%l1, %l7;\n"
		    "ld.u64 %l9, [%l8];\nadd.u64 %l8, %l6, %l7;\nst.u64 [%l8], %l9;\nadd.u32 %r12, %r12, "
		    "8;\nsetp.lt.u32 %p2, "
		    "%r12, 128;\n"
		    "@%p2 bra $copy;\nfence.proxy.tensormap::generic.acquire.gpu [%l6], 128;\nprefetch.tensormap "
		    "[%l6];\n" PREFETCH " [%l6, {%r4, 7}];\n" PREFETCH ".tile.L2::cache_hint [%l6, {%r4, 7}], %l9;\n"
		    "st.shared.u32 [s+1024], 0;\nmbarrier.init.shared.b64 [bar], 1;\n" LOAD
		    ".L2::cache_hint [s], [%l6, {%r4, %r5}], [bar], %l9;\n"
		    "cp.async.bulk.tensor.2d.global.shared::cta.tile.bulk_group.L2::cache_hint [%l6+0, {0, 0}], [%r3], "
		    "%l9;\n"
		    "cp.async.bulk.wait_group.read 0;\nmov.u16 %h1, 2;\n" LOAD
		    ".multicast::cluster [s+1024], [%l6, {0, 0}], [bar], %h1;\n"
		    "mov.u16 %h1, 3;\n" LOAD
		    ".multicast::cluster.L2::cache_hint [s+2048], [%l6, {0, 0}], [bar], %h1, %l9;\n"
		    "ld.shared.u32 %r12, [s+1024];\nld.shared.u32 %r13, [s+2048];\nst.global.v2.u32 [%l2], {%r12, "
		    "%r13};\n$done:\n",
		    &fault);
		assert_int_equal(fault.kind, PTX_FAULT_NONE);
		assert_memory_equal(memory.tensor, before + at, 128);
		assert_int_equal(*(uint32_t *)(void *)memory.out, 0);
		assert_memory_equal(memory.out + 4, memory.tensor, 4);
	}
	threads = 64;
	run(PREPARE "mov.u64 %l6, fixed;\ncvta.const.u64 %l6, %l6;\n" LOAD " [s], [%l6, {%r4, %r5}], [bar];\n$done:\n",
	    &fault);
	assert_int_equal(fault.kind, PTX_FAULT_TENSOR_MAP);
}

/* fma.oob takes the NaN that a load fills with for 0, and no other. */
static void outside_in_products(void **state)
{
	static const uint32_t in[] = {0x3c007ff7, 0x3c003c00, 0x7ff73f80, 0x7fff3f80};
	static const uint32_t want[] = {0x40000000, 0x40004000, 0x00004000, 0x7fff4000};
	struct ptx_fault fault;

	(void)state;
	usual();
	memcpy(memory.out, in, sizeof(in));
	run("@%p1 bra $done;\nld.global.v4.b32 {%r20,%r21,%r22,%r23}, [%l2];\nmov.b32 %r12, 0x3c003c00;\nmov.b32 %r13, "
	    "0x3f803f80;\n"
	    "fma.rn.oob.f16x2 %r20, %r20, %r12, %r12;\nfma.rn.oob.f16x2 %r21, %r12, %r21, %r12;\n"
	    "fma.rn.oob.bf16x2 %r22, %r13, %r22, %r13;\nfma.rn.oob.bf16x2 %r23, %r23, %r13, %r13;\n"
	    "st.global.v4.b32 [%l2], {%r20,%r21,%r22,%r23};\n$done:\n",
	    &fault);
	assert_int_equal(fault.kind, PTX_FAULT_NONE);
	assert_memory_equal(memory.out, want, sizeof(want));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(ranks),      cmocka_unit_test(swizzles), cmocka_unit_test(types),
		cmocka_unit_test(steps),      cmocka_unit_test(rounded),  cmocka_unit_test(stores),
		cmocka_unit_test(reductions), cmocka_unit_test(ways),     cmocka_unit_test(outside_in_products),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
