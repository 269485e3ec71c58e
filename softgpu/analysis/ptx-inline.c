/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Makes one flat list of instructions of a kernel: every call that can is replaced by the callee's body, registers and
 * labels are numbered anew (only those in use), and parameters that are passed between functions become registers.
 * Functions that must be called for real (ptx-stack.c) stand in the list before the kernel, and so do subroutines.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "analysis/ptx-inline.h"

#define MAX_DEPTH 64

struct entry {
	const struct ptx_symbol *key;
	struct ptx_instance *instance;
};

struct frame {
	const struct frame *caller;
	const struct ptx_function *fn;
	struct ptx_routine *routine;
	int32_t *regs; /* old number -> new, or -1 */
	uint32_t label_base;
	struct entry *map; /* open addressing by key */
	uint32_t map_size, map_used;
	uint32_t end_label;
	unsigned depth;
};

bool ptx_body_fail(struct ptx_body *body, enum ptx_status status, unsigned line, const char *format, ...)
{
	va_list args;

	if (body->status == PTX_OK) {
		va_start(args, format);
		ptx_error_set_list(body->error, line, format, args);
		va_end(args);
		body->status = status;
	}
	return false;
}

bool ptx_inline_no_memory(struct ptx_body *body)
{
	return ptx_body_fail(body, PTX_NO_MEMORY, 0, "`%s` needs too much memory to compile", body->function->name);
}

int32_t ptx_body_register(struct ptx_body *body, unsigned type)
{
	struct ptx_register *r =
		ptx_grow(&body->arena, (void **)&body->regs, &body->reg_count, &body->reg_room, sizeof(*r));

	if (!r) {
		ptx_inline_no_memory(body);
		return 0;
	}
	r->type = (uint8_t)type;
	return (int32_t)body->reg_count - 1;
}

uint32_t ptx_inline_label(struct ptx_body *body)
{
	uint32_t *label =
		ptx_grow(&body->arena, (void **)&body->labels, &body->label_count, &body->label_room, sizeof(*label));

	if (!label) {
		ptx_inline_no_memory(body);
		return 0;
	}
	return body->label_count - 1;
}

static struct entry *find_entry(struct frame *f, const struct ptx_symbol *key)
{
	uint32_t at = (uint32_t)((uintptr_t)key >> 4) * 2654435761u;

	while (f->map[at & (f->map_size - 1)].key && f->map[at & (f->map_size - 1)].key != key)
		at++;
	return &f->map[at & (f->map_size - 1)];
}

static bool map_put(struct ptx_body *body, struct frame *f, const struct ptx_symbol *key, struct ptx_instance *instance)
{
	if ((f->map_used + 1) * 2 > f->map_size) {
		struct entry *old = f->map;
		uint32_t old_size = f->map_size;

		f->map_size = old_size ? old_size * 2 : 16;
		f->map = ptx_alloc(&body->arena, f->map_size * sizeof(*f->map));
		if (!f->map)
			return ptx_inline_no_memory(body);
		for (uint32_t i = 0; i < old_size; i++)
			if (old[i].key)
				*find_entry(f, old[i].key) = old[i];
	}
	f->map_used++;
	*find_entry(f, key) = (struct entry){key, instance};
	return true;
}

static struct ptx_instance *new_instance(struct ptx_body *body, struct frame *f, const struct ptx_symbol *origin)
{
	struct ptx_instance *n = ptx_alloc(&body->arena, sizeof(*n));

	if (!n) {
		ptx_inline_no_memory(body);
		return NULL;
	}
	n->symbol = *origin;
	n->routine = f->routine->subroutine ? &body->routines[body->routine_count - 1] : f->routine;
	return n;
}

static struct ptx_instance *instance_of(struct ptx_body *body, struct frame *f, const struct ptx_symbol *origin)
{
	struct ptx_instance *n = f->map_size ? find_entry(f, origin)->instance : NULL;

