/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Streams of three contexts change the same word in turns, in an order that only events give, while another thread does
 * the same with a word of its own.
 */
#include "api.h"

#include <pthread.h>

enum { CONTEXTS = 3, EVENTS = 4, STEPS = 20000, THREADS = 2 };

/* *p = *p * 10 + k */
static const char ptx[] =
	".version 7.0\n.target sm_52\n.address_size 64\n.visible .entry note(.param .u64 p, .param .u32 k)\n{\n"
	".reg .b32 %r<3>; .reg .b64 %l<2>;\nld.param.u64 %l1, [p];\nld.param.u32 %r1, [k];\n"
	"ld.u32 %r2, [%l1];\nmad.lo.u32 %r2, %r2, 10, %r1;\nst.u32 [%l1], %r2;\nret;\n}\n";

static struct {
	CUcontext context;
	CUfunction note;
} sides[CONTEXTS];

static uint32_t *words;

static uint32_t next(uint32_t *random)
{
	*random = *random * 1664525u + 1013904223u;
	return *random >> 16;
}

static void *change(void *argument)
{
	uint32_t thread = (uint32_t)(uintptr_t)argument, random = thread + 1, want = 0, *word = &words[thread * 64];
	CUevent events[CONTEXTS][EVENTS];
	CUstream streams[CONTEXTS];
	unsigned int now = 0;

	for (int i = 0; i < CONTEXTS; i++) {
		OK(cuCtxSetCurrent(sides[i].context));
		OK(cuStreamCreate(&streams[i], CU_STREAM_NON_BLOCKING));
		for (int e = 0; e < EVENTS; e++)
			OK(cuEventCreate(&events[i][e], CU_EVENT_DISABLE_TIMING));
	}
	OK(cuCtxSetCurrent(sides[now].context));
	for (uint32_t step = 0; step < STEPS; step++) {
		unsigned int before = now;
		CUevent event = events[before][step % EVENTS];
		void *params[] = {&word, &step};

		now = next(&random) % CONTEXTS;
		if (now != before) {
			OK(cuEventRecord(event, streams[before]));
			OK(cuCtxSetCurrent(sides[now].context));
			OK(cuStreamWaitEvent(streams[now], event, 0));
		}
		OK(cuLaunchKernel(sides[now].note, 1, 1, 1, 1, 1, 1, 0, streams[now], params, NULL));
		want = want * 10 + step;
		if (next(&random) % 1000)
			continue;
		OK(cuStreamSynchronize(streams[now]));
		CHECK(*(volatile uint32_t *)word == want);
	}
	OK(cuStreamSynchronize(streams[now]));
	CHECK(*(volatile uint32_t *)word == want);
	for (int i = 0; i < CONTEXTS; i++) {
		OK(cuCtxSetCurrent(sides[i].context));
		OK(cuStreamDestroy_v2(streams[i]));
		for (int e = 0; e < EVENTS; e++)
			OK(cuEventDestroy_v2(events[i][e]));
	}
	return NULL;
}

int main(void)
{
	pthread_t threads[THREADS];
	CUmodule module;
	void *memory;

	OK(cuInit(0));
	for (int i = 0; i < CONTEXTS; i++) {
		OK(cuCtxCreate_v2(&sides[i].context, 0, 0));
		OK(cuModuleLoadData(&module, ptx));
		OK(cuModuleGetFunction(&sides[i].note, module, "note"));
	}
	OK(cuMemHostAlloc(&memory, 4096, CU_MEMHOSTALLOC_PORTABLE));
	memset(memory, 0, 4096);
	words = memory;
	for (uintptr_t i = 0; i < THREADS; i++)
		CHECK(!pthread_create(&threads[i], NULL, change, (void *)i));
	for (int i = 0; i < THREADS; i++)
		CHECK(!pthread_join(threads[i], NULL));
	for (int i = CONTEXTS - 1; i >= 0; i--)
		OK(cuCtxDestroy_v2(sides[i].context));
	puts("event-order: passed");
	return 0;
}
