/* SPDX-License-Identifier: Apache-2.0 */
/* Loads and stores, among them those whose addresses have no shape. */
#include "lower/ptx-emit.h"
#include "lower/ptx-lower-access.h"

static bool bad_param(struct lower *l, const struct access *a)
{
	uint64_t bytes = a->size * a->count, at = a->o->imm;

	if (at > l->body->function->param_bytes || a->o->symbol->offset + at + bytes > l->body->function->param_bytes)
		return !ptx_body_fail(l->body, PTX_INVALID, a->i->line, "`%s` reads beyond the parameters", a->i->name);
	return false;
}

/* ---- rows: blocks that are 8 or 16 threads wide ---- */

/*
 * A warp of such a block is made of short rows, and what its shape cannot say is still likely: that the lanes of each
 * row access neighbours. Then a row moves as one vector.
 */
static unsigned row_length(const struct lower *l, const struct access *a)
{
	unsigned x = l->body->blockdim[0];

	if (is_partial(l) || l->version.checked || l->version.width == 1 || a->space == PTX_LOCAL || a->count > 1 ||
	    a->o->reg < 0)
		return 0;
	return x == 8 || x == 16 ? x : 0;
}

/* Where each row starts, as host addresses, in `rows`; returns whether all lanes are as expected and in bounds. */
static LLVMValueRef find_rows(struct lower *l, const struct access *a, unsigned length, LLVMValueRef *rows)
{
	int64_t steps[PTX_LANES];
	int firsts[PTX_LANES];
	LLVMValueRef all, expected, base, ok, aligned;
	uint64_t needed = length * a->size - a->i->unused;

	for (unsigned n = 0; n < PTX_LANES; n++) {
		firsts[n] = (int)(n / length * length);
		steps[n] = n % length * a->size;
	}
	l->at.lanes = PTX_LANES;
	all = LLVMBuildAdd(l->b, access_address(l, a), int_const(l, 64, (uint64_t)access_immediate(a)), "");
	expected = shuffle(l, all, LLVMGetPoison(LLVMTypeOf(all)), firsts, PTX_LANES);
	expected = LLVMBuildAdd(l->b, expected, lane_consts(l, 64, steps), "");
	ok = mask_bits(l, LLVMBuildICmp(l->b, LLVMIntEQ, all, expected, ""));
	ok = LLVMBuildICmp(l->b, LLVMIntEQ, ok, scalar_const(l->type.i32, UINT32_MAX), "");
	for (unsigned r = 0; r < PTX_LANES / length; r++) {
		base = LLVMBuildExtractElement(l->b, all, lane_index(l, r * length), "");
		ok = LLVMBuildAnd(l->b, ok,
				  a->space == PTX_SHARED ? in_space(l, base, needed, l->mem.shared_bytes)
							 : in_cached_range(l, a, base, needed),
				  "");
		aligned = LLVMBuildAnd(l->b, base, scalar_const(l->type.i64, a->size - 1), "");
		ok = LLVMBuildAnd(l->b, ok, LLVMBuildICmp(l->b, LLVMIntEQ, aligned, scalar_const(l->type.i64, 0), ""),
				  "");
		rows[r] = host_address(l, a, base);
	}
	return ok;
}

static LLVMValueRef load_rows(struct lower *l, const struct access *a, unsigned length, LLVMValueRef *rows)
{
	LLVMTypeRef type = LLVMVectorType(int_type(l, a->size * 8), length);
	LLVMValueRef parts[4];
	int whole[PTX_LANES];

	for (int n = 0; n < PTX_LANES; n++)
		whole[n] = n;
	for (unsigned r = 0; r < PTX_LANES / length; r++)
		parts[r] = load_at(l, a, type, rows[r], 0);
	for (unsigned count = PTX_LANES / length; count > 1; count /= 2, length *= 2)
		for (unsigned r = 0; r < count / 2; r++)
			parts[r] = shuffle(l, parts[2 * r], parts[2 * r + 1], whole, 2 * length);
	return parts[0];
}

