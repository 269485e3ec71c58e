/* SPDX-License-Identifier: Apache-2.0 */
#include "graph/graph.h"

#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "module/condition.h"
#include "module/module.h"

/* ---- conditions ---- */

static void put_conditions(struct softgpu_conditions *c)
{
	if (!c || atomic_fetch_sub(&c->refs, 1) > 1)
		return;
	for (uint32_t i = 0; !c->from && i < c->count; i++)
		softgpu_condition_drop(c->list[i].handle);
	if (c->from)
		put_conditions(c->from);
	free(c->list);
	free(c);
}

/* The graph may get more conditions while a copy runs. NULL: no memory. */
static struct softgpu_conditions *copy_conditions(struct softgpu_conditions *from)
{
	struct softgpu_conditions *c = calloc(1, sizeof(*c));

	if (!c)
		return NULL;
	*c = (struct softgpu_conditions){.refs = 1, .from = from, .count = from->count, .room = from->count};
	c->list = malloc((from->count + 1) * sizeof(*c->list));
	if (!c->list) {
		free(c);
		return NULL;
	}
	if (from->count)
		memcpy(c->list, from->list, from->count * sizeof(*c->list));
	atomic_fetch_add(&from->refs, 1);
	return c;
}

static bool has_room(struct softgpu_conditions *c)
{
	uint32_t room = c->room ? 2 * c->room : 4;
	struct softgpu_condition *larger;

	if (c->count < c->room)
		return true;
	larger = realloc(c->list, room * sizeof(*larger));
	if (!larger)
		return false;
	c->list = larger;
	c->room = room;
	return true;
}

CUresult softgpu_cuGraphConditionalHandleCreate(void *pHandle_out, void *hGraph, CUcontext ctx,
						unsigned defaultLaunchValue, unsigned flags)
{
	struct softgpu_conditions *c = ((CUgraph)hGraph)->conditions;
	uint64_t handle;

	(void)ctx;
	if (!c || flags & ~(unsigned)CU_GRAPH_COND_ASSIGN_DEFAULT)
		return CUDA_ERROR_INVALID_VALUE;
	if (!has_room(c))
		return CUDA_ERROR_OUT_OF_MEMORY;
	/* Without a default a condition is 0 until a kernel sets it. */
	handle = softgpu_condition_new(flags ? defaultLaunchValue : 0);
	if (!handle)
		return CUDA_ERROR_OUT_OF_MEMORY;
	c->list[c->count++] = (struct softgpu_condition){handle, defaultLaunchValue, flags};
	*(CUgraphConditionalHandle *)pHandle_out = handle;
	return CUDA_SUCCESS;
}

/* ---- graphs and nodes ---- */

static struct CUgraph_st *new_graph(struct softgpu_conditions *conditions, unsigned int depth)
{
	struct CUgraph_st *g = calloc(1, sizeof(*g));

	if (!g)
		return NULL;
	g->tail = &g->first;
	g->conditions = conditions;
	g->depth = depth;
	return g;
}

static void free_node(struct CUgraphNode_st *n)
{
	if (n->type == CU_GRAPH_NODE_TYPE_KERNEL)
		free(n->kernel.params);
	for (unsigned int i = 0; n->type == CU_GRAPH_NODE_TYPE_CONDITIONAL && i < n->decision.size; i++)
		if (n->decision.bodies[i])
			softgpu_graph_free(n->decision.bodies[i]);
	if (n->type == CU_GRAPH_NODE_TYPE_CONDITIONAL)
		free(n->decision.bodies);
	free(n);
}

void softgpu_graph_free(struct CUgraph_st *g)
{
	struct CUgraphNode_st *n;

	while ((n = g->first)) {
		g->first = n->next;
		free_node(n);
	}
	put_conditions(g->conditions);
	free(g);
}

static bool copy_bodies(struct CUgraphNode_st *n, const struct CUgraphNode_st *from)
{
	n->decision.bodies = calloc(n->decision.size, sizeof(*n->decision.bodies));
	if (!n->decision.bodies) {
		n->decision.size = 0;
		return false;
	}
	for (unsigned int i = 0; i < n->decision.size; i++)
		if (!(n->decision.bodies[i] = softgpu_graph_copy(from->decision.bodies[i])))
			return false;
	return true;
}

