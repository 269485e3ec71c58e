/* SPDX-License-Identifier: Apache-2.0 */
/* Runs of kernels: warps, control flow, waiting, memory faults, cancellation, stacks. */
#include <pthread.h>
#include <unistd.h>

#include "softgpu/test/harness.h"

/* ---- warps ---- */

static void warps(void **state)
{
	(void)state;
	for (unsigned n = 0; n < THREADS; n++)
		in32[2 * n] = n * 3;
	run_binary(HEAD32("shfl.sync.down.b32 %x|%p1, %a, 5, 31, -1;\n@!%p1 mov.u32 %x, 7777;\n"), 32);
	for (unsigned n = 0; n < THREADS; n++)
		assert_int_equal(out32[n], n % 32 + 5 < 32 ? (n + 5) * 3 : 7777);
	/* lanes to read from vary: the general path */
	run_binary(HEAD32("mov.u32 %r2, %laneid;\nmul.lo.s32 %r2, %r2, 7;\nshfl.sync.idx.b32 %x, %a, %r2, 31, -1;\n"),
		   32);
	for (unsigned n = 0; n < THREADS; n++)
		assert_int_equal(out32[n], (n / 32 * 32 + n % 32 * 7 % 32) * 3);
	run_binary(HEAD32("and.b32 %r2, %a, 1;\nsetp.eq.u32 %p1, %r2, 0;\nvote.sync.ballot.b32 %x, %p1, -1;\n"), 32);
	for (unsigned n = 0; n < THREADS; n++)
		assert_int_equal(out32[n], 0x55555555);
	run_binary(HEAD32("and.b32 %r2, %a, 3;\nmatch.any.sync.b32 %x, %r2, -1;\n"), 32);
	for (unsigned n = 0; n < THREADS; n++)
		assert_int_equal(out32[n], 0x11111111u << n % 4);
	run_binary(HEAD32("redux.sync.add.s32 %x, %a, -1;\n"), 32);
	assert_int_equal(out32[0], 31 * 16 * 3);
	/* each lane names its own group */
	run_binary(HEAD32("and.b32 %r2, %a, 3;\nmatch.any.sync.b32 %r3, %r2, -1;\nredux.sync.add.s32 %x, %a, %r3;\n"), 32);
	for (unsigned n = 0; n < THREADS; n++)
		assert_int_equal(out32[n], 3 * 8 * (n / 32 * 32 + n % 4 + 14));
	run_binary(HEAD32("and.b32 %r2, %a, 3;\nmatch.any.sync.b32 %r3, %r2, -1;\nsetp.gt.u32 %p1, %a, 31;\n"
			  "vote.sync.ballot.b32 %x, %p1, %r3;\n"),
		   32);
	for (unsigned n = 0; n < 32; n++)
		assert_int_equal(out32[n], 0x11111111u << n % 4 & 0xfffff800);
	/* in a divergent branch only its own lanes count */
	run_binary(HEAD32("mov.u32 %x, 0;\nand.b32 %r2, %r1, 3;\nsetp.ne.u32 %p1, %r2, 1;\n@%p1 bra $skip;\n"
			  "activemask.b32 %x;\n$skip:\n"),
		   32);
	for (unsigned n = 0; n < THREADS; n++)
		assert_int_equal(out32[n], n % 4 == 1 ? 0x22222222 : 0);
}

/* PTX leaves open what shfl reads from a lane that does not take part: an H200 gives 0. */
static void shuffle_from_inactive_lanes(void **state)
{
	(void)state;
	for (unsigned n = 0; n < THREADS; n++)
		in32[2 * n] = n + 100;
	run_binary(HEAD32("mov.u32 %x, 7777;\nmov.u32 %r3, %laneid;\nsetp.gt.u32 %p1, %r3, 7;\n@%p1 bra $skip;\n"
			  "shfl.sync.down.b32 %x, %a, 4, 31, 255;\n$skip:\n"),
		   32);
	for (unsigned n = 0; n < THREADS; n++)
		assert_int_equal(out32[n], n % 32 > 7 ? 7777 : n % 32 < 4 ? n + 104 : 0);
	/* the general path: the source is not known when the kernel is compiled */
	run_binary(HEAD32("mov.u32 %x, 7777;\nmov.u32 %r3, %laneid;\nsetp.gt.u32 %p1, %r3, 7;\n@%p1 bra $skip;\n"
			  "mul.lo.u32 %r4, %r3, 2;\nshfl.sync.idx.b32 %x, %a, %r4, 31, 255;\n$skip:\n"),
		   32);
	for (unsigned n = 0; n < THREADS; n++)
		assert_int_equal(out32[n], n % 32 > 7 ? 7777 : n % 32 < 4 ? n / 32 * 32 + n % 32 * 2 + 100 : 0);
}

