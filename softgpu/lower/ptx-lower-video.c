/* SPDX-License-Identifier: Apache-2.0 */
/* The video instructions: small integers in registers, alone or two or four at a time, computed in 64 bits. */
#include <string.h>

#include "lower/ptx-emit.h"
#include "lower/ptx-lower.h"

struct video {
	bool sign[3]; /* of d, a and b */
	unsigned types, parts, bits;
};

static bool read_types(const struct ptx_instr *i, struct video *v)
{
	const char *at = ptx_words_of(i), *word;
	bool set = i->op->arg == OP_SET;
	size_t length;

	*v = (struct video){.types = set ? 1 : 0};
	while ((length = ptx_word_next(&at, &word))) {
		if (length != 3 || (memcmp(word, "u32", 3) && memcmp(word, "s32", 3)))
			continue;
		if (v->types == 3)
			return false;
		v->sign[v->types++] = *word == 's';
	}
	length = strlen(i->op->name);
	v->parts = i->op->name[length - 1] == '4' ? 4 : i->op->name[length - 1] == '2' ? 2 : 1;
	v->bits = 32 / v->parts;
	return v->types == 3;
}

/* Bits `from` on of a register or a pair, in 64 bits. */
static LLVMValueRef bits_at(struct lower *l, LLVMValueRef v, unsigned from, unsigned bits, bool sign)
{
	v = LLVMBuildLShr(l->b, v, int_const(l, bits_of(v), from), "");
	return resize(l, resize(l, v, bits, false), 64, sign);
}

/* Scalars: all of a register, or what its selector says. */
static LLVMValueRef scalar_of(struct lower *l, const struct ptx_operand *o, bool sign)
{
	unsigned bits = PTX_SELECT_HALVES(o->select) ? 16 : 8;
	LLVMValueRef v = get(l, o, PTX_U32);

	if (!o->select)
		return resize(l, v, 64, sign);
	return bits_at(l, v, PTX_SELECT_PART(o->select, 0) * bits, bits, sign);
}

/* Part n of a source of the SIMD forms: one of the parts of `both`, where those of the first register come first. */
static LLVMValueRef part_of(struct lower *l, LLVMValueRef both, const struct ptx_operand *o, const struct video *v,
			    unsigned n, unsigned first, bool sign)
{
	unsigned part = o->select ? PTX_SELECT_PART(o->select, n) : first + n;

	return bits_at(l, both, part * v->bits, v->bits, sign);
}

static LLVMValueRef limits(struct lower *l, LLVMValueRef v, unsigned bits, bool sign)
{
	int64_t low = sign ? -(1ll << (bits - 1)) : 0;

	v = int2(l, "llvm.smax", v, int_const(l, 64, (uint64_t)low));
	return int2(l, "llvm.smin", v, int_const(l, 64, (uint64_t)(low + (1ll << bits) - 1)));
}

static LLVMValueRef shift_by(struct lower *l, const struct ptx_instr *i, LLVMValueRef a, LLVMValueRef by, bool sign)
{
	LLVMValueRef r;

	by = ptx_word(i, "wrap") ? LLVMBuildAnd(l->b, by, int_const(l, 64, 31), "")
				 : int2(l, "llvm.umin", by, int_const(l, 64, 32));
	if (i->op->arg != OP_SHL)
		return LLVMBuildAShr(l->b, a, by, "");
	r = LLVMBuildShl(l->b, a, by, "");
	/* what takes all 64 bits is positive if what was shifted is */
	return !sign && ptx_word(i, "sat") ? int2(l, "llvm.umin", r, int_const(l, 64, INT64_MAX)) : r;
}

static LLVMValueRef compared(struct lower *l, const struct ptx_instr *i, LLVMValueRef a, LLVMValueRef b)
{
	static const struct {
		const char *word;
		LLVMIntPredicate p;
	} all[] = {{"eq", LLVMIntEQ},  {"ne", LLVMIntNE},  {"lt", LLVMIntSLT},
		   {"le", LLVMIntSLE}, {"gt", LLVMIntSGT}, {"ge", LLVMIntSGE}};

	for (unsigned n = 0; n < 6; n++)
		if (ptx_word(i, all[n].word))
			return resize(l, compare(l, all[n].p, a, b), 64, false);
	return NULL;
}

