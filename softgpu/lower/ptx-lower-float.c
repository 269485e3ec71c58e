/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Floating point. LLVM's operations round to nearest even; the other roundings go through ptx_rt_round(). Nothing is
 * contracted or reassociated: fma is written in the PTX where it is wanted.
 */
#include "lower/ptx-emit.h"
#include "lower/ptx-lower.h"

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

static LLVMTypeKind float_kind(LLVMValueRef v)
{
	LLVMTypeRef type = LLVMTypeOf(v);

	return LLVMGetTypeKind(LLVMGetTypeKind(type) == LLVMVectorTypeKind ? LLVMGetElementType(type) : type);
}

static LLVMValueRef least_normal(LLVMValueRef like)
{
	LLVMTypeKind kind = float_kind(like);

	return fconst(like, kind == LLVMHalfTypeKind     ? 0x1p-14
			    : kind == LLVMDoubleTypeKind ? 0x1p-1022
							 : 0x1p-126);
}

LLVMValueRef flush(struct lower *l, LLVMValueRef value)
{
	LLVMValueRef size = fcall(l, "llvm.fabs", &value, 1), args[2] = {fconst(value, 0), value};
	LLVMValueRef tiny = LLVMBuildFCmp(l->b, LLVMRealOLT, size, least_normal(value), "");

	return LLVMBuildSelect(l->b, tiny, fcall(l, "llvm.copysign", args, 2), value, "");
}

/* To [0, 1], NaN to 0. */
LLVMValueRef saturate(struct lower *l, LLVMValueRef v)
{
	LLVMValueRef zero = fconst(v, 0), one = fconst(v, 1);

	v = LLVMBuildSelect(l->b, LLVMBuildFCmp(l->b, LLVMRealOGT, v, zero, ""), v, zero, "");
	return LLVMBuildSelect(l->b, LLVMBuildFCmp(l->b, LLVMRealOLT, v, one, ""), v, one, "");
}

/* The approximations of 1/x and 1/sqrt(x) in f64 read and write the upper half of a number only. */
static LLVMValueRef upper_half(struct lower *l, const struct ptx_instr *i, LLVMValueRef v)
{
	if (i->type != PTX_F64 || !(i->mods & M(APPROX)) || !(i->mods & M(FTZ)))
		return v;
	return to_float(l, LLVMBuildAnd(l->b, to_int(l, v), int_const(l, 64, UINT64_MAX << 32), ""), PTX_F64);
}

/* The type of the numbers: for a pair, that of one of them. */
static unsigned number_type(const struct ptx_instr *i)
{
	return i->type == PTX_F32X2 ? PTX_F32 : i->type;
}

/* In mixed precision all operands but the last are halves. */
static LLVMValueRef operand(struct lower *l, const struct ptx_instr *i, unsigned n, unsigned part)
{
	LLVMValueRef v;

	if (i->type == PTX_F32X2) {
		v = get(l, &i->ops[n], PTX_B64);
		v = part ? LLVMBuildLShr(l->b, v, int_const(l, 64, 32), "") : v;
		v = to_float(l, resize(l, v, 32, false), PTX_F32);
	} else if (i->type2 && n + 1u < i->count) {
		v = half_value(l, get(l, &i->ops[n], i->type2), i->type2);
	} else {
		v = upper_half(l, i, getf(l, &i->ops[n], i->type));
	}
	return i->mods & M(FTZ) ? flush(l, v) : v;
}

static LLVMValueRef finished(struct lower *l, const struct ptx_instr *i, LLVMValueRef v)
{
	if (i->mods & M(FTZ))
		v = flush(l, v);
	if (i->mods & M(SAT))
		v = saturate(l, v);
	return upper_half(l, i, v);
}

static void finish(struct lower *l, const struct ptx_instr *i, LLVMValueRef v)
{
	set(l, &i->ops[0], finished(l, i, v), false);
}

