/* SPDX-License-Identifier: Apache-2.0 */
/* Asynchronous copies, barriers in shared memory, and what a cluster of one block looks like. */
#include "../ptx/harness.h"

static uint32_t source[256], target[1024];

static void run(const char *body, uint32_t threads, struct ptx_fault *fault)
{
	static char text[8192];
	void *params[2] = {target, source};
	struct ptx_module *m;

	snprintf(text, sizeof(text), "%s%s}\n", REGISTERS, body);
	for (unsigned n = 0; n < 256; n++)
		source[n] = n + 1;
	memset(target, 0xee, sizeof(target));
	map.count = 0;
	add_range(source, sizeof(source), false);
	add_range(target, sizeof(target), true);
	m = load(text);
	fault->kind = PTX_FAULT_NONE;
	launch(m, 1, threads, 1, 0, params, fault);
	ptx_module_destroy(m);
}

#define PREPARE                                                                                                        \
	".shared .align 16 .b8 s[2048];\n.shared .align 8 .b64 bar;\nmov.u32 %r2, s;\nshl.b32 %r3, %r1, 4;\n"          \
	"add.s32 %r2, %r2, %r3;\nmul.wide.u32 %l3, %r1, 16;\nadd.s64 %l4, %l2, %l3;\nadd.s64 %l5, %l1, %l3;\n"
#define GIVE "ld.shared.v4.b32 {%r4,%r5,%r6,%r7}, [%r2];\nst.global.v4.b32 [%l5], {%r4,%r5,%r6,%r7};\nret;\n"

static void copies(void **state)
{
	struct ptx_fault fault;

	(void)state;
	run(PREPARE "cp.async.cg.shared.global.L2::128B [%r2], [%l4], 16;\ncp.async.commit_group;\n"
		    "cp.async.wait_group 0;\nbar.sync 0;\n" GIVE, 64, &fault);
	assert_int_equal(fault.kind, PTX_FAULT_NONE);
	for (unsigned n = 0; n < 256; n++)
		assert_int_equal(target[n], n + 1);
	/* 8 bytes of which thread n takes n, 4 that odd threads ignore */
	run(PREPARE "cp.async.ca.shared::cta.global [%r2], [%l4], 8, %r1;\nand.b32 %r8, %r1, 1;\n"
		    "setp.ne.u32 %p1, %r8, 0;\ncp.async.ca.shared.global [%r2+8], [%l4+8], 4, %p1;\n"
		    "st.shared.b32 [%r2+12], 5;\ncp.async.wait_all;\n" GIVE, 32, &fault);
	assert_int_equal(fault.kind, PTX_FAULT_NONE);
	for (unsigned n = 0; n < 32; n++) {
		uint64_t bytes = (4 * n + 1) | (uint64_t)(4 * n + 2) << 32, got;

		memcpy(&got, &target[4 * n], 8);
		assert_int_equal(got, n >= 8 ? bytes : bytes & ((1ull << 8 * n) - 1));
		assert_int_equal(target[4 * n + 2], n & 1 ? 0 : 4 * n + 3);
	}
	run(PREPARE "cp.async.ca.shared.global [%r2], [%l4+1024], 16;\nret;\n", 64, &fault);
	assert_int_equal(fault.kind, PTX_FAULT_ILLEGAL_ADDRESS);
	run(PREPARE "cp.async.ca.shared.global [%r2+2048], [%l4], 16;\nret;\n", 64, &fault);
	assert_int_equal(fault.kind, PTX_FAULT_ILLEGAL_ADDRESS);
	run(PREPARE "cp.async.ca.shared.global [%r2+4], [%l4], 16;\nret;\n", 64, &fault);
	assert_int_equal(fault.kind, PTX_FAULT_MISALIGNED);
}

static void bulk(void **state)
{
	struct ptx_fault fault;

	(void)state;
	/* one thread copies for all, who wait for the bytes; then all of it goes back in one piece */
	run(PREPARE "setp.ne.u32 %p1, %r1, 0;\n@%p1 bra $wait;\nmbarrier.init.shared::cta.b64 [bar], 1;\n"
		    "fence.mbarrier_init.release.cluster;\nfence.proxy.async;\n"
		    "mbarrier.arrive.expect_tx.release.cta.shared::cta.b64 %l6, [bar], 1024;\nmov.u32 %r9, s;\n"
		    "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%r9], [%l2], 1024, [bar];\n"
		    "$wait:\nbar.sync 0;\n"
		    "$again:\nmbarrier.try_wait.parity.acquire.cta.shared::cta.b64 %p2, [bar], 0;\n@!%p2 bra $again;\n"
		    "ld.shared.b32 %r4, [%r2];\nadd.s32 %r4, %r4, 1000;\nst.shared.b32 [%r2], %r4;\nbar.sync 0;\n"
		    "@%p1 bra $done;\nmov.u32 %r9, s;\ncp.async.bulk.global.shared::cta.bulk_group [%l1], [%r9], 1024;\n"
		    "cp.async.bulk.commit_group;\ncp.async.bulk.wait_group.read 0;\n$done:\nret;\n", 64, &fault);
	assert_int_equal(fault.kind, PTX_FAULT_NONE);
	for (unsigned n = 0; n < 256; n++)
		assert_int_equal(target[n], n + 1 + (n % 4 ? 0 : 1000));
	run(PREPARE "mbarrier.init.shared.b64 [bar], 1;\ncp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes "
		    "[%r2], [%l2], 2064, [bar];\nret;\n", 1, &fault);
	assert_int_equal(fault.kind, PTX_FAULT_ILLEGAL_ADDRESS);
}

