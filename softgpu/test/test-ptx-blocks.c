/* SPDX-License-Identifier: Apache-2.0 */
/* Blocks that run one after the other in one call, and warps that take turns. */
#include "softgpu/test/harness.h"

#include <pthread.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#define PARAMS                                                                                                         \
	".visible .entry k(.param .u64 p0, .param .u64 p1)\n{\n.reg .pred %p<8>;\n.reg .b32 %r<32>;\n.reg .b64 "       \
	"%l<16>;\n"                                                                                                    \
	"ld.param.u64 %l1, [p0];\nld.param.u64 %l2, [p1];\n"
/* %r9: the block's number; %l3: where the thread's word of `out` is */
#define PLACE                                                                                                          \
	"mov.u32 %r1, %tid.x;\nmov.u32 %r2, %ctaid.x;\nmov.u32 %r3, %ctaid.y;\nmov.u32 %r4, %ctaid.z;\n"               \
	"mov.u32 %r5, %nctaid.x;\nmov.u32 %r6, %nctaid.y;\nmov.u32 %r7, %ntid.x;\nmad.lo.u32 %r8, %r4, %r6, %r3;\n"    \
	"mad.lo.u32 %r9, %r8, %r5, %r2;\nmad.lo.u32 %r10, %r9, %r7, %r1;\nmul.wide.u32 %l3, %r10, 4;\n"                \
	"add.s64 %l3, %l1, %l3;\nshl.b32 %r11, %r3, 8;\nshl.b32 %r12, %r4, 16;\nadd.u32 %r13, %r2, %r11;\n"            \
	"add.u32 %r13, %r13, %r12;\n"
#define WAIT "bar.sync 0;\n"

#define BLOCKS 12
#define MOST 64

static uint32_t out[BLOCKS * MOST];
static volatile bool stop[64];

static bool run(const char *text, uint32_t threads, uint64_t first, uint64_t count, struct ptx_fault *fault)
{
	const void *params[2] = {out, (const void *)(uintptr_t)stop};
	struct ptx_launch l = {
		.grid = {3, 2, 2}, .block = {threads, 1, 1}, .params = params, .memory = &map, .cancel = stop};
	struct ptx_error error;
	struct ptx_module *m;
	bool ok;

	map.count = 0;
	add_range(out, sizeof(out), true);
	add_range((void *)(uintptr_t)stop, sizeof(stop), true);
	memset(out, 0xff, sizeof(out));
	stop[0] = false;
	m = load(text);
	if (ptx_kernel_prepare(ptx_module_kernel(m, 0), l.block, &l.binary, &error) != PTX_OK)
		fail_msg("line %u: %s", error.line, error.text);
	ok = ptx_run_blocks(&l, first, count, fault);
	ptx_module_destroy(m);
	return ok;
}

static void expect(uint32_t threads, uint64_t from, uint64_t to)
{
	for (uint64_t b = 0; b < BLOCKS; b++)
		for (uint64_t t = 0; t < threads; t++)
			assert_int_equal(out[b * threads + t],
					 b >= from && b < to ? b % 3 + b / 3 % 2 * 256 + b / 6 * 65536 : UINT32_MAX);
}

/* One lane, whole warps, a warp in parts, with and without barriers. */
static const uint32_t sizes[] = {4, 32, 40, 64};

/* All, the last, one that has others after it in its row, and some that begin and end in the middle of rows. */
static const uint64_t parts[][2] = {{0, BLOCKS}, {BLOCKS - 1, BLOCKS}, {3, 4}, {1, 8}};

static void in_order(void **state)
{
	struct ptx_fault fault;

	(void)state;
	for (size_t n = 0; n < sizeof(sizes) / sizeof(*sizes); n++)
		for (size_t k = 0; k < sizeof(parts) / sizeof(*parts); k++) {
			uint64_t first = parts[k][0], end = parts[k][1];

			assert_true(run(PTX_HEAD PARAMS PLACE "st.global.u32 [%l3], %r13;\nret;\n}\n", sizes[n], first,
					end - first, &fault));
			assert_int_equal(fault.kind, PTX_FAULT_NONE);
			expect(sizes[n], first, end);
			assert_true(run(PTX_HEAD PARAMS PLACE WAIT "st.global.u32 [%l3], %r13;\nret;\n}\n", sizes[n],
					first, end - first, &fault));
			expect(sizes[n], first, end);
		}
}

