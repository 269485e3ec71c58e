/* SPDX-License-Identifier: Apache-2.0 */
/* Values, registers and statements of a kernel that is being lifted. */
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "sass/lift/lifting.h"

struct value value_of(const char *format, ...)
{
	struct value v;
	va_list arguments;

	va_start(arguments, format);
	vsnprintf(v.text, sizeof(v.text), format, arguments);
	va_end(arguments);
	return v;
}

struct value temporary(struct lift *l, enum temporary kind)
{
	static const char *const names[] = {"%t", "%d", "%q", "%h"};

	return value_of("%s%u", names[kind], l->temporaries[kind]++);
}

bool is_text(struct value v, const char *text)
{
	return !strcmp(v.text, text);
}

static void statement(struct lift *l, const char *guard, const char *format, va_list arguments)
{
	char line[2048];

	if (vsnprintf(line, sizeof(line), format, arguments) >= (int)sizeof(line))
		refuse(l, " with a name that is too long");
	sass_text_add(&l->body, "\t%s%s;\n", guard, line);
}

void emit(struct lift *l, const char *format, ...)
{
	va_list arguments;

	va_start(arguments, format);
	statement(l, "", format, arguments);
	va_end(arguments);
}

void emit_guarded(struct lift *l, const char *format, ...)
{
	va_list arguments;

	va_start(arguments, format);
	statement(l, l->guard, format, arguments);
	va_end(arguments);
}

bool refuse(struct lift *l, const char *format, ...)
{
	va_list arguments;
	char what[128];

	va_start(arguments, format);
	vsnprintf(what, sizeof(what), format, arguments);
	va_end(arguments);
	snprintf(l->error, l->room, "%s%s at %#x", l->i ? l->i->form->name : "code", what, l->i ? l->i->address : 0);
	l->failed = true;
	return false;
}

static struct value compute(struct lift *l, enum temporary kind, const char *operation, const char *format,
			    va_list arguments)
{
	struct value result = temporary(l, kind);
	char operands[1600];

	vsnprintf(operands, sizeof(operands), format, arguments);
	emit(l, "%s %s, %s", operation, result.text, operands);
	return result;
}

struct value compute32(struct lift *l, const char *operation, const char *format, ...)
{
	struct value v;
	va_list arguments;

	va_start(arguments, format);
	v = compute(l, TEMPORARY_32, operation, format, arguments);
	va_end(arguments);
	return v;
}

struct value compute64(struct lift *l, const char *operation, const char *format, ...)
{
	struct value v;
	va_list arguments;

	va_start(arguments, format);
	v = compute(l, TEMPORARY_64, operation, format, arguments);
	va_end(arguments);
	return v;
}

struct value compute_predicate(struct lift *l, const char *operation, const char *format, ...)
{
	struct value v;
	va_list arguments;

	va_start(arguments, format);
	v = compute(l, TEMPORARY_PREDICATE, operation, format, arguments);
	va_end(arguments);
	return v;
}

struct value register_name(struct lift *l, bool uniform, unsigned int number)
{
	if (number == (uniform ? SASS_URZ : SASS_RZ))
		return value_of("0");
	number &= uniform ? 63 : 255;
	return value_of(uniform ? "%%u%u_%u" : "%%r%u_%u", number,
			webs_read(l->webs, (uniform ? WEB_UNIFORM : WEB_GENERAL) + number));
}

struct value register_result(struct lift *l, bool uniform, unsigned int number)
{
	number &= uniform ? 63 : 255;
	return value_of(uniform ? "%%u%u_%u" : "%%r%u_%u", number,
			webs_write(l->webs, (uniform ? WEB_UNIFORM : WEB_GENERAL) + number, l->guard[0]));
}

struct value in_register(struct lift *l, struct value v)
{
	return v.text[0] == '%' ? v : compute32(l, "mov.b32", "%s", v.text);
}

struct value in_register_64(struct lift *l, struct value v)
{
	return v.text[0] == '%' ? v : compute64(l, "mov.b64", "%s", v.text);
}

