/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Executable graphs: a copy of the graph and an order of its nodes. A launch issues them in that order on one stream,
 * which honours every dependency, so that branches do not run at the same time; or all at once, if the worker keeps the
 * graph (device-graph.h).
 */
#include "graph/graph-exec.h"

#include <stdlib.h>
#include <string.h>

#include "core/hooks.h"
#include "core/init.h"
#include "core/request.h"
#include "launch/computation.h"
#include "core/capture.h"
#include "graph/conditional.h"
#include "graph/cross-context.h"
#include "graph/device-graph.h"
#include "graph/graph.h"
#include "protocol/guest-calls.h"
#include "stream/stream.h"
#include "core/thread.h"

struct exec {
	CUgraphExec handle;
	struct libcuda_graph *graph;
	struct libcuda_node **order;
	cuuint64_t flags;
	struct libcuda_device_graph device_graph;
	bool launched;
	bool replayed;                /* by the last launch */
	CUstream last;                /* resolved: where it was launched last */
	struct libcuda_context *home; /* the context of `last` */
	uint64_t generation;          /* of the context then */
};

#define KNOWN_FLAGS                                                                                                    \
	(CUDA_GRAPH_INSTANTIATE_FLAG_AUTO_FREE_ON_LAUNCH | CUDA_GRAPH_INSTANTIATE_FLAG_UPLOAD |                        \
	 CUDA_GRAPH_INSTANTIATE_FLAG_USE_NODE_PRIORITY)

