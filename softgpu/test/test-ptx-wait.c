/* SPDX-License-Identifier: Apache-2.0 */
/* Threads that wait for one another: barriers that lanes reach apart, and blocks of one grid. */
#include "softgpu/test/harness.h"

#define KERNEL(body)                                                                                                   \
	".version 7.0\n.target sm_80\n.address_size 64\n"                                                              \
	".shared .align 4 .b32 flag;\n.shared .align 4 .b8 row[1024];\n"                                              \
	".visible .entry k(.param .u64 k_out)\n{\n"                                                                    \
	".reg .pred %p<8>; .reg .b32 %r<16>; .reg .b64 %rd<8>;\n"                                                      \
	"ld.param.u64 %rd1, [k_out];\nmov.u32 %r1, %tid.x;\nmul.wide.u32 %rd2, %r1, 4;\nadd.s64 %rd3, %rd1, %rd2;\n"   \
	"mov.u32 %r2, row;\nshl.b32 %r3, %r1, 2;\nadd.s32 %r4, %r2, %r3;\n" body "ret;\n}\n"

static bool run(const char *text, uint32_t threads, struct ptx_fault *fault)
{
	struct ptx_module *m;
	uint64_t params[1] = {(uintptr_t)out32};
	bool ok;

	map.count = 0;
	add_range(out32, sizeof(out32), true);
	memset(out32, 0xff, sizeof(out32));
	m = load(text);
	ok = launch(m, 1, threads, 1, 0, params, fault);
	ptx_module_destroy(m);
	return ok;
}

static void must_run(const char *text, uint32_t threads)
{
	struct ptx_fault f;

	if (!run(text, threads, &f))
		fail_msg("fault %d at line %u", f.kind, f.line);
}

/* Halves of each warp wait at two instructions for one barrier: every thread sees what the others wrote before. */
static void lanes_apart(void **state)
{
	must_run(KERNEL("st.shared.u32 [%r4], %r1;\nand.b32 %r5, %r1, 16;\nsetp.eq.u32 %p1, %r5, 0;\n"
			"@%p1 bra A;\nbarrier.sync 0;\nadd.s32 %r6, %r1, 40;\nbra.uni J;\n"
			"A:\nbarrier.sync 0;\nadd.s32 %r6, %r1, 41;\n"
			"J:\nand.b32 %r6, %r6, 63;\nshl.b32 %r6, %r6, 2;\nadd.s32 %r6, %r2, %r6;\n"
			"ld.shared.u32 %r7, [%r6];\nst.global.u32 [%rd3], %r7;\n"),
		 64);
	for (uint32_t n = 0; n < 64; n++)
		assert_int_equal(out32[n], (n + (n & 16 ? 40 : 41)) % 64);
}

/* Lanes of a warp leave a loop with a barrier after different numbers of iterations, and exit. */
static void rounds_apart(void **state)
{
	must_run(KERNEL("mov.u32 %r5, 0;\nst.shared.u32 [%r4], %r5;\n"
			"AGAIN:\nbarrier.sync 0;\nadd.s32 %r5, %r5, 1;\nst.shared.u32 [%r4], %r5;\n"
			"setp.le.u32 %p1, %r5, %r1;\n@%p1 bra AGAIN;\nst.global.u32 [%rd3], %r5;\n"),
		 64);
	for (uint32_t n = 0; n < 64; n++)
		assert_int_equal(out32[n], n + 1);
}

/* A barrier of 32 threads, half of them from each warp; the others wait for what comes after it. */
static void half_warps(void **state)
{
	must_run(KERNEL("and.b32 %r5, %r1, 16;\nsetp.ne.u32 %p1, %r5, 0;\nmov.u32 %r6, 0;\n"
			"setp.ne.u32 %p3, %r1, 0;\n@%p3 bra GO;\nst.volatile.shared.u32 [flag], %r6;\n"
			"GO:\nbarrier.sync 0;\n@%p1 bra SPIN;\n"
			"barrier.sync 1, 32;\nsetp.ne.u32 %p2, %r1, 0;\n@%p2 bra J;\n"
			"mov.u32 %r7, 5;\nst.volatile.shared.u32 [flag], %r7;\nbra.uni J;\n"
			"SPIN:\nld.volatile.shared.u32 %r8, [flag];\nsetp.eq.u32 %p2, %r8, 0;\n@%p2 bra SPIN;\n"
			"J:\nst.global.u32 [%rd3], %r1;\n"),
		 64);
	for (uint32_t n = 0; n < 64; n++)
		assert_int_equal(out32[n], n);
}

