/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Accesses by addresses that come from one parameter of the kernel (analysis/ptx-provenance.c), with one lane.
 *
 * Registers that hold such addresses are kept as distances from the parameter, and compared as such: one comparison
 * with what the parameter's range has room for, and with alignment known beforehand nothing else. A loop that walks
 * through several arrays with one index then counts one register up, which LLVM sees, as the distances are the same.
 */
#include "lower/ptx-lower-access.h"

/* Roots of one kernel; more are as good as none. */
#define MOST_PROVENANCES 32

/* ---- registers that hold such addresses: as distances from the parameter, which is what is checked ---- */

static bool is_distance(const struct lower *l, int32_t reg)
{
	const struct ptx_body *body = l->body;

	/* what may be read before it is written is 0, which is at no distance that is known */
	return l->version.width == 1 && reg >= 0 && body->origins[reg].kind == PTX_ORIGIN_ROOTED &&
	       !PTX_HELD(body, body->blocks[0].live_in, reg) &&
	       body->origins[reg].param + sizeof(uint64_t) <= body->function->param_bytes;
}

/* The parameter's value. */
static LLVMValueRef value_of(struct lower *l, uint32_t param)
{
	LLVMValueRef value = LLVMBuildLoad2(l->b, l->type.i64, field(l, l->mem.params, param), "");

	LLVMSetAlignment(value, 1);
	never_changes(l, value);
	return value;
}

LLVMValueRef provenance_base(struct lower *l, int32_t reg)
{
	LLVMBasicBlockRef here = LLVMGetInsertBlock(l->b);
	LLVMValueRef *base;

	if (l->at.distances || !is_distance(l, reg))
		return NULL;
	base = &l->own.provenance.bases[l->body->origins[reg].param];
	if (!*base) {
		LLVMPositionBuilderBefore(l->b, LLVMGetBasicBlockTerminator(l->fn.entry));
		*base = value_of(l, l->body->origins[reg].param);
		LLVMPositionBuilderAtEnd(l->b, here);
	}
	return *base;
}

bool provenance_keeps_distance(const struct lower *l, const struct ptx_instr *i)
{
	unsigned bits = ptx_types[i->type].bits, from = 1;

	if (l->version.width > 1 || i->count < 2 || i->mods & (M(SAT) | M(CC)) || i->ops[0].kind != PTX_OP_REG ||
	    !is_distance(l, i->ops[0].reg))
		return false;
	switch (i->op->shape) {
	case PTX_SHAPE_MOV:
		break;
	case PTX_SHAPE_CVTA:
		if (i->space != PTX_GLOBAL)
			return false;
		break;
	case PTX_SHAPE_ADD:
		from = i->ops[2].kind == PTX_OP_REG && is_distance(l, i->ops[2].reg) ? 2 : 1;
		break;
	case PTX_SHAPE_SUB:
		break;
	case PTX_SHAPE_MAD_WIDE:
		bits *= 2;
		from = 3;
		break;
	case PTX_SHAPE_MAD:
		from = 3;
		break;
	default:
		return false;
	}
	/* of one parameter, or they would have no common origin */
	return bits == 64 && i->ops[from].kind == PTX_OP_REG && is_distance(l, i->ops[from].reg) &&
	       l->body->origins[i->ops[from].reg].param == l->body->origins[i->ops[0].reg].param;
}

/* ---- checks; what follows from ranges and parameters alone is worked out in the entry block ---- */

/* Accesses that are alike share what is known of them. */
#define MOST_LIMITS 8

enum { BY_INDEX, BY_DISTANCE, BY_ALIGNED };

struct limit {
	unsigned kind;
	uint64_t bytes, span;
	int64_t low;
	unsigned shift;
	LLVMValueRef from, count; /* from: of an index */
};

struct provenance {
	uint32_t param;
	bool write;
	LLVMValueRef start, size;
	struct limit limits[MOST_LIMITS];
};

