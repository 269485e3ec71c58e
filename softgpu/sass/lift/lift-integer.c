/* SPDX-License-Identifier: Apache-2.0 */
/* Integer arithmetic. */
#include <stdio.h>
#include <stdlib.h>

#include "sass/lift/lifting.h"

static bool is_signed(const struct sass_instr *i)
{
	return i->field[SASS_F_SIGNED];
}

static struct value add(struct lift *l, struct value a, struct value b)
{
	if (is_text(a, "0"))
		return b;
	return is_text(b, "0") ? a : compute32(l, "add.u32", "%s, %s", a.text, b.text);
}

/*
 * The sum of sources. Negated ones come last, as operands of `sub`: the software GPU follows addresses through `sub`,
 * and not through `neg`.
 */
static struct value sum_of(struct lift *l, struct value sum, const struct sass_operand *const *o, unsigned int count)
{
	for (unsigned int n = 0; n < count; n++)
		if (!o[n]->negate)
			sum = add(l, sum, source_bits(l, o[n]));
	for (unsigned int n = 0; n < count; n++) {
		struct value v = o[n]->negate ? source_bits(l, o[n]) : value_of("0");

		if (is_text(v, "0"))
			continue;
		if (is_text(sum, "0"))
			sum = compute32(l, "neg.s32", "%s", v.text);
		else
			sum = compute32(l, "sub.u32", "%s, %s", sum.text, v.text);
	}
	return sum;
}

/* A source; with its bit its complement, in 32 bits. */
static struct value complement(struct lift *l, const struct sass_operand *o)
{
	struct value v = source_bits(l, o);

	if (!o->negate)
		return v;
	return is_text(v, "0") ? value_of("0xffffffff") : compute32(l, "not.b32", "%s", v.text);
}

/* The same as a 64-bit number that is not negative. */
static struct value widened(struct lift *l, const struct sass_operand *o)
{
	struct value v = complement(l, o);

	return v.text[0] == '%' ? compute64(l, "cvt.u64.u32", "%s", v.text) : v;
}

/* The predicate of a carry, as a 64-bit number. */
static struct value carry(struct lift *l, int64_t number, int64_t negated)
{
	if (number == SASS_PT && negated)
		return value_of("0");
	return compute64(l, "selp.b64", "1, 0, %s", predicate(l, (unsigned int)number, negated).text);
}

static struct value add_64(struct lift *l, struct value a, struct value b)
{
	if (is_text(a, "0"))
		return b;
	return is_text(b, "0") ? a : compute64(l, "add.u64", "%s, %s", a.text, b.text);
}

/* Whether a sum with a carry has one carry only, and gives none. */
static bool is_last_sum(const struct sass_instr *i)
{
	return i->field[SASS_F_P0] == SASS_PT && i->field[SASS_F_P1] == SASS_PT && i->field[SASS_F_PD] == SASS_PT &&
	       i->field[SASS_F_PD_NOT];
}

/* a + b + c with carries: -x is the complement and 1, and .X has the carries in its place. */
static void add_with_carries(struct lift *l, const struct sass_instr *i)
{
	const struct sass_operand *o[] = {&i->a, &i->b, &i->c}, all[] = {i->a, i->b, i->c};
	struct value sum = value_of("0"), low, high;
	unsigned int ones = 0;

	if (i->field[SASS_F_X] && is_last_sum(i) && write_upper_sum(l, i, NULL, false, all, 3))
		return;
	if (!i->field[SASS_F_X] && i->field[SASS_F_P1] == SASS_PT)
		note_lower_sum(l, i, NULL, 0, all, 3);
	for (unsigned int n = 0; n < 3; n++) {
		sum = add_64(l, sum, widened(l, o[n]));
		ones += o[n]->negate;
	}
	if (i->field[SASS_F_X]) {
		sum = add_64(l, sum, carry(l, i->field[SASS_F_PC], i->field[SASS_F_PC_NOT]));
		sum = add_64(l, sum, carry(l, i->field[SASS_F_PD], i->field[SASS_F_PD_NOT]));
	} else if (ones) {
		sum = add_64(l, sum, value_of("%u", ones));
	}
	unpack(l, sum, &low, &high);
	write_predicate(l, 0, (unsigned int)i->field[SASS_F_P0],
			compute_predicate(l, "setp.ne.u32", "%s, 0", high.text));
	write_predicate(l, 1, (unsigned int)i->field[SASS_F_P1],
			compute_predicate(l, "setp.gt.u32", "%s, 1", high.text));
	write_32(l, i->d, low);
	if (!i->field[SASS_F_X])
		close_lower_sum(l, i);
}