/* Lanes leave a loop that may wait for others at different times: the vote after it is that of all of them. */
static void partners_come_late(void **state)
{
	must_run(KERNEL("mov.u32 %r5, 0;\nmul.lo.u32 %r6, %r1, 13;\nmov.u32 %r9, row;\n"
			"AGAIN:\natom.shared.add.u32 %r7, [%r9], 1;\nadd.s32 %r5, %r5, 1;\n"
			"setp.lt.u32 %p1, %r5, %r6;\n@%p1 bra AGAIN;\n"
			"and.b32 %r7, %r1, 4;\nsetp.ne.u32 %p2, %r7, 0;\n"
			"vote.sync.ballot.b32 %r8, %p2, -1;\nredux.sync.max.u32 %r7, %r5, -1;\n"
			"add.s32 %r8, %r8, %r7;\nst.global.u32 [%rd3], %r8;\n"),
		 32);
	for (uint32_t n = 0; n < 32; n++)
		assert_int_equal(out32[n], 0xf0f0f0f0 + 31 * 13);
}

/* The same where each lane names those of its kind only. */
static void partners_of_two_kinds(void **state)
{
	must_run(KERNEL("mov.u32 %r5, 0;\nmul.lo.u32 %r6, %r1, 13;\nmov.u32 %r9, row;\n"
			"and.b32 %r10, %r1, 1;\nmatch.any.sync.b32 %r11, %r10, -1;\n"
			"AGAIN:\natom.shared.add.u32 %r7, [%r9], 1;\nadd.s32 %r5, %r5, 1;\n"
			"setp.lt.u32 %p1, %r5, %r6;\n@%p1 bra AGAIN;\n"
			"and.b32 %r7, %r1, 4;\nsetp.ne.u32 %p2, %r7, 0;\n"
			"vote.sync.ballot.b32 %r8, %p2, %r11;\nredux.sync.max.u32 %r7, %r5, %r11;\n"
			"add.s32 %r8, %r8, %r7;\nst.global.u32 [%rd3], %r8;\n"),
		 32);
	for (uint32_t n = 0; n < 32; n++)
		assert_int_equal(out32[n], n & 1 ? 0xa0a0a0a0 + 31 * 13 : 0x50505050 + 30 * 13);
}

/* Programs name all lanes where only some are: those that wait at a barrier meanwhile are not waited for. */
static void partners_at_a_barrier(void **state)
{
	must_run(KERNEL("mov.u32 %r5, 0;\nmov.u32 %r9, row;\nAGAIN:\natom.shared.add.u32 %r7, [%r9], 1;\n"
			"add.s32 %r5, %r5, 1;\nsetp.le.u32 %p1, %r5, %r1;\n@%p1 bra AGAIN;\n"
			"mov.u32 %r8, 0;\nsetp.ge.u32 %p2, %r1, 16;\n@%p2 bra J;\n"
			"shfl.sync.down.b32 %r8, %r1, 8, 31, -1;\n"
			"J:\nbarrier.sync 0;\nst.global.u32 [%rd3], %r8;\n"),
		 64);
	for (uint32_t n = 0; n < 8; n++)
		assert_int_equal(out32[n], n + 8);
	for (uint32_t n = 16; n < 64; n++)
		assert_int_equal(out32[n], 0);
}

/* A reduction that lanes reach apart counts each of them once. */
static void reductions_apart(void **state)
{
	must_run(KERNEL("and.b32 %r5, %r1, 3;\nsetp.eq.u32 %p1, %r5, 0;\nsetp.lt.u32 %p2, %r1, 20;\n"
			"@%p1 bra A;\nbarrier.red.popc.u32 %r6, 0, %p2;\nbra.uni J;\n"
			"A:\nbarrier.red.popc.u32 %r6, 0, %p2;\n"
			"J:\nst.global.u32 [%rd3], %r6;\n"),
		 64);
	for (uint32_t n = 0; n < 64; n++)
		assert_int_equal(out32[n], 20);
	must_run(KERNEL("setp.lt.u32 %p2, %r1, 63;\nbarrier.red.and.pred %p3, 2, 64, %p2;\n"
			"barrier.red.or.pred %p4, 15, %p2;\n"
			"selp.u32 %r6, 1, 0, %p3;\nselp.u32 %r7, 2, 0, %p4;\nor.b32 %r6, %r6, %r7;\n"
			"st.global.u32 [%rd3], %r6;\n"),
		 64);
	assert_int_equal(out32[0], 2);
	assert_int_equal(out32[63], 2);
}

