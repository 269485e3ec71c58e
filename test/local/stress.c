/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Many threads that do everything at once, and check every result: allocations, copies of all kinds, launches, streams, events, modules
 * loaded and unloaded, pinned memory. Every few rounds one thread is cancelled in the middle of its calls.
 * Exit status 0: every result was right; 2: a wrong result; 3: a CUDA error.
 *
 * usage: stress SECONDS [THREADS [SEED]]
 */
#include <dlfcn.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>

#include "cuda-abi.h"

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

/* clang-format off */
#define FUNCTIONS(X) \
	X(cuInit, unsigned int) \
	X(cuDevicePrimaryCtxRetain, CUcontext *, CUdevice) \
	X(cuCtxSetCurrent, CUcontext) \
	X(cuCtxSynchronize, void) \
	X(cuModuleLoadData, CUmodule *, const void *) \
	X(cuModuleUnload, CUmodule) \
	X(cuModuleGetFunction, CUfunction *, CUmodule, const char *) \
	X(cuModuleGetGlobal_v2, CUdeviceptr *, size_t *, CUmodule, const char *) \
	X(cuMemAlloc_v2, CUdeviceptr *, size_t) \
	X(cuMemFree_v2, CUdeviceptr) \
	X(cuMemHostAlloc, void **, size_t, unsigned int) \
	X(cuMemFreeHost, void *) \
	X(cuMemHostRegister_v2, void *, size_t, unsigned int) \
	X(cuMemHostUnregister, void *) \
	X(cuMemcpyHtoD_v2, CUdeviceptr, const void *, size_t) \
	X(cuMemcpyDtoH_v2, void *, CUdeviceptr, size_t) \
	X(cuMemcpyHtoDAsync_v2, CUdeviceptr, const void *, size_t, CUstream) \
	X(cuMemcpyDtoHAsync_v2, void *, CUdeviceptr, size_t, CUstream) \
	X(cuMemcpyDtoDAsync_v2, CUdeviceptr, CUdeviceptr, size_t, CUstream) \
	X(cuMemsetD32Async, CUdeviceptr, unsigned int, size_t, CUstream) \
	X(cuStreamCreate, CUstream *, unsigned int) \
	X(cuStreamDestroy_v2, CUstream) \
	X(cuStreamSynchronize, CUstream) \
	X(cuStreamQuery, CUstream) \
	X(cuStreamWaitEvent, CUstream, CUevent, unsigned int) \
	X(cuEventCreate, CUevent *, unsigned int) \
	X(cuEventDestroy_v2, CUevent) \
	X(cuEventRecord, CUevent, CUstream) \
	X(cuEventQuery, CUevent) \
	X(cuEventSynchronize, CUevent) \
	X(cuEventElapsedTime, float *, CUevent, CUevent) \
	X(cuLaunchKernel, CUfunction, unsigned int, unsigned int, unsigned int, unsigned int, unsigned int, unsigned int, \
	  unsigned int, CUstream, void **, void **)
/* clang-format on */

#define DECLARE(name, ...) static CUresult (*name)(__VA_ARGS__);
FUNCTIONS(DECLARE)

static CUcontext context;
static time_t end;
static _Atomic unsigned long rounds;

struct worker {
	unsigned int number;
	unsigned int random;
	CUmodule module; /* of its own; loaded anew from time to time */
	CUfunction step;
	uint32_t *host, *pinned, *expected;
};

static void need(const struct worker *w, CUresult result, const char *what)
{
	if (result == CUDA_SUCCESS)
		return;
	printf("stress: thread %u: %s: CUDA error %d\n", w->number, what, (int)result);
	fflush(stdout);
	_Exit(3);
}

#define NEED(call) need(w, call, #call)

static void wrong(const struct worker *w, const char *what, uint32_t index, uint32_t is, uint32_t should)
{
	printf("stress: thread %u: %s: element %u is %u, not %u\n", w->number, what, index, is, should);
	fflush(stdout);
	_Exit(2);
}

static uint32_t pick(struct worker *w, uint32_t below)
{
	return (uint32_t)rand_r(&w->random) % below;
}

static void load_module(struct worker *w)
{
	char text[sizeof(ptx) + 16];
	uint32_t marker = pick(w, 1u << 30), there = 0;
	CUdeviceptr address;
	size_t bytes;

	if (w->module)
		NEED(cuModuleUnload(w->module));
	snprintf(text, sizeof(text), ptx, marker);
	NEED(cuModuleLoadData(&w->module, text));
	NEED(cuModuleGetFunction(&w->step, w->module, "step"));
	NEED(cuModuleGetGlobal_v2(&address, &bytes, w->module, "marker"));
	NEED(cuMemcpyDtoH_v2(&there, address, sizeof(there)));
	if (there != marker)
		wrong(w, "a module's variable", 0, there, marker);
}