/* The register is below the space's start, and the immediate brings it back (nvcc does so in Rodinia's nw). */
static void shared_addresses_wrap(void **state)
{
	(void)state;
	for (unsigned n = 0; n < THREADS; n++)
		in32[2 * n] = n * 5;
	run_binary(HEAD32(".shared .align 4 .b8 buf[4096];\nmov.u32 %r2, buf;\nshl.b32 %r3, %r1, 2;\nadd.s32 %r4, %r2, %r3;\n"
			  "st.shared.u32 [%r4], %a;\nbar.sync 0;\nsub.s32 %r5, %r4, 64;\nld.shared.u32 %x, [%r5+64];\n"),
		   32);
	for (unsigned n = 0; n < THREADS; n++)
		assert_int_equal(out32[n], n * 5);
}

/* Collatz: lanes leave the loop at different times, and the count is live out of it. */
static uint32_t w_collatz(uint32_t a, uint32_t b)
{
	uint32_t n = (a & 1023) + 1, steps = 0;

	(void)b;
	for (; n != 1; steps++)
		n = n & 1 ? 3 * n + 1 : n / 2;
	return steps * 1000 + n;
}

static void divergence(void **state)
{
	(void)state;
	check32("collatz",
		HEAD32("and.b32 %r2, %a, 1023;\nadd.s32 %r2, %r2, 1;\nmov.u32 %r3, 0;\n"
		       "$loop:\nsetp.eq.u32 %p1, %r2, 1;\n@%p1 bra $done;\nand.b32 %r4, %r2, 1;\n"
		       "setp.eq.u32 %p2, %r4, 0;\nadd.s32 %r3, %r3, 1;\n@%p2 bra $even;\n"
		       "mad.lo.s32 %r2, %r2, 3, 1;\nbra.uni $loop;\n$even:\nshr.u32 %r2, %r2, 1;\nbra.uni $loop;\n"
		       "$done:\nmad.lo.s32 %x, %r3, 1000, %r2;\n"),
		w_collatz);
}

static void uniform_loop_in_branch(void **state)
{
	(void)state;
	for (unsigned n = 0; n < THREADS; n++)
		in32[2 * n] = n;
	run_binary(HEAD32("mov.u32 %x, 0;\nsetp.gt.u32 %p1, %a, 20;\n@%p1 bra $end;\nmov.u32 %r3, 0;\n$loop:\n"
			  "add.s32 %x, %x, %a;\nadd.s32 %r3, %r3, 1;\nsetp.lt.u32 %p2, %r3, 10;\n@%p2 bra "
			  "$loop;\n$end:\n"),
		   32);
	for (unsigned n = 0; n < THREADS; n++)
		assert_int_equal(out32[n], n > 20 ? 0 : n * 10);
}

/* tid - 1 wraps in lane 0: the address must not be taken for base + 4 * lane */
/*
 * A register that is the same in all lanes while they run together: lanes that leave the loop earlier than others keep
 * their own value, and what is alike again afterwards may be so with other values than before.
 */
static void shapes_that_part(void **state)
{
	(void)state;
	for (unsigned n = 0; n < THREADS; n++)
		in32[2 * n] = n < 32 ? n % 3 + 1 : 5; /* rounds: the second warp stays together */
	for (unsigned n = 0; n < THREADS; n++)
		in32[2 * n + 1] = n;
	run_binary(HEAD32("mov.u32 %r2, 0;\nmov.u32 %r3, 10;\nmov.u32 %r4, %laneid;\n$again:\nadd.u32 %r2, %r2, 1;\n"
			  "add.u32 %r3, %r3, 7;\nadd.u32 %r4, %r4, 100;\nsetp.lt.u32 %p1, %r2, %a;\n@%p1 bra $again;\n"
			  "mad.lo.u32 %x, %r3, 10000, %r4;\n"),
		   32);
	for (unsigned n = 0; n < THREADS; n++)
		assert_int_equal(out32[n], (10 + 7 * in32[2 * n]) * 10000 + n % 32 + 100 * in32[2 * n]);
	/* met again with one value: half of the lanes go round once more to get there */
	run_binary(HEAD32("mov.u32 %r2, %laneid;\nand.b32 %r3, %b, 1;\n$again:\nadd.u32 %r2, %r2, 1;\nadd.u32 %r3, %r3, 1;\n"
			  "setp.lt.u32 %p1, %r3, 4;\n@%p1 bra $again;\nsub.u32 %x, %r2, %b;\nadd.u32 %x, %x, %r3;\n"),
		   32);
	for (unsigned n = 0; n < THREADS; n++)
		assert_int_equal(out32[n], n % 32 + 4 - n % 2 - n + 4);
}

