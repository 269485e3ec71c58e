/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What memory instructions have in common: where they point to, whether they may, and how lanes move.
 *
 * A uniform or OFFSETS address is checked as one span, together with all accesses of the block that use the same
 * register with other constants; global spans against the range that this instruction hit last (ptx_rt_check() looks
 * further), and the lanes' data moves in a few contiguous runs. Anything else goes through ptx_rt_load() and
 * ptx_rt_store(), lane by lane.
 */
#include <stdlib.h>
#include <string.h>

#include "ptx-lower-access.h"

#define MAX_RUNS 8
#define MAX_GROUP 64
#define GROUP_REACH 512
#define MAX_SPAN (1 << 20)

void access_describe(struct lower *l, const struct ptx_instr *i, struct access *a)
{
	*a = (struct access){.i = i,
			     .o = &i->ops[i->op->flags & PTX_F_NO_DST ? 0 : 1],
			     .space = i->space,
			     .size = ptx_types[i->type].bits / 8,
			     .lanes = 1,
			     .site = l->low->sites[l->instr]};
	a->count = i->mods & M(V8) ? 8 : i->mods & M(V4) ? 4 : i->mods & M(V2) ? 2 : 1;
	a->write = !(i->op->flags & PTX_F_LOAD);
	if (a->o->reg < 0 && a->o->symbol)
		a->space = a->o->symbol->space;
	if (a->space == PTX_CONST || (a->space == PTX_PARAM && a->o->reg >= 0) ||
	    (a->space == PTX_PARAM && !a->o->symbol))
		a->space = PTX_GLOBAL;
	/* a function's parameter that lives in local memory */
	if (i->space == PTX_LOCAL)
		a->space = PTX_LOCAL;
	/* the masked version is compiled while other threads run the full one: what stands in a site is not written
	 * again */
	if (l->low->site_list[a->site].space != a->space)
		l->low->site_list[a->site].space = (uint8_t)a->space;
}

/* The address without the constant part: scalar, or a vector of l->lanes. */
LLVMValueRef access_address(struct lower *l, const struct access *a)
{
	/* A 32-bit address may be the space's start less something that the immediate adds again: keep its sign. */
	if (a->o->reg >= 0)
		return resize(l, read_reg(l, a->o->reg, l->lanes), 64, true);
	if (a->o->symbol)
		return splat(l, symbol_address(l, a->o->symbol, a->o->imm), l->lanes);
	return int_const(l, 64, a->o->imm);
}

int64_t access_immediate(const struct access *a)
{
	return a->o->reg >= 0 ? (int64_t)a->o->imm : 0;
}

/* ---- runs of contiguous elements ---- */

struct element {
	int64_t offset;
	unsigned lane, part;
};

struct runs {
	struct element elements[PTX_LANES * 4];
	unsigned total;
	unsigned count; /* UINT_MAX: too many */
	int64_t start[MAX_RUNS];
	unsigned length[MAX_RUNS];
	int position[MAX_RUNS][PTX_LANES * 4]; /* run, lane * 4 + part -> element of the run, or -1 */
};

static int by_offset(const void *a, const void *b)
{
	const struct element *x = a, *y = b;

	if (x->offset != y->offset)
		return x->offset < y->offset ? -1 : 1;
	return (int)x->lane - (int)y->lane;
}

static bool find_runs(const struct access *a, struct runs *r)
{
	r->total = a->lanes * a->count;
	r->count = 0;
	for (unsigned n = 0; n < r->total; n++)
		r->elements[n] = (struct element){a->offsets[n / a->count] + (int64_t)(n % a->count * a->size),
						  n / a->count, n % a->count};
	qsort(r->elements, r->total, sizeof(r->elements[0]), by_offset);
	memset(r->position, 0xff, sizeof(r->position));
	for (unsigned n = 0; n < r->total; n++) {
		const struct element *e = &r->elements[n];
		int64_t last =
			r->count ? r->start[r->count - 1] + (int64_t)((r->length[r->count - 1] - 1) * a->size) : 0;

		if (r->count && e->offset == last + (int64_t)a->size) {
			r->length[r->count - 1]++;
		} else if (!r->count || e->offset != last) {
			if (r->count == MAX_RUNS)
				return false;
			r->start[r->count] = e->offset;
			r->length[r->count++] = 1;
		}
		r->position[r->count - 1][e->lane * 4 + e->part] = (int)r->length[r->count - 1] - 1;
	}
	return true;
}

