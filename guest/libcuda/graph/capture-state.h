/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The state of capture.c, for the functions of the API in capture-api.c. The caller holds its lock, unless a comment
 * says otherwise.
 */
#ifndef VCUDA_CAPTURE_STATE_H
#define VCUDA_CAPTURE_STATE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/thread.h"
#include "protocol/cuda-abi.h"

struct libcuda_context;
struct libcuda_graph;
struct libcuda_node;

/* The nodes that the next node in a stream, or after an event, depends on. */
struct libcuda_frontier {
	struct libcuda_node **nodes;
	CUgraphNode *handles; /* the same, for the application */
	size_t count;
};

struct libcuda_capture {
	uint64_t id;
	struct libcuda_graph *graph;
	bool given; /* the graph is the application's */
	CUstreamCaptureMode mode;
	struct libcuda_thread *thread;
	CUstream origin; /* resolved, as all streams here */
	bool invalid;
	struct libcuda_capture *next;
};

struct libcuda_capturing {
	CUstream stream;
	const struct libcuda_context *context;
	bool is_blocking;
	struct libcuda_capture *capture;
	struct libcuda_frontier at;
	struct libcuda_capturing *next;
};

/* The mode that cuThreadExchangeStreamCaptureMode() set: a thread begins with CU_STREAM_CAPTURE_MODE_GLOBAL, which is
 * 0.
 */
static inline CUstreamCaptureMode libcuda_capture_thread_mode(const struct libcuda_thread *thread)
{
	return (CUstreamCaptureMode)(uintptr_t)thread->slots[LIBCUDA_THREAD_GRAPH];
}

void libcuda_capture_lock(void);
void libcuda_capture_unlock(void);

static inline bool libcuda_capture_is_legacy(CUstream resolved)
{
	return !resolved || resolved == CU_STREAM_LEGACY;
}

/*
 * Whether this is the legacy stream, while a blocking stream of its context captures: not even its state can be asked
 * for then.
 */
bool libcuda_capture_blocks(const struct libcuda_context *context, CUstream resolved);

/* NULL: that stream does not capture. */
struct libcuda_capturing *libcuda_capturing_find(CUstream resolved);

CUresult libcuda_capture_begin(CUstream resolved, struct libcuda_graph *g, bool given, CUstreamCaptureMode mode,
			       const struct libcuda_frontier *at);

/* Whether the stream captures into a graph that the application has made. */
bool libcuda_capture_is_given(CUstream resolved);

/* `*graph` is NULL where the capture failed; it has ended then as well, unless this is not the place to end it. */
CUresult libcuda_capture_end(CUstream resolved, CUgraph *graph);

/* A frontier that no other thread has needs no lock. False: no memory, and some nodes may be missing. */
bool libcuda_frontier_add(struct libcuda_frontier *f, struct libcuda_node *n);
bool libcuda_frontier_join(struct libcuda_frontier *f, const struct libcuda_frontier *other);
void libcuda_frontier_free(struct libcuda_frontier *f);

#endif