static bool copy_params(struct CUgraphNode_st *n, const struct CUgraphNode_st *from)
{
	n->kernel.params = malloc(n->kernel.bytes + 1);
	if (n->kernel.params)
		memcpy(n->kernel.params, from->kernel.params, n->kernel.bytes);
	return n->kernel.params;
}

static void append(struct CUgraph_st *g, struct CUgraphNode_st *n)
{
	n->graph = g;
	n->next = NULL;
	*g->tail = n;
	g->tail = &n->next;
}

static bool copy_node(struct CUgraph_st *g, const struct CUgraphNode_st *from)
{
	struct CUgraphNode_st *n = malloc(sizeof(*n));

	if (!n)
		return false;
	*n = *from;
	append(g, n);
	if (n->type == CU_GRAPH_NODE_TYPE_KERNEL)
		return copy_params(n, from);
	return n->type != CU_GRAPH_NODE_TYPE_CONDITIONAL || copy_bodies(n, from);
}

struct CUgraph_st *softgpu_graph_copy(const struct CUgraph_st *from)
{
	struct CUgraph_st *g = new_graph(NULL, from->depth);
	bool ok = g;

	if (g && from->conditions)
		ok = (g->conditions = copy_conditions(from->conditions));
	for (const struct CUgraphNode_st *n = from->first; ok && n; n = n->next)
		ok = copy_node(g, n);
	if (ok || !g)
		return g;
	softgpu_graph_free(g);
	return NULL;
}

CUresult softgpu_cuGraphCreate(void *phGraph, unsigned flags)
{
	struct softgpu_conditions *c = calloc(1, sizeof(*c));
	CUgraph g = c ? new_graph(c, 0) : NULL;

	(void)flags;
	if (!g) {
		free(c);
		return CUDA_ERROR_OUT_OF_MEMORY;
	}
	c->refs = 1;
	*(CUgraph *)phGraph = g;
	return CUDA_SUCCESS;
}

CUresult softgpu_cuGraphDestroy(void *hGraph)
{
	softgpu_graph_free(hGraph);
	return CUDA_SUCCESS;
}

CUresult softgpu_cuGraphDestroyNode(void *hNode)
{
	struct CUgraphNode_st *n = hNode, **at = &n->graph->first;

	while (*at != n)
		at = &(*at)->next;
	*at = n->next;
	if (!n->next)
		n->graph->tail = at;
	free_node(n);
	return CUDA_SUCCESS;
}

/* Adds a copy of the node. The copy owns the arrays that the node points to from then on. */
static CUresult add(void *node, void *graph, void *dependencies, size_t count, const struct CUgraphNode_st *from)
{
	CUgraphNode *deps = dependencies;
	struct CUgraphNode_st *n;

	for (size_t i = 0; i < count; i++)
		if (deps[i]->graph != graph)
			return CUDA_ERROR_INVALID_VALUE;
	n = malloc(sizeof(*n));
	if (!n)
		return CUDA_ERROR_OUT_OF_MEMORY;
	*n = *from;
	append(graph, n);
	*(CUgraphNode *)node = n;
	return CUDA_SUCCESS;
}

CUresult softgpu_cuGraphAddEmptyNode(void *phGraphNode, void *hGraph, void *dependencies, size_t numDependencies)
{
	const struct CUgraphNode_st n = {.type = CU_GRAPH_NODE_TYPE_EMPTY};

	return add(phGraphNode, hGraph, dependencies, numDependencies, &n);
}

CUresult softgpu_cuGraphAddKernelNode_v2(void *phGraphNode, void *hGraph, void *dependencies, size_t numDependencies,
					 void *nodeParams)
{
	const CUDA_KERNEL_NODE_PARAMS *k = nodeParams;
	struct CUgraphNode_st n = {
		.type = CU_GRAPH_NODE_TYPE_KERNEL,
		.kernel = {.function = k->func,
			   .grid = {k->gridDimX, k->gridDimY, k->gridDimZ},
			   .block = {k->blockDimX, k->blockDimY, k->blockDimZ},
			   .shared = k->sharedMemBytes},
	};
	CUresult result = softgpu_launch_pack(k->func, k->kernelParams, k->extra, &n.kernel.params, &n.kernel.bytes);

	if (result == CUDA_SUCCESS)
		result = add(phGraphNode, hGraph, dependencies, numDependencies, &n);
	if (result != CUDA_SUCCESS)
		free(n.kernel.params);
	return result;
}

