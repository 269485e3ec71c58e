/* SPDX-License-Identifier: Apache-2.0 */
/* Bits, shifts, selections, moves and predicates. */
#include <stdio.h>

#include "sass/lift/lifting.h"

static struct value third_predicate(struct lift *l, const struct sass_instr *i)
{
	return predicate(l, (unsigned int)i->field[SASS_F_PC], i->field[SASS_F_PC_NOT]);
}

/* The bit of a truth table that three bits choose. */
static struct value look_up(struct lift *l, unsigned int table, struct value index)
{
	struct value v = compute32(l, "mov.b32", "%u", table);

	v = compute32(l, "shr.u32", "%s, %s", v.text, index.text);
	return compute_predicate(l, "setp.ne.u32", "%s, 0", compute32(l, "and.b32", "%s, 1", v.text).text);
}

static struct value index_of(struct lift *l, const struct value p[3])
{
	struct value index = value_of("0");

	for (unsigned int n = 0; n < 3; n++) {
		struct value bit = compute32(l, "selp.b32", "%u, 0, %s", 4u >> n, p[n].text);

		index = n ? compute32(l, "or.b32", "%s, %s", index.text, bit.text) : bit;
	}
	return index;
}

static void write_tables(struct lift *l, const struct sass_instr *i, const struct value p[3], unsigned int first,
			 unsigned int second)
{
	struct value index = index_of(l, p);

	if (i->field[SASS_F_P0] != SASS_PT)
		write_predicate(l, 0, (unsigned int)i->field[SASS_F_P0], look_up(l, first, index));
	if (i->field[SASS_F_P1] != SASS_PT)
		write_predicate(l, 1, (unsigned int)i->field[SASS_F_P1], look_up(l, second, index));
}

bool lift_plop3(struct lift *l, const struct sass_instr *i)
{
	unsigned int table = (unsigned int)(i->field[SASS_F_HIGH] << 3 | i->field[SASS_F_LOW]),
		     other = (unsigned int)i->field[SASS_F_LUT2];
	struct value p[3];

	p[0] = third_predicate(l, i);
	p[1] = predicate(l, (unsigned int)i->field[SASS_F_PD], i->field[SASS_F_PD_NOT]);
	if (i->field[SASS_F_UNIFORM] && i->field[SASS_F_PE] != SASS_PT) {
		p[2] = named_predicate(l, true, (unsigned int)i->field[SASS_F_PE]);
		if (i->field[SASS_F_PE_NOT])
			p[2] = compute_predicate(l, "not.pred", "%s", p[2].text);
	} else {
		p[2] = predicate(l, (unsigned int)i->field[SASS_F_PE], i->field[SASS_F_PE_NOT]);
	}
	write_tables(l, i, p, table, other);
	return true;
}

/* Truth tables of the signs of three registers. */
bool lift_plop3_sign(struct lift *l, const struct sass_instr *i)
{
	const struct sass_operand *o[] = {&i->a, &i->b, &i->c};
	struct value p[3];

	for (unsigned int n = 0; n < 3; n++)
		p[n] = compute_predicate(l, "setp.lt.s32", "%s, 0", in_register(l, source_bits(l, o[n])).text);
	write_tables(l, i, p, (unsigned int)i->field[SASS_F_LUT], (unsigned int)i->field[SASS_F_LUT2]);
	return true;
}

bool lift_sel(struct lift *l, const struct sass_instr *i)
{
	struct value a = source_bits(l, &i->a), b = source_bits(l, &i->b);

	write_32(l, i->d, compute32(l, "selp.b32", "%s, %s, %s", a.text, b.text, third_predicate(l, i).text));
	return true;
}

bool lift_prmt(struct lift *l, const struct sass_instr *i)
{
	static const char *const modes[] = {"prmt.b32",     "prmt.b32.f4e", "prmt.b32.b4e",  "prmt.b32.rc8",
					    "prmt.b32.ecl", "prmt.b32.ecr", "prmt.b32.rc16", NULL};
	struct value a = in_register(l, source_bits(l, &i->a)), b = source_bits(l, &i->b),
		     c = in_register(l, source_bits(l, &i->c));

	if (!modes[i->field[SASS_F_MODE]])
		return refuse(l, " in mode 7");
	write_32(l, i->d, compute32(l, modes[i->field[SASS_F_MODE]], "%s, %s, %s", a.text, c.text, b.text));
	return true;
}

enum shift_type { SHIFT_S64, SHIFT_U64, SHIFT_S32, SHIFT_U32 };

/*
 * A shift of the pair (c, a) by b, of which a half is the result. Bits of the other half come only into the lower half
 * of a shift to the right and into the upper half of a shift to the left.
 */
static struct value shift_pair(struct lift *l, const struct sass_instr *i, struct value by)
{
	struct value a = in_register(l, source_bits(l, &i->a)), c = in_register(l, source_bits(l, &i->c)), low, high;
	bool is_signed = i->field[SASS_F_TYPE] == SHIFT_S64, to_right = i->field[SASS_F_RIGHT];

