/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Which functions stand in a kernel's list of instructions once, and are called, instead of once for each call. None
 * but recursive ones, unless the kernel would be too large: then those of at least so many instructions that are called
 * from several places, the largest first, since a call costs the less the more there is to it.
 */
#include <string.h>

#include "analysis/ptx-inline.h"

/* A kernel that has to have subroutines becomes as small as can still be optimised, if it can. */
#define WANTED_INSTRUCTIONS 16384
#define LARGEST 4096
#define SMALLEST 16

#define MANY (1ull << 40)

uint32_t ptx_most_inlined = PTX_MOST_INLINED;

struct outlining {
	struct ptx_body *body;
	const struct ptx_module *module;
	uint8_t *seen;  /* per function: 1 it runs, 2 through a pointer */
	uint32_t *list; /* all that run, callees first; the kernel last */
	uint32_t count;
	uint32_t *sites; /* per function: how many places call it by name */
	uint64_t *size;  /* per function, with all that is inlined into it */
	bool *deep;      /* per function: needs a stack, for its own sake or that of what it calls */
	bool *unfit;     /* per function: a call does not have the results that it has */
};

/* ---- which functions run ---- */

struct visit {
	uint32_t function, at; /* the function, and the index of its next instruction */
	uint32_t other;        /* of a call through a pointer: the next function that it may reach */
};

/* The function that a visit leads to next, or UINT32_MAX. */
static uint32_t next_callee(const struct outlining *c, struct visit *v)
{
	const struct ptx_function *fn = c->module->functions[v->function]->function;

	for (; v->at < fn->instr_count; v->at++, v->other = 0) {
		const struct ptx_call *call = fn->instrs[v->at].call;

		if (!call)
			continue;
		if (call->callee && !v->other) {
			v->other = 1;
			return call->callee->index;
		}
		while (!call->callee && v->other < c->module->function_count)
			if (ptx_call_may_reach(call, c->module->functions[v->other++])) {
				c->seen[v->other - 1] |= 2;
				return v->other - 1;
			}
	}
	return UINT32_MAX;
}

static bool list_functions(struct outlining *c, uint32_t kernel)
{
	struct ptx_body *body = c->body;
	struct visit *walk = NULL, *v;
	uint32_t depth = 0, room = 0, next;

	v = ptx_grow(&body->arena, (void **)&walk, &depth, &room, sizeof(*v));
	if (!v)
		return ptx_inline_no_memory(body);
	v->function = kernel;
	c->seen[kernel] = 1;
	while (depth) {
		next = next_callee(c, &walk[depth - 1]);
		if (next == UINT32_MAX) {
			c->list[c->count++] = walk[--depth].function;
			continue;
		}
		if ((c->seen[next] & 1) || !c->module->functions[next]->function->defined)
			continue;
		c->seen[next] |= 1;
		v = ptx_grow(&body->arena, (void **)&walk, &depth, &room, sizeof(*v));
		if (!v)
			return ptx_inline_no_memory(body);
		*v = (struct visit){.function = next};
	}
	return true;
}

/* ---- how large they are ---- */

static uint64_t parts_of(const struct ptx_symbol *const *list, uint32_t count)
{
	uint64_t parts = 0;

	for (uint32_t n = 0; n < count; n++)
		parts += (list[n]->size + 7) / 8;
	return parts;
}

static uint64_t call_size(const struct ptx_call *call, bool deep)
{
	uint64_t parts = parts_of(call->args, call->arg_count) + parts_of(call->rets, call->ret_count);

	return deep ? 16 + 4 * parts : 8 + parts;
}

static uint64_t size_of(const struct outlining *c, const struct ptx_instr *i)
{
	const struct ptx_symbol *callee = i->call ? i->call->callee : NULL;
	uint64_t guard = i->guard >= 0, count;

	if (i->call && (!callee || callee->function->recursive))
		return guard + call_size(i->call, true);
	if (i->call && !callee->function->defined)
		return guard + 1;
	if (i->call)
		return guard + (c->body->called[callee->index] ? call_size(i->call, c->deep[callee->index])
							       : c->size[callee->index]);
	if (!i->op)
		return 1;
	if ((i->op->flags & PTX_F_BRANCH) && i->count == 2) {
		count = i->ops[1].symbol && i->ops[1].symbol->targets ? i->ops[1].symbol->targets->count : 0;
		return guard + 5 * count + 2;
	}
	if (i->op->flags & PTX_F_STACK)
		return 8;
	if ((i->mods & M(PARAM)) && (i->op->flags & (PTX_F_LOAD | PTX_F_STORE)))
		return i->mods & M(V4) ? 4 : i->mods & M(V2) ? 2 : 1;
	return 1;
}

