/* SPDX-License-Identifier: Apache-2.0 */
/* Records of events and waits for them: of work, or of nodes where a stream captures. */
#include "stream/event.h"

#include "core/capture.h"
#include "core/object.h"
#include "core/request.h"
#include "protocol/cuda-functions.h"
#include "stream/stream.h"

VCUDA_EXPORT CUresult cuEventRecordWithFlags(CUevent event, CUstream stream, unsigned int flags)
{
	CUresult result = libcuda_stream_enter(&stream);
	struct libcuda_object *o = libcuda_object_find(LIBCUDA_OBJECT_EVENT, event),
			      *s = libcuda_object_find(LIBCUDA_OBJECT_STREAM, stream);
	struct libcuda_context *c = s ? s->context : libcuda_context_current();
	struct call_options how;

	if (result != CUDA_SUCCESS)
		return result;
	if (flags & ~(unsigned int)CU_EVENT_RECORD_EXTERNAL)
		return CUDA_ERROR_INVALID_VALUE;
	if (!o || o->context != c)
		return CUDA_ERROR_INVALID_HANDLE;
	how = libcuda_context_options(c);
	if (libcuda_capture_record(&how, event, stream, flags, &result))
		return result;
	/* The flag is about what a capture records. */
	if (flags & CU_EVENT_RECORD_EXTERNAL)
		return CUDA_ERROR_ILLEGAL_STATE;
	return libcuda_event_record(&how, o, stream, flags);
}

VCUDA_EXPORT CUresult cuEventRecord(CUevent event, CUstream stream)
{
	return cuEventRecordWithFlags(event, stream, CU_EVENT_RECORD_DEFAULT);
}

VCUDA_EXPORT CUresult cuStreamWaitEvent(CUstream stream, CUevent event, unsigned int flags)
{
	const struct libcuda_object *o;
	struct libcuda_context *c;
	struct call_options how;
	CUresult result;

	if (flags & ~(unsigned int)CU_EVENT_WAIT_EXTERNAL)
		return CUDA_ERROR_INVALID_VALUE;
	result = libcuda_stream_enter_home(&stream, &c);
	if (result != CUDA_SUCCESS)
		return result;
	how = libcuda_context_options(c);
	o = libcuda_object_find(LIBCUDA_OBJECT_EVENT, event);
	if (!o)
		result = CUDA_ERROR_INVALID_HANDLE;
	else if (!libcuda_capture_wait(&how, event, stream, flags, &result))
		/* The flag is about what a capture waits for. */
		result = flags & CU_EVENT_WAIT_EXTERNAL ? CUDA_ERROR_ILLEGAL_STATE
							: libcuda_event_wait(&how, stream, o, flags);
	return result;
}

/* ---- events of a context as a whole ---- */

/* Finds a context and an event. */
static CUresult find_both(CUcontext ctx, CUevent event, struct libcuda_context **c, struct libcuda_object **o)
{
	CUresult result = libcuda_require_init();

	*c = ctx ? libcuda_context_find(ctx) : libcuda_context_current();
	if (result == CUDA_SUCCESS)
		result = libcuda_context_usable(*c);
	if (result != CUDA_SUCCESS)
		return result;
	*o = libcuda_object_find(LIBCUDA_OBJECT_EVENT, event);
	if (!*o)
		return CUDA_ERROR_INVALID_HANDLE;
	return libcuda_capture_context_refuses(*c);
}

VCUDA_EXPORT CUresult cuCtxRecordEvent(CUcontext ctx, CUevent event)
{
	struct libcuda_context *c;
	struct libcuda_object *o;
	struct call_options how;
	CUresult result = find_both(ctx, event, &c, &o);

	if (result != CUDA_SUCCESS)
		return result;
	result = CUDA_ERROR_INVALID_HANDLE;
	if (o->context == c) {
		how = libcuda_context_options(c);
		/* One that was recorded in a capture is an ordinary event again. */
		libcuda_capture_record(&how, event, NULL, CU_EVENT_RECORD_DEFAULT, &result);
		result = libcuda_event_record_context(o, c);
	}
	return result;
}

VCUDA_EXPORT CUresult cuCtxWaitEvent(CUcontext ctx, CUevent event)
{
	struct libcuda_context *c;
	struct libcuda_object *o;
	CUresult result = libcuda_capture_event_unsupported(event);

	if (result == CUDA_SUCCESS)
		result = find_both(ctx, event, &c, &o);
	if (result != CUDA_SUCCESS)
		return result;
	return libcuda_event_wait_context(c, o);
}
