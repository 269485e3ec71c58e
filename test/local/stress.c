/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Many threads that do everything at once, and check every result: allocations, copies of all kinds, launches, streams,
 * events, modules loaded and unloaded, pinned memory, contexts of their own, and (stress-job.c) streams that one thread
 * hands to another. Every few rounds one thread is cancelled in the middle of its calls.
 * Exit status 0: every result was right; 2: a wrong result; 3: a CUDA error.
 *
 * usage: stress SECONDS [THREADS [SEED]]
 */
#include "stress.h"

#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>

#include "protocol/cuda-functions.h"

#define MAX_THREADS 64
#define MAX_COUNT 100000u /* elements; more than a staging block holds */
#define STEPS 6

/* Each element: x = x * 3 + addend. Order matters, so that a lost or swapped operation shows. */
static const char ptx[] =
	".version 6.3\n.target sm_50\n.address_size 64\n"
	".visible .global .align 4 .u32 marker = %u;\n"
	".visible .entry step(.param .u64 data, .param .u32 count, .param .u32 addend)\n{\n"
	".reg .pred %%p<2>;\n.reg .b32 %%r<9>;\n.reg .b64 %%rd<5>;\n"
	"ld.param.u64 %%rd1, [data];\nld.param.u32 %%r1, [count];\nld.param.u32 %%r7, [addend];\n"
	"mov.u32 %%r2, %%ctaid.x;\nmov.u32 %%r3, %%ntid.x;\nmov.u32 %%r4, %%tid.x;\n"
	"mad.lo.s32 %%r5, %%r2, %%r3, %%r4;\nsetp.ge.u32 %%p1, %%r5, %%r1;\n@%%p1 bra DONE;\n"
	"cvta.to.global.u64 %%rd2, %%rd1;\nmul.wide.u32 %%rd3, %%r5, 4;\nadd.s64 %%rd4, %%rd2, %%rd3;\n"
	"ld.global.u32 %%r6, [%%rd4];\nmul.lo.u32 %%r6, %%r6, 3;\nadd.u32 %%r6, %%r6, %%r7;\nst.global.u32 [%%rd4], %%r6;\n"
	"DONE:\nret;\n}\n";

static CUcontext context;
static time_t end;
static _Atomic unsigned long rounds;

void stress_need(const struct stress_thread *t, CUresult result, const char *what)
{
	if (result == CUDA_SUCCESS)
		return;
	printf("stress: thread %u: %s: CUDA error %d\n", t->number, what, (int)result);
	fflush(stdout);
	_Exit(3);
}

void stress_wrong(const struct stress_thread *t, const char *what, uint32_t index, uint32_t is, uint32_t should)
{
	printf("stress: thread %u: %s: element %u is %u, not %u\n", t->number, what, index, is, should);
	fflush(stdout);
	_Exit(2);
}

uint32_t stress_pick(struct stress_thread *t, uint32_t below)
{
	return (uint32_t)rand_r(&t->random) % below;
}

static void load_module(struct stress_thread *t)
{
	char text[sizeof(ptx) + 16];
	/* Some texts are new to the worker, most are in its cache. */
	uint32_t marker = stress_pick(t, stress_pick(t, 4) ? 16 : 1u << 30), there = 0;
	CUdeviceptr address;
	size_t bytes;

	if (t->module)
		NEED(cuModuleUnload(t->module));
	snprintf(text, sizeof(text), ptx, marker);
	NEED(cuModuleLoadData(&t->module, text));
	NEED(cuModuleGetFunction(&t->step, t->module, "step"));
	NEED(cuModuleGetGlobal_v2(&address, &bytes, t->module, "marker"));
	NEED(cuMemcpyDtoH_v2(&there, address, sizeof(there)));
	if (there != marker)
		stress_wrong(t, "a module's variable", 0, there, marker);
}

/* One more link of the chain on `stream`; `expected` follows. */
static void do_step(struct stress_thread *t, CUdeviceptr data, uint32_t count, CUstream stream)
{
	uint32_t addend = stress_pick(t, 1000), fill = stress_pick(t, 1u << 30);
	void *params[] = {&data, &count, &addend};

	if (stress_pick(t, 8) == 0) {
		NEED(cuMemsetD32Async(data, fill, count, stream));
		for (uint32_t i = 0; i < count; i++)
			t->expected[i] = fill;
		return;
	}
	NEED(cuLaunchKernel(t->step, (count + 127) / 128, 1, 1, 128, 1, 1, 0, stream, params, NULL));
	for (uint32_t i = 0; i < count; i++)
		t->expected[i] = t->expected[i] * 3 + addend;
}

static void fill(struct stress_thread *t, uint32_t *to, uint32_t count)
{
	for (uint32_t i = 0; i < count; i++)
		to[i] = t->expected[i] = i * 2654435761u + t->random;
}

