/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Addresses that are a base, the same for all lanes, plus an int of each lane times a power of two: `base[index]`. They
 * are checked as indices, which takes half the vectors, and extracted as such.
 */

#include "lower/ptx-lower-access.h"

/* The instruction that gave `reg` its value before instruction `at`; NULL: the value comes from another block. */
static const struct ptx_instr *source_of(struct lower *l, int32_t reg, uint32_t *at)
{
	while (*at > l->body->blocks[l->at.block].first)
		if (access_redefines(l, &l->body->instrs[--*at], reg))
			return &l->body->instrs[*at];
	return NULL;
}

static bool is_unchanged(struct lower *l, int32_t reg, uint32_t since)
{
	uint32_t at = l->at.instr;

	return !source_of(l, reg, &at) || at < since;
}

/* A register of the instruction's width: a narrower or wider one would be extended or cut. */
static bool is_register(const struct lower *l, const struct ptx_operand *o, unsigned bits, enum ptx_shape_kind kind)
{
	return o->kind == PTX_OP_REG && !o->negate && ptx_types[l->body->regs[o->reg].type].bits == bits &&
	       reg_shape(l, o->reg) == kind;
}

/* The shape of an index: with one lane all registers are uniform. */
static enum ptx_shape_kind lanes_shape(const struct lower *l)
{
	return l->version.width == 1 ? PTX_UNIFORM : PTX_VARYING;
}

/* mul.wide of a register and a power of two, or mad.wide of them and something else. */
static bool is_scaled(const struct lower *l, const struct ptx_instr *i, struct index *x)
{
	unsigned n = i->ops[1].kind == PTX_OP_INT ? 2 : 1;
	uint64_t factor = i->ops[3 - n].imm;

	if ((i->op->shape != PTX_SHAPE_MUL_WIDE && i->op->shape != PTX_SHAPE_MAD_WIDE) || i->guard >= 0 ||
	    ptx_types[i->type].bits != 32 || i->ops[3 - n].kind != PTX_OP_INT ||
	    !is_register(l, &i->ops[n], 32, lanes_shape(l)))
		return false;
	if (!factor || (factor & (factor - 1)) || factor > 64)
		return false;
	x->index = i->ops[n].reg;
	x->shift = (unsigned)__builtin_ctzll(factor);
	x->sign = is_signed_type(i->type);
	return true;
}

/* Lanes that come in from the full version bring only registers that the rest of the block reads: the address, not the
 * index. */
static bool has_side_entry(const struct lower *l)
{
	for (uint32_t n = 0; l->version.masked && n < l->low->exit_count; n++)
		if (l->low->exits[n].block == l->at.block && l->low->exits[n].instr != AT_BRANCH)
			return true;
	return false;
}

bool access_is_indexed(struct lower *l, const struct access *a, struct index *x)
{
	const struct ptx_instr *sum, *product;
	uint32_t at = l->at.instr, above;
	unsigned n;

	if (a->space == PTX_SHARED || a->space == PTX_LOCAL || a->o->reg < 0 || has_side_entry(l) ||
	    ptx_types[l->body->regs[a->o->reg].type].bits != 64)
		return false;
	sum = source_of(l, a->o->reg, &at);
	above = at;
	if (!sum || sum->guard >= 0)
		return false;
	if (sum->op->shape == PTX_SHAPE_MAD_WIDE) {
		product = sum;
		x->base = sum->ops[3].reg;
		if (!is_register(l, &sum->ops[3], 64, PTX_UNIFORM))
			return false;
	} else {
		if (sum->op->shape != PTX_SHAPE_ADD || ptx_types[sum->type].bits != 64 || (sum->mods & (M(CC) | M(SAT))) ||
		    sum->count != 3 || (sum->op->flags & PTX_F_CARRY_IN))
			return false;
		n = is_register(l, &sum->ops[1], 64, PTX_UNIFORM) ? 1 : 2;
		if (!is_register(l, &sum->ops[n], 64, PTX_UNIFORM) || !is_register(l, &sum->ops[3 - n], 64, lanes_shape(l)))
			return false;
		x->base = sum->ops[n].reg;
		product = source_of(l, sum->ops[3 - n].reg, &above);
	}
	/* then an aligned base is all that alignment takes */
	return product && is_scaled(l, product, x) && !((1u << x->shift) % (a->size * a->count)) && is_unchanged(l, x->base, at) && is_unchanged(l, x->index, above);
}