LLVMValueRef rounded(struct lower *l, unsigned operation, ptx_mods mods, unsigned type, LLVMValueRef *args,
		     unsigned count, LLVMTypeRef result)
{
	unsigned mode = mods & M(RZ) ? PTX_MOD_RZ : mods & M(RM) ? PTX_MOD_RM : mods & M(RP) ? PTX_MOD_RP : PTX_MOD_RN;
	LLVMValueRef buffers[3] = {l->mem.addresses, l->mem.data, l->mem.extra}, list[6], v;

	list[0] = scalar_const(l->type.i32, operation | mode << 8 | type << 16);
	list[1] = scalar_const(l->type.i32, l->at.lanes);
	for (unsigned n = 0; n < 3; n++) {
		list[2 + n] = buffers[n];
		if (n < count)
			LLVMSetAlignment(LLVMBuildStore(l->b, args[n], buffers[n]), 8);
	}
	list[5] = field(l, l->mem.extra, 512);
	call_runtime(l, "ptx_rt_round", l->type.void_type, list, 6);
	v = LLVMBuildLoad2(l->b, result, list[5], "");
	LLVMSetAlignment(v, 8);
	return v;
}

static bool directed(const struct ptx_instr *i)
{
	return i->mods & (M(RZ) | M(RM) | M(RP));
}

/*
 * .ftz asks whether a result is subnormal after it was rounded to all its bits, as if exponents had no end: what only
 * the coarser steps of subnormals round up to the least normal number is flushed. The same operation with its first
 * operand (and an addend) times 2^24, which no exponent gets in the way of, tells.
 */
#define TINY_SCALE 0x1p24

static LLVMValueRef scaled(struct lower *l, LLVMValueRef v)
{
	return LLVMBuildFMul(l->b, v, fconst(v, TINY_SCALE), "");
}

static bool asks_tiny(const struct ptx_instr *i)
{
	return (i->mods & M(FTZ)) && !(i->mods & (M(APPROX) | M(FULL))) && number_type(i) == PTX_F32;
}

static LLVMValueRef flush_tiny(struct lower *l, LLVMValueRef r, LLVMValueRef large)
{
	LLVMValueRef size = fcall(l, "llvm.fabs", &large, 1), args[2] = {fconst(r, 0), r};
	LLVMValueRef tiny = LLVMBuildFCmp(l->b, LLVMRealOLT, size, fconst(r, 0x1p-126 * TINY_SCALE), "");

	return LLVMBuildSelect(l->b, tiny, fcall(l, "llvm.copysign", args, 2), r, "");
}

static LLVMValueRef binary(struct lower *l, const struct ptx_instr *i, LLVMOpcode opcode, LLVMValueRef *v)
{
	unsigned operation = opcode == LLVMFAdd   ? ROUND_ADD
			     : opcode == LLVMFSub ? ROUND_SUB
			     : opcode == LLVMFMul ? ROUND_MUL
						  : ROUND_DIV;

	if (directed(i))
		return rounded(l, operation, i->mods, number_type(i), v, 2, LLVMTypeOf(v[0]));
	return LLVMBuildBinOp(l->b, opcode, v[0], v[1], "");
}

static LLVMValueRef fused(struct lower *l, const struct ptx_instr *i, LLVMValueRef *v)
{
	return directed(i) ? rounded(l, ROUND_FMA, i->mods, number_type(i), v, 3, LLVMTypeOf(v[0]))
			   : fcall(l, "llvm.fma", v, 3);
}

/* Products and quotients. */
static LLVMValueRef product(struct lower *l, const struct ptx_instr *i, LLVMOpcode opcode, LLVMValueRef *v)
{
	LLVMValueRef large[2] = {v[0], v[1]}, r = binary(l, i, opcode, v);

	if (!asks_tiny(i))
		return r;
	large[0] = scaled(l, v[0]);
	return flush_tiny(l, r, binary(l, i, opcode, large));
}

