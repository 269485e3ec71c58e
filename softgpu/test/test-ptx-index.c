/* SPDX-License-Identifier: Apache-2.0 */
/* base[index] of lanes with unrelated indices: which are good is decided by index, as if it were by address. */
#include "softgpu/test/harness.h"

#define ROUNDS 3
/* The first round finds the range; `change` may spoil something: %p2 is set in the last round, %p3 then in thread 41. */
#define INDEXED(base, index, change, address)                                                                          \
	PTX_BINARY_32("bar.sync 0;\nadd.s64 %l3, %l1, %l3;\nmov.u32 %x, 0;\nmov.u32 %r2, 0;\n" base "$again:\n"         \
		      "setp.eq.u32 %p2, %r2, 2;\nsetp.eq.u32 %p3, %r1, 41;\nand.pred %p3, %p2, %p3;\n"                 \
		      "mul.lo.u32 %r3, %r1, 37;\nadd.u32 %r3, %r3, %r2;\nand.b32 %r3, %r3, 127;\n" index change address  \
		      "ld.global.u32 %r5, [%l4];\n$skip:\nadd.u32 %x, %x, %r5;\nadd.u32 %r2, %r2, 1;\n"                  \
		      "setp.lt.u32 %p1, %r2, 3;\n@%p1 bra $again;\nst.global.u32 [%l3], %x;\nret;\n")
#define MIDDLE "add.s64 %l5, %l2, 256;\n"
#define SIGNED "sub.s32 %r3, %r3, 64;\n"
#define ADDRESS "mul.wide.s32 %l4, %r3, 4;\nadd.s64 %l4, %l5, %l4;\n"

static void fill(void)
{
	for (unsigned n = 0; n < 2 * THREADS; n++)
		in32[n] = n * 1000003;
}

static uint32_t sum_of(unsigned thread, unsigned rounds)
{
	uint32_t sum = 0;

	for (unsigned r = 0; r < rounds; r++)
		sum += in32[(thread * 37 + r) & 127];
	return sum;
}

static void check(const char *text)
{
	fill();
	run_binary(text, 32);
	for (unsigned n = 0; n < THREADS; n++)
		if (out32[n] != sum_of(n, ROUNDS))
			fail_msg("thread %u: %x, not %x, in\n%s", n, out32[n], sum_of(n, ROUNDS), text);
}

static void values(void **state)
{
	(void)state;
	check(INDEXED(MIDDLE, SIGNED, "", ADDRESS));
	check(INDEXED(MIDDLE, SIGNED, "", "mad.wide.s32 %l4, %r3, 4, %l5;\n"));
	check(INDEXED("mov.u64 %l5, %l2;\n", "", "", "mul.wide.u32 %l4, 4, %r3;\nadd.s64 %l4, %l4, %l5;\n"));
	/* indices that are negative as int, and not as unsigned */
	check(INDEXED("sub.s64 %l5, %l2, 8589934592;\n", "or.b32 %r3, %r3, 0x80000000;\n", "",
		      "mul.wide.u32 %l4, %r3, 4;\nadd.s64 %l4, %l5, %l4;\n"));
	/* the index changes between the address and the access */
	check(INDEXED(MIDDLE, SIGNED, "", ADDRESS "mov.u32 %r3, 70000;\n"));
	check(INDEXED(MIDDLE, SIGNED, "", ADDRESS "add.s64 %l5, %l5, 4;\nsub.s64 %l5, %l5, 4;\n"));
	/* in between the warp changes to the code for divergent lanes, which needs no index */
	check(INDEXED(MIDDLE, SIGNED, "", ADDRESS "add.s32 %r6, %r1, 2147483632;\nmul.wide.s32 %l6, %r6, 4;\n"));
	/* bytes, at the ends */
	fill();
	run_binary(PTX_BINARY_32("bar.sync 0;\nadd.s64 %l3, %l1, %l3;\nmul.lo.u32 %r3, %r1, 37;\nand.b32 %r3, %r3, 63;\n"
				 "mad.lo.u32 %r3, %r3, 8, %r3;\nmin.u32 %r3, %r3, 511;\nmul.wide.u32 %l4, %r3, 1;\n"
				 "add.s64 %l4, %l4, %l2;\nld.global.u8 %r5, [%l4];\nst.global.u32 [%l3], %r5;\nret;\n"), 32);
	for (unsigned n = 0; n < THREADS; n++) {
		unsigned at = (n * 37 & 63) * 9;

		assert_int_equal(out32[n], ((const uint8_t *)in32)[at > 511 ? 511 : at]);
	}
}

static void lanes_elsewhere(void **state)
{
	(void)state;
	fill();
	run_binary(INDEXED(MIDDLE, SIGNED, "mov.u32 %r5, 0;\n@%p3 mov.u32 %r3, 70000;\n@%p3 bra $skip;\n", ADDRESS), 32);
	for (unsigned n = 0; n < THREADS; n++)
		assert_int_equal(out32[n], sum_of(n, n == 41 ? 2 : 3));
}

static struct ptx_fault fault_of(const char *text)
{
	struct ptx_module *m;
	struct ptx_fault fault;
	void *params[2] = {out32, in32};

	map.count = 0;
	add_range(out32, sizeof(out32), true);
	add_range(in32, sizeof(in32), false);
	m = load(text);
	assert_false(launch(m, 1, THREADS, 1, 0, params, &fault));
	ptx_module_destroy(m);
	return fault;
}