static void store_rows(struct lower *l, const struct access *a, unsigned length, LLVMValueRef *rows, LLVMValueRef value)
{
	int part[PTX_LANES];

	for (unsigned r = 0; r < PTX_LANES / length; r++) {
		for (unsigned n = 0; n < length; n++)
			part[n] = (int)(r * length + n);
		store_at(l, a, shuffle(l, value, LLVMGetPoison(LLVMTypeOf(value)), part, length), rows[r], 0);
	}
}

/* ---- the instructions ---- */

/* The element of the first lane that is there. */
static LLVMValueRef first_active(struct lower *l, LLVMValueRef value)
{
	LLVMValueRef args[2] = {l->at.mask, scalar_const(l->type.i1, 0)}, lane;

	lane = intrinsic(l, "llvm.cttz", l->type.i32, args, 2);
	lane = LLVMBuildAnd(l->b, lane, scalar_const(l->type.i32, 31), "");
	return LLVMBuildExtractElement(l->b, value, lane, "");
}

/* One value where all lanes load from one address. */
static LLVMValueRef gathered(struct lower *l, const struct access *a, unsigned part)
{
	LLVMTypeRef element = int_type(l, a->size * 8);
	int64_t at = part * PTX_LANES * a->size;
	LLVMValueRef lanes;

	if (l->version.width == 1)
		return load_at(l, a, element, l->mem.data, at);
	lanes = load_at(l, a, LLVMVectorType(element, PTX_LANES), l->mem.data, at);
	return a->space != PTX_LOCAL && operand_kind(l, a->o) == PTX_UNIFORM ? first_active(l, lanes) : lanes;
}

/* ---- lanes that are anywhere ---- */

/* Inline code for so many of a version's accesses; each is long, and compiling takes time. */
#define MAX_INLINE 24

static bool is_inline(struct lower *l, const struct access *a)
{
	return !l->version.quick && !l->version.checked && a->space != PTX_LOCAL && !access_is_whole(a) &&
	       l->version.width > 1 && l->own.access.gathers++ < MAX_INLINE;
}

/* Where lanes point to: the addresses, or what they are made of. */
struct places {
	bool indexed;
	struct index x;
	LLVMValueRef addresses;
};

/* Returns whether all are good. */
static LLVMValueRef find_places(struct lower *l, const struct access *a, struct places *p)
{
	p->indexed = access_is_indexed(l, a, &p->x);
	if (p->indexed)
		return access_index(l, a, &p->x);
	p->addresses = access_readable(l, all_addresses(l, a));
	return lanes_in_range(l, a, p->addresses);
}

static LLVMValueRef lane_pointer(struct lower *l, const struct access *a, const struct places *p, unsigned lane)
{
	if (p->indexed)
		return access_index_pointer(l, &p->x, lane);
	return host_address(l, a, LLVMBuildExtractElement(l->b, p->addresses, lane_index(l, lane), ""));
}

static void load_lanes(struct lower *l, const struct access *a, const struct places *places, LLVMValueRef *parts)
{
	LLVMTypeRef element = int_type(l, a->size * 8);

	for (unsigned p = 0; p < a->count; p++)
		parts[p] = LLVMGetPoison(LLVMVectorType(element, PTX_LANES));
	for (unsigned n = 0; n < PTX_LANES; n++) {
		LLVMValueRef pointer = lane_pointer(l, a, places, n);

		for (unsigned p = 0; p < a->count; p++)
			parts[p] = LLVMBuildInsertElement(l->b, parts[p],
							  load_at(l, a, element, pointer, (int64_t)(p * a->size)),
							  lane_index(l, n), "");
	}
}

static void store_lanes(struct lower *l, const struct access *a, const struct places *places, LLVMValueRef *parts)
{
	for (unsigned n = 0; n < PTX_LANES; n++) {
		LLVMValueRef pointer = lane_pointer(l, a, places, n);

		for (unsigned p = 0; p < a->count; p++)
			store_at(l, a, LLVMBuildExtractElement(l->b, parts[p], lane_index(l, n), ""), pointer,
				 (int64_t)(p * a->size));
	}
}

