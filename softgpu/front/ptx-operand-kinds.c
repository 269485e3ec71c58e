/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The kinds of operands that an instruction takes: registers, numbers, names, addresses, vectors. The letters are those
 * of ptx-opcodes.h. ptxas decides where the PTX ISA leaves a kind open.
 */
#include <string.h>

#include "front/ptx-opcodes.h"
#include "front/ptx-parse.h"
#include "front/ptx-tex-instr.h"

static bool refuse(struct ptx_parser *p, const struct ptx_instr *i, const char *what, unsigned operand)
{
	p->token.line = i->line;
	return ptx_parse_fail(p, PTX_INVALID, "%s for operand %u of instruction '%.80s'", what, operand + 1, i->name);
}

/* The metadata of a sparse matrix. */
static bool is_metadata(const struct ptx_instr *i, char letter)
{
	return i->op->family == PTX_FAMILY_MMA_SPARSE && letter == 'm';
}

static bool takes_vector(const struct ptx_instr *i, char letter)
{
	switch (i->op->family) {
	case PTX_FAMILY_MOV:
	case PTX_FAMILY_MOV_VECTOR:
	case PTX_FAMILY_LD:
	case PTX_FAMILY_ST:
	case PTX_FAMILY_ATOM:
	case PTX_FAMILY_TEX:
	case PTX_FAMILY_STORE_ASYNC:
	case PTX_FAMILY_QUERY_CANCEL:
	case PTX_FAMILY_MATRIX_ROWS:
		return true;
	case PTX_FAMILY_NONE:
		return i->op->flags & PTX_F_UNKNOWN;
	default:
		return (i->op->flags & PTX_F_TENSOR) || strchr("rRc", letter) || is_metadata(i, letter);
	}
}

/* ptxas takes a vector of one, two or four registers as an operand of this type. */
static bool is_bfloat(const struct ptx_instr *i, char letter)
{
	unsigned type = strchr("TW", letter) && i->type2 ? i->type2 : i->type;

	return strchr("tTwW", letter) && (type == PTX_BF16 || type == PTX_BF16X2);
}

/* The number of elements of the vector of a load, store or atomic; 0: the name does not give it. */
static unsigned lanes(const struct ptx_instr *i)
{
	unsigned count = i->mods & M(V2) ? 2 : i->mods & M(V4) ? 4 : i->mods & M(V8) ? 8 : 0;

	if (i->op->family == PTX_FAMILY_TILE_LOAD || i->op->family == PTX_FAMILY_TILE_STORE)
		return count;
	if (!(i->op->flags & (PTX_F_LOAD | PTX_F_STORE | PTX_F_ATOM)) || i->op->family == PTX_FAMILY_TEX)
		return 0;
	return count ? count : 1;
}

/* Rows of a matrix, and what a texture has at a place. */
static bool needs_vector(const struct ptx_instr *i, unsigned operand)
{
	if (i->op->family == PTX_FAMILY_MATRIX_ROWS)
		return operand == (i->op->flags & PTX_F_NO_DST ? 1 : 0);
	return i->tex && !operand && (i->tex->operation == PTX_TEX_FETCH || i->tex->operation == PTX_TEX_GATHER);
}

static bool check_vector(struct ptx_parser *p, const struct ptx_instr *i, unsigned operand, char letter)
{
	const struct ptx_operand *o = &i->ops[operand];
	bool vector = o->kind == PTX_OP_VECTOR, value = strchr("wtvr", letter);
	unsigned count = lanes(i);

	if (vector && !takes_vector(i, letter)) {
		p->uncompiled = true;
		return (is_bfloat(i, letter) && o->count <= 4 && o->count != 3) ||
		       refuse(p, i, "Vector operand is not allowed", operand);
	}
	if (!vector && (strchr("rRc", letter) || needs_vector(i, operand)))
		return refuse(p, i, "Vector expected", operand);
	if (count && value && (vector ? o->count != count : count > 1))
		return refuse(p, i, "Argument vector size mismatch", operand);
	return true;
}