static void widening_wraps(void **state)
{
	(void)state;
	for (unsigned n = 0; n < 2 * THREADS; n++)
		in32[n] = n + 1;
	run_binary(PTX_BINARY_32(
			   "add.s64 %l3, %l1, %l3;\nadd.s32 %r2, %r1, -1;\nmul.wide.u32 %l4, %r2, 4;\nadd.s64 %l4, "
			   "%l2, %l4;\n"
			   "mov.u32 %x, 0;\nsetp.eq.u32 %p1, %r1, 0;\n@%p1 bra $no;\nld.global.u32 %x, [%l4];\n$no:\n"
			   "st.global.u32 [%l3], %x;\nret;\n"),
		   32);
	for (unsigned n = 0; n < THREADS; n++)
		assert_int_equal(out32[n], n);
}

static void barriers_and_calls(void **state)
{
	static const uint32_t shapes[] = {32, 64, 256, 1024, 16, 8};
	struct ptx_fault fault;
	uint32_t out;
	void *params[1] = {&out};

	(void)state;
	for (unsigned s = 0; s < sizeof(shapes) / sizeof(shapes[0]); s++) {
		struct ptx_module *m;
		uint32_t want = 0;

		map.count = 0;
		add_range(&out, sizeof(out), true);
		m = load(sample_block_sum);
		for (uint32_t n = 0; n < shapes[s]; n++)
			want += n + n % 4 + 1;
		out = 0;
		if (!launch(m, 1, shapes[s], 1, 0, params, &fault))
			fail_msg("fault %d at line %u", fault.kind, fault.line);
		assert_int_equal(out, want);
		ptx_module_destroy(m);
	}
}

static void atomics(void **state)
{
	(void)state;
	memset(out32, 0, sizeof(out32));
	for (unsigned n = 0; n < 2 * THREADS; n++)
		in32[n] = n;
	run_binary(PTX_BINARY_32(
			   "red.global.add.u32 [%l1], 2;\natom.global.max.s32 %r2, [%l1+4], %r1;\n"
			   "atom.global.inc.u32 %r2, [%l1+8], 9;\natom.global.cas.b32 %r2, [%l1+12], 0, 5;\n"
			   "atom.global.add.f32 %f1, [%l1+16], 0f3F800000;\nred.global.or.b32 [%l1+20], %r1;\nret;\n"),
		   32);
	assert_int_equal(out32[0], 2 * THREADS);
	assert_int_equal(out32[1], THREADS - 1);
	assert_int_equal(out32[2], THREADS % 10);
	assert_int_equal(out32[3], 5);
	assert_true(f32(out32[4]) == THREADS);
	assert_int_equal(out32[5], THREADS - 1);
}

static void prints(void **state)
{
	static const char text[] = PTX_HEAD
		".extern .func (.param .b32 r) vprintf (.param .b64 a, .param .b64 b);\n"
		".global .align 1 .b8 f[12] = {104, 105, 32, 37, 100, 32, 37, 46, 49, 102, 10};\n"
		".visible .entry k(.param .u32 n)\n{\n.local .align 8 .b8 d[16];\n.reg .b32 %r<4>;\n.reg .b64 %l<8>;\n"
		"mov.u64 %l1, d;\ncvta.local.u64 %l2, %l1;\nld.param.u32 %r1, [n];\nst.local.u32 [%l1], %r1;\n"
		"mov.u64 %l5, 0x4004000000000000;\nst.local.u64 [%l1+8], %l5;\nmov.u64 %l3, f;\ncvta.global.u64 %l4, "
		"%l3;\n"
		"{\n.param .b64 p0;\nst.param.b64 [p0], %l4;\n.param .b64 p1;\nst.param.b64 [p1], %l2;\n.param .b32 "
		"q;\n"
		"call.uni (q), vprintf, (p0, p1);\nld.param.b32 %r2, [q];\n}\nret;\n}\n";
	struct ptx_module *m;
	struct ptx_fault fault;
	uint32_t n = 42;

	(void)state;
	map.count = 0;
	m = load(text);
	printed_length = 0;
	assert_true(launch(m, 1, 2, 1, 0, &n, &fault));
	assert_string_equal(printed, "hi 42 2.5\nhi 42 2.5\n");
	ptx_module_destroy(m);
}

