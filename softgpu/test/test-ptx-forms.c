/* SPDX-License-Identifier: Apache-2.0 */
/* The less common forms of instructions and of the text around them; expectations are computed in C from the PTX ISA. */
#include "softgpu/test/harness.h"

static uint32_t nth_set(uint32_t mask, uint32_t base, int32_t offset)
{
	int32_t left = offset < 0 ? -offset : offset, step = offset < 0 ? -1 : 1;

	if (!offset)
		return base < 32 && (mask >> base & 1) ? base : UINT32_MAX;
	for (int32_t at = (int32_t)base; at >= 0 && at < 32; at += step)
		if ((mask >> at & 1) && !--left)
			return (uint32_t)at;
	return UINT32_MAX;
}

W32(w_fns_up, nth_set(a, b & 31, 2))
W32(w_fns_down, nth_set(a, b & 31, -3))
W32(w_fns_here, nth_set(a, b & 31, 0))
W32(w_add_pair, ((a + b) & 0xffff) | ((a & 0xffff0000) + (b & 0xffff0000)))

static uint32_t max_relu(uint32_t a, uint32_t b)
{
	uint32_t r = 0;

	for (int shift = 0; shift < 32; shift += 16) {
		int16_t x = (int16_t)(a >> shift), y = (int16_t)(b >> shift), most = x > y ? x : y;

		r |= (uint32_t)(uint16_t)(most > 0 ? most : 0) << shift;
	}
	return r;
}

W32(w_max_pair, max_relu(a, b))
W32(w_min_relu, (int32_t)a > 0 && (int32_t)b > 0 ? (a < b ? a : b) : 0)

static void integers(void **state)
{
	(void)state;
	check32("fns up", HEAD32("and.b32 %b, %b, 31;\nfns.b32 %x, %a, %b, 2;\n"), w_fns_up);
	check32("fns down", HEAD32("and.b32 %b, %b, 31;\nfns.b32 %x, %a, %b, -3;\n"), w_fns_down);
	check32("fns here", HEAD32("and.b32 %b, %b, 31;\nfns.b32 %x, %a, %b, 0;\n"), w_fns_here);
	check32("add.u16x2", HEAD32("add.u16x2 %x, %a, %b;\n"), w_add_pair);
	check32("max.relu.s16x2", HEAD32("max.relu.s16x2 %x, %a, %b;\n"), w_max_pair);
	check32("min.relu.s32", HEAD32("min.relu.s32 %x, %a, %b;\n"), w_min_relu);
}

static uint32_t finite_half(uint32_t a)
{
	float v = f32(a);
	_Float16 h;
	uint16_t bits;

	if (v != v)
		return 0x7fff;
	h = (_Float16)fminf(fmaxf(v, -65504), 65504);
	memcpy(&bits, &h, 2);
	return bits;
}

W32(w_finite, finite_half(a))
W32(w_finite_pair, finite_half(a) << 16 | finite_half(b))
W32(w_relu, f32(a) < 0 ? 0 : finite_half(a) == 0x8000 ? 0 : finite_half(a))

static void conversions(void **state)
{
	(void)state;
	check32("cvt.satfinite.f16", HEAD32("cvt.rn.satfinite.f16.f32 %h1, %a;\ncvt.u32.u16 %x, %h1;\n"), w_finite);
	check32("cvt.relu.satfinite.f16", HEAD32("cvt.rn.relu.satfinite.f16.f32 %h1, %a;\ncvt.u32.u16 %x, %h1;\n"),
		w_relu);
	check32("cvt.satfinite.f16x2", HEAD32("cvt.rn.satfinite.f16x2.f32 %x, %a, %b;\n"), w_finite_pair);
}

W32(w_half_mask, (b & 0xffff0000) | ((a + b) & 0xffff))

static uint32_t differences(uint32_t a, uint32_t b)
{
	uint32_t total = 5;

	for (int shift = 8; shift < 32; shift += 16)
		total += (uint32_t)abs((int)(a >> shift & 255) - (int)(b >> shift & 255));
	return total;
}

static uint32_t mixed(uint32_t a, uint32_t b)
{
	uint64_t both = (uint64_t)b << 32 | a;
	uint32_t r = 0;

	/* .b7064 less .b1111: each byte of the result in its place */
	for (int n = 0; n < 4; n++)
		r |= (uint32_t)(((both >> 8 * (0x7064 >> 4 * n & 7)) - (a >> 8)) & 255) << 8 * n;
	return r;
}

