/* SPDX-License-Identifier: Apache-2.0 */
/* Pairs of 16-bit floating point numbers. */
#include <stdio.h>
#include <string.h>

#include "sass/lift/lifting.h"

static bool is_bf16(const struct sass_instr *i)
{
	return i->field[SASS_F_BF16];
}

/* An f32 as two equal halves. The conversion does not round. */
static struct value narrowed(struct lift *l, struct value v)
{
	struct value half = temporary(l, TEMPORARY_16);

	emit(l, "cvt.rz.f16.f32 %s, %s", half.text, v.text);
	return compute32(l, "mov.b32", "{%s, %s}", half.text, half.text);
}

static struct value halves(struct lift *l, const struct sass_operand *o, const struct sass_instr *i)
{
	struct value v = in_register(l, source_bits(l, o));

	if (o->half == SASS_F32 && (is_bf16(i) || i->field[SASS_F_WIDE]))
		refuse(l, " with an f32 in place of halves");
	else if (o->half == SASS_F32)
		v = narrowed(l, v);
	else if (o->half)
		v = compute32(l, "prmt.b32", "%s, 0, %s", v.text, o->half == SASS_LOWER ? "0x1010" : "0x3232");
	if (o->absolute)
		v = compute32(l, "and.b32", "%s, 0x7fff7fff", v.text);
	return o->negate ? compute32(l, "xor.b32", "%s, 0x80008000", v.text) : v;
}

/* A half of a pair as an f32. */
static struct value widen(struct lift *l, struct value pair, bool upper, bool bf16)
{
	struct value low, high;

	if (bf16)
		return upper ? compute32(l, "and.b32", "%s, 0xffff0000", pair.text)
			     : compute32(l, "shl.b32", "%s, 16", pair.text);
	low = temporary(l, TEMPORARY_16);
	high = temporary(l, TEMPORARY_16);
	emit(l, "mov.b32 {%s, %s}, %s", low.text, high.text, pair.text);
	return compute32(l, "cvt.f32.f16", "%s", upper ? high.text : low.text);
}

/* The sum of two numbers as an f32: of the lower halves. */
static bool add_wide(struct lift *l, const struct sass_instr *i, struct value a, struct value b)
{
	struct value x = widen(l, a, false, is_bf16(i)), y = widen(l, b, false, is_bf16(i));
	char operation[32];

	snprintf(operation, sizeof(operation), "add.rn%s%s.f32", i->field[SASS_F_FTZ] ? ".ftz" : "",
		 i->field[SASS_F_SAT] ? ".sat" : "");
	write_32(l, i->d, compute32(l, operation, "%s, %s", x.text, y.text));
	return true;
}

/* Both bits of denormals together are OOB: a NaN that says so is 0. */
static bool is_oob(const struct sass_instr *i)
{
	return i->field[SASS_F_FTZ] && i->field[SASS_F_FMZ];
}

static const char *flushing(const struct sass_instr *i)
{
	if (is_oob(i))
		return ".oob";
	return (i->field[SASS_F_FTZ] || i->field[SASS_F_FMZ]) && !is_bf16(i) ? ".ftz" : "";
}

static void operation_of(const struct sass_instr *i, const char *name, char *to, size_t room)
{
	snprintf(to, room, "%s.rn%s%s%s.%s", name, flushing(i), i->field[SASS_F_SAT] ? ".sat" : "",
		 i->field[SASS_F_RELU] ? ".relu" : "", is_bf16(i) ? "bf16x2" : "f16x2");
}

bool lift_hadd2(struct lift *l, const struct sass_instr *i)
{
	struct value a = halves(l, &i->a, i), b = halves(l, &i->b, i);
	char operation[40];

	if (i->field[SASS_F_WIDE])
		return add_wide(l, i, a, b);
	operation_of(i, "add", operation, sizeof(operation));
	write_32(l, i->d, compute32(l, operation, "%s, %s", a.text, b.text));
	return true;
}

bool lift_hmul2(struct lift *l, const struct sass_instr *i)
{
	struct value a = halves(l, &i->a, i), b = halves(l, &i->b, i);
	char operation[40];

	if (i->field[SASS_F_WIDE] || is_oob(i))
		return refuse(l, "%s", is_oob(i) ? ".OOB" : ".F32");
	if (i->field[SASS_F_RELU]) {
		struct value zero = compute32(l, "mov.b32", "0x80008000");

		operation_of(i, "fma", operation, sizeof(operation));
		write_32(l, i->d, compute32(l, operation, "%s, %s, %s", a.text, b.text, zero.text));
		return true;
	}
	operation_of(i, "mul", operation, sizeof(operation));
	write_32(l, i->d, compute32(l, operation, "%s, %s", a.text, b.text));
	return true;
}

/* Without a product the instruction loads a constant. */
static bool is_load(const struct sass_instr *i)
{
	return i->a.kind == SASS_REGISTER && i->a.reg == SASS_RZ && i->b.kind == SASS_REGISTER && i->b.reg == SASS_RZ &&
	       i->c.kind == SASS_IMMEDIATE && !i->field[SASS_F_SAT] && !i->field[SASS_F_RELU] && !i->field[SASS_F_FTZ];
}

