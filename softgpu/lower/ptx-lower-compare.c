/* SPDX-License-Identifier: Apache-2.0 */
/* Comparisons, and selections by them. */
#include "lower/ptx-emit.h"
#include "lower/ptx-lower.h"

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

/* The floating-point value as which a number of this type is compared. */
static LLVMValueRef as_real(struct lower *l, LLVMValueRef bits, unsigned type, bool ftz)
{
	LLVMValueRef v;

	if (type == PTX_F16 || type == PTX_BF16)
		return half_value(l, ftz && type == PTX_F16 ? flush_half(l, bits) : bits, type);
	v = to_float(l, bits, type);
	return ftz && type == PTX_F32 ? flush(l, v) : v;
}

static LLVMValueRef compare_bits(struct lower *l, const struct ptx_instr *i, unsigned type, LLVMValueRef a,
				 LLVMValueRef b)
{
	char cls = ptx_types[type].cls;

	for (unsigned n = 0; n < sizeof(comparisons) / sizeof(comparisons[0]); n++) {
		bool real = cls == 'f' || cls == 'h' || cls == 'y';
		int p = real ? comparisons[n].f : cls == 's' ? comparisons[n].s : comparisons[n].u;

		if (!(i->mods & comparisons[n].mod) || !p || (cls == 'b' && n > 1))
			continue;
		if (!real)
			return compare(l, (LLVMIntPredicate)p, a, b);
		a = as_real(l, a, type, i->mods & M(FTZ));
		b = as_real(l, b, type, i->mods & M(FTZ));
		return LLVMBuildFCmp(l->b, (LLVMRealPredicate)p, a, b, "");
	}
	return NULL;
}

static LLVMValueRef comparison(struct lower *l, const struct ptx_instr *i, unsigned type)
{
	return compare_bits(l, i, type, get(l, &i->ops[1], type), get(l, &i->ops[2], type));
}

static bool is_pair(unsigned type)
{
	return type == PTX_F16X2 || type == PTX_BF16X2;
}

static LLVMValueRef compare_part(struct lower *l, const struct ptx_instr *i, unsigned type, unsigned part)
{
	return compare_bits(l, i, type == PTX_F16X2 ? PTX_F16 : PTX_BF16, half_part(l, &i->ops[1], type, part),
			    half_part(l, &i->ops[2], type, part));
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
	LLVMValueRef r = is_pair(i->type) ? compare_part(l, i, i->type, 0) : comparison(l, i, i->type), p, q;

	if (!r || (i->count == 4) != !!(i->mods & (M(AND) | M(OR) | M(XOR))))
		return false;
	p = combine(l, i, r);
	q = combine(l, i, is_pair(i->type) ? compare_part(l, i, i->type, 1) : LLVMBuildNot(l->b, r, ""));
	if (i->ops[0].kind == PTX_OP_REG)
		set_reg(l, i->ops[0].reg, p, false);
	if (i->ops[0].reg2 >= 0)
		set_reg(l, i->ops[0].reg2, q, false);
	return i->ops[0].kind == PTX_OP_REG || i->ops[0].kind == PTX_OP_SINK;
}

bool emit_set(struct lower *l, const struct ptx_instr *i)
{
	unsigned bits = ptx_types[i->type].bits;
	LLVMValueRef r, yes, whole = NULL;
	uint64_t one = i->type == PTX_F32					? 0x3f800000
		       : i->type == PTX_F16 || i->type == PTX_F16X2	? 0x3c00
		       : i->type == PTX_BF16 || i->type == PTX_BF16X2 ? 0x3f80
									: UINT32_MAX;

	if (!i->type2 || (is_pair(i->type) && i->type != i->type2) || (is_pair(i->type2) && bits != 32))
		return false;
	if (!is_pair(i->type2)) {
		r = comparison(l, i, i->type2);
		if (r)
			set(l, &i->ops[0],
			    select_of(l, combine(l, i, r), int_const(l, bits, one), int_const(l, bits, 0)), false);
		return r;
	}
	if (i->type == PTX_F32)
		return false;
	for (unsigned part = 0; part < 2; part++) {
		r = compare_part(l, i, i->type2, part);
		if (!r)
			return false;
		yes = int_const(l, 32, (one & 0xffff) << 16 * part);
		r = select_of(l, combine(l, i, r), yes, int_const(l, 32, 0));
		whole = whole ? LLVMBuildOr(l->b, whole, r, "") : r;
	}
	set(l, &i->ops[0], whole, false);
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
		v = as_real(l, get(l, &i->ops[3], PTX_F32), PTX_F32, i->mods & M(FTZ));
		c = LLVMBuildFCmp(l->b, LLVMRealOGE, v, LLVMConstNull(LLVMTypeOf(v)), "");
	} else {
		return false;
	}
	set(l, &i->ops[0], select_of(l, c, get(l, &i->ops[1], i->type), get(l, &i->ops[2], i->type)), false);
	return true;
}
