/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Streams that go from thread to thread, some by way of a host function. The thread that has a stream adds work behind
 * the present work; only the last thread waits.
 */
#include "stress.h"

#include <pthread.h>
#include <stdbool.h>
#include <stdlib.h>

#include "protocol/cuda-functions.h"

#define COUNT 700u
#define HOPS 9
#define MOST_LEFT 8

struct job {
	CUstream stream;
	CUevent event; /* behind the last work */
	CUdeviceptr data;
	uint32_t expected[COUNT], result[COUNT];
	unsigned int hops;
	/*
	 * By host functions, last of all. Atomic for the thread sanitizer, which sees nothing of the order that the
	 * stream gives, by way of another process.
	 */
	_Atomic unsigned int called;
	bool permitted; /* CUDA, in a host function: never */
	struct job *next;
};

CUfunction stress_step;

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct job *left;
static unsigned int left_count;

static void leave(struct job *job)
{
	pthread_mutex_lock(&lock);
	job->next = left;
	left = job;
	left_count++;
	pthread_mutex_unlock(&lock);
}

static struct job *take(bool begin_some)
{
	struct job *job = NULL;

	pthread_mutex_lock(&lock);
	if (left && (!begin_some || left_count >= MOST_LEFT)) {
		job = left;
		left = job->next;
		left_count--;
	}
	pthread_mutex_unlock(&lock);
	return job;
}

/* ---- host functions, which must not call CUDA ---- */

static void try_cuda(struct job *job)
{
	CUdeviceptr p;

	if (cuMemAlloc_v2(&p, 4) != CUDA_ERROR_NOT_PERMITTED || cuCtxSynchronize() != CUDA_ERROR_NOT_PERMITTED ||
	    cuStreamQuery(job->stream) != CUDA_ERROR_NOT_PERMITTED)
		job->permitted = true;
}

static void count_call(void *argument)
{
	struct job *job = argument;

	try_cuda(job);
	job->called++;
}

/* The next thread may have it before the stream goes on. */
static void count_and_leave(void *argument)
{
	struct job *job = argument;

	try_cuda(job);
	job->called++;
	leave(job);
}

static void count_callback(CUstream stream, CUresult status, void *argument)
{
	struct job *job = argument;

	try_cuda(job);
	if (stream != job->stream || status != CUDA_SUCCESS)
		job->permitted = true;
	job->called++;
}

/* ---- the work ---- */

static struct job *begin(struct stress_thread *t)
{
	struct job *j = calloc(1, sizeof(*j));

	if (!j)
		_Exit(1);
	for (uint32_t i = 0; i < COUNT; i++)
		j->expected[i] = i * 2654435761u + t->random;
	NEED(cuStreamCreate(&j->stream, stress_pick(t, 2) ? CU_STREAM_NON_BLOCKING : CU_STREAM_DEFAULT));
	NEED(cuEventCreate(&j->event, 0));
	NEED(cuMemAllocAsync(&j->data, COUNT * 4, j->stream));
	/* Pageable: it has been read when the call returns. */
	NEED(cuMemcpyHtoDAsync_v2(j->data, j->expected, COUNT * 4, j->stream));
	return j;
}

static void launch(struct stress_thread *t, struct job *j, uint32_t addend, CUstream stream)
{
	uint32_t count = COUNT;
	void *params[] = {&j->data, &count, &addend};

	NEED(cuLaunchKernel(stress_step, (count + 127) / 128, 1, 1, 128, 1, 1, 0, stream, params, NULL));
}

/* By way of another stream, which is destroyed with the work in it. */
static void launch_beside(struct stress_thread *t, struct job *j, uint32_t addend)
{
	CUstream beside;

	NEED(cuStreamCreate(&beside, CU_STREAM_NON_BLOCKING));
	NEED(cuEventRecord(j->event, j->stream));
	NEED(cuStreamWaitEvent(beside, j->event, 0));
	launch(t, j, addend, beside);
	NEED(cuEventRecord(j->event, beside));
	NEED(cuStreamWaitEvent(j->stream, j->event, 0));
	NEED(cuStreamDestroy_v2(beside));
}

