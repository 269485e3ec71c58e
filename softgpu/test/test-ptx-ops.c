/* SPDX-License-Identifier: Apache-2.0 */
/* Instructions, family by family: every expectation is computed in C from the PTX ISA. */
#include "softgpu/test/harness.h"
#include "softgpu/runtime/ptx-run.h"
#include "test/seed.h"

W32(w_add, a + b)
W32(w_sub, a - b)
W32(w_mul, a *b)
W32(w_mulhi, (uint64_t)((int64_t)(int32_t)a *(int32_t)b) >> 32)
W32(w_mulhiu, (uint64_t)a *b >> 32)
W32(w_addsat, (int64_t)(int32_t)a + (int32_t)b > INT32_MAX   ? INT32_MAX
	      : (int64_t)(int32_t)a + (int32_t)b < INT32_MIN ? (uint32_t)INT32_MIN
							     : a + b)
W32(w_shl, b > 31 ? 0 : a << b)
W32(w_shr, b > 31 ? 0 : a >> b)
W32(w_sar, (uint32_t)((int32_t)a >> (b > 31 ? 31 : b)))
W32(w_divs, !b ? UINT32_MAX : b == UINT32_MAX ? -a : (uint32_t)((int32_t)a / (int32_t)b))
W32(w_divu, !b ? UINT32_MAX : a / b)
W32(w_rems, !b ? a : b == UINT32_MAX ? 0 : (uint32_t)((int32_t)a % (int32_t)b))
W32(w_remu, !b ? a : a % b)
/* the largest multiple of b up to a, and the numbers beside it */
W32(w_multiple, a - w_remu(a, b))
W32(w_multiple_s, a - w_rems(a, b))
W32(w_divu_less, w_divu(w_multiple(a, b) - 1, b))
W32(w_divu_same, w_divu(w_multiple(a, b), b))
W32(w_remu_less, w_remu(w_multiple(a, b) - 1, b))
W32(w_divs_less, w_divs(w_multiple_s(a, b) - 1, b))
W32(w_rems_more, w_rems(w_multiple_s(a, b) + 1, b))
W32(w_mins, (int32_t)a < (int32_t)b ? a : b)
W32(w_maxu, a > b ? a : b)
W32(w_abs, (int32_t)a < 0 ? -a : a)
W32(w_popc, __builtin_popcount(a))
W32(w_clz, a ? __builtin_clz(a) : 32)
W32(w_bfind, a ? 31 - __builtin_clz(a) : -1)
W32(w_lop3, (a & b) ^ 0x0f0f0f0f)
W32(w_mad24, (uint32_t)((int64_t)((int32_t)(a << 8) >> 8) * ((int32_t)(b << 8) >> 8)) + 7)
W32(w_cc, ((uint64_t)a + b) >> 32)
W32(w_guard, (int32_t)a < (int32_t)b ? a + 100 : a)

static uint32_t w_brev(uint32_t a, uint32_t b)
{
	uint32_t r = 0;

	(void)b;
	for (int n = 0; n < 32; n++)
		r |= (a >> n & 1) << (31 - n);
	return r;
}

static uint32_t w_bfe(uint32_t a, uint32_t b)
{
	unsigned pos = b & 255, len = b >> 8 & 255, r = 0, top = pos + len - 1 < 31 ? pos + len - 1 : 31;
	unsigned sign = len ? a >> top & 1 : 0;

	for (unsigned n = 0; n < 32; n++)
		r |= (n < len && pos + n < 32 ? a >> (pos + n) & 1 : sign) << n;
	return r;
}

static uint32_t w_bfi(uint32_t a, uint32_t b)
{
	unsigned pos = b & 255, len = b >> 8 & 255;

	for (unsigned n = 0; n < len && pos + n < 32 && n < 32; n++)
		b = (b & ~(1u << (pos + n))) | (a >> n & 1) << (pos + n);
	return b;
}

static uint32_t permute(uint32_t a, uint32_t b, uint32_t selector)
{
	uint64_t v = a | (uint64_t)b << 32;
	uint32_t r = 0;

	for (int n = 0; n < 4; n++) {
		unsigned pick = selector >> 4 * n & 15;
		uint32_t byte = v >> 8 * (pick & 7) & 255;

		r |= (pick & 8 ? byte & 128 ? 255 : 0 : byte) << 8 * n;
	}
	return r;
}

static uint32_t w_prmt(uint32_t a, uint32_t b)
{
	return permute(a, b, b);
}