	if (n)
		return n;
	n = new_instance(body, f, origin);
	return n && map_put(body, f, origin, n) ? n : NULL;
}

bool ptx_is_kernel_param(const struct ptx_symbol *s)
{
	return s->kind == PTX_SYM_PARAM && s->function && s->function->entry;
}

void ptx_inline_place(struct ptx_instance *n)
{
	uint64_t align = n->symbol.align ? n->symbol.align : 1;

	if (n->placed)
		return;
	n->placed = true;
	n->symbol.offset = (n->routine->frame_bytes + align - 1) & ~(align - 1);
	n->routine->frame_bytes = n->symbol.offset + n->symbol.size;
}

static bool copy_operand(struct ptx_body *body, struct frame *f, struct ptx_operand *o)
{
	int32_t *regs[2] = {&o->reg, &o->reg2};

	if (o->kind == PTX_OP_LABEL) {
		o->reg += (int32_t)f->label_base;
		return true;
	}
	if (o->kind == PTX_OP_REG || o->kind == PTX_OP_MEM || o->kind == PTX_OP_SINK) {
		for (int n = 0; n < 2; n++) {
			int32_t old = *regs[n];

			if (old < 0)
				continue;
			if (f->regs[old] < 0)
				f->regs[old] = ptx_body_register(body, f->fn->regs[old].type);
			*regs[n] = f->regs[old];
		}
	}
	if (o->kind == PTX_OP_VECTOR) {
		struct ptx_operand *copy = ptx_alloc(&body->arena, o->count * sizeof(*copy) + 1);

		if (!copy)
			return ptx_inline_no_memory(body);
		memcpy(copy, o->elements, o->count * sizeof(*copy));
		o->elements = copy;
		for (unsigned e = 0; e < o->count; e++)
			copy_operand(body, f, &copy[e]);
	}
	if (o->symbol && (o->kind == PTX_OP_SYMBOL || o->kind == PTX_OP_MEM) && o->reg < 0) {
		if (o->symbol->kind == PTX_SYM_PARAM ||
		    (o->symbol->space == PTX_LOCAL && o->symbol->kind == PTX_SYM_VARIABLE)) {
			struct ptx_instance *n = instance_of(body, f, o->symbol);

			if (!n)
				return false;
			o->symbol = &n->symbol;
			if (n->symbol.space == PTX_LOCAL)
				ptx_inline_place(n);
			else if (o->kind == PTX_OP_SYMBOL && !ptx_is_kernel_param(&n->symbol))
				n->memory = true;
		}
	}
	return body->status == PTX_OK;
}

struct ptx_instr *ptx_inline_append(struct ptx_body *body, const struct ptx_instr *i)
{
	struct ptx_instr *copy =
		ptx_grow(&body->arena, (void **)&body->instrs, &body->instr_count, &body->instr_room, sizeof(*copy));

	if (!copy) {
		ptx_inline_no_memory(body);
		return NULL;
	}
	if (i)
		*copy = *i;
	if (body->instr_count > PTX_MOST_IN_BETWEEN)
		ptx_body_fail(body, PTX_NOT_SUPPORTED, i ? i->line : 0, "`%s` is too large once its calls are inlined",
			      body->function->name);
	return body->status == PTX_OK ? copy : NULL;
}

bool ptx_inline_branch(struct ptx_body *body, const struct ptx_instr *like, uint32_t label, int32_t guard)
{
	struct ptx_instr *i = ptx_inline_append(body, like);

	if (!i)
		return false;
	i->op = ptx_opcode_find("bra", 3, PTX_NONE, PTX_NONE, 0);
	i->name = "bra";
	i->call = NULL;
	i->guard = guard;
	i->count = 1;
	i->ops = ptx_alloc(&body->arena, sizeof(*i->ops));
	if (!i->ops)
		return ptx_inline_no_memory(body);
	i->ops[0] = (struct ptx_operand){.kind = PTX_OP_LABEL, .reg = (int32_t)label, .reg2 = -1};
	return true;
}

