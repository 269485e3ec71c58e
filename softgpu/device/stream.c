/* SPDX-License-Identifier: Apache-2.0 */
#include "device/stream.h"

#include <stdlib.h>

#include "device/device.h"
#include "device/registry.h"

void softgpu_stream_init(struct CUstream_st *s, struct CUctx_st *context, unsigned int flags, int priority)
{
	s->context = context;
	s->flags = flags;
	s->priority = priority;
	s->refs = 1;
	s->head = NULL;
	s->tail = &s->head;
	s->last = 0;
	s->legacy = s->gathers = s->holds = false;
	s->blocking = !(flags & CU_STREAM_NON_BLOCKING);
	vcuda_list_init(&s->node);
	vcuda_list_init(&s->busy);
}

struct CUstream_st *softgpu_stream_find(struct CUctx_st *context, CUstream handle)
{
	if (!handle || handle == CU_STREAM_LEGACY)
		return &context->null_stream;
	if (!softgpu_registry_has(handle, SOFTGPU_STREAM) || handle->context != context)
		return NULL;
	return handle;
}

CUresult softgpu_stream_submit(CUstream handle, struct softgpu_op *op)
{
	struct CUstream_st *stream;
	struct CUctx_st *c;
	CUresult result = softgpu_enter(&c);

	if (result == CUDA_SUCCESS) {
		stream = softgpu_stream_find(c, handle);
		if (stream)
			softgpu_submit(stream, op, false);
		result = softgpu_leave(stream ? CUDA_SUCCESS : CUDA_ERROR_INVALID_HANDLE);
	}
	if (result != CUDA_SUCCESS)
		op->finish(op);
	return result;
}

void softgpu_stream_put(struct CUstream_st *stream)
{
	if (--stream->refs || stream->legacy)
		return;
	if (stream->holds)
		stream->context->holds--;
	free(stream);
}

struct CUstream_st *softgpu_stream_of_context(struct CUctx_st *context, bool holds)
{
	struct CUstream_st *s = calloc(1, sizeof(*s));

	if (!s)
		return NULL;
	softgpu_stream_init(s, context, CU_STREAM_NON_BLOCKING, SOFTGPU_PRIORITY_LEAST);
	s->gathers = !holds;
	s->holds = holds;
	context->holds += holds;
	return s;
}

static void destroy(struct CUstream_st *s)
{
	softgpu_registry_remove(s);
	vcuda_list_remove(&s->node);
	softgpu_stream_put(s);
}

void softgpu_streams_destroy(struct CUctx_st *context)
{
	while (!vcuda_list_empty(&context->streams))
		destroy(container_of(context->streams.next, struct CUstream_st, node));
}

CUresult softgpu_stream_wait(struct CUstream_st *stream)
{
	struct softgpu_scope scope = {.context = stream->context, .stream = stream, .last = softgpu_submitted()};
	CUresult result;

	stream->refs++;
	result = softgpu_context_wait(stream->context, &scope);
	/* The NULL stream is part of its context, which may be gone; it needs no reference. */
	if (!scope.stream->legacy)
		softgpu_stream_put(stream);
	return result;
}

CUresult softgpu_cuStreamCreateWithPriority(CUstream *phStream, unsigned flags, int priority)
{
	struct CUstream_st *s;
	struct CUctx_st *c;
	CUresult result = softgpu_enter(&c);

	if (result != CUDA_SUCCESS)
		return result;
	if (!phStream || (flags & ~(unsigned int)CU_STREAM_NON_BLOCKING))
		return softgpu_leave(CUDA_ERROR_INVALID_VALUE);
	s = calloc(1, sizeof(*s));
	if (!s)
		return softgpu_leave(CUDA_ERROR_OUT_OF_MEMORY);
	/* A priority outside of the range is moved into it, as the driver does. */
	if (priority < SOFTGPU_PRIORITY_GREATEST)
		priority = SOFTGPU_PRIORITY_GREATEST;
	if (priority > SOFTGPU_PRIORITY_LEAST)
		priority = SOFTGPU_PRIORITY_LEAST;
	softgpu_stream_init(s, c, flags, priority);
	if (!softgpu_registry_add(s, SOFTGPU_STREAM)) {
		free(s);
		return softgpu_leave(CUDA_ERROR_OUT_OF_MEMORY);
	}
	vcuda_list_add(&s->node, &c->streams);
	*phStream = s;
	return softgpu_leave(CUDA_SUCCESS);
}

/* Work that is still queued is done; only the handle goes. */
CUresult softgpu_cuStreamDestroy_v2(CUstream hStream)
{
	softgpu_lock();
	if (!softgpu_registry_has(hStream, SOFTGPU_STREAM))
		return softgpu_leave(CUDA_ERROR_INVALID_HANDLE);
	destroy(hStream);
	return softgpu_leave(CUDA_SUCCESS);
}

static CUresult enter_stream(CUstream handle, struct CUstream_st **stream)
{
	struct CUctx_st *c;
	CUresult result = softgpu_enter(&c);

	if (result != CUDA_SUCCESS)
		return result;
	*stream = softgpu_stream_find(c, handle);
	return *stream ? CUDA_SUCCESS : softgpu_leave(CUDA_ERROR_INVALID_HANDLE);
}

CUresult softgpu_cuStreamQuery(CUstream hStream)
{
	struct CUstream_st *s;
	struct softgpu_scope scope;
	CUresult result = enter_stream(hStream, &s);

	if (result != CUDA_SUCCESS)
		return result;
	scope = (struct softgpu_scope){.context = s->context, .stream = s, .last = softgpu_submitted()};
	return softgpu_leave(softgpu_scope_done(&scope) ? CUDA_SUCCESS : CUDA_ERROR_NOT_READY);
}

CUresult softgpu_cuStreamSynchronize(CUstream hStream)
{
	struct CUstream_st *s;
	CUresult result = enter_stream(hStream, &s);

	return result == CUDA_SUCCESS ? softgpu_leave(softgpu_stream_wait(s)) : result;
}

CUresult softgpu_cuStreamGetPriority(CUstream hStream, int *priority)
{
	struct CUstream_st *s;
	CUresult result = enter_stream(hStream, &s);

	if (result != CUDA_SUCCESS)
		return result;
	if (!priority)
		return softgpu_leave(CUDA_ERROR_INVALID_VALUE);
	*priority = s->priority;
	return softgpu_leave(CUDA_SUCCESS);
}

CUresult softgpu_cuStreamGetFlags(CUstream hStream, unsigned *flags)
{
	struct CUstream_st *s;
	CUresult result = enter_stream(hStream, &s);

	if (result != CUDA_SUCCESS)
		return result;
	if (!flags)
		return softgpu_leave(CUDA_ERROR_INVALID_VALUE);
	*flags = s->flags;
	return softgpu_leave(CUDA_SUCCESS);
}
