/* SPDX-License-Identifier: Apache-2.0 */
/* cp.async and its kin, and mbarrier. */
#include <string.h>

#include "runtime/ptx-async.h"
#include "lower/ptx-emit.h"
#include "lower/ptx-lower-access.h"
#include "lower/ptx-lower-async.h"

LLVMValueRef async_list(struct lower *l, LLVMValueRef buffer, unsigned n)
{
	return field(l, buffer, n * PTX_LANES * 8);
}

LLVMValueRef async_put(struct lower *l, LLVMValueRef value, LLVMValueRef list)
{
	LLVMSetAlignment(LLVMBuildStore(l->b, value, list), 8);
	return list;
}

LLVMValueRef async_address(struct lower *l, const struct ptx_operand *o)
{
	LLVMValueRef v;

	l->at.lanes = l->version.width;
	if (o->reg >= 0)
		v = LLVMBuildAdd(l->b, resize(l, read_reg(l, o->reg, l->at.lanes), 64, true), int_const(l, 64, o->imm),
				 "");
	else if (o->symbol)
		v = splat(l, symbol_address(l, o->symbol, o->imm), l->at.lanes);
	else
		v = int_const(l, 64, o->imm);
	return v;
}

LLVMValueRef async_number(struct lower *l, const struct ptx_operand *o, unsigned type)
{
	l->at.lanes = l->version.width;
	return resize(l, get(l, o, type), 64, false);
}

LLVMValueRef async_active(struct lower *l)
{
	return l->version.width == 1 ? scalar_const(l->type.i32, 1) : l->at.mask;
}

static bool is_predicate(const struct lower *l, const struct ptx_operand *o)
{
	return o->kind == PTX_OP_REG && l->body->regs[o->reg].type == PTX_PRED;
}

/* [to], [from], bytes {, source bytes or ignore} {, policy} */
bool emit_cp_async(struct lower *l, const struct ptx_instr *i)
{
	unsigned count = i->count - ptx_word(i, "L2::cache_hint");
	uint64_t bytes = i->ops[2].imm;
	LLVMValueRef args[8], sizes;

	if (ptx_word(i, "ca") == ptx_word(i, "cg") || !ptx_word(i, "global") || i->ops[0].kind != PTX_OP_MEM ||
	    i->ops[1].kind != PTX_OP_MEM || i->ops[2].kind != PTX_OP_INT || count < 3 || count > 4)
		return false;
	if (bytes != 16 && (ptx_word(i, "cg") || (bytes != 4 && bytes != 8)))
		return false;
	args[0] = l->fn.ctx;
	args[1] = scalar_const(l->type.i32, l->low->sites[l->at.instr]);
	args[2] = async_active(l);
	args[3] = async_put(l, async_address(l, &i->ops[0]), l->mem.addresses);
	args[4] = async_put(l, async_address(l, &i->ops[1]), async_list(l, l->mem.addresses, 1));
	if (count == 3)
		sizes = int_const(l, 64, bytes);
	else if (is_predicate(l, &i->ops[3]))
		sizes = select_of(l, get(l, &i->ops[3], PTX_PRED), int_const(l, 64, 0), int_const(l, 64, bytes));
	else
		sizes = async_number(l, &i->ops[3], PTX_U32);
	args[5] = async_put(l, sizes, l->mem.data);
	args[6] = scalar_const(l->type.i32, bytes);
	args[7] = l->fn.thread;
	call_runtime(l, "ptx_rt_copy_async", l->type.void_type, args, 8);
	return true;
}

LLVMValueRef async_addressed(struct lower *l, const struct ptx_operand *blocks)
{
	LLVMValueRef here = resize(l, async_number(l, blocks, PTX_U16), 1, false);

	return LLVMBuildAnd(l->b, async_active(l),
			    l->version.width == 1 ? LLVMBuildZExt(l->b, here, l->type.i32, "") : mask_bits(l, here),
			    "");
}

/*
 * [to], [from], bytes {, [mbarrier]} {, block mask} {, policy} {, byte mask}; to shared memory with an mbarrier, from
 * it without
 */
