/* SPDX-License-Identifier: Apache-2.0 */
#include "sass/lift/lift.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "sass/cubin/cubin-file.h"
#include "sass/cubin/entry.h"
#include "sass/cubin/memory.h"
#include "sass/lift/lifting.h"

/* The limit of a kernel. The largest one of PyTorch's has 81,344. */
#define MAX_INSTRUCTIONS (1u << 20)

/* The limit of searches through all instructions: about a second. */
#define MAX_STEPS (UINT64_C(1) << 30)

typedef bool lifting(struct lift *, const struct sass_instr *);

#define X(name) lift_##name,
static lifting *const liftings[] = {SASS_FUNCTIONS(X)};
#undef X

bool lift_decode(struct lift *l, uint32_t n, struct sass_instr *i)
{
	char form[200];

	if (sass_decode(l->function->code + (size_t)n * SASS_BYTES, n * SASS_BYTES, i, form, sizeof(form)))
		return true;
	snprintf(l->error, l->room, "%s", form);
	l->failed = true;
	return false;
}

/* Where an instruction jumps or calls: the offset in the function. False: it does not, or not to an instruction. */
bool target_of(const struct lift *l, const struct sass_instr *i, uint32_t *target)
{
	int64_t words = i->field[SASS_F_TARGET], at;

	if (l->cubin->architecture >= 90)
		words = words * 256 + i->field[SASS_F_NEAR];
	else if (i->field[SASS_F_NEAR])
		return false;
	at = (int64_t)i->address + SASS_BYTES + words * 4;
	if (at < 0 || at >= l->function->bytes || at % SASS_BYTES)
		return false;
	*target = (uint32_t)at;
	return true;
}

bool may_search(struct lift *l)
{
	l->steps += l->function->bytes / SASS_BYTES;
	return l->steps < MAX_STEPS || refuse(l, " in a kernel with too many jumps through registers");
}

bool may_take(struct lift *l, uint64_t steps)
{
	if (l->steps + steps > MAX_STEPS / 2)
		return false;
	l->steps += steps;
	return true;
}

bool jump_target(struct lift *l, const struct sass_instr *i, uint32_t *target)
{
	return target_of(l, i, target) || refuse(l, " to a place outside the function");
}

static bool is_jump(const struct sass_instr *i)
{
	return i->form->function == SASS_LIFT_BRA || i->form->function == SASS_LIFT_CALL;
}

bool is_converged_jump(const struct sass_instr *i)
{
	return i->form->function == SASS_LIFT_BRA && i->field[SASS_F_MODE] == 3;
}

/* The jump tables of BRX are in bank 2: all of its words that are offsets of instructions may be targets. */
static void note_tables(struct lift *l)
{
	for (uint32_t at = 0; at + 4 <= l->function->constant2_bytes; at += 4) {
		uint32_t offset;

		memcpy(&offset, l->function->constant2 + at, sizeof(offset));
		if (offset < l->function->bytes && offset % SASS_BYTES == 0)
			l->target[offset / SASS_BYTES] = l->table[offset / SASS_BYTES] = true;
	}
}

static uint32_t branch_word(const struct lift *l, uint32_t n)
{
	uint32_t word;

	memcpy(&word, l->function->branches + (size_t)n * sizeof(word), sizeof(word));
	return word;
}

/* Marks the targets of which the first is the `first`th word. False: one is in no table, and none is marked. */
static bool mark_branches(const struct lift *l, uint32_t first, uint32_t count, bool *marked)
{
	for (uint32_t n = first; n < first + count; n++) {
		uint32_t offset = branch_word(l, n);

		if (offset >= l->function->bytes || offset % SASS_BYTES || !l->table[offset / SASS_BYTES])
			return false;
	}
	for (uint32_t n = first; n < first + count; n++)
		marked[branch_word(l, n) / SASS_BYTES] = true;
	return true;
}

bool mark_targets(struct lift *l, const struct sass_instr *i, bool *marked)
{
	uint32_t words = l->function->branch_words, count;

	l->steps += words;
	if (!may_search(l))
		return false;
	for (uint32_t at = 0; at + 3 <= words; at += 3 + count) {
		count = branch_word(l, at + 2);
		if (count > words - at - 3)
			break;
		if (branch_word(l, at) == i->address && mark_branches(l, at + 3, count, marked))
			return true;
	}
	for (uint32_t n = 0; n < l->function->bytes / SASS_BYTES; n++)
		marked[n] |= l->table[n];
	return true;
}

