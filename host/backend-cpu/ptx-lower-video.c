/* SPDX-License-Identifier: Apache-2.0 */
/* The video instructions: small integers in registers, alone or two or four at a time, computed in 64 bits. */
#include <string.h>

#include "ptx-lower.h"

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

/* Part n of an operand, in 64 bits; of a scalar what its selector says: 8 or 16 bits of it. */
static LLVMValueRef part_of(struct lower *l, const struct ptx_operand *o, const struct video *v, unsigned n, bool sign)
{
	unsigned bits = v->bits, from = n * v->bits;
	LLVMValueRef r = get(l, o, PTX_U32);

	if (o->kind == PTX_OP_REG && o->select) {
		bits = o->select >> 8;
		from = o->select & 255;
	}
	r = LLVMBuildLShr(l->b, r, int_const(l, 32, from), "");
	return resize(l, resize(l, r, bits, false), 64, sign);
}

static LLVMValueRef limits(struct lower *l, LLVMValueRef v, unsigned bits, bool sign)
{
	int64_t low = sign ? -(1ll << (bits - 1)) : 0;

	v = int2(l, "llvm.smax", v, int_const(l, 64, (uint64_t)low));
	return int2(l, "llvm.smin", v, int_const(l, 64, (uint64_t)(low + (1ll << bits) - 1)));
}

static LLVMValueRef shift_by(struct lower *l, const struct ptx_instr *i, LLVMValueRef a, LLVMValueRef by)
{
	by = ptx_word(i, "wrap") ? LLVMBuildAnd(l->b, by, int_const(l, 64, 31), "")
				 : int2(l, "llvm.umin", by, int_const(l, 64, 32));
	return i->op->arg == LLVMShl ? LLVMBuildShl(l->b, a, by, "") : LLVMBuildAShr(l->b, a, by, "");
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

static LLVMValueRef primary(struct lower *l, const struct ptx_instr *i, LLVMValueRef a, LLVMValueRef b)
{
	LLVMValueRef r;

	switch (i->op->arg) {
	case LLVMAdd:
	case LLVMSub:
		return LLVMBuildBinOp(l->b, (LLVMOpcode)i->op->arg, a, b, "");
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
	case OP_MAD:
		r = LLVMBuildAdd(l->b, LLVMBuildMul(l->b, a, b, ""), resize(l, get(l, &i->ops[3], PTX_U32), 64, true),
				 "");
		return r;
	default:
		return shift_by(l, i, a, b);
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

static bool has_selector(const struct ptx_instr *i)
{
	for (unsigned n = 0; n < i->count; n++)
		if (i->ops[n].kind == PTX_OP_REG && i->ops[n].select)
			return true;
	return false;
}

/* As recorded on an H100: a sum of unsigned words wraps around, whatever is said about saturation. */
static bool saturates(const struct ptx_instr *i, const struct video *v)
{
	return ptx_word(i, "sat") &&
	       !(i->op->arg == LLVMAdd && v->parts == 1 && !v->sign[0] && !v->sign[1] && !v->sign[2]);
}

bool emit_video(struct lower *l, const struct ptx_instr *i)
{
	bool sum = ptx_word(i, "add"), second = sum || ptx_word(i, "min") || ptx_word(i, "max"), mad = i->op->arg == OP_MAD;
	LLVMValueRef whole = int_const(l, 32, 0), r;
	struct video v;

	if (!read_types(i, &v) || (i->ops[0].kind == PTX_OP_REG && i->ops[0].select))
		return false;
	/* selectors and masks of the SIMD forms, and merging into d, are not known here */
	if (v.parts > 1 ? has_selector(i) || i->count != 4 || (second && !sum) : (i->count == 4) != (second || mad))
		return false;
	for (unsigned n = 0; n < v.parts; n++) {
		r = primary(l, i, part_of(l, &i->ops[1], &v, n, v.sign[1]), part_of(l, &i->ops[2], &v, n, v.sign[2]));
		if (!r)
			return false;
		if (saturates(i, &v))
			r = limits(l, r, v.bits, v.sign[0]);
		r = resize(l, r, 32, false);
		if (!sum && v.parts > 1) {
			r = LLVMBuildAnd(l->b, r, int_const(l, 32, v.bits == 8 ? 255 : 65535), "");
			r = LLVMBuildShl(l->b, r, int_const(l, 32, n * v.bits), "");
		}
		whole = LLVMBuildAdd(l->b, whole, r, "");
	}
	set(l, &i->ops[0], second ? secondary(l, i, &v, whole) : whole, false);
	return true;
}