static void note_call(struct outlining *c, const struct ptx_call *call)
{
	uint32_t callee = call->callee->index;
	const struct ptx_function *fn = call->callee->function;

	c->sites[callee] += c->sites[callee] < UINT32_MAX;
	c->unfit[callee] |= !fn->defined || fn->entry || fn->recursive || call->ret_count != fn->ret_count;
	/* a frame has a place for each argument */
	c->unfit[callee] |= call->arg_count != fn->param_count;
}

static void note_functions(struct outlining *c)
{
	for (uint32_t n = 0; n < c->count; n++) {
		const struct ptx_function *fn = c->module->functions[c->list[n]]->function;
		bool *deep = &c->deep[c->list[n]];

		*deep = fn->recursive;
		for (uint32_t k = 0; k < fn->instr_count; k++) {
			const struct ptx_call *call = fn->instrs[k].call;

			*deep |= fn->instrs[k].op && (fn->instrs[k].op->flags & PTX_F_STACK);
			if (call && call->callee)
				note_call(c, call);
			if (call)
				*deep |= !call->callee || c->deep[call->callee->index];
		}
	}
}

/* With functions of at least this size called, if they can be; how large all is. */
static uint64_t try_size(struct outlining *c, uint64_t least)
{
	uint64_t all = 0;

	for (uint32_t n = 0; n < c->count; n++) {
		uint32_t f = c->list[n];
		const struct ptx_function *fn = c->module->functions[f]->function;
		uint64_t size = 0;

		for (uint32_t k = 0; k < fn->instr_count && size < MANY; k++)
			size += size_of(c, &fn->instrs[k]);
		c->size[f] = size;
		c->body->called[f] = c->sites[f] > 1 && !c->unfit[f] && size >= least;
		if (c->body->called[f] || fn->recursive || fn->entry || (c->seen[f] & 2))
			all += size;
		all = all < MANY ? all : MANY;
	}
	return all;
}

bool ptx_body_outline(struct ptx_body *body)
{
	struct outlining c = {.body = body, .module = body->function->module};
	uint32_t functions = c.module->function_count;
	uint64_t size, wanted;

	body->called = ptx_alloc(&body->arena, functions + 1u);
	c.seen = ptx_alloc(&body->arena, functions + 1u);
	c.list = ptx_alloc(&body->arena, (functions + 1u) * sizeof(*c.list));
	c.sites = ptx_alloc(&body->arena, (functions + 1u) * sizeof(*c.sites));
	c.size = ptx_alloc(&body->arena, (functions + 1u) * sizeof(*c.size));
	c.deep = ptx_alloc(&body->arena, functions + 1u);
	c.unfit = ptx_alloc(&body->arena, functions + 1u);
	if (!body->called || !c.seen || !c.list || !c.sites || !c.size || !c.deep || !c.unfit)
		return ptx_inline_no_memory(body);
	for (uint32_t f = 0; f < functions; f++)
		if (c.module->functions[f]->function == body->function && !list_functions(&c, f))
			return false;
	note_functions(&c);
	if (try_size(&c, UINT64_MAX) <= ptx_most_inlined)
		return true;
	wanted = ptx_most_inlined < WANTED_INSTRUCTIONS ? ptx_most_inlined : WANTED_INSTRUCTIONS;
	size = MANY;
	for (uint64_t least = LARGEST; size > wanted && least >= SMALLEST; least /= 2)
		size = try_size(&c, least);
	if (size > PTX_MOST_IN_BETWEEN)
		return ptx_body_fail(body, PTX_NOT_SUPPORTED, body->function->line,
				     "`%s` has about %llu instructions with all that it calls, which is more than %u",
				     body->function->name, (unsigned long long)size, PTX_MOST_INSTRUCTIONS);
	for (uint32_t f = 0; f < functions; f++)
		if (body->called[f])
			body->called[f] = c.deep[f] ? PTX_CALL_FRAME : PTX_CALL_BRANCH;
	return true;
}
