/* SPDX-License-Identifier: Apache-2.0 */
#include "queue/turn-events.h"

#include <stdint.h>
#include <stdlib.h>

#include "common/log.h"
#include "session/destroy.h"
#include "session/dispatch.h"
#include "session/session.h"

struct context_event {
	uint64_t context; /* its id, which no other context gets */
	CUevent event;    /* NULL: there is none */
	bool pending;     /* recorded, and not known to have happened */
	bool there;       /* the context was there at the last record */
};

static struct {
	struct context_event *entries;
	unsigned int count, room;
} events;

static CUcontext use(struct worker_session *s, uint64_t id)
{
	return worker_handle_get(s->handles, id, WORKER_ACCEPT(VCUDA_KIND_CONTEXT));
}

static void leave(struct worker_session *s, uint64_t id)
{
	if (worker_handle_put(s->handles, id))
		worker_destroy_ready(s);
}

/* NULL: memory is out. */
static struct context_event *find(uint64_t context)
{
	struct context_event *more;

	for (unsigned int i = 0; i < events.count; i++)
		if (events.entries[i].context == context)
			return &events.entries[i];
	if (events.count == events.room) {
		more = realloc(events.entries, (events.room + 16) * sizeof(*more));
		if (!more)
			return NULL;
		events.entries = more;
		events.room += 16;
	}
	events.entries[events.count] = (struct context_event){.context = context};
	return &events.entries[events.count++];
}

/* In the context, which is current. */
static CUresult record_event(struct worker_session *s, CUcontext context, struct context_event *e)
{
	CUresult result = CUDA_SUCCESS;

	if (!e->event)
		result = s->ops->cuEventCreate(&e->event, CU_EVENT_DISABLE_TIMING);
	if (result != CUDA_SUCCESS)
		e->event = NULL;
	return result == CUDA_SUCCESS ? s->ops->cuCtxRecordEvent(context, e->event) : result;
}

static void record(struct worker_session *s, uint64_t id)
{
	struct context_event *e = find(id);
	CUcontext context = e ? use(s, id) : NULL;
	CUresult result;

	if (!context)
		return;
	e->there = true;
	result = s->ops->cuCtxSetCurrent(context);
	if (result == CUDA_SUCCESS)
		result = record_event(s, context, e);
	/* A primary context that was reset keeps its id. */
	if (result == CUDA_ERROR_CONTEXT_IS_DESTROYED || result == CUDA_ERROR_INVALID_HANDLE) {
		e->event = NULL;
		result = record_event(s, context, e);
	}
	e->pending = result == CUDA_SUCCESS;
	/* The context may end now, and then no thread may have it. */
	s->ops->cuCtxSetCurrent(NULL);
	leave(s, id);
}

/* Of contexts that have ended. */
static void forget(void)
{
	unsigned int kept = 0;

	for (unsigned int i = 0; i < events.count; i++)
		if (events.entries[i].there)
			events.entries[kept++] = events.entries[i];
	events.count = kept;
}

void worker_turn_events_record(struct worker_session *s)
{
	for (unsigned int i = 0; i < events.count; i++)
		events.entries[i].there = events.entries[i].pending = false;
	for (uint64_t id = 0; (id = worker_handle_next(s->handles, VCUDA_KIND_CONTEXT, id));)
		record(s, id);
	forget();
}

static bool is_pending(struct worker_session *s, const struct context_event *e)
{
	CUresult result = CUDA_SUCCESS;

	if (!use(s, e->context))
		return false;
	result = s->ops->cuEventQuery(e->event);
	leave(s, e->context);
	return result == CUDA_ERROR_NOT_READY;
}

bool worker_turn_events_done(struct worker_session *s)
{
	bool pending = false;

	for (unsigned int i = 0; i < events.count; i++) {
		struct context_event *e = &events.entries[i];

		e->pending = e->pending && is_pending(s, e);
		pending |= e->pending;
	}
	return !pending;
}