struct ptx_instr *ptx_inline_emit(struct ptx_body *body, const struct ptx_instr *like, const char *name, unsigned type,
				  ptx_mods mods, unsigned count, const struct ptx_operand *ops)
{
	struct ptx_instr *i = ptx_inline_append(body, NULL);

	if (!i)
		return NULL;
	*i = (struct ptx_instr){.op = ptx_opcode_find(name, strlen(name), type, PTX_NONE, mods),
				.name = name,
				.mods = mods,
				.type = (uint8_t)type,
				.count = (uint8_t)count,
				.space = mods & M(LOCAL) ? PTX_LOCAL : PTX_GENERIC,
				.guard = like->guard,
				.guard_negate = like->guard_negate,
				.line = like->line};
	i->ops = ptx_alloc(&body->arena, (count + 1u) * sizeof(*i->ops));
	if (!i->ops) {
		ptx_inline_no_memory(body);
		return NULL;
	}
	memcpy(i->ops, ops, count * sizeof(*ops));
	return i;
}

static bool inline_function(struct ptx_body *body, struct frame *f);

/* A call's own instruction: its arguments are instances, resolved to registers or memory later. */
static struct ptx_instr *append_call(struct ptx_body *body, struct frame *f, const struct ptx_instr *i)
{
	struct ptx_call *call = ptx_alloc(&body->arena, sizeof(*call));
	struct ptx_instr *copy = ptx_inline_append(body, i);
	uint32_t count = i->call->ret_count + i->call->arg_count;
	const struct ptx_symbol **list = ptx_alloc(&body->arena, (count + 1) * sizeof(*list));

	if (!call || !copy || !list) {
		ptx_inline_no_memory(body);
		return NULL;
	}
	copy->call = call;
	copy->guard = -1;
	*call = *i->call;
	for (uint32_t n = 0; n < count; n++) {
		bool ret = n < call->ret_count;
		struct ptx_instance *s = instance_of(body, f, ret ? call->rets[n] : call->args[n - call->ret_count]);

		if (!s)
			return NULL;
		list[n] = &s->symbol;
	}
	call->rets = list;
	call->args = list + call->ret_count;
	return copy;
}

/* The number of results of a call that the callee has. */
static uint32_t common_rets(const struct ptx_call *call, const struct ptx_function *callee)
{
	return call->ret_count < callee->ret_count ? call->ret_count : callee->ret_count;
}

static bool check_signature(struct ptx_body *body, const struct ptx_instr *i, const struct ptx_function *callee)
{
	const struct ptx_call *call = i->call;
	uint32_t rets = common_rets(call, callee);

	/* a result that only one side has is no matter to a device linker: Numba declares all functions with one */
	if (callee->entry || call->arg_count != callee->param_count || (call->ret_count != callee->ret_count && rets))
		return ptx_body_fail(body, PTX_INVALID, i->line, "the call does not fit the declaration of `%s`",
				     callee->name);
	for (uint32_t n = 0; n < call->arg_count + rets; n++) {
		bool arg = n < call->arg_count;
		const struct ptx_symbol *outer = arg ? call->args[n] : call->rets[n - call->arg_count];
		const struct ptx_symbol *formal = arg ? callee->params[n] : callee->rets[n - call->arg_count];

		if (outer->size != formal->size)
			return ptx_body_fail(body, PTX_INVALID, i->line,
					     "an argument does not have the size that `%s` declares", callee->name);
	}
	return true;
}

