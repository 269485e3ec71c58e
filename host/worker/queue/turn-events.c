/* SPDX-License-Identifier: Apache-2.0 */
#include "queue/turn-events.h"

#include <pthread.h>
#include <stdlib.h>

#include "session/destroy.h"
#include "session/dispatch.h"
#include "session/session.h"

struct context_event {
	uint64_t context; /* its id */
	CUevent event;    /* NULL: there is none */
	bool pending;     /* not known to have happened */
	bool recorded;
};

static struct {
	pthread_mutex_t lock; /* held while a context is used */
	struct context_event *entries;
	unsigned int count, room;
	bool incomplete; /* there was no memory for an entry */
} events = {.lock = PTHREAD_MUTEX_INITIALIZER};

/* All that follows is called with the lock held. */

static CUcontext use(struct worker_session *s, uint64_t id)
{
	return worker_handle_get(s->handles, id, WORKER_ACCEPT(VCUDA_KIND_CONTEXT));
}

static void leave(struct worker_session *s, uint64_t id)
{
	if (worker_handle_put(s->handles, id))
		worker_destroy_ready(s);
}

static bool is_known(uint64_t context)
{
	for (unsigned int i = 0; i < events.count; i++)
		if (events.entries[i].context == context)
			return true;
	return false;
}

/* False: memory is out. */
static bool add(uint64_t context)
{
	struct context_event *more = events.entries;

	if (events.count == events.room) {
		more = realloc(events.entries, (events.room + 16) * sizeof(*more));
		if (!more)
			return false;
		events.entries = more;
		events.room += 16;
	}
	more[events.count++] = (struct context_event){.context = context};
	return true;
}

static void find_contexts(struct worker_session *s)
{
	events.incomplete = false;
	for (uint64_t id = 0; (id = worker_handle_next(s->handles, VCUDA_KIND_CONTEXT, id));)
		if (!is_known(id) && !add(id))
			events.incomplete = true;
}

/* In the context, which is current. */
static CUresult record_in(struct worker_session *s, CUcontext context, struct context_event *e)
{
	CUresult result = CUDA_SUCCESS;

	if (!e->event)
		result = s->ops->cuEventCreate(&e->event, CU_EVENT_DISABLE_TIMING);
	if (result != CUDA_SUCCESS)
		e->event = NULL;
	return result == CUDA_SUCCESS ? s->ops->cuCtxRecordEvent(context, e->event) : result;
}

static void record(struct worker_session *s, struct context_event *e)
{
	CUcontext context = use(s, e->context);
	CUresult result;

	e->pending = context;
	if (!context)
		return;
	result = s->ops->cuCtxSetCurrent(context);
	if (result == CUDA_SUCCESS)
		result = record_in(s, context, e);
	/* An event of an earlier context. */
	if (result == CUDA_ERROR_INVALID_HANDLE || result == CUDA_ERROR_CONTEXT_IS_DESTROYED) {
		e->event = NULL;
		result = record_in(s, context, e);
	}
	e->recorded = result == CUDA_SUCCESS;
	/* After any other error the context has no work. */
	e->pending = result == CUDA_SUCCESS || result == CUDA_ERROR_OUT_OF_MEMORY;
	/* The context must not stay current on this thread: it may be destroyed from here on. */
	s->ops->cuCtxSetCurrent(NULL);
	leave(s, e->context);
}

static void query(struct worker_session *s, struct context_event *e)
{
	e->pending = use(s, e->context);
	if (!e->pending)
		return;
	e->pending = s->ops->cuEventQuery(e->event) == CUDA_ERROR_NOT_READY;
	leave(s, e->context);
}

/* ---- from outside ---- */

void worker_turn_events_record(struct worker_session *s)
{
	pthread_mutex_lock(&events.lock);
	if (events.incomplete || worker_handle_live(s->handles, VCUDA_KIND_CONTEXT) != events.count)
		find_contexts(s);
	for (unsigned int i = 0; i < events.count; i++)
		record(s, &events.entries[i]);
	pthread_mutex_unlock(&events.lock);
}

bool worker_turn_events_done(struct worker_session *s)
{
	bool pending;

	pthread_mutex_lock(&events.lock);
	pending = events.incomplete;
	if (events.incomplete)
		find_contexts(s);
	for (unsigned int i = 0; i < events.count; i++) {
		struct context_event *e = &events.entries[i];

		if (e->pending)
			e->recorded ? query(s, e) : record(s, e);
		pending |= e->pending;
	}
	pthread_mutex_unlock(&events.lock);
	return !pending;
}

void worker_turn_events_forget(uint64_t context)
{
	pthread_mutex_lock(&events.lock);
	for (unsigned int i = 0; i < events.count; i++)
		if (events.entries[i].context == context)
			events.entries[i--] = events.entries[--events.count];
	pthread_mutex_unlock(&events.lock);
}
