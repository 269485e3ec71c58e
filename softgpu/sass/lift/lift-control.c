/* SPDX-License-Identifier: Apache-2.0 */
/* Control flow, and instructions without an effect here. */
#include <string.h>

#include "sass/lift/lifting.h"

bool lift_none(struct lift *l, const struct sass_instr *i)
{
	return true;
}

bool lift_refused(struct lift *l, const struct sass_instr *i)
{
	return refuse(l, " as a whole");
}

/* The instruction's own condition, beside its guard. */
static struct value condition(struct lift *l, const struct sass_instr *i)
{
	return with_guard(l, predicate(l, (unsigned int)i->field[SASS_F_PC], i->field[SASS_F_PC_NOT]));
}

static void jump_to(struct lift *l, struct value p, unsigned int instance, uint32_t target)
{
	webs_jump(l->webs, instance, target);
	/* The halves of a sum must be written on the same way. */
	forget_sums(l);
	if (is_text(p, "%pt"))
		emit(l, "bra $vcuda_L%u_%x", instance, target);
	else
		emit(l, "@%s bra $vcuda_L%u_%x", p.text, instance, target);
}

void jump_if(struct lift *l, struct value p, uint32_t target)
{
	jump_to(l, p, instance_of(l), target);
}

enum bra_mode { BRA_PLAIN, BRA_UNIFORM, BRA_DIVERGED, BRA_CONVERGED };

/* The uniform register. The next bit means the complement. */
static unsigned int number_of_mask(const struct sass_instr *i)
{
	return i->a.reg & 63;
}

/* The lanes of the next common operation are in the uniform register, or in the mask that it was made of. */
static void note_members(struct lift *l, const struct sass_instr *i)
{
	unsigned int number = number_of_mask(i);
	struct value members = l->mask_of[number];

	if (number == SASS_URZ)
		members = value_of("%s", i->a.reg & 64 ? "0xffffffff" : "0");
	else if (i->a.reg & 64)
		members = compute32(l, "not.b32", "%s", register_name(l, true, number).text);
	else if (!members.text[0])
		members = register_name(l, true, number);
	set_members(l, members);
}

/*
 * Before sm_80 there is no mask: the lanes that pass the guard are all of the warp, or not. Where BRA.CONV does not
 * jump, those that are here do the next common operation.
 */
static void jump_by_warp(struct lift *l, const struct sass_instr *i, uint32_t target)
{
	bool diverged = i->field[SASS_F_MODE] == BRA_DIVERGED;
	struct value lanes = active_lanes(l), left = lanes;

	if (!diverged && l->guard[0])
		left = present_lanes(l);
	if (!diverged)
		set_members(l, value_of("0xffffffff"));
	jump_if(l, compute_predicate(l, diverged ? "setp.ne.u32" : "setp.eq.u32", "%s, 0xffffffff", lanes.text),
		target);
	if (!diverged)
		l->members = left;
}

static void jump_by_members(struct lift *l, const struct sass_instr *i, uint32_t target)
{
	bool diverged = i->field[SASS_F_MODE] == BRA_DIVERGED;
	struct value lanes = active_lanes(l), is;

	is = compute_predicate(l, diverged ? "setp.ne.u32" : "setp.eq.u32", "%s, %%members", lanes.text);
	jump_if(l, diverged ? is : combine(l, 0, is, condition(l, i)), target);
}

/* ptxas compares with the wrong mask at times, and BRA.DIV always jumps then. Such a mask does not have these lanes. */
static void jump_by_strangers(struct lift *l, uint32_t target)
{
	struct value lanes = active_lanes(l), others = compute32(l, "not.b32", "%%members");

	others = compute32(l, "and.b32", "%s, %s", lanes.text, others.text);
	jump_if(l, compute_predicate(l, "setp.ne.u32", "%s, 0", others.text), target);
}

/*
 * BRA.DIV leaves for code that works where the lanes that pass the guard are not those of the mask, BRA.CONV leaves for
 * code that works where they are. Here common operations wait for all lanes of a mask, so that only the guard decides:
 * it says that all these lanes have the same mask. Not so where lanes meet from several places.
 */
