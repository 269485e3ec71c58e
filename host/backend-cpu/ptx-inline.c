/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Makes one flat list of instructions of a kernel: every call is replaced by the callee's body, registers and labels
 * are numbered anew (only those in use), and parameters that are passed between functions become registers.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "ptx-body.h"

#define MAX_INSTRUCTIONS 400000
#define MAX_DEPTH 64
#define MAX_SLOTS 64

/* A part of a .param variable that is passed in a register. */
struct slot {
	uint64_t offset;
	unsigned bytes;
	int32_t reg;
};

/* A .param or .local variable of one instance of a function. */
struct instance {
	struct ptx_symbol symbol; /* first: operands point to it */
	struct slot slots[MAX_SLOTS];
	unsigned slot_count;
	bool memory; /* accesses overlap or its address is taken: it lives in local memory */
	bool placed;
};

struct entry {
	const struct ptx_symbol *key;
	struct instance *instance;
};

struct frame {
	const struct frame *caller;
	const struct ptx_function *fn;
	int32_t *regs; /* old number -> new, or -1 */
	uint32_t label_base;
	struct entry *map; /* open addressing by key */
	uint32_t map_size, map_used;
	uint32_t end_label;
	unsigned depth;
};

bool ptx_body_fail(struct ptx_body *body, enum ptx_status status, unsigned line, const char *format, ...)
{
	char text[200];
	va_list args;

	if (body->status == PTX_OK) {
		va_start(args, format);
		vsnprintf(text, sizeof(text), format, args);
		va_end(args);
		ptx_error_set(body->error, line, "%s", text);
		body->status = status;
	}
	return false;
}

static bool no_memory(struct ptx_body *body)
{
	return ptx_body_fail(body, PTX_NO_MEMORY, 0, "`%s` needs too much memory to compile", body->function->name);
}

int32_t ptx_body_register(struct ptx_body *body, unsigned type)
{
	struct ptx_register *r =
		ptx_grow(&body->arena, (void **)&body->regs, &body->reg_count, &body->reg_room, sizeof(*r));

	if (!r) {
		no_memory(body);
		return 0;
	}
	r->type = (uint8_t)type;
	return (int32_t)body->reg_count - 1;
}

