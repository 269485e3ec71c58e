/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Turns of warps inside the full version: where warps wait for nothing, and change in loops that stride through memory
 * only (analysis/ptx-stride.c), what one needs to go on is what is live where such a loop begins again. That is kept in
 * the frame, a list for each register, and the code goes on with the next warp by itself. With a stack for each, the
 * turns of 32 warps touch 25 KiB of stacks, which the arrays that are gone through push out of the first cache each
 * time. Measured: a triad of 16 Mi elements takes 10.9 ms of one thread's time with stacks, fetching ahead or not,
 * and 9.7 so.
 *
 * A warp that leaves for the masked version ends there or comes back, as it does where none take turns.
 */
#include <stddef.h>

#include "lower/ptx-lower.h"

/* `from` is BEHIND + n where a warp goes on behind latch n; smaller numbers are blocks. */
#define BEHIND 0x1000000u

static uint32_t whole_warps(const struct ptx_body *body)
{
	return body->threads / PTX_LANES;
}

/* Which of the latches it is. */
static uint32_t rank_of(const struct ptx_body *body, uint32_t latch)
{
	uint32_t rank = 0;

	for (uint32_t n = 0; n < latch; n++)
		rank += ptx_begins_warp_loop(body, n);
	return rank;
}

/* Lists of what each whole warp has: where it goes on, registers, and where it was in the round before. */
bool warp_loop_lay_out(struct ptx_body *body, struct ptx_lowering *low)
{
	uint32_t warps = whole_warps(body), at = (low->frame_bytes + 63) & ~63u;

	low->warp_loop_slots = ptx_alloc(&body->arena, (body->reg_count + 1u) * sizeof(*low->warp_loop_slots));
	if (!low->warp_loop_slots)
		return lower_no_memory(body);
	low->entries_at = at;
	at += warps * sizeof(uint32_t);
	for (uint32_t r = 0; r < body->boundary_count; r++)
		if (PTX_BIT(body->warp_loop_saved, r)) {
			low->warp_loop_slots[r] = at = (at + 15) & ~15u;
			at += warps * ptx_saved_bytes(body, r);
		}
	low->lasts_at = at = (at + 15) & ~15u;
	low->frame_bytes = at + rank_of(body, body->block_count) * warps * (uint32_t)sizeof(uint64_t);
	return true;
}

/* ---- in the full version ---- */

static LLVMValueRef warp_of(struct lower *l, LLVMValueRef thread)
{
	return LLVMBuildLShr(l->b, thread, scalar_const(l->type.i32, 5), "");
}

/* An element of a list in the frame. */
static LLVMValueRef place(struct lower *l, uint32_t at, uint32_t bytes, LLVMValueRef warp)
{
	LLVMValueRef by =
		LLVMBuildMul(l->b, LLVMBuildZExt(l->b, warp, l->type.i64, ""), scalar_const(l->type.i64, bytes), "");

	return LLVMBuildGEP2(l->b, l->type.i8, field(l, l->fn.frame, at), &by, 1, "");
}

static void copy(struct lower *l, LLVMTypeRef type, LLVMValueRef from, LLVMValueRef to)
{
	LLVMValueRef value = LLVMBuildLoad2(l->b, type, from, "");

	LLVMSetAlignment(value, 1);
	LLVMSetAlignment(LLVMBuildStore(l->b, value, to), 1);
}

static void copy_saved(struct lower *l, uint32_t latch, bool save)
{
	const uint64_t *live = l->body->blocks[header_of(l->body, latch)].live_in;
	uint32_t at = l->low->lasts_at + rank_of(l->body, latch) * whole_warps(l->body) * (uint32_t)sizeof(uint64_t);
	LLVMValueRef warp = warp_of(l, l->fn.thread), last = place(l, at, sizeof(uint64_t), warp);

	copy(l, l->type.i64, save ? l->own.stride.lasts[latch] : last, save ? last : l->own.stride.lasts[latch]);
	for (uint32_t r = 0; r < l->body->boundary_count; r++)
		if (PTX_BIT(live, r)) {
			LLVMValueRef saved = place(l, l->low->warp_loop_slots[r], ptx_saved_bytes(l->body, r), warp);

			copy(l, storage_type(l, r), save ? l->regs.storage[r] : saved,
			     save ? saved : l->regs.storage[r]);
		}
}

