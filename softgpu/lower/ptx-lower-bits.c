/* SPDX-License-Identifier: Apache-2.0 */
/* Shifts, bit fields, bytes and halves of words. */
#include "lower/ptx-emit.h"
#include "lower/ptx-lower.h"

#define BITS(i) (ptx_types[(i)->type].bits)

/* Shifts by at least the width give 0, or copies of the sign. */
static LLVMValueRef shift(struct lower *l, LLVMOpcode op, LLVMValueRef a, LLVMValueRef by, unsigned bits)
{
	LLVMValueRef most = int_const(l, 32, bits - 1), fits = compare(l, LLVMIntULE, by, most);
	LLVMValueRef amount = resize(l, int2(l, "llvm.umin", by, most), bits, false);
	LLVMValueRef r = LLVMBuildBinOp(l->b, op, a, amount, "");

	return op == LLVMAShr ? r : select_of(l, fits, r, int_const(l, bits, 0));
}

bool emit_shift(struct lower *l, const struct ptx_instr *i)
{
	set(l, &i->ops[0], shift(l, llvm_opcode(i), get(l, &i->ops[1], i->type), get(l, &i->ops[2], PTX_U32), BITS(i)),
	    is_signed_type(i->type));
	return true;
}

/* The low `count` bits set; all of them from the width on. */
static LLVMValueRef ones(struct lower *l, LLVMValueRef count, unsigned bits)
{
	LLVMValueRef all = int_const(l, bits, UINT64_MAX);

	return LLVMBuildNot(l->b, shift(l, LLVMShl, all, count, bits), "");
}

bool emit_bits(struct lower *l, const struct ptx_instr *i)
{
	LLVMValueRef a = get(l, &i->ops[1], i->type), args[2] = {a, scalar_const(l->type.i1, 0)}, r, b;
	LLVMTypeRef type = LLVMTypeOf(a);

	switch (i->op->arg) {
	case OP_BREV:
		r = intrinsic(l, "llvm.bitreverse", type, args, 1);
		break;
	case OP_POPC:
		r = resize(l, intrinsic(l, "llvm.ctpop", type, args, 1), 32, false);
		break;
	case OP_CLZ:
		r = resize(l, intrinsic(l, "llvm.ctlz", type, args, 2), 32, false);
		break;
	default:
		b = get(l, &i->ops[2], PTX_U32);
		if (i->mods & M(WRAP)) {
			a = LLVMBuildAnd(l->b, a, int_const(l, 32, 31), "");
			b = LLVMBuildAnd(l->b, b, int_const(l, 32, 31), "");
		}
		r = shift(l, LLVMShl, ones(l, b, 32), a, 32);
	}
	set(l, &i->ops[0], r, false);
	return true;
}

bool emit_bfind(struct lower *l, const struct ptx_instr *i)
{
	unsigned bits = BITS(i);
	LLVMValueRef a = get(l, &i->ops[1], i->type), args[2], r, none;

	if (is_signed_type(i->type))
		a = LLVMBuildXor(l->b, a, LLVMBuildAShr(l->b, a, int_const(l, bits, bits - 1), ""), "");
	none = compare(l, LLVMIntEQ, a, int_const(l, bits, 0));
	args[0] = a;
	args[1] = scalar_const(l->type.i1, 0);
	r = resize(l, intrinsic(l, "llvm.ctlz", LLVMTypeOf(a), args, 2), 32, false);
	if (!(i->mods & M(SHIFTAMT)))
		r = LLVMBuildSub(l->b, int_const(l, 32, bits - 1), r, "");
	set(l, &i->ops[0], select_of(l, none, int_const(l, 32, UINT32_MAX), r), false);
	return true;
}

/* The place of the n-th bit that is set, from 0, n counted from 0; *found: that there are so many. */
static LLVMValueRef nth_bit(struct lower *l, LLVMValueRef v, LLVMValueRef n, LLVMValueRef *found)
{
	LLVMValueRef at = int_const(l, 32, 0), low, more, by;

	*found = compare(l, LLVMIntULT, n, intrinsic(l, "llvm.ctpop", LLVMTypeOf(v), &v, 1));
	for (unsigned half = 16; half; half /= 2) {
		low = LLVMBuildAnd(l->b, v, int_const(l, 32, (1u << half) - 1), "");
		low = intrinsic(l, "llvm.ctpop", LLVMTypeOf(v), &low, 1);
		more = compare(l, LLVMIntUGE, n, low);
		n = LLVMBuildSub(l->b, n, select_of(l, more, low, int_const(l, 32, 0)), "");
		by = select_of(l, more, int_const(l, 32, half), int_const(l, 32, 0));
		v = LLVMBuildLShr(l->b, v, by, "");
		at = LLVMBuildAdd(l->b, at, by, "");
	}
	return at;
}

