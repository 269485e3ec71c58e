/* SPDX-License-Identifier: Apache-2.0 */
/* Warps that take turns inside compiled code: what each keeps from round to round, and who runs when. */
#include "softgpu/test/harness.h"

#include "softgpu/runtime/ptx-run.h"

#define BLOCKS 20
#define THREADS_A_BLOCK 168 /* five warps, and a part of one */
#define ALL (BLOCKS * THREADS_A_BLOCK)
#define ROWS 12
#define ROW 32768 /* words: 128 KiB */

static uint32_t rows[ROWS * ROW], out[ALL];

/* 400 instructions more: quick code runs first, which keeps registers in memory */
#define X10(a) a a a a a a a a a a
#define LONG                                                                                                           \
	X10(X10("add.u32 %r30, %r30, 3;\nxor.b32 %r30, %r30, %r2;\nshl.b32 %r30, %r30, 1;\nadd.u32 %r30, %r30, "       \
		"%r1;\n"))

/*
 * %r2: the thread of all. Its warp has 3 to 7 rounds; those of every third one have another in lanes 16 to 31, so that
 * the lanes part for good. In round 2 of every second warp one lane of four is away for a while. The sum and a
 * predicate of it go from round to round. Then a second loop goes back over the same rows.
 */
#define KERNEL(more)                                                                                                   \
	PTX_HEAD                                                                                                       \
	".visible .entry k(.param .u64 p0, .param .u64 p1)\n{\n.reg .pred %p<16>;\n.reg .b32 %r<32>;\n"                \
	".reg .b64 %l<16>;\nld.param.u64 %l1, [p0];\nld.param.u64 %l2, [p1];\n"                                        \
	"mov.u32 %r1, %tid.x;\nmov.u32 %r3, %ctaid.x;\nmov.u32 %r4, %ntid.x;\nmad.lo.u32 %r2, %r3, %r4, "              \
	"%r1;\n"                                                                                                       \
	"mul.wide.u32 %l3, %r2, 4;\nadd.s64 %l4, %l1, %l3;\nadd.s64 %l5, %l2, %l3;\n"                                  \
	"mov.u32 %r5, %nctaid.x;\nmul.wide.u32 %l6, %r5, 6560;\nsub.s64 %l6, %l6, 128;\n"                              \
	"shr.u32 %r6, %r1, 5;\nadd.u32 %r6, %r6, %r3;\nrem.u32 %r7, %r6, 5;\nadd.u32 %r7, %r7, 3;\n"                   \
	"rem.u32 %r8, %r6, 3;\nsetp.eq.u32 %p1, %r8, 0;\nand.b32 %r9, %r1, 16;\nsetp.ne.and.u32 %p1, %r9, 0, "         \
	"%p1;\n"                                                                                                       \
	"@%p1 add.u32 %r7, %r7, 1;\nand.b32 %r10, %r1, 3;\nand.b32 %r11, %r6, 1;\nmul.lo.u32 %r11, %r11, "             \
	"%r10;\n"                                                                                                      \
	"setp.eq.u32 %p2, %r11, 1;\nmov.u32 %r12, 0;\nmov.u32 %r13, 5;\nsetp.ne.u32 %p3, %r12, 0;\n" more              \
	"$loop:\nld.global.u32 %r14, [%l4];\n@%p3 add.u32 %r13, %r13, 7;\nmad.lo.u32 %r13, %r14, %r2, %r13;\n"         \
	"and.b32 %r15, %r13, 4;\nsetp.ne.u32 %p3, %r15, 0;\nsetp.eq.and.u32 %p4, %r12, 2, %p2;\n"                      \
	"@!%p4 bra $here;\nmov.u32 %r16, %r1;\n$away:\nmad.lo.u32 %r13, %r13, 3, %r16;\nsub.u32 %r16, %r16, "          \
	"1;\n"                                                                                                         \
	"and.b32 %r17, %r16, 15;\nsetp.ne.u32 %p5, %r17, 0;\n@%p5 bra $away;\n$here:\n"                                \
	"st.global.u32 [%l4], %r13;\nadd.s64 %l4, %l4, %l6;\nadd.u32 %r12, %r12, 1;\n"                                 \
	"setp.lt.u32 %p6, %r12, %r7;\n@%p6 bra $loop;\n"                                                               \
	"$back:\nsub.s64 %l4, %l4, %l6;\nld.global.u32 %r14, [%l4];\nxor.b32 %r13, %r13, %r14;\n"                      \
	"mad.lo.u32 %r13, %r13, 5, %r12;\nsub.u32 %r12, %r12, 1;\nsetp.ne.u32 %p7, %r12, 0;\n@%p7 bra "                \
	"$back;\n"                                                                                                     \
	"st.global.u32 [%l5], %r13;\nret;\n}\n"

