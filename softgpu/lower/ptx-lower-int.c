/* SPDX-License-Identifier: Apache-2.0 */
/* Integer arithmetic and moves. */
#include "lower/ptx-emit.h"
#include "lower/ptx-lower.h"

#define BITS(i) (ptx_types[(i)->type].bits)

/* The type of each of n parts; PTX_NONE: there are no such parts. */
static unsigned part_type(const struct ptx_instr *i, unsigned n)
{
	static const uint8_t types[65] = {[8] = PTX_B8, [16] = PTX_B16, [32] = PTX_B32, [64] = PTX_B64};

	return BITS(i) % n || BITS(i) / n > 64 ? PTX_NONE : types[BITS(i) / n];
}

static bool pack(struct lower *l, const struct ptx_instr *i)
{
	unsigned bits = BITS(i), n = i->ops[1].count, part = bits / n, type = part_type(i, n);
	LLVMValueRef whole = NULL;

	if (!type)
		return false;
	for (unsigned e = 0; e < n; e++) {
		LLVMValueRef v = resize(l, get(l, &i->ops[1].elements[e], type), bits, false);

		v = LLVMBuildShl(l->b, v, int_const(l, bits, e * part), "");
		whole = whole ? LLVMBuildOr(l->b, whole, v, "") : v;
	}
	set(l, &i->ops[0], whole, false);
	return true;
}

static bool unpack(struct lower *l, const struct ptx_instr *i)
{
	unsigned bits = BITS(i), n = i->ops[0].count, part = bits / n;
	LLVMValueRef whole;

	if (!part_type(i, n))
		return false;
	whole = get(l, &i->ops[1], i->type);
	for (unsigned e = 0; e < n; e++)
		set(l, &i->ops[0].elements[e],
		    resize(l, LLVMBuildLShr(l->b, whole, int_const(l, bits, e * part), ""), part, false),
		    is_signed_type(i->type));
	return true;
}

bool emit_mov(struct lower *l, const struct ptx_instr *i)
{
	if (i->ops[1].kind == PTX_OP_VECTOR)
		return i->ops[0].kind == PTX_OP_REG && pack(l, i);
	if (i->ops[0].kind == PTX_OP_VECTOR)
		return unpack(l, i);
	set(l, &i->ops[0], get(l, &i->ops[1], i->type), is_signed_type(i->type));
	return true;
}

/* All are read before one is written. */
bool emit_mov_vector(struct lower *l, const struct ptx_instr *i)
{
	unsigned n = i->mods & M(V4) ? 4 : 2, lanes = l->at.lanes;
	LLVMValueRef v[4];

	if (i->ops[0].kind != PTX_OP_VECTOR || i->ops[1].kind != PTX_OP_VECTOR || i->ops[0].count != n ||
	    i->ops[1].count < n || (i->ops[1].count > n && i->ops[1].elements[0].kind != PTX_OP_SPECIAL))
		return false;
	for (unsigned e = 0; e < n; e++)
		v[e] = get(l, &i->ops[1].elements[e], i->type);
	for (unsigned e = 0; e < n; e++, l->at.lanes = lanes)
		set(l, &i->ops[0].elements[e], v[e], is_signed_type(i->type));
	return true;
}

/*
 * The flag is the adder's carry, of a - b = a + ~b + 1 too: set where nothing is borrowed. A program
 * with sub and subc alone cannot tell, but NVIDIA's compiler has addc after subc.cc where it divides 128 bits.
 */
static void set_carry(struct lower *l, LLVMValueRef carry)
{
	set_reg(l, l->body->carry, carry, false);
}

bool emit_binary(struct lower *l, const struct ptx_instr *i)
{
	LLVMValueRef a = get(l, &i->ops[1], i->type), b = get(l, &i->ops[2], i->type), r;

	if (i->mods & M(SAT)) {
		if (i->type != PTX_S32)
			return false;
		r = int2(l, i->op->arg == OP_ADD ? "llvm.sadd.sat" : "llvm.ssub.sat", a, b);
	} else {
		r = LLVMBuildBinOp(l->b, llvm_opcode(i), a, b, "");
	}
	set(l, &i->ops[0], r, is_signed_type(i->type));
	if (i->mods & M(CC))
		set_carry(l, i->op->arg == OP_ADD ? compare(l, LLVMIntULT, r, a) : compare(l, LLVMIntUGE, a, b));
	return true;
}

