/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Waits and questions in the middle of other streams' work, which may be answered before the worker has got to them in
 * the ring, or without it: what they say is true.
 */
#include "test/local/api.h"

#include <pthread.h>
#include <time.h>
#include <unistd.h>

#define STREAMS 8
#define ROUNDS 600

static CUcontext context;
static _Atomic bool stop;
static CUdeviceptr device;
static uint32_t *host;
static CUstream streams[STREAMS];
static CUevent events[STREAMS];

/* Keeps the ring full. */
static void *others(void *unused)
{
	CUdeviceptr p;
	CUstream s;

	OK(cuCtxSetCurrent(context));
	OK(cuStreamCreate(&s, CU_STREAM_NON_BLOCKING));
	OK(cuMemAlloc_v2(&p, 4));
	while (!stop) {
		for (unsigned int i = 0; i < 200; i++)
			OK(cuMemsetD32Async(p, i, 1, s));
		OK(cuStreamSynchronize(s));
	}
	OK(cuMemFree_v2(p));
	OK(cuStreamDestroy_v2(s));
	return unused;
}

static void late(void *unused)
{
	usleep(200);
}

static void issue(int i, uint32_t value)
{
	CUstream s = streams[i];

	OK(cuMemsetD32Async(device + 4 * (CUdeviceptr)i, value, 1, s));
	if (value % 64 == 0)
		OK(cuLaunchHostFunc(s, late, NULL));
	OK(cuMemcpyDtoHAsync_v2(host + i, device + 4 * (CUdeviceptr)i, 4, s));
	OK(cuEventRecord(events[i], s));
}

static void wait_for(int i, uint32_t value, int how)
{
	CUresult result;

	switch (how % 4) {
	case 0:
		OK(cuStreamSynchronize(streams[i]));
		break;
	case 1:
		OK(cuEventSynchronize(events[i]));
		break;
	default:
		do
			result = how % 4 == 2 ? cuStreamQuery(streams[i]) : cuEventQuery(events[i]);
		while (result == CUDA_ERROR_NOT_READY);
		OK(result);
	}
	if (host[i] == value)
		return;
	fprintf(stderr, "stream %d is said to be done, by way %d: %u is there and not %u\n", i, how % 4, host[i],
		value);
	exit(1);
}

static void start(void)
{
	OK(cuCtxGetCurrent(&context));
	OK(cuMemAlloc_v2(&device, 4 * STREAMS));
	OK(cuMemHostAlloc((void **)&host, 4 * STREAMS, 0));
	for (int i = 0; i < STREAMS; i++) {
		OK(cuStreamCreate(&streams[i], CU_STREAM_NON_BLOCKING));
		OK(cuEventCreate(&events[i], i % 2 ? CU_EVENT_DISABLE_TIMING : 0));
	}
}

/* In every order, each in another way, with others' work in front and behind. */
void api_waits(void)
{
	pthread_t threads[2];

	start();
	for (int i = 0; i < 2; i++)
		CHECK(!pthread_create(&threads[i], NULL, others, NULL));
	for (uint32_t round = 1; round <= ROUNDS; round++) {
		for (int i = 0; i < STREAMS; i++)
			issue(i, round * STREAMS + (uint32_t)i);
		for (int k = 0; k < STREAMS; k++) {
			int i = (k * 3 + (int)round) % STREAMS;

			wait_for(i, round * STREAMS + (uint32_t)i, k + (int)(round / 8));
		}
	}
	stop = true;
	for (int i = 0; i < 2; i++)
		CHECK(!pthread_join(threads[i], NULL));
}

static CUresult poll_event(void)
{
	return cuEventQuery(events[0]);
}

static CUresult poll_stream(void)
{
	return cuStreamQuery(streams[0]);
}

static CUresult wait_event(void)
{
	return cuEventSynchronize(events[0]);
}

static CUresult wait_stream(void)
{
	return cuStreamSynchronize(streams[0]);
}