static void integers(void **state)
{
	(void)state;
	check32("add", HEAD32("add.s32 %x, %a, %b;\n"), w_add);
	check32("sub", HEAD32("sub.s32 %x, %a, %b;\n"), w_sub);
	check32("mul.lo", HEAD32("mul.lo.s32 %x, %a, %b;\n"), w_mul);
	check32("mul.hi", HEAD32("mul.hi.s32 %x, %a, %b;\n"), w_mulhi);
	check32("mul.hi.u", HEAD32("mul.hi.u32 %x, %a, %b;\n"), w_mulhiu);
	check32("add.sat", HEAD32("add.sat.s32 %x, %a, %b;\n"), w_addsat);
	check32("div.s32", HEAD32("div.s32 %x, %a, %b;\n"), w_divs);
	check32("div.u32", HEAD32("div.u32 %x, %a, %b;\n"), w_divu);
	check32("rem.s32", HEAD32("rem.s32 %x, %a, %b;\n"), w_rems);
	check32("min.s32", HEAD32("min.s32 %x, %a, %b;\n"), w_mins);
	check32("max.u32", HEAD32("max.u32 %x, %a, %b;\n"), w_maxu);
	check32("abs.s32", HEAD32("abs.s32 %x, %a;\n"), w_abs);
	check32("mad24", HEAD32("mad24.lo.s32 %x, %a, %b, 7;\n"), w_mad24);
	check32("addc", HEAD32("add.cc.u32 %r2, %a, %b;\naddc.u32 %x, 0, 0;\n"), w_cc);
	check32("guard", HEAD32("setp.lt.s32 %p1, %a, %b;\nmov.u32 %x, %a;\n@%p1 add.s32 %x, %x, 100;\n"), w_guard);
}

/* Lanes are divided as doubles: a rounded quotient beside a multiple of the divisor would be one off. */
static void quotients(void **state)
{
	(void)state;
#define BESIDE(sign, step, op)                                                                                         \
	HEAD32("rem." sign "32 %r2, %a, %b;\nsub.u32 %r2, %a, %r2;\n" step op "." sign "32 %x, %r2, %b;\n")
	check32("rem.u32", HEAD32("rem.u32 %x, %a, %b;\n"), w_remu);
	check32("div.u32", BESIDE("u", "", "div"), w_divu_same);
	check32("div.u32", BESIDE("u", "sub.u32 %r2, %r2, 1;\n", "div"), w_divu_less);
	check32("rem.u32", BESIDE("u", "sub.u32 %r2, %r2, 1;\n", "rem"), w_remu_less);
	check32("div.s32", BESIDE("s", "sub.u32 %r2, %r2, 1;\n", "div"), w_divs_less);
	check32("rem.s32", BESIDE("s", "add.u32 %r2, %r2, 1;\n", "rem"), w_rems_more);
}

/* ---- operands that are constants ---- */

#define THIRD 0x9e3779b9u

static uint32_t w_tables(uint32_t a, uint32_t b)
{
	uint32_t c = a * THIRD + b, sum = 0, r;

	for (unsigned int table = 0; table < 256; table++) {
		r = 0;
		for (unsigned int bit = 0; bit < 32; bit++)
			r |= (table >> ((a >> bit & 1) << 2 | (b >> bit & 1) << 1 | (c >> bit & 1)) & 1) << bit;
		sum = sum * THIRD + r;
	}
	return sum;
}

/* All pairs of nibbles, and those of bytes with their signs above. */
static uint32_t constant_selector(unsigned int n)
{
	static const uint16_t signs[] = {0x8880, 0x9991, 0xfff7, 0x9910, 0xbb32,
					 0xd541, 0xeee6, 0xffff, 0x8888, 0x0888};

	return n < 256 ? n | (n * 7 & 0xff) << 8 : signs[n - 256];
}

#define SELECTORS 266

static uint32_t w_selectors(uint32_t a, uint32_t b)
{
	uint32_t sum = 0;

	for (unsigned int n = 0; n < SELECTORS; n++)
		sum = sum * THIRD + permute(a, b, constant_selector(n));
	return sum;
}

static uint32_t w_distances(uint32_t a, uint32_t b)
{
	uint32_t sum = 0;
	uint64_t v = (uint64_t)b << 32 | a;

	for (unsigned int n = 0; n < 40; n++) {
		sum = sum * THIRD + (uint32_t)(v << (n & 31) >> 32);
		sum = sum * THIRD + (uint32_t)(v >> (n < 32 ? n : 32));
	}
	return sum;
}

/* `line` has the number that `number` gives for 0 to count - 1. The sum of the results is compared. */
static void check_constants(const char *name, const char *line, unsigned int count, uint32_t (*number)(unsigned int),
			    uint32_t (*want)(uint32_t, uint32_t))
{
	static const char sum[] = "mad.lo.u32 %x, %x, 0x9e3779b9, %r3;\n";
	char *text = NULL;
	size_t size;
	FILE *f = open_memstream(&text, &size);

	fputs(REGISTERS ".reg .b32 %a, %b, %x;\nmul.wide.u32 %l3, %r1, 4;\n" LOAD32
			"mad.lo.u32 %r2, %a, 0x9e3779b9, %b;\nmov.u32 %x, 0;\n",
	      f);
	for (unsigned int n = 0; n < count; n++) {
		fprintf(f, line, number(n));
		fputs(sum, f);
	}
	fputs("st.global.b32 [%l3], %x;\nret;\n}\n", f);
	fclose(f);
	check32(name, text, want);
	free(text);
}

