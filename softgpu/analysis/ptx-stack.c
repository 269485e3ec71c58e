/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Calls that cannot be inlined: recursion, and calls through pointers. All that a kernel may call stays one list of
 * instructions, so lanes part and meet again in calls as they do in branches: a call stores its arguments and where to
 * return to in a new frame of the thread's stack and branches to the call hub, which branches to the function; a
 * function's end branches to the return hub, which branches to the instruction behind the call. Hubs keep the graph
 * simple: one node that all circles of calls have in common.
 *
 * The stack is the upper part of local memory. `sp` is where the running routine's frame starts, 0 in the kernel. Every
 * access to it is checked as any other, which is what ends an endless recursion.
 */
#include <stdlib.h>
#include <string.h>

#include "analysis/ptx-inline.h"

/* The stack of a thread whose functions are recursive: half of a GPU's 512 KiB of local memory. */
#define STACK_BYTES (256u << 10)

#define ALIGN 16

const struct ptx_opcode ptx_real_call = {.name = "call", .flags = PTX_F_EFFECT | PTX_F_CALL | PTX_F_NO_DST};
static const struct ptx_opcode bad_target = {
	.name = "call", .flags = PTX_F_EFFECT | PTX_F_NO_DST, .family = PTX_FAMILY_BAD_TARGET};

static uint64_t round_up(uint64_t value, uint64_t to)
{
	return (value + to - 1) & ~(to - 1);
}

uint64_t ptx_frame_layout(const struct ptx_function *fn, uint64_t *offsets)
{
	uint64_t at = PTX_FRAME_FIRST;

	for (uint32_t n = 0; n < fn->ret_count + fn->param_count; n++) {
		const struct ptx_symbol *s = n < fn->ret_count ? fn->rets[n] : fn->params[n - fn->ret_count];

		offsets[n] = round_up(at, s->align ? s->align : 1);
		at = offsets[n] + s->size;
	}
	return at;
}

/* ---- instructions ---- */

static struct ptx_operand reg_operand(int32_t reg)
{
	return (struct ptx_operand){.kind = PTX_OP_REG, .reg = reg, .reg2 = -1};
}

static struct ptx_operand int_operand(uint64_t value)
{
	return (struct ptx_operand){.kind = PTX_OP_INT, .reg = -1, .reg2 = -1, .imm = value};
}

#define EMIT(body, like, name, type, mods, ...)                                                                        \
	ptx_inline_emit(body, like, name, type, mods,                                                                  \
			sizeof((struct ptx_operand[]){__VA_ARGS__}) / sizeof(struct ptx_operand),                      \
			(struct ptx_operand[]){__VA_ARGS__})

static bool add(struct ptx_body *body, const struct ptx_instr *like, int32_t to, int32_t from, uint64_t value)
{
	return EMIT(body, like, "add", PTX_U64, 0, reg_operand(to), reg_operand(from), int_operand(value));
}

/* [reg + offset] in local memory; reg -1: [offset] */
static struct ptx_operand place(int32_t reg, uint64_t offset)
{
	return (struct ptx_operand){.kind = PTX_OP_MEM, .reg = reg, .reg2 = -1, .imm = offset};
}

static bool load(struct ptx_body *body, const struct ptx_instr *like, unsigned type, int32_t reg,
		 struct ptx_operand from)
{
	return EMIT(body, like, "ld", type, M(LOCAL), reg_operand(reg), from);
}

static bool store(struct ptx_body *body, const struct ptx_instr *like, unsigned type, struct ptx_operand to,
		  struct ptx_operand value)
{
	return EMIT(body, like, "st", type, M(LOCAL), to, value);
}

bool ptx_append_bad_target(struct ptx_body *body, const struct ptx_instr *like)
{
	struct ptx_instr *i = ptx_inline_append(body, like);

	if (!i)
		return false;
	i->op = &bad_target;
	i->call = NULL;
	i->count = 0;
	i->mods = 0;
	i->guard = -1;
	i = ptx_inline_append(body, i);
	if (i)
		i->op = ptx_opcode_find("exit", 4, PTX_NONE, PTX_NONE, 0);
	return i;
}