static void barriers(void **state)
{
	struct ptx_fault fault;

	(void)state;
	/* 96 threads in three phases; each writes after the last of the phase before */
	run(PREPARE "setp.ne.u32 %p1, %r1, 0;\n@%p1 bra $in;\nmbarrier.init.shared.b64 [bar], 96;\nst.shared.b32 [s], 0;\n"
		    "$in:\nbar.sync 0;\nmov.u32 %r4, 0;\n"
		    "$phase:\natom.shared.add.u32 %r5, [s], 1;\nmbarrier.arrive.shared.b64 %l6, [bar];\n"
		    "$spin:\nmbarrier.test_wait.shared.b64 %p2, [bar], %l6;\n@!%p2 bra $spin;\n"
		    "ld.volatile.shared.b32 %r6, [s];\nadd.s32 %r4, %r4, 1;\nmad.lo.u32 %r7, %r4, 96, 0;\n"
		    "setp.lt.u32 %p3, %r6, %r7;\n@%p3 trap;\nsetp.lt.u32 %p3, %r4, 3;\n@%p3 bra $phase;\n"
		    "mul.wide.u32 %l3, %r1, 4;\nadd.s64 %l5, %l1, %l3;\nst.global.b32 [%l5], %r6;\nret;\n", 96, &fault);
	assert_int_equal(fault.kind, PTX_FAULT_NONE);
	for (unsigned n = 0; n < 96; n++)
		assert_int_equal(target[n], 288);
	/* counts, states and parities of one thread */
	run(PREPARE "mbarrier.init.shared.b64 [bar], 3;\nmbarrier.arrive.shared.b64 %l6, [bar];\n"
		    "mbarrier.pending_count.b64 %r4, %l6;\nmbarrier.test_wait.parity.shared.b64 %p1, [bar], 0;\n"
		    "selp.b32 %r5, 1, 0, %p1;\nmbarrier.arrive.noComplete.shared.b64 %l7, [bar], 1;\n"
		    "mbarrier.pending_count.b64 %r6, %l7;\nmbarrier.arrive_drop.shared.b64 %l7, [bar];\n"
		    "mbarrier.test_wait.shared.b64 %p2, [bar], %l6;\nselp.b32 %r7, 1, 0, %p2;\n"
		    "st.global.v4.b32 [%l1], {%r4,%r5,%r6,%r7};\nmbarrier.arrive.shared.b64 %l7, [bar], 2;\n"
		    "mbarrier.pending_count.b64 %r4, %l7;\nmbarrier.test_wait.parity.shared.b64 %p1, [bar], 1;\n"
		    "selp.b32 %r5, 1, 0, %p1;\nmbarrier.inval.shared.b64 [bar];\n"
		    "st.global.v2.b32 [%l1+16], {%r4,%r5};\nret;\n", 1, &fault);
	assert_int_equal(fault.kind, PTX_FAULT_NONE);
	assert_int_equal(target[0], 3);
	assert_int_equal(target[1], 0);
	assert_int_equal(target[2], 2);
	assert_int_equal(target[3], 1);
	assert_int_equal(target[4], 2);
	assert_int_equal(target[5], 1);
}

static void clusters(void **state)
{
	struct ptx_fault fault;

	(void)state;
	run(PREPARE "st.shared::cluster.b32 [%r2], %r1;\nbarrier.cluster.arrive.release.aligned;\n"
		    "barrier.cluster.wait.acquire.aligned;\nxor.b32 %r3, %r3, 16;\nmov.u32 %r4, s;\nadd.s32 %r4, %r4, %r3;\n"
		    "mapa.shared::cluster.u32 %r5, %r4, 0;\nld.shared::cluster.b32 %r6, [%r5];\n"
		    "mov.u32 %r7, %cluster_nctaid.x;\nmov.u32 %r8, %cluster_ctarank;\nadd.s32 %r7, %r7, %r8;\n"
		    "elect.sync %r9|%p1, -1;\nselp.b32 %r9, 1, 0, %p1;\n"
		    "createpolicy.fractional.L2::evict_last.b64 %l6, 1.0;\n"
		    "st.global.L2::cache_hint.v4.b32 [%l5], {%r6,%r7,%r8,%r9}, %l6;\nret;\n", 64, &fault);
	assert_int_equal(fault.kind, PTX_FAULT_NONE);
	for (unsigned n = 0; n < 64; n++) {
		assert_int_equal(target[4 * n], n ^ 1);
		assert_int_equal(target[4 * n + 1], 1);
		assert_int_equal(target[4 * n + 3], n % 32 == 0);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(copies),
		cmocka_unit_test(bulk),
		cmocka_unit_test(barriers),
		cmocka_unit_test(clusters),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
