/* SPDX-License-Identifier: Apache-2.0 */
/* cp.async.bulk.tensor and its kin, in tile mode. */
#include "ptx-async.h"
#include "ptx-lower-async.h"
#include "ptx-tensor-map.h"

/* How many dimensions the name says; 0: none, or several. */
static unsigned rank_of(const struct ptx_instr *i)
{
	static const char *const words[PTX_TENSOR_RANK] = {"1d", "2d", "3d", "4d", "5d"};
	unsigned rank = 0;

	for (unsigned n = 0; n < PTX_TENSOR_RANK; n++)
		if (ptx_word(i, words[n]))
			rank = rank ? PTX_TENSOR_RANK + 1 : n + 1;
	return rank > PTX_TENSOR_RANK ? 0 : rank;
}

/* [map, {as many coordinates as the name says}] from operand n on. */
static bool is_place(const struct ptx_instr *i, unsigned n)
{
	const struct ptx_operand *map = &i->ops[n], *coords = &i->ops[n + 1];

	return map->kind == PTX_OP_MEM && coords->kind == PTX_OP_VECTOR && rank_of(i) && coords->count == rank_of(i);
}

static void begin(struct lower *l, LLVMValueRef *args)
{
	args[0] = l->ctx;
	args[1] = scalar_const(l->i32, l->low->sites[l->instr]);
	args[2] = async_active(l);
}

/* Lists of two coordinates each. */
static LLVMValueRef coordinates(struct lower *l, const struct ptx_operand *o)
{
	for (unsigned n = 0; n < o->count; n += 2) {
		LLVMValueRef pair = async_number(l, &o->elements[n], PTX_U32), second;

		if (n + 1u < o->count) {
			second = async_number(l, &o->elements[n + 1], PTX_U32);
			pair = LLVMBuildOr(l->b, pair, LLVMBuildShl(l->b, second, int_const(l, 64, 32), ""), "");
		}
		async_put(l, pair, async_list(l, l->data, n / 2));
	}
	return l->data;
}

/* [to], [map, {coordinates}], [mbarrier] {, block mask} {, policy} */
bool emit_tensor_load(struct lower *l, const struct ptx_instr *i)
{
	bool multicast = ptx_word(i, "multicast::cluster");
	unsigned count = i->count - ptx_word(i, "L2::cache_hint") - multicast;
	LLVMValueRef args[9];

	if (count != 4 || !is_place(i, 1) || i->ops[0].kind != PTX_OP_MEM || i->ops[3].kind != PTX_OP_MEM ||
	    !ptx_word(i, "global") || ptx_word(i, "shared::cta") == ptx_word(i, "shared::cluster") ||
	    !ptx_word(i, "mbarrier::complete_tx::bytes") || (multicast && !ptx_word(i, "shared::cluster")))
		return false;
	begin(l, args);
	if (multicast)
		args[2] = async_addressed(l, &i->ops[4]);
	args[3] = async_put(l, async_address(l, &i->ops[0]), l->addresses);
	args[4] = async_put(l, async_address(l, &i->ops[1]), async_list(l, l->addresses, 1));
	args[5] = coordinates(l, &i->ops[2]);
	args[6] = async_put(l, async_address(l, &i->ops[3]), async_list(l, l->addresses, 2));
	args[7] = scalar_const(l->i32, rank_of(i));
	args[8] = l->thread;
	call_runtime(l, "ptx_rt_tensor_load", l->void_type, args, 9);
	return true;
}

/* [map, {coordinates}], [from] {, policy}; a reduction if the row says so, which the map gives the type of */
bool emit_tensor_store(struct lower *l, const struct ptx_instr *i)
{
	const ptx_mods all = M(AND) | M(OR) | M(XOR) | M(ADD) | M(INC) | M(DEC) | M(MIN) | M(MAX),
		       given = i->mods & all;
	bool reduces = i->op->arg;
	LLVMValueRef args[8];

	if (i->count - ptx_word(i, "L2::cache_hint") != 3 || !is_place(i, 0) || i->ops[2].kind != PTX_OP_MEM ||
	    !ptx_word(i, "global") || !ptx_word(i, "shared::cta") || !ptx_word(i, "bulk_group") ||
	    (reduces && (!given || (given & (given - 1)))))
		return false;
	begin(l, args);
	args[3] = async_put(l, async_address(l, &i->ops[2]), l->addresses);
	args[4] = async_put(l, async_address(l, &i->ops[0]), async_list(l, l->addresses, 1));
	args[5] = coordinates(l, &i->ops[1]);
	args[6] = scalar_const(l->i32, rank_of(i));
	args[7] = l->thread;
	call_runtime(l, reduces ? "ptx_rt_tensor_reduce" : "ptx_rt_tensor_store", l->void_type, args, 8);
	return true;
}

/* [map, {coordinates}] {, policy} */
bool emit_tensor_prefetch(struct lower *l, const struct ptx_instr *i)
{
	LLVMValueRef args[7];

	if (i->count - ptx_word(i, "L2::cache_hint") != 2 || !is_place(i, 0) || !ptx_word(i, "L2") ||
	    !ptx_word(i, "global"))
		return false;
	begin(l, args);
	args[3] = async_put(l, async_address(l, &i->ops[0]), l->addresses);
	args[4] = coordinates(l, &i->ops[1]);
	args[5] = scalar_const(l->i32, rank_of(i));
	args[6] = l->thread;
	call_runtime(l, "ptx_rt_tensor_prefetch", l->void_type, args, 7);
	return true;
}
