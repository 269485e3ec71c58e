/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Host functions of the guest process. The back end calls callback_run() in stream order; that tells the guest through
 * the control page which function is due, and returns, so that the stream goes on, once the guest says there that it
 * has returned. None of it goes through the ring: a driver whose queue is full waits for the stream in the command that
 * is at its head, and one that frees memory keeps other threads from its contexts meanwhile.
 */
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <time.h>

#include "queue/callback.h"
#include "session/dispatch.h"
#include "protocol/handlers.h"
#include "queue/dispatcher.h"
#include "session/session.h"

/* The guest rings when a function has returned. All threads that would hear it may be in calls, so that we look as
 * well. */
#define LOOK_NS 1000000

struct callback {
	struct worker_session *session;
	uint64_t id;
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t rung = PTHREAD_COND_INITIALIZER;
static _Atomic uint64_t due; /* how many there have been; written with the lock */
static _Atomic unsigned int waiting;

/* The guest may write what it likes: it is its own function that is not waited for. */
static uint64_t returned(struct worker_session *s)
{
	struct vcuda_shm *shm = s->shm;
	uint64_t done = atomic_load(&shm->callbacks_done);

	return done < due ? done : due;
}

bool worker_callback_runs(struct worker_session *s)
{
	return returned(s) < due;
}

/* The caller holds the lock. */
static void wait_until_returned(struct worker_session *s, uint64_t count)
{
	struct timespec until;

	waiting++;
	while (returned(s) < count) {
		clock_gettime(CLOCK_MONOTONIC, &until);
		until.tv_nsec += LOOK_NS;
		until.tv_sec += until.tv_nsec / 1000000000;
		until.tv_nsec %= 1000000000;
		pthread_cond_clockwait(&rung, &lock, CLOCK_MONOTONIC, &until);
	}
	waiting--;
}

void worker_callback_rung(void)
{
	if (!atomic_load(&waiting))
		return;
	pthread_mutex_lock(&lock);
	pthread_cond_broadcast(&rung);
	pthread_mutex_unlock(&lock);
}

/* A CUstreamCallback. On a thread of the back end's. */
static void callback_run(CUstream stream, CUresult status, void *user)
{
	struct callback *c = user;
	struct worker_session *s = c->session;
	uint64_t n;

	(void)stream;
	pthread_mutex_lock(&lock);
	/* while this one waits for its place others may take it */
	while (due - returned(s) >= VCUDA_CALLBACKS)
		wait_until_returned(s, due - VCUDA_CALLBACKS + 1);
	n = ++due;
	if (vcuda_callback_due(s->shm, n, c->id, (int32_t)status))
		worker_dispatcher_wake_guest(s);
	wait_until_returned(s, n);
	pthread_mutex_unlock(&lock);
	free(c);
}

CUresult vcuda_handle_vcudaLaunchCallback(struct worker_session *s, struct vcuda_args_vcudaLaunchCallback *a)
{
	struct callback *c;
	CUresult result;

	if (!s->ops->cuStreamAddCallback)
		return worker_unsupported(s, VCUDA_OP_vcudaLaunchCallback);
	c = malloc(sizeof(*c));
	if (!c)
		return CUDA_ERROR_OUT_OF_MEMORY;
	*c = (struct callback){s, a->id};
	result = s->ops->cuStreamAddCallback(a->hStream, (void *)callback_run, c, 0);
	if (result != CUDA_SUCCESS)
		free(c);
	return result;
}