LLVMValueRef host_address(struct lower *l, const struct access *a, LLVMValueRef base)
{
	if (a->space == PTX_SHARED)
		return LLVMBuildGEP2(l->b, l->i8, l->shared, &base, 1, "");
	if (a->space == PTX_LOCAL) {
		LLVMValueRef own = LLVMBuildZExt(l->b, l->thread, l->i64, "");

		own = LLVMBuildMul(l->b, own, scalar_const(l->i64, l->body->local_bytes), "");
		own = LLVMBuildAdd(l->b, own, base, "");
		return LLVMBuildGEP2(l->b, l->i8, l->local, &own, 1, "");
	}
	return LLVMBuildIntToPtr(l->b, base, l->ptr, "");
}

LLVMValueRef load_at(struct lower *l, const struct access *a, LLVMTypeRef type, LLVMValueRef pointer,
			    int64_t offset)
{
	LLVMValueRef v = LLVMBuildLoad2(l->b, type, field(l, pointer, (uint64_t)offset), "");

	LLVMSetAlignment(v, a->size);
	return v;
}

void store_at(struct lower *l, const struct access *a, LLVMValueRef value, LLVMValueRef pointer, int64_t offset)
{
	LLVMSetAlignment(LLVMBuildStore(l->b, value, field(l, pointer, (uint64_t)offset)), a->size);
}

LLVMValueRef lane_index(struct lower *l, unsigned n)
{
	return scalar_const(l->i32, n);
}

LLVMValueRef shuffle(struct lower *l, LLVMValueRef a, LLVMValueRef b, const int *mask, unsigned count)
{
	LLVMValueRef index[PTX_LANES * 4];

	for (unsigned n = 0; n < count; n++)
		index[n] = mask[n] < 0 ? LLVMGetUndef(l->i32) : lane_index(l, (unsigned)mask[n]);
	return LLVMBuildShuffleVector(l->b, a, b, LLVMConstVector(index, count), "");
}

/* One part of all lanes, out of the runs that were loaded. */
static LLVMValueRef collect(struct lower *l, const struct runs *r, LLVMValueRef *loaded, unsigned part,
			    LLVMTypeRef element)
{
	LLVMValueRef result = NULL;
	int mask[PTX_LANES], blend[PTX_LANES];

	for (unsigned k = 0; k < r->count; k++) {
		bool any = false;
		LLVMValueRef v = loaded[k];

		for (unsigned n = 0; n < PTX_LANES; n++) {
			mask[n] = r->position[k][n * 4 + part];
			any |= mask[n] >= 0;
			blend[n] = mask[n] >= 0 ? (int)(PTX_LANES + n) : (int)n;
		}
		if (!any)
			continue;
		if (!is_vector(v))
			v = LLVMBuildInsertElement(l->b, LLVMGetPoison(LLVMVectorType(element, 1)), v, lane_index(l, 0),
						   "");
		v = shuffle(l, v, LLVMGetPoison(LLVMTypeOf(v)), mask, PTX_LANES);
		result = result ? shuffle(l, result, v, blend, PTX_LANES) : v;
	}
	return result;
}