/* ---- faults ---- */

static void fault_of(const char *text, struct ptx_fault *fault)
{
	struct ptx_module *m;
	void *params[2] = {out32, in32};

	map.count = 0;
	add_range(out32, sizeof(out32), true);
	add_range(in32, sizeof(in32), false);
	m = load(text);
	assert_false(launch(m, 1, THREADS, 1, 0, params, fault));
	ptx_module_destroy(m);
}

static void faults(void **state)
{
	struct ptx_fault f;

	(void)state;
	fault_of(PTX_BINARY_32("add.s64 %l3, %l1, %l3;\nst.global.u32 [%l3+4], %r1;\nret;\n"), &f);
	assert_int_equal(f.kind, PTX_FAULT_ILLEGAL_ADDRESS);
	assert_int_equal(f.address, (uintptr_t)(out32 + THREADS));
	assert_int_equal(f.thread[0], THREADS - 1);
	assert_true(f.write);
	fault_of(PTX_BINARY_32("mov.u64 %l4, 0;\nld.global.u32 %x, [%l4];\nret;\n"), &f);
	assert_int_equal(f.kind, PTX_FAULT_ILLEGAL_ADDRESS);
	fault_of(PTX_BINARY_32("add.s64 %l3, %l1, %l3;\nld.global.u32 %x, [%l3+2];\nst.global.u32 [%l3], %x;\nret;\n"),
		 &f);
	assert_int_equal(f.kind, PTX_FAULT_MISALIGNED);
	fault_of(PTX_BINARY_32("add.s64 %l3, %l2, %l3;\nst.global.u32 [%l3], %r1;\nret;\n"), &f);
	assert_int_equal(f.kind, PTX_FAULT_ILLEGAL_ADDRESS);
	fault_of(PTX_BINARY_32(".shared .b32 s[16];\nshl.b32 %r2, %r1, 2;\nmov.u32 %r3, s;\nadd.s32 %r3, %r3, %r2;\n"
			       "st.shared.u32 [%r3], %r1;\nret;\n"),
		 &f);
	assert_int_equal(f.kind, PTX_FAULT_ILLEGAL_ADDRESS);
	assert_string_equal(f.space, "shared");
	assert_int_equal(f.thread[0], 16);
	fault_of(PTX_BINARY_32("mul.lo.s32 %r2, %r1, %r1;\nmul.wide.u32 %l4, %r2, 64;\nadd.s64 %l4, %l1, %l4;\n"
			       "st.global.u32 [%l4], %r1;\nret;\n"),
		 &f);
	assert_int_equal(f.kind, PTX_FAULT_ILLEGAL_ADDRESS);
	assert_int_equal(f.thread[0], 2);
	fault_of(PTX_BINARY_32("setp.eq.u32 %p1, %r1, 33;\n@%p1 trap;\nret;\n"), &f);
	assert_int_equal(f.kind, PTX_FAULT_TRAP);
	assert_int_equal(f.thread[0], 33);
	fault_of(PTX_BINARY_32("setp.eq.u32 %p1, %r1, 33;\nbar.sync 1, 96;\nret;\n"), &f);
	assert_int_equal(f.kind, PTX_FAULT_BARRIER);
}

static void cancelled(void **state)
{
	volatile bool stop = true;
	struct ptx_error error;
	struct ptx_fault fault;
	uint32_t block[3] = {32, 1, 1};
	struct ptx_module *m = load(PTX_HEAD ".visible .entry k()\n{\n$l:\nbra $l;\n}\n");
	struct ptx_launch l = {.grid = {1, 1, 1}, .block = {32, 1, 1}, .memory = &map, .cancel = &stop, .params = ""};

	(void)state;
	assert_int_equal(ptx_kernel_prepare(ptx_module_kernel(m, 0), block, &l.binary, &error), PTX_OK);
	assert_false(ptx_run_blocks(&l, 0, 1, &fault));
	assert_int_equal(fault.kind, PTX_FAULT_CANCELLED);
	ptx_module_destroy(m);
}

/* ---- waiting ---- */