/* Block 4 faults, before it writes: no later one runs, not even in its row. */
#define FAULT                                                                                                          \
	"setp.eq.u32 %p1, %r9, 4;\n@!%p1 bra $good;\nmov.u64 %l4, 0;\nld.global.u32 %r13, [%l4];\n$good:\n"            \
	"st.global.u32 [%l3], %r13;\nret;\n}\n"

static void ends_with_fault(void **state)
{
	struct ptx_fault fault;

	(void)state;
	for (size_t n = 0; n < sizeof(sizes) / sizeof(*sizes); n++)
		for (int wait = 0; wait < 2; wait++) {
			assert_false(run(wait ? PTX_HEAD PARAMS PLACE WAIT FAULT : PTX_HEAD PARAMS PLACE FAULT,
					 sizes[n], 0, BLOCKS, &fault));
			assert_int_equal(fault.kind, PTX_FAULT_ILLEGAL_ADDRESS);
			assert_int_equal(fault.block[0], 1);
			assert_int_equal(fault.block[1], 1);
			assert_int_equal(fault.block[2], 0);
			expect(sizes[n], 0, 4);
			/* the state after a fault does no harm */
			assert_true(run(PTX_HEAD PARAMS PLACE "st.global.u32 [%l3], %r13;\nret;\n}\n", sizes[n], 0, BLOCKS,
					&fault));
			expect(sizes[n], 0, BLOCKS);
		}
}

/* Block 4 cancels the launch: it ends itself, and no later one runs, not even in its row. */
#define CANCEL                                                                                                         \
	"setp.eq.u32 %p1, %r9, 4;\n@!%p1 bra $good;\nmov.u32 %r14, 1;\nst.global.u8 [%l2], %r14;\n$good:\n"            \
	"st.global.u32 [%l3], %r13;\nret;\n}\n"

static void ends_when_cancelled(void **state)
{
	struct ptx_fault fault;

	(void)state;
	for (size_t n = 0; n < sizeof(sizes) / sizeof(*sizes); n++)
		for (int wait = 0; wait < 2; wait++) {
			assert_false(run(wait ? PTX_HEAD PARAMS PLACE WAIT CANCEL : PTX_HEAD PARAMS PLACE CANCEL,
					 sizes[n], 0, BLOCKS, &fault));
			assert_int_equal(fault.kind, PTX_FAULT_CANCELLED);
			expect(sizes[n], 0, 5);
		}
}

/* ---- loops that stride ---- */

#define ROUNDS 8
#define STRIDE 32768 /* words: 128 KiB */
#define WARPS 4

static uint32_t far[ROUNDS * STRIDE];
static uint64_t times[ROUNDS * WARPS * 32];

/* %l4: where the thread's word is; each round adds 1 to it and keeps the time */
#define LOOP(step)                                                                                                     \
	"mov.u32 %r1, %tid.x;\nmov.u32 %r2, 0;\nmul.wide.u32 %l5, %r1, 4;\nadd.s64 %l4, %l1, %l5;\n"                   \
	"mul.wide.u32 %l6, %r1, 8;\nadd.s64 %l6, %l2, %l6;\nmov.u32 %r5, %nctaid.x;\nmul.wide.u32 %l8, %r5, " step     \
	";\n$loop:\n"                                                                                                  \
	"ld.global.u32 %r3, [%l4];\nadd.u32 %r3, %r3, 1;\nst.global.u32 [%l4], %r3;\nmov.u64 %l7, %clock64;\n"         \
	"st.global.u64 [%l6], %l7;\nadd.s64 %l4, %l4, %l8;\nadd.s64 %l6, %l6, 1024;\nadd.u32 %r2, %r2, 1;\n"           \
	"setp.lt.u32 %p1, %r2, 8;\n@%p1 bra $loop;\nret;\n}\n"