static bool choose(struct ptx_body *body, const struct ptx_instr *like, int32_t reg, const uint64_t *keys,
		   const uint32_t *labels, uint32_t count, uint32_t bad)
{
	unsigned type = ptx_types[body->regs[reg].type].bits == 64 ? PTX_U64 : PTX_U32;
	int32_t p = ptx_body_register(body, PTX_PRED);
	uint32_t half = count / 2, below;

	if (count == 1 && bad == PTX_NO_LABEL)
		return ptx_inline_branch(body, like, labels[0], -1);
	if (count == 1)
		return EMIT(body, like, "setp", type, M(NE), reg_operand(p), reg_operand(reg), int_operand(keys[0])) &&
		       ptx_inline_branch(body, like, bad, p) && ptx_inline_branch(body, like, labels[0], -1);
	below = ptx_inline_label(body);
	if (!EMIT(body, like, "setp", type, M(LO), reg_operand(p), reg_operand(reg), int_operand(keys[half])) ||
	    !ptx_inline_branch(body, like, below, p) ||
	    !choose(body, like, reg, keys + half, labels + half, count - half, bad))
		return false;
	body->labels[below] = body->instr_count;
	return choose(body, like, reg, keys, labels, half, bad);
}

bool ptx_append_choice(struct ptx_body *body, const struct ptx_instr *like, int32_t reg, const uint64_t *keys,
		       const uint32_t *labels, uint32_t count, uint32_t bad)
{
	struct ptx_instr plain = *like;

	plain.guard = -1;
	plain.guard_negate = false;
	plain.mods = 0;
	return count ? choose(body, &plain, reg, keys, labels, count, bad) : ptx_inline_branch(body, &plain, bad, -1);
}

/* ---- the list made anew ---- */

struct patch {
	struct patch *next;
	const struct ptx_routine *routine;
	struct ptx_operand *operand; /* the frame size of `routine`, or minus the frame size */
};

struct stack {
	struct ptx_body *body;
	struct ptx_routine *r; /* the present routine */
	struct patch *patches;
	int32_t sp, target;
	struct ptx_gate gate; /* of subroutines */
	uint32_t call_hub, return_hub, kernel;
	uint32_t *backs, back_count, back_room; /* labels behind calls; a return's number is its place here */
	uint64_t **live;
};

/* Do its variables lie where `sp` says? */
static bool has_frame(const struct ptx_routine *r)
{
	return r->symbol && !r->subroutine;
}

/* A place in the frame of the present routine. */
static struct ptx_operand own(const struct stack *s, uint64_t offset)
{
	return place(has_frame(s->r) ? s->sp : -1, offset);
}

/* to = from + the frame's size, or less it */
static bool move_frame(struct stack *s, const struct ptx_instr *like, int32_t to, int32_t from, bool back)
{
	struct patch *p = ptx_alloc(&s->body->arena, sizeof(*p));

	if (!p || !add(s->body, like, to, from, back))
		return ptx_inline_no_memory(s->body);
	*p = (struct patch){s->patches, s->r, &s->body->instrs[s->body->instr_count - 1].ops[2]};
	s->patches = p;
	return true;
}

static void patch_frames(struct stack *s)
{
	for (const struct patch *p = s->patches; p; p = p->next) {
		uint64_t bytes = round_up(p->routine->frame_bytes, ALIGN);

		p->operand->imm = p->operand->imm ? -bytes : bytes;
	}
}

static unsigned piece_type(uint64_t left, uint64_t alignment)
{
	alignment |= 8;
	for (unsigned bytes = 8; bytes > 1; bytes /= 2)
		if (bytes <= left && !(alignment & (bytes - 1)))
			return bytes == 8 ? PTX_B64 : bytes == 4 ? PTX_B32 : PTX_B16;
	return PTX_B8;
}

/* A variable of this frame into registers (of which there is a list, as long as it has pieces), or out of them. */
static bool copy_pieces(struct stack *s, const struct ptx_instr *like, const struct ptx_symbol *v, int32_t reg,
			uint64_t offset, uint64_t alignment, int32_t *list, bool to_memory)
{
	unsigned type;

	for (uint64_t at = 0; at < v->size; at += ptx_types[type].bits / 8) {
		struct ptx_operand where = place(reg, offset + at);

		type = piece_type(v->size - at, alignment | at);
		if (to_memory ? !store(s->body, like, type, where, reg_operand(*list))
			      : !load(s->body, like, type, *list = ptx_body_register(s->body, type), where))
			return false;
		list++;
	}
	return true;
}

