/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Floating point. LLVM's operations round to nearest even; the other roundings go through ptx_rt_round(). Nothing is
 * contracted or reassociated: fma is written in the PTX where it is wanted.
 */
#include "ptx-lower.h"

static LLVMValueRef fcall(struct lower *l, const char *name, LLVMValueRef *args, unsigned count)
{
	return intrinsic(l, name, LLVMTypeOf(args[0]), args, count);
}

static LLVMValueRef fconst(LLVMValueRef like, double value)
{
	LLVMTypeRef type = LLVMTypeOf(like);
	LLVMValueRef all[PTX_LANES];

	if (LLVMGetTypeKind(type) != LLVMVectorTypeKind)
		return LLVMConstReal(type, value);
	for (unsigned n = 0; n < PTX_LANES; n++)
		all[n] = LLVMConstReal(LLVMGetElementType(type), value);
	return LLVMConstVector(all, LLVMGetVectorSize(type));
}

LLVMValueRef flush(struct lower *l, LLVMValueRef value)
{
	LLVMValueRef size = fcall(l, "llvm.fabs", &value, 1), args[2] = {fconst(value, 0), value};
	LLVMValueRef tiny = LLVMBuildFCmp(l->b, LLVMRealOLT, size, fconst(value, 0x1p-126), "");

	return LLVMBuildSelect(l->b, tiny, fcall(l, "llvm.copysign", args, 2), value, "");
}

/* To [0, 1], NaN to 0. */
LLVMValueRef saturate(struct lower *l, LLVMValueRef v)
{
	LLVMValueRef zero = fconst(v, 0), one = fconst(v, 1);

	v = LLVMBuildSelect(l->b, LLVMBuildFCmp(l->b, LLVMRealOGT, v, zero, ""), v, zero, "");
	return LLVMBuildSelect(l->b, LLVMBuildFCmp(l->b, LLVMRealOLT, v, one, ""), v, one, "");
}

static LLVMValueRef operand(struct lower *l, const struct ptx_instr *i, unsigned n)
{
	LLVMValueRef v = getf(l, &i->ops[n], i->type);

	return (i->mods & M(FTZ)) && i->type == PTX_F32 ? flush(l, v) : v;
}

static void finish(struct lower *l, const struct ptx_instr *i, LLVMValueRef v)
{
	if ((i->mods & M(FTZ)) && i->type == PTX_F32)
		v = flush(l, v);
	if (i->mods & M(SAT))
		v = saturate(l, v);
	set(l, &i->ops[0], v, false);
}

LLVMValueRef rounded(struct lower *l, unsigned operation, ptx_mods mods, unsigned type, LLVMValueRef *args,
		     unsigned count, LLVMTypeRef result)
{
	unsigned mode = mods & M(RZ) ? PTX_MOD_RZ : mods & M(RM) ? PTX_MOD_RM : mods & M(RP) ? PTX_MOD_RP : PTX_MOD_RN;
	LLVMValueRef buffers[3] = {l->addresses, l->data, l->extra}, list[6], v;

	list[0] = scalar_const(l->i32, operation | mode << 8 | type << 16);
	list[1] = scalar_const(l->i32, l->lanes);
	for (unsigned n = 0; n < 3; n++) {
		list[2 + n] = buffers[n];
		if (n < count)
			LLVMSetAlignment(LLVMBuildStore(l->b, args[n], buffers[n]), 8);
	}
	list[5] = field(l, l->extra, 512);
	call_runtime(l, "ptx_rt_round", l->void_type, list, 6);
	v = LLVMBuildLoad2(l->b, result, list[5], "");
	LLVMSetAlignment(v, 8);
	return v;
}

static bool directed(const struct ptx_instr *i)
{
	return i->mods & (M(RZ) | M(RM) | M(RP));
}

bool emit_float2(struct lower *l, const struct ptx_instr *i)
{
	LLVMValueRef v[2] = {operand(l, i, 1), operand(l, i, 2)}, r;
	unsigned operation = i->op->arg == LLVMFAdd   ? ROUND_ADD
			     : i->op->arg == LLVMFSub ? ROUND_SUB
			     : i->op->arg == LLVMFMul ? ROUND_MUL
						      : ROUND_DIV;

	if (directed(i))
		r = rounded(l, operation, i->mods, i->type, v, 2, LLVMTypeOf(v[0]));
	else
		r = LLVMBuildBinOp(l->b, (LLVMOpcode)i->op->arg, v[0], v[1], "");
	finish(l, i, r);
	return true;
}

