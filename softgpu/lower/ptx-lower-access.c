/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The common parts of memory instructions: addresses, checks, and the movement of lanes.
 *
 * A uniform or OFFSETS address is checked as one span, together with all accesses of the block that use the same
 * register with other constants; global spans against the range that this instruction hit last (ptx_rt_check() looks
 * further), and the lanes' data moves in a few contiguous runs. Anything else goes through ptx_rt_load() and
 * ptx_rt_store(), lane by lane.
 */
#include <stddef.h>
#include <string.h>

#include "lower/ptx-lower-access.h"

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
			     .site = l->low->sites[l->at.instr]};
	a->count = i->mods & M(V8) ? 8 : i->mods & M(V4) ? 4 : i->mods & M(V2) ? 2 : 1;
	a->needed = a->size * a->count - i->unused;
	a->write = !(i->op->flags & PTX_F_LOAD);
	if (a->o->reg < 0 && a->o->symbol)
		a->space = a->o->symbol->space;
	if (a->space == PTX_CONST || (a->space == PTX_PARAM && a->o->reg >= 0) ||
	    (a->space == PTX_PARAM && !a->o->symbol))
		a->space = PTX_GLOBAL;
	/* a function's parameter that lives in local memory */
	if (i->space == PTX_LOCAL)
		a->space = PTX_LOCAL;
	/* the masked version is compiled while other threads run the full one: a site is not written again */
	if (l->low->site_list[a->site].space != a->space)
		l->low->site_list[a->site].space = (uint8_t)a->space;
	a->indexed = l->version.width == 1 && access_is_indexed(l, a, &a->x);
}

/* The address without the constant part: scalar, or a vector of l->at.lanes. */
LLVMValueRef access_address(struct lower *l, const struct access *a)
{
	/* A 32-bit address may be the space's start less something that the immediate adds again: keep its sign. */
	if (a->o->reg >= 0)
		return resize(l, read_reg(l, a->o->reg, l->at.lanes), 64, true);
	if (a->o->symbol)
		return splat(l, symbol_address(l, a->o->symbol, a->o->imm), l->at.lanes);
	return int_const(l, 64, a->o->imm);
}

int64_t access_immediate(const struct access *a)
{
	return a->o->reg >= 0 ? (int64_t)a->o->imm : 0;
}

LLVMValueRef host_address(struct lower *l, const struct access *a, LLVMValueRef base)
{
	if (a->space == PTX_SHARED)
		return LLVMBuildGEP2(l->b, l->type.i8, l->mem.shared, &base, 1, "");
	if (a->space == PTX_LOCAL) {
		LLVMValueRef own = LLVMBuildZExt(l->b, l->fn.thread, l->type.i64, "");

		own = LLVMBuildMul(l->b, own, scalar_const(l->type.i64, l->body->local_bytes), "");
		own = LLVMBuildAdd(l->b, own, base, "");
		return LLVMBuildGEP2(l->b, l->type.i8, l->mem.local, &own, 1, "");
	}
	return LLVMBuildIntToPtr(l->b, base, l->type.ptr, "");
}

LLVMValueRef load_at(struct lower *l, const struct access *a, LLVMTypeRef type, LLVMValueRef pointer,
			    int64_t offset)
{
	LLVMValueRef v = LLVMBuildLoad2(l->b, type, field(l, pointer, (uint64_t)offset), "");

	LLVMSetAlignment(v, a->size);
	return v;
}

void never_changes(struct lower *l, LLVMValueRef load)
{
	LLVMValueRef none = LLVMMetadataAsValue(l->c, LLVMMDNodeInContext2(l->c, NULL, 0));

	LLVMSetMetadata(load, LLVMGetMDKindIDInContext(l->c, "invariant.load", 14), none);
}

void store_at(struct lower *l, const struct access *a, LLVMValueRef value, LLVMValueRef pointer, int64_t offset)
{
	LLVMSetAlignment(LLVMBuildStore(l->b, value, field(l, pointer, (uint64_t)offset)), a->size);
}

LLVMValueRef lane_index(struct lower *l, unsigned n)
{
	return scalar_const(l->type.i32, n);
}

