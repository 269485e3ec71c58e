/* SPDX-License-Identifier: Apache-2.0 */
/* Lanes at constant distances from a scalar address: how they move in a few contiguous runs. */
#include <stdlib.h>
#include <string.h>

#include "lower/ptx-lower-access.h"

#define MAX_RUNS 8

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

/* Everything as one run with gaps, where the whole is not much longer than what is in it. After find_runs(). */
static bool find_span(const struct access *a, struct runs *r)
{
	int64_t start = r->elements[0].offset, length = r->elements[r->total - 1].offset - start;

	length = length / (int64_t)a->size + 1;
	if (length > 2 * (int64_t)r->total || length > PTX_LANES * 4)
		return false;
	memset(r->position, 0xff, sizeof(r->position));
	r->count = 1;
	r->start[0] = start;
	r->length[0] = (unsigned)length;
	for (unsigned n = 0; n < r->total; n++) {
		const struct element *e = &r->elements[n];

		r->position[0][e->lane * 4 + e->part] = (int)((e->offset - start) / (int64_t)a->size);
	}
	return true;
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

/* One lane's vector, at once. */
static void load_whole(struct lower *l, const struct access *a, LLVMValueRef pointer, LLVMValueRef *parts)
{
	LLVMTypeRef type = LLVMVectorType(int_type(l, a->size * 8), a->count);
	LLVMValueRef whole = load_at(l, a, type, pointer, a->offsets[0]);

	LLVMSetAlignment(whole, a->size * a->count);
	LLVMSetVolatile(whole, true);
	for (unsigned p = 0; p < a->count; p++)
		parts[p] = LLVMBuildExtractElement(l->b, whole, lane_index(l, p), "");
}

static void store_whole(struct lower *l, const struct access *a, LLVMValueRef pointer, LLVMValueRef *parts)
{
	LLVMValueRef whole = LLVMGetPoison(LLVMVectorType(int_type(l, a->size * 8), a->count)), store;

	for (unsigned p = 0; p < a->count; p++)
		whole = LLVMBuildInsertElement(l->b, whole, parts[p], lane_index(l, p), "");
	store = LLVMBuildStore(l->b, whole, field(l, pointer, (uint64_t)a->offsets[0]));
	LLVMSetAlignment(store, a->size * a->count);
	LLVMSetVolatile(store, true);
}

void access_load(struct lower *l, const struct access *a, LLVMValueRef pointer, LLVMValueRef *parts)
{
	LLVMTypeRef element = int_type(l, a->size * 8);
	LLVMValueRef loaded[MAX_RUNS];
	struct runs r;

	if (access_is_whole(a)) {
		load_whole(l, a, pointer, parts);
		return;
	}

	if (a->lanes > 1 && (find_runs(a, &r) || find_span(a, &r))) {
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

	if (access_is_whole(a)) {
		store_whole(l, a, pointer, parts);
		return;
	}
	if (a->lanes > 1 && !find_runs(a, &r) && a->space == PTX_SHARED && access_blend(l, a, pointer, parts))
		return;
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

/* No two lanes at one place: which of them wins depends on which are there. */
static bool are_apart(const struct runs *r)
{
	for (unsigned n = 1; n < r->total; n++)
		if (r->elements[n].offset == r->elements[n - 1].offset)
			return false;
	return true;
}

bool access_is_in_order(const struct access *a)
{
	for (unsigned n = 1; n < PTX_LANES; n++)
		if (a->offsets[n] != a->offsets[n - 1] + (int64_t)a->size)
			return false;
	return a->lanes == PTX_LANES && a->count == 1 && (a->size == 4 || a->size == 8);
}

/* llvm.masked.load or .store of the lanes that are there, from the first lane's address on. */
static LLVMValueRef move_masked(struct lower *l, const struct access *a, LLVMValueRef pointer, LLVMValueRef value)
{
	LLVMTypeRef types[2] = {LLVMVectorType(int_type(l, a->size * 8), PTX_LANES), l->type.ptr};
	const char *name = value ? "llvm.masked.store" : "llvm.masked.load";
	LLVMValueRef fn = LLVMGetIntrinsicDeclaration(l->m, LLVMLookupIntrinsicID(name, strlen(name)), types, 2);
	LLVMValueRef alignment = scalar_const(l->type.i32, a->size), args[4] = {pointer, alignment, l->at.mask_vector};

	args[0] = value ? value : pointer;
	args[1] = value ? pointer : alignment;
	args[2] = value ? alignment : l->at.mask_vector;
	args[3] = value ? l->at.mask_vector : LLVMConstNull(types[0]);
	return LLVMBuildCall2(l->b, LLVMGlobalGetValueType(fn), fn, args, 4, "");
}

void access_load_some(struct lower *l, const struct access *a, LLVMValueRef pointer, LLVMValueRef *parts)
{
	if (access_is_in_order(a))
		parts[0] = move_masked(l, a, field(l, pointer, (uint64_t)a->offsets[0]), NULL);
	else
		access_load(l, a, pointer, parts);
}

/* One run, with what was there before at the places of lanes that are not there, and in gaps. */
static void blend_run(struct lower *l, const struct access *a, const struct runs *r, unsigned k, LLVMValueRef whole,
		      LLVMValueRef pointer)
{
	LLVMTypeRef type = LLVMVectorType(int_type(l, a->size * 8), r->length[k]);
	int from[PTX_LANES * 4], lanes[PTX_LANES * 4];
	LLVMValueRef mask, value;

	for (unsigned n = 0; n < r->length[k]; n++) {
		from[n] = -1;
		lanes[n] = PTX_LANES;
	}
	for (unsigned n = 0; n < PTX_LANES; n++)
		for (unsigned p = 0; p < a->count; p++) {
			int at = r->position[k][n * 4 + p];

			if (at < 0)
				continue;
			from[at] = (int)(p * PTX_LANES + n);
			lanes[at] = (int)n;
		}
	mask = shuffle(l, l->at.mask_vector, LLVMConstNull(LLVMTypeOf(l->at.mask_vector)), lanes, r->length[k]);
	value = shuffle(l, whole, LLVMGetPoison(LLVMTypeOf(whole)), from, r->length[k]);
	value = LLVMBuildSelect(l->b, mask, value, load_at(l, a, type, pointer, r->start[k]), "");
	store_at(l, a, value, pointer, r->start[k]);
}

/*
 * Memory that others may write at the same time must not be written where no lane writes. A block's shared memory is
 * not of that kind: it runs on one OS thread.
 */
bool access_can_blend(const struct access *a)
{
	struct runs r;

	if (access_is_in_order(a))
		return true;
	return a->space == PTX_SHARED && (find_runs(a, &r) || find_span(a, &r)) && are_apart(&r);
}

bool access_blend(struct lower *l, const struct access *a, LLVMValueRef pointer, LLVMValueRef *parts)
{
	LLVMValueRef whole;
	struct runs r;

	if (access_is_in_order(a)) {
		move_masked(l, a, field(l, pointer, (uint64_t)a->offsets[0]), parts[0]);
		return true;
	}
	if (a->space != PTX_SHARED || (!find_runs(a, &r) && !find_span(a, &r)) || !are_apart(&r))
		return false;
	whole = side_by_side(l, parts, a->count);
	for (unsigned k = 0; k < r.count; k++)
		blend_run(l, a, &r, k, whole, pointer);
	return true;
}
