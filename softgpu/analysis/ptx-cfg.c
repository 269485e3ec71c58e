/* SPDX-License-Identifier: Apache-2.0 */
/* Basic blocks, and the order in which they run (see ptx-body.h for what the order promises). */
#include <string.h>

#include "analysis/ptx-body.h"
#include "front/ptx-opcodes.h"

/* Bounds the stack, also that of LLVM's passes over loops. */
#define MAX_LOOP_DEPTH 400

static bool no_memory(struct ptx_body *body)
{
	return ptx_body_fail(body, PTX_NO_MEMORY, 0, "`%s` needs too much memory to compile", body->function->name);
}

static bool is_barrier(const struct ptx_instr *i)
{
	return (i->op->flags & PTX_F_BARRIER) && !(i->mods & M(WARP));
}

/* Does it see what other threads write? A reduction gives nothing back, so no loop can wait with it. */
static bool sees_others(const struct ptx_instr *i)
{
	if (i->op->flags & PTX_F_LOAD)
		return i->mods & (M(VOLATILE) | M(ACQUIRE) | M(RELAXED));
	if (i->op->flags & PTX_F_WAIT)
		return true;
	return (i->op->flags & PTX_F_ATOM) && !(i->op->flags & PTX_F_STORE) && strcmp(i->op->name, "red");
}

/*
 * Whether another block that runs at the same time may see the instruction's effect or order. A program without such
 * instructions has no order to rely on. Among instructions with grammars of their own these are asynchronous copies,
 * barriers in memory and the control of grids, and for surfaces all accesses.
 */
static bool speaks_to_others(const struct ptx_instr *i)
{
	uint32_t flags = i->op->flags;

	if (i->op->family == PTX_FAMILY_FENCE || (flags & PTX_F_ATOM))
		return true;
	if ((flags & (PTX_F_WORDS | PTX_F_EFFECT | PTX_F_WARP)) == (PTX_F_WORDS | PTX_F_EFFECT))
		return true;
	if (flags & PTX_F_TEX)
		return !strncmp(i->op->name, "su", 2);
	return i->mods & (M(VOLATILE) | M(ACQUIRE) | M(RELEASE) | M(ACQ_REL) | M(RELAXED) | M(CV) | M(WT));
}

bool ptx_instr_reconverges(const struct ptx_instr *i)
{
	if (i->op->flags & PTX_F_BARRIER)
		return i->mods & M(WARP);
	return (i->op->flags & PTX_F_WARP) && ((i->op->flags & PTX_F_WORDS) || (i->mods & M(SYNC)));
}

static bool ends_block(const struct ptx_instr *i)
{
	return i->op->flags & (PTX_F_BRANCH | PTX_F_EXIT | PTX_F_RET);
}

/* An effect under a guard is in a block of its own, behind a branch on the guard. */
static bool is_guarded_effect(const struct ptx_instr *i)
{
	return i->guard >= 0 && (i->op->flags & PTX_F_EFFECT);
}

struct ptx_block *ptx_body_block(struct ptx_body *body, uint32_t first, uint32_t last)
{
	struct ptx_block *b =
		ptx_grow(&body->arena, (void **)&body->blocks, &body->block_count, &body->block_room, sizeof(*b));

	if (!b) {
		no_memory(body);
		return NULL;
	}
	b->first = first;
	b->last = last;
	b->condition = -1;
	b->succ[0] = b->succ[1] = PTX_NO_BLOCK;
	return b;
}

static void note_operand(struct ptx_body *body, const struct ptx_operand *o)
{
	if (o->kind == PTX_OP_SPECIAL)
		body->has_warp |= o->reg == PTX_LANEID || o->reg == PTX_WARPID ||
				  (o->reg >= PTX_MASK_EQ && o->reg <= PTX_MASK_GT);
	body->uses_dynamic_shared |= o->symbol && o->symbol->dynamic;
	for (unsigned e = 0; o->kind == PTX_OP_VECTOR && e < o->count; e++)
		note_operand(body, &o->elements[e]);
}

/* The function that it calls has the lanes of a warp. It may have barriers, and wait for other blocks. */
static bool calls_address(const struct ptx_instr *i)
{
	return (i->op->flags & PTX_F_CALL) && i->call && i->call->callee &&
	       ptx_external_find(i->call) == PTX_EXTERNAL_CALL_ADDRESS;
}