static int64_t clamp(int64_t v, int64_t low, int64_t high)
{
	return v < low ? low : v > high ? high : v;
}

W32(w_differences, differences(a, b))
W32(w_mixed, mixed(a, b))
W32(w_byte, (b & 0xff00ffff) | (uint32_t)(clamp((int8_t)(a >> 8) + (int16_t)b, -128, 127) & 255) << 16)
W32(w_vmad, clamp((-(int64_t)(int16_t)a * (int16_t)(b >> 16) + (int32_t)b) >> 7, INT32_MIN, INT32_MAX))
W32(w_vmad_less, clamp((int64_t)(int32_t)a * (int32_t)b - (int32_t)a, INT32_MIN, INT32_MAX))
W32(w_vmad_unsigned, (unsigned __int128)((uint64_t)a * b) + b > UINT32_MAX ? UINT32_MAX : a * b + b)
W32(w_vmad_one, ((unsigned __int128)((uint64_t)a * b) + b + 1) >> 15)

static void video(void **state)
{
	(void)state;
	check32("vadd2 with a mask", HEAD32("vadd2.u32.u32.u32 %x.h0, %a.h32, %b.h10, %b;\n"), w_half_mask);
	check32("vabsdiff4.add", HEAD32("mov.b32 %r3, 5;\nvabsdiff4.u32.u32.u32.add %x.b31, %a, %b, %r3;\n"), w_differences);
	check32("vsub4 with selectors", HEAD32("vsub4.u32.u32.u32 %x, %a.b7064, %b.b1111, %b;\n"), w_mixed);
	check32("vadd.sat into a byte", HEAD32("vadd.s32.s32.s32.sat %x.b2, %a.b1, %b.h0, %b;\n"), w_byte);
	check32("vmad.sat.shr7", HEAD32("vmad.s32.s32.s32.sat.shr7 %x, -%a.h0, %b.h1, %b;\n"), w_vmad);
	check32("vmad.sat, c negated", HEAD32("vmad.s32.s32.s32.sat %x, %a, %b, -%a;\n"), w_vmad_less);
	check32("vmad.u32.sat", HEAD32("vmad.u32.u32.u32.sat %x, %a, %b, %b;\n"), w_vmad_unsigned);
	check32("vmad.po", HEAD32("vmad.u32.u32.u32.po.shr15 %x, %a, %b, %b;\n"), w_vmad_one);
}

W64(w_same, a)
W64(w_swapped, b)
W64(w_cas, a == b ? ~a : a)
W64(w_cas_up, b == 5 ? 6 : b)
W64(w_low, a + 0)

#define AREA ".shared .align 16 .b8 area[2048];\n.reg .b128 %q<4>;\nmov.u32 %r2, area;\nmad.lo.u32 %r2, %r1, 16, %r2;\n"

static void wide(void **state)
{
	(void)state;
	check64("mov.b128", HEAD64(AREA "mov.b128 %q1, {%b, %a};\nmov.b128 %q0, %q1;\nmov.b128 {_, %x}, %q0;\n"), w_same);
	check64("st.b128", HEAD64(AREA "mov.b128 %q1, {%a, %b};\nst.shared.b128 [%r2], %q1;\nld.shared.b64 %x, [%r2+8];\n"),
		w_swapped);
	check64("ld.b128",
		HEAD64(AREA "st.shared.v2.b64 [%r2], {%a, %b};\nld.volatile.shared.b128 %q1, [%r2];\nmov.b128 {%x, %l5}, %q1;\n"),
		w_low);
	check64("atom.exch.b128",
		HEAD64(AREA "st.shared.v2.b64 [%r2], {%a, %b};\nmov.b128 %q1, {%b, %a};\n"
			    "atom.shared.exch.b128 %q2, [%r2], %q1;\nmov.b128 {%l5, %l6}, %q2;\n"
			    "ld.shared.v2.b64 {%l7, %l8}, [%r2];\nxor.b64 %l5, %l5, %l8;\nxor.b64 %l6, %l6, %l7;\n"
			    "or.b64 %l5, %l5, %l6;\nsetp.eq.b64 %p1, %l5, 0;\nselp.b64 %x, %a, 77, %p1;\n"),
		w_same);
	check64("atom.cas.b128",
		HEAD64(AREA "st.shared.v2.b64 [%r2], {%a, 5};\nmov.b128 %q1, {%b, 5};\nnot.b64 %l5, %a;\n"
			    "mov.b128 %q2, {%l5, 6};\natom.shared.cas.b128 %q3, [%r2], %q1, %q2;\nld.shared.b64 %x, [%r2];\n"),
		w_cas);
	check64("atom.cas.b128, the upper half",
		HEAD64(AREA "st.shared.v2.b64 [%r2], {%a, %b};\nmov.b128 %q1, {%a, 5};\nmov.b128 %q2, {%a, 6};\n"
			    "atom.shared.cas.b128 %q3, [%r2], %q1, %q2;\nld.shared.b64 %x, [%r2+8];\n"),
		w_cas_up);
}