	if (to_right && i->field[SASS_F_HIGH])
		return compute32(l, is_signed ? "shr.s32" : "shr.u32", "%s, %s", c.text, by.text);
	if (!to_right && !i->field[SASS_F_HIGH])
		return compute32(l, "shl.b32", "%s, %s", a.text, by.text);
	if (i->b.kind == SASS_IMMEDIATE && i->b.number < 32)
		return compute32(l, to_right ? "shf.r.wrap.b32" : "shf.l.wrap.b32", "%s, %s, %s", a.text, c.text,
				 by.text);
	unpack(l,
	       compute64(l,
			 !to_right   ? "shl.b64"
			 : is_signed ? "shr.s64"
				     : "shr.u64",
			 "%s, %s", pack(l, a, c).text, by.text),
	       &low, &high);
	return to_right ? low : high;
}

/*
 * A shift of 32 bits. To the right the result has c's bits, and a's lower half of the pair comes in: with HI the pair
 * is (c, a) and its upper half the result, which only c's sign or zeroes fill.
 */
static struct value shift_word(struct lift *l, const struct sass_instr *i, struct value by)
{
	struct value a = in_register(l, source_bits(l, &i->a)), c = in_register(l, source_bits(l, &i->c));
	bool is_signed = i->field[SASS_F_TYPE] == SHIFT_S32, to_right = i->field[SASS_F_RIGHT],
	     high = i->field[SASS_F_HIGH];

	if (to_right && high)
		return compute32(l, is_signed ? "shr.s32" : "shr.u32", "%s, %s", c.text, by.text);
	if (to_right)
		return compute32(l, i->field[SASS_F_WRAP] ? "shf.r.wrap.b32" : "shf.r.clamp.b32", "%s, %s, %s", a.text,
				 c.text, by.text);
	if (high)
		return compute32(l, i->field[SASS_F_WRAP] ? "shf.l.wrap.b32" : "shf.l.clamp.b32", "%s, %s, %s", a.text,
				 c.text, by.text);
	return compute32(l, "shl.b32", "%s, %s", a.text, by.text);
}

bool lift_shf(struct lift *l, const struct sass_instr *i)
{
	bool pair = i->field[SASS_F_TYPE] == SHIFT_S64 || i->field[SASS_F_TYPE] == SHIFT_U64;
	struct value by = source_bits(l, &i->b);

	if (i->field[SASS_F_WRAP])
		by = compute32(l, "and.b32", "%s, %u", in_register(l, by).text, pair ? 63u : 31u);
	write_32(l, i->d, pair ? shift_pair(l, i, by) : shift_word(l, i, by));
	return true;
}

/* The lower b bits of a, with their sign or zeroes above. */
bool lift_sgxt(struct lift *l, const struct sass_instr *i)
{
	struct value a = in_register(l, source_bits(l, &i->a)), b = source_bits(l, &i->b);

	write_32(l, i->d,
		 compute32(l,
			   i->field[SASS_F_SIGNED] ? i->field[SASS_F_WRAP] ? "szext.wrap.s32" : "szext.clamp.s32"
			   : i->field[SASS_F_WRAP] ? "szext.wrap.u32"
						   : "szext.clamp.u32",
			   "%s, %s", a.text, b.text));
	return true;
}

bool lift_bmsk(struct lift *l, const struct sass_instr *i)
{
	struct value a = in_register(l, source_bits(l, &i->a)), b = source_bits(l, &i->b);

	write_32(l, i->d,
		 compute32(l, i->field[SASS_F_WRAP] ? "bmsk.wrap.b32" : "bmsk.clamp.b32", "%s, %s", a.text, b.text));
	return true;
}

static struct value possibly_inverted(struct lift *l, const struct sass_operand *o)
{
	struct value v = in_register(l, source_bits(l, o));

	return o->negate ? compute32(l, "not.b32", "%s", v.text) : v;
}

bool lift_flo(struct lift *l, const struct sass_instr *i)
{
	struct value v = possibly_inverted(l, &i->b), r;
	char operation[32];

	snprintf(operation, sizeof(operation), "bfind%s.%s", i->field[SASS_F_SHIFT] ? ".shiftamt" : "",
		 i->field[SASS_F_SIGNED] ? "s32" : "u32");
	r = compute32(l, operation, "%s", v.text);
	if (i->field[SASS_F_P0] != SASS_PT)
		return refuse(l, " with a predicate");
	write_32(l, i->d, r);
	return true;
}

bool lift_popc(struct lift *l, const struct sass_instr *i)
{
	write_32(l, i->d, compute32(l, "popc.b32", "%s", possibly_inverted(l, &i->b).text));
	return true;
}

bool lift_brev(struct lift *l, const struct sass_instr *i)
{
	write_32(l, i->d, compute32(l, "brev.b32", "%s", possibly_inverted(l, &i->b).text));
	return true;
}

bool lift_mov(struct lift *l, const struct sass_instr *i)
{
	write_32(l, i->d, source_bits(l, &i->b));
	return true;
}

