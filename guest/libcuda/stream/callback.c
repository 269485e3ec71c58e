/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Host functions. The worker is told an id for each, and says in the control page which is due; one thread of this
 * process runs it, and says so there: then the stream goes on. While none is outstanding the thread sleeps here, so
 * that it is not woken by every command that the worker finishes.
 */
#include "stream/callback.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <sys/prctl.h>

#include "core/capture.h"
#include "core/hooks.h"
#include "core/request.h"
#include "protocol/guest-calls.h"
#include "guest/client/restore.h"
#include "guest/client/section.h"
#include "common/log.h"
#include "common/start-thread.h"
#include "stream/stream.h"
#include "core/thread.h"

struct callback {
	uint64_t id;
	CUhostFn function;         /* either this */
	CUstreamCallback callback; /* or this */
	CUstream stream;           /* as the application named it */
	void *user;
	struct callback *next;
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t added = PTHREAD_COND_INITIALIZER;
static struct callback *first, **tail = &first; /* outstanding, oldest first */
static uint64_t ids;
static bool runs;           /* the thread does */
static _Atomic bool pauses; /* the thread ends */
static uint64_t done;       /* number of returned functions; written by the thread, and kept while there is no thread */

static struct callback *take(uint64_t id)
{
	struct callback *c = NULL;

	pthread_mutex_lock(&lock);
	for (struct callback **at = &first; *at; at = &(*at)->next) {
		if ((*at)->id != id)
			continue;
		c = *at;
		*at = c->next;
		if (!*at)
			tail = at;
		break;
	}
	pthread_mutex_unlock(&lock);
	return c;
}

static void wait_for_any(void)
{
	pthread_mutex_lock(&lock);
	while (!first && !pauses)
		pthread_cond_wait(&added, &lock);
	pthread_mutex_unlock(&lock);
}

static void run(struct callback *c, CUresult status)
{
	libcuda_thread()->in_callback = true;
	if (c->callback)
		c->callback(c->stream, status, c->user);
	else if (status == CUDA_SUCCESS) /* not in a context that has failed */
		c->function(c->user);
	libcuda_thread()->in_callback = false;
	free(c);
}

static bool is_none_due(void)
{
	return atomic_load(&client_call_shm()->callbacks_due) == done;
}

static bool waits(void *unused)
{
	(void)unused;
	return is_none_due() && !pauses;
}

static void run_next(void)
{
	struct vcuda_shm *shm = client_call_shm();
	struct vcuda_callback due = shm->callbacks[++done % VCUDA_CALLBACKS];
	const struct libcuda_mirror_ops *mirror = libcuda_mirror_ops();
	struct callback *c;

	if (mirror) /* as after any wait for the stream */
		mirror->after(VCUDA_OP_cuStreamSynchronize, libcuda_context_current(), true, CUDA_SUCCESS);
	c = take(due.id);
	if (c)
		run(c, (CUresult)due.status);
	client_section_enter();
	atomic_store(&shm->callbacks_done, done);
	client_section_leave();
	client_call_ring_doorbell();
}

/* In one step with the end: a thread that is to go on again is started, or is this one. */
static bool is_over(bool goes_on)
{
	bool over;

	pthread_mutex_lock(&lock);
	over = !goes_on || pauses;
	/* One whose session has ended is not started again. */
	if (over)
		runs = !goes_on;
	pthread_mutex_unlock(&lock);
	return over;
}

/* Lives as long as the session, or until the process is locked. */
static void *serve(void *unused)
{
	bool goes_on;

	/* A new thread inherits the name: the restore thread, which is found by name, may start this one. */
	prctl(PR_SET_NAME, "cuda-callback");
	do {
		wait_for_any();
		goes_on = client_call_wait_while(waits, NULL) == CUDA_SUCCESS;
		if (goes_on && !is_none_due())
			run_next();
	} while (!is_over(goes_on));
	return unused;
}

/* The caller holds the lock. */
static bool start_thread(void)
{
	/* While the process is locked no thread is started; unlocking starts it. */
	if (!runs && !pauses)
		runs = vcuda_thread_start(serve, NULL);
	return runs || pauses;
}

static void pause_thread(void)
{
	pthread_mutex_lock(&lock);
	pauses = true;
	pthread_cond_broadcast(&added);
	pthread_mutex_unlock(&lock);
}

static bool is_paused(void)
{
	bool paused;

	pthread_mutex_lock(&lock);
	paused = !runs;
	pthread_mutex_unlock(&lock);
	return paused;
}

static void resume_thread(void)
{
	pthread_mutex_lock(&lock);
	pauses = false;
	if (first && !start_thread())
		vcuda_log("no thread can be started that runs host functions: streams wait for them for ever");
	pthread_mutex_unlock(&lock);
}

__attribute__((constructor)) static void watch(void)
{
	static struct client_restore_watch thread = {
		.pause = pause_thread, .is_paused = is_paused, .resume = resume_thread};

	client_restore_watch(&thread);
}

static CUresult launch(const struct call_options *how, CUstream resolved, const struct callback *what)
{
	struct call_options options = *how;
	struct callback *c = malloc(sizeof(*c));
	CUresult result;
	uint64_t id;

	if (!c)
		return CUDA_ERROR_OUT_OF_MEMORY;
	*c = *what;
	pthread_mutex_lock(&lock);
	if (!start_thread()) {
		pthread_mutex_unlock(&lock);
		free(c);
		return CUDA_ERROR_OUT_OF_MEMORY;
	}
	c->id = id = ++ids;
	*tail = c;
	tail = &c->next;
	pthread_mutex_unlock(&lock);
	/* The command waits for its answer: otherwise a host function that is never called would go unnoticed. */
	options.wait = true;
	result = vcuda_call_vcudaLaunchCallback_with(&options, resolved, id);
	if (result != CUDA_SUCCESS) {
		c = take(id); /* not there if it has run and the worker went before it answered */
		free(c);
		return result;
	}
	pthread_mutex_lock(&lock);
	pthread_cond_signal(&added);
	pthread_mutex_unlock(&lock);
	return CUDA_SUCCESS;
}

CUresult libcuda_callback_launch(const struct call_options *how, CUstream resolved, CUhostFn function, void *user)
{
	return launch(how, resolved, &(struct callback){.function = function, .user = user});
}

/* ---- the API ---- */

static CUresult add_callback(CUstream named, CUstreamCallback callback, void *user, unsigned int flags)
{
	CUstream stream = named;
	struct call_options how;
	CUresult result = libcuda_stream_visit(&stream, &how);

	if (result != CUDA_SUCCESS)
		return result;
	result = callback && !flags ? libcuda_capture_refuses(libcuda_request_context(&how), stream)
				    : CUDA_ERROR_INVALID_VALUE;
	if (result == CUDA_SUCCESS)
		result = launch(&how, stream, &(struct callback){.callback = callback, .stream = named, .user = user});
	return result;
}

VCUDA_EXPORT CUresult cuStreamAddCallback(CUstream stream, CUstreamCallback callback, void *user, unsigned int flags)
{
	return add_callback(stream, callback, user, flags);
}
