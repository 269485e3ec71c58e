/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Numbers of 16 bits, alone and in pairs. They are computed in f32, where add, sub and mul are exact enough to be rounded
 * once more without harm; fma in f64, with the last bit telling what was lost (round to odd). NaN results are 0x7fff.
 */
#include "lower/ptx-emit.h"
#include "lower/ptx-lower.h"
#include "runtime/ptx-tensor-map.h"

static LLVMValueRef fcall(struct lower *l, const char *name, LLVMValueRef *args, unsigned count)
{
	return intrinsic(l, name, LLVMTypeOf(args[0]), args, count);
}

static LLVMValueRef is_nan(struct lower *l, LLVMValueRef v)
{
	return LLVMBuildFCmp(l->b, LLVMRealUNO, v, v, "");
}

LLVMValueRef half_value(struct lower *l, LLVMValueRef bits, unsigned type)
{
	if (type == PTX_F16)
		return LLVMBuildFPExt(l->b, to_float(l, bits, type), float_type(l, PTX_F32), "");
	bits = LLVMBuildShl(l->b, resize(l, bits, 32, false), int_const(l, 32, 16), "");
	return to_float(l, bits, PTX_F32);
}

/* bits |= 1 where something was lost, after one step towards 0 where it was rounded away from it. */
static LLVMValueRef odd(struct lower *l, LLVMValueRef bits, LLVMValueRef lost, LLVMValueRef away)
{
	unsigned width = bits_of(bits);

	bits = LLVMBuildSub(l->b, bits, resize(l, away, width, false), "");
	return LLVMBuildOr(l->b, bits, resize(l, lost, width, false), "");
}

/* f64 to f32 so that rounding the result to 16 bits gives what rounding the f64 gives. */
static LLVMValueRef narrow_to_odd(struct lower *l, LLVMValueRef v)
{
	LLVMValueRef r = LLVMBuildFPTrunc(l->b, v, float_type(l, PTX_F32), ""), back, sizes[2];

	back = LLVMBuildFPExt(l->b, r, float_type(l, PTX_F64), "");
	sizes[0] = fcall(l, "llvm.fabs", &back, 1);
	sizes[1] = fcall(l, "llvm.fabs", &v, 1);
	r = odd(l, to_int(l, r), LLVMBuildFCmp(l->b, LLVMRealONE, back, v, ""),
		LLVMBuildFCmp(l->b, LLVMRealOGT, sizes[0], sizes[1], ""));
	return to_float(l, r, PTX_F32);
}

static LLVMValueRef round_bfloat(struct lower *l, LLVMValueRef v)
{
	LLVMValueRef bits = to_int(l, v), up;

	up = LLVMBuildAnd(l->b, LLVMBuildLShr(l->b, bits, int_const(l, 32, 16), ""), int_const(l, 32, 1), "");
	up = LLVMBuildAdd(l->b, up, int_const(l, 32, 0x7fff), "");
	bits = LLVMBuildLShr(l->b, LLVMBuildAdd(l->b, bits, up, ""), int_const(l, 32, 16), "");
	return resize(l, bits, 16, false);
}

/* The nearest value was found: the one that the rounding mode wants instead. */
static LLVMValueRef direct(struct lower *l, ptx_mods mode, unsigned type, LLVMValueRef v, LLVMValueRef bits)
{
	LLVMValueRef back = half_value(l, bits, type), sizes[2], beyond;

	sizes[0] = fcall(l, "llvm.fabs", &back, 1);
	sizes[1] = fcall(l, "llvm.fabs", &v, 1);
	beyond = LLVMBuildFCmp(l->b, LLVMRealOGT, sizes[0], sizes[1], "");
	bits = LLVMBuildSub(l->b, bits, resize(l, beyond, 16, false), "");
	if (mode & M(RZ))
		return bits;
	back = half_value(l, bits, type);
	beyond = LLVMBuildFCmp(l->b, mode & M(RP) ? LLVMRealOLT : LLVMRealOGT, back, v, "");
	return LLVMBuildAdd(l->b, bits, resize(l, beyond, 16, false), "");
}