static uint32_t word(uint32_t row, uint32_t n)
{
	return (row * 2654435761u) ^ (n * 40503u);
}

/* The result of the kernel above for a thread, and its rows' new contents. */
static uint32_t follow(uint32_t n, uint32_t *left)
{
	uint32_t thread = n % THREADS_A_BLOCK, warp = thread / 32 + n / THREADS_A_BLOCK, sum = 5;
	uint32_t rounds = warp % 5 + 3 + (warp % 3 == 0 && thread & 16);
	bool odd = false;

	for (uint32_t r = 0; r < rounds; r++) {
		sum += odd ? 7 : 0;
		sum += word(r, n) * n;
		odd = sum & 4;
		if (r == 2 && (warp & 1) && (thread & 3) == 1) {
			uint32_t k = thread;

			do
				sum = sum * 3 + k--;
			while (k & 15);
		}
		left[r] = sum;
	}
	for (uint32_t r = rounds; r > 0; r--)
		sum = (sum ^ left[r - 1]) * 5 + r;
	return sum;
}

static const struct ptx_binary *prepare(struct ptx_module *m, struct ptx_launch *l)
{
	struct ptx_error error;

	if (ptx_kernel_prepare(ptx_module_kernel(m, 0), l->block, &l->binary, &error) != PTX_OK)
		fail_msg("line %u: %s", error.line, error.text);
	return l->binary;
}

static void run(const char *text)
{
	const void *params[2] = {rows, out};
	struct ptx_launch l = {
		.grid = {BLOCKS, 1, 1}, .block = {THREADS_A_BLOCK, 1, 1}, .params = params, .memory = &map};
	struct ptx_module *m;
	struct ptx_fault fault;
	uint32_t left[ROWS];

	map.count = 0;
	add_range(rows, sizeof(rows), true);
	add_range(out, sizeof(out), true);
	memset(out, 0, sizeof(out));
	for (uint32_t r = 0; r < ROWS; r++)
		for (uint32_t n = 0; n < ROW; n++)
			rows[r * ROW + n] = word(r, n);
	m = load(text);
	assert_true(prepare(m, &l)->warp_loop);
	assert_false(l.binary->fibers);
	assert_true(ptx_run_blocks(&l, 0, BLOCKS, &fault));
	ptx_module_destroy(m);
	for (uint32_t n = 0; n < ALL; n++) {
		assert_int_equal(out[n], follow(n, left));
		assert_int_equal(rows[n], left[0]);
		assert_int_equal(rows[2 * ROW + n], left[2]);
	}
}

/* Warps end in different rounds, leave for the masked version and come back, or end there. */
static void keeps(void **state)
{
	(void)state;
	run(KERNEL(""));
	run(KERNEL(LONG));
}

/* ---- who runs when ---- */

#define PACK 16
#define ROUNDS 6
#define WARPS 3

static uint64_t times[BLOCKS * WARPS * 32 * ROUNDS + 1];

/* Each warp keeps the time in each round. `hook`: %r1 is the block, %r6 the round. */
#define CLOCK(hook)                                                                                                    \
	PTX_HEAD ".visible .entry k(.param .u64 p0, .param .u64 p1)\n{\n.reg .pred %p<8>;\n.reg .b32 %r<16>;\n"        \
		 ".reg .b64 %l<16>;\nld.param.u64 %l1, [p0];\nld.param.u64 %l2, [p1];\n"                               \
		 "mov.u32 %r1, %ctaid.x;\nmov.u32 %r2, %ntid.x;\nmov.u32 %r3, %tid.x;\nmad.lo.u32 %r4, %r1, %r2, "     \
		 "%r3;\n"                                                                                              \
		 "mov.u32 %r5, %nctaid.x;\nmul.lo.u32 %r5, %r5, %r2;\nmul.wide.u32 %l3, %r5, 8;\nmul.wide.u32 %l4, "   \
		 "%r5, 64;\n"                                                                                          \
		 "mul.wide.u32 %l5, %r4, 8;\nadd.s64 %l6, %l2, %l5;\nmul.wide.u32 %l7, %r4, 4;\nadd.s64 %l8, %l1, "    \
		 "%l7;\n"                                                                                              \
		 "mov.u32 %r6, 0;\n$loop:\nld.global.u32 %r7, [%l8];\nadd.u32 %r7, %r7, 1;\nst.global.u32 [%l8], "     \
		 "%r7;\n"                                                                                              \
		 "mov.u64 %l9, %clock64;\nst.global.u64 [%l6], %l9;\n" hook                                            \
		 "add.s64 %l8, %l8, %l4;\nadd.s64 %l6, %l6, %l3;\n"                                                    \
		 "add.u32 %r6, %r6, 1;\nsetp.lt.u32 %p1, %r6, 6;\n@%p1 bra $loop;\nret;\n}\n"