static void verify(const struct stress_thread *t, const char *what, const uint32_t *is, uint32_t count)
{
	for (uint32_t i = 0; i < count; i++)
		if (is[i] != t->expected[i])
			stress_wrong(t, what, i, is[i], t->expected[i]);
}

/* A chain of operations that hops between two streams by way of an event. */
static void chain(struct stress_thread *t)
{
	uint32_t count = 1 + stress_pick(t, stress_pick(t, 3) ? 3000 : MAX_COUNT), steps = 1 + stress_pick(t, STEPS);
	unsigned int flags = stress_pick(t, 2) ? CU_STREAM_NON_BLOCKING : CU_STREAM_DEFAULT;
	bool pinned_in = stress_pick(t, 2), pinned_out = stress_pick(t, 2);
	uint32_t *in = pinned_in ? t->pinned : t->host, *out = pinned_out ? t->pinned : t->host;
	CUdeviceptr data, copy;
	CUstream streams[2];
	CUevent first, hop;
	float ms;

	NEED(cuMemAlloc_v2(&data, count * 4));
	NEED(cuMemAlloc_v2(&copy, count * 4));
	NEED(cuStreamCreate(&streams[0], flags));
	NEED(cuStreamCreate(&streams[1], flags));
	NEED(cuEventCreate(&first, 0));
	NEED(cuEventCreate(&hop, 0));
	fill(t, in, count);
	NEED(cuEventRecord(first, streams[0]));
	NEED(cuMemcpyHtoDAsync_v2(data, in, count * 4, streams[0]));
	for (uint32_t i = 0; i < steps; i++) {
		do_step(t, data, count, streams[i & 1]);
		NEED(cuEventRecord(hop, streams[i & 1]));
		NEED(cuStreamWaitEvent(streams[~i & 1], hop, 0));
	}
	NEED(cuMemcpyDtoDAsync_v2(copy, data, count * 4, streams[steps & 1]));
	NEED(cuMemcpyDtoHAsync_v2(out, copy, count * 4, streams[steps & 1]));
	NEED(cuEventRecord(hop, streams[steps & 1]));
	if (stress_pick(t, 2)) {
		NEED(cuStreamSynchronize(streams[steps & 1]));
	} else if (stress_pick(t, 2)) {
		NEED(cuEventSynchronize(hop));
	} else {
		CUresult result;

		while ((result = cuEventQuery(hop)) == CUDA_ERROR_NOT_READY)
			continue;
		NEED(result);
	}
	verify(t, "a chain", out, count);
	NEED(cuEventElapsedTime(&ms, first, hop));
	if (!(ms >= 0))
		stress_wrong(t, "a time", 0, 0, 0);
	NEED(cuEventDestroy_v2(first));
	NEED(cuEventDestroy_v2(hop));
	NEED(cuStreamDestroy_v2(streams[0]));
	NEED(cuStreamDestroy_v2(streams[1]));
	NEED(cuMemFree_v2(copy));
	NEED(cuMemFree_v2(data));
}

/* Everything on the default stream, by the synchronous calls; a blocking stream must be ordered against it. */
static void default_stream(struct stress_thread *t)
{
	uint32_t count = 1 + stress_pick(t, 5000);
	CUstream stream;
	CUdeviceptr data;

	NEED(cuStreamCreate(&stream, CU_STREAM_DEFAULT));
	NEED(cuMemAlloc_v2(&data, count * 4));
	fill(t, t->host, count);
	NEED(cuMemcpyHtoD_v2(data, t->host, count * 4));
	do_step(t, data, count, NULL);
	do_step(t, data, count, stream);
	do_step(t, data, count, NULL);
	do_step(t, data, count, stream);
	NEED(cuMemcpyDtoH_v2(t->host, data, count * 4));
	verify(t, "the default stream", t->host, count);
	NEED(cuStreamDestroy_v2(stream));
	NEED(cuMemFree_v2(data));
}

/*
 * A hint: no build of the worker has anything of its own there, so that it can mirror it. Not from the heap, which
 * sanitizers have where no worker can follow.
 */
static void *registered_place(const struct stress_thread *t)
{
	return (void *)(0x7ea000000000 + t->number * 0x10000000ull);
}