/* A lock that lanes of one warp take in turn: who has it must go on while the others try. */
static void lock_in_warp(void **state)
{
	(void)state;
	memset(out32, 0, sizeof(out32));
	run_binary(PTX_BINARY_32("$try:\natom.global.cas.b32 %r2, [%l1], 0, 1;\nsetp.ne.u32 %p1, %r2, 0;\n"
				 "@%p1 bra $try;\n"
				 "ld.volatile.global.u32 %r3, [%l1+4];\nadd.s32 %r3, %r3, 1;\n"
				 "st.volatile.global.u32 [%l1+4], %r3;\natom.global.exch.b32 %r2, [%l1], 0;\nret;\n"),
		   32);
	assert_int_equal(out32[0], 0);
	assert_int_equal(out32[1], THREADS);
}

/* Each lane waits for the one above; a register that is uniform before and after changes hands. */
static void flags_in_warp(void **state)
{
	(void)state;
	memset(out32, 0, sizeof(out32));
	run_binary(PTX_BINARY_32("add.s64 %l3, %l1, %l3;\nmov.u32 %r5, 3;\nand.b32 %r2, %r1, 31;\n"
				 "setp.eq.u32 %p1, %r2, 31;\n@%p1 bra $go;\n"
				 "$wait:\nld.acquire.gpu.global.u32 %r3, [%l3+4];\nsetp.eq.u32 %p2, %r3, 0;\n"
				 "add.s32 %r6, %r5, 1;\n@%p2 bra $wait;\nmov.u32 %r2, %r6;\n"
				 "$go:\nmov.u32 %r5, 5;\nadd.s32 %r4, %r2, %r5;\n"
				 "st.release.gpu.global.u32 [%l3], %r4;\nret;\n"),
		   32);
	for (unsigned n = 0; n < THREADS; n++)
		assert_int_equal(out32[n], n % 32 == 31 ? 36 : 9);
}

static bool stop;

static void *stop_soon(void *data)
{
	usleep(50000);
	__atomic_store_n(&stop, true, __ATOMIC_RELAXED);
	return data;
}

static void cancel_one(const char *body, uint32_t threads)
{
	char text[2048];
	struct ptx_error error;
	struct ptx_fault fault;
	struct ptx_module *m;
	void *params[2] = {out32, in32};
	struct ptx_launch l = {
		.grid = {1, 1, 1}, .block = {threads, 1, 1}, .memory = &map, .cancel = &stop, .params = params};
	pthread_t thread;

	snprintf(text, sizeof(text), "%s%s}\n", REGISTERS, body);
	m = load_binary(text, 32);
	memset(out32, 0, sizeof(out32));
	if (ptx_kernel_prepare(ptx_module_kernel(m, 0), l.block, &l.binary, &error) != PTX_OK)
		fail_msg("line %u: %s", error.line, error.text);
	__atomic_store_n(&stop, false, __ATOMIC_RELAXED);
	assert_int_equal(pthread_create(&thread, NULL, stop_soon, NULL), 0);
	assert_false(ptx_run_blocks(&l, 0, 1, &fault));
	assert_int_equal(fault.kind, PTX_FAULT_CANCELLED);
	pthread_join(thread, NULL);
	ptx_module_destroy(m);
}

static void endless_loops(void **state)
{
	(void)state;
	cancel_one("$l:\nbra $l;\n", 32);
	cancel_one("$l:\nbra $l;\n", 1);
	/* only one lane stays */
	cancel_one("setp.ne.u32 %p1, %r1, 7;\n@%p1 bra $e;\n$l:\nbra $l;\n$e:\nret;\n", 64);
	/* a flag that is never set, with the rest of the block behind a barrier */
	cancel_one("setp.ne.u32 %p1, %r1, 7;\n@%p1 bra $e;\n$l:\nld.volatile.global.u32 %r2, [%l1];\n"
		   "setp.eq.u32 %p2, %r2, 0;\n@%p2 bra $l;\n$e:\nbar.sync 0;\nret;\n",
		   256);
	cancel_one("$l:\natom.global.cas.b32 %r2, [%l1], 1, 1;\nsetp.eq.u32 %p2, %r2, 0;\n@%p2 bra $l;\nret;\n", 96);
	cancel_one("$l:\nbar.sync 0;\nbra $l;\n", 128);
	cancel_one("$l:\nnanosleep.u32 100;\nbra $l;\n", 32);
	/* entered in the middle */
	cancel_one("setp.ne.u32 %p1, %r1, 7;\n@%p1 bra $b;\n$a:\nadd.s32 %r2, %r2, 1;\n$b:\nadd.s32 %r3, %r3, 1;\n"
		   "bra $a;\n",
		   32);
}