void access_load(struct lower *l, const struct access *a, LLVMValueRef pointer, LLVMValueRef *parts)
{
	LLVMTypeRef element = int_type(l, a->size * 8);
	LLVMValueRef loaded[MAX_RUNS];
	struct runs r;

	if (a->lanes > 1 && find_runs(a, &r)) {
		for (unsigned k = 0; k < r.count; k++)
			loaded[k] = load_at(l, a, r.length[k] == 1 ? element : LLVMVectorType(element, r.length[k]),
					    pointer, r.start[k]);
		for (unsigned p = 0; p < a->count; p++)
			parts[p] = collect(l, &r, loaded, p, element);
		return;
	}
	for (unsigned p = 0; p < a->count; p++) {
		parts[p] = a->lanes == 1 ? NULL : LLVMGetPoison(LLVMVectorType(element, PTX_LANES));
		for (unsigned n = 0; n < a->lanes; n++) {
			LLVMValueRef v = load_at(l, a, element, pointer, a->offsets[n] + (int64_t)(p * a->size));

			parts[p] = a->lanes == 1 ? v : LLVMBuildInsertElement(l->b, parts[p], v, lane_index(l, n), "");
		}
	}
}

/* All parts side by side: part p of lane n at p * 32 + n. */
static LLVMValueRef side_by_side(struct lower *l, LLVMValueRef *parts, unsigned count)
{
	int all[PTX_LANES * 4];
	LLVMValueRef low, high;

	for (int n = 0; n < PTX_LANES * 4; n++)
		all[n] = n;
	if (count == 1)
		return parts[0];
	low = shuffle(l, parts[0], parts[1], all, 2 * PTX_LANES);
	if (count == 2)
		return low;
	high = shuffle(l, parts[2], parts[3], all, 2 * PTX_LANES);
	return shuffle(l, low, high, all, 4 * PTX_LANES);
}

void access_store(struct lower *l, const struct access *a, LLVMValueRef pointer, LLVMValueRef *parts)
{
	struct runs r;

	if (a->lanes > 1 && find_runs(a, &r)) {
		LLVMValueRef whole = side_by_side(l, parts, a->count);

		for (unsigned k = 0; k < r.count; k++) {
			int mask[PTX_LANES * 4];

			for (unsigned n = 0; n < PTX_LANES; n++)
				for (unsigned p = 0; p < a->count; p++)
					if (r.position[k][n * 4 + p] >= 0)
						mask[r.position[k][n * 4 + p]] = (int)(p * PTX_LANES + n);
			if (r.length[k] == 1)
				store_at(l, a,
					 LLVMBuildExtractElement(l->b, whole, lane_index(l, (unsigned)mask[0]), ""),
					 pointer, r.start[k]);
			else
				store_at(l, a, shuffle(l, whole, LLVMGetPoison(LLVMTypeOf(whole)), mask, r.length[k]),
					 pointer, r.start[k]);
		}
		return;
	}
	for (unsigned n = 0; n < a->lanes; n++)
		for (unsigned p = 0; p < a->count; p++)
			store_at(l, a,
				 a->lanes == 1 ? parts[p]
					       : LLVMBuildExtractElement(l->b, parts[p], lane_index(l, n), ""),
				 pointer, a->offsets[n] + (int64_t)(p * a->size));
}

/* ---- checks ---- */

struct group {
	int64_t low, high; /* of the constants, relative to the first access */
	uint32_t sites[MAX_GROUP];
	unsigned count;
	bool hit;
};

static void touches(void *data, int32_t reg)
{
	int32_t *wanted = data;

	if (*wanted == reg)
		*wanted = -1;
}

static bool redefines(struct lower *l, const struct ptx_instr *i, int32_t reg)
{
	int32_t wanted = reg;

	ptx_instr_defs(l->body, i, touches, &wanted);
	return wanted < 0;
}

