/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Executable graphs that the worker keeps: one that is launched again as it is becomes a graph of the host's driver,
 * and a launch one command. What the driver's graph could not do as a replay does is replayed: host functions, memory
 * of graphs, events, pageable memory; and all with the software GPU, whose back end has no graphs.
 *
 * VCUDA_GRAPHS=replay: all graphs are replayed.
 */
#ifndef VCUDA_DEVICE_GRAPH_H
#define VCUDA_DEVICE_GRAPH_H

#include <stdatomic.h>
#include <stdbool.h>

#include "core/context.h"
#include "graph/graph.h"
#include "protocol/types.h"

/* Of one executable graph; all zeroes at first. */
struct vcuda_kept_graph {
	_Atomic(vcuda_kept) id; /* the worker's, or NULL */
	struct vcuda_context *context;
	uint64_t life;         /* of the context: the worker's is of that life */
	unsigned int places;   /* that a launch takes in a stream's queue */
	unsigned int launches; /* since it was made or changed last; no more than are looked at */
	unsigned int changes;  /* that took the worker's away */
	bool refused;          /* as it is now */
};

/*
 * Whether a launch in the context can be one command. Tells the worker of the graph if that is due. `order`: all nodes,
 * each behind its dependencies.
 */
bool vcuda_kept_prepare(struct vcuda_kept_graph *kept, struct vcuda_context *context, const struct vcuda_graph *graph,
			struct vcuda_node *const *order);

/* Only after that. */
CUresult vcuda_kept_launch(struct vcuda_kept_graph *kept, const struct call_options *how, CUstream resolved);

/* A replay has been issued without an error. */
void vcuda_kept_replayed(struct vcuda_kept_graph *kept);

/* It is not what it was any more. */
void vcuda_kept_changed(struct vcuda_kept_graph *kept);

/* It is gone. The worker's may run still: the driver frees it then. */
void vcuda_kept_drop(struct vcuda_kept_graph *kept);

#endif
