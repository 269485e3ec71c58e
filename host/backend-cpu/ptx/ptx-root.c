/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Which parameter of the kernel an address comes from, for code of one lane. Nearly all lie in the allocation that the
 * parameter points into. Its range is looked up when a launch begins and does not change while the code runs, so that
 * all accesses of one root share it, and LLVM works out once what an index may be. Nothing depends on the guess but
 * time: what lies elsewhere is checked as if there were no root.
 */
#include <stddef.h>
#include <string.h>

#include "ptx-lower-access.h"

/* Roots of one kernel; more are as good as none. */
#define MOST_ROOTS 32

/* What a register holds, in the order in which guesses are given up. */
enum {
	NOTHING, /* yet */
	NUMBER,  /* no address */
	ROOTED,
	ANYTHING,
};

static const struct ptx_origin number = {.kind = NUMBER}, anything = {.kind = ANYTHING};

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
	struct ptx_origin *root = a.kind == ROOTED ? &a : &b;

	if (a.kind == NOTHING || b.kind == NOTHING)
		return (struct ptx_origin){.kind = NOTHING};
	if (a.kind == NUMBER && b.kind == NUMBER)
		return number;
	if (a.kind + b.kind != NUMBER + ROOTED)
		return anything;
	root->exact = false;
	return *root;
}

static struct ptx_origin parameter(const struct ptx_operand *o)
{
	return (struct ptx_origin){.kind = ROOTED, .exact = true, .param = (uint32_t)(o->symbol->offset + o->imm)};
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
		return bits == 64 && i->count == 3 && b.kind <= NUMBER ? sum_of(a, b) : anything;
	case PTX_SHAPE_MAD:
	case PTX_SHAPE_MAD_WIDE:
		return i->count == 4 ? sum_of(number, operand_origin(body, &i->ops[3])) : anything;
	case PTX_SHAPE_MUL:
	case PTX_SHAPE_MUL_WIDE:
	case PTX_SHAPE_SHL:
		return number;
	case PTX_SHAPE_CVT:
		return a.kind == NUMBER ? a : anything;
	default:
		return anything;
	}
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

	if (now.kind == NOTHING || old->kind == ANYTHING)
		return;
	if (old->kind != NOTHING) {
		if (now.kind != old->kind || now.param != old->param)
			now = anything;
		now.exact &= old->exact;
	}
	p->changed |= now.kind != old->kind || now.exact != old->exact;
	*old = now;
}

bool ptx_body_origins(struct ptx_body *body)
{
	struct pass p = {.body = body};

	body->origins = ptx_alloc(&body->arena, (body->reg_count + 1u) * sizeof(*body->origins));
	if (!body->origins)
		return ptx_body_fail(body, PTX_NO_MEMORY, 0, "`%s` needs too much memory to compile",
				     body->function->name);
	do {
		p.changed = false;
		for (uint32_t n = 0; n < body->block_count; n++)
			for (uint32_t k = body->blocks[n].first; k < body->blocks[n].last; k++) {
				p.origin = result_origin(body, &body->instrs[k]);
				ptx_instr_defs(body, &body->instrs[k], merge, &p);
			}
	} while (p.changed);
	return true;
}

/* ---- checks; what follows from ranges and parameters alone is worked out in the entry block ---- */

/* Accesses that are alike share what is known of them. */
#define MOST_LIMITS 8

struct limit {
	bool indexed;
	uint64_t bytes, span;
	int64_t low;
	unsigned shift;
	LLVMValueRef from, count; /* from: of an index */
};

struct root {
	uint32_t param;
	bool write;
	LLVMValueRef start, size;
	LLVMValueRef minus_start; /* NULL: not needed yet */
	struct limit limits[MOST_LIMITS];
};

static struct root *find_root(struct lower *l, uint32_t param, bool write, uint32_t site)
{
	struct root *r = l->roots;
	LLVMValueRef entry = field(l, l->cache, site * sizeof(struct ptx_cached_range)), end;

	if (!r)
		r = l->roots = ptx_alloc(&l->body->arena, MOST_ROOTS * sizeof(*r));
	for (unsigned n = 0; r && n < MOST_ROOTS; n++, r++) {
		if (r->start && r->param == param && r->write == write)
			return r;
		if (r->start)
			continue;
		/* the first access keeps the range for all; it is found when a launch begins */
		l->low->site_list[site].root = param;
		*r = (struct root){.param = param, .write = write};
		r->start = LLVMBuildLoad2(l->b, l->i64, entry, "");
		end = LLVMBuildLoad2(l->b, l->i64, field(l, entry, 8), "");
		r->size = LLVMBuildSub(l->b, end, r->start, "");
		return r;
	}
	return NULL;
}

