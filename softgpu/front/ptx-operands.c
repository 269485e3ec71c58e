/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Which registers may be an instruction's operands. PTX ISA: a register agrees with a type if it is as large and of a
 * compatible kind; where loads, stores and conversions name a type, the register may be larger. Where the chapters say
 * nothing, ptxas decides.
 */
#include <stdio.h>
#include <string.h>

#include "front/ptx-opcodes.h"
#include "front/ptx-parse.h"
#include "front/ptx-tex-instr.h"

/*
 * For each class of types: the classes of registers (see PTX_TYPES) that are as large and agree, those that may be
 * larger where that is allowed, and those that agree as elements of a vector.
 */
static const struct {
	char cls;
	const char *same, *larger, *element;
} kinds[] = {
	{'b', "bushHf", "bushHf", "bushHf"},
	{'u', "busH", "busH", "busH"},
	{'s', "busH", "busH", "busH"},
	{'f', "bf", "b", "bfus"},
	{'h', "bh", "b", "bhus"},
	{'H', "bH", "b", "busHf"},
	{'y', "b", "", "bush"},
	{'Y', "b", "", "busHf"},
	{'U', "bH", "", "bH"},
	{'S', "bH", "", "bH"},
	{'F', "b", "", "b"},
	{'p', "p", "", "p"},
};

/* The types that an operand may have. */
struct wanted {
	uint8_t types[4]; /* PTX_NONE: no more */
	bool larger;
	bool plain; /* and no pair of halves where integers are wanted */
};

/* Letters that mean the same in all instructions; see ptx-opcodes.h. */
static const struct {
	char letter;
	uint8_t types[4];
} fixed[] = {
	{'p', {PTX_PRED}},
	{'h', {PTX_U16}},
	{'u', {PTX_U32}},
	{'l', {PTX_U64}},
	{'b', {PTX_B32}},
	{'m', {PTX_B32, PTX_PRED}},
	{'f', {PTX_F32}},
	{'a', {PTX_U8, PTX_U16, PTX_U32, PTX_U64}},
	{'A', {PTX_U32, PTX_U64}},
	{'o', {PTX_PRED, PTX_U32}},
	{'P', {PTX_U64}},
	{'K', {PTX_U16}},
};

static bool agrees(const struct wanted *w, unsigned type, unsigned reg, bool element)
{
	const struct ptx_type_info *t = &ptx_types[type], *r = &ptx_types[reg];
	size_t k = 0;

	while (kinds[k].cls != t->cls)
		k++;
	if (r->bits == t->bits)
		return strchr(element ? kinds[k].element : kinds[k].same, r->cls) &&
		       !(w->plain && t->cls == 'u' && r->cls == 'H');
	return w->larger && r->bits > t->bits && strchr(kinds[k].larger, r->cls);
}

static bool admits(const struct wanted *w, unsigned reg, bool element)
{
	for (size_t n = 0; n < sizeof(w->types) && w->types[n]; n++)
		if (agrees(w, w->types[n], reg, element))
			return true;
	return !w->types[0];
}

static unsigned twice(unsigned type)
{
	switch (type) {
	case PTX_U16:
		return PTX_U32;
	case PTX_S16:
		return PTX_S32;
	case PTX_U32:
		return PTX_U64;
	default:
		return PTX_S64;
	}
}

/* The registers of a matrix of this type. */
static unsigned fragment(unsigned type)
{
	switch (type) {
	case PTX_F64:
	case PTX_F32:
	case PTX_S32:
		return type;
	case PTX_F16:
		return PTX_F16X2;
	default:
		return PTX_B32;
	}
}

static bool is_bfloat(unsigned type)
{
	return type == PTX_BF16 || type == PTX_BF16X2;
}

/* PTX_NONE if the name does not end in a type that there are registers of. */
static unsigned last_type(const struct ptx_instr *i)
{
	const char *word = strrchr(i->name, '.');

	return word ? ptx_parse_type(word + 1, strlen(word + 1)) : PTX_NONE;
}

static struct wanted wanted_by(const struct ptx_instr *i, char letter)
{
	struct wanted w = {0};
	unsigned second = i->type2 ? i->type2 : i->type, small;