/* p|q is two results. Whether there may be, or must be, a second one. */
static bool check_second(struct ptx_parser *p, const struct ptx_instr *i)
{
	const struct ptx_operand *o = &i->ops[0];
	bool there = (o->kind == PTX_OP_REG || o->kind == PTX_OP_SINK) && o->reg2 >= 0, may = false, must = false;

	switch (i->op->family) {
	case PTX_FAMILY_TEX:
		return true;
	case PTX_FAMILY_SHFL:
		may = true;
		break;
	case PTX_FAMILY_MATCH:
		may = i->mods & M(ALL);
		break;
	case PTX_FAMILY_SETP:
		may = i->type != PTX_F16 && i->type != PTX_BF16;
		break;
	case PTX_FAMILY_ELECT:
		may = must = true;
		break;
	case PTX_FAMILY_LOP3:
		may = must = i->mods & (M(AND) | M(OR));
		break;
	}
	if (there && !may)
		return refuse(p, i, "Predicate output not allowed", 0);
	return there || !must || refuse(p, i, "Predicate output expected", 0);
}

static bool takes_sink(const struct ptx_instr *i)
{
	switch (i->op->family) {
	case PTX_FAMILY_ATOM:
	case PTX_FAMILY_SETP:
	case PTX_FAMILY_MBARRIER_ARRIVE:
	case PTX_FAMILY_ELECT:
	case PTX_FAMILY_LOP3:
	case PTX_FAMILY_MATCH:
	case PTX_FAMILY_TEX:
		return true;
	default:
		return false;
	}
}

static bool check_result(struct ptx_parser *p, const struct ptx_instr *i)
{
	const struct ptx_operand *o = &i->ops[0];

	if (o->kind == PTX_OP_SINK && !takes_sink(i))
		return refuse(p, i, "Result discard mode is not allowed", 0);
	if ((o->kind != PTX_OP_REG && o->kind != PTX_OP_VECTOR && o->kind != PTX_OP_SINK) || o->negate || o->minus)
		return refuse(p, i, "Result register required", 0);
	return check_second(p, i);
}

static bool takes_symbol(const struct ptx_instr *i, char letter)
{
	switch (i->op->family) {
	case PTX_FAMILY_MOV:
		return !strchr("fF", ptx_types[i->type].cls);
	case PTX_FAMILY_CVTA:
		return !(i->mods & M(TO));
	case PTX_FAMILY_CLUSTER:
		return true;
	case PTX_FAMILY_TEX:
		return letter == 'l';
	default:
		return letter == '-';
	}
}

static bool takes_special(const struct ptx_instr *i)
{
	if (i->op->family == PTX_FAMILY_MOV)
		return ptx_types[i->type].cls != 'f';
	return i->op->family == PTX_FAMILY_MOV_VECTOR || i->op->family == PTX_FAMILY_CVT;
}

/* May a number be of one of these types? Numbers with a fraction are as large as what they stand for if that is bits. */
static bool takes_number(const uint8_t *types, size_t count, const struct ptx_operand *o)
{
	for (size_t n = 0; n < count && types[n]; n++) {
		const struct ptx_type_info *t = &ptx_types[types[n]];

		if (o->kind == PTX_OP_INT ? strchr("busp", t->cls) != NULL
					  : t->cls == 'f' || (t->cls == 'b' && t->bits == (o->single ? 32 : 64)))
			return true;
	}
	return !types[0];
}

/* Shifts, numbers of barriers and bits: not too large. */
static bool in_range(const struct ptx_instr *i, unsigned operand, uint64_t value)
{
	unsigned first = i->op->flags & PTX_F_NO_DST ? 0 : 1;

	switch (i->op->family) {
	case PTX_FAMILY_BFE:
	case PTX_FAMILY_BFI:
		return operand + 2u < i->count || value <= 255;
	case PTX_FAMILY_BARRIER:
		if (operand == first)
			return (i->mods & M(WARP)) || value < 16;
		if ((i->mods & M(RED)) && operand + 1u == i->count)
			return true;
		return value % 32 == 0 && (value || !(i->mods & M(ARRIVE)));
	default:
		return true;
	}
}

static bool is_simd(const struct ptx_instr *i)
{
	return i->op->family == PTX_FAMILY_VIDEO && strpbrk(i->op->name, "24");
}