static struct provenance *provenance_find(struct lower *l, uint32_t param, bool write, uint32_t site)
{
	struct provenance *r = l->own.provenance.provenances;
	LLVMValueRef entry = field(l, l->mem.cache, site * sizeof(struct ptx_cached_range)), end;

	if (!r)
		r = l->own.provenance.provenances = ptx_alloc(&l->body->arena, MOST_PROVENANCES * sizeof(*r));
	for (unsigned n = 0; r && n < MOST_PROVENANCES; n++, r++) {
		if (r->start && r->param == param && r->write == write)
			return r;
		if (r->start)
			continue;
		/* the first access keeps the range for all; it is found when a launch begins */
		l->low->site_list[site].provenance = param;
		*r = (struct provenance){.param = param, .write = write};
		r->start = LLVMBuildLoad2(l->b, l->type.i64, entry, "");
		end = LLVMBuildLoad2(l->b, l->type.i64, field(l, entry, 8), "");
		r->size = LLVMBuildSub(l->b, end, r->start, "");
		return r;
	}
	return NULL;
}

static LLVMValueRef number64(struct lower *l, uint64_t n)
{
	return scalar_const(l->type.i64, n);
}

/* LLVM would make two comparisons of one with a select. */
static LLVMValueRef opaque(struct lower *l, LLVMValueRef value)
{
	LLVMBasicBlockRef here = LLVMGetInsertBlock(l->b);
	LLVMValueRef at = entry_alloca(l, l->type.i64), load;

	LLVMPositionBuilderBefore(l->b, LLVMGetBasicBlockTerminator(here));
	LLVMSetVolatile(LLVMBuildStore(l->b, value, at), 1);
	load = LLVMBuildLoad2(l->b, l->type.i64, at, "");
	LLVMSetVolatile(load, 1);
	return load;
}

/* How many places `1 << shift` bytes apart, from the range's start and `skip` bytes on, have room for the span. */
static LLVMValueRef places(struct lower *l, const struct provenance *r, const struct limit *limit, LLVMValueRef skip)
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
 * compared. An address in front of the pointer is checked as if there were no root.
 */
static void from_zero(struct lower *l, struct limit *limit)
{
	LLVMValueRef first = LLVMBuildLShr(l->b, limit->from, number64(l, limit->shift), ""), ok;

	ok = LLVMBuildICmp(l->b, LLVMIntULT, first, limit->count, "");
	limit->count = LLVMBuildSelect(l->b, ok, LLVMBuildSub(l->b, limit->count, first, ""), number64(l, 0), "");
	limit->from = number64(l, 0);
}

/* The number of good distances from the parameter: aligned distances below it are good. Begins in the entry block. */
static LLVMValueRef good_distances(struct lower *l, const struct provenance *r, const struct limit *limit)
{
	LLVMValueRef base = value_of(l, r->param), from = LLVMBuildSub(l->b, base, r->start, ""), room, ok, part;

	room = LLVMBuildSub(l->b, r->size, number64(l, limit->span - 1), "");
	ok = LLVMBuildICmp(l->b, LLVMIntUGE, r->size, number64(l, limit->span), "");
	ok = LLVMBuildAnd(l->b, ok, LLVMBuildICmp(l->b, LLVMIntULT, from, room, ""), "");
	part = LLVMBuildAnd(l->b, base, number64(l, limit->bytes - 1), "");
	ok = LLVMBuildAnd(l->b, ok, LLVMBuildICmp(l->b, LLVMIntEQ, part, number64(l, 0), ""), "");
	room = LLVMBuildSub(l->b, room, from, "");
	/* in units of what is accessed, the last one that begins below counts */
	if (limit->kind == BY_DISTANCE)
		room = LLVMBuildLShr(l->b, LLVMBuildAdd(l->b, room, number64(l, limit->bytes - 1), ""),
				     number64(l, limit->shift), "");
	return LLVMBuildSelect(l->b, ok, room, number64(l, 0), "");
}

