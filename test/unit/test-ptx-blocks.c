/* SPDX-License-Identifier: Apache-2.0 */
/* Blocks that run one after the other in one call, and warps that take turns. */
#include "../ptx/harness.h"

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

static bool run(const char *text, uint32_t threads, uint64_t count, struct ptx_fault *fault)
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
	ok = ptx_run_blocks(&l, BLOCKS - count, count, fault);
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

static void in_order(void **state)
{
	struct ptx_fault fault;

	(void)state;
	for (size_t n = 0; n < sizeof(sizes) / sizeof(*sizes); n++)
		for (uint64_t count = 1; count <= BLOCKS; count += BLOCKS - 1) {
			assert_true(run(PTX_HEAD PARAMS PLACE "st.global.u32 [%l3], %r13;\nret;\n}\n", sizes[n], count,
					&fault));
			assert_int_equal(fault.kind, PTX_FAULT_NONE);
			expect(sizes[n], BLOCKS - count, BLOCKS);
			assert_true(run(PTX_HEAD PARAMS PLACE WAIT "st.global.u32 [%l3], %r13;\nret;\n}\n", sizes[n],
					count, &fault));
			expect(sizes[n], BLOCKS - count, BLOCKS);
		}
}

/* Block 5 faults, before it writes: no later one runs. */
#define FAULT                                                                                                          \
	"setp.eq.u32 %p1, %r9, 5;\n@!%p1 bra $good;\nmov.u64 %l4, 0;\nld.global.u32 %r13, [%l4];\n$good:\n"            \
	"st.global.u32 [%l3], %r13;\nret;\n}\n"

static void ends_with_fault(void **state)
{
	struct ptx_fault fault;

	(void)state;
	for (size_t n = 0; n < sizeof(sizes) / sizeof(*sizes); n++)
		for (int wait = 0; wait < 2; wait++) {
			assert_false(run(wait ? PTX_HEAD PARAMS PLACE WAIT FAULT : PTX_HEAD PARAMS PLACE FAULT,
					 sizes[n], BLOCKS, &fault));
			assert_int_equal(fault.kind, PTX_FAULT_ILLEGAL_ADDRESS);
			assert_int_equal(fault.block[0], 2);
			assert_int_equal(fault.block[1], 1);
			assert_int_equal(fault.block[2], 0);
			expect(sizes[n], 0, 5);
			/* what a fault left behind does no harm */
			assert_true(run(PTX_HEAD PARAMS PLACE "st.global.u32 [%l3], %r13;\nret;\n}\n", sizes[n], BLOCKS,
					&fault));
			expect(sizes[n], 0, BLOCKS);
		}
}

/* Block 5 cancels the launch: it ends itself, and no later one runs. */
#define CANCEL                                                                                                         \
	"setp.eq.u32 %p1, %r9, 5;\n@!%p1 bra $good;\nmov.u32 %r14, 1;\nst.global.u8 [%l2], %r14;\n$good:\n"            \
	"st.global.u32 [%l3], %r13;\nret;\n}\n"

static void ends_when_cancelled(void **state)
{
	struct ptx_fault fault;

	(void)state;
	for (size_t n = 0; n < sizeof(sizes) / sizeof(*sizes); n++)
		for (int wait = 0; wait < 2; wait++) {
			assert_false(run(wait ? PTX_HEAD PARAMS PLACE WAIT CANCEL : PTX_HEAD PARAMS PLACE CANCEL,
					 sizes[n], BLOCKS, &fault));
			assert_int_equal(fault.kind, PTX_FAULT_CANCELLED);
			expect(sizes[n], 0, 6);
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

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(in_order),
		cmocka_unit_test(ends_with_fault),
		cmocka_unit_test(ends_when_cancelled),
		cmocka_unit_test(turns),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