bool lift_iadd3(struct lift *l, const struct sass_instr *i)
{
	if (i->field[SASS_F_X] || i->field[SASS_F_P0] != SASS_PT || i->field[SASS_F_P1] != SASS_PT)
		add_with_carries(l, i);
	else
		write_32(l, i->d, sum_of(l, value_of("0"), (const struct sass_operand *[]){&i->a, &i->b, &i->c}, 3));
	return true;
}

/* a + b, or that of both halves: there -b is the complement and 1. */
static struct value simple_sum(struct lift *l, const struct sass_instr *i)
{
	struct value a, b;

	if (!i->field[SASS_F_HALVES])
		return sum_of(l, value_of("0"), (const struct sass_operand *[]){&i->a, &i->b}, 2);
	a = in_register(l, source_bits(l, &i->a));
	b = in_register(l, complement(l, &i->b));
	if (!i->b.negate)
		return compute32(l, "add.u16x2", "%s, %s", a.text, b.text);
	b = compute32(l, "add.u16x2", "%s, %s", b.text, compute32(l, "mov.b32", "0x10001").text);
	return compute32(l, "add.u16x2", "%s, %s", a.text, b.text);
}

bool lift_viadd(struct lift *l, const struct sass_instr *i)
{
	write_32(l, i->d, simple_sum(l, i));
	return true;
}

/* The product's lower half. Compilers write shifts as products. */
static struct value product_of(struct lift *l, struct value a, struct value b)
{
	unsigned long number = b.text[0] == '%' ? 0 : strtoul(b.text, NULL, 0);

	if (is_text(a, "0") || is_text(b, "0"))
		return value_of("0");
	if (number == 1)
		return a;
	if (number && !(number & (number - 1)))
		return compute32(l, "shl.b32", "%s, %u", in_register(l, a).text, (unsigned int)__builtin_ctzl(number));
	return compute32(l, "mul.lo.u32", "%s, %s", a.text, b.text);
}

/* a * b + c + carry: with X, a or b is usually 0, and a carry of the sum is then the result's. */
bool lift_imad(struct lift *l, const struct sass_instr *i)
{
	struct value a = source_bits(l, &i->a), b = source_bits(l, &i->b), product, result;
	const struct sass_operand *c = &i->c;
	bool carries = i->field[SASS_F_P0] != SASS_PT;
	struct sass_operand high[2] = {i->c};

	if (is_text(b, "0x1"))
		high[1] = i->a;
	if (i->field[SASS_F_X] && !carries && (is_text(a, "0") || is_text(b, "0") || is_text(b, "0x1")) &&
	    write_upper_sum(l, i, NULL, false, high, 2))
		return true;
	product = product_of(l, a, b);
	if (carries)
		return refuse(l, " with a carry");
	if (!i->field[SASS_F_X])
		result = sum_of(l, product, &c, 1);
	else
		result = add(l, add(l, product, complement(l, c)),
			     one_if(l, predicate(l, (unsigned int)i->field[SASS_F_PC], i->field[SASS_F_PC_NOT])));
	write_32(l, i->d, result);
	return true;
}

static struct value wide_addend(struct lift *l, const struct sass_instr *i)
{
	struct value c = source_64(l, &i->c);

	if (!i->c.negate)
		return c;
	return compute64(l, i->field[SASS_F_X] ? "not.b64" : "neg.s64", "%s", c.text);
}

/* a * b + c in 64 bits, and whether the sum had a carry. */
static struct value wide_product(struct lift *l, const struct sass_instr *i)
{
	struct value a = source_bits(l, &i->a), b = source_bits(l, &i->b), c = wide_addend(l, i), product, sum, over,
		     more;
	bool carries = i->field[SASS_F_P0] != SASS_PT;

	if (is_text(a, "0") || is_text(b, "0"))
		product = compute64(l, "mov.b64", "0");
	else
		product = compute64(l, is_signed(i) ? "mul.wide.s32" : "mul.wide.u32", "%s, %s", in_register(l, a).text,
				    b.text);
	sum = add_64(l, product, c);
	if (!carries && !i->field[SASS_F_X])
		return sum;
	over = compute_predicate(l, "setp.lt.u64", "%s, %s", sum.text, product.text);
	if (i->field[SASS_F_X]) {
		struct value total = add_64(l, sum, carry(l, i->field[SASS_F_PC], i->field[SASS_F_PC_NOT]));

		more = compute_predicate(l, "setp.lt.u64", "%s, %s", total.text, sum.text);
		over = combine(l, 1, over, more);
		sum = total;
	}
	write_predicate(l, 0, (unsigned int)i->field[SASS_F_P0], over);
	return sum;
}