/* a + b + carry, or a + ~b + carry, in one more bit than the type has */
static LLVMValueRef with_carry(struct lower *l, const struct ptx_instr *i, LLVMValueRef a, LLVMValueRef b, bool add,
			       bool carry_in)
{
	unsigned bits = BITS(i), wide = bits + 1;
	LLVMValueRef r;

	a = resize(l, a, wide, false);
	b = resize(l, add ? b : LLVMBuildNot(l->b, b, ""), wide, false);
	r = LLVMBuildAdd(l->b, a, b, "");
	if (carry_in)
		r = LLVMBuildAdd(l->b, r, resize(l, read_reg(l, l->body->carry, l->at.lanes), wide, false), "");
	if (i->mods & M(CC))
		set_carry(l, resize(l, LLVMBuildLShr(l->b, r, int_const(l, wide, bits), ""), 1, false));
	return resize(l, r, bits, false);
}

/* a + b + carry of s32 */
static LLVMValueRef saturated_sum(struct lower *l, LLVMValueRef a, LLVMValueRef b)
{
	LLVMValueRef r = LLVMBuildAdd(l->b, resize(l, a, 64, true), resize(l, b, 64, true), "");

	r = LLVMBuildAdd(l->b, r, resize(l, read_reg(l, l->body->carry, l->at.lanes), 64, false), "");
	r = int2(l, "llvm.smin", r, int_const(l, 64, INT32_MAX));
	return resize(l, int2(l, "llvm.smax", r, int_const(l, 64, (uint64_t)INT32_MIN)), 32, true);
}

bool emit_carry(struct lower *l, const struct ptx_instr *i)
{
	LLVMValueRef a = get(l, &i->ops[1], i->type), b = get(l, &i->ops[2], i->type);

	set(l, &i->ops[0], with_carry(l, i, a, b, i->op->arg == OP_ADD, true), is_signed_type(i->type));
	return true;
}

static LLVMValueRef min_max(struct lower *l, const struct ptx_instr *i, bool sign, LLVMValueRef a, LLVMValueRef b)
{
	static const char *const names[2][2] = {{"llvm.umin", "llvm.umax"}, {"llvm.smin", "llvm.smax"}};
	LLVMValueRef r = int2(l, names[sign][i->op->arg == OP_MAX], a, b);

	return i->mods & M(RELU) ? int2(l, "llvm.smax", r, LLVMConstNull(LLVMTypeOf(r))) : r;
}

bool emit_minmax(struct lower *l, const struct ptx_instr *i)
{
	bool sign = is_signed_type(i->type);

	set(l, &i->ops[0], min_max(l, i, sign, get(l, &i->ops[1], i->type), get(l, &i->ops[2], i->type)), sign);
	return true;
}

/* Two numbers of 16 bits in each register: a vector of twice as many. */
bool emit_int_pair(struct lower *l, const struct ptx_instr *i)
{
	LLVMTypeRef pairs = LLVMVectorType(l->type.i16, 2 * l->at.lanes), words = type_for(l, l->type.i32);
	LLVMValueRef v[2], r;

	for (unsigned n = 0; n < 2; n++)
		v[n] = LLVMBuildBitCast(l->b, get(l, &i->ops[n + 1], i->type), pairs, "");
	r = i->op->arg == OP_ADD ? LLVMBuildAdd(l->b, v[0], v[1], "") : min_max(l, i, i->type == PTX_S16X2, v[0], v[1]);
	set(l, &i->ops[0], LLVMBuildBitCast(l->b, r, words, ""), false);
	return true;
}

/*
 * In the full version a widening operation on an OFFSETS value is done on its base alone, which is right as long as
 * no lane's value wraps around.
 */
