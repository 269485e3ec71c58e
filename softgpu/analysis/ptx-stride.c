/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Loops that stride through memory: for (i = thread; i < n; i += threads of the grid). A warp that runs such a loop to
 * its end touches 128 bytes here and there, one after the other a megabyte apart, which no processor's prefetching
 * follows and whose lines share few places in its caches. Warps of the block that take turns, one round each, go
 * through whole pages together, and so do a few blocks (ptx-run.c). Measured: a triad of 16 Mi elements takes 29 ms one
 * way and 12 the other.
 *
 * Lines so far apart are not foreseen all the same, and each warp says at the end of a round what it will access in the
 * next one: into the second cache, which has it until the other warps are through. Measured, one thread, 4 KiB of each
 * array side by side: the same order of accesses in C takes 11.0 ms, and 9.0 with that; in order it takes 7.2.
 *
 * How far an address moves from round to round is known when the code runs, so that is where it is asked.
 */
#include <string.h>

#include "lower/ptx-lower-access.h"

/* Less than what a grid is wide, and more than rows of most matrices, which the second cache keeps. */
#define FAR (64 << 10)

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
	       b->kind == PTX_OP_INT && b->imm + FAR <= 2 * FAR;
}

/* Whether instructions [from, to), a loop's, may move the address by more than a small constant. */
static bool moves(const struct ptx_body *body, uint32_t from, uint32_t to, int32_t reg)
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
			    moves(body, from, to,
				  body->instrs[k].ops[body->instrs[k].op->flags & PTX_F_NO_DST ? 0 : 1].reg))
				return k;
	return PTX_NO_INSTR;
}

/* ---- loops that look again ---- */

/* Who waits in a loop has little to do there. */
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
	ptx_body_rounds(body);
}

/* ---- in the full version ---- */

static LLVMValueRef variable(struct lower *l)
{
	LLVMBasicBlockRef here = LLVMGetInsertBlock(l->b);
	LLVMValueRef v = entry_alloca(l, l->i64);

	LLVMPositionBuilderBefore(l->b, LLVMGetBasicBlockTerminator(l->entry));
	LLVMBuildStore(l->b, scalar_const(l->i64, 0), v);
	LLVMPositionBuilderAtEnd(l->b, here);
	return v;
}

/* So many bytes that lie side by side are the warp's; 0: they do not. */
static unsigned row_bytes(const struct access *a)
{
	unsigned bytes = a->size * a->count;

	for (unsigned n = 1; n < PTX_LANES; n++)
		if (a->offsets[n] != a->offsets[n - 1] + (int64_t)bytes)
			return 0;
	return a->lanes == PTX_LANES ? PTX_LANES * bytes : 0;
}

/*
 * Whether the next round's access is fetched ahead. Where each warp has a stack, the next ones' would wait for what is
 * under way: it was no gain, and a loss of 5% where the arrays are in a cache.
 */
static bool is_ahead(const struct lower *l, const struct access *a, uint32_t latch)
{
	const struct ptx_block *blocks = l->body->blocks;

	return l->next_warp && !l->quick && !l->covered[l->instr] && a->o->reg >= 0 && row_bytes(a) &&
	       (a->i->space == PTX_GLOBAL || a->i->space == PTX_GENERIC) &&
	       moves(l->body, blocks[header_of(l->body, latch)].first, blocks[latch].last, a->o->reg);
}

void note_stride(struct lower *l, const struct access *a, LLVMValueRef address)
{
	uint32_t latch = l->body->blocks[l->block].latch, stride;
	struct stride *s = &l->strides[l->instr];

	if (is_partial(l) || l->width == 1 || latch == PTX_NO_BLOCK)
		return;
	stride = l->body->blocks[latch].stride;
	if (stride == PTX_NO_INSTR)
		return;
	s->bytes = is_ahead(l, a, latch) ? row_bytes(a) : 0;
	if (!s->bytes && stride != l->instr)
		return;
	address =
		LLVMBuildAdd(l->b, address, scalar_const(l->i64, (uint64_t)(a->offsets[0] + access_immediate(a))), "");
	s->address = variable(l);
	LLVMBuildStore(l->b, address, s->address);
}

/* All accesses of a loop are taken to move on by as many elements as the one that was looked at. */
static LLVMValueRef scale(struct lower *l, LLVMValueRef distance, unsigned bytes, unsigned of)
{
	if (bytes > of)
		return LLVMBuildMul(l->b, distance, scalar_const(l->i64, bytes / of), "");
	return bytes < of ? LLVMBuildSDiv(l->b, distance, scalar_const(l->i64, of / bytes), "") : distance;
}

/* What the warp accesses in its next round, into the second cache: until then the other warps have their turns. */
static void look_round(struct lower *l, LLVMValueRef distance)
{
	uint32_t header = header_of(l->body, l->block);
	const struct stride *first = &l->strides[l->body->blocks[l->block].stride];

	for (uint32_t k = l->body->blocks[header].first; k < l->body->blocks[l->block].last; k++) {
		const struct stride *s = &l->strides[k];
		LLVMValueRef at;

		if (!s->bytes)
			continue;
		at = LLVMBuildLoad2(l->b, l->i64, s->address, "");
		at = LLVMBuildAdd(l->b, at, scale(l, distance, s->bytes, first->bytes ? first->bytes : s->bytes), "");
		prefetch(l, LLVMBuildIntToPtr(l->b, at, l->ptr, ""), 0, s->bytes, false, SECOND_CACHE);
	}
}

bool takes_turn(const struct lower *l, uint32_t next)
{
	uint32_t stride = l->body->blocks[l->block].stride;

	return l->width > 1 && !is_partial(l) && stride != PTX_NO_INSTR && l->strides[stride].address &&
	       next == header_of(l->body, l->block);
}

/* On the way to the next round: gives the other warps a turn if the address has moved far. */
void emit_turn(struct lower *l, LLVMBasicBlockRef way)
{
	const struct ptx_block *b = &l->body->blocks[l->block];
	LLVMBasicBlockRef turn = new_bb(l, "turn"), round = l->starts[header_of(l->body, l->block)];
	LLVMValueRef zero = scalar_const(l->i64, 0), now, last, before, distance, far, known;

	last = l->lasts[l->block] ? l->lasts[l->block] : variable(l);
	LLVMPositionBuilderAtEnd(l->b, way);
	now = LLVMBuildLoad2(l->b, l->i64, l->strides[b->stride].address, "");
	before = LLVMBuildLoad2(l->b, l->i64, last, "");
	distance = LLVMBuildSub(l->b, now, before, "");
	LLVMBuildStore(l->b, now, last);
	far = LLVMBuildAdd(l->b, distance, scalar_const(l->i64, FAR), "");
	LLVMBuildCondBr(l->b, LLVMBuildICmp(l->b, LLVMIntUGT, far, scalar_const(l->i64, 2 * FAR), ""), turn, round);
	LLVMPositionBuilderAtEnd(l->b, turn);
	known = LLVMBuildICmp(l->b, LLVMIntNE, before, zero, "");
	look_round(l, LLVMBuildSelect(l->b, known, distance, zero, ""));
	if (l->next_warp) {
		end_round(l, before);
		return;
	}
	call_runtime(l, "ptx_rt_turn", l->void_type, (LLVMValueRef[]){l->ctx, before}, 2);
	LLVMBuildBr(l->b, round);
}
