/* SPDX-License-Identifier: Apache-2.0 */
/* Waits that a fence of the stream's answers, alone and while other threads do what makes such an answer wrong. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <cmocka.h>

#include <pthread.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

#include "protocol/calls.h"
#include "guest/libcuda/core/init.h"
#include "ring/ring.h"
#include "protocol/cuda-functions.h"
#include "test-libcuda-fake.h"

#define TRIES 1000
#define ROUNDS 200
#define WORK_OF_OTHERS_SECONDS 60

static CUcontext context;
static CUdeviceptr memory;
static CUfunction function;
static CUstream stream;

static void begin(void)
{
	CUmodule module;

	OK(cuDevicePrimaryCtxRetain(&context, 0));
	OK(cuCtxSetCurrent(context));
	OK(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
	OK(cuModuleLoadData(&module, "//"));
	OK(cuModuleGetFunction(&function, module, "kernel"));
}

static int setup(void **state)
{
	OK(cuInit(0));
	begin();
	OK(cuMemAlloc_v2(&memory, 4096));
	return 0;
}

static CUresult launch(CUstream s)
{
	uint64_t a = 0;
	uint32_t b = 0;
	void *params[] = {&a, &b};

	return cuLaunchKernel(function, 1, 1, 1, 1, 1, 1, 0, s, params, NULL);
}

static CUresult wait_for_stream(void)
{
	return cuStreamSynchronize(stream);
}

static CUresult wait_for_default(void)
{
	return cuStreamSynchronize(NULL);
}

/* Each test begins where fences are used: before the first one there are some waits in which it is seen that there are
 * many. One processor is the worker's while this thread looks. */
static int offer(void **state)
{
	for (int i = 0; i < 20; i++) {
		fake_shm()->fences = 1;
		OK(launch(NULL));
		OK(wait_for_default());
	}
	OK(cuCtxSynchronize());
	return 0;
}

static int withdraw(void **state)
{
	fake_shm()->fences = 0;
	return 0;
}

static void need_two_processors(void)
{
	if (sysconf(_SC_NPROCESSORS_ONLN) == 1)
		skip();
}

/* Waits behind launches; for a few the worker may be asked, as who looks at a fence may lose his processor. */
static void wait_behind(CUstream s, CUresult (*wait)(void), bool by_fence)
{
	uint64_t whole = fake.whole_waits, fences = fake.stream_fences;

	for (int i = 0; i < TRIES; i++) {
		OK(launch(s));
		OK(wait());
	}
	if (by_fence)
		assert_true(fake.whole_waits - whole < TRIES && fake.stream_fences - fences == TRIES);
	else
		assert_true(fake.whole_waits - whole == TRIES && fake.stream_fences == fences);
}

static void by_fences(void **state)
{
	need_two_processors();
	wait_behind(stream, wait_for_stream, true);
	wait_behind(NULL, wait_for_default, true);
	OK(cuCtxSynchronize());
	wait_behind(NULL, cuCtxSynchronize, true);
	/* The default stream does not wait for this one. */
	wait_behind(stream, cuCtxSynchronize, false);
	fake_shm()->fences = 0;
	wait_behind(stream, wait_for_stream, false);
}

/* Behind a copy, or whatever else is no launch; a stream that gets to none; code that may print was loaded. */
static void not_by_fences(void **state)
{
	uint64_t fences, whole;

	need_two_processors();
	fences = fake.stream_fences;
	for (int i = 0; i < 100; i++) {
		OK(launch(stream));
		OK(cuMemsetD32Async(memory, 0, 1, stream));
		OK(wait_for_stream());
	}
	assert_int_equal(fake.stream_fences, fences);
	fake.loses_fences = true;
	whole = fake.whole_waits;
	for (int i = 0; i < 100; i++) {
		OK(launch(stream));
		OK(wait_for_stream());
	}
	assert_int_equal(fake.stream_fences, fences + 100);
	assert_int_equal(fake.whole_waits, whole + 100);
	fake.loses_fences = false;
	fake_shm()->fences = 0;
	OK(launch(stream));
	OK(wait_for_stream());
	assert_int_equal(fake.stream_fences, fences + 100);
}

static void *launch_there(void *unused)
{
	OK(cuCtxSetCurrent(context));
	OK(launch(stream));
	return unused;
}

/* The last command of the stream counts, whichever thread issued it, and not the last command of the thread. */
static void by_stream(void **state)
{
	uint64_t fences = fake.stream_fences;
	pthread_t thread;

	need_two_processors();
	for (int i = 0; i < 100; i++) {
		assert_int_equal(pthread_create(&thread, NULL, launch_there, NULL), 0);
		assert_int_equal(pthread_join(thread, NULL), 0);
		OK(wait_for_stream());
	}
	assert_int_equal(fake.stream_fences, fences + 100);
	for (int i = 0; i < 100; i++) {
		OK(cuMemsetD32Async(memory, 0, 1, stream));
		OK(launch(NULL));
		OK(wait_for_stream());
	}
	assert_int_equal(fake.stream_fences, fences + 100);
}

/* Another thread has loaded code that may print, and launched it in front of the fence: the wait must bring its output.
 */
static void prints_meanwhile(void **state)
{
	uint64_t fences = fake.stream_fences, whole = fake.whole_waits;

	need_two_processors();
	fake.ends_fences = true;
	for (int i = 0; i < ROUNDS; i++) {
		fake_shm()->fences = 1;
		OK(launch(stream));
		OK(wait_for_stream());
	}
	fake.ends_fences = false;
	assert_int_equal(fake.stream_fences, fences + ROUNDS);
	assert_int_equal(fake.whole_waits, whole + ROUNDS);
}

/* ---- two threads ---- */

static pthread_barrier_t both;

