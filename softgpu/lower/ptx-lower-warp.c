/* SPDX-License-Identifier: Apache-2.0 */
/* Instructions through which threads see one another, and those that end a thread's work. */
#include "lower/ptx-emit.h"
#include "lower/ptx-lower.h"

static LLVMValueRef active(struct lower *l)
{
	return l->version.width == 1 ? scalar_const(l->type.i32, 1) : l->at.mask;
}

static void spill(struct lower *l, LLVMValueRef value, LLVMValueRef buffer, uint64_t offset)
{
	LLVMSetAlignment(LLVMBuildStore(l->b, value, field(l, buffer, offset)), 4);
}

static LLVMValueRef reload(struct lower *l, unsigned bits, LLVMValueRef buffer, uint64_t offset)
{
	LLVMValueRef v =
		LLVMBuildLoad2(l->b, LLVMVectorType(int_type(l, bits), PTX_LANES), field(l, buffer, offset), "");

	LLVMSetAlignment(v, 4);
	return v;
}

/* A predicate of each active lane, as bits; lanes are the 32 of the warp. */
static LLVMValueRef predicate_bits(struct lower *l, const struct ptx_operand *o)
{
	unsigned lanes = l->at.lanes;
	LLVMValueRef v;

	l->at.lanes = PTX_LANES;
	v = mask_bits(l, get(l, o, PTX_PRED));
	l->at.lanes = lanes;
	return LLVMBuildAnd(l->b, v, l->at.mask, "");
}

/* A number that must be the same in all lanes, from the first active one where it varies. */
static LLVMValueRef one_for_all(struct lower *l, const struct ptx_operand *o)
{
	unsigned lanes = l->at.lanes;
	LLVMValueRef args[2] = {l->at.mask, scalar_const(l->type.i1, 0)}, v;
	bool uniform = operand_kind(l, o) == PTX_UNIFORM;

	l->at.lanes = uniform ? 1 : l->version.width;
	v = get(l, o, PTX_U32);
	l->at.lanes = lanes;
	if (is_vector(v))
		v = LLVMBuildExtractElement(l->b, v,
					    LLVMBuildAnd(l->b, intrinsic(l, "llvm.cttz", l->type.i32, args, 2),
							 scalar_const(l->type.i32, 31), ""),
					    "");
	return v;
}

/* The lanes that have not exited. */
static LLVMValueRef live_lanes(struct lower *l)
{
	return l->version.masked ? LLVMBuildLoad2(l->b, l->type.i32, l->own.masked.live, "") : l->at.mask;
}

/* Calls the runtime for a barrier with its count, what it is for and the lanes' predicates; gives what it reduces to. */
static LLVMValueRef reconverge(struct lower *l, LLVMValueRef id, LLVMValueRef count, uint32_t kind, LLVMValueRef predicates)
{
	LLVMValueRef args[8] = {l->fn.ctx, scalar_const(l->type.i32, lower_line(l->body, l->at.i->line)), id, count, l->at.mask}, r, go;
	LLVMValueRef live = live_lanes(l);

	args[5] = live;
	args[6] = scalar_const(l->type.i32, kind);
	args[7] = predicates;
	if (kind == 0 && LLVMIsAConstantInt(count) && !LLVMConstIntGetZExtValue(count)) {
		args[3] = args[4];
		args[4] = args[5];
		r = call_runtime(l, "ptx_rt_sync", l->type.i64, args, 5);
	} else {
		r = call_runtime(l, "ptx_rt_barrier", l->type.i64, args, 8);
	}
	if (l->version.masked) {
		/* lanes that wait come by again: the block is the barrier and nothing else */
		go = LLVMBuildTrunc(l->b, LLVMBuildLShr(l->b, r, scalar_const(l->type.i64, 32), ""), l->type.i32, "");
		LLVMBuildStore(l->b,
			       LLVMBuildOr(l->b, LLVMBuildICmp(l->b, LLVMIntNE, l->at.mask, live, ""),
					   LLVMBuildICmp(l->b, LLVMIntNE, l->at.mask, go, ""), ""),
			       l->own.masked.parted);
		LLVMBuildStore(l->b, LLVMBuildAnd(l->b, l->at.mask, LLVMBuildNot(l->b, go, ""), ""),
			       l->own.masked.pending[l->at.block]);
		l->at.mask = go;
		l->at.mask_vector = bits_mask(l, go);
	}
	return LLVMBuildTrunc(l->b, r, l->type.i32, "");
}