void check_widening(struct lower *l, const struct ptx_operand *o, bool sign)
{
	const struct ptx_shape *s;
	int64_t low = 0, high = 0;
	LLVMValueRef base, ok;

	if (l->version.masked || l->version.width == 1)
		return;
	if (o->kind == PTX_OP_REG) {
		s = &l->body->shapes[o->reg];
		if (s->kind != PTX_OFFSETS)
			return;
		for (unsigned n = 0; n < PTX_LANES; n++) {
			low = s->offsets[n] < low ? s->offsets[n] : low;
			high = s->offsets[n] > high ? s->offsets[n] : high;
		}
		base = read_reg(l, o->reg, 1);
		base = sign ? LLVMBuildSExt(l->b, base, l->type.i64, "") : LLVMBuildZExt(l->b, base, l->type.i64, "");
		/* in 64 bits nothing overflows: the base must be at least as far from both ends as the offsets reach */
		base = LLVMBuildSub(l->b, base, scalar_const(l->type.i64, (uint64_t)((sign ? INT32_MIN : 0) - low)),
				    "");
		ok = LLVMBuildICmp(l->b, LLVMIntULE, base,
				   scalar_const(l->type.i64, UINT32_MAX - (uint64_t)(high - low)), "");
		leave_unless(l, ok);
	}
}

static LLVMValueRef high_half(struct lower *l, LLVMValueRef a, LLVMValueRef b, unsigned bits, bool sign)
{
	LLVMValueRef wide = LLVMBuildMul(l->b, resize(l, a, 2 * bits, sign), resize(l, b, 2 * bits, sign), "");

	return resize(l, LLVMBuildLShr(l->b, wide, int_const(l, 2 * bits, bits), ""), bits, false);
}

bool emit_mul(struct lower *l, const struct ptx_instr *i)
{
	unsigned bits = BITS(i);
	bool sign = is_signed_type(i->type), mad = i->op->arg == OP_MAD, wide = i->mods & M(WIDE);
	static const uint8_t widened[33] = {[16] = PTX_U32, [32] = PTX_U64};
	LLVMValueRef a, b, c, r;

	if (wide && l->at.lanes == 1) {
		check_widening(l, &i->ops[1], sign);
		check_widening(l, &i->ops[2], sign);
	}
	a = get(l, &i->ops[1], i->type);
	b = get(l, &i->ops[2], i->type);
	if (wide)
		r = LLVMBuildMul(l->b, resize(l, a, 2 * bits, sign), resize(l, b, 2 * bits, sign), "");
	else if (i->mods & M(HI))
		r = high_half(l, a, b, bits, sign);
	else
		r = LLVMBuildMul(l->b, a, b, "");
	if (mad) {
		c = get(l, &i->ops[3], wide ? widened[bits] : i->type);
		if ((i->mods & M(SAT)) && (i->op->flags & PTX_F_CARRY_IN))
			r = saturated_sum(l, r, c);
		else if (i->mods & M(SAT))
			r = int2(l, "llvm.sadd.sat", r, c);
		else if ((i->mods & M(CC)) || (i->op->flags & PTX_F_CARRY_IN))
			r = with_carry(l, i, r, c, true, i->op->flags & PTX_F_CARRY_IN);
		else
			r = LLVMBuildAdd(l->b, r, c, "");
	}
	set(l, &i->ops[0], r, sign);
	return !(i->mods & M(SAT)) || i->type == PTX_S32;
}

bool emit_mul24(struct lower *l, const struct ptx_instr *i)
{
	bool sign = is_signed_type(i->type);
	LLVMValueRef v[2], r;

	for (unsigned n = 0; n < 2; n++) {
		v[n] = resize(l, get(l, &i->ops[n + 1], i->type), 24, false);
		v[n] = resize(l, v[n], 64, sign);
	}
	r = LLVMBuildMul(l->b, v[0], v[1], "");
	if (i->mods & M(HI))
		r = LLVMBuildLShr(l->b, r, int_const(l, 64, 16), "");
	r = resize(l, r, 32, false);
	if (i->mods & M(SAT))
		r = int2(l, "llvm.sadd.sat", r, get(l, &i->ops[3], i->type));
	else if (i->op->arg == OP_MAD)
		r = LLVMBuildAdd(l->b, r, get(l, &i->ops[3], i->type), "");
	set(l, &i->ops[0], r, sign);
	return true;
}