LLVMValueRef shuffle(struct lower *l, LLVMValueRef a, LLVMValueRef b, const int *mask, unsigned count)
{
	LLVMValueRef index[PTX_LANES * 4];

	for (unsigned n = 0; n < count; n++)
		index[n] = mask[n] < 0 ? LLVMGetUndef(l->type.i32) : lane_index(l, (unsigned)mask[n]);
	return LLVMBuildShuffleVector(l->b, a, b, LLVMConstVector(index, count), "");
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

bool access_redefines(struct lower *l, const struct ptx_instr *i, int32_t reg)
{
	int32_t wanted = reg;

	ptx_instr_defs(l->body, i, touches, &wanted);
	return wanted < 0;
}

/* Finds the accesses of this block that one check covers: same register, kind and size, other constants. */
static void find_group(struct lower *l, const struct access *a, struct group *g)
{
	const struct ptx_block *b = &l->body->blocks[l->at.block];
	uint32_t end = b->last < l->at.instr + GROUP_REACH ? b->last : l->at.instr + GROUP_REACH;

	*g = (struct group){.sites = {a->site}, .count = 1};
	if (a->o->reg < 0 || access_redefines(l, a->i, a->o->reg))
		return;
	for (uint32_t k = l->at.instr + 1; k < end && g->count < MAX_GROUP; k++) {
		const struct ptx_instr *i = &l->body->instrs[k];
		const struct ptx_operand *o;
		int64_t delta;

		if (i->op->flags & (a->write ? PTX_F_STORE : PTX_F_LOAD)) {
			o = &i->ops[a->write ? 0 : 1];
			delta = (int64_t)(o->imm - a->o->imm);
			if (o->reg == a->o->reg && i->space == a->i->space && i->type == a->i->type &&
			    !((i->mods ^ a->i->mods) & (M(V2) | M(V4))) && i->unused == a->i->unused && delta > -MAX_SPAN && delta < MAX_SPAN &&
			    !(delta % (int64_t)(a->size * a->count))) {
				l->own.access.covered[k] = true;
				g->sites[g->count++] = l->low->sites[k];
				g->low = delta < g->low ? delta : g->low;
				g->high = delta > g->high ? delta : g->high;
			}
		}
		if (access_redefines(l, i, a->o->reg) || (i->op->flags & (PTX_F_BARRIER | PTX_F_CALL)))
			break;
	}
}

LLVMValueRef in_cached_range(struct lower *l, const struct access *a, LLVMValueRef low, uint64_t span)
{
	LLVMValueRef entry = field(l, l->mem.cache, a->site * sizeof(struct ptx_cached_range)), start, end, ok;

	start = LLVMBuildLoad2(l->b, l->type.i64, entry, "");
	end = LLVMBuildLoad2(l->b, l->type.i64, field(l, entry, 8), "");
	ok = LLVMBuildICmp(l->b, LLVMIntUGE, low, start, "");
	end = LLVMBuildSub(l->b, end, scalar_const(l->type.i64, span), "");
	return LLVMBuildAnd(l->b, ok, LLVMBuildICmp(l->b, LLVMIntULE, low, end, ""), "");
}

LLVMValueRef in_space(struct lower *l, LLVMValueRef low, uint64_t span, LLVMValueRef size)
{
	LLVMValueRef end = LLVMBuildAdd(l->b, low, scalar_const(l->type.i64, span), "");

	return LLVMBuildAnd(l->b, LLVMBuildICmp(l->b, LLVMIntULT, low, size, ""),
			    LLVMBuildICmp(l->b, LLVMIntULE, end, size, ""), "");
}

/* Reads what this site hit last: where it starts, and how many addresses are good for `span` bytes. */
static void read_range(struct lower *l, const struct access *a, uint64_t span, LLVMValueRef *start, LLVMValueRef *room)
{
	LLVMValueRef entry = field(l, l->mem.cache, a->site * sizeof(struct ptx_cached_range)), end, fits;

	*start = LLVMBuildLoad2(l->b, l->type.i64, entry, "");
	end = LLVMBuildLoad2(l->b, l->type.i64, field(l, entry, 8), "");
	/* nothing cached: both are the largest number */
	*room = LLVMBuildSub(l->b, end, *start, "");
	fits = LLVMBuildICmp(l->b, LLVMIntUGE, *room, scalar_const(l->type.i64, span), "");
	*room = LLVMBuildSub(l->b, *room, scalar_const(l->type.i64, span - 1), "");
	*room = LLVMBuildSelect(l->b, fits, *room, scalar_const(l->type.i64, 0), "");
}

static void keep_range(struct lower *l, const struct access *a, uint64_t span)
{
	LLVMValueRef start, room;

	read_range(l, a, span, &start, &room);
	LLVMBuildStore(l->b, start, l->own.access.ranges[2 * a->site]);
	LLVMBuildStore(l->b, room, l->own.access.ranges[2 * a->site + 1]);
}

/*
 * Code of one lane goes round its loops with the range in variables, which LLVM can keep in registers: for LLVM, memory
 * may change with every call.
 */
static LLVMValueRef in_kept_range(struct lower *l, const struct access *a, LLVMValueRef low, uint64_t span)
{
	LLVMBasicBlockRef here = LLVMGetInsertBlock(l->b);

	for (unsigned n = 0; n < 2; n++)
		l->own.access.ranges[2 * a->site + n] = entry_alloca(l, l->type.i64);
	LLVMPositionBuilderBefore(l->b, LLVMGetBasicBlockTerminator(l->fn.entry));
	keep_range(l, a, span);
	LLVMPositionBuilderAtEnd(l->b, here);
	low = LLVMBuildSub(l->b, low, LLVMBuildLoad2(l->b, l->type.i64, l->own.access.ranges[2 * a->site], ""), "");
	return LLVMBuildICmp(l->b, LLVMIntULT, low,
			     LLVMBuildLoad2(l->b, l->type.i64, l->own.access.ranges[2 * a->site + 1], ""), "");
}

/* The lowest and the highest address of the lanes, less the base. */
static void reach_of(const struct access *a, int64_t *low, int64_t *high)
{
	*low = *high = a->offsets[0];
	for (unsigned n = 0; n < a->lanes; n++) {
		*low = a->offsets[n] < *low ? a->offsets[n] : *low;
		*high = a->offsets[n] > *high ? a->offsets[n] : *high;
	}
	*low += access_immediate(a);
	*high += access_immediate(a);
}

/* The same with one comparison, for the one length that the site is said to have. */
static LLVMValueRef in_site_range(struct lower *l, const struct access *a, LLVMValueRef low, uint64_t span)
{
	LLVMValueRef entry = field(l, l->mem.cache, a->site * sizeof(struct ptx_cached_range)), start, room;

	l->low->site_list[a->site].span = span;
	start = LLVMBuildLoad2(l->b, l->type.i64, entry, "");
	room = LLVMBuildLoad2(l->b, l->type.i64, field(l, entry, offsetof(struct ptx_cached_range, room)), "");
	return LLVMBuildICmp(l->b, LLVMIntULT, LLVMBuildSub(l->b, low, start, ""), room, "");
}

static LLVMValueRef span_fits(struct lower *l, const struct access *a, LLVMValueRef from, uint64_t span, bool kept)
{
	unsigned bytes = a->size * a->count;
	bool whole = l->version.width > 1 && !is_partial(l);
	LLVMValueRef ok, aligned;

	if (a->space == PTX_SHARED)
		ok = in_space(l, from, span, l->mem.shared_bytes);
	else if (a->space == PTX_LOCAL)
		ok = in_space(l, from, span, scalar_const(l->type.i64, l->body->local_bytes));
	else if (kept)
		ok = in_kept_range(l, a, from, span);
	else
		ok = whole ? in_site_range(l, a, from, span) : in_cached_range(l, a, from, span);
	if (bytes == 1 || (whole && provenance_aligns(l, a)))
		return ok;
	aligned = LLVMBuildAnd(l->b, from, scalar_const(l->type.i64, bytes - 1), "");
	aligned = LLVMBuildICmp(l->b, LLVMIntEQ, aligned, scalar_const(l->type.i64, 0), "");
	return LLVMBuildAnd(l->b, ok, aligned, "");
}

/* The lanes that are there are neighbours: moves `from` to the first one, and returns the end of the last. */
static LLVMValueRef some_reach(struct lower *l, const struct access *a, LLVMValueRef *from)
{
	LLVMValueRef args[2] = {l->at.mask, scalar_const(l->type.i1, 0)}, first, last, end;

	first = LLVMBuildZExt(l->b, intrinsic(l, "llvm.cttz", l->type.i32, args, 2), l->type.i64, "");
	last = LLVMBuildZExt(l->b, intrinsic(l, "llvm.ctlz", l->type.i32, args, 2), l->type.i64, "");
	last = LLVMBuildSub(l->b, scalar_const(l->type.i64, PTX_LANES), last, "");
	end = LLVMBuildAdd(l->b, *from, LLVMBuildMul(l->b, last, scalar_const(l->type.i64, a->size), ""), "");
	end = LLVMBuildSub(l->b, end, scalar_const(l->type.i64, a->i->unused), "");
	*from = LLVMBuildAdd(l->b, *from, LLVMBuildMul(l->b, first, scalar_const(l->type.i64, a->size), ""), "");
	return end;
}

static LLVMValueRef some_fit(struct lower *l, const struct access *a, LLVMValueRef from, LLVMValueRef end)
{
	LLVMValueRef start = scalar_const(l->type.i64, 0), limit = l->mem.shared_bytes, ok, first;

	if (a->space != PTX_SHARED) {
		LLVMValueRef entry = field(l, l->mem.cache, a->site * sizeof(struct ptx_cached_range));

		start = LLVMBuildLoad2(l->b, l->type.i64, entry, "");
		limit = LLVMBuildLoad2(l->b, l->type.i64, field(l, entry, 8), "");
	}
	limit = LLVMBuildSub(l->b, limit, start, "");
	first = LLVMBuildSub(l->b, from, start, "");
	end = LLVMBuildSub(l->b, end, start, "");
	ok = LLVMBuildAnd(l->b, LLVMBuildICmp(l->b, LLVMIntULT, first, limit, ""),
			  LLVMBuildICmp(l->b, LLVMIntULE, end, limit, ""), "");
	first = LLVMBuildAnd(l->b, from, scalar_const(l->type.i64, a->size - 1), "");
	return LLVMBuildAnd(l->b, ok, LLVMBuildICmp(l->b, LLVMIntEQ, first, scalar_const(l->type.i64, 0), ""), "");
}

void access_check_apart(struct lower *l, const struct access *a, LLVMValueRef base)
{
	LLVMBasicBlockRef here, look, known;
	LLVMValueRef from, end, ok, args[4], found, values[2];
	int64_t low, high;

	reach_of(a, &low, &high);
	from = LLVMBuildAdd(l->b, base, scalar_const(l->type.i64, (uint64_t)low), "");
	if (access_is_in_order(a)) {
		end = some_reach(l, a, &from);
		ok = some_fit(l, a, from, end);
	} else {
		uint64_t span = (uint64_t)(high - low) + a->needed;

		end = LLVMBuildAdd(l->b, from, scalar_const(l->type.i64, span), "");
		ok = span_fits(l, a, from, span, false);
	}
	if (a->space == PTX_SHARED || provenance_note(l, a)) {
		leave_unless(l, ok);
		return;
	}
	here = LLVMGetInsertBlock(l->b);
	look = new_bb(l, "look");
	known = new_bb(l, "known");
	branch_likely(l, ok, known, look);
	LLVMPositionBuilderAtEnd(l->b, look);
	args[0] = l->fn.ctx;
	args[1] = scalar_const(l->type.i32, a->site);
	args[2] = from;
	args[3] = LLVMBuildSub(l->b, end, from, "");
	found = call_runtime(l, "ptx_rt_reach", l->type.i32, args, 4);
	found = LLVMBuildICmp(l->b, LLVMIntNE, found, scalar_const(l->type.i32, 0), "");
	LLVMBuildBr(l->b, known);
	LLVMPositionBuilderAtEnd(l->b, known);
	ok = LLVMBuildPhi(l->b, l->type.i1, "");
	values[0] = scalar_const(l->type.i1, 1);
	values[1] = found;
	LLVMAddIncoming(ok, &values[0], &here, 1);
	LLVMAddIncoming(ok, &values[1], &look, 1);
	leave_unless(l, ok);
}

void access_check(struct lower *l, struct access *a, LLVMValueRef base)
{
	bool kept = l->version.width == 1 && ptx_body_in_loop(l->body, l->at.block);
	int64_t low, high;
	LLVMBasicBlockRef fine, look, other;
	LLVMValueRef from, ok, args[4];
	struct group g = {.sites = {a->site}, .count = 1};
	struct usual usual;
	uint64_t span;

	/* an aside does not come by the other accesses' checks */
	if (!l->at.keep && l->own.access.covered[l->at.instr])
		return;
	if (!l->at.keep)
		find_group(l, a, &g);
	reach_of(a, &low, &high);
	low += g.low;
	span = (uint64_t)(high + g.high - low) + a->needed;
	fine = new_bb(l, "fine");
	look = new_bb(l, "look");
	from = LLVMBuildAdd(l->b, base, scalar_const(l->type.i64, (uint64_t)low), "");
	ok = provenance_fits(l, a, low, span);
	if (ok) {
		other = new_bb(l, "elsewhere");
		branch_likely(l, ok, fine, other);
		LLVMPositionBuilderAtEnd(l->b, other);
		usual = slow_path_begin(l);
		/* not from the register: keeping its value for this takes a register of the loop around */
		base = a->indexed ? access_index_address(l, a) : access_address(l, a);
		from = LLVMBuildAdd(l->b, base, scalar_const(l->type.i64, (uint64_t)low), "");
		kept = false;
	}
	branch_likely(l, span_fits(l, a, from, span, kept), fine, look);
	LLVMPositionBuilderAtEnd(l->b, look);
	if (!ok)
		usual = slow_path_begin(l);
	args[0] = l->fn.ctx;
	args[2] = base;
	args[3] = l->fn.thread;
	if (is_partial(l)) {
		/* one address for all: the report names the first lane that is there */
		LLVMValueRef first[2] = {l->at.mask, scalar_const(l->type.i1, 0)};

		args[3] = LLVMBuildAdd(l->b, l->fn.thread, intrinsic(l, "llvm.cttz", l->type.i32, first, 2), "");
	}
	for (unsigned n = g.count; n--;) {
		args[1] = scalar_const(l->type.i32, g.sites[n]);
		call_seldom(l, "ptx_rt_check", args, 4);
	}
	if (kept && a->space != PTX_SHARED && a->space != PTX_LOCAL)
		keep_range(l, a, span);
	slow_path_end(l, &usual);
	LLVMBuildBr(l->b, fine);
	LLVMPositionBuilderAtEnd(l->b, fine);
}

bool access_is_whole(const struct access *a)
{
	const ptx_mods seen = M(VOLATILE) | M(RELAXED) | M(ACQUIRE) | M(RELEASE) | M(CG) | M(CV);
	unsigned bytes = a->size * a->count;

	return a->count > 1 && (bytes == 8 || bytes == 16) && a->i->mods & seen &&
	       (a->space == PTX_GLOBAL || a->space == PTX_SHARED || a->space == PTX_GENERIC);
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

	if (l->version.checked)
		return false;
	if (l->version.width == 1)
		return true;
	if (a->space == PTX_LOCAL)
		return false;
	if (kind == PTX_VARYING)
		return false;
	if (kind == PTX_UNIFORM)
		return true;
	if (access_is_whole(a))
		return false;
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
	unsigned lanes = l->at.lanes;
	LLVMValueRef v;

	l->at.lanes = l->version.width;
	v = LLVMBuildAdd(l->b, access_address(l, a), int_const(l, 64, (uint64_t)access_immediate(a)), "");
	l->at.lanes = lanes;
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
		limit = LLVMBuildSub(l->b, l->mem.shared_bytes, scalar_const(l->type.i64, a->needed), "");
	} else {
		read_range(l, a, a->needed, &start, &limit);
		limit = LLVMBuildSub(l->b, limit, scalar_const(l->type.i64, 1), "");
		distance = LLVMBuildSub(l->b, addresses, splat(l, start, PTX_LANES), "");
	}
	bad = LLVMBuildOr(l->b, distance, LLVMBuildSub(l->b, splat(l, limit, PTX_LANES), distance, ""), "");
	ok = LLVMBuildICmp(l->b, LLVMIntSGE, any_bits(l, bad), scalar_const(l->type.i64, 0), "");
	bad = LLVMBuildAnd(l->b, any_bits(l, addresses), scalar_const(l->type.i64, bytes - 1), "");
	return LLVMBuildAnd(l->b, ok, LLVMBuildICmp(l->b, LLVMIntEQ, bad, scalar_const(l->type.i64, 0), ""), "");
}