/* A call of a routine: the pointer to it becomes the instruction's operand. */
static bool real_call(struct ptx_body *body, struct frame *f, const struct ptx_instr *i)
{
	const struct ptx_symbol *prototype = i->call->prototype;
	const struct ptx_function *declared = i->call->callee ? i->call->callee->function : NULL;
	struct ptx_instr *copy;

	if (prototype && prototype->targets && prototype->targets->count)
		declared = prototype->targets->list[0]->function;
	else if (prototype)
		declared = prototype->function;
	if (!declared)
		return ptx_body_fail(body, PTX_INVALID, i->line, "`%s` is not the label of a .callprototype",
				     prototype->name);
	if (!check_signature(body, i, declared))
		return false;
	if (i->call->ret_count != declared->ret_count)
		return ptx_body_fail(body, PTX_INVALID, i->line, "the call does not fit the declaration of `%s`",
				     declared->name);
	copy = append_call(body, f, i);
	if (!copy || !(copy->ops = ptx_alloc(&body->arena, sizeof(*copy->ops))))
		return ptx_inline_no_memory(body);
	copy->op = &ptx_real_call;
	copy->count = 1;
	copy->call->declared = declared;
	if (!prototype) {
		copy->ops[0] = (struct ptx_operand){.kind = PTX_OP_INT, .reg = -1, .reg2 = -1};
		copy->ops[0].imm = ptx_function_address(body->function->module, i->call->callee);
		return true;
	}
	copy->ops[0] = i->call->pointer;
	return copy_operand(body, f, &copy->ops[0]);
}

static bool branch_call(struct ptx_body *body, struct frame *f, const struct ptx_instr *i)
{
	struct ptx_routine *r = &body->routines[body->subroutine[i->call->callee->index]];
	struct ptx_instr *copy;

	if (!check_signature(body, i, r->fn))
		return false;
	copy = append_call(body, f, i);
	if (!copy)
		return false;
	copy->op = &ptx_branch_call;
	copy->call->routine = r;
	return true;
}

static bool inline_body(struct ptx_body *body, struct frame *f, const struct ptx_instr *i)
{
	const struct ptx_call *call = i->call;
	struct ptx_function *callee = call->callee->function;
	struct frame inner = {.caller = f, .fn = callee, .routine = f->routine, .depth = f->depth + 1};

	if (inner.depth > MAX_DEPTH)
		return ptx_body_fail(body, PTX_NOT_SUPPORTED, i->line, "calls are nested too deeply");
	if (!check_signature(body, i, callee))
		return false;
	for (uint32_t n = 0; n < call->arg_count + common_rets(call, callee); n++) {
		bool arg = n < call->arg_count;
		const struct ptx_symbol *formal = arg ? callee->params[n] : callee->rets[n - call->arg_count];
		struct ptx_instance *s = instance_of(body, f, arg ? call->args[n] : call->rets[n - call->arg_count]);

		/* the callee's instance is the caller's: found under the formal name in the callee's frame */
		if (!s || !map_put(body, &inner, formal, s))
			return false;
	}
	return inline_function(body, &inner);
}

/* Puts a branch around what follows if `i` has a guard; the label is to be defined behind it. */
static bool skip_unless_guard(struct ptx_body *body, struct frame *f, const struct ptx_instr *i, uint32_t *skip)
{
	struct ptx_operand guard = {.kind = PTX_OP_REG, .reg = i->guard, .reg2 = -1};
	struct ptx_instr like = *i;

	if (i->guard < 0)
		return true;
	*skip = ptx_inline_label(body);
	copy_operand(body, f, &guard);
	like.guard_negate = !i->guard_negate;
	return ptx_inline_branch(body, &like, *skip, guard.reg);
}

static bool inline_call(struct ptx_body *body, struct frame *f, const struct ptx_instr *i)
{
	const struct ptx_symbol *callee = i->call->callee;
	enum ptx_called called = ptx_call_kind(body, i->call);
	uint32_t skip = 0;
	bool ok;

	if (!skip_unless_guard(body, f, i, &skip))
		return false;
	if (called == PTX_CALL_FRAME)
		ok = real_call(body, f, i);
	else if (called == PTX_CALL_BRANCH)
		ok = branch_call(body, f, i);
	else if (callee->function->defined)
		ok = inline_body(body, f, i);
	else
		ok = append_call(body, f, i);
	if (ok && i->guard >= 0)
		body->labels[skip] = body->instr_count;
	return ok && body->status == PTX_OK;
}