static LLVMValueRef phi(struct lower *l, LLVMTypeRef type, LLVMValueRef value, LLVMBasicBlockRef from)
{
	LLVMValueRef phi = LLVMBuildPhi(l->b, type, "");

	LLVMAddIncoming(phi, &value, &from, 1);
	return phi;
}

/* All whole warps of the block are yet to begin. */
static LLVMBasicBlockRef emit_begin(struct lower *l)
{
	LLVMBasicBlockRef begin = new_bb(l, "begin");
	uint32_t warps = whole_warps(l->body);
	LLVMValueRef list;

	LLVMPositionBuilderAtEnd(l->b, begin);
	store_head(l, offsetof(struct ptx_frame, left),
		   scalar_const(l->type.i32, warps ? UINT32_MAX >> (PTX_LANES - warps) : 0));
	list = LLVMBuildStore(l->b, LLVMConstNull(LLVMVectorType(l->type.i32, warps ? warps : 1)),
			      field(l, l->fn.frame, l->low->entries_at));
	LLVMSetAlignment(list, 4);
	LLVMBuildBr(l->b, l->fn.each_thread);
	return begin;
}

/* Chooses the warp after the one at hand; after the last one, other blocks have a turn. */
static void emit_next(struct lower *l)
{
	LLVMBasicBlockRef wrap = new_bb(l, "wrap"), pick = new_bb(l, "pick");
	LLVMValueRef left, behind, warp, next, args[2] = {l->fn.ctx, l->own.warp_loop.next_last},
					       cttz[2] = {NULL, scalar_const(l->type.i1, 1)};

	LLVMPositionBuilderAtEnd(l->b, l->own.warp_loop.next_warp);
	left = load_head(l, offsetof(struct ptx_frame, left));
	behind = LLVMBuildShl(l->b, scalar_const(l->type.i32, UINT32_MAX - 1), warp_of(l, l->own.warp_loop.next_thread),
			      "");
	behind = LLVMBuildAnd(l->b, left, behind, "");
	LLVMBuildCondBr(l->b, LLVMBuildICmp(l->b, LLVMIntNE, behind, scalar_const(l->type.i32, 0), ""), pick, wrap);
	LLVMPositionBuilderAtEnd(l->b, pick);
	cttz[0] = phi(l, l->type.i32, behind, l->own.warp_loop.next_warp);
	LLVMAddIncoming(cttz[0], &left, &wrap, 1);
	warp = intrinsic(l, "llvm.cttz", l->type.i32, cttz, 2);
	next = LLVMBuildLoad2(l->b, l->type.i32, place(l, l->low->entries_at, sizeof(uint32_t), warp), "");
	warp = LLVMBuildShl(l->b, warp, scalar_const(l->type.i32, 5), "");
	LLVMBuildBr(l->b, l->fn.each_thread);
	LLVMAddIncoming(l->fn.thread, &warp, &pick, 1);
	LLVMAddIncoming(l->fn.from, &next, &pick, 1);
	LLVMPositionBuilderAtEnd(l->b, wrap);
	call_runtime(l, "ptx_rt_turn", l->type.void_type, args, 2);
	LLVMBuildBr(l->b, pick);
}

/* Where a warp ends, here or in the masked version. */
static void emit_ended(struct lower *l)
{
	LLVMBasicBlockRef leave = new_bb(l, "leave");
	LLVMValueRef bit, left, zero = scalar_const(l->type.i64, 0);

	LLVMPositionBuilderAtEnd(l->b, l->own.warp_loop.warp_ended);
	bit = LLVMBuildShl(l->b, scalar_const(l->type.i32, 1), warp_of(l, l->own.warp_loop.ended_thread), "");
	left = LLVMBuildAnd(l->b, load_head(l, offsetof(struct ptx_frame, left)), LLVMBuildNot(l->b, bit, ""), "");
	store_head(l, offsetof(struct ptx_frame, left), left);
	LLVMBuildCondBr(l->b, LLVMBuildICmp(l->b, LLVMIntEQ, left, scalar_const(l->type.i32, 0), ""), leave,
			l->own.warp_loop.next_warp);
	LLVMAddIncoming(l->own.warp_loop.next_thread, &l->own.warp_loop.ended_thread, &l->own.warp_loop.warp_ended, 1);
	LLVMAddIncoming(l->own.warp_loop.next_last, &zero, &l->own.warp_loop.warp_ended, 1);
	LLVMPositionBuilderAtEnd(l->b, leave);
	store_head(l, offsetof(struct ptx_frame, thread), scalar_const(l->type.i32, whole_warps(l->body) * PTX_LANES));
	LLVMBuildRet(l->b, scalar_const(l->type.i32, PTX_LEAVE_DONE));
}

