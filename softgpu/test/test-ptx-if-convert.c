/* SPDX-License-Identifier: Apache-2.0 */
/* Short blocks that only some lanes take: what they write, what they leave alone, and whose bad addresses count. */
#include "softgpu/test/harness.h"

#define A(n) in32[2 * (n)]
/* %r9: the thread's place in `s`, which holds %a of each */
#define SHARED                                                                                                         \
	".shared .align 16 .b8 s[4096];\nmov.u32 %r8, s;\nshl.b32 %r9, %r1, 2;\nadd.u32 %r9, %r8, %r9;\n"               \
	"st.shared.u32 [%r9], %a;\nbar.sync 0;\n"
#define SKIP_ODD "and.b32 %r2, %a, 1;\nsetp.ne.u32 %p1, %r2, 0;\n@%p1 bra $skip;\n"
/* %r3: two words for each of the first warp's threads */
#define FIRST_HALF                                                                                                     \
	"setp.ge.u32 %p2, %r1, 32;\n@%p2 bra $skip;\nadd.u32 %r3, %r9, %r9;\nsub.u32 %r3, %r3, %r8;\n"
#define END "$skip:\nbar.sync 0;\nld.shared.u32 %x, [%r9];\n"

static void fill(void)
{
	for (unsigned n = 0; n < 2 * THREADS; n++)
		in32[n] = n * 2654435761u >> 7;
}

static void check(const char *text, uint32_t (*want)(unsigned))
{
	fill();
	memset(out32, 0, sizeof(out32));
	run_binary(text, 32);
	for (unsigned n = 0; n < THREADS; n++)
		if (out32[n] != want(n))
			fail_msg("thread %u: %x, not %x, in\n%s", n, out32[n], want(n), text);
}

static uint32_t w_before(unsigned n)
{
	return A(n) & 1 ? 77 : A(n ? n - 1 : 0) + 5;
}

static uint32_t w_either(unsigned n)
{
	return A(n) & 1 ? A(n) * 3 : A(n ^ 1) + A(n);
}

static uint32_t w_kept(unsigned n)
{
	return A(n) & 1 ? 10 * n : 10 * n + 1;
}

static void registers(void **state)
{
	(void)state;
	/* thread 0 would read below the array, but %a of it is even: it reads itself */
	check(HEAD32(SHARED "mov.u32 %x, 77;\nmin.u32 %r3, %r1, 1;\nshl.b32 %r3, %r3, 2;\nsub.u32 %r3, %r9, %r3;\n" SKIP_ODD
		     "ld.shared.u32 %r4, [%r3];\nadd.u32 %x, %r4, 5;\n$skip:\n"),
	      w_before);
	check(HEAD32(SHARED SKIP_ODD "xor.b32 %r3, %r9, 4;\nld.shared.u32 %r3, [%r3];\nadd.u32 %x, %r3, %a;\nbra $join;\n"
		     "$skip:\nmul.lo.u32 %x, %a, 3;\n$join:\n"),
	      w_either);
	/* one side reads a register that the other one writes */
	check(HEAD32("mul.lo.u32 %r3, %a, 3;\nmul.lo.u32 %r4, %a, 5;\n" SKIP_ODD "xor.b32 %r5, %r1, 1;\n"
		     "mul.wide.u32 %l4, %r5, 8;\nadd.s64 %l4, %l4, %l2;\nld.global.u32 %r3, [%l4];\nadd.u32 %x, %r3, %a;\n"
		     "bra $join;\n$skip:\nmov.u32 %x, %r3;\n$join:\n"),
	      w_either);
	/* the same number for all that go there */
	check(HEAD32("mul.lo.u32 %x, %r1, 10;\nmov.u32 %r3, 0;\n" SKIP_ODD "mov.u32 %r3, 1;\n$skip:\nadd.u32 %x, %x, %r3;\n"),
	      w_kept);
}

static uint32_t w_doubled(unsigned n)
{
	return A(n) & 1 ? A(n) : A(n) * 2;
}

static uint32_t w_pairs(unsigned n)
{
	unsigned of = n / 2;

	return A(of) & 1 ? A(n) : A(of) + n % 2;
}

static uint32_t w_first(unsigned n)
{
	unsigned of = n / 2;

	return n % 2 || A(of) & 1 ? A(n) : A(of) + 9;
}