CUresult softgpu_cuGraphKernelNodeSetAttribute(void *hNode, int attr, void *value)
{
	struct CUgraphNode_st *n = hNode;

	if (attr != CU_LAUNCH_ATTRIBUTE_COOPERATIVE)
		return CUDA_ERROR_NOT_SUPPORTED;
	n->kernel.cooperative = ((const CUlaunchAttributeValue *)value)->cooperative;
	return CUDA_SUCCESS;
}

CUresult softgpu_cuGraphAddMemsetNode(void *phGraphNode, void *hGraph, void *dependencies, size_t numDependencies,
				      void *memsetParams, CUcontext ctx)
{
	const CUDA_MEMSET_NODE_PARAMS *fill = memsetParams;
	const struct CUgraphNode_st n = {.type = CU_GRAPH_NODE_TYPE_MEMSET, .fill = *fill};

	(void)ctx;
	return add(phGraphNode, hGraph, dependencies, numDependencies, &n);
}

CUresult softgpu_cuGraphAddMemcpyNode(void *phGraphNode, void *hGraph, void *dependencies, size_t numDependencies,
				      void *copyParams, CUcontext ctx)
{
	const CUDA_MEMCPY3D *copy = copyParams;
	const struct CUgraphNode_st n = {.type = CU_GRAPH_NODE_TYPE_MEMCPY, .copy = *copy};

	(void)ctx;
	return add(phGraphNode, hGraph, dependencies, numDependencies, &n);
}

static bool make_bodies(struct CUgraphNode_st *n, const struct CUgraph_st *graph)
{
	n->decision.bodies = calloc(n->decision.size, sizeof(*n->decision.bodies));
	for (unsigned int i = 0; n->decision.bodies && i < n->decision.size; i++)
		if (!(n->decision.bodies[i] = new_graph(NULL, graph->depth + 1)))
			return false;
	return n->decision.bodies;
}

/* Conditional nodes only: the others have functions of their own. */
CUresult softgpu_cuGraphAddNode_v2(void *phGraphNode, void *hGraph, void *dependencies, void *dependencyData,
				   size_t numDependencies, void *nodeParams)
{
	CUDA_CONDITIONAL_NODE_PARAMS *p = &((CUgraphNodeParams *)nodeParams)->conditional;
	struct CUgraphNode_st *n, empty = {.type = CU_GRAPH_NODE_TYPE_EMPTY};
	CUresult result;
	uint32_t value;

	(void)dependencyData;
	if (((const CUgraphNodeParams *)nodeParams)->type != CU_GRAPH_NODE_TYPE_CONDITIONAL)
		return CUDA_ERROR_NOT_SUPPORTED;
	if (!p->size || !softgpu_condition_get(p->handle, &value))
		return CUDA_ERROR_INVALID_VALUE;
	if (((const struct CUgraph_st *)hGraph)->depth >= SOFTGPU_MOST_NESTED)
		return CUDA_ERROR_NOT_SUPPORTED;
	result = add(phGraphNode, hGraph, dependencies, numDependencies, &empty);
	if (result != CUDA_SUCCESS)
		return result;
	n = *(CUgraphNode *)phGraphNode;
	n->type = CU_GRAPH_NODE_TYPE_CONDITIONAL;
	n->decision.condition = p->handle;
	n->decision.type = p->type;
	n->decision.size = p->size;
	if (make_bodies(n, hGraph)) {
		p->phGraph_out = n->decision.bodies;
		return CUDA_SUCCESS;
	}
	if (!n->decision.bodies)
		n->decision.size = 0;
	softgpu_cuGraphDestroyNode(n);
	return CUDA_ERROR_OUT_OF_MEMORY;
}