bool emit_fma(struct lower *l, const struct ptx_instr *i)
{
	LLVMValueRef v[3] = {operand(l, i, 1), operand(l, i, 2), operand(l, i, 3)};

	finish(l, i,
	       directed(i) ? rounded(l, ROUND_FMA, i->mods, i->type, v, 3, LLVMTypeOf(v[0]))
			   : fcall(l, "llvm.fma", v, 3));
	return true;
}

static const char *unary_name(int operation)
{
	switch (operation) {
	case OP_ABS:
		return "llvm.fabs";
	case OP_SIN:
		return "llvm.sin";
	case OP_COS:
		return "llvm.cos";
	case OP_EX2:
		return "llvm.exp2";
	case OP_LG2:
		return "llvm.log2";
	case OP_TANH:
		return "llvm.tanh";
	default:
		return "llvm.sqrt";
	}
}

bool emit_float1(struct lower *l, const struct ptx_instr *i)
{
	LLVMValueRef v[2] = {operand(l, i, 1), NULL}, r;

	if (i->op->arg == OP_NEG) {
		r = LLVMBuildFNeg(l->b, v[0], "");
	} else if (i->op->arg == OP_RCP) {
		v[1] = v[0];
		v[0] = fconst(v[1], 1);
		r = directed(i) ? rounded(l, ROUND_DIV, i->mods, i->type, v, 2, LLVMTypeOf(v[0]))
				: LLVMBuildFDiv(l->b, v[0], v[1], "");
	} else if (i->op->arg == OP_SQRT && directed(i)) {
		r = rounded(l, ROUND_SQRT, i->mods, i->type, v, 1, LLVMTypeOf(v[0]));
	} else {
		r = fcall(l, unary_name(i->op->arg), v, 1);
		if (i->op->arg == OP_RSQRT)
			r = LLVMBuildFDiv(l->b, fconst(r, 1), r, "");
	}
	finish(l, i, r);
	return true;
}

/* The number if one side is NaN (with .NaN: NaN); -0 is less than +0. */
static LLVMValueRef fminmax(struct lower *l, bool max, bool nan, LLVMValueRef a, LLVMValueRef b)
{
	LLVMValueRef v[2] = {a, b}, r = fcall(l, max ? "llvm.maximum" : "llvm.minimum", v, 2);

	if (nan)
		return r;
	r = LLVMBuildSelect(l->b, LLVMBuildFCmp(l->b, LLVMRealUNO, b, b, ""), a, r, "");
	return LLVMBuildSelect(l->b, LLVMBuildFCmp(l->b, LLVMRealUNO, a, a, ""), b, r, "");
}

bool emit_fminmax(struct lower *l, const struct ptx_instr *i)
{
	finish(l, i, fminmax(l, i->op->arg == OP_MAX, i->mods & M(NANP), operand(l, i, 1), operand(l, i, 2)));
	return true;
}

bool emit_testp(struct lower *l, const struct ptx_instr *i)
{
	LLVMValueRef v = getf(l, &i->ops[1], i->type), size = fcall(l, "llvm.fabs", &v, 1), r;
	LLVMValueRef infinity = fconst(v, __builtin_inf()),
		     normal = fconst(v, i->type == PTX_F64 ? 0x1p-1022 : 0x1p-126);

	if (i->mods & M(FINITE))
		r = LLVMBuildFCmp(l->b, LLVMRealOLT, size, infinity, "");
	else if (i->mods & M(INFINITE))
		r = LLVMBuildFCmp(l->b, LLVMRealOEQ, size, infinity, "");
	else if (i->mods & (M(NUMBER) | M(NOTANUMBER)))
		r = LLVMBuildFCmp(l->b, i->mods & M(NUMBER) ? LLVMRealORD : LLVMRealUNO, v, v, "");
	else if (i->mods & M(NORMAL))
		r = LLVMBuildAnd(l->b, LLVMBuildFCmp(l->b, LLVMRealOGE, size, normal, ""),
				 LLVMBuildFCmp(l->b, LLVMRealOLT, size, infinity, ""), "");
	else
		r = LLVMBuildAnd(l->b, LLVMBuildFCmp(l->b, LLVMRealOLT, size, normal, ""),
				 LLVMBuildFCmp(l->b, LLVMRealOGT, size, fconst(v, 0), ""), "");
	set(l, &i->ops[0], r, false);
	return true;
}