bool emit_barrier(struct lower *l, const struct ptx_instr *i)
{
	unsigned first = i->op->flags & PTX_F_NO_DST ? 0 : 1;
	bool red = i->mods & M(RED), arrive = i->mods & M(ARRIVE);
	ptx_mods kinds = i->mods & (M(AND) | M(OR) | M(POPC));
	LLVMValueRef zero = scalar_const(l->type.i32, 0), r;

	if (i->mods & M(WARP)) {
		/* lanes run in step, and writes are in order: only the compiler must not reorder around it */
		LLVMBuildFence(l->b, LLVMAtomicOrderingSequentiallyConsistent, 1, "");
		return i->count == 1;
	}
	if (l->version.width == 1 || (!red && kinds))
		return false;
	if (red && (!kinds || (kinds & (kinds - 1))))
		return false;
	r = reconverge(l, one_for_all(l, &i->ops[first]),
		 i->count > first + 1u + red ? one_for_all(l, &i->ops[first + 1]) : zero,
		 (arrive ? 1 : 0) | (i->mods & M(AND) ? 2 : i->mods & M(OR) ? 4 : red ? 8 : 0),
		 red ? predicate_bits(l, &i->ops[i->count - 1]) : zero);
	if (red)
		set(l, &i->ops[0],
		    i->type == PTX_PRED ? LLVMBuildICmp(l->b, LLVMIntNE, r, scalar_const(l->type.i32, 0), "") : r,
		    false);
	return true;
}

/* A cluster has one block, whose threads wait here for one another. */
bool emit_cluster_wait(struct lower *l, const struct ptx_instr *i)
{
	LLVMValueRef zero = scalar_const(l->type.i32, 0);

	(void)i;
	if (l->version.width == 1)
		return false;
	reconverge(l, scalar_const(l->type.i32, PTX_CLUSTER_BARRIER), zero, 0, zero);
	return true;
}

/* The source lanes are known where the mode's operands are: then one shuffle does it. */
static bool constant_shuffle(struct lower *l, const struct ptx_instr *i, LLVMValueRef value, unsigned mode)
{
	LLVMValueRef index[PTX_LANES], inside[PTX_LANES];
	uint64_t b, c;

	for (unsigned n = 2; n < 4; n++) {
		const struct ptx_operand *o = &i->ops[n];
		bool known = o->kind == PTX_OP_INT || (o->kind == PTX_OP_REG && l->body->shapes[o->reg].known &&
						       l->body->shapes[o->reg].kind == PTX_UNIFORM);

		if (!known)
			return false;
		*(n == 2 ? &b : &c) = o->kind == PTX_OP_INT ? o->imm : l->body->shapes[o->reg].value;
	}
	for (int lane = 0; lane < PTX_LANES; lane++) {
		int by = (int)(b & 31), seg = (int)(c >> 8 & 31), last = (lane & seg) | ((int)(c & 31) & ~seg), from;
		bool ok;

		from = mode == 0   ? lane - by
		       : mode == 1 ? lane + by
		       : mode == 2 ? lane ^ by
				   : (lane & seg) | (by & ~seg);
		ok = mode == 0 ? from >= last : from <= last;
		index[lane] = scalar_const(l->type.i32, (uint64_t)(ok ? from : lane));
		inside[lane] = scalar_const(l->type.i1, ok);
	}
	value = LLVMBuildShuffleVector(l->b, value, LLVMGetPoison(LLVMTypeOf(value)), LLVMConstVector(index, PTX_LANES),
				       "");
	if (i->ops[0].kind == PTX_OP_REG)
		set_reg(l, i->ops[0].reg, value, false);
	if (i->ops[0].reg2 >= 0)
		set_reg(l, i->ops[0].reg2, LLVMConstVector(inside, PTX_LANES), false);
	return true;
}

