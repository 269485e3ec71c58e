/* SPDX-License-Identifier: Apache-2.0 */
/* Conversions to tf32 and to what has no infinities, and integers packed into one register. */
#include <string.h>

#include "lower/ptx-emit.h"
#include "lower/ptx-lower.h"

LLVMValueRef nearest_even(struct lower *l, LLVMValueRef word, unsigned bits)
{
	LLVMValueRef last = LLVMBuildAnd(l->b, LLVMBuildLShr(l->b, word, int_const(l, 32, bits), ""),
					 int_const(l, 32, 1), "");

	return LLVMBuildAdd(l->b, word, LLVMBuildAdd(l->b, last, int_const(l, 32, (1u << (bits - 1)) - 1), ""), "");
}

LLVMValueRef no_less_than_zero(struct lower *l, LLVMValueRef v)
{
	LLVMValueRef zero = LLVMConstNull(LLVMTypeOf(v));

	return LLVMBuildSelect(l->b, LLVMBuildFCmp(l->b, LLVMRealOLE, v, zero, ""), zero, v, "");
}

static LLVMValueRef is_nan(struct lower *l, LLVMValueRef v)
{
	return LLVMBuildFCmp(l->b, LLVMRealUNO, v, v, "");
}

static bool to_tf32(struct lower *l, const struct ptx_instr *i)
{
	LLVMValueRef v = getf(l, &i->ops[1], PTX_F32), nan = is_nan(l, v), word, sign, size, none;

	if (i->count != 2 || ptx_word(i, "rna") + ptx_word(i, "rn") + ptx_word(i, "rz") != 1)
		return false;
	if (ptx_word(i, "relu"))
		v = no_less_than_zero(l, v);
	word = to_int(l, v);
	sign = LLVMBuildAnd(l->b, word, int_const(l, 32, 1u << 31), "");
	size = LLVMBuildAnd(l->b, word, int_const(l, 32, INT32_MAX), "");
	if (ptx_word(i, "rna"))
		size = LLVMBuildAdd(l->b, size, int_const(l, 32, 0x1000), "");
	else if (ptx_word(i, "rn"))
		size = nearest_even(l, size, 13);
	size = LLVMBuildAnd(l->b, size, int_const(l, 32, ~0x1fffu), "");
	if (ptx_word(i, "satfinite"))
		size = int2(l, "llvm.umin", size, int_const(l, 32, 0x7f7fe000));
	/* as recorded on an H100: .rna cuts off a NaN's low bits, the others give the canonical NaN */
	none = ptx_word(i, "rna") ? LLVMBuildAnd(l->b, word, int_const(l, 32, ~0x1fffu), "") : int_const(l, 32, INT32_MAX);
	word = LLVMBuildOr(l->b, sign, size, "");
	set(l, &i->ops[0], select_of(l, nan, none, word), false);
	return true;
}

/* Beyond the largest number of the type there is nothing; NaN stays NaN. */
static LLVMValueRef to_finite_half(struct lower *l, const struct ptx_instr *i, const struct ptx_operand *o, unsigned type)
{
	LLVMValueRef v = getf(l, o, PTX_F32), word, sign, size;
	uint32_t most = type == PTX_F16 ? 0x477fe000 : 0x7f7f0000;

	if (ptx_word(i, "relu"))
		v = no_less_than_zero(l, v);
	word = to_int(l, v);
	sign = LLVMBuildAnd(l->b, word, int_const(l, 32, 1u << 31), "");
	size = int2(l, "llvm.umin", LLVMBuildAnd(l->b, word, int_const(l, 32, INT32_MAX), ""), int_const(l, 32, most));
	word = select_of(l, is_nan(l, v), word, LLVMBuildOr(l->b, sign, size, ""));
	return half_bits(l, to_float(l, word, PTX_F32), type, ptx_word(i, "rz") ? M(RZ) : 0);
}

/* f32 to f16 or bf16 with .satfinite, or two of them to a pair: the first goes up. */
static bool to_finite(struct lower *l, const struct ptx_instr *i)
{
	bool pair = ptx_word(i, "f16x2") || ptx_word(i, "bf16x2");
	unsigned type = ptx_word(i, "f16") || ptx_word(i, "f16x2") ? PTX_F16 : PTX_BF16;
	LLVMValueRef part[2];

	if (ptx_word(i, "rn") + ptx_word(i, "rz") != 1 || !ptx_word(i, "satfinite") || !ptx_word(i, "f32") ||
	    ptx_word(i, "f16") + ptx_word(i, "f16x2") + ptx_word(i, "bf16") + ptx_word(i, "bf16x2") != 1 ||
	    i->count != (pair ? 3 : 2))
		return false;
	part[0] = to_finite_half(l, i, &i->ops[1], type);
	if (pair) {
		part[1] = to_finite_half(l, i, &i->ops[2], type);
		part[0] = LLVMBuildShl(l->b, resize(l, part[0], 32, false), int_const(l, 32, 16), "");
		part[0] = LLVMBuildOr(l->b, part[0], resize(l, part[1], 32, false), "");
	}
	set(l, &i->ops[0], part[0], false);
	return true;
}

bool emit_cvt_small(struct lower *l, const struct ptx_instr *i)
{
	return ptx_word(i, "tf32") ? ptx_word(i, "f32") && to_tf32(l, i) : to_finite(l, i);
}

/* d = sat(b), above it sat(a), above that the low bits of c */
bool emit_cvt_pack(struct lower *l, const struct ptx_instr *i)
{
	static const struct {
		const char *word;
		unsigned bits;
		bool is_signed;
	} types[] = {{"u16", 16, false}, {"s16", 16, true}, {"u8", 8, false}, {"s8", 8, true},
		     {"u4", 4, false},	 {"s4", 4, true},   {"u2", 2, false}, {"s2", 2, true}};
	LLVMValueRef r = NULL;

	if (!ptx_word(i, "sat") || !ptx_word(i, "s32"))
		return false;
	for (unsigned t = 0; t < sizeof(types) / sizeof(types[0]); t++) {
		unsigned bits = types[t].bits;
		int64_t low = types[t].is_signed ? -(1 << (bits - 1)) : 0, high = low + (1 << bits) - 1;

		if (!ptx_word(i, types[t].word))
			continue;
		if ((bits < 16) != ptx_word(i, "b32") || i->count != (bits < 16 ? 4 : 3) || r)
			return false;
		r = bits < 16 ? get(l, &i->ops[3], PTX_B32) : int_const(l, 32, 0);
		for (unsigned n = 1; n < 3; n++) {
			LLVMValueRef v = get(l, &i->ops[n], PTX_S32);

			v = int2(l, "llvm.smax", v, int_const(l, 32, (uint64_t)low));
			v = int2(l, "llvm.smin", v, int_const(l, 32, (uint64_t)high));
			v = LLVMBuildAnd(l->b, v, int_const(l, 32, (1u << bits) - 1), "");
			r = LLVMBuildOr(l->b, LLVMBuildShl(l->b, r, int_const(l, 32, bits), ""), v, "");
		}
	}
	if (r)
		set(l, &i->ops[0], r, false);
	return r;
}