/*
 * Lanes that have waited at the one instruction meet the others at the other one, where these wait for their release:
 * those go on and exit, and the lanes that meet them are the next round of the barrier.
 */
static void rounds_meet(void **state)
{
	for (uint32_t threads = 32; threads <= 64; threads += 8) {
		must_run(KERNEL("and.b32 %r5, %r1, 3;\nsetp.eq.u32 %p1, %r5, 0;\nsetp.lt.u32 %p2, %r1, 20;\n"
				"@%p1 bra A;\nbarrier.red.popc.u32 %r6, 0, %p2;\n"
				"A:\nbarrier.red.popc.u32 %r6, 0, %p2;\nst.global.u32 [%rd3], %r6;\n"),
			 threads);
		for (uint32_t n = 0; n < threads; n++)
			assert_int_equal(out32[n], n & 3 ? 15 : 20);
	}
}

/* The same without a reduction: each round sees what the one before it wrote. */
static void rounds_meet_plainly(void **state)
{
	for (uint32_t threads = 32; threads <= 64; threads += 8) {
		must_run(KERNEL("mov.u32 %r5, 0;\nst.shared.u32 [%r4], %r5;\nbar.sync 0;\n"
				"and.b32 %r5, %r1, 3;\nsetp.eq.u32 %p1, %r5, 0;\n@%p1 bra A;\n"
				"st.shared.u32 [%r4], %r1;\nbarrier.sync 0;\n"
				"A:\nbarrier.sync 0;\n"
				"xor.b32 %r6, %r3, 4;\nadd.s32 %r6, %r2, %r6;\nld.shared.u32 %r7, [%r6];\n"
				"st.global.u32 [%rd3], %r7;\n"),
			 threads);
		for (uint32_t n = 0; n < threads; n++)
			assert_int_equal(out32[n], (n ^ 1) & 3 ? n ^ 1 : 0);
	}
}

/* Lanes that have exited are not waited for. */
static void exited_lanes(void **state)
{
	must_run(KERNEL("mov.u32 %r5, 7;\nsetp.gt.u32 %p1, %r1, 20;\n@%p1 exit;\n"
			"st.shared.u32 [%r4], %r1;\nbar.sync 0;\n"
			"xor.b32 %r6, %r3, 4;\nadd.s32 %r6, %r2, %r6;\nsetp.eq.u32 %p2, %r1, 20;\n"
			"@%p2 bra J;\nld.shared.u32 %r5, [%r6];\nJ:\nst.global.u32 [%rd3], %r5;\n"),
		 64);
	for (uint32_t n = 0; n < 20; n++)
		assert_int_equal(out32[n], n ^ 1);
	assert_int_equal(out32[21], UINT32_MAX);
}

/* One warp tells the other that it may go on, and does not wait itself. */
static void arrive(void **state)
{
	must_run(KERNEL("setp.ge.u32 %p1, %r1, 32;\n@%p1 bra B;\n"
			"mov.u32 %r5, 9;\nst.shared.u32 [%r4], %r5;\nmembar.cta;\nbarrier.arrive 3, 64;\nbra.uni J;\n"
			"B:\nbarrier.sync 3, 64;\nadd.s32 %r6, %r4, -128;\nld.shared.u32 %r5, [%r6];\n"
			"J:\nst.global.u32 [%rd3], %r5;\n"),
		 64);
	for (uint32_t n = 0; n < 64; n++)
		assert_int_equal(out32[n], 9);
}

/* A barrier that not all reach is a fault with the place of those that wait, not a hang. */
static void not_all_reach(void **state)
{
	struct ptx_fault f;

	assert_false(run(KERNEL("setp.ge.u32 %p1, %r1, 32;\n@%p1 bra B;\nbarrier.sync 4, 64;\nbra.uni J;\n"
				"B:\nbarrier.sync 5, 64;\nJ:\n"),
			 64, &f));
	assert_int_equal(f.kind, PTX_FAULT_BARRIER);
	assert_int_equal(f.bytes, 32);
	assert_int_equal(f.address, 4);
	assert_int_equal(f.thread[0], 0);
	assert_true(f.line > 0);
	assert_false(run(KERNEL("setp.ge.u32 %p1, %r1, 5;\n@%p1 bra B;\nbarrier.sync 6, 64;\nB:\n"), 37, &f));
	assert_int_equal(f.kind, PTX_FAULT_BARRIER);
	assert_int_equal(f.bytes, 5);
}

