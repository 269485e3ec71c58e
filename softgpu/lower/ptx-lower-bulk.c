/* SPDX-License-Identifier: Apache-2.0 */
/* st.async, red.async, cp.reduce.async.bulk, st.bulk, clusterlaunchcontrol. */
#include "runtime/ptx-async.h"
#include "lower/ptx-emit.h"
#include "lower/ptx-lower-async.h"

static bool are_memory(const struct ptx_instr *i, unsigned operands)
{
	for (unsigned n = 0; n < i->count; n++)
		if ((operands >> n & 1) != (i->ops[n].kind == PTX_OP_MEM))
			return false;
	return true;
}

static void begin(struct lower *l, LLVMValueRef *args)
{
	args[0] = l->fn.ctx;
	args[1] = scalar_const(l->type.i32, l->low->sites[l->at.instr]);
	args[2] = async_active(l);
}

static bool has_operation(const struct ptx_instr *i)
{
	const ptx_mods all = M(AND) | M(OR) | M(XOR) | M(ADD) | M(INC) | M(DEC) | M(MIN) | M(MAX),
		       given = i->mods & all;

	return given && !(given & (given - 1));
}

/* Whether the operation is defined for the type. */
static bool is_reduction(const struct ptx_instr *i)
{
	char cls = ptx_types[i->type].cls;
	unsigned bits = ptx_types[i->type].bits;

	if (!has_operation(i))
		return false;
	if (i->mods & (M(AND) | M(OR) | M(XOR)))
		return cls == 'b' && bits >= 32;
	if (i->mods & (M(INC) | M(DEC)))
		return i->type == PTX_U32;
	if (i->mods & M(ADD))
		return (bits >= 32 && (cls == 'u' || cls == 's' || cls == 'f')) ||
		       ((i->type == PTX_F16 || i->type == PTX_BF16) && (i->mods & M(NOFTZ)));
	return (bits >= 32 && (cls == 'u' || cls == 's')) || i->type == PTX_F16 || i->type == PTX_BF16;
}

/* [to], [from], bytes {, [mbarrier]} {, policy} */
bool emit_reduce_bulk(struct lower *l, const struct ptx_instr *i)
{
	bool in = ptx_word(i, "mbarrier::complete_tx::bytes");
	unsigned count = i->count - ptx_word(i, "L2::cache_hint");
	LLVMValueRef args[8];

	if (count != 3u + in || in == ptx_word(i, "bulk_group") || in == ptx_word(i, "global") ||
	    in != ptx_word(i, "shared::cluster") || !ptx_word(i, "shared::cta") || !is_reduction(i) ||
	    !are_memory(i, in ? 11 : 3))
		return false;
	begin(l, args);
	args[3] = async_put(l, async_address(l, &i->ops[0]), l->mem.addresses);
	args[4] = async_put(l, async_address(l, &i->ops[1]), async_list(l, l->mem.addresses, 1));
	args[5] = async_put(l, async_number(l, &i->ops[2], PTX_U32), l->mem.data);
	args[6] = in ? async_put(l, async_address(l, &i->ops[3]), async_list(l, l->mem.data, 1))
		     : LLVMConstNull(l->type.ptr);
	args[7] = l->fn.thread;
	call_runtime(l, "ptx_rt_reduce_bulk", l->type.void_type, args, 8);
	return true;
}

/* [to], value or values, [mbarrier] */
bool emit_store_async(struct lower *l, const struct ptx_instr *i)
{
	bool reduces = i->op->arg;
	unsigned count = i->mods & M(V4) ? 4 : i->mods & M(V2) ? 2 : 1, bits = ptx_types[i->type].bits;
	const struct ptx_operand *value = &i->ops[1];
	LLVMValueRef args[7];

	if (!ptx_word(i, "mbarrier::complete_tx::bytes") || !are_memory(i, 5) || bits < 32 || bits > 64 ||
	    (value->kind == PTX_OP_VECTOR ? value->count : 1) != count ||
	    (i->space != PTX_SHARED && i->space != PTX_GENERIC) || (reduces ? !is_reduction(i) : has_operation(i)))
		return false;
	begin(l, args);
	args[3] = async_put(l, async_address(l, &i->ops[0]), l->mem.addresses);
	for (unsigned n = 0; n < count; n++)
		async_put(l, async_number(l, count > 1 ? &value->elements[n] : value, i->type),
			  async_list(l, l->mem.data, n));
	args[4] = l->mem.data;
	args[5] = async_put(l, async_address(l, &i->ops[2]), async_list(l, l->mem.addresses, 1));
	args[6] = l->fn.thread;
	call_runtime(l, "ptx_rt_store_async", l->type.void_type, args, 7);
	return true;
}

static bool fill(struct lower *l, const struct ptx_instr *i, LLVMValueRef sizes, LLVMValueRef barriers)
{
	LLVMValueRef args[7];

	begin(l, args);
	args[3] = async_put(l, async_address(l, &i->ops[0]), l->mem.addresses);
	args[4] = async_put(l, sizes, l->mem.data);
	args[5] = barriers ? async_put(l, barriers, async_list(l, l->mem.data, 1)) : LLVMConstNull(l->type.ptr);
	args[6] = l->fn.thread;
	call_runtime(l, "ptx_rt_fill_bulk", l->type.void_type, args, 7);
	return true;
}

/* [to], bytes, 0 */
bool emit_fill_bulk(struct lower *l, const struct ptx_instr *i)
{
	if (!are_memory(i, 1) || i->ops[2].kind != PTX_OP_INT || i->ops[2].imm)
		return false;
	return fill(l, i, async_number(l, &i->ops[1], PTX_U64), NULL);
}

/* [response], [mbarrier]: 16 bytes of 0, which say that nothing was cancelled */
bool emit_try_cancel(struct lower *l, const struct ptx_instr *i)
{
	if (!are_memory(i, 3) || !ptx_word(i, "mbarrier::complete_tx::bytes") || !ptx_word(i, "b128"))
		return false;
	l->at.lanes = l->version.width;
	return fill(l, i, int_const(l, 64, 16), async_address(l, &i->ops[1]));
}

/* Gives whether a response is good, and the block that it names, which is undefined if it is not. */
bool emit_query_cancel(struct lower *l, const struct ptx_instr *i)
{
	bool asks = ptx_word(i, "is_canceled"), vector = ptx_word(i, "v4");
	const struct ptx_operand *o = &i->ops[0];

	if (!ptx_word(i, "b128") || asks != ptx_word(i, "pred") || asks == ptx_word(i, "b32") ||
	    vector != (o->kind == PTX_OP_VECTOR && o->count == 4))
		return false;
	for (unsigned n = 0; n < (vector ? 4 : 1); n++) {
		l->at.lanes = 1;
		set(l, vector ? &o->elements[n] : o, int_const(l, asks ? 1 : 32, 0), false);
	}
	return true;
}
