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
#define HEARD_TICKS (1u << 17)

/* About 0.1 s. */
#define LIVES_TICKS (1u << 28)

#define STREAMS 4096

/*
 * The tracked streams, by the lowest bits of their ids. Of two streams with the same place the younger one is tracked.
 * `id` is 0 while the other members change, and no id is used again. A reader that finds the same id before and after
 * has read that stream's members.
 */
struct stream {
	_Atomic uint64_t id;
	struct call_queue queue;
	_Atomic uint64_t done; /* commands that end before this position are done */
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER; /* of changes of ids */
static struct stream streams[STREAMS];

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

static struct stream *place_of(CUstream stream)
{
	return &streams[(uintptr_t)stream % STREAMS];
}

/* NULL: the stream is not tracked. */
static struct stream *find(CUstream stream)
{
	struct stream *s = place_of(stream);

	return atomic_load(&s->id) == (uintptr_t)stream ? s : NULL;
}

void vcuda_known_stream_begin(CUstream stream, bool apart)
{
	struct stream *s = place_of(stream);

	pthread_mutex_lock(&lock);
	atomic_store(&s->id, 0);
	atomic_store(&s->queue.issued, 0);
	atomic_store(&s->queue.launched, false);
	atomic_store(&s->queue.non_blocking, apart);
	atomic_store(&s->done, 0);
	atomic_store(&s->id, (uintptr_t)stream);
	pthread_mutex_unlock(&lock);
}

void vcuda_known_stream_end(CUstream stream)
{
	struct stream *s = place_of(stream);

	pthread_mutex_lock(&lock);
	if (atomic_load(&s->id) == (uintptr_t)stream)
		atomic_store(&s->id, 0);
	pthread_mutex_unlock(&lock);
}

struct call_queue *vcuda_known_queue(CUstream resolved)
{
	struct stream *s;

