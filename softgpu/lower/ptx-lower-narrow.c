/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Conversions to and from floating-point numbers of 8, 6 and 4 bits, two in a register, and of ue8m0, which are powers
 * of two. Numbers that are too large become the largest one; so does NaN where a format has none.
 */
#include <string.h>

#include "lower/ptx-emit.h"
#include "lower/ptx-lower.h"

static const struct format {
	const char *word;
	uint8_t place; /* bits that a number takes in the register */
	uint8_t bits, mantissa, bias, largest, nan;
	bool of_halves; /* may be made of f16x2 */
} formats[] = {
	{"e4m3x2", 8, 8, 3, 7, 0x7e, 0x7f, true},  {"e5m2x2", 8, 8, 2, 15, 0x7b, 0x7f, true},
	{"e2m1x2", 4, 4, 1, 1, 7, 7, true},        {"e2m3x2", 8, 6, 3, 1, 0x1f, 0x1f, false},
	{"e3m2x2", 8, 6, 2, 3, 0x1f, 0x1f, false},
};

static LLVMValueRef is_nan(struct lower *l, LLVMValueRef v)
{
	return LLVMBuildFCmp(l->b, LLVMRealUNO, v, v, "");
}

static LLVMValueRef size_of(struct lower *l, LLVMValueRef v)
{
	return LLVMBuildAnd(l->b, to_int(l, v), int_const(l, 32, INT32_MAX), "");
}

/* The sign of an f32, `to` bits up. */
static LLVMValueRef sign_of(struct lower *l, LLVMValueRef v, unsigned to)
{
	v = LLVMBuildLShr(l->b, to_int(l, v), int_const(l, 32, 31), "");
	return LLVMBuildShl(l->b, v, int_const(l, 32, to), "");
}

/* An f32 to the nearest number, ties to even. */
static LLVMValueRef encode(struct lower *l, LLVMValueRef v, const struct format *f)
{
	LLVMValueRef size = size_of(l, v), code, tiny, small, scale;

	code = nearest_even(l, size, 23u - f->mantissa);
	code = LLVMBuildLShr(l->b, code, int_const(l, 32, 23u - f->mantissa), "");
	code = LLVMBuildSub(l->b, code, int_const(l, 32, (127u - f->bias) << f->mantissa), "");
	/* subnormals: how many of the smallest */
	scale = to_float(l, int_const(l, 32, (126u + f->mantissa + f->bias) << 23), PTX_F32);
	small = LLVMBuildFMul(l->b, to_float(l, size, PTX_F32), scale, "");
	small = intrinsic(l, "llvm.roundeven", LLVMTypeOf(small), &small, 1);
	tiny = compare(l, LLVMIntULT, size, int_const(l, 32, (128u - f->bias) << 23));
	small = LLVMBuildSelect(l->b, tiny, small, LLVMConstNull(LLVMTypeOf(small)), "");
	small = LLVMBuildFPToUI(l->b, small, type_for(l, l->type.i32), "");
	code = select_of(l, tiny, small, int2(l, "llvm.umin", code, int_const(l, 32, f->largest)));
	code = LLVMBuildOr(l->b, code, sign_of(l, v, f->bits - 1u), "");
	return select_of(l, is_nan(l, v), int_const(l, 32, f->nan), code);
}