/* The registers of a routine that runs again before this call has returned. */
static bool save_registers(struct stack *s, const struct ptx_instr *like, const uint64_t *live, bool restore)
{
	static const uint8_t types[] = {[1] = PTX_B8, [2] = PTX_B16, [4] = PTX_B32, [8] = PTX_B64};
	struct ptx_body *body = s->body;

	for (uint32_t r = 0; live && r < (body->words * 64); r++) {
		int32_t reg = (int32_t)r;
		uint64_t *at = &s->r->saves[r];
		bool predicate;
		unsigned type;

		if (!PTX_BIT(live, r) && reg != s->r->top)
			continue;
		type = ptx_types[body->regs[r].type].bits / 8;
		predicate = body->regs[r].type == PTX_PRED;
		if (!predicate && type > 8)
			return ptx_body_fail(body, PTX_NOT_SUPPORTED, like->line,
					     "a register of 128 bits across a recursive call is not supported");
		type = predicate ? PTX_B32 : types[type];
		if (!*at) {
			*at = round_up(s->r->frame_bytes, 8);
			s->r->frame_bytes = *at + 8;
		}
		if (predicate)
			reg = ptx_body_register(body, PTX_B32);
		if (predicate && !restore &&
		    !EMIT(body, like, "selp", PTX_B32, 0, reg_operand(reg), int_operand(1), int_operand(0),
			  reg_operand((int32_t)r)))
			return false;
		if (restore ? !load(body, like, type, reg, own(s, *at))
			    : !store(body, like, type, own(s, *at), reg_operand(reg)))
			return false;
		if (predicate && restore &&
		    !EMIT(body, like, "setp", PTX_B32, M(NE), reg_operand((int32_t)r), reg_operand(reg),
			  int_operand(0)))
			return false;
	}
	return true;
}

static bool enter_frame(struct stack *s, const struct ptx_instr *like)
{
	int32_t sp = s->sp, top = s->r->top;

	if (top < 0)
		return move_frame(s, like, sp, sp, false);
	return store(s->body, like, PTX_B64, place(top, PTX_FRAME_CALLER), reg_operand(sp)) &&
	       EMIT(s->body, like, "mov", PTX_U64, 0, reg_operand(sp), reg_operand(top));
}

static bool leave_frame(struct stack *s, const struct ptx_instr *like)
{
	if (s->r->top < 0)
		return move_frame(s, like, s->sp, s->sp, true);
	return load(s->body, like, PTX_B64, s->sp, place(s->sp, PTX_FRAME_CALLER));
}

static uint64_t pieces_of(const struct ptx_call *call)
{
	uint64_t most = 1, args = 0, rets = 0;

	for (uint32_t n = 0; n < call->arg_count; n++)
		args += call->args[n]->size;
	for (uint32_t n = 0; n < call->ret_count; n++)
		rets += call->rets[n]->size;
	most += args > rets ? args : rets;
	return most;
}

/* Arguments out of this frame into registers or from there into the next frame; results the other way. */
static bool pass(struct stack *s, const struct ptx_instr *i, const uint64_t *offsets, int32_t *list, bool results,
		 bool inner)
{
	const struct ptx_call *call = i->call;

	for (uint32_t n = 0; n < (results ? call->ret_count : call->arg_count); n++) {
		const struct ptx_symbol *v = results ? call->rets[n] : call->args[n];
		uint64_t there = offsets[results ? n : call->ret_count + n], alignment = there | v->offset;
		struct ptx_operand here = own(s, v->offset);
		unsigned type;

		if (!copy_pieces(s, i, v, inner ? s->sp : here.reg, inner ? there : v->offset, alignment, list,
				 results != inner))
			return false;
		for (uint64_t at = 0; at < v->size; at += ptx_types[type].bits / 8, list++)
			type = piece_type(v->size - at, alignment | at);
	}
	return true;
}

