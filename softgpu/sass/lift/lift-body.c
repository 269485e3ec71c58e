/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The order of a kernel's instructions in PTX. A function that is called is lifted once for each call, in the place of
 * the call, so that lanes meet again behind the call as they do on a GPU. Where that is not possible (functions that
 * recur, that are called by an address, that would be too much text, or where lanes meet from several places) all code
 * is lifted once, and a return compares the address with those of all calls.
 */
#include <stdlib.h>

#include "sass/cubin/memory.h"
#include "sass/lift/lifting.h"

/* The limit of what calls add. */
#define MOST_TIMES 4
#define MOST_MORE 4096

static bool decode_at(const struct lift *l, uint32_t n, struct sass_instr *i)
{
	char error[8];

	return sass_decode(l->function->code + (size_t)n * SASS_BYTES, n * SASS_BYTES, i, error, sizeof(error));
}

static uint32_t count_of(const struct lift *l)
{
	return l->function->bytes / SASS_BYTES;
}

/* Whether all lanes that come here do what the instruction does. */
static bool is_certain(const struct sass_instr *i)
{
	return i->guard == SASS_PT && !i->guard_not && i->field[SASS_F_PC] == SASS_PT && !i->field[SASS_F_PC_NOT];
}

/* The instruction that is called: an offset. False: it is no call of one. */
static bool callee_of(struct lift *l, const struct sass_instr *i, uint32_t *target)
{
	if (i->form->function == SASS_LIFT_CALL && !i->a.kind)
		return target_of(l, i, target);
	return i->form->function == SASS_LIFT_CALL_ABS && !i->a.kind && local_callee(l, i->address, target);
}

/* Whether the next instruction follows. */
bool goes_on(const struct sass_instr *i)
{
	switch (i->form->function) {
	case SASS_LIFT_BRA:
		return i->field[SASS_F_MODE] >= 2 || !is_certain(i);
	case SASS_LIFT_BRX:
	case SASS_LIFT_RET:
	case SASS_LIFT_EXIT:
		return !is_certain(i);
	default:
		return true;
	}
}

/* Instructions that are reached without those of callees, in order. */
struct region {
	uint32_t *list, size, room;
	bool failed; /* there was no memory */
};

static void reach(struct lift *l, struct region *r, uint32_t n)
{
	if (n >= count_of(l) || l->reached[n])
		return;
	if (r->size == r->room) {
		uint32_t room = r->room ? r->room * 2 : 64;
		uint32_t *list = sass_reallocate(r->list, room, sizeof(*list));

		r->failed |= !list;
		if (!list)
			return;
		r->list = list;
		r->room = room;
	}
	l->reached[n] = true;
	r->list[r->size++] = n;
}

static void reach_next(struct lift *l, struct region *r, const struct sass_instr *i)
{
	uint32_t target;

	if (i->form->function == SASS_LIFT_BRA && target_of(l, i, &target))
		reach(l, r, target / SASS_BYTES);
	if (i->form->function == SASS_LIFT_BRX && mark_targets(l, i, l->marked))
		for (uint32_t n = 0; n < count_of(l); n++) {
			if (l->marked[n])
				reach(l, r, n);
			l->marked[n] = false;
		}
	if (goes_on(i))
		reach(l, r, i->address / SASS_BYTES + 1);
}

static int compare(const void *a, const void *b)
{
	const uint32_t *x = a, *y = b;

	return (*x > *y) - (*x < *y);
}

/* False: there is no memory. The time is that of the region's instructions. */
static bool region_find(struct lift *l, uint32_t first, struct region *r)
{
	struct sass_instr i;

	*r = (struct region){0};
	reach(l, r, first);
	for (uint32_t at = 0; at < r->size; at++)
		if (decode_at(l, r->list[at], &i))
			reach_next(l, r, &i);
	for (uint32_t at = 0; at < r->size; at++)
		l->reached[r->list[at]] = false;
	if (r->size)
		qsort(r->list, r->size, sizeof(*r->list), compare);
	l->no_memory |= r->failed;
	return !r->failed && !l->failed;
}

static void region_free(struct region *r)
{
	free(r->list);
}

/* Adds what a call of `first` would lift to `total`. False: it cannot be lifted in the place of the call. */
static bool plan(struct lift *l, uint32_t first, uint64_t *total)
{
	uint32_t count = count_of(l), target;
	struct region r;
	struct sass_instr i;
	bool good;

	if (l->depth == SASS_CALL_DEPTH)
		return false;
	good = region_find(l, first, &r);
	for (unsigned int n = 0; n < l->depth; n++)
		good &= l->calls_open[n].callee != first;
	*total += r.size;
	good &= *total <= (uint64_t)count * MOST_TIMES + MOST_MORE;
	l->calls_open[l->depth++].callee = first;
	for (uint32_t at = 0; at < r.size && good; at++) {
		uint32_t n = r.list[at];

		if (!decode_at(l, n, &i))
			continue;
		if (i.form->function == SASS_LIFT_CALL && i.a.kind)
			good = false;
		else if (callee_of(l, &i, &target))
			good = n + 1 < count && plan(l, target / SASS_BYTES, total);
	}
	l->depth--;
	region_free(&r);
	return good;
}