/* ---- stacks ---- */

/* Hundreds of values that are all live across a barrier, and across a branch that diverges. */
static void many_registers(void **state)
{
	enum { COUNT = 500 };
	char *text = malloc(COUNT * 160 + 4096), *at = text;
	struct ptx_fault fault;
	struct ptx_module *m;
	void *params[2] = {out32, in32};

	(void)state;
	at += sprintf(at, "%s.reg .b32 %%v<%u>;\nshl.b32 %%r2, %%r1, 2;\ncvt.u64.u32 %%l3, %%r2;\n", REGISTERS, COUNT);
	for (unsigned n = 0; n < COUNT; n++)
		at += sprintf(at, "mad.lo.s32 %%v%u, %%r1, %%r1, %u;\n", n, n);
	at += sprintf(at, "bar.sync 0;\nand.b32 %%r3, %%r1, 1;\nsetp.eq.u32 %%p1, %%r3, 0;\n@%%p1 bra $even;\n");
	for (unsigned n = 0; n < COUNT; n++)
		at += sprintf(at, "mul.lo.s32 %%v%u, %%v%u, %%v%u;\n", n, n, (n + 1) % COUNT);
	at += sprintf(at, "$even:\nmov.u32 %%r4, 0;\n");
	for (unsigned n = 0; n < COUNT; n++)
		at += sprintf(at, "xor.b32 %%r4, %%r4, %%v%u;\nadd.s32 %%r4, %%r4, %%r4;\n", n);
	sprintf(at, "add.s64 %%l3, %%l1, %%l3;\nst.global.u32 [%%l3], %%r4;\nret;\n}\n");
	m = load_binary(text, 32);
	if (!launch(m, 1, THREADS, 1, 0, params, &fault))
		fail_msg("fault %d at line %u", fault.kind, fault.line);
	for (uint32_t t = 0; t < THREADS; t++) {
		uint32_t v[COUNT], sum = 0;

		for (uint32_t n = 0; n < COUNT; n++)
			v[n] = t * t + n;
		for (uint32_t n = 0; n < COUNT && t & 1; n++)
			v[n] *= v[(n + 1) % COUNT];
		for (uint32_t n = 0; n < COUNT; n++)
			sum = (sum ^ v[n]) * 2;
		assert_int_equal(out32[t], sum);
	}
	ptx_module_destroy(m);
	free(text);
}

static void local_memory(void **state)
{
	struct ptx_module *m;
	struct ptx_error error;
	const struct ptx_binary *binary;
	uint32_t block[3] = {THREADS, 1, 1};

	(void)state;
	for (unsigned n = 0; n < 2 * THREADS; n++)
		in32[n] = n;
	/* nearly all that a thread may have, used at both ends */
	run_binary(HEAD32(".local .align 4 .b8 big[500000];\nst.local.u32 [big], %r1;\nst.local.u32 [big+499996], %a;\n"
			  "ld.local.u32 %r2, [big];\nld.local.u32 %r3, [big+499996];\nadd.s32 %x, %r2, %r3;\n"),
		   32);
	for (unsigned n = 0; n < THREADS; n++)
		assert_int_equal(out32[n], 3 * n);
	m = load(PTX_BINARY_32(".local .align 4 .b8 big[600000];\nst.local.u32 [big], %r1;\nret;\n"));
	assert_int_equal(ptx_kernel_prepare(ptx_module_kernel(m, 0), block, &binary, &error), PTX_NOT_SUPPORTED);
	assert_non_null(strstr(error.text, "local memory"));
	ptx_module_destroy(m);
}

/* ---- memory accesses whose addresses the compiler cannot know ---- */

/* out[y * stride + x] = in[y * stride + x], the stride read from memory, in rows of 16 and of 8 threads */
static const char rows_text[] = REGISTERS
	"mov.u32 %r2, %tid.y;\nld.global.u32 %r3, [%l2];\nmad.lo.s32 %r4, %r2, %r3, %r1;\nmul.wide.s32 %l3, %r4, 4;\n"
	"add.s64 %l4, %l2, %l3;\nld.global.u32 %r5, [%l4+4];\nadd.s64 %l4, %l1, %l3;\nst.global.u32 [%l4], %r5;\n"
	"ret;\n}\n";