LLVMValueRef access_readable(struct lower *l, LLVMValueRef lanes)
{
	LLVMValueRef args[2] = {l->at.mask, scalar_const(l->type.i1, 0)}, first;

	if (!is_partial(l))
		return lanes;
	first = LLVMBuildAnd(l->b, intrinsic(l, "llvm.cttz", l->type.i32, args, 2), scalar_const(l->type.i32, 31), "");
	first = splat(l, LLVMBuildExtractElement(l->b, lanes, first, ""), PTX_LANES);
	return LLVMBuildSelect(l->b, l->at.mask_vector, lanes, first, "");
}

/* The lanes' addresses, with constants, into the buffer that the runtime reads. */
void spill_addresses(struct lower *l, const struct access *a)
{
	LLVMSetAlignment(LLVMBuildStore(l->b, all_addresses(l, a), l->mem.addresses), 8);
}

void slow_call(struct lower *l, const struct access *a, const char *name)
{
	LLVMValueRef args[6] = {
		l->fn.ctx, scalar_const(l->type.i32, a->site), l->at.mask, l->mem.addresses, l->mem.data, l->fn.thread};

	if (l->version.width == 1)
		args[2] = scalar_const(l->type.i32, 1);
	call_runtime(l, name, l->type.void_type, args, 6);
}

bool prepare_accesses(struct lower *l)
{
	struct lower_accesses *access = &l->own.access;

	access->covered = ptx_alloc(&l->body->arena, l->body->instr_count + 1u);
	access->ranges = ptx_alloc(&l->body->arena, (l->low->site_count + 1u) * 2 * sizeof(*access->ranges));
	return access->covered && access->ranges;
}