static uint32_t same(unsigned int n)
{
	return n;
}

static void constants(void **state)
{
	(void)state;
	check_constants("tables of lop3", "lop3.b32 %%r3, %%a, %%b, %%r2, %u;\n", 256, same, w_tables);
	check_constants("selectors of prmt", "prmt.b32 %%r3, %%a, %%b, %u;\n", SELECTORS, constant_selector,
			w_selectors);
	check_constants(
		"distances of shf",
		"mov.u32 %%r4, %u;\nshf.l.wrap.b32 %%r3, %%a, %%b, %%r4;\nmad.lo.u32 %%x, %%x, 0x9e3779b9, %%r3;\n"
		"shf.r.clamp.b32 %%r3, %%a, %%b, %%r4;\n",
		40, same, w_distances);
}

static void bits(void **state)
{
	(void)state;
	check32("shl", HEAD32("shl.b32 %x, %a, %b;\n"), w_shl);
	check32("shr.u32", HEAD32("shr.u32 %x, %a, %b;\n"), w_shr);
	check32("shr.s32", HEAD32("shr.s32 %x, %a, %b;\n"), w_sar);
	check32("popc", HEAD32("popc.b32 %x, %a;\n"), w_popc);
	check32("clz", HEAD32("clz.b32 %x, %a;\n"), w_clz);
	check32("bfind", HEAD32("bfind.u32 %x, %a;\n"), w_bfind);
	check32("brev", HEAD32("brev.b32 %x, %a;\n"), w_brev);
	check32("bfe.s32", HEAD32("shr.u32 %r2, %b, 8;\nbfe.s32 %x, %a, %b, %r2;\n"), w_bfe);
	check32("bfi", HEAD32("shr.u32 %r2, %b, 8;\nbfi.b32 %x, %a, %b, %b, %r2;\n"), w_bfi);
	check32("prmt", HEAD32("prmt.b32 %x, %a, %b, %b;\n"), w_prmt);
	check32("lop3", HEAD32("lop3.b32 %x, %a, %b, 0x0f0f0f0f, 0x6a;\n"), w_lop3);
}

W64(w_mul64, a *b)
W64(w_mulhi64, (unsigned __int128)a *b >> 64)
W64(w_div64, !b ? UINT64_MAX : b == UINT64_MAX ? -a : (uint64_t)((int64_t)a / (int64_t)b))
W64(w_shl64, (uint32_t)b > 63 ? 0 : a << (b & 63))
W64(w_clz64, a ? __builtin_clzll(a) : 64)

static void wide_integers(void **state)
{
	(void)state;
	check64("mul.lo.s64", HEAD64("mul.lo.s64 %x, %a, %b;\n"), w_mul64);
	check64("mul.hi.u64", HEAD64("mul.hi.u64 %x, %a, %b;\n"), w_mulhi64);
	check64("div.s64", HEAD64("div.s64 %x, %a, %b;\n"), w_div64);
	check64("shl.b64", HEAD64("cvt.u32.u64 %r2, %b;\nshl.b64 %x, %a, %r2;\n"), w_shl64);
	check64("clz.b64", HEAD64("clz.b64 %r2, %a;\ncvt.u64.u32 %x, %r2;\n"), w_clz64);
}

/* Compiled as one multiplication where that is the same. */
W64(w_extend2, (uint64_t)((int64_t)(a << 32) >> 30))
W64(w_extend32, (uint64_t)((int64_t)(a << 32) >> 32))
W64(w_extend1, (uint64_t)((int64_t)(a << 32) >> 1))
W64(w_extend40, (uint64_t)((int64_t)(a << 32) >> 40))
W64(w_zero3, a << 32 >> 29)
W64(w_zero1, a << 32 >> 1)
W64(w_both, (a << 32 >> 28) + (uint64_t)((int64_t)(a << 32) >> 28))
W64(w_other, (uint64_t)((int64_t)(b << 32) >> 30) + (a << 32 >> 32))

