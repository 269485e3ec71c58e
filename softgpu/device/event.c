/* SPDX-License-Identifier: Apache-2.0 */
#include "device/event.h"

#include <stdlib.h>
#include <time.h>

#include "device/ipc-event.h"
#include "device/registry.h"
#include "device/schedule.h"
#include "device/stream.h"

struct softgpu_record {
	struct softgpu_op op;  /* in the stream until done */
	unsigned int refs; /* the queue, the event, each wait and each waiting thread */
	bool done;
	struct timespec time;
	struct softgpu_shared_event *shared; /* the event's, NULL: not one of several processes */
	uint64_t number;                 /* of the record, there */
};

struct CUevent_st {
	struct CUctx_st *context;
	struct vcuda_list node;
	unsigned int flags;
	struct softgpu_record *record; /* the newest; NULL: never recorded */
	struct softgpu_shared_event *shared; /* NULL, or the record is any process's newest */
};

/* A stream's wait for a record of another. */
struct wait {
	struct softgpu_op op;
};

bool softgpu_record_done(const struct softgpu_record *record)
{
	return record->done;
}

static void record_put(struct softgpu_record *record)
{
	if (!record || --record->refs)
		return;
	softgpu_shared_event_put(record->shared);
	free(record);
}

static void record_finish(struct softgpu_op *op)
{
	struct softgpu_record *record = (struct softgpu_record *)op;

	clock_gettime(CLOCK_MONOTONIC, &record->time);
	record->done = true;
	if (record->shared)
		softgpu_shared_event_finish(record->shared, record->number);
	softgpu_wake_waiters();
	record_put(record);
}

static void wait_finish(struct softgpu_op *op)
{
	record_put(op->after);
	free(op);
}

static void destroy(struct CUevent_st *e)
{
	softgpu_registry_remove(e);
	vcuda_list_remove(&e->node);
	record_put(e->record);
	softgpu_shared_event_put(e->shared);
	free(e);
}

void softgpu_events_destroy(struct CUctx_st *context)
{
	while (!vcuda_list_empty(&context->events))
		destroy(container_of(context->events.next, struct CUevent_st, node));
}

/* Takes ownership of `shared`. */
static CUresult create(struct CUctx_st *c, unsigned int flags, struct softgpu_shared_event *shared, CUevent *handle)
{
	struct CUevent_st *e = calloc(1, sizeof(*e));

	if (!e || !softgpu_registry_add(e, SOFTGPU_EVENT)) {
		softgpu_shared_event_put(shared);
		free(e);
		return CUDA_ERROR_OUT_OF_MEMORY;
	}
	e->context = c;
	e->flags = flags;
	e->shared = shared;
	vcuda_list_add(&e->node, &c->events);
	*handle = e;
	return CUDA_SUCCESS;
}

CUresult softgpu_cuEventCreate(CUevent *phEvent, unsigned Flags)
{
	const unsigned int known = CU_EVENT_BLOCKING_SYNC | CU_EVENT_DISABLE_TIMING | CU_EVENT_INTERPROCESS;
	struct softgpu_shared_event *shared;
	struct CUctx_st *c;
	CUresult result = softgpu_enter(&c);

	if (result != CUDA_SUCCESS)
		return result;
	if (!phEvent || (Flags & ~known))
		return softgpu_leave(CUDA_ERROR_INVALID_VALUE);
	if (!(Flags & CU_EVENT_INTERPROCESS))
		return softgpu_leave(create(c, Flags, NULL, phEvent));
	if (!(Flags & CU_EVENT_DISABLE_TIMING))
		return softgpu_leave(CUDA_ERROR_INVALID_VALUE);
	shared = softgpu_shared_event_create();
	return softgpu_leave(shared ? create(c, Flags, shared, phEvent) : CUDA_ERROR_OUT_OF_MEMORY);
}

struct softgpu_shared_event *softgpu_event_shared(CUevent handle)
{
	return softgpu_registry_has(handle, SOFTGPU_EVENT) ? handle->shared : NULL;
}

CUresult softgpu_event_open(struct CUctx_st *context, struct softgpu_shared_event *shared, CUevent *handle)
{
	return create(context, CU_EVENT_DISABLE_TIMING | CU_EVENT_INTERPROCESS, shared, handle);
}

