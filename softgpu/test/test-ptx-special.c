/* SPDX-License-Identifier: Apache-2.0 */
/* Special registers that say where a block runs. */
#include <pthread.h>

#include "softgpu/test/harness.h"

#define BLOCKS 8
#define PROCESSORS 3

/* Each thread: %smid, %nsmid, %gridid, %warpid + 100 * (%warpid < %nwarpid). */
static const char text[] = PTX_HEAD
	".visible .entry k(.param .u64 out)\n{\n.reg .pred %p<2>;\n.reg .b32 %r<16>;\n.reg .b64 %l<8>;\nld.param.u64 "
	"%l1, [out];\n"
	"mov.u32 %r1, %ctaid.x;\nmov.u32 %r2, %ntid.x;\nmov.u32 %r3, %tid.x;\nmad.lo.u32 %r1, %r1, %r2, %r3;\n"
	"mul.wide.u32 %l2, %r1, 16;\nadd.s64 %l1, %l1, %l2;\nmov.u32 %r4, %smid;\nbar.sync 0;\nmov.u32 %r5, %smid;\n"
	"max.u32 %r4, %r4, %r5;\nmov.u32 %r5, %nsmid;\nmov.u64 %l3, %gridid;\ncvt.u32.u64 %r6, %l3;\nmov.u32 %r7, "
	"%warpid;\n"
	"mov.u32 %r8, %nwarpid;\nsetp.lt.u32 %p1, %r7, %r8;\n@%p1 add.u32 %r7, %r7, 100;\n"
	"st.global.v4.u32 [%l1], {%r4, %r5, %r6, %r7};\nret;\n}\n";

/* %reserved_smem_offset_cap, in two ways, the reserved bytes, and %reserved_smem_offset_1 from the first one. */
static const char reserved[] = PTX_HEAD
	".visible .entry k(.param .u64 out)\n{\n.reg .b32 %r<8>;\n.reg .b64 %l<2>;\n.shared .b32 own[64];\n"
	"ld.param.u64 %l1, [out];\nmov.u32 %r1, own;\nst.shared.u32 [%r1], 1;\n"
	"mov.u32 %r1, %reserved_smem_offset_cap;\ncvt.u32.u32 %r2, %reserved_smem_offset_cap;\n"
	"mov.b32 %r3, %reserved_smem_offset_begin;\nmov.b32 %r4, %reserved_smem_offset_end;\n"
	"mov.b32 %r5, %reserved_smem_offset_1;\nsub.u32 %r4, %r4, %r3;\nsub.u32 %r5, %r5, %r3;\n"
	"st.global.v4.u32 [%l1], {%r1, %r2, %r4, %r5};\nret;\n}\n";

static uint32_t out[BLOCKS][THREADS][4];

struct block {
	const struct ptx_launch *launch;
	uint64_t index;
};

static void *run(void *data)
{
	const struct block *b = data;
	struct ptx_fault fault;

	return ptx_run_blocks(b->launch, b->index, 1, &fault) ? NULL : data;
}

static void places(void **state)
{
	void *params[1] = {out}, *failed;
	struct ptx_launch l = {.grid = {BLOCKS, 1, 1},
			       .block = {THREADS, 1, 1},
			       .memory = &map,
			       .params = params,
			       .serial = 77,
			       .multiprocessors = PROCESSORS};
	uint32_t seen = 0;
	struct ptx_module *m;
	struct ptx_error error;

	(void)state;
	map.count = 0;
	add_range(out, sizeof(out), true);
	m = load(text);
	if (ptx_kernel_prepare(ptx_module_kernel(m, 0), l.block, &l.binary, &error) != PTX_OK)
		fail_msg("line %u: %s", error.line, error.text);
	for (uint64_t n = 0; n < BLOCKS; n++) {
		struct block b = {&l, n};
		pthread_t thread;

		assert_int_equal(pthread_create(&thread, NULL, run, &b), 0);
		assert_int_equal(pthread_join(thread, &failed), 0);
		assert_null(failed);
	}
	for (unsigned n = 0; n < BLOCKS; n++)
		for (unsigned t = 0; t < THREADS; t++) {
			assert_in_range(out[n][t][0], 0, PROCESSORS - 1);
			assert_int_equal(out[n][t][0], out[n][0][0]);
			assert_int_equal(out[n][t][1], PROCESSORS);
			assert_int_equal(out[n][t][2], 77);
			assert_int_equal(out[n][t][3], 100 + t / 32);
			seen |= 1u << out[n][t][0];
		}
	/* eight threads, one after the other */
	assert_int_equal(seen, (1u << PROCESSORS) - 1);
	ptx_module_destroy(m);
}

static void reserved_memory(void **state)
{
	struct ptx_fault fault;
	void *params[1] = {out};
	struct ptx_launch l = {
		.grid = {1, 1, 1}, .block = {1, 1, 1}, .memory = &map, .params = params, .multiprocessors = 1};
	struct ptx_module *m;
	struct ptx_error error;

	(void)state;
	map.count = 0;
	add_range(out, sizeof(out), true);
	m = load(reserved);
	if (ptx_kernel_prepare(ptx_module_kernel(m, 0), l.block, &l.binary, &error) != PTX_OK)
		fail_msg("line %u: %s", error.line, error.text);
	assert_true(ptx_run_blocks(&l, 0, 1, &fault));
	assert_int_equal(out[0][0][0], 1024);
	assert_int_equal(out[0][0][1], 1024);
	assert_int_equal(out[0][0][2], 1024);
	assert_int_equal(out[0][0][3], 512);
	ptx_module_destroy(m);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(places), cmocka_unit_test(reserved_memory),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