/* A number in the low bits as an f32. */
static LLVMValueRef decode(struct lower *l, LLVMValueRef code, const struct format *f)
{
	LLVMValueRef size, sign, v, nan;

	/* the upper half of an f16, infinities and all */
	if (f->bits == 8 && f->mantissa == 2)
		return half_value(l, resize(l, LLVMBuildShl(l->b, code, int_const(l, 32, 8), ""), 16, false), PTX_F16);
	size = LLVMBuildAnd(l->b, code, int_const(l, 32, (1u << (f->bits - 1)) - 1), "");
	sign = LLVMBuildAnd(l->b, code, int_const(l, 32, 1u << (f->bits - 1)), "");
	sign = LLVMBuildShl(l->b, sign, int_const(l, 32, 32u - f->bits), "");
	v = to_float(l, LLVMBuildShl(l->b, size, int_const(l, 32, 23u - f->mantissa), ""), PTX_F32);
	v = LLVMBuildFMul(l->b, v, to_float(l, int_const(l, 32, (254u - f->bias) << 23), PTX_F32), "");
	v = LLVMBuildOr(l->b, to_int(l, v), sign, "");
	if (f->nan > f->largest) {
		nan = compare(l, LLVMIntEQ, size, int_const(l, 32, f->nan));
		v = select_of(l, nan, int_const(l, 32, INT32_MAX), v);
	}
	return to_float(l, v, PTX_F32);
}

/* The exponent of an f32: of the next power of two towards 0, or away from it. A sign is not looked at. */
static LLVMValueRef exponent_of(struct lower *l, LLVMValueRef v, bool up, bool finite)
{
	LLVMValueRef size = size_of(l, v), code = LLVMBuildLShr(l->b, size, int_const(l, 32, 23), ""), more, args[2];

	if (up) {
		/* 0 is 2^-127: subnormals up to that are not above it */
		args[0] = int_const(l, 32, 1u << 22);
		args[1] = int_const(l, 32, 0x7fffff);
		more = LLVMBuildAnd(l->b, size, args[1], "");
		more = compare(l, LLVMIntNE, more, int_const(l, 32, 0));
		more = LLVMBuildAnd(l->b, more, compare(l, LLVMIntUGT, size, args[0]), "");
		more = LLVMBuildAnd(l->b, more, compare(l, LLVMIntULT, size, int_const(l, 32, 0x7f800000)), "");
		code = LLVMBuildAdd(l->b, code, resize(l, more, 32, false), "");
	}
	if (finite)
		code = select_of(l, is_nan(l, v), code, int2(l, "llvm.umin", code, int_const(l, 32, 0xfe)));
	return code;
}

/* As bf16. */
static LLVMValueRef power_of(struct lower *l, LLVMValueRef code)
{
	LLVMValueRef v = LLVMBuildShl(l->b, code, int_const(l, 32, 7), "");

	v = select_of(l, compare(l, LLVMIntEQ, code, int_const(l, 32, 0)), int_const(l, 32, 0x40), v);
	return select_of(l, compare(l, LLVMIntEQ, code, int_const(l, 32, 0xff)), int_const(l, 32, 0x7fff), v);
}

/* ---- two at once: the first, or the upper one, goes up ---- */

/* The numbers to convert, as f32: two operands, or the parts of one. */
static void sources(struct lower *l, const struct ptx_instr *i, unsigned pair, LLVMValueRef *v)
{
	unsigned half = pair == PTX_F16X2 ? PTX_F16 : PTX_BF16;

	for (unsigned n = 0; n < 2; n++) {
		v[n] = pair ? half_value(l, half_part(l, &i->ops[1], pair, !n), half)
			    : getf(l, &i->ops[n + 1], PTX_F32);
		if (ptx_word(i, "relu"))
			v[n] = no_less_than_zero(l, v[n]);
	}
}

static bool set_pair(struct lower *l, const struct ptx_instr *i, LLVMValueRef *part, unsigned place)
{
	LLVMValueRef v = LLVMBuildShl(l->b, part[0], int_const(l, 32, place), "");

	set(l, &i->ops[0], resize(l, LLVMBuildOr(l->b, v, part[1], ""), place == 16 ? 32 : 16, false), false);
	return true;
}

static LLVMValueRef source_part(struct lower *l, const struct ptx_instr *i, unsigned n, unsigned place)
{
	LLVMValueRef both = resize(l, get(l, &i->ops[1], PTX_B16), 32, false);

	both = LLVMBuildLShr(l->b, both, int_const(l, 32, n ? 0 : place), "");
	return LLVMBuildAnd(l->b, both, int_const(l, 32, (1u << place) - 1), "");
}

