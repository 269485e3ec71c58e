/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How a register's value varies over the lanes of a warp. Optimistic: all registers start as never written and only
 * ever get worse, so the loop ends. A register is kept as one scalar only if no lane that waits elsewhere could still
 * need another value (`blend`); that depends on which branches diverge, which depends on the shapes.
 *
 * OFFSETS assumes that widening does not overflow within the warp. The compiled code checks this and goes on in the
 * masked version of the kernel, which assumes nothing, where it does not hold.
 */
#include <string.h>

#include "analysis/ptx-body.h"

static const int64_t zero_offsets[PTX_LANES];

static const struct ptx_shape bottom = {.kind = PTX_BOTTOM};
static const struct ptx_shape uniform = {.kind = PTX_UNIFORM};
static const struct ptx_shape varying = {.kind = PTX_VARYING};

static struct ptx_shape constant(uint64_t value)
{
	return (struct ptx_shape){.kind = PTX_UNIFORM,
				  .known = true,
				  .value = value,
				  .zeros = value ? (uint8_t)__builtin_ctzll(value) : 63};
}

static const int64_t *offsets_of(const struct ptx_shape *s)
{
	return s->kind == PTX_OFFSETS ? s->offsets : zero_offsets;
}

/* A scalar plus offsets; folds to uniform where all are 0, gives up where they are too far apart to check overflow. */
static struct ptx_shape with_offsets(struct ptx_body *body, const struct ptx_shape *base, const int64_t *offsets)
{
	struct ptx_shape s = {.kind = PTX_OFFSETS, .zeros = base->zeros, .known = base->known, .value = base->value};
	bool any = false;
	int64_t *copy;

	for (unsigned l = 0; l < PTX_LANES; l++) {
		any |= offsets[l] != 0;
		if (offsets[l] > INT32_MAX || offsets[l] < INT32_MIN)
			return varying;
	}
	if (!any) {
		s.kind = PTX_UNIFORM;
		return s;
	}
	copy = ptx_alloc(&body->arena, PTX_LANES * sizeof(*copy));
	if (!copy)
		return varying;
	memcpy(copy, offsets, PTX_LANES * sizeof(*copy));
	s.offsets = copy;
	return s;
}

static bool is_affine(const struct ptx_shape *s)
{
	return s->kind == PTX_UNIFORM || s->kind == PTX_OFFSETS;
}

static struct ptx_shape combine(struct ptx_body *body, const struct ptx_shape *a, const struct ptx_shape *b,
				int64_t sign, unsigned bits)
{
	struct ptx_shape base = uniform;
	int64_t sum[PTX_LANES];

	if (!is_affine(a) || !is_affine(b))
		return varying;
	base.zeros = a->zeros < b->zeros ? a->zeros : b->zeros;
	if (a->known && b->known) {
		base = constant(a->value + (uint64_t)sign * b->value);
		if (bits < 64)
			base = constant(base.value & ((1ull << bits) - 1));
	}
	for (unsigned l = 0; l < PTX_LANES; l++)
		sum[l] = offsets_of(a)[l] + sign * offsets_of(b)[l];
	return with_offsets(body, &base, sum);
}

static struct ptx_shape scale(struct ptx_body *body, const struct ptx_shape *a, const struct ptx_shape *b,
			      unsigned bits)
{
	struct ptx_shape base = uniform;
	int64_t product[PTX_LANES], factor;

	if (!is_affine(a) || !is_affine(b))
		return varying;
	if (a->kind == PTX_OFFSETS) {
		const struct ptx_shape *swap = a;

		a = b;
		b = swap;
	}
	base.zeros = a->zeros + b->zeros < 63 ? (uint8_t)(a->zeros + b->zeros) : 63;
	if (a->known && b->known)
		base = constant(bits < 64 ? (a->value * b->value) & ((1ull << bits) - 1) : a->value * b->value);
	if (b->kind == PTX_UNIFORM)
		return base;
	if (a->kind != PTX_UNIFORM || !a->known)
		return varying;
	factor = bits == 64 ? (int64_t)a->value : bits == 32 ? (int32_t)a->value : (int16_t)a->value;
	if (factor > INT32_MAX || factor < INT32_MIN)
		return varying;
	for (unsigned l = 0; l < PTX_LANES; l++)
		product[l] = factor * b->offsets[l];
	return with_offsets(body, &base, product);
}

