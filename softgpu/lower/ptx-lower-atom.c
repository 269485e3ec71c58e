/* SPDX-License-Identifier: Apache-2.0 */
/* Atomics and fences. */
#include <string.h>

#include "lower/ptx-emit.h"
#include "lower/ptx-lower-access.h"

#define LIST (PTX_LANES * 8)

static bool is_half(unsigned type)
{
	return strchr("hHyY", ptx_types[type].cls);
}

/* Whether the operation exists for numbers of the type, and for vectors of them. */
static bool fits(const struct ptx_instr *i, unsigned first, ptx_mods operation)
{
	bool vector = i->mods & (M(V2) | M(V4) | M(V8)), cas = operation == M(CAS), add = operation == M(ADD);
	unsigned bits = ptx_types[i->type].bits;

	if (!operation || (operation & (operation - 1)) || (i->count == first + 2) != cas)
		return false;
	if (is_half(i->type))
		return (i->mods & M(NOFTZ)) && (add || (vector && (operation & (M(MIN) | M(MAX)))));
	if (is_float_type(i->type))
		return add && (!vector || i->type == PTX_F32);
	if (vector || (i->mods & M(NOFTZ)))
		return false;
	if (bits == 128)
		return operation & (M(CAS) | M(EXCH));
	return bits >= 32 || cas;
}

static const struct ptx_operand *element(const struct ptx_operand *o, unsigned n)
{
	return o->kind == PTX_OP_VECTOR ? &o->elements[n] : o;
}

static bool counts_match(const struct ptx_instr *i, const struct access *a)
{
	for (unsigned n = 0; n < i->count; n++)
		if (&i->ops[n] != a->o && i->ops[n].kind != PTX_OP_SINK &&
		    (i->ops[n].kind == PTX_OP_VECTOR ? i->ops[n].count : 1) != a->count)
			return false;
	return true;
}

static void spill_operands(struct lower *l, const struct ptx_instr *i, unsigned first, unsigned e)
{
	for (unsigned n = first; n < i->count; n++) {
		LLVMValueRef v = resize(l, get(l, element(&i->ops[n], e), i->type), 64, is_signed_type(i->type));

		LLVMSetAlignment(LLVMBuildStore(l->b, v, field(l, l->mem.data, (n - first) * LIST)), 8);
	}
}

/* Numbers of 128 bits: a list of lower halves, one of upper ones. */
static void spill_wide(struct lower *l, const struct ptx_instr *i, unsigned first)
{
	for (unsigned n = first; n < i->count; n++) {
		LLVMValueRef v = get(l, &i->ops[n], i->type), up;

		up = resize(l, LLVMBuildLShr(l->b, v, int_const(l, 128, 64), ""), 64, false);
		LLVMSetAlignment(
			LLVMBuildStore(l->b, resize(l, v, 64, false), field(l, l->mem.data, (n - first) * 2 * LIST)),
			8);
		LLVMSetAlignment(LLVMBuildStore(l->b, up, field(l, l->mem.data, ((n - first) * 2 + 1) * LIST)), 8);
	}
}

static LLVMValueRef old_word(struct lower *l, unsigned list)
{
	LLVMValueRef v = LLVMBuildLoad2(l->b, type_for(l, l->type.i64), field(l, l->mem.extra, list * LIST), "");

	LLVMSetAlignment(v, 8);
	return v;
}

static LLVMValueRef old_value(struct lower *l, unsigned bits)
{
	LLVMValueRef up;

	if (bits < 128)
		return resize(l, old_word(l, 0), bits, false);
	up = LLVMBuildShl(l->b, resize(l, old_word(l, 1), 128, false), int_const(l, 128, 64), "");
	return LLVMBuildOr(l->b, up, resize(l, old_word(l, 0), 128, false), "");
}

/* Operands of each lane are PTX_LANES apart. A vector's elements are done one after the other, each atomically. */
bool emit_atom(struct lower *l, const struct ptx_instr *i)
{
	unsigned first = i->op->flags & PTX_F_NO_DST ? 1 : 2, bits = ptx_types[i->type].bits;
	ptx_mods operations =
		i->mods & (M(AND) | M(OR) | M(XOR) | M(ADD) | M(MIN) | M(MAX) | M(INC) | M(DEC) | M(CAS) | M(EXCH));
	LLVMValueRef args[8], old[8];
	struct access a;

	access_describe(l, i, &a);
	if (a.o->kind != PTX_OP_MEM || !fits(i, first, operations) || !counts_match(i, &a))
		return false;
	l->at.lanes = l->version.width;
	spill_addresses(l, &a);
	args[0] = l->fn.ctx;
	args[1] = scalar_const(l->type.i32, a.site);
	args[2] = l->version.width == 1 ? scalar_const(l->type.i32, 1) : l->at.mask;
	args[3] = l->mem.addresses;
	args[4] = l->mem.data;
	args[5] = l->mem.extra;
	args[6] = l->fn.thread;
	for (unsigned e = 0; e < a.count; e++) {
		if (bits == 128)
			spill_wide(l, i, first);
		else
			spill_operands(l, i, first, e);
		args[7] = scalar_const(l->type.i32, e);
		call_runtime(l,
			     bits == 128   ? "ptx_rt_atom_wide"
			     : a.count > 1 ? "ptx_rt_atom_part"
					   : "ptx_rt_atom",
			     l->type.void_type, args, a.count > 1 ? 8 : 7);
		old[e] = first == 2 ? old_value(l, bits) : NULL;
	}
	for (unsigned e = 0; first == 2 && i->ops[0].kind != PTX_OP_SINK && e < a.count; e++)
		set(l, element(&i->ops[0], e), old[e], is_signed_type(i->type));
	return true;
}

bool emit_fence(struct lower *l, const struct ptx_instr *i)
{
	LLVMValueRef args[2] = {l->fn.ctx, scalar_const(l->type.i32, lower_line(l->body, i->line))};

	LLVMBuildFence(l->b, LLVMAtomicOrderingSequentiallyConsistent, 0, "");
	if (i->op->arg)
		call_runtime(l, "ptx_rt_yield", l->type.void_type, args, 2);
	return true;
}

bool emit_nothing(struct lower *l, const struct ptx_instr *i)
{
	(void)l;
	(void)i;
	return true;
}