static uint32_t w_bytes(unsigned n)
{
	uint32_t value = 0x01020304;

	for (unsigned k = 0; k < 4; k++)
		if (4 * n + k < THREADS && !(A(4 * n + k) & 1))
			value = (value & ~(255u << 8 * k)) | (A(4 * n + k) & 255) << 8 * k;
	return n < THREADS / 4 ? value : 0x01020304;
}

static void stores(void **state)
{
	(void)state;
	check(HEAD32(SHARED SKIP_ODD "shl.b32 %r3, %a, 1;\nst.shared.u32 [%r9], %r3;\n" END), w_doubled);
	check(HEAD32("mov.u32 %x, %a;\nmov.u64 %l4, %l3;\nst.global.u32 [%l4], %a;\n" SKIP_ODD
		     "shl.b32 %r3, %a, 1;\nst.global.u32 [%l4], %r3;\n$skip:\nld.global.u32 %x, [%l4];\n"),
	      w_doubled);
	/* the first half of the threads writes all of the array, two words each */
	check(HEAD32(SHARED FIRST_HALF SKIP_ODD "add.u32 %r4, %a, 1;\nst.shared.v2.u32 [%r3], {%a, %r4};\n" END),
	      w_pairs);
	check(HEAD32(SHARED FIRST_HALF SKIP_ODD "add.u32 %r4, %a, 9;\nst.shared.u32 [%r3], %r4;\n" END),
	      w_first);
	check(HEAD32(".shared .align 16 .b8 s[4096];\nmov.u32 %r8, s;\nshl.b32 %r9, %r1, 2;\nadd.u32 %r9, %r8, %r9;\n"
		     "mov.u32 %r3, 0x01020304;\nst.shared.u32 [%r9], %r3;\nbar.sync 0;\nadd.u32 %r3, %r8, %r1;\n" SKIP_ODD
		     "st.shared.u8 [%r3], %a;\n" END),
	      w_bytes);
}

/* Lanes that write to one place: one of those that are there wins. */
static void same_place(void **state)
{
	(void)state;
	fill();
	run_binary(HEAD32(SHARED "and.b32 %r3, %r1, 0xfffffffe;\nshl.b32 %r3, %r3, 2;\nadd.u32 %r3, %r8, %r3;\n" SKIP_ODD
			  "add.u32 %r4, %a, 9;\nst.shared.u32 [%r3], %r4;\n" END),
		   32);
	for (unsigned n = 0; n < THREADS; n += 2) {
		bool first = !(A(n) & 1), second = !(A(n + 1) & 1);

		assert_true((first && out32[n] == A(n) + 9) || (second && out32[n] == A(n + 1) + 9) ||
			    (!first && !second && out32[n] == A(n)));
		assert_int_equal(out32[n + 1], A(n + 1));
	}
}

static uint32_t w_far(unsigned n)
{
	return A(n) & 1 ? 3 : A(n);
}

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

/* `%r3` for all but thread 37 is good; `skip` decides whether that one comes by. */
#define STRAY(skip, access)                                                                                            \
	HEAD32(SHARED "mov.u32 %x, 3;\nsetp.eq.u32 %p3, %r1, 37;\nmov.u32 %r3, %r9;\n@%p3 add.u32 %r3, %r3, 4096;\n"    \
	       "setp.lt.u32 %p1, %r1, 34;\n" skip "@%p1 bra $skip;\n" access "$skip:\n")
/* The same at constant distances: the last threads' addresses are beyond the array. */
#define BEYOND(limit, access)                                                                                          \
	HEAD32(SHARED "mov.u32 %x, 3;\nadd.u32 %r3, %r9, %r10;\nsetp.ge.u32 %p1, %r1, " limit ";\n@%p1 bra $skip;\n"    \
	       access "$skip:\n")