bool lift_hfma2(struct lift *l, const struct sass_instr *i)
{
	struct value a, b, c;
	char operation[40];

	if (i->field[SASS_F_WIDE])
		return refuse(l, ".F32");
	if (is_load(i)) {
		write_32(l, i->d, source_bits(l, &i->c));
		return true;
	}
	a = halves(l, &i->a, i);
	b = halves(l, &i->b, i);
	c = halves(l, &i->c, i);
	operation_of(i, "fma", operation, sizeof(operation));
	write_32(l, i->d, compute32(l, operation, "%s, %s, %s", a.text, b.text, c.text));
	return true;
}

bool lift_hmnmx2(struct lift *l, const struct sass_instr *i)
{
	struct sass_operand first = i->a, second = i->b;
	struct value a, b, least, most;
	const char *type = is_bf16(i) ? "bf16x2" : "f16x2", *ftz = i->field[SASS_F_FTZ] && !is_bf16(i) ? ".ftz" : "";
	const char *how = i->field[SASS_F_NAN]       ? i->field[SASS_F_XORSIGN] ? ".NaN.xorsign.abs" : ".NaN"
			  : i->field[SASS_F_XORSIGN] ? ".xorsign.abs"
						     : "";
	char operation[40];

	if (!keep_signs(l, i, &first, &second, 0x80008000))
		return false;
	a = halves(l, &first, i);
	b = halves(l, &second, i);
	snprintf(operation, sizeof(operation), "min%s%s.%s", ftz, how, type);
	least = compute32(l, operation, "%s, %s", a.text, b.text);
	snprintf(operation, sizeof(operation), "max%s%s.%s", ftz, how, type);
	most = compute32(l, operation, "%s, %s", a.text, b.text);
	write_32(l, i->d,
		 compute32(l, "selp.b32", "%s, %s, %s", least.text, most.text,
			   predicate(l, (unsigned int)i->field[SASS_F_PC], i->field[SASS_F_PC_NOT]).text));
	return true;
}

/* Compares both halves; as f32, which all of them are exactly. */
static void compare(struct lift *l, const struct sass_instr *i, struct value is[2])
{
	struct value a = halves(l, &i->a, i), b = halves(l, &i->b, i);
	int64_t how = i->field[SASS_F_COMPARE];
	char operation[32];

	for (unsigned int n = 0; n < 2; n++) {
		struct value x, y;

		if (!float_comparison(how)) {
			is[n] = value_of(how ? "%%pt" : "%%pf");
			continue;
		}
		x = widen(l, a, n, is_bf16(i));
		y = widen(l, b, n, is_bf16(i));
		if (i->field[SASS_F_FTZ]) { /* a denormal f16 is no denormal f32 */
			static const char limit[] = "0f38800000";

			x = compute32(l, "selp.b32", "%s, 0, %s", x.text,
				      compute_predicate(l, "setp.geu.f32", "%s, %s",
							compute32(l, "abs.f32", "%s", x.text).text, limit)
					      .text);
			y = compute32(l, "selp.b32", "%s, 0, %s", y.text,
				      compute_predicate(l, "setp.geu.f32", "%s, %s",
							compute32(l, "abs.f32", "%s", y.text).text, limit)
					      .text);
		}
		snprintf(operation, sizeof(operation), "setp.%s.f32", float_comparison(how));
		is[n] = compute_predicate(l, operation, "%s, %s", x.text, y.text);
	}
}

static struct value third(struct lift *l, const struct sass_instr *i)
{
	return predicate(l, (unsigned int)i->field[SASS_F_PC], i->field[SASS_F_PC_NOT]);
}

bool lift_hset2(struct lift *l, const struct sass_instr *i)
{
	const char *one = !i->field[SASS_F_ONES] ? "0xffff" : is_bf16(i) ? "0x3f80" : "0x3c00";
	struct value is[2], low, high;

	compare(l, i, is);
	low = compute32(l, "selp.b32", "%s, 0, %s", one,
			combine(l, (unsigned int)i->field[SASS_F_BOOL], is[0], third(l, i)).text);
	high = compute32(l, "selp.b32", "%s, 0, %s", one,
			 combine(l, (unsigned int)i->field[SASS_F_BOOL], is[1], third(l, i)).text);
	write_32(l, i->d, compute32(l, "prmt.b32", "%s, %s, 0x5410", low.text, high.text));
	return true;
}

/* With H_AND the predicates are those of both halves and of the opposite, else one for each half. */
bool lift_hsetp2(struct lift *l, const struct sass_instr *i)
{
	unsigned int operation = (unsigned int)i->field[SASS_F_BOOL];
	struct value is[2];

	compare(l, i, is);
	if (i->field[SASS_F_BOTH]) {
		is[0] = combine(l, 0, is[0], is[1]);
		is[1] = compute_predicate(l, "not.pred", "%s", is[0].text);
	}
	write_predicate(l, 0, (unsigned int)i->field[SASS_F_P0], combine(l, operation, is[0], third(l, i)));
	write_predicate(l, 1, (unsigned int)i->field[SASS_F_P1], combine(l, operation, is[1], third(l, i)));
	return true;
}