/* The functions in the section: variables have their offsets as addresses. */
static void note_functions(struct lift *l)
{
	const struct sass_file *file = l->cubin->file;

	for (uint32_t n = 0; n < file->symbol_count; n++) {
		const struct sass_symbol *s = &file->symbols[n];

		if (s->type != STT_FUNC || s->section != l->function->section || s->value >= l->function->bytes ||
		    s->value % SASS_BYTES)
			continue;
		l->target[s->value / SASS_BYTES] = l->taken[s->value / SASS_BYTES] = true;
	}
}

/* Only a jump leads to such an instruction: no call, no table, and not the instruction before it. */
static void check_converged(struct lift *l, uint32_t count)
{
	struct sass_instr i;

	for (uint32_t n = 0; n < count; n++)
		if (l->converged[n])
			l->converged[n] = !l->returned[n] && !l->table[n] && !l->taken[n] && n &&
					  lift_decode(l, n - 1, &i) && !goes_on(&i);
}

static bool find_targets(struct lift *l, uint32_t count)
{
	struct sass_instr i;
	uint32_t target;
	bool tables = false, functions = false;

	for (uint32_t n = 0; n < count; n++) {
		if (!lift_decode(l, n, &i))
			return false;
		if (is_jump(&i) && !(i.form->function == SASS_LIFT_CALL && i.a.kind) && target_of(l, &i, &target)) {
			l->converged[target / SASS_BYTES] = !l->target[target / SASS_BYTES] && is_converged_jump(&i);
			l->target[target / SASS_BYTES] = true;
			if (i.form->function == SASS_LIFT_BRA)
				find_polls(l, &i, target);
		}
		if ((i.form->function == SASS_LIFT_CALL || i.form->function == SASS_LIFT_CALL_ABS) && n + 1 < count)
			l->target[n + 1] = l->returned[n + 1] = l->calls = true;
		if (i.form->function == SASS_LIFT_CALL_ABS && !i.a.kind && local_callee(l, i.address, &target))
			l->target[target / SASS_BYTES] = true;
		tables |= i.form->function == SASS_LIFT_BRX;
		functions |= i.form->function == SASS_LIFT_CALL && i.a.kind;
		l->calls_addresses |= i.form->function == SASS_LIFT_CALL_ABS && i.a.kind && l->cubin->has_callees;
		l->shared_window |= i.form->function == SASS_LIFT_S2R && i.field[SASS_F_SR] == SASS_SR_SWINHI;
	}
	if (functions)
		note_functions(l);
	if (tables)
		note_tables(l);
	check_converged(l, count);
	return true;
}

static void set_guard(struct lift *l)
{
	struct value p;

	l->guard[0] = 0;
	if (l->i->guard == SASS_PT)
		return;
	p = predicate(l, l->i->guard, false);
	snprintf(l->guard, sizeof(l->guard), "@%s%.10s ", l->i->guard_not ? "!" : "", p.text);
}

/* Predicates get their values last, the guard's own after the other one. */
static void write_pending(struct lift *l)
{
	bool first_is_guard = l->pending[0].set && l->pending[0].predicate == l->i->guard;

	for (unsigned int n = 0; n < 2; n++) {
		unsigned int slot = first_is_guard ? !n : n;

		if (!l->pending[slot].set)
			continue;
		l->pending[slot].set = false;
		emit_guarded(l, "mov.pred %s, %s", predicate_result(l, l->pending[slot].predicate).text,
			     l->pending[slot].value.text);
	}
}

static bool lift_one(struct lift *l)
{
	const struct sass_instr *i = l->i;

	if (i->guard == SASS_PT && i->guard_not)
		return true;
	set_guard(l);
	if (!relocate(l))
		return false;
	if (!liftings[i->form->function](l, i) || l->failed)
		return false;
	write_pending(l);
	l->keeps_sum = false;
	return true;
}

bool lift_at(struct lift *l, uint32_t n)
{
	l->i = &l->instr;
	if (!lift_decode(l, n, &l->instr))
		return false;
	webs_begin(l->webs, instance_of(l), n * SASS_BYTES);
	if (!goes_on(&l->instr))
		webs_end(l->webs);
	return lift_one(l);
}

/* `%r5_<3>` declares %r5_0 to %r5_2. */
static void declare_webs(const struct lift *l, struct sass_text *out, const char *kind, unsigned int first,
			 unsigned int end)
{
	for (unsigned int n = first; n < end; n++)
		if (webs_count(l->webs, n))
			sass_text_add(out, "\t.reg %s%u_<%u>;\n", kind, n - first, webs_count(l->webs, n));
}