/* Launches, and waits behind that when it is told to. */
static void *waits(void *wait)
{
	CUresult (*function_of)(void) = (CUresult(*)(void))(uintptr_t)wait, result;

	OK(cuCtxSetCurrent(context));
	result = launch(function_of == wait_for_stream ? stream : NULL);
	pthread_barrier_wait(&both);
	pthread_barrier_wait(&both);
	if (result == CUDA_SUCCESS)
		result = function_of();
	return (void *)(uintptr_t)result;
}

static pthread_t begin_launch(CUresult (*wait)(void))
{
	pthread_t thread;

	assert_int_equal(pthread_barrier_init(&both, NULL, 2), 0);
	assert_int_equal(pthread_create(&thread, NULL, waits, (void *)(uintptr_t)wait), 0);
	pthread_barrier_wait(&both);
	return thread;
}

static void begin_wait(void)
{
	pthread_barrier_wait(&both);
}

static CUresult end_wait(pthread_t thread)
{
	void *result;

	assert_int_equal(pthread_join(thread, &result), 0);
	pthread_barrier_destroy(&both);
	return (CUresult)(uintptr_t)result;
}

/* More than the default stream may be behind: this thread waits, with the stream's fences in its hand. */
static void *floods(void *stop)
{
	OK(cuCtxSetCurrent(context));
	while (!atomic_load((_Atomic bool *)stop))
		OK(launch(NULL));
	return NULL;
}

static void wait_until_stuck(void)
{
	int before;

	do {
		before = fake.launches_async;
		usleep(5000);
	} while (fake.launches_async != before);
}

/* A known completion is reported only shortly after an answer of the worker. */
static CUresult ask_again_and_again(void)
{
	CUresult result = CUDA_ERROR_NOT_READY;
	CUevent event;

	for (int i = 0; i < 20 && result == CUDA_ERROR_NOT_READY; i++) {
		OK(cuEventCreate(&event, CU_EVENT_DISABLE_TIMING));
		result = cuStreamQuery(stream);
	}
	return result;
}

/*
 * A wait for all work of a context has seen that the default stream waits for all work so far, and waits for that
 * stream by a fence. In front of the fence another thread queues work that the default stream does not wait for. The
 * fence does not tell that this work is done.
 */
static bool works_meanwhile(void)
{
	_Atomic bool stop = false;
	pthread_t flooding, waiting;
	CUresult answer;
	uint64_t whole;

	OK(cuCtxSynchronize());
	whole = fake.whole_waits;
	waiting = begin_launch(cuCtxSynchronize);
	strcpy(libcuda_host.backend, "cuda");
	fake.stands = true;
	assert_int_equal(pthread_create(&flooding, NULL, floods, &stop), 0);
	wait_until_stuck();
	begin_wait();
	usleep(5000);
	OK(cuMemsetD32Async(memory, 0, 1, stream));
	atomic_store(&stop, true);
	fake.stands = false;
	OK(end_wait(waiting));
	fake.busy = true;
	answer = ask_again_and_again();
	fake.busy = false;
	assert_int_equal(pthread_join(flooding, NULL), 0);
	strcpy(libcuda_host.backend, "cpu");
	/* The worker may have been asked to wait for all, as ever. */
	if (fake.whole_waits != whole)
		return false;
	assert_int_equal(answer, CUDA_ERROR_NOT_READY);
	return true;
}

/* On a busy machine the fence is rarely reached before the waiting thread asks the worker: so the test tries for long.
 */
static void work_of_others(void **state)
{
	time_t end = time(NULL) + WORK_OF_OTHERS_SECONDS;
	bool met = false;

	need_two_processors();
	while (!met && time(NULL) < end) {
		fake_shm()->fences = 1;
		met = works_meanwhile();
	}
	assert_true(met);
}

/* The memory that the fence is written to goes with the context, while another thread looks at it. */
static void context_ends(void **state)
{
	need_two_processors();
	fake.loses_fences = true;
	for (unsigned int i = 0; i < ROUNDS; i++) {
		pthread_t thread = begin_launch(wait_for_default);

		begin_wait();
		usleep(i % 100);
		OK(cuDevicePrimaryCtxReset_v2(0));
		end_wait(thread); /* the result does not matter: the context may be gone */
		begin();
		fake_shm()->fences = 1;
	}
	fake.loses_fences = false;
}

/* A stream ends that another thread waits for, and has not got to its fence: a new stream's fences are none of it. */
static void stream_ends(void **state)
{
	need_two_processors();
	for (int i = 0; i < ROUNDS; i++) {
		pthread_t thread = begin_launch(wait_for_stream);
		uint64_t whole = fake.whole_waits, fences = fake.stream_fences;

		fake.loses_fences = true;
		begin_wait();
		while (fake.stream_fences == fences && fake.whole_waits == whole)
			continue;
		OK(cuStreamDestroy_v2(stream));
		fake.loses_fences = false;
		OK(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
		OK(launch(stream));
		OK(wait_for_stream());
		end_wait(thread);
		assert_true(fake.whole_waits > whole);
	}
}

#define WITH_FENCES(test) cmocka_unit_test_setup_teardown(test, offer, withdraw)

int main(void)
{
	const struct CMUnitTest tests[] = {
		WITH_FENCES(by_fences),        WITH_FENCES(not_by_fences),  WITH_FENCES(by_stream),
		WITH_FENCES(prints_meanwhile), WITH_FENCES(work_of_others), WITH_FENCES(stream_ends),
		WITH_FENCES(context_ends),
	};

	setenv("VCUDA_TRANSPORT", "local", 1);
	unsetenv("CUDA_VISIBLE_DEVICES");
	return cmocka_run_group_tests(tests, setup, NULL);
}
