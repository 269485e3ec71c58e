/* SPDX-License-Identifier: Apache-2.0 */
/* The functions that stand in a kernel once and are called, and which of their registers a call must not lose. */
#include <string.h>

#include "analysis/ptx-inline.h"

/* ---- which functions are called ---- */

struct search {
	struct ptx_body *body;
	const struct ptx_module *module;
	uint8_t *seen; /* per function: 1 its body, 2 it is called for real, 4 it is a subroutine */
	uint32_t *work, count, room, routine_room;
};

static bool visit(struct search *s, uint32_t function, enum ptx_called called)
{
	struct ptx_body *body = s->body;
	const struct ptx_symbol *symbol = s->module->functions[function];
	uint8_t mark = called == PTX_CALL_BRANCH ? 4 : 2;
	uint32_t *slot;

	if (!symbol->function->defined)
		return true;
	if (called != PTX_CALL_NONE && !(s->seen[function] & mark)) {
		struct ptx_routine *r = ptx_grow(&body->arena, (void **)&body->routines, &body->routine_count,
						 &s->routine_room, sizeof(*r));

		if (!r)
			return ptx_inline_no_memory(body);
		*r = (struct ptx_routine){
			.symbol = symbol, .fn = symbol->function, .top = -1, .subroutine = called == PTX_CALL_BRANCH};
		s->seen[function] |= mark;
		if (called == PTX_CALL_BRANCH)
			body->subroutine[function] = body->routine_count - 1;
		body->subroutine_count += called == PTX_CALL_BRANCH;
	}
	if (s->seen[function] & 1)
		return true;
	s->seen[function] |= 1;
	slot = ptx_grow(&body->arena, (void **)&s->work, &s->count, &s->room, sizeof(*slot));
	if (!slot)
		return ptx_inline_no_memory(body);
	*slot = function;
	return true;
}

static bool search_function(struct search *s, const struct ptx_function *fn)
{
	for (uint32_t k = 0; k < fn->instr_count; k++) {
		const struct ptx_call *call = fn->instrs[k].call;

		if (!call)
			continue;
		if (call->callee && !visit(s, call->callee->index, ptx_call_kind(s->body, call)))
			return false;
		for (uint32_t f = 0; !call->callee && f < s->module->function_count; f++)
			if (ptx_call_may_reach(call, s->module->functions[f]) && !visit(s, f, PTX_CALL_FRAME))
				return false;
	}
	return true;
}

enum ptx_called ptx_call_kind(const struct ptx_body *body, const struct ptx_call *call)
{
	if (!call->callee || call->callee->function->recursive)
		return PTX_CALL_FRAME;
	return body->called[call->callee->index];
}

bool ptx_routines_find(struct ptx_body *body)
{
	struct search s = {.body = body, .module = body->function->module};
	struct ptx_routine *kernel;

	s.seen = ptx_alloc(&body->arena, s.module->function_count + 1u);
	body->subroutine = ptx_alloc(&body->arena, (s.module->function_count + 1u) * sizeof(*body->subroutine));
	if (!s.seen || !body->subroutine || !ptx_body_outline(body))
		return ptx_inline_no_memory(body);
	if (!search_function(&s, body->function))
		return false;
	for (uint32_t n = 0; n < s.count; n++)
		if (!search_function(&s, s.module->functions[s.work[n]]->function))
			return false;
	kernel = ptx_grow(&body->arena, (void **)&body->routines, &body->routine_count, &s.routine_room,
			  sizeof(*kernel));
	if (!kernel)
		return ptx_inline_no_memory(body);
	*kernel = (struct ptx_routine){.fn = body->function, .top = -1};
	return true;
}

/* ---- what is live across a call ---- */

struct liveness {
	struct ptx_body *body;
	uint64_t *now;
	uint64_t *labels; /* live at each */
	uint64_t **calls; /* per instruction: live behind it */
	size_t words;
	bool changed;
};

static void live_use(void *data, int32_t reg)
{
	struct liveness *l = data;

	PTX_SET(l->now, reg);
}

static void live_def(void *data, int32_t reg)
{
	struct liveness *l = data;

	l->now[reg >> 6] &= ~(1ull << (reg & 63));
}

static void live_instr(struct liveness *l, const struct ptx_instr *i)
{
	uint32_t flags = i->op->flags;

	if ((flags & (PTX_F_BRANCH | PTX_F_EXIT | PTX_F_RET)) && i->guard < 0)
		memset(l->now, 0, l->words * sizeof(*l->now));
	if (flags & PTX_F_BRANCH)
		for (size_t w = 0; w < l->words; w++)
			l->now[w] |= l->labels[(size_t)i->ops[0].reg * l->words + w];
	if (flags & PTX_F_BRANCH) {
		if (i->guard >= 0)
			live_use(l, i->guard);
		return;
	}
	ptx_instr_defs(l->body, i, live_def, l);
	ptx_instr_uses(l->body, i, live_use, l);
}

static void live_round(struct liveness *l, const struct ptx_routine *r, const uint32_t *next_label, const uint32_t *at)
{
	struct ptx_body *body = l->body;

	memset(l->now, 0, l->words * sizeof(*l->now));
	for (uint32_t k = r->last; k-- > r->first;) {
		if (body->instrs[k].op == &ptx_real_call)
			memcpy(l->calls[k], l->now, l->words * sizeof(*l->now));
		live_instr(l, &body->instrs[k]);
		for (uint32_t n = at[k]; n != UINT32_MAX; n = next_label[n])
			for (size_t w = 0; w < l->words; w++) {
				uint64_t *live = &l->labels[n * l->words + w];

				l->changed |= (l->now[w] & ~*live) != 0;
				*live |= l->now[w];
			}
	}
}

bool ptx_live_calls(struct ptx_body *body, uint64_t ***calls)
{
	struct liveness l = {.body = body, .words = (body->reg_count + 63) / 64};
	uint32_t *at = ptx_alloc(&body->arena, (body->instr_count + 1u) * sizeof(*at));
	uint32_t *next = ptx_alloc(&body->arena, (body->label_count + 1u) * sizeof(*next));

	l.now = ptx_alloc(&body->arena, l.words * sizeof(*l.now));
	l.labels = ptx_alloc(&body->arena, (body->label_count + 1u) * l.words * sizeof(*l.labels));
	l.calls = ptx_alloc(&body->arena, (body->instr_count + 1u) * sizeof(*l.calls));
	if (!at || !next || !l.now || !l.labels || !l.calls)
		return ptx_inline_no_memory(body);
	memset(at, 0xff, (body->instr_count + 1u) * sizeof(*at));
	for (uint32_t n = 0; n < body->label_count; n++) {
		next[n] = at[body->labels[n]];
		at[body->labels[n]] = n;
	}
	for (uint32_t n = 0; n < body->routine_count; n++) {
		const struct ptx_routine *r = &body->routines[n];

		if (!r->fn->recursive)
			continue;
		for (uint32_t k = r->first; k < r->last; k++)
			if (body->instrs[k].op == &ptx_real_call &&
			    !(l.calls[k] = ptx_alloc(&body->arena, l.words * sizeof(*l.now))))
				return ptx_inline_no_memory(body);
		do {
			l.changed = false;
			live_round(&l, r, next, at);
		} while (l.changed);
	}
	*calls = l.calls;
	return true;
}
