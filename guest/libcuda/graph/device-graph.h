/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Executable graphs that the worker keeps. A graph that is launched again unchanged becomes a graph of the host's
 * driver, and a launch is one command. Graphs with host functions, memory of graphs, events or pageable memory are
 * replayed, since a graph of the driver would behave differently. The software GPU's back end has no graphs: all are
 * replayed.
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

/* The device graph of one executable graph. All members are zero at first. */
struct libcuda_device_graph {
	_Atomic(vcuda_graph_id) id; /* the worker's, or NULL */
	struct libcuda_context *context;
	uint64_t generation;                   /* of the context: the worker's is of that generation */
	struct libcuda_conditions *conditions; /* of a graph with conditional nodes, whose worker's graph it is */
	unsigned int credits;                  /* queue credits of the stream that a launch takes */
	unsigned int launches;                 /* since the last change; not counted beyond the number that matters */
	unsigned int changes;                  /* changes that dropped the worker's graph */
	bool refused;                          /* the worker refused the graph in its present form */
};

/*
 * Whether a launch in the context can be one command. Tells the worker of the graph if that is due. `order`: all nodes,
 * each behind its dependencies.
 */
bool libcuda_device_graph_prepare(struct libcuda_device_graph *device_graph, struct libcuda_context *context,
				  const struct libcuda_graph *graph, struct libcuda_node *const *order);

/*
 * The same for a graph with conditional nodes, which is never replayed. CUDA_ERROR_NOT_SUPPORTED: it has nodes that
 * only a replay does, or it is launched in another context than its conditions'.
 */
CUresult libcuda_device_graph_require(struct libcuda_device_graph *device_graph, struct libcuda_context *context,
				      const struct libcuda_graph *graph, struct libcuda_node *const *order);

/* Launches the worker's graph, after one of the two functions above allowed that. */
CUresult libcuda_device_graph_launch(struct libcuda_device_graph *device_graph, const struct call_options *how,
				     CUstream resolved);

/* A replay has been issued without an error. */
void libcuda_device_graph_replayed(struct libcuda_device_graph *device_graph);

/* The executable graph has changed. */
void libcuda_device_graph_changed(struct libcuda_device_graph *device_graph);

/* The executable graph is destroyed. The worker's graph may still run: the driver frees it afterwards. */
void libcuda_device_graph_drop(struct libcuda_device_graph *device_graph);

#endif
