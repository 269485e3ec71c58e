/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A use belongs to the definitions that reach it. Within a block that is the last one. A block has a node for each
 * register that is live at its begin, and all ways into the block make the value that they bring one with that node.
 */
#include "sass/lift/web.h"

#include <stdlib.h>
#include <string.h>

#include "sass/cubin/memory.h"

#define WORDS ((WEB_REGISTERS + 63) / 64)
#define MAX_NODES (1u << 26)

struct access {
	uint16_t reg;
	bool write, partial;
	bool paired;      /* a read of this register and the next one */
	bool torn;        /* the same, where one half of a pair may be written, and the other one is not yet */
	uint32_t node;    /* and at last the number of the web */
	uint32_t partner; /* the write of a pair's other half, from 1; 0: there is none */
};

struct jump {
	uint32_t from, instance, address, to; /* from and to: points */
};

struct point {
	uint32_t instance, address;
	uint32_t first_access, first_jump;
	bool ends, leads; /* the next one does not follow; a block begins */
};

struct webs {
	struct point *points;
	struct access *accesses;
	struct jump *jumps;
	uint32_t point_count, access_count, jump_count;
	size_t point_room, access_room, jump_room;
	bool failed, no_memory, made;
	uint32_t at, next;       /* the point and the next access, once the webs are made */
	uint64_t (*live)[WORDS]; /* at the begin of each point */
	uint32_t *parent, node_count;
	uint32_t *block; /* by point: the first node of its block */
	uint32_t counts[WEB_REGISTERS];
	uint32_t last_read[WEB_REGISTERS],
		last_write[WEB_REGISTERS]; /* accesses, from 1; once the webs are made, webs */
	uint32_t first[WEB_REGISTERS];     /* the place of a register's webs in the list of pairs */
	struct pair_web *pairs;
};

/* A web as a half of pairs. */
struct pair_web {
	uint32_t other; /* the web of the other half, from 1; 0: none */
	bool is_low, is_read, is_mixed;
};

struct webs *webs_create(void)
{
	return sass_allocate(1, sizeof(struct webs));
}

void webs_free(struct webs *w)
{
	if (!w)
		return;
	free(w->points);
	free(w->accesses);
	free(w->jumps);
	free(w->live);
	free(w->parent);
	free(w->block);
	free(w->pairs);
	free(w);
}

/* Zeroes. */
static void *allocate(struct webs *w, uint64_t count, size_t size)
{
	void *list = sass_allocate(count, size);

	w->no_memory |= !list;
	return list;
}

static void *grow(struct webs *w, void *list, uint32_t count, size_t *room, size_t size)
{
	void *bigger;

	if (count < *room)
		return list;
	bigger = count < UINT32_MAX / 2 ? sass_reallocate(list, *room ? *room * 2 : 256, size) : NULL;
	w->failed |= !bigger;
	w->no_memory |= !bigger && count < UINT32_MAX / 2;
	if (!bigger)
		return list;
	*room = *room ? *room * 2 : 256;
	return bigger;
}

void webs_begin(struct webs *w, unsigned int instance, uint32_t address)
{
	if (w->made) {
		w->at++;
		return;
	}
	w->points = grow(w, w->points, w->point_count + 1, &w->point_room, sizeof(*w->points));
	if (!w->failed)
		w->points[w->point_count++] = (struct point){.instance = instance,
							     .address = address,
							     .first_access = w->access_count,
							     .first_jump = w->jump_count};
}

void webs_jump(struct webs *w, unsigned int instance, uint32_t address)
{
	if (w->made || !w->point_count)
		return;
	w->jumps = grow(w, w->jumps, w->jump_count, &w->jump_room, sizeof(*w->jumps));
	if (!w->failed)
		w->jumps[w->jump_count++] =
			(struct jump){.from = w->point_count - 1, .instance = instance, .address = address};
}

void webs_end(struct webs *w)
{
	if (!w->made && w->point_count)
		w->points[w->point_count - 1].ends = true;
}

static uint32_t note(struct webs *w, unsigned int reg, bool write, bool partial)
{
	if (w->made) {
		const struct access *a = &w->accesses[w->next];

		if (w->next < w->access_count && a->reg == reg && a->write == write) {
			w->next++;
			(write ? w->last_write : w->last_read)[reg] = a->node;
			return a->node;
		}
		w->failed = true;
		return 0;
	}
	w->accesses = grow(w, w->accesses, w->access_count, &w->access_room, sizeof(*w->accesses));
	if (!w->failed)
		w->accesses[w->access_count++] =
			(struct access){.reg = (uint16_t)reg, .write = write, .partial = partial};
	(write ? w->last_write : w->last_read)[reg] = w->access_count;
	return 0;
}

uint32_t webs_read(struct webs *w, unsigned int reg)
{
	return note(w, reg, false, false);
}

uint32_t webs_write(struct webs *w, unsigned int reg, bool partial)
{
	return note(w, reg, true, partial);
}

uint32_t webs_count(const struct webs *w, unsigned int reg)
{
	return w->counts[reg];
}

/* ---- the graph ---- */

