/* SPDX-License-Identifier: Apache-2.0 */
#include "stream/event.h"

#include "guest/client/call.h"
#include "graph/capture.h"
#include "stream/event-pool.h"
#include "protocol/guest-calls.h"
#include "stream/known.h"
#include "core/object.h"
#include "stream/stream.h"

VCUDA_EXPORT CUresult cuEventCreate(CUevent *event, unsigned int flags)
{
	CUresult result = vcuda_require_context();
	struct vcuda_object *o;
	uint64_t life;
	bool reused;

	if (result != CUDA_SUCCESS)
		return result;
	if (!event ||
	    flags & ~(unsigned int)(CU_EVENT_BLOCKING_SYNC | CU_EVENT_DISABLE_TIMING | CU_EVENT_INTERPROCESS) ||
	    (flags & CU_EVENT_INTERPROCESS && !(flags & CU_EVENT_DISABLE_TIMING)))
		return CUDA_ERROR_INVALID_VALUE;
	life = atomic_load(&vcuda_context_current()->life);
	reused = vcuda_event_pool_take(event, flags, life);
	result = reused ? CUDA_SUCCESS : vcuda_call_cuEventCreate(event, flags);
	if (result != CUDA_SUCCESS)
		return result;
	o = vcuda_object_add(VCUDA_OBJECT_EVENT, *event, vcuda_context_current(), NULL);
	if (!o) {
		vcuda_call_cuEventDestroy_v2(*event);
		return CUDA_ERROR_OUT_OF_MEMORY;
	}
	o->flags = flags;
	o->life = life;
	o->reused = reused;
	return CUDA_SUCCESS;
}

static CUevent handle_of(const struct vcuda_object *event)
{
	return (CUevent)(uintptr_t)event->id;
}

/* Commands run in order: once this one has its answer, those before it have run. */
static CUresult settle(const struct vcuda_object *event, CUresult result)
{
	if (result != CUDA_SUCCESS || !(event->flags & CU_EVENT_INTERPROCESS))
		return result;
	result = vcuda_call_cuEventQuery(handle_of(event));
	return result == CUDA_ERROR_NOT_READY ? CUDA_SUCCESS : result;
}

CUresult vcuda_event_record(struct vcuda_object *event, CUstream resolved, unsigned int flags)
{
	CUresult result = vcuda_call_cuEventRecordWithFlags(handle_of(event), resolved, flags);

	vcuda_known_recorded(event);
	return settle(event, result);
}

CUresult vcuda_event_wait(CUstream resolved, const struct vcuda_object *event, unsigned int flags)
{
	if (vcuda_known_is_done(event))
		return CUDA_SUCCESS;
	return settle(event, vcuda_call_cuStreamWaitEvent(resolved, handle_of(event), flags));
}

/* Calls in the event's context from here on, which need not be the current one; the caller leaves it. */
static CUresult enter_event(CUevent event, struct vcuda_object **o)
{
	CUresult result = vcuda_require_init();

	*o = vcuda_object_find(VCUDA_OBJECT_EVENT, event);
	if (result != CUDA_SUCCESS)
		return result;
	if (!*o)
		return CUDA_ERROR_INVALID_HANDLE;
	result = vcuda_context_usable((*o)->context);
	if (result == CUDA_SUCCESS)
		vcuda_context_enter((*o)->context);
	return result;
}

VCUDA_EXPORT CUresult cuEventDestroy_v2(CUevent event)
{
	struct vcuda_object *o;
	CUresult result = enter_event(event, &o);
	unsigned int flags;
	uint64_t life;
	bool is_done;

	if (result != CUDA_SUCCESS)
		return result;
	flags = o->flags;
	life = o->life;
	/* A capture may have recorded it, which nobody would know of one that comes again under its name. */
	is_done = vcuda_known_is_done(o) && !vcuda_capture_any();
	if (!vcuda_object_drop(event))
		result = CUDA_ERROR_INVALID_HANDLE;
	else if (!is_done || !vcuda_event_pool_keep(event, flags, life))
		result = vcuda_call_cuEventDestroy_v2(event);
	vcuda_context_leave();
	return result;
}

VCUDA_EXPORT CUresult cuEventRecordWithFlags(CUevent event, CUstream stream, unsigned int flags)
{
	CUresult result = vcuda_stream_enter(&stream);
	struct vcuda_object *o = vcuda_object_find(VCUDA_OBJECT_EVENT, event),
			    *s = vcuda_object_find(VCUDA_OBJECT_STREAM, stream);
	struct vcuda_context *c = s ? s->context : vcuda_context_current();

	if (result != CUDA_SUCCESS)
		return result;
	if (flags & ~(unsigned int)CU_EVENT_RECORD_EXTERNAL)
		return CUDA_ERROR_INVALID_VALUE;
	if (!o || o->context != c)
		return CUDA_ERROR_INVALID_HANDLE;
	if (vcuda_capture_record(event, stream, flags, &result))
		return result;
	/* The flag is about what a capture records. */
	if (flags & CU_EVENT_RECORD_EXTERNAL)
		return CUDA_ERROR_ILLEGAL_STATE;
	vcuda_context_enter(c);
	result = vcuda_event_record(o, stream, flags);
	vcuda_context_leave();
	return result;
}

