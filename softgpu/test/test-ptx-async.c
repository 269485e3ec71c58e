/* SPDX-License-Identifier: Apache-2.0 */
/* Asynchronous copies, barriers in shared memory, and what a cluster of one block looks like. */
#include "softgpu/test/harness.h"

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
	/* one thread copies for all threads, which wait for the bytes; then all bytes go back in one piece */
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
	/* nothing, from and to nowhere in particular */
	run(PREPARE "mbarrier.init.shared.b64 [bar], 1;\nmov.u32 %r9, s;\nadd.u32 %r9, %r9, 15;\nmov.u32 %r3, 0;\n"
		    "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%r9], [3], %r3, [bar];\n"
		    "cp.async.bulk.global.shared::cta.bulk_group [3], [%r9], %r3;\n"
		    "mbarrier.arrive.shared.b64 %l6, [bar];\nst.global.b32 [%l1], 5;\nret;\n", 1, &fault);
	assert_int_equal(fault.kind, PTX_FAULT_NONE);
	assert_int_equal(target[0], 5);
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

/* A barrier that expects bytes from one thread, and waiting for it. */
#define EXPECT(bytes)                                                                                                  \
	"setp.ne.u32 %p1, %r1, 0;\n@%p1 bra $ready;\nmbarrier.init.shared::cta.b64 [bar], 1;\n"                        \
	"mbarrier.arrive.expect_tx.release.cta.shared::cta.b64 %l6, [bar], " bytes ";\n$ready:\nbar.sync 0;\n"
#define AWAIT                                                                                                          \
	"$again:\nmbarrier.try_wait.parity.acquire.cta.shared::cta.b64 %p2, [bar], 0;\n@!%p2 bra $again;\nbar.sync 0;\n"

/* Reduces shared memory into target: 1024 bytes of 64 threads at once. */
static void reduce_out(const char *operation, uint32_t before, uint32_t (*want)(uint32_t, uint32_t))
{
	static char body[4096];
	struct ptx_fault fault;

	snprintf(body, sizeof(body), "%sld.global.v4.b32 {%%r4,%%r5,%%r6,%%r7}, [%%l4];\nst.shared.v4.b32 [%%r2], {%%r4,%%r5,%%r6,%%r7};\n"
		 "mov.b32 %%r8, %u;\nst.global.v4.b32 [%%l5], {%%r8,%%r8,%%r8,%%r8};\nbar.sync 0;\nsetp.ne.u32 %%p1, %%r1, 0;\n"
		 "@%%p1 bra $done;\nmov.u32 %%r9, s;\ncp.reduce.async.bulk.global.shared::cta.bulk_group.%s [%%l1], [%%r9], 1024;\n"
		 "cp.async.bulk.commit_group;\ncp.async.bulk.wait_group 0;\n$done:\nret;\n", PREPARE, before, operation);
	run(body, 64, &fault);
	assert_int_equal(fault.kind, PTX_FAULT_NONE);
	for (unsigned n = 0; n < 256; n++)
		if (target[n] != want(before, n + 1))
			fail_msg("%s: %x, not %x", operation, target[n], want(before, n + 1));
}

W32(w_add, a + b)
W32(w_min, (int32_t)a < (int32_t)b ? a : b)
W32(w_max, a > b ? a : b)
W32(w_xor, a ^ b)
W32(w_inc, a >= b ? 0 : a + 1)
/* as numbers all are subnormal, which are kept */
W32(w_add_float, a + b)

static void reductions(void **state)
{
	struct ptx_fault fault;

	(void)state;
	reduce_out("add.u32", 0xfffffff0, w_add);
	reduce_out("min.s32", 100, w_min);
	reduce_out("max.u32", 100, w_max);
	reduce_out("xor.b32", 0x55, w_xor);
	reduce_out("inc.u32", 77, w_inc);
	reduce_out("add.f32", 0x00300007, w_add_float);
	/* 16 words onto 16 others, of a barrier; the source must be in shared memory, and the target writable */
	run(PREPARE EXPECT("64") "st.shared.b32 [%r2+1024], 7;\nst.shared.b32 [%r2], %r1;\nmov.u32 %r9, s;\nbar.sync 0;\n@%p1 bra $wait;\n"
		    "cp.reduce.async.bulk.shared::cluster.shared::cta.mbarrier::complete_tx::bytes.add.u32 [%r9], [%r9+1024], 64, [bar];\n"
		    "$wait:\n" AWAIT "ld.shared.b32 %r4, [%r2];\nst.global.b32 [%l5], %r4;\nret;\n", 64, &fault);
	assert_int_equal(fault.kind, PTX_FAULT_NONE);
	for (unsigned n = 0; n < 64; n++)
		assert_int_equal(target[4 * n], n < 4 ? n + 7 : n);
	run(PREPARE "mov.u32 %r9, s;\ncp.reduce.async.bulk.global.shared::cta.bulk_group.add.u32 [%l2], [%r9], 16;\nret;\n", 1, &fault);
	assert_int_equal(fault.kind, PTX_FAULT_ILLEGAL_ADDRESS);
	run(PREPARE "mov.u32 %r9, s;\ncp.reduce.async.bulk.global.shared::cta.bulk_group.add.u32 [%l1], [%r9], 4096;\nret;\n", 1, &fault);
	assert_int_equal(fault.kind, PTX_FAULT_ILLEGAL_ADDRESS);
}

