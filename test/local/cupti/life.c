/* SPDX-License-Identifier: Apache-2.0 */
/* Buffers that do not suffice, and clients that begin and end while the program works. */
#include "cupti.h"

#include <pthread.h>
#include <stdatomic.h>
#include <sys/wait.h>
#include <unistd.h>

#define FORKS 500

static size_t dropped(void)
{
	size_t n;

	OK(cuptiActivityGetNumDroppedRecords(NULL, 0, &n));
	return n;
}

/* Issues `memsets` memsets and flushes their records. */
static void work(CUdeviceptr data, unsigned int memsets)
{
	forget_records();
	buffers_given = buffers_taken = 0;
	for (unsigned int i = 0; i < memsets; i++)
		OK(cuMemsetD8Async(data, 0, i + 1, NULL));
	OK(cuCtxSynchronize());
	OK(cuptiActivityFlushAll(0));
	/* All buffers come back, and soon one that the library's own thread was asking for. */
	for (int i = 0; i < 10000 && buffers_given != buffers_taken; i++)
		usleep(1000);
	CHECK(buffers_given == buffers_taken);
}

void test_buffers(void)
{
	const size_t record = sizeof(struct cupti_memset_record);
	CUdeviceptr data;
	size_t n;

	start_client();
	start_device();
	OK(cuMemAlloc_v2(&data, 1000));
	OK(cuptiActivityEnable(CUPTI_KIND_MEMSET));
	/* The client is asked for a buffer before the first call returns, as PyTorch expects. */
	CHECK(!buffers_given);
	OK(cuMemsetD8Async(data, 0, 1, NULL));
	CHECK(buffers_given == 1 && !buffers_taken);
	OK(cuCtxSynchronize());
	OK(cuptiActivityFlushAll(0));
	CHECK(count_records(CUPTI_KIND_MEMSET) == 1 && buffers_taken == 1);
	work(data, 30);
	CHECK(count_records(CUPTI_KIND_MEMSET) == 30 && buffers_taken == 1 && !dropped());
	buffer_size = 3 * record;
	work(data, 30);
	CHECK(count_records(CUPTI_KIND_MEMSET) == 30 && buffers_taken == 10 && !dropped());
	/* The rest of a buffer is not used. */
	buffer_size = 3 * record + record / 2;
	work(data, 30);
	CHECK(count_records(CUPTI_KIND_MEMSET) == 30 && buffers_taken == 10 && !dropped());
	buffer_most = 2;
	work(data, 30);
	CHECK(count_records(CUPTI_KIND_MEMSET) == 30 && buffers_taken == 15 && !dropped());
	buffer_most = 0;
	/* A record does not fit: the buffers come back empty. */
	buffer_size = record - 1;
	work(data, 30);
	CHECK(count_records(CUPTI_KIND_MEMSET) == 0 && buffers_taken && dropped() == 30 && !dropped());
	buffer_size = 0;
	work(data, 30);
	CHECK(count_records(CUPTI_KIND_MEMSET) == 0 && !buffers_taken && dropped() == 30);
	/* The count is the process's, whichever context is named. */
	work(data, 30);
	OK(cuptiActivityGetNumDroppedRecords(context, 1, &n));
	CHECK(n == 30 && !dropped());
	buffer_size = 1 << 16;
	work(data, 30);
	CHECK(count_records(CUPTI_KIND_MEMSET) == 30 && !dropped());
}

/* Nothing is recorded once the kinds are off, and again once they are on; work that was issued before counts. */
void test_off(void)
{
	CUdeviceptr data;

	start_client();
	start_device();
	OK(cuMemAlloc_v2(&data, 1000));
	work(data, 10);
	CHECK(!count_records(CUPTI_KIND_MEMSET));
	for (int i = 0; i < 3; i++) {
		OK(cuptiActivityEnable(CUPTI_KIND_MEMSET));
		OK(cuptiActivityEnable(CUPTI_KIND_DRIVER));
		forget_records();
		for (unsigned int n = 0; n < 500; n++)
			OK(cuMemsetD8Async(data, 0, 1, NULL));
		OK(cuptiActivityDisable(CUPTI_KIND_MEMSET));
		OK(cuptiActivityDisable(CUPTI_KIND_DRIVER));
		OK(cuMemsetD8Async(data, 0, 2, NULL));
		OK(cuCtxSynchronize());
		OK(cuptiActivityFlushAll(0));
		CHECK(count_records(CUPTI_KIND_MEMSET) == 500 && count_records(CUPTI_KIND_DRIVER) == 500);
		work(data, 10);
		CHECK(!count_records(CUPTI_KIND_MEMSET) && !count_records(CUPTI_KIND_DRIVER));
		usleep(i * 20000);
	}
}

static _Atomic bool ends;
static _Atomic unsigned int launches;

