/* SPDX-License-Identifier: Apache-2.0 */
#include "device/stream.h"

#include <stdlib.h>

#include "device/device.h"
#include "device/registry.h"

void cpu_stream_init(struct CUstream_st *s, struct CUctx_st *context, unsigned int flags, int priority)
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

struct CUstream_st *cpu_stream_find(struct CUctx_st *context, CUstream handle)
{
	if (!handle || handle == CU_STREAM_LEGACY)
		return &context->null_stream;
	if (!cpu_registry_has(handle, CPU_STREAM) || handle->context != context)
		return NULL;
	return handle;
}

CUresult cpu_stream_submit(CUstream handle, struct cpu_op *op)
{
	struct CUstream_st *stream;
	struct CUctx_st *c;
	CUresult result = cpu_enter(&c);

	if (result == CUDA_SUCCESS) {
		stream = cpu_stream_find(c, handle);
		if (stream)
			cpu_submit(stream, op, false);
		result = cpu_leave(stream ? CUDA_SUCCESS : CUDA_ERROR_INVALID_HANDLE);
	}
	if (result != CUDA_SUCCESS)
		op->finish(op);
	return result;
}

void cpu_stream_put(struct CUstream_st *stream)
{
	if (--stream->refs || stream->legacy)
		return;
	if (stream->holds)
		stream->context->holds--;
	free(stream);
}

struct CUstream_st *cpu_stream_of_context(struct CUctx_st *context, bool holds)
{
	struct CUstream_st *s = calloc(1, sizeof(*s));

	if (!s)
		return NULL;
	cpu_stream_init(s, context, CU_STREAM_NON_BLOCKING, CPU_PRIORITY_LEAST);
	s->gathers = !holds;
	s->holds = holds;
	context->holds += holds;
	return s;
}

static void destroy(struct CUstream_st *s)
{
	cpu_registry_remove(s);
	vcuda_list_remove(&s->node);
	cpu_stream_put(s);
}

void cpu_streams_destroy(struct CUctx_st *context)
{
	while (!vcuda_list_empty(&context->streams))
		destroy(container_of(context->streams.next, struct CUstream_st, node));
}

CUresult cpu_stream_wait(struct CUstream_st *stream)
{
	struct cpu_scope scope = {.context = stream->context, .stream = stream, .last = cpu_submitted()};
	CUresult result;

	stream->refs++;
	result = cpu_context_wait(stream->context, &scope);
	/* The NULL stream is part of its context, which may be gone; it needs no reference. */
	if (!scope.stream->legacy)
		cpu_stream_put(stream);
	return result;
}

CUresult cpu_cuStreamCreateWithPriority(CUstream *phStream, unsigned flags, int priority)
{
	struct CUstream_st *s;
	struct CUctx_st *c;
	CUresult result = cpu_enter(&c);

	if (result != CUDA_SUCCESS)
		return result;
	if (!phStream || (flags & ~(unsigned int)CU_STREAM_NON_BLOCKING))
		return cpu_leave(CUDA_ERROR_INVALID_VALUE);
	s = calloc(1, sizeof(*s));
	if (!s)
		return cpu_leave(CUDA_ERROR_OUT_OF_MEMORY);
	/* A priority outside of the range is moved into it, as the driver does. */
	if (priority < CPU_PRIORITY_GREATEST)
		priority = CPU_PRIORITY_GREATEST;
	if (priority > CPU_PRIORITY_LEAST)
		priority = CPU_PRIORITY_LEAST;
	cpu_stream_init(s, c, flags, priority);
	if (!cpu_registry_add(s, CPU_STREAM)) {
		free(s);
		return cpu_leave(CUDA_ERROR_OUT_OF_MEMORY);
	}
	vcuda_list_add(&s->node, &c->streams);
	*phStream = s;
	return cpu_leave(CUDA_SUCCESS);
}

/* Work that is still queued is done; only the handle goes. */
CUresult cpu_cuStreamDestroy_v2(CUstream hStream)
{
	cpu_lock();
	if (!cpu_registry_has(hStream, CPU_STREAM))
		return cpu_leave(CUDA_ERROR_INVALID_HANDLE);
	destroy(hStream);
	return cpu_leave(CUDA_SUCCESS);
}

static CUresult enter_stream(CUstream handle, struct CUstream_st **stream)
{
	struct CUctx_st *c;
	CUresult result = cpu_enter(&c);

	if (result != CUDA_SUCCESS)
		return result;
	*stream = cpu_stream_find(c, handle);
	return *stream ? CUDA_SUCCESS : cpu_leave(CUDA_ERROR_INVALID_HANDLE);
}

CUresult cpu_cuStreamQuery(CUstream hStream)
{
	struct CUstream_st *s;
	struct cpu_scope scope;
	CUresult result = enter_stream(hStream, &s);

	if (result != CUDA_SUCCESS)
		return result;
	scope = (struct cpu_scope){.context = s->context, .stream = s, .last = cpu_submitted()};
	return cpu_leave(cpu_scope_done(&scope) ? CUDA_SUCCESS : CUDA_ERROR_NOT_READY);
}

CUresult cpu_cuStreamSynchronize(CUstream hStream)
{
	struct CUstream_st *s;
	CUresult result = enter_stream(hStream, &s);

	return result == CUDA_SUCCESS ? cpu_leave(cpu_stream_wait(s)) : result;
}

CUresult cpu_cuStreamGetPriority(CUstream hStream, int *priority)
{
	struct CUstream_st *s;
	CUresult result = enter_stream(hStream, &s);

	if (result != CUDA_SUCCESS)
		return result;
	if (!priority)
		return cpu_leave(CUDA_ERROR_INVALID_VALUE);
	*priority = s->priority;
	return cpu_leave(CUDA_SUCCESS);
}

CUresult cpu_cuStreamGetFlags(CUstream hStream, unsigned *flags)
{
	struct CUstream_st *s;
	CUresult result = enter_stream(hStream, &s);

	if (result != CUDA_SUCCESS)
		return result;
	if (!flags)
		return cpu_leave(CUDA_ERROR_INVALID_VALUE);
	*flags = s->flags;
	return cpu_leave(CUDA_SUCCESS);
}
