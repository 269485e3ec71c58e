/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Graphs are objects of this library, and nodes hold their parameters. A launch replays the nodes as ordinary commands
 * on the launch's stream, in an order that honours every dependency. If the worker keeps the graph (device-graph.h), a
 * launch is one command. The application's handles are ids of these objects. As with NVIDIA's driver, one thread at a
 * time may use a graph.
 */
#ifndef VCUDA_GRAPH_H
#define VCUDA_GRAPH_H

#include "launch/launch.h"
#include "core/object.h"

struct libcuda_graph;
struct libcuda_conditions;

/* Memory that graphs allocate. It has its address from the making of the node to the end of the last user. */
struct libcuda_graph_memory;

struct libcuda_node {
	CUgraphNode handle;
	CUgraphNodeType type; /* or LIBCUDA_NODE_COMPUTATION */
	bool enabled;
	struct vcuda_profile_node ids; /* for tools */
	uint64_t origin; /* number of the node that it is a copy of, through any number of copies; its own if of none */
	struct libcuda_graph *graph;
	struct libcuda_context *context; /* for handles in the parameters that belong to no context */
	struct libcuda_node **deps;      /* nodes that must be done before this one */
	size_t dep_count, dep_room;
	union {
		struct {
			struct libcuda_launch launch;
			uint8_t *packed;
			void **params; /* into `packed` */
		} kernel;
		CUDA_MEMCPY3D memcpy;
		CUDA_MEMSET_NODE_PARAMS memset;
		CUDA_HOST_NODE_PARAMS host;
		struct libcuda_graph *child;
		CUevent event;
		struct {
			struct libcuda_graph_memory *memory;
			CUDA_MEM_ALLOC_NODE_PARAMS params;
		} alloc;
		CUdeviceptr free;
		CUDA_BATCH_MEM_OP_NODE_PARAMS mem_ops;
		struct libcuda_computation *computation;
		struct {
			CUDA_CONDITIONAL_NODE_PARAMS params; /* with the bodies' handles */
			struct libcuda_graph **bodies;
		} conditional;
	};
	unsigned int visited;  /* for walks */
	uint32_t device_index; /* device-graph.c: the number of the worker's node at whose end it is done */
	bool is_last;          /* device-graph.c: no node depends on it */
	uint64_t must_join;    /* capture.c: the capture that made it, until the dependencies of a stream with it are set */
	struct libcuda_node *next;
};

struct libcuda_user_object;

/* A graph's references to a user object. */
struct libcuda_user_reference {
	struct libcuda_user_object *object;
	unsigned int count;
	struct libcuda_user_reference *next;
};

struct libcuda_graph {
	CUgraph handle;
	uint32_t number; /* for tools: graphs and executable graphs count up from 1 */
	uint32_t added;  /* nodes so far */
	struct libcuda_node *first, **tail; /* in the order in which they were added */
	size_t count;
	bool owned;                         /* by a node or by an executable graph: the application cannot destroy it */
	const struct libcuda_node *decides; /* of a body: the conditional node; else NULL */
	struct libcuda_conditions *conditions; /* conditional.h; NULL: it has none, or it is a body */
	struct libcuda_user_reference *users;
};

/* ---- graph.c ---- */

struct libcuda_graph *libcuda_graph_new(void);
void libcuda_graph_free(struct libcuda_graph *graph);
/* `context` is as for libcuda_node_set(). NULL: no memory, or a node cannot be copied. */
struct libcuda_graph *libcuda_graph_clone(const struct libcuda_graph *graph, struct libcuda_context *context);
struct libcuda_graph *libcuda_graph_find(CUgraph handle);
struct libcuda_node *libcuda_node_find(CUgraphNode handle);
struct libcuda_node *libcuda_graph_copy_of(const struct libcuda_graph *graph, const struct libcuda_node *node);

/* Adds a node that does what `params` says. The dependencies are of the same graph; they may repeat. */
CUresult libcuda_graph_add(struct libcuda_graph *graph, struct libcuda_node *const *deps, size_t count,
			   struct libcuda_context *context, const CUgraphNodeParams *params,
			   struct libcuda_node **node);

/*
 * Numbers the nodes of an executable graph and of its child graphs anew, for tools: as natively (driver 580), they have
 * the graph's number in the upper half, and count up from 0 in the lower half.
 */
void libcuda_graph_number_nodes(struct libcuda_graph *graph);

/* All nodes, each behind what it depends on; the caller frees it. NULL: no memory, or (with *cycle) there is a cycle.
 */
struct libcuda_node **libcuda_graph_order(struct libcuda_graph *graph, bool *cycle);

/*
 * At the end of a capture, whose first stream depends on `nodes`: true if each node whose `must_join` is the capture's id
 * is among them or has a node behind it. Clears `must_join` of these nodes.
 */
bool libcuda_graph_is_joined(struct libcuda_graph *graph, uint64_t capture, struct libcuda_node *const *nodes,
			     size_t count);

/* ---- capture.c ---- */

/* Whether a stream captures into the graph. Takes the captures' lock. */
bool libcuda_capture_has_graph(const struct libcuda_graph *graph);

/* ---- graph-node.c ---- */

/*
 * Sets the node's parameters, of which everything is copied. `context` is for handles that belong to no context.
 * Success drops the old parameters.
 */
CUresult libcuda_node_set(struct libcuda_node *node, struct libcuda_context *context, const CUgraphNodeParams *params);
void libcuda_node_get(const struct libcuda_node *node, CUgraphNodeParams *params);
/* Whether a node of an executable graph may get these parameters: CUDA allows only some changes. */
bool libcuda_node_may_become(const struct libcuda_node *node, const CUgraphNodeParams *params);
/* An empty node becomes a copy of another. `context` is as for libcuda_node_set(). */
CUresult libcuda_node_copy(struct libcuda_node *node, struct libcuda_context *context, const struct libcuda_node *from);
void libcuda_node_drop(struct libcuda_node *node);

/* Issues it on a stream, which is given as the application named it and resolved. */
struct libcuda_graph_run {
	CUstream stream, resolved;
	struct call_options how; /* the context of the stream */
	bool frees_first;        /* memory that is still allocated is freed by the launch that allocates it again */
};
CUresult libcuda_node_run(const struct libcuda_node *node, const struct libcuda_graph_run *run);

/* The node that `node` was copied from, or whose parameters it took, last. For tools. */
void libcuda_node_set_source(struct libcuda_node *node, const struct libcuda_node *source);

/* ---- graph-memory.c ---- */

CUresult libcuda_graph_memory_new(struct libcuda_context *context, size_t bytes, struct libcuda_graph_memory **memory);
void libcuda_graph_memory_get(struct libcuda_graph_memory *memory);
void libcuda_graph_memory_put(struct libcuda_graph_memory *memory);
CUdeviceptr libcuda_graph_memory_address(const struct libcuda_graph_memory *memory);

/* A launch allocates it. CUDA_ERROR_INVALID_VALUE: it still is allocated, and not `again`. */
CUresult libcuda_graph_memory_allocate(struct libcuda_graph_memory *memory, bool again);

/* A free node or a call of the application's frees it. False: the address is no such memory's. */
bool libcuda_graph_memory_free(CUdeviceptr address, CUresult *result);
bool libcuda_graph_memory_exists(CUdeviceptr address);

/* ---- user objects ---- */

void libcuda_user_references_drop(struct libcuda_graph *graph);
bool libcuda_user_references_copy(struct libcuda_graph *to, const struct libcuda_graph *from);

#endif
