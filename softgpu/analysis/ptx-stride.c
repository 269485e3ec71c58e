/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Loops that stride through memory: for (i = thread; i < n; i += threads of the grid). A warp that runs such a loop to
 * its end touches 128 bytes here and there, one after the other a megabyte apart, which no processor's prefetching
 * follows and whose lines share few places in its caches. Warps of the block that take turns, one round each, go
 * through whole pages together, and so do a few blocks (ptx-run.c). Measured: a triad of 16 Mi elements takes 29 ms one
 * way and 12 the other.
 *
 * This file finds the loops; ptx-lower-stride.c makes the turns.
 */
#include "analysis/ptx-body.h"

struct search {
	int32_t reg;
	bool found;
};

static void touches(void *data, int32_t reg)
{
	struct search *s = data;

	s->found |= reg == s->reg;
}

static bool defines(const struct ptx_body *body, const struct ptx_instr *i, int32_t reg)
{
	struct search s = {reg, false};

	ptx_instr_defs(body, i, touches, &s);
	return s.found;
}

static bool is_small_step(const struct ptx_instr *i, int32_t reg)
{
	const struct ptx_operand *a = &i->ops[1], *b = &i->ops[2];

	return i->op->shape == PTX_SHAPE_ADD && i->count == 3 && a->kind == PTX_OP_REG && a->reg == reg &&
	       b->kind == PTX_OP_INT && b->imm + PTX_FAR_STEP <= 2 * PTX_FAR_STEP;
}

bool ptx_body_moves(const struct ptx_body *body, uint32_t from, uint32_t to, int32_t reg)
{
	for (uint32_t k = from; k < to; k++)
		if (defines(body, &body->instrs[k], reg) && !is_small_step(&body->instrs[k], reg))
			return true;
	return false;
}

static bool is_in_order(const struct ptx_body *body, const struct ptx_instr *i)
{
	const struct ptx_operand *o;

	if (!(i->op->flags & (PTX_F_LOAD | PTX_F_STORE)) || (i->op->flags & PTX_F_ATOM))
		return false;
	o = &i->ops[i->op->flags & PTX_F_NO_DST ? 0 : 1];
	return o->kind == PTX_OP_MEM && o->reg >= 0 && body->shapes[o->reg].kind == PTX_OFFSETS &&
	       (i->space == PTX_GLOBAL || i->space == PTX_GENERIC);
}

/* An access of the loop that ends in block `latch`, and of no loop in it. */
static uint32_t find_access(const struct ptx_body *body, uint32_t header, uint32_t latch)
{
	uint32_t from = body->blocks[header].first, to = body->blocks[latch].last;

	for (uint32_t n = header; n <= latch; n++)
		for (uint32_t k = body->blocks[n].first; body->blocks[n].latch == latch && k < body->blocks[n].last;
		     k++)
			if (is_in_order(body, &body->instrs[k]) &&
			    ptx_body_moves(body, from, to,
					   body->instrs[k].ops[body->instrs[k].op->flags & PTX_F_NO_DST ? 0 : 1].reg))
				return k;
	return PTX_NO_INSTR;
}

/* ---- loops that look again ---- */

/* A loop that waits has few instructions. */
#define FEW 64

static bool is_defined_in(const struct ptx_body *body, uint32_t header, uint32_t latch, int32_t reg)
{
	for (uint32_t n = header; reg >= 0 && n <= latch; n++)
		for (uint32_t k = body->blocks[n].first; k < body->blocks[n].last; k++)
			if (defines(body, &body->instrs[k], reg))
				return true;
	return false;
}

static bool is_short(const struct ptx_body *body, uint32_t header, uint32_t latch)
{
	uint32_t count = 0;

	for (uint32_t n = header; n <= latch && count <= FEW; n++)
		count += body->blocks[n].last - body->blocks[n].first;
	return count <= FEW;
}

/*
 * A loop that reads the same words each round, and writes none, may wait for an earlier block without any order of its
 * accesses. No program may count on that, but it ends if that block has.
 */
static bool looks_again(const struct ptx_body *body, uint32_t header, uint32_t latch)
{
	bool found = false;

	if (!is_short(body, header, latch))
		return false;
	for (uint32_t n = header; n <= latch; n++)
		for (uint32_t k = body->blocks[n].first; k < body->blocks[n].last; k++) {
			const struct ptx_instr *i = &body->instrs[k];

			if (i->op->flags & PTX_F_STORE)
				return false;
			if (!(i->op->flags & PTX_F_LOAD) || (i->space != PTX_GLOBAL && i->space != PTX_GENERIC))
				continue;
			if (i->ops[1].kind != PTX_OP_MEM || is_defined_in(body, header, latch, i->ops[1].reg))
				return false;
			found = true;
		}
	return found;
}

uint32_t header_of(const struct ptx_body *body, uint32_t latch)
{
	const struct ptx_block *b = &body->blocks[latch];

	return b->succ[0] < b->succ[1] ? b->succ[0] : b->succ[1];
}

/* ---- turns in the full version: lower/ptx-warp-loop.c ---- */

/* Saved bytes of a warp above which separate stacks are no slower. */
#define MOST_SAVED 1024
/* Copies at the ends of all loops above which compilation takes long. */
#define MOST_COPIES 1024

uint32_t ptx_saved_bytes(const struct ptx_body *body, uint32_t reg)
{
	uint32_t bits = ptx_types[body->regs[reg].type].bits;

	return ((body->shapes[reg].kind == PTX_VARYING ? bits * PTX_LANES : bits) + 7) / 8;
}

/*
 * Decides whether warps take turns so, and finds the registers that are live where any of the loops begins again.
 * Without memory for that each warp has a stack.
 */
static void choose_warp_loop(struct ptx_body *body)
{
	uint64_t bytes = 0, copies = 0;

	if (!body->has_strides || body->has_barrier || body->has_waits)
		return;
	body->warp_loop_saved = ptx_alloc(&body->arena, (body->words + 1) * sizeof(*body->warp_loop_saved));
	if (!body->warp_loop_saved)
		return;
	for (uint32_t n = 0; n < body->block_count; n++)
		for (size_t w = 0; ptx_begins_warp_loop(body, n) && w < body->words; w++) {
			uint64_t live = body->blocks[header_of(body, n)].live_in[w];

			body->warp_loop_saved[w] |= live;
			copies += (uint64_t)__builtin_popcountll(live);
		}
	for (uint32_t r = 0; r < body->boundary_count; r++)
		if (PTX_BIT(body->warp_loop_saved, r))
			bytes += ptx_saved_bytes(body, r);
	body->has_warp_loop = bytes <= MOST_SAVED && copies <= MOST_COPIES;
}

void ptx_body_strides(struct ptx_body *body)
{
	for (uint32_t n = 0; n < body->block_count; n++)
		body->blocks[n].latch = PTX_NO_BLOCK;
	for (uint32_t n = 0; n < body->block_count; n++) {
		struct ptx_block *b = &body->blocks[n];
		uint32_t header = header_of(body, n);

		b->stride = PTX_NO_INSTR;
		if (header > n)
			continue;
		body->has_signals |= looks_again(body, header, n);
		/* inner loops end first */
		for (uint32_t k = header; k <= n; k++)
			if (body->blocks[k].latch == PTX_NO_BLOCK)
				body->blocks[k].latch = n;
		if (!b->waits)
			b->stride = find_access(body, header, n);
		body->has_strides |= b->stride != PTX_NO_INSTR;
	}
	choose_warp_loop(body);
}