static void stride(const char *text, uint32_t threads)
{
	const void *params[2] = {far, times};
	struct ptx_launch l = {.grid = {1, 1, 1}, .block = {threads, 1, 1}, .params = params, .memory = &map};
	struct ptx_fault fault;
	struct ptx_error error;
	struct ptx_module *m;

	map.count = 0;
	add_range(far, sizeof(far), true);
	add_range(times, sizeof(times), true);
	memset(far, 0, sizeof(far));
	m = load(text);
	if (ptx_kernel_prepare(ptx_module_kernel(m, 0), l.block, &l.binary, &error) != PTX_OK)
		fail_msg("line %u: %s", error.line, error.text);
	assert_true(ptx_run_blocks(&l, 0, 1, &fault));
	ptx_module_destroy(m);
}

static uint64_t time_of(unsigned round, unsigned warp)
{
	return times[(round * WARPS + warp) * 32];
}

static void turns(void **state)
{
	(void)state;
	/* far: round by round */
	stride(PTX_HEAD PARAMS LOOP("131072"), WARPS * 32);
	for (unsigned r = 0; r < ROUNDS; r++)
		for (unsigned n = 0; n < STRIDE; n++)
			assert_int_equal(far[r * STRIDE + n], n < WARPS * 32);
	for (unsigned r = 0; r + 1 < ROUNDS; r++)
		for (unsigned w = 0; w < WARPS; w++)
			assert_true(time_of(r, w) < time_of(r + 1, (w + 1) % WARPS));
	/* near: after the first round warp by warp */
	stride(PTX_HEAD PARAMS LOOP("512"), WARPS * 32);
	for (unsigned n = 0; n < ROUNDS * WARPS * 32; n++)
		assert_int_equal(far[n], 1);
	for (unsigned w = 0; w + 1 < WARPS; w++)
		assert_true(time_of(ROUNDS - 1, w) < time_of(1, w + 1));
	/* a last warp in parts has no turns to give */
	stride(PTX_HEAD PARAMS LOOP("131072"), WARPS * 32 - 5);
	for (unsigned r = 0; r < ROUNDS; r++)
		for (unsigned n = 0; n < STRIDE; n++)
			assert_int_equal(far[r * STRIDE + n], n < WARPS * 32 - 5);
}

/* ---- blocks that stride side by side ---- */

#define SIDE_BLOCKS 6
#define SIDE_PACK 4
#define SIDE_THREADS 64
#define SIDE_ROW (SIDE_BLOCKS * SIDE_THREADS)

/* A row a round, a row of what each thread finds at its end, and a flag that cancels. */
static uint64_t side[(ROUNDS + 1) * SIDE_ROW + 1];

/* As LOOP(); `hook` runs each round, %r6 is the block, %r2 the round, %p3 whether it is round 5 of block 1. */
#define SIDE(words, step, hook)                                                                                        \
	PTX_HEAD PARAMS ".shared .align 4 .b32 own[" words "];\n"                                                      \
	"mov.u32 %r1, %tid.x;\nmov.u32 %r5, %nctaid.x;\nmov.u32 %r6, %ctaid.x;\nmov.u32 %r7, %ntid.x;\n"               \
	"mad.lo.u32 %r8, %r6, %r7, %r1;\nmov.u32 %r9, own;\nshl.b32 %r10, %r1, 2;\nadd.u32 %r11, %r9, %r10;\n"         \
	"st.shared.u32 [%r11], %r6;\nmul.wide.u32 %l5, %r8, 4;\nadd.s64 %l4, %l1, %l5;\nmul.wide.u32 %l6, %r8, 8;\n"   \
	"add.s64 %l6, %l2, %l6;\nmul.wide.u32 %l8, %r5, " step ";\nmov.u32 %r2, 0;\nmov.u32 %r14, 1;\n$loop:\n"       \
	"ld.global.u32 %r3, [%l4];\nadd.u32 %r3, %r3, 1;\nst.global.u32 [%l4], %r3;\nmov.u64 %l7, %clock64;\n"         \
	"st.global.u64 [%l6], %l7;\nsetp.eq.u32 %p2, %r6, 1;\nsetp.eq.and.u32 %p3, %r2, 5, %p2;\n" hook              \
	"add.s64 %l4, %l4, %l8;\nadd.s64 %l6, %l6, 3072;\nadd.u32 %r2, %r2, 1;\n"                                     \
	"setp.lt.u32 %p1, %r2, 8;\n@%p1 bra $loop;\nbar.sync 0;\nxor.b32 %r10, %r10, 128;\nadd.u32 %r11, %r9, %r10;\n" \
	"ld.shared.u32 %r12, [%r11];\nmov.u32 %r13, %smid;\nmad.lo.u32 %r12, %r13, 100, %r12;\n"                      \
	"cvt.u64.u32 %l9, %r12;\nst.global.u64 [%l6], %l9;\nret;\n}\n"