	switch (letter) {
	case 'w':
	case 'W':
		/* a conversion's only type is that of what it rounds: the other is .tf32 */
		w.larger = (i->type2 || i->op->family != PTX_FAMILY_CVT_SMALL) && !is_bfloat(i->type) &&
			   !is_bfloat(second);
		w.types[0] = (uint8_t)(letter == 'W' ? second : i->type);
		return w;
	case 't':
	case 'T':
		w.types[0] = (uint8_t)(letter == 'T' ? second : i->type);
		/* beside another type a bfloat is just bits */
		if (i->type2 && is_bfloat(w.types[0]))
			w.types[0] = w.types[0] == PTX_BF16 ? PTX_U16 : PTX_B32;
		return w;
	case 'v':
		w.types[0] = i->type;
		return w;
	case 'd':
		w.types[0] = (uint8_t)twice(i->type);
		return w;
	case 'r':
		w.types[0] = (uint8_t)fragment(i->type);
		return w;
	case 'c':
		w.types[0] = (uint8_t)fragment(last_type(i) ? last_type(i) : i->type);
		return w;
	case 'R':
		w.types[0] = i->type == PTX_F64 ? PTX_F64 : PTX_B32;
		return w;
	case 'B':
		w.types[0] = PTX_B32;
		w.larger = true;
		return w;
	case 'n':
	case 'N':
		/* what does not stand at the end of the name is the result */
		small = ptx_word(i, "e2m1x2") ? PTX_B8 : PTX_B16;
		w.types[0] = (uint8_t)((letter == 'n') == (last_type(i) != PTX_NONE) ? small : i->type);
		return w;
	case 's':
		w.types[0] = ptx_word(i, "parity") ? PTX_U32 : PTX_U64;
		return w;
	}
	w.plain = true;
	for (size_t n = 0; n < sizeof(fixed) / sizeof(fixed[0]); n++)
		if (fixed[n].letter == letter)
			memcpy(w.types, fixed[n].types, sizeof(w.types));
	return w;
}

void ptx_parse_wanted_types(const struct ptx_instr *i, char letter, uint8_t types[4])
{
	struct wanted w = wanted_by(i, letter);

	memcpy(types, w.types, sizeof(w.types));
}

static bool refuse(struct ptx_parser *p, const struct ptx_instr *i, unsigned operand, unsigned reg,
		   const struct wanted *w)
{
	char list[64] = "";

	for (size_t n = 0, length = 0; n < sizeof(w->types) && w->types[n]; n++)
		length += (size_t)snprintf(list + length, sizeof(list) - length, "%s.%s", n ? " or " : "",
					   ptx_types[w->types[n]].text);
	p->token.line = i->line;
	return ptx_parse_fail(p, PTX_INVALID, "`%.80s`: operand %u is a .%s register, which does not agree with %s%s",
			      i->name, operand + 1, ptx_types[reg].text, list, w->larger ? " or larger" : "");
}

static bool refuse_parts(struct ptx_parser *p, const struct ptx_instr *i, unsigned operand, unsigned reg)
{
	p->token.line = i->line;
	return ptx_parse_fail(p, PTX_INVALID, "`%.80s`: operand %u is %u .%s registers, which do not make up a .%s",
			      i->name, operand + 1, i->ops[operand].count, ptx_types[reg].text,
			      ptx_types[i->type].text);
}

/* ptxas takes a predicate beside registers of 32 bits in all vectors but these. */
static bool takes_predicates(const struct ptx_instr *i)
{
	return i->op->family != PTX_FAMILY_TILE_LOAD && i->op->family != PTX_FAMILY_TILE_STORE &&
	       strncmp(i->name, "tcgen05", 7) != 0;
}

/*
 * The type of an element. Beside a register of bits, other registers of that size count as bits. A predicate counts as
 * 32 bits.
 */
static unsigned element_type(const struct ptx_instr *i, const struct ptx_register *regs, const struct ptx_operand *o,
			     unsigned reg)
{
	unsigned bits = reg == PTX_PRED && takes_predicates(i) ? 32 : ptx_types[reg].bits;

	for (unsigned n = 0; n < o->count; n++) {
		const struct ptx_operand *e = &o->elements[n];
		unsigned other = e->kind == PTX_OP_REG ? regs[e->reg].type : PTX_NONE;

		if (ptx_types[other].cls == 'b' && ptx_types[other].bits == bits)
			return other;
	}
	return reg;
}

/* A number that goes to or from a surface may be packed of registers. */
static bool is_packed(const struct ptx_instr *i, const struct ptx_operand *o, unsigned reg)
{
	unsigned bits = ptx_types[i->type].bits;

	return i->tex &&
	       (i->tex->operation == PTX_SURF_LOAD || i->tex->operation == PTX_SURF_STORE ||
		i->tex->operation == PTX_SURF_STORE_FORMATTED) &&
	       i->tex->count == 1 && o->count != 3 && ptx_types[reg].bits < bits &&
	       ptx_types[reg].bits * o->count >= bits;
}

