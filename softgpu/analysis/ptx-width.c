/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How wide a kernel's code is. How many lanes it has: 32, or 1 where that is allowed and looks faster. Lanes of one
 * instruction that load from unrelated addresses are loaded one by one either way; code of one lane does so without the
 * detour through the runtime, but does everything else 32 times.
 */
#include "analysis/ptx-body.h"

/* Measured: a gather costs as much more than 32 plain loads as this many other instructions save. */
#define INSTRUCTIONS_PER_GATHER 6
#define LOOP_WEIGHT 8
#define MOST_WEIGHT (LOOP_WEIGHT * LOOP_WEIGHT * LOOP_WEIGHT)

static bool is_gather(const struct ptx_body *body, const struct ptx_instr *i)
{
	const struct ptx_operand *o;

	if (!(i->op->flags & (PTX_F_LOAD | PTX_F_STORE | PTX_F_ATOM)))
		return false;
	for (unsigned n = 0; n < i->count; n++) {
		o = &i->ops[n];
		if (o->kind == PTX_OP_MEM)
			return i->space == PTX_LOCAL || (o->reg >= 0 && body->shapes[o->reg].kind == PTX_VARYING);
	}
	return false;
}

/* Loops are contiguous and their last block branches back to the first. */
static uint32_t weight_of(const struct ptx_body *body, uint32_t block)
{
	uint32_t weight = 1;

	for (uint32_t n = block; n < body->block_count && weight < MOST_WEIGHT; n++)
		for (unsigned s = 0; s < 2; s++)
			if (body->blocks[n].succ[s] <= block && body->blocks[n].succ[s] <= n)
				weight *= LOOP_WEIGHT;
	return weight;
}

bool ptx_body_in_loop(const struct ptx_body *body, uint32_t block)
{
	return weight_of(body, block) > 1;
}

static bool gathers_dominate(const struct ptx_body *body)
{
	uint64_t gathers = 0, others = 0;

	for (uint32_t n = 0; n < body->block_count; n++) {
		const struct ptx_block *b = &body->blocks[n];
		uint32_t weight = weight_of(body, n);

		for (uint32_t k = b->first; k < b->last; k++)
			*(is_gather(body, &body->instrs[k]) ? &gathers : &others) += weight;
	}
	return gathers * INSTRUCTIONS_PER_GATHER > others;
}

static bool has_loop(const struct ptx_body *body)
{
	for (uint32_t n = 0; n < body->block_count; n++)
		for (unsigned s = 0; s < 2; s++)
			if (body->blocks[n].succ[s] <= n)
				return true;
	return false;
}

/* Old code has lanes of a warp exchange values in shared memory without a barrier, as if they ran in step. */
static bool shares(const struct ptx_body *body)
{
	return body->static_shared || body->uses_dynamic_shared;
}

bool ptx_body_width(struct ptx_body *body, unsigned *lanes, bool *scalar)
{
	bool together = body->has_barrier || body->has_warp || body->has_waits;

	*lanes = PTX_LANES;
	*scalar = *scalar && !together && !shares(body) && !body->has_calls && !has_loop(body);
	if (*scalar || (!together && body->threads < 8)) {
		*lanes = 1;
		return ptx_body_shapes(body, 1);
	}
	if (!ptx_body_shapes(body, PTX_LANES))
		return false;
	/* a thread's stack is local memory, and threads that call are seldom at the same place */
	if (together || (!body->has_calls && !gathers_dominate(body)))
		return true;
	*lanes = 1;
	return ptx_body_shapes(body, 1);
}

/* ---- vectors ---- */

/* Vector instructions for each access that take less time than the access. */
#define MOST_ARITHMETIC 2

struct search {
	const struct ptx_body *body;
	bool found;
};

static void look_for_varying(void *data, int32_t reg)
{
	struct search *s = data;

	s->found |= s->body->shapes[reg].kind == PTX_VARYING;
}

/* Whether all lanes' parts lie at constant distances, in memory that the launch has. */
static bool is_regular(const struct ptx_body *body, const struct ptx_instr *i)
{
	const struct ptx_operand *o;

	if (!(i->op->flags & (PTX_F_LOAD | PTX_F_STORE)) || (i->op->flags & PTX_F_ATOM))
		return false;
	o = &i->ops[i->op->flags & PTX_F_NO_DST ? 0 : 1];
	return o->kind == PTX_OP_MEM && (i->space == PTX_PARAM || i->space == PTX_GLOBAL || i->space == PTX_GENERIC) &&
	       (o->reg < 0 || body->shapes[o->reg].kind != PTX_VARYING);
}

bool ptx_body_streams(const struct ptx_body *body)
{
	uint64_t accesses = 0, others = 0;

	if (has_loop(body))
		return false;
	for (uint32_t n = 0; n < body->block_count; n++)
		for (uint32_t k = body->blocks[n].first; k < body->blocks[n].last; k++) {
			const struct ptx_instr *i = &body->instrs[k];
			struct search s = {body, false};

			if (is_regular(body, i)) {
				accesses += i->space != PTX_PARAM;
				continue;
			}
			if (i->op->flags & PTX_F_EFFECT)
				return false;
			ptx_instr_defs(body, i, look_for_varying, &s);
			others += s.found;
		}
	return others < MOST_ARITHMETIC * accesses;
}