static bool run_side(const char *text, uint64_t blocks, struct ptx_fault *fault)
{
	const void *params[2] = {far, side};
	struct ptx_launch l = {.grid = {SIDE_BLOCKS, 1, 1}, .block = {SIDE_THREADS, 1, 1}, .params = params,
			       .memory = &map, .cancel = (bool *)&side[(ROUNDS + 1) * SIDE_ROW], .multiprocessors = 1};
	struct ptx_error error;
	struct ptx_module *m;
	bool ok;

	map.count = 0;
	add_range(far, sizeof(far), true);
	add_range(side, sizeof(side), true);
	memset(far, 0, sizeof(far));
	memset(side, 0, sizeof(side));
	m = load(text);
	if (ptx_kernel_prepare(ptx_module_kernel(m, 0), l.block, &l.binary, &error) != PTX_OK)
		fail_msg("line %u: %s", error.line, error.text);
	ok = ptx_run_blocks(&l, 0, blocks, fault);
	ptx_module_destroy(m);
	return ok;
}

static uint64_t first_of(unsigned block, unsigned round)
{
	const uint64_t *at = &side[round * SIDE_ROW + block * SIDE_THREADS];

	return at[0] < at[32] ? at[0] : at[32];
}

static uint64_t last_of(unsigned block, unsigned round)
{
	const uint64_t *at = &side[round * SIDE_ROW + block * SIDE_THREADS];

	return at[0] < at[32] ? at[32] : at[0];
}

/* Every thread has done its rounds, and found what its own block left in shared memory. */
static void expect_side(uint64_t blocks)
{
	for (uint64_t n = 0; n < blocks * SIDE_THREADS; n++)
		assert_int_equal(side[ROUNDS * SIDE_ROW + n], n / SIDE_THREADS);
	for (uint64_t r = 0; r < ROUNDS; r++)
		for (uint64_t n = 0; n < blocks * SIDE_THREADS; n++)
			assert_true(side[r * SIDE_ROW + n] != 0);
}

static void expect_one_by_one(void)
{
	expect_side(SIDE_BLOCKS);
	for (unsigned b = 0; b + 1 < SIDE_BLOCKS; b++)
		assert_true(last_of(b, ROUNDS - 1) < first_of(b + 1, 0));
}

static void side_by_side(void **state)
{
	struct ptx_fault fault;

	(void)state;
	assert_true(run_side(SIDE("64", "21504", ""), SIDE_BLOCKS, &fault));
	expect_side(SIDE_BLOCKS);
	for (unsigned n = 0; n < ROUNDS * 32256; n++)
		assert_int_equal(far[n], n % 32256 < SIDE_ROW);
	for (unsigned r = 1; r + 1 < ROUNDS; r++)
		for (unsigned b = 0; b < SIDE_BLOCKS; b++)
			for (unsigned c = 0; c < SIDE_BLOCKS; c++)
				assert_true(b / SIDE_PACK > c / SIDE_PACK || last_of(b, r) < first_of(c, r + 1));
	assert_true(last_of(SIDE_PACK - 1, ROUNDS - 1) < first_of(SIDE_PACK, 0));
	/* no more than are there */
	assert_true(run_side(SIDE("64", "21504", ""), 2, &fault));
	expect_side(2);
	assert_true(last_of(1, 4) < first_of(0, 5));
	assert_int_equal(first_of(2, 0), 0);
	/* near; with much memory of their own */
	assert_true(run_side(SIDE("64", "256", ""), SIDE_BLOCKS, &fault));
	expect_one_by_one();
	assert_true(run_side(SIDE("3072", "21504", ""), SIDE_BLOCKS, &fault));
	expect_one_by_one();
}

