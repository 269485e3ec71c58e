/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Stream capture. What a call would issue on a capturing stream becomes a node of the capture's graph. Functions that
 * issue work ask vcuda_capture_takes() once their arguments are looked at; it costs nothing while nothing is captured.
 * Thread-safe.
 */
#ifndef VCUDA_CAPTURE_H
#define VCUDA_CAPTURE_H

#include <stdatomic.h>
#include <stdbool.h>

#include "core/context.h"
#include "protocol/cuda-abi.h"

/* Captures that were begun and not ended. */
extern _Atomic unsigned int vcuda_captures;

static inline bool vcuda_capture_any(void)
{
	return atomic_load_explicit(&vcuda_captures, memory_order_relaxed);
}

/*
 * False: the stream does not capture, and the caller issues the work. True: `*result` is the call's; the node that was
 * made tells in `params` what it is.
 */
bool vcuda_capture_takes(CUstream resolved, CUgraphNodeParams *params, CUresult *result);

/* A call that a capture forbids in the calling thread: CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED, and it is invalid. */
CUresult vcuda_capture_unsafe(void);

/* The same for a call that waits for a stream or asks for its state. */
CUresult vcuda_capture_refuses(CUstream resolved);

/*
 * vcuda_stream_enter() of a call whose work cannot be a node of a graph: on a stream that captures it is an error, as
 * above.
 */
CUresult vcuda_capture_enter_without(CUstream *stream);

/* The same for a call that concerns a context as a whole. */
CUresult vcuda_capture_context_refuses(const struct vcuda_context *context);

/* Events: as takes(). An event that was recorded in a capture stands for nodes and for no work. */
bool vcuda_capture_record(CUevent event, CUstream resolved, unsigned int flags, CUresult *result);
bool vcuda_capture_wait(CUevent event, CUstream resolved, unsigned int flags, CUresult *result);
CUresult vcuda_capture_event_refuses(CUevent event);

/* CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED if the event was recorded in a capture, which is invalid then. */
CUresult vcuda_capture_event_unsupported(CUevent event);

#endif