static uint32_t accesses_end(const struct webs *w, uint32_t point)
{
	return point + 1 < w->point_count ? w->points[point + 1].first_access : w->access_count;
}

static uint32_t jumps_end(const struct webs *w, uint32_t point)
{
	return point + 1 < w->point_count ? w->points[point + 1].first_jump : w->jump_count;
}

struct place {
	uint32_t instance, address, point;
};

static int compare(const void *a, const void *b)
{
	const struct place *x = a, *y = b;

	if (x->instance != y->instance)
		return x->instance < y->instance ? -1 : 1;
	return (x->address > y->address) - (x->address < y->address);
}

/* Where jumps lead, and where blocks begin. */
static bool resolve(struct webs *w)
{
	struct place *places = allocate(w, w->point_count + 1u, sizeof(*places));
	bool good = places;

	for (uint32_t n = 0; n < w->point_count && good; n++)
		places[n] = (struct place){w->points[n].instance, w->points[n].address, n};
	if (good)
		qsort(places, w->point_count, sizeof(*places), compare);
	for (uint32_t n = 0; n < w->jump_count && good; n++) {
		struct place wanted = {w->jumps[n].instance, w->jumps[n].address, 0}, *found;

		found = bsearch(&wanted, places, w->point_count, sizeof(*places), compare);
		good = found;
		if (!found)
			break;
		w->jumps[n].to = found->point;
		w->points[found->point].leads = true;
		if (w->jumps[n].from + 1 < w->point_count)
			w->points[w->jumps[n].from + 1].leads = true;
	}
	for (uint32_t n = 0; n < w->point_count && good; n++)
		if (!n || w->points[n - 1].ends)
			w->points[n].leads = true;
	free(places);
	return good;
}

/* ---- liveness ---- */

static void add(uint64_t *to, const uint64_t *from)
{
	for (unsigned int n = 0; n < WORDS; n++)
		to[n] |= from[n];
}

static bool update(struct webs *w, uint32_t point)
{
	const struct point *p = &w->points[point];
	uint64_t live[WORDS] = {0};

	if (!p->ends && point + 1 < w->point_count)
		add(live, w->live[point + 1]);
	for (uint32_t n = p->first_jump; n < jumps_end(w, point); n++)
		add(live, w->live[w->jumps[n].to]);
	for (uint32_t n = p->first_access; n < accesses_end(w, point); n++)
		if (w->accesses[n].write && !w->accesses[n].partial)
			live[w->accesses[n].reg / 64] &= ~(UINT64_C(1) << w->accesses[n].reg % 64);
	for (uint32_t n = p->first_access; n < accesses_end(w, point); n++)
		if (!w->accesses[n].write || w->accesses[n].partial)
			live[w->accesses[n].reg / 64] |= UINT64_C(1) << w->accesses[n].reg % 64;
	if (!memcmp(live, w->live[point], sizeof(live)))
		return false;
	memcpy(w->live[point], live, sizeof(live));
	return true;
}

static bool find_live(struct webs *w)
{
	bool changed = true;

	w->live = allocate(w, w->point_count + 1u, sizeof(*w->live));
	if (!w->live)
		return false;
	while (changed) {
		changed = false;
		for (uint32_t n = w->point_count; n--;)
			changed |= update(w, n);
	}
	return true;
}

/* ---- webs ---- */

static uint32_t root(struct webs *w, uint32_t node)
{
	while (w->parent[node] != node) {
		w->parent[node] = w->parent[w->parent[node]];
		node = w->parent[node];
	}
	return node;
}

static void join(struct webs *w, uint32_t a, uint32_t b)
{
	a = root(w, a);
	b = root(w, b);
	w->parent[a > b ? a : b] = a > b ? b : a;
}

static bool make_nodes(struct webs *w)
{
	uint64_t blocks = 0, nodes;

	w->block = allocate(w, w->point_count + 1u, sizeof(*w->block));
	for (uint32_t n = 0; n < w->point_count && w->block; n++) {
		blocks += w->points[n].leads;
		w->block[n] = (uint32_t)(blocks - 1) * WEB_REGISTERS;
	}
	nodes = blocks * WEB_REGISTERS + w->access_count;
	w->parent = w->block && nodes < MAX_NODES ? allocate(w, nodes + 1, sizeof(*w->parent)) : NULL;
	for (uint32_t n = 0; n < nodes && w->parent; n++)
		w->parent[n] = n;
	w->node_count = (uint32_t)(blocks * WEB_REGISTERS);
	return w->parent;
}

/* The values that are in registers reach another block. */
static void reach(struct webs *w, const uint32_t *values, uint32_t to)
{
	for (unsigned int n = 0; n < WORDS; n++)
		for (uint64_t live = w->live[to][n]; live; live &= live - 1) {
			unsigned int reg = n * 64 + (unsigned int)__builtin_ctzll(live);

			join(w, values[reg], w->block[to] + reg);
		}
}

