/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Stream capture, as rooms below graph/ see it. Work that a call would issue on a capturing stream becomes a node of
 * the capture's graph. A call that issues work asks libcuda_capture_takes() after it has checked its arguments. While
 * no stream captures, a question is one load and no call. Thread-safe.
 */
#ifndef VCUDA_CAPTURE_H
#define VCUDA_CAPTURE_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>

#include "core/context.h"
#include "protocol/cuda-abi.h"

/* The questions below, as graph/capture.c answers them. */
struct libcuda_capture_ops {
	bool (*takes)(const struct call_options *how, CUstream resolved, CUgraphNodeParams *params, CUresult *result);
	CUresult (*unsafe)(void);
	CUresult (*refuses)(const struct libcuda_context *context, CUstream resolved);
	CUresult (*context_refuses)(const struct libcuda_context *context);
	bool (*record)(const struct call_options *how, CUevent event, CUstream resolved, unsigned int flags,
		       CUresult *result);
	bool (*wait)(const struct call_options *how, CUevent event, CUstream resolved, unsigned int flags,
		     CUresult *result);
	CUresult (*event_refuses)(CUevent event);
	CUresult (*event_unsupported)(CUevent event);
};

/* Set from the begin of the first capture to the end of the last one; NULL while no stream captures. */
extern _Atomic(const struct libcuda_capture_ops *) libcuda_capture_hook;

static inline const struct libcuda_capture_ops *libcuda_capture_ops(void)
{
	return atomic_load_explicit(&libcuda_capture_hook, memory_order_relaxed);
}

static inline bool libcuda_capture_any(void)
{
	return libcuda_capture_ops() != NULL;
}

/*
 * In the functions below `how` has the context of the stream, which is resolved.
 *
 * False: the stream does not capture, and the caller issues the work. True: `*result` is the call's result; `params`
 * describes the node that was made.
 */
static inline bool libcuda_capture_takes(const struct call_options *how, CUstream resolved, CUgraphNodeParams *params,
					 CUresult *result)
{
	const struct libcuda_capture_ops *ops = libcuda_capture_ops();

	return ops && ops->takes(how, resolved, params, result);
}

/* A call that a capture forbids in the calling thread: CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED, and the capture becomes
 * invalid. */
static inline CUresult libcuda_capture_unsafe(void)
{
	const struct libcuda_capture_ops *ops = libcuda_capture_ops();

	return ops ? ops->unsafe() : CUDA_SUCCESS;
}

/* The same for a call that waits for a stream or asks for its state. */
static inline CUresult libcuda_capture_refuses(const struct libcuda_context *context, CUstream resolved)
{
	const struct libcuda_capture_ops *ops = libcuda_capture_ops();

	return ops ? ops->refuses(context, resolved) : CUDA_SUCCESS;
}

/* The same for a call that concerns a context as a whole. */
static inline CUresult libcuda_capture_context_refuses(const struct libcuda_context *context)
{
	const struct libcuda_capture_ops *ops = libcuda_capture_ops();

	return ops ? ops->context_refuses(context) : CUDA_SUCCESS;
}

/* For events, as libcuda_capture_takes(). An event that was recorded in a capture represents nodes and no work. */
static inline bool libcuda_capture_record(const struct call_options *how, CUevent event, CUstream resolved,
					  unsigned int flags, CUresult *result)
{
	const struct libcuda_capture_ops *ops = libcuda_capture_ops();

	return ops && ops->record(how, event, resolved, flags, result);
}

static inline bool libcuda_capture_wait(const struct call_options *how, CUevent event, CUstream resolved,
					unsigned int flags, CUresult *result)
{
	const struct libcuda_capture_ops *ops = libcuda_capture_ops();

	return ops && ops->wait(how, event, resolved, flags, result);
}

/* CUDA_ERROR_CAPTURED_EVENT if the event was recorded in a capture. */
static inline CUresult libcuda_capture_event_refuses(CUevent event)
{
	const struct libcuda_capture_ops *ops = libcuda_capture_ops();

	return ops ? ops->event_refuses(event) : CUDA_SUCCESS;
}

/* CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED if the event was recorded in a capture, which becomes invalid. */
static inline CUresult libcuda_capture_event_unsupported(CUevent event)
{
	const struct libcuda_capture_ops *ops = libcuda_capture_ops();

	return ops ? ops->event_unsupported(event) : CUDA_SUCCESS;
}

#endif
