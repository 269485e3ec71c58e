/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Most registers of a compiler's code are written and read within one block. In a large kernel these get the last
 * numbers, so that sets of registers that are live between blocks have no places for them: their size times that of the
 * kernel is what the analysis of it takes.
 */
#include <string.h>

#include "analysis/ptx-body.h"

/* Words in the sets of all blocks, of one kind, from which on it is worth it. */
#define MANY_WORDS (1u << 18)

struct region_boundary {
	const struct ptx_body *body;
	uint32_t *written; /* per register: the last block that has written it, from 1 */
	int32_t *number;   /* per register: the new one; until then, 1 if a block needs it of others */
	uint32_t block;
};

static void visit_use(void *data, int32_t reg)
{
	struct region_boundary *o = data;

	if (o->written[reg] != o->block)
		o->number[reg] = 1;
}

static void visit_def(void *data, int32_t reg)
{
	struct region_boundary *o = data;

	o->written[reg] = o->block;
}

static void find_passed(struct region_boundary *o)
{
	const struct ptx_body *body = o->body;

	for (uint32_t n = 0; n < body->block_count; n++) {
		const struct ptx_block *b = &body->blocks[n];

		o->block = n + 1;
		for (uint32_t k = b->first; k < b->last; k++) {
			ptx_instr_uses(body, &body->instrs[k], visit_use, o);
			ptx_instr_defs(body, &body->instrs[k], visit_def, o);
		}
		if (b->condition >= 0)
			visit_use(o, b->condition);
	}
}

static void renumber(const struct region_boundary *o, int32_t *reg)
{
	if (*reg >= 0)
		*reg = o->number[*reg];
}

/* Operands may be shared: each instruction gets its own. */
static struct ptx_operand *copy_operands(struct ptx_body *body, const struct region_boundary *o,
					 const struct ptx_operand *from, unsigned count)
{
	struct ptx_operand *ops = ptx_alloc(&body->arena, (count + 1u) * sizeof(*ops));

	for (unsigned n = 0; ops && n < count; n++) {
		ops[n] = from[n];
		if (ops[n].kind == PTX_OP_REG || ops[n].kind == PTX_OP_MEM || ops[n].kind == PTX_OP_SINK) {
			renumber(o, &ops[n].reg);
			renumber(o, &ops[n].reg2);
		}
		if (ops[n].kind == PTX_OP_VECTOR &&
		    !(ops[n].elements = copy_operands(body, o, from[n].elements, from[n].count)))
			return NULL;
	}
	return ops;
}

static bool apply(struct ptx_body *body, const struct region_boundary *o)
{
	struct ptx_register *regs = ptx_alloc(&body->arena, (body->reg_count + 1u) * sizeof(*regs));

	if (!regs)
		return false;
	for (uint32_t r = 0; r < body->reg_count; r++)
		regs[o->number[r]] = body->regs[r];
	body->regs = regs;
	body->reg_room = body->reg_count;
	renumber(o, &body->carry);
	for (uint32_t n = 0; n < body->block_count; n++)
		renumber(o, &body->blocks[n].condition);
	for (uint32_t k = 0; k < body->instr_count; k++) {
		struct ptx_instr *i = &body->instrs[k];

		renumber(o, &i->guard);
		if (i->count && !(i->ops = copy_operands(body, o, i->ops, i->count)))
			return false;
	}
	return true;
}

bool ptx_body_region_boundary(struct ptx_body *body)
{
	struct region_boundary o = {.body = body};
	int32_t inside;

	body->boundary_count = body->reg_count;
	if ((uint64_t)body->block_count * (body->reg_count / 64) < MANY_WORDS)
		return true;
	o.written = ptx_alloc(&body->arena, (body->reg_count + 1u) * sizeof(*o.written));
	o.number = ptx_alloc(&body->arena, (body->reg_count + 1u) * sizeof(*o.number));
	if (!o.written || !o.number)
		return false;
	find_passed(&o);
	body->boundary_count = 0;
	for (uint32_t r = 0; r < body->reg_count; r++)
		body->boundary_count += o.number[r] == 1;
	inside = (int32_t)body->boundary_count;
	for (uint32_t r = 0, next = 0; r < body->reg_count; r++)
		o.number[r] = o.number[r] ? (int32_t)next++ : inside++;
	return apply(body, &o);
}