/* One more link of the chain on `stream`; `expected` follows. */
static void do_step(struct worker *w, CUdeviceptr data, uint32_t count, CUstream stream)
{
	uint32_t addend = pick(w, 1000), fill = pick(w, 1u << 30);
	void *params[] = {&data, &count, &addend};

	if (pick(w, 8) == 0) {
		NEED(cuMemsetD32Async(data, fill, count, stream));
		for (uint32_t i = 0; i < count; i++)
			w->expected[i] = fill;
		return;
	}
	NEED(cuLaunchKernel(w->step, (count + 127) / 128, 1, 1, 128, 1, 1, 0, stream, params, NULL));
	for (uint32_t i = 0; i < count; i++)
		w->expected[i] = w->expected[i] * 3 + addend;
}

static void fill(struct worker *w, uint32_t *to, uint32_t count)
{
	for (uint32_t i = 0; i < count; i++)
		to[i] = w->expected[i] = i * 2654435761u + w->random;
}

static void verify(const struct worker *w, const char *what, const uint32_t *is, uint32_t count)
{
	for (uint32_t i = 0; i < count; i++)
		if (is[i] != w->expected[i])
			wrong(w, what, i, is[i], w->expected[i]);
}

/* A chain of operations that hops between two streams by way of an event. */
static void chain(struct worker *w)
{
	uint32_t count = 1 + pick(w, pick(w, 3) ? 3000 : MAX_COUNT), steps = 1 + pick(w, STEPS);
	unsigned int flags = pick(w, 2) ? CU_STREAM_NON_BLOCKING : CU_STREAM_DEFAULT;
	bool pinned_in = pick(w, 2), pinned_out = pick(w, 2);
	uint32_t *in = pinned_in ? w->pinned : w->host, *out = pinned_out ? w->pinned : w->host;
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
	fill(w, in, count);
	NEED(cuEventRecord(first, streams[0]));
	NEED(cuMemcpyHtoDAsync_v2(data, in, count * 4, streams[0]));
	for (uint32_t i = 0; i < steps; i++) {
		do_step(w, data, count, streams[i & 1]);
		NEED(cuEventRecord(hop, streams[i & 1]));
		NEED(cuStreamWaitEvent(streams[~i & 1], hop, 0));
	}
	NEED(cuMemcpyDtoDAsync_v2(copy, data, count * 4, streams[steps & 1]));
	NEED(cuMemcpyDtoHAsync_v2(out, copy, count * 4, streams[steps & 1]));
	NEED(cuEventRecord(hop, streams[steps & 1]));
	if (pick(w, 2)) {
		NEED(cuStreamSynchronize(streams[steps & 1]));
	} else if (pick(w, 2)) {
		NEED(cuEventSynchronize(hop));
	} else {
		CUresult result;

		while ((result = cuEventQuery(hop)) == CUDA_ERROR_NOT_READY)
			continue;
		NEED(result);
	}
	verify(w, "a chain", out, count);
	NEED(cuEventElapsedTime(&ms, first, hop));
	if (!(ms >= 0))
		wrong(w, "a time", 0, 0, 0);
	NEED(cuEventDestroy_v2(first));
	NEED(cuEventDestroy_v2(hop));
	NEED(cuStreamDestroy_v2(streams[0]));
	NEED(cuStreamDestroy_v2(streams[1]));
	NEED(cuMemFree_v2(copy));
	NEED(cuMemFree_v2(data));
}

/* Everything on the default stream, by the synchronous calls; a blocking stream must be ordered against it. */
static void default_stream(struct worker *w)
{
	uint32_t count = 1 + pick(w, 5000);
	CUstream stream;
	CUdeviceptr data;

	NEED(cuStreamCreate(&stream, CU_STREAM_DEFAULT));
	NEED(cuMemAlloc_v2(&data, count * 4));
	fill(w, w->host, count);
	NEED(cuMemcpyHtoD_v2(data, w->host, count * 4));
	do_step(w, data, count, NULL);
	do_step(w, data, count, stream);
	do_step(w, data, count, NULL);
	do_step(w, data, count, stream);
	NEED(cuMemcpyDtoH_v2(w->host, data, count * 4));
	verify(w, "the default stream", w->host, count);
	NEED(cuStreamDestroy_v2(stream));
	NEED(cuMemFree_v2(data));
}

