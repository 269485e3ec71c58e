/* SPDX-License-Identifier: Apache-2.0 */
/* Graphs of the back end that the guest keeps: shared by handle-graph.c and handle-graph-conditional.c. */
#ifndef VCUDA_WORKER_DEVICE_GRAPH_H
#define VCUDA_WORKER_DEVICE_GRAPH_H

#include <pthread.h>

#include "protocol/handlers.h"
#include "session/session.h"

/* Each node counts as so many bytes of the host's memory. */
#define NODE_BYTES 1024

struct mapped_range {
	const void *start;
	uint64_t bytes;
	bool writable;
};

struct worker_graph_node {
	CUgraphNode node;
	CUgraph home;    /* the graph or the body that it is in */
	CUgraph *bodies; /* of a conditional node; the back end's */
	uint32_t body_count;
};

struct worker_graph_condition {
	uint64_t handle; /* the back end's */
	bool used;       /* by a node */
};

/* Never freed: the guest may destroy one that calls are at. */
struct device_graph {
	unsigned int users;        /* the handle, and each call that is at it; with `next` under the list's lock */
	struct device_graph *next; /* of the unused ones */

	pthread_mutex_t lock; /* of all the rest */
	CUgraph graph;        /* until it is finished; of one with conditional nodes to its end */
	CUgraph at;           /* destination of new nodes: `graph` or a body */
	CUgraphExec exec;     /* once it is finished */
	bool is_conditional;
	CUcontext context;
	CUresult failure; /* of the first node that could not be added */
	struct worker_graph_node *nodes;
	uint64_t *names; /* ids of functions and arrays */
	struct mapped_range *ranges;
	struct worker_graph_condition *conditions;
	/* A hash table of their places, each plus 1; 0: free. Its length is a power of 2. */
	uint32_t *condition_slots;
	uint32_t node_count, node_room, name_count, name_room, range_count, range_room;
	uint32_t condition_count, condition_room, condition_slot_count;
	uint64_t bytes, node_bytes; /* in all, and of those what goes with the nodes */
};

/* A node that is about to be added: what it comes after, and where it goes. */
struct worker_graph_place {
	struct worker_session *s;
	struct device_graph *k;
	CUgraphNode *deps, *node;
	size_t count;
};

/* For the current context. */
CUresult worker_graph_create(struct worker_session *s, bool is_conditional, vcuda_graph_id *graph);

/*
 * Takes a reference to the graph. False: it was destroyed meanwhile. Its memory may hold another graph by now, which is
 * the guest's as well.
 */
bool worker_graph_take(struct device_graph *k);
void worker_graph_put(struct worker_session *s, struct device_graph *k);

/* CUDA_ERROR_OUT_OF_MEMORY: so much more is too much. With the graph's lock held, as the next and the last. */
CUresult worker_graph_account(struct device_graph *k, uint64_t bytes);
void worker_graph_unaccount(struct device_graph *k, uint64_t bytes);

/*
 * `bytes`: what the node takes beyond the usual. Finishing the graph reports a node that fails; the guest's thread gets
 * no error. Takes and puts the graph.
 */
CUresult worker_graph_add(struct worker_session *s, vcuda_graph_id handle, const uint32_t *deps, uint32_t count,
			  uint64_t bytes, CUresult (*make)(const struct worker_graph_place *p, void *arguments),
			  void *arguments);

/* The same for a node that comes after p->count others, and fails at once. */
CUresult worker_graph_add_at(struct worker_graph_place *p, const uint32_t *deps, uint64_t bytes,
			     CUresult (*make)(const struct worker_graph_place *p, void *arguments), void *arguments);

/* Makes room for one more in an array. False: no memory. */
bool worker_graph_grow(void **array, uint32_t count, uint32_t *room, size_t size);

/* Instantiates a graph with conditional nodes. */
CUresult worker_graph_instantiate(struct worker_session *s, struct device_graph *k);

#endif