static struct ptx_shape tid_shape(struct ptx_body *body, unsigned axis)
{
	uint32_t bx = body->blockdim[0], by = body->blockdim[1], bz = body->blockdim[2];
	int64_t lanes[PTX_LANES];
	struct ptx_shape base = uniform;
	bool rows = PTX_LANES % bx == 0;

	if (body->blockdim[axis] == 1)
		return constant(0);
	for (unsigned l = 0; l < PTX_LANES; l++)
		lanes[l] = axis == 0 ? (rows ? l % bx : l) : l / bx;
	if (axis == 0) {
		if (rows)
			base = constant(0);
		else if (bx % PTX_LANES == 0 || (by == 1 && bz == 1))
			base.zeros = 5;
		else
			return varying;
	} else if (axis == 1) {
		if (bx % PTX_LANES == 0)
			return uniform;
		if (!rows || (by % (PTX_LANES / bx) && bz > 1))
			return varying;
		base.zeros = (uint8_t)__builtin_ctz(PTX_LANES / bx);
	} else {
		return (uint64_t)bx * by % PTX_LANES ? varying : uniform;
	}
	return with_offsets(body, &base, lanes);
}

static struct ptx_shape special_shape(struct ptx_body *body, int special)
{
	int64_t lanes[PTX_LANES];
	struct ptx_shape zero = constant(0);

	if (special <= PTX_TID_Z)
		return tid_shape(body, (unsigned)(special - PTX_TID_X));
	if (special <= PTX_NTID_Z)
		return constant(body->blockdim[special - PTX_NTID_X]);
	if (special >= PTX_MASK_EQ && special <= PTX_MASK_GT)
		return varying;
	if (special == PTX_LANEID) {
		for (unsigned l = 0; l < PTX_LANES; l++)
			lanes[l] = l;
		return with_offsets(body, &zero, lanes);
	}
	return uniform;
}

static struct ptx_shape operand_shape(struct ptx_body *body, const struct ptx_operand *o)
{
	switch (o->kind) {
	case PTX_OP_REG:
		return body->shapes[o->reg];
	case PTX_OP_INT:
		return constant(o->imm);
	case PTX_OP_SPECIAL:
		return special_shape(body, o->reg);
	case PTX_OP_MEM:
		return o->reg >= 0 ? body->shapes[o->reg] : uniform;
	case PTX_OP_VECTOR:
		for (unsigned e = 0; e < o->count; e++)
			if (operand_shape(body, &o->elements[e]).kind == PTX_VARYING ||
			    operand_shape(body, &o->elements[e]).kind == PTX_OFFSETS)
				return varying;
		return uniform;
	default:
		return uniform;
	}
}

/* The largest value that the lanes' offsets can add; only shapes that never go below the base. */
static bool low_bits(const struct ptx_shape *s, int64_t *most)
{
	*most = 0;
	for (unsigned l = 0; l < PTX_LANES; l++) {
		if (offsets_of(s)[l] < 0)
			return false;
		if (offsets_of(s)[l] > *most)
			*most = offsets_of(s)[l];
	}
	return true;
}

/* tid & 31 and the like: the offsets fit below the known zero bits of the base, so no carry mixes them. */
static struct ptx_shape and_shape(struct ptx_body *body, const struct ptx_shape *a, const struct ptx_shape *b)
{
	const struct ptx_shape *value = a->kind == PTX_OFFSETS ? a : b, *mask = a->kind == PTX_OFFSETS ? b : a;
	int64_t most, kept[PTX_LANES];
	struct ptx_shape base = uniform;