static LLVMValueRef primary(struct lower *l, const struct ptx_instr *i, const struct video *v, LLVMValueRef a,
			    LLVMValueRef b)
{
	LLVMValueRef r;

	switch (i->op->arg) {
	case OP_ADD:
	case OP_SUB:
		return LLVMBuildBinOp(l->b, llvm_opcode(i), a, b, "");
	case OP_ABS:
		r = LLVMBuildSub(l->b, a, b, "");
		return int2(l, "llvm.smax", r, LLVMBuildNeg(l->b, r, ""));
	case OP_MIN:
	case OP_MAX:
		return int2(l, i->op->arg == OP_MIN ? "llvm.smin" : "llvm.smax", a, b);
	case OP_AVERAGE:
		/* half of an odd sum goes away from 0 */
		r = LLVMBuildAdd(l->b, a, b, "");
		a = resize(l, compare(l, LLVMIntSGE, r, int_const(l, 64, 0)), 64, false);
		return LLVMBuildAShr(l->b, LLVMBuildAdd(l->b, r, a, ""), int_const(l, 64, 1), "");
	case OP_SET:
		return compared(l, i, a, b);
	default:
		return shift_by(l, i, a, b, v->sign[1]);
	}
}

static LLVMValueRef secondary(struct lower *l, const struct ptx_instr *i, const struct video *v, LLVMValueRef r)
{
	LLVMValueRef c = get(l, &i->ops[3], PTX_U32);

	if (ptx_word(i, "add"))
		return LLVMBuildAdd(l->b, r, c, "");
	/* as recorded on an H100: a difference's size is compared as the positive number that it is */
	r = resize(l, r, 64, v->sign[0] && i->op->arg != OP_ABS);
	c = resize(l, c, 64, v->sign[0]);
	return resize(l, int2(l, ptx_word(i, "min") ? "llvm.smin" : "llvm.smax", r, c), 32, false);
}

/* As recorded on an H100: a sum of unsigned words that stays one wraps around, whatever is said about saturation. */
static bool saturates(const struct ptx_instr *i, const struct video *v, unsigned bits)
{
	return ptx_word(i, "sat") && !(i->op->arg == OP_ADD && bits == 32 && !v->sign[0] && !v->sign[1] && !v->sign[2]);
}

static uint16_t selector(const struct ptx_operand *o)
{
	return o->kind == PTX_OP_REG ? o->select : 0;
}

/* One part of a word: .b0 to .b3, .h0, .h1 */
static bool selects_one(uint16_t select)
{
	return PTX_SELECT_COUNT(select) == 1 && PTX_SELECT_PART(select, 0) < (PTX_SELECT_HALVES(select) ? 2u : 4u);
}

/* Which parts of d are written; 0: that is no mask. */
static unsigned mask_of(uint16_t select, const struct video *v)
{
	unsigned mask = 0, count = PTX_SELECT_COUNT(select);

	if (!select)
		return (1u << v->parts) - 1;
	for (unsigned n = 0; n < count; n++) {
		unsigned part = PTX_SELECT_PART(select, n);

		if (part >= v->parts || mask >> part || PTX_SELECT_HALVES(select) != (v->parts == 2))
			return 0;
		mask |= 1u << part;
	}
	return mask;
}

static bool emit_simd(struct lower *l, const struct ptx_instr *i, const struct video *v)
{
	bool sum = ptx_word(i, "add");
	unsigned mask = mask_of(selector(&i->ops[0]), v);
	LLVMValueRef a, both, c, r;

	if (i->count != 4 || !mask || selector(&i->ops[3]) || (sum && ptx_word(i, "sat")))
		return false;
	for (unsigned n = 1; n < 3; n++) {
		uint16_t select = selector(&i->ops[n]);

		if (select && (PTX_SELECT_COUNT(select) != v->parts || PTX_SELECT_HALVES(select) != (v->parts == 2)))
			return false;
		for (unsigned k = 0; select && k < v->parts; k++)
			if (PTX_SELECT_PART(select, k) >= 2 * v->parts)
				return false;
	}
	a = resize(l, get(l, &i->ops[1], PTX_U32), 64, false);
	both = LLVMBuildShl(l->b, resize(l, get(l, &i->ops[2], PTX_U32), 64, false), int_const(l, 64, 32), "");
	both = LLVMBuildOr(l->b, both, a, "");
	c = get(l, &i->ops[3], PTX_U32);
	for (unsigned n = 0; n < v->parts; n++) {
		uint32_t bits = (v->bits == 8 ? 255u : 65535u) << n * v->bits;

		if (!(mask >> n & 1))
			continue;
		r = primary(l, i, v, part_of(l, both, &i->ops[1], v, n, 0, v->sign[1]),
			    part_of(l, both, &i->ops[2], v, n, v->parts, v->sign[2]));
		if (!r)
			return false;
		if (ptx_word(i, "sat"))
			r = limits(l, r, v->bits, v->sign[0]);
		r = resize(l, r, 32, false);
		if (sum) {
			c = LLVMBuildAdd(l->b, c, r, "");
			continue;
		}
		r = LLVMBuildAnd(l->b, LLVMBuildShl(l->b, r, int_const(l, 32, n * v->bits), ""), int_const(l, 32, bits), "");
		c = LLVMBuildOr(l->b, LLVMBuildAnd(l->b, c, int_const(l, 32, ~bits), ""), r, "");
	}
	set(l, &i->ops[0], c, false);
	return true;
}