static void *launch_always(void *data)
{
	OK(cuCtxSetCurrent(context));
	while (!ends) {
		launch(second, 1, 32, 0, *(CUdeviceptr *)data, NULL);
		if (++launches % 64 == 0)
			OK(cuCtxSynchronize());
	}
	return NULL;
}

static void ignore(void *userdata, uint32_t domain, uint32_t id, const void *data)
{
	(void)userdata, (void)domain, (void)id, (void)data;
}

/* Clients begin and end beside two threads that work. */
void test_finalize(void)
{
	subscriber_handle subscriber;
	pthread_t threads[2];
	CUdeviceptr data;

	start_device();
	OK(cuMemAlloc_v2(&data, 1000));
	for (int i = 0; i < 2; i++)
		CHECK(!pthread_create(&threads[i], NULL, launch_always, &data));
	for (int i = 0; i < 20; i++) {
		unsigned int before;

		start_client();
		OK(cuptiSubscribe(&subscriber, ignore, NULL));
		OK(cuptiEnableDomain(1, subscriber, CUPTI_DOMAIN_DRIVER));
		OK(cuptiActivityEnable(CUPTI_KIND_CONCURRENT_KERNEL));
		OK(cuptiActivityEnable(CUPTI_KIND_DRIVER));
		before = launches;
		while (launches < before + 50)
			usleep(100);
		OK(cuptiFinalize());
		CHECK(count_records(CUPTI_KIND_DRIVER));
		forget_records();
	}
	ends = true;
	for (int i = 0; i < 2; i++)
		CHECK(!pthread_join(threads[i], NULL));
	OK(cuCtxSynchronize());
	/* And once more with nothing attached. */
	OK(cuptiFinalize());
}

#ifndef __SANITIZE_THREAD__
static void *enable_always(void *unused)
{
	while (!ends) {
		OK(cuptiActivityEnable(CUPTI_KIND_DEVICE));
		OK(cuptiActivityDisable(CUPTI_KIND_DEVICE));
	}
	return unused;
}

static void *flush_always(void *unused)
{
	while (!ends)
		OK(cuptiActivityFlushAll(0));
	return unused;
}

/*
 * Threads of the parent hold locks that the child has no threads for. The thread sanitizer knows these threads in the
 * child too, and ends it where a thread of the child gets the place of one.
 */
static void fork_beside_threads(void)
{
	pthread_t threads[2];
	int status;

	CHECK(!pthread_create(&threads[0], NULL, enable_always, NULL));
	CHECK(!pthread_create(&threads[1], NULL, flush_always, NULL));
	for (int i = 0; i < FORKS; i++) {
		pid_t child = fork();

		CHECK(child >= 0);
		if (!child) {
			OK(cuptiActivityFlushAll(0));
			OK(cuptiActivityEnable(CUPTI_KIND_DEVICE));
			OK(cuptiActivityFlushAll(0));
			_exit(0);
		}
		CHECK(waitpid(child, &status, 0) == child && !status);
	}
	ends = true;
	for (int i = 0; i < 2; i++)
		CHECK(!pthread_join(threads[i], NULL));
}
#else
static void fork_beside_threads(void)
{
	printf("no forks beside threads under the thread sanitizer\n");
}

/* A child may start threads, as the library does there, although its parent has several. */
const char *__tsan_default_options(void);
const char *__tsan_default_options(void)
{
	return "die_after_fork=0";
}
#endif

/* A child has no CUDA, its parent's client goes on. */
void test_fork(void)
{
	CUdeviceptr data;
	int status;
	pid_t child;

	start_client();
	start_device();
	OK(cuMemAlloc_v2(&data, 1000));
	OK(cuptiActivityEnable(CUPTI_KIND_MEMSET));
	OK(cuMemsetD8Async(data, 0, 1, NULL));
	child = fork();
	CHECK(child >= 0);
	if (!child) {
		GIVES(cuMemsetD8Async(data, 0, 1, NULL), CUDA_ERROR_NOT_INITIALIZED);
		OK(cuptiActivityFlushAll(0));
		CHECK(!count_records(CUPTI_KIND_MEMSET));
		OK(cuptiActivityEnable(CUPTI_KIND_DRIVER));
		GIVES(cuMemsetD8Async(data, 0, 1, NULL), CUDA_ERROR_NOT_INITIALIZED);
		OK(cuptiActivityFlushAll(0));
		CHECK(count_records(CUPTI_KIND_DRIVER) == 1);
		_exit(0);
	}
	CHECK(waitpid(child, &status, 0) == child && !status);
	OK(cuMemsetD8Async(data, 0, 2, NULL));
	OK(cuCtxSynchronize());
	OK(cuptiActivityFlushAll(0));
	CHECK(count_records(CUPTI_KIND_MEMSET) == 2);
	fork_beside_threads();
}
