/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The masked version of a kernel: any lanes may be active. shfl, vote, match and redux work on the lanes that are
 * there: the order of the blocks brings lanes together. Only where lanes may have run ahead out of a waiting loop (see
 * is_others_turn()), or may miss each other in a loop (ptx-reconverge.c), do they have to wait for others of their
 * member mask.
 */
#include <stddef.h>
#include <stdlib.h>

#include "lower/ptx-lower.h"

#define ROUNDS_PER_TURN 64
/* Rounds in which nothing ran but a barrier, until lanes give up waiting for lanes that are at it. */
#define IDLE_ROUNDS 256

static void add_pending(struct lower *l, uint32_t block, LLVMValueRef lanes)
{
	LLVMValueRef *var = block == PTX_NO_BLOCK ? &l->own.masked.live : &l->own.masked.pending[block];
	LLVMValueRef now = LLVMBuildLoad2(l->b, l->type.i32, *var, "");

	if (block == PTX_NO_BLOCK)
		now = LLVMBuildAnd(l->b, now, LLVMBuildNot(l->b, lanes, ""), "");
	else
		now = LLVMBuildOr(l->b, now, lanes, "");
	LLVMBuildStore(l->b, now, *var);
}

static uint32_t lowest_back_edge(const struct ptx_block *b, uint32_t block)
{
	uint32_t next = block + 1;

	for (unsigned s = 0; s < (b->condition < 0 ? 1u : 2u); s++)
		if (b->succ[s] < next)
			next = b->succ[s];
	return next;
}

/*
 * Lanes that go round a waiting loop may wait for lanes that have left it: these get a turn once in many rounds, and
 * not each time, because lanes that stay together are faster.
 */
static LLVMValueRef is_others_turn(struct lower *l)
{
	LLVMValueRef n = LLVMBuildLoad2(l->b, l->type.i32, l->own.masked.wait_rounds, "");

	n = LLVMBuildAdd(l->b, n, scalar_const(l->type.i32, 1), "");
	LLVMBuildStore(l->b, n, l->own.masked.wait_rounds);
	n = LLVMBuildAnd(l->b, n, scalar_const(l->type.i32, ROUNDS_PER_TURN - 1), "");
	return LLVMBuildICmp(l->b, LLVMIntEQ, n, scalar_const(l->type.i32, 0), "");
}

static void end_masked(struct lower *l)
{
	const struct ptx_block *b = &l->body->blocks[l->at.block];
	uint32_t next = lowest_back_edge(b, l->at.block);
	LLVMValueRef taken;
	bool ahead;

	if (next <= l->at.block)
		emit_poll(l);
	ahead = next <= l->at.block && b->waits;
	if (b->condition < 0) {
		add_pending(l, b->succ[0], l->at.mask);
	} else {
		if (reg_shape(l, b->condition) == PTX_UNIFORM)
			taken = LLVMBuildSelect(l->b, condition_value(l, b, 1), l->at.mask,
						scalar_const(l->type.i32, 0), "");
		else
			taken = LLVMBuildAnd(l->b, mask_bits(l, condition_value(l, b, PTX_LANES)), l->at.mask, "");
		add_pending(l, b->succ[0], taken);
		add_pending(l, b->succ[1], LLVMBuildAnd(l->b, l->at.mask, LLVMBuildNot(l->b, taken, ""), ""));
	}
	if (ahead)
		LLVMBuildCondBr(l->b, is_others_turn(l), l->fn.starts[l->at.block + 1], l->fn.starts[next]);
	else
		LLVMBuildBr(l->b, l->fn.starts[next]);
}

