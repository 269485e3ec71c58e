/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Host functions of the guest process. The back end calls callback_run() in stream order; that hands the function's id
 * to a thread of the guest, which waits in vcudaCallbackNext, and returns, so that the stream goes on, once the guest
 * says that the function has returned.
 */
#include <pthread.h>
#include <stdlib.h>

#include "dispatch.h"
#include "handlers.h"
#include "session.h"

struct callback {
	uint64_t id;
	CUresult status;
	bool done;
	struct callback *next;
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t is_due = PTHREAD_COND_INITIALIZER, is_done = PTHREAD_COND_INITIALIZER;
static struct callback *due, **due_tail = &due; /* in the order in which they became due */
static struct callback *running;		/* the guest has them */

/* A CUstreamCallback. On a thread of the back end's. */
static void callback_run(CUstream stream, CUresult status, void *user)
{
	struct callback *c = user;

	(void)stream;
	pthread_mutex_lock(&lock);
	c->status = status;
	c->next = NULL;
	*due_tail = c;
	due_tail = &c->next;
	pthread_cond_signal(&is_due);
	while (!c->done)
		pthread_cond_wait(&is_done, &lock);
	pthread_mutex_unlock(&lock);
	free(c);
}

CUresult vcuda_handle_vcudaLaunchCallback(struct vcuda_session *s, struct vcuda_args_vcudaLaunchCallback *a)
{
	struct callback *c;
	CUresult result;

	if (!s->ops->cuStreamAddCallback)
		return vcuda_unsupported(s, VCUDA_OP_vcudaLaunchCallback);
	c = calloc(1, sizeof(*c));
	if (!c)
		return CUDA_ERROR_OUT_OF_MEMORY;
	c->id = a->id;
	result = s->ops->cuStreamAddCallback(a->hStream, (void *)callback_run, c, 0);
	if (result != CUDA_SUCCESS)
		free(c);
	return result;
}

/* The caller holds the lock. An id that the guest does not have is ignored. */
static void end_running(uint64_t id)
{
	for (struct callback **at = &running; *at; at = &(*at)->next) {
		struct callback *c = *at;

		if (c->id != id)
			continue;
		*at = c->next;
		c->done = true;
		pthread_cond_broadcast(&is_done);
		return;
	}
}

CUresult vcuda_handle_vcudaCallbackNext(struct vcuda_session *s, struct vcuda_args_vcudaCallbackNext *a)
{
	struct callback *c;

	(void)s;
	pthread_mutex_lock(&lock);
	if (a->done)
		end_running(a->done);
	while (a->wait && !due)
		pthread_cond_wait(&is_due, &lock);
	c = a->wait ? due : NULL;
	if (c) {
		due = c->next;
		if (!due)
			due_tail = &due;
		a->id = c->id;
		a->status = (int)c->status;
		c->next = running;
		running = c;
	}
	pthread_mutex_unlock(&lock);
	return CUDA_SUCCESS;
}