static LLVMValueRef multiply_add(struct lower *l, const struct ptx_instr *i, LLVMValueRef *v)
{
	LLVMValueRef r = fused(l, i, v), large[3];

	if (!asks_tiny(i))
		return r;
	large[0] = scaled(l, v[0]);
	large[1] = v[1];
	large[2] = scaled(l, v[2]);
	return flush_tiny(l, r, fused(l, i, large));
}

static LLVMValueRef result(struct lower *l, const struct ptx_instr *i, unsigned part)
{
	LLVMValueRef v[3] = {NULL, NULL, NULL};

	for (unsigned n = 1; n < i->count; n++)
		v[n - 1] = operand(l, i, n, part);
	if (i->op->arg == OP_FMA)
		return finished(l, i, multiply_add(l, i, v));
	if (i->op->arg == OP_FMUL || i->op->arg == OP_FDIV)
		return finished(l, i, product(l, i, llvm_opcode(i), v));
	return finished(l, i, binary(l, i, llvm_opcode(i), v));
}

/* Sums, products, quotients, fma. */
bool emit_float2(struct lower *l, const struct ptx_instr *i)
{
	LLVMValueRef r, upper;

	if (i->type2 && i->type2 != PTX_F16 && i->type2 != PTX_BF16)
		return false;
	r = result(l, i, 0);
	if (i->type == PTX_F32X2) {
		upper = resize(l, to_int(l, result(l, i, 1)), 64, false);
		r = LLVMBuildOr(l->b, resize(l, to_int(l, r), 64, false),
				LLVMBuildShl(l->b, upper, int_const(l, 64, 32), ""), "");
	}
	set(l, &i->ops[0], r, false);
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
	LLVMValueRef v[2] = {operand(l, i, 1, 0), NULL}, r;

	if (i->op->arg == OP_NEG) {
		r = LLVMBuildFNeg(l->b, v[0], "");
	} else if (i->op->arg == OP_RCP) {
		v[1] = v[0];
		v[0] = fconst(v[1], 1);
		r = product(l, i, LLVMFDiv, v);
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

	/* .abs alone is about three */
	if (ptx_word(i, "xorsign") ? i->count != 3 || !ptx_word(i, "abs") : i->count == 3 && ptx_word(i, "abs"))
		return false;
	for (unsigned n = 1; n < i->count; n++)
		v[n - 1] = operand(l, i, n, 0);
	finish(l, i, canonical(l, minmax_value(l, i, v)));
	return true;
}

bool emit_testp(struct lower *l, const struct ptx_instr *i)
{
	LLVMValueRef v = getf(l, &i->ops[1], i->type), size = fcall(l, "llvm.fabs", &v, 1), r;
	LLVMValueRef infinity = fconst(v, __builtin_inf()), normal = least_normal(v), zero = fconst(v, 0);

	if (i->mods & M(FINITE))
		r = LLVMBuildFCmp(l->b, LLVMRealOLT, size, infinity, "");
	else if (i->mods & M(INFINITE))
		r = LLVMBuildFCmp(l->b, LLVMRealOEQ, size, infinity, "");
	else if (i->mods & (M(NUMBER) | M(NOTANUMBER)))
		r = LLVMBuildFCmp(l->b, i->mods & M(NUMBER) ? LLVMRealORD : LLVMRealUNO, v, v, "");
	else if (i->mods & M(NORMAL))
		/* zero counts as normal */
		r = LLVMBuildOr(l->b, LLVMBuildFCmp(l->b, LLVMRealOEQ, v, zero, ""),
				LLVMBuildAnd(l->b, LLVMBuildFCmp(l->b, LLVMRealOGE, size, normal, ""),
					     LLVMBuildFCmp(l->b, LLVMRealOLT, size, infinity, ""), ""),
				"");
	else
		r = LLVMBuildAnd(l->b, LLVMBuildFCmp(l->b, LLVMRealOLT, size, normal, ""),
				 LLVMBuildFCmp(l->b, LLVMRealOGT, size, zero, ""), "");
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