/* The operand is rows or metadata of a matrix. */
static bool is_rows(const struct ptx_instr *i)
{
	return i->op->family == PTX_FAMILY_MOVMATRIX || i->op->family == PTX_FAMILY_MMA_SPARSE;
}

/* Two or four numbers at once, a matrix and a place of the stack are in registers. */
static bool only_registers(const struct ptx_instr *i)
{
	return is_simd(i) || is_rows(i) ||
	       ((i->op->flags & PTX_F_STACK) && (i->op->flags & PTX_F_NO_DST));
}

/* Rows of a matrix may be the bits of an f32. */
static bool takes_single(const struct ptx_instr *i, const struct ptx_operand *o)
{
	return is_rows(i) && o->kind == PTX_OP_FLOAT && o->single;
}

static bool check_number(struct ptx_parser *p, const struct ptx_instr *i, unsigned operand, char letter,
			 const struct ptx_operand *o)
{
	uint8_t types[4];

	if (strchr("-rRcnN", letter) || (i->op->family == PTX_FAMILY_TEX && !strchr("tw", letter)))
		return true;
	ptx_parse_wanted_types(i, letter, types);
	if (!takes_number(types, sizeof(types), o) || (only_registers(i) && !takes_single(i, o)))
		return refuse(p, i, "Arguments mismatch", operand);
	if (o->kind == PTX_OP_INT && !in_range(i, operand, o->imm))
		return refuse(p, i, "Value out of range", operand);
	return true;
}

static bool check_address(struct ptx_parser *p, const struct ptx_instr *i, unsigned operand, char letter)
{
	const struct ptx_operand *o = &i->ops[operand];
	bool memory = o->kind == PTX_OP_MEM;

	if (i->op->family == PTX_FAMILY_TEX || letter == '-')
		return true;
	if (memory != (letter == 'a'))
		return refuse(p, i, memory ? "Address is not allowed" : "Address expected", operand);
	if (memory && o->reg < 0 && !o->symbol && lanes(i) && i->space <= PTX_SHARED)
		return refuse(p, i, "Immediate addresses allowed only for .local state space", operand);
	return true;
}

static bool check_elements(struct ptx_parser *p, const struct ptx_instr *i, unsigned operand, char letter)
{
	const struct ptx_operand *o = &i->ops[operand];
	bool checked = strchr("wtT", letter) || is_metadata(i, letter);

	for (unsigned n = 0; checked && n < o->count; n++)
		if ((o->elements[n].kind == PTX_OP_INT || o->elements[n].kind == PTX_OP_FLOAT) &&
		    !check_number(p, i, operand, letter, &o->elements[n]))
			return false;
	return true;
}

static bool check_source(struct ptx_parser *p, const struct ptx_instr *i, unsigned operand, char letter)
{
	const struct ptx_operand *o = &i->ops[operand];

	if (letter == '-' && o->kind != PTX_OP_INT && !(i->op->flags & PTX_F_BRANCH))
		return refuse(p, i, "Arguments mismatch", operand);

	switch (o->kind) {
	case PTX_OP_REG:
		return o->reg2 < 0 || refuse(p, i, "Predicate output not allowed", operand);
	case PTX_OP_SYMBOL:
		return takes_symbol(i, letter) || refuse(p, i, "Argument must be register", operand);
	case PTX_OP_SPECIAL:
		return takes_special(i) || refuse(p, i, "Special register argument not allowed", operand);
	case PTX_OP_INT:
	case PTX_OP_FLOAT:
		return check_number(p, i, operand, letter, o);
	case PTX_OP_VECTOR:
		return check_elements(p, i, operand, letter);
	case PTX_OP_SINK:
		return refuse(p, i, "Sink '_' not allowed", operand);
	default:
		return true;
	}
}

/* The parts that an operand selects: no more than there are. A source of several numbers selects as many as they are. */
static bool check_selector(const struct ptx_instr *i, unsigned operand)
{
	const struct ptx_operand *o = &i->ops[operand];
	unsigned numbers = strchr(i->op->name, '4') ? 4 : strchr(i->op->name, '2') ? 2 : 0;
	unsigned count = o->kind == PTX_OP_REG ? PTX_SELECT_COUNT(o->select) : 0;

	if (o->kind != PTX_OP_REG || !o->select)
		return true;
	if (operand == 3)
		return false;
	if (!numbers || operand)
		return !numbers || count == numbers;
	for (unsigned n = 0; n < count; n++)
		if (PTX_SELECT_PART(o->select, n) >= numbers)
			return false;
	return count <= numbers;
}

