/* SPDX-License-Identifier: Apache-2.0 */
/* A kernel as one function: its head, its blocks in order, and the full version's branches. */
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include "lower/ptx-emit.h"
#include "lower/ptx-lower.h"

/* ---- both versions ---- */

static LLVMValueRef kept_value(struct lower *l, LLVMTypeRef type, LLVMValueRef variable)
{
	LLVMValueRef value = LLVMBuildLoad2(l->b, type, variable, "");

	LLVMSetVolatile(value, 1);
	return value;
}

struct usual slow_path_begin(struct lower *l)
{
	struct usual usual = {l->fn.ctx, l->fn.thread, l->mem.cache};

	if (l->own.slow_path.ctx) {
		l->fn.ctx = kept_value(l, l->type.ptr, l->own.slow_path.ctx);
		l->fn.thread = kept_value(l, l->type.i32, l->own.slow_path.thread);
		l->mem.cache =
			LLVMBuildLoad2(l->b, l->type.ptr, field(l, l->fn.ctx, offsetof(struct ptx_context, cache)), "");
	}
	return usual;
}

void slow_path_end(struct lower *l, const struct usual *usual)
{
	l->fn.ctx = usual->ctx;
	l->fn.thread = usual->thread;
	l->mem.cache = usual->cache;
}

LLVMValueRef condition_value(struct lower *l, const struct ptx_block *b, unsigned lanes)
{
	LLVMValueRef value = read_reg(l, b->condition, lanes);

	return b->negate ? LLVMBuildNot(l->b, value, "") : value;
}

/* Lanes that come from the full version go on here. */
static void let_in(struct lower *l, uint32_t instr, LLVMBasicBlockRef *sides, LLVMValueRef mask_var)
{
	for (uint32_t n = 0; n < l->low->exit_count; n++) {
		if (l->low->exits[n].block != l->at.block || l->low->exits[n].instr != instr)
			continue;
		LLVMBuildBr(l->b, sides[n]);
		LLVMPositionBuilderAtEnd(l->b, sides[n]);
		l->at.mask = LLVMBuildLoad2(l->b, l->type.i32, mask_var, "");
		l->at.mask_vector = bits_mask(l, l->at.mask);
	}
}

void emit_instructions(struct lower *l, LLVMBasicBlockRef *sides, LLVMValueRef mask_var)
{
	const struct ptx_block *b = &l->body->blocks[l->at.block];

	for (uint32_t k = b->first; k < b->last && l->body->status == PTX_OK; k++) {
		const struct ptx_instr *i = &l->body->instrs[k];
		bool scalar = true;

		if (l->version.masked)
			let_in(l, k, sides, mask_var);
		l->at.instr = k;
		l->at.i = i;
		for (unsigned n = i->op->flags & PTX_F_NO_DST ? 0 : 1; n < i->count; n++)
			scalar &= operand_kind(l, &i->ops[n]) == PTX_UNIFORM;
		if (!(i->op->flags & PTX_F_NO_DST) && i->count && i->ops[0].kind == PTX_OP_REG && i->ops[0].reg >= 0)
			scalar |= !l->version.masked && reg_shape(l, i->ops[0].reg) != PTX_VARYING;
		if ((i->op->flags & PTX_F_CARRY_IN) && reg_shape(l, l->body->carry) == PTX_VARYING)
			scalar = false;
		l->at.lanes = scalar ? 1 : l->version.width;
		l->at.distances = provenance_keeps_distance(l, i);
		if (!ptx_emitters[i->op->family](l, i))
			ptx_body_fail(l->body, PTX_NOT_SUPPORTED, i->line, "the instruction `%s` is not supported",
				      i->name);
	}
	l->at.distances = false;
}

static void load_context(struct lower *l)
{
	static const char *const names[] = {"params", "shared", "shared_bytes", "local", "cache", "cancel"};
	LLVMValueRef *values[] = {&l->mem.params, &l->mem.shared, &l->mem.shared_bytes,
				  &l->mem.local,  &l->mem.cache,  &l->mem.cancel};
	static const size_t offsets[] = {
		offsetof(struct ptx_context, params),       offsetof(struct ptx_context, shared),
		offsetof(struct ptx_context, shared_bytes), offsetof(struct ptx_context, local),
		offsetof(struct ptx_context, cache),        offsetof(struct ptx_context, cancel),
	};

	for (unsigned n = 0; n < 6; n++)
		*values[n] = LLVMBuildLoad2(l->b, n == 2 ? l->type.i64 : l->type.ptr, field(l, l->fn.ctx, offsets[n]),
					    names[n]);
	/* without dynamic shared memory the size is known, which makes most checks constant */
	if (!l->body->uses_dynamic_shared)
		l->mem.shared_bytes = scalar_const(l->type.i64, l->body->static_shared);
}