static uint32_t sum(uint32_t a, uint32_t b)
{
	float r = f32(a) + f32(b);

	return r != r ? 0x7fc00000 : bits32(r);
}

W32(w_vector_sum, sum(a, b))

/* The smaller of two bf16, the upper halves; the number if the other is none. */
static uint32_t least(uint32_t a, uint32_t b)
{
	float x = f32(a & 0xffff0000), y = f32(b & 0xffff0000);

	if (x != x)
		return y != y ? 0x7fff : b >> 16;
	if (y != y)
		return a >> 16;
	if (x == y)
		return (a >> 31 ? a : b) >> 16;
	return (x < y ? a : b) >> 16;
}

W32(w_vector_min, least(a, b))

#define MEMORY ".shared .align 16 .b8 area[2048];\nmov.u32 %r2, area;\nmad.lo.u32 %r2, %r1, 16, %r2;\n"
/* generic addresses: only those of global memory flush subnormals, and .shared is no space for vectors */
#define GENERIC "cvt.u64.u32 %l5, %r2;\ncvta.shared.u64 %l5, %l5;\n"

static void vectors(void **state)
{
	(void)state;
	check32("atom.v2.f32.add",
		HEAD32(MEMORY GENERIC "st.shared.v2.b32 [%r2], {0f3F800000, %a};\n"
				      "atom.add.v2.f32 {%f1, %f2}, [%l5], {0f40000000, %b};\nld.shared.v2.f32 {%f3, %f4}, [%r2];\n"
				      "mov.b32 %x, %f4;\ntestp.notanumber.f32 %p1, %f4;\n@%p1 mov.b32 %x, 0x7fc00000;\n"
				      "setp.neu.f32 %p2, %f3, 0f40400000;\n@%p2 mov.b32 %x, 1;\n"
				      "mov.b32 %r3, %f2;\nsetp.ne.b32 %p3, %r3, %a;\n@%p3 mov.b32 %x, 2;\n"),
		w_vector_sum);
	check32("red.v2.bf16.min",
		HEAD32(MEMORY GENERIC "mov.b32 {%h0, %h1}, %a;\nmov.b32 {%h2, %h3}, %b;\n"
				      "st.shared.v2.b16 [%r2], {%h1, %h1};\n"
				      "red.min.noftz.v2.bf16 [%l5], {%h3, %h3};\nld.shared.v2.b16 {%h4, %h5}, [%r2];\n"
				      "cvt.u32.u16 %x, %h4;\nsetp.ne.b16 %p1, %h4, %h5;\n@%p1 mov.b32 %x, 1;\n"),
		w_vector_min);
}

W32(w_eight, a + 2 * b)

static void eight(void **state)
{
	(void)state;
	check32("ld.v8, st.v8",
		HEAD32(".shared .align 32 .b8 area[2048];\nmov.u32 %r2, area;\nmad.lo.u32 %r2, %r1, 32, %r2;\n" GENERIC
		       "st.v8.b32 [%l5], {%a, 1, 2, %b, 4, %b, 6, 7};\n"
		       "ld.v8.b32 {%r3, %r4, %r5, %r6, %r7, %r8, %r9, %r10}, [%l5];\n"
		       "add.s32 %x, %r3, %r6;\nadd.s32 %x, %x, %r8;\n"),
		w_eight);
}

