/* SPDX-License-Identifier: Apache-2.0 */
/* Forms of GPUs since compute capability 10: pairs of f32, sums of halves and f32, three operands, moves of vectors. */
#include <fenv.h>

#include "softgpu/test/harness.h"

static const struct {
	const char *name;
	int mode;
} modes[] = {{".rn", FE_TONEAREST}, {".rz", FE_TOWARDZERO}, {".rm", FE_DOWNWARD}, {".rp", FE_UPWARD}};

static int mode;
static bool ftz, saturated;

static float flushed(float x)
{
	return ftz && fabsf(x) < 0x1p-126f ? copysignf(0, x) : x;
}

static uint32_t outcome(float x)
{
	x = flushed(x);
	if (saturated)
		x = x > 0 ? x < 1 ? x : 1 : 0;
	return x != x ? INT32_MAX : bits32(x);
}

/* op: + - * or f, for the fused a * b + c */
static float exact(char op, float a, float b, float c)
{
	volatile float x = flushed(a), y = flushed(b), z = flushed(c), r;

	fesetround(mode);
	r = op == '+' ? x + y : op == '-' ? x - y : op == '*' ? x * y : fmaf(x, y, z);
	fesetround(FE_TONEAREST);
	return r;
}

#define HEAD REGISTERS ".reg .b32 %a, %b, %x;\nmul.wide.u32 %l3, %r1, 4;\n" LOAD32
#define CANONICAL "setp.nan.f32 %p1, %x, %x;\n@%p1 mov.b32 %x, 0x7fffffff;\n"
#define TAIL "st.global.b32 [%l3], %x;\nret;\n}\n"
#define MIX 0x40490fdb

W32(w_add, outcome(exact('+', f32(a), f32(b), 0)))
W32(w_sub_upper, outcome(exact('-', f32(b), f32(a), 0)))
W32(w_mul_upper, outcome(exact('*', f32(b), f32(a), 0)))
W32(w_fma, outcome(exact('f', f32(a), f32(b), f32(MIX))))
W32(w_fma_upper, outcome(exact('f', f32(b), f32(a), f32(a))))

static void check_pair(const char *op, const char *round, const char *sources, const char *result,
		       uint32_t (*want)(uint32_t, uint32_t))
{
	char text[2048];

	snprintf(text, sizeof(text),
		 "%smov.b64 %%l5, {%%a, %%b};\nmov.b64 %%l6, {%%b, %%a};\nmov.b32 %%r2, 0x40490fdb;\n"
		 "mov.b64 %%l7, {%%r2, %%a};\n%s%s%s.f32x2 %%l8, %s;\nmov.b64 %s, %%l8;\n%s",
		 HEAD, op, round, ftz ? ".ftz" : "", sources, result, CANONICAL TAIL);
	check32(op, text, want);
}

/* Results that only round up to the least normal number are flushed as well: not among these. */
static void pairs(void **state)
{
	(void)state;
	for (unsigned n = 0; n < 8; n++) {
		mode = modes[n % 4].mode;
		ftz = n / 4;
		check_pair("add", modes[n % 4].name, "%l5, %l6", "{%x, %r3}", w_add);
		check_pair("sub", modes[n % 4].name, "%l5, %l6", "{%r3, %x}", w_sub_upper);
		check_pair("mul", modes[n % 4].name, "%l5, %l6", "{%r3, %x}", w_mul_upper);
		check_pair("fma", modes[n % 4].name, "%l5, %l6, %l7", "{%x, %r3}", w_fma);
		check_pair("fma", modes[n % 4].name, "%l5, %l6, %l7", "{%r3, %x}", w_fma_upper);
	}
	mode = FE_TONEAREST;
	ftz = false;
	check_pair("add", "", "%l5, %l6", "{%x, %r3}", w_add);
}

static float half(uint32_t bits)
{
	uint16_t low = (uint16_t)bits;
	_Float16 h;

	memcpy(&h, &low, 2);
	return (float)h;
}

static float bfloat(uint32_t bits)
{
	return f32(bits << 16);
}

W32(w_add_half, outcome(exact('+', half(a), f32(b), 0)))
W32(w_sub_bfloat, outcome(exact('-', bfloat(a >> 16), f32(b), 0)))
W32(w_fma_half, outcome(exact('f', half(a), half(a >> 16), f32(b))))
W32(w_fma_bfloat, outcome(exact('f', bfloat(a), bfloat(a >> 16), f32(b))))

static void check_mixed(const char *name, const char *type, const char *operands, uint32_t (*want)(uint32_t, uint32_t))
{
	char text[2048];

	for (unsigned n = 0; n < 8; n++) {
		mode = modes[n % 4].mode;
		saturated = n / 4;
		snprintf(text, sizeof(text), "%smov.b32 {%%h1, %%h2}, %%a;\n%s%s%s.f32.%s %%x, %s;\n%s", HEAD, name,
			 modes[n % 4].name, saturated ? ".sat" : "", type, operands, CANONICAL TAIL);
		check32(name, text, want);
	}
	saturated = false;
}