/* ---- blocks ---- */

struct grid {
	uint64_t next, blocks;
};

static bool claim(void *owner, uint64_t *index)
{
	struct grid *g = owner;

	*index = g->next++;
	return *index < g->blocks;
}

/* Every block waits until all have come, three times over: all run on this one thread. */
static const char grid_barrier[] =
	".version 7.0\n.target sm_80\n.address_size 64\n"
	".visible .entry k(.param .u64 k_out)\n{\n"
	".reg .pred %p<4>; .reg .b32 %r<16>; .reg .b64 %rd<8>;\n"
	"ld.param.u64 %rd1, [k_out];\nmov.u32 %r1, %tid.x;\nmov.u32 %r2, %nctaid.x;\nmov.u32 %r3, 0;\n"
	"mov.u32 %r10, %envreg1;\nmov.u32 %r11, %envreg2;\nmov.b64 %rd4, {%r11, %r10};\n"
	"ROUND:\nadd.s32 %r3, %r3, %r2;\nsetp.ne.u32 %p1, %r1, 0;\nbar.sync 0;\n@%p1 bra MET;\n"
	"atom.add.release.gpu.u32 %r4, [%rd4+4], 1;\n"
	"SPIN:\nld.acquire.gpu.u32 %r5, [%rd4+4];\nsetp.lt.u32 %p2, %r5, %r3;\n@%p2 bra SPIN;\n"
	"MET:\nbar.sync 0;\nmul.lo.s32 %r6, %r2, 3;\nsetp.lt.u32 %p3, %r3, %r6;\n@%p3 bra ROUND;\n"
	"mov.u32 %r7, %ctaid.x;\nmul.wide.u32 %rd2, %r7, 4;\nadd.s64 %rd3, %rd1, %rd2;\n"
	"st.global.u32 [%rd3], %r3;\nret;\n}\n";

static void blocks_meet(uint32_t share)
{
	static uint32_t workspace[16];
	uint64_t params[1] = {(uintptr_t)out32};
	struct grid g = {1, 12};
	struct ptx_launch l = {.grid = {12, 1, 1},
			       .block = {64, 1, 1},
			       .params = params,
			       .memory = &map,
			       .workspace = (uintptr_t)workspace,
			       .claim = claim,
			       .owner = &g,
			       .share = share,
			       .resident = 12};
	struct ptx_fault fault;
	struct ptx_error error;
	struct ptx_module *m;

	map.count = 0;
	add_range(out32, sizeof(out32), true);
	add_range(workspace, sizeof(workspace), true);
	memset(workspace, 0, sizeof(workspace));
	memset(out32, 0, sizeof(out32));
	m = load(grid_barrier);
	assert_int_equal(ptx_kernel_prepare(ptx_module_kernel(m, 0), l.block, &l.binary, &error), PTX_OK);
	assert_true(ptx_binary_waits(l.binary));
	if (!ptx_run_blocks(&l, 0, 1, &fault))
		fail_msg("fault %d at line %u", fault.kind, fault.line);
	for (int n = 0; n < 12; n++)
		assert_int_equal(out32[n], 36);
	assert_int_equal(workspace[1], 36);
	ptx_module_destroy(m);
}

static void all_blocks_at_once(void **state)
{
	blocks_meet(12);
}

/* Without a share of its own a thread takes another block whenever those that it has wait for long. */
static void blocks_one_by_one(void **state)
{
	blocks_meet(1);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(lanes_apart),        cmocka_unit_test(rounds_apart),
		cmocka_unit_test(half_warps),         cmocka_unit_test(partners_come_late),
		cmocka_unit_test(partners_of_two_kinds), cmocka_unit_test(partners_at_a_barrier),
		cmocka_unit_test(reductions_apart),   cmocka_unit_test(rounds_meet),
		cmocka_unit_test(rounds_meet_plainly),
		cmocka_unit_test(exited_lanes),       cmocka_unit_test(arrive),
		cmocka_unit_test(not_all_reach),      cmocka_unit_test(all_blocks_at_once),
		cmocka_unit_test(blocks_one_by_one),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
