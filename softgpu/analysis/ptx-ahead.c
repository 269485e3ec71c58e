/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What will be accessed soon, told to the processor: prefetches, which never fault, so that nothing here need be right.
 * Processors follow one array that is walked through by themselves. Measured, they lose track in two cases:
 *
 * - Blocks of several rows. A warp's neighbour is in another row, and the row goes on in the next block. How far an
 *   address moves from one block to the next is worked out here, for each register.
 * - With one lane, loops that walk through arrays and look up what they find there in others.
 */
#include <string.h>

#include "lower/ptx-lower-access.h"

/* So many warps run before the one that is thought of: all that a block can have. */
#define WARPS_AHEAD 32
#define BYTES_AHEAD 1024
/* The rounds of a loop that moves less go on in the same line, those of one that moves more are too few. */
#define LEAST_STEP 16
#define MOST_STEP 256
#define LINE 64

enum {
	NOTHING, /* yet */
	KNOWN,
	ANYTHING,
};

static const struct ptx_along nothing = {.kind = NOTHING}, same = {.kind = KNOWN}, anything = {.kind = ANYTHING};

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
	if (a.kind != KNOWN || b.kind != KNOWN)
		return a.kind == ANYTHING || b.kind == ANYTHING ? anything : nothing;
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

	if (sum.kind != KNOWN || (!x.by && !y.by))
		return sum;
	if ((x.by && y.by) || !is_number(body, x.by ? b : a, &factor))
		return anything;
	sum.by = (int64_t)((uint64_t)sum.by * (uint64_t)factor);
	return sum;
}

/* What depends on nothing that changes does not change. */
static struct ptx_along result_of_any(const struct ptx_body *body, const struct ptx_instr *i)
{
	struct ptx_along all = same;

	for (unsigned n = 1; n < i->count; n++) {
		all = sum_of(all, operand_along(body, &i->ops[n]), 1);
		if (all.kind == KNOWN && operand_along(body, &i->ops[n]).by)
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
		if (a.kind == KNOWN && a.by && is_number(body, &i->ops[2], &shift) && shift >= 0 && shift < 32) {
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

	if (now.kind == NOTHING || old->kind == ANYTHING)
		return;
	if (old->kind == KNOWN && (now.kind != KNOWN || now.by != old->by))
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
	ptx_body_settle(body, follow, &p);
	return true;
}

/* ---- in the full version ---- */

void prefetch(struct lower *l, LLVMValueRef pointer, int64_t from, uint64_t bytes, bool write, int caches)
{
	LLVMValueRef fn = LLVMGetIntrinsicDeclaration(l->m, LLVMLookupIntrinsicID("llvm.prefetch", 13), &l->ptr, 1);

	for (uint64_t at = 0; at < bytes; at += LINE) {
		LLVMValueRef args[4] = {field(l, pointer, (uint64_t)from + at), scalar_const(l->i32, write),
					scalar_const(l->i32, (uint64_t)caches), scalar_const(l->i32, 1)};

		LLVMBuildCall2(l->b, LLVMGlobalGetValueType(fn), fn, args, 4, "");
	}
}

static bool is_leader(const struct lower *l, const struct access *a)
{
	return !is_partial(l) && !l->quick && !l->covered[l->instr] && a->o->reg >= 0 &&
	       (a->i->space == PTX_GLOBAL || a->i->space == PTX_GENERIC);
}

/* Only where the row goes on in the next block just where this one's ends. */
static void look_along(struct lower *l, const struct access *a, LLVMValueRef pointer)
{
	const struct ptx_along *along = &l->body->along[a->o->reg];
	uint32_t row = l->body->blockdim[0] * a->size, blocks = PTX_LANES * WARPS_AHEAD / l->body->threads;

	if (along->kind != KNOWN || along->by != row || l->body->blockdim[0] == l->body->threads ||
	    !access_is_in_order(a) || ptx_body_in_loop(l->body, l->block))
		return;
	prefetch(l, pointer, a->offsets[0] + (int64_t)row * blocks, PTX_LANES * a->size, a->write, ALL_CACHES);
}

static void look_on(struct lower *l, const struct access *a, LLVMValueRef pointer)
{
	int64_t step = a->indexed ? round_step(l, a->x.index) * (1ll << a->x.shift) : round_step(l, a->o->reg);

	if (a->write || step > MOST_STEP || step < -MOST_STEP || (step < LEAST_STEP && step > -LEAST_STEP))
		return;
	prefetch(l, pointer, step < 0 ? -BYTES_AHEAD : BYTES_AHEAD, 1, false, ALL_CACHES);
}

void look_ahead(struct lower *l, const struct access *a, LLVMValueRef pointer)
{
	if (!is_leader(l, a))
		return;
	if (l->width > 1)
		look_along(l, a, pointer);
	else
		look_on(l, a, pointer);
}
