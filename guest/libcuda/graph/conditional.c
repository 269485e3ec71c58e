/* SPDX-License-Identifier: Apache-2.0 */
#include "graph/conditional.h"

#include <pthread.h>
#include <stdlib.h>

#include "common/log.h"
#include "copy/copy-array.h"
#include "core/hooks.h"
#include "core/init.h"
#include "core/request.h"
#include "protocol/cuda-functions.h"
#include "protocol/guest-calls.h"

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER; /* of the list, and of `id` in it */
static struct libcuda_conditions *all;

/* ---- the conditions of a graph ---- */

void libcuda_conditions_get(struct libcuda_conditions *c)
{
	atomic_fetch_add(&c->refs, 1);
}

/* Takes the worker's graph from the conditions. NULL: it is gone. */
static vcuda_graph_id take_id(struct libcuda_conditions *c)
{
	vcuda_graph_id id;

	pthread_mutex_lock(&lock);
	id = c->id;
	c->id = NULL;
	pthread_mutex_unlock(&lock);
	return id;
}

static void destroy_id(const struct libcuda_conditions *c, vcuda_graph_id id)
{
	const struct call_options how = libcuda_context_options(c->context);

	if (id)
		vcuda_call_vcudaGraphDestroy_with(&how, id);
}

void libcuda_conditions_put(struct libcuda_conditions *c)
{
	struct libcuda_condition *condition;

	if (!c || atomic_fetch_sub(&c->refs, 1) > 1)
		return;
	destroy_id(c, take_id(c));
	pthread_mutex_lock(&lock);
	for (struct libcuda_conditions **at = &all; *at; at = &(*at)->next) {
		if (*at != c)
			continue;
		*at = c->next;
		break;
	}
	pthread_mutex_unlock(&lock);
	while ((condition = c->first)) {
		c->first = condition->next;
		free(condition);
	}
	free(c);
}

/* The context is about to end. */
static void end_context(struct libcuda_context *context)
{
	struct libcuda_conditions *c;
	vcuda_graph_id id;

	do {
		pthread_mutex_lock(&lock);
		for (c = all; c && (c->context != context || !c->id); c = c->next)
			continue;
		id = c ? c->id : NULL;
		if (c)
			c->id = NULL;
		pthread_mutex_unlock(&lock);
		if (id)
			vcuda_call_vcudaGraphDestroy_with(&(struct call_options){.context = &context->calls}, id);
	} while (id);
}

static struct libcuda_observer observer = {.context_ends = end_context};

__attribute__((constructor)) static void start(void)
{
	libcuda_observe(&observer);
}

static CUresult make_conditions(struct libcuda_context *context, struct libcuda_conditions **conditions)
{
	const struct call_options how = libcuda_context_options(context);
	struct libcuda_conditions *c = calloc(1, sizeof(*c));
	CUresult result;

	if (!c)
		return CUDA_ERROR_OUT_OF_MEMORY;
	c->refs = 1;
	c->context = context;
	result = vcuda_call_vcudaGraphCreateConditional_with(&how, &c->id);
	if (result != CUDA_SUCCESS) {
		if (result == CUDA_ERROR_NOT_SUPPORTED)
			vcuda_log_once("the host's driver or vcudad has no graphs with conditional nodes");
		free(c);
		return result;
	}
	pthread_mutex_lock(&lock);
	c->next = all;
	all = c;
	pthread_mutex_unlock(&lock);
	*conditions = c;
	return CUDA_SUCCESS;
}

static CUresult add_condition(struct libcuda_conditions *c, unsigned int value, unsigned int flags,
			      CUgraphConditionalHandle *handle)
{
	const struct call_options how = libcuda_context_options(c->context);
	struct libcuda_condition *condition = malloc(sizeof(*condition));
	CUresult result;

	if (!condition)
		return CUDA_ERROR_OUT_OF_MEMORY;
	result = vcuda_call_vcudaGraphAddCondition_with(&how, c->id, value, flags, &condition->handle);
	if (result != CUDA_SUCCESS) {
		free(condition);
		return result;
	}
	condition->next = c->first;
	c->first = condition;
	*handle = condition->handle;
	return CUDA_SUCCESS;
}

VCUDA_EXPORT CUresult cuGraphConditionalHandleCreate(CUgraphConditionalHandle *handle, CUgraph graph, CUcontext ctx,
						     unsigned int value, unsigned int flags)
{
	struct libcuda_graph *g = libcuda_graph_find(graph);
	struct libcuda_context *context;
	CUresult result;

	/* NULL is not the current context here. */
	if (!ctx)
		return CUDA_ERROR_INVALID_CONTEXT;
	result = libcuda_context_named(ctx, &context);
	if (result == CUDA_SUCCESS)
		result = libcuda_context_usable(context);
	if (result != CUDA_SUCCESS)
		return result;
	if (!handle || !g || flags & ~(unsigned int)CU_GRAPH_COND_ASSIGN_DEFAULT)
		return CUDA_ERROR_INVALID_VALUE;
	g = libcuda_graph_root(g);
	if (!g->conditions)
		result = make_conditions(context, &g->conditions);
	if (result != CUDA_SUCCESS)
		return result;
	if (g->conditions->context != context || !g->conditions->id)
		return CUDA_ERROR_INVALID_CONTEXT;
	return add_condition(g->conditions, value, flags, handle);
}