VCUDA_EXPORT CUresult cuEventRecord(CUevent event, CUstream stream)
{
	return cuEventRecordWithFlags(event, stream, CU_EVENT_RECORD_DEFAULT);
}

VCUDA_EXPORT CUresult cuEventQuery(CUevent event)
{
	struct vcuda_object *o;
	CUresult result = enter_event(event, &o);

	if (result != CUDA_SUCCESS)
		return result;
	result = vcuda_capture_event_refuses(event);
	if (result == CUDA_SUCCESS)
		result = vcuda_capture_unsafe();
	if (result == CUDA_SUCCESS)
		result = vcuda_known_event_query(o);
	vcuda_context_leave();
	return result;
}

VCUDA_EXPORT CUresult cuEventSynchronize(CUevent event)
{
	struct vcuda_object *o;
	CUresult result = enter_event(event, &o);

	if (result != CUDA_SUCCESS)
		return result;
	result = vcuda_capture_event_refuses(event);
	if (result == CUDA_SUCCESS)
		result = vcuda_capture_unsafe();
	if (result == CUDA_SUCCESS)
		result = vcuda_known_event_wait(o);
	vcuda_context_leave();
	return result;
}

/* One that was another event of the application's may have been recorded as that. */
static bool is_not_recorded(const struct vcuda_object *event)
{
	return event->reused && !atomic_load(&event->recorded);
}

VCUDA_EXPORT CUresult cuEventElapsedTime_v2(float *ms, CUevent start, CUevent end)
{
	struct vcuda_object *first, *last;
	CUresult result;

	if (!ms)
		return CUDA_ERROR_INVALID_VALUE;
	result = enter_event(start, &first);
	if (result != CUDA_SUCCESS)
		return result;
	last = vcuda_object_find(VCUDA_OBJECT_EVENT, end);
	if (!last || is_not_recorded(first) || is_not_recorded(last))
		result = CUDA_ERROR_INVALID_HANDLE;
	else
		result = vcuda_call_cuEventElapsedTime_v2(ms, start, end);
	vcuda_context_leave();
	return result;
}

VCUDA_EXPORT CUresult cuEventElapsedTime(float *ms, CUevent start, CUevent end)
{
	return cuEventElapsedTime_v2(ms, start, end);
}

/* ---- events of a context as a whole ---- */

/* Finds what is named, and calls in the context from here on; the caller leaves it. */
static CUresult enter_with_event(CUcontext ctx, CUevent event, struct vcuda_context **c, struct vcuda_object **o)
{
	CUresult result = vcuda_require_init();

	*c = ctx ? vcuda_context_find(ctx) : vcuda_context_current();
	if (result == CUDA_SUCCESS)
		result = vcuda_context_usable(*c);
	if (result != CUDA_SUCCESS)
		return result;
	*o = vcuda_object_find(VCUDA_OBJECT_EVENT, event);
	if (!*o)
		return CUDA_ERROR_INVALID_HANDLE;
	result = vcuda_capture_context_refuses(*c);
	if (result == CUDA_SUCCESS)
		vcuda_context_enter(*c);
	return result;
}

VCUDA_EXPORT CUresult cuCtxRecordEvent(CUcontext ctx, CUevent event)
{
	struct vcuda_context *c;
	struct vcuda_object *o;
	CUresult result = enter_with_event(ctx, event, &c, &o);

	if (result != CUDA_SUCCESS)
		return result;
	result = CUDA_ERROR_INVALID_HANDLE;
	if (o->context == c) {
		/* One that was recorded in a capture is an ordinary event again. */
		vcuda_capture_record(event, NULL, CU_EVENT_RECORD_DEFAULT, &result);
		result = vcuda_call_cuCtxRecordEvent(atomic_load(&c->id), event);
		vcuda_known_recorded(o);
		result = settle(o, result);
	}
	vcuda_context_leave();
	return result;
}

VCUDA_EXPORT CUresult cuCtxWaitEvent(CUcontext ctx, CUevent event)
{
	struct vcuda_context *c;
	struct vcuda_object *o;
	CUresult result = vcuda_capture_event_unsupported(event);

	if (result == CUDA_SUCCESS)
		result = enter_with_event(ctx, event, &c, &o);
	if (result != CUDA_SUCCESS)
		return result;
	result = settle(o, vcuda_call_cuCtxWaitEvent(atomic_load(&c->id), event));
	vcuda_context_leave();
	return result;
}

VCUDA_SAME(cuEventDestroy, cuEventDestroy_v2);
