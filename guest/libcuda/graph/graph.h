/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Graphs live in this library: nodes hold what they do, a launch replays it as ordinary commands on the launch's
 * stream, in an order that honours every dependency, unless the worker keeps the whole (device-graph.h). The
 * application's handles are ids of objects; these are the objects. As with CUDA's own, one thread at a time may use a
 * graph.
 */
#ifndef VCUDA_GRAPH_H
#define VCUDA_GRAPH_H

#include "launch/launch.h"
#include "core/object.h"

struct vcuda_graph;

/* Memory that graphs allocate: it has its address from the node's making to the end of all that name it. */
struct vcuda_graph_memory;

struct vcuda_node {
	CUgraphNode handle;
	CUgraphNodeType type; /* or VCUDA_NODE_COMPUTATION */
	bool enabled;
	uint64_t origin; /* number of the node that it is a copy of, through any number of copies; its own if of none */
	struct vcuda_graph *graph;
	struct vcuda_context *context; /* for handles in the parameters that belong to no context */
	struct vcuda_node **deps;      /* what must be done before it */
	size_t dep_count, dep_room;
	union {
		struct {
			struct vcuda_launch launch;
			uint8_t *packed;
			void **params; /* into `packed` */
		} kernel;
		CUDA_MEMCPY3D memcpy;
		CUDA_MEMSET_NODE_PARAMS memset;
		CUDA_HOST_NODE_PARAMS host;
		struct vcuda_graph *child;
		CUevent event;
		struct {
			struct vcuda_graph_memory *memory;
			CUDA_MEM_ALLOC_NODE_PARAMS params;
		} alloc;
		CUdeviceptr free;
		CUDA_BATCH_MEM_OP_NODE_PARAMS mem_ops;
		struct vcuda_computation *computation;
	};
	unsigned int mark; /* for walks */
	uint32_t kept_as;  /* device-graph.c: the number of the worker's node at whose end it is done */
	bool is_last;      /* device-graph.c: nothing depends on it */
	struct vcuda_node *next;
};

struct vcuda_user_object;

/* A graph's references to a user object. */
struct vcuda_user_reference {
	struct vcuda_user_object *object;
	unsigned int count;
	struct vcuda_user_reference *next;
};

struct vcuda_graph {
	CUgraph handle;
	struct vcuda_node *first, **tail; /* in the order in which they were added */
	size_t count;
	bool owned; /* by a node or by an executable graph: the application cannot destroy it */
	struct vcuda_user_reference *users;
};

/* ---- graph.c ---- */

struct vcuda_graph *vcuda_graph_new(void);
void vcuda_graph_free(struct vcuda_graph *graph);
/* `context` is as for vcuda_node_set(). NULL: no memory, or a node cannot be copied. */
struct vcuda_graph *vcuda_graph_clone(const struct vcuda_graph *graph, struct vcuda_context *context);
struct vcuda_graph *vcuda_graph_find(CUgraph handle);
struct vcuda_node *vcuda_node_find(CUgraphNode handle);
struct vcuda_node *vcuda_graph_copy_of(const struct vcuda_graph *graph, const struct vcuda_node *node);

/* Adds a node that does what `params` says. The dependencies are of the same graph; they may repeat. */
CUresult vcuda_graph_add(struct vcuda_graph *graph, struct vcuda_node *const *deps, size_t count,
			 struct vcuda_context *context, const CUgraphNodeParams *params, struct vcuda_node **node);

/* All nodes, each behind what it depends on; the caller frees it. NULL: no memory, or (with *cycle) there is a cycle.
 */
struct vcuda_node **vcuda_graph_order(struct vcuda_graph *graph, bool *cycle);

/* True if all nodes but those that are before `nodes`, or among them, are none. */
bool vcuda_graph_all_before(struct vcuda_graph *graph, struct vcuda_node *const *nodes, size_t count,
			    struct vcuda_node *const *wanted, size_t wanted_count);

/* ---- graph-node.c ---- */

/*
 * Sets the node's parameters, of which everything is copied. `context` is for handles that belong to no context.
 * Success drops the old parameters.
 */
CUresult vcuda_node_set(struct vcuda_node *node, struct vcuda_context *context, const CUgraphNodeParams *params);
void vcuda_node_get(const struct vcuda_node *node, CUgraphNodeParams *params);
/* False: what a node of an executable graph is told to do differs too much from what it does. */
bool vcuda_node_may_become(const struct vcuda_node *node, const CUgraphNodeParams *params);
/* An empty node becomes a copy of another. `context` is as for vcuda_node_set(). */
CUresult vcuda_node_copy(struct vcuda_node *node, struct vcuda_context *context, const struct vcuda_node *from);
void vcuda_node_drop(struct vcuda_node *node);

/* Issues it on a stream, which is given as the application named it and resolved. */
struct vcuda_graph_run {
	CUstream stream, resolved;
	struct call_options how; /* the context of the stream */
	bool frees_first;        /* memory that is still allocated is freed by the launch that allocates it again */
};
CUresult vcuda_node_run(const struct vcuda_node *node, const struct vcuda_graph_run *run);

/* ---- graph-memory.c ---- */

CUresult vcuda_graph_memory_new(struct vcuda_context *context, size_t bytes, struct vcuda_graph_memory **memory);
void vcuda_graph_memory_get(struct vcuda_graph_memory *memory);
void vcuda_graph_memory_put(struct vcuda_graph_memory *memory);
CUdeviceptr vcuda_graph_memory_address(const struct vcuda_graph_memory *memory);

/* A launch allocates it. CUDA_ERROR_INVALID_VALUE: it still is allocated, and not `again`. */
CUresult vcuda_graph_memory_allocate(struct vcuda_graph_memory *memory, bool again);

/* A free node or a call of the application's frees it. False: the address is no such memory's. */
bool vcuda_graph_memory_free(CUdeviceptr address, CUresult *result);
bool vcuda_graph_memory_known(CUdeviceptr address);

/* ---- user objects ---- */

void vcuda_user_references_drop(struct vcuda_graph *graph);
bool vcuda_user_references_copy(struct vcuda_graph *to, const struct vcuda_graph *from);

#endif
