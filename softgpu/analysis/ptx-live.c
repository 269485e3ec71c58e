/* SPDX-License-Identifier: Apache-2.0 */
/* Registers that an instruction touches, and live registers at the borders of blocks. */
#include <string.h>

#include "analysis/ptx-body.h"

static void operand_uses(const struct ptx_operand *o, void (*visit)(void *, int32_t), void *data)
{
	if ((o->kind == PTX_OP_REG || o->kind == PTX_OP_MEM) && o->reg >= 0)
		visit(data, o->reg);
	for (unsigned e = 0; o->kind == PTX_OP_VECTOR && e < o->count; e++)
		operand_uses(&o->elements[e], visit, data);
}

void ptx_instr_uses(const struct ptx_body *body, const struct ptx_instr *i, void (*visit)(void *, int32_t), void *data)
{
	for (unsigned n = i->op->flags & PTX_F_NO_DST ? 0 : 1; n < i->count; n++)
		operand_uses(&i->ops[n], visit, data);
	if (i->guard >= 0) {
		visit(data, i->guard);
		ptx_instr_defs(body, i, visit, data); /* the old value stays where the guard is false */
	}
	if (i->op->flags & PTX_F_CARRY_IN)
		visit(data, body->carry);
}

void ptx_instr_defs(const struct ptx_body *body, const struct ptx_instr *i, void (*visit)(void *, int32_t), void *data)
{
	const struct ptx_operand *o;

	if (i->mods & M(CC))
		visit(data, body->carry);
	if ((i->op->flags & PTX_F_NO_DST) || !i->count)
		return;
	o = &i->ops[0];
	if (o->kind == PTX_OP_REG && o->reg >= 0)
		visit(data, o->reg);
	if (o->reg2 >= 0 && (o->kind == PTX_OP_REG || o->kind == PTX_OP_SINK))
		visit(data, o->reg2);
	for (unsigned e = 0; o->kind == PTX_OP_VECTOR && e < o->count; e++)
		if (o->elements[e].kind == PTX_OP_REG)
			visit(data, o->elements[e].reg);
}

void ptx_body_fixpoint(const struct ptx_body *body, bool (*each)(void *data, const struct ptx_instr *instr), void *data)
{
	bool changed;

	do {
		changed = false;
		for (uint32_t n = 0; n < body->block_count; n++)
			for (uint32_t k = body->blocks[n].first; k < body->blocks[n].last; k++)
				changed |= each(data, &body->instrs[k]);
	} while (changed);
}

struct gather {
	const struct ptx_body *body;
	struct ptx_block *block;
};

static void visit_use(void *data, int32_t reg)
{
	struct gather *g = data;

	if ((uint32_t)reg < g->body->boundary_count && !PTX_BIT(g->block->def, reg))
		PTX_SET(g->block->use, reg);
}

static void visit_def(void *data, int32_t reg)
{
	struct gather *g = data;

	if ((uint32_t)reg < g->body->boundary_count)
		PTX_SET(g->block->def, reg);
}

bool ptx_body_live(struct ptx_body *body)
{
	bool changed = true;
	size_t words;

	if (!ptx_body_region_boundary(body))
		return ptx_body_fail(body, PTX_NO_MEMORY, 0, "`%s` needs too much memory to compile",
				     body->function->name);
	words = body->words = (body->boundary_count + 63) / 64 + 1;
	for (uint32_t n = 0; n < body->block_count; n++) {
		struct ptx_block *b = &body->blocks[n];
		struct gather g = {body, b};
		uint64_t *sets = ptx_alloc(&body->arena, 4 * words * sizeof(*sets));

		if (!sets)
			return ptx_body_fail(body, PTX_NO_MEMORY, 0, "`%s` needs too much memory to compile",
					     body->function->name);
		b->use = sets;
		b->def = sets + words;
		b->live_in = sets + 2 * words;
		b->live_out = sets + 3 * words;
		for (uint32_t k = b->first; k < b->last; k++) {
			ptx_instr_uses(body, &body->instrs[k], visit_use, &g);
			ptx_instr_defs(body, &body->instrs[k], visit_def, &g);
		}
		if (b->condition >= 0)
			visit_use(&g, b->condition);
	}
	while (changed) {
		changed = false;
		for (uint32_t n = body->block_count; n--;) {
			struct ptx_block *b = &body->blocks[n];

			for (size_t w = 0; w < words; w++) {
				uint64_t out = 0, in;

				for (unsigned s = 0; s < 2; s++)
					if (b->succ[s] != PTX_NO_BLOCK)
						out |= body->blocks[b->succ[s]].live_in[w];
				in = b->use[w] | (out & ~b->def[w]);
				changed |= in != b->live_in[w];
				b->live_in[w] = in;
				b->live_out[w] = out;
			}
		}
	}
	return true;
}

static bool join_sets(uint64_t *set, const uint64_t *other, size_t words)
{
	bool changed = false;

	for (size_t w = 0; w < words; w++) {
		changed |= (other[w] & ~set[w]) != 0;
		set[w] |= other[w];
	}
	return changed;
}

bool ptx_body_rest(struct ptx_body *body, struct ptx_rest *rest)
{
	size_t words = body->words;
	bool changed = true;

	rest->defs = ptx_alloc(&body->arena, (body->block_count + 1u) * words * sizeof(*rest->defs));
	rest->live = ptx_alloc(&body->arena, (body->block_count + 1u) * words * sizeof(*rest->live));
	if (!rest->defs || !rest->live)
		return false;
	for (uint32_t n = 0; n < body->block_count; n++) {
		join_sets(rest->defs + n * words, body->blocks[n].def, words);
		join_sets(rest->live + n * words, body->blocks[n].live_in, words);
	}
	while (changed) {
		changed = false;
		for (uint32_t n = body->block_count; n--;)
			for (unsigned s = 0; s < 2; s++) {
				uint32_t next = body->blocks[n].succ[s];

				if (next == PTX_NO_BLOCK)
					continue;
				changed |= join_sets(rest->defs + n * words, rest->defs + next * words, words);
				changed |= join_sets(rest->live + n * words, rest->live + next * words, words);
			}
	}
	return rest->known = true;
}