static void shifts_back(void **state)
{
	(void)state;
	check64("by 30", HEAD64("shl.b64 %l5, %a, 32;\nshr.s64 %x, %l5, 30;\n"), w_extend2);
	check64("by 32", HEAD64("shl.b64 %l5, %a, 32;\nshr.s64 %x, %l5, 32;\n"), w_extend32);
	check64("by 1", HEAD64("shl.b64 %l5, %a, 32;\nshr.s64 %x, %l5, 1;\n"), w_extend1);
	check64("by 40", HEAD64("shl.b64 %l5, %a, 32;\nshr.s64 %x, %l5, 40;\n"), w_extend40);
	check64("by 29, u64", HEAD64("shl.b64 %l5, %a, 32;\nshr.u64 %x, %l5, 29;\n"), w_zero3);
	check64("by 1, b64", HEAD64("shl.b64 %l5, %a, 32;\nshr.b64 %x, %l5, 1;\n"), w_zero1);
	check64("in place", HEAD64("shl.b64 %a, %a, 32;\nshr.s64 %x, %a, 30;\n"), w_extend2);
	check64("two",
		HEAD64("shl.b64 %l5, %a, 32;\nshr.u64 %x, %l5, 28;\nshr.s64 %l5, %l5, 28;\nadd.s64 %x, %x, %l5;\n"),
		w_both);
	check64("source written between",
		HEAD64("mov.u64 %l5, %b;\nshl.b64 %l6, %l5, 32;\nmov.u64 %l5, %a;\nshr.s64 %x, %l6, 30;\n"
		       "shl.b64 %l6, %l5, 32;\nshr.u64 %l6, %l6, 32;\nadd.s64 %x, %x, %l6;\n"),
		w_other);
	/* lanes one apart, across the end of the numbers of 32 bits */
	for (unsigned n = 0; n < THREADS; n++)
		in64[2 * n] = 0x17fffffe8;
	run_binary(PTX_BINARY_64("ld.global.u64 %a, [%l2];\ncvt.u64.u32 %l4, %r1;\nadd.s64 %l4, %a, %l4;\n"
				 "add.s64 %l3, %l1, %l3;\n"
				 "shl.b64 %l5, %l4, 32;\nshr.s64 %x, %l5, 30;\nst.global.b64 [%l3], %x;\nret;\n"),
		   64);
	for (unsigned n = 0; n < THREADS; n++)
		assert_int_equal(out64[n], (uint64_t)(4 * (int64_t)(int32_t)(0x7fffffe8u + n)));
}

static uint32_t quiet(float f)
{
	return isnan(f) ? 0x7fc00000 : bits32(f);
}

#define Q "testp.notanumber.f32 %p7, %x;\n@%p7 mov.b32 %x, 0x7fc00000;\n"

W32(w_fadd, quiet(f32(a) + f32(b)))
W32(w_fma, quiet(fmaf(f32(a), f32(b), 1.0f)))
W32(w_fdiv, quiet(f32(a) / f32(b)))
W32(w_fsqrt, quiet(sqrtf(f32(a))))
W32(w_fmin, isnan(f32(a))      ? quiet(f32(b))
	    : isnan(f32(b))    ? quiet(f32(a))
	    : f32(a) == f32(b) ? a | b
			       : bits32(fminf(f32(a), f32(b))))
W32(w_ftoi, isnan(f32(a))       ? 0
	    : f32(a) >= 0x1p31f ? INT32_MAX
	    : f32(a) < -0x1p31f ? (uint32_t)INT32_MIN
				: (uint32_t)(int32_t)f32(a))
W32(w_ftou8, isnan(f32(a)) || f32(a) <= 0 ? 0 : f32(a) >= 255 ? 255 : (uint32_t)rintf(f32(a)))
W32(w_itof, bits32((float)(int32_t)a))
W32(w_ltu, isnan(f32(a)) || isnan(f32(b)) || f32(a) < f32(b))
W32(w_ne, !isnan(f32(a)) && !isnan(f32(b)) && f32(a) != f32(b))
W32(w_sat8, (int32_t)a > 127 ? 127 : (int32_t)a < -128 ? (uint32_t)-128 : a)
W32(w_fsat, !(f32(a) > 0) ? 0 : f32(a) > 1 ? 0x3f800000 : a)
W32(w_ftz, (a & 0x7f800000) ? quiet(f32(a)) : a & 0x80000000)

static void floats(void **state)
{
	(void)state;
	check32("add.f32", HEAD32("add.f32 %x, %a, %b;\n" Q), w_fadd);
	check32("fma.rn", HEAD32("fma.rn.f32 %x, %a, %b, 0f3F800000;\n" Q), w_fma);
	check32("div.rn", HEAD32("div.rn.f32 %x, %a, %b;\n" Q), w_fdiv);
	check32("sqrt.rn", HEAD32("sqrt.rn.f32 %x, %a;\n" Q), w_fsqrt);
	check32("min.f32", HEAD32("min.f32 %x, %a, %b;\n" Q), w_fmin);
	check32("cvt.rzi.s32.f32", HEAD32("cvt.rzi.s32.f32 %x, %a;\n"), w_ftoi);
	check32("cvt.rni.u8.f32", HEAD32("cvt.rni.u8.f32 %x, %a;\n"), w_ftou8);
	check32("cvt.rn.f32.s32", HEAD32("cvt.rn.f32.s32 %x, %a;\n"), w_itof);
	check32("setp.ltu", HEAD32("setp.ltu.f32 %p1, %a, %b;\nselp.b32 %x, 1, 0, %p1;\n"), w_ltu);
	check32("setp.ne", HEAD32("setp.ne.f32 %p1, %a, %b;\nselp.b32 %x, 1, 0, %p1;\n"), w_ne);
	check32("cvt.sat.s8", HEAD32("cvt.sat.s8.s32 %x, %a;\n"), w_sat8);
	check32("cvt.sat.f32", HEAD32("cvt.sat.f32.f32 %x, %a;\n"), w_fsat);
	check32("mul.ftz", HEAD32("mul.ftz.f32 %x, %a, 0f3F800000;\n" Q), w_ftz);
}

