/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Callbacks in streams. They run on one thread of their own, one after the other, so that one that takes long holds up
 * no thread that runs kernels. In a context that has failed they are called nevertheless, with its error.
 */
#include <pthread.h>
#include <stdlib.h>

#include "common/start-thread.h"
#include "device/stream.h"

struct host_function {
	struct softgpu_op op; /* in its stream until the function has returned */
	CUstreamCallback call;
	void *user;
	CUstream handle;
	CUresult status;
	bool queued;   /* for the thread */
	bool returned; /* the operation's end frees it */
	struct host_function *next;
};

static pthread_cond_t work = PTHREAD_COND_INITIALIZER;
static struct host_function *first, **tail = &first;

/*
 * A plain mutex like the scheduler's lock, which guards the queue. A mutex of its own lets the thread sleep without
 * that lock.
 */
static pthread_mutex_t queue_lock = PTHREAD_MUTEX_INITIALIZER;

static void enqueue(struct host_function *f, CUresult status)
{
	f->status = status;
	f->queued = true;
	f->next = NULL;
	pthread_mutex_lock(&queue_lock);
	*tail = f;
	tail = &f->next;
	pthread_cond_signal(&work);
	pthread_mutex_unlock(&queue_lock);
}

static struct host_function *dequeue(void)
{
	struct host_function *f;

	pthread_mutex_lock(&queue_lock);
	while (!first)
		pthread_cond_wait(&work, &queue_lock);
	f = first;
	first = f->next;
	if (!first)
		tail = &first;
	pthread_mutex_unlock(&queue_lock);
	return f;
}

static void *run(void *unused)
{
	for (;;) {
		struct host_function *f = dequeue();

		f->call(f->handle, f->status, f->user);
		if (f->status != CUDA_SUCCESS) {
			free(f); /* the operation was freed */
			continue;
		}
		softgpu_lock();
		f->returned = true;
		softgpu_op_done(&f->op);
		softgpu_unlock();
	}
	return unused;
}

static bool function_start(struct softgpu_op *op)
{
	enqueue((struct host_function *)op, CUDA_SUCCESS);
	return true;
}

static void function_finish(struct softgpu_op *op)
{
	struct host_function *f = (struct host_function *)op;

	if (f->returned)
		free(f);
	else if (!f->queued) /* dropped */
		enqueue(f, op->stream->context->error ? op->stream->context->error : CUDA_ERROR_UNKNOWN);
}

/* With the scheduler's lock held. */
static bool start_thread(void)
{
	static bool started;

	if (!started)
		started = vcuda_thread_start(run, NULL);
	return started;
}

CUresult softgpu_cuStreamAddCallback(CUstream hStream, void *callback, void *userData, unsigned flags)
{
	struct CUstream_st *stream;
	struct host_function *f;
	struct CUctx_st *c;
	CUresult result = softgpu_enter(&c);

	if (result != CUDA_SUCCESS)
		return result;
	stream = softgpu_stream_find(c, hStream);
	if (!stream)
		return softgpu_leave(CUDA_ERROR_INVALID_HANDLE);
	if (!callback || flags)
		return softgpu_leave(CUDA_ERROR_INVALID_VALUE);
	f = start_thread() ? calloc(1, sizeof(*f)) : NULL;
	if (!f)
		return softgpu_leave(CUDA_ERROR_OUT_OF_MEMORY);
	f->op.external = true;
	f->op.start = function_start;
	f->op.finish = function_finish;
	f->call = (CUstreamCallback)callback;
	f->user = userData;
	f->handle = hStream;
	softgpu_submit(stream, &f->op, false);
	return softgpu_leave(CUDA_SUCCESS);
}
