/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Which parameter of the kernel an address comes from, for code of one lane. Nearly all lie in the allocation that the
 * parameter points into. Its range is looked up when a launch begins and does not change while the code runs, so that
 * all accesses of one provenance share it, and LLVM works out once what an index may be. A wrong guess
 * costs time only: an address elsewhere is checked as if there were no provenance.
 */
#include "analysis/ptx-body.h"

static const struct ptx_origin nothing = {.kind = PTX_ORIGIN_NOTHING}, number = {.kind = PTX_ORIGIN_NUMBER},
			       anything = {.kind = PTX_ORIGIN_ANYTHING};

/* More low bits than that matter to no access. */
#define MOST_ZEROS 7

static struct ptx_origin operand_origin(const struct ptx_body *body, const struct ptx_operand *o)
{
	if (o->kind == PTX_OP_INT)
		return number;
	if (o->kind != PTX_OP_REG || o->reg < 0 || o->negate || o->minus || o->select)
		return anything;
	return ptx_types[body->regs[o->reg].type].bits < 64 ? number : body->origins[o->reg];
}

static struct ptx_origin sum_of(struct ptx_origin a, struct ptx_origin b)
{
	struct ptx_origin *root = a.kind == PTX_ORIGIN_ROOTED ? &a : &b;

	if (a.kind == PTX_ORIGIN_NOTHING || b.kind == PTX_ORIGIN_NOTHING)
		return nothing;
	if (a.kind == PTX_ORIGIN_NUMBER && b.kind == PTX_ORIGIN_NUMBER)
		return number;
	if (a.kind + b.kind != PTX_ORIGIN_NUMBER + PTX_ORIGIN_ROOTED)
		return anything;
	root->exact = false;
	return *root;
}

static struct ptx_origin parameter(const struct ptx_operand *o)
{
	return (struct ptx_origin){
		.kind = PTX_ORIGIN_ROOTED, .exact = true, .param = (uint32_t)(o->symbol->offset + o->imm)};
}

static struct ptx_origin result_origin(const struct ptx_body *body, const struct ptx_instr *i)
{
	struct ptx_origin a = anything, b = anything;
	unsigned bits = ptx_types[i->type].bits;

	if (i->count > 1)
		a = operand_origin(body, &i->ops[1]);
	if (i->count > 2)
		b = operand_origin(body, &i->ops[2]);
	switch (i->op->shape) {
	case PTX_SHAPE_LOAD:
		if (i->space == PTX_PARAM && bits == 64 && i->count == 2 && i->ops[1].kind == PTX_OP_MEM &&
		    i->ops[1].reg < 0 && i->ops[1].symbol && i->ops[1].symbol->space == PTX_PARAM &&
		    i->ops[0].kind == PTX_OP_REG)
			return parameter(&i->ops[1]);
		return anything;
	case PTX_SHAPE_MOV:
	case PTX_SHAPE_CVTA:
		return bits == 64 && i->count == 2 ? a : anything;
	case PTX_SHAPE_ADD:
		return bits == 64 && i->count == 3 ? sum_of(a, b) : anything;
	case PTX_SHAPE_SUB:
		return bits == 64 && i->count == 3 && b.kind <= PTX_ORIGIN_NUMBER ? sum_of(a, b) : anything;
	case PTX_SHAPE_MAD:
	case PTX_SHAPE_MAD_WIDE:
		/* a factor counts with its value */
		if (a.kind == PTX_ORIGIN_ROOTED || b.kind == PTX_ORIGIN_ROOTED)
			return anything;
		return i->count == 4 ? sum_of(number, operand_origin(body, &i->ops[3])) : anything;
	case PTX_SHAPE_MUL:
	case PTX_SHAPE_MUL_WIDE:
	case PTX_SHAPE_SHL:
		return number;
	case PTX_SHAPE_CVT:
		return a.kind == PTX_ORIGIN_NUMBER ? a : anything;
	default:
		return anything;
	}
}

/* ---- low bits ---- */

static unsigned operand_zeros(const struct ptx_body *body, const struct ptx_operand *o, unsigned kind)
{
	const struct ptx_origin *origin;

	if (o->kind == PTX_OP_INT)
		return o->imm ? (unsigned)__builtin_ctzll(o->imm) : 64;
	if (o->kind != PTX_OP_REG || o->reg < 0 || o->negate || o->minus || o->select)
		return 0;
	origin = &body->origins[o->reg];
	/* a register that is never written is 0; only the distance of an address is known, and only a distance follows
	 */
	if (origin->kind == PTX_ORIGIN_NOTHING)
		return 64;
	return origin->kind == PTX_ORIGIN_NUMBER || (origin->kind == PTX_ORIGIN_ROOTED && kind == PTX_ORIGIN_ROOTED)
		       ? origin->zeros
		       : 0;
}