/* Nothing of block 1 goes on, and none begins after those that were beside it. */
static void side_ends(void **state)
{
	struct ptx_fault fault;

	(void)state;
	for (int cancel = 0; cancel < 2; cancel++) {
		assert_false(run_side(cancel ? SIDE("64", "21504", "@%p3 st.global.u8 [%l2+27648], %r14;\n")
					     : SIDE("64", "21504", "@%p3 trap;\n"),
				      SIDE_BLOCKS, &fault));
		assert_int_equal(fault.kind, cancel ? PTX_FAULT_CANCELLED : PTX_FAULT_TRAP);
		assert_int_equal(fault.block[0], 1);
		assert_true(first_of(3, 4) != 0);
		for (unsigned b = 0; b < SIDE_BLOCKS; b++)
			for (unsigned r = b > 3 ? 0 : 6; r <= ROUNDS; r++)
				assert_int_equal(last_of(b, r), 0);
		/* the state after a fault does no harm */
		assert_true(run_side(SIDE("64", "21504", ""), SIDE_BLOCKS, &fault));
		expect_side(SIDE_BLOCKS);
	}
}

/*
 * Block 0 strides longer than the others, each of which then waits for the one before it, in a way that does not look
 * like it: with plain loads, and a fence. They must not begin before it has ended.
 */
#define WAIT_FOR_LAST                                                                                                  \
	PTX_HEAD PARAMS "mov.u32 %r1, %tid.x;\nmov.u32 %r5, %nctaid.x;\nmov.u32 %r6, %ctaid.x;\nmov.u32 %r7, %ntid.x;\n"   \
	"mad.lo.u32 %r8, %r6, %r7, %r1;\nmul.wide.u32 %l5, %r8, 4;\nadd.s64 %l4, %l1, %l5;\n"                          \
	"mul.wide.u32 %l8, %r5, 21504;\nmul.wide.u32 %l6, %r6, 4;\nadd.s64 %l6, %l2, %l6;\n"                           \
	"setp.eq.u32 %p2, %r6, 0;\nselp.u32 %r9, 8, 3, %p2;\nmov.u32 %r2, 0;\nmov.u32 %r10, 0;\nmov.u32 %r11, 1;\n"   \
	"$loop:\nld.global.u32 %r3, [%l4];\nadd.u32 %r3, %r3, 1;\nst.global.u32 [%l4], %r3;\nadd.s64 %l4, %l4, %l8;\n" \
	"add.u32 %r2, %r2, 1;\nsetp.lt.u32 %p1, %r2, %r9;\n@%p1 bra $loop;\n@%p2 bra $done;\n"                         \
	"$wait:\nmembar.gl;\nld.global.u32 %r11, [%l6+-4];\nadd.u32 %r10, %r10, 1;\nsetp.lt.u32 %p3, %r10, 100000;\n"   \
	"setp.eq.and.u32 %p3, %r11, 0, %p3;\n@%p3 bra $wait;\n$done:\nmembar.gl;\nst.global.u32 [%l6], %r11;\nret;\n}\n"

/* As above without a fence, on which programs may not rely. */
#define LOOK_AGAIN                                                                                                     \
	PTX_HEAD PARAMS "mov.u32 %r1, %tid.x;\nmov.u32 %r5, %nctaid.x;\nmov.u32 %r6, %ctaid.x;\nmov.u32 %r7, %ntid.x;\n"   \
	"mad.lo.u32 %r8, %r6, %r7, %r1;\nmul.wide.u32 %l5, %r8, 4;\nadd.s64 %l4, %l1, %l5;\n"                          \
	"mul.wide.u32 %l8, %r5, 21504;\nmul.wide.u32 %l6, %r6, 4;\nadd.s64 %l6, %l2, %l6;\nmov.u32 %r2, 0;\n"          \
	"mov.u32 %r10, 0;\nmov.u32 %r11, 1;\nsetp.eq.u32 %p2, %r6, 0;\n@%p2 bra $loop;\n"                             \
	"$wait:\nld.global.u32 %r11, [%l6+-4];\nadd.u32 %r10, %r10, 1;\nsetp.lt.u32 %p3, %r10, 100000;\n"             \
	"setp.eq.and.u32 %p3, %r11, 0, %p3;\n@%p3 bra $wait;\n"                                                       \
	"$loop:\nld.global.u32 %r3, [%l4];\nadd.u32 %r3, %r3, 1;\nst.global.u32 [%l4], %r3;\nadd.s64 %l4, %l4, %l8;\n" \
	"add.u32 %r2, %r2, 1;\nsetp.lt.u32 %p1, %r2, 8;\n@%p1 bra $loop;\nst.global.u32 [%l6], %r11;\nret;\n}\n"

