/* SPDX-License-Identifier: Apache-2.0 */
/* Where a loop starts again: has the launch been cancelled; and do other threads need a turn? */
#include <stdlib.h>

#include "lower/ptx-lower-access.h"

/* ---- with one lane: rounds that end by themselves ---- */

/* Far less than the addresses that lead nowhere. */
#define FARTHEST_STEP (1 << 20)

/* By how much an instruction moves a register that it adds a constant to; 0: it does something else. */
static int64_t step_of(const struct ptx_instr *i, int32_t reg)
{
	const struct ptx_operand *a = &i->ops[1], *b = &i->ops[2];
	int64_t step;

	if (i->op->shape != PTX_SHAPE_ADD || i->count != 3 || i->mods & (M(SAT) | M(CC)) || a->kind != PTX_OP_REG ||
	    a->reg != reg || a->negate || b->kind != PTX_OP_INT)
		return 0;
	step = (int64_t)b->imm;
	return step < FARTHEST_STEP && step > -FARTHEST_STEP ? step : 0;
}

struct counted_loop {
	struct lower *l;
	uint32_t header, latch;
};

/* Whether every round of the loop runs the instruction. */
static bool is_always_run(const struct counted_loop *r, uint32_t block, const struct ptx_instr *i)
{
	return i->guard < 0 && (block == r->header || block == r->latch);
}

/* Whether each round moves the register, all in one direction, and so far at least. */
static bool moves_on(const struct counted_loop *r, int32_t reg, unsigned bytes)
{
	int64_t step, way = 0;
	bool always = false;

	for (uint32_t n = r->header; n <= r->latch; n++)
		for (uint32_t k = r->l->body->blocks[n].first; k < r->l->body->blocks[n].last; k++) {
			const struct ptx_instr *i = &r->l->body->instrs[k];

			if (!access_redefines(r->l, i, reg))
				continue;
			step = step_of(i, reg);
			if (llabs(step) < bytes || (way && (step < 0) != (way < 0)))
				return false;
			way = step;
			always |= is_always_run(r, n, i);
		}
	return always;
}

/* A loop with no other in it, no calls, and nothing to wait for. */
static bool is_plain(const struct counted_loop *r)
{
	for (uint32_t n = r->header; n <= r->latch; n++) {
		const struct ptx_block *b = &r->l->body->blocks[n];

		if (b->waits || (n < r->latch && (b->succ[0] <= n || (b->condition >= 0 && b->succ[1] <= n))))
			return false;
		for (uint32_t k = b->first; k < b->last; k++)
			if (r->l->body->instrs[k].op->flags & PTX_F_CALL)
				return false;
	}
	return true;
}

/*
 * An access whose address moves on in each round is out of bounds sooner or later, which ends the loop: that takes as
 * long as reading an allocation once, element by element. Where such an access is dropped, the loop does not end by it.
 */
static bool ends_by_itself(struct lower *l)
{
	const struct ptx_block *b = &l->body->blocks[l->at.block];
	struct counted_loop r = {
		.l = l, .header = b->succ[0] < b->succ[1] ? b->succ[0] : b->succ[1], .latch = l->at.block};

	if (l->version.width > 1 || l->version.checked || !is_plain(&r))
		return false;
	for (uint32_t n = r.header; n <= r.latch; n += r.latch > n ? r.latch - n : 1)
		for (uint32_t k = l->body->blocks[n].first; k < l->body->blocks[n].last; k++) {
			const struct ptx_instr *i = &l->body->instrs[k];
			const struct ptx_operand *o = &i->ops[i->op->flags & PTX_F_NO_DST ? 0 : 1];

			if (i->op->flags & (PTX_F_LOAD | PTX_F_STORE) && is_always_run(&r, n, i) &&
			    o->kind == PTX_OP_MEM && o->reg >= 0 && moves_on(&r, o->reg, ptx_types[i->type].bits / 8))
				return true;
		}
	return false;
}

/* Longer rounds are not looked through for each access. */
#define LONG_ROUND 512

/* The innermost loop around the block at hand. */
static bool find_loop(struct counted_loop *r)
{
	const struct ptx_body *body = r->l->body;

	for (r->latch = r->l->at.block; r->latch < body->block_count; r->latch++)
		for (unsigned s = 0; s < 2; s++) {
			r->header = body->blocks[r->latch].succ[s];
			if (r->header <= r->l->at.block && (s == 0 || body->blocks[r->latch].condition >= 0))
				return true;
		}
	return false;
}

int64_t counted_loop_step(struct lower *l, int32_t reg)
{
	struct counted_loop r = {.l = l};
	int64_t step = 0;

	if (!find_loop(&r) || l->body->blocks[r.latch].last - l->body->blocks[r.header].first > LONG_ROUND ||
	    !is_plain(&r))
		return 0;
	for (uint32_t n = r.header; n <= r.latch; n++)
		for (uint32_t k = l->body->blocks[n].first; k < l->body->blocks[n].last; k++) {
			const struct ptx_instr *i = &l->body->instrs[k];

			if (!access_redefines(l, i, reg))
				continue;
			if (step || !is_always_run(&r, n, i))
				return 0;
			step = step_of(i, reg);
			if (!step)
				return 0;
		}
	return step;
}

/* ---- both versions ---- */

static void look(struct lower *l, uint32_t line)
{
	LLVMBasicBlockRef stop = new_bb(l, "stop"), go = new_bb(l, "loop");
	LLVMValueRef flag = LLVMBuildLoad2(l->b, l->type.i8, l->mem.cancel, ""), args[3];
	struct usual usual;

	LLVMSetVolatile(flag, 1);
	branch_likely(l, LLVMBuildICmp(l->b, LLVMIntEQ, flag, scalar_const(l->type.i8, 0), ""), go, stop);
	LLVMPositionBuilderAtEnd(l->b, stop);
	usual = slow_path_begin(l);
	args[0] = l->fn.ctx;
	args[1] = scalar_const(l->type.i32, lower_line(l->body, line));
	args[2] = l->fn.thread;
	call_seldom(l, "ptx_rt_cancelled", args, 3);
	slow_path_end(l, &usual);
	/*
	 * The call does not return, but were that known, LLVM would move arithmetic past this branch, away from its
	 * operands, which then stay in registers instead of the one result.
	 */
	LLVMBuildBr(l->b, go);
	LLVMPositionBuilderAtEnd(l->b, go);
}

void emit_poll(struct lower *l)
{
	const struct ptx_block *b = &l->body->blocks[l->at.block];
	uint32_t line = b->last > b->first ? l->body->instrs[b->last - 1].line : 0;
	LLVMValueRef args[2] = {l->fn.ctx, scalar_const(l->type.i32, lower_line(l->body, line))};

	if (ends_by_itself(l)) {
		l->own.poll.unwatched = true;
		return;
	}
	look(l, line);
	if (b->waits)
		call_runtime(l, "ptx_rt_yield", l->type.void_type, args, 2);
}

void emit_thread_poll(struct lower *l)
{
	if (l->own.poll.unwatched)
		look(l, l->body->function->line);
}