/*
 * From bit `base` of the mask on, the base counted if it is set: the offset-th upwards, or downwards if the offset is
 * negative; with an offset of 0 the base itself. All ones: there is none.
 */
bool emit_fns(struct lower *l, const struct ptx_instr *i)
{
	LLVMValueRef mask = get(l, &i->ops[1], PTX_B32), base = get(l, &i->ops[2], PTX_B32);
	LLVMValueRef offset = get(l, &i->ops[3], PTX_S32), zero = int_const(l, 32, 0), last = int_const(l, 32, 31);
	LLVMValueRef down = compare(l, LLVMIntSLT, offset, zero), none = int_const(l, 32, UINT32_MAX), n, from, found,
		     r, bit;

	n = select_of(l, down, LLVMBuildNeg(l->b, offset, ""), offset);
	n = LLVMBuildSub(l->b, n, int_const(l, 32, 1), "");
	from = select_of(l, down, LLVMBuildSub(l->b, last, base, ""), base);
	r = select_of(l, down, intrinsic(l, "llvm.bitreverse", LLVMTypeOf(mask), &mask, 1), mask);
	r = LLVMBuildAnd(l->b, r, shift(l, LLVMShl, none, from, 32), "");
	r = nth_bit(l, r, n, &found);
	r = select_of(l, found, select_of(l, down, LLVMBuildSub(l->b, last, r, ""), r), none);
	bit = LLVMBuildAnd(l->b, shift(l, LLVMLShr, mask, base, 32), int_const(l, 32, 1), "");
	bit = select_of(l, compare(l, LLVMIntNE, bit, zero), base, none);
	set(l, &i->ops[0], select_of(l, compare(l, LLVMIntEQ, offset, zero), bit, r), false);
	return true;
}

/* A position or a length: of 32 bits 8 are looked at; for 64-bit fields, as recorded on an H100, all of them. */
static LLVMValueRef low_byte(struct lower *l, const struct ptx_operand *o, unsigned bits)
{
	if (bits == 64)
		return int2(l, "llvm.umin", get(l, o, PTX_U32), int_const(l, 32, 255));
	return LLVMBuildAnd(l->b, get(l, o, PTX_U32), int_const(l, 32, 255), "");
}

bool emit_bfe(struct lower *l, const struct ptx_instr *i)
{
	unsigned bits = BITS(i);
	LLVMValueRef a = get(l, &i->ops[1], i->type), position = low_byte(l, &i->ops[2], bits),
		     length = low_byte(l, &i->ops[3], bits);
	LLVMValueRef width = int_const(l, 32, bits), room, mask, r, top, fill;

	room = LLVMBuildSub(l->b, width, int2(l, "llvm.umin", position, width), "");
	mask = ones(l, int2(l, "llvm.umin", length, room), bits);
	r = LLVMBuildAnd(l->b, shift(l, LLVMLShr, a, position, bits), mask, "");
	if (is_signed_type(i->type)) {
		top = LLVMBuildSub(l->b, LLVMBuildAdd(l->b, position, length, ""), int_const(l, 32, 1), "");
		top = int2(l, "llvm.umin", top, int_const(l, 32, bits - 1));
		fill = resize(l, shift(l, LLVMLShr, a, top, bits), 1, false);
		fill = LLVMBuildAnd(l->b, fill, compare(l, LLVMIntNE, length, int_const(l, 32, 0)), "");
		r = LLVMBuildOr(l->b, r,
				LLVMBuildAnd(l->b, resize(l, fill, bits, true), LLVMBuildNot(l->b, mask, ""), ""), "");
	}
	set(l, &i->ops[0], r, false);
	return true;
}

