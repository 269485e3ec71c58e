/* SPDX-License-Identifier: Apache-2.0 */
/* Streams. NULL and CU_STREAM_LEGACY are the worker's own; CU_STREAM_PER_THREAD is a real stream of (thread, context)
 * made here. */
#ifndef VCUDA_STREAM_H
#define VCUDA_STREAM_H

#include "core/context.h"
#include "core/request.h"
#include "protocol/cuda-abi.h"

/* The stream that a function with the suffix _ptds or _ptsz means. */
#define LIBCUDA_PER_THREAD(stream) ((stream) ? (stream) : CU_STREAM_PER_THREAD)

/* The worker's handle for an application's, in the current context. CUDA_ERROR_INVALID_HANDLE: there is no such stream.
 */
CUresult libcuda_stream_resolve(CUstream stream, CUstream *resolved);

/* The same, with libcuda_require_context() first. */
CUresult libcuda_stream_enter(CUstream *stream);

/* The same for what must be in a stream of the current context: CUDA_ERROR_INVALID_HANDLE for another's. */
CUresult libcuda_stream_enter_current(CUstream *stream);

/* libcuda_stream_visit() of a stream that is not the legacy default stream. */
CUresult libcuda_stream_visit_named(CUstream *stream, struct call_options *how);

/*
 * libcuda_stream_enter() for work that may be in a stream of another context than the current one; `how` names the
 * stream's context, in which the work's calls are made. Copies may (CUDA C Programming Guide, "Stream and Event
 * Behavior"), and launches of what belongs to that context.
 */
static inline CUresult libcuda_stream_visit(CUstream *stream, struct call_options *how)
{
	CUresult result;

	if (*stream && *stream != CU_STREAM_LEGACY)
		return libcuda_stream_visit_named(stream, how);
	result = libcuda_require_context();
	if (result == CUDA_SUCCESS)
		*how = libcuda_context_options(libcuda_context_current());
	return result;
}

/*
 * The same for a stream of any context where the calling thread may have no current one. A default stream belongs to
 * the current context.
 */
CUresult libcuda_stream_enter_home(CUstream *stream, struct libcuda_context **context);

/*
 * A number for a stream that is resolved, of the calling thread if it is a per-thread one, in `context`. No other
 * stream of the context has it. The low 32 bits of cuStreamGetId()'s, but bit 31 is set for per-thread streams.
 */
uint32_t libcuda_stream_number(const struct libcuda_context *context, CUstream resolved);

/* Waits for a stream that is resolved. */
CUresult libcuda_stream_wait(const struct call_options *how, CUstream resolved);

#endif