/* The sign of the first, the rest of the second. */
bool emit_copysign(struct lower *l, const struct ptx_instr *i)
{
	LLVMValueRef v[2] = {getf(l, &i->ops[2], i->type), getf(l, &i->ops[1], i->type)};

	set(l, &i->ops[0], fcall(l, "llvm.copysign", v, 2), false);
	return true;
}

/*
 * Half precision is computed in f32, where add, sub and mul are exact enough to be rounded once more without harm; fma
 * in f64 for the same reason.
 */
static LLVMValueRef half_op(struct lower *l, const struct ptx_instr *i, unsigned type, LLVMValueRef *bits)
{
	unsigned wide = i->op->arg == OP_FMA ? PTX_F64 : PTX_F32;
	LLVMValueRef v[3] = {NULL, NULL, NULL}, r;

	if (i->op->arg == OP_ABS)
		return LLVMBuildAnd(l->b, bits[0], int_const(l, 16, 0x7fff), "");
	if (i->op->arg == OP_NEG)
		return LLVMBuildXor(l->b, bits[0], int_const(l, 16, 0x8000), "");
	for (unsigned n = 0; n + 1u < i->count; n++)
		v[n] = LLVMBuildFPExt(l->b, to_float(l, bits[n], type), float_type(l, wide), "");
	if (i->op->arg == OP_FMA)
		r = fcall(l, "llvm.fma", v, 3);
	else if (i->op->arg == OP_EX2 || i->op->arg == OP_TANH)
		r = fcall(l, i->op->arg == OP_EX2 ? "llvm.exp2" : "llvm.tanh", v, 1);
	else if (i->op->arg == OP_MIN || i->op->arg == OP_MAX)
		r = fminmax(l, i->op->arg == OP_MAX, i->mods & M(NANP), v[0], v[1]);
	else
		r = LLVMBuildBinOp(l->b, (LLVMOpcode)i->op->arg, v[0], v[1], "");
	if (i->mods & M(SAT))
		r = saturate(l, r);
	if (i->mods & M(RELU))
		r = LLVMBuildSelect(l->b, LLVMBuildFCmp(l->b, LLVMRealOLT, r, fconst(r, 0), ""), fconst(r, 0), r, "");
	return to_int(l, LLVMBuildFPTrunc(l->b, r, float_type(l, type), ""));
}

/* Subnormals to zero, keeping the sign. */
static LLVMValueRef flush_half(struct lower *l, LLVMValueRef bits)
{
	LLVMValueRef exponent = LLVMBuildAnd(l->b, bits, int_const(l, 16, 0x7c00), "");
	LLVMValueRef tiny = LLVMBuildICmp(l->b, LLVMIntEQ, exponent, int_const(l, 16, 0), "");

	return LLVMBuildSelect(l->b, tiny, LLVMBuildAnd(l->b, bits, int_const(l, 16, 0x8000), ""), bits, "");
}

bool emit_half(struct lower *l, const struct ptx_instr *i)
{
	unsigned parts = ptx_types[i->type].bits / 16,
		 type = i->type == PTX_F16 || i->type == PTX_F16X2 ? PTX_F16 : PTX_BF16;
	LLVMValueRef whole = NULL, bits[3], r;
	bool ftz = (i->mods & M(FTZ)) && type == PTX_F16;

	/* ex2 of bf16 is always written with it, and has no subnormal results that could matter */
	if ((i->mods & M(FTZ)) && !ftz && i->op->arg != OP_EX2)
		return false;
	for (unsigned p = 0; p < parts; p++) {
		for (unsigned n = 1; n < i->count; n++) {
			bits[n - 1] = get(l, &i->ops[n], i->type);
			if (p)
				bits[n - 1] = LLVMBuildLShr(l->b, bits[n - 1], int_const(l, 32, 16), "");
			bits[n - 1] = resize(l, bits[n - 1], 16, false);
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