/* What else in this block can be checked along: same register, kind and size, other constants. */
static void find_group(struct lower *l, const struct access *a, struct group *g)
{
	const struct ptx_block *b = &l->body->blocks[l->block];
	uint32_t end = b->last < l->instr + GROUP_REACH ? b->last : l->instr + GROUP_REACH;

	*g = (struct group){.sites = {a->site}, .count = 1};
	if (a->o->reg < 0 || redefines(l, a->i, a->o->reg))
		return;
	for (uint32_t k = l->instr + 1; k < end && g->count < MAX_GROUP; k++) {
		const struct ptx_instr *i = &l->body->instrs[k];
		const struct ptx_operand *o;
		int64_t delta;

		if (i->op->flags & (a->write ? PTX_F_STORE : PTX_F_LOAD)) {
			o = &i->ops[a->write ? 0 : 1];
			delta = (int64_t)(o->imm - a->o->imm);
			if (o->reg == a->o->reg && i->space == a->i->space && i->type == a->i->type &&
			    !((i->mods ^ a->i->mods) & (M(V2) | M(V4))) && delta > -MAX_SPAN && delta < MAX_SPAN &&
			    !(delta % (int64_t)(a->size * a->count))) {
				l->covered[k] = true;
				g->sites[g->count++] = l->low->sites[k];
				g->low = delta < g->low ? delta : g->low;
				g->high = delta > g->high ? delta : g->high;
			}
		}
		if (redefines(l, i, a->o->reg) || (i->op->flags & (PTX_F_BARRIER | PTX_F_CALL)))
			break;
	}
}

LLVMValueRef in_cached_range(struct lower *l, const struct access *a, LLVMValueRef low, uint64_t span)
{
	LLVMValueRef entry = field(l, l->cache, a->site * sizeof(struct ptx_cached_range)), start, end, ok;

	start = LLVMBuildLoad2(l->b, l->i64, entry, "");
	end = LLVMBuildLoad2(l->b, l->i64, field(l, entry, 8), "");
	ok = LLVMBuildICmp(l->b, LLVMIntUGE, low, start, "");
	end = LLVMBuildSub(l->b, end, scalar_const(l->i64, span), "");
	return LLVMBuildAnd(l->b, ok, LLVMBuildICmp(l->b, LLVMIntULE, low, end, ""), "");
}

LLVMValueRef in_space(struct lower *l, LLVMValueRef low, uint64_t span, LLVMValueRef size)
{
	LLVMValueRef end = LLVMBuildAdd(l->b, low, scalar_const(l->i64, span), "");

	return LLVMBuildAnd(l->b, LLVMBuildICmp(l->b, LLVMIntULT, low, size, ""),
			    LLVMBuildICmp(l->b, LLVMIntULE, end, size, ""), "");
}

/* Reads what this site hit last: where it starts, and how many addresses are good for `span` bytes. */
static void read_range(struct lower *l, const struct access *a, uint64_t span, LLVMValueRef *start, LLVMValueRef *room)
{
	LLVMValueRef entry = field(l, l->cache, a->site * sizeof(struct ptx_cached_range)), end, fits;

	*start = LLVMBuildLoad2(l->b, l->i64, entry, "");
	end = LLVMBuildLoad2(l->b, l->i64, field(l, entry, 8), "");
	/* nothing cached: both are the largest number */
	*room = LLVMBuildSub(l->b, end, *start, "");
	fits = LLVMBuildICmp(l->b, LLVMIntUGE, *room, scalar_const(l->i64, span), "");
	*room = LLVMBuildSub(l->b, *room, scalar_const(l->i64, span - 1), "");
	*room = LLVMBuildSelect(l->b, fits, *room, scalar_const(l->i64, 0), "");
}

static void keep_range(struct lower *l, const struct access *a, uint64_t span)
{
	LLVMValueRef start, room;

	read_range(l, a, span, &start, &room);
	LLVMBuildStore(l->b, start, l->ranges[2 * a->site]);
	LLVMBuildStore(l->b, room, l->ranges[2 * a->site + 1]);
}

/*
 * Code of one lane goes round its loops with the range in variables, which LLVM can keep in registers: what stands in
 * memory may change with every call, as far as it knows.
 */
