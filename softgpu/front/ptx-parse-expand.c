/* SPDX-License-Identifier: Apache-2.0 */
/* Instructions that become several, of which each is one that the compiler knows. */
#include "front/ptx-opcodes.h"
#include "front/ptx-parse.h"
#include "front/ptx-tex-instr.h"

/* A load or store of 128 bits (the last instruction) becomes one of two words, with a mov behind or before it. */
bool ptx_parse_wide_access(struct ptx_parser *p, struct ptx_instr *i)
{
	bool load = i->op->flags & PTX_F_LOAD;
	struct ptx_operand *words = ptx_alloc(&p->module->arena, 4 * sizeof(*words));
	struct ptx_symbol pair = {0};
	struct ptx_instr access = *i, move = *i, *at;

	if (!words)
		return ptx_parse_no_memory(p);
	if ((i->mods & (M(V2) | M(V4))) || i->count != 2)
		return ptx_parse_fail(p, PTX_NOT_SUPPORTED, "the instruction `%s` is not supported", i->name);
	if (!ptx_parse_registers(p, &pair, PTX_B64, 2))
		return false;
	for (unsigned n = 0; n < 2; n++)
		words[n] = (struct ptx_operand){.kind = PTX_OP_REG, .reg = (int32_t)(pair.index + n), .reg2 = -1};
	move.ops = words + 2;
	move.ops[load ? 0 : 1] = access.ops[load ? 0 : 1];
	move.ops[load ? 1 : 0] =
		(struct ptx_operand){.kind = PTX_OP_VECTOR, .count = 2, .reg = -1, .reg2 = -1, .elements = words};
	access.ops[load ? 0 : 1] = move.ops[load ? 1 : 0];
	access.type = PTX_B64;
	access.mods |= M(V2);
	move.op = ptx_opcode_find("mov", 3, PTX_B128, PTX_NONE, 0);
	move.mods = 0;
	move.space = PTX_GENERIC;
	*i = load ? access : move;
	at = ptx_parse_append(p);
	if (!at)
		return ptx_parse_no_memory(p);
	*at = load ? move : access;
	return true;
}

static bool append_copy(struct ptx_parser *p, const struct ptx_instr *i)
{
	struct ptx_instr *at = ptx_parse_append(p);

	if (!at)
		return ptx_parse_no_memory(p);
	*at = *i;
	return true;
}

/* The type of twice the size, with the same sign. */
static unsigned twice(unsigned type)
{
	bool is_signed = ptx_types[type].cls == 's';

	switch (ptx_types[type].bits) {
	case 8:
		return is_signed ? PTX_S16 : PTX_B16;
	case 16:
		return is_signed ? PTX_S32 : PTX_B32;
	case 32:
		return is_signed ? PTX_S64 : PTX_B64;
	default:
		return PTX_NONE;
	}
}

/*
 * A load or store of eight numbers (the last instruction) becomes one of four pairs, with moves behind or before it: it
 * is one access, aligned as such, and its address may be one of the numbers.
 */
bool ptx_parse_eight(struct ptx_parser *p, const struct ptx_instr *i)
{
	bool load = i->op->flags & PTX_F_LOAD;
	unsigned vector = load ? 0 : 1;
	struct ptx_operand *pairs = ptx_alloc(&p->module->arena, 14 * sizeof(*pairs)), *ops = pairs + 6;
	struct ptx_operand *elements = i->ops[vector].elements;
	struct ptx_instr access = *i, move = *i;
	struct ptx_symbol registers = {0};

	if (!pairs)
		return ptx_parse_no_memory(p);
	if (!twice(i->type) || (i->mods & (M(V2) | M(V4))) || i->count != 2 || i->ops[vector].kind != PTX_OP_VECTOR ||
	    i->ops[vector].count != 8 || i->ops[!vector].kind != PTX_OP_MEM)
		return ptx_parse_fail(p, PTX_NOT_SUPPORTED, "the instruction `%s` is not supported", i->name);
	if (!ptx_parse_registers(p, &registers, twice(i->type), 4))
		return false;
	access.ops = pairs + 4;
	access.ops[vector] = (struct ptx_operand){.kind = PTX_OP_VECTOR, .count = 4, .reg = -1, .reg2 = -1};
	access.ops[vector].elements = pairs;
	access.ops[!vector] = move.ops[!vector];
	access.type = (uint8_t)twice(i->type);
	access.mods = (i->mods & ~M(V8)) | M(V4);
	/* a number may be loaded to a larger register */
	move.type = (uint8_t)twice(i->type);
	move.op = ptx_opcode_find("mov", 3, move.type, PTX_NONE, 0);
	move.mods = 0;
	move.space = PTX_GENERIC;
	p->function->instr_count--;
	if (load && !append_copy(p, &access))
		return false;
	for (unsigned n = 0; n < 4; n++) {
		pairs[n] = (struct ptx_operand){.kind = PTX_OP_REG, .reg = (int32_t)(registers.index + n), .reg2 = -1};
		move.ops = ops + 2 * n;
		move.ops[vector] = (struct ptx_operand){.kind = PTX_OP_VECTOR, .count = 2, .reg = -1, .reg2 = -1};
		move.ops[vector].elements = elements + 2 * n;
		move.ops[!vector] = pairs[n];
		if (!append_copy(p, &move))
			return false;
	}
	return load || append_copy(p, &access);
}

