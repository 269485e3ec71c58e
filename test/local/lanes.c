/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Two threads work in a context each. One gives its stream kernels and an event. The other one asks in each way whether
 * these have ended, and then finds what the kernels wrote.
 */
#include "api.h"

#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>

enum { ROUNDS = 210, KERNELS = 24, EVENTS = 4, PAIRS = 20 };

static uint32_t rounds = ROUNDS;

/* *p = k, after some time */
static const char ptx[] =
	".version 7.0\n.target sm_52\n.address_size 64\n.visible .entry put(.param .u64 p, .param .u32 k)\n{\n"
	".reg .b32 %r<4>; .reg .b64 %l<2>; .reg .pred %p<2>;\nld.param.u64 %l1, [p];\nld.param.u32 %r1, [k];\n"
	"mov.u32 %r2, 0;\nAGAIN:\nst.volatile.u32 [%l1+4], %r2;\nadd.u32 %r2, %r2, 1;\nsetp.lt.u32 %p1, %r2, 20;\n"
	"@%p1 bra AGAIN;\nst.volatile.u32 [%l1], %r1;\nret;\n}\n"
	".visible .entry copy(.param .u64 p, .param .u64 q)\n{\n.reg .b32 %r<2>; .reg .b64 %l<3>;\n"
	"ld.param.u64 %l1, [p];\nld.param.u64 %l2, [q];\nld.volatile.u32 %r1, [%l1];\nst.volatile.u32 [%l2], "
	"%r1;\nret;\n}\n";

static struct side {
	CUcontext context;
	CUfunction put, copy;
	CUstream stream;
} sides[2];

static CUevent events[EVENTS];
static volatile uint32_t *words; /* of the first thread's kernels; 16 further, of the other one's */
static _Atomic uint32_t begun, ended;

static void open_side(struct side *side, int device)
{
	CUmodule module;

	/* a context of its own also where there is one device */
	OK(cuCtxCreate_v2(&side->context, 0, device));
	OK(cuModuleLoadData(&module, ptx));
	OK(cuModuleGetFunction(&side->put, module, "put"));
	OK(cuModuleGetFunction(&side->copy, module, "copy"));
	OK(cuStreamCreate(&side->stream, CU_STREAM_NON_BLOCKING));
}

static void put(const struct side *side, unsigned int threads, volatile uint32_t *word, uint32_t k)
{
	void *params[] = {&word, &k};

	OK(cuLaunchKernel(side->put, 1, 1, 1, threads, 1, 1, 0, side->stream, params, NULL));
}

static void *give(void *argument)
{
	const struct side *side = &sides[0];

	OK(cuCtxSetCurrent(side->context));
	for (uint32_t round = 1; round <= rounds; round++) {
		/* the software GPU makes code for each number of threads, so that the commands behind wait for long */
		unsigned int threads = round % 7 || round > ROUNDS ? 1 : round;

		for (uint32_t k = 0; k < KERNELS; k++)
			put(side, threads, words, round * KERNELS + k);
		OK(cuEventRecord(events[round % EVENTS], side->stream));
		atomic_store(&begun, round);
		while (atomic_load(&ended) < round)
			sched_yield();
	}
	return argument;
}

static void wait_by_query(CUresult (*query)(void *), void *of)
{
	CUresult result;

	while ((result = query(of)) == CUDA_ERROR_NOT_READY)
		sched_yield();
	OK(result);
}

static CUresult query_event(void *event)
{
	return cuEventQuery(event);
}

static CUresult query_stream(void *stream)
{
	return cuStreamQuery(stream);
}

/* Another stream waits for the event, and a kernel there reads the word. */
static uint32_t read_behind(CUevent event)
{
	volatile uint32_t *from = words, *to = words + 32;
	void *params[] = {&from, &to};

	OK(cuStreamWaitEvent(sides[1].stream, event, 0));
	OK(cuLaunchKernel(sides[1].copy, 1, 1, 1, 1, 1, 1, 0, sides[1].stream, params, NULL));
	OK(cuStreamSynchronize(sides[1].stream));
	return *to;
}

static uint32_t read_word(uint32_t round)
{
	CUevent event = events[round % EVENTS];

	switch (round % 7) {
	case 0:
		wait_by_query(query_event, event);
		break;
	case 1:
		OK(cuEventSynchronize(event));
		break;
	case 2:
		return read_behind(event);
	case 3:
		OK(cuCtxSetCurrent(sides[0].context));
		wait_by_query(query_stream, sides[0].stream);
		break;
	case 4:
		OK(cuCtxSetCurrent(sides[0].context));
		OK(cuStreamSynchronize(sides[0].stream));
		break;
	case 5:
		OK(cuCtxSetCurrent(sides[0].context));
		OK(cuCtxSynchronize());
		break;
	default:
		OK(cuCtxSetCurrent(sides[0].context));
		wait_by_query(query_event, event);
	}
	return *words;
}

static void check_rounds(void)
{
	for (uint32_t round = 1; round <= rounds; round++) {
		OK(cuCtxSetCurrent(sides[1].context));
		put(&sides[1], 1, words + 16, round);
		OK(cuStreamSynchronize(sides[1].stream));
		/* without a pause, so that the question comes while the other thread's commands wait */
		while (atomic_load(&begun) < round)
			;
		CHECK(read_word(round) == round * KERNELS + KERNELS - 1);
		atomic_store(&ended, round);
	}
	OK(cuCtxSetCurrent(sides[1].context));
	put(&sides[1], 1, words + 16, 1);
	OK(cuStreamSynchronize(sides[1].stream));
	CHECK(words[16] == 1);
}

/* In two contexts of their own. */
static void run(void)
{
	pthread_t giver;
	int devices;

	OK(cuDeviceGetCount(&devices));
	open_side(&sides[0], 0);
	for (int e = 0; e < EVENTS; e++)
		OK(cuEventCreate(&events[e], CU_EVENT_DISABLE_TIMING));
	open_side(&sides[1], devices - 1);
	atomic_store(&begun, 0);
	atomic_store(&ended, 0);
	CHECK(!pthread_create(&giver, NULL, give, NULL));
	check_rounds();
	pthread_join(giver, NULL);
	for (int i = 0; i < 2; i++)
		OK(cuCtxDestroy_v2(sides[i].context));
}

int main(int argc, char **argv)
{
	CUcontext primary;
	void *memory;

	if (argc > 1)
		rounds = (uint32_t)atoi(argv[1]);
	OK(cuInit(0));
	OK(cuDevicePrimaryCtxRetain(&primary, 0));
	OK(cuCtxSetCurrent(primary));
	OK(cuMemHostAlloc(&memory, 4096, CU_MEMHOSTALLOC_PORTABLE));
	words = memory;
	run();
	/* more contexts than the worker has threads for */
	rounds = 14;
	for (int i = 0; i < PAIRS; i++)
		run();
	puts("lanes: passed");
	return 0;
}