static bool expand_call(struct stack *s, const struct ptx_instr *i, const uint64_t *live)
{
	struct ptx_body *body = s->body;
	const struct ptx_function *fn = i->call->declared;
	uint64_t *offsets = ptx_alloc(&body->arena, (fn->ret_count + fn->param_count + 1u) * sizeof(*offsets));
	int32_t *list = ptx_alloc(&body->arena, pieces_of(i->call) * sizeof(*list));
	uint32_t *back, number = s->back_count;

	back = ptx_grow(&body->arena, (void **)&s->backs, &s->back_count, &s->back_room, sizeof(*back));
	if (!offsets || !list || !back)
		return ptx_inline_no_memory(body);
	*back = ptx_inline_label(body);
	ptx_frame_layout(fn, offsets);
	for (uint32_t n = 0; n < i->call->arg_count + i->call->ret_count; n++) {
		const struct ptx_symbol *v =
			n < i->call->arg_count ? i->call->args[n] : i->call->rets[n - i->call->arg_count];

		ptx_inline_place((struct ptx_instance *)(uintptr_t)v);
	}
	if (!EMIT(body, i, "mov", PTX_U64, 0, reg_operand(s->target), i->ops[0]) ||
	    !pass(s, i, offsets, list, false, false) || !save_registers(s, i, live, false) || !enter_frame(s, i) ||
	    !pass(s, i, offsets, list, false, true) ||
	    !store(body, i, PTX_B32, place(s->sp, PTX_FRAME_RETURN), int_operand(number)) ||
	    !ptx_inline_branch(body, i, s->call_hub, -1))
		return false;
	body->labels[s->backs[number]] = body->instr_count;
	return pass(s, i, offsets, list, true, true) && leave_frame(s, i) && pass(s, i, offsets, list, true, false) &&
	       save_registers(s, i, live, true);
}

static bool expand_alloca(struct stack *s, const struct ptx_instr *i)
{
	int32_t top = s->r->top, size = ptx_body_register(s->body, PTX_B64);
	uint64_t align = i->count == 3 ? i->ops[2].imm : 8;
	unsigned wide = ptx_types[i->type].bits == 64 ? PTX_U64 : PTX_U32;

	if (!align || (align & (align - 1)) || align > 65536 || (i->count == 3 && i->ops[2].kind != PTX_OP_INT))
		return ptx_body_fail(s->body, PTX_INVALID, i->line, "the alignment of `%s` must be a power of two",
				     i->name);
	if (wide == PTX_U64 ? !EMIT(s->body, i, "mov", PTX_U64, 0, reg_operand(size), i->ops[1])
			    : !EMIT(s->body, i, "mul", PTX_U32, M(WIDE), reg_operand(size), i->ops[1], int_operand(1)))
		return false;
	return add(s->body, i, top, top, align - 1) &&
	       EMIT(s->body, i, "and", PTX_B64, 0, reg_operand(top), reg_operand(top), int_operand(-align)) &&
	       EMIT(s->body, i, "mov", wide, 0, i->ops[0], reg_operand(top)) &&
	       EMIT(s->body, i, "add", PTX_U64, 0, reg_operand(top), reg_operand(top), reg_operand(size)) &&
	       add(s->body, i, top, top, ALIGN - 1) &&
	       EMIT(s->body, i, "and", PTX_B64, 0, reg_operand(top), reg_operand(top), int_operand(-(uint64_t)ALIGN));
}

static bool expand_stack(struct stack *s, const struct ptx_instr *i)
{
	if (!strcmp(i->op->name, "alloca"))
		return expand_alloca(s, i);
	if (!strcmp(i->op->name, "stacksave"))
		return EMIT(s->body, i, "mov", i->type, 0, i->ops[0], reg_operand(s->r->top));
	return EMIT(s->body, i, "mov", PTX_U64, 0, reg_operand(s->r->top), i->ops[0]);
}

/* In a routine, local variables lie in its frame. */
static bool expand_plain(struct stack *s, const struct ptx_instr *i)
{
	struct ptx_operand *ops = ptx_alloc(&s->body->arena, (i->count + 1u) * sizeof(*ops));
	struct ptx_instr copy = *i;

	if (!ops)
		return ptx_inline_no_memory(s->body);
	if (i->count)
		memcpy(ops, i->ops, i->count * sizeof(*ops));
	copy.ops = ops;
	for (unsigned n = 0; n < i->count && has_frame(s->r); n++) {
		const struct ptx_symbol *v = ops[n].symbol;
		bool local = v && (v->space == PTX_LOCAL || (v->space == PTX_PARAM && !ptx_is_kernel_param(v)));

		if (!local || (ops[n].kind != PTX_OP_SYMBOL && ops[n].kind != PTX_OP_MEM))
			continue;
		/* arguments of a subroutine */
		if (!has_frame(((const struct ptx_instance *)v)->routine))
			continue;
		if (ops[n].kind == PTX_OP_MEM && ops[n].reg < 0) {
			ops[n] = place(s->sp, v->offset + ops[n].imm);
			copy.space = PTX_LOCAL;
		} else if (ops[n].kind == PTX_OP_SYMBOL) {
			int32_t t = ptx_body_register(s->body, PTX_B64);

			if (!add(s->body, i, t, s->sp, v->offset + ops[n].imm))
				return false;
			ops[n] = reg_operand(t);
		}
	}
	return ptx_inline_append(s->body, &copy);
}