	if (value->kind != PTX_OFFSETS || mask->kind != PTX_UNIFORM || !mask->known || !low_bits(value, &most) ||
	    most >> value->zeros)
		return varying;
	if (value->zeros < 63 && !(mask->value >> value->zeros))
		base = constant(0);
	for (unsigned l = 0; l < PTX_LANES; l++)
		kept[l] = value->offsets[l] & (int64_t)mask->value;
	return with_offsets(body, &base, kept);
}

static struct ptx_shape shr_shape(struct ptx_body *body, const struct ptx_shape *a, const struct ptx_shape *b)
{
	int64_t most, kept[PTX_LANES];
	struct ptx_shape base = uniform;

	if (a->kind != PTX_OFFSETS || b->kind != PTX_UNIFORM || !b->known || b->value > 31 || !low_bits(a, &most) ||
	    most >> a->zeros)
		return varying;
	base.zeros = a->zeros > b->value ? (uint8_t)(a->zeros - b->value) : 0;
	for (unsigned l = 0; l < PTX_LANES; l++)
		kept[l] = a->offsets[l] >> b->value;
	return with_offsets(body, &base, kept);
}

static struct ptx_shape cvt_shape(const struct ptx_instr *i, const struct ptx_shape *a)
{
	unsigned to = ptx_types[i->type].bits, from = ptx_types[i->type2].bits;
	bool ints = strchr("us", ptx_types[i->type].cls) && strchr("us", ptx_types[i->type2].cls);

	if (a->kind != PTX_OFFSETS)
		return a->kind == PTX_UNIFORM && !a->known && ints ? *a : a->kind == PTX_UNIFORM ? uniform : *a;
	if (!ints || (i->mods & M(SAT)) || i->guard >= 0 || from < 32 || to < 32)
		return varying;
	return *a;
}

static struct ptx_shape pure(struct ptx_body *body, const struct ptx_instr *i, unsigned first)
{
	bool seen = true;

	for (unsigned n = first; n < i->count; n++) {
		struct ptx_shape s = operand_shape(body, &i->ops[n]);

		if (s.kind == PTX_VARYING || s.kind == PTX_OFFSETS)
			return varying;
		seen &= s.kind != PTX_BOTTOM;
	}
	if ((i->op->flags & PTX_F_CARRY_IN) && body->shapes[body->carry].kind == PTX_VARYING)
		return varying;
	return seen ? uniform : bottom;
}

/* mul.wide and mad.wide of s[1], s[2] and s[3]; `t` is what holds if lanes differ in no way that is known. */
static struct ptx_shape wide_shape(struct ptx_body *body, const struct ptx_instr *i, struct ptx_shape *s,
				   const struct ptx_shape *t)
{
	/* only a constant factor: the check of overflow is about the other side */
	if (t->kind == PTX_UNIFORM || ptx_types[i->type].bits != 32 || i->guard >= 0)
		return *t;
	if (s[1].kind == PTX_OFFSETS ? !s[2].known : !s[1].known)
		return varying;
	if (s[1].kind == PTX_OFFSETS && s[2].kind == PTX_OFFSETS)
		return varying;
	for (unsigned n = 1; n < 3; n++)
		if (s[n].known && ptx_types[i->type].cls == 'u')
			s[n].value &= UINT32_MAX;
		else if (s[n].known)
			s[n].value = (uint64_t)(int64_t)(int32_t)s[n].value;
	s[0] = scale(body, &s[1], &s[2], 64);
	s[0].known = false;
	return i->op->shape == PTX_SHAPE_MUL_WIDE ? s[0] : combine(body, &s[0], &s[3], 1, 64);
}

static struct ptx_shape result_shape(struct ptx_body *body, const struct ptx_instr *i)
{
	unsigned bits = ptx_types[i->type].bits;
	struct ptx_shape s[4] = {bottom, bottom, bottom, bottom}, t;
	bool plain = !(i->mods & (M(SAT) | M(CC))) && (bits == 32 || bits == 64);