static void masked_entries(struct lower *l, LLVMBasicBlockRef *sides, LLVMValueRef mask_var)
{
	struct ptx_body *body = l->body;
	LLVMBasicBlockRef start = new_bb(l, "start");
	LLVMValueRef choice = LLVMBuildSwitch(l->b, load_head(l, offsetof(struct ptx_frame, entry)), start, 8);

	LLVMPositionBuilderAtEnd(l->b, start);
	clear_resident(l);
	LLVMBuildStore(l->b, LLVMBuildLoad2(l->b, l->type.i32, l->own.masked.live, ""), l->own.masked.pending[0]);
	LLVMBuildBr(l->b, l->fn.starts[0]);
	for (uint32_t n = 0; n < l->low->exit_count; n++) {
		const struct ptx_exit *e = &l->low->exits[n];
		const struct ptx_block *b = &body->blocks[e->block];
		LLVMBasicBlockRef entry = new_bb(l, "enter");
		uint32_t next = PTX_NO_BLOCK;

		LLVMAddCase(choice, scalar_const(l->type.i32, n), entry);
		LLVMPositionBuilderAtEnd(l->b, entry);
		enter_masked(l, e);
		if (e->instr != AT_BRANCH) {
			LLVMBuildStore(l->b, load_head(l, offsetof(struct ptx_frame, taken)), mask_var);
			if (e->others != PTX_NO_BLOCK)
				add_pending(l, e->others, load_head(l, offsetof(struct ptx_frame, other)));
			LLVMBuildBr(l->b, sides[n]);
			continue;
		}
		for (unsigned s = 0; s < 2; s++) {
			add_pending(l, b->succ[s],
				    load_head(l, s ? offsetof(struct ptx_frame, other)
						   : offsetof(struct ptx_frame, taken)));
			if (b->succ[s] < next)
				next = b->succ[s];
		}
		LLVMBuildBr(l->b, l->fn.starts[next == PTX_NO_BLOCK ? body->block_count : next]);
	}
}

/*
 * A barrier waits until all live lanes of the warp are there, unless those that are not wait for it themselves: once
 * nothing else can run, or lanes go round a waiting loop, lanes arrive as they come (`forced`, until they have met).
 */
static void gate_barrier(struct lower *l, LLVMValueRef forced, LLVMBasicBlockRef skip)
{
	LLVMBasicBlockRef go = new_bb(l, "all");
	LLVMValueRef live = LLVMBuildLoad2(l->b, l->type.i32, l->own.masked.live, "");
	LLVMValueRef all = LLVMBuildICmp(l->b, LLVMIntEQ, live, l->at.mask, "");
	LLVMValueRef now = LLVMBuildLoad2(l->b, l->type.i1, forced, "");

	LLVMBuildCondBr(l->b, LLVMBuildOr(l->b, all, now, ""), go, skip);
	LLVMPositionBuilderAtEnd(l->b, go);
	LLVMBuildStore(l->b, LLVMBuildAnd(l->b, now, LLVMBuildNot(l->b, all, ""), ""), forced);
}

/* The lanes here all of whose partners are here, too, and name the same lanes. */
static LLVMValueRef complete(struct lower *l, const struct ptx_instr *i)
{
	LLVMValueRef none = scalar_const(l->type.i32, 0),
		     live = LLVMBuildLoad2(l->b, l->type.i32, l->own.masked.live, ""), away, named, args[3];
	unsigned lanes = l->at.lanes;

	away = LLVMBuildAnd(l->b, live, LLVMBuildNot(l->b, l->at.mask, ""), "");
	if (!(i->op->flags & PTX_F_WORDS)) {
		l->at.lanes = operand_kind(l, &i->ops[i->count - 1]) == PTX_UNIFORM ? 1 : l->version.width;
		named = get(l, &i->ops[i->count - 1], PTX_U32);
		l->at.lanes = lanes;
		if (is_vector(named)) {
			LLVMSetAlignment(LLVMBuildStore(l->b, named, l->mem.data), 4);
			args[0] = l->at.mask;
			args[1] = live;
			args[2] = l->mem.data;
			return call_runtime(l, "ptx_rt_meet", l->type.i32, args, 3);
		}
		away = LLVMBuildAnd(l->b, named, away, "");
	}
	return LLVMBuildSelect(l->b, LLVMBuildICmp(l->b, LLVMIntEQ, away, none, ""), l->at.mask, none, "");
}

/* Lets only those through, unless nothing else can run any more. Returns the lanes that stay. */
static LLVMValueRef gate_meeting(struct lower *l, LLVMValueRef idle, LLVMBasicBlockRef skip)
{
	const struct ptx_instr *i = &l->body->instrs[l->body->blocks[l->at.block].first];
	LLVMValueRef limit = scalar_const(l->type.i32, IDLE_ROUNDS), ready, alone;
	LLVMBasicBlockRef go = new_bb(l, "met");

	alone = LLVMBuildICmp(l->b, LLVMIntUGE, LLVMBuildLoad2(l->b, l->type.i32, idle, ""), limit, "");
	ready = LLVMBuildSelect(l->b, alone, l->at.mask, complete(l, i), "");
	LLVMBuildCondBr(l->b, LLVMBuildICmp(l->b, LLVMIntNE, ready, scalar_const(l->type.i32, 0), ""), go, skip);
	LLVMPositionBuilderAtEnd(l->b, go);
	alone = LLVMBuildAnd(l->b, l->at.mask, LLVMBuildNot(l->b, ready, ""), "");
	l->at.mask = ready;
	return alone;
}