static bool expand(struct stack *s, const struct ptx_instr *i, const uint64_t *live)
{
	if (i->op == &ptx_real_call)
		return expand_call(s, i, live);
	if (i->op->flags & PTX_F_STACK)
		return expand_stack(s, i);
	if (i->op == &ptx_branch_call)
		return ptx_expand_branch_call(s->body, &s->gate, i);
	if ((i->op->flags & PTX_F_RET) && s->r->symbol)
		return ptx_inline_branch(s->body, i, s->r->subroutine ? s->r->leave : s->return_hub, i->guard);
	return expand_plain(s, i);
}

static bool begin_routine(struct stack *s, struct ptx_routine *r, bool moves)
{
	const struct ptx_instr like = {.guard = -1, .line = r->fn->line};

	s->r = r;
	if (r->fn->recursive)
		r->saves = ptx_alloc(&s->body->arena, (s->body->reg_count + 1u) * sizeof(*r->saves));
	if (r->fn->recursive && !r->saves)
		return ptx_inline_no_memory(s->body);
	s->body->labels[r->entry] = s->body->instr_count;
	if (!r->symbol && !EMIT(s->body, &like, "mov", PTX_U64, 0, reg_operand(s->sp), int_operand(0)))
		return false;
	return !moves || move_frame(s, &like, r->top, s->sp, false);
}

static int by_address(const void *a, const void *b)
{
	uint32_t x = (*(const struct ptx_routine *const *)a)->symbol->index;
	uint32_t y = (*(const struct ptx_routine *const *)b)->symbol->index;

	return x < y ? -1 : x > y;
}

static bool emit_call_hub(struct stack *s)
{
	struct ptx_body *body = s->body;
	uint32_t count = body->routine_count - 1, bad = ptx_inline_label(body);
	uint64_t *keys = ptx_alloc(&body->arena, (count + 1u) * sizeof(*keys));
	uint32_t *labels = ptx_alloc(&body->arena, (count + 1u) * sizeof(*labels));
	const struct ptx_routine **sorted = ptx_alloc(&body->arena, (count + 1u) * sizeof(*sorted));
	const struct ptx_instr like = {.guard = -1, .name = "call", .line = body->function->line};

	if (!keys || !labels || !sorted)
		return ptx_inline_no_memory(body);
	for (uint32_t n = count, all = count = 0; all < n; all++)
		if (!body->routines[all].subroutine)
			sorted[count++] = &body->routines[all];
	qsort(sorted, count, sizeof(*sorted), by_address);
	for (uint32_t n = 0; n < count; n++) {
		keys[n] = ptx_function_address(body->function->module, sorted[n]->symbol);
		labels[n] = sorted[n]->entry;
	}
	body->labels[s->call_hub] = body->instr_count;
	if (!ptx_append_choice(body, &like, s->target, keys, labels, count, bad))
		return false;
	body->labels[bad] = body->instr_count;
	return ptx_append_bad_target(body, &like);
}

static bool emit_return_hub(struct stack *s)
{
	struct ptx_body *body = s->body;
	uint32_t bad = ptx_inline_label(body);
	uint64_t *keys = ptx_alloc(&body->arena, (s->back_count + 1u) * sizeof(*keys));
	const struct ptx_instr like = {.guard = -1, .name = "ret", .line = body->function->line};
	int32_t number = ptx_body_register(body, PTX_B32);

	if (!keys)
		return ptx_inline_no_memory(body);
	for (uint32_t n = 0; n < s->back_count; n++)
		keys[n] = n;
	body->labels[s->return_hub] = body->instr_count;
	if (!load(body, &like, PTX_B32, number, place(s->sp, PTX_FRAME_RETURN)) ||
	    !ptx_append_choice(body, &like, number, keys, s->backs, s->back_count, bad))
		return false;
	body->labels[bad] = body->instr_count;
	return ptx_append_bad_target(body, &like);
}