/* ---- sources ---- */

struct value source_bits(struct lift *l, const struct sass_operand *o)
{
	switch (o->kind) {
	case SASS_REGISTER:
	case SASS_UNIFORM:
		return register_name(l, o->kind == SASS_UNIFORM, o->reg);
	case SASS_IMMEDIATE:
		return value_of(o->number ? "0x%x" : "%x", o->number);
	case SASS_RELOCATED:
		return l->relocated;
	case SASS_BANK:
		if (!o->bindless)
			return bank_32(l, o->bank, o->number);
		refuse(l, " with a bindless constant bank");
		return value_of("0");
	default:
		return value_of("0");
	}
}

struct value source_integer(struct lift *l, const struct sass_operand *o)
{
	struct value v = source_bits(l, o);

	return o->negate && !is_text(v, "0") ? compute32(l, "neg.s32", "%s", v.text) : v;
}

struct value source_f32(struct lift *l, const struct sass_operand *o)
{
	struct value v = source_bits(l, o);

	if (v.text[0] != '%') {
		uint32_t bits = (uint32_t)strtoul(v.text, NULL, 0);

		if (o->absolute)
			bits &= 0x7fffffff;
		return value_of("0f%08X", o->negate ? bits ^ 0x80000000 : bits);
	}
	if (o->absolute)
		v = compute32(l, "and.b32", "%s, 0x7fffffff", v.text);
	return o->negate ? compute32(l, "xor.b32", "%s, 0x80000000", v.text) : v;
}

static unsigned int guard_number(const struct lift *l)
{
	return l->i->guard + (has_uniform_predicates(l) ? 8u : 0);
}

/* Whether the instruction has an effect only where the pair has its value. */
static bool holds(const struct lift *l, const struct pair *p)
{
	return !p->guarded || (l->guard[0] && p->guard == guard_number(l) && p->guard_not == l->i->guard_not &&
			       p->guard_writes == l->predicate_writes[p->guard]);
}

static unsigned int pair_number(bool uniform, unsigned int first)
{
	return uniform ? WEB_UNIFORM + (first & 63) : WEB_GENERAL + (first & 255);
}

static struct value pair_register(bool uniform, unsigned int first, uint32_t number)
{
	return value_of(uniform ? "%%uw%u_%u" : "%%w%u_%u", first & (uniform ? 63 : 255), number);
}

struct value source_64(struct lift *l, const struct sass_operand *o)
{
	bool uniform = o->kind == SASS_UNIFORM;
	const struct pair *p = &l->pairs[uniform][o->reg];
	struct value low, high;
	uint32_t number;

	if (o->kind == SASS_IMMEDIATE)
		return value_of("0x%x", o->number);
	if (o->kind == SASS_RELOCATED) {
		refuse(l, " with half of an address as 64 bits");
		return value_of("0");
	}
	if (o->kind == SASS_BANK && o->bindless) {
		refuse(l, " with a bindless constant bank");
		return value_of("0");
	}
	if (o->kind == SASS_BANK)
		return bank_64(l, o->bank, o->number);
	if (o->reg == (uniform ? SASS_URZ : SASS_RZ))
		return value_of("0");
	if (p->known && joins_pairs() && holds(l, p))
		return p->value;
	low = register_name(l, uniform, o->reg);
	high = register_name(l, uniform, o->reg + 1u);
	if (joins_pairs() && webs_read_pair(l->webs, pair_number(uniform, o->reg), &number))
		return pair_register(uniform, o->reg, number);
	return pack(l, low, high);
}

/* The registers of a pair have been written: a 64-bit register has the pair's value too, if one is wanted. */
void keep_pair(struct lift *l, bool uniform, unsigned int first, struct value v)
{
	uint32_t number;

	if (joins_pairs() && !l->guard[0] && webs_write_pair(l->webs, pair_number(uniform, first), &number))
		emit(l, "mov.b64 %s, %s", pair_register(uniform, first, number).text, v.text);
}