bool emit_cp_bulk(struct lower *l, const struct ptx_instr *i)
{
	bool in = i->op->arg, some = ptx_word(i, "cp_mask"), near = in && !ptx_word(i, "global");
	bool multicast = ptx_word(i, "multicast::cluster");
	unsigned count = i->count - ptx_word(i, "L2::cache_hint") - some - multicast;
	LLVMValueRef args[8];

	if (count != 3u + in || (multicast && (near || !ptx_word(i, "shared::cluster"))) ||
	    !ptx_word(i, in ? "mbarrier::complete_tx::bytes" : "bulk_group") ||
	    (near ? !ptx_word(i, "shared::cta") || !ptx_word(i, "shared::cluster") || ptx_word(i, "L2::cache_hint")
		  : !ptx_word(i, "global") || !(ptx_word(i, "shared::cta") || (in && ptx_word(i, "shared::cluster")))))
		return false;
	for (unsigned n = 0; n < count; n++)
		if (n != 2 && i->ops[n].kind != PTX_OP_MEM)
			return false;
	args[0] = l->fn.ctx;
	args[1] = scalar_const(l->type.i32, l->low->sites[l->at.instr]);
	args[2] = multicast ? async_addressed(l, &i->ops[4]) : async_active(l);
	args[3] = async_put(l, async_address(l, &i->ops[0]), l->mem.addresses);
	args[4] = async_put(l, async_address(l, &i->ops[1]), async_list(l, l->mem.addresses, 1));
	args[5] = async_put(l, async_number(l, &i->ops[2], PTX_U32), l->mem.data);
	if (in)
		args[6] = async_put(l, async_address(l, &i->ops[3]), async_list(l, l->mem.data, 1));
	else if (some)
		args[6] = async_put(l, async_number(l, &i->ops[i->count - 1], PTX_U16), async_list(l, l->mem.data, 1));
	else
		args[6] = LLVMConstNull(l->type.ptr);
	args[7] = l->fn.thread;
	call_runtime(l,
		     some   ? "ptx_rt_copy_some"
		     : near ? "ptx_rt_copy_near"
			    : "ptx_rt_copy_bulk",
		     l->type.void_type, args, 8);
	return true;
}

static bool call_mbarrier(struct lower *l, unsigned operation, const struct ptx_operand *address, LLVMValueRef operand)
{
	LLVMValueRef args[8] = {
		l->fn.ctx,
		scalar_const(l->type.i32, l->low->sites[l->at.instr]),
		scalar_const(l->type.i32, operation),
		async_active(l),
		async_put(l, async_address(l, address), l->mem.addresses),
		async_put(l, operand, l->mem.data),
		l->mem.extra,
		l->fn.thread,
	};

	call_runtime(l, "ptx_rt_mbarrier", l->type.void_type, args, 8);
	return true;
}

static bool set_result(struct lower *l, const struct ptx_instr *i)
{
	LLVMValueRef v;

	l->at.lanes = l->version.width;
	v = LLVMBuildLoad2(l->b, type_for(l, l->type.i64), l->mem.extra, "");
	LLVMSetAlignment(v, 8);
	set(l, &i->ops[0], v, false);
	return true;
}

/* [address], number: nothing comes back */
bool emit_mbarrier_set(struct lower *l, const struct ptx_instr *i)
{
	if (i->ops[0].kind != PTX_OP_MEM || !ptx_word(i, "b64"))
		return false;
	l->at.lanes = l->version.width;
	return call_mbarrier(l, (unsigned)i->op->arg, &i->ops[0],
			     i->count > 1 ? async_number(l, &i->ops[1], PTX_U32) : int_const(l, 64, 1));
}