static uint32_t directed(uint32_t a, uint32_t b)
{
	double sum = (double)f32(a) + f32(b);
	float near = (float)sum;

	if (isnan(near))
		return 0x7fc00000;
	/* toward -infinity; sums of these inputs are exact in double or far from halfway */
	if ((double)near > sum)
		near = nextafterf(near, -INFINITY);
	return near == 0 ? 0 : bits32(near);
}

static void rounding(void **state)
{
	static const uint32_t values[] = {0x3f800000, 0x33800000, 0xb3800000, 0x3f800001,
					  0x4b800000, 0xbf800000, 0x3eaaaaab};

	(void)state;
	for (unsigned n = 0; n < THREADS; n++) {
		in32[2 * n] = values[n % 7];
		in32[2 * n + 1] = values[n / 7 % 7];
	}
	run_binary(HEAD32("add.rm.f32 %x, %a, %b;\nadd.f32 %x, %x, 0f00000000;\n"), 32);
	for (unsigned n = 0; n < THREADS; n++)
		assert_int_equal(out32[n], directed(in32[2 * n], in32[2 * n + 1]));
}

static double random_double(uint64_t *seed)
{
	static const uint64_t odd[] = {0,
				       1ull << 63,
				       1,
				       0x7ff0000000000000,
				       0xfff0000000000000,
				       0x7ff8000000000000,
				       0x7fefffffffffffff,
				       0x0010000000000000,
				       0x000fffffffffffff,
				       0x3ff0000000000000};
	uint64_t bits;
	double x;

	*seed = *seed * 6364136223846793005ull + 1442695040888963407ull;
	bits = *seed ^ *seed >> 29;
	if (bits % 8 == 0)
		bits = odd[bits / 8 % 10];
	else if (bits % 8 < 6) /* of like size, and often with few digits: exact results are special */
		bits = (bits & (bits % 16 < 8 ? 0x800fffffffffffff : 0x800ff00000000000)) | (1000 + bits / 16 % 60)
												    << 52;
	memcpy(&x, &bits, sizeof(x));
	return x;
}

/* One lane is rounded in another way than several: by what rounding to nearest leaves. */
static void rounding_of_one(void **state)
{
	static const unsigned int operations[] = {ROUND_ADD, ROUND_SUB, ROUND_MUL, ROUND_DIV};
	static const unsigned int modes[] = {PTX_MOD_RZ, PTX_MOD_RM, PTX_MOD_RP};
	uint64_t seed = test_seed_state(test_seed());

	(void)state;
	for (unsigned int n = 0; n < 1200000; n++) {
		unsigned int o = operations[n & 3], m = modes[n / 4 % 3];
		double a[2] = {random_double(&seed)}, b[2] = {random_double(&seed)}, one[1], two[2];

		a[1] = a[0];
		b[1] = b[0];
		ptx_rt_round(o | m << 8 | PTX_F64 << 16, 1, a, b, b, one);
		ptx_rt_round(o | m << 8 | PTX_F64 << 16, 2, a, b, b, two);
		if (memcmp(one, two, sizeof(one)))
			fail_msg("operation %u, mode %u: %a, %a gives %a, not %a", o, m, a[0], b[0], one[0], two[0]);
	}
}

static void approximations(void **state)
{
	(void)state;
	for (unsigned n = 0; n < THREADS; n++)
		in32[2 * n] = bits32(0.37f + (float)n * 0.21f);
	run_binary(HEAD32("ex2.approx.f32 %x, %a;\nlg2.approx.f32 %x, %x;\nsin.approx.f32 %r2, %x;\n"
			  "cos.approx.f32 %r3, %x;\nmul.f32 %r2, %r2, %r2;\nfma.rn.f32 %r2, %r3, %r3, %r2;\n"
			  "rsqrt.approx.f32 %r3, %x;\nrcp.approx.f32 %r3, %r3;\nmul.f32 %r3, %r3, %r3;\n"
			  "mul.f32 %x, %r3, %r2;\n"),
		   32);
	for (unsigned n = 0; n < THREADS; n++)
		assert_true(fabsf(f32(out32[n]) - f32(in32[2 * n])) < 1e-4f);
}

