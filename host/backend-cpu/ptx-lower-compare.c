/* SPDX-License-Identifier: Apache-2.0 */
/* Comparisons, and selections by them. */
#include "ptx-lower.h"

/* signed, unsigned, float; 0: not allowed for that kind */
static const struct {
	ptx_mods mod;
	int s, u, f;
} comparisons[] = {
	{M(EQ), LLVMIntEQ, LLVMIntEQ, LLVMRealOEQ},
	{M(NE), LLVMIntNE, LLVMIntNE, LLVMRealONE},
	{M(LT), LLVMIntSLT, LLVMIntULT, LLVMRealOLT},
	{M(LE), LLVMIntSLE, LLVMIntULE, LLVMRealOLE},
	{M(GT), LLVMIntSGT, LLVMIntUGT, LLVMRealOGT},
	{M(GE), LLVMIntSGE, LLVMIntUGE, LLVMRealOGE},
	{M(LO), 0, LLVMIntULT, 0},
	{M(LS), 0, LLVMIntULE, 0},
	{M(HI), 0, LLVMIntUGT, 0},
	{M(HS), 0, LLVMIntUGE, 0},
	{M(EQU), 0, 0, LLVMRealUEQ},
	{M(NEU), 0, 0, LLVMRealUNE},
	{M(LTU), 0, 0, LLVMRealULT},
	{M(LEU), 0, 0, LLVMRealULE},
	{M(GTU), 0, 0, LLVMRealUGT},
	{M(GEU), 0, 0, LLVMRealUGE},
	{M(NUM), 0, 0, LLVMRealORD},
	{M(NAN_), 0, 0, LLVMRealUNO},
};

static LLVMValueRef comparison(struct lower *l, const struct ptx_instr *i, unsigned type)
{
	char cls = ptx_types[type].cls;

	for (unsigned n = 0; n < sizeof(comparisons) / sizeof(comparisons[0]); n++) {
		bool real = cls == 'f' || cls == 'h' || cls == 'y';
		int p = real ? comparisons[n].f : cls == 's' ? comparisons[n].s : comparisons[n].u;
		LLVMValueRef a, b;

		if (!(i->mods & comparisons[n].mod) || !p || (cls == 'b' && n > 1))
			continue;
		if (!real)
			return compare(l, (LLVMIntPredicate)p, get(l, &i->ops[1], type), get(l, &i->ops[2], type));
		a = getf(l, &i->ops[1], type);
		b = getf(l, &i->ops[2], type);
		if ((i->mods & M(FTZ)) && type == PTX_F32) {
			a = flush(l, a);
			b = flush(l, b);
		}
		return LLVMBuildFCmp(l->b, (LLVMRealPredicate)p, a, b, "");
	}
	return NULL;
}

static LLVMValueRef combine(struct lower *l, const struct ptx_instr *i, LLVMValueRef r)
{
	LLVMValueRef c;

	if (i->count < 4)
		return r;
	c = get(l, &i->ops[3], PTX_PRED);
	if (i->mods & M(AND))
		return LLVMBuildAnd(l->b, r, c, "");
	return i->mods & M(OR) ? LLVMBuildOr(l->b, r, c, "") : LLVMBuildXor(l->b, r, c, "");
}

bool emit_setp(struct lower *l, const struct ptx_instr *i)
{
	LLVMValueRef r = comparison(l, i, i->type), p, q;

	if (!r || (i->count == 4) != !!(i->mods & (M(AND) | M(OR) | M(XOR))))
		return false;
	p = combine(l, i, r);
	q = combine(l, i, LLVMBuildNot(l->b, r, ""));
	if (i->ops[0].kind == PTX_OP_REG)
		set_reg(l, i->ops[0].reg, p, false);
	if (i->ops[0].reg2 >= 0)
		set_reg(l, i->ops[0].reg2, q, false);
	return i->ops[0].kind == PTX_OP_REG || i->ops[0].kind == PTX_OP_SINK;
}

bool emit_set(struct lower *l, const struct ptx_instr *i)
{
	LLVMValueRef r = i->type2 ? comparison(l, i, i->type2) : NULL, yes;

	if (!r)
		return false;
	yes = int_const(l, 32, i->type == PTX_F32 ? 0x3f800000 : UINT32_MAX);
	set(l, &i->ops[0], select_of(l, combine(l, i, r), yes, int_const(l, 32, 0)), false);
	return true;
}

bool emit_selp(struct lower *l, const struct ptx_instr *i)
{
	LLVMValueRef c = get(l, &i->ops[3], PTX_PRED);

	set(l, &i->ops[0], select_of(l, c, get(l, &i->ops[1], i->type), get(l, &i->ops[2], i->type)), false);
	return true;
}

bool emit_slct(struct lower *l, const struct ptx_instr *i)
{
	LLVMValueRef c, v;

	if (i->type2 == PTX_S32) {
		c = compare(l, LLVMIntSGE, get(l, &i->ops[3], PTX_S32), int_const(l, 32, 0));
	} else if (i->type2 == PTX_F32) {
		v = getf(l, &i->ops[3], PTX_F32);
		c = LLVMBuildFCmp(l->b, LLVMRealOGE, v, LLVMConstNull(LLVMTypeOf(v)), "");
	} else {
		return false;
	}
	set(l, &i->ops[0], select_of(l, c, get(l, &i->ops[1], i->type), get(l, &i->ops[2], i->type)), false);
	return true;
}