struct value source_f64(struct lift *l, const struct sass_operand *o)
{
	struct value v;

	if (o->kind == SASS_IMMEDIATE) /* the upper half */
		return value_of("0d%08X00000000", o->number);
	v = source_64(l, o);
	if (v.text[0] != '%') {
		uint64_t bits = strtoull(v.text, NULL, 0);

		if (o->absolute)
			bits &= UINT64_MAX >> 1;
		return value_of("0d%016" PRIX64, o->negate ? bits ^ UINT64_C(1) << 63 : bits);
	}
	if (o->absolute)
		v = compute64(l, "and.b64", "%s, 0x7fffffffffffffff", v.text);
	return o->negate ? compute64(l, "xor.b64", "%s, 0x8000000000000000", v.text) : v;
}

/* ---- predicates ---- */

bool has_uniform_predicates(const struct lift *l)
{
	return l->i->form->kind == SASS_UALU || l->i->form->function == SASS_LIFT_ULDC ||
	       !strcmp(l->i->form->name, "UPLOP3");
}

struct value named_predicate(struct lift *l, bool uniform, unsigned int number)
{
	number &= 7;
	return value_of(uniform ? "%%up%u_%u" : "%%p%u_%u", number,
			webs_read(l->webs, (uniform ? WEB_UNIFORM_PREDICATE : WEB_PREDICATE) + number));
}

static struct value predicate_name(struct lift *l, unsigned int number)
{
	return named_predicate(l, has_uniform_predicates(l), number);
}

struct value predicate(struct lift *l, unsigned int number, bool negated)
{
	struct value v;

	if (number == SASS_PT)
		return value_of(negated ? "%%pf" : "%%pt");
	v = predicate_name(l, number);
	return negated ? compute_predicate(l, "not.pred", "%s", v.text) : v;
}

struct value named_predicate_result(struct lift *l, bool uniform, unsigned int number)
{
	l->predicate_writes[number + (uniform ? 8u : 0)]++;
	if (!l->keeps_sum)
		l->lower_sums[number + (uniform ? 8u : 0)].known = false;
	number &= 7;
	return value_of(uniform ? "%%up%u_%u" : "%%p%u_%u", number,
			webs_write(l->webs, (uniform ? WEB_UNIFORM_PREDICATE : WEB_PREDICATE) + number, l->guard[0]));
}

struct value predicate_result(struct lift *l, unsigned int number)
{
	bool uniform = has_uniform_predicates(l) || (l->i->form->function == SASS_LIFT_VOTE && writes_uniform(l));

	return named_predicate_result(l, uniform, number);
}

struct value guard_value(struct lift *l)
{
	const struct sass_instr *i = l->i;
	struct value v;

	if (i->guard == SASS_PT)
		return value_of(i->guard_not ? "%%pf" : "%%pt");
	v = predicate_name(l, i->guard);
	return i->guard_not ? compute_predicate(l, "not.pred", "%s", v.text) : v;
}

struct value combine(struct lift *l, unsigned int operation, struct value a, struct value b)
{
	static const char *const names[] = {"and.pred", "or.pred", "xor.pred"};

	if (operation > 2) {
		refuse(l, " with an unknown operation of predicates");
		return a;
	}
	if ((operation == 0 && is_text(b, "%pt")) || (operation && is_text(b, "%pf")))
		return a;
	return compute_predicate(l, names[operation], "%s, %s", a.text, b.text);
}

struct value one_if(struct lift *l, struct value p)
{
	return compute32(l, "selp.b32", "1, 0, %s", p.text);
}

struct value with_guard(struct lift *l, struct value p)
{
	if (!l->guard[0])
		return p;
	if (is_text(p, "%pt"))
		return guard_value(l);
	return compute_predicate(l, "and.pred", "%s, %s", p.text, guard_value(l).text);
}

/* ---- pairs of registers ---- */