/* A round in which no lane got on: with none at a barrier, which others may open, there is nothing to wait for. */
static void count_idle(struct lower *l, LLVMValueRef idle, LLVMValueRef at_barrier)
{
	LLVMValueRef n = LLVMBuildLoad2(l->b, l->type.i32, idle, "");
	LLVMValueRef step = LLVMBuildSelect(l->b, at_barrier, scalar_const(l->type.i32, 1),
					    scalar_const(l->type.i32, IDLE_ROUNDS / 2), "");

	LLVMBuildStore(l->b, LLVMBuildAdd(l->b, n, step, ""), idle);
}

static LLVMValueRef any_pending(struct lower *l, bool at_barrier)
{
	LLVMValueRef left = scalar_const(l->type.i32, 0);

	for (uint32_t n = 0; n < l->body->block_count; n++)
		if (l->body->blocks[n].barrier == at_barrier)
			left = LLVMBuildOr(l->b, left, LLVMBuildLoad2(l->b, l->type.i32, l->own.masked.pending[n], ""),
					   "");
	return LLVMBuildICmp(l->b, LLVMIntNE, left, scalar_const(l->type.i32, 0), "");
}

/* Every live lane waits at a barrier: not all at one, or the gate would have opened. */
static void park(struct lower *l, LLVMValueRef forced, LLVMBasicBlockRef again)
{
	LLVMBasicBlockRef sleep = new_bb(l, "park");
	LLVMValueRef args[3] = {l->fn.ctx, scalar_const(l->type.i32, 0),
				LLVMBuildLoad2(l->b, l->type.i32, l->own.masked.live, "")};

	for (uint32_t n = 0; n < l->body->block_count; n++)
		if (l->body->blocks[n].barrier)
			args[1] = scalar_const(l->type.i32,
					       lower_line(l->body, l->body->instrs[l->body->blocks[n].first].line));
	LLVMBuildCondBr(l->b, LLVMBuildLoad2(l->b, l->type.i1, forced, ""), sleep, again);
	LLVMPositionBuilderAtEnd(l->b, sleep);
	call_runtime(l, "ptx_rt_park", l->type.void_type, args, 3);
	LLVMBuildBr(l->b, again);
}

static void finish_masked(struct lower *l, LLVMValueRef forced, LLVMValueRef idle)
{
	LLVMBasicBlockRef stuck = new_bb(l, "stuck"), again = new_bb(l, "force"), done = new_bb(l, "done");
	LLVMBasicBlockRef sleep = new_bb(l, "waiting");

	LLVMPositionBuilderAtEnd(l->b, l->fn.starts[l->body->block_count]);
	if (l->body->has_reconvergence)
		count_idle(l, idle, any_pending(l, true));
	/* lanes that let others go first */
	if (l->body->has_waits || l->body->has_reconvergence)
		LLVMBuildCondBr(l->b, any_pending(l, false), again, stuck);
	else
		LLVMBuildBr(l->b, stuck);
	LLVMPositionBuilderAtEnd(l->b, stuck);
	LLVMBuildCondBr(l->b, any_pending(l, true), sleep, done);
	LLVMPositionBuilderAtEnd(l->b, sleep);
	/* lanes at barriers arrive in the next round; if they have in the last, there is nothing left to do but wait */
	park(l, forced, again);
	LLVMPositionBuilderAtEnd(l->b, again);
	LLVMBuildStore(l->b, scalar_const(l->type.i1, 1), forced);
	LLVMBuildBr(l->b, l->fn.starts[0]);
	LLVMPositionBuilderAtEnd(l->b, done);
	LLVMBuildRet(l->b, scalar_const(l->type.i32, PTX_LEAVE_DONE));
}