/* Pinned memory that comes and goes, used by a kernel at its own address; freed with work in flight. */
static void zero_copy(struct stress_thread *t)
{
	uint32_t count = 1 + stress_pick(t, 5000);
	bool registered = stress_pick(t, 2);
	uint32_t *memory = NULL;

	if (registered) {
		memory = mmap(registered_place(t), count * 4, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
		if (memory == MAP_FAILED)
			_Exit(1);
		fill(t, memory, count);
		NEED(cuMemHostRegister_v2(memory, count * 4, 0));
	} else {
		NEED(cuMemHostAlloc((void **)&memory, count * 4, 0));
		fill(t, memory, count);
	}
	do_step(t, (CUdeviceptr)(uintptr_t)memory, count, NULL);
	if (registered && stress_pick(t, 2)) {
		/* Unregistering waits for the kernel, as freeing does. */
		NEED(cuMemHostUnregister(memory));
		verify(t, "registered memory", memory, count);
		munmap(memory, count * 4);
		return;
	}
	stress_wait_for_all(t);
	verify(t, "zero copy", memory, count);
	do_step(t, (CUdeviceptr)(uintptr_t)memory, count, NULL);
	if (registered) {
		NEED(cuMemHostUnregister(memory));
		munmap(memory, count * 4);
	} else {
		NEED(cuMemFreeHost(memory));
	}
}

/* A context of its own, with a module and work in it, beside those of other threads; ended with the work under way. */
static void own_context(struct stress_thread *t)
{
	uint32_t count = 1 + stress_pick(t, 2000);
	CUmodule module = t->module;
	CUfunction step = t->step;
	CUcontext own;
	CUdeviceptr data;
	CUstream stream;

	NEED(cuCtxCreate_v2(&own, 0, 0));
	t->module = NULL;
	load_module(t);
	NEED(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
	NEED(cuMemAlloc_v2(&data, count * 4));
	fill(t, t->host, count);
	NEED(cuMemcpyHtoDAsync_v2(data, t->host, count * 4, stream));
	do_step(t, data, count, stream);
	do_step(t, data, count, stream);
	NEED(cuMemcpyDtoHAsync_v2(t->host, data, count * 4, stream));
	NEED(cuStreamSynchronize(stream));
	verify(t, "a context", t->host, count);
	do_step(t, data, count, stream);
	NEED(cuCtxDestroy_v2(own));
	NEED(cuCtxSetCurrent(context));
	t->module = module;
	t->step = step;
}

static void *work(void *argument)
{
	struct stress_thread *t = argument;

	NEED(cuCtxSetCurrent(context));
	t->host = malloc(MAX_COUNT * 4);
	t->expected = malloc(MAX_COUNT * 4);
	if (!t->host || !t->expected)
		_Exit(1);
	NEED(cuMemHostAlloc((void **)&t->pinned, MAX_COUNT * 4, 0));
	load_module(t);
	while (time(NULL) < end) {
		switch (stress_pick(t, 14)) {
		case 0:
			load_module(t);
			break;
		case 1:
		case 2:
			default_stream(t);
			break;
		case 3:
			zero_copy(t);
			break;
		case 4:
		case 5:
		case 6:
		case 7:
			stress_hand_on(t);
			break;
		case 8:
			own_context(t);
			break;
		default:
			chain(t);
			break;
		}
		rounds++;
	}
	NEED(cuMemFreeHost(t->pinned));
	NEED(cuModuleUnload(t->module));
	free(t->host);
	free(t->expected);
	return NULL;
}

/* Calls without end, until it is cancelled: what it held must not stay held. */
static void *victim(void *argument)
{
	static __thread uint32_t host[1000];
	struct stress_thread *t = argument;
	CUdeviceptr data;

	NEED(cuCtxSetCurrent(context));
	NEED(cuMemAlloc_v2(&data, sizeof(host)));
	for (;;) {
		NEED(cuMemcpyHtoD_v2(data, host, sizeof(host)));
		NEED(cuMemsetD32Async(data, 1, 1000, NULL));
		NEED(cuStreamSynchronize(NULL));
		pthread_testcancel();
	}
	return NULL;
}

static void cancel_some(struct stress_thread *t)
{
	const struct timespec pause = {.tv_nsec = 20000000};

	while (time(NULL) < end) {
		pthread_t thread;

		if (pthread_create(&thread, NULL, victim, t))
			_Exit(1);
		nanosleep(&pause, NULL);
		pthread_cancel(thread);
		pthread_join(thread, NULL);
	}
}

int main(int argc, char **argv)
{
	unsigned int count = argc > 2 ? (unsigned int)atoi(argv[2]) : 8, seed = argc > 3 ? (unsigned int)atoi(argv[3]) : 1;
	static struct stress_thread workers[MAX_THREADS + 1];
	struct stress_thread *t = &workers[MAX_THREADS];
	pthread_t threads[MAX_THREADS];

	if (count > MAX_THREADS) {
		fprintf(stderr, "stress: at most %d threads\n", MAX_THREADS);
		return 1;
	}
	end = time(NULL) + (argc > 1 ? atoi(argv[1]) : 1);
	t->number = MAX_THREADS;
	NEED(cuInit(0));
	NEED(cuDevicePrimaryCtxRetain(&context, 0));
	NEED(cuCtxSetCurrent(context));
	load_module(t);
	stress_step = t->step;
	for (unsigned int i = 0; i < count; i++) {
		workers[i].number = i;
		workers[i].random = seed * 1000 + i;
		if (pthread_create(&threads[i], NULL, work, &workers[i]))
			return 1;
	}
	cancel_some(t);
	for (unsigned int i = 0; i < count; i++)
		pthread_join(threads[i], NULL);
	stress_end_jobs(t);
	printf("stress: %lu rounds, all right\n", rounds);
	return 0;
}