/* The first index that is good, and by how much others may be larger; returns whether there is any. */
static LLVMValueRef good_indices(struct lower *l, const struct access *a, const struct index *x, LLVMValueRef base,
				 LLVMValueRef *first, LLVMValueRef *room)
{
	LLVMValueRef entry = field(l, l->mem.cache, a->site * sizeof(struct ptx_cached_range)), bytes, start, size, low,
		     high, ok;
	LLVMValueRef shift = scalar_const(l->type.i64, x->shift),
		     part = scalar_const(l->type.i64, (1ull << x->shift) - 1), args[2];
	LLVMValueRef least = scalar_const(l->type.i64, x->sign ? (uint64_t)INT32_MIN : 0);
	LLVMValueRef most = scalar_const(l->type.i64, x->sign ? INT32_MAX : UINT32_MAX);

	bytes = scalar_const(l->type.i64, a->needed);
	start = LLVMBuildLoad2(l->b, l->type.i64, entry, "");
	size = LLVMBuildSub(l->b, LLVMBuildLoad2(l->b, l->type.i64, field(l, entry, 8), ""), start, "");
	ok = LLVMBuildICmp(l->b, LLVMIntUGE, size, bytes, "");
	low = LLVMBuildSub(l->b, start, base, "");
	/* if this overflows, the lowest index is too large already */
	high = LLVMBuildAdd(l->b, low, LLVMBuildSub(l->b, size, bytes, ""), "");
	part = LLVMBuildICmp(l->b, LLVMIntNE, LLVMBuildAnd(l->b, low, part, ""), scalar_const(l->type.i64, 0), "");
	low = LLVMBuildAdd(l->b, LLVMBuildAShr(l->b, low, shift, ""), LLVMBuildZExt(l->b, part, l->type.i64, ""), "");
	args[0] = low;
	args[1] = least;
	low = intrinsic(l, "llvm.smax", l->type.i64, args, 2);
	args[0] = LLVMBuildAShr(l->b, high, shift, "");
	args[1] = most;
	high = intrinsic(l, "llvm.smin", l->type.i64, args, 2);
	ok = LLVMBuildAnd(l->b, ok, LLVMBuildICmp(l->b, LLVMIntSLE, low, most, ""), "");
	ok = LLVMBuildAnd(l->b, ok, LLVMBuildICmp(l->b, LLVMIntSLE, low, high, ""), "");
	*first = LLVMBuildTrunc(l->b, low, l->type.i32, "");
	*room = LLVMBuildTrunc(l->b, LLVMBuildSub(l->b, high, low, ""), l->type.i32, "");
	return ok;
}

/* The largest of all lanes is not above `room`. */
static LLVMValueRef none_above(struct lower *l, LLVMValueRef value, LLVMValueRef room)
{
	unsigned lanes = PTX_LANES;

	while (lanes > 8) {
		int low[PTX_LANES], high[PTX_LANES];
		LLVMValueRef halves[2];

		lanes /= 2;
		for (unsigned n = 0; n < lanes; n++) {
			low[n] = (int)n;
			high[n] = (int)(n + lanes);
		}
		halves[0] = shuffle(l, value, LLVMGetPoison(LLVMTypeOf(value)), low, lanes);
		halves[1] = shuffle(l, value, LLVMGetPoison(LLVMTypeOf(value)), high, lanes);
		value = int2(l, "llvm.umax", halves[0], halves[1]);
	}
	value = LLVMBuildICmp(l->b, LLVMIntULE, value, splat(l, room, lanes), "");
	value = LLVMBuildBitCast(l->b, value, l->type.i8, "");
	return LLVMBuildICmp(l->b, LLVMIntEQ, value, scalar_const(l->type.i8, 255), "");
}

LLVMValueRef access_index(struct lower *l, const struct access *a, struct index *x)
{
	LLVMValueRef base, first, room, ok, aligned;

	base = LLVMBuildAdd(l->b, read_reg(l, x->base, 1), scalar_const(l->type.i64, (uint64_t)access_immediate(a)),
			    "");
	x->pointer = LLVMBuildIntToPtr(l->b, base, l->type.ptr, "");
	x->lanes = read_reg(l, x->index, PTX_LANES);
	ok = good_indices(l, a, x, base, &first, &room);
	aligned = LLVMBuildAnd(l->b, base, scalar_const(l->type.i64, a->size * a->count - 1), "");
	ok = LLVMBuildAnd(l->b, ok, LLVMBuildICmp(l->b, LLVMIntEQ, aligned, scalar_const(l->type.i64, 0), ""), "");
	x->lanes = access_readable(l, x->lanes);
	first = LLVMBuildSub(l->b, x->lanes, splat(l, first, PTX_LANES), "");
	return LLVMBuildAnd(l->b, ok, none_above(l, first, room), "");
}

LLVMValueRef access_index_pointer(struct lower *l, const struct index *x, unsigned lane)
{
	LLVMValueRef at = LLVMBuildExtractElement(l->b, x->lanes, lane_index(l, lane), "");

	at = x->sign ? LLVMBuildSExt(l->b, at, l->type.i64, "") : LLVMBuildZExt(l->b, at, l->type.i64, "");
	at = LLVMBuildShl(l->b, at, scalar_const(l->type.i64, x->shift), "");
	return LLVMBuildGEP2(l->b, l->type.i8, x->pointer, &at, 1, "");
}