bool emit_bfi(struct lower *l, const struct ptx_instr *i)
{
	unsigned bits = BITS(i);
	LLVMValueRef a = get(l, &i->ops[1], i->type), b = get(l, &i->ops[2], i->type);
	LLVMValueRef position = low_byte(l, &i->ops[3], bits), mask;

	mask = shift(l, LLVMShl, ones(l, low_byte(l, &i->ops[4], bits), bits), position, bits);
	a = LLVMBuildAnd(l->b, shift(l, LLVMShl, a, position, bits), mask, "");
	b = LLVMBuildAnd(l->b, b, LLVMBuildNot(l->b, mask, ""), "");
	set(l, &i->ops[0], LLVMBuildOr(l->b, a, b, ""), false);
	return true;
}

/* The modes of prmt: which byte of {b, a} goes where, for each value of the two low bits of the selector. */
static const struct {
	ptx_mods mod;
	uint16_t selectors[4];
} permutations[] = {
	{M(F4E), {0x3210, 0x4321, 0x5432, 0x6543}}, {M(B4E), {0x5670, 0x6701, 0x7012, 0x0123}},
	{M(RC8), {0x0000, 0x1111, 0x2222, 0x3333}}, {M(ECL), {0x3210, 0x3211, 0x3222, 0x3333}},
	{M(ECR), {0x0000, 0x1110, 0x2210, 0x3210}}, {M(RC16), {0x1010, 0x3232, 0x1010, 0x3232}},
};

static LLVMValueRef mode_selector(struct lower *l, const struct ptx_instr *i, LLVMValueRef c)
{
	LLVMValueRef low = LLVMBuildAnd(l->b, c, int_const(l, 64, 3), ""), r = c;

	for (unsigned n = 0; n < sizeof(permutations) / sizeof(permutations[0]); n++) {
		if (!(i->mods & permutations[n].mod))
			continue;
		r = int_const(l, 64, permutations[n].selectors[0]);
		for (unsigned k = 1; k < 4; k++)
			r = select_of(l, compare(l, LLVMIntEQ, low, int_const(l, 64, k)),
				      int_const(l, 64, permutations[n].selectors[k]), r);
	}
	return r;
}

/* One byte of the eight in `whole`, or 8 copies of its sign bit if bit 3 of the selector is set. */
static LLVMValueRef picked_byte(struct lower *l, LLVMValueRef whole, LLVMValueRef pick)
{
	LLVMValueRef by = LLVMBuildAnd(l->b, pick, int_const(l, 64, 7), ""), byte, sign;

	by = LLVMBuildMul(l->b, by, int_const(l, 64, 8), "");
	byte = resize(l, LLVMBuildLShr(l->b, whole, by, ""), 8, false);
	sign = compare(l, LLVMIntNE, LLVMBuildAnd(l->b, pick, int_const(l, 64, 8), ""), int_const(l, 64, 0));
	return select_of(l, sign, LLVMBuildAShr(l->b, byte, int_const(l, 8, 7), ""), byte);
}

/* The four nibbles for a selector that is a constant. */
static unsigned int constant_selector(const struct ptx_instr *i)
{
	uint64_t c = (uint64_t)i->ops[3].imm;

	for (unsigned n = 0; n < sizeof(permutations) / sizeof(permutations[0]); n++)
		if (i->mods & permutations[n].mod)
			return permutations[n].selectors[c & 3];
	return c & 0xffff;
}

/* The low bytes that a selector picks, if all bytes above are copies of the sign of the highest one of them; else 0. */
static unsigned int bytes_below_signs(unsigned int selector)
{
	unsigned int plain = 0, sign;

	while (plain < 4 && !(selector >> 4 * plain & 8))
		plain++;
	sign = plain ? (selector >> 4 * (plain - 1) & 7) | 8 : 0;
	for (unsigned int n = plain; n < 4; n++)
		if ((selector >> 4 * n & 15) != sign)
			return 0;
	return plain;
}

static LLVMValueRef permuted_by_constant(struct lower *l, unsigned int selector, LLVMValueRef a, LLVMValueRef b)
{
	unsigned int count = 4 * l->at.lanes;
	LLVMTypeRef words = LLVMTypeOf(a), bytes = LLVMVectorType(int_type(l, 8), count);
	LLVMValueRef from[4 * PTX_LANES], above = int_const(l, 32, 32 - 8 * bytes_below_signs(selector)), r;

	for (unsigned int n = 0; n < count; n++) {
		unsigned int pick = selector >> 4 * (n % 4) & 7;

		from[n] = scalar_const(l->type.i32, n / 4 * 4 + (pick & 3) + (pick & 4 ? count : 0));
	}
	r = LLVMBuildShuffleVector(l->b, LLVMBuildBitCast(l->b, a, bytes, ""), LLVMBuildBitCast(l->b, b, bytes, ""),
				   LLVMConstVector(from, count), "");
	r = LLVMBuildBitCast(l->b, r, words, "");
	return selector & 0x8888 ? LLVMBuildAShr(l->b, LLVMBuildShl(l->b, r, above, ""), above, "") : r;
}