static void note_features(struct ptx_body *body, const struct ptx_instr *i)
{
	body->has_barrier |= is_barrier(i) || calls_address(i) || body->function->callee;
	body->has_waits |= calls_address(i);
	body->has_warp |= (i->op->flags & PTX_F_WARP) || (i->mods & M(WARP));
	body->has_signals |= speaks_to_others(i);
	for (unsigned n = 0; n < i->count; n++)
		note_operand(body, &i->ops[n]);
}

/* Cuts the list into blocks; successors are instruction numbers until link_blocks(). */
static bool cut_blocks(struct ptx_body *body, const bool *leader, uint32_t *block_at)
{
	uint32_t k = 0;

	while (k < body->instr_count) {
		const struct ptx_instr *i = &body->instrs[k];
		struct ptx_block *b;
		uint32_t last = k;

		block_at[k] = body->block_count;
		if (is_guarded_effect(i)) {
			b = ptx_body_block(body, k, k);
			if (!b)
				return false;
			b->condition = i->guard;
			b->negate = i->guard_negate;
			b->succ[0] = body->block_count | 1u << 31; /* the effect's own block, which comes next */
			b->succ[1] = k + 1;
			body->instrs[k].guard = -1;
		}
		do
			last++;
		while (last < body->instr_count && !leader[last]);
		b = ptx_body_block(body, k, last);
		if (!b)
			return false;
		i = &body->instrs[last - 1];
		b->barrier = is_barrier(&body->instrs[k]);
		b->reconverges = body->has_reconvergence && ptx_instr_reconverges(&body->instrs[k]);
		b->succ[0] = last;
		if (ends_block(i)) {
			b->last--;
			b->succ[0] = i->op->flags & PTX_F_BRANCH ? body->labels[i->ops[0].reg] : PTX_NO_BLOCK;
			b->condition = i->guard;
			b->negate = i->guard_negate;
			b->succ[1] = i->guard >= 0 ? last : PTX_NO_BLOCK;
		}
		k = last;
	}
	return true;
}

static void link_blocks(struct ptx_body *body, const uint32_t *block_at)
{
	for (uint32_t n = 0; n < body->block_count; n++)
		for (unsigned s = 0; s < 2; s++) {
			uint32_t *to = &body->blocks[n].succ[s];

			if (*to != PTX_NO_BLOCK && *to >> 31)
				*to &= ~(1u << 31);
			else if (*to != PTX_NO_BLOCK)
				*to = *to < body->instr_count ? block_at[*to] : PTX_NO_BLOCK;
		}
}

bool ptx_body_blocks(struct ptx_body *body)
{
	bool *leader = ptx_alloc(&body->arena, body->instr_count + 1);
	uint32_t *block_at = ptx_alloc(&body->arena, (body->instr_count + 1) * sizeof(*block_at));

	if (!leader || !block_at)
		return no_memory(body);
	for (uint32_t n = 0; n < body->label_count; n++)
		leader[body->labels[n]] = true;
	for (uint32_t k = 0; k < body->instr_count; k++)
		body->has_reconvergence |= sees_others(&body->instrs[k]);
	for (uint32_t k = 0; k < body->instr_count; k++) {
		const struct ptx_instr *i = &body->instrs[k];

		note_features(body, i);
		if (ends_block(i) || is_barrier(i) || is_guarded_effect(i))
			leader[k + 1] = true;
		if (is_barrier(i) || is_guarded_effect(i) || (body->has_reconvergence && ptx_instr_reconverges(i)))
			leader[k] = true;
	}
	if (!cut_blocks(body, leader, block_at))
		return false;
	if (!body->block_count && !ptx_body_block(body, 0, 0))
		return false;
	link_blocks(body, block_at);
	return true;
}

struct ordering {
	struct ptx_body *body;
	uint32_t *sequence, count; /* the result */
	uint32_t *region, regions; /* the region of each block */
	uint32_t *index, *low, *component, *stack, *cursor, *sorted, next_component;
	uint32_t *pred_at, *preds;
};

static uint32_t *numbers(struct ptx_body *body, size_t count)
{
	return ptx_alloc(&body->arena, (count + 1) * sizeof(uint32_t));
}

/* Tarjan's algorithm without recursion, inside one region; `out` gets the blocks component by component, last one
 * first. */