static void bad_addresses(void **state)
{
	struct ptx_fault f;

	(void)state;
	fill();
	fault_of(STRAY("", "ld.shared.u32 %x, [%r3];\n"), &f);
	assert_int_equal(f.kind, PTX_FAULT_ILLEGAL_ADDRESS);
	assert_int_equal(f.thread[0], 37);
	fault_of(STRAY("", "st.shared.u32 [%r3], %a;\n"), &f);
	assert_int_equal(f.thread[0], 37);
	run_binary(STRAY("or.pred %p1, %p1, %p3;\n", "ld.shared.u32 %x, [%r3];\n"), 32);
	for (unsigned n = 0; n < THREADS; n++)
		assert_int_equal(out32[n], n < 34 || n == 37 ? 3 : A(n));
	run_binary(STRAY("or.pred %p1, %p1, %p3;\n", "st.shared.u32 [%r3], 8;\nld.shared.u32 %x, [%r9];\n"), 32);
	for (unsigned n = 0; n < THREADS; n++)
		assert_int_equal(out32[n], n < 34 || n == 37 ? 3 : 8);
	/* the last 17 of 64 threads are beyond the array */
	run_binary(BEYOND("47", "ld.shared.u32 %x, [%r9+3908];\n"), 32);
	fault_of(BEYOND("48", "ld.shared.u32 %x, [%r9+3908];\n"), &f);
	assert_int_equal(f.kind, PTX_FAULT_ILLEGAL_ADDRESS);
	assert_int_equal(f.thread[0], 47);
	run_binary(BEYOND("47", "st.shared.u32 [%r9+3908], 5;\n"), 32);
	fault_of(BEYOND("48", "st.shared.u32 [%r9+3908], 5;\n"), &f);
	assert_int_equal(f.thread[0], 47);
	assert_true(f.write);
	fault_of(BEYOND("48", "mov.u64 %l4, %l3;\nst.global.u32 [%l4+16], 5;\nst.global.u32 [%l4+2], 5;\n"), &f);
	assert_int_equal(f.kind, PTX_FAULT_MISALIGNED);
	check(HEAD32(SHARED "mov.u32 %x, 3;\n" SKIP_ODD "ld.global.u32 %x, [%l2];\nld.shared.u32 %x, [%r9];\n$skip:\n"),
	      w_far);
}

static uint32_t high_bits(unsigned n, uint32_t add)
{
	return (uint32_t)((int64_t)(int32_t)(n + add) * 4 >> 8);
}

static uint32_t w_near(unsigned n)
{
	return A(n) & 1 ? A(n) * 5 : high_bits(n, 1000) + A(n) * 3;
}

static uint32_t w_wrapped(unsigned n)
{
	return A(n) & 1 ? A(n) * 5 : high_bits(n, 0x7fffffd8) + A(n) * 3;
}

static uint32_t w_wrapped_both(unsigned n)
{
	return A(n) & 1 ? high_bits(n, 0x7fffffb8) + A(n) * 5 : high_bits(n, 0x7fffffd8) + A(n) * 3;
}

static uint32_t w_wrapped_high(unsigned n)
{
	return A(n) & 1 ? high_bits(n, 0x7fffffd8) + A(n) * 5 : A(n) * 3;
}

#define WIDE(index)                                                                                                    \
	"add.u32 %r5, %r1, " index ";\nmul.wide.s32 %l6, %r5, 4;\nshr.u64 %l7, %l6, 8;\ncvt.u32.u64 %r6, %l7;\n"       \
	"add.u32 %x, %r6, %x;\n"
#define TIMES(what, factor) "mul.lo.u32 %x, " what ", " factor ";\n"
#define JOIN "bra $join;\n$skip:\n"

/* Indices of neighbours, which become 64 bits wide: where one of the warp's wraps around, each is made by itself. */
static void wide_indices(void **state)
{
	(void)state;
	check(HEAD32(TIMES("%a", "5") SKIP_ODD TIMES("%a", "3") WIDE("1000") "$skip:\n"), w_near);
	check(HEAD32(TIMES("%a", "5") SKIP_ODD TIMES("%a", "3") WIDE("0x7fffffd8") "$skip:\n"), w_wrapped);
	check(HEAD32(SKIP_ODD TIMES("%a", "3") WIDE("0x7fffffd8") JOIN TIMES("%a", "5") WIDE("0x7fffffb8") "$join:\n"),
	      w_wrapped_both);
	check(HEAD32(SKIP_ODD TIMES("%a", "3") JOIN TIMES("%a", "5") WIDE("0x7fffffd8") "$join:\n"), w_wrapped_high);
	/* a value that only the other side needs is kept, too */
	check(HEAD32("mul.lo.u32 %r4, %a, 5;\n" SKIP_ODD TIMES("%a", "3") WIDE("0x7fffffd8") JOIN "mov.u32 %x, %r4;\n"
												  "$join:\n"),
	      w_wrapped);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(registers),
		cmocka_unit_test(stores),
		cmocka_unit_test(same_place),
		cmocka_unit_test(bad_addresses),
		cmocka_unit_test(wide_indices),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
