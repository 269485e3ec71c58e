/* SPDX-License-Identifier: Apache-2.0 */
#include "sass/lift/decode.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

/* Forms of arithmetic instructions: where the source that is no register is, and its kind. */
enum {
	FORM_REGISTERS = 1,
	FORM_C_IMMEDIATE,
	FORM_C_CONSTANT,
	FORM_B_IMMEDIATE,
	FORM_B_CONSTANT,
	FORM_B_UNIFORM,
	FORM_C_UNIFORM
};

struct words {
	uint64_t word[2];
};

static uint64_t bits(const struct words *w, unsigned int low, unsigned int width)
{
	uint64_t value = low < 64 ? w->word[0] >> low : w->word[1] >> (low - 64);

	if (low < 64 && low + width > 64)
		value |= w->word[1] << (64 - low);
	return width < 64 ? value & ((UINT64_C(1) << width) - 1) : value;
}

static bool bit(const struct words *w, unsigned int at)
{
	return bits(w, at, 1);
}

static struct sass_operand register_at(const struct words *w, unsigned int low, bool uniform)
{
	return (struct sass_operand){.kind = uniform ? SASS_UNIFORM : SASS_REGISTER, .reg = (uint8_t)bits(w, low, 8)};
}

/* The source in bits 32 to 63. */
static struct sass_operand wide_source(const struct words *w, unsigned int form, bool uniform)
{
	switch (form) {
	case FORM_C_IMMEDIATE:
	case FORM_B_IMMEDIATE:
		return (struct sass_operand){.kind = SASS_IMMEDIATE, .number = (uint32_t)bits(w, 32, 32)};
	case FORM_C_CONSTANT:
	case FORM_B_CONSTANT:
		return (struct sass_operand){.kind = SASS_BANK,
					     .reg = (uint8_t)bits(w, 32, 6),
					     .bindless = bit(w, 91),
					     .bank = (uint8_t)bits(w, 54, 5),
					     .number = (uint32_t)bits(w, 38, 16)};
	case FORM_B_UNIFORM:
	case FORM_C_UNIFORM:
		return register_at(w, 32, true);
	default:
		return register_at(w, 32, uniform);
	}
}

static void modify(struct sass_operand *o, const struct words *w, uint8_t flags, unsigned int negate,
		   unsigned int absolute, unsigned int half)
{
	if (o->kind == SASS_IMMEDIATE)
		return;
	o->negate = (flags & SASS_NEGATE) && bit(w, negate);
	o->absolute = (flags & SASS_ABSOLUTE) && bit(w, absolute);
	if (flags & SASS_HALF)
		o->half = (uint8_t)bits(w, half, 2);
}

static bool has_halves(const struct sass_form *f)
{
	return (f->sources[1] | f->sources[2] | f->sources[3]) & SASS_HALF;
}

static void arithmetic_sources(struct sass_instr *i, const struct words *w)
{
	const struct sass_form *f = i->form;
	unsigned int form = (unsigned int)bits(w, 9, 3);
	bool uniform = f->kind == SASS_UALU, halves = has_halves(f);
	bool wide_is_c = form == FORM_C_IMMEDIATE || form == FORM_C_CONSTANT || form == FORM_C_UNIFORM;
	struct sass_operand wide = wide_source(w, form, uniform), far = register_at(w, 64, uniform);
	uint8_t b = f->sources[2], c = f->sources[3];

	if (f->sources[1]) {
		i->a = register_at(w, 24, uniform);
		modify(&i->a, w, f->sources[1], 72, 73, 74);
	}
	if (!b != !c) { /* the only one of the two is `b` of the instruction */
		bool is_far = form == FORM_REGISTERS && c;

		i->b = is_far ? far : wide;
		modify(&i->b, w, b | c, is_far ? 75 : 63, is_far ? 74 : 62, 60);
		return;
	}
	modify(&wide, w, wide_is_c ? c : b, 63, 62, 60);
	modify(&far, w, wide_is_c ? b : c, halves ? 84 : 75, halves ? 83 : 74, 81);
	if (b) {
		i->b = wide_is_c ? far : wide;
		i->c = wide_is_c ? wide : far;
	}
}

static void other_sources(struct sass_instr *i, const struct words *w)
{
	static const uint8_t low[] = {0, 24, 32, 64};
	struct sass_operand *to[] = {NULL, &i->a, &i->b, &i->c};

	for (unsigned int n = 1; n < 4; n++)
		if (i->form->sources[n])
			*to[n] = register_at(w, low[n], false);
}

static bool take_fields(struct sass_instr *i, const struct words *w)
{
	for (unsigned int n = 0; n < i->form->field_count; n++) {
		const struct sass_form_field *f = &i->form->fields[n];
		uint64_t value = bits(w, f->low, f->width);

		if (f->value >= 0 && value != (uint64_t)f->value)
			return false;
		if (f->is_signed && value >> (f->width - 1))
			value |= ~UINT64_C(0) << f->width;
		i->field[f->field] = (int64_t)value;
	}
	return true;
}

static bool has_no_register(const struct sass_operand *o)
{
	return o->kind == SASS_UNIFORM && o->reg > SASS_URZ;
}

bool sass_decode(const uint8_t *code, uint32_t address, struct sass_instr *i, char *error, size_t room)
{
	struct words w;

	memcpy(&w, code, sizeof(w));
	memset(i, 0, sizeof(*i));
	i->form = &sass_forms[sass_form_of[bits(&w, 0, 12)]];
	i->address = address;
	if (!i->form->name || (w.word[0] & ~i->form->known[0]) || (w.word[1] & ~i->form->known[1]) ||
	    !take_fields(i, &w)) {
		snprintf(error, room, "%s %016" PRIx64 "%016" PRIx64 " at %#x",
			 i->form->name ? i->form->name : "instruction", w.word[1], w.word[0], address);
		return false;
	}
	i->guard = (uint8_t)bits(&w, 12, 3);
	i->guard_not = bit(&w, 15);
	i->d = i->form->sources[0] ? (uint8_t)bits(&w, 16, 8) : SASS_RZ;
	if (i->form->kind == SASS_OP)
		other_sources(i, &w);
	else
		arithmetic_sources(i, &w);
	if (has_no_register(&i->a) || has_no_register(&i->b) || has_no_register(&i->c)) {
		snprintf(error, room, "%s with an unknown uniform register at %#x", i->form->name, address);
		return false;
	}
	return true;
}
