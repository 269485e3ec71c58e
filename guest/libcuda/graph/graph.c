/* SPDX-License-Identifier: Apache-2.0 */
/* Graphs and what connects their nodes. */
#include "graph/graph.h"

#include <stdlib.h>
#include <string.h>

#include "core/request.h"
#include "graph/conditional.h"
#include "launch/computation.h"
#include "protocol/cuda-functions.h"

/* Handles that no id of the worker's equals. */
#define HANDLE(number) ((void *)((number) << 8 | 0x8000000000000000ull))

static _Atomic uint64_t numbers;
static _Atomic uint32_t graph_numbers;
static _Atomic unsigned int last_walk;

static void *new_handle(enum libcuda_object_kind kind, void *data)
{
	void *handle = HANDLE(atomic_fetch_add(&numbers, 1) + 1);
	struct libcuda_object *o = libcuda_object_add(kind, handle, NULL, NULL);

	if (!o)
		return NULL;
	o->data = data;
	return handle;
}

struct libcuda_graph *libcuda_graph_find(CUgraph handle)
{
	struct libcuda_object *o = libcuda_object_find(LIBCUDA_OBJECT_GRAPH, handle);

	return o ? o->data : NULL;
}

struct libcuda_node *libcuda_node_find(CUgraphNode handle)
{
	struct libcuda_object *o = libcuda_object_find(LIBCUDA_OBJECT_NODE, handle);

	return o ? o->data : NULL;
}

struct libcuda_graph *libcuda_graph_new(void)
{
	struct libcuda_graph *g = calloc(1, sizeof(*g));

	if (!g)
		return NULL;
	g->tail = &g->first;
	g->handle = new_handle(LIBCUDA_OBJECT_GRAPH, g);
	g->number = atomic_fetch_add(&graph_numbers, 1) + 1;
	if (g->handle)
		return g;
	free(g);
	return NULL;
}

static void free_node(struct libcuda_node *n)
{
	if (n->handle)
		libcuda_object_drop(n->handle);
	libcuda_node_drop(n);
	free(n->deps);
	free(n);
}

void libcuda_graph_free(struct libcuda_graph *g)
{
	struct libcuda_node *n;

	while ((n = g->first)) {
		g->first = n->next;
		free_node(n);
	}
	libcuda_user_references_drop(g);
	libcuda_conditions_put(g->conditions);
	libcuda_object_drop(g->handle);
	free(g);
}

static void number_node(struct libcuda_node *n, uint32_t graph, uint32_t index)
{
	n->ids.graph = graph;
	n->ids.node = (uint64_t)graph << 32 | index;
}

/* `next`: the first number that is not taken. Returns the first one that is not taken then. */
static uint32_t number_nodes(struct libcuda_graph *g, uint32_t graph, uint32_t next)
{
	for (struct libcuda_node *n = g->first; n; n = n->next)
		number_node(n, graph, next++);
	for (struct libcuda_node *n = g->first; n; n = n->next)
		if (n->type == CU_GRAPH_NODE_TYPE_GRAPH)
			next = number_nodes(n->child, graph, next);
	return next;
}

void libcuda_graph_number_nodes(struct libcuda_graph *g)
{
	number_nodes(g, g->number, 0);
}

/* An empty node at the end of the graph. NULL: no memory. */
static struct libcuda_node *append(struct libcuda_graph *g, CUgraphNodeType type)
{
	struct libcuda_node *n = calloc(1, sizeof(*n));

	if (!n)
		return NULL;
	n->handle = new_handle(LIBCUDA_OBJECT_NODE, n);
	if (!n->handle) {
		free(n);
		return NULL;
	}
	n->type = type;
	n->enabled = true;
	n->origin = (uintptr_t)n->handle;
	number_node(n, g->number, g->added++);
	n->graph = g;
	*g->tail = n;
	g->tail = &n->next;
	g->count++;
	return n;
}

static void take_out(struct libcuda_graph *g, struct libcuda_node *node)
{
	struct libcuda_node **at = &g->first;

	while (*at != node)
		at = &(*at)->next;
	*at = node->next;
	if (!node->next)
		g->tail = at;
	g->count--;
}