bool lift_imad_wide(struct lift *l, const struct sass_instr *i)
{
	write_64(l, i->d, wide_product(l, i));
	return true;
}

bool lift_imad_hi(struct lift *l, const struct sass_instr *i)
{
	struct value low, high;

	unpack(l, wide_product(l, i), &low, &high);
	write_32(l, i->d, high);
	return true;
}

/* (a << shift) + b, or its upper half, for which c has the upper half of a. */
static struct value shifted(struct lift *l, const struct sass_instr *i)
{
	unsigned int shift = (unsigned int)i->field[SASS_F_SHIFT];
	struct value a = in_register(l, source_bits(l, &i->a)), wide, low, high;

	if (!i->field[SASS_F_HIGH])
		return shift ? compute32(l, "shl.b32", "%s, %u", a.text, shift) : a;
	if (i->a.negate && !i->field[SASS_F_X]) {
		wide = i->field[SASS_F_SX32] ? compute64(l, "cvt.s64.s32", "%s", a.text)
					     : pack(l, a, source_bits(l, &i->c));
		wide = compute64(l, "neg.s64", "%s", wide.text);
		unpack(l, compute64(l, "shl.b64", "%s, %u", wide.text, shift), &low, &high);
		return high;
	}
	if (i->field[SASS_F_SX32])
		return compute32(l, "shr.s32", "%s, %u", a.text, 32 - shift);
	return compute32(l, "shf.l.wrap.b32", "%s, %s, %u", a.text, in_register(l, source_bits(l, &i->c)).text, shift);
}

/* Whether the upper half shifts the same register as the lower half did. */
static bool same_shift(const struct lift *l, const struct sass_instr *i)
{
	const struct lower_sum *s = &l->lower_sums[i->field[SASS_F_PC] + (i->form->kind == SASS_UALU ? 8 : 0)];

	return s->known && s->has_shifted && s->shift == i->field[SASS_F_SHIFT] && s->shifted.low.kind == i->a.kind &&
	       s->shifted.low.reg == i->a.reg;
}

bool lift_lea(struct lift *l, const struct sass_instr *i)
{
	struct value a, b, sum, low, high, wide;
	bool carries = i->field[SASS_F_P0] != SASS_PT, extended = i->field[SASS_F_X];

	if (extended && i->field[SASS_F_HIGH] && !carries && !i->a.negate && same_shift(l, i) &&
	    write_upper_sum(l, i, &i->c, i->field[SASS_F_SX32], &i->b, 1))
		return true;
	if (!extended && carries && !i->a.negate && !i->field[SASS_F_HIGH])
		note_lower_sum(l, i, &i->a, (unsigned int)i->field[SASS_F_SHIFT], &i->b, 1);
	a = shifted(l, i);
	if (i->a.negate && extended) /* the complement: the carry is the 1 of a sign */
		a = compute32(l, "not.b32", "%s", a.text);
	else if (i->a.negate && !i->field[SASS_F_HIGH])
		a = compute32(l, "neg.s32", "%s", a.text);
	if (!carries && !extended) {
		write_32(l, i->d, add(l, a, source_integer(l, &i->b)));
		return true;
	}
	/* the carry of a difference is that of the complement and 1 */
	if (i->a.negate && carries && !extended && !i->field[SASS_F_HIGH]) {
		a = compute32(l, "not.b32", "%s", shifted(l, i).text);
		wide = add_64(l, compute64(l, "cvt.u64.u32", "%s", a.text), widened(l, &i->b));
		unpack(l, add_64(l, wide, value_of("1")), &low, &high);
		write_predicate(l, 0, (unsigned int)i->field[SASS_F_P0],
				compute_predicate(l, "setp.ne.u32", "%s, 0", high.text));
		write_32(l, i->d, low);
		return true;
	}
	if (i->a.negate && carries && !extended)
		return refuse(l, " with a sign and a carry");
	wide = add_64(l, compute64(l, "cvt.u64.u32", "%s", a.text), widened(l, &i->b));
	if (extended)
		wide = add_64(l, wide, carry(l, i->field[SASS_F_PC], i->field[SASS_F_PC_NOT]));
	else if (i->b.negate)
		wide = add_64(l, wide, value_of("1"));
	sum = wide;
	unpack(l, sum, &low, &high);
	write_predicate(l, 0, (unsigned int)i->field[SASS_F_P0],
			compute_predicate(l, "setp.ne.u32", "%s, 0", high.text));
	b = low;
	write_32(l, i->d, b);
	if (!extended && carries)
		close_lower_sum(l, i);
	return true;
}

bool lift_iabs(struct lift *l, const struct sass_instr *i)
{
	write_32(l, i->d, compute32(l, "abs.s32", "%s", in_register(l, source_bits(l, &i->b)).text));
	return true;
}