static LLVMValueRef permuted(struct lower *l, const struct ptx_instr *i, LLVMValueRef a, LLVMValueRef b)
{
	LLVMValueRef selector = resize(l, get(l, &i->ops[3], PTX_B32), 64, false), r = int_const(l, 32, 0), byte;

	selector = mode_selector(l, i, selector);
	a = LLVMBuildOr(l->b, resize(l, a, 64, false),
			LLVMBuildShl(l->b, resize(l, b, 64, false), int_const(l, 64, 32), ""), "");
	for (unsigned n = 0; n < 4; n++) {
		byte = picked_byte(l, a, LLVMBuildLShr(l->b, selector, int_const(l, 64, 4 * n), ""));
		byte = LLVMBuildShl(l->b, resize(l, byte, 32, false), int_const(l, 32, 8 * n), "");
		r = LLVMBuildOr(l->b, r, byte, "");
	}
	return r;
}

bool emit_prmt(struct lower *l, const struct ptx_instr *i)
{
	LLVMValueRef a = get(l, &i->ops[1], PTX_B32), b = get(l, &i->ops[2], PTX_B32), r;
	bool is_constant = i->ops[3].kind == PTX_OP_INT;

	if (is_constant && bytes_below_signs(constant_selector(i)))
		r = permuted_by_constant(l, constant_selector(i), a, b);
	else
		r = permuted(l, i, a, b);
	set(l, &i->ops[0], r, false);
	return true;
}

bool emit_shf(struct lower *l, const struct ptx_instr *i)
{
	LLVMValueRef low = get(l, &i->ops[1], PTX_B32), high = get(l, &i->ops[2], PTX_B32);
	LLVMValueRef by = get(l, &i->ops[3], PTX_U32), args[] = {high, low, by}, r;
	bool to_left = i->mods & M(L);

	/* The intrinsics take the distance modulo 32. */
	r = intrinsic(l, to_left ? "llvm.fshl" : "llvm.fshr", LLVMTypeOf(low), args, 3);
	if (i->mods & M(CLAMP))
		r = select_of(l, compare(l, LLVMIntUGE, by, int_const(l, 32, 32)), to_left ? low : high, r);
	else if (!(i->mods & M(WRAP)))
		return false;
	set(l, &i->ops[0], r, false);
	return true;
}

/*
 * The function of the `count` words in v by its truth table, whose index has v[0] as the highest bit. Where v[0] has a
 * 1, the result differs from that of a 0 by a function of the other words.
 */
static LLVMValueRef logic(struct lower *l, unsigned int table, const LLVMValueRef *v, unsigned int count)
{
	unsigned int bits = 1u << count, off, change;
	LLVMValueRef r;

	if (!table || table == (1u << bits) - 1)
		return int_const(l, 32, table ? UINT32_MAX : 0);
	off = table & ((1u << bits / 2) - 1);
	change = off ^ table >> bits / 2;
	r = logic(l, off, v + 1, count - 1);
	return change ? LLVMBuildXor(l->b, r, LLVMBuildAnd(l->b, v[0], logic(l, change, v + 1, count - 1), ""), "") : r;
}

bool emit_lop3(struct lower *l, const struct ptx_instr *i)
{
	LLVMValueRef v[3], r;

	if (i->ops[4].kind != PTX_OP_INT || (i->count == 6) != !!(i->mods & (M(AND) | M(OR))))
		return false;
	for (unsigned n = 0; n < 3; n++)
		v[n] = get(l, &i->ops[n + 1], PTX_B32);
	r = logic(l, i->ops[4].imm & 0xff, v, 3);
	if (i->count == 6 && i->ops[0].reg2 >= 0)
		set_reg(l, i->ops[0].reg2,
			LLVMBuildBinOp(l->b, i->mods & M(AND) ? LLVMAnd : LLVMOr,
				       compare(l, LLVMIntNE, r, int_const(l, 32, 0)), get(l, &i->ops[5], PTX_PRED), ""),
			false);
	set(l, &i->ops[0], r, false);
	return true;
}