bool emit_shfl(struct lower *l, const struct ptx_instr *i)
{
	unsigned mode = i->mods & M(UP) ? 0 : i->mods & M(DOWN) ? 1 : i->mods & M(BFLY) ? 2 : 3;
	LLVMValueRef value, args[5];

	if (l->version.width == 1 || !(i->mods & (M(UP) | M(DOWN) | M(BFLY) | M(IDX))) ||
	    (i->count == 5) != !!(i->mods & M(SYNC)))
		return false;
	l->at.lanes = l->version.width;
	value = get(l, &i->ops[1], PTX_B32);
	/* PTX leaves it open what an inactive lane gives; GPUs give 0, and programs rely on it (cuda-samples' reduction). */
	if (l->version.masked)
		value = LLVMBuildSelect(l->b, l->at.mask_vector, value, LLVMConstNull(LLVMTypeOf(value)), "");
	if (constant_shuffle(l, i, value, mode))
		return true;
	spill(l, value, l->mem.data, 0);
	spill(l, get(l, &i->ops[2], PTX_B32), l->mem.data, 128);
	spill(l, get(l, &i->ops[3], PTX_B32), l->mem.data, 256);
	args[0] = scalar_const(l->type.i32, mode);
	args[1] = l->at.mask;
	args[2] = l->mem.data;
	args[3] = field(l, l->mem.data, 128);
	args[4] = l->mem.extra;
	call_runtime(l, "ptx_rt_shfl", l->type.void_type, args, 5);
	if (i->ops[0].kind == PTX_OP_REG)
		set_reg(l, i->ops[0].reg, reload(l, 32, l->mem.extra, 0), false);
	if (i->ops[0].reg2 >= 0)
		set_reg(l, i->ops[0].reg2, resize(l, reload(l, 32, l->mem.extra, 128), 1, false), false);
	return true;
}

/* The lanes that the lanes name: one number, or one each where they differ, which makes l->at.lanes that many. */
static LLVMValueRef named(struct lower *l, const struct ptx_operand *o)
{
	l->at.lanes = operand_kind(l, o) == PTX_UNIFORM ? 1 : l->version.width;
	return LLVMBuildAnd(l->b, get(l, o, PTX_U32), splat(l, l->at.mask, l->at.lanes), "");
}

/* For the runtime: the lanes of a group, and where the groups of all lanes stand if they differ. */
static LLVMValueRef groups(struct lower *l, const struct ptx_operand *o, uint64_t offset, LLVMValueRef *all)
{
	LLVMValueRef v = named(l, o);

	l->at.lanes = l->version.width;
	*all = LLVMConstNull(l->type.ptr);
	if (!is_vector(v))
		return v;
	*all = field(l, l->mem.data, offset);
	spill(l, v, l->mem.data, offset);
	return l->at.mask;
}

bool emit_vote(struct lower *l, const struct ptx_instr *i)
{
	LLVMValueRef bits, voters = l->at.mask, r, zero;

	if (l->version.width == 1 || (i->count == 3) != !!(i->mods & M(SYNC)))
		return false;
	bits = predicate_bits(l, &i->ops[1]);
	if (i->count == 3)
		voters = named(l, &i->ops[2]);
	if (is_vector(voters))
		bits = splat(l, bits, l->at.lanes);
	bits = LLVMBuildAnd(l->b, bits, voters, "");
	zero = LLVMConstNull(LLVMTypeOf(bits));
	if (i->mods & M(BALLOT))
		r = bits;
	else if (i->mods & M(ALL))
		r = LLVMBuildICmp(l->b, LLVMIntEQ, bits, voters, "");
	else if (i->mods & M(ANY))
		r = LLVMBuildICmp(l->b, LLVMIntNE, bits, zero, "");
	else if (i->mods & M(UNI))
		r = LLVMBuildOr(l->b, LLVMBuildICmp(l->b, LLVMIntEQ, bits, voters, ""),
				LLVMBuildICmp(l->b, LLVMIntEQ, bits, zero, ""), "");
	else
		return false;
	set(l, &i->ops[0], r, false);
	return true;
}

bool emit_activemask(struct lower *l, const struct ptx_instr *i)
{
	set(l, &i->ops[0], active(l), false);
	return true;
}

bool emit_match(struct lower *l, const struct ptx_instr *i)
{
	LLVMValueRef args[6];

	if (l->version.width == 1 || !(i->mods & M(SYNC)) || !(i->mods & (M(ANY) | M(ALL))))
		return false;
	l->at.lanes = l->version.width;
	spill(l, resize(l, get(l, &i->ops[1], i->type), 64, false), l->mem.data, 0);
	args[0] = scalar_const(l->type.i32, !!(i->mods & M(ALL)));
	args[1] = groups(l, &i->ops[2], 256, &args[2]);
	args[3] = l->mem.data;
	args[4] = l->mem.extra;
	args[5] = field(l, l->mem.extra, 128);
	call_runtime(l, "ptx_rt_match", l->type.void_type, args, 6);
	if (i->ops[0].kind == PTX_OP_REG)
		set_reg(l, i->ops[0].reg, reload(l, 32, l->mem.extra, 0), false);
	if (i->ops[0].reg2 >= 0)
		set_reg(l, i->ops[0].reg2, resize(l, reload(l, 32, l->mem.extra, 128), 1, false), false);
	return true;
}