/* All elements are of one size; those that a value is packed of (v) make up its type. */
static bool check_vector(struct ptx_parser *p, const struct ptx_instr *i, unsigned operand, char letter)
{
	const struct ptx_operand *o = &i->ops[operand];
	const struct ptx_register *regs = p->function->regs;
	struct wanted w = wanted_by(i, letter);
	unsigned bits = 0;

	for (unsigned n = 0; n < o->count; n++) {
		const struct ptx_operand *e = &o->elements[n];
		bool packed;
		unsigned reg = e->kind == PTX_OP_REG ? regs[e->reg].type : PTX_NONE;

		if (!reg)
			continue;
		p->uncompiled |= reg == PTX_PRED;
		reg = element_type(i, regs, o, reg);
		packed = letter == 'w' && is_packed(i, o, reg);
		p->uncompiled |= packed;
		if (letter == 'v' && (ptx_types[i->type].cls != 'b' ||
				      ptx_types[reg].bits * o->count != ptx_types[i->type].bits))
			return refuse_parts(p, i, operand, reg);
		if (letter != 'v' && ((!packed && !admits(&w, reg, true)) || (bits && ptx_types[reg].bits != bits)))
			return refuse(p, i, operand, reg, &w);
		bits = ptx_types[reg].bits;
	}
	return true;
}

static bool is_address_with_vector(const struct ptx_instr *i, unsigned operand)
{
	return operand + 1u < i->count && i->ops[operand].kind == PTX_OP_MEM &&
	       i->ops[operand + 1].kind == PTX_OP_VECTOR;
}

/*
 * The address of a tensor map, before the coordinates. ptxas takes any register there. A later address before a vector
 * is that of an mbarrier, before the offsets of im2col.
 */
static bool is_map(const struct ptx_instr *i, unsigned operand)
{
	for (unsigned n = 0; n < operand; n++)
		if (is_address_with_vector(i, n))
			return false;
	return (i->op->flags & PTX_F_TENSOR) && is_address_with_vector(i, operand);
}

/* ptxas takes a predicate for 32 bits here. */
static bool takes_predicate(const struct ptx_instr *i, unsigned operand, char letter, const struct wanted *w)
{
	unsigned source = i->type2 ? i->type2 : i->type;

	switch (i->op->family) {
	case PTX_FAMILY_SETP:
	case PTX_FAMILY_SET:
		return operand == 2 && source == PTX_BF16X2;
	case PTX_FAMILY_CVT_NARROW:
		return w->types[0] == PTX_BF16X2;
	default:
		return letter == 'm';
	}
}

static bool check_operand(struct ptx_parser *p, const struct ptx_instr *i, unsigned operand, char letter)
{
	const struct ptx_operand *o = &i->ops[operand];
	const struct ptx_register *regs = p->function->regs;
	struct wanted w = wanted_by(i, o->kind == PTX_OP_MEM && letter != 'A' ? 'a' : letter),
		      second = wanted_by(i, 'p');

	if (o->kind == PTX_OP_VECTOR)
		return check_vector(p, i, operand, letter);
	if (o->kind == PTX_OP_REG && regs[o->reg].type == PTX_PRED && takes_predicate(i, operand, letter, &w)) {
		p->uncompiled = true;
		return true;
	}
	if ((o->kind == PTX_OP_REG || o->kind == PTX_OP_MEM) && o->reg >= 0 && !admits(&w, regs[o->reg].type, false)) {
		p->uncompiled = true;
		return is_map(i, operand) || refuse(p, i, operand, regs[o->reg].type, &w);
	}
	if ((o->kind == PTX_OP_REG || o->kind == PTX_OP_SINK) && o->reg2 >= 0 && regs[o->reg2].type != PTX_PRED)
		return refuse(p, i, operand, regs[o->reg2].type, &second);
	return true;
}

/* Operands whose presence the name tells: a policy, and a mask of blocks or of bytes. */
static bool is_named(const struct ptx_instr *i, char letter)
{
	return letter == 'P' ? (i->mods & M(POLICY)) != 0 : ptx_word(i, "multicast::cluster") || ptx_word(i, "cp_mask");
}

/* Does this letter stand for an operand that must be there? */
static bool is_needed(const struct ptx_instr *i, const char *letter)
{
	if (*letter == 'P' || *letter == 'K')
		return is_named(i, *letter);
	return *letter != '?' && letter[1] != '?';
}

bool ptx_parse_is_last_operand(const struct ptx_instr *i)
{
	return i->count + 1u == strlen(i->op->operands);
}

bool ptx_parse_check_operands(struct ptx_parser *p, const struct ptx_instr *i)
{
	unsigned least = 0, optional = 0, operand = 0;

	for (const char *letter = i->op->operands; *letter; letter++) {
		least += is_needed(i, letter);
		optional += *letter == '?';
	}
	if (i->count < least || i->count > least + optional)
		return ptx_parse_fail(p, PTX_INVALID, "`%s` cannot have %u operands", i->name, i->count);
	/* optional operands are left out from the end */
	optional = i->count - least;
	for (const char *letter = i->op->operands; *letter; letter++) {
		bool here = is_needed(i, letter);

		if (!here && letter[1] == '?' && optional) {
			optional--;
			here = true;
		}
		if (here && (!check_operand(p, i, operand, *letter) || !ptx_parse_check_kind(p, i, operand, *letter)))
			return false;
		operand += here;
	}
	return ptx_parse_check_together(p, i);
}
