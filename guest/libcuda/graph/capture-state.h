/* SPDX-License-Identifier: Apache-2.0 */
/* What capture.c keeps, for the functions of the API in capture-api.c. With its lock held but where it says otherwise.
 */
#ifndef VCUDA_CAPTURE_STATE_H
#define VCUDA_CAPTURE_STATE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/thread.h"
#include "protocol/cuda-abi.h"

struct vcuda_context;
struct vcuda_graph;
struct vcuda_node;

/* The nodes that what comes next in a stream, or behind an event, depends on. */
struct vcuda_frontier {
	struct vcuda_node **nodes;
	CUgraphNode *handles; /* the same, for who asks */
	size_t count;
};

struct vcuda_capture {
	uint64_t id;
	struct vcuda_graph *graph;
	bool given; /* the graph is the application's */
	CUstreamCaptureMode mode;
	struct vcuda_thread *thread;
	CUstream origin; /* resolved, as all streams here */
	bool invalid;
	struct vcuda_capture *next;
};

struct vcuda_capturing {
	CUstream stream;
	const struct vcuda_context *context;
	bool is_blocking;
	struct vcuda_capture *capture;
	struct vcuda_frontier at;
	struct vcuda_capturing *next;
};

/* The mode that cuThreadExchangeStreamCaptureMode() set: a thread begins with CU_STREAM_CAPTURE_MODE_GLOBAL, which is
 * 0.
 */
static inline CUstreamCaptureMode vcuda_capture_thread_mode(const struct vcuda_thread *thread)
{
	return (CUstreamCaptureMode)(uintptr_t)thread->slots[VCUDA_THREAD_GRAPH];
}

void vcuda_capture_lock(void);
void vcuda_capture_unlock(void);

static inline bool vcuda_capture_is_legacy(CUstream resolved)
{
	return !resolved || resolved == CU_STREAM_LEGACY;
}

/*
 * Whether this is the legacy stream, while a blocking stream of its context captures: not even its state can be asked
 * for then.
 */
bool vcuda_capture_blocks(const struct vcuda_context *context, CUstream resolved);

/* NULL: that stream does not capture. */
struct vcuda_capturing *vcuda_capturing_find(CUstream resolved);

CUresult vcuda_capture_begin(CUstream resolved, struct vcuda_graph *g, bool given, CUstreamCaptureMode mode,
			     const struct vcuda_frontier *at);

/* `*graph` is NULL where the capture failed; it has ended then as well, unless this is not the place to end it. */
CUresult vcuda_capture_end(CUstream resolved, CUgraph *graph);

/* Frontiers: without the lock, if they are nobody else's. False: no memory, and some may be missing. */
bool vcuda_frontier_add(struct vcuda_frontier *f, struct vcuda_node *n);
bool vcuda_frontier_join(struct vcuda_frontier *f, const struct vcuda_frontier *other);
void vcuda_frontier_free(struct vcuda_frontier *f);

#endif