bool emit_redux(struct lower *l, const struct ptx_instr *i)
{
	unsigned operation = i->mods & M(ADD)   ? 0
			     : i->mods & M(MIN) ? 1
			     : i->mods & M(MAX) ? 2
			     : i->mods & M(AND) ? 3
			     : i->mods & M(OR)  ? 4
						: 5;
	LLVMValueRef args[5];

	if (l->version.width == 1 || !(i->mods & M(SYNC)))
		return false;
	if (is_signed_type(i->type))
		operation |= PTX_REDUX_SIGNED;
	if (i->type == PTX_F32)
		operation |= PTX_REDUX_FLOAT | (ptx_word(i, "abs") ? PTX_REDUX_ABS : 0) | (i->mods & M(NANP) ? PTX_REDUX_NAN : 0);
	if (i->type == PTX_F32 && !(i->mods & (M(MIN) | M(MAX))))
		return false;
	l->at.lanes = l->version.width;
	spill(l, get(l, &i->ops[1], PTX_B32), l->mem.data, 0);
	args[0] = scalar_const(l->type.i32, operation);
	args[1] = groups(l, &i->ops[2], 256, &args[2]);
	args[3] = l->mem.data;
	args[4] = l->mem.extra;
	call_runtime(l, "ptx_rt_redux", l->type.void_type, args, 5);
	set(l, &i->ops[0], reload(l, 32, l->mem.extra, 0), false);
	return true;
}

static LLVMValueRef first_thread(struct lower *l)
{
	LLVMValueRef args[2] = {l->at.mask, scalar_const(l->type.i1, 0)};

	if (l->version.width == 1)
		return l->fn.thread;
	return LLVMBuildAdd(l->b, l->fn.thread, intrinsic(l, "llvm.cttz", l->type.i32, args, 2), "");
}

bool emit_trap(struct lower *l, const struct ptx_instr *i)
{
	LLVMValueRef args[3] = {l->fn.ctx, scalar_const(l->type.i32, lower_line(l->body, i->line)), first_thread(l)};

	call_runtime(l, "ptx_rt_trap", l->type.void_type, args, 3);
	return true;
}

bool emit_bad_target(struct lower *l, const struct ptx_instr *i)
{
	LLVMValueRef args[3] = {l->fn.ctx, scalar_const(l->type.i32, lower_line(l->body, i->line)), first_thread(l)};

	call_runtime(l, "ptx_rt_bad_target", l->type.void_type, args, 3);
	return true;
}

/* A function of the runtime, such as vprintf. Arguments of lane n: data[argument * 32 + n]. */
bool emit_call(struct lower *l, const struct ptx_instr *i)
{
	LLVMValueRef args[7], r;
	unsigned lanes = l->version.width, width;

	l->at.lanes = lanes;
	for (unsigned n = 1; n < i->count; n++) {
		if (i->ops[n].kind != PTX_OP_REG)
			return false;
		width = ptx_types[l->body->regs[i->ops[n].reg].type].bits;
		r = resize(l, get(l, &i->ops[n], width == 64 ? PTX_U64 : width == 32 ? PTX_U32 : PTX_U16), 64, false);
		/* there is room for four; the fifth of __assertfail is the size of a character */
		if (n < 5)
			LLVMSetAlignment(LLVMBuildStore(l->b, r, field(l, l->mem.data, (n - 1) * PTX_LANES * 8)), 8);
	}
	args[0] = l->fn.ctx;
	args[1] = scalar_const(l->type.i32, l->low->sites[l->at.instr]);
	args[2] = active(l);
	args[3] = l->mem.data;
	args[4] = l->mem.extra;
	args[5] = l->fn.thread;
	args[6] = lanes > 1 ? live_lanes(l) : args[2];
	call_runtime(l, "ptx_rt_call", l->type.i64, args, 7);
	if (i->ops[0].kind == PTX_OP_REG) {
		r = LLVMBuildLoad2(l->b, type_for(l, l->type.i64), l->mem.extra, "");
		LLVMSetAlignment(r, 8);
		set(l, &i->ops[0], r, false);
	}
	return true;
}
