/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Turns of warps in loops that stride through memory (analysis/ptx-stride.c). How far an address moves from round to
 * round is known when the code runs, so the code asks.
 *
 * No processor foresees lines that are so far apart. Each warp prefetches at the end of a round what it will access in
 * the next one: into the second cache, which has it until the other warps are through. Measured, one thread, 4 KiB of
 * each array side by side: the same order of accesses in C takes 11.0 ms, and 9.0 with that; in order it takes 7.2.
 */
#include "lower/ptx-lower-access.h"

static LLVMValueRef variable(struct lower *l)
{
	LLVMBasicBlockRef here = LLVMGetInsertBlock(l->b);
	LLVMValueRef v = entry_alloca(l, l->type.i64);

	LLVMPositionBuilderBefore(l->b, LLVMGetBasicBlockTerminator(l->fn.entry));
	LLVMBuildStore(l->b, scalar_const(l->type.i64, 0), v);
	LLVMPositionBuilderAtEnd(l->b, here);
	return v;
}

/* The bytes of a thread's access, if the accesses of the warp lie side by side; else 0. */
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
static bool is_prefetched(const struct lower *l, const struct access *a, uint32_t latch)
{
	const struct ptx_block *blocks = l->body->blocks;

	return l->own.warp_loop.next_warp && !l->version.quick && !l->own.access.covered[l->at.instr] &&
	       a->o->reg >= 0 && row_bytes(a) && (a->i->space == PTX_GLOBAL || a->i->space == PTX_GENERIC) &&
	       ptx_body_moves(l->body, blocks[header_of(l->body, latch)].first, blocks[latch].last, a->o->reg);
}

void stride_note(struct lower *l, const struct access *a, LLVMValueRef address)
{
	uint32_t latch = l->body->blocks[l->at.block].latch, stride;
	struct stride *s = &l->own.stride.strides[l->at.instr];

	if (is_partial(l) || l->version.width == 1 || latch == PTX_NO_BLOCK)
		return;
	stride = l->body->blocks[latch].stride;
	if (stride == PTX_NO_INSTR)
		return;
	s->bytes = is_prefetched(l, a, latch) ? row_bytes(a) : 0;
	if (!s->bytes && stride != l->at.instr)
		return;
	address = LLVMBuildAdd(l->b, address,
			       scalar_const(l->type.i64, (uint64_t)(a->offsets[0] + access_immediate(a))), "");
	s->address = variable(l);
	LLVMBuildStore(l->b, address, s->address);
}

/* All accesses of a loop are taken to move on by as many elements as the one that was looked at. */
static LLVMValueRef scale(struct lower *l, LLVMValueRef distance, unsigned bytes, unsigned of)
{
	if (bytes > of)
		return LLVMBuildMul(l->b, distance, scalar_const(l->type.i64, bytes / of), "");
	return bytes < of ? LLVMBuildSDiv(l->b, distance, scalar_const(l->type.i64, of / bytes), "") : distance;
}

/* Fetches the memory of the warp's next round into the second cache; the other warps have their turns meanwhile. */
static void look_round(struct lower *l, LLVMValueRef distance)
{
	uint32_t header = header_of(l->body, l->at.block);
	const struct stride *first = &l->own.stride.strides[l->body->blocks[l->at.block].stride];

	for (uint32_t k = l->body->blocks[header].first; k < l->body->blocks[l->at.block].last; k++) {
		const struct stride *s = &l->own.stride.strides[k];
		LLVMValueRef at;

		if (!s->bytes)
			continue;
		at = LLVMBuildLoad2(l->b, l->type.i64, s->address, "");
		at = LLVMBuildAdd(l->b, at, scale(l, distance, s->bytes, first->bytes ? first->bytes : s->bytes), "");
		prefetch(l, LLVMBuildIntToPtr(l->b, at, l->type.ptr, ""), 0, s->bytes, false, SECOND_CACHE);
	}
}

bool takes_turn(const struct lower *l, uint32_t next)
{
	uint32_t stride = l->body->blocks[l->at.block].stride;

	return l->version.width > 1 && !is_partial(l) && stride != PTX_NO_INSTR &&
	       l->own.stride.strides[stride].address && next == header_of(l->body, l->at.block);
}

/* On the way to the next round: gives the other warps a turn if the address has moved far. */
void emit_turn(struct lower *l, LLVMBasicBlockRef way)
{
	const struct ptx_block *b = &l->body->blocks[l->at.block];
	LLVMBasicBlockRef turn = new_bb(l, "turn"), round = l->fn.starts[header_of(l->body, l->at.block)];
	LLVMValueRef zero = scalar_const(l->type.i64, 0), now, last, before, distance, far, known;

	last = l->own.stride.lasts[l->at.block] ? l->own.stride.lasts[l->at.block] : variable(l);
	LLVMPositionBuilderAtEnd(l->b, way);
	now = LLVMBuildLoad2(l->b, l->type.i64, l->own.stride.strides[b->stride].address, "");
	before = LLVMBuildLoad2(l->b, l->type.i64, last, "");
	distance = LLVMBuildSub(l->b, now, before, "");
	LLVMBuildStore(l->b, now, last);
	far = LLVMBuildAdd(l->b, distance, scalar_const(l->type.i64, PTX_FAR_STEP), "");
	LLVMBuildCondBr(l->b, LLVMBuildICmp(l->b, LLVMIntUGT, far, scalar_const(l->type.i64, 2 * PTX_FAR_STEP), ""),
			turn, round);
	LLVMPositionBuilderAtEnd(l->b, turn);
	known = LLVMBuildICmp(l->b, LLVMIntNE, before, zero, "");
	look_round(l, LLVMBuildSelect(l->b, known, distance, zero, ""));
	if (l->own.warp_loop.next_warp) {
		warp_loop_end_round(l, before);
		return;
	}
	call_runtime(l, "ptx_rt_turn", l->type.void_type, (LLVMValueRef[]){l->fn.ctx, before}, 2);
	LLVMBuildBr(l->b, round);
}

bool prepare_strides(struct lower *l)
{
	struct lower_strides *stride = &l->own.stride;

	stride->strides = ptx_alloc(&l->body->arena, (l->body->instr_count + 1u) * sizeof(*stride->strides));
	stride->lasts = ptx_alloc(&l->body->arena, (l->body->block_count + 1u) * sizeof(*stride->lasts));
	return stride->strides && stride->lasts;
}