static uint32_t new_label(struct ptx_body *body)
{
	uint32_t *label =
		ptx_grow(&body->arena, (void **)&body->labels, &body->label_count, &body->label_room, sizeof(*label));

	if (!label) {
		no_memory(body);
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

static bool map_put(struct ptx_body *body, struct frame *f, const struct ptx_symbol *key, struct instance *instance)
{
	if ((f->map_used + 1) * 2 > f->map_size) {
		struct entry *old = f->map;
		uint32_t old_size = f->map_size;

		f->map_size = old_size ? old_size * 2 : 16;
		f->map = ptx_alloc(&body->arena, f->map_size * sizeof(*f->map));
		if (!f->map)
			return no_memory(body);
		for (uint32_t i = 0; i < old_size; i++)
			if (old[i].key)
				*find_entry(f, old[i].key) = old[i];
	}
	f->map_used++;
	*find_entry(f, key) = (struct entry){key, instance};
	return true;
}

static struct instance *new_instance(struct ptx_body *body, const struct ptx_symbol *origin)
{
	struct instance *n = ptx_alloc(&body->arena, sizeof(*n));

	if (!n) {
		no_memory(body);
		return NULL;
	}
	n->symbol = *origin;
	return n;
}

static struct instance *instance_of(struct ptx_body *body, struct frame *f, const struct ptx_symbol *origin)
{
	struct instance *n = f->map_size ? find_entry(f, origin)->instance : NULL;

	if (n)
		return n;
	n = new_instance(body, origin);
	return n && map_put(body, f, origin, n) ? n : NULL;
}

static bool is_kernel_param(const struct ptx_symbol *s)
{
	return s->kind == PTX_SYM_PARAM && s->function && s->function->entry;
}

static void place_local(struct ptx_body *body, struct instance *n)
{
	uint64_t align = n->symbol.align ? n->symbol.align : 1;

	if (n->placed)
		return;
	n->placed = true;
	n->symbol.offset = (body->local_bytes + align - 1) & ~(align - 1);
	body->local_bytes = n->symbol.offset + n->symbol.size;
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
			return no_memory(body);
		memcpy(copy, o->elements, o->count * sizeof(*copy));
		o->elements = copy;
		for (unsigned e = 0; e < o->count; e++)
			copy_operand(body, f, &copy[e]);
	}
	if (o->symbol && (o->kind == PTX_OP_SYMBOL || o->kind == PTX_OP_MEM) && o->reg < 0) {
		if (o->symbol->kind == PTX_SYM_PARAM ||
		    (o->symbol->space == PTX_LOCAL && o->symbol->kind == PTX_SYM_VARIABLE)) {
			struct instance *n = instance_of(body, f, o->symbol);

			if (!n)
				return false;
			o->symbol = &n->symbol;
			if (n->symbol.space == PTX_LOCAL)
				place_local(body, n);
			else if (o->kind == PTX_OP_SYMBOL && !is_kernel_param(&n->symbol))
				n->memory = true;
		}
	}
	return body->status == PTX_OK;
}

static struct ptx_instr *append(struct ptx_body *body, const struct ptx_instr *i)
{
	struct ptx_instr *copy =
		ptx_grow(&body->arena, (void **)&body->instrs, &body->instr_count, &body->instr_room, sizeof(*copy));

	if (!copy) {
		no_memory(body);
		return NULL;
	}
	if (i)
		*copy = *i;
	if (body->instr_count > MAX_INSTRUCTIONS)
		ptx_body_fail(body, PTX_NOT_SUPPORTED, i ? i->line : 0, "`%s` is too large once its calls are inlined",
			      body->function->name);
	return body->status == PTX_OK ? copy : NULL;
}

static bool append_branch(struct ptx_body *body, const struct ptx_instr *like, uint32_t label, int32_t guard)
{
	struct ptx_instr *i = append(body, like);

	if (!i)
		return false;
	i->op = ptx_opcode_find("bra", 3, 0, 0);
	i->name = "bra";
	i->call = NULL;
	i->guard = guard;
	i->count = 1;
	i->ops = ptx_alloc(&body->arena, sizeof(*i->ops));
	if (!i->ops)
		return no_memory(body);
	i->ops[0] = (struct ptx_operand){.kind = PTX_OP_LABEL, .reg = (int32_t)label, .reg2 = -1};
	return true;
}

static bool inline_function(struct ptx_body *body, struct frame *f);

/* vprintf and the like: operands are the instances of the arguments, resolved to registers later. */
static bool append_external(struct ptx_body *body, struct frame *f, const struct ptx_instr *i)
{
	struct ptx_call *call = ptx_alloc(&body->arena, sizeof(*call));
	struct ptx_instr *copy = append(body, i);
	uint32_t count = i->call->ret_count + i->call->arg_count;
	const struct ptx_symbol **list = ptx_alloc(&body->arena, (count + 1) * sizeof(*list));

	if (!call || !copy || !list)
		return no_memory(body);
	copy->call = call;
	*call = *i->call;
	for (uint32_t n = 0; n < count; n++) {
		bool ret = n < call->ret_count;
		struct instance *s = instance_of(body, f, ret ? call->rets[n] : call->args[n - call->ret_count]);

		if (!s)
			return false;
		list[n] = &s->symbol;
	}
	call->rets = list;
	call->args = list + call->ret_count;
	if (copy->guard >= 0) {
		struct ptx_operand guard = {.kind = PTX_OP_REG, .reg = copy->guard, .reg2 = -1};

		copy_operand(body, f, &guard);
		copy->guard = guard.reg;
	}
	return true;
}

static bool inline_call(struct ptx_body *body, struct frame *f, const struct ptx_instr *i)
{
	const struct ptx_call *call = i->call;
	struct ptx_function *callee = call->callee->function;
	struct frame inner = {.caller = f, .fn = callee, .depth = f->depth + 1};
	uint32_t skip = 0;

	if (!callee->defined)
		return append_external(body, f, i);
	for (const struct frame *up = f; up; up = up->caller)
		if (up->fn == callee)
			return ptx_body_fail(body, PTX_NOT_SUPPORTED, i->line,
					     "the recursive call of `%s` is not supported", callee->name);
	if (inner.depth > MAX_DEPTH)
		return ptx_body_fail(body, PTX_NOT_SUPPORTED, i->line, "calls are nested too deeply");
	if (callee->entry || call->arg_count != callee->param_count || call->ret_count != callee->ret_count)
		return ptx_body_fail(body, PTX_INVALID, i->line, "the call does not fit the declaration of `%s`",
				     callee->name);
	for (uint32_t n = 0; n < call->arg_count + call->ret_count; n++) {
		bool arg = n < call->arg_count;
		const struct ptx_symbol *outer = arg ? call->args[n] : call->rets[n - call->arg_count];
		const struct ptx_symbol *formal = arg ? callee->params[n] : callee->rets[n - call->arg_count];
		struct instance *s = instance_of(body, f, outer);

		/* the callee's instance is the caller's: found under the formal name in the callee's frame */
		if (!s || outer->size != formal->size)
			return ptx_body_fail(body, PTX_INVALID, i->line,
					     "an argument does not have the size that `%s` declares", callee->name);
		if (!map_put(body, &inner, formal, s))
			return false;
	}
	if (i->guard >= 0) {
		struct ptx_operand guard = {.kind = PTX_OP_REG, .reg = i->guard, .reg2 = -1};
		struct ptx_instr like = *i;

		skip = new_label(body);
		copy_operand(body, f, &guard);
		like.guard_negate = !i->guard_negate;
		if (!append_branch(body, &like, skip, guard.reg))
			return false;
	}
	if (!inline_function(body, &inner))
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
	copy_operand(body, f, &guard);
	if ((i->op->flags & PTX_F_RET) && f->caller)
		return append_branch(body, i, f->end_label, guard.reg);
	copy = append(body, i);
	if (!copy)
		return false;
	copy->guard = guard.reg;
	copy->ops = ptx_alloc(&body->arena, (i->count + 1u) * sizeof(*copy->ops));
	if (!copy->ops)
		return no_memory(body);
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
		return no_memory(body);
	memset(f->regs, 0xff, fn->reg_count * sizeof(*f->regs));
	f->label_base = body->label_count;
	for (uint32_t n = 0; n < fn->label_count; n++)
		new_label(body);
	f->end_label = new_label(body);
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

/* ---- parameters between functions become registers ---- */

static unsigned lanes_of(const struct ptx_instr *i)
{
	return i->mods & M(V4) ? 4 : i->mods & M(V2) ? 2 : 1;
}

static struct ptx_operand *param_operand(const struct ptx_instr *i)
{
	struct ptx_operand *o;

	if (!(i->op->flags & (PTX_F_LOAD | PTX_F_STORE)))
		return NULL;
	o = &i->ops[i->op->flags & PTX_F_LOAD ? 1 : 0];
	if (o->kind != PTX_OP_MEM || o->reg >= 0 || !o->symbol || o->symbol->kind != PTX_SYM_PARAM ||
	    is_kernel_param(o->symbol))
		return NULL;
	return o;
}

static struct slot *slot_of(struct ptx_body *body, struct instance *n, uint64_t offset, unsigned bytes)
{
	static const uint8_t types[9] = {[1] = PTX_B8, [2] = PTX_B16, [4] = PTX_B32, [8] = PTX_B64};
	struct slot *s;

	for (unsigned k = 0; k < n->slot_count; k++) {
		s = &n->slots[k];
		if (s->offset == offset && s->bytes == bytes)
			return s;
		if (s->offset < offset + bytes && offset < s->offset + s->bytes)
			return NULL;
	}
	if (n->slot_count == MAX_SLOTS || bytes > 8 || offset + bytes > n->symbol.size)
		return NULL;
	s = &n->slots[n->slot_count++];
	*s = (struct slot){offset, bytes, ptx_body_register(body, types[bytes])};
	return s;
}

static bool check_slots(struct ptx_body *body)
{
	for (uint32_t k = 0; k < body->instr_count; k++) {
		const struct ptx_instr *i = &body->instrs[k];
		struct ptx_operand *o = param_operand(i);

		for (unsigned e = 0; o && e < lanes_of(i); e++) {
			unsigned bytes = ptx_types[i->type].bits / 8;
			struct instance *n = (struct instance *)(uintptr_t)o->symbol;

			if (!slot_of(body, n, o->imm + e * bytes, bytes))
				n->memory = true;
		}
		for (uint32_t a = 0; (i->op->flags & PTX_F_CALL) && a < i->call->arg_count + i->call->ret_count; a++) {
			const struct ptx_symbol *s =
				a < i->call->arg_count ? i->call->args[a] : i->call->rets[a - i->call->arg_count];
			struct instance *n = (struct instance *)(uintptr_t)s;

			if (!slot_of(body, n, 0, (unsigned)s->size) || n->memory)
				return ptx_body_fail(body, PTX_NOT_SUPPORTED, i->line,
						     "the call of `%s` is not supported", i->call->callee->name);
		}
	}
	return body->status == PTX_OK;
}

static bool rewrite_param(struct ptx_body *body, const struct ptx_instr *i, struct ptx_operand *memory)
{
	struct instance *n = (struct instance *)(uintptr_t)memory->symbol;
	struct ptx_operand *value = &i->ops[i->op->flags & PTX_F_LOAD ? 0 : 1];
	unsigned bytes = ptx_types[i->type].bits / 8;

	if (n->memory) {
		struct ptx_instr *copy = append(body, i);

		if (!copy)
			return false;
		place_local(body, n);
		copy->space = PTX_LOCAL;
		return true;
	}
	for (unsigned e = 0; e < lanes_of(i); e++) {
		struct ptx_operand reg = {.kind = PTX_OP_REG, .reg2 = -1};
		struct ptx_operand other = value->kind == PTX_OP_VECTOR ? value->elements[e] : *value;
		struct ptx_instr *copy = append(body, i);
		bool load = i->op->flags & PTX_F_LOAD;

		if (!copy)
			return false;
		reg.reg = slot_of(body, n, memory->imm + e * bytes, bytes)->reg;
		copy->op = ptx_opcode_find("mov", 3, i->type, 0);
		copy->mods = 0;
		copy->count = 2;
		copy->ops = ptx_alloc(&body->arena, 2 * sizeof(*copy->ops));
		if (!copy->ops)
			return no_memory(body);
		copy->ops[load ? 1 : 0] = reg;
		copy->ops[load ? 0 : 1] = other;
	}
	return true;
}

static bool is_call_of(const struct ptx_instr *i, const char *name, uint32_t args, uint32_t rets)
{
	return !strcmp(i->call->callee->name, name) && i->call->arg_count == args && i->call->ret_count <= rets;
}

static bool refuse_call(struct ptx_body *body, const struct ptx_instr *i)
{
	const char *name = i->call->callee->name;

	if (!strcmp(name, "malloc") || !strcmp(name, "free"))
		return ptx_body_fail(body, PTX_NOT_SUPPORTED, i->line,
				     "`%s` in a kernel is not supported: allocate the memory before the launch", name);
	if (!strncmp(name, "cudaCDP", 7) || !strncmp(name, "cudaLaunchDevice", 16))
		return ptx_body_fail(body, PTX_NOT_SUPPORTED, i->line,
				     "launching kernels from a kernel (`%s`) is not supported", name);
	return ptx_body_fail(body, PTX_UNRESOLVED, i->line, "the function `%s` is not defined", name);
}

static bool rewrite_call(struct ptx_body *body, const struct ptx_instr *i)
{
	struct ptx_instr *copy = append(body, i);
	uint32_t count = i->call->arg_count;

	if (!copy)
		return false;
	if (!(is_call_of(i, "vprintf", 2, 1) || is_call_of(i, "__assertfail", 5, 0)))
		return refuse_call(body, i);
	copy->count = (uint8_t)(count + 1);
	copy->ops = ptx_alloc(&body->arena, 6 * sizeof(*copy->ops));
	if (!copy->ops)
		return no_memory(body);
	copy->ops[0] = (struct ptx_operand){.kind = PTX_OP_SINK, .reg = -1, .reg2 = -1};
	for (uint32_t a = 0; a <= count; a++) {
		const struct ptx_symbol *s = a ? i->call->args[a - 1] : i->call->ret_count ? i->call->rets[0] : NULL;

		if (s)
			copy->ops[a] = (struct ptx_operand){
				.kind = PTX_OP_REG,
				.reg2 = -1,
				.reg = slot_of(body, (struct instance *)(uintptr_t)s, 0, (unsigned)s->size)->reg,
			};
	}
	return true;
}

static bool pass_in_registers(struct ptx_body *body)
{
	struct ptx_instr *old = body->instrs;
	uint32_t count = body->instr_count;
	uint32_t *starts = ptx_alloc(&body->arena, (count + 1) * sizeof(*starts));

	if (!starts)
		return no_memory(body);
	if (!check_slots(body))
		return false;
	body->instrs = NULL;
	body->instr_count = body->instr_room = 0;
	for (uint32_t k = 0; k < count; k++) {
		struct ptx_operand *o = param_operand(&old[k]);
		bool ok;

		starts[k] = body->instr_count;
		if (o)
			ok = rewrite_param(body, &old[k], o);
		else if (old[k].op->flags & PTX_F_CALL)
			ok = rewrite_call(body, &old[k]);
		else
			ok = append(body, &old[k]);
		if (!ok)
			return false;
		/* the address of a parameter that lives in memory */
		for (unsigned n = 0; !o && n < old[k].count; n++) {
			const struct ptx_symbol *s = old[k].ops[n].symbol;

			if (old[k].ops[n].kind == PTX_OP_SYMBOL && s && s->kind == PTX_SYM_PARAM && !is_kernel_param(s))
				place_local(body, (struct instance *)(uintptr_t)s);
		}
	}
	starts[count] = body->instr_count;
	for (uint32_t n = 0; n < body->label_count; n++)
		body->labels[n] = starts[body->labels[n]];
	return body->status == PTX_OK;
}

bool ptx_body_inline(struct ptx_body *body)
{
	struct frame f = {.fn = body->function};

	body->carry = -1;
	if (!inline_function(body, &f) || !pass_in_registers(body))
		return false;
	for (uint32_t k = 0; k < body->instr_count; k++)
		if (((body->instrs[k].op->flags & PTX_F_CARRY_IN) || (body->instrs[k].mods & M(CC))) && body->carry < 0)
			body->carry = ptx_body_register(body, PTX_PRED);
	return body->status == PTX_OK;
}