static LLVMValueRef number64(struct lower *l, uint64_t n)
{
	return scalar_const(l->i64, n);
}

/* LLVM would make two comparisons of one with a select. */
static LLVMValueRef opaque(struct lower *l, LLVMValueRef value)
{
	LLVMBasicBlockRef here = LLVMGetInsertBlock(l->b);
	LLVMValueRef at = entry_alloca(l, l->i64), load;

	LLVMPositionBuilderBefore(l->b, LLVMGetBasicBlockTerminator(here));
	LLVMSetVolatile(LLVMBuildStore(l->b, value, at), 1);
	load = LLVMBuildLoad2(l->b, l->i64, at, "");
	LLVMSetVolatile(load, 1);
	return load;
}

/* The parameter's value; a register that holds it holds 0 on a way that does not come by where it is read. */
static LLVMValueRef value_of(struct lower *l, uint32_t param)
{
	LLVMValueRef value = LLVMBuildLoad2(l->b, l->i64, field(l, l->params, param), "");

	LLVMSetAlignment(value, 1);
	never_changes(l, value);
	return value;
}

/* How many places `1 << shift` bytes apart, from the range's start and `skip` bytes on, have room for the span. */
static LLVMValueRef places(struct lower *l, const struct root *r, const struct limit *limit, LLVMValueRef skip)
{
	LLVMValueRef need = LLVMBuildAdd(l->b, skip, number64(l, limit->span), ""), n, ok;

	n = LLVMBuildLShr(l->b, LLVMBuildSub(l->b, r->size, need, ""), number64(l, limit->shift), "");
	n = LLVMBuildAdd(l->b, n, number64(l, 1), "");
	ok = LLVMBuildAnd(l->b, LLVMBuildAdd(l->b, r->start, skip, ""), number64(l, limit->bytes - 1), "");
	ok = LLVMBuildICmp(l->b, LLVMIntEQ, ok, number64(l, 0), "");
	ok = LLVMBuildAnd(l->b, ok, LLVMBuildICmp(l->b, LLVMIntUGE, r->size, need, ""), "");
	return LLVMBuildSelect(l->b, ok, n, number64(l, 0), "");
}

/*
 * Nearly all indices begin at zero, and pointers do not point in front of what is theirs: then the index itself is
 * compared. What lies in front of the pointer is checked as if there were no root.
 */
static void from_zero(struct lower *l, struct limit *limit)
{
	LLVMValueRef first = LLVMBuildLShr(l->b, limit->from, number64(l, limit->shift), ""), ok;

	ok = LLVMBuildICmp(l->b, LLVMIntULT, first, limit->count, "");
	limit->count = LLVMBuildSelect(l->b, ok, LLVMBuildSub(l->b, limit->count, first, ""), number64(l, 0), "");
	limit->from = number64(l, 0);
}

/* Begins in the entry block. */
static void work_out(struct lower *l, const struct root *r, struct limit *limit)
{
	LLVMValueRef skip = number64(l, 0);

	if (limit->indexed) {
		limit->from = LLVMBuildAdd(l->b, value_of(l, r->param), number64(l, (uint64_t)limit->low), "");
		limit->from = LLVMBuildSub(l->b, limit->from, r->start, "");
		skip = LLVMBuildAnd(l->b, limit->from, number64(l, (1ull << limit->shift) - 1), "");
	}
	limit->count = places(l, r, limit, skip);
	if (limit->indexed && limit->low < 0)
		limit->from = LLVMBuildAShr(l->b, limit->from, number64(l, limit->shift), "");
	else if (limit->indexed)
		from_zero(l, limit);
	limit->count = opaque(l, limit->count);
}

static const struct limit *find_limit(struct lower *l, struct root *r, const struct limit *wanted)
{
	LLVMBasicBlockRef here = LLVMGetInsertBlock(l->b);
	struct limit *k = r->limits;

	for (; k < r->limits + MOST_LIMITS - 1 && k->count; k++)
		if (k->indexed == wanted->indexed && k->bytes == wanted->bytes && k->span == wanted->span &&
		    k->low == wanted->low && k->shift == wanted->shift)
			return k;
	*k = *wanted;
	LLVMPositionBuilderBefore(l->b, LLVMGetBasicBlockTerminator(l->entry));
	work_out(l, r, k);
	LLVMPositionBuilderAtEnd(l->b, here);
	return k;
}

static LLVMValueRef index_value(struct lower *l, const struct index *x)
{
	LLVMValueRef at = read_reg(l, x->index, 1);

	return x->sign ? LLVMBuildSExt(l->b, at, l->i64, "") : LLVMBuildZExt(l->b, at, l->i64, "");
}