/* Begins in the entry block. */
static void work_out(struct lower *l, const struct provenance *r, struct limit *limit)
{
	LLVMValueRef skip;

	if (limit->kind != BY_INDEX) {
		limit->count = opaque(l, good_distances(l, r, limit));
		return;
	}
	limit->from = LLVMBuildAdd(l->b, value_of(l, r->param), number64(l, (uint64_t)limit->low), "");
	limit->from = LLVMBuildSub(l->b, limit->from, r->start, "");
	skip = LLVMBuildAnd(l->b, limit->from, number64(l, (1ull << limit->shift) - 1), "");
	limit->count = places(l, r, limit, skip);
	if (limit->low < 0)
		limit->from = LLVMBuildAShr(l->b, limit->from, number64(l, limit->shift), "");
	else
		from_zero(l, limit);
	limit->count = opaque(l, limit->count);
}

static const struct limit *find_limit(struct lower *l, struct provenance *r, const struct limit *wanted)
{
	LLVMBasicBlockRef here = LLVMGetInsertBlock(l->b);
	struct limit *k = r->limits;

	for (; k < r->limits + MOST_LIMITS - 1 && k->count; k++)
		if (k->kind == wanted->kind && k->bytes == wanted->bytes && k->span == wanted->span &&
		    k->low == wanted->low && k->shift == wanted->shift)
			return k;
	*k = *wanted;
	LLVMPositionBuilderBefore(l->b, LLVMGetBasicBlockTerminator(l->fn.entry));
	work_out(l, r, k);
	LLVMPositionBuilderAtEnd(l->b, here);
	return k;
}

static LLVMValueRef index_value(struct lower *l, const struct index *x)
{
	LLVMValueRef at = read_reg(l, x->index, 1);

	return x->sign ? LLVMBuildSExt(l->b, at, l->type.i64, "") : LLVMBuildZExt(l->b, at, l->type.i64, "");
}

/*
 * The parameter itself, with an index: the distance is of indices. That the register has the parameter's value LLVM
 * nearly always knows.
 */
static LLVMValueRef index_fits(struct lower *l, struct provenance *r, const struct index *x, const struct limit *wanted)
{
	const struct limit *limit = find_limit(l, r, wanted);
	LLVMValueRef at, same;

	same = LLVMBuildICmp(l->b, LLVMIntEQ, read_reg(l, x->base, 1), value_of(l, r->param), "");
	at = LLVMBuildAdd(l->b, index_value(l, x), limit->from, "");
	return LLVMBuildAnd(l->b, same, LLVMBuildICmp(l->b, LLVMIntULT, at, limit->count, ""), "");
}

/* Any distance; one that need not be aligned is turned so that it becomes too large if it is not. */
static LLVMValueRef distance_fits(struct lower *l, struct provenance *r, LLVMValueRef distance,
				  const struct limit *wanted)
{
	const struct limit *limit = find_limit(l, r, wanted);
	LLVMValueRef args[3] = {distance, distance, number64(l, wanted->shift)};

	if (wanted->kind == BY_DISTANCE)
		distance = intrinsic(l, "llvm.fshr", l->type.i64, args, 3);
	return LLVMBuildICmp(l->b, LLVMIntULT, distance, limit->count, "");
}

static bool is_rooted(const struct lower *l, const struct access *a)
{
	return a->space != PTX_SHARED && a->space != PTX_LOCAL && is_distance(l, a->o->reg);
}

bool provenance_note(struct lower *l, const struct access *a)
{
	static const struct ptx_origin none = {.kind = PTX_ORIGIN_NOTHING};
	const struct ptx_origin *origin = a->o->reg < 0 ? &none : &l->body->origins[a->o->reg];

	if (origin->kind != PTX_ORIGIN_ROOTED || a->space == PTX_SHARED || a->space == PTX_LOCAL ||
	    origin->param + sizeof(uint64_t) > l->body->function->param_bytes)
		return false;
	l->low->site_list[a->site].provenance = origin->param;
	return true;
}