static bool run_rows(uint32_t x, uint32_t y, uint32_t stride, struct ptx_fault *fault)
{
	void *params[2] = {out32, in32};
	struct ptx_module *m = load_binary(rows_text, 32);
	bool ok;

	for (unsigned n = 0; n < 2 * THREADS; n++)
		in32[n] = n * 3 + 1;
	in32[0] = stride;
	memset(out32, 0, sizeof(out32));
	ok = launch(m, 1, x, y, 0, params, fault) && launch(m, 1, x, y, 0, params, fault);
	ptx_module_destroy(m);
	return ok;
}

static void rows(void **state)
{
	static const uint32_t sizes[][3] = {{16, 2, 16}, {16, 2, 20}, {16, 4, 16}, {8, 4, 16}, {8, 8, 8}, {16, 3, 17},
					    {8, 4, 0},   {4, 8, 8}};
	struct ptx_fault fault;

	(void)state;
	for (unsigned k = 0; k < sizeof(sizes) / sizeof(sizes[0]); k++) {
		uint32_t x = sizes[k][0], y = sizes[k][1], stride = sizes[k][2];

		if (!run_rows(x, y, stride, &fault))
			fail_msg("%u x %u: fault %d", x, y, fault.kind);
		for (uint32_t n = 0; n < x * y; n++) {
			uint32_t at = n / x * stride + n % x;

			assert_int_equal(out32[at], (at + 1) * 3 + 1);
		}
	}
	assert_false(run_rows(16, 2, THREADS - 15, &fault));
	assert_int_equal(fault.kind, PTX_FAULT_ILLEGAL_ADDRESS);
	assert_int_equal(fault.thread[0], 15);
	assert_int_equal(fault.thread[1], 1);
	assert_true(fault.write);
}

/* Rows of a sparse matrix: a kernel that is run one thread at a time. */
static void sparse_rows(void **state)
{
	static const char text[] = REGISTERS
		"mul.wide.u32 %l3, %r1, 4;\nadd.s64 %l4, %l2, %l3;\nld.global.u32 %r2, [%l4];\nmov.u32 %r3, 0;\n"
		"setp.eq.u32 %p1, %r2, 0;\n@%p1 bra $done;\n"
		"$next:\nmul.wide.u32 %l5, %r2, 4;\nadd.s64 %l5, %l2, %l5;\nld.global.u32 %r2, [%l5];\n"
		"add.s32 %r3, %r3, 1;\nsetp.ne.u32 %p1, %r2, 0;\n@%p1 bra $next;\n"
		"$done:\nadd.s64 %l3, %l1, %l3;\nst.global.u32 [%l3], %r3;\nret;\n}\n";
	struct ptx_fault fault;
	void *params[2] = {out32, in32};
	struct ptx_module *m = load_binary(text, 32);

	(void)state;
	/* a chain: every element names the next, half as far */
	for (unsigned n = 0; n < 2 * THREADS; n++)
		in32[n] = n / 2;
	assert_true(launch(m, 1, THREADS, 1, 0, params, &fault));
	for (unsigned n = 0; n < THREADS; n++)
		assert_int_equal(out32[n], n ? 31 - __builtin_clz(n) : 0);
	in32[5] = 2 * THREADS;
	assert_false(launch(m, 1, THREADS, 1, 0, params, &fault));
	assert_int_equal(fault.kind, PTX_FAULT_ILLEGAL_ADDRESS);
	assert_int_equal(fault.thread[0], 5);
	ptx_module_destroy(m);
}

/*
 * Addresses without a shape, with and without lanes that do not take part, whose addresses are bad. The first round
 * finds the range, the others use what it found.
 */
#define GATHERS(first, bad)                                                                                            \
	PTX_BINARY_32(".shared .b32 s[64];\nadd.s64 %l3, %l1, %l3;\nmov.u32 %r2, 0;\nmov.u32 %x, 0;\n"                  \
		      "shl.b32 %r9, %r1, 2;\nmov.u32 %r8, s;\nadd.u32 %r9, %r8, %r9;\nst.shared.u32 [%r9], %r1;\n"    \
		      "bar.sync 0;\n$again:\nmul.lo.u32 %r3, %r1, %r1;\nmad.lo.u32 %r3, %r2, 13, %r3;\n"              \
		      "and.b32 %r4, %r3, 127;\nmul.wide.u32 %l4, %r4, 4;\nadd.s64 %l4, %l2, %l4;\n"                    \
		      "mov.u32 %r5, 0;\nmov.u32 %r7, 0;\n" first bad "ld.global.u32 %r5, [%l4];\nand.b32 %r6, %r3, 63;\n"   \
		      "shl.b32 %r6, %r6, 2;\nadd.u32 %r6, %r8, %r6;\nld.shared.u32 %r7, [%r6];\n$skip:\n"             \
		      "add.u32 %x, %x, %r5;\nmad.lo.u32 %x, %r7, 1000, %x;\nadd.u32 %r2, %r2, 1;\n"                    \
		      "setp.lt.u32 %p1, %r2, 4;\n@%p1 bra $again;\nst.global.u32 [%l3], %x;\nret;\n")
