/* SPDX-License-Identifier: Apache-2.0 */
#include "stream/stream.h"

#include <stdlib.h>

#include "core/capture.h"
#include "core/hooks.h"
#include "core/request.h"
#include "stream/event-pool.h"
#include "protocol/guest-calls.h"
#include "stream/completion.h"
#include "stream/throttle.h"
#include "core/object.h"
#include "guest/client/session.h"
#include "core/thread.h"

#define PRIORITY_DEFAULT 0

/* A thread's per-thread default stream in one context: a real blocking stream. */
struct own_stream {
	struct libcuda_context *context;
	uint64_t generation; /* of the context; see context.h */
	CUstream stream;     /* NULL: it is not made yet */
	uint64_t number;     /* for cuStreamGetId */
	struct own_stream *next;
};

/* The calling thread's. NULL: there is no memory. */
static struct own_stream *own_stream_of(const struct libcuda_context *c)
{
	void **slot = &libcuda_thread()->slots[LIBCUDA_THREAD_STREAM];
	uint64_t generation = atomic_load(&c->generation);
	struct own_stream *s;

	for (s = *slot; s; s = s->next)
		if (s->context == c && s->generation == generation)
			return s;
	s = calloc(1, sizeof(*s));
	if (!s)
		return NULL;
	s->context = (struct libcuda_context *)c;
	s->generation = generation;
	s->number = libcuda_stream_numbers_take(1);
	s->next = *slot;
	*slot = s;
	return s;
}

static CUresult per_thread(CUstream *resolved)
{
	struct own_stream *s = own_stream_of(libcuda_context_current());
	CUresult result;

	if (!s)
		return CUDA_ERROR_OUT_OF_MEMORY;
	if (!s->stream) {
		result = vcuda_call_cuStreamCreateWithPriority(&s->stream, CU_STREAM_DEFAULT, PRIORITY_DEFAULT);
		if (result != CUDA_SUCCESS) {
			s->stream = NULL;
			return result;
		}
		libcuda_completion_stream_begin(s->stream, false);
	}
	*resolved = s->stream;
	return CUDA_SUCCESS;
}

/* Ends the thread's own default streams. */
static void end_own_streams(struct libcuda_thread *t)
{
	struct call_options how;
	void **slot = &t->slots[LIBCUDA_THREAD_STREAM];
	struct own_stream *s;

	while ((s = *slot)) {
		*slot = s->next;
		if (s->stream && libcuda_require_init() == CUDA_SUCCESS &&
		    s->generation == atomic_load(&s->context->generation)) {
			how = libcuda_context_options(s->context);
			vcuda_call_cuStreamDestroy_v2_with(&how, s->stream);
		}
		free(s);
	}
}

static void end_context(struct libcuda_context *context)
{
	libcuda_event_pool_end_context(context);
	libcuda_throttle_end_context(context);
}

static struct libcuda_observer observer = {.context_ended = end_context, .thread_exits = end_own_streams};

__attribute__((constructor)) static void start(void)
{
	libcuda_observe(&observer);
}

/* `home`: the stream's context; NULL for a default stream, which belongs to the current context. */
static CUresult resolve(CUstream stream, CUstream *resolved, struct libcuda_context **home)
{
	const struct libcuda_object *o;

	*home = NULL;
	if (stream == CU_STREAM_PER_THREAD)
		return per_thread(resolved);
	if (stream && stream != CU_STREAM_LEGACY) {
		o = libcuda_object_find(LIBCUDA_OBJECT_STREAM, stream);
		if (!o)
			return CUDA_ERROR_INVALID_HANDLE;
		*home = o->context;
	}
	*resolved = stream;
	return CUDA_SUCCESS;
}

CUresult libcuda_stream_resolve(CUstream stream, CUstream *resolved)
{
	struct libcuda_context *home;

	return resolve(stream, resolved, &home);
}

static bool is_default(CUstream stream)
{
	return !stream || stream == CU_STREAM_LEGACY || stream == CU_STREAM_PER_THREAD;
}

static CUresult enter(CUstream *stream, struct libcuda_context **home)
{
	CUresult result = libcuda_require_init();

	if (result == CUDA_SUCCESS && !is_default(*stream) && !libcuda_context_current()) {
		result = resolve(*stream, stream, home);
		return result == CUDA_SUCCESS ? libcuda_context_usable(*home) : result;
	}
	result = libcuda_require_context();
	return result != CUDA_SUCCESS ? result : resolve(*stream, stream, home);
}

CUresult libcuda_stream_enter(CUstream *stream)
{
	struct libcuda_context *home;

	return enter(stream, &home);
}

CUresult libcuda_stream_enter_current(CUstream *stream)
{
	struct libcuda_context *home;
	CUresult result = enter(stream, &home);

	if (result != CUDA_SUCCESS)
		return result;
	return !home || home == libcuda_context_current() ? CUDA_SUCCESS : CUDA_ERROR_INVALID_HANDLE;
}

