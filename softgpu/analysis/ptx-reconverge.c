/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Shuffles whose lanes could miss one another. In a masked version the lanes in the lowest block run first, so lanes
 * mostly are together again where their ways meet, and a shuffle finds all of them. Not so in a
 * loop that is left, and gone round, from a block in its middle:
 *
 *	loop:	if (a) { ...; continue; }
 *		shuffle;
 *		if (b) continue;
 *
 * All ways lead through the shuffle, but a lane that takes the first one closes the loop behind it. Such a shuffle
 * begins a block of its own, where lanes wait for those that it names.
 */
#include "analysis/ptx-body.h"

struct walk {
	uint32_t *stack, *seen, stamp;
};

/* The last in running order of the blocks between a branch and its post-dominator. */
static uint32_t last_between(const struct ptx_body *body, const struct ptx_block *branch, struct walk *w)
{
	uint32_t count = 0, last = 0;

	w->stamp++;
	for (unsigned s = 0; s < 2; s++)
		if (branch->succ[s] != PTX_NO_BLOCK && branch->succ[s] != branch->ipdom)
			w->stack[count++] = branch->succ[s];
	while (count) {
		uint32_t n = w->stack[--count];

		if (w->seen[n] == w->stamp)
			continue;
		w->seen[n] = w->stamp;
		last = n > last ? n : last;
		for (unsigned s = 0; s < 2; s++)
			if (body->blocks[n].succ[s] != PTX_NO_BLOCK && body->blocks[n].succ[s] != branch->ipdom)
				w->stack[count++] = body->blocks[n].succ[s];
	}
	return last;
}

/* Cuts a block so that each meeting is the first of its block. */
static bool cut(struct ptx_body *body, uint32_t n)
{
	body->blocks[n].reconverges |=
		body->blocks[n].first < body->blocks[n].last && ptx_instr_reconverges(&body->instrs[body->blocks[n].first]);
	for (uint32_t k = body->blocks[n].first + 1; k < body->blocks[n].last; k++) {
		struct ptx_block *rest, *b;

		if (!ptx_instr_reconverges(&body->instrs[k]))
			continue;
		rest = ptx_body_block(body, k, body->blocks[n].last);
		if (!rest)
			return false;
		b = &body->blocks[n];
		rest->condition = b->condition;
		rest->negate = b->negate;
		rest->succ[0] = b->succ[0];
		rest->succ[1] = b->succ[1];
		rest->reconverges = true;
		b->last = k;
		b->condition = -1;
		b->succ[0] = n = body->block_count - 1;
		b->succ[1] = PTX_NO_BLOCK;
	}
	return true;
}

static bool any_meeting(const struct ptx_body *body)
{
	for (uint32_t k = 0; k < body->instr_count; k++)
		if (ptx_instr_reconverges(&body->instrs[k]))
			return true;
	return false;
}

bool ptx_body_reconverge(struct ptx_body *body)
{
	uint32_t blocks = body->block_count, behind = 0;
	struct walk w = {.stamp = 0};
	uint32_t *ends;

	if (!any_meeting(body))
		return true;
	/* each block is pushed by its predecessors, of which there are two a block at most, and two more */
	w.stack = ptx_alloc(&body->arena, (2 * (size_t)blocks + 2) * sizeof(*w.stack));
	w.seen = ptx_alloc(&body->arena, (blocks + 1) * sizeof(*w.seen));
	ends = ptx_alloc(&body->arena, (blocks + 1) * sizeof(*ends));
	if (!w.stack || !w.seen || !ends)
		return ptx_body_fail(body, PTX_NO_MEMORY, 0, "`%s` needs too much memory to compile",
				     body->function->name);
	for (uint32_t n = 0; n < blocks; n++) {
		const struct ptx_block *b = &body->blocks[n];
		uint32_t last;

		if (b->condition < 0 || b->ipdom == PTX_NO_BLOCK)
			continue;
		last = last_between(body, b, &w);
		if (last > b->ipdom && last >= ends[b->ipdom])
			ends[b->ipdom] = last + 1;
	}
	/* the graph has ways back to calls that a lane has not made, so what it says about meeting again is too little */
	if (body->subroutine_count || body->function->reconverges)
		behind = UINT32_MAX;
	for (uint32_t n = 0; n < blocks; n++) {
		uint32_t before = body->block_count;

		behind = ends[n] > behind ? ends[n] : behind;
		if (n >= behind)
			continue;
		if (!cut(body, n))
			return false;
		body->misses |= body->blocks[n].reconverges || body->block_count > before;
	}
	return true;
}