#define ODD_ROUND_2 "and.b32 %r10, %r1, 31;\nsetp.eq.u32 %p2, %r10, 9;\nsetp.eq.and.u32 %p2, %r2, 2, %p2;\n"

static void gathers(void **state)
{
	struct ptx_fault f;

	(void)state;
	for (unsigned pass = 0; pass < 2; pass++) {
		for (unsigned n = 0; n < 2 * THREADS; n++)
			in32[n] = n * 3 + 1;
		if (pass)
			run_binary(GATHERS(ODD_ROUND_2 "@%p2 mov.u64 %l4, 12345;\n@%p2 bra $skip;\n", ""), 32);
		else
			run_binary(GATHERS("", ""), 32);
		for (unsigned n = 0; n < THREADS; n++) {
			uint32_t want = 0;

			for (unsigned k = 0; k < 4; k++)
				if (!pass || k != 2 || n % 32 != 9)
					want += (n * n + 13 * k) % 128 * 3 + 1 + (n * n + 13 * k) % 64 * 1000;
			assert_int_equal(out32[n], want);
		}
	}
	fault_of(GATHERS("", ODD_ROUND_2 "@%p2 add.s64 %l4, %l4, 2;\n"), &f);
	assert_int_equal(f.kind, PTX_FAULT_MISALIGNED);
	assert_int_equal(f.thread[0] % 32, 9);
	fault_of(GATHERS("", ODD_ROUND_2 "@%p2 add.s64 %l4, %l2, 512;\n"), &f);
	assert_int_equal(f.kind, PTX_FAULT_ILLEGAL_ADDRESS);
	assert_int_equal(f.address, (uintptr_t)(in32 + 128));
	assert_int_equal(f.thread[0] % 32, 9);
	fault_of(GATHERS("", ODD_ROUND_2 "@%p2 mov.u32 %r3, 63;\n@%p2 add.u32 %r8, %r8, 4;\n"), &f);
	assert_int_equal(f.kind, PTX_FAULT_ILLEGAL_ADDRESS);
	assert_string_equal(f.space, "shared");
	assert_int_equal(f.thread[0] % 32, 9);
}

/*
 * The first thread's load calls the runtime. LLVM has the words of both stores in one vector register across that call.
 */
static void registers_of_seldom_calls(void **state)
{
	struct ptx_module *m = load_binary(
		PTX_BINARY_32(".local .align 16 .b8 stack[32];\nmov.u64 %l4, stack;\n"
			      "st.local.v4.b32 [%l4], {1, 2, 3, 4};\nst.local.v4.b32 [%l4+16], {5, 6, 7, 8};\n"
			      "cvta.local.u64 %l4, %l4;\nld.u32 %x, [%l4+16];\nadd.s64 %l3, %l1, %l3;\n"
			      "st.global.u32 [%l3], %x;\nret;\n"),
		32);
	void *params[2] = {out32, in32};
	struct ptx_fault fault;

	(void)state;
	assert_true(launch(m, 1, 4, 1, 0, params, &fault));
	for (unsigned n = 0; n < 4; n++)
		assert_int_equal(out32[n], 5);
	ptx_module_destroy(m);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(registers_of_seldom_calls),
		cmocka_unit_test(warps),
		cmocka_unit_test(shuffle_from_inactive_lanes),
		cmocka_unit_test(shared_addresses_wrap),
		cmocka_unit_test(divergence),
		cmocka_unit_test(uniform_loop_in_branch),
		cmocka_unit_test(shapes_that_part),
		cmocka_unit_test(widening_wraps),
		cmocka_unit_test(barriers_and_calls),
		cmocka_unit_test(atomics),
		cmocka_unit_test(prints),
		cmocka_unit_test(faults),
		cmocka_unit_test(cancelled),
		cmocka_unit_test(lock_in_warp),
		cmocka_unit_test(flags_in_warp),
		cmocka_unit_test(endless_loops),
		cmocka_unit_test(many_registers),
		cmocka_unit_test(local_memory),
		cmocka_unit_test(rows),
		cmocka_unit_test(sparse_rows),
		cmocka_unit_test(gathers),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