/* state, [address] {, number} */
bool emit_mbarrier_arrive(struct lower *l, const struct ptx_instr *i)
{
	bool bytes = ptx_word(i, "expect_tx"), drop = i->op->arg == PTX_MBARRIER_DROP;
	unsigned operation = bytes ? (drop ? PTX_MBARRIER_DROP_TX : PTX_MBARRIER_ARRIVE_TX) : (unsigned)i->op->arg;

	if (i->ops[1].kind != PTX_OP_MEM || !ptx_word(i, "b64") ||
	    ((bytes || ptx_word(i, "noComplete")) && i->count != 3))
		return false;
	l->at.lanes = l->version.width;
	call_mbarrier(l, operation, &i->ops[1],
		      i->count == 3 ? async_number(l, &i->ops[2], PTX_U32) : int_const(l, 64, 1));
	return set_result(l, i);
}

/* done, [address], state or parity {, the longest time to wait, which is not used} */
bool emit_mbarrier_test(struct lower *l, const struct ptx_instr *i)
{
	bool parity = ptx_word(i, "parity");
	LLVMValueRef v;

	if (i->ops[1].kind != PTX_OP_MEM || !ptx_word(i, "b64") || (i->count == 4 && !i->op->arg))
		return false;
	call_mbarrier(l, parity ? PTX_MBARRIER_TEST_PARITY : PTX_MBARRIER_TEST, &i->ops[1],
		      async_number(l, &i->ops[2], parity ? PTX_U32 : PTX_U64));
	l->at.lanes = l->version.width;
	v = LLVMBuildLoad2(l->b, type_for(l, l->type.i64), l->mem.extra, "");
	LLVMSetAlignment(v, 8);
	set(l, &i->ops[0], compare(l, LLVMIntNE, v, int_const(l, 64, 0)), false);
	return true;
}

bool emit_mbarrier_pending(struct lower *l, const struct ptx_instr *i)
{
	LLVMValueRef v = get(l, &i->ops[1], PTX_U64);

	v = LLVMBuildLShr(l->b, v, int_const(l, 64, PTX_MBARRIER_COUNT_BITS), "");
	v = LLVMBuildAnd(l->b, v, int_const(l, 64, (1u << PTX_MBARRIER_COUNT_BITS) - 1), "");
	set(l, &i->ops[0], v, false);
	return true;
}

/* With .noinc the arrival is one that was counted; without it nothing changes in the end. */
bool emit_cp_arrive(struct lower *l, const struct ptx_instr *i)
{
	l->at.lanes = l->version.width;
	return i->ops[0].kind == PTX_OP_MEM && ptx_word(i, "b64") &&
	       call_mbarrier(l, ptx_word(i, "noinc") ? PTX_MBARRIER_ARRIVE : PTX_MBARRIER_ARRIVE_COPIES, &i->ops[0],
			     int_const(l, 64, 1));
}

/* The lowest lane of the member mask: which one it is, and whether this is it. */
bool emit_elect(struct lower *l, const struct ptx_instr *i)
{
	LLVMValueRef args[2], lane, bit;

	if (l->version.width == 1 || !ptx_word(i, "sync"))
		return false;
	args[0] = l->at.mask;
	args[1] = scalar_const(l->type.i1, 0);
	lane = intrinsic(l, "llvm.cttz", l->type.i32, args, 2);
	/* all of the members are here, or the program is wrong */
	bit = LLVMBuildAnd(l->b, l->at.mask, LLVMBuildNeg(l->b, l->at.mask, ""), "");
	if (i->ops[0].kind == PTX_OP_REG)
		set_reg(l, i->ops[0].reg, lane, false);
	if (i->ops[0].reg2 >= 0)
		set_reg(l, i->ops[0].reg2, bits_mask(l, bit), false);
	return true;
}

/* In a cluster of one block: its own addresses are those of the cluster, and its rank is 0. */
bool emit_cluster(struct lower *l, const struct ptx_instr *i)
{
	if (i->op->arg)
		set(l, &i->ops[0], int_const(l, 32, 0), false);
	else
		set(l, &i->ops[0], get(l, &i->ops[1], i->type), false);
	return i->type == PTX_U32 || i->type == PTX_U64;
}

/* Policies change speed only: any number will do. */
bool emit_policy(struct lower *l, const struct ptx_instr *i)
{
	set(l, &i->ops[0], int_const(l, 64, 0), false);
	return i->type == PTX_B64;
}