void warp_loop_begin(struct lower *l)
{
	LLVMValueRef entry = load_head(l, offsetof(struct ptx_frame, entry)), thread = l->fn.thread, choice;
	LLVMValueRef zero = scalar_const(l->type.i32, 0);
	LLVMBasicBlockRef begin;

	for (uint32_t n = 0; n < l->body->block_count; n++)
		if (ptx_begins_warp_loop(l->body, n))
			l->own.stride.lasts[n] = entry_alloca(l, l->type.i64);
	l->fn.each_thread = new_bb(l, "thread");
	l->own.warp_loop.next_warp = new_bb(l, "next");
	l->own.warp_loop.warp_ended = new_bb(l, "ended");
	choice = LLVMBuildSwitch(l->b, entry, l->fn.each_thread, 2);
	begin = emit_begin(l);
	LLVMAddCase(choice, zero, begin);
	LLVMAddCase(choice, scalar_const(l->type.i32, PTX_WARP_ENDED), l->own.warp_loop.warp_ended);
	LLVMPositionBuilderAtEnd(l->b, l->own.warp_loop.next_warp);
	l->own.warp_loop.next_thread = LLVMBuildPhi(l->b, l->type.i32, "");
	l->own.warp_loop.next_last = LLVMBuildPhi(l->b, l->type.i64, "");
	LLVMPositionBuilderAtEnd(l->b, l->own.warp_loop.warp_ended);
	l->own.warp_loop.ended_thread = phi(l, l->type.i32, thread, l->fn.entry);
	LLVMPositionBuilderAtEnd(l->b, l->fn.each_thread);
	l->fn.thread = phi(l, l->type.i32, thread, l->fn.entry);
	l->fn.from = phi(l, l->type.i32, entry, l->fn.entry);
	LLVMAddIncoming(l->fn.thread, &thread, &begin, 1);
	LLVMAddIncoming(l->fn.from, &zero, &begin, 1);
	emit_next(l);
	emit_ended(l);
	LLVMPositionBuilderAtEnd(l->b, l->fn.each_thread);
	for (uint32_t n = 0; n < l->body->block_count; n++)
		if (l->own.stride.lasts[n])
			LLVMBuildStore(l->b, scalar_const(l->type.i64, 0), l->own.stride.lasts[n]);
}

void warp_loop_resume(struct lower *l, LLVMValueRef choice)
{
	for (uint32_t n = 0; n < l->body->block_count; n++) {
		LLVMBasicBlockRef resume;

		if (!ptx_begins_warp_loop(l->body, n))
			continue;
		resume = new_bb(l, "resume");
		LLVMAddCase(choice, scalar_const(l->type.i32, BEHIND + n), resume);
		LLVMPositionBuilderAtEnd(l->b, resume);
		copy_saved(l, n, false);
		LLVMBuildBr(l->b, l->fn.starts[header_of(l->body, n)]);
	}
}

void warp_loop_end_round(struct lower *l, LLVMValueRef last)
{
	LLVMBasicBlockRef here = LLVMGetInsertBlock(l->b);

	copy_saved(l, l->at.block, true);
	LLVMBuildStore(l->b, scalar_const(l->type.i32, BEHIND + l->at.block),
		       place(l, l->low->entries_at, sizeof(uint32_t), warp_of(l, l->fn.thread)));
	LLVMBuildBr(l->b, l->own.warp_loop.next_warp);
	LLVMAddIncoming(l->own.warp_loop.next_thread, &l->fn.thread, &here, 1);
	LLVMAddIncoming(l->own.warp_loop.next_last, &last, &here, 1);
}

void end_warp(struct lower *l)
{
	LLVMBasicBlockRef here = LLVMGetInsertBlock(l->b);

	LLVMBuildBr(l->b, l->own.warp_loop.warp_ended);
	LLVMAddIncoming(l->own.warp_loop.ended_thread, &l->fn.thread, &here, 1);
}
