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

/* min or max of two or three values; with .xorsign.abs: of their sizes, with the product's sign. */
LLVMValueRef minmax_value(struct lower *l, const struct ptx_instr *i, LLVMValueRef *v)
{
	bool max = i->op->arg == OP_MAX, sign = ptx_word(i, "xorsign"), sizes = ptx_word(i, "abs");
	LLVMValueRef r = NULL, bits[2], args[2];

	for (unsigned n = 0; n + 1u < i->count; n++) {
		LLVMValueRef one = sizes ? fcall(l, "llvm.fabs", &v[n], 1) : v[n];

		r = r ? fminmax(l, max, i->mods & M(NANP), r, one) : one;
	}
	if (!sign)
		return r;
	for (unsigned n = 0; n < 2; n++)
		bits[n] = to_int(l, v[n]);
	args[0] = r;
	args[1] = LLVMBuildBitCast(l->b, LLVMBuildXor(l->b, bits[0], bits[1], ""), LLVMTypeOf(r), "");
	return LLVMBuildSelect(l->b, LLVMBuildFCmp(l->b, LLVMRealUNO, r, r, ""), r, fcall(l, "llvm.copysign", args, 2),
			       "");
}

static LLVMValueRef canonical(struct lower *l, LLVMValueRef v)
{
	LLVMValueRef nan;

	if (bits_of(v) != 32)
		return v;
	nan = to_float(l, int_const(l, 32, 0x7fffffff), PTX_F32);
	return LLVMBuildSelect(l->b, LLVMBuildFCmp(l->b, LLVMRealUNO, v, v, ""), nan, v, "");
}

bool emit_fminmax(struct lower *l, const struct ptx_instr *i)
{
	LLVMValueRef v[3] = {NULL, NULL, NULL};

	if (ptx_word(i, "xorsign") && (i->count != 3 || !ptx_word(i, "abs")))
		return false;
	for (unsigned n = 1; n < i->count; n++)
		v[n - 1] = operand(l, i, n);
	finish(l, i, canonical(l, minmax_value(l, i, v)));
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
