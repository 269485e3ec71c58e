/* SPDX-License-Identifier: Apache-2.0 */
/* Conversions between types and between state spaces. */
#include <string.h>

#include "lower/ptx-emit.h"
#include "lower/ptx-lower.h"

/* To the nearest number of the type that it becomes, as a number of the type that it is. */
static LLVMValueRef clamp(struct lower *l, LLVMValueRef v, unsigned from, bool sign, unsigned to, bool to_sign)
{
	unsigned magnitude = to_sign ? to - 1 : to;
	uint64_t most = magnitude < 64 ? (1ull << magnitude) - 1 : UINT64_MAX;

	if (sign && !to_sign)
		v = int2(l, "llvm.smax", v, int_const(l, from, 0));
	if (sign && to_sign && to < from)
		v = int2(l, "llvm.smax", v, int_const(l, from, ~most));
	if (magnitude < (sign ? from - 1 : from))
		v = int2(l, sign ? "llvm.smin" : "llvm.umin", v, int_const(l, from, most));
	return v;
}

static bool cvt_int_int(struct lower *l, const struct ptx_instr *i)
{
	unsigned to = ptx_types[i->type].bits, from = ptx_types[i->type2].bits;
	bool sign = is_signed_type(i->type2), to_sign = is_signed_type(i->type);
	LLVMValueRef v;

	if (l->at.lanes == 1 && to > from)
		check_widening(l, &i->ops[1], sign);
	v = get(l, &i->ops[1], i->type2);
	if (i->mods & M(SAT))
		v = clamp(l, v, from, sign, to, to_sign);
	set(l, &i->ops[0], resize(l, v, to, sign), to_sign);
	return true;
}

static LLVMValueRef round_to_int(struct lower *l, const struct ptx_instr *i, LLVMValueRef v)
{
	const char *name = i->mods & M(RNI)   ? "llvm.roundeven"
			   : i->mods & M(RZI) ? "llvm.trunc"
			   : i->mods & M(RMI) ? "llvm.floor"
					      : "llvm.ceil";

	return intrinsic(l, name, LLVMTypeOf(v), &v, 1);
}

static bool is_half(unsigned type)
{
	return type == PTX_F16 || type == PTX_BF16;
}

/* Halves come as f32. */
static LLVMValueRef source(struct lower *l, const struct ptx_instr *i, unsigned n, unsigned type)
{
	LLVMValueRef v = is_half(type) ? half_value(l, get(l, &i->ops[n], type), type) : getf(l, &i->ops[n], type);

	return (i->mods & M(FTZ)) && type == PTX_F32 ? flush(l, v) : v;
}

/*
 * A number that does not fit becomes the nearest end of the type's range. NaN becomes 0; from f64, or to 64 bits, a GPU
 * gives the sign bit alone.
 */
static bool cvt_float_int(struct lower *l, const struct ptx_instr *i)
{
	LLVMValueRef v = source(l, i, 1, i->type2), fn, nan = LLVMBuildFCmp(l->b, LLVMRealUNO, v, v, "");
	unsigned bits = ptx_types[i->type].bits;
	LLVMTypeRef types[2];
	const char *name = is_signed_type(i->type) ? "llvm.fptosi.sat" : "llvm.fptoui.sat";
	unsigned id = LLVMLookupIntrinsicID(name, strlen(name));

	if (!(i->mods & (M(RNI) | M(RZI) | M(RMI) | M(RPI))))
		return false;
	v = round_to_int(l, i, v);
	types[0] = type_for(l, int_type(l, bits));
	types[1] = LLVMTypeOf(v);
	fn = LLVMGetIntrinsicDeclaration(l->m, id, types, 2);
	v = LLVMBuildCall2(l->b, LLVMGlobalGetValueType(fn), fn, &v, 1, "");
	if (bits == 64 || i->type2 == PTX_F64)
		v = select_of(l, nan, int_const(l, bits, 1ull << (bits - 1)), v);
	set(l, &i->ops[0], v, is_signed_type(i->type));
	return true;
}

/* v with its low 20 bits replaced by one that says whether any was set, where v is longer than 40 bits. */
static LLVMValueRef gather_low_bits(struct lower *l, LLVMValueRef v, bool sign)
{
	LLVMValueRef low = int_const(l, 64, 0xfffff), any, size = v, r;

	any = compare(l, LLVMIntNE, LLVMBuildAnd(l->b, v, low, ""), int_const(l, 64, 0));
	r = LLVMBuildAnd(l->b, v, LLVMBuildNot(l->b, low, ""), "");
	r = LLVMBuildOr(l->b, r, LLVMBuildShl(l->b, resize(l, any, 64, false), int_const(l, 64, 19), ""), "");
	if (sign)
		size = int2(l, "llvm.smax", v, LLVMBuildNeg(l->b, v, ""));
	return select_of(l, compare(l, LLVMIntUGT, size, int_const(l, 64, 1ull << 40)), r, v);
}