/* Takes its value from `from` on the way from one block. */
static LLVMValueRef phi32(struct lower *l, const char *name, LLVMValueRef value, LLVMBasicBlockRef from)
{
	LLVMValueRef phi = LLVMBuildPhi(l->b, l->type.i32, name);

	LLVMAddIncoming(phi, &value, &from, 1);
	return phi;
}

/*
 * Code of one lane does all threads of the block, one after the other; that of 32 lanes all whole warps, where they
 * take no turns; and then the blocks that follow. Only the first goes on where a warp came from.
 */
static void begin_thread(struct lower *l)
{
	LLVMValueRef entry = load_head(l, offsetof(struct ptx_frame, entry));

	if (l->version.width == 1) {
		l->own.slow_path.ctx = entry_alloca(l, l->type.ptr);
		l->own.slow_path.thread = entry_alloca(l, l->type.i32);
		LLVMSetVolatile(LLVMBuildStore(l->b, l->fn.ctx, l->own.slow_path.ctx), 1);
	}
	l->fn.each_block = new_bb(l, "each");
	l->fn.each_thread = new_bb(l, "thread");
	LLVMBuildBr(l->b, l->fn.each_block);
	LLVMPositionBuilderAtEnd(l->b, l->fn.each_block);
	l->fn.first_thread = phi32(l, "first", l->fn.thread, l->fn.entry);
	l->fn.first_from = phi32(l, "entry", entry, l->fn.entry);
	LLVMBuildBr(l->b, l->fn.each_thread);
	LLVMPositionBuilderAtEnd(l->b, l->fn.each_thread);
	l->fn.thread = phi32(l, "thread", l->fn.first_thread, l->fn.each_block);
	l->fn.from = phi32(l, "from", l->fn.first_from, l->fn.each_block);
	if (l->version.width == 1)
		LLVMSetVolatile(LLVMBuildStore(l->b, l->fn.thread, l->own.slow_path.thread), 1);
}

/*
 * Goes on with the next block of the call where that is simple: the block is in the same row of the grid, and the
 * launch is not cancelled. In all other cases the caller does it. Measured: to leave and come in takes as long as two
 * warps of a small kernel.
 */
static void go_on(struct lower *l, LLVMBasicBlockRef leave)
{
	LLVMValueRef at_more = field(l, l->fn.ctx, offsetof(struct ptx_context, more)),
		     zero = scalar_const(l->type.i32, 0);
	LLVMValueRef at_x = field(l, l->fn.ctx, offsetof(struct ptx_context, ctaid)), more, x, most, flag, ok;
	LLVMBasicBlockRef next = new_bb(l, "next");

	more = LLVMBuildLoad2(l->b, l->type.i64, at_more, "");
	x = LLVMBuildAdd(l->b, LLVMBuildLoad2(l->b, l->type.i32, at_x, ""), scalar_const(l->type.i32, 1), "");
	most = LLVMBuildLoad2(l->b, l->type.i32, field(l, l->fn.ctx, offsetof(struct ptx_context, nctaid)), "");
	flag = LLVMBuildLoad2(l->b, l->type.i8, l->mem.cancel, "");
	LLVMSetVolatile(flag, 1);
	ok = LLVMBuildICmp(l->b, LLVMIntNE, more, scalar_const(l->type.i64, 0), "");
	ok = LLVMBuildAnd(l->b, ok, LLVMBuildICmp(l->b, LLVMIntNE, x, most, ""), "");
	ok = LLVMBuildAnd(l->b, ok, LLVMBuildICmp(l->b, LLVMIntEQ, flag, scalar_const(l->type.i8, 0), ""), "");
	branch_likely(l, ok, next, leave);
	LLVMPositionBuilderAtEnd(l->b, next);
	LLVMBuildStore(l->b, LLVMBuildSub(l->b, more, scalar_const(l->type.i64, 1), ""), at_more);
	LLVMBuildStore(l->b, x, at_x);
	LLVMBuildBr(l->b, l->fn.each_block);
	LLVMAddIncoming(l->fn.first_thread, &zero, &next, 1);
	LLVMAddIncoming(l->fn.first_from, &zero, &next, 1);
}