static void mixed_precision(void **state)
{
	(void)state;
	ftz = false;
	check_mixed("add", "f16", "%h1, %b", w_add_half);
	check_mixed("sub", "bf16", "%h2, %b", w_sub_bfloat);
	check_mixed("fma", "f16", "%h1, %h2, %b", w_fma_half);
	check_mixed("fma", "bf16", "%h1, %h2, %b", w_fma_bfloat);
}

/* Rounding in one direction first to f64, then to f32 and to bf16 is rounding once. */
static uint32_t bfloat_fma(uint32_t a, uint32_t b, uint32_t c)
{
	volatile double x = bfloat(a), y = bfloat(b), z = bfloat(c), r;
	volatile float f;
	uint32_t bits;

	fesetround(mode);
	r = fma(x, y, z);
	f = (float)r;
	fesetround(FE_TONEAREST);
	bits = bits32(f);
	if (f != f)
		return 0x7fff;
	if ((bits & 0xffff) && mode == (bits >> 31 ? FE_DOWNWARD : FE_UPWARD))
		bits += 0x10000;
	return bits >> 16;
}

W32(w_fma_directed, bfloat_fma(a >> 16, b >> 16, b))
W32(w_fma_cancels, bfloat_fma(a >> 16, 0x3f80, (a >> 16) ^ 0x8000))

static void bfloats(void **state)
{
	char text[2048];

	(void)state;
	for (unsigned n = 1; n < 4; n++) {
		mode = modes[n].mode;
		snprintf(
			text, sizeof(text),
			"%smov.b32 {%%h3, %%h1}, %%a;\nmov.b32 {%%h3, %%h2}, %%b;\nfma%s.bf16 %%h1, %%h1, %%h2, %%h3;\n"
			"cvt.u32.u16 %%x, %%h1;\n%s",
			HEAD, modes[n].name, TAIL);
		check32(modes[n].name, text, w_fma_directed);
		snprintf(text, sizeof(text),
			 "%smov.b32 {%%h3, %%h1}, %%a;\nmov.b16 %%h2, 0x3f80;\nxor.b16 %%h3, %%h1, 0x8000;\n"
			 "fma%s.bf16 %%h1, %%h1, %%h2, %%h3;\ncvt.u32.u16 %%x, %%h1;\n%s",
			 HEAD, modes[n].name, TAIL);
		check32(modes[n].name, text, w_fma_cancels);
	}
}

static float larger(float a, float b)
{
	return a != a ? b : b != b ? a : a == b ? (signbit(a) ? b : a) : a > b ? a : b;
}

W32(w_max_3, outcome(larger(larger(f32(a), f32(b)), 2.5f)))
W32(w_min_3_abs, outcome(-larger(larger(-fabsf(f32(a)), -fabsf(f32(b))), -2.5f)))
W32(w_max_3_nan, f32(a) != f32(a) || f32(b) != f32(b) ? INT32_MAX : outcome(larger(larger(f32(a), f32(b)), 2.5f)))

static void three_operands(void **state)
{
	(void)state;
	mode = FE_TONEAREST;
	ftz = false;
	check32("max of 3", HEAD32("max.f32 %x, %a, %b, 0f40200000;\n"), w_max_3);
	check32("min.abs of 3", HEAD32("min.abs.f32 %x, %a, %b, 0f40200000;\n"), w_min_3_abs);
	check32("max.NaN of 3", HEAD32("max.NaN.f32 %x, %a, %b, 0f40200000;\n"), w_max_3_nan);
	ftz = true;
	check32("max.ftz of 3", HEAD32("max.ftz.f32 %x, %a, %b, 0f40200000;\n"), w_max_3);
}

#define CARRY(a, b) (((uint64_t)(a) + (b)) >> 32)

W32(w_addc, (uint16_t)((a & 0xffff) + (b & 0xffff) + CARRY(a, b)))
W32(w_subc, (uint16_t)((a & 0xffff) - (b & 0xffff) - (a < b)))
W32(w_madc_lo, (uint16_t)((a & 0xffff) * (b & 0xffff) + 7 + CARRY(a, b)))
W32(w_madc_hi, (uint16_t)((((int16_t)a * (int16_t)b) >> 16) + 7 + CARRY(a, b)))

#define SHORTS(carry, instruction)                                                                                     \
	HEAD32("cvt.u16.u32 %h1, %a;\ncvt.u16.u32 %h2, %b;\n" carry ".cc.u32 %r2, %a, %b;\n" instruction               \
	       "cvt.u32.u16 %x, %h3;\n")

static void carries(void **state)
{
	(void)state;
	check32("addc.u16", SHORTS("add", "addc.u16 %h3, %h1, %h2;\n"), w_addc);
	check32("subc.s16", SHORTS("sub", "subc.s16 %h3, %h1, %h2;\n"), w_subc);
	check32("madc.lo.u16", SHORTS("add", "madc.lo.u16 %h3, %h1, %h2, 7;\n"), w_madc_lo);
	check32("madc.hi.s16", SHORTS("add", "madc.hi.s16 %h3, %h1, %h2, 7;\n"), w_madc_hi);
}