/* Predicates to a byte of a register, where the mask has bits; the others are a's. */
bool lift_p2r(struct lift *l, const struct sass_instr *i)
{
	unsigned int shift = 8 * (unsigned int)i->field[SASS_F_PART];
	struct value v = in_register(l, source_bits(l, &i->a));

	if (i->b.kind != SASS_IMMEDIATE)
		return refuse(l, " with a mask in a register");
	v = compute32(l, "and.b32", "%s, 0x%x", v.text, ~((i->b.number & 0x7f) << shift));
	for (unsigned int n = 0; n < 7; n++) {
		struct value bit;

		if (!(i->b.number >> n & 1))
			continue;
		bit = compute32(l, "selp.b32", "0x%x, 0, %s", 1u << (n + shift), predicate(l, n, false).text);
		v = compute32(l, "or.b32", "%s, %s", v.text, bit.text);
	}
	write_32(l, i->d, v);
	return true;
}

bool lift_r2p(struct lift *l, const struct sass_instr *i)
{
	unsigned int shift = 8 * (unsigned int)i->field[SASS_F_PART];
	struct value v = in_register(l, source_bits(l, &i->a)), is[7];

	if (i->b.kind != SASS_IMMEDIATE)
		return refuse(l, " with a mask in a register");
	for (unsigned int n = 0; n < 7; n++)
		if (i->b.number >> n & 1)
			is[n] = compute_predicate(l, "setp.ne.u32", "%s, 0",
						  compute32(l, "and.b32", "%s, 0x%x", v.text, 1u << (n + shift)).text);
	for (unsigned int n = 0; n < 7; n++) {
		if (!(i->b.number >> n & 1) || (n == i->guard && l->guard[0]))
			continue;
		emit_guarded(l, "mov.pred %s, %s", predicate_result(l, n).text, is[n].text);
	}
	if (l->guard[0] && (i->b.number >> i->guard & 1))
		write_predicate(l, 0, i->guard, is[i->guard]);
	return true;
}

/* The second predicate says whether the active lanes have different values. */
bool lift_r2ur(struct lift *l, const struct sass_instr *i)
{
	struct value v = in_register(l, source_bits(l, &i->a)), members, same;

	if (i->field[SASS_F_P0] != SASS_PT) {
		members = active_lanes(l);
		same = temporary(l, TEMPORARY_PREDICATE);
		emit(l, "setp.ne.u32 %s, 0, 0", same.text);
		emit_guarded(l, "match.all.sync.b32 %s|%s, %s, %s", temporary(l, TEMPORARY_32).text, same.text, v.text,
			     members.text);
		write_predicate(l, 0, (unsigned int)i->field[SASS_F_P0],
				compute_predicate(l, "not.pred", "%s", same.text));
	}
	write_32(l, i->d, v);
	return true;
}

static const char *special(unsigned int number)
{
	static const struct {
		uint8_t number;
		const char *name;
	} names[] = {
		{0x00, "%laneid"},
		{0x21, "%tid.x"},
		{0x22, "%tid.y"},
		{0x23, "%tid.z"},
		{0x25, "%ctaid.x"},
		{0x26, "%ctaid.y"},
		{0x27, "%ctaid.z"},
		{0x38, "%lanemask_eq"},
		{0x39, "%lanemask_lt"},
		{0x3a, "%lanemask_le"},
		{0x3b, "%lanemask_gt"},
		{0x3c, "%lanemask_ge"},
		{0x50, "%clock"},
		{0x51, "%clock_hi"},
		{0x52, "%globaltimer_lo"},
		{0x53, "%globaltimer_hi"},
		{0x32, "%total_smem_size"},
		{0x43, "%smid"},
		{SASS_SR_BLOCK_OF_CLUSTER, "0"},
		{0xff, "0"},
	};

	for (size_t n = 0; n < sizeof(names) / sizeof(names[0]); n++)
		if (names[n].number == number)
			return names[n].name;
	return NULL;
}

bool lift_s2r(struct lift *l, const struct sass_instr *i)
{
	const char *name = special((unsigned int)i->field[SASS_F_SR]);

	if (i->field[SASS_F_SR] == SASS_SR_SWINHI && l->cubin->architecture >= 90) {
		write_32(l, i->d, value_of("0x%x", SASS_SHARED_WINDOW));
		return true;
	}
	if (i->field[SASS_F_SR] == SASS_SR_BLOCK_OF_CLUSTER && l->function->cluster[0])
		return refuse(l, " of a cluster");
	if (!name)
		return refuse(l, " of special register %#x", (unsigned int)i->field[SASS_F_SR]);
	write_32(l, i->d, compute32(l, "mov.u32", "%s", name));
	return true;
}

bool lift_cs2r(struct lift *l, const struct sass_instr *i)
{
	unsigned int number = (unsigned int)i->field[SASS_F_SR];

	if (!i->field[SASS_F_PAIR])
		return lift_s2r(l, i);
	if (number == 0x50)
		write_64(l, i->d, compute64(l, "mov.u64", "%%clock64"));
	else if (number == 0x52)
		write_64(l, i->d, compute64(l, "mov.u64", "%%globaltimer"));
	else if (number == 0xff)
		write_64(l, i->d, compute64(l, "mov.u64", "0"));
	else
		return refuse(l, " of special register %#x", number);
	return true;
}