	for (unsigned n = 1; n < i->count && n < 4; n++)
		s[n] = operand_shape(body, &i->ops[n]);
	t = pure(body, i, 1);
	/* each lane has its own local memory: the generic address of a uniform local one varies */
	if (i->op->shape == PTX_SHAPE_VARYING || (i->op->shape == PTX_SHAPE_CVTA && i->space == PTX_LOCAL))
		return varying;
	/* lanes that name different ones get different votes */
	if (i->op->shape == PTX_SHAPE_UNIFORM && (i->op->flags & PTX_F_WARP) && i->count == 3 &&
	    s[2].kind != PTX_BOTTOM && s[2].kind != PTX_UNIFORM)
		return varying;
	if (i->op->shape == PTX_SHAPE_UNIFORM)
		return uniform;
	if (i->op->shape == PTX_SHAPE_LOAD)
		return t.kind == PTX_UNIFORM && (i->space == PTX_LOCAL) ? varying : t;
	if (t.kind == PTX_BOTTOM)
		return t;
	switch (i->op->shape) {
	case PTX_SHAPE_MOV:
		return i->ops[0].kind == PTX_OP_REG && i->ops[1].kind != PTX_OP_VECTOR && bits >= 32 ? s[1] : t;
	case PTX_SHAPE_ADD:
		return plain ? combine(body, &s[1], &s[2], 1, bits) : t;
	case PTX_SHAPE_SUB:
		return plain ? combine(body, &s[1], &s[2], -1, bits) : t;
	case PTX_SHAPE_MUL:
		return plain ? scale(body, &s[1], &s[2], bits) : t;
	case PTX_SHAPE_MAD:
		s[0] = plain ? scale(body, &s[1], &s[2], bits) : t;
		return plain ? combine(body, &s[0], &s[3], 1, bits) : t;
	case PTX_SHAPE_MUL_WIDE:
	case PTX_SHAPE_MAD_WIDE:
		return wide_shape(body, i, s, &t);
	case PTX_SHAPE_SHL:
		if (!plain || s[2].kind != PTX_UNIFORM || !s[2].known || s[2].value > 30)
			return t;
		s[0] = constant(1ull << s[2].value);
		return scale(body, &s[1], &s[0], bits);
	case PTX_SHAPE_AND:
		return t.kind == PTX_UNIFORM || bits < 32 ? t : and_shape(body, &s[1], &s[2]);
	case PTX_SHAPE_SHR:
		return t.kind == PTX_UNIFORM || bits < 32 ? t : shr_shape(body, &s[1], &s[2]);
	case PTX_SHAPE_CVT:
		return i->count == 2 ? cvt_shape(i, &s[1]) : t;
	case PTX_SHAPE_CVTA:
		s[1].zeros = 0;
		s[1].known = false;
		return s[1].kind == PTX_OFFSETS ? s[1] : t;
	default:
		return t;
	}
}

struct pass {
	struct ptx_body *body;
	const uint64_t *blend;
	struct ptx_shape shape;
	bool changed;
};

static struct ptx_shape join(const struct ptx_shape *a, const struct ptx_shape *b)
{
	struct ptx_shape s = *a;

	if (a->kind == PTX_BOTTOM)
		return *b;
	if (b->kind == PTX_BOTTOM)
		return *a;
	if (a->kind != b->kind || a->kind == PTX_VARYING)
		return varying;
	if (a->kind == PTX_OFFSETS && memcmp(a->offsets, b->offsets, PTX_LANES * sizeof(*a->offsets)))
		return varying;
	s.zeros = a->zeros < b->zeros ? a->zeros : b->zeros;
	if (!b->known || a->value != b->value)
		s.known = false;
	return s;
}