CUresult libcuda_stream_visit_named(CUstream *stream, struct call_options *how)
{
	struct libcuda_context *home;
	CUresult result = enter(stream, &home);

	if (result != CUDA_SUCCESS)
		return result;
	/* Each launch is here: most are in streams of the current context. */
	*how = libcuda_context_options(home ? home : libcuda_context_current());
	return !home || home == libcuda_context_current() ? CUDA_SUCCESS : libcuda_context_usable(home);
}

CUresult libcuda_stream_wait(const struct call_options *how, CUstream resolved)
{
	return libcuda_completion_stream_wait(libcuda_request_context(how), resolved);
}

/* ---- the API ---- */

VCUDA_EXPORT CUresult cuStreamCreateWithPriority(CUstream *stream, unsigned int flags, int priority)
{
	CUresult result = libcuda_require_context();
	struct libcuda_object *o;

	if (result != CUDA_SUCCESS)
		return result;
	if (!stream || flags & ~(unsigned int)CU_STREAM_NON_BLOCKING)
		return CUDA_ERROR_INVALID_VALUE;
	result = vcuda_call_cuStreamCreateWithPriority(stream, flags, priority);
	if (result != CUDA_SUCCESS)
		return result;
	o = libcuda_object_add(LIBCUDA_OBJECT_STREAM, *stream, libcuda_context_current(), NULL);
	if (!o) {
		vcuda_call_cuStreamDestroy_v2(*stream);
		return CUDA_ERROR_OUT_OF_MEMORY;
	}
	o->flags = flags;
	o->priority = priority;
	libcuda_completion_stream_begin(*stream, flags & CU_STREAM_NON_BLOCKING);
	return CUDA_SUCCESS;
}

VCUDA_EXPORT CUresult cuStreamCreate(CUstream *stream, unsigned int flags)
{
	return cuStreamCreateWithPriority(stream, flags, PRIORITY_DEFAULT);
}

CUresult libcuda_stream_enter_home(CUstream *stream, struct libcuda_context **context)
{
	CUresult result = libcuda_require_init();
	struct libcuda_context *c = libcuda_context_current();
	struct libcuda_object *o = NULL;

	if (result != CUDA_SUCCESS)
		return result;
	if (*stream && *stream != CU_STREAM_LEGACY && *stream != CU_STREAM_PER_THREAD) {
		o = libcuda_object_find(LIBCUDA_OBJECT_STREAM, *stream);
		if (!o)
			return CUDA_ERROR_INVALID_HANDLE;
		c = o->context;
	}
	result = libcuda_context_usable(c);
	if (result == CUDA_SUCCESS && !o)
		result = libcuda_stream_resolve(*stream, stream);
	*context = c;
	return result;
}

VCUDA_EXPORT CUresult cuStreamDestroy_v2(CUstream stream)
{
	struct libcuda_context *c;
	CUresult result = libcuda_stream_enter_home(&stream, &c);
	struct call_options how;

	if (result != CUDA_SUCCESS)
		return result;
	how = libcuda_context_options(c);
	if (libcuda_object_find(LIBCUDA_OBJECT_STREAM, stream)) {
		libcuda_object_drop(stream);
		result = vcuda_call_cuStreamDestroy_v2_with(&how, stream);
	} else {
		/* A default stream. */
		result = CUDA_ERROR_INVALID_HANDLE;
	}
	return result;
}

VCUDA_EXPORT CUresult cuStreamQuery(CUstream stream)
{
	struct libcuda_context *c;
	CUresult result = libcuda_stream_enter_home(&stream, &c);

	if (result != CUDA_SUCCESS)
		return result;
	result = libcuda_capture_refuses(c, stream);
	if (result == CUDA_SUCCESS)
		result = libcuda_capture_unsafe();
	if (result == CUDA_SUCCESS)
		result = libcuda_completion_stream_query(c, stream);
	return result;
}

VCUDA_EXPORT CUresult cuStreamSynchronize(CUstream stream)
{
	struct libcuda_context *c;
	CUresult result = libcuda_stream_enter_home(&stream, &c);

	if (result != CUDA_SUCCESS)
		return result;
	result = libcuda_capture_refuses(c, stream);
	if (result == CUDA_SUCCESS)
		result = libcuda_capture_unsafe();
	if (result == CUDA_SUCCESS)
		result = libcuda_completion_stream_wait(c, stream);
	return result;
}

VCUDA_EXPORT CUresult cuCtxSynchronize_v2(CUcontext ctx)
{
	struct libcuda_context *c;
	CUresult result = libcuda_context_named(ctx, &c);

	if (result == CUDA_SUCCESS)
		result = libcuda_context_usable(c);
	if (result == CUDA_SUCCESS)
		result = libcuda_capture_context_refuses(c);
	if (result != CUDA_SUCCESS)
		return result;
	return libcuda_completion_context_wait(c);
}