static bool cvt_int_float(struct lower *l, const struct ptx_instr *i)
{
	bool sign = is_signed_type(i->type2), directed = i->mods & (M(RZ) | M(RM) | M(RP));
	LLVMValueRef v = get(l, &i->ops[1], i->type2), r;
	LLVMTypeRef type = float_type(l, i->type);

	if (!(i->mods & (M(RN) | M(RZ) | M(RM) | M(RP))))
		return false;
	if (directed && is_float_type(i->type)) {
		v = resize(l, v, 64, sign);
		r = rounded(l, sign ? ROUND_FROM_S64 : ROUND_FROM_U64, i->mods, i->type, &v, 1, type);
	} else if (is_float_type(i->type)) {
		r = sign ? LLVMBuildSIToFP(l->b, v, type, "") : LLVMBuildUIToFP(l->b, v, type, "");
	} else {
		/*
		 * Integers of up to 32 bits are exact in f64, and longer ones that are not are far beyond f16; for bf16
		 * their low bits are gathered in one that is far below what is rounded.
		 */
		if (ptx_types[i->type2].bits == 64 && i->type == PTX_BF16)
			v = gather_low_bits(l, v, sign);
		r = sign ? LLVMBuildSIToFP(l->b, v, float_type(l, PTX_F64), "")
			 : LLVMBuildUIToFP(l->b, v, float_type(l, PTX_F64), "");
		if (i->mods & M(SAT))
			r = saturate(l, r);
		set(l, &i->ops[0], half_bits(l, r, i->type, i->mods), false);
		return true;
	}
	if (i->mods & M(SAT))
		r = saturate(l, r);
	set(l, &i->ops[0], r, false);
	return true;
}

/* Negative numbers to zero; NaN stays. */
static LLVMValueRef not_negative(struct lower *l, LLVMValueRef v)
{
	LLVMValueRef zero = LLVMConstNull(LLVMTypeOf(v)), bits = to_int(l, v);
	LLVMValueRef below = LLVMBuildICmp(l->b, LLVMIntSLT, bits, LLVMConstNull(LLVMTypeOf(bits)), "");

	below = LLVMBuildAnd(l->b, below, LLVMBuildFCmp(l->b, LLVMRealORD, v, v, ""), "");
	return LLVMBuildSelect(l->b, below, zero, v, "");
}

/* To a number of 16 bits. */
static bool cvt_to_half(struct lower *l, const struct ptx_instr *i)
{
	LLVMValueRef v = source(l, i, 1, i->type2);

	if (i->mods & (M(RNI) | M(RZI) | M(RMI) | M(RPI))) {
		if (i->type != i->type2)
			return false;
		v = round_to_int(l, i, v);
	}
	if (i->mods & M(SAT))
		v = saturate(l, v);
	if (i->mods & M(RELU))
		v = not_negative(l, v);
	set(l, &i->ops[0], half_bits(l, v, i->type, i->mods), false);
	return true;
}

static bool cvt_float_float(struct lower *l, const struct ptx_instr *i)
{
	unsigned to = ptx_types[i->type].bits, from = ptx_types[i->type2].bits;
	bool directed = i->mods & (M(RZ) | M(RM) | M(RP));
	LLVMValueRef v;

	if (is_half(i->type))
		return cvt_to_half(l, i);
	v = source(l, i, 1, i->type2);
	from = is_half(i->type2) ? 32 : from;
	if (i->type == i->type2) {
		if (i->mods & (M(RNI) | M(RZI) | M(RMI) | M(RPI)))
			v = round_to_int(l, i, v);
	} else if (to > from) {
		v = LLVMBuildFPExt(l->b, v, float_type(l, i->type), "");
	} else if (to == from) {
		/* a half, which is an f32 by now */
	} else if (directed) {
		v = rounded(l, ROUND_NARROW, i->mods, i->type2, &v, 1, float_type(l, i->type));
	} else {
		v = LLVMBuildFPTrunc(l->b, v, float_type(l, i->type), "");
	}
	if ((i->mods & M(FTZ)) && i->type == PTX_F32)
		v = flush(l, v);
	if (i->mods & M(SAT))
		v = saturate(l, v);
	if (i->mods & M(RELU))
		v = not_negative(l, v);
	set(l, &i->ops[0], v, false);
	return true;
}

/* Two floats to a pair of halves: the first goes up. */
static bool cvt_pair(struct lower *l, const struct ptx_instr *i)
{
	unsigned type = i->type == PTX_F16X2 ? PTX_F16 : PTX_BF16;
	LLVMValueRef part[2];

	if (i->type2 != PTX_F32 || i->count != 3 || !(i->mods & (M(RN) | M(RZ))) ||
	    (i->mods & ~(M(RN) | M(RZ) | M(SAT) | M(RELU))))
		return false;
	for (unsigned n = 0; n < 2; n++) {
		LLVMValueRef v = source(l, i, n + 1, PTX_F32);

		if (i->mods & M(SAT))
			v = saturate(l, v);
		if (i->mods & M(RELU))
			v = not_negative(l, v);
		part[n] = resize(l, half_bits(l, v, type, i->mods), 32, false);
	}
	set(l, &i->ops[0], LLVMBuildOr(l->b, LLVMBuildShl(l->b, part[0], int_const(l, 32, 16), ""), part[1], ""),
	    false);
	return true;
}

