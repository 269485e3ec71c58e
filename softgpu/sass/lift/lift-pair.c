/* SPDX-License-Identifier: Apache-2.0 */
/*
 * 64-bit sums. The code has them as two sums of 32 bits, of which the upper one takes the lower one's carry: IADD3 and
 * IADD3.X or IMAD.X, LEA and LEA.HI.X. In a basic block both become one sum of 64-bit values, so that the software GPU
 * sees what an address is made of. The upper half is that of the sum, so that no register has another value.
 */
#include "sass/lift/lift.h"
#include "sass/lift/lifting.h"

static bool is_split;

void sass_lift_join(bool pairs)
{
	is_split = !pairs;
}

bool joins_pairs(void)
{
	return !is_split;
}

static bool is_zero(const struct sass_operand *o)
{
	switch (o->kind) {
	case SASS_NONE:
		return true;
	case SASS_REGISTER:
		return o->reg == SASS_RZ;
	case SASS_UNIFORM:
		return o->reg == SASS_URZ;
	case SASS_IMMEDIATE:
		return !o->number;
	default:
		return false;
	}
}

static bool is_register(const struct sass_operand *o)
{
	return (o->kind == SASS_REGISTER || o->kind == SASS_UNIFORM) && !is_zero(o);
}

static bool is_parameter(const struct lift *l, const struct sass_operand *o)
{
	const struct sass_function *f = l->function;

	return o->kind == SASS_BANK && !o->bindless && o->bank == 0 && o->number >= f->param_base &&
	       o->number - f->param_base + 8 <= f->param_bytes;
}

static uint32_t writes_of(const struct lift *l, const struct sass_operand *o, unsigned int next)
{
	return l->register_writes[o->kind == SASS_UNIFORM][(o->reg + next) & 255];
}

static void note_term(struct lift *l, struct pair_term *t, const struct sass_operand *o)
{
	struct sass_operand plain = *o;

	*t = (struct pair_term){.low = *o};
	plain.negate = false;
	if (is_register(o) && o->reg + 1 < (o->kind == SASS_UNIFORM ? SASS_URZ : SASS_RZ)) {
		t->pair = source_64(l, &plain);
		t->writes = writes_of(l, o, 0);
		t->next_writes = writes_of(l, o, 1);
	} else if (is_parameter(l, o)) {
		t->pair = source_64(l, &plain);
	}
}

void note_lower_sum(struct lift *l, const struct sass_instr *i, const struct sass_operand *shifted, unsigned int shift,
		    const struct sass_operand *terms, unsigned int count)
{
	bool uniform = has_uniform_predicates(l);
	struct lower_sum *s = &l->lower_sums[i->field[SASS_F_P0] + (uniform ? 8 : 0)];

	s->known = false;
	if (l->guard[0] || i->field[SASS_F_P0] == SASS_PT ||
	    is_zero(&(struct sass_operand){.kind = uniform ? SASS_UNIFORM : SASS_REGISTER, .reg = i->d}))
		return;
	*s = (struct lower_sum){
		.known = true, .uniform = uniform, .d = i->d, .has_shifted = shifted, .shift = shift, .count = count};
	if (shifted)
		note_term(l, &s->shifted, shifted);
	for (unsigned int n = 0; n < count; n++)
		note_term(l, &s->term[n], &terms[n]);
}

/* The lower half's register was written: the sum is complete. */
void close_lower_sum(struct lift *l, const struct sass_instr *i)
{
	struct lower_sum *s = &l->lower_sums[i->field[SASS_F_P0] + (has_uniform_predicates(l) ? 8 : 0)];

	if (i->field[SASS_F_P0] == SASS_PT || !s->known)
		return;
	s->d_writes = l->register_writes[s->uniform][s->d];
	l->keeps_sum = true;
}

static struct value zero_extended(struct lift *l, const struct pair_term *t)
{
	if (is_zero(&t->low))
		return value_of("0");
	if (t->low.kind == SASS_IMMEDIATE)
		return value_of("0x%x", t->low.number);
	return compute64(l, "cvt.u64.u32", "%s", source_bits(l, &t->low).text);
}

enum match { NO_MATCH, MATCH_ADD, MATCH_SUBTRACT };

/* Whether the operand is the upper half of what the term is the lower one of. */
static enum match match_pair(struct lift *l, const struct pair_term *t, const struct sass_operand *high,
			     struct value *v)
{
	const struct sass_operand *low = &t->low;