static bool depends(const struct libcuda_node *n, const struct libcuda_node *on)
{
	for (size_t i = 0; i < n->dep_count; i++)
		if (n->deps[i] == on)
			return true;
	return false;
}

static bool add_dep(struct libcuda_node *n, struct libcuda_node *on)
{
	if (n->dep_count == n->dep_room) {
		size_t room = n->dep_room ? 2 * n->dep_room : 4;
		struct libcuda_node **larger = realloc(n->deps, room * sizeof(*larger));

		if (!larger)
			return false;
		n->deps = larger;
		n->dep_room = room;
	}
	n->deps[n->dep_count++] = on;
	return true;
}

static void remove_dep(struct libcuda_node *n, const struct libcuda_node *on)
{
	for (size_t i = 0; i < n->dep_count; i++)
		if (n->deps[i] == on)
			n->deps[i--] = n->deps[--n->dep_count];
}

CUresult libcuda_graph_add(struct libcuda_graph *g, struct libcuda_node *const *deps, size_t count,
			   struct libcuda_context *context, const CUgraphNodeParams *params, struct libcuda_node **node)
{
	struct libcuda_node *n = append(g, params->type);
	CUresult result = n ? libcuda_node_set(n, context, params) : CUDA_ERROR_OUT_OF_MEMORY;

	for (size_t i = 0; i < count && result == CUDA_SUCCESS; i++)
		if (!depends(n, deps[i]) && !add_dep(n, deps[i]))
			result = CUDA_ERROR_OUT_OF_MEMORY;
	if (result == CUDA_SUCCESS) {
		*node = n;
	} else if (n) {
		take_out(g, n);
		free_node(n);
	}
	return result;
}

struct libcuda_node *libcuda_graph_copy_of(const struct libcuda_graph *g, const struct libcuda_node *node)
{
	struct libcuda_node *n;

	for (n = g->first; n && n->origin != node->origin; n = n->next)
		continue;
	return n;
}

static bool clone_node(struct libcuda_graph *to, struct libcuda_context *context, const struct libcuda_node *from)
{
	struct libcuda_node *n = append(to, from->type);

	if (!n || libcuda_node_copy(n, context, from) != CUDA_SUCCESS)
		return false;
	n->origin = from->origin;
	n->enabled = from->enabled;
	libcuda_node_set_source(n, from);
	return true;
}

struct libcuda_graph *libcuda_graph_clone(const struct libcuda_graph *from, struct libcuda_context *context)
{
	struct libcuda_graph *g = libcuda_graph_new();
	bool ok = g && libcuda_user_references_copy(g, from);
	struct libcuda_node *copy, *n;

	if (ok && from->conditions) {
		g->conditions = from->conditions;
		libcuda_conditions_get(g->conditions);
	}
	for (n = from->first; ok && n; n = n->next)
		ok = clone_node(g, context, n);
	copy = ok ? g->first : NULL;
	for (n = from->first; ok && n; n = n->next, copy = copy->next)
		for (size_t i = 0; ok && i < n->dep_count; i++)
			ok = add_dep(copy, libcuda_graph_copy_of(g, n->deps[i]));
	if (ok)
		return g;
	if (g)
		libcuda_graph_free(g);
	return NULL;
}

/* Whether all that `n` depends on has the mark. */
static bool is_ready(const struct libcuda_node *n, unsigned int walk)
{
	for (size_t i = 0; i < n->dep_count; i++)
		if (n->deps[i]->visited != walk)
			return false;
	return true;
}

struct libcuda_node **libcuda_graph_order(struct libcuda_graph *g, bool *cycle)
{
	struct libcuda_node **order = malloc((g->count + 1) * sizeof(*order));
	unsigned int walk = atomic_fetch_add(&last_walk, 1) + 1;
	size_t done = 0, before;