static void merge_def(void *data, int32_t reg)
{
	struct pass *p = data;
	struct ptx_shape *old = &p->body->shapes[reg], now;
	bool small = ptx_types[p->body->regs[reg].type].bits < 32;

	now = join(old, &p->shape);
	if (now.kind == PTX_OFFSETS && small)
		now = varying;
	if (now.kind != PTX_BOTTOM && PTX_HELD(p->body, p->blend, reg))
		now = varying;
	if (now.kind == old->kind && now.known == old->known && now.zeros == old->zeros)
		return;
	*old = now;
	p->changed = true;
}

static void shape_instr(struct pass *p, const struct ptx_instr *i)
{
	p->shape = result_shape(p->body, i);
	if (i->guard >= 0 && p->body->shapes[i->guard].kind == PTX_VARYING)
		p->shape = varying;
	/* shfl and atom give two results; both vary. setp's two are alike. */
	ptx_instr_defs(p->body, i, merge_def, p);
}

/* A register of the set `blend` has no shape. */
static void propagate(struct ptx_body *body, const uint64_t *blend)
{
	struct pass p = {.body = body, .blend = blend};

	do {
		p.changed = false;
		for (uint32_t n = 0; n < body->block_count; n++)
			for (uint32_t k = body->blocks[n].first; k < body->blocks[n].last; k++)
				shape_instr(&p, &body->instrs[k]);
	} while (p.changed);
}

struct side {
	uint64_t *defs, *live;
	uint32_t *seen;
};

/*
 * Everything from `from` up to the post-dominator, which counts as somewhere to wait. True: it is none, because there
 * is a barrier on the way, or a block that runs after the post-dominator, as one that goes round the loop does which
 * the post-dominator leaves.
 */
static bool walk_side(struct ptx_body *body, uint32_t from, uint32_t stop, struct side *s, uint32_t stamp,
		      uint32_t *stack)
{
	uint32_t count = 0;
	bool apart = false;

	memset(s->defs, 0, body->words * sizeof(*s->defs));
	memset(s->live, 0, body->words * sizeof(*s->live));
	if (from != PTX_NO_BLOCK) {
		s->seen[from] = stamp;
		stack[count++] = from;
	}
	while (count && !apart) {
		uint32_t number = stack[--count];
		const struct ptx_block *b = &body->blocks[number];
		bool end = number == stop;

		apart |= !end && (b->barrier || number > stop);
		for (size_t w = 0; w < body->words; w++) {
			s->live[w] |= b->live_in[w];
			s->defs[w] |= end ? 0 : b->def[w];
		}
		for (unsigned n = 0; n < 2 && !end; n++)
			if (b->succ[n] != PTX_NO_BLOCK && s->seen[b->succ[n]] != stamp) {
				s->seen[b->succ[n]] = stamp;
				stack[count++] = b->succ[n];
			}
	}
	return apart;
}

static bool no_memory(struct ptx_body *body)
{
	return ptx_body_fail(body, PTX_NO_MEMORY, 0, "`%s` needs too much memory to compile", body->function->name);
}

/* As if its lanes ran to their ends before those of the other side go on. */
static void take_rest(const struct ptx_body *body, uint32_t from, const struct ptx_rest *rest, struct side *s)
{
	size_t bytes = body->words * sizeof(*s->defs);

	if (from == PTX_NO_BLOCK) {
		memset(s->defs, 0, bytes);
		memset(s->live, 0, bytes);
		return;
	}
	memcpy(s->defs, rest->defs + from * body->words, bytes);
	memcpy(s->live, rest->live + from * body->words, bytes);
}