static uint32_t w_half(uint32_t a, uint32_t b)
{
	_Float16 x, y, z;
	uint16_t low = (uint16_t)a, high = (uint16_t)b, r;

	memcpy(&x, &low, 2);
	memcpy(&y, &high, 2);
	z = (_Float16)((float)x + (float)y);
	memcpy(&r, &z, 2);
	return z != z ? 0x7e00 : r;
}

static void halves(void **state)
{
	(void)state;
	check32("add.f16",
		HEAD32("cvt.u16.u32 %h1, %a;\ncvt.u16.u32 %h2, %b;\nadd.f16 %h3, %h1, %h2;\n"
		       "cvt.f32.f16 %f1, %h3;\ntestp.notanumber.f32 %p1, %f1;\n@%p1 mov.b16 %h3, 0x7e00;\n"
		       "cvt.u32.u16 %x, %h3;\n"),
		w_half);
}

/* The rules of each mode, byte by byte, for selector b & 3. */
static uint32_t by_rule(uint32_t a, uint32_t b, int mode)
{
	int c = (int)(b & 3);
	uint32_t selector = 0;

	for (int n = 0; n < 4; n++) {
		int from = mode == 0   ? n + c
			   : mode == 1 ? (c - n) & 7
			   : mode == 2 ? c
			   : mode == 3 ? (n > c ? n : c)
			   : mode == 4 ? (n < c ? n : c)
				       : 2 * (c & 1) + (n & 1);

		selector |= (uint32_t)from << 4 * n;
	}
	return permute(a, b, selector);
}

W32(w_f4e, by_rule(a, b, 0))
W32(w_b4e, by_rule(a, b, 1))
W32(w_rc8, by_rule(a, b, 2))
W32(w_ecl, by_rule(a, b, 3))
W32(w_ecr, by_rule(a, b, 4))
W32(w_rc16, by_rule(a, b, 5))

static void permutations(void **state)
{
	(void)state;
	check32("prmt.f4e", HEAD32("prmt.b32.f4e %x, %a, %b, %b;\n"), w_f4e);
	check32("prmt.b4e", HEAD32("prmt.b32.b4e %x, %a, %b, %b;\n"), w_b4e);
	check32("prmt.rc8", HEAD32("prmt.b32.rc8 %x, %a, %b, %b;\n"), w_rc8);
	check32("prmt.ecl", HEAD32("prmt.b32.ecl %x, %a, %b, %b;\n"), w_ecl);
	check32("prmt.ecr", HEAD32("prmt.b32.ecr %x, %a, %b, %b;\n"), w_ecr);
	check32("prmt.rc16", HEAD32("prmt.b32.rc16 %x, %a, %b, %b;\n"), w_rc16);
}

static uint32_t dot(uint32_t a, uint32_t b, unsigned parts, unsigned first, bool a_signed, bool b_signed)
{
	uint32_t sum = b, width = 32 / parts;

	for (unsigned n = 0; n < parts; n++) {
		uint32_t x = a << (32 - width * (n + 1)), y = b << (32 - 8 * (first + n + 1));

		x = a_signed ? (uint32_t)((int32_t)x >> (32 - width)) : x >> (32 - width);
		y = b_signed ? (uint32_t)((int32_t)y >> 24) : y >> 24;
		sum += x * y;
	}
	return sum;
}

W32(w_dp4a, dot(a, b, 4, 0, true, false))
W32(w_dp2a_lo, dot(a, b, 2, 0, false, true))
W32(w_dp2a_hi, dot(a, b, 2, 2, true, true))
W32(w_sad, ((int32_t)a < (int32_t)b ? b - a : a - b) + 9)
W32(w_mul24hi, (uint64_t)(a & 0xffffff) * (b & 0xffffff) >> 16)
W32(w_szext, !b ? 0 : b >= 32 ? a : (uint32_t)((int32_t)(a << (32 - b)) >> (32 - b)))
W32(w_bmsk, (b > 31 ? UINT32_MAX : (1u << b) - 1) << (a > 31 ? 31 : a) << (a > 31))
W32(w_cnot, !a)
W32(w_slct, (int32_t)b >= 0 ? a : b)
W32(w_shf, (b & 31) ? a << (b & 31) | b >> (32 - (b & 31)) : a)
W32(w_shfr, b >= 32 ? b : b ? a >> b | b << (32 - b) : a)
W32(w_shf_clamp, b >= 32 ? b : b ? a << b | b >> (32 - b) : a)
W32(w_shfr_wrap, (b & 31) ? a >> (b & 31) | b << (32 - (b & 31)) : a)
W32(w_copysign, (a & 0x80000000) | (b & 0x7fffffff))
W32(w_bfind_s, (int32_t)a < 0 ? (~a ? 31 - __builtin_clz(~a) : -1) : a ? 31 - __builtin_clz(a) : -1)
W32(w_borrow, (((uint64_t)a << 32 | b) - ((uint64_t)b << 32 | a)) >> 32)
W32(w_no_borrow, 10 * a + (b >= a))
W32(w_no_carry, a - b - ((uint64_t)a + b <= UINT32_MAX))
W32(w_madc, ((unsigned __int128)((uint64_t)a * b) + ((uint64_t)b << 32 | a)) >> 32)

