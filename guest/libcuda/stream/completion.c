/* SPDX-License-Identifier: Apache-2.0 */
#include "stream/completion.h"

#include <pthread.h>

#include "core/request.h"
#include "core/context.h"
#include "core/hooks.h"
#include "protocol/guest-calls.h"
#include "stream/throttle.h"
#include "core/thread.h"

/* About 50 us, by a clock of 2 to 4 GHz. */
#define CONFIRMED_TICKS (1u << 17)

/* About 0.1 s. */
#define WORKER_CHECK_TICKS (1u << 28)

#define STREAMS 4096

/*
 * The tracked streams, by the lowest bits of their ids. If two streams have the same place, the younger one is tracked.
 * `id` is 0 while the other members change, and no id is used again. A reader that finds the same id before and after
 * has read that stream's members.
 */
struct stream_completion {
	_Atomic uint64_t id;
	struct call_queue queue;
	_Atomic uint64_t last_completed; /* commands that end before this position are done */
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER; /* protects changes of ids */
static struct stream_completion streams[STREAMS];

static struct call_queue default_queue;

static void raise(_Atomic uint64_t *at, uint64_t to)
{
	uint64_t old = atomic_load(at);

	while (old < to && !atomic_compare_exchange_weak(at, &old, to))
		continue;
}

static uint64_t later(uint64_t a, uint64_t b)
{
	return a > b ? a : b;
}

/* ---- streams ---- */

static bool is_default(CUstream resolved)
{
	return !resolved || resolved == CU_STREAM_LEGACY;
}

static struct stream_completion *entry_of(CUstream stream)
{
	return &streams[(uintptr_t)stream % STREAMS];
}

/* NULL: the stream is not tracked. */
static struct stream_completion *find(CUstream stream)
{
	struct stream_completion *s = entry_of(stream);

	return atomic_load(&s->id) == (uintptr_t)stream ? s : NULL;
}

void libcuda_completion_stream_begin(CUstream stream, bool non_blocking)
{
	struct stream_completion *s = entry_of(stream);

	pthread_mutex_lock(&lock);
	atomic_store(&s->id, 0);
	atomic_store(&s->queue.issued, 0);
	atomic_store(&s->queue.launched, false);
	atomic_store(&s->queue.non_blocking, non_blocking);
	atomic_store(&s->last_completed, 0);
	atomic_store(&s->id, (uintptr_t)stream);
	pthread_mutex_unlock(&lock);
}

void libcuda_completion_stream_end(CUstream stream)
{
	struct stream_completion *s = entry_of(stream);

	pthread_mutex_lock(&lock);
	if (atomic_load(&s->id) == (uintptr_t)stream)
		atomic_store(&s->id, 0);
	pthread_mutex_unlock(&lock);
}

struct call_queue *libcuda_completion_queue(CUstream resolved)
{
	struct stream_completion *s;