static void label(struct lift *l, uint32_t n)
{
	sass_text_add(&l->body, "$vcuda_L%u_%x:\n", instance_of(l), n * SASS_BYTES);
	forget_all_pairs(l);
	forget_members(l);
	if (l->converged[n])
		l->members = value_of("%%members");
}

/* The function of a section of its own that an instruction is in; NULL: the kernel. */
static const struct sass_part *part_at(const struct lift *l, uint32_t offset)
{
	uint32_t low = 0, high = l->function->part_count;

	while (low < high) {
		uint32_t middle = low + (high - low) / 2;

		if (l->function->parts[middle].place <= offset)
			low = middle + 1;
		else
			high = middle;
	}
	return low > 1 ? &l->function->parts[low - 1] : NULL;
}

/* As sass.h says. */
static void mark(struct lift *l, uint32_t offset)
{
	const struct sass_part *part = part_at(l, offset);
	const char *name = part ? part->name : is_callee(l) ? l->function->name : NULL;

	sass_text_add(&l->body, "\t// %x", part ? offset - part->place : offset);
	if (name)
		sass_text_add(&l->body, " %.99s", sass_is_name(name) ? name : "callee");
	sass_text_put(&l->body, "\n");
}

static bool lift_instructions(struct lift *l, uint32_t first, const uint32_t *list, uint32_t size)
{
	if (size && (list ? list[0] : 0) != first)
		webs_jump(l->webs, instance_of(l), first * SASS_BYTES);
	if (size && (list ? list[0] : 0) != first)
		sass_text_add(&l->body, "\tbra $vcuda_L%u_%x;\n", instance_of(l), first * SASS_BYTES);
	for (uint32_t at = 0; at < size; at++) {
		uint32_t n = list ? list[at] : at;

		if (l->target[n] || n == first)
			label(l, n);
		mark(l, n * SASS_BYTES);
		if (!lift_at(l, n))
			return false;
	}
	return true;
}

static bool lift_region(struct lift *l, uint32_t first)
{
	struct region r;
	bool good = region_find(l, first, &r) && lift_instructions(l, first, r.list, r.size);

	region_free(&r);
	return good;
}

/* A function that only does a common operation is short. */
#define COMMON_INSTRUCTIONS 64

/* Whether the function that begins there does a common operation, up to its first return or jump. */
static bool is_common(const struct lift *l, uint32_t first)
{
	struct sass_instr i;

	for (uint32_t n = first; n < count_of(l) && n - first < COMMON_INSTRUCTIONS && decode_at(l, n, &i); n++) {
		if (i.form->function == SASS_LIFT_SHFL || i.form->function == SASS_LIFT_VOTE ||
		    i.form->function == SASS_LIFT_MATCH || i.form->function == SASS_LIFT_REDUX)
			return true;
		if (!goes_on(&i))
			return false;
	}
	return false;
}

/*
 * Whether lanes may do a common operation from both sides of a branch. The compiler then calls a function for it, in
 * which the lanes meet, wherever they are not together. BRA.CONV around such a call is the sign: no lane that comes
 * there needs the result, so the call is made for lanes that come from elsewhere.
 */
static bool has_diverged_operations(struct lift *l)
{
	uint32_t target, furthest = 0; /* the end of what BRA.CONV so far jump over */
	struct sass_instr i;

	for (uint32_t n = 0; n < count_of(l); n++) {
		if (!decode_at(l, n, &i))
			continue;
		if (n < furthest && callee_of(l, &i, &target) && is_common(l, target / SASS_BYTES))
			return true;
		if (is_converged_jump(&i) && target_of(l, &i, &target) && target / SASS_BYTES > furthest)
			furthest = target / SASS_BYTES;
	}
	return false;
}

bool lift_body(struct lift *l)
{
	uint64_t total = 0;

	l->diverged_operations = has_diverged_operations(l);
	l->compares_returns = l->diverged_operations || !plan(l, 0, &total);
	l->depth = 0;
	if (l->no_memory)
		return false;
	if (is_callee(l))
		callee_begin(l);
	if (l->compares_returns)
		return lift_instructions(l, 0, NULL, count_of(l));
	return lift_region(l, 0);
}

unsigned int instance_of(const struct lift *l)
{
	return l->calls_open[l->depth].instance;
}

bool lift_callee(struct lift *l, struct value p, uint32_t target)
{
	struct sass_instr call = l->instr;
	uint32_t back = call.address + SASS_BYTES;
	bool good;

	if (l->compares_returns) {
		jump_if(l, p, target);
		return true;
	}
	if (!is_text(p, "%pt"))
		jump_if(l, compute_predicate(l, "not.pred", "%s", p.text), back);
	l->calls_open[l->depth++].back = back;
	l->calls_open[l->depth].instance = ++l->instances;
	good = lift_region(l, target / SASS_BYTES);
	l->depth--;
	l->instr = call;
	l->guard[0] = 0;
	return good;
}