VCUDA_EXPORT CUresult cuCtxSynchronize(void)
{
	return cuCtxSynchronize_v2(NULL);
}

/* A stream of the application's, or NULL for a default one. */
static CUresult describe(CUstream stream, struct libcuda_object **o)
{
	struct libcuda_context *home;
	CUresult result;

	*o = NULL;
	if (is_default(stream))
		return libcuda_require_context();
	result = enter(&stream, &home);
	if (result == CUDA_SUCCESS)
		*o = libcuda_object_find(LIBCUDA_OBJECT_STREAM, stream);
	return result == CUDA_SUCCESS && !*o ? CUDA_ERROR_INVALID_HANDLE : result;
}

VCUDA_EXPORT CUresult cuStreamGetPriority(CUstream stream, int *priority)
{
	struct libcuda_context *c;
	CUresult result = libcuda_stream_enter_home(&stream, &c);
	struct call_options how;

	if (result != CUDA_SUCCESS)
		return result;
	how = libcuda_context_options(c);
	return vcuda_call_cuStreamGetPriority_with(&how, stream, priority);
}

VCUDA_EXPORT CUresult cuStreamGetFlags(CUstream stream, unsigned int *flags)
{
	struct libcuda_object *o;
	CUresult result = describe(stream, &o);

	if (result != CUDA_SUCCESS)
		return result;
	if (!flags)
		return CUDA_ERROR_INVALID_VALUE;
	*flags = o ? o->flags : CU_STREAM_DEFAULT;
	return CUDA_SUCCESS;
}

/* 0: there is no context, or no memory. */
static uint64_t own_number(const struct libcuda_context *context)
{
	const struct own_stream *own = context ? own_stream_of(context) : NULL;

	return own ? own->number : 0;
}

uint32_t libcuda_stream_number(const struct libcuda_context *context, CUstream resolved)
{
	const struct own_stream *own = libcuda_thread()->slots[LIBCUDA_THREAD_STREAM];
	const struct libcuda_object *o = NULL;

	if (resolved == CU_STREAM_PER_THREAD)
		return (uint32_t)own_number(context);
	if (resolved && resolved != CU_STREAM_LEGACY) {
		o = libcuda_object_find(LIBCUDA_OBJECT_STREAM, resolved);
		for (; !o && own; own = own->next)
			if (own->context == context && own->stream == resolved)
				return (uint32_t)own->number;
	}
	return (uint32_t)(o ? o->number : context ? context->stream_number : 0);
}

VCUDA_EXPORT CUresult cuStreamGetId(CUstream stream, unsigned long long *id)
{
	struct libcuda_object *o;
	CUresult result = describe(stream, &o);

	if (result != CUDA_SUCCESS)
		return result;
	if (!id)
		return CUDA_ERROR_INVALID_VALUE;
	if (o)
		*id = o->number;
	else
		*id = stream == CU_STREAM_PER_THREAD ? own_number(libcuda_context_current())
						     : libcuda_context_current()->stream_number;
	return *id ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
}

VCUDA_EXPORT CUresult cuStreamGetCtx(CUstream stream, CUcontext *ctx)
{
	struct libcuda_object *o;
	CUresult result = describe(stream, &o);

	if (result != CUDA_SUCCESS)
		return result;
	if (!ctx)
		return CUDA_ERROR_INVALID_VALUE;
	*ctx = libcuda_context_handle(o ? o->context : libcuda_context_current());
	return CUDA_SUCCESS;
}

VCUDA_EXPORT CUresult cuStreamGetCtx_v2(CUstream stream, CUcontext *ctx, CUgreenCtx *green)
{
	if (green)
		*green = NULL;
	return cuStreamGetCtx(stream, ctx);
}

VCUDA_EXPORT CUresult cuStreamGetDevice(CUstream stream, CUdevice *device)
{
	struct libcuda_object *o;
	CUresult result = describe(stream, &o);

	if (result != CUDA_SUCCESS)
		return result;
	if (!device)
		return CUDA_ERROR_INVALID_VALUE;
	*device = o ? o->context->device : libcuda_context_current()->device;
	return CUDA_SUCCESS;
}

/* Every stream is of a whole device. cuDNN asks. */
VCUDA_EXPORT CUresult cuStreamGetGreenCtx(CUstream stream, CUgreenCtx *green)
{
	struct libcuda_object *o;
	CUresult result = describe(stream, &o);

	if (result != CUDA_SUCCESS)
		return result;
	if (!green)
		return CUDA_ERROR_INVALID_VALUE;
	*green = NULL;
	return CUDA_SUCCESS;
}

VCUDA_SAME(cuStreamDestroy, cuStreamDestroy_v2);