/* ---- graphs ---- */

struct libcuda_graph *libcuda_graph_root(struct libcuda_graph *g)
{
	while (g->decides)
		g = g->decides->graph;
	return g;
}

static unsigned int depth_of(const struct libcuda_graph *g)
{
	unsigned int depth = 0;

	for (; g->decides; g = g->decides->graph)
		depth++;
	return depth;
}

static bool has_conditional(const struct libcuda_graph *g)
{
	const struct libcuda_node *n = g->first;

	while (n && n->type != CU_GRAPH_NODE_TYPE_CONDITIONAL)
		n = n->next;
	return n;
}

bool libcuda_graph_can_be_copied(const struct libcuda_graph *g)
{
	return !g->decides && !has_conditional(g);
}

/* The number of nodes with the condition, in a graph and its bodies. */
static unsigned int count_uses(const struct libcuda_graph *g, CUgraphConditionalHandle handle)
{
	unsigned int uses = 0;

	for (const struct libcuda_node *n = g->first; n; n = n->next) {
		if (n->type != CU_GRAPH_NODE_TYPE_CONDITIONAL)
			continue;
		uses += n->conditional.params.handle == handle;
		for (unsigned int i = 0; n->conditional.bodies && i < n->conditional.params.size; i++)
			uses += count_uses(n->conditional.bodies[i], handle);
	}
	return uses;
}

/* ---- the nodes that a body may have ---- */

static bool is_pageable(const struct libcuda_box_side *side)
{
	return !side->array && side->kind == LIBCUDA_MEMORY_PAGEABLE;
}

static bool copies_pageable(const struct libcuda_context *context, const CUDA_MEMCPY3D *description)
{
	struct libcuda_box_copy c;

	return libcuda_box_copy_check(context, description, &c) == CUDA_SUCCESS && !libcuda_box_is_empty(&c.box) &&
	       (is_pageable(&c.to) || is_pageable(&c.from));
}

static CUgraphInstantiateResult check_body(const struct libcuda_context *context, const struct libcuda_graph *body);

static CUgraphInstantiateResult check_bodies_of(const struct libcuda_context *context, const struct libcuda_node *n)
{
	CUgraphInstantiateResult why = CUDA_GRAPH_INSTANTIATE_SUCCESS;

	for (unsigned int i = 0; i < n->conditional.params.size && why == CUDA_GRAPH_INSTANTIATE_SUCCESS; i++)
		why = check_body(context, n->conditional.bodies[i]);
	return why;
}

/* As NVIDIA's driver says it. */
static CUgraphInstantiateResult check_node(const struct libcuda_context *context, const struct libcuda_node *n)
{
	switch (n->type) {
	case CU_GRAPH_NODE_TYPE_HOST:
	case CU_GRAPH_NODE_TYPE_EVENT_RECORD:
	case CU_GRAPH_NODE_TYPE_WAIT_EVENT:
	case CU_GRAPH_NODE_TYPE_EXT_SEMAS_SIGNAL:
	case CU_GRAPH_NODE_TYPE_EXT_SEMAS_WAIT:
	case CU_GRAPH_NODE_TYPE_MEM_ALLOC:
	case CU_GRAPH_NODE_TYPE_MEM_FREE:
		return CUDA_GRAPH_INSTANTIATE_NODE_OPERATION_NOT_SUPPORTED;
	case CU_GRAPH_NODE_TYPE_MEMCPY:
		return copies_pageable(context, &n->memcpy) ? CUDA_GRAPH_INSTANTIATE_MULTIPLE_CTXS_NOT_SUPPORTED
							    : CUDA_GRAPH_INSTANTIATE_SUCCESS;
	case CU_GRAPH_NODE_TYPE_GRAPH:
		return check_body(context, n->child);
	case CU_GRAPH_NODE_TYPE_CONDITIONAL:
		return check_bodies_of(context, n);
	default:
		return CUDA_GRAPH_INSTANTIATE_SUCCESS;
	}
}

static CUgraphInstantiateResult check_body(const struct libcuda_context *context, const struct libcuda_graph *body)
{
	CUgraphInstantiateResult why = CUDA_GRAPH_INSTANTIATE_SUCCESS;

	for (const struct libcuda_node *n = body->first; n && why == CUDA_GRAPH_INSTANTIATE_SUCCESS; n = n->next)
		why = check_node(context, n);
	return why;
}