bool provenance_aligns(struct lower *l, const struct access *a)
{
	uint64_t bytes = a->size * a->count;

	if (!provenance_note(l, a) || (1u << l->body->origins[a->o->reg].zeros) % bytes ||
	    access_immediate(a) % (int64_t)bytes)
		return false;
	l->low->site_list[a->site].aligned = true;
	return true;
}

LLVMValueRef provenance_fits(struct lower *l, const struct access *a, int64_t low, uint64_t span)
{
	LLVMBasicBlockRef here = LLVMGetInsertBlock(l->b);
	struct limit wanted = {.bytes = a->size * a->count, .span = span};
	const struct ptx_origin *origin;
	LLVMValueRef distance;
	struct provenance *r;

	if (!is_rooted(l, a))
		return NULL;
	origin = &l->body->origins[a->o->reg];
	LLVMPositionBuilderBefore(l->b, LLVMGetBasicBlockTerminator(l->fn.entry));
	r = provenance_find(l, origin->param, a->write, a->site);
	LLVMPositionBuilderAtEnd(l->b, here);
	if (!r)
		return NULL;
	if (a->indexed && l->body->origins[a->x.base].exact && l->body->origins[a->x.base].param == r->param) {
		wanted.low = low;
		wanted.shift = a->x.shift;
		return index_fits(l, r, &a->x, &wanted);
	}
	wanted.shift = (unsigned)__builtin_ctzll(wanted.bytes);
	wanted.kind = origin->zeros < wanted.shift || low & (int64_t)(wanted.bytes - 1) ? BY_DISTANCE : BY_ALIGNED;
	distance = LLVMBuildLoad2(l->b, l->type.i64, l->regs.storage[a->o->reg], "");
	distance = LLVMBuildAdd(l->b, distance, number64(l, (uint64_t)low), "");
	return distance_fits(l, r, distance, &wanted);
}

/* ---- addresses as processors make them: a base, an index and a scale ---- */

LLVMValueRef access_pointer(struct lower *l, const struct access *a, LLVMValueRef base)
{
	LLVMValueRef at, pointer;

	if (!a->indexed && is_rooted(l, a)) {
		pointer = LLVMBuildIntToPtr(l->b, provenance_base(l, a->o->reg), l->type.ptr, "");
		at = LLVMBuildLoad2(l->b, l->type.i64, l->regs.storage[a->o->reg], "");
		pointer = LLVMBuildGEP2(l->b, l->type.i8, pointer, &at, 1, "");
		return field(l, pointer, (uint64_t)access_immediate(a));
	}
	if (!a->indexed)
		return field(l, host_address(l, a, base), (uint64_t)access_immediate(a));
	pointer = LLVMBuildIntToPtr(l->b, read_reg(l, a->x.base, 1), l->type.ptr, "");
	at = index_value(l, &a->x);
	pointer = LLVMBuildGEP2(l->b, LLVMArrayType2(l->type.i8, 1ull << a->x.shift), pointer, &at, 1, "");
	return field(l, pointer, (uint64_t)access_immediate(a));
}

LLVMValueRef access_index_address(struct lower *l, const struct access *a)
{
	LLVMValueRef at = LLVMBuildShl(l->b, index_value(l, &a->x), number64(l, a->x.shift), "");

	return LLVMBuildAdd(l->b, read_reg(l, a->x.base, 1), at, "");
}

bool provenance_prepare(struct lower *l)
{
	struct lower_provenances *provenance = &l->own.provenance;

	provenance->bases =
		ptx_alloc(&l->body->arena, (l->body->function->param_bytes + 1) * sizeof(*provenance->bases));
	return provenance->bases;
}