/* Pinned memory that comes and goes, used by a kernel at its own address; freed with work in flight. */
static void zero_copy(struct worker *w)
{
	uint32_t count = 1 + pick(w, 5000);
	bool registered = pick(w, 2);
	uint32_t *memory = NULL;

	if (registered) {
		/* Not from the heap: an address sanitizer has its own where no worker can mirror it. */
		memory = mmap(NULL, count * 4, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
		if (memory == MAP_FAILED)
			_Exit(1);
		fill(w, memory, count);
		NEED(cuMemHostRegister_v2(memory, count * 4, 0));
	} else {
		NEED(cuMemHostAlloc((void **)&memory, count * 4, 0));
		fill(w, memory, count);
	}
	do_step(w, (CUdeviceptr)(uintptr_t)memory, count, NULL);
	if (registered && pick(w, 2)) {
		/* Unregistering waits for the kernel, as freeing does. */
		NEED(cuMemHostUnregister(memory));
		verify(w, "registered memory", memory, count);
		munmap(memory, count * 4);
		return;
	}
	NEED(cuCtxSynchronize());
	verify(w, "zero copy", memory, count);
	do_step(w, (CUdeviceptr)(uintptr_t)memory, count, NULL);
	if (registered) {
		NEED(cuMemHostUnregister(memory));
		munmap(memory, count * 4);
	} else {
		NEED(cuMemFreeHost(memory));
	}
}

static void *work(void *argument)
{
	struct worker *w = argument;

	NEED(cuCtxSetCurrent(context));
	w->host = malloc(MAX_COUNT * 4);
	w->expected = malloc(MAX_COUNT * 4);
	if (!w->host || !w->expected)
		_Exit(1);
	NEED(cuMemHostAlloc((void **)&w->pinned, MAX_COUNT * 4, 0));
	load_module(w);
	while (time(NULL) < end) {
		switch (pick(w, 8)) {
		case 0:
			load_module(w);
			break;
		case 1:
		case 2:
			default_stream(w);
			break;
		case 3:
			zero_copy(w);
			break;
		default:
			chain(w);
			break;
		}
		rounds++;
	}
	NEED(cuMemFreeHost(w->pinned));
	NEED(cuModuleUnload(w->module));
	free(w->host);
	free(w->expected);
	return NULL;
}

/* Calls without end, until it is cancelled: what it held must not stay held. */
static void *victim(void *argument)
{
	static __thread uint32_t host[1000];
	struct worker *w = argument;
	CUdeviceptr data;

	NEED(cuCtxSetCurrent(context));
	NEED(cuMemAlloc_v2(&data, sizeof(host)));
	for (;;) {
		NEED(cuMemcpyHtoD_v2(data, host, sizeof(host)));
		NEED(cuMemsetD32Async(data, 1, 1000, NULL));
		NEED(cuCtxSynchronize());
		pthread_testcancel();
	}
	return NULL;
}

static void cancel_some(struct worker *w)
{
	const struct timespec pause = {.tv_nsec = 20000000};

	while (time(NULL) < end) {
		pthread_t thread;

		if (pthread_create(&thread, NULL, victim, w))
			_Exit(1);
		nanosleep(&pause, NULL);
		pthread_cancel(thread);
		pthread_join(thread, NULL);
	}
}

int main(int argc, char **argv)
{
	void *library = dlopen("libcuda.so.1", RTLD_NOW);
	unsigned int count = argc > 2 ? (unsigned int)atoi(argv[2]) : 8, seed = argc > 3 ? (unsigned int)atoi(argv[3]) : 1;
	static struct worker workers[MAX_THREADS + 1];
	struct worker *w = &workers[MAX_THREADS];
	pthread_t threads[MAX_THREADS];

	if (!library || count > MAX_THREADS) {
		fprintf(stderr, "stress: %s\n", library ? "at most 64 threads" : dlerror());
		return 1;
	}
#define LOOK_UP(name, ...) name = (__typeof__(name))dlsym(library, #name);
	FUNCTIONS(LOOK_UP)
	end = time(NULL) + (argc > 1 ? atoi(argv[1]) : 1);
	w->number = MAX_THREADS;
	NEED(cuInit(0));
	NEED(cuDevicePrimaryCtxRetain(&context, 0));
	for (unsigned int i = 0; i < count; i++) {
		workers[i].number = i;
		workers[i].random = seed * 1000 + i;
		if (pthread_create(&threads[i], NULL, work, &workers[i]))
			return 1;
	}
	cancel_some(w);
	for (unsigned int i = 0; i < count; i++)
		pthread_join(threads[i], NULL);
	printf("stress: %lu rounds, all right\n", rounds);
	return 0;
}