static bool run_clock(const char *text, struct ptx_fault *fault)
{
	const void *params[2] = {rows, times};
	struct ptx_launch l = {.grid = {BLOCKS, 1, 1},
			       .block = {WARPS * 32, 1, 1},
			       .params = params,
			       .memory = &map,
			       .cancel = (bool *)&times[BLOCKS * WARPS * 32 * ROUNDS]};
	struct ptx_module *m;
	bool ok;

	map.count = 0;
	add_range(rows, sizeof(rows), true);
	add_range(times, sizeof(times), true);
	memset(times, 0, sizeof(times));
	m = load(text);
	assert_true(prepare(m, &l)->warp_loop);
	ok = ptx_run_blocks(&l, 0, BLOCKS, fault);
	ptx_module_destroy(m);
	return ok;
}

static uint64_t time_of(unsigned block, unsigned warp, unsigned round)
{
	return times[((round * BLOCKS + block) * WARPS + warp) * 32];
}

/* In the same round, block by block and in each warp by warp; what is left over after PACK blocks likewise. */
static void in_order(void **state)
{
	struct ptx_fault fault;

	(void)state;
	assert_true(run_clock(CLOCK(""), &fault));
	for (unsigned r = 2; r < ROUNDS; r++)
		for (unsigned n = 0; n + 1 < BLOCKS * WARPS; n++) {
			unsigned block = n / WARPS, next = (n + 1) / WARPS;

			if (next % PACK || next == block)
				assert_true(time_of(block, n % WARPS, r) < time_of(next, (n + 1) % WARPS, r));
		}
	for (unsigned r = 1; r + 1 < ROUNDS; r++) {
		assert_true(time_of(PACK - 1, WARPS - 1, r) < time_of(0, 0, r + 1));
		assert_true(time_of(BLOCKS - 1, WARPS - 1, r) < time_of(PACK, 0, r + 1));
	}
	assert_true(time_of(PACK - 1, WARPS - 1, ROUNDS - 1) < time_of(PACK, 0, 0));
}

/* No thread goes on after a fault, nor after the launch is cancelled. */
static void ends(void **state)
{
	static const char *const hooks[2] = {
		CLOCK("setp.eq.u32 %p2, %r6, 3;\nsetp.eq.and.u32 %p3, %r1, 2, %p2;\n@%p3 trap;\n"),
		CLOCK("setp.eq.u32 %p2, %r6, 3;\nsetp.eq.and.u32 %p3, %r1, 2, %p2;\nmov.u32 %r8, 1;\n"
		      "@%p3 st.global.u8 [%l2+92160], %r8;\n")};
	struct ptx_fault fault;

	(void)state;
	assert_int_equal(sizeof(times), 92160 + 8);
	for (int n = 0; n < 2; n++) {
		assert_false(run_clock(hooks[n], &fault));
		assert_int_equal(fault.kind, n ? PTX_FAULT_CANCELLED : PTX_FAULT_TRAP);
		assert_int_equal(fault.block[0], 2);
		assert_true(time_of(1, WARPS - 1, 3) != 0);
		for (unsigned b = 0; b < BLOCKS; b++)
			assert_int_equal(time_of(b, WARPS - 1, 4), 0);
	}
	/* the state after a fault does no harm */
	assert_true(run_clock(CLOCK(""), &fault));
	for (unsigned n = 0; n < BLOCKS * WARPS * ROUNDS; n++)
		assert_true(times[n * 32] != 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(keeps),
		cmocka_unit_test(in_order),
		cmocka_unit_test(ends),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