bool lift_bra(struct lift *l, const struct sass_instr *i)
{
	uint32_t target;

	if (!jump_target(l, i, &target))
		return false;
	forget_members(l); /* lanes leave */
	if (i->field[SASS_F_MODE] >= BRA_DIVERGED && !i->field[SASS_F_UNIFORM]) {
		jump_by_warp(l, i, target);
		return true;
	}
	if (i->field[SASS_F_MODE] >= BRA_DIVERGED)
		note_members(l, i);
	if (i->field[SASS_F_MODE] == BRA_DIVERGED) {
		if (l->guard[0])
			jump_if(l, compute_predicate(l, "not.pred", "%s", guard_value(l).text), target);
		if (l->diverged_operations)
			jump_by_members(l, i, target);
		else if (l->mask_of[number_of_mask(i)].text[0])
			jump_by_strangers(l, target);
		return true;
	}
	if (i->field[SASS_F_MODE] == BRA_CONVERGED && l->diverged_operations) {
		jump_by_members(l, i, target);
		return true;
	}
	if (i->guard == SASS_PT && i->field[SASS_F_PC] == SASS_PT)
		jump_if(l, value_of("%%pt"), target);
	else
		jump_if(l, condition(l, i), target);
	return true;
}

bool lift_exit(struct lift *l, const struct sass_instr *i)
{
	struct value p = condition(l, i);

	forget_members(l);
	if (is_text(p, "%pt"))
		emit(l, "exit");
	else
		emit(l, "@%s exit", p.text);
	return true;
}

/* Jumps to that of the marked instructions whose offset, less `base`, is in the register; traps if it is another one.
 */
static void jump_to_one_of(struct lift *l, struct value p, struct value address, const bool *marked, int64_t base)
{
	if (!may_search(l))
		return;
	for (uint32_t n = 0; n < l->function->bytes / SASS_BYTES; n++) {
		struct value is;

		if (!marked[n])
			continue;
		is = compute_predicate(l, "setp.eq.u32", "%s, 0x%x", address.text,
				       (uint32_t)((int64_t)n * SASS_BYTES - base));
		jump_if(l, combine(l, 0, is, p), n * SASS_BYTES);
	}
	if (is_text(p, "%pt"))
		emit(l, "trap");
	else
		emit(l, "@%s trap", p.text);
}

/* The offset that the instruction has. */
static int64_t base_of(const struct lift *l, const struct sass_instr *i)
{
	int64_t words = i->field[SASS_F_TARGET];

	if (l->cubin->architecture >= 90)
		words = words * 256 + i->field[SASS_F_NEAR];
	return (i->field[SASS_F_ABSOLUTE] ? 0 : (int64_t)i->address + SASS_BYTES) + words * 4;
}

/* With a register it is one of the functions whose address is taken. */
bool lift_call(struct lift *l, const struct sass_instr *i)
{
	struct value p = condition(l, i);
	uint32_t target;

	if (i->a.kind) {
		jump_to_one_of(l, p, in_register(l, source_bits(l, &i->a)), l->taken, base_of(l, i));
		return true;
	}
	return jump_target(l, i, &target) && lift_callee(l, p, target);
}

/* Back to the call that the code is lifted for. */
static void return_from(struct lift *l, struct value p, struct value address, int64_t base)
{
	uint32_t back = l->calls_open[l->depth - 1].back;
	struct value is_other;

	is_other = compute_predicate(l, "setp.ne.u32", "%s, 0x%x", address.text, (uint32_t)((int64_t)back - base));
	emit(l, "@%s trap", combine(l, 0, is_other, p).text);
	jump_to(l, p, l->calls_open[l->depth - 1].instance, back);
}

/* The caller's return address is of another section, or of this one where the function calls itself by its address. */
static void return_to_one_of(struct lift *l, const struct sass_instr *i, struct value p, struct value address)
{
	uint32_t own = (uint32_t)(vcuda_sass_address(l->function->section, 0) >> 32);
	struct sass_operand upper = i->a;
	struct value high, is_code, is_other;

	upper.reg++;
	high = in_register(l, source_bits(l, &upper));
	is_code = compute_predicate(l, "setp.lt.s32", "%s, 0", high.text);
	is_other = compute_predicate(l, "setp.ne.u32", "%s, 0x%x", high.text, own);
	is_other = combine(l, 1, combine(l, 0, is_code, is_other), is_return_to_caller(l, address, high));
	callee_return(l, combine(l, 0, p, is_other));
	jump_to_one_of(l, p, address, l->returned, base_of(l, i));
}