static bool masked_variables(struct lower *l, LLVMValueRef *mask_var, LLVMValueRef *forced, LLVMValueRef *idle)
{
	bool in_memory = l->body->block_count > PTX_MAX_BLOCKS_IN_REGISTERS;
	LLVMValueRef zero = scalar_const(l->type.i32, 0), table = NULL;

	l->own.masked.live = LLVMBuildAlloca(l->b, l->type.i32, "live");
	*mask_var = LLVMBuildAlloca(l->b, l->type.i32, "mask");
	l->own.masked.wait_rounds = LLVMBuildAlloca(l->b, l->type.i32, "rounds");
	LLVMBuildStore(l->b, zero, l->own.masked.wait_rounds);
	l->own.masked.parted = LLVMBuildAlloca(l->b, l->type.i1, "parted");
	LLVMBuildStore(l->b, scalar_const(l->type.i1, 0), l->own.masked.parted);
	*idle = LLVMBuildAlloca(l->b, l->type.i32, "idle");
	LLVMBuildStore(l->b, zero, *idle);
	*forced = LLVMBuildAlloca(l->b, l->type.i1, "forced");
	LLVMBuildStore(l->b, scalar_const(l->type.i1, 0), *forced);
	LLVMBuildStore(l->b, load_head(l, offsetof(struct ptx_frame, live)), l->own.masked.live);
	if (in_memory)
		table = field(l, l->fn.frame, l->low->pending_at);
	for (uint32_t n = 0; n < l->body->block_count; n++) {
		l->own.masked.pending[n] =
			in_memory ? field(l, table, 4ull * n) : LLVMBuildAlloca(l->b, l->type.i32, "pending");
		LLVMBuildStore(l->b, zero, l->own.masked.pending[n]);
	}
	return true;
}

void lower_masked(struct lower *l)
{
	struct ptx_body *body = l->body;
	LLVMBasicBlockRef dispatch = new_bb(l, "dispatch"), *sides;
	LLVMValueRef mask_var, forced, idle, stayers;

	masked_variables(l, &mask_var, &forced, &idle);
	LLVMBuildBr(l->b, dispatch);
	sides = calloc(l->low->exit_count + 1u, sizeof(*sides));
	if (!sides) {
		lower_no_memory(body);
		return;
	}
	for (uint32_t n = 0; n < l->low->exit_count; n++)
		if (l->low->exits[n].instr != AT_BRANCH)
			sides[n] = new_bb(l, "side");
	LLVMPositionBuilderAtEnd(l->b, dispatch);
	masked_entries(l, sides, mask_var);
	for (l->at.block = 0; l->at.block < body->block_count && body->status == PTX_OK; l->at.block++) {
		LLVMBasicBlockRef run = new_bb(l, "run"), stay = new_bb(l, "stay");

		LLVMPositionBuilderAtEnd(l->b, l->fn.starts[l->at.block]);
		l->at.mask = LLVMBuildLoad2(l->b, l->type.i32, l->own.masked.pending[l->at.block], "");
		LLVMBuildCondBr(l->b, LLVMBuildICmp(l->b, LLVMIntNE, l->at.mask, scalar_const(l->type.i32, 0), ""), run,
				l->fn.starts[l->at.block + 1]);
		LLVMPositionBuilderAtEnd(l->b, run);
		stayers = scalar_const(l->type.i32, 0);
		if (body->blocks[l->at.block].barrier)
			gate_barrier(l, forced, l->fn.starts[l->at.block + 1]);
		else if (body->has_reconvergence && body->blocks[l->at.block].reconverges)
			stayers = gate_meeting(l, idle, l->fn.starts[l->at.block + 1]);
		if (l->low->reenter[l->at.block])
			try_return(l, stay);
		else
			LLVMBuildBr(l->b, stay);
		LLVMPositionBuilderAtEnd(l->b, stay);
		LLVMBuildStore(l->b, stayers, l->own.masked.pending[l->at.block]);
		LLVMBuildStore(l->b, l->at.mask, mask_var);
		if (body->has_reconvergence && !body->blocks[l->at.block].barrier)
			LLVMBuildStore(l->b, scalar_const(l->type.i32, 0), idle);
		l->at.mask_vector = bits_mask(l, l->at.mask);
		emit_instructions(l, sides, mask_var);
		if (body->status == PTX_OK)
			end_masked(l);
	}
	if (body->status == PTX_OK)
		finish_masked(l, forced, idle);
	free(sides);
}

bool prepare_masked(struct lower *l)
{
	struct lower_masked *masked = &l->own.masked;

	masked->pending = ptx_alloc(&l->body->arena, (l->body->block_count + 1u) * sizeof(*masked->pending));
	return masked->pending;
}