/*
 * A third source is for the second operation, or for the bits of the result that are not selected. Where there is
 * neither, ptxas takes a third source and ignores it.
 */
static bool check_video(struct ptx_parser *p, const struct ptx_instr *i)
{
	bool merged = i->ops[0].kind == PTX_OP_REG && i->ops[0].select;
	bool second = ptx_word(i, "add") || ptx_word(i, "min") || ptx_word(i, "max");

	for (unsigned n = 0; n < i->count; n++)
		if (!check_selector(i, n))
			return refuse(p, i, "Incorrect video selector", n);
	if (!strcmp(i->op->name, "vmad"))
		return !(i->ops[1].minus ^ i->ops[2].minus) || !i->ops[3].minus ||
		       refuse(p, i, "Operand negation not allowed", 3);
	if (!is_simd(i) && (merged && second))
		return refuse(p, i, "Incorrect video selector", 0);
	if (!is_simd(i) && i->count == 3 && (merged || second))
		return refuse(p, i, "Arguments mismatch", i->count - 1u);
	return true;
}

/*
 * The lanes with metadata that the last operand selects: one or two of each four, or all. ptxas takes two more numbers
 * for m16n8k32 of f16 with sums of f32.
 */
static bool check_sparse(struct ptx_parser *p, const struct ptx_instr *i)
{
	bool halves = ptx_word(i, "f16") || ptx_word(i, "bf16"), nibbles = ptx_word(i, "s4") || ptx_word(i, "u4");
	unsigned selectors = 1;

	if (ptx_word(i, "m16n8k8") || (ptx_word(i, "m16n8k16") && halves))
		selectors = 4;
	else if (ptx_word(i, "m16n8k32"))
		selectors = ptx_word(i, "f16") && ptx_word(i, "f32") ? 4 : 2;
	else if (ptx_word(i, "m16n8k16") || (ptx_word(i, "m16n8k64") && nibbles))
		selectors = 2;
	return i->ops[5].imm < selectors || refuse(p, i, "Value out of range", 5);
}

bool ptx_parse_check_kind(struct ptx_parser *p, const struct ptx_instr *i, unsigned operand, char letter)
{
	bool result = !operand && !(i->op->flags & PTX_F_NO_DST);

	if (i->ops[operand].kind == PTX_OP_LABEL)
		return true;
	if (!check_vector(p, i, operand, letter) || !check_address(p, i, operand, letter))
		return false;
	return result ? check_result(p, i) : check_source(p, i, operand, letter);
}

/* The number of operands that the words of the name require; 0: the row's own number. */
static unsigned wanted_count(const struct ptx_instr *i)
{
	switch (i->op->family) {
	case PTX_FAMILY_ATOM:
		if (i->op->flags & PTX_F_WORDS)
			return 0;
		return (i->op->flags & PTX_F_NO_DST ? 2 : 3) + (i->mods & M(CAS) ? 1 : 0);
	case PTX_FAMILY_SHFL:
		return i->mods & M(SYNC) ? 5 : 4;
	case PTX_FAMILY_VOTE:
		return i->mods & M(SYNC) ? 3 : 2;
	case PTX_FAMILY_TEX:
		return i->tex->operation == PTX_TEX_QUERY ? (i->tex->query_level ? 3 : 2) : 0;
	default:
		return 0;
	}
}

bool ptx_parse_check_together(struct ptx_parser *p, const struct ptx_instr *i)
{
	unsigned count = wanted_count(i);

	if (count && i->count != count)
		return refuse(p, i, "Arguments mismatch", i->count);
	if (i->tex && i->tex->lod && i->count < 3u + i->tex->lod)
		return refuse(p, i, "Arguments mismatch", i->count);
	if (i->op->family == PTX_FAMILY_MMA_SPARSE)
		return check_sparse(p, i);
	return i->op->family != PTX_FAMILY_VIDEO || check_video(p, i);
}