static LLVMValueRef in_kept_range(struct lower *l, const struct access *a, LLVMValueRef low, uint64_t span)
{
	LLVMBasicBlockRef here = LLVMGetInsertBlock(l->b);

	for (unsigned n = 0; n < 2; n++)
		l->ranges[2 * a->site + n] = entry_alloca(l, l->i64);
	LLVMPositionBuilderBefore(l->b, LLVMGetBasicBlockTerminator(l->entry));
	keep_range(l, a, span);
	LLVMPositionBuilderAtEnd(l->b, here);
	low = LLVMBuildSub(l->b, low, LLVMBuildLoad2(l->b, l->i64, l->ranges[2 * a->site], ""), "");
	return LLVMBuildICmp(l->b, LLVMIntULT, low, LLVMBuildLoad2(l->b, l->i64, l->ranges[2 * a->site + 1], ""), "");
}

void access_check(struct lower *l, struct access *a, LLVMValueRef base)
{
	bool kept = l->width == 1 && ptx_body_in_loop(l->body, l->block);
	unsigned bytes = a->size * a->count;
	int64_t low = a->offsets[0], high = a->offsets[0];
	LLVMBasicBlockRef fine, look;
	LLVMValueRef from, ok, args[4], aligned;
	struct group g;

	if (l->covered[l->instr])
		return;
	find_group(l, a, &g);
	for (unsigned n = 0; n < a->lanes; n++) {
		int64_t at = a->offsets[n];

		low = at < low ? at : low;
		high = at > high ? at : high;
	}
	low += access_immediate(a) + g.low;
	high += access_immediate(a) + g.high;
	fine = new_bb(l, "fine");
	look = new_bb(l, "look");
	from = LLVMBuildAdd(l->b, base, scalar_const(l->i64, (uint64_t)low), "");
	if (a->space == PTX_SHARED)
		ok = in_space(l, from, (uint64_t)(high - low) + bytes, l->shared_bytes);
	else if (a->space == PTX_LOCAL)
		ok = in_space(l, from, (uint64_t)(high - low) + bytes, scalar_const(l->i64, l->body->local_bytes));
	else if (kept)
		ok = in_kept_range(l, a, from, (uint64_t)(high - low) + bytes);
	else
		ok = in_cached_range(l, a, from, (uint64_t)(high - low) + bytes);
	if (bytes > 1) {
		aligned = LLVMBuildAnd(l->b, from, scalar_const(l->i64, bytes - 1), "");
		aligned = LLVMBuildICmp(l->b, LLVMIntEQ, aligned, scalar_const(l->i64, 0), "");
		ok = LLVMBuildAnd(l->b, ok, aligned, "");
	}
	branch_likely(l, ok, fine, look);
	LLVMPositionBuilderAtEnd(l->b, look);
	args[0] = l->ctx;
	args[2] = base;
	args[3] = l->thread;
	if (l->masked) {
		/* one address for all: the report names the first lane that is there */
		LLVMValueRef first[2] = {l->mask, scalar_const(l->i1, 0)};

		args[3] = LLVMBuildAdd(l->b, l->thread, intrinsic(l, "llvm.cttz", l->i32, first, 2), "");
	}
	for (unsigned n = g.count; n--;) {
		args[1] = scalar_const(l->i32, g.sites[n]);
		call_runtime(l, "ptx_rt_check", l->void_type, args, 4);
	}
	if (kept && a->space != PTX_SHARED && a->space != PTX_LOCAL)
		keep_range(l, a, (uint64_t)(high - low) + bytes);
	LLVMBuildBr(l->b, fine);
	LLVMPositionBuilderAtEnd(l->b, fine);
}

/*
 * True if the access can be checked and done as a whole. Fills in the lanes' offsets, also in the site for reports. A
 * local address that all lanes share means another place for each, `local_bytes` apart; the check is about one lane's
 * memory.
 */