bool emit_sad(struct lower *l, const struct ptx_instr *i)
{
	bool sign = is_signed_type(i->type);
	LLVMValueRef a = get(l, &i->ops[1], i->type), b = get(l, &i->ops[2], i->type);
	LLVMValueRef less = compare(l, sign ? LLVMIntSLT : LLVMIntULT, a, b), r;

	r = select_of(l, less, LLVMBuildSub(l->b, b, a, ""), LLVMBuildSub(l->b, a, b, ""));
	set(l, &i->ops[0], LLVMBuildAdd(l->b, r, get(l, &i->ops[3], i->type), ""), sign);
	return true;
}

bool emit_dp4a(struct lower *l, const struct ptx_instr *i)
{
	LLVMValueRef a = get(l, &i->ops[1], PTX_B32), b = get(l, &i->ops[2], PTX_B32), r = get(l, &i->ops[3], PTX_B32);

	if (!i->type2)
		return false;
	for (unsigned n = 0; n < 4; n++) {
		LLVMValueRef x = resize(l, LLVMBuildLShr(l->b, a, int_const(l, 32, 8 * n), ""), 8, false);
		LLVMValueRef y = resize(l, LLVMBuildLShr(l->b, b, int_const(l, 32, 8 * n), ""), 8, false);

		x = resize(l, x, 32, is_signed_type(i->type));
		y = resize(l, y, 32, is_signed_type(i->type2));
		r = LLVMBuildAdd(l->b, r, LLVMBuildMul(l->b, x, y, ""), "");
	}
	set(l, &i->ops[0], r, false);
	return true;
}

/* Two 16-bit halves of the first, times two bytes of the second: its low or its high two. */
bool emit_dp2a(struct lower *l, const struct ptx_instr *i)
{
	LLVMValueRef a = get(l, &i->ops[1], PTX_B32), b = get(l, &i->ops[2], PTX_B32), r = get(l, &i->ops[3], PTX_B32);
	unsigned first = i->mods & M(HI) ? 2 : 0;

	if (!i->type2 || !(i->mods & (M(LO) | M(HI))))
		return false;
	for (unsigned n = 0; n < 2; n++) {
		LLVMValueRef x = resize(l, LLVMBuildLShr(l->b, a, int_const(l, 32, 16 * n), ""), 16, false);
		LLVMValueRef y = resize(l, LLVMBuildLShr(l->b, b, int_const(l, 32, 8 * (first + n)), ""), 8, false);

		x = resize(l, x, 32, is_signed_type(i->type));
		y = resize(l, y, 32, is_signed_type(i->type2));
		r = LLVMBuildAdd(l->b, r, LLVMBuildMul(l->b, x, y, ""), "");
	}
	set(l, &i->ops[0], r, false);
	return true;
}

/* The low bits of the first, as many as the second says, extended to 32. */
bool emit_szext(struct lower *l, const struct ptx_instr *i)
{
	LLVMValueRef a = get(l, &i->ops[1], PTX_B32), n = get(l, &i->ops[2], PTX_U32);
	LLVMValueRef all = int_const(l, 32, 32), up, r;

	if (i->mods & M(WRAP))
		n = LLVMBuildAnd(l->b, n, int_const(l, 32, 31), "");
	else if (i->mods & M(CLAMP))
		n = int2(l, "llvm.umin", n, all);
	else
		return false;
	up = LLVMBuildSub(l->b, all, n, "");
	r = shift(l, LLVMShl, a, up, 32);
	r = shift(l, is_signed_type(i->type) ? LLVMAShr : LLVMLShr, r, up, 32);
	/* no bits at all are 0, and not 32 copies of a sign */
	set(l, &i->ops[0], select_of(l, compare(l, LLVMIntEQ, n, int_const(l, 32, 0)), int_const(l, 32, 0), r), false);
	return true;
}

bool emit_cnot(struct lower *l, const struct ptx_instr *i)
{
	LLVMValueRef zero = compare(l, LLVMIntEQ, get(l, &i->ops[1], i->type), int_const(l, BITS(i), 0));

	set(l, &i->ops[0], resize(l, zero, BITS(i), false), false);
	return true;
}