static void components(struct ordering *o, const uint32_t *nodes, uint32_t count, uint32_t region, uint32_t *out)
{
	struct ptx_block *blocks = o->body->blocks;
	uint32_t *walk = o->cursor, depth = 0, stacked = 0, clock = 0, done = 0;
	uint8_t *edge = (uint8_t *)(walk + 2 * o->body->block_room + 2);

	for (uint32_t n = 0; n < count; n++)
		o->index[nodes[n]] = 0, o->component[nodes[n]] = 0;
	for (uint32_t n = 0; n < count; n++) {
		if (o->index[nodes[n]])
			continue;
		walk[depth] = nodes[n];
		edge[depth++] = 0;
		while (depth) {
			uint32_t v = walk[depth - 1];

			if (!edge[depth - 1]) {
				o->index[v] = o->low[v] = ++clock;
				o->stack[stacked++] = v;
			}
			if (edge[depth - 1] < 2) {
				uint32_t w = blocks[v].succ[edge[depth - 1]++];

				if (w == PTX_NO_BLOCK || o->region[w] != region)
					continue;
				if (!o->index[w]) {
					walk[depth] = w;
					edge[depth++] = 0;
				} else if (!o->component[w] && o->index[w] < o->low[v]) {
					o->low[v] = o->index[w];
				}
				continue;
			}
			depth--;
			if (depth && o->low[v] < o->low[walk[depth - 1]])
				o->low[walk[depth - 1]] = o->low[v];
			if (o->low[v] == o->index[v]) {
				uint32_t w;

				o->next_component++;
				do {
					w = o->stack[--stacked];
					o->component[w] = o->next_component;
					out[done++] = w;
				} while (w != v);
			}
		}
	}
}

/*
 * A block through which threads enter the loop. If there are several, the header is the one that most ways inside the
 * loop lead to. A function that many places of a kernel call is such a block: few loops remain without it.
 */
static uint32_t pick_header(struct ordering *o, const uint32_t *nodes, uint32_t count)
{
	uint32_t header = nodes[0], entries = 0, most = 0, c = o->component[nodes[0]];

	for (uint32_t n = 0; n < count; n++) {
		uint32_t first = o->pred_at[nodes[n]], end = o->pred_at[nodes[n] + 1], inside = 0;

		for (uint32_t e = first; e < end; e++)
			inside += o->component[o->preds[e]] == c;
		if (nodes[n] && inside == end - first)
			continue;
		if (!entries++ || inside > most || (inside == most && nodes[n] < header)) {
			header = nodes[n];
			most = inside;
		}
	}
	o->body->irreducible |= entries > 1;
	return header;
}

static bool order_region(struct ordering *o, uint32_t *nodes, uint32_t count, unsigned depth);

/* Changes `nodes`. */
static bool order_loop(struct ordering *o, uint32_t *nodes, uint32_t count, unsigned depth)
{
	struct ptx_body *body = o->body;
	uint32_t header = pick_header(o, nodes, count), latch = PTX_NO_BLOCK, back = 0, inner = 0;

	for (uint32_t n = 0; n < count; n++) {
		back += body->blocks[nodes[n]].succ[0] == header;
		back += body->blocks[nodes[n]].succ[1] == header;
	}
	o->sequence[o->count++] = header;
	if (back > 1) {
		struct ptx_block *b = ptx_body_block(body, 0, 0);

		if (!b)
			return false;
		latch = body->block_count - 1;
		b->succ[0] = header;
		for (uint32_t n = 0; n < count; n++)
			for (unsigned s = 0; s < 2; s++)
				if (body->blocks[nodes[n]].succ[s] == header)
					body->blocks[nodes[n]].succ[s] = latch;
	}
	for (uint32_t n = 0; n < count; n++)
		if (nodes[n] != header)
			nodes[inner++] = nodes[n];
	if (latch != PTX_NO_BLOCK && inner)
		nodes[inner++] = latch;
	else if (latch != PTX_NO_BLOCK)
		o->sequence[o->count++] = latch;
	o->region[header] = 0;
	return !inner || order_region(o, nodes, inner, depth + 1);
}