/* Looks at the bodies of a graph. The graph itself may have nodes of any kind. */
static CUresult check_bodies(const struct libcuda_graph *g, CUgraphInstantiateResult *why)
{
	for (const struct libcuda_node *n = g->first; n; n = n->next) {
		CUgraphInstantiateResult wrong = n->type == CU_GRAPH_NODE_TYPE_CONDITIONAL
							 ? check_bodies_of(g->conditions->context, n)
							 : CUDA_GRAPH_INSTANTIATE_SUCCESS;

		if (wrong == CUDA_GRAPH_INSTANTIATE_SUCCESS)
			continue;
		*why = wrong;
		return CUDA_ERROR_INVALID_VALUE;
	}
	return CUDA_SUCCESS;
}

CUresult libcuda_conditions_check(const struct libcuda_graph *g, CUgraphInstantiateResult *why)
{
	const struct libcuda_condition *c = g->conditions ? g->conditions->first : NULL;

	while (c && count_uses(g, c->handle) == 1)
		c = c->next;
	if (c) {
		*why = CUDA_GRAPH_INSTANTIATE_CONDITIONAL_HANDLE_UNUSED;
		return CUDA_ERROR_INVALID_VALUE;
	}
	if (g->conditions && g->conditions->exec) {
		vcuda_log_once("a graph with conditional nodes is instantiated twice: only one executable graph of it "
			       "can exist");
		return CUDA_ERROR_NOT_SUPPORTED;
	}
	/* One whose context has ended is refused later. */
	return g->conditions && g->conditions->id ? check_bodies(g, why) : CUDA_SUCCESS;
}

/* ---- nodes ---- */

static bool has_condition(const struct libcuda_conditions *conditions, CUgraphConditionalHandle handle)
{
	const struct libcuda_condition *c = conditions ? conditions->first : NULL;

	while (c && c->handle != handle)
		c = c->next;
	return c;
}

static bool is_size(const CUDA_CONDITIONAL_NODE_PARAMS *p)
{
	switch (p->type) {
	case CU_GRAPH_COND_TYPE_IF:
		return p->size == 1 || p->size == 2;
	case CU_GRAPH_COND_TYPE_WHILE:
		return p->size == 1;
	case CU_GRAPH_COND_TYPE_SWITCH:
		return p->size > 0;
	default:
		return false;
	}
}

/* Takes `body`, which may be NULL: no memory. */
static bool set_body(struct libcuda_node *n, unsigned int i, struct libcuda_graph *body)
{
	if (!body)
		return false;
	body->owned = true;
	body->decides = n;
	n->conditional.bodies[i] = body;
	n->conditional.params.phGraph_out[i] = body->handle;
	return true;
}

/* `from`: what the bodies are copies of, or NULL. */
static CUresult make_bodies(struct libcuda_node *n, const CUDA_CONDITIONAL_NODE_PARAMS *p,
			    struct libcuda_graph *const *from)
{
	bool ok;

	n->conditional.params = *p;
	n->conditional.bodies = calloc(p->size, sizeof(struct libcuda_graph *));
	n->conditional.params.phGraph_out = calloc(p->size, sizeof(CUgraph));
	ok = n->conditional.bodies && n->conditional.params.phGraph_out;
	for (unsigned int i = 0; ok && i < p->size; i++)
		ok = set_body(n, i, from ? libcuda_graph_clone(from[i], n->context) : libcuda_graph_new());
	return ok ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
}

CUresult libcuda_conditional_set(struct libcuda_node *n, const CUgraphNodeParams *params)
{
	CUDA_CONDITIONAL_NODE_PARAMS p = params->conditional;
	const struct libcuda_graph *root = libcuda_graph_root(n->graph);

	/* A conditional node keeps its condition and its bodies. */
	if (n->conditional.bodies)
		return CUDA_ERROR_NOT_SUPPORTED;
	if (!is_size(&p) || !has_condition(root->conditions, p.handle) || count_uses(root, p.handle))
		return CUDA_ERROR_INVALID_VALUE;
	if (!p.ctx)
		return CUDA_ERROR_INVALID_CONTEXT;
	if (libcuda_context_find(p.ctx) != root->conditions->context)
		return CUDA_ERROR_INVALID_VALUE;
	if (depth_of(n->graph) >= LIBCUDA_MOST_NESTED) {
		vcuda_log_once("conditional nodes of a graph are nested more than %d deep", LIBCUDA_MOST_NESTED);
		return CUDA_ERROR_NOT_SUPPORTED;
	}
	p.ctx = libcuda_context_handle(root->conditions->context);
	return make_bodies(n, &p, NULL);
}

CUresult libcuda_conditional_copy(struct libcuda_node *n, const struct libcuda_node *from)
{
	return make_bodies(n, &from->conditional.params, from->conditional.bodies);
}

void libcuda_conditional_drop(struct libcuda_node *n)
{
	for (unsigned int i = 0; n->conditional.bodies && i < n->conditional.params.size; i++)
		if (n->conditional.bodies[i])
			libcuda_graph_free(n->conditional.bodies[i]);
	if (n->conditional.bodies)
		free(n->conditional.params.phGraph_out);
	free(n->conditional.bodies);
}
