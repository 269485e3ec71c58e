/* SPDX-License-Identifier: Apache-2.0 */
/* Stream handles. All calls with the lock held. */
#ifndef VCUDA_CPU_STREAM_H
#define VCUDA_CPU_STREAM_H

#include "device/context.h"
#include "device/schedule.h"

void softgpu_stream_init(struct CUstream_st *stream, struct CUctx_st *context, unsigned int flags, int priority);

/*
 * The stream that a handle names in this context: NULL and CU_STREAM_LEGACY are its NULL stream. NULL if there is none.
 */
struct CUstream_st *softgpu_stream_find(struct CUctx_st *context, CUstream handle);

/*
 * Queues the operation on a stream of the calling thread's context. Its finish() ends it if it cannot be queued: no
 * context, or CUDA_ERROR_INVALID_HANDLE.
 */
CUresult softgpu_stream_submit(CUstream handle, struct softgpu_op *op);

/*
 * A stream that gathers, or one that holds: for one operation, without a handle. The caller puts it once that is
 * submitted. NULL: no memory.
 */
struct CUstream_st *softgpu_stream_of_context(struct CUctx_st *context, bool holds);

void softgpu_stream_put(struct CUstream_st *stream);

/* Destroys all streams of a context; their work is done. */
void softgpu_streams_destroy(struct CUctx_st *context);

/* Waits for what the stream holds now, and returns the state of the context. */
CUresult softgpu_stream_wait(struct CUstream_st *stream);

#endif