static void gather_slowly(struct lower *l, const struct access *a, LLVMValueRef *parts)
{
	spill_addresses(l, a);
	slow_call(l, a, "ptx_rt_load");
	for (unsigned p = 0; p < a->count; p++)
		parts[p] = gathered(l, a, p);
}

/* Each way to load in a block of its own: rows, lane by lane inline, and through the runtime. */
static void gather(struct lower *l, const struct access *a, LLVMValueRef *parts)
{
	unsigned length = row_length(l, a), ways = 0;
	LLVMBasicBlockRef from[3], join, good, bad;
	LLVMValueRef rows[4], values[3][4];
	struct places places;

	if (!length && !is_inline(l, a)) {
		gather_slowly(l, a, parts);
		return;
	}
	join = new_bb(l, "loaded");
	good = new_bb(l, length ? "rows" : "lanes");
	bad = new_bb(l, "slow");
	if (length) {
		branch_likely(l, find_rows(l, a, length, rows), good, bad);
		LLVMPositionBuilderAtEnd(l->b, good);
		values[0][0] = load_rows(l, a, length, rows);
		from[ways++] = LLVMGetInsertBlock(l->b);
		LLVMBuildBr(l->b, join);
		LLVMPositionBuilderAtEnd(l->b, bad);
		good = new_bb(l, "lanes");
		bad = new_bb(l, "slow");
	}
	if (!length || is_inline(l, a)) {
		branch_likely(l, find_places(l, a, &places), good, bad);
		LLVMPositionBuilderAtEnd(l->b, good);
		load_lanes(l, a, &places, values[ways]);
		from[ways++] = LLVMGetInsertBlock(l->b);
		LLVMBuildBr(l->b, join);
	} else {
		LLVMBuildBr(l->b, bad);
		LLVMDeleteBasicBlock(good);
	}
	LLVMPositionBuilderAtEnd(l->b, bad);
	gather_slowly(l, a, values[ways]);
	from[ways++] = LLVMGetInsertBlock(l->b);
	LLVMBuildBr(l->b, join);
	LLVMPositionBuilderAtEnd(l->b, join);
	for (unsigned p = 0; p < a->count; p++) {
		parts[p] = LLVMBuildPhi(l->b, LLVMTypeOf(values[0][p]), "");
		for (unsigned w = 0; w < ways; w++)
			LLVMAddIncoming(parts[p], &values[w][p], &from[w], 1);
	}
}

static void scatter_slowly(struct lower *l, const struct access *a, LLVMValueRef *parts)
{
	for (unsigned p = 0; p < a->count; p++)
		LLVMSetAlignment(LLVMBuildStore(l->b, parts[p], field(l, l->mem.data, p * PTX_LANES * a->size)), 8);
	spill_addresses(l, a);
	slow_call(l, a, "ptx_rt_store");
}

static void scatter(struct lower *l, const struct access *a, LLVMValueRef *parts)
{
	unsigned length = row_length(l, a);
	LLVMBasicBlockRef good, bad, join;
	LLVMValueRef rows[4], ok;
	struct places places;

	if (!length && (is_partial(l) || !is_inline(l, a))) {
		scatter_slowly(l, a, parts);
		return;
	}
	good = new_bb(l, "fast");
	bad = new_bb(l, "slow");
	join = new_bb(l, "stored");
	ok = length ? find_rows(l, a, length, rows) : find_places(l, a, &places);
	branch_likely(l, ok, good, bad);
	LLVMPositionBuilderAtEnd(l->b, good);
	if (length)
		store_rows(l, a, length, rows, parts[0]);
	else
		store_lanes(l, a, &places, parts);
	LLVMBuildBr(l->b, join);
	LLVMPositionBuilderAtEnd(l->b, bad);
	scatter_slowly(l, a, parts);
	LLVMBuildBr(l->b, join);
	LLVMPositionBuilderAtEnd(l->b, join);
}

/* ---- lanes at constant distances, in an aside: what those that are not there would do may be bad ---- */

static LLVMValueRef pointer_apart(struct lower *l, const struct access *a, LLVMValueRef base)
{
	access_check_apart(l, a, base);
	return field(l, host_address(l, a, base), (uint64_t)access_immediate(a));
}