/* brx.idx: a search for the index. */
static bool inline_choice(struct ptx_body *body, struct frame *f, const struct ptx_instr *i)
{
	const struct ptx_targets *targets = i->ops[1].symbol->targets;
	uint64_t *keys = ptx_alloc(&body->arena, (targets ? targets->count + 1u : 1u) * sizeof(*keys));
	uint32_t *labels = ptx_alloc(&body->arena, (targets ? targets->count + 1u : 1u) * sizeof(*labels));
	struct ptx_operand index = i->ops[0];
	struct ptx_instr like = *i;
	uint32_t skip = 0, bad = ptx_inline_label(body);

	if (!keys || !labels)
		return ptx_inline_no_memory(body);
	if (!targets || index.kind != PTX_OP_REG)
		return ptx_body_fail(body, PTX_INVALID, i->line, "`%s` has no .branchtargets", i->name);
	for (uint32_t n = 0; n < targets->count; n++) {
		keys[n] = n;
		labels[n] = f->label_base + targets->list[n]->index;
	}
	body->choices += targets->count;
	if (!copy_operand(body, f, &index) || !skip_unless_guard(body, f, i, &skip))
		return false;
	like.guard = -1;
	if (!ptx_append_choice(body, &like, index.reg, keys, labels, targets->count, bad))
		return false;
	body->labels[bad] = body->instr_count;
	if (!ptx_append_bad_target(body, &like))
		return false;
	if (i->guard >= 0)
		body->labels[skip] = body->instr_count;
	return true;
}

static bool inline_instr(struct ptx_body *body, struct frame *f, const struct ptx_instr *i)
{
	struct ptx_instr *copy;
	struct ptx_operand guard = {.kind = PTX_OP_REG, .reg = i->guard, .reg2 = -1};

	if (!i->op)
		return ptx_body_fail(body, PTX_NOT_SUPPORTED, i->line, "the instruction `%s` is not supported",
				     i->name);
	if (i->op->flags & PTX_F_CALL)
		return inline_call(body, f, i);
	if ((i->op->flags & PTX_F_BRANCH) && i->count == 2)
		return inline_choice(body, f, i);
	copy_operand(body, f, &guard);
	if ((i->op->flags & PTX_F_RET) && f->caller)
		return ptx_inline_branch(body, i, f->end_label, guard.reg);
	copy = ptx_inline_append(body, i);
	if (!copy)
		return false;
	copy->guard = guard.reg;
	copy->ops = ptx_alloc(&body->arena, (i->count + 1u) * sizeof(*copy->ops));
	if (!copy->ops)
		return ptx_inline_no_memory(body);
	memcpy(copy->ops, i->ops, i->count * sizeof(*copy->ops));
	for (unsigned n = 0; n < i->count; n++)
		if (!copy_operand(body, f, &copy->ops[n]))
			return false;
	return true;
}

static bool inline_function(struct ptx_body *body, struct frame *f)
{
	const struct ptx_function *fn = f->fn;
	uint32_t *starts = ptx_alloc(&body->arena, (fn->instr_count + 1) * sizeof(*starts));

	f->regs = ptx_alloc(&body->arena, (fn->reg_count + 1) * sizeof(*f->regs));
	if (!f->regs || !starts)
		return ptx_inline_no_memory(body);
	memset(f->regs, 0xff, fn->reg_count * sizeof(*f->regs));
	f->label_base = body->label_count;
	for (uint32_t n = 0; n < fn->label_count; n++)
		ptx_inline_label(body);
	f->end_label = ptx_inline_label(body);
	for (uint32_t n = 0; n < fn->instr_count && body->status == PTX_OK; n++) {
		starts[n] = body->instr_count;
		if (!inline_instr(body, f, &fn->instrs[n]))
			return false;
	}
	starts[fn->instr_count] = body->instr_count;
	for (uint32_t n = 0; n < fn->label_count && body->status == PTX_OK; n++)
		body->labels[f->label_base + n] = starts[fn->labels[n]];
	if (body->status == PTX_OK)
		body->labels[f->end_label] = body->instr_count;
	return body->status == PTX_OK;
}