static void side_waits(void **state)
{
	const uint32_t *flags = (const uint32_t *)side;
	struct ptx_fault fault;

	(void)state;
	assert_true(run_side(WAIT_FOR_LAST, SIDE_BLOCKS, &fault));
	for (unsigned b = 0; b < SIDE_BLOCKS; b++)
		assert_int_equal(flags[b], 1);
	assert_true(run_side(LOOK_AGAIN, SIDE_BLOCKS, &fault));
	for (unsigned b = 0; b < SIDE_BLOCKS; b++)
		assert_int_equal(flags[b], 1);
}

/*
 * Accesses that other blocks may notice stay in order. A loop that reads other memory in each round is no such access.
 */
static void side_signals(void **state)
{
	static const char *const texts[] = {
		SIDE("64", "21504", "ld.global.cv.u32 %r15, [%l1];\n"),
		SIDE("64", "21504", "st.shared.wt.u32 [%r11], %r6;\n"),
		SIDE("64", "21504", "ld.relaxed.gpu.global.u32 %r15, [%l1];\n"),
		SIDE("64", "21504", "cp.async.wait_all;\n"),
		SIDE("64", "21504", "griddepcontrol.wait;\n"),
		SIDE("64", "21504", "griddepcontrol.launch_dependents;\n"),
		SIDE("64", "21504", "@%p3 sured.b.1d.add.u32.trap [%l1, {%r2}], %r6;\n@%p3 trap;\n"),
	};
	struct ptx_fault fault;

	(void)state;
	for (size_t n = 0; n < sizeof(texts) / sizeof(*texts); n++) {
		bool ok = run_side(texts[n], SIDE_BLOCKS, &fault);

		if (strstr(texts[n], "sured")) {
			assert_false(ok);
			assert_int_equal(first_of(2, 0), 0);
			continue;
		}
		assert_true(ok);
		expect_one_by_one();
	}
	assert_true(run_side(SIDE("64", "21504",
				  "mov.u32 %r16, 0;\nmov.b64 %l10, %l4;\n$inner:\nld.global.u32 %r15, [%l10];\n"
				  "add.s64 %l10, %l10, 4;\nadd.u32 %r16, %r16, 1;\nsetp.lt.u32 %p4, %r16, 4;\n"
				  "@%p4 bra $inner;\n"),
			     SIDE_BLOCKS, &fault));
	expect_side(SIDE_BLOCKS);
	assert_true(last_of(1, 4) < first_of(0, 5));
}

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define SANITIZED true
#else
#define SANITIZED false
#endif

/* ---- blocks that could stride side by side if there were memory ---- */

#define BIG_BLOCKS 8
#define BIG_ROW 32768 /* words */

static uint32_t big[BIG_ROW * ROUNDS];

/* Each thread counts up a word of all rows. */
static const char big_text[] = PTX_HEAD PARAMS
	"mov.u32 %r1, %tid.x;\nmov.u32 %r2, %ctaid.x;\nmov.u32 %r3, %ntid.x;\nmad.lo.u32 %r4, %r2, %r3, %r1;\n"
	"mul.wide.u32 %l3, %r4, 4;\nadd.s64 %l4, %l1, %l3;\nmov.u32 %r5, 0;\n$loop:\nld.global.u32 %r7, [%l4];\n"
	"add.u32 %r7, %r7, 1;\nst.global.u32 [%l4], %r7;\nadd.s64 %l4, %l4, %l2;\nadd.u32 %r5, %r5, 1;\n"
	"setp.lt.u32 %p1, %r5, 8;\n@%p1 bra $loop;\nret;\n}\n";

static const void *const big_params[2] = {big, (const void *)(BIG_ROW * sizeof(*big))};

static struct ptx_module *load_big(struct ptx_launch *l)
{
	struct ptx_module *m = load(big_text);
	struct ptx_error error;