static void declare_pairs(const struct lift *l, struct sass_text *out, const char *kind, unsigned int first,
			  unsigned int end)
{
	for (unsigned int n = first; n + 1 < end; n++)
		if (webs_has_pairs(l->webs, n))
			sass_text_add(out, "\t.reg %s%u_<%u>;\n", kind, n - first, webs_count(l->webs, n));
}

static void declare_registers(const struct lift *l, struct sass_text *out)
{
	static const char *const kinds[] = {".b32 %t", ".b64 %d", ".pred %q", ".b16 %h"};

	declare_webs(l, out, ".b32 %r", WEB_GENERAL, WEB_UNIFORM);
	declare_webs(l, out, ".b32 %u", WEB_UNIFORM, WEB_PREDICATE);
	declare_pairs(l, out, ".b64 %w", WEB_GENERAL, WEB_UNIFORM);
	declare_pairs(l, out, ".b64 %uw", WEB_UNIFORM, WEB_PREDICATE);
	declare_webs(l, out, ".pred %p", WEB_PREDICATE, WEB_UNIFORM_PREDICATE);
	declare_webs(l, out, ".pred %up", WEB_UNIFORM_PREDICATE, WEB_REGISTERS);
	for (unsigned int n = 0; n < 4; n++)
		if (l->temporaries[n])
			sass_text_add(out, "\t.reg %s<%u>;\n", kinds[n], l->temporaries[n]);
	sass_text_put(out, "\t.reg .pred %pt, %pf;\n\tsetp.eq.u32 %pt, 0, 0;\n\tsetp.ne.u32 %pf, 0, 0;\n");
}

static uint32_t shared_bytes(const struct lift *l)
{
	uint32_t bytes = l->function->shared_bytes - l->function->shared_base;

	return bytes || !l->uses_reserved ? bytes : 16; /* in any case a variable below the reserved memory */
}

/*
 * The reserved memory is the end of all shared memory, since the code has the memory of the launch right behind its
 * static variables. Its own variable makes room for it.
 */
static void declare_reserved(const struct lift *l, struct sass_text *out)
{
	sass_text_add(out,
		      "\t.shared .align 16 .b8 " VCUDA_RESERVED_VARIABLE "[%u];\n\t.reg .b32 %%reserved;\n"
		      "\tmov.u32 %%reserved, " VCUDA_RESERVED_VARIABLE ";\n\tmov.u32 %%reserved, %%total_smem_size;\n"
		      "\tand.b32 %%reserved, %%reserved, -16;\n\tsub.u32 %%reserved, %%reserved, %%shared;\n"
		      "\tsub.u32 %%reserved, %%reserved, %u;\n",
		      VCUDA_RESERVED_BYTES, VCUDA_RESERVED_BYTES - VCUDA_RESERVED_OFFSET_1);
}

static void declare_windows(const struct lift *l, struct sass_text *out)
{
	if (l->uses_members)
		sass_text_put(out, "\t.reg .b32 %members;\n");
	if (l->uses_result)
		sass_text_put(out, "\t.reg .b32 %result;\n\t.reg .pred %resultp;\n");
	if (l->uses_shared)
		sass_text_add(out,
			      "\t.reg .b32 %%shared;\n\t.reg .b64 %%shared64;\n\tmov.u32 %%shared, "
			      "$vcuda_shared_%u;\n\tmov.u64 %%shared64, $vcuda_shared_%u;\n",
			      l->function->section, l->function->section);
	if (l->uses_shared && shared_bytes(l))
		sass_text_add(out, "\t.reg .b32 %%launch;\n\tmov.u32 %%launch, $vcuda_launch_%u;\n",
			      l->function->section);
	if (l->uses_shared && l->function->shared_base)
		sass_text_add(out, "\tsub.u32 %%shared, %%shared, %u;\n\tsub.u64 %%shared64, %%shared64, %u;\n",
			      l->function->shared_base, l->function->shared_base);
	if (l->uses_reserved)
		declare_reserved(l, out);
	if (l->uses_local)
		sass_text_add(out,
			      "\t.local .align 16 .b8 $vcuda_local[%u];\n\t.reg .b32 %%local;\n\t.reg .b64 %%local64;\n"
			      "\tmov.u32 %%local, $vcuda_local;\n\tmov.u64 %%local64, $vcuda_local;\n",
			      local_bytes_of(l));
}

