/* SPDX-License-Identifier: Apache-2.0 */
/* Atomics and fences. */
#include <string.h>

#include "ptx-lower-access.h"

/* operands of lane n: data[2n], data[2n + 1] would need strides; the runtime takes them 32 apart instead */
bool emit_atom(struct lower *l, const struct ptx_instr *i)
{
	unsigned first = i->op->flags & PTX_F_NO_DST ? 1 : 2, bits = ptx_types[i->type].bits;
	ptx_mods operations =
		i->mods & (M(AND) | M(OR) | M(XOR) | M(ADD) | M(MIN) | M(MAX) | M(INC) | M(DEC) | M(CAS) | M(EXCH));
	bool cas = i->mods & M(CAS), half = strchr("hHyY", ptx_types[i->type].cls);
	LLVMValueRef args[7], old;
	struct access a;

	access_describe(l, i, &a);
	if (a.o->kind != PTX_OP_MEM || !operations || (operations & (operations - 1)) || (i->count == first + 2) != cas)
		return false;
	if (is_float_type(i->type) && (i->mods & ~(M(ADD) | M(GLOBAL) | M(SHARED) | M(RELAXED) | M(ACQUIRE) |
						   M(RELEASE) | M(ACQ_REL) | M(GPU) | M(CTA) | M(SYS) | M(CLUSTER))))
		return false;
	if (bits < 32 && !cas && !half)
		return false;
	if (half && !((i->mods & M(ADD)) && (i->mods & M(NOFTZ))))
		return false;
	l->lanes = l->width;
	for (unsigned n = first; n < i->count; n++) {
		LLVMValueRef v = resize(l, get(l, &i->ops[n], i->type), 64, is_signed_type(i->type));

		LLVMSetAlignment(LLVMBuildStore(l->b, v, field(l, l->data, (n - first) * PTX_LANES * 8)), 8);
	}
	spill_addresses(l, &a);
	args[0] = l->ctx;
	args[1] = scalar_const(l->i32, a.site);
	args[2] = l->width == 1 ? scalar_const(l->i32, 1) : l->mask;
	args[3] = l->addresses;
	args[4] = l->data;
	args[5] = l->extra;
	args[6] = l->thread;
	call_runtime(l, "ptx_rt_atom", l->void_type, args, 7);
	if (first == 1)
		return true;
	old = LLVMBuildLoad2(l->b, type_for(l, l->i64), l->extra, "");
	LLVMSetAlignment(old, 8);
	set(l, &i->ops[0], resize(l, old, bits, false), is_signed_type(i->type));
	return true;
}

bool emit_fence(struct lower *l, const struct ptx_instr *i)
{
	LLVMValueRef args[2] = {l->ctx, scalar_const(l->i32, i->line)};

	LLVMBuildFence(l->b, LLVMAtomicOrderingSequentiallyConsistent, 0, "");
	if (i->op->arg)
		call_runtime(l, "ptx_rt_yield", l->void_type, args, 2);
	return true;
}

bool emit_nothing(struct lower *l, const struct ptx_instr *i)
{
	(void)l;
	(void)i;
	return true;
}