static void packed_and_odd(void **state)
{
	(void)state;
	check32("dp4a", HEAD32("dp4a.s32.u32 %x, %a, %b, %b;\n"), w_dp4a);
	check32("dp2a.lo", HEAD32("dp2a.lo.u32.s32 %x, %a, %b, %b;\n"), w_dp2a_lo);
	check32("dp2a.hi", HEAD32("dp2a.hi.s32.s32 %x, %a, %b, %b;\n"), w_dp2a_hi);
	check32("sad", HEAD32("sad.s32 %x, %a, %b, 9;\n"), w_sad);
	check32("mul24.hi", HEAD32("mul24.hi.u32 %x, %a, %b;\n"), w_mul24hi);
	check32("szext", HEAD32("szext.clamp.s32 %x, %a, %b;\n"), w_szext);
	check32("bmsk", HEAD32("bmsk.clamp.b32 %x, %a, %b;\n"), w_bmsk);
	check32("cnot", HEAD32("cnot.b32 %x, %a;\n"), w_cnot);
	check32("slct", HEAD32("slct.b32.s32 %x, %a, %b, %b;\n"), w_slct);
	check32("shf.l.wrap", HEAD32("shf.l.wrap.b32 %x, %b, %a, %b;\n"), w_shf);
	check32("shf.r.clamp", HEAD32("shf.r.clamp.b32 %x, %a, %b, %b;\n"), w_shfr);
	check32("shf.l.clamp", HEAD32("shf.l.clamp.b32 %x, %b, %a, %b;\n"), w_shf_clamp);
	check32("shf.r.wrap", HEAD32("shf.r.wrap.b32 %x, %a, %b, %b;\n"), w_shfr_wrap);
	check32("copysign", HEAD32("copysign.f32 %x, %a, %b;\n"), w_copysign);
	check32("bfind.s32", HEAD32("bfind.s32 %x, %a;\n"), w_bfind_s);
	check32("sub.cc subc", HEAD32("sub.cc.u32 %r2, %b, %a;\nsubc.u32 %x, %a, %b;\n"), w_borrow);
	check32("sub.cc addc", HEAD32("mul.lo.u32 %r3, %a, 10;\nsub.cc.u32 %r2, %b, %a;\naddc.u32 %x, %r3, 0;\n"),
		w_no_borrow);
	check32("add.cc subc", HEAD32("add.cc.u32 %r2, %b, %a;\nsubc.u32 %x, %a, %b;\n"), w_no_carry);
	check32("mad.cc madc", HEAD32("mad.lo.cc.u32 %r2, %a, %b, %a;\nmadc.hi.u32 %x, %a, %b, %b;\n"), w_madc);
}

static uint16_t bits_of_half(_Float16 h)
{
	uint16_t bits;

	memcpy(&bits, &h, 2);
	return h != h ? 0x7e00 : bits;
}

static uint32_t w_half_ftz(uint32_t a, uint32_t b)
{
	uint16_t v[2] = {(uint16_t)a, (uint16_t)b}, r;
	_Float16 h[2];

	for (int n = 0; n < 2; n++) {
		v[n] = v[n] & 0x7c00 ? v[n] : v[n] & 0x8000;
		memcpy(&h[n], &v[n], 2);
	}
	r = bits_of_half((_Float16)((float)h[0] * (float)h[1]));
	return r & 0x7c00 ? r : r & 0x8000;
}

W32(w_half_int, bits_of_half((_Float16)(double)(int32_t)a))
W32(w_relu, isnan(f32(a)) ? 0x7e00 : bits_of_half((_Float16)(f32(a) > 0 ? f32(a) : 0)))

#define QUIET_HALF                                                                                                     \
	"cvt.f32.f16 %f1, %h3;\ntestp.notanumber.f32 %p1, %f1;\n@%p1 mov.b16 %h3, 0x7e00;\ncvt.u32.u16 %x, %h3;\n"

static void half_conversions(void **state)
{
	(void)state;
	check32("mul.ftz.f16",
		HEAD32("cvt.u16.u32 %h1, %a;\ncvt.u16.u32 %h2, %b;\nmul.ftz.f16 %h3, %h1, %h2;\n" QUIET_HALF),
		w_half_ftz);
	check32("cvt.rn.f16.s32", HEAD32("cvt.rn.f16.s32 %h3, %a;\n" QUIET_HALF), w_half_int);
	check32("cvt.rn.relu.f16.f32", HEAD32("mov.b32 %f1, %a;\ncvt.rn.relu.f16.f32 %h3, %f1;\n" QUIET_HALF), w_relu);
}

