/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Graphs with conditional nodes, as the worker keeps them. All other graphs are replayed by the guest, so this back end
 * has no cuGraphInstantiateWithFlags(). Only the worker uses these handles, one thread at a time for a graph; they are
 * not looked up.
 */
#ifndef VCUDA_CPU_GRAPH_H
#define VCUDA_CPU_GRAPH_H

#include "ops.h"

/* Conditional nodes may be nested so deep: a level takes about 1 KiB of a thread's stack. */
#define SOFTGPU_MOST_NESTED 256

/* The conditions of a graph. An executable graph has its own list, and holds a reference to the graph's. */
struct softgpu_conditions {
	_Atomic unsigned int refs;
	struct softgpu_conditions *from; /* NULL: the handles are of this list */
	uint32_t count, room;
	struct softgpu_condition {
		uint64_t handle;
		uint32_t value; /* at the begin of each launch, if `assign` */
		bool assign;
	} * list;
};

struct CUgraphNode_st {
	struct CUgraph_st *graph;
	CUgraphNodeType type;
	union {
		struct {
			CUfunction function;
			uint32_t grid[3], block[3], shared;
			bool cooperative;
			void *params; /* packed */
			size_t bytes;
		} kernel;
		CUDA_MEMCPY3D copy;
		CUDA_MEMSET_NODE_PARAMS fill;
		struct {
			uint64_t condition;
			CUgraphConditionalNodeType type;
			unsigned int size;
			CUgraph *bodies;
		} decision;
	};
	struct CUgraphNode_st *next;
};

/* Nodes stand behind all that they come after. */
struct CUgraph_st {
	struct CUgraphNode_st *first, **tail;
	struct softgpu_conditions *conditions; /* NULL: of a body */
	unsigned int depth;
};

/* A copy, with the conditions that there are. NULL: no memory. */
struct CUgraph_st *softgpu_graph_copy(const struct CUgraph_st *graph);
void softgpu_graph_free(struct CUgraph_st *graph);

#endif