/*
 * An instruction (the last one) that names a texture or surface reference: a load of the handle, then the instruction
 * with the register that has it.
 */
static bool load_reference(struct ptx_parser *p, struct ptx_instr *i, struct ptx_operand *handle)
{
	struct ptx_operand *ops = ptx_alloc(&p->module->arena, 2 * sizeof(*ops));
	struct ptx_symbol registers = {0};
	struct ptx_instr use, *at;

	if (!ops)
		return ptx_parse_no_memory(p);
	if (!ptx_parse_registers(p, &registers, PTX_B64, 1))
		return false;
	ops[0] = (struct ptx_operand){.kind = PTX_OP_REG, .reg = (int32_t)registers.index, .reg2 = -1};
	ops[1] = *handle;
	ops[1].kind = PTX_OP_MEM;
	*handle = ops[0];
	use = *i;
	i->op = ptx_opcode_find("ld", 2, PTX_B64, PTX_NONE, M(GLOBAL));
	i->mods = M(GLOBAL);
	i->space = PTX_GLOBAL;
	i->type = PTX_B64;
	i->type2 = PTX_NONE;
	i->tex = NULL;
	i->ops = ops;
	i->count = 2;
	at = ptx_parse_append(p);
	if (!at)
		return ptx_parse_no_memory(p);
	*at = use;
	return true;
}

static bool is_reference(const struct ptx_operand *o)
{
	return o->kind == PTX_OP_SYMBOL && o->symbol->reference;
}

/* All of a texture is in memory: what asks for it (the last instruction) is followed by a move. */
static bool set_resident(struct ptx_parser *p, const struct ptx_instr *i, int32_t reg)
{
	struct ptx_operand *ops = ptx_alloc(&p->module->arena, 2 * sizeof(*ops));
	struct ptx_instr move = *i, *at;

	if (!ops)
		return ptx_parse_no_memory(p);
	ops[0] = (struct ptx_operand){.kind = PTX_OP_REG, .reg = reg, .reg2 = -1};
	ops[1] = (struct ptx_operand){.kind = PTX_OP_INT, .reg = -1, .reg2 = -1, .imm = 1};
	move.op = ptx_opcode_find("mov", 3, PTX_PRED, PTX_NONE, 0);
	move.mods = 0;
	move.type = PTX_PRED;
	move.type2 = PTX_NONE;
	move.tex = NULL;
	move.ops = ops;
	move.count = 2;
	at = ptx_parse_append(p);
	if (!at)
		return ptx_parse_no_memory(p);
	*at = move;
	return true;
}

bool ptx_parse_tex_rest(struct ptx_parser *p, struct ptx_instr *i)
{
	unsigned handle = i->op->flags & PTX_F_NO_DST ? 0 : 1;
	struct ptx_instr tex = *i;
	int32_t resident = i->ops[0].kind == PTX_OP_VECTOR ? i->ops[0].reg2 : -1;

	i->ops[0].reg2 = -1;
	if (handle < i->count && is_reference(&i->ops[handle]) && !load_reference(p, i, &i->ops[handle]))
		return false;
	return resident < 0 || set_resident(p, &tex, resident);
}
