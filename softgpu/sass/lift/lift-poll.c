/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Loads of shared memory that wait for another thread. A volatile or ordered load of shared memory has the same machine
 * code as any other. Where a short loop ends by the value of such a load, and neither writes shared memory nor changes
 * the address, another thread's store has to end it.
 */
#include <string.h>

#include "sass/lift/lifting.h"

/* The longest such loop. */
#define MOST_INSTRUCTIONS 128

/* Registers and predicates, those of the uniform datapath behind the others. */
struct polled {
	bool reg[256 + 64], predicate[16];
};

struct loop {
	struct lift *l;
	uint32_t first, last;
	bool written[256 + 64];
	struct polled polled; /* depend on a load of shared memory */
	bool ends;            /* by one of `polled` */
};

static unsigned int operand_number(const struct sass_operand *o)
{
	return o->kind == SASS_UNIFORM ? 256u + (o->reg & 63) : o->reg;
}

static unsigned int result_number(const struct lift *l, const struct sass_instr *i)
{
	if (i->d == SASS_RZ)
		return SASS_RZ;
	return writes_uniform(l) ? 256u + (i->d & 63) : i->d;
}

static unsigned int result_count(const struct sass_instr *i)
{
	static const unsigned int counts[8] = {1, 1, 1, 1, 1, 2, 4, 4};

	switch (i->form->function) {
	case SASS_LIFT_LD:
	case SASS_LIFT_LDG:
	case SASS_LIFT_LDL:
	case SASS_LIFT_LDS:
		return counts[i->field[SASS_F_TYPE] & 7];
	default:
		return 1;
	}
}

/* Others may write shared memory meanwhile, or the thread itself does. */
static bool ends_loop(const struct sass_instr *i)
{
	switch (i->form->function) {
	case SASS_LIFT_ST:
	case SASS_LIFT_STS:
	case SASS_LIFT_ATOM:
	case SASS_LIFT_ATOM_CAS:
	case SASS_LIFT_ATOMS:
	case SASS_LIFT_ATOMS_CAS:
	case SASS_LIFT_ATOMS_SELF:
	case SASS_LIFT_ARRIVES:
	case SASS_LIFT_LDGSTS:
	case SASS_LIFT_LDGSTS_U:
	case SASS_LIFT_BAR:
	case SASS_LIFT_BAR_COUNT:
	case SASS_LIFT_BAR_BOTH:
	case SASS_LIFT_BRX:
	case SASS_LIFT_CALL:
	case SASS_LIFT_CALL_ABS:
	case SASS_LIFT_RET:
		return true;
	default:
		return false;
	}
}

static bool has_field(const struct sass_instr *i, enum sass_field field)
{
	for (unsigned int n = 0; n < i->form->field_count; n++)
		if (i->form->fields[n].field == field)
			return true;
	return false;
}

static bool is_poll(const struct loop *p, const struct sass_instr *i)
{
	bool has_u = i->field[SASS_F_HAS_U];

	return i->form->function == SASS_LIFT_LDS && i->d != SASS_RZ && !p->written[i->a.reg] &&
	       !(has_u && p->written[256 + (i->field[SASS_F_U] & 63)]);
}

static bool reads_polled(const struct loop *p, const struct sass_instr *i)
{
	static const enum sass_field fields[] = {SASS_F_PC, SASS_F_PD, SASS_F_PE};
	const struct sass_operand *sources[] = {&i->a, &i->b, &i->c};
	unsigned int base = has_uniform_predicates(p->l) ? 8 : 0;

	if (i->guard != SASS_PT && p->polled.predicate[base + i->guard])
		return true;
	for (unsigned int n = 0; n < 3; n++) {
		const struct sass_operand *o = sources[n];

		if ((o->kind == SASS_REGISTER || o->kind == SASS_UNIFORM) && p->polled.reg[operand_number(o)])
			return true;
		if (has_field(i, fields[n]) && i->field[fields[n]] != SASS_PT &&
		    p->polled.predicate[base + ((unsigned int)i->field[fields[n]] & 7)])
			return true;
	}
	return false;
}

static void mark_registers(const struct lift *l, const struct sass_instr *i, bool *marked)
{
	unsigned int result = result_number(l, i);

	for (unsigned int n = 0; result != SASS_RZ && n < result_count(i) && result + n < 256 + 64; n++)
		marked[result + n] = true;
}

static void mark_results(struct loop *p, const struct sass_instr *i)
{
	static const enum sass_field fields[] = {SASS_F_P0, SASS_F_P1};
	unsigned int base = has_uniform_predicates(p->l) ? 8 : 0;

	mark_registers(p->l, i, p->polled.reg);
	for (unsigned int n = 0; n < 2; n++)
		if (has_field(i, fields[n]) && i->field[fields[n]] != SASS_PT)
			p->polled.predicate[base + ((unsigned int)i->field[fields[n]] & 7)] = true;
}

/* Finds what the polls of the loop lead to. */
static void follow(struct loop *p)
{
	struct sass_instr i;

	for (uint32_t n = p->first; n <= p->last && lift_decode(p->l, n, &i); n++) {
		p->l->i = &i;
		if (!is_poll(p, &i) && !reads_polled(p, &i))
			continue;
		if (i.form->function == SASS_LIFT_BRA || i.form->function == SASS_LIFT_EXIT)
			p->ends = true;
		else
			mark_results(p, &i);
	}
}

static bool has_load(const struct loop *p)
{
	for (uint32_t n = p->first; n <= p->last; n++) {
		const uint8_t *code = p->l->function->code + (size_t)n * SASS_BYTES;
		uint16_t opcode = (uint16_t)((code[0] | code[1] << 8) & 0xfff);

		if (sass_forms[sass_form_of[opcode]].function == SASS_LIFT_LDS)
			return true;
	}
	return false;
}

/* Finds the registers that the loop writes. False: it may end by itself. */
static bool find_written(struct loop *p)
{
	struct sass_instr i;

	for (uint32_t n = p->first; n <= p->last; n++) {
		if (!lift_decode(p->l, n, &i) || ends_loop(&i))
			return false;
		p->l->i = &i;
		mark_registers(p->l, &i, p->written);
	}
	p->written[SASS_RZ] = p->written[256 + SASS_URZ] = false;
	return true;
}

void find_polls(struct lift *l, const struct sass_instr *jump, uint32_t target)
{
	struct loop p = {.l = l, .first = target / SASS_BYTES, .last = jump->address / SASS_BYTES};
	const struct sass_instr *at_hand = l->i;
	struct sass_instr i;

	if (p.first > p.last || p.last - p.first >= MOST_INSTRUCTIONS || !has_load(&p))
		return;
	if (find_written(&p)) {
		follow(&p);
		follow(&p); /* a round uses what the one before it has loaded */
	}
	for (uint32_t n = p.first; n <= p.last && p.ends; n++)
		l->polls[n] |= lift_decode(l, n, &i) && is_poll(&p, &i);
	l->i = at_hand;
}