static void other_copies(void **state)
{
	struct ptx_fault fault;

	(void)state;
	run(PREPARE EXPECT("512") "ld.global.v4.b32 {%r4,%r5,%r6,%r7}, [%l4];\nst.shared.v4.b32 [%r2], {%r4,%r5,%r6,%r7};\n"
		    "st.shared.v4.b32 [%r2+1024], {%r4,%r5,%r6,%r7};\nst.global.v4.b32 [%l5], {0,0,0,0};\nbar.sync 0;\n@%p1 bra $wait;\n"
		    "mov.u32 %r9, s;\ncp.async.bulk.shared::cluster.shared::cta.mbarrier::complete_tx::bytes [%r9], [%r9+1536], 512, [bar];\n"
		    "mov.u16 %h1, 0x80f1;\ncp.async.bulk.global.shared::cta.bulk_group.cp_mask [%l1], [%r9], 1024, %h1;\n$wait:\n"
		    AWAIT "ret;\n", 64, &fault);
	assert_int_equal(fault.kind, PTX_FAULT_NONE);
	for (unsigned n = 0; n < 256; n++) {
		uint32_t value = n + 1 + (n < 128 ? 128 : 0), kept[4] = {0xff, 0xffffffff, 0, 0xff000000};

		assert_int_equal(target[n], value & kept[n % 4]);
	}
	run(PREPARE "mov.u32 %r9, s;\nmov.u16 %h1, 0;\ncp.async.bulk.global.shared::cta.bulk_group.cp_mask [%l2], [%r9], 16, %h1;\n"
		    "ret;\n", 1, &fault);
	assert_int_equal(fault.kind, PTX_FAULT_ILLEGAL_ADDRESS);
}

static void to_blocks(void **state)
{
	struct ptx_fault fault;

	(void)state;
	/* a copy to other blocks only does not arrive here, and signals no barrier */
	run(PREPARE EXPECT("16") "st.shared.v4.b32 [%r2], {0, 0, 0, 0};\nbar.sync 0;\nsetp.gt.u32 %p3, %r1, 1;\n@%p3 bra $wait;\n"
		    "mov.u16 %h1, 6;\nsetp.eq.u32 %p3, %r1, 1;\n@%p3 mov.u16 %h1, 3;\n"
		    "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes.multicast::cluster [%r2], [%l4], 16, [bar], %h1;\n"
		    "$wait:\n" AWAIT GIVE, 64, &fault);
	assert_int_equal(fault.kind, PTX_FAULT_NONE);
	for (unsigned n = 0; n < 64; n++)
		assert_int_equal(target[4 * n], n == 1 ? 5 : 0);
	/* to global memory there is no barrier */
	run(PREPARE "st.async.release.gpu.global.b32 [%l5], %r1;\nst.async.mmio.release.sys.global.b32 [%l5+4], 7;\n"
		    "membar.proxy.alias;\nred.async.release.gpu.global.add.u32 [%l5], 100;\nld.global.u32 %r4, [%l5].unified;\n"
		    "st.global.u32 [%l5+8], %r4;\nret;\n", 64, &fault);
	assert_int_equal(fault.kind, PTX_FAULT_NONE);
	for (unsigned n = 0; n < 64; n++) {
		assert_int_equal(target[4 * n], n + 100);
		assert_int_equal(target[4 * n + 1], 7);
		assert_int_equal(target[4 * n + 2], n + 100);
	}
}