LLVMValueRef half_bits(struct lower *l, LLVMValueRef v, unsigned type, ptx_mods mode)
{
	LLVMValueRef nan = is_nan(l, v), bits;

	mode &= M(RZ) | M(RM) | M(RP);
	/* directed modes compare with what is rounded: f64 must not be rounded before */
	if (bits_of(v) == 64)
		v = narrow_to_odd(l, v);
	if (type == PTX_F16)
		bits = to_int(l, LLVMBuildFPTrunc(l->b, v, float_type(l, PTX_F16), ""));
	else
		bits = round_bfloat(l, v);
	if (mode)
		bits = direct(l, mode, type, v, bits);
	return select_of(l, nan, int_const(l, 16, 0x7fff), bits);
}

/* a * b + c: the product of two halves is exact in f64, the sum is rounded to odd. */
static LLVMValueRef fused(struct lower *l, LLVMValueRef *v, ptx_mods mods)
{
	LLVMValueRef r, p, s, part, rest, lost, bits, away, zero;

	for (unsigned n = 0; n < 3; n++)
		v[n] = LLVMBuildFPExt(l->b, v[n], float_type(l, PTX_F64), "");
	p = LLVMBuildFMul(l->b, v[0], v[1], "");
	s = LLVMBuildFAdd(l->b, p, v[2], "");
	part = LLVMBuildFSub(l->b, s, p, "");
	rest = LLVMBuildFSub(l->b, p, LLVMBuildFSub(l->b, s, part, ""), "");
	rest = LLVMBuildFAdd(l->b, rest, LLVMBuildFSub(l->b, v[2], part, ""), "");
	zero = LLVMConstNull(LLVMTypeOf(rest));
	lost = LLVMBuildFCmp(l->b, LLVMRealONE, rest, zero, "");
	bits = to_int(l, s);
	away = compare(l, LLVMIntSLT, LLVMBuildXor(l->b, bits, to_int(l, rest), ""), int_const(l, 64, 0));
	r = to_float(l, odd(l, bits, lost, LLVMBuildAnd(l->b, away, lost, "")), PTX_F64);
	if (!(mods & M(RM)))
		return r;
	/* what cancels out is -0 if rounded down */
	bits = LLVMBuildOr(l->b, to_int(l, p), to_int(l, v[2]), "");
	bits = to_float(l, LLVMBuildAnd(l->b, bits, int_const(l, 64, 1ull << 63), ""), PTX_F64);
	return LLVMBuildSelect(l->b, LLVMBuildFCmp(l->b, LLVMRealOEQ, r, zero, ""), bits, r, "");
}

static LLVMValueRef one_result(struct lower *l, const struct ptx_instr *i, LLVMValueRef *v)
{
	LLVMValueRef r;

	switch (i->op->arg) {
	case OP_FMA:
		return fused(l, v, i->mods);
	case OP_EX2:
		r = fcall(l, "llvm.exp2", v, 1);
		return i->mods & M(FTZ) ? flush(l, r) : r;
	case OP_TANH:
		return fcall(l, "llvm.tanh", v, 1);
	case OP_MIN:
	case OP_MAX:
		return minmax_value(l, i, v);
	default:
		return LLVMBuildBinOp(l->b, llvm_opcode(i), v[0], v[1], "");
	}
}

/* Flushes numbers that round to less than the least normal f16, with exponents as in f32 or f64. */
static LLVMValueRef flush_tiny(struct lower *l, LLVMValueRef v)
{
	LLVMTypeRef type = bits_of(v) == 64 ? l->type.f64 : l->type.f32;
	LLVMValueRef pair[2] = {LLVMConstNull(LLVMTypeOf(v)), v}, size = fcall(l, "llvm.fabs", &v, 1), tiny;

	tiny = LLVMBuildFCmp(l->b, LLVMRealOLT, size, splat(l, LLVMConstReal(type, 0x1.ffep-15), l->at.lanes), "");
	return LLVMBuildSelect(l->b, tiny, fcall(l, "llvm.copysign", pair, 2), v, "");
}