static CUresult find(CUgraphExec handle, struct exec **e)
{
	CUresult result = libcuda_require_init();
	struct libcuda_object *o = libcuda_object_find(LIBCUDA_OBJECT_EXEC, handle);

	if (result != CUDA_SUCCESS)
		return result;
	*e = o ? o->data : NULL;
	return o ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

uint32_t libcuda_exec_number(CUgraphExec exec)
{
	struct exec *e;

	return find(exec, &e) == CUDA_SUCCESS ? e->graph->number : 0;
}

static void destroy(struct exec *e)
{
	libcuda_device_graph_drop(&e->device_graph);
	if (e->graph && e->graph->conditions && e->graph->conditions->exec == e)
		e->graph->conditions->exec = NULL;
	if (e->handle)
		libcuda_object_drop(e->handle);
	if (e->graph)
		libcuda_graph_free(e->graph);
	free(e->order);
	free(e);
}

/* A graph with conditional nodes is the worker's from its instantiation on, which says what is wrong with it. */
static CUresult prepare(struct exec *e, CUgraphInstantiateResult *why)
{
	struct libcuda_conditions *c = e->graph->conditions;
	CUresult result;

	if (!c)
		return CUDA_SUCCESS;
	c->exec = e;
	result = libcuda_device_graph_require(&e->device_graph, c->context, e->graph, e->order);
	if (result == CUDA_ERROR_NOT_SUPPORTED)
		*why = CUDA_GRAPH_INSTANTIATE_NODE_OPERATION_NOT_SUPPORTED;
	return result;
}

static CUresult instantiate(CUgraphExec *exec, CUgraph graph, cuuint64_t flags, CUgraphInstantiateResult *why)
{
	struct libcuda_graph *g = libcuda_graph_find(graph);
	CUresult result = libcuda_require_context();
	struct libcuda_object *o;
	struct exec *e;
	bool cycle = false;

	*why = CUDA_GRAPH_INSTANTIATE_ERROR;
	if (result != CUDA_SUCCESS)
		return result;
	if (!exec || !g)
		return CUDA_ERROR_INVALID_VALUE;
	if (flags & ~(cuuint64_t)KNOWN_FLAGS)
		return flags & CUDA_GRAPH_INSTANTIATE_FLAG_DEVICE_LAUNCH && libcuda_graph_can_be_copied(g)
			       ? CUDA_ERROR_NOT_SUPPORTED
			       : CUDA_ERROR_INVALID_VALUE;
	if (g->decides)
		return CUDA_ERROR_NOT_SUPPORTED;
	result = libcuda_capture_unsafe();
	if (result == CUDA_SUCCESS)
		result = libcuda_conditions_check(g, why);
	if (result != CUDA_SUCCESS)
		return result;
	e = calloc(1, sizeof(*e));
	if (!e)
		return CUDA_ERROR_OUT_OF_MEMORY;
	e->flags = flags;
	e->graph = libcuda_graph_clone(g, libcuda_context_current());
	if (e->graph)
		e->order = libcuda_graph_order(e->graph, &cycle);
	/* The address behind the copy's handle is unique: no other object has it. */
	o = e->order ? libcuda_object_add(LIBCUDA_OBJECT_EXEC, (char *)e->graph->handle + 1, NULL, NULL) : NULL;
	if (!o) {
		destroy(e);
		*why = cycle ? CUDA_GRAPH_INSTANTIATE_INVALID_STRUCTURE : CUDA_GRAPH_INSTANTIATE_ERROR;
		return cycle ? CUDA_ERROR_INVALID_VALUE : CUDA_ERROR_OUT_OF_MEMORY;
	}
	e->handle = (CUgraphExec)((char *)e->graph->handle + 1);
	libcuda_graph_number_nodes(e->graph);
	result = prepare(e, why);
	if (result != CUDA_SUCCESS) {
		destroy(e);
		return result;
	}
	e->graph->owned = true;
	o->data = e;
	*exec = e->handle;
	*why = CUDA_GRAPH_INSTANTIATE_SUCCESS;
	return CUDA_SUCCESS;
}

/* Two launches of one executable graph do not overlap. */
static CUresult after_last_launch(struct exec *e, const struct libcuda_graph_run *run)
{
	struct libcuda_context *here = libcuda_request_context(&run->how);
	struct call_options in_home;

	if (!e->launched || (e->last == run->resolved && e->home == here))
		return CUDA_SUCCESS;
	/* Nothing more happens in a context that has failed or ended. */
	if (atomic_load(&e->home->generation) != e->generation || libcuda_context_usable(e->home) != CUDA_SUCCESS)
		return CUDA_SUCCESS;
	if (!e->last || e->last == CU_STREAM_LEGACY || libcuda_object_find(LIBCUDA_OBJECT_STREAM, e->last))
		return libcuda_streams_order(e->last, e->home, run->resolved, here);
	/* A stream that is gone finishes its work, but cannot be asked any more. */
	in_home = libcuda_context_options(e->home);
	return vcuda_call_cuCtxSynchronize_with(&in_home);
}

static CUresult replay(struct exec *e, const struct libcuda_graph_run *run)
{
	CUresult result = after_last_launch(e, run);

	for (size_t i = 0; i < e->graph->count && result == CUDA_SUCCESS; i++)
		result = libcuda_node_run(e->order[i], run);
	e->replayed = true;
	if (result == CUDA_SUCCESS)
		libcuda_device_graph_replayed(&e->device_graph);
	return result;
}

static CUresult launch_conditional(struct exec *e, const struct libcuda_graph_run *run)
{
	CUresult result =
		libcuda_device_graph_require(&e->device_graph, libcuda_request_context(&run->how), e->graph, e->order);

	/* After a change it is another one of the worker's, of which that orders no launches. */
	if (result == CUDA_SUCCESS)
		result = after_last_launch(e, run);
	return result == CUDA_SUCCESS ? libcuda_device_graph_launch(&e->device_graph, &run->how, run->resolved)
				      : result;
}

static CUresult launch(struct exec *e, const struct libcuda_graph_run *run)
{
	CUresult result = CUDA_SUCCESS;

	if (e->graph->conditions)
		return launch_conditional(e, run);
	if (atomic_load_explicit(&libcuda_hook_nodes, memory_order_relaxed) ||
	    !libcuda_device_graph_prepare(&e->device_graph, libcuda_request_context(&run->how), e->graph, e->order))
		return replay(e, run);
	/* The host's driver keeps its own launches in order. */
	if (e->replayed)
		result = after_last_launch(e, run);
	if (result == CUDA_SUCCESS)
		result = libcuda_device_graph_launch(&e->device_graph, &run->how, run->resolved);
	e->replayed &= result != CUDA_SUCCESS;
	return result;
}

static CUresult launch_resolved(CUgraphExec exec, struct libcuda_graph_run *run)
{
	CUgraphNodeParams p = {.type = CU_GRAPH_NODE_TYPE_GRAPH};
	struct exec *e;
	CUresult result = find(exec, &e);

	if (result != CUDA_SUCCESS)
		return result;
	p.graph.graph = e->graph->handle;
	if (libcuda_capture_takes(&run->how, run->resolved, &p, &result))
		return result;
	run->frees_first = e->flags & CUDA_GRAPH_INSTANTIATE_FLAG_AUTO_FREE_ON_LAUNCH;
	libcuda_thread()->launched = (struct vcuda_profile_node){.graph = e->graph->number};
	result = launch(e, run);
	libcuda_thread()->launched = (struct vcuda_profile_node){0};
	e->launched = true;
	e->last = run->resolved;
	e->home = libcuda_request_context(&run->how);
	e->generation = atomic_load(&e->home->generation);
	return result;
}

VCUDA_EXPORT CUresult cuGraphLaunch(CUgraphExec exec, CUstream stream)
{
	struct libcuda_graph_run run = {.stream = stream, .resolved = stream};
	CUresult result = libcuda_stream_visit(&run.resolved, &run.how);

	return result == CUDA_SUCCESS ? launch_resolved(exec, &run) : result;
}

/* There is nothing to prepare. */
VCUDA_EXPORT CUresult cuGraphUpload(CUgraphExec exec, CUstream stream)
{
	CUresult result = libcuda_stream_enter(&stream);
	struct exec *e;

	return result == CUDA_SUCCESS ? find(exec, &e) : result;
}

VCUDA_EXPORT CUresult cuGraphExecDestroy(CUgraphExec exec)
{
	struct exec *e;
	CUresult result = find(exec, &e);

	if (result == CUDA_SUCCESS)
		result = libcuda_capture_unsafe();
	if (result == CUDA_SUCCESS)
		destroy(e);
	return result;
}

VCUDA_EXPORT CUresult cuGraphExecGetFlags(CUgraphExec exec, cuuint64_t *flags)
{
	struct exec *e;
	CUresult result = find(exec, &e);

	if (result != CUDA_SUCCESS)
		return result;
	if (!flags)
		return CUDA_ERROR_INVALID_VALUE;
	*flags = e->flags;
	return CUDA_SUCCESS;
}

/* ---- instantiation, in all its versions ---- */

VCUDA_EXPORT CUresult cuGraphInstantiateWithParams(CUgraphExec *exec, CUgraph graph,
						   CUDA_GRAPH_INSTANTIATE_PARAMS *params)
{
	if (!params)
		return libcuda_invalid_value();
	params->hErrNode_out = NULL;
	return instantiate(exec, graph, params->flags, &params->result_out);
}

VCUDA_EXPORT CUresult cuGraphInstantiateWithFlags(CUgraphExec *exec, CUgraph graph, cuuint64_t flags)
{
	CUgraphInstantiateResult why;

	return instantiate(exec, graph, flags, &why);
}

VCUDA_EXPORT CUresult cuGraphInstantiate_v2(CUgraphExec *exec, CUgraph graph, CUgraphNode *error, char *log,
					    size_t bytes)
{
	if (error)
		*error = NULL;
	if (log && bytes)
		*log = 0;
	return cuGraphInstantiateWithFlags(exec, graph, 0);
}

VCUDA_SAME(cuGraphInstantiate, cuGraphInstantiate_v2);

/* ---- changes ---- */

/* Also in bodies of conditional nodes. */
static struct libcuda_node *find_within(const struct libcuda_graph *g, const struct libcuda_node *node)
{
	struct libcuda_node *found = libcuda_graph_copy_of(g, node);

	for (const struct libcuda_node *n = g->first; n && !found; n = n->next)
		for (unsigned int i = 0;
		     n->type == CU_GRAPH_NODE_TYPE_CONDITIONAL && i < n->conditional.params.size && !found; i++)
			found = find_within(n->conditional.bodies[i], node);
	return found;
}

static CUresult find_copy(CUgraphExec exec, CUgraphNode node, struct exec **e, struct libcuda_node **copy)
{
	struct libcuda_node *n = libcuda_node_find(node);
	CUresult result = find(exec, e);

	if (result != CUDA_SUCCESS)
		return result;
	*copy = n ? find_within((*e)->graph, n) : NULL;
	return *copy ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

CUresult libcuda_exec_set(CUgraphExec exec, CUgraphNode node, const CUgraphNodeParams *params)
{
	struct libcuda_node *copy;
	struct exec *e;
	CUresult result = find_copy(exec, node, &e, &copy);

	if (result != CUDA_SUCCESS)
		return result;
	if (!libcuda_node_may_become(copy, params))
		return CUDA_ERROR_INVALID_VALUE;
	libcuda_device_graph_changed(&e->device_graph);
	result = libcuda_node_set(copy, libcuda_context_current(), params);
	if (result == CUDA_SUCCESS)
		libcuda_node_set_source(copy, libcuda_node_find(node));
	return result;
}

static bool may_be_disabled(const struct libcuda_node *n)
{
	CUgraphNodeType type = libcuda_node_type_shown(n->type);

	return type == CU_GRAPH_NODE_TYPE_KERNEL || type == CU_GRAPH_NODE_TYPE_MEMCPY ||
	       type == CU_GRAPH_NODE_TYPE_MEMSET;
}

VCUDA_EXPORT CUresult cuGraphNodeSetEnabled(CUgraphExec exec, CUgraphNode node, unsigned int enabled)
{
	struct libcuda_node *copy;
	struct exec *e;
	CUresult result = find_copy(exec, node, &e, &copy);

	if (result != CUDA_SUCCESS)
		return result;
	if (!may_be_disabled(copy))
		return CUDA_ERROR_INVALID_VALUE;
	if (copy->enabled != !!enabled)
		libcuda_device_graph_changed(&e->device_graph);
	copy->enabled = enabled;
	return CUDA_SUCCESS;
}

VCUDA_EXPORT CUresult cuGraphNodeGetEnabled(CUgraphExec exec, CUgraphNode node, unsigned int *enabled)
{
	struct libcuda_node *copy;
	struct exec *e;
	CUresult result = find_copy(exec, node, &e, &copy);

	if (result != CUDA_SUCCESS)
		return result;
	if (!enabled || !may_be_disabled(copy))
		return CUDA_ERROR_INVALID_VALUE;
	*enabled = copy->enabled;
	return CUDA_SUCCESS;
}

/* The place of a node in its graph, by which nodes of an update are matched. */
static size_t place(const struct libcuda_node *node)
{
	size_t i = 0;

	for (const struct libcuda_node *n = node->graph->first; n != node; n = n->next)
		i++;
	return i;
}

static bool same_edges(const struct libcuda_node *a, const struct libcuda_node *b)
{
	if (a->dep_count != b->dep_count)
		return false;
	for (size_t i = 0; i < a->dep_count; i++)
		if (place(a->deps[i]) != place(b->deps[i]))
			return false;
	return true;
}

static CUgraphExecUpdateResult update_child(struct libcuda_graph *to, const struct libcuda_graph *from,
					    const struct libcuda_node **bad);

/* The node gets the condition and the bodies of `from`. */
static CUgraphExecUpdateResult update_conditional(struct libcuda_node *n, const struct libcuda_node *from,
						  const struct libcuda_node **bad)
{
	CUgraphExecUpdateResult result = CU_GRAPH_EXEC_UPDATE_SUCCESS;

	if (n->conditional.params.type != from->conditional.params.type ||
	    n->conditional.params.size != from->conditional.params.size)
		return CU_GRAPH_EXEC_UPDATE_ERROR_PARAMETERS_CHANGED;
	for (unsigned int i = 0; i < n->conditional.params.size && result == CU_GRAPH_EXEC_UPDATE_SUCCESS; i++)
		result = update_child(n->conditional.bodies[i], from->conditional.bodies[i], bad);
	if (result == CU_GRAPH_EXEC_UPDATE_SUCCESS)
		n->conditional.params.handle = from->conditional.params.handle;
	return result;
}

/* The node of the executable graph gets the parameters of `from`. */
static CUgraphExecUpdateResult update_node(struct libcuda_node *n, const struct libcuda_node *from,
					   const struct libcuda_node **bad)
{
	CUgraphNodeParams p;
	CUresult result;

	*bad = from;
	if (n->type == CU_GRAPH_NODE_TYPE_GRAPH)
		return update_child(n->child, from->child, bad);
	if (n->type == CU_GRAPH_NODE_TYPE_CONDITIONAL)
		return update_conditional(n, from, bad);
	/* Memory stays where it is. */
	if (n->type == CU_GRAPH_NODE_TYPE_MEM_ALLOC)
		return n->alloc.memory == from->alloc.memory ? CU_GRAPH_EXEC_UPDATE_SUCCESS
							     : CU_GRAPH_EXEC_UPDATE_ERROR_PARAMETERS_CHANGED;
	if (n->type == CU_GRAPH_NODE_TYPE_KERNEL &&
	    (n->kernel.launch.cooperative != from->kernel.launch.cooperative ||
	     memcmp(n->kernel.launch.cluster, from->kernel.launch.cluster, sizeof(n->kernel.launch.cluster))))
		return CU_GRAPH_EXEC_UPDATE_ERROR_ATTRIBUTES_CHANGED;
	libcuda_node_get(from, &p);
	if (!libcuda_node_may_become(n, &p))
		return CU_GRAPH_EXEC_UPDATE_ERROR_PARAMETERS_CHANGED;
	result = libcuda_node_set(n, libcuda_context_current(), &p);
	if (result == CUDA_SUCCESS)
		libcuda_node_set_source(n, from);
	return result == CUDA_SUCCESS ? CU_GRAPH_EXEC_UPDATE_SUCCESS : CU_GRAPH_EXEC_UPDATE_ERROR;
}

static CUgraphExecUpdateResult update_child(struct libcuda_graph *to, const struct libcuda_graph *from,
					    const struct libcuda_node **bad)
{
	const struct libcuda_node *f = from->first;
	CUgraphExecUpdateResult result = CU_GRAPH_EXEC_UPDATE_SUCCESS;

	*bad = NULL;
	if (to->count != from->count)
		return CU_GRAPH_EXEC_UPDATE_ERROR_TOPOLOGY_CHANGED;
	/* All is compared before anything is changed. */
	for (struct libcuda_node *n = to->first; n; n = n->next, f = f->next) {
		*bad = f;
		if (n->type != f->type)
			return CU_GRAPH_EXEC_UPDATE_ERROR_NODE_TYPE_CHANGED;
		if (!same_edges(n, f))
			return CU_GRAPH_EXEC_UPDATE_ERROR_TOPOLOGY_CHANGED;
	}
	f = from->first;
	for (struct libcuda_node *n = to->first; n && result == CU_GRAPH_EXEC_UPDATE_SUCCESS; n = n->next, f = f->next)
		result = update_node(n, f, bad);
	return result;
}

/* Whether the executable graph may have the conditions of `from`. */
static CUgraphExecUpdateResult check_conditions(const struct exec *e, const struct libcuda_graph *from)
{
	const struct libcuda_conditions *c = e->graph->conditions, *other = from->conditions;

	if (!other != !c)
		return CU_GRAPH_EXEC_UPDATE_ERROR_TOPOLOGY_CHANGED;
	return other != c && (other->exec || other->context != c->context) ? CU_GRAPH_EXEC_UPDATE_ERROR_NOT_SUPPORTED
									   : CU_GRAPH_EXEC_UPDATE_SUCCESS;
}

static void take_conditions(struct exec *e, const struct libcuda_graph *from)
{
	struct libcuda_conditions *c = e->graph->conditions;

	if (from->conditions == c)
		return;
	c->exec = NULL;
	e->graph->conditions = from->conditions;
	e->graph->conditions->exec = e;
	libcuda_conditions_get(e->graph->conditions);
	libcuda_conditions_put(c);
}

VCUDA_EXPORT CUresult cuGraphExecUpdate_v2(CUgraphExec exec, CUgraph graph, CUgraphExecUpdateResultInfo *info)
{
	struct libcuda_graph *g = libcuda_graph_find(graph);
	const struct libcuda_node *bad = NULL;
	struct exec *e;
	CUresult result = find(exec, &e);

	if (result != CUDA_SUCCESS)
		return result;
	if (!info || !g)
		return CUDA_ERROR_INVALID_VALUE;
	libcuda_device_graph_changed(&e->device_graph);
	*info = (CUgraphExecUpdateResultInfo){.result = check_conditions(e, g)};
	if (info->result == CU_GRAPH_EXEC_UPDATE_SUCCESS)
		info->result = update_child(e->graph, g, &bad);
	if (info->result == CU_GRAPH_EXEC_UPDATE_SUCCESS) {
		take_conditions(e, g);
		return CUDA_SUCCESS;
	}
	info->errorNode = bad ? bad->handle : NULL;
	return CUDA_ERROR_GRAPH_EXEC_UPDATE_FAILURE;
}

VCUDA_EXPORT CUresult cuGraphExecUpdate(CUgraphExec exec, CUgraph graph, CUgraphNode *node,
					CUgraphExecUpdateResult *why)
{
	CUgraphExecUpdateResultInfo info = {0};
	CUresult result = cuGraphExecUpdate_v2(exec, graph, &info);

	if (node)
		*node = info.errorNode;
	if (why)
		*why = info.result;
	return result;
}

/* ---- the same with per-thread default streams ---- */

VCUDA_EXPORT CUresult cuGraphInstantiateWithParams_ptsz(CUgraphExec *exec, CUgraph graph,
							CUDA_GRAPH_INSTANTIATE_PARAMS *params)
{
	return cuGraphInstantiateWithParams(exec, graph, params);
}