static bool is_integer(unsigned type)
{
	char cls = ptx_types[type].cls;

	return cls == 'u' || cls == 's' || cls == 'b';
}

static bool has_factors(unsigned shape)
{
	return shape == PTX_SHAPE_MUL || shape == PTX_SHAPE_MUL_WIDE || shape == PTX_SHAPE_MAD ||
	       shape == PTX_SHAPE_MAD_WIDE;
}

/* Registers that are wider or narrower than the instruction keep their low bits. */
static unsigned result_zeros(const struct ptx_body *body, const struct ptx_instr *i, unsigned kind)
{
	unsigned z[4] = {0, 0, 0, 0};

	if (!is_integer(i->type) || i->mods & M(SAT) || !i->count || i->ops[0].kind != PTX_OP_REG)
		return 0;
	for (unsigned n = 1; n < i->count && n < 4; n++)
		z[n] = operand_zeros(body, &i->ops[n], has_factors(i->op->shape) && n < 3 ? PTX_ORIGIN_NUMBER : kind);
	switch (i->op->shape) {
	case PTX_SHAPE_MOV:
		return z[1];
	case PTX_SHAPE_CVTA:
		return i->space == PTX_GLOBAL ? z[1] : 0;
	case PTX_SHAPE_CVT:
		return is_integer(i->type2) ? z[1] : 0;
	case PTX_SHAPE_ADD:
	case PTX_SHAPE_SUB:
		return z[1] < z[2] ? z[1] : z[2];
	case PTX_SHAPE_MUL:
	case PTX_SHAPE_MUL_WIDE:
		return z[1] + z[2];
	case PTX_SHAPE_MAD:
	case PTX_SHAPE_MAD_WIDE:
		return z[1] + z[2] < z[3] ? z[1] + z[2] : z[3];
	case PTX_SHAPE_SHL:
		return i->ops[2].kind == PTX_OP_INT && i->ops[2].imm < 32 ? z[1] + (unsigned)i->ops[2].imm : z[1];
	default:
		return 0;
	}
}

static struct ptx_origin origin_of(const struct ptx_body *body, const struct ptx_instr *i)
{
	struct ptx_origin origin = result_origin(body, i);
	unsigned zeros = origin.exact ? MOST_ZEROS : result_zeros(body, i, origin.kind);

	origin.zeros = (uint8_t)(zeros < MOST_ZEROS ? zeros : MOST_ZEROS);
	return origin;
}

struct pass {
	struct ptx_body *body;
	struct ptx_origin origin;
	bool changed;
};

static void merge(void *data, int32_t reg)
{
	struct pass *p = data;
	struct ptx_origin *old = &p->body->origins[reg], now = p->origin;

	/* a half of an address (mov.b64 {a, b}) is none */
	if (now.kind >= PTX_ORIGIN_ROOTED && ptx_types[p->body->regs[reg].type].bits < 64) {
		now.zeros = now.exact ? 0 : now.zeros;
		now.kind = PTX_ORIGIN_NUMBER;
		now.exact = false;
	}
	if (now.kind == PTX_ORIGIN_NOTHING || old->kind == PTX_ORIGIN_ANYTHING)
		return;
	if (old->kind != PTX_ORIGIN_NOTHING) {
		if (now.kind != old->kind || now.param != old->param)
			now = anything;
		now.exact &= old->exact;
		now.zeros = now.zeros < old->zeros ? now.zeros : old->zeros;
	}
	p->changed |= now.kind != old->kind || now.exact != old->exact || now.zeros != old->zeros;
	*old = now;
}

static bool follow(void *data, const struct ptx_instr *instr)
{
	struct pass *p = data;

	p->changed = false;
	p->origin = origin_of(p->body, instr);
	ptx_instr_defs(p->body, instr, merge, p);
	return p->changed;
}

bool ptx_body_origins(struct ptx_body *body)
{
	struct pass p = {.body = body};

	body->origins = ptx_alloc(&body->arena, (body->reg_count + 1u) * sizeof(*body->origins));
	if (!body->origins)
		return ptx_body_fail(body, PTX_NO_MEMORY, 0, "`%s` needs too much memory to compile",
				     body->function->name);
	ptx_body_fixpoint(body, follow, &p);
	return true;
}