/* A return address is the offset of an instruction behind a call. */
bool lift_ret(struct lift *l, const struct sass_instr *i)
{
	struct value p = condition(l, i), address = in_register(l, source_bits(l, &i->a));

	if (l->compares_returns && is_callee(l))
		return_to_one_of(l, i, p, address);
	else if (l->compares_returns)
		jump_to_one_of(l, p, address, l->returned, base_of(l, i));
	else if (l->depth)
		return_from(l, p, address, base_of(l, i));
	else if (is_callee(l))
		callee_return(l, p);
	else
		emit(l, "trap");
	return true;
}

/* The register has an offset from the next instruction. */
bool lift_brx(struct lift *l, const struct sass_instr *i)
{
	struct sass_operand a = i->a;
	struct value p = condition(l, i);

	if (i->field[SASS_F_UNIFORM])
		a.kind = SASS_UNIFORM;
	forget_members(l);
	if (!mark_targets(l, i, l->marked))
		return false;
	jump_to_one_of(l, p, in_register(l, source_bits(l, &a)), l->marked, base_of(l, i));
	memset(l->marked, 0, l->function->bytes / SASS_BYTES * sizeof(*l->marked));
	return true;
}

/* ---- functions that the driver has ---- */

static void call_with_result(struct lift *l, const char *name, unsigned int arguments, unsigned int result_bytes,
			     const uint8_t *bytes)
{
	unsigned int number = l->labels++;
	struct value v = temporary(l, result_bytes == 8 ? TEMPORARY_64 : TEMPORARY_32), low, high;
	unsigned int reg = 4;

	sass_text_put(&l->body, "\t{\n");
	for (unsigned int n = 0; n < arguments; n++) {
		reg += bytes[n] == 8 && reg % 2;
		sass_text_add(&l->body, "\t.param .b%u $vcuda_a%u_%u;\n", bytes[n] * 8, number, n);
		if (bytes[n] == 8) {
			struct sass_operand o = {.kind = SASS_REGISTER, .reg = (uint8_t)reg};

			emit(l, "st.param.b64 [$vcuda_a%u_%u], %s", number, n, source_64(l, &o).text);
		} else {
			emit(l, "st.param.b32 [$vcuda_a%u_%u], %s", number, n, register_name(l, false, reg).text);
		}
		reg += bytes[n] / 4;
	}
	if (result_bytes)
		sass_text_add(&l->body, "\t.param .b%u $vcuda_r%u;\n", result_bytes * 8, number);
	sass_text_put(&l->body, "\tcall ");
	if (result_bytes)
		sass_text_add(&l->body, "($vcuda_r%u), ", number);
	sass_text_add(&l->body, "%s, (", name);
	for (unsigned int n = 0; n < arguments; n++)
		sass_text_add(&l->body, "%s$vcuda_a%u_%u", n ? ", " : "", number, n);
	sass_text_put(&l->body, ");\n");
	if (result_bytes)
		emit(l, "ld.param.b%u %s, [$vcuda_r%u]", result_bytes * 8, v.text, number);
	sass_text_put(&l->body, "\t}\n");
	forget_pairs(l, false, 4, 2);
	if (result_bytes == 8) {
		unpack(l, v, &low, &high);
		emit(l, "mov.b32 %s, %s", register_result(l, false, 4).text, low.text);
		emit(l, "mov.b32 %s, %s", register_result(l, false, 5).text, high.text);
	} else if (result_bytes) {
		emit(l, "mov.b32 %s, %s", register_result(l, false, 4).text, v.text);
	}
}