	if (is_default(resolved))
		return &default_queue;
	s = find(resolved);
	return s ? &s->queue : NULL;
}

/*
 * The end of the last command that a wait for the stream waits for. The default stream waits for other streams, so the
 * command is the last one of any stream. False: not known.
 */
static bool find_work(CUstream resolved, uint64_t *work)
{
	struct stream *s;

	if (is_default(resolved)) {
		*work = atomic_load(&vcuda_call_all.issued);
		return true;
	}
	s = find(resolved);
	if (!s)
		return false;
	*work = later(atomic_load(&s->queue.issued), atomic_load(&vcuda_call_untracked.issued));
	return atomic_load(&s->id) == (uintptr_t)resolved;
}

static uint64_t done_by(CUstream resolved, const struct vcuda_context *c)
{
	uint64_t all = atomic_load(&c->waits.all);
	struct stream *s;

	if (is_default(resolved))
		return later(all, atomic_load(&c->waits.ordinary));
	s = find(resolved);
	return s ? later(all, atomic_load(&s->done)) : all;
}

/* Reads the position of completion first: other threads may issue work meanwhile. */
static bool is_idle(CUstream resolved, const struct vcuda_context *c)
{
	uint64_t done = done_by(resolved, c), work;

	return find_work(resolved, &work) && work < done;
}

/* The worker has not taken the stream's last command. */
static bool is_busy(CUstream resolved)
{
	struct stream *s = is_default(resolved) ? NULL : find(resolved);
	uint64_t work = s ? atomic_load(&s->queue.issued) : 0;

	return work && !vcuda_call_is_taken(work) && atomic_load(&s->id) == (uintptr_t)resolved &&
	       vcuda_call_may_poll();
}

/* ---- contexts ---- */

/* While variables are mirrored, each answer of the worker copies them. */
static bool is_well(const struct vcuda_context *c)
{
	const struct vcuda_thread *t = vcuda_thread();

	return t->heard_of == c && vcuda_ticks() - t->heard_at < HEARD_TICKS && !vcuda_mirror_ops();
}

/* Whether no kernel can have printed since output was fetched last. */
static bool is_printed(const struct vcuda_context *c)
{
	uint64_t printed = atomic_load(&c->waits.printed);

	return later(atomic_load(&vcuda_call_all.issued), atomic_load(&c->waits.learned)) < printed;
}

/* ---- the functions ---- */

/* A worker that is gone takes no command, and a thread that does not wait is not told: asks now and then. */
static CUresult not_ready(void)
{
	struct vcuda_thread *t = vcuda_thread();
	uint64_t time = vcuda_ticks();
	int error;

	if (time - t->heard_at < LIVES_TICKS)
		return CUDA_ERROR_NOT_READY;
	t->heard_of = NULL;
	t->heard_at = time;
	error = vcuda_call_worker_lives();
	return error ? (CUresult)error : CUDA_ERROR_NOT_READY;
}

static void note_stream(CUstream resolved, struct vcuda_context *c, uint64_t position)
{
	struct stream *s = is_default(resolved) ? NULL : find(resolved);

	if (is_default(resolved))
		raise(&c->waits.ordinary, position);
	else if (s)
		raise(&s->done, position);
}

/*
 * A question found work to be done, but only a wait behind that work tells its output. Called before another thread can
 * know that the work is done.
 */
static void note_learned(struct vcuda_context *c, uint64_t reached)
{
	raise(&c->waits.learned, reached);
}

/* Options of a call in a context, which fills in the receipt. */
#define IN(c, r) (&(const struct call_options){.context = &(c)->calls, .receipt = (r)})

CUresult vcuda_known_stream_query(struct vcuda_context *c, CUstream resolved)
{
	struct call_receipt r;
	CUresult result;

	if (is_idle(resolved, c) && is_well(c))
		return CUDA_SUCCESS;
	if (is_busy(resolved))
		return not_ready();
	result = vcuda_call_cuStreamQuery_with(IN(c, &r), resolved);
	if (result == CUDA_SUCCESS) {
		note_learned(c, r.position);
		note_stream(resolved, c, r.position);
	}
	return result;
}

/* The default stream waits for others: the last command of any stream counts. */
static bool is_behind_launch(CUstream resolved)
{
	const struct stream *s = is_default(resolved) ? NULL : find(resolved);

	if (is_default(resolved))
		return atomic_load(&vcuda_call_all.launched);
	return s && atomic_load(&s->queue.launched);
}

/*
 * Only behind a launch: from a copy to a mark a GPU changes from one engine to another, which takes longer than a
 * question to the worker. When the stream has reached the mark, the mark itself is done as well.
 */
static bool waits_by_mark(CUstream resolved, struct vcuda_context *c, struct call_receipt *mark)
{
	if (!is_behind_launch(resolved) || !vcuda_pace_wait(c, resolved, mark))
		return false;
	vcuda_request_heard(c);
	note_stream(resolved, c, mark->position + 1);
	raise(&c->waits.printed, mark->position + 1);
	return true;
}

CUresult vcuda_known_stream_wait(struct vcuda_context *c, CUstream resolved)
{
	struct call_receipt r;
	CUresult result;

	if ((is_idle(resolved, c) && is_printed(c) && is_well(c)) || waits_by_mark(resolved, c, &r))
		return CUDA_SUCCESS;
	result = vcuda_call_cuStreamSynchronize_with(IN(c, &r), resolved);
	if (result == CUDA_SUCCESS) {
		note_stream(resolved, c, r.position);
		raise(&c->waits.printed, r.position);
	}
	return result;
}

CUresult vcuda_known_context_wait(struct vcuda_context *c)
{
	uint64_t all = atomic_load(&c->waits.all);
	struct call_receipt r;
	CUresult result;

	if (atomic_load(&vcuda_call_all.issued) < all && is_printed(c) && is_well(c))
		return CUDA_SUCCESS;
	/* The streams that the default stream does not wait for are done: all are, once the default stream is. */
	if (atomic_load(&vcuda_call_non_blocking.issued) < all && waits_by_mark(NULL, c, &r)) {
		/* Unless another thread has issued work to such a stream in front of the mark. */
		if (atomic_load(&vcuda_call_non_blocking.issued) < all) {
			raise(&c->waits.all, r.position + 1);
			vcuda_call_idle(&c->calls, &r);
		} else {
			vcuda_call_drained(&c->calls, &r);
		}
		return CUDA_SUCCESS;
	}
	result = vcuda_call_cuCtxSynchronize_with(IN(c, &r));
	if (result == CUDA_SUCCESS) {
		raise(&c->waits.all, r.position);
		raise(&c->waits.printed, r.position);
		vcuda_call_idle(&c->calls, &r);
	}
	return result;
}

/* Another process may record an event that it shares. The context is NULL when another thread destroys the event. */
bool vcuda_known_is_done(const struct vcuda_object *event)
{
	const struct vcuda_context *c = __atomic_load_n(&event->context, __ATOMIC_RELAXED);

	return c && !(event->flags & CU_EVENT_INTERPROCESS) &&
	       atomic_load(&event->recorded) < later(atomic_load(&event->done), atomic_load(&c->waits.all));
}

void vcuda_known_recorded(struct vcuda_object *event, const struct call_receipt *receipt)
{
	raise(&event->recorded, receipt->position);
}

CUresult vcuda_known_event_query(struct vcuda_context *c, struct vcuda_object *event)
{
	uint64_t recorded = atomic_load(&event->recorded);
	struct call_receipt r;
	CUresult result;

	if (vcuda_known_is_done(event) && is_well(c))
		return CUDA_SUCCESS;
	if (!(event->flags & CU_EVENT_INTERPROCESS) && !vcuda_call_is_taken(recorded) && vcuda_call_may_poll())
		return not_ready();
	result = vcuda_call_cuEventQuery_with(IN(c, &r), (CUevent)(uintptr_t)event->id);
	if (result == CUDA_SUCCESS) {
		note_learned(c, r.position);
		raise(&event->done, r.position);
	}
	return result;
}

CUresult vcuda_known_event_wait(struct vcuda_context *c, struct vcuda_object *event)
{
	struct call_receipt r;
	CUresult result;

	if (vcuda_known_is_done(event) && is_printed(c) && is_well(c))
		return CUDA_SUCCESS;
	result = vcuda_call_cuEventSynchronize_with(IN(c, &r), (CUevent)(uintptr_t)event->id);
	if (result == CUDA_SUCCESS) {
		raise(&event->done, r.position);
		raise(&c->waits.printed, r.position);
	}
	return result;
}

void vcuda_stream_destroyed(const struct call_options *options, CUstream stream)
{
	vcuda_pace_end(vcuda_request_context(options), stream);
	vcuda_known_stream_end(stream);
}