bool access_is_direct(struct lower *l, struct access *a)
{
	enum ptx_shape_kind kind = operand_kind(l, a->o);
	unsigned bytes = a->size * a->count;
	struct ptx_site *site = &l->low->site_list[a->site];

	if (l->width == 1)
		return true;
	if (a->space == PTX_LOCAL)
		return false;
	if (kind == PTX_VARYING)
		return false;
	if (kind == PTX_UNIFORM)
		return true;
	a->lanes = PTX_LANES;
	memcpy(a->offsets, l->body->shapes[a->o->reg].offsets, sizeof(a->offsets));
	for (unsigned n = 0; n < PTX_LANES; n++)
		if ((a->offsets[n] - a->offsets[0]) % bytes || a->offsets[n] > MAX_SPAN || a->offsets[n] < -MAX_SPAN)
			return false;
	for (unsigned n = 0; n < PTX_LANES; n++) {
		if (a->offsets[n] < site->low)
			site->low = a->offsets[n];
		if (a->offsets[n] > site->high)
			site->high = a->offsets[n];
	}
	if (site->offsets != l->body->shapes[a->o->reg].offsets)
		site->offsets = l->body->shapes[a->o->reg].offsets;
	return true;
}

/* The lanes' addresses, with constants. */
LLVMValueRef all_addresses(struct lower *l, const struct access *a)
{
	unsigned lanes = l->lanes;
	LLVMValueRef v;

	l->lanes = l->width;
	v = LLVMBuildAdd(l->b, access_address(l, a), int_const(l, 64, (uint64_t)access_immediate(a)), "");
	l->lanes = lanes;
	return v;
}

static LLVMValueRef any_bits(struct lower *l, LLVMValueRef vector)
{
	unsigned id = LLVMLookupIntrinsicID("llvm.vector.reduce.or", 21);
	LLVMTypeRef type = LLVMTypeOf(vector);
	LLVMValueRef fn = LLVMGetIntrinsicDeclaration(l->m, id, &type, 1);

	return LLVMBuildCall2(l->b, LLVMGlobalGetValueType(fn), fn, &vector, 1, "");
}

/*
 * Whether all of 32 addresses are good: aligned, and in shared memory or the range that this instruction hit last. A
 * difference that is negative or above the limit leaves a sign bit, and all signs are looked at once.
 */
LLVMValueRef lanes_in_range(struct lower *l, const struct access *a, LLVMValueRef addresses)
{
	uint64_t bytes = a->size * a->count;
	LLVMValueRef limit, start, distance = addresses, bad, ok;

	if (a->space == PTX_SHARED) {
		limit = LLVMBuildSub(l->b, l->shared_bytes, scalar_const(l->i64, bytes), "");
	} else {
		read_range(l, a, bytes, &start, &limit);
		limit = LLVMBuildSub(l->b, limit, scalar_const(l->i64, 1), "");
		distance = LLVMBuildSub(l->b, addresses, splat(l, start, PTX_LANES), "");
	}
	bad = LLVMBuildOr(l->b, distance, LLVMBuildSub(l->b, splat(l, limit, PTX_LANES), distance, ""), "");
	ok = LLVMBuildICmp(l->b, LLVMIntSGE, any_bits(l, bad), scalar_const(l->i64, 0), "");
	bad = LLVMBuildAnd(l->b, any_bits(l, addresses), scalar_const(l->i64, bytes - 1), "");
	return LLVMBuildAnd(l->b, ok, LLVMBuildICmp(l->b, LLVMIntEQ, bad, scalar_const(l->i64, 0), ""), "");
}

/* The lanes' addresses, with constants, into the buffer that the runtime reads. */
void spill_addresses(struct lower *l, const struct access *a)
{
	LLVMSetAlignment(LLVMBuildStore(l->b, all_addresses(l, a), l->addresses), 8);
}

void slow_call(struct lower *l, const struct access *a, const char *name)
{
	LLVMValueRef args[6] = {l->ctx, scalar_const(l->i32, a->site), l->mask, l->addresses, l->data, l->thread};

	if (l->width == 1)
		args[2] = scalar_const(l->i32, 1);
	call_runtime(l, name, l->void_type, args, 6);
}