/*
 * The parameter itself, with an index: the distance is of indices. That the register has the parameter's value LLVM
 * nearly always knows.
 */
static LLVMValueRef index_fits(struct lower *l, struct root *r, const struct index *x, const struct limit *wanted)
{
	const struct limit *limit = find_limit(l, r, wanted);
	LLVMValueRef at, same;

	same = LLVMBuildICmp(l->b, LLVMIntEQ, read_reg(l, x->base, 1), value_of(l, r->param), "");
	at = LLVMBuildAdd(l->b, index_value(l, x), limit->from, "");
	return LLVMBuildAnd(l->b, same, LLVMBuildICmp(l->b, LLVMIntULT, at, limit->count, ""), "");
}

/*
 * An address's distance from the start. LLVM must not see that it is one, or it keeps both in registers and counts both
 * up around a loop, which makes one addition of one addition. `*from` becomes the address as it is seen.
 */
static LLVMValueRef distance(struct lower *l, struct root *r, LLVMValueRef *from)
{
	LLVMBasicBlockRef here = LLVMGetInsertBlock(l->b);
	LLVMValueRef args[2] = {*from, number64(l, 0)};

	if (!r->minus_start) {
		LLVMPositionBuilderBefore(l->b, LLVMGetBasicBlockTerminator(l->entry));
		r->minus_start = opaque(l, LLVMBuildNeg(l->b, r->start, ""));
		LLVMPositionBuilderAtEnd(l->b, here);
	}
	*from = intrinsic(l, "llvm.expect", l->i64, args, 2);
	return LLVMBuildAdd(l->b, *from, r->minus_start, "");
}

/* Any address: its distance from the start, turned so that what is not aligned becomes too large. */
static LLVMValueRef address_fits(struct lower *l, struct root *r, LLVMValueRef *from, const struct limit *wanted)
{
	const struct limit *limit = find_limit(l, r, wanted);
	LLVMValueRef args[3];

	args[0] = args[1] = distance(l, r, from);
	args[2] = number64(l, wanted->shift);
	if (wanted->shift)
		args[0] = intrinsic(l, "llvm.fshr", l->i64, args, 3);
	return LLVMBuildICmp(l->b, LLVMIntULT, args[0], limit->count, "");
}

LLVMValueRef root_fits(struct lower *l, const struct access *a, LLVMValueRef *from, int64_t low, uint64_t span)
{
	LLVMBasicBlockRef here = LLVMGetInsertBlock(l->b);
	struct limit wanted = {.bytes = a->size * a->count, .span = span};
	const struct ptx_origin *origin;
	struct root *r;

	if (l->width > 1 || a->o->reg < 0 || a->space == PTX_SHARED || a->space == PTX_LOCAL)
		return NULL;
	origin = &l->body->origins[a->o->reg];
	if (origin->kind != ROOTED)
		return NULL;
	LLVMPositionBuilderBefore(l->b, LLVMGetBasicBlockTerminator(l->entry));
	r = find_root(l, origin->param, a->write, a->site);
	LLVMPositionBuilderAtEnd(l->b, here);
	if (!r)
		return NULL;
	if (a->indexed && l->body->origins[a->x.base].exact && l->body->origins[a->x.base].param == r->param) {
		wanted.indexed = true;
		wanted.low = low;
		wanted.shift = a->x.shift;
		return index_fits(l, r, &a->x, &wanted);
	}
	wanted.shift = (unsigned)__builtin_ctzll(wanted.bytes);
	return address_fits(l, r, from, &wanted);
}

/* ---- addresses as processors make them: a base, an index and a scale ---- */

LLVMValueRef access_pointer(struct lower *l, const struct access *a, LLVMValueRef base)
{
	LLVMValueRef at, pointer;

	if (!a->indexed)
		return field(l, host_address(l, a, base), (uint64_t)access_immediate(a));
	pointer = LLVMBuildIntToPtr(l->b, read_reg(l, a->x.base, 1), l->ptr, "");
	at = index_value(l, &a->x);
	pointer = LLVMBuildGEP2(l->b, LLVMArrayType2(l->i8, 1ull << a->x.shift), pointer, &at, 1, "");
	return field(l, pointer, (uint64_t)access_immediate(a));
}

LLVMValueRef access_index_address(struct lower *l, const struct access *a)
{
	LLVMValueRef at = LLVMBuildShl(l->b, index_value(l, &a->x), number64(l, a->x.shift), "");

	return LLVMBuildAdd(l->b, read_reg(l, a->x.base, 1), at, "");
}