CUresult softgpu_cuEventDestroy_v2(CUevent hEvent)
{
	softgpu_lock();
	if (!softgpu_registry_has(hEvent, SOFTGPU_EVENT))
		return softgpu_leave(CUDA_ERROR_INVALID_HANDLE);
	destroy(hEvent);
	return softgpu_leave(CUDA_SUCCESS);
}

static CUresult record_in(struct CUstream_st *stream, CUevent hEvent)
{
	struct softgpu_record *record = calloc(1, sizeof(*record));

	if (!record)
		return CUDA_ERROR_OUT_OF_MEMORY;
	record->refs = 2;
	record->op.finish = record_finish;
	if (hEvent->shared) {
		softgpu_shared_event_get(hEvent->shared);
		record->shared = hEvent->shared;
		record->number = softgpu_shared_event_begin(hEvent->shared);
		if (!record->number) {
			record->refs = 1;
			record_put(record);
			return CUDA_ERROR_OUT_OF_MEMORY;
		}
	}
	record_put(hEvent->record);
	hEvent->record = record;
	softgpu_submit(stream, &record->op, false);
	return CUDA_SUCCESS;
}

CUresult softgpu_cuEventRecordWithFlags(CUevent hEvent, CUstream hStream, unsigned flags)
{
	struct CUstream_st *stream;
	struct CUctx_st *c;
	CUresult result = softgpu_enter(&c);

	if (result != CUDA_SUCCESS)
		return result;
	stream = softgpu_stream_find(c, hStream);
	if (!stream || !softgpu_registry_has(hEvent, SOFTGPU_EVENT) || hEvent->context != c)
		return softgpu_leave(CUDA_ERROR_INVALID_HANDLE);
	/* CU_EVENT_RECORD_EXTERNAL belongs to stream capture, which is not here. */
	if (flags != CU_EVENT_RECORD_DEFAULT)
		return softgpu_leave(CUDA_ERROR_INVALID_VALUE);
	return softgpu_leave(record_in(stream, hEvent));
}

CUresult softgpu_cuCtxRecordEvent(CUcontext hCtx, CUevent hEvent)
{
	struct CUstream_st *stream;
	struct CUctx_st *c;
	CUresult result = softgpu_enter(&c);

	if (result != CUDA_SUCCESS)
		return result;
	if (hCtx != c)
		return softgpu_leave(CUDA_ERROR_INVALID_CONTEXT);
	if (!softgpu_registry_has(hEvent, SOFTGPU_EVENT) || hEvent->context != c)
		return softgpu_leave(CUDA_ERROR_INVALID_HANDLE);
	stream = softgpu_stream_of_context(c, false);
	if (!stream)
		return softgpu_leave(CUDA_ERROR_OUT_OF_MEMORY);
	result = record_in(stream, hEvent);
	softgpu_stream_put(stream);
	return softgpu_leave(result);
}

static bool is_done(const struct CUevent_st *e)
{
	if (e->shared)
		return softgpu_shared_event_done(e->shared, softgpu_shared_event_newest(e->shared));
	return !e->record || e->record->done;
}

static CUresult await(struct CUstream_st *stream, struct softgpu_shared_event *shared)
{
	bool ok = softgpu_shared_event_await(stream, shared, softgpu_shared_event_newest(shared));

	return ok ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
}

static CUresult wait_in(struct CUstream_st *stream, CUevent hEvent)
{
	struct wait *wait;

	if (hEvent->shared)
		return await(stream, hEvent->shared);
	wait = calloc(1, sizeof(*wait));
	if (!wait)
		return CUDA_ERROR_OUT_OF_MEMORY;
	wait->op.after = hEvent->record;
	wait->op.after->refs++;
	wait->op.finish = wait_finish;
	softgpu_submit(stream, &wait->op, false);
	return CUDA_SUCCESS;
}

CUresult softgpu_cuStreamWaitEvent(CUstream hStream, CUevent hEvent, unsigned Flags)
{
	struct CUstream_st *stream;
	struct CUctx_st *c;
	CUresult result = softgpu_enter(&c);

	if (result != CUDA_SUCCESS)
		return result;
	stream = softgpu_stream_find(c, hStream);
	/* The event may be another context's. */
	if (!stream || !softgpu_registry_has(hEvent, SOFTGPU_EVENT))
		return softgpu_leave(CUDA_ERROR_INVALID_HANDLE);
	if (Flags != CU_EVENT_WAIT_DEFAULT)
		return softgpu_leave(CUDA_ERROR_INVALID_VALUE);
	return softgpu_leave(is_done(hEvent) ? CUDA_SUCCESS : wait_in(stream, hEvent));
}