W32(w_swapped, b + 2 * a + 4 * 64)

static void vectors(void **state)
{
	unsigned n;

	(void)state;
	check32("mov.v2", HEAD32("mov.v2.b32 {%a, %b}, {%b, %a};\nmad.lo.u32 %x, %b, 2, %a;\nadd.u32 %x, %x, 256;\n"),
		w_swapped);
	check32("mov.v4",
		HEAD32("mov.v4.u32 {%r2, %r3, %r4, _}, %ntid;\nmov.v4.b32 {%a, %b, %r5, %r6}, {%b, %a, %r2, 4};\n"
		       "mad.lo.u32 %x, %b, 2, %a;\nmad.lo.u32 %x, %r5, %r6, %x;\n"),
		w_swapped);
	run_binary(HEAD32("mov.v4.u32 {%r2, %r3, %r4, %r5}, %tid;\nmov.v2.u32 {%r6, %r7}, %ctaid;\nmad.lo.u32 %x, %r3, "
			  "1000, %r2;\n"
			  "add.u32 %x, %x, %r5;\nadd.u32 %x, %x, %r6;\n"),
		   32);
	for (n = 0; n < THREADS; n++)
		assert_int_equal(out32[n], n);
}

/* Registers that are declared as vectors: as a whole, and by their parts. */
static void vector_registers(void **state)
{
	(void)state;
	check32("vectors",
		HEAD32(".reg .v2 .b32 v, w<3>;\n.reg .v4 .b32 q;\nld.global.v2.b32 v, [%l4];\nmov.v2.b32 w2, {v.y, "
		       "v.x};\n"
		       "mov.b32 w1.x, 4;\nmov.b32 w1.g, 64;\nmov.v4.b32 q, {w2.x, w2.y, w1.x, w1.y};\n"
		       "mad.lo.u32 %x, q.g, 2, q.r;\nmad.lo.u32 %x, q.b, q.w, %x;\n"),
		w_swapped);
	check32("shared vectors",
		HEAD32(".shared .align 16 .b8 s[1024];\n.reg .v4 .b32 q;\nmov.u32 %r2, s;\nmad.lo.u32 %r2, %r1, 16, "
		       "%r2;\n"
		       "mov.v4.b32 q, {%b, %a, 4, 64};\nst.shared.v4.b32 [%r2], q;\nmov.v4.b32 q, {0, 0, 0, 0};\n"
		       "ld.shared.v4.b32 q, [%r2];\nmad.lo.u32 %x, q.y, 2, q.x;\nmad.lo.u32 %x, q.z, q.w, %x;\n"),
		w_swapped);
}

/* Lanes 0 to 15 and 16 to 31 work apart. */
static uint32_t extreme(unsigned thread, bool max, bool sizes, bool nan)
{
	float best = NAN;

	for (unsigned n = thread & ~15u; n < (thread & ~15u) + 16; n++) {
		float v = f32(in32[2 * n]);

		v = sizes ? fabsf(v) : v;
		if (v != v && nan)
			return INT32_MAX;
		if (max)
			best = larger(best, v);
		else
			best = -larger(-best, -v);
	}
	return best != best ? INT32_MAX : bits32(best);
}

static void reductions(void **state)
{
	static const uint32_t values[] = {0,          0x80000000, 0x3f800000, 0xbf800000, 0x7f800000, 0xff800000,
					  1,          0x80000001, 0x7f7fffff, 0xff7fffff, 0x7fc00000, 0xffc00001,
					  0x40490fdb, 0xc0490fdb, 0,          0};
	char text[2048];
	struct ptx_module *m;

	(void)state;
	for (unsigned how = 0; how < 8; how++) {
		snprintf(text, sizeof(text),
			 "%smov.u32 %%r2, 65535;\nand.b32 %%r3, %%r1, 16;\nshl.b32 %%r2, %%r2, %%r3;\n"
			 "redux.sync.%s%s%s.f32 %%x, %%a, %%r2;\n%s",
			 HEAD, how & 1 ? "max" : "min", how & 2 ? ".abs" : "", how & 4 ? ".NaN" : "", TAIL);
		m = load_binary(text, 32);
		for (unsigned round = 0; round < 32; round++) {
			for (unsigned n = 0; n < THREADS; n++)
				in32[2 * n] = values[(n * (round + 1) + round) % (round % 2 ? 16 : 10)];
			for (unsigned n = 0; n < 16 && round == 7; n++)
				in32[2 * n] = 0x7fc00000 + n;
			launch_binary(m, 32);
			for (unsigned n = 0; n < THREADS; n++)
				assert_int_equal(out32[n], extreme(n, how & 1, how & 2, how & 4));
		}
		ptx_module_destroy(m);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(pairs),
		cmocka_unit_test(mixed_precision),
		cmocka_unit_test(bfloats),
		cmocka_unit_test(three_operands),
		cmocka_unit_test(carries),
		cmocka_unit_test(vectors),
		cmocka_unit_test(vector_registers),
		cmocka_unit_test(reductions),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