bool emit_cvt(struct lower *l, const struct ptx_instr *i)
{
	char to = ptx_types[i->type].cls, from = i->type2 ? ptx_types[i->type2].cls : 0;

	if (to == 'H' || to == 'Y')
		return cvt_pair(l, i);
	if ((i->mods & M(RELU)) && (!strchr("hy", to) || !from || !strchr("fhy", from)))
		return false;
	if (i->count != 2 || !from || !strchr("usfhy", from))
		return false;
	if (strchr("us", to))
		return strchr("us", from) ? cvt_int_int(l, i) : cvt_float_int(l, i);
	return strchr("us", from) ? cvt_int_float(l, i) : cvt_float_float(l, i);
}

/* The generic address of offset 0 in a lane's shared or local memory. */
static LLVMValueRef window(struct lower *l, unsigned space)
{
	int64_t lanes[PTX_LANES];
	LLVMValueRef base, threads;

	if (space == PTX_SHARED)
		return splat(l, LLVMBuildPtrToInt(l->b, l->mem.shared, l->type.i64, ""), l->at.lanes);
	base = splat(l, LLVMBuildPtrToInt(l->b, l->mem.local, l->type.i64, ""), l->at.lanes);
	threads = LLVMBuildZExt(l->b, l->fn.thread, l->type.i64, "");
	threads =
		splat(l, LLVMBuildMul(l->b, threads, scalar_const(l->type.i64, l->body->local_bytes), ""), l->at.lanes);
	for (unsigned n = 0; n < PTX_LANES; n++)
		lanes[n] = (int64_t)(n * l->body->local_bytes);
	if (l->at.lanes > 1)
		threads = LLVMBuildAdd(l->b, threads, lane_consts(l, 64, lanes), "");
	return LLVMBuildAdd(l->b, base, threads, "");
}

bool emit_cvta(struct lower *l, const struct ptx_instr *i)
{
	LLVMValueRef v;

	if (i->space == PTX_LOCAL)
		l->at.lanes = l->version.width;
	v = get(l, &i->ops[1], PTX_U64);
	if (i->space == PTX_SHARED || i->space == PTX_LOCAL)
		v = i->mods & M(TO) ? LLVMBuildSub(l->b, v, window(l, i->space), "")
				    : LLVMBuildAdd(l->b, v, window(l, i->space), "");
	set(l, &i->ops[0], v, false);
	return true;
}

static LLVMValueRef within(struct lower *l, LLVMValueRef v, LLVMValueRef start, LLVMValueRef size)
{
	v = LLVMBuildSub(l->b, v, splat(l, start, l->at.lanes), "");
	return LLVMBuildICmp(l->b, LLVMIntULT, v, splat(l, size, l->at.lanes), "");
}

/* In one of the module's constant variables. */
static LLVMValueRef in_constants(struct lower *l, LLVMValueRef v)
{
	const struct ptx_module *m = l->body->function->module;
	LLVMValueRef r = int_const(l, 1, 0);

	for (uint32_t n = 0; n < m->variable_count; n++)
		if (m->variables[n].constant)
			r = LLVMBuildOr(l->b, r,
					within(l, v, symbol_address(l, m->variable_symbols[n], 0),
					       scalar_const(l->type.i64, m->variables[n].size)),
					"");
	return r;
}

/* Kernel parameters count as global, too, as the ISA says. */
bool emit_isspacep(struct lower *l, const struct ptx_instr *i)
{
	LLVMValueRef v, in_shared, in_local, params = LLVMBuildPtrToInt(l->b, l->mem.params, l->type.i64, "");
	uint64_t local_bytes = l->body->local_bytes * l->body->threads;

	if (i->ops[0].kind != PTX_OP_REG)
		return false;
	l->at.lanes = i->space == PTX_LOCAL ? l->version.width : l->at.lanes;
	if (reg_shape(l, i->ops[0].reg) != PTX_VARYING)
		l->at.lanes = 1;
	v = get(l, &i->ops[1], PTX_U64);
	in_shared = within(l, v, LLVMBuildPtrToInt(l->b, l->mem.shared, l->type.i64, ""), l->mem.shared_bytes);
	in_local = within(l, v, LLVMBuildPtrToInt(l->b, l->mem.local, l->type.i64, ""),
			  scalar_const(l->type.i64, local_bytes));
	if (i->space == PTX_SHARED)
		v = in_shared;
	else if (i->space == PTX_LOCAL)
		v = in_local;
	else if (i->space == PTX_CONST)
		v = in_constants(l, v);
	else if (i->space == PTX_PARAM)
		v = within(l, v, params, scalar_const(l->type.i64, l->body->function->param_bytes));
	else if (i->space == PTX_GLOBAL)
		v = LLVMBuildNot(l->b, LLVMBuildOr(l->b, LLVMBuildOr(l->b, in_shared, in_local, ""), in_constants(l, v), ""), "");
	else
		return false;
	set(l, &i->ops[0], v, false);
	return true;
}