/* LLVM has better ways than to divide where it knows the divisor. */
static bool is_known(const struct lower *l, const struct ptx_operand *o)
{
	return o->kind == PTX_OP_INT || (o->kind == PTX_OP_REG && l->body->shapes[o->reg].known);
}

/*
 * Processors do not divide vectors of integers, but of doubles. These hold all integers of 32 bits, and a quotient that
 * is less than an integer is so by more than one part in 2^32, which rounding does not make up for: truncated, it is
 * exact.
 */
static LLVMValueRef vector_quotient(struct lower *l, LLVMValueRef a, LLVMValueRef b, bool sign)
{
	LLVMTypeRef number = float_type(l, PTX_F64), type = LLVMTypeOf(a);
	LLVMValueRef q;

	if (sign) {
		q = LLVMBuildFDiv(l->b, LLVMBuildSIToFP(l->b, a, number, ""), LLVMBuildSIToFP(l->b, b, number, ""), "");
		return LLVMBuildFPToSI(l->b, q, type, "");
	}
	q = LLVMBuildFDiv(l->b, LLVMBuildUIToFP(l->b, a, number, ""), LLVMBuildUIToFP(l->b, b, number, ""), "");
	return LLVMBuildFPToUI(l->b, q, type, "");
}

/* No divisor is 0 or, with a sign, -1. */
static LLVMValueRef divide(struct lower *l, const struct ptx_instr *i, LLVMValueRef a, LLVMValueRef b)
{
	bool sign = is_signed_type(i->type), rem = i->op->arg == OP_REM;
	LLVMValueRef q;

	if (l->at.lanes > 1 && BITS(i) == 32 && !is_known(l, &i->ops[2])) {
		q = vector_quotient(l, a, b, sign);
		return rem ? LLVMBuildSub(l->b, a, LLVMBuildMul(l->b, q, b, ""), "") : q;
	}
	if (sign)
		return rem ? LLVMBuildSRem(l->b, a, b, "") : LLVMBuildSDiv(l->b, a, b, "");
	return rem ? LLVMBuildURem(l->b, a, b, "") : LLVMBuildUDiv(l->b, a, b, "");
}

/* Never traps, whatever inactive lanes hold: x / 0 is all ones, as on the GPU, and INT_MIN / -1 wraps. */
bool emit_divrem(struct lower *l, const struct ptx_instr *i)
{
	unsigned bits = BITS(i);
	bool sign = is_signed_type(i->type), rem = i->op->arg == OP_REM;
	LLVMValueRef a = get(l, &i->ops[1], i->type), b = get(l, &i->ops[2], i->type), zero, safe, over, r;

	zero = compare(l, LLVMIntEQ, b, int_const(l, bits, 0));
	safe = select_of(l, zero, int_const(l, bits, 1), b);
	if (sign) {
		over = compare(l, LLVMIntEQ, b, int_const(l, bits, UINT64_MAX));
		safe = select_of(l, over, int_const(l, bits, 1), safe);
	}
	r = divide(l, i, a, safe);
	if (sign)
		r = select_of(l, over, rem ? int_const(l, bits, 0) : LLVMBuildNeg(l->b, a, ""), r);
	r = select_of(l, zero, rem ? a : int_const(l, bits, UINT64_MAX), r);
	set(l, &i->ops[0], r, sign);
	return true;
}

bool emit_unary(struct lower *l, const struct ptx_instr *i)
{
	LLVMValueRef a = get(l, &i->ops[1], i->type), r;

	if (i->op->arg == OP_NOT)
		r = LLVMBuildNot(l->b, a, "");
	else if (i->op->arg == OP_NEG)
		r = LLVMBuildNeg(l->b, a, "");
	else
		r = int2(l, "llvm.smax", a, LLVMBuildNeg(l->b, a, ""));
	set(l, &i->ops[0], r, is_signed_type(i->type));
	return true;
}
