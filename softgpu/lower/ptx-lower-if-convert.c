/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Short blocks that only some lanes of a warp take, in the full version: `if` and `else` without loops, barriers or
 * whatever else lanes could see of one another. To leave for the masked version and to come back costs more than such
 * a block does, and it may be all that a kernel does between two barriers. So the block is there twice: for all lanes,
 * and as an converted block, in which the lanes that do not take it stand by. It writes only for its own lanes, to memory and to
 * registers that the others still need; what it computes for them besides is lost.
 *
 * Shapes of the full version hold in an converted block, since registers that are needed afterwards must be vectors.
 */
#include <string.h>

#include "lower/ptx-lower.h"

#define MOST_INSTRUCTIONS 48

static bool is_convertible(const struct ptx_instr *i)
{
	static const unsigned harmless = PTX_F_EFFECT | PTX_F_LOAD | PTX_F_STORE | PTX_F_NO_DST | PTX_F_CARRY_IN |
					 PTX_F_WORDS | PTX_F_TYPE2;

	if (i->op->flags & ~harmless)
		return false;
	if ((i->op->flags & PTX_F_EFFECT) && !(i->op->flags & (PTX_F_LOAD | PTX_F_STORE)))
		return false;
	return !(i->mods & (M(VOLATILE) | M(ACQUIRE) | M(RELEASE) | M(RELAXED)));
}

struct check {
	struct lower *l;
	const uint64_t *keep;
	bool ok;
};

static void check_def(void *data, int32_t reg)
{
	struct check *c = data;

	c->ok &= !PTX_HELD(c->l->body, c->keep, reg) || reg_shape(c->l, reg) == PTX_VARYING;
}

static bool is_arm(struct lower *l, uint32_t block, const uint64_t *keep)
{
	const struct ptx_block *b = &l->body->blocks[block];
	struct check c = {l, keep, true};
	unsigned entries = 0;

	if (b->barrier || b->waits || b->condition >= 0 || b->last - b->first > MOST_INSTRUCTIONS)
		return false;
	for (uint32_t n = 0; n < l->body->block_count; n++)
		entries += (l->body->blocks[n].succ[0] == block) + (l->body->blocks[n].succ[1] == block);
	for (uint32_t k = b->first; k < b->last && c.ok; k++) {
		c.ok = is_convertible(&l->body->instrs[k]);
		ptx_instr_defs(l->body, &l->body->instrs[k], check_def, &c);
	}
	return c.ok && entries == 1;
}

static bool plan_arm(struct lower *l, uint32_t block, const uint64_t *live, const uint64_t *other)
{
	struct if_converted *a = &l->own.if_conversion.blocks[block];

	a->keep = ptx_alloc(&l->body->arena, l->body->words * sizeof(*a->keep));
	if (!a->keep)
		return lower_no_memory(l->body);
	for (size_t w = 0; w < l->body->words; w++)
		a->keep[w] = live[w] | (other ? other[w] : 0);
	return is_arm(l, block, a->keep);
}

/* The arms of a branch in running order, and how many there are. */
static unsigned find_arms(const struct lower *l, uint32_t *arms, uint32_t *join)
{
	const struct ptx_block *b = &l->body->blocks[l->at.block], *blocks = l->body->blocks;
	uint32_t low = b->succ[0] < b->succ[1] ? b->succ[0] : b->succ[1], high = b->succ[0] ^ b->succ[1] ^ low;

	if (b->waits || low <= l->at.block || high == PTX_NO_BLOCK)
		return 0;
	arms[0] = low;
	arms[1] = high;
	*join = blocks[low].succ[0];
	if (blocks[low].condition >= 0 || *join == PTX_NO_BLOCK || *join <= low)
		return 0;
	if (*join == high)
		return 1;
	return *join > high && blocks[high].condition < 0 && blocks[high].succ[0] == *join ? 2 : 0;
}

bool if_conversion_begin(struct lower *l, LLVMValueRef taken)
{
	const struct ptx_block *b = &l->body->blocks[l->at.block];
	uint32_t arms[2], join = 0;
	unsigned count = find_arms(l, arms, &join);

	for (unsigned n = 0; n < count; n++)
		if (!plan_arm(l, arms[n], l->body->blocks[join].live_in,
			      n + 1 < count ? l->body->blocks[arms[1]].live_in : NULL))
			return false;
	for (unsigned n = 0; n < count; n++) {
		struct if_converted *a = &l->own.if_conversion.blocks[arms[n]];

		a->start = new_bb(l, "converted block");
		a->vector = b->succ[0] == arms[n] ? taken : LLVMBuildNot(l->b, taken, "");
		a->lanes = mask_bits(l, a->vector);
		a->next = l->fn.starts[join];
		a->others = n + 1 < count ? arms[1] : join;
		if (n)
			l->own.if_conversion.blocks[arms[0]].next = a->start;
	}
	if (count)
		LLVMBuildBr(l->b, l->own.if_conversion.blocks[arms[0]].start);
	return count;
}

void if_conversion_emit(struct lower *l)
{
	const struct if_converted *a = &l->own.if_conversion.blocks[l->at.block];
	LLVMValueRef mask = l->at.mask, vector = l->at.mask_vector;

	if (!a->start || l->body->status != PTX_OK)
		return;
	LLVMPositionBuilderAtEnd(l->b, a->start);
	l->at.mask = a->lanes;
	l->at.mask_vector = a->vector;
	l->at.keep = a->keep;
	emit_instructions(l, NULL, NULL);
	l->at.keep = NULL;
	l->at.mask = mask;
	l->at.mask_vector = vector;
	LLVMBuildBr(l->b, a->next);
}

bool prepare_asides(struct lower *l)
{
	l->own.if_conversion.blocks = ptx_alloc(&l->body->arena, (l->body->block_count + 1u) * sizeof(*l->own.if_conversion.blocks));
	return l->own.if_conversion.blocks;
}