static bool mark_divergent(struct ptx_body *body, struct side sides[2], struct ptx_rest *rest, uint32_t *stack,
			   uint32_t *stamp)
{
	bool changed = false;

	for (uint32_t n = 0; n < body->block_count; n++) {
		struct ptx_block *b = &body->blocks[n];
		bool apart;

		if (b->divergent || b->condition < 0 || body->shapes[b->condition].kind != PTX_VARYING)
			continue;
		b->divergent = changed = true;
		/* lanes that leave a waiting loop, or do not wait at the post-dominator, may run to the end before the
		 * others follow */
		apart = b->waits;
		for (unsigned s = 0; s < 2 && !apart; s++)
			apart = walk_side(body, b->succ[s], b->ipdom, &sides[s], ++*stamp, stack);
		if (apart && !rest->known && !ptx_body_rest(body, rest))
			return no_memory(body);
		for (unsigned s = 0; s < 2 && apart; s++)
			take_rest(body, b->succ[s], rest, &sides[s]);
		for (size_t w = 0; w < body->words; w++)
			body->blend[w] |= (sides[0].defs[w] & sides[1].live[w]) | (sides[1].defs[w] & sides[0].live[w]);
	}
	return changed;
}

static void visit_blend(void *data, int32_t reg)
{
	struct ptx_body *body = data;

	if (body->shapes[reg].kind != PTX_BOTTOM)
		body->shapes[reg] = varying;
}

static void finish(struct ptx_body *body, const uint64_t *blend)
{
	for (uint32_t r = 0; r < body->reg_count; r++)
		if (PTX_HELD(body, blend, r) || body->shapes[r].kind == PTX_BOTTOM)
			body->shapes[r] = body->shapes[r].kind == PTX_BOTTOM ? uniform : varying;
}

/* Once more for lanes that are never apart, for which nothing has to be blended. */
static bool shapes_together(struct ptx_body *body)
{
	const uint64_t *none = ptx_alloc(&body->arena, body->words * sizeof(*none));

	body->shapes = ptx_alloc(&body->arena, (body->reg_count + 1u) * sizeof(*body->shapes));
	if (!body->shapes || !none)
		return no_memory(body);
	propagate(body, none);
	finish(body, none);
	return true;
}

/*
 * Any lanes may be apart, so all that one block passes to another is blended. A register that stays
 * within a block is written there before it is read: blended, it would be live everywhere, and the code a hundred
 * times as large.
 */
static void blend_all(struct ptx_body *body)
{
	for (uint32_t b = 0; b < body->block_count; b++) {
		body->blocks[b].divergent = body->blocks[b].condition >= 0;
		for (size_t w = 0; w < body->words; w++)
			body->blend[w] |= body->blocks[b].live_in[w];
	}
}

bool ptx_body_shapes(struct ptx_body *body, unsigned lanes)
{
	size_t n = body->block_count + 1u;
	uint64_t *sets = ptx_alloc(&body->arena, 5 * body->words * sizeof(*sets));
	uint32_t *marks = ptx_alloc(&body->arena, 3 * n * sizeof(*marks)), stamp = 0;
	struct ptx_rest rest = {.known = false};
	struct side sides[2];

	body->shapes = ptx_alloc(&body->arena, (body->reg_count + 1u) * sizeof(*body->shapes));
	body->masked_shapes = body->shapes;
	if (!sets || !marks || !body->shapes)
		return no_memory(body);
	body->blend = sets + 4 * body->words;
	for (unsigned s = 0; s < 2; s++)
		sides[s] = (struct side){sets + 2 * s * body->words, sets + (2 * s + 1) * body->words, marks};
	for (uint32_t r = 0; r < body->reg_count && (lanes == 1 || body->irreducible); r++)
		body->shapes[r] = lanes == 1 ? uniform : varying;
	if (lanes == 1)
		return true;
	if (body->irreducible) {
		blend_all(body);
		return true;
	}
	do {
		propagate(body, body->blend);
		for (uint32_t r = 0; r < body->reg_count; r++)
			if (PTX_HELD(body, body->blend, r))
				visit_blend(body, (int32_t)r);
	} while (mark_divergent(body, sides, &rest, marks + n, &stamp));
	if (body->status != PTX_OK)
		return false;
	propagate(body, body->blend);
	finish(body, body->blend);
	body->masked_shapes = body->shapes;
	return shapes_together(body);
}
