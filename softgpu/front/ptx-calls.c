/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The call graph of a module. A function whose address is used may be called by every call through a pointer; a
 * function that may call itself, through others or not, cannot be inlined.
 */
#include <stdlib.h>
#include <string.h>

#include "common/sass-callee.h"
#include "front/ptx-opcodes.h"

/*
 * The parts of a function's address: a mark that no memory's address has, the module, the function. Addresses are even,
 * because C++ keeps a flag in the lowest bit of a pointer to a member function.
 */
#define FUNCTION_TAG (1ull << 56)
#define FUNCTION_STEP 16
#define MAX_FUNCTIONS (1u << 20)

uint64_t ptx_function_address(const struct ptx_module *module, const struct ptx_symbol *symbol)
{
	return module->function_base + FUNCTION_STEP * ((uint64_t)symbol->index + 1);
}

bool ptx_same_signature(const struct ptx_function *a, const struct ptx_function *b)
{
	if (a->param_count != b->param_count || a->ret_count != b->ret_count)
		return false;
	for (uint32_t n = 0; n < a->param_count; n++)
		if (a->params[n]->size != b->params[n]->size || a->params[n]->align != b->params[n]->align)
			return false;
	for (uint32_t n = 0; n < a->ret_count; n++)
		if (a->rets[n]->size != b->rets[n]->size || a->rets[n]->align != b->rets[n]->align)
			return false;
	return true;
}

bool ptx_call_may_reach(const struct ptx_call *call, const struct ptx_symbol *symbol)
{
	const struct ptx_targets *targets = call->prototype->targets;

	if (symbol->function->entry || !symbol->function->defined)
		return false;
	for (uint32_t n = 0; targets && n < targets->count; n++)
		if (targets->list[n] == symbol)
			return true;
	return !targets && symbol->taken && call->prototype->function &&
	       ptx_same_signature(call->prototype->function, symbol->function);
}

static void mark_taken(const struct ptx_symbol *symbol)
{
	if (symbol && symbol->kind == PTX_SYM_FUNCTION)
		((struct ptx_symbol *)(uintptr_t)symbol)->taken = true;
}

static bool is_heap(const struct ptx_symbol *s)
{
	return !s->function->defined && (!strcmp(s->name, "malloc") || !strcmp(s->name, "free"));
}

static void find_taken(struct ptx_module *m)
{
	for (uint32_t v = 0; v < m->variable_count; v++)
		for (const struct ptx_reloc *r = m->relocs[v]; r; r = r->next)
			mark_taken(r->symbol);
	for (uint32_t f = 0; f < m->function_count; f++) {
		const struct ptx_function *fn = m->functions[f]->function;

		for (uint32_t k = 0; k < fn->instr_count; k++) {
			const struct ptx_call *call = fn->instrs[k].call;

			for (unsigned n = 0; n < fn->instrs[k].count; n++)
				mark_taken(fn->instrs[k].ops[n].symbol);
			for (uint32_t n = 0;
			     call && call->prototype && call->prototype->targets && n < call->prototype->targets->count;
			     n++)
				mark_taken(call->prototype->targets->list[n]);
		}
	}
}

struct edge {
	uint32_t from, to;
};

struct graph {
	uint32_t nodes, edges;
	struct edge *edge;
	bool *gone;
};

/* The last node is all calls through pointers: their callers lead to it, and it leads to all functions they reach. */
static uint32_t list_edges(const struct ptx_module *m, struct edge *edge)
{
	uint32_t count = 0, pointer = m->function_count;

	for (uint32_t f = 0; f < m->function_count; f++) {
		const struct ptx_function *fn = m->functions[f]->function;

		for (uint32_t k = 0; k < fn->instr_count; k++) {
			const struct ptx_call *call = fn->instrs[k].call;

			if (call && edge)
				edge[count] = (struct edge){f, call->callee ? call->callee->index : pointer};
			count += call != NULL;
		}
		if (m->functions[f]->taken && edge)
			edge[count] = (struct edge){pointer, f};
		count += m->functions[f]->taken;
	}
	return count;
}

