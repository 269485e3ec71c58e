/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Conditional nodes. The handle of a condition is the host driver's, because kernels have it as a parameter: so the
 * worker has a graph for the conditions from the first handle on, and builds there what is launched. Such a graph is
 * never replayed. As natively, one executable graph of it exists at a time, and it is not cloned.
 */
#ifndef VCUDA_CONDITIONAL_H
#define VCUDA_CONDITIONAL_H

#include "core/context.h"
#include "graph/graph.h"
#include "protocol/types.h"

/* Conditional nodes may be nested so deep. NVIDIA's driver takes 200 levels, and was asked for no more. */
#define LIBCUDA_MOST_NESTED 256

struct libcuda_condition {
	CUgraphConditionalHandle handle;
	struct libcuda_condition *next;
};

/* The conditions of a graph, which lives while the graph or an executable graph refers to them. */
struct libcuda_conditions {
	_Atomic unsigned int refs;
	struct libcuda_context *context;
	vcuda_graph_id id;               /* the worker's graph; NULL once its context has ended */
	struct libcuda_condition *first; /* the newest first */
	const void *exec;                /* the executable graph, or NULL */
	struct libcuda_conditions *next; /* next in the list of all */
};

void libcuda_conditions_get(struct libcuda_conditions *conditions);
/* NULL is allowed. */
void libcuda_conditions_put(struct libcuda_conditions *conditions);

/* The graph that a body belongs to, through any number of bodies; a graph itself if it is no body. */
struct libcuda_graph *libcuda_graph_root(struct libcuda_graph *graph);

/* False of a graph with conditional nodes, and of a body: it is not cloned, and no child. */
bool libcuda_graph_can_be_copied(const struct libcuda_graph *graph);

/* The reason why a graph with conditions cannot be instantiated, or CUDA_SUCCESS. */
CUresult libcuda_conditions_check(const struct libcuda_graph *graph, CUgraphInstantiateResult *why);

/* graph-node.c calls these for conditional nodes. */
CUresult libcuda_conditional_set(struct libcuda_node *node, const CUgraphNodeParams *params);
CUresult libcuda_conditional_copy(struct libcuda_node *node, const struct libcuda_node *from);
void libcuda_conditional_drop(struct libcuda_node *node);

#endif
