/* SPDX-License-Identifier: Apache-2.0 */
#include "stream/event.h"

#include "core/capture.h"
#include "core/init.h"
#include "core/request.h"
#include "stream/event-pool.h"
#include "protocol/guest-calls.h"
#include "stream/completion.h"
#include "core/object.h"

VCUDA_EXPORT CUresult cuEventCreate(CUevent *event, unsigned int flags)
{
	CUresult result = libcuda_require_context();
	struct libcuda_object *o;
	uint64_t generation;
	bool reused;

	if (result != CUDA_SUCCESS)
		return result;
	if (!event ||
	    flags & ~(unsigned int)(CU_EVENT_BLOCKING_SYNC | CU_EVENT_DISABLE_TIMING | CU_EVENT_INTERPROCESS) ||
	    (flags & CU_EVENT_INTERPROCESS && !(flags & CU_EVENT_DISABLE_TIMING)))
		return CUDA_ERROR_INVALID_VALUE;
	generation = atomic_load(&libcuda_context_current()->generation);
	reused = libcuda_event_pool_take(libcuda_context_current(), event, flags, generation);
	result = reused ? CUDA_SUCCESS : vcuda_call_cuEventCreate(event, flags);
	if (result != CUDA_SUCCESS)
		return result;
	o = libcuda_object_add(LIBCUDA_OBJECT_EVENT, *event, libcuda_context_current(), NULL);
	if (!o) {
		vcuda_call_cuEventDestroy_v2(*event);
		return CUDA_ERROR_OUT_OF_MEMORY;
	}
	o->flags = flags;
	o->generation = generation;
	o->reused = reused;
	return CUDA_SUCCESS;
}

static CUevent handle_of(const struct libcuda_object *event)
{
	return (CUevent)(uintptr_t)event->id;
}

/* Commands of a context run in order: once this command has its answer, all of them before it have run. */
static CUresult confirm_record(const struct call_options *how, const struct libcuda_object *event, CUresult result)
{
	if (result != CUDA_SUCCESS || !(event->flags & CU_EVENT_INTERPROCESS))
		return result;
	result = vcuda_call_cuEventQuery_with(how, handle_of(event));
	return result == CUDA_ERROR_NOT_READY ? CUDA_SUCCESS : result;
}

CUresult libcuda_event_record(const struct call_options *how, struct libcuda_object *event, CUstream resolved,
			      unsigned int flags)
{
	struct call_options options = *how;
	struct call_receipt r = {0};
	CUresult result;

	options.receipt = &r;
	result = vcuda_call_cuEventRecordWithFlags_with(&options, handle_of(event), resolved, flags);
	libcuda_completion_event_recorded(event, &r);
	return confirm_record(how, event, result);
}

CUresult libcuda_event_wait(const struct call_options *how, CUstream resolved, const struct libcuda_object *event,
			    unsigned int flags)
{
	if (libcuda_completion_event_is_done(event))
		return CUDA_SUCCESS;
	return confirm_record(how, event, vcuda_call_cuStreamWaitEvent_with(how, resolved, handle_of(event), flags));
}

CUresult libcuda_event_record_context(struct libcuda_object *event, struct libcuda_context *context)
{
	struct call_options options = libcuda_context_options(context);
	struct call_receipt r = {0};
	CUresult result;

	options.receipt = &r;
	result = vcuda_call_cuCtxRecordEvent_with(&options, atomic_load(&context->calls.id), handle_of(event));
	libcuda_completion_event_recorded(event, &r);
	options.receipt = NULL;
	return confirm_record(&options, event, result);
}

CUresult libcuda_event_wait_context(struct libcuda_context *context, const struct libcuda_object *event)
{
	const struct call_options how = libcuda_context_options(context);

	return confirm_record(&how, event,
			      vcuda_call_cuCtxWaitEvent_with(&how, atomic_load(&context->calls.id), handle_of(event)));
}

/* Finds an event, whose context can take calls and need not be the current one. */
static CUresult find_event(CUevent event, struct libcuda_object **o, struct libcuda_context **context)
{
	CUresult result = libcuda_require_init();

	*o = libcuda_object_find(LIBCUDA_OBJECT_EVENT, event);
	if (result != CUDA_SUCCESS)
		return result;
	if (!*o)
		return CUDA_ERROR_INVALID_HANDLE;
	/* Read once: the member is NULL when another thread destroys the event. */
	*context = __atomic_load_n(&(*o)->context, __ATOMIC_RELAXED);
	return libcuda_context_usable(*context);
}

VCUDA_EXPORT CUresult cuEventDestroy_v2(CUevent event)
{
	struct libcuda_context *c;
	struct libcuda_object *o;
	struct call_options how;
	CUresult result = find_event(event, &o, &c);
	unsigned int flags;
	uint64_t generation;
	bool is_done;

	if (result != CUDA_SUCCESS)
		return result;
	how = libcuda_context_options(c);
	flags = o->flags;
	generation = o->generation;
	/* During a capture the event may be recorded in it: a reused event must not be mistaken for that one. */
	is_done = libcuda_completion_event_is_done(o) && !libcuda_capture_any();
	if (!libcuda_object_drop(event))
		result = CUDA_ERROR_INVALID_HANDLE;
	else if (!is_done || !libcuda_event_pool_put(c, event, flags, generation))
		result = vcuda_call_cuEventDestroy_v2_with(&how, event);
	return result;
}

VCUDA_EXPORT CUresult cuEventQuery(CUevent event)
{
	struct libcuda_context *c;
	struct libcuda_object *o;
	CUresult result = find_event(event, &o, &c);

	if (result != CUDA_SUCCESS)
		return result;
	result = libcuda_capture_event_refuses(event);
	if (result == CUDA_SUCCESS)
		result = libcuda_capture_unsafe();
	if (result == CUDA_SUCCESS)
		result = libcuda_completion_event_query(c, o);
	return result;
}

VCUDA_EXPORT CUresult cuEventSynchronize(CUevent event)
{
	struct libcuda_context *c;
	struct libcuda_object *o;
	CUresult result = find_event(event, &o, &c);

	if (result != CUDA_SUCCESS)
		return result;
	result = libcuda_capture_event_refuses(event);
	if (result == CUDA_SUCCESS)
		result = libcuda_capture_unsafe();
	if (result == CUDA_SUCCESS)
		result = libcuda_completion_event_wait(c, o);
	return result;
}

/* One that was another event of the application's may have been recorded as that. */
static bool is_not_recorded(const struct libcuda_object *event)
{
	return event->reused && !atomic_load(&event->recorded);
}

VCUDA_EXPORT CUresult cuEventElapsedTime_v2(float *ms, CUevent start, CUevent end)
{
	struct libcuda_object *first, *last;
	struct libcuda_context *c;
	struct call_options how;
	CUresult result;

	if (!ms)
		return libcuda_invalid_value();
	result = find_event(start, &first, &c);
	if (result != CUDA_SUCCESS)
		return result;
	how = libcuda_context_options(c);
	last = libcuda_object_find(LIBCUDA_OBJECT_EVENT, end);
	if (!last || is_not_recorded(first) || is_not_recorded(last))
		result = CUDA_ERROR_INVALID_HANDLE;
	else
		result = vcuda_call_cuEventElapsedTime_v2_with(&how, ms, start, end);
	return result;
}

VCUDA_EXPORT CUresult cuEventElapsedTime(float *ms, CUevent start, CUevent end)
{
	return cuEventElapsedTime_v2(ms, start, end);
}

VCUDA_SAME(cuEventDestroy, cuEventDestroy_v2);