/* A kernel's fault is noticed by who asks, again and again, about something else that has long been done. */
void api_polls(void)
{
	static CUresult (*const ways[])(void) = {poll_event, poll_stream, wait_event, wait_stream, cuCtxSynchronize};

	for (size_t i = 0; i < sizeof(ways) / sizeof(*ways); i++) {
		time_t begun = time(NULL);
		CUresult result = CUDA_SUCCESS;

		start();
		issue(0, 1);
		OK(cuStreamSynchronize(streams[0]));
		/* Nothing is at this address; until then all is well. */
		OK(cuLaunchHostFunc(streams[1], late, NULL));
		api_step(64, 3, 1, streams[1]);
		while (result == CUDA_SUCCESS && time(NULL) < begun + 20)
			result = ways[i]();
		GIVES(result, CUDA_ERROR_ILLEGAL_ADDRESS);
		OK(cuDevicePrimaryCtxReset_v2(0));
		/* NVIDIA's driver gives no other context to a process that had such a fault. */
		result = cuDevicePrimaryCtxRetain(&context, 0);
		if (result == CUDA_ERROR_ILLEGAL_ADDRESS) {
			puts("polls: passed");
			exit(0);
		}
		OK(result);
		OK(cuCtxSetCurrent(context));
		api_load();
	}
}

/* Rounds: as many as fit into the time, for a GPU's driver takes a tenth of a second and more for each. */
#define LIVES 100
#define LEAST_LIVES 20
#define LIVES_SECONDS 20

/* Events come and go; errors are what a thread has to expect whose context ends meanwhile. */
static void *make_events(void *unused)
{
	CUevent made[8];
	int count;

	OK(cuCtxSetCurrent(context));
	while (!stop) {
		for (count = 0; count < 8; count++)
			if (cuEventCreate(&made[count], 0) != CUDA_SUCCESS)
				break;
		for (int i = 0; i < count; i++)
			cuEventRecord(made[i], NULL);
		cuCtxSynchronize();
		while (count)
			cuEventDestroy_v2(made[--count]);
	}
	return unused;
}

/* A context ends while other threads make events in it: what is made afterwards is of the new one. */
void api_lives(void)
{
	time_t begun = time(NULL);
	pthread_t threads[3];
	CUevent made[70];

	OK(cuCtxGetCurrent(&context));
	for (int i = 0; i < 3; i++)
		CHECK(!pthread_create(&threads[i], NULL, make_events, NULL));
	for (int round = 0; round < LIVES && (round < LEAST_LIVES || time(NULL) < begun + LIVES_SECONDS); round++) {
		usleep(round % 7 * 50);
		OK(cuDevicePrimaryCtxReset_v2(0));
		OK(cuDevicePrimaryCtxRetain(&context, 0));
		for (int i = 0; i < 70; i++) {
			OK(cuEventCreate(&made[i], 0));
			OK(cuEventRecord(made[i], NULL));
		}
		/* Also tells of what was issued and failed. */
		OK(cuCtxSynchronize());
	}
	stop = true;
	for (int i = 0; i < 3; i++)
		CHECK(!pthread_join(threads[i], NULL));
}

/* Ends, in two ways, while a kernel runs that never does: local.py sees what becomes of the worker. */
void api_endless(void)
{
	void *params[] = {&device};
	CUstream s;

	OK(cuDevicePrimaryCtxRetain(&context, 0));
	OK(cuCtxSetCurrent(context));
	api_load();
	OK(cuStreamCreate(&s, CU_STREAM_NON_BLOCKING));
	OK(cuMemAlloc_v2(&device, 4));
	OK(cuMemsetD32Async(device, 0, 1, s));
	OK(cuLaunchKernel(api_function("hold"), 1, 1, 1, 1, 1, 1, 0, s, params, NULL));
	usleep(100000);
	GIVES(cuStreamQuery(s), CUDA_ERROR_NOT_READY);
	printf("stuck\n");
	fflush(stdout);
	getchar(); /* until its input ends */
	exit(0);
}
