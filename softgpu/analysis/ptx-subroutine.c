/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Calls of functions that stand in the list once and are never at work twice. Parameters are moved from those of the
 * call to those of the function, and results back: either side is in registers, one for each part that is accessed, or
 * in memory. A number says which call to return to.
 */
#include "analysis/ptx-inline.h"

const struct ptx_opcode ptx_branch_call = {.name = "call", .flags = PTX_F_EFFECT | PTX_F_CALL | PTX_F_NO_DST};

/* Loops may be nested a hundred deep. */
#define MOST_WITHOUT_GATE 48

/* One parameter or result: from, to. */
struct passed {
	struct ptx_instance *from, *to;
};

static uint32_t passed_count(const struct ptx_call *call, bool results)
{
	const struct ptx_function *fn = call->routine->fn;

	/* a result that only one side has is dropped */
	return !results ? call->arg_count : call->ret_count < fn->ret_count ? call->ret_count : fn->ret_count;
}

static struct passed passed_at(const struct ptx_call *call, bool results, uint32_t n)
{
	struct ptx_instance **formals = call->routine->formals;
	const struct ptx_symbol *own = results ? call->rets[n] : call->args[n];
	struct ptx_instance *actual = (struct ptx_instance *)(uintptr_t)own;

	if (results)
		return (struct passed){formals[n], actual};
	return (struct passed){actual, formals[call->routine->fn->ret_count + n]};
}

/* The part that is just this one; `clash`: another one overlaps it. */
static const struct ptx_slot *find_part(const struct ptx_instance *n, const struct ptx_slot *part, bool *clash)
{
	for (unsigned k = 0; k < n->slot_count; k++) {
		const struct ptx_slot *s = &n->slots[k];

		if (s->offset == part->offset && s->bytes == part->bytes)
			return s;
		*clash |= s->offset < part->offset + part->bytes && part->offset < s->offset + s->bytes;
	}
	return NULL;
}

static void check_pair(struct passed p)
{
	for (unsigned k = 0; k < p.to->slot_count && !p.to->memory && !p.from->memory; k++) {
		bool clash = false;

		if (!find_part(p.from, &p.to->slots[k], &clash) && clash)
			p.from->memory = true;
	}
}

void ptx_check_passed(struct ptx_body *body)
{
	for (uint32_t k = 0; k < body->instr_count; k++) {
		const struct ptx_call *call = body->instrs[k].call;

		for (int results = 0; body->instrs[k].op == &ptx_branch_call && results < 2; results++)
			for (uint32_t n = 0; n < passed_count(call, results); n++)
				check_pair(passed_at(call, results, n));
	}
}

/* ---- moves ---- */

static unsigned bits_type(uint64_t bytes)
{
	return bytes == 8 ? PTX_B64 : bytes == 4 ? PTX_B32 : bytes == 2 ? PTX_B16 : PTX_B8;
}

static struct ptx_operand reg_operand(int32_t reg)
{
	return (struct ptx_operand){.kind = PTX_OP_REG, .reg = reg, .reg2 = -1};
}

static struct ptx_operand place_of(struct ptx_instance *n, uint64_t offset)
{
	ptx_inline_place(n);
	return (struct ptx_operand){.kind = PTX_OP_MEM, .reg = -1, .reg2 = -1, .symbol = &n->symbol, .imm = offset};
}

static bool load(struct ptx_body *body, const struct ptx_instr *like, int32_t reg, struct ptx_instance *from,
		 uint64_t offset, uint64_t bytes)
{
	struct ptx_operand ops[2] = {reg_operand(reg), place_of(from, offset)};

	return ptx_inline_emit(body, like, "ld", bits_type(bytes), M(LOCAL), 2, ops);
}

static bool store(struct ptx_body *body, const struct ptx_instr *like, struct ptx_instance *to, uint64_t offset,
		  uint64_t bytes, int32_t reg)
{
	struct ptx_operand ops[2] = {place_of(to, offset), reg_operand(reg)};

	return ptx_inline_emit(body, like, "st", bits_type(bytes), M(LOCAL), 2, ops);
}

static bool move(struct ptx_body *body, const struct ptx_instr *like, int32_t to, int32_t from, unsigned bytes)
{
	struct ptx_operand ops[2] = {reg_operand(to), reg_operand(from)};
	struct ptx_instr *i;

	if (bytes > 1)
		return ptx_inline_emit(body, like, "mov", bits_type(bytes), 0, 2, ops);
	/* there is no move of bytes */
	i = ptx_inline_emit(body, like, "cvt", PTX_U8, 0, 2, ops);
	if (!i)
		return false;
	i->type2 = PTX_U8;
	i->op = ptx_opcode_find("cvt", 3, PTX_U8, PTX_U8, 0);
	return true;
}