static void end_thread(struct lower *l)
{
	LLVMBasicBlockRef here, done = new_bb(l, "done"), leave = new_bb(l, "leave");
	LLVMValueRef next = LLVMBuildAdd(l->b, l->fn.thread, scalar_const(l->type.i32, l->version.width), ""), more;
	LLVMValueRef end = scalar_const(l->type.i32, l->body->threads / l->version.width * l->version.width),
		     start = scalar_const(l->type.i32, 0);

	emit_thread_poll(l);
	here = LLVMGetInsertBlock(l->b);
	more = LLVMBuildICmp(l->b, LLVMIntULT, next, end, "");
	LLVMBuildCondBr(l->b, more, l->fn.each_thread, done);
	LLVMAddIncoming(l->fn.thread, &next, &here, 1);
	LLVMAddIncoming(l->fn.from, &start, &here, 1);
	LLVMPositionBuilderAtEnd(l->b, done);
	if (l->body->threads % l->version.width)
		LLVMBuildBr(l->b, leave);
	else
		go_on(l, leave);
	LLVMPositionBuilderAtEnd(l->b, leave);
	if (l->version.width > 1)
		store_head(l, offsetof(struct ptx_frame, thread), next);
}

static bool begin_function(struct lower *l, const char *name)
{
	LLVMTypeRef params[3] = {l->type.ptr, l->type.i32, l->type.ptr};
	struct ptx_body *body = l->body;
	unsigned noalias = LLVMGetEnumAttributeKindForName("noalias", 7);

	l->fn.value = LLVMAddFunction(l->m, name, LLVMFunctionType(l->type.i32, params, 3, 0));
	l->fn.ctx = LLVMGetParam(l->fn.value, 0);
	l->fn.thread = LLVMGetParam(l->fn.value, 1);
	l->fn.frame = LLVMGetParam(l->fn.value, 2);
	/* nothing else leads there, the runtime does not either */
	LLVMAddAttributeAtIndex(l->fn.value, 3, LLVMCreateEnumAttribute(l->c, noalias, 0));
	l->fn.entry = new_bb(l, "entry");
	LLVMPositionBuilderAtEnd(l->b, l->fn.entry);
	l->fn.starts = ptx_alloc(&body->arena, (body->block_count + 1u) * sizeof(*l->fn.starts));
	if (!l->fn.starts || !prepare_registers(l) || !prepare_masked(l) || !prepare_strides(l) || !prepare_asides(l) ||
	    !provenance_prepare(l) || !prepare_accesses(l))
		return lower_no_memory(body);
	l->mem.addresses = LLVMBuildAlloca(l->b, LLVMArrayType2(l->type.i64, 128), "addresses");
	l->mem.data = LLVMBuildAlloca(l->b, LLVMArrayType2(l->type.i64, 128), "data");
	l->mem.extra = LLVMBuildAlloca(l->b, LLVMArrayType2(l->type.i64, 128), "extra");
	place_registers(l);
	load_context(l);
	if (!l->version.masked && l->version.width > 1 && body->has_warp_loop)
		warp_loop_begin(l);
	else if (!l->version.masked && (l->version.width == 1 || !ptx_body_turns(body)))
		begin_thread(l);
	else
		l->fn.from = load_head(l, offsetof(struct ptx_frame, entry));
	clear_registers(l);
	for (uint32_t n = 0; n <= body->block_count; n++)
		l->fn.starts[n] = new_bb(l, "block");
	return true;
}

/* ---- the full version ---- */

static void leave_at_branch(struct lower *l, LLVMValueRef taken)
{
	const struct ptx_exit *e = add_exit(l, AT_BRANCH);

	if (!e)
		return;
	store_head(l, offsetof(struct ptx_frame, taken), taken);
	store_head(l, offsetof(struct ptx_frame, other), LLVMBuildNot(l->b, taken, ""));
	emit_leave(l, e);
}

static LLVMBasicBlockRef start_of(struct lower *l, uint32_t block, LLVMBasicBlockRef way)
{
	if (way && takes_turn(l, block))
		return way;
	return block == PTX_NO_BLOCK ? l->fn.starts[l->body->block_count] : l->fn.starts[block];
}