/* The lesser where the predicate holds, else the greater; of 32 bits or of both halves. RELU: at least 0. */
static bool write_extreme(struct lift *l, const struct sass_instr *i, struct value a, struct value b)
{
	static const char *const types[] = {"u32", "s32", "u16x2", "s16x2"};
	const char *type = types[is_signed(i) + 2 * i->field[SASS_F_HALVES]];
	struct value least, most, r;
	char operation[16];

	if (i->field[SASS_F_RELU] && !is_signed(i))
		return refuse(l, ".RELU of unsigned numbers");
	a = in_register(l, a);
	b = in_register(l, b);
	snprintf(operation, sizeof(operation), "min.%s", type);
	least = compute32(l, operation, "%s, %s", a.text, b.text);
	snprintf(operation, sizeof(operation), "max.%s", type);
	most = compute32(l, operation, "%s, %s", a.text, b.text);
	r = compute32(l, "selp.b32", "%s, %s, %s", least.text, most.text,
		      predicate(l, (unsigned int)i->field[SASS_F_PC], i->field[SASS_F_PC_NOT]).text);
	if (i->field[SASS_F_RELU])
		r = compute32(l, operation, "%s, %s", r.text, compute32(l, "mov.b32", "0").text);
	write_32(l, i->d, r);
	return true;
}

bool lift_imnmx(struct lift *l, const struct sass_instr *i)
{
	return write_extreme(l, i, source_bits(l, &i->a), source_bits(l, &i->b));
}

bool lift_vimnmx(struct lift *l, const struct sass_instr *i)
{
	if (i->field[SASS_F_P0] != SASS_PT || i->field[SASS_F_P1] != SASS_PT)
		return refuse(l, " with a predicate as a result");
	return lift_imnmx(l, i);
}

bool lift_viaddmnmx(struct lift *l, const struct sass_instr *i)
{
	return write_extreme(l, i, simple_sum(l, i), source_bits(l, &i->c));
}

/* Writes both predicates of a comparison: of `is`, and of its opposite, each combined with the third one. */
void write_comparison(struct lift *l, const struct sass_instr *i, struct value is)
{
	struct value other = predicate(l, (unsigned int)i->field[SASS_F_PC], i->field[SASS_F_PC_NOT]);
	unsigned int operation = (unsigned int)i->field[SASS_F_BOOL];

	write_predicate(l, 0, (unsigned int)i->field[SASS_F_P0], combine(l, operation, is, other));
	if (i->field[SASS_F_P1] != SASS_PT)
		write_predicate(l, 1, (unsigned int)i->field[SASS_F_P1],
				combine(l, operation, compute_predicate(l, "not.pred", "%s", is.text), other));
}

static const char *const comparisons[] = {NULL, "lt", "eq", "le", "gt", "ne", "ge", NULL};

static struct value compare(struct lift *l, const char *how, const char *type, struct value a, struct value b)
{
	char operation[16];

	snprintf(operation, sizeof(operation), "setp.%s.%s", how, type);
	return compute_predicate(l, operation, "%s, %s", a.text, b.text);
}

/* The upper half of a comparison of 64-bit numbers; the third predicate has that of the lower halves. */
static struct value compare_upper(struct lift *l, const struct sass_instr *i, struct value a, struct value b)
{
	static const char *const strict[] = {NULL, "lt", "eq", "lt", "gt", "ne", "gt", NULL};
	const char *how = strict[i->field[SASS_F_COMPARE]];
	struct value lower = predicate(l, (unsigned int)i->field[SASS_F_PE], i->field[SASS_F_PE_NOT]), equal;
	const char *type = is_signed(i) ? "s32" : "u32";

	if (i->field[SASS_F_COMPARE] == 2)
		return combine(l, 0, compare(l, "eq", type, a, b), lower);
	if (i->field[SASS_F_COMPARE] == 5)
		return combine(l, 1, compare(l, "ne", type, a, b), lower);
	equal = combine(l, 0, compare(l, "eq", type, a, b), lower);
	return combine(l, 1, compare(l, how, type, a, b), equal);
}

bool lift_isetp(struct lift *l, const struct sass_instr *i)
{
	struct value a = in_register(l, source_bits(l, &i->a)), b = source_bits(l, &i->b), is;
	int64_t how = i->field[SASS_F_COMPARE];

	if (!comparisons[how])
		is = value_of(how ? "%%pt" : "%%pf");
	else if (i->field[SASS_F_EX])
		is = compare_upper(l, i, a, b);
	else
		is = compare(l, comparisons[how], is_signed(i) ? "s32" : "u32", a, b);
	write_comparison(l, i, is);
	return true;
}