W32(w_expression, a + 7 + 3 * 5 - (9 >> 1) + (4 > 3 ? 2 : 1) + 1)
W32(w_blocks, (int32_t)a < 0 ? ((int32_t)b < 0 ? 1 : 2) : 3)

W32(w_less_warp, a - 32)
W32(w_quarter, bits32(0.25f))
W32(w_five_more, a + 5)

static void text(void **state)
{
	(void)state;
	check32("constant expressions", HEAD32("add.s32 %x, %a, 7 + 3 * 5 - (9 >> 1) + (4 > 3 ? 2 : 1) + !0;\n"),
		w_expression);
	/* a block's label hides the one outside; what it does not define is the one outside */
	check32("a sign before WARP_SZ", HEAD32("add.s32 %x, %a, -WARP_SZ;\n"), w_less_warp);
	check32("no digit before the point", HEAD32("mov.f32 %f1, .5;\nadd.f32 %f1, %f1, -.25;\nmov.b32 %x, %f1;\n"), w_quarter);
	/* a statement may follow on the same line */
	check32(".loc", HEAD32(".loc 1 2 3 mov.b32 %x, 5;\n.loc 1 2 3, function_name N+4, inlined_at 1 7 1 add.s32 %x, %x, %a;\n"),
		w_five_more);
	check32("labels of blocks",
		HEAD32("setp.lt.s32 %p1, %a, 0;\nsetp.lt.s32 %p2, %b, 0;\nmov.b32 %x, 3;\n@!%p1 bra out;\n"
		       "{\nmov.b32 %x, 1;\n@%p2 bra end;\n{\nbra out;\nout: mov.b32 %x, 2;\n}\nend:\n}\n"
		       "{\nbra end;\nend:\n}\nout:\n"),
		w_blocks);
}

W32(w_function, (a - b) * 2)

W32(w_predicates, ((int32_t)a < 0 && (int32_t)b < 0 ? 8 : 9) + ((int32_t)a < 0 ? 2 : 0))

static void functions(void **state)
{
	static const char head[] = PTX_HEAD
		".func (.reg .b32 out) difference(.reg .b32 p, .reg .b32 q)\n{\n.reg .pred %p;\nsub.s32 out, p, q;\n"
		"setp.eq.b32 %p, p, 0;\n@%p ret;\nadd.s32 out, out, 0;\n}\n";
	static const char call[] = HEAD32("call (%x), difference, (%a, %b);\nadd.s32 %x, %x, %x;\n");
	static const char predicates[] = PTX_HEAD
		".func (.reg .pred o) both(.reg .pred p, .reg .pred q)\n{\nand.pred o, p, q;\n}\n";
	static const char ask[] = HEAD32("setp.lt.s32 %p1, %a, 0;\nsetp.lt.s32 %p2, %b, 0;\ncall (%p3), both, (%p1, %p2);\n"
					 "selp.b32 %x, 8, 9, %p3;\n@!%p2 call (%p1), both, (%p1, %p1);\n@%p1 add.s32 %x, %x, 2;\n");
	char all[8192];

	(void)state;
	/* the kernel's own head is not needed again */
	snprintf(all, sizeof(all), "%s%s", head, call + strlen(PTX_HEAD));
	check32("parameters in registers", all, w_function);
	snprintf(all, sizeof(all), "%s%s", predicates, ask + strlen(PTX_HEAD));
	check32("predicates as parameters", all, w_predicates);
}

/* A block of so few threads gets code of one lane, if nothing in it asks for its neighbours. */
static void lanes(void **state)
{
	struct ptx_module *m = load_binary(PTX_BINARY_32("mov.u32 %x, %lanemask_lt;\nadd.s64 %l3, %l1, %l3;\n"
							 "st.global.b32 [%l3], %x;\nret;\n"), 32);
	void *params[2] = {out32, in32};
	struct ptx_fault fault;

	(void)state;
	assert_true(launch(m, 1, 4, 1, 0, params, &fault));
	for (unsigned n = 0; n < 4; n++)
		assert_int_equal(out32[n], (1u << n) - 1);
	ptx_module_destroy(m);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(integers), cmocka_unit_test(conversions), cmocka_unit_test(video), cmocka_unit_test(wide),
		cmocka_unit_test(vectors),  cmocka_unit_test(eight),	   cmocka_unit_test(text),	   cmocka_unit_test(functions),
		cmocka_unit_test(lanes),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