CUresult softgpu_cuCtxWaitEvent(CUcontext hCtx, CUevent hEvent)
{
	struct CUstream_st *stream;
	struct CUctx_st *c;
	CUresult result = softgpu_enter(&c);

	if (result != CUDA_SUCCESS)
		return result;
	if (hCtx != c)
		return softgpu_leave(CUDA_ERROR_INVALID_CONTEXT);
	if (!softgpu_registry_has(hEvent, SOFTGPU_EVENT))
		return softgpu_leave(CUDA_ERROR_INVALID_HANDLE);
	if (is_done(hEvent))
		return softgpu_leave(CUDA_SUCCESS);
	stream = softgpu_stream_of_context(c, true);
	if (!stream)
		return softgpu_leave(CUDA_ERROR_OUT_OF_MEMORY);
	result = wait_in(stream, hEvent);
	softgpu_stream_put(stream);
	return softgpu_leave(result);
}

static CUresult enter_event(CUevent handle)
{
	struct CUctx_st *c;
	CUresult result = softgpu_enter(&c);

	if (result != CUDA_SUCCESS)
		return result;
	if (!softgpu_registry_has(handle, SOFTGPU_EVENT))
		return softgpu_leave(CUDA_ERROR_INVALID_HANDLE);
	/* An event of a failed context never reports success, whichever context is current. */
	return handle->context->error ? softgpu_leave(handle->context->error) : CUDA_SUCCESS;
}

CUresult softgpu_cuEventQuery(CUevent hEvent)
{
	CUresult result = enter_event(hEvent);

	if (result != CUDA_SUCCESS)
		return result;
	return softgpu_leave(is_done(hEvent) ? CUDA_SUCCESS : CUDA_ERROR_NOT_READY);
}

static CUresult sleep_until(struct CUctx_st *c, struct softgpu_shared_event *shared)
{
	CUresult result;

	softgpu_context_get(c);
	softgpu_shared_event_sleep(c, shared, softgpu_shared_event_newest(shared));
	result = softgpu_context_state(c);
	softgpu_context_put(c);
	return result;
}

CUresult softgpu_cuEventSynchronize(CUevent hEvent)
{
	CUresult result = enter_event(hEvent);
	struct softgpu_record *record;
	struct softgpu_scope scope;

	if (result != CUDA_SUCCESS)
		return result;
	if (is_done(hEvent))
		return softgpu_leave(CUDA_SUCCESS);
	if (hEvent->shared)
		return softgpu_leave(sleep_until(hEvent->context, hEvent->shared));
	record = hEvent->record;
	record->refs++;
	/* While the record is not done it is in its stream, so the stream lives. */
	scope = (struct softgpu_scope){
		.record = record, .context = hEvent->context, .stream = record->op.stream, .last = record->op.seq};
	result = softgpu_context_wait(hEvent->context, &scope);
	record_put(record);
	return softgpu_leave(result);
}

CUresult softgpu_cuEventElapsedTime_v2(float *pMilliseconds, CUevent hStart, CUevent hEnd)
{
	const struct softgpu_record *start, *end;
	struct CUctx_st *c;
	CUresult result = softgpu_enter(&c);

	if (result != CUDA_SUCCESS)
		return result;
	if (!pMilliseconds)
		return softgpu_leave(CUDA_ERROR_INVALID_VALUE);
	if (!softgpu_registry_has(hStart, SOFTGPU_EVENT) || !softgpu_registry_has(hEnd, SOFTGPU_EVENT))
		return softgpu_leave(CUDA_ERROR_INVALID_HANDLE);
	if (hStart->context->device != hEnd->context->device)
		return softgpu_leave(CUDA_ERROR_INVALID_HANDLE);
	start = hStart->record;
	end = hEnd->record;
	if (!start || !end || ((hStart->flags | hEnd->flags) & CU_EVENT_DISABLE_TIMING))
		return softgpu_leave(CUDA_ERROR_INVALID_HANDLE);
	if (!start->done || !end->done)
		return softgpu_leave(CUDA_ERROR_NOT_READY);
	*pMilliseconds = (float)((double)(end->time.tv_sec - start->time.tv_sec) * 1e3 +
				 (double)(end->time.tv_nsec - start->time.tv_nsec) * 1e-6);
	return softgpu_leave(CUDA_SUCCESS);
}
