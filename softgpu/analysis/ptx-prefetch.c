/* SPDX-License-Identifier: Apache-2.0 */
/* Distances of an address from one block to the next, for each register: for prefetches (ptx-lower-prefetch.c). */
#include <string.h>

#include "analysis/ptx-body.h"

static const struct ptx_along nothing = {.kind = PTX_ALONG_NOTHING}, same = {.kind = PTX_ALONG_KNOWN},
			      anything = {.kind = PTX_ALONG_ANYTHING};

static struct ptx_along operand_along(const struct ptx_body *body, const struct ptx_operand *o)
{
	struct ptx_along along = same;

	if (o->kind == PTX_OP_SPECIAL && o->reg == PTX_CTAID_X)
		along.by = 1;
	if (o->kind == PTX_OP_MEM || o->kind == PTX_OP_VECTOR)
		return anything;
	if (o->kind == PTX_OP_REG && o->reg >= 0)
		along = body->along[o->reg];
	return along.by && (o->negate || o->minus || o->select) ? anything : along;
}

static struct ptx_along sum_of(struct ptx_along a, struct ptx_along b, int64_t sign)
{
	if (a.kind != PTX_ALONG_KNOWN || b.kind != PTX_ALONG_KNOWN)
		return a.kind == PTX_ALONG_ANYTHING || b.kind == PTX_ALONG_ANYTHING ? anything : nothing;
	a.by = (int64_t)((uint64_t)a.by + (uint64_t)sign * (uint64_t)b.by);
	return a;
}

/* Whether it is a constant. */
static bool is_number(const struct ptx_body *body, const struct ptx_operand *o, int64_t *value)
{
	if (o->kind == PTX_OP_INT) {
		*value = (int64_t)o->imm;
		return true;
	}
	if (o->kind == PTX_OP_SPECIAL && o->reg >= PTX_NTID_X && o->reg <= PTX_NTID_Z) {
		*value = body->blockdim[o->reg - PTX_NTID_X];
		return true;
	}
	if (o->kind != PTX_OP_REG || o->reg < 0 || body->shapes[o->reg].kind != PTX_UNIFORM)
		return false;
	*value = (int64_t)body->shapes[o->reg].value;
	return body->shapes[o->reg].known;
}

static struct ptx_along product_of(const struct ptx_body *body, const struct ptx_operand *a,
				   const struct ptx_operand *b)
{
	struct ptx_along x = operand_along(body, a), y = operand_along(body, b), sum = sum_of(x, y, 1);
	int64_t factor;

	if (sum.kind != PTX_ALONG_KNOWN || (!x.by && !y.by))
		return sum;
	if ((x.by && y.by) || !is_number(body, x.by ? b : a, &factor))
		return anything;
	sum.by = (int64_t)((uint64_t)sum.by * (uint64_t)factor);
	return sum;
}

/* The result of an instruction changes along a loop only if an operand does. */
static struct ptx_along result_of_any(const struct ptx_body *body, const struct ptx_instr *i)
{
	struct ptx_along all = same;

	for (unsigned n = 1; n < i->count; n++) {
		all = sum_of(all, operand_along(body, &i->ops[n]), 1);
		if (all.kind == PTX_ALONG_KNOWN && operand_along(body, &i->ops[n]).by)
			return anything;
	}
	return all;
}

static struct ptx_along result_along(const struct ptx_body *body, const struct ptx_instr *i)
{
	struct ptx_along a;
	int64_t shift;

	if (i->op->shape == PTX_SHAPE_LOAD)
		return i->space == PTX_PARAM ? same : anything;
	if (i->count < 2 || i->op->flags & (PTX_F_EFFECT | PTX_F_CARRY_IN))
		return anything;
	a = operand_along(body, &i->ops[1]);
	switch (i->op->shape) {
	case PTX_SHAPE_MOV:
	case PTX_SHAPE_CVT:
	case PTX_SHAPE_CVTA:
		return i->count == 2 ? a : anything;
	case PTX_SHAPE_ADD:
	case PTX_SHAPE_SUB:
		return i->count == 3
			       ? sum_of(a, operand_along(body, &i->ops[2]), i->op->shape == PTX_SHAPE_SUB ? -1 : 1)
			       : anything;
	case PTX_SHAPE_MUL:
	case PTX_SHAPE_MUL_WIDE:
		return i->count == 3 ? product_of(body, &i->ops[1], &i->ops[2]) : anything;
	case PTX_SHAPE_MAD:
	case PTX_SHAPE_MAD_WIDE:
		return i->count == 4
			       ? sum_of(product_of(body, &i->ops[1], &i->ops[2]), operand_along(body, &i->ops[3]), 1)
			       : anything;
	case PTX_SHAPE_SHL:
		if (a.kind == PTX_ALONG_KNOWN && a.by && is_number(body, &i->ops[2], &shift) && shift >= 0 &&
		    shift < 32) {
			a.by = (int64_t)((uint64_t)a.by << shift);
			return a;
		}
		return result_of_any(body, i);
	default:
		return result_of_any(body, i);
	}
}

struct pass {
	struct ptx_body *body;
	struct ptx_along along;
	bool changed;
};

static void merge(void *data, int32_t reg)
{
	struct pass *p = data;
	struct ptx_along *old = &p->body->along[reg], now = p->along;

	if (now.kind == PTX_ALONG_NOTHING || old->kind == PTX_ALONG_ANYTHING)
		return;
	if (old->kind == PTX_ALONG_KNOWN && (now.kind != PTX_ALONG_KNOWN || now.by != old->by))
		now = anything;
	p->changed |= now.kind != old->kind;
	*old = now;
}

static bool follow(void *data, const struct ptx_instr *instr)
{
	struct pass *p = data;

	p->changed = false;
	p->along = result_along(p->body, instr);
	ptx_instr_defs(p->body, instr, merge, p);
	return p->changed;
}

bool ptx_body_along(struct ptx_body *body)
{
	struct pass p = {.body = body};

	body->along = ptx_alloc(&body->arena, (body->reg_count + 1u) * sizeof(*body->along));
	if (!body->along)
		return ptx_body_fail(body, PTX_NO_MEMORY, 0, "`%s` needs too much memory to compile",
				     body->function->name);
	ptx_body_fixpoint(body, follow, &p);
	return true;
}