static void faults(void **state)
{
	static const char *const bases[] = {
		/* far away, with nothing known and with a range: sums overflow, as signed numbers and otherwise */
		INDEXED("mov.u64 %l5, 0x8000000000000000;\n", SIGNED, "", ADDRESS),
		INDEXED("mov.u64 %l5, 0x7fffffffffffff00;\n", "", "", ADDRESS),
		INDEXED("mov.u64 %l5, 0;\n", "", "", ADDRESS),
		INDEXED("mov.u64 %l5, 0xffffffffffffff00;\n", SIGNED, "", ADDRESS),
		INDEXED(MIDDLE, SIGNED, "@%p2 mov.u64 %l5, 0x8000000000000000;\n", ADDRESS),
		INDEXED(MIDDLE, SIGNED, "@%p2 mov.u64 %l5, 0x7fffffffffffff00;\n", ADDRESS),
		INDEXED(MIDDLE, SIGNED, "@%p2 mov.u64 %l5, 0;\n", ADDRESS),
		INDEXED(MIDDLE, SIGNED, "@%p2 sub.s64 %l5, %l5, 17179869184;\n", ADDRESS),
		INDEXED(MIDDLE, SIGNED, "@%p2 add.s64 %l5, %l5, 17179869184;\n", ADDRESS),
		INDEXED(MIDDLE, SIGNED, "@%p2 xor.b64 %l5, %l5, 0x8000000000000000;\n", ADDRESS),
	};
	struct ptx_fault f;

	(void)state;
	fill();
	for (size_t n = 0; n < sizeof(bases) / sizeof(*bases); n++)
		assert_int_equal(fault_of(bases[n]).kind, PTX_FAULT_ILLEGAL_ADDRESS);
	f = fault_of(INDEXED(MIDDLE, SIGNED, "@%p3 mov.u32 %r3, 64;\n", ADDRESS));
	assert_int_equal(f.kind, PTX_FAULT_ILLEGAL_ADDRESS);
	assert_int_equal(f.address, (uintptr_t)(in32 + 128));
	assert_int_equal(f.thread[0], 41);
	f = fault_of(INDEXED(MIDDLE, SIGNED, "@%p3 mov.u32 %r3, -70000;\n", ADDRESS));
	assert_int_equal(f.thread[0], 41);
	f = fault_of(INDEXED(MIDDLE, SIGNED, "@%p2 add.s64 %l5, %l5, 2;\n", ADDRESS));
	assert_int_equal(f.kind, PTX_FAULT_MISALIGNED);
}

/* Steps of less than what is accessed: an aligned base is not enough. */
static void misaligned_pairs(void **state)
{
	static const char pairs[] = PTX_BINARY_32(
		"bar.sync 0;\nadd.s64 %l3, %l1, %l3;\nmov.u32 %r2, 0;\n$again:\nmul.lo.u32 %r3, %r1, 37;\n"
		"and.b32 %r3, %r3, 62;\nsetp.eq.u32 %p2, %r2, 2;\nsetp.eq.u32 %p3, %r1, 41;\nand.pred %p3, %p2, %p3;\n"
		"@%p3 add.u32 %r3, %r3, 1;\n@%p3 add.u32 %r3, %r3, 0;\nmul.wide.u32 %l4, %r3, 4;\nadd.s64 %l4, %l2, %l4;\n"
		"ld.global.v2.u32 {%r5, %r6}, [%l4];\nadd.u32 %r2, %r2, 1;\nsetp.lt.u32 %p1, %r2, 3;\n@%p1 bra $again;\n"
		"st.global.u32 [%l3], %r5;\nret;\n");
	struct ptx_fault f = fault_of(pairs);

	(void)state;
	assert_int_equal(f.kind, PTX_FAULT_MISALIGNED);
	assert_int_equal(f.thread[0], 41);
	/* lanes in a row, in either direction */
	f = fault_of(PTX_BINARY_32("add.s64 %l4, %l2, %l3;\nadd.s64 %l4, %l4, %l3;\nadd.s64 %l4, %l4, 4;\n"
				   "ld.global.v2.u32 {%r5, %r6}, [%l4];\nadd.s64 %l3, %l1, %l3;\n"
				   "st.global.u32 [%l3], %r5;\nret;\n"));
	assert_int_equal(f.kind, PTX_FAULT_MISALIGNED);
	f = fault_of(PTX_BINARY_32("add.s64 %l4, %l2, %l3;\nld.global.v2.u32 {%r5, %r6}, [%l4];\n"
				   "add.s64 %l3, %l1, %l3;\nst.global.u32 [%l3], %r5;\nret;\n"));
	assert_int_equal(f.kind, PTX_FAULT_MISALIGNED);
	assert_int_equal(f.thread[0], 1);
	f = fault_of(PTX_BINARY_32("add.s64 %l4, %l2, 128;\nsub.s64 %l4, %l4, %l3;\nld.global.v2.u32 {%r5, %r6}, [%l4];\n"
				   "add.s64 %l3, %l1, %l3;\nst.global.u32 [%l3], %r5;\nret;\n"));
	assert_int_equal(f.kind, PTX_FAULT_MISALIGNED);
	assert_int_equal(f.thread[0], 1);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(values),
		cmocka_unit_test(lanes_elsewhere),
		cmocka_unit_test(faults),
		cmocka_unit_test(misaligned_pairs),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