static uint32_t formal_count(const struct ptx_routine *r)
{
	return r->symbol ? r->fn->ret_count + r->fn->param_count : 0;
}

static const struct ptx_symbol *formal_symbol(const struct ptx_routine *r, uint32_t n)
{
	return n < r->fn->ret_count ? r->fn->rets[n] : r->fn->params[n - r->fn->ret_count];
}

/* The formals of subroutines are made before any of their calls. */
static bool make_formals(struct ptx_body *body, struct ptx_routine *r)
{
	struct frame f = {.fn = r->fn, .routine = r};
	uint32_t count = formal_count(r);

	r->formals = ptx_alloc(&body->arena, (count + 1) * sizeof(struct ptx_instance *));
	if (!r->formals)
		return ptx_inline_no_memory(body);
	r->back = ptx_body_register(body, PTX_B32);
	r->leave = ptx_inline_label(body);
	for (uint32_t n = 0; n < count; n++)
		if (!(r->formals[n] = new_instance(body, &f, formal_symbol(r, n))))
			return false;
	return true;
}

static bool frame_formals(struct ptx_body *body, struct frame *f, struct ptx_routine *r)
{
	uint64_t *offsets = ptx_alloc(&body->arena, (formal_count(r) + 1) * sizeof(*offsets));

	if (!offsets)
		return ptx_inline_no_memory(body);
	r->frame_bytes = ptx_frame_layout(r->fn, offsets);
	for (uint32_t n = 0; n < formal_count(r); n++) {
		struct ptx_instance *formal = instance_of(body, f, formal_symbol(r, n));

		if (!formal)
			return false;
		formal->memory = formal->placed = true;
		formal->symbol.offset = offsets[n];
	}
	return true;
}

static bool inline_routine(struct ptx_body *body, struct ptx_routine *r)
{
	struct frame f = {.fn = r->fn, .routine = r};
	const struct ptx_instr end = {.op = ptx_opcode_find("ret", 3, PTX_NONE, PTX_NONE, 0), .name = "ret", .guard = -1};

	r->first = body->instr_count;
	for (uint32_t n = 0; r->subroutine && n < formal_count(r); n++)
		if (!map_put(body, &f, formal_symbol(r, n), r->formals[n]))
			return false;
	if (r->symbol && !r->subroutine && !frame_formals(body, &f, r))
		return false;
	if (!inline_function(body, &f) || !ptx_inline_append(body, &end))
		return false;
	r->last = body->instr_count;
	return true;
}

bool ptx_body_inline(struct ptx_body *body)
{
	body->carry = -1;
	if (!ptx_routines_find(body))
		return false;
	for (uint32_t n = 0; n < body->routine_count; n++)
		if (body->routines[n].subroutine && !make_formals(body, &body->routines[n]))
			return false;
	for (uint32_t n = 0; n < body->routine_count; n++)
		if (!inline_routine(body, &body->routines[n]))
			return false;
	if (!ptx_body_params(body))
		return false;
	for (uint32_t k = 0; k < body->instr_count; k++)
		if (((body->instrs[k].op->flags & PTX_F_CARRY_IN) || (body->instrs[k].mods & M(CC))) && body->carry < 0)
			body->carry = ptx_body_register(body, PTX_PRED);
	return ptx_body_stack(body);
}