static void declare_bank2(const struct lift *l, struct sass_text *out)
{
	const struct sass_function *f = l->function;

	sass_text_add(out, ".const .align 16 .b8 $vcuda_bank2_%u[%u] = {", f->section, f->constant2_bytes);
	for (uint32_t n = 0; n < f->constant2_bytes; n++)
		sass_text_add(out, "%s%u", n ? ", " : "", f->constant2[n]);
	sass_text_put(out, "};\n");
}

/*
 * The shared memory of the launch is behind the static one. The code does not say whether it uses it: it is declared,
 * and declare_windows() names it, so that the static size is not taken for the whole.
 */
static void declare_launch_shared(const struct lift *l, struct sass_text *out)
{
	if (l->uses_shared)
		sass_text_add(out, ".extern .shared .align 16 .b8 $vcuda_%s_%u[];\n",
			      shared_bytes(l) ? "launch" : "shared", l->function->section);
}

static void write_entry(const struct lift *l, struct sass_text *out)
{
	const struct sass_function *f = l->function;

	if (l->uses_bank2)
		declare_bank2(l, out);
	declare_launch_shared(l, out);
	sass_entry_add_head(out, f);
	sass_text_put(out, "{\n");
	/* Where returns are compared the graph has ways back to calls that a lane has not made. */
	if (l->compares_returns)
		sass_text_put(out, ".pragma \"vcuda_reconverge\";\n");
	if (is_callee(l))
		sass_text_put(out, ".pragma \"vcuda_callee\";\n");
	if (l->uses_shared && shared_bytes(l))
		sass_text_add(out, "\t.shared .align 16 .b8 $vcuda_shared_%u[%u];\n", f->section, shared_bytes(l));
	declare_registers(l, out);
	declare_windows(l, out);
	if (l->body.data)
		sass_text_put(out, l->body.data);
	sass_text_put(out, "}\n");
}

/* All is as before the first instruction, but for what is known of the function and its webs. */
static void begin_again(struct lift *l)
{
	struct lift old = *l;

	sass_text_cut(&old.body, 0);
	*l = (struct lift){.cubin = old.cubin,
			   .function = old.function,
			   .body = old.body,
			   .webs = old.webs,
			   .calls = old.calls,
			   .calls_addresses = old.calls_addresses,
			   .shared_window = old.shared_window,
			   .target = old.target,
			   .returned = old.returned,
			   .taken = old.taken,
			   .table = old.table,
			   .converged = old.converged,
			   .reached = old.reached,
			   .marked = old.marked,
			   .polls = old.polls,
			   .no_memory = old.no_memory,
			   .error = old.error,
			   .room = old.room};
}

/* The first time only the accesses of registers count. */
static bool lift_twice(struct lift *l)
{
	if (!lift_body(l))
		return false;
	if (!webs_make(l->webs)) {
		snprintf(l->error, l->room, "so much code");
		l->no_memory = webs_no_memory(l->webs);
		return false;
	}
	begin_again(l);
	if (!lift_body(l))
		return false;
	if (webs_differ(l->webs))
		snprintf(l->error, l->room, "registers that were not found again");
	return !webs_differ(l->webs);
}

static bool lift_function(struct lift *l)
{
	uint32_t count = l->function->bytes / SASS_BYTES;

	l->target = sass_allocate(8, count + 1);
	l->webs = webs_create();
	if (!l->target || !l->webs) {
		l->no_memory = true;
		return false;
	}
	l->returned = l->target + count + 1;
	l->taken = l->returned + count + 1;
	l->table = l->taken + count + 1;
	l->converged = l->table + count + 1;
	l->reached = l->converged + count + 1;
	l->marked = l->reached + count + 1;
	l->polls = l->marked + count + 1;
	l->calls_addresses = is_callee(l);
	return find_targets(l, count) && lift_twice(l);
}

int sass_lift(const struct sass_cubin *cubin, const struct sass_function *function, struct sass_text *out, char *error,
	      size_t room)
{
	struct lift *l = sass_allocate(1, sizeof(*l));
	int result = 0;

	if (!l)
		return -ENOMEM;
	*l = (struct lift){.cubin = cubin, .function = function, .error = error, .room = room};
	snprintf(error, room, "so much code");
	if (function->bytes / SASS_BYTES > MAX_INSTRUCTIONS || !lift_function(l) || l->body.failed)
		result = l->no_memory || l->body.no_memory ? -ENOMEM : -ENOTSUP;
	if (!result)
		write_entry(l, out);
	webs_free(l->webs);
	free(l->target);
	free(l->body.data);
	free(l);
	return result;
}