static bool copy_memory(struct ptx_body *body, const struct ptx_instr *like, struct passed p)
{
	uint64_t bytes, align = p.from->symbol.align | p.to->symbol.align | 8;

	align &= -align;
	for (uint64_t at = 0; at < p.from->symbol.size; at += bytes) {
		int32_t reg;

		for (bytes = align; bytes > p.from->symbol.size - at;)
			bytes /= 2;
		reg = ptx_body_register(body, bits_type(bytes));
		if (!load(body, like, reg, p.from, at, bytes) || !store(body, like, p.to, at, bytes, reg))
			return false;
	}
	return true;
}

static bool pass(struct ptx_body *body, const struct ptx_instr *like, struct passed p)
{
	const struct ptx_instance *parts = p.to->memory ? p.from : p.to;

	if (p.to->memory && p.from->memory)
		return copy_memory(body, like, p);
	for (unsigned k = 0; k < parts->slot_count; k++) {
		const struct ptx_slot *s = &parts->slots[k], *other;
		bool clash, ok;

		if (p.from->memory) {
			ok = load(body, like, s->reg, p.from, s->offset, s->bytes);
		} else if (p.to->memory) {
			ok = store(body, like, p.to, s->offset, s->bytes, s->reg);
		} else {
			/* what was never written has no part */
			other = find_part(p.from, s, &clash);
			ok = !other || move(body, like, s->reg, other->reg, s->bytes);
		}
		if (!ok)
			return false;
	}
	return true;
}

bool ptx_rewrite_branch_call(struct ptx_body *body, const struct ptx_instr *i)
{
	for (uint32_t n = 0; n < passed_count(i->call, false); n++)
		if (!pass(body, i, passed_at(i->call, false, n)))
			return false;
	if (!ptx_inline_append(body, i))
		return false;
	for (uint32_t n = 0; n < passed_count(i->call, true); n++)
		if (!pass(body, i, passed_at(i->call, true, n)))
			return false;
	return true;
}

/*
 * Subroutines that are called in turns are loops within loops, one for each. So many of them have one way in, which all
 * circles of calls have in common.
 */
static bool has_gate(const struct ptx_body *body)
{
	return body->subroutine_count > MOST_WITHOUT_GATE;
}

bool ptx_expand_branch_call(struct ptx_body *body, const struct ptx_gate *gate, const struct ptx_instr *i)
{
	struct ptx_routine *r = i->call->routine;
	struct ptx_operand which[2] = {reg_operand(gate->number), {.kind = PTX_OP_INT, .reg = -1, .reg2 = -1}};
	struct ptx_operand ops[2] = {reg_operand(r->back), {.kind = PTX_OP_INT, .reg = -1, .reg2 = -1}};
	uint32_t label = ptx_inline_label(body);
	uint32_t *back = ptx_grow(&body->arena, (void **)&r->backs, &r->back_count, &r->back_room, sizeof(*back));

	if (!back)
		return ptx_inline_no_memory(body);
	*back = label;
	ops[1].imm = r->back_count - 1;
	which[1].imm = (uint64_t)(r - body->routines);
	if (has_gate(body) && !ptx_inline_emit(body, i, "mov", PTX_B32, 0, 2, which))
		return false;
	if (!ptx_inline_emit(body, i, "mov", PTX_B32, 0, 2, ops) ||
	    !ptx_inline_branch(body, i, has_gate(body) ? gate->label : r->entry, -1))
		return false;
	body->labels[label] = body->instr_count;
	return true;
}

bool ptx_append_gate(struct ptx_body *body, const struct ptx_gate *gate)
{
	uint64_t *keys = ptx_alloc(&body->arena, (body->subroutine_count + 1u) * sizeof(*keys));
	uint32_t *labels = ptx_alloc(&body->arena, (body->subroutine_count + 1u) * sizeof(*labels)), count = 0;
	const struct ptx_instr like = {.guard = -1, .name = "call", .line = body->function->line};

	if (!keys || !labels)
		return ptx_inline_no_memory(body);
	if (!has_gate(body))
		return true;
	for (uint32_t n = 0; n < body->routine_count; n++)
		if (body->routines[n].subroutine) {
			keys[count] = n;
			labels[count++] = body->routines[n].entry;
		}
	body->labels[gate->label] = body->instr_count;
	return ptx_append_choice(body, &like, gate->number, keys, labels, count, PTX_NO_LABEL);
}

static bool append_leave(struct ptx_body *body, const struct ptx_routine *r)
{
	const struct ptx_instr like = {.guard = -1, .name = "ret", .line = r->fn->line};
	uint64_t *keys = ptx_alloc(&body->arena, (r->back_count + 1u) * sizeof(*keys));

	if (!keys)
		return ptx_inline_no_memory(body);
	for (uint32_t n = 0; n < r->back_count; n++)
		keys[n] = n;
	body->labels[r->leave] = body->instr_count;
	/* a subroutine without calls is never reached */
	return ptx_append_choice(body, &like, r->back, keys, r->backs, r->back_count,
				 r->back_count ? PTX_NO_LABEL : r->leave);
}

bool ptx_append_leaves(struct ptx_body *body)
{
	for (uint32_t n = 0; n < body->routine_count; n++)
		if (body->routines[n].subroutine && !append_leave(body, &body->routines[n]))
			return false;
	return true;
}