	if (is_default(resolved))
		return &default_queue;
	s = find(resolved);
	return s ? &s->queue : NULL;
}

/*
 * The end of the last command that a wait for the stream waits for. The default stream waits for other streams, so the
 * command is the last one of any stream. False: not known.
 */
static bool last_issued_find(CUstream resolved, uint64_t *last_issued)
{
	struct stream_completion *s;

	if (is_default(resolved)) {
		*last_issued = atomic_load(&client_call_all.issued);
		return true;
	}
	s = find(resolved);
	if (!s)
		return false;
	*last_issued = later(atomic_load(&s->queue.issued), atomic_load(&client_call_untracked.issued));
	return atomic_load(&s->id) == (uintptr_t)resolved;
}

static uint64_t done_by(CUstream resolved, const struct libcuda_context *c)
{
	uint64_t all = atomic_load(&c->completed.all);
	struct stream_completion *s;

	if (is_default(resolved))
		return later(all, atomic_load(&c->completed.blocking));
	s = find(resolved);
	return s ? later(all, atomic_load(&s->last_completed)) : all;
}

/* Reads the position of completion first: other threads may issue work meanwhile. */
static bool is_idle(CUstream resolved, const struct libcuda_context *c)
{
	uint64_t done = done_by(resolved, c), last_issued;

	return last_issued_find(resolved, &last_issued) && last_issued < done;
}

/* The worker has not taken the stream's last command. */
static bool is_busy(CUstream resolved)
{
	struct stream_completion *s = is_default(resolved) ? NULL : find(resolved);
	uint64_t last_issued = s ? atomic_load(&s->queue.issued) : 0;

	return last_issued && !client_call_is_taken(last_issued) && atomic_load(&s->id) == (uintptr_t)resolved &&
	       client_call_may_poll();
}

/* ---- contexts ---- */

/* While variables are mirrored, each answer of the worker copies them. */
static bool is_confirmed(const struct libcuda_context *c)
{
	const struct libcuda_thread *t = libcuda_thread();

	return t->confirmed_context == c && libcuda_ticks() - t->confirmed_at < CONFIRMED_TICKS &&
	       !libcuda_mirror_ops();
}

/* Whether no kernel can have printed since output was fetched last. */
static bool is_printed(const struct libcuda_context *c)
{
	uint64_t printed = atomic_load(&c->completed.output_flushed);

	return later(atomic_load(&client_call_all.issued), atomic_load(&c->completed.polled)) < printed;
}

/* ---- the functions ---- */

/* A worker that is gone takes no command, and a thread that does not wait is not told: asks now and then. */
static CUresult not_ready(void)
{
	struct libcuda_thread *t = libcuda_thread();
	uint64_t time = libcuda_ticks();
	int error;

	if (time - t->confirmed_at < WORKER_CHECK_TICKS)
		return CUDA_ERROR_NOT_READY;
	t->confirmed_context = NULL;
	t->confirmed_at = time;
	error = client_call_worker_check();
	return error ? (CUresult)error : CUDA_ERROR_NOT_READY;
}

static void note_stream(CUstream resolved, struct libcuda_context *c, uint64_t position)
{
	struct stream_completion *s = is_default(resolved) ? NULL : find(resolved);

	if (is_default(resolved))
		raise(&c->completed.blocking, position);
	else if (s)
		raise(&s->last_completed, position);
}

/*
 * A question found work to be done, but only a wait behind that work tells its output. Called before another thread can
 * know that the work is done.
 */
static void note_polled(struct libcuda_context *c, uint64_t reached)
{
	raise(&c->completed.polled, reached);
}

/* Options of a call in a context, which fills in the receipt. */
#define IN(c, r) (&(const struct call_options){.context = &(c)->calls, .receipt = (r)})

CUresult libcuda_completion_stream_query(struct libcuda_context *c, CUstream resolved)
{
	struct call_receipt r;
	CUresult result;

	if (is_idle(resolved, c) && is_confirmed(c))
		return CUDA_SUCCESS;
	if (is_busy(resolved))
		return not_ready();
	result = vcuda_call_cuStreamQuery_with(IN(c, &r), resolved);
	if (result == CUDA_SUCCESS) {
		note_polled(c, r.position);
		note_stream(resolved, c, r.position);
	}
	return result;
}

/* The default stream waits for others: the last command of any stream counts. */
static bool is_behind_launch(CUstream resolved)
{
	const struct stream_completion *s = is_default(resolved) ? NULL : find(resolved);

	if (is_default(resolved))
		return atomic_load(&client_call_all.launched);
	return s && atomic_load(&s->queue.launched);
}

/*
 * Only behind a launch: from a copy to a fence a GPU changes from one engine to another, which takes longer than a
 * question to the worker. When the stream has reached the fence, the fence itself is done as well.
 */
static bool waits_by_fence(CUstream resolved, struct libcuda_context *c, struct call_receipt *fence)
{
	if (!is_behind_launch(resolved) || !libcuda_throttle_fence_wait(c, resolved, fence))
		return false;
	libcuda_request_confirmed(c);
	note_stream(resolved, c, fence->position + 1);
	raise(&c->completed.output_flushed, fence->position + 1);
	return true;
}

CUresult libcuda_completion_stream_wait(struct libcuda_context *c, CUstream resolved)
{
	struct call_receipt r;
	CUresult result;

	if ((is_idle(resolved, c) && is_printed(c) && is_confirmed(c)) || waits_by_fence(resolved, c, &r))
		return CUDA_SUCCESS;
	result = vcuda_call_cuStreamSynchronize_with(IN(c, &r), resolved);
	if (result == CUDA_SUCCESS) {
		note_stream(resolved, c, r.position);
		raise(&c->completed.output_flushed, r.position);
	}
	return result;
}

CUresult libcuda_completion_context_wait(struct libcuda_context *c)
{
	uint64_t all = atomic_load(&c->completed.all);
	struct call_receipt r;
	CUresult result;

	if (atomic_load(&client_call_all.issued) < all && is_printed(c) && is_confirmed(c))
		return CUDA_SUCCESS;
	/* The streams that the default stream does not wait for are done: all are, once the default stream is. */
	if (atomic_load(&client_call_non_blocking.issued) < all && waits_by_fence(NULL, c, &r)) {
		/* Unless another thread has issued work to such a stream in front of the fence. */
		if (atomic_load(&client_call_non_blocking.issued) < all) {
			raise(&c->completed.all, r.position + 1);
			client_call_idle(&c->calls, &r);
		} else {
			client_call_drained(&c->calls, &r);
		}
		return CUDA_SUCCESS;
	}
	result = vcuda_call_cuCtxSynchronize_with(IN(c, &r));
	if (result == CUDA_SUCCESS) {
		raise(&c->completed.all, r.position);
		raise(&c->completed.output_flushed, r.position);
		client_call_idle(&c->calls, &r);
	}
	return result;
}

/* Another process may record an event that it shares. The context is NULL when another thread destroys the event. */
bool libcuda_completion_event_is_done(const struct libcuda_object *event)
{
	const struct libcuda_context *c = __atomic_load_n(&event->context, __ATOMIC_RELAXED);

	return c && !(event->flags & CU_EVENT_INTERPROCESS) &&
	       atomic_load(&event->recorded) <
		       later(atomic_load(&event->last_completed), atomic_load(&c->completed.all));
}

void libcuda_completion_event_recorded(struct libcuda_object *event, const struct call_receipt *receipt)
{
	raise(&event->recorded, receipt->position);
}

CUresult libcuda_completion_event_query(struct libcuda_context *c, struct libcuda_object *event)
{
	uint64_t recorded = atomic_load(&event->recorded);
	struct call_receipt r;
	CUresult result;

	if (libcuda_completion_event_is_done(event) && is_confirmed(c))
		return CUDA_SUCCESS;
	if (!(event->flags & CU_EVENT_INTERPROCESS) && !client_call_is_taken(recorded) && client_call_may_poll())
		return not_ready();
	result = vcuda_call_cuEventQuery_with(IN(c, &r), (CUevent)(uintptr_t)event->id);
	if (result == CUDA_SUCCESS) {
		note_polled(c, r.position);
		raise(&event->last_completed, r.position);
	}
	return result;
}

CUresult libcuda_completion_event_wait(struct libcuda_context *c, struct libcuda_object *event)
{
	struct call_receipt r;
	CUresult result;

	if (libcuda_completion_event_is_done(event) && is_printed(c) && is_confirmed(c))
		return CUDA_SUCCESS;
	result = vcuda_call_cuEventSynchronize_with(IN(c, &r), (CUevent)(uintptr_t)event->id);
	if (result == CUDA_SUCCESS) {
		raise(&event->last_completed, r.position);
		raise(&c->completed.output_flushed, r.position);
	}
	return result;
}

void libcuda_stream_destroyed(const struct call_options *options, CUstream stream)
{
	libcuda_throttle_end(libcuda_request_context(options), stream);
	libcuda_completion_stream_end(stream);
}