/* .oob: the filling that copies of tensors write for elements outside makes a product and its sum 0. */
static LLVMValueRef without_outside(struct lower *l, const LLVMValueRef *bits, LLVMValueRef r)
{
	LLVMValueRef nan = int_const(l, 16, PTX_TENSOR_NAN_16);
	LLVMValueRef a = compare(l, LLVMIntEQ, bits[0], nan), b = compare(l, LLVMIntEQ, bits[1], nan);

	return select_of(l, LLVMBuildOr(l->b, a, b, ""), int_const(l, 16, 0), r);
}

static LLVMValueRef half_op(struct lower *l, const struct ptx_instr *i, unsigned type, LLVMValueRef *bits)
{
	LLVMValueRef v[3] = {NULL, NULL, NULL}, r, zero;

	if (i->op->arg == OP_ABS)
		return LLVMBuildAnd(l->b, bits[0], int_const(l, 16, 0x7fff), "");
	if (i->op->arg == OP_NEG)
		return LLVMBuildXor(l->b, bits[0], int_const(l, 16, 0x8000), "");
	for (unsigned n = 0; n + 1u < i->count; n++)
		v[n] = half_value(l, bits[n], type);
	r = one_result(l, i, v);
	zero = LLVMConstNull(LLVMTypeOf(r));
	/* with .relu the -0 of what is flushed is 0 */
	if ((i->mods & M(FTZ)) && type == PTX_F16)
		r = flush_tiny(l, r);
	if (i->mods & M(SAT))
		r = saturate(l, r);
	if (i->mods & M(RELU))
		r = LLVMBuildSelect(l->b, LLVMBuildFCmp(l->b, i->mods & M(FTZ) ? LLVMRealOLE : LLVMRealOLT, r, zero, ""), zero, r, "");
	r = half_bits(l, r, type, i->mods);
	return i->mods & M(OOB) ? without_outside(l, bits, r) : r;
}

/* Subnormals to zero, keeping the sign. */
LLVMValueRef flush_half(struct lower *l, LLVMValueRef bits)
{
	LLVMValueRef exponent = LLVMBuildAnd(l->b, bits, int_const(l, 16, 0x7c00), "");
	LLVMValueRef tiny = LLVMBuildICmp(l->b, LLVMIntEQ, exponent, int_const(l, 16, 0), "");

	return LLVMBuildSelect(l->b, tiny, LLVMBuildAnd(l->b, bits, int_const(l, 16, 0x8000), ""), bits, "");
}

LLVMValueRef half_part(struct lower *l, const struct ptx_operand *o, unsigned type, unsigned part)
{
	LLVMValueRef v = get(l, o, type);

	if (part)
		v = LLVMBuildLShr(l->b, v, int_const(l, 32, 16), "");
	return resize(l, v, 16, false);
}

bool emit_half(struct lower *l, const struct ptx_instr *i)
{
	unsigned parts = ptx_types[i->type].bits / 16,
		 type = i->type == PTX_F16 || i->type == PTX_F16X2 ? PTX_F16 : PTX_BF16;
	LLVMValueRef whole = NULL, bits[3], r;
	bool ftz = (i->mods & M(FTZ)) && type == PTX_F16;

	if ((i->mods & M(FTZ)) && !ftz && i->op->arg != OP_EX2)
		return false;
	for (unsigned p = 0; p < parts; p++) {
		for (unsigned n = 1; n < i->count; n++) {
			bits[n - 1] = half_part(l, &i->ops[n], i->type, p);
			if (ftz)
				bits[n - 1] = flush_half(l, bits[n - 1]);
		}
		r = half_op(l, i, type, bits);
		if (ftz)
			r = flush_half(l, r);
		if (parts == 2)
			r = resize(l, r, 32, false);
		if (p)
			r = LLVMBuildOr(l->b, whole, LLVMBuildShl(l->b, r, int_const(l, 32, 16), ""), "");
		whole = r;
	}
	set(l, &i->ops[0], whole, false);
	return true;
}