static void store_apart(struct lower *l, struct access *a, LLVMValueRef base, LLVMValueRef *parts)
{
	if (!access_can_blend(a))
		scatter_slowly(l, a, parts);
	else
		access_blend(l, a, pointer_apart(l, a, base), parts);
}

static bool element_count_ok(const struct ptx_operand *o, unsigned count)
{
	return count == 1 ? o->kind != PTX_OP_VECTOR || o->count == 1 : o->kind == PTX_OP_VECTOR && o->count == count;
}

static const struct ptx_operand *part_of(const struct ptx_operand *o, unsigned part)
{
	return o->kind == PTX_OP_VECTOR ? &o->elements[part] : o;
}

bool emit_ld(struct lower *l, const struct ptx_instr *i)
{
	LLVMValueRef parts[4], base, pointer;
	struct access a;

	access_describe(l, i, &a);
	if (a.o->kind != PTX_OP_MEM || !element_count_ok(&i->ops[0], a.count))
		return false;
	if (a.space == PTX_PARAM) {
		if (bad_param(l, &a))
			return true;
		l->at.lanes = 1;
		for (unsigned p = 0; p < a.count; p++) {
			parts[p] = load_at(l, &a, int_type(l, a.size * 8), l->mem.params,
					   (int64_t)(a.o->symbol->offset + a.o->imm + p * a.size));
			LLVMSetAlignment(parts[p], 1);
			never_changes(l, parts[p]);
		}
	} else if (access_is_direct(l, &a)) {
		l->at.lanes = 1;
		base = access_address(l, &a);
		if (l->at.keep && a.lanes > 1) {
			access_load_some(l, &a, pointer_apart(l, &a, base), parts);
		} else {
			stride_note(l, &a, base);
			access_check(l, &a, base);
			pointer = access_pointer(l, &a, base);
			access_load(l, &a, pointer, parts);
			prefetch_access(l, &a, pointer);
		}
	} else {
		gather(l, &a, parts);
	}
	for (unsigned p = 0; p < a.count; p++)
		set(l, part_of(&i->ops[0], p), parts[p], is_signed_type(i->type));
	return true;
}

/* Which lane's value a store of all lanes to one address leaves: the last active one's. */
static LLVMValueRef last_active(struct lower *l, LLVMValueRef value)
{
	LLVMValueRef args[2] = {l->at.mask, scalar_const(l->type.i1, 0)}, lane;

	if (!is_vector(value))
		return value;
	lane = intrinsic(l, "llvm.ctlz", l->type.i32, args, 2);
	lane = LLVMBuildSub(l->b, scalar_const(l->type.i32, 31), lane, "");
	lane = LLVMBuildAnd(l->b, lane, scalar_const(l->type.i32, 31), "");
	return LLVMBuildExtractElement(l->b, value, lane, "");
}

bool emit_st(struct lower *l, const struct ptx_instr *i)
{
	LLVMValueRef parts[4], base, pointer;
	struct access a;
	bool direct;

	access_describe(l, i, &a);
	if (a.o->kind != PTX_OP_MEM || a.space == PTX_PARAM || i->space == PTX_CONST ||
	    !element_count_ok(&i->ops[1], a.count))
		return false;
	direct = access_is_direct(l, &a);
	l->at.lanes = l->version.width;
	if (direct && a.lanes == 1 && operand_kind(l, &i->ops[1]) == PTX_UNIFORM)
		l->at.lanes = 1;
	for (unsigned p = 0; p < a.count; p++) {
		parts[p] = get(l, part_of(&i->ops[1], p), i->type);
		if (direct && a.lanes == 1)
			parts[p] = last_active(l, parts[p]);
	}
	if (!direct) {
		scatter(l, &a, parts);
		return true;
	}
	l->at.lanes = 1;
	base = access_address(l, &a);
	if (l->at.keep && a.lanes > 1) {
		store_apart(l, &a, base, parts);
		return true;
	}
	stride_note(l, &a, base);
	access_check(l, &a, base);
	pointer = access_pointer(l, &a, base);
	access_store(l, &a, pointer, parts);
	prefetch_access(l, &a, pointer);
	return true;
}