	*l = (struct ptx_launch){
		.grid = {BIG_BLOCKS, 1, 1}, .block = {1024, 1, 1}, .params = (const void *)big_params, .memory = &map};
	map.count = 0;
	add_range(big, sizeof(big), true);
	memset(big, 0, sizeof(big));
	if (ptx_kernel_prepare(ptx_module_kernel(m, 0), l->block, &l->binary, &error) != PTX_OK)
		fail_msg("line %u: %s", error.line, error.text);
	return m;
}

static unsigned count_mappings(size_t *bytes)
{
	FILE *f = fopen("/proc/self/maps", "r");
	unsigned long from, to;
	char line[4096];
	unsigned n;

	*bytes = 0;
	for (n = 0; f && fgets(line, sizeof(line), f); n++)
		if (sscanf(line, "%lx-%lx", &from, &to) == 2)
			*bytes += to - from;
	fclose(f);
	return n;
}

/* The child, with memory for one resident block. */
static int run_without_memory(const struct ptx_launch *l)
{
	struct ptx_fault fault;
	struct rlimit limit;
	size_t bytes;

	if (!ptx_run_blocks(l, 0, 1, &fault))
		return 1;
	count_mappings(&bytes);
	if (getrlimit(RLIMIT_AS, &limit))
		return 2;
	limit.rlim_cur = bytes + (128 << 10);
	if (setrlimit(RLIMIT_AS, &limit))
		return 2;
	if (!ptx_run_blocks(l, 1, BIG_BLOCKS - 1, &fault) || fault.kind != PTX_FAULT_NONE)
		return 3;
	for (unsigned n = 0; n < BIG_ROW * ROUNDS; n++)
		if (big[n] != (n % BIG_ROW < BIG_BLOCKS * 1024))
			return 4;
	return 0;
}

static void one_by_one_without_memory(void **state)
{
	struct ptx_launch l;
	struct ptx_module *m;
	int status;
	pid_t child;

	(void)state;
	if (SANITIZED) /* these have no limit of address space */
		skip();
	m = load_big(&l);
	child = fork();
	if (!child)
		_exit(run_without_memory(&l));
	assert_int_equal(waitpid(child, &status, 0), child);
	assert_true(WIFEXITED(status));
	assert_int_equal(WEXITSTATUS(status), 0);
	ptx_module_destroy(m);
}

#define MANY 260

static struct ptx_launch many;
static pthread_barrier_t all_have_run;
static bool ran[MANY];

static void *run_one_of_many(void *mine)
{
	struct ptx_fault fault;

	*(bool *)mine = ptx_run_blocks(&many, 0, BIG_BLOCKS, &fault);
	pthread_barrier_wait(&all_have_run);
	pthread_barrier_wait(&all_have_run);
	return NULL;
}

/* As on a host with so many processors: Linux's default is 65530 mappings a process. */
static void many_threads(void **state)
{
	struct ptx_module *m;
	pthread_t threads[MANY];
	unsigned mappings;
	size_t bytes;

	(void)state;
	if (SANITIZED)
		skip();
	m = load_big(&many);
	assert_int_equal(pthread_barrier_init(&all_have_run, NULL, MANY + 1), 0);
	for (unsigned n = 0; n < MANY; n++)
		assert_int_equal(pthread_create(&threads[n], NULL, run_one_of_many, &ran[n]), 0);
	pthread_barrier_wait(&all_have_run);
	mappings = count_mappings(&bytes);
	pthread_barrier_wait(&all_have_run);
	for (unsigned n = 0; n < MANY; n++) {
		pthread_join(threads[n], NULL);
		assert_true(ran[n]);
	}
	assert_in_range(mappings, 1, 50000);
	/* the memory of the blocks is given back */
	assert_in_range(count_mappings(&bytes), 1, mappings / 4);
	assert_true(run_side(SIDE("64", "21504", ""), 2, &(struct ptx_fault){0}));
	assert_true(last_of(1, 4) < first_of(0, 5));
	pthread_barrier_destroy(&all_have_run);
	ptx_module_destroy(m);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(in_order),
		cmocka_unit_test(ends_with_fault),
		cmocka_unit_test(ends_when_cancelled),
		cmocka_unit_test(turns),
		cmocka_unit_test(side_by_side),
		cmocka_unit_test(side_ends),
		cmocka_unit_test(side_waits),
		cmocka_unit_test(side_signals),
		cmocka_unit_test(one_by_one_without_memory),
		cmocka_unit_test(many_threads),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