/* Sorts `nodes`, and changes it. */
static bool order_region(struct ordering *o, uint32_t *nodes, uint32_t count, unsigned depth)
{
	uint32_t region = ++o->regions, end = count;

	if (depth > MAX_LOOP_DEPTH)
		return ptx_body_fail(o->body, PTX_NOT_SUPPORTED, 0, "`%s`: loops are nested too deeply",
				     o->body->function->name);
	for (uint32_t n = 0; n < count; n++)
		o->region[nodes[n]] = region;
	components(o, nodes, count, region, o->sorted);
	memcpy(nodes, o->sorted, count * sizeof(*nodes));
	/* the graph of components is finished: inner regions may reuse the marks of their own blocks */
	while (end) {
		uint32_t start = end - 1;
		const struct ptx_block *b = &o->body->blocks[nodes[start]];

		while (start && o->component[nodes[start - 1]] == o->component[nodes[end - 1]])
			start--;
		if (end - start == 1 && b->succ[0] != nodes[start] && b->succ[1] != nodes[start])
			o->sequence[o->count++] = nodes[start];
		else if (!order_loop(o, nodes + start, end - start, depth))
			return false;
		end = start;
	}
	return true;
}

static bool find_preds(struct ptx_body *body, uint32_t **at, uint32_t **preds)
{
	uint32_t n = body->block_count;

	*at = numbers(body, n + 1);
	*preds = numbers(body, 2 * (size_t)n);
	if (!*at || !*preds)
		return no_memory(body);
	for (int pass = 0; pass < 2; pass++) {
		for (uint32_t b = 0; b < n; b++)
			for (unsigned s = 0; s < 2; s++) {
				uint32_t to = body->blocks[b].succ[s];

				if (to == PTX_NO_BLOCK)
					continue;
				if (pass)
					(*preds)[--(*at)[to]] = b;
				else
					(*at)[to]++;
			}
		if (!pass)
			for (uint32_t b = 1; b <= n; b++)
				(*at)[b] += (*at)[b - 1];
	}
	return true;
}

static uint32_t reach(struct ptx_body *body, uint32_t *nodes)
{
	bool *seen = ptx_alloc(&body->arena, body->block_count);
	uint32_t count = 0;

	if (!seen)
		return 0;
	seen[0] = true;
	nodes[count++] = 0;
	for (uint32_t n = 0; n < count; n++)
		for (unsigned s = 0; s < 2; s++) {
			uint32_t to = body->blocks[nodes[n]].succ[s];

			if (to != PTX_NO_BLOCK && !seen[to]) {
				seen[to] = true;
				nodes[count++] = to;
			}
		}
	return count;
}

static bool renumber(struct ptx_body *body, const uint32_t *sequence, uint32_t count)
{
	struct ptx_block *blocks = ptx_alloc(&body->arena, (count + 1) * sizeof(*blocks));
	uint32_t *number = numbers(body, body->block_count);

	if (!blocks || !number)
		return no_memory(body);
	for (uint32_t n = 0; n < count; n++)
		number[sequence[n]] = n;
	for (uint32_t n = 0; n < count; n++) {
		blocks[n] = body->blocks[sequence[n]];
		for (unsigned s = 0; s < 2; s++)
			if (blocks[n].succ[s] != PTX_NO_BLOCK)
				blocks[n].succ[s] = number[blocks[n].succ[s]];
		/* a branch whose ways are the same is none */
		if (blocks[n].succ[0] == blocks[n].succ[1])
			blocks[n].condition = -1;
		if (blocks[n].condition < 0)
			blocks[n].succ[1] = PTX_NO_BLOCK;
	}
	body->blocks = blocks;
	body->block_count = body->block_room = count;
	return true;
}

struct postdom {
	uint32_t *number, *idom, exit;
};

static uint32_t intersect(const struct postdom *d, uint32_t a, uint32_t b)
{
	while (a != b) {
		while (d->number[a] < d->number[b])
			a = d->idom[a];
		while (d->number[b] < d->number[a])
			b = d->idom[b];
	}
	return a;
}

/* The blocks in postorder of a walk against the edges, from the ends of threads on; returns how many there are. */
static uint32_t reverse_order(struct ptx_body *body, struct postdom *d, const uint32_t *at, const uint32_t *preds,
			      uint32_t *order, uint32_t *walk)
{
	uint32_t n = body->block_count, *edge = walk + n + 1, count = 0, depth = 0;

	for (uint32_t from = 0; from < n; from++) {
		const struct ptx_block *b = &body->blocks[from];

		if (b->succ[0] != PTX_NO_BLOCK && (b->condition < 0 || b->succ[1] != PTX_NO_BLOCK))
			continue;
		if (d->number[from])
			continue;
		d->number[from] = 1;
		walk[depth] = from;
		edge[depth++] = at[from];
		while (depth) {
			uint32_t v = walk[depth - 1];

			if (edge[depth - 1] < at[v + 1]) {
				uint32_t w = preds[edge[depth - 1]++];

				if (!d->number[w]) {
					d->number[w] = 1;
					walk[depth] = w;
					edge[depth++] = at[w];
				}
			} else {
				order[count++] = v;
				depth--;
			}
		}
	}
	return count;
}