static void access_all(struct webs *w, uint32_t point, uint32_t *values)
{
	uint32_t first = w->points[point].first_access, end = accesses_end(w, point);

	for (uint32_t n = first; n < end; n++)
		if (!w->accesses[n].write)
			w->accesses[n].node = values[w->accesses[n].reg];
	for (uint32_t n = first; n < end; n++) {
		struct access *a = &w->accesses[n];
		bool again = false;

		if (!a->write)
			continue;
		/* an instruction that writes twice writes one value */
		for (uint32_t k = first; k < n && !again; k++)
			again = w->accesses[k].write && w->accesses[k].reg == a->reg;
		if (!a->partial && !again)
			values[a->reg] = w->node_count++;
		a->node = values[a->reg];
	}
}

static void walk(struct webs *w)
{
	uint32_t values[WEB_REGISTERS];

	for (uint32_t n = 0; n < w->point_count; n++) {
		if (w->points[n].leads)
			for (unsigned int reg = 0; reg < WEB_REGISTERS; reg++)
				values[reg] = w->block[n] + reg;
		access_all(w, n, values);
		for (uint32_t k = w->points[n].first_jump; k < jumps_end(w, n); k++)
			reach(w, values, w->jumps[k].to);
		if (!w->points[n].ends && n + 1 < w->point_count && w->points[n + 1].leads)
			reach(w, values, n + 1);
	}
}

/* Roots become numbers from 0 for each register. */
static bool number(struct webs *w)
{
	uint32_t *numbers = allocate(w, w->node_count + 1u, sizeof(*numbers));

	if (!numbers)
		return false;
	memset(numbers, 0xff, (w->node_count + 1u) * sizeof(*numbers));
	for (uint32_t n = 0; n < w->access_count; n++) {
		struct access *a = &w->accesses[n];
		uint32_t *to = &numbers[root(w, a->node)];

		if (*to == UINT32_MAX)
			*to = w->counts[a->reg]++;
		a->node = *to;
	}
	free(numbers);
	return true;
}

/* ---- pairs ---- */

static void note_write(struct webs *w, const struct access *a)
{
	const struct access *b = a->partner ? &w->accesses[a->partner - 1] : NULL;
	struct pair_web *web = &w->pairs[w->first[a->reg] + a->node];
	bool is_low = b && b->reg == a->reg + 1;

	if (!b || a->partial || (web->other && (web->other != b->node + 1 || web->is_low != is_low)))
		web->is_mixed = true;
	if (!b)
		return;
	web->other = b->node + 1;
	web->is_low = is_low;
}

static bool find_pairs(struct webs *w)
{
	uint32_t count = 0;

	for (unsigned int reg = 0; reg < WEB_REGISTERS; reg++) {
		w->first[reg] = count;
		count += w->counts[reg];
	}
	w->pairs = allocate(w, count + WEB_REGISTERS, sizeof(*w->pairs));
	for (uint32_t n = 0; n < w->access_count && w->pairs; n++) {
		const struct access *a = &w->accesses[n];

		if (a->write) {
			note_write(w, a);
		} else if (a->paired) {
			w->pairs[w->first[a->reg] + a->node].is_read = true;
			w->pairs[w->first[a->reg] + a->node].is_mixed |= a->torn;
		}
	}
	return w->pairs;
}

bool webs_make(struct webs *w)
{
	if (w->failed || !resolve(w) || !find_live(w) || !make_nodes(w))
		return false;
	walk(w);
	w->made = number(w) && find_pairs(w);
	return w->made;
}

static bool is_pair(const struct webs *w, unsigned int reg, uint32_t low, uint32_t high)
{
	const struct pair_web *a = &w->pairs[w->first[reg] + low], *b = &w->pairs[w->first[reg + 1] + high];

	return low < w->counts[reg] && high < w->counts[reg + 1] && a->is_low && a->is_read && !a->is_mixed &&
	       !b->is_mixed && a->other == high + 1 && b->other == low + 1;
}

bool webs_write_pair(struct webs *w, unsigned int reg, uint32_t *number)
{
	uint32_t low = w->last_write[reg], high = w->last_write[reg + 1];

	*number = low;
	if (w->made)
		return is_pair(w, reg, low, high);
	if (!w->failed && low && high) {
		w->accesses[low - 1].partner = high;
		w->accesses[high - 1].partner = low;
	}
	return false;
}

bool webs_read_pair(struct webs *w, unsigned int reg, uint32_t *number)
{
	uint32_t low = w->last_read[reg], high = w->last_read[reg + 1];

	*number = low;
	if (w->made)
		return is_pair(w, reg, low, high);
	if (!w->failed && low) {
		uint32_t write = w->last_write[reg];

		w->accesses[low - 1].paired = true;
		w->accesses[low - 1].torn = write && !w->accesses[write - 1].partner;
	}
	return false;
}

bool webs_has_pairs(const struct webs *w, unsigned int reg)
{
	bool found = false;

	for (uint32_t n = 0; n < w->counts[reg] && !found; n++) {
		const struct pair_web *a = &w->pairs[w->first[reg] + n];

		found = a->is_low && a->other && is_pair(w, reg, n, a->other - 1);
	}
	return found;
}

bool webs_no_memory(const struct webs *w)
{
	return w->no_memory;
}

bool webs_differ(const struct webs *w)
{
	return w->made && w->failed;
}