/* The result's low bits in the part of c that d's selector says. */
static LLVMValueRef merged(struct lower *l, uint16_t select, LLVMValueRef r, LLVMValueRef c)
{
	unsigned bits = PTX_SELECT_HALVES(select) ? 16 : 8, from = PTX_SELECT_PART(select, 0) * bits;
	uint32_t mask = (uint32_t)((1u << bits) - 1) << from;

	r = LLVMBuildAnd(l->b, LLVMBuildShl(l->b, r, int_const(l, 32, from), ""), int_const(l, 32, mask), "");
	return LLVMBuildOr(l->b, LLVMBuildAnd(l->b, c, int_const(l, 32, ~mask), ""), r, "");
}

static bool emit_scalar(struct lower *l, const struct ptx_instr *i, const struct video *v)
{
	bool second = ptx_word(i, "add") || ptx_word(i, "min") || ptx_word(i, "max");
	uint16_t select = selector(&i->ops[0]);
	unsigned bits = !select ? 32 : PTX_SELECT_HALVES(select) ? 16 : 8;
	LLVMValueRef r;

	if ((i->count == 3 && (second || select)) || (second && select) || (i->count == 4 && selector(&i->ops[3])))
		return false;
	r = primary(l, i, v, scalar_of(l, &i->ops[1], v->sign[1]), scalar_of(l, &i->ops[2], v->sign[2]));
	if (!r)
		return false;
	if (saturates(i, v, bits))
		r = limits(l, r, bits, v->sign[0]);
	r = resize(l, r, 32, false);
	if (select)
		r = merged(l, select, r, get(l, &i->ops[3], PTX_U32));
	set(l, &i->ops[0], second ? secondary(l, i, v, r) : r, false);
	return true;
}

/* a * b + c, exact in 128 bits; either the product or c may be negated, and then c has a sign, whatever its type. */
static bool emit_vmad(struct lower *l, const struct ptx_instr *i, const struct video *v)
{
	bool minus = i->ops[1].minus != i->ops[2].minus, less = i->ops[3].minus;
	bool sign = v->sign[1] || v->sign[2] || minus, final_sign = sign || less;
	unsigned shift = ptx_word(i, "shr7") ? 7 : ptx_word(i, "shr15") ? 15 : 0;
	LLVMValueRef part[2], r, c;
	int64_t low = final_sign ? INT32_MIN : 0;

	if (i->count != 4 || selector(&i->ops[0]) || selector(&i->ops[3]) || (minus && less) ||
	    (ptx_word(i, "po") && (i->ops[1].minus || i->ops[2].minus || less)))
		return false;
	for (unsigned n = 0; n < 2; n++)
		part[n] = resize(l, scalar_of(l, &i->ops[n + 1], v->sign[n + 1]), 128, v->sign[n + 1]);
	r = LLVMBuildMul(l->b, part[0], part[1], "");
	c = resize(l, get(l, &i->ops[3], PTX_U32), 128, final_sign);
	r = minus ? LLVMBuildNeg(l->b, r, "") : r;
	r = less ? LLVMBuildSub(l->b, r, c, "") : LLVMBuildAdd(l->b, r, c, "");
	if (ptx_word(i, "po"))
		r = LLVMBuildAdd(l->b, r, int_const(l, 128, 1), "");
	r = LLVMBuildAShr(l->b, r, int_const(l, 128, shift), "");
	if (ptx_word(i, "sat")) {
		r = int2(l, "llvm.smax", r, resize(l, int_const(l, 64, (uint64_t)low), 128, true));
		r = int2(l, "llvm.smin", r, resize(l, int_const(l, 64, (uint64_t)(low + UINT32_MAX)), 128, true));
	}
	set(l, &i->ops[0], resize(l, r, 32, false), false);
	return true;
}

bool emit_video(struct lower *l, const struct ptx_instr *i)
{
	bool mad = i->op->arg == OP_MAD;
	struct video v;

	if (!read_types(i, &v))
		return false;
	for (unsigned n = 0; n < i->count; n++)
		if ((i->ops[n].minus && !mad) ||
		    (v.parts == 1 && selector(&i->ops[n]) && !selects_one(selector(&i->ops[n]))))
			return false;
	if (mad)
		return emit_vmad(l, i, &v);
	return v.parts > 1 ? emit_simd(l, i, &v) : emit_scalar(l, i, &v);
}