/* Immediate post-dominators: dominators of the reversed graph, from a virtual exit that all ends lead to. */
static bool post_dominators(struct ptx_body *body)
{
	uint32_t n = body->block_count, *at, *preds, *order = numbers(body, n + 1), count;
	uint32_t *walk = numbers(body, 2 * (size_t)n + 2);
	struct postdom d = {numbers(body, n + 1), numbers(body, n + 1), n};
	bool changed = true;

	if (!order || !walk || !d.number || !d.idom || !find_preds(body, &at, &preds))
		return no_memory(body);
	for (uint32_t b = 0; b <= n; b++)
		d.idom[b] = PTX_NO_BLOCK;
	count = reverse_order(body, &d, at, preds, order, walk);
	for (uint32_t k = 0; k < count; k++)
		d.number[order[k]] = k + 1;
	d.number[n] = count + 1;
	d.idom[n] = n;
	while (changed) {
		changed = false;
		for (uint32_t k = count; k--;) {
			const struct ptx_block *b = &body->blocks[order[k]];
			uint32_t best = PTX_NO_BLOCK;

			for (unsigned s = 0; s < (b->condition < 0 ? 1u : 2u); s++) {
				uint32_t to = b->succ[s] == PTX_NO_BLOCK ? n : b->succ[s];

				if (d.idom[to] != PTX_NO_BLOCK)
					best = best == PTX_NO_BLOCK ? to : intersect(&d, best, to);
			}
			if (best != d.idom[order[k]]) {
				d.idom[order[k]] = best;
				changed = true;
			}
		}
	}
	for (uint32_t b = 0; b < n; b++)
		body->blocks[b].ipdom = d.idom[b] == n ? PTX_NO_BLOCK : d.idom[b];
	return true;
}

/* Loops are contiguous: a branch back closes one. */
static void mark_waits(struct ptx_body *body)
{
	for (uint32_t n = 0; n < body->block_count; n++) {
		const struct ptx_block *b = &body->blocks[n];
		uint32_t header = b->succ[0] < b->succ[1] ? b->succ[0] : b->succ[1];
		bool waits = false;

		if (header > n)
			continue;
		for (uint32_t k = header; k <= n; k++)
			for (uint32_t at = body->blocks[k].first; at < body->blocks[k].last; at++)
				waits |= sees_others(&body->instrs[at]);
		for (uint32_t k = header; k <= n && waits; k++)
			body->blocks[k].waits = true;
		body->has_waits |= waits;
	}
	body->has_reconvergence = (body->has_reconvergence && body->has_waits) || body->misses;
}

static bool order_blocks(struct ptx_body *body)
{
	struct ordering o = {.body = body};
	size_t most = 2 * (size_t)body->block_count + 2;
	uint32_t *nodes = numbers(body, most), count;

	o.sequence = numbers(body, most);
	o.region = numbers(body, most);
	o.index = numbers(body, most);
	o.low = numbers(body, most);
	o.component = numbers(body, most);
	o.stack = numbers(body, most);
	o.sorted = numbers(body, most);
	o.cursor = numbers(body, 4 * most + 4 * (size_t)body->block_room);
	if (!nodes || !o.sequence || !o.region || !o.index || !o.low || !o.component || !o.stack || !o.sorted ||
	    !o.cursor || !find_preds(body, &o.pred_at, &o.preds))
		return no_memory(body);
	count = reach(body, nodes);
	if (!count)
		return no_memory(body);
	return order_region(&o, nodes, count, 0) && renumber(body, o.sequence, o.count) && post_dominators(body);
}

bool ptx_body_order(struct ptx_body *body)
{
	uint32_t blocks;

	do {
		if (!order_blocks(body))
			return false;
		blocks = body->block_count;
		if (!ptx_body_reconverge(body))
			return false;
	} while (body->block_count > blocks);
	mark_waits(body);
	return true;
}