/* The functions that module.c declares. */
static bool call_external(struct lift *l, const char *name)
{
	static const struct {
		const char *name;
		unsigned int arguments, result_bytes;
		uint8_t bytes[5]; /* of each argument */
	} externals[] = {
		{"vprintf", 2, 4, {8, 8}},
		{"malloc", 1, 8, {8}},
		{"free", 1, 0, {8}},
		{"__assertfail", 5, 0, {8, 8, 4, 8, 8}},
		{"__cuda_syscall_CGS_get_intrinsic_handle", 1, 8, {4}},
		{"__cuda_syscall_CGS_sync", 2, 4, {8, 4}},
		{"cudaGraphSetConditional", 2, 0, {8, 4}},
	};

	for (size_t n = 0; n < sizeof(externals) / sizeof(externals[0]); n++) {
		if (strcmp(name, externals[n].name))
			continue;
		call_with_result(l, name, externals[n].arguments, externals[n].result_bytes, externals[n].bytes);
		return true;
	}
	return refuse(l, " of %.60s", name);
}

/* A call by name. */
static bool call_named(struct lift *l, const char *name, struct value p)
{
	unsigned int end = l->labels++;

	if (!is_text(p, "%pt"))
		emit(l, "@!%s bra $vcuda_E%u", p.text, end);
	if (!call_external(l, name))
		return false;
	sass_text_add(&l->body, "$vcuda_E%u:\n", end);
	forget_all_pairs(l);
	return true;
}

/*
 * Compares the address with those of all functions of bank 4, which are external. Any other function is in a section of
 * its own.
 */
bool lift_call_abs(struct lift *l, const struct sass_instr *i)
{
	struct value p = condition(l, i), address;
	unsigned int end = l->labels++;
	uint32_t target;

	if (!i->a.kind && local_callee(l, i->address, &target))
		return lift_callee(l, p, target);
	if (!i->a.kind && external_callee(l))
		return call_named(l, external_callee(l), p);
	if (!i->a.kind)
		return refuse(l, " of a place in another function");
	address = in_register(l, source_bits(l, &i->a));
	if (!is_text(p, "%pt")) {
		p = compute_predicate(l, "not.pred", "%s", p.text);
		emit(l, "@%s bra $vcuda_E%u", p.text, end);
	}
	for (uint32_t n = 0; n < l->cubin->bank4_count; n++) {
		const struct sass_relocation *r = &l->cubin->bank4[n];
		struct value is;
		unsigned int next = l->labels++;

		if (r->symbol_section && (!r->is_function || sass_function_in(l->cubin, r->symbol_section)))
			continue;
		is = compute_predicate(l, "setp.ne.u32", "%s, 0x%x", address.text,
				       SASS_EXTERNAL_BASE + (uint32_t)r->offset);
		emit(l, "@%s bra $vcuda_E%u", is.text, next);
		if (!call_external(l, r->symbol))
			return false;
		emit(l, "bra $vcuda_E%u", end);
		sass_text_add(&l->body, "$vcuda_E%u:\n", next);
	}
	if (l->calls_addresses)
		call_address(l, source_64(l, &i->a));
	else
		emit(l, "trap");
	sass_text_add(&l->body, "$vcuda_E%u:\n", end);
	forget_all_pairs(l);
	return true;
}

bool lift_bmov(struct lift *l, const struct sass_instr *i)
{
	write_32(l, i->d, value_of("0"));
	return true;
}

bool lift_nanosleep(struct lift *l, const struct sass_instr *i)
{
	emit_guarded(l, "nanosleep.u32 %s", source_bits(l, &i->b).text);
	return true;
}

bool lift_bpt(struct lift *l, const struct sass_instr *i)
{
	emit_guarded(l, i->field[SASS_F_MODE] == 3 ? "trap" : "brkpt");
	return true;
}

/*
 * The address of the instruction, or from sm_90 on of one at an offset from the next instruction. Return addresses are
 * made of it. It names the section, so that a callee knows its caller's from those of calls within it.
 */
bool lift_lepc(struct lift *l, const struct sass_instr *i)
{
	bool relative = l->cubin->architecture >= 90;
	uint64_t offset = i->address + (relative ? SASS_BYTES + (uint64_t)i->field[SASS_F_BYTES] : 0);

	write_64(l, i->d,
		 compute64(l, "mov.b64", "0x%llx",
			   (unsigned long long)vcuda_sass_address(l->function->section, offset)));
	return true;
}