/* Takes away, again and again, nodes that lead nowhere (or, `backwards`, that nothing leads to): no circle has them. */
static bool trim(struct graph *g, bool backwards)
{
	uint32_t *degree = calloc(g->nodes, sizeof(*degree)), *at = calloc(g->nodes + 2u, sizeof(*at));
	uint32_t *into = calloc(g->edges + 1u, sizeof(*into)), *work = calloc(g->nodes, sizeof(*work)), count = 0;
	bool ok = degree && at && into && work;

	for (uint32_t e = 0; ok && e < g->edges; e++) {
		uint32_t from = backwards ? g->edge[e].to : g->edge[e].from;
		uint32_t to = backwards ? g->edge[e].from : g->edge[e].to;

		degree[from] += !g->gone[to];
		at[to + 2]++;
	}
	for (uint32_t n = 2; ok && n < g->nodes + 2; n++)
		at[n] += at[n - 1];
	for (uint32_t e = 0; ok && e < g->edges; e++)
		into[at[(backwards ? g->edge[e].from : g->edge[e].to) + 1]++] =
			backwards ? g->edge[e].to : g->edge[e].from;
	for (uint32_t n = 0; ok && n < g->nodes; n++)
		if (!degree[n] && !g->gone[n])
			work[count++] = n;
	for (uint32_t n = 0; ok && n < count; n++) {
		g->gone[work[n]] = true;
		for (uint32_t e = at[work[n]]; e < at[work[n] + 1]; e++)
			if (!--degree[into[e]] && !g->gone[into[e]])
				work[count++] = into[e];
	}
	free(work);
	free(into);
	free(at);
	free(degree);
	return ok;
}

static enum ptx_status find_recursive(struct ptx_module *m)
{
	struct graph g = {.nodes = m->function_count + 1, .edges = list_edges(m, NULL)};
	bool ok;

	g.edge = calloc(g.edges + 1u, sizeof(*g.edge));
	g.gone = calloc(g.nodes, sizeof(*g.gone));
	ok = g.edge && g.gone;
	if (ok)
		list_edges(m, g.edge);
	ok = ok && trim(&g, false) && trim(&g, true);
	for (uint32_t f = 0; ok && f < m->function_count; f++)
		m->functions[f]->function->recursive = !g.gone[f];
	free(g.edge);
	free(g.gone);
	return ok ? PTX_OK : PTX_NO_MEMORY;
}

enum ptx_status ptx_module_calls(struct ptx_module *m)
{
	uint32_t hash;

	if (m->function_count >= MAX_FUNCTIONS)
		return PTX_NOT_SUPPORTED;
	memcpy(&hash, m->text.bytes, sizeof(hash));
	m->function_base = FUNCTION_TAG | (uint64_t)hash << 24;
	for (uint32_t f = 0; f < m->function_count; f++)
		m->uses_heap |= is_heap(m->functions[f]);
	if (m->facts)
		return PTX_OK;
	find_taken(m);
	return find_recursive(m);
}

enum ptx_external ptx_external_find(const struct ptx_call *call)
{
	static const struct {
		const char *name;
		uint32_t args, rets; /* rets: at most */
	} externals[PTX_EXTERNAL_COUNT] = {
		[PTX_EXTERNAL_NONE] = {"", 0, 0},
		[PTX_EXTERNAL_ASSERTFAIL] = {"__assertfail", 5, 0},
		[PTX_EXTERNAL_FREE] = {"free", 1, 0},
		[PTX_EXTERNAL_MALLOC] = {"malloc", 1, 1},
		[PTX_EXTERNAL_VPRINTF] = {"vprintf", 2, 1},
		[PTX_EXTERNAL_SET_CONDITIONAL] = {"cudaGraphSetConditional", 2, 0},
		[PTX_EXTERNAL_CALL_ADDRESS] = {VCUDA_SASS_CALL, 1, 0},
	};

	for (unsigned n = PTX_EXTERNAL_ASSERTFAIL; n < PTX_EXTERNAL_COUNT; n++)
		if (!strcmp(externals[n].name, call->callee->name) && externals[n].args == call->arg_count &&
		    call->ret_count <= externals[n].rets)
			return n;
	return PTX_EXTERNAL_NONE;
}