	if (low->kind == SASS_IMMEDIATE && high->kind == SASS_IMMEDIATE && !low->negate && !high->negate) {
		*v = value_of("0x%llx", (unsigned long long)((uint64_t)high->number << 32 | low->number));
		return MATCH_ADD;
	}
	*v = t->pair;
	if (!t->pair.text[0] || low->negate != high->negate || low->kind != high->kind)
		return NO_MATCH;
	if (low->kind == SASS_BANK)
		return !high->bindless && high->bank == low->bank && high->number == low->number + 4 && !low->negate
			       ? MATCH_ADD
			       : NO_MATCH;
	if (high->reg != low->reg + 1 || writes_of(l, low, 1) != t->next_writes)
		return NO_MATCH;
	return low->negate ? MATCH_SUBTRACT : MATCH_ADD;
}

static struct value combine_64(struct lift *l, const char *operation, struct value a, struct value b)
{
	if (is_text(b, "0"))
		return a;
	if (is_text(a, "0") && operation[0] == 'a')
		return b;
	return compute64(l, operation, "%s, %s", a.text, b.text);
}

/* The register of the lower half may have been one of the sources: their values are from before. */
static bool still_has(const struct lift *l, const struct pair_term *t)
{
	return !is_register(&t->low) || writes_of(l, &t->low, 0) == t->writes;
}

/* Adds all terms, each with its upper half of `high`. False: a half has no other one. */
static bool add_terms(struct lift *l, const struct lower_sum *s, const struct sass_operand *high, unsigned int count,
		      struct value *sum)
{
	bool used[3] = {false}, done[3] = {false};
	struct value v;

	for (unsigned int n = 0; n < s->count; n++)
		for (unsigned int m = 0; m < count && !done[n]; m++) {
			enum match match =
				used[m] || is_zero(&high[m]) ? NO_MATCH : match_pair(l, &s->term[n], &high[m], &v);

			if (match == NO_MATCH)
				continue;
			used[m] = done[n] = true;
			*sum = combine_64(l, match == MATCH_ADD ? "add.s64" : "sub.s64", *sum, v);
		}
	for (unsigned int m = 0; m < count; m++)
		if (!used[m] && (!is_zero(&high[m]) || high[m].negate))
			return false;
	for (unsigned int n = 0; n < s->count; n++) {
		if (done[n])
			continue;
		if (s->term[n].low.negate || !still_has(l, &s->term[n]))
			return false;
		*sum = combine_64(l, "add.s64", *sum, zero_extended(l, &s->term[n]));
	}
	return true;
}

/* The shifted term of LEA: with its upper half, or with its sign. */
static bool add_shifted(struct lift *l, const struct lower_sum *s, const struct sass_operand *high, bool sign,
			struct value *sum)
{
	struct value v = s->shifted.pair;

	if (!is_register(&s->shifted.low) || !still_has(l, &s->shifted))
		return false;
	if (sign) {
		v = compute64(l, "cvt.s64.s32", "%s", source_bits(l, &s->shifted.low).text);
	} else if (is_zero(high)) {
		v = zero_extended(l, &s->shifted);
	} else if (match_pair(l, &s->shifted, high, &v) != MATCH_ADD) {
		if (!is_register(high) || high->negate)
			return false;
		v = pack(l, source_bits(l, &s->shifted.low), source_bits(l, high));
	}
	*sum = s->shift ? compute64(l, "shl.b64", "%s, %u", v.text, s->shift) : v;
	return true;
}

bool write_upper_sum(struct lift *l, const struct sass_instr *i, const struct sass_operand *shifted_high, bool sign,
		     const struct sass_operand *high, unsigned int count)
{
	bool uniform = has_uniform_predicates(l);
	const struct lower_sum *s = &l->lower_sums[i->field[SASS_F_PC] + (uniform ? 8 : 0)];
	struct value sum = value_of("0"), low, upper;

	if (!joins_pairs() || i->field[SASS_F_PC] == SASS_PT || i->field[SASS_F_PC_NOT] || l->guard[0] || !s->known ||
	    s->uniform != uniform || i->d != s->d + 1 || l->register_writes[uniform][s->d] != s->d_writes ||
	    s->has_shifted != (shifted_high || sign))
		return false;
	if (s->has_shifted && !add_shifted(l, s, shifted_high, sign, &sum))
		return false;
	if (!add_terms(l, s, high, count, &sum) || sum.text[0] != '%')
		return false;
	unpack(l, sum, &low, &upper);
	write_32(l, i->d, upper);
	keep_pair(l, uniform, s->d, sum);
	l->pairs[uniform][s->d] = (struct pair){.value = sum, .known = true};
	return true;
}

void forget_sums(struct lift *l)
{
	for (unsigned int n = 0; n < 16; n++)
		l->lower_sums[n].known = false;
}
