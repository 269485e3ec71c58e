/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Loads of shared memory that wait for another thread. A volatile or ordered load of shared memory has the same machine
 * code as any other. Where a short loop ends by the value of such a load, and does not change the address, another
 * thread's store may have to end it. To take a load for a poll that is none costs only time.
 */
#include <string.h>

#include "sass/lift/lifting.h"

/* The longest such loop. */
#define MOST_INSTRUCTIONS 128

/* The steps that each instruction of a loop counts as: it is decoded four times. */
#define STEPS 128

/* The registers in which functions get arguments and return results. */
#define FIRST_ARGUMENT 4
#define END_OF_ARGUMENTS 16

/* Registers, those of the uniform datapath behind the others. A predicate and the uniform one of its number are one. */
struct polled {
	bool reg[256 + 64], predicate[8];
};

struct loop {
	struct lift *l;
	uint32_t first, last;
	bool written[256 + 64];
	bool made_again[256 + 64]; /* written in this round so far, of what the loop does not write */
	bool polls[MOST_INSTRUCTIONS];
	struct polled polled; /* depend on one of `polls` */
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

/* Forms that have only 32-bit operands. */
static bool is_narrow(const struct sass_instr *i)
{
	switch (i->form->function) {
	case SASS_LIFT_FADD:
	case SASS_LIFT_FMUL:
	case SASS_LIFT_FFMA:
	case SASS_LIFT_FMNMX:
	case SASS_LIFT_FSEL:
	case SASS_LIFT_FSETP:
	case SASS_LIFT_IADD3:
	case SASS_LIFT_IMAD:
	case SASS_LIFT_ISETP:
	case SASS_LIFT_IMNMX:
	case SASS_LIFT_IABS:
	case SASS_LIFT_LEA:
	case SASS_LIFT_LOP3:
	case SASS_LIFT_SEL:
	case SASS_LIFT_PRMT:
	case SASS_LIFT_SHF:
	case SASS_LIFT_FLO:
	case SASS_LIFT_POPC:
	case SASS_LIFT_MOV:
	case SASS_LIFT_SHFL:
	case SASS_LIFT_VOTE:
	case SASS_LIFT_REDUX:
	case SASS_LIFT_R2UR:
		return true;
	default:
		return false;
	}
}

/* At least the registers of the result. */
static unsigned int greatest_count(const struct sass_instr *i)
{
	switch (i->form->function) {
	case SASS_LIFT_LD:
	case SASS_LIFT_LDG:
	case SASS_LIFT_LDL:
	case SASS_LIFT_LDS:
		return result_count(i);
	case SASS_LIFT_BMMA:
	case SASS_LIFT_DMMA:
	case SASS_LIFT_HMMA:
	case SASS_LIFT_IMMA:
	case SASS_LIFT_LDSM:
		return 4;
	default:
		return is_narrow(i) ? 1 : 2;
	}
}

/* The whole block waits at the barrier: the load sees afterwards what the others have stored. */
static bool waits_for_block(const struct sass_instr *i)
{
	return i->form->function == SASS_LIFT_BAR && i->guard == SASS_PT && !i->guard_not && !i->field[SASS_F_THREADS];
}

static bool is_leaving(const struct sass_instr *i)
{
	switch (i->form->function) {
	case SASS_LIFT_BRA:
	case SASS_LIFT_BRX:
	case SASS_LIFT_EXIT:
	case SASS_LIFT_RET:
		return true;
	default:
		return false;
	}
}

static bool is_call(const struct sass_instr *i)
{
	return i->form->function == SASS_LIFT_CALL || i->form->function == SASS_LIFT_CALL_ABS;
}

static bool has_field(const struct sass_instr *i, enum sass_field field)
{
	for (unsigned int n = 0; n < i->form->field_count; n++)
		if (i->form->fields[n].field == field)
			return true;
	return false;
}

static bool changes(const struct loop *p, unsigned int number)
{
	return p->written[number] && !p->made_again[number];
}

static bool is_poll(const struct loop *p, const struct sass_instr *i)
{
	bool has_u = i->field[SASS_F_HAS_U];

	return i->form->function == SASS_LIFT_LDS && i->d != SASS_RZ && !changes(p, i->a.reg) &&
	       !(has_u && changes(p, 256 + (i->field[SASS_F_U] & 63)));
}

/* Code of sm_90 makes addresses of shared memory of the block's number in its cluster. */
static bool makes_addresses(const struct sass_instr *i)
{
	switch (i->form->function) {
	case SASS_LIFT_IADD3:
	case SASS_LIFT_IMAD:
	case SASS_LIFT_LEA:
	case SASS_LIFT_LOP3:
	case SASS_LIFT_SHF:
	case SASS_LIFT_MOV:
	case SASS_LIFT_S2R:
	case SASS_LIFT_LDC:
	case SASS_LIFT_ULDC:
	case SASS_LIFT_R2UR:
		return i->guard == SASS_PT;
	default:
		return false;
	}
}

static void note_address(struct loop *p, const struct sass_instr *i)
{
	const struct sass_operand *sources[] = {&i->a, &i->b, &i->c};
	unsigned int result = result_number(p->l, i);
	bool is_same = makes_addresses(i);

	for (unsigned int n = 0; n < 3; n++)
		if (sources[n]->kind == SASS_REGISTER || sources[n]->kind == SASS_UNIFORM)
			is_same &= !changes(p, operand_number(sources[n]));
	for (unsigned int n = 0; n < result_count(i) && result + n < 256 + 64; n++)
		p->made_again[result + n] = is_same;
}

static bool is_polled(const struct loop *p, const struct sass_operand *o, bool is_pair)
{
	unsigned int number = operand_number(o);

	if (o->kind != SASS_REGISTER && o->kind != SASS_UNIFORM)
		return false;
	return p->polled.reg[number] || (is_pair && number + 1 < 256 + 64 && p->polled.reg[number + 1]);
}

static bool is_any_polled(const bool *marked, unsigned int first, unsigned int end)
{
	for (unsigned int n = first; n < end; n++)
		if (marked[n])
			return true;
	return false;
}

static bool reads_polled(const struct loop *p, const struct sass_instr *i)
{
	static const enum sass_field fields[] = {SASS_F_PC, SASS_F_PD, SASS_F_PE};
	const struct sass_operand *sources[] = {&i->a, &i->b, &i->c};

	if (p->polled.predicate[i->guard & 7])
		return true;
	for (unsigned int n = 0; n < 3; n++)
		if (is_polled(p, sources[n], !is_narrow(i)) ||
		    (has_field(i, fields[n]) && p->polled.predicate[i->field[fields[n]] & 7]))
			return true;
	if (is_call(i))
		return is_any_polled(p->polled.reg, FIRST_ARGUMENT, END_OF_ARGUMENTS);
	return i->form->function == SASS_LIFT_P2R && is_any_polled(p->polled.predicate, 0, SASS_PT);
}

static void mark_registers(const struct lift *l, const struct sass_instr *i, unsigned int count, bool *marked)
{
	unsigned int result = result_number(l, i);

	for (unsigned int n = 0; result != SASS_RZ && n < count && result + n < 256 + 64; n++)
		marked[result + n] = true;
	marked[SASS_RZ] = marked[256 + SASS_URZ] = false;
}

static void mark_results(struct loop *p, const struct sass_instr *i)
{
	static const enum sass_field fields[] = {SASS_F_P0, SASS_F_P1};

	mark_registers(p->l, i, greatest_count(i), p->polled.reg);
	for (unsigned int n = 0; n < 2; n++)
		if (has_field(i, fields[n]))
			p->polled.predicate[i->field[fields[n]] & 7] = true;
	for (unsigned int n = 0; i->form->function == SASS_LIFT_R2P && n < SASS_PT; n++)
		p->polled.predicate[n] = true;
	for (unsigned int n = FIRST_ARGUMENT; is_call(i) && n < END_OF_ARGUMENTS; n++)
		p->polled.reg[n] = true;
	p->polled.predicate[SASS_PT] = false;
}

/* Finds what the polls of the loop lead to. */
static void follow(struct loop *p)
{
	struct sass_instr i;

	memset(p->made_again, 0, sizeof(p->made_again));
	for (uint32_t n = p->first; n <= p->last && lift_decode(p->l, n, &i); n++) {
		p->l->i = &i;
		p->polls[n - p->first] = is_poll(p, &i);
		note_address(p, &i);
		if (!p->polls[n - p->first] && !reads_polled(p, &i))
			continue;
		if (is_leaving(&i))
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

/* Finds the registers that the loop writes. False: each round waits for the block. */
static bool find_written(struct loop *p)
{
	struct sass_instr i;
	uint32_t target, skipped = 0; /* a jump may lead past the instructions before this one */

	for (uint32_t n = p->first; n <= p->last; n++) {
		if (!lift_decode(p->l, n, &i) || (waits_for_block(&i) && n >= skipped))
			return false;
		p->l->i = &i;
		mark_registers(p->l, &i, result_count(&i), p->written);
		if (i.form->function == SASS_LIFT_BRX)
			skipped = p->last + 1;
		else if (i.form->function == SASS_LIFT_BRA && target_of(p->l, &i, &target) &&
			 target / SASS_BYTES > skipped)
			skipped = target / SASS_BYTES;
	}
	return true;
}

void find_polls(struct lift *l, const struct sass_instr *jump, uint32_t target)
{
	struct loop p = {.l = l, .first = target / SASS_BYTES, .last = jump->address / SASS_BYTES};
	const struct sass_instr *at_hand = l->i;

	if (p.first > p.last || p.last - p.first >= MOST_INSTRUCTIONS || !may_take(l, STEPS * (p.last - p.first + 1)) ||
	    !has_load(&p))
		return;
	if (find_written(&p)) {
		follow(&p);
		follow(&p); /* a round uses what the one before it has loaded */
	}
	for (uint32_t n = p.first; n <= p.last && p.ends; n++)
		l->polls[n] |= p.polls[n - p.first];
	l->i = at_hand;
}