static void remote_stores(void **state)
{
	struct ptx_fault fault;

	(void)state;
	/* each thread stores 16 bytes and adds to one word, with generic addresses in the second case */
	run(PREPARE "st.shared.b32 [s+1024], 5;\n" EXPECT("1280") "st.async.weak.shared::cluster.mbarrier::complete_tx::bytes.v4.b32 [%r2], {%r1, 2, %r3, 4}, [bar];\n"
		    "mov.u64 %l7, s;\ncvta.shared.u64 %l7, %l7;\nmov.u64 %l8, bar;\ncvta.shared.u64 %l8, %l8;\n"
		    "red.async.relaxed.cluster.mbarrier::complete_tx::bytes.add.u32 [%l7+1024], 3, [%l8];\n"
		    AWAIT "ld.shared.b32 %r9, [s+1024];\nst.shared.b32 [%r2+4], %r9;\n" GIVE, 64, &fault);
	assert_int_equal(fault.kind, PTX_FAULT_NONE);
	for (unsigned n = 0; n < 64; n++) {
		assert_int_equal(target[4 * n], n);
		assert_int_equal(target[4 * n + 1], 5 + 64 * 3);
		assert_int_equal(target[4 * n + 2], n * 16);
		assert_int_equal(target[4 * n + 3], 4);
	}
	/* a sum of 64 bits, each thread's own less 2^32 */
	run(PREPARE "st.shared.v2.b32 [%r2], {%r1, 7};\nbar.sync 0;\n" EXPECT("512") "mov.u64 %l7, -4294967296;\n"
		    "red.async.relaxed.cluster.shared::cluster.mbarrier::complete_tx::bytes.add.s64 [%r2], %l7, [bar];\n"
		    AWAIT GIVE, 64, &fault);
	assert_int_equal(fault.kind, PTX_FAULT_NONE);
	for (unsigned n = 0; n < 64; n++) {
		assert_int_equal(target[4 * n], n);
		assert_int_equal(target[4 * n + 1], 6);
	}
	run(PREPARE "st.async.weak.shared::cluster.mbarrier::complete_tx::bytes.b32 [%r2+2], %r1, [bar];\nret;\n", 1, &fault);
	assert_int_equal(fault.kind, PTX_FAULT_MISALIGNED);
	run(PREPARE "st.async.weak.shared::cluster.mbarrier::complete_tx::bytes.b32 [%r2+4096], %r1, [bar];\nret;\n", 1, &fault);
	assert_int_equal(fault.kind, PTX_FAULT_ILLEGAL_ADDRESS);
}

static void fills(void **state)
{
	struct ptx_fault fault;

	(void)state;
	run(PREPARE "st.shared.v4.b32 [%r2], {1, 2, 3, 4};\nbar.sync 0;\nsetp.ne.u32 %p1, %r1, 0;\n@%p1 bra $done;\nmov.u64 %l6, 24;\n"
		    "st.bulk.weak.shared::cta [s+8], %l6, 0;\nmov.u64 %l7, s;\ncvta.shared.u64 %l7, %l7;\nst.bulk [%l7+64], 16, 0;\n"
		    "$done:\nbar.sync 0;\n" GIVE, 64, &fault);
	assert_int_equal(fault.kind, PTX_FAULT_NONE);
	for (unsigned n = 0; n < 256; n++)
		assert_int_equal(target[n], (n >= 2 && n < 8) || (n >= 16 && n < 20) ? 0 : n % 4 + 1);
	run(PREPARE "st.bulk.shared::cta [s+2040], 16, 0;\nst.bulk.shared::cta [s], 1000000000000, 0;\nret;\n", 1, &fault);
	assert_int_equal(fault.kind, PTX_FAULT_ILLEGAL_ADDRESS);
	run(PREPARE "st.bulk.shared::cta [s+4], 16, 0;\nret;\n", 1, &fault);
	assert_int_equal(fault.kind, PTX_FAULT_MISALIGNED);
	/* st.bulk takes the global memory for shared memory, where it is not */
	run(PREPARE "st.bulk [%l1], 16, 0;\nret;\n", 1, &fault);
	assert_int_equal(fault.kind, PTX_FAULT_ILLEGAL_ADDRESS);
}

static void nothing_is_cancelled(void **state)
{
	struct ptx_fault fault;

	(void)state;
	run(PREPARE EXPECT("16") ".reg .b128 %q;\n@%p1 bra $wait;\nst.shared.v4.b32 [s], {1, 2, 3, 4};\n"
		    "clusterlaunchcontrol.try_cancel.async.shared::cta.mbarrier::complete_tx::bytes.b128 [s], [bar];\n$wait:\n" AWAIT
		    "ld.shared.b128 %q, [s];\nclusterlaunchcontrol.query_cancel.is_canceled.pred.b128 %p3, %q;\n"
		    "mov.u32 %r4, 1;\n@%p3 mov.u32 %r4, 2;\n@%p3 clusterlaunchcontrol.query_cancel.get_first_ctaid.v4.b32.b128 "
		    "{%r4, %r5, %r6, _}, %q;\n@%p3 clusterlaunchcontrol.query_cancel.get_first_ctaid::x.b32.b128 %r4, %q;\n"
		    "st.global.b32 [%l5], %r4;\nret;\n", 64, &fault);
	assert_int_equal(fault.kind, PTX_FAULT_NONE);
	for (unsigned n = 0; n < 64; n++)
		assert_int_equal(target[4 * n], 1);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(copies),
		cmocka_unit_test(bulk),
		cmocka_unit_test(barriers),
		cmocka_unit_test(clusters),
		cmocka_unit_test(reductions),
		cmocka_unit_test(other_copies),
		cmocka_unit_test(to_blocks),
		cmocka_unit_test(remote_stores),
		cmocka_unit_test(fills),
		cmocka_unit_test(nothing_is_cancelled),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