static bool to_narrow(struct lower *l, const struct ptx_instr *i, const struct format *f, unsigned pair)
{
	LLVMValueRef v[2];

	if (!ptx_word(i, "rn") || !ptx_word(i, "satfinite") || ptx_word(i, "rz") || ptx_word(i, "rp") ||
	    (pair && (pair != PTX_F16X2 || !f->of_halves)))
		return false;
	sources(l, i, pair, v);
	for (unsigned n = 0; n < 2; n++)
		v[n] = encode(l, v[n], f);
	return set_pair(l, i, v, f->place);
}

static bool from_narrow(struct lower *l, const struct ptx_instr *i, const struct format *f)
{
	LLVMValueRef v[2];

	if (!ptx_word(i, "rn") || ptx_word(i, "satfinite") || ptx_word(i, "rz") || ptx_word(i, "rp"))
		return false;
	for (unsigned n = 0; n < 2; n++) {
		v[n] = decode(l, source_part(l, i, n, f->place), f);
		v[n] = ptx_word(i, "relu") ? no_less_than_zero(l, v[n]) : v[n];
		v[n] = resize(l, half_bits(l, v[n], PTX_F16, 0), 32, false);
	}
	return set_pair(l, i, v, 16);
}

static bool to_exponents(struct lower *l, const struct ptx_instr *i, unsigned pair)
{
	bool up = ptx_word(i, "rp");
	LLVMValueRef v[2];

	if (up == ptx_word(i, "rz") || ptx_word(i, "rn") || ptx_word(i, "relu") || pair == PTX_F16X2)
		return false;
	sources(l, i, pair, v);
	for (unsigned n = 0; n < 2; n++)
		v[n] = exponent_of(l, v[n], up, ptx_word(i, "satfinite"));
	return set_pair(l, i, v, 8);
}

static bool from_exponents(struct lower *l, const struct ptx_instr *i)
{
	LLVMValueRef v[2];

	if (!ptx_word(i, "rn") || ptx_word(i, "relu") || ptx_word(i, "satfinite") || ptx_word(i, "rz") ||
	    ptx_word(i, "rp"))
		return false;
	for (unsigned n = 0; n < 2; n++)
		v[n] = power_of(l, source_part(l, i, n, 8));
	return set_pair(l, i, v, 16);
}

static bool is_word(const char *at, const char *word)
{
	size_t length = strlen(word);

	return !strncmp(at, word, length) && (!at[length] || at[length] == '.');
}

static const struct format *find_format(const char *word)
{
	for (size_t n = 0; n < sizeof(formats) / sizeof(formats[0]); n++)
		if (is_word(word, formats[n].word))
			return &formats[n];
	return NULL;
}

/* The last two words are the types. */
bool emit_cvt_narrow(struct lower *l, const struct ptx_instr *i)
{
	const char *at = ptx_words_of(i), *word, *to = "", *from = "";
	const struct format *f;
	unsigned pair;

	while (ptx_word_next(&at, &word)) {
		to = from;
		from = word;
	}
	pair = is_word(from, "f16x2") ? PTX_F16X2 : is_word(from, "bf16x2") ? PTX_BF16X2 : PTX_NONE;
	if (pair || is_word(from, "f32")) {
		if (i->count != (pair ? 2 : 3))
			return false;
		f = find_format(to);
		return is_word(to, "ue8m0x2") ? to_exponents(l, i, pair) : f && to_narrow(l, i, f, pair);
	}
	if (i->count != 2)
		return false;
	f = find_format(from);
	return is_word(from, "ue8m0x2") ? is_word(to, "bf16x2") && from_exponents(l, i)
					: f && is_word(to, "f16x2") && from_narrow(l, i, f);
}