	*cycle = false;
	/* Nodes mostly stand behind what they depend on already: one pass then. */
	while (order && done < g->count) {
		before = done;
		for (struct libcuda_node *n = g->first; n; n = n->next) {
			if (n->visited == walk || !is_ready(n, walk))
				continue;
			n->visited = walk;
			order[done++] = n;
		}
		if (done == before) {
			*cycle = true;
			free(order);
			return NULL;
		}
	}
	return order;
}

bool libcuda_graph_is_joined(struct libcuda_graph *g, uint64_t capture, struct libcuda_node *const *nodes, size_t count)
{
	unsigned int walk = atomic_fetch_add(&last_walk, 1) + 1;
	bool joined = true;

	for (struct libcuda_node *n = g->first; n; n = n->next)
		for (size_t i = 0; i < n->dep_count; i++)
			n->deps[i]->visited = walk;
	for (size_t i = 0; i < count; i++)
		nodes[i]->visited = walk;
	for (struct libcuda_node *n = g->first; n; n = n->next) {
		if (n->must_join != capture)
			continue;
		joined = joined && n->visited == walk;
		n->must_join = 0;
	}
	return joined;
}

/* ---- the API ---- */

static CUresult find_graph(CUgraph handle, struct libcuda_graph **g)
{
	CUresult result = libcuda_require_init();

	if (result != CUDA_SUCCESS)
		return result;
	*g = libcuda_graph_find(handle);
	return *g ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

static CUresult find_node(CUgraphNode handle, struct libcuda_node **n)
{
	CUresult result = libcuda_require_init();

	if (result != CUDA_SUCCESS)
		return result;
	*n = libcuda_node_find(handle);
	return *n ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

VCUDA_EXPORT CUresult cuGraphCreate(CUgraph *graph, unsigned int flags)
{
	CUresult result = libcuda_require_init();
	struct libcuda_graph *g;

	if (result != CUDA_SUCCESS)
		return result;
	if (!graph || flags)
		return CUDA_ERROR_INVALID_VALUE;
	g = libcuda_graph_new();
	if (!g)
		return CUDA_ERROR_OUT_OF_MEMORY;
	*graph = g->handle;
	return CUDA_SUCCESS;
}

VCUDA_EXPORT CUresult cuGraphDestroy(CUgraph graph)
{
	struct libcuda_graph *g;
	CUresult result = find_graph(graph, &g);

	if (result != CUDA_SUCCESS || g->owned)
		return result != CUDA_SUCCESS ? result : CUDA_ERROR_INVALID_VALUE;
	if (libcuda_capture_has_graph(g))
		return CUDA_ERROR_ILLEGAL_STATE;
	libcuda_graph_free(g);
	return CUDA_SUCCESS;
}

VCUDA_EXPORT CUresult cuGraphClone(CUgraph *clone, CUgraph original)
{
	struct libcuda_graph *g;
	CUresult result = find_graph(original, &g);

	if (result != CUDA_SUCCESS)
		return result;
	if (!clone)
		return CUDA_ERROR_INVALID_VALUE;
	if (!libcuda_graph_can_be_copied(g))
		return CUDA_ERROR_NOT_SUPPORTED;
	g = libcuda_graph_clone(g, libcuda_context_current());
	if (!g)
		return CUDA_ERROR_OUT_OF_MEMORY;
	*clone = g->handle;
	return CUDA_SUCCESS;
}

VCUDA_EXPORT CUresult cuGraphNodeFindInClone(CUgraphNode *copy, CUgraphNode original, CUgraph clone)
{
	struct libcuda_graph *g;
	struct libcuda_node *n;
	CUresult result = find_node(original, &n);

	if (result == CUDA_SUCCESS)
		result = find_graph(clone, &g);
	if (result != CUDA_SUCCESS)
		return result;
	n = libcuda_graph_copy_of(g, n);
	if (!copy || !n)
		return CUDA_ERROR_INVALID_VALUE;
	*copy = n->handle;
	return CUDA_SUCCESS;
}

VCUDA_EXPORT CUresult cuGraphDestroyNode(CUgraphNode node)
{
	struct libcuda_node *n;
	CUresult result = find_node(node, &n);

	if (result != CUDA_SUCCESS)
		return result;
	if (libcuda_capture_has_graph(n->graph))
		return CUDA_ERROR_ILLEGAL_STATE;
	/* Memory that is allocated in a graph is what other nodes of it rely on. */
	if (n->type == CU_GRAPH_NODE_TYPE_MEM_ALLOC || n->type == CU_GRAPH_NODE_TYPE_MEM_FREE)
		return CUDA_ERROR_NOT_SUPPORTED;
	for (struct libcuda_node *other = n->graph->first; other; other = other->next)
		remove_dep(other, n);
	take_out(n->graph, n);
	free_node(n);
	return CUDA_SUCCESS;
}

/* Gives handles as CUDA does: with no array the count; else as many as fit, the rest NULL, and the count of those. */
struct list {
	CUgraphNode *to;
	size_t room, count;
};

static void list_add(struct list *l, const struct libcuda_node *n)
{
	if (l->to && l->count < l->room)
		l->to[l->count] = n->handle;
	l->count++;
}

static void list_end(struct list *l, size_t *count)
{
	for (size_t i = l->count; l->to && i < l->room; i++)
		l->to[i] = NULL;
	*count = l->to && l->count > l->room ? l->room : l->count;
}

static CUresult list_nodes(CUgraph graph, CUgraphNode *nodes, size_t *count, bool roots)
{
	struct list l = {.to = nodes};
	struct libcuda_graph *g;
	CUresult result = find_graph(graph, &g);

	if (result != CUDA_SUCCESS)
		return result;
	if (!count)
		return CUDA_ERROR_INVALID_VALUE;
	l.room = *count;
	for (struct libcuda_node *n = g->first; n; n = n->next)
		if (!roots || !n->dep_count)
			list_add(&l, n);
	list_end(&l, count);
	return CUDA_SUCCESS;
}

VCUDA_EXPORT CUresult cuGraphGetNodes(CUgraph graph, CUgraphNode *nodes, size_t *count)
{
	return list_nodes(graph, nodes, count, false);
}

VCUDA_EXPORT CUresult cuGraphGetRootNodes(CUgraph graph, CUgraphNode *nodes, size_t *count)
{
	return list_nodes(graph, nodes, count, true);
}

/* Edges carry no data here. */
static void no_data(CUgraphEdgeData *data, const CUgraphNode *nodes, size_t count)
{
	if (data && nodes)
		memset(data, 0, count * sizeof(*data));
}

VCUDA_EXPORT CUresult cuGraphGetEdges_v2(CUgraph graph, CUgraphNode *from, CUgraphNode *to, CUgraphEdgeData *data,
					 size_t *count)
{
	struct list f = {.to = from}, t = {.to = to};
	struct libcuda_graph *g;
	CUresult result = find_graph(graph, &g);

	if (result != CUDA_SUCCESS)
		return result;
	if (!count || !from != !to)
		return CUDA_ERROR_INVALID_VALUE;
	f.room = t.room = *count;
	for (struct libcuda_node *n = g->first; n; n = n->next)
		for (size_t i = 0; i < n->dep_count; i++) {
			list_add(&f, n->deps[i]);
			list_add(&t, n);
		}
	list_end(&f, count);
	list_end(&t, count);
	no_data(data, from, *count);
	return CUDA_SUCCESS;
}

VCUDA_EXPORT CUresult cuGraphGetEdges(CUgraph graph, CUgraphNode *from, CUgraphNode *to, size_t *count)
{
	return cuGraphGetEdges_v2(graph, from, to, NULL, count);
}

static void list_dependencies(struct list *l, const struct libcuda_node *n)
{
	for (size_t i = 0; i < n->dep_count; i++)
		list_add(l, n->deps[i]);
}

static void list_dependents(struct list *l, const struct libcuda_node *n)
{
	for (struct libcuda_node *other = n->graph->first; other; other = other->next)
		if (depends(other, n))
			list_add(l, other);
}

static CUresult list_neighbours(CUgraphNode node, CUgraphNode *nodes, CUgraphEdgeData *data, size_t *count,
				void (*list_them)(struct list *l, const struct libcuda_node *n))
{
	struct list l = {.to = nodes};
	struct libcuda_node *n;
	CUresult result = find_node(node, &n);

	if (result != CUDA_SUCCESS)
		return result;
	if (!count)
		return CUDA_ERROR_INVALID_VALUE;
	l.room = *count;
	list_them(&l, n);
	list_end(&l, count);
	no_data(data, nodes, *count);
	return CUDA_SUCCESS;
}

VCUDA_EXPORT CUresult cuGraphNodeGetDependencies_v2(CUgraphNode node, CUgraphNode *deps, CUgraphEdgeData *data,
						    size_t *count)
{
	return list_neighbours(node, deps, data, count, list_dependencies);
}

VCUDA_EXPORT CUresult cuGraphNodeGetDependencies(CUgraphNode node, CUgraphNode *deps, size_t *count)
{
	return cuGraphNodeGetDependencies_v2(node, deps, NULL, count);
}

VCUDA_EXPORT CUresult cuGraphNodeGetDependentNodes_v2(CUgraphNode node, CUgraphNode *nodes, CUgraphEdgeData *data,
						      size_t *count)
{
	return list_neighbours(node, nodes, data, count, list_dependents);
}

VCUDA_EXPORT CUresult cuGraphNodeGetDependentNodes(CUgraphNode node, CUgraphNode *nodes, size_t *count)
{
	return cuGraphNodeGetDependentNodes_v2(node, nodes, NULL, count);
}

static CUresult change_edges(CUgraph graph, const CUgraphNode *from, const CUgraphNode *to, size_t count, bool add)
{
	struct libcuda_graph *g;
	CUresult result = find_graph(graph, &g);

	if (result != CUDA_SUCCESS)
		return result;
	if (count && (!from || !to))
		return CUDA_ERROR_INVALID_VALUE;
	for (size_t i = 0; i < count; i++) {
		struct libcuda_node *f = libcuda_node_find(from[i]), *t = libcuda_node_find(to[i]);

		/* An edge is there once. */
		if (!f || !t || f == t || f->graph != g || t->graph != g || depends(t, f) == add)
			return CUDA_ERROR_INVALID_VALUE;
		if (!add)
			remove_dep(t, f);
		else if (!add_dep(t, f))
			return CUDA_ERROR_OUT_OF_MEMORY;
	}
	return CUDA_SUCCESS;
}

VCUDA_EXPORT CUresult cuGraphAddDependencies(CUgraph graph, const CUgraphNode *from, const CUgraphNode *to,
					     size_t count)
{
	return change_edges(graph, from, to, count, true);
}

VCUDA_EXPORT CUresult cuGraphRemoveDependencies(CUgraph graph, const CUgraphNode *from, const CUgraphNode *to,
						size_t count)
{
	return change_edges(graph, from, to, count, false);
}

/* Data say which part of a node an edge waits for: to wait for all of it is what every edge does here. */
VCUDA_EXPORT CUresult cuGraphAddDependencies_v2(CUgraph graph, const CUgraphNode *from, const CUgraphNode *to,
						const CUgraphEdgeData *data, size_t count)
{
	(void)data;
	return change_edges(graph, from, to, count, true);
}

VCUDA_EXPORT CUresult cuGraphRemoveDependencies_v2(CUgraph graph, const CUgraphNode *from, const CUgraphNode *to,
						   const CUgraphEdgeData *data, size_t count)
{
	(void)data;
	return change_edges(graph, from, to, count, false);
}

VCUDA_EXPORT CUresult cuGraphNodeGetType(CUgraphNode node, CUgraphNodeType *type)
{
	struct libcuda_node *n;
	CUresult result = find_node(node, &n);

	if (result != CUDA_SUCCESS)
		return result;
	if (!type)
		return CUDA_ERROR_INVALID_VALUE;
	*type = libcuda_node_type_shown(n->type);
	return CUDA_SUCCESS;
}
