/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Queries that are answered without the worker, and queries that never are. An answer is valid for about 50 us, and
 * this thread may lose its processor meanwhile. So one of many tries must be answered here; a query that needs the
 * worker must ask it each time.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <unistd.h>

#include "protocol/cuda-functions.h"
#include "test-libcuda-fake.h"

#define TRIES 1000
#define STALE_US 1000 /* longer than any answer is good for */

static CUcontext context;
static CUdeviceptr memory;
static CUstream stream, other;
static CUevent event;

static int setup(void **state)
{
	OK(cuInit(0));
	OK(cuDevicePrimaryCtxRetain(&context, 0));
	OK(cuCtxSetCurrent(context));
	OK(cuMemAlloc_v2(&memory, 4096));
	OK(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
	OK(cuStreamCreate(&other, CU_STREAM_NON_BLOCKING));
	OK(cuEventCreate(&event, 0));
	return 0;
}

static void put(CUstream s)
{
	OK(cuMemsetD32Async(memory, 0, 1, s));
}

static CUresult query_stream(void)
{
	return cuStreamQuery(stream);
}

static CUresult wait_for_stream(void)
{
	return cuStreamSynchronize(stream);
}

static CUresult query_default(void)
{
	return cuStreamQuery(NULL);
}

static CUresult query_event(void)
{
	return cuEventQuery(event);
}

static CUresult wait_for_event(void)
{
	return cuEventSynchronize(event);
}

static CUresult (*const all[])(void) = {query_stream, wait_for_stream, query_default,
					query_event,  wait_for_event,  cuCtxSynchronize};
#define ALL (sizeof(all) / sizeof(*all))

/* Twice in a row. */
static void expect_completed(CUresult (*call)(void))
{
	for (int i = 0; i < TRIES; i++) {
		OK(call());
		if (!fake_commands_of(call))
			return;
	}
	fail();
}

/* After what is done first, and after a wait for all, of which the worker's answer is new. */
static void expect_asked(CUresult (*call)(void), void (*first)(void))
{
	for (int i = 0; i < TRIES / 10; i++) {
		put(NULL);
		OK(cuCtxSynchronize());
		OK(call());
		first();
		assert_true(fake_commands_of(call) > 0);
	}
}

static void known(void **state)
{
	OK(cuEventRecord(event, stream));
	OK(cuCtxSynchronize());
	for (size_t i = 0; i < ALL; i++)
		expect_completed(all[i]);
}

static void put_in_stream(void)
{
	put(stream);
}

static void put_in_other(void)
{
	put(other);
}

static void put_in_default(void)
{
	put(NULL);
}

static void record(void)
{
	OK(cuEventRecord(event, stream));
}

static void *in_thread(void *f)
{
	OK(cuCtxSetCurrent(context));
	((void (*)(void))(uintptr_t)f)();
	return NULL;
}

static void thread_does(void (*f)(void))
{
	pthread_t thread;

	assert_int_equal(pthread_create(&thread, NULL, in_thread, (void *)(uintptr_t)f), 0);
	assert_int_equal(pthread_join(thread, NULL), 0);
}

static void thread_records(void)
{
	thread_does(record);
}

static void thread_puts(void)
{
	thread_does(put_in_stream);
}

static void asked_after_work(void **state)
{
	expect_asked(query_stream, put_in_stream);
	expect_asked(query_stream, record);
	expect_asked(query_stream, thread_puts);
	expect_asked(query_default, put_in_other);
	expect_asked(query_default, put_in_default);
	expect_asked(query_event, record);
	expect_asked(query_event, thread_records);
	/* With a wait comes what kernels have printed, in whatever stream. */
	for (size_t i = 0; i < ALL; i++) {
		if (all[i] != wait_for_stream && all[i] != wait_for_event && all[i] != cuCtxSynchronize)
			continue;
		expect_asked(all[i], put_in_stream);
		expect_asked(all[i], put_in_other);
		expect_asked(all[i], thread_puts);
	}
}

/* Another stream's work is nothing to a question about this one. */
static void other_streams(void **state)
{
	for (int i = 0; i < TRIES; i++) {
		OK(cuStreamSynchronize(stream));
		put(other);
		put(NULL);
		if (!fake_commands_of(query_stream))
			return;
	}
	fail();
}

/* A wait is still sent after a query has found the work complete. */
static void asked_then_waited(void **state)
{
	put(stream);
	OK(cuEventRecord(event, stream));
	OK(cuCtxSynchronize());
	put(other);
	OK(cuEventRecord(event, stream));
	while (cuEventQuery(event) == CUDA_ERROR_NOT_READY)
		continue;
	assert_true(fake_commands_of(wait_for_event) > 0);
}

/* Work of the stream, and its event, that the worker does not see before `fake.holds` ends. */
static void hold_work(void)
{
	OK(cuCtxSynchronize());
	fake.holds = true;
	usleep(STALE_US);
	put(stream);
	OK(cuEventRecord(event, stream));
	assert_int_equal(cuEventQuery(event), CUDA_ERROR_NOT_READY);
}

static void not_ready(void **state)
{
	for (int i = 0; i < 100; i++) {
		put(stream);
		OK(cuEventRecord(event, stream));
		OK(cuStreamSynchronize(stream));
		fake.busy = true;
		put(stream);
		OK(cuEventRecord(event, stream));
		/* Before the command is taken, and afterwards. */
		assert_int_equal(cuEventQuery(event), CUDA_ERROR_NOT_READY);
		assert_int_equal(cuStreamQuery(stream), CUDA_ERROR_NOT_READY);
		usleep(100);
		assert_int_equal(cuEventQuery(event), CUDA_ERROR_NOT_READY);
		assert_int_equal(cuStreamQuery(stream), CUDA_ERROR_NOT_READY);
		fake.busy = false;
	}
	/* The worker may not have seen the last work yet. */
	while (cuEventQuery(event) == CUDA_ERROR_NOT_READY)
		usleep(STALE_US);
	OK(cuEventQuery(event));
	/* A query of work that the worker has not seen is not sent to it. */
	if (sysconf(_SC_NPROCESSORS_ONLN) == 1)
		return;
	hold_work();
	assert_int_equal(cuStreamQuery(stream), CUDA_ERROR_NOT_READY);
	fake.holds = false;
	OK(cuStreamSynchronize(stream));
	OK(cuEventQuery(event));
}

/* A thread that polls completed work without end gets the context's error. */
static void failed(void **state)
{
	for (size_t i = 0; i < ALL; i++) {
		CUresult result = CUDA_SUCCESS;

		OK(cuCtxSynchronize());
		fake.fail_next = CUDA_ERROR_ILLEGAL_ADDRESS;
		for (int n = 0; n < 1000000 && result == CUDA_SUCCESS; n++)
			result = all[i]();
		assert_int_equal(result, CUDA_ERROR_ILLEGAL_ADDRESS);
		OK(cuDevicePrimaryCtxReset_v2(0));
		setup(NULL);
	}
}

static void wait_events(void **state)
{
	uint64_t before;

	OK(cuEventRecord(event, stream));
	OK(cuEventSynchronize(event));
	before = fake.event_waits;
	OK(cuStreamWaitEvent(other, event, 0));
	OK(cuCtxSynchronize());
	assert_int_equal(fake.event_waits, before);
	OK(cuEventRecord(event, stream));
	OK(cuStreamWaitEvent(other, event, 0));
	OK(cuCtxSynchronize());
	assert_int_equal(fake.event_waits, before + 1);
	thread_records();
	OK(cuStreamWaitEvent(other, event, 0));
	OK(cuCtxSynchronize());
	assert_int_equal(fake.event_waits, before + 2);
}

static void shared_events(void **state)
{
	CUevent mine = event;

	/* Another process may record it. */
	OK(cuEventCreate(&event, CU_EVENT_INTERPROCESS | CU_EVENT_DISABLE_TIMING));
	OK(cuEventRecord(event, stream));
	for (int i = 0; i < 100; i++) {
		OK(cuEventSynchronize(event));
		assert_true(fake_commands_of(query_event) > 0);
		assert_true(fake_commands_of(wait_for_event) > 0);
	}
	OK(cuEventDestroy_v2(event));
	event = mine;
}

static CUevent make(unsigned int flags)
{
	CUevent e;

	OK(cuEventCreate(&e, flags));
	return e;
}

static void events_again(void **state)
{
	CUevent first = make(0), second, pending;
	uint64_t made;
	float ms;

	OK(cuEventRecord(first, stream));
	OK(cuEventSynchronize(first));
	OK(cuEventDestroy_v2(first));
	assert_int_equal(cuEventQuery(first), CUDA_ERROR_INVALID_HANDLE);
	assert_int_equal(cuEventDestroy_v2(first), CUDA_ERROR_INVALID_HANDLE);
	made = fake.events;
	second = make(CU_EVENT_BLOCKING_SYNC);
	assert_int_equal(fake.events, made + 1);
	OK(cuEventDestroy_v2(second));
	second = make(0);
	assert_int_equal(fake.events, made + 1);
	/* The event has not been recorded, although its predecessor has been. */
	OK(cuEventRecord(event, stream));
	OK(cuEventSynchronize(event));
	assert_int_equal(cuEventElapsedTime_v2(&ms, second, event), CUDA_ERROR_INVALID_HANDLE);
	assert_int_equal(cuEventElapsedTime_v2(&ms, event, second), CUDA_ERROR_INVALID_HANDLE);
	OK(cuEventRecord(second, stream));
	OK(cuEventElapsedTime_v2(&ms, event, second));
	/* An event that a thread may wait for is destroyed, not reused. */
	pending = second;
	OK(cuEventDestroy_v2(pending));
	made = fake.events;
	second = make(0);
	assert_int_equal(fake.events, made + 1);
	OK(cuEventDestroy_v2(second));
	OK(cuDevicePrimaryCtxReset_v2(0));
	setup(NULL);
	assert_true(event != second);
}

static void fill_pool(void **state)
{
	CUevent events[200];
	uint64_t made;

	for (int i = 0; i < 200; i++)
		events[i] = make(CU_EVENT_DISABLE_TIMING);
	for (int i = 0; i < 200; i++)
		OK(cuEventDestroy_v2(events[i]));
	made = fake.events;
	for (int i = 0; i < 200; i++)
		events[i] = make(CU_EVENT_DISABLE_TIMING);
	assert_in_range(fake.events - made, 100, 199);
	for (int i = 0; i < 200; i++)
		for (int k = 0; k < i; k++)
			assert_true(events[i] != events[k]);
	for (int i = 0; i < 200; i++)
		OK(cuEventDestroy_v2(events[i]));
}

static _Atomic(CUevent) shared;
static _Atomic bool stop;

static void *use_shared(void *unused)
{
	OK(cuCtxSetCurrent(context));
	while (!stop) {
		cuEventQuery(shared);
		cuEventSynchronize(shared);
	}
	return unused;
}

/* A thread uses an event that another one destroys: a fault of the program, which gets an error and no signal. */
static void ended_meanwhile(void **state)
{
	pthread_t thread;

	assert_int_equal(pthread_create(&thread, NULL, use_shared, NULL), 0);
	for (int i = 0; i < 100 * TRIES; i++) {
		shared = make(0);
		OK(cuEventDestroy_v2(shared));
	}
	stop = true;
	assert_int_equal(pthread_join(thread, NULL), 0);
}

/* A thread that only queries gets an error when the worker is gone. The last test. */
static void gone(void **state)
{
	CUresult results[] = {CUDA_ERROR_NOT_READY, CUDA_ERROR_NOT_READY};

	if (sysconf(_SC_NPROCESSORS_ONLN) == 1)
		return;
	hold_work();
	usleep(300000);
	assert_int_equal(cuStreamQuery(stream), CUDA_ERROR_NOT_READY);
	fake.gone = true;
	for (int i = 0; i < 60000 && results[0] == CUDA_ERROR_NOT_READY; i++) {
		usleep(10000);
		results[0] = cuEventQuery(event);
	}
	results[1] = cuStreamQuery(stream);
	assert_int_equal(results[0], CUDA_ERROR_LAUNCH_FAILED);
	assert_int_equal(results[1], CUDA_ERROR_LAUNCH_FAILED);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(known),         cmocka_unit_test(asked_after_work),
		cmocka_unit_test(other_streams), cmocka_unit_test(asked_then_waited),
		cmocka_unit_test(not_ready),     cmocka_unit_test(wait_events),
		cmocka_unit_test(shared_events), cmocka_unit_test(events_again),
		cmocka_unit_test(fill_pool),     cmocka_unit_test(ended_meanwhile),
		cmocka_unit_test(failed),        cmocka_unit_test(gone),
	};

	setenv("VCUDA_TRANSPORT", "local", 1);
	unsetenv("CUDA_VISIBLE_DEVICES");
	return cmocka_run_group_tests(tests, setup, NULL);
}