/* Does the routine move its frame's end? It gets a register for that. */
static bool moves_frame(struct ptx_body *body, struct ptx_routine *r)
{
	for (uint32_t k = r->first; k < r->last && r->top < 0; k++)
		if (body->instrs[k].op->flags & PTX_F_STACK)
			r->top = ptx_body_register(body, PTX_B64);
	return r->top >= 0;
}

static bool rebuild(struct stack *s, bool calls)
{
	struct ptx_body *body = s->body;
	const struct ptx_instr *old = body->instrs, like = {.guard = -1, .name = "bra", .line = body->function->line};
	uint32_t count = body->instr_count, labels = body->label_count, r = 0;
	uint32_t *starts = ptx_alloc(&body->arena, (count + 1u) * sizeof(*starts));
	uint32_t *before = body->labels;

	if (!starts || !(body->labels = ptx_alloc(&body->arena, (labels + 1u) * sizeof(*before))))
		return ptx_inline_no_memory(body);
	body->label_room = labels + 1;
	body->instrs = NULL;
	body->instr_count = body->instr_room = 0;
	s->call_hub = ptx_inline_label(body);
	s->return_hub = ptx_inline_label(body);
	s->gate.label = ptx_inline_label(body);
	for (uint32_t n = 0; n < body->routine_count; n++)
		body->routines[n].entry = ptx_inline_label(body);
	if ((calls || body->routine_count > 1) &&
	    !ptx_inline_branch(body, &like, body->routines[body->routine_count - 1].entry, -1))
		return false;
	if ((calls && !emit_call_hub(s)) || !ptx_append_gate(body, &s->gate))
		return false;
	for (uint32_t k = 0; k < count; k++) {
		struct ptx_routine *routine = &body->routines[r];

		if (k == routine->first && !begin_routine(s, routine, routine->top >= 0))
			return false;
		starts[k] = body->instr_count;
		if (!expand(s, &old[k], s->live ? s->live[k] : NULL))
			return false;
		r += k + 1 == routine->last;
	}
	starts[count] = body->instr_count;
	for (uint32_t n = 0; n < labels; n++)
		body->labels[n] = starts[before[n]];
	return ptx_append_leaves(body) && (!calls || emit_return_hub(s));
}

/* The stack that the calls of a kernel need: the largest sum on it at once, if that is known. */
static uint64_t stack_bytes(const struct ptx_body *body)
{
	uint64_t bytes = ALIGN;

	for (uint32_t n = 0; n < body->routine_count; n++) {
		const struct ptx_routine *r = &body->routines[n];

		if (r->top >= 0 || (r->symbol && r->fn->recursive))
			return STACK_BYTES;
		bytes += has_frame(r) ? round_up(r->frame_bytes, ALIGN) : 0;
	}
	return bytes;
}

bool ptx_body_stack(struct ptx_body *body)
{
	struct ptx_routine *kernel = &body->routines[body->routine_count - 1];
	struct stack s = {.body = body};
	bool moves = false, recursive = false, real = false;

	body->has_calls = body->routine_count > 1;
	for (uint32_t n = 0; n < body->routine_count; n++)
		real |= has_frame(&body->routines[n]);
	for (uint32_t k = 0; k < body->instr_count; k++)
		real |= body->instrs[k].op == &ptx_real_call;
	body->has_calls |= real;
	s.sp = ptx_body_register(body, PTX_B64);
	s.target = ptx_body_register(body, PTX_B64);
	s.gate.number = body->subroutine_count ? ptx_body_register(body, PTX_B32) : -1;
	for (uint32_t n = 0; n < body->routine_count; n++) {
		moves |= moves_frame(body, &body->routines[n]);
		recursive |= body->routines[n].fn->recursive;
	}
	if (moves || body->has_calls) {
		body->words = (body->reg_count + 63) / 64;
		if ((recursive && !ptx_live_calls(body, &s.live)) || !rebuild(&s, real))
			return false;
		patch_frames(&s);
	}
	body->local_bytes = kernel->frame_bytes;
	if (moves || real)
		body->local_bytes = round_up(kernel->frame_bytes, ALIGN) + stack_bytes(body);
	return body->status == PTX_OK;
}