/* Held for reading by a capturing thread: meanwhile no thread may wait for the context as a whole. */
static pthread_rwlock_t captures = PTHREAD_RWLOCK_INITIALIZER;

void stress_wait_for_all(struct stress_thread *t)
{
	pthread_rwlock_wrlock(&captures);
	NEED(cuCtxSynchronize());
	pthread_rwlock_unlock(&captures);
}

static void launch_graph(struct stress_thread *t, struct job *j, uint32_t addend)
{
	CUgraphExec exec;
	CUgraph graph;
	CUstream captured;

	/* Not of j->stream, which may be one that others' work in the default stream waits for. */
	NEED(cuStreamCreate(&captured, CU_STREAM_NON_BLOCKING));
	pthread_rwlock_rdlock(&captures);
	NEED(cuStreamBeginCapture_v2(captured, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL));
	launch(t, j, addend, captured);
	NEED(cuStreamEndCapture(captured, &graph));
	pthread_rwlock_unlock(&captures);
	NEED(cuStreamDestroy_v2(captured));
	NEED(cuGraphInstantiateWithFlags(&exec, graph, 0));
	NEED(cuGraphLaunch(exec, j->stream));
	NEED(cuGraphExecDestroy(exec));
	NEED(cuGraphDestroy(graph));
}

static void add(struct stress_thread *t, struct job *j)
{
	uint32_t addend = stress_pick(t, 1000);

	switch (stress_pick(t, 3)) {
	case 0:
		launch_beside(t, j, addend);
		break;
	case 1:
		launch_graph(t, j, addend);
		break;
	default:
		launch(t, j, addend, j->stream);
	}
	for (uint32_t i = 0; i < COUNT; i++)
		j->expected[i] = j->expected[i] * 3 + addend;
	j->hops++;
}

static void wait_and_check(struct stress_thread *t, struct job *j)
{
	NEED(cuLaunchHostFunc(j->stream, count_call, j));
	j->hops++;
	NEED(cuMemcpyDtoHAsync_v2(j->result, j->data, COUNT * 4, j->stream));
	NEED(cuMemFreeAsync(j->data, j->stream));
	NEED(cuEventRecord(j->event, j->stream));
	if (stress_pick(t, 2))
		NEED(cuStreamSynchronize(j->stream));
	else
		NEED(cuEventSynchronize(j->event));
	for (uint32_t i = 0; i < COUNT; i++)
		if (j->result[i] != j->expected[i])
			stress_wrong(t, "a stream of many threads", i, j->result[i], j->expected[i]);
	if (j->called != j->hops || j->permitted)
		stress_wrong(t, "host functions", j->permitted, j->called, j->hops);
	NEED(cuEventDestroy_v2(j->event));
	NEED(cuStreamDestroy_v2(j->stream));
	free(j);
}

void stress_hand_on(struct stress_thread *t)
{
	struct job *j = take(stress_pick(t, 2));

	if (!j)
		j = begin(t);
	add(t, j);
	switch (j->hops < HOPS ? stress_pick(t, 3) : HOPS) {
	case 0:
		NEED(cuLaunchHostFunc(j->stream, count_call, j));
		leave(j);
		break;
	case 1:
		NEED(cuStreamAddCallback(j->stream, count_callback, j, 0));
		leave(j);
		break;
	case 2:
		/* From now on it may be another's. */
		NEED(cuLaunchHostFunc(j->stream, count_and_leave, j));
		break;
	default:
		NEED(cuLaunchHostFunc(j->stream, count_call, j));
		wait_and_check(t, j);
	}
}

void stress_end_jobs(struct stress_thread *t)
{
	struct job *j;

	stress_wait_for_all(t);
	while ((j = take(false)))
		wait_and_check(t, j);
}