/* way: where a turn for other warps is to be, if at all. */
static void emit_branch(struct lower *l, LLVMBasicBlockRef way)
{
	const struct ptx_block *b = &l->body->blocks[l->at.block];
	LLVMBasicBlockRef taken = start_of(l, b->succ[0], way), other, split, leave;
	LLVMValueRef bits, lanes;

	if (b->succ[0] <= l->at.block || (b->condition >= 0 && b->succ[1] <= l->at.block))
		emit_poll(l);
	if (b->condition < 0) {
		LLVMBuildBr(l->b, taken);
		return;
	}
	other = start_of(l, b->succ[1], way);
	if (l->version.width == 1 || reg_shape(l, b->condition) == PTX_UNIFORM) {
		LLVMBuildCondBr(l->b, condition_value(l, b, 1), taken, other);
		return;
	}
	lanes = condition_value(l, b, l->version.width);
	bits = mask_bits(l, lanes);
	split = new_bb(l, "split");
	leave = new_bb(l, "diverge");
	LLVMBuildCondBr(l->b, LLVMBuildICmp(l->b, LLVMIntEQ, bits, scalar_const(l->type.i32, 0), ""), other, split);
	LLVMPositionBuilderAtEnd(l->b, split);
	LLVMBuildCondBr(l->b, LLVMBuildICmp(l->b, LLVMIntEQ, bits, scalar_const(l->type.i32, UINT32_MAX), ""), taken,
			leave);
	LLVMPositionBuilderAtEnd(l->b, leave);
	if (!if_conversion_begin(l, lanes))
		leave_at_branch(l, bits);
}

static void end_full(struct lower *l)
{
	const struct ptx_block *b = &l->body->blocks[l->at.block];
	LLVMBasicBlockRef way = NULL;

	if (takes_turn(l, b->succ[0]) || (b->condition >= 0 && takes_turn(l, b->succ[1])))
		way = new_bb(l, "way");
	emit_branch(l, way);
	if (way)
		emit_turn(l, way);
}

static void lower_full(struct lower *l)
{
	struct ptx_body *body = l->body;
	LLVMBasicBlockRef dispatch = new_bb(l, "dispatch"), first = new_bb(l, "first");
	LLVMValueRef choice;

	LLVMBuildBr(l->b, dispatch);
	LLVMPositionBuilderAtEnd(l->b, dispatch);
	choice = LLVMBuildSwitch(l->b, l->fn.from, first, 4);
	LLVMPositionBuilderAtEnd(l->b, first);
	clear_resident(l);
	LLVMBuildBr(l->b, l->fn.starts[0]);
	for (uint32_t n = 0; n < body->block_count; n++) {
		LLVMBasicBlockRef again;

		if (!l->low->reenter[n])
			continue;
		again = new_bb(l, "again");
		LLVMAddCase(choice, scalar_const(l->type.i32, n + 1), again);
		LLVMPositionBuilderAtEnd(l->b, again);
		copy_live(l, body->blocks[n].live_in, body->boundary_count, false);
		LLVMBuildBr(l->b, l->fn.starts[n]);
	}
	if (l->own.warp_loop.next_warp)
		warp_loop_resume(l, choice);
	l->at.mask = scalar_const(l->type.i32, UINT32_MAX);
	l->at.mask_vector = l->version.width == 1 ? scalar_const(l->type.i1, 1)
						  : LLVMConstAllOnes(LLVMVectorType(l->type.i1, PTX_LANES));
	for (l->at.block = 0; l->at.block < body->block_count && body->status == PTX_OK; l->at.block++) {
		LLVMPositionBuilderAtEnd(l->b, l->fn.starts[l->at.block]);
		emit_instructions(l, NULL, NULL);
		if (body->status == PTX_OK)
			end_full(l);
		if_conversion_emit(l);
	}
	LLVMPositionBuilderAtEnd(l->b, l->fn.starts[body->block_count]);
	if (l->own.warp_loop.next_warp) {
		end_warp(l);
		return;
	}
	if (l->fn.each_thread)
		end_thread(l);
	LLVMBuildRet(l->b, scalar_const(l->type.i32, PTX_LEAVE_DONE));
}

bool lower_kernel(struct lower *l, const char *name)
{
	if (!begin_function(l, name))
		return false;
	if (l->version.masked)
		lower_masked(l);
	else
		lower_full(l);
	return l->body->status == PTX_OK;
}