struct value pack(struct lift *l, struct value low, struct value high)
{
	low = in_register(l, low);
	high = in_register(l, high);
	return compute64(l, "mov.b64", "{%s, %s}", low.text, high.text);
}

void unpack(struct lift *l, struct value pair, struct value *low, struct value *high)
{
	if (pair.text[0] != '%')
		pair = compute64(l, "mov.b64", "%s", pair.text);
	*low = temporary(l, TEMPORARY_32);
	*high = temporary(l, TEMPORARY_32);
	emit(l, "mov.b64 {%s, %s}, %s", low->text, high->text, pair.text);
}

void forget_pairs(struct lift *l, bool uniform, unsigned int first, unsigned int count)
{
	for (unsigned int n = first; n < first + count && n < 256; n++)
		l->register_writes[uniform][n]++;
	for (unsigned int n = first ? first - 1 : 0; n < first + count && n < 256; n++)
		l->pairs[uniform][n].known = false;
	for (unsigned int n = first; uniform && n < first + count && n < 64; n++)
		l->mask_of[n].text[0] = 0;
	for (unsigned int n = first; !uniform && n < first + count && n < 256; n++)
		l->constants[n].known = false;
}

void forget_all_pairs(struct lift *l)
{
	forget_sums(l);
	memset(l->mask_of, 0, sizeof(l->mask_of));
	memset(l->kept_addresses, 0, sizeof(l->kept_addresses));
	for (unsigned int n = 0; n < 256; n++)
		l->pairs[0][n].known = l->pairs[1][n].known = l->constants[n].known = false;
}

/* ---- results ---- */

bool writes_uniform(const struct lift *l)
{
	switch (l->i->form->function) {
	case SASS_LIFT_R2UR:
	case SASS_LIFT_ULDC:
	case SASS_LIFT_REDUX:
	case SASS_LIFT_ELECT:
		return true;
	case SASS_LIFT_S2R:
	case SASS_LIFT_VOTE:
		return l->i->form->name[0] == 'S' ? l->i->form->name[2] == 'U' : l->i->form->name[4] == 'U';
	default:
		return l->i->form->kind == SASS_UALU;
	}
}

struct value destination(struct lift *l, unsigned int offset)
{
	return register_result(l, writes_uniform(l), l->i->d + offset);
}

static bool is_zero_register(const struct lift *l, unsigned int number)
{
	return number == (writes_uniform(l) ? SASS_URZ : SASS_RZ);
}

void write_32(struct lift *l, unsigned int number, struct value v)
{
	bool uniform = writes_uniform(l);

	if (is_zero_register(l, number))
		return;
	forget_pairs(l, uniform, number, 1);
	emit_guarded(l, "mov.b32 %s, %s", register_result(l, uniform, number).text, v.text);
	if (!uniform && !l->guard[0] && v.text[0] >= '0' && v.text[0] <= '9') {
		l->constants[number & 255].known = true;
		l->constants[number & 255].number = (uint32_t)strtoul(v.text, NULL, 0);
	}
}

void write_64(struct lift *l, unsigned int number, struct value v)
{
	bool uniform = writes_uniform(l);
	struct value low, high;

	if (is_zero_register(l, number))
		return;
	unpack(l, v, &low, &high);
	write_32(l, number, low);
	write_32(l, number + 1, high);
	keep_pair(l, uniform, number, v);
	if (v.text[0] == '%')
		l->pairs[uniform][number & 255] = (struct pair){.value = v,
								.known = true,
								.guarded = l->guard[0],
								.guard = (uint8_t)guard_number(l),
								.guard_not = l->i->guard_not,
								.guard_writes = l->predicate_writes[guard_number(l)]};
}

void write_predicate(struct lift *l, unsigned int slot, unsigned int number, struct value v)
{
	if (number == SASS_PT)
		return;
	l->pending[slot].set = true;
	l->pending[slot].predicate = (uint8_t)number;
	l->pending[slot].value = v;
}
