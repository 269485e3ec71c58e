/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The end of an object that commands may use. NVIDIA's driver trusts the pointers that it is given, so an object that a
 * command of another guest thread uses must stay. The call that destroys does not wait for such commands, which may
 * wait for ever: natively, a stream or an event that is waited for is destroyed at once as well.
 *
 * A destruction that was put off has a thread of its own: it may wait for the device, and the last user is often the
 * dispatcher, which must go on. Where no thread can be started, one that the session has from its start on runs such
 * destructions one after the other. A command's thread runs none: the destruction would take the thread's context.
 */
#include "session/destroy.h"

#include <pthread.h>
#include <stdlib.h>

#include "common/start-thread.h"
#include "session/activity.h"
#include "session/command.h"
#include "session/dispatch.h"
#include "session/session.h"

/* For the thread that the session has from its start on. */
static struct {
	pthread_mutex_t lock;
	pthread_cond_t added;
	struct worker_deferred *first, **end;
} queue = {.lock = PTHREAD_MUTEX_INITIALIZER, .added = PTHREAD_COND_INITIALIZER, .end = &queue.first};

struct deferred {
	struct worker_deferred entry; /* first */
	struct worker_session *session;
	worker_destroy_object destroy;
	void *object;
	struct vcuda_command command;                 /* the one that destroys, without its arguments */
	bool in_context;                              /* made in the command's context, if that context lives */
	const struct worker_context_watcher *watcher; /* of a context that is destroyed; NULL: there is none */
	bool is_context;
};

/*
 * A back end that announces the end of contexts checks each handle, and ends the calls that wait in a context with it.
 */
static bool ends_at_once(const struct worker_session *s, uint32_t kinds)
{
	return kinds & WORKER_ACCEPT(VCUDA_KIND_CONTEXT) && s->ops->contextEnds;
}

static CUresult finish(struct worker_session *s, uint64_t id, CUresult result)
{
	bool ready =
		result == CUDA_SUCCESS ? worker_handle_remove(s->handles, id) : worker_handle_unclaim(s->handles, id);

	if (ready)
		worker_destroy_ready(s);
	return result;
}

/* NULL: memory is out. */
static struct deferred *new_deferred(struct worker_session *s, uint64_t id, void *object, worker_destroy_object destroy)
{
	const struct vcuda_command *c = worker_command();
	struct deferred *d = malloc(sizeof(*d));

	if (!d)
		return NULL;
	*d = (struct deferred){{.id = id}, s, destroy, object, *c, vcuda_call_table[c->op].context, NULL, false};
	return d;
}

CUresult worker_destroy(struct worker_session *s, uint32_t kinds, void *handle, worker_destroy_object destroy)
{
	uint64_t id = (uint64_t)(uintptr_t)handle;
	void *object = worker_handle_claim(s->handles, id, kinds);
	const struct worker_context_watcher *watcher = kinds & WORKER_ACCEPT(VCUDA_KIND_CONTEXT) ? s->watcher : NULL;
	struct deferred *d;

	if (!object)
		return worker_names_nothing(kinds);
	if (kinds & WORKER_ACCEPT(VCUDA_KIND_CONTEXT))
		worker_activity_forget(s, id);
	if (watcher)
		watcher->ends(id);
	if (ends_at_once(s, kinds) || !worker_handle_is_used(s->handles, id))
		return finish(s, id, destroy(s, object));
	d = new_deferred(s, id, object, destroy);
	if (!d)
		return finish(s, id, CUDA_ERROR_OUT_OF_MEMORY);
	d->watcher = watcher;
	d->is_context = kinds & WORKER_ACCEPT(VCUDA_KIND_CONTEXT);
	if (watcher)
		watcher->is_put_off();
	if (worker_handle_defer(s->handles, &d->entry))
		return CUDA_SUCCESS;
	if (watcher)
		watcher->has_ended();
	free(d);
	return finish(s, id, destroy(s, object));
}

/* Destroys the object in the command's context, which the command uses from here on. */
static void destroy_in_context(struct deferred *d)
{
	struct worker_session *s = d->session;
	CUcontext context = NULL;

	if (d->in_context && d->command.context)
		context = worker_command_use(s, d->command.context, WORKER_ACCEPT(VCUDA_KIND_CONTEXT));
	if (context)
		s->ops->cuCtxSetCurrent(context);
	d->destroy(s, d->object);
	if (context)
		s->ops->cuCtxSetCurrent(NULL);
}

/* The guest has had its answer: an object that the back end keeps has no id any more nevertheless. */
static void *run(void *argument)
{
	struct deferred *d = argument;
	struct worker_session *s = d->session;

	worker_command_begin(&d->command);
	if (!worker_handle_is_gone(s->handles, d->entry.id)) {
		/* Commands that were in the context may have begun work. */
		if (d->is_context)
			worker_activity_forget(s, d->entry.id);
		destroy_in_context(d);
	}
	worker_command_end(s);
	worker_command_begin(NULL);
	finish(s, d->entry.id, CUDA_SUCCESS);
	if (d->watcher)
		d->watcher->has_ended();
	free(d);
	return NULL;
}

static void enqueue(struct deferred *d)
{
	pthread_mutex_lock(&queue.lock);
	d->entry.next = NULL;
	*queue.end = &d->entry;
	queue.end = &d->entry.next;
	pthread_cond_signal(&queue.added);
	pthread_mutex_unlock(&queue.lock);
}

static struct deferred *dequeue(void)
{
	struct worker_deferred *d;

	pthread_mutex_lock(&queue.lock);
	while (!queue.first)
		pthread_cond_wait(&queue.added, &queue.lock);
	d = queue.first;
	queue.first = d->next;
	if (!d->next)
		queue.end = &queue.first;
	pthread_mutex_unlock(&queue.lock);
	return (struct deferred *)d;
}

static void *run_queued(void *unused)
{
	for (;;)
		run(dequeue());
	return unused;
}

bool worker_destroy_start(void)
{
	return vcuda_thread_start_before_fork(run_queued, NULL);
}

void worker_destroy_ready(struct worker_session *s)
{
	struct worker_deferred *d;

	while ((d = worker_handles_ready(s->handles)))
		if (!vcuda_thread_start_with(NULL, vcuda_faults, run, d))
			enqueue((struct deferred *)d);
}