/* Every operation and width, all threads on one word each; what is left does not depend on the order. */
static void atomic_operations(void **state)
{
	double sum;
	_Float16 pair[2];

	(void)state;
	memset(out64, 0, sizeof(out64));
	out64[3] = UINT64_MAX;
	out64[6] = 5;
	run_binary(PTX_BINARY_64("cvt.u64.u32 %l5, %r1;\natom.global.add.u64 %l6, [%l1], %l5;\n"
				 "atom.global.add.f64 %d1, [%l1+8], 0d3FE0000000000000;\n"
				 "red.global.max.s64 [%l1+16], %l5;\nred.global.min.u64 [%l1+24], %l5;\n"
				 "atom.global.exch.b64 %l6, [%l1+32], %l5;\nred.global.xor.b64 [%l1+40], %l5;\n"
				 "atom.global.cas.b64 %l6, [%l1+48], 5, 6;\n"
				 "atom.global.dec.u32 %r2, [%l1+56], 9;\nmov.b16 %h1, 7;\nmov.b16 %h2, 0;\n"
				 "atom.global.cas.b16 %h3, [%l1+66], %h2, %h1;\nmov.b32 %r3, 0x3c004000;\n"
				 "red.global.add.noftz.f16x2 [%l1+72], %r3;\nand.b32 %r4, %r1, 7;\n"
				 "atom.acq_rel.gpu.global.and.b32 %r5, [%l1+80], %r4;\nret;\n"),
		   64);
	memcpy(&sum, &out64[1], 8);
	memcpy(pair, &out64[9], 4);
	assert_int_equal(out64[0], THREADS * (THREADS - 1) / 2);
	assert_true(sum == THREADS * 0.5);
	assert_int_equal(out64[2], THREADS - 1);
	assert_int_equal(out64[3], 0);
	assert_int_equal(out64[4], THREADS - 1);
	assert_int_equal(out64[5], 0);
	assert_int_equal(out64[6], 6);
	assert_int_equal(out64[7], 6);
	assert_int_equal(out64[8], 7u << 16);
	assert_true((float)pair[0] == 2 * THREADS && (float)pair[1] == THREADS);
	assert_int_equal(out64[10], 0);
}

/* Orders, scopes and cache operators change nothing that one thread can see. */
static void memory_modifiers(void **state)
{
	static const char *const loads[] = {"ld.global.nc",
					    "ldu.global",
					    "ld.volatile.global",
					    "ld.relaxed.gpu.global",
					    "ld.acquire.sys.global",
					    "ld.global.ca",
					    "ld.global.cg",
					    "ld.global.cs",
					    "ld.global.lu",
					    "ld.global.cv",
					    "ld.weak.global",
					    "ld.volatile",
					    "ld.global.L1::no_allocate"};
	static const char *const stores[] = {
		"st.global",    "st.volatile.global", "st.relaxed.cta.global", "st.release.gpu.global", "st.global.wb",
		"st.global.cg", "st.global.cs",       "st.global.wt",          "st.weak.global"};
	char text[2048];

	(void)state;
	for (unsigned k = 0; k < 13; k++) {
		for (unsigned n = 0; n < 2 * THREADS; n++)
			in32[n] = n * 5 + k;
		snprintf(text, sizeof(text),
			 "%smul.wide.u32 %%l3, %%r1, 4;\nadd.s64 %%l4, %%l2, %%l3;\nadd.s64 %%l3, %%l1, %%l3;\n"
			 "prefetch.global.L2 [%%l4];\nfence.sc.gpu;\nmembar.gl;\nfence.acq_rel.cta;\nmembar.sys;\n"
			 "%s.u32 %%r2, [%%l4];\n%s.u32 [%%l3], %%r2;\nret;\n}\n",
			 REGISTERS, loads[k], stores[k % 9]);
		run_binary(text, 32);
		for (unsigned n = 0; n < THREADS; n++)
			assert_int_equal(out32[n], n * 5 + k);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(shifts_back),
		cmocka_unit_test(integers),
		cmocka_unit_test(quotients),
		cmocka_unit_test(bits),
		cmocka_unit_test(constants),
		cmocka_unit_test(wide_integers),
		cmocka_unit_test(floats),
		cmocka_unit_test(rounding),
		cmocka_unit_test(rounding_of_one),
		cmocka_unit_test(approximations),
		cmocka_unit_test(halves),
		cmocka_unit_test(permutations),
		cmocka_unit_test(packed_and_odd),
		cmocka_unit_test(half_conversions),
		cmocka_unit_test(atomic_operations),
		cmocka_unit_test(memory_modifiers),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
