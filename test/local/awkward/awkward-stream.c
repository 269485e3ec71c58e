/* SPDX-License-Identifier: Apache-2.0 */
/* Waits between streams: failed work that is polled for, default streams of both kinds, captures, host functions. */
#include "awkward.h"

#include <unistd.h>

#define N 1000u

/* ---- a store to where nothing is, and a program that only polls ---- */

static void launch_wild(CUstream stream)
{
	OK(cuLaunchKernel(awkward_function("wild"), 1, 1, 1, 1, 1, 1, 0, stream, NULL, NULL));
}

static void all_has_failed(CUstream s)
{
	CUdeviceptr p;

	GIVES(cuStreamQuery(s), CUDA_ERROR_ILLEGAL_ADDRESS);
	GIVES(cuStreamSynchronize(s), CUDA_ERROR_ILLEGAL_ADDRESS);
	GIVES(cuCtxSynchronize(), CUDA_ERROR_ILLEGAL_ADDRESS);
	GIVES(cuMemAlloc_v2(&p, 4), CUDA_ERROR_ILLEGAL_ADDRESS);
}

/* The event is of another stream, which waits for the one that fails. */
void awkward_wild_event(void)
{
	struct awkward_deadline deadline =
		awkward_deadline("an event behind a wild store is not ready and has no error");
	CUstream s = awkward_stream(CU_STREAM_NON_BLOCKING), t = awkward_stream(CU_STREAM_NON_BLOCKING);
	CUevent between, last;
	CUresult result;

	OK(cuEventCreate(&between, CU_EVENT_DISABLE_TIMING));
	OK(cuEventCreate(&last, CU_EVENT_DISABLE_TIMING));
	launch_wild(s);
	/* The error may be known by now, and any of these may report it. */
	cuEventRecord(between, s);
	cuStreamWaitEvent(t, between, 0);
	cuEventRecord(last, t);
	while ((result = cuEventQuery(last)) == CUDA_ERROR_NOT_READY)
		awkward_pause(&deadline);
	/* An event that was not recorded any more may be asked before the kernel has failed. */
	while (result == CUDA_SUCCESS && (result = cuStreamQuery(s)) == CUDA_ERROR_NOT_READY)
		awkward_pause(&deadline);
	GIVES(result, CUDA_ERROR_ILLEGAL_ADDRESS);
	GIVES(cuEventQuery(between), CUDA_ERROR_ILLEGAL_ADDRESS);
	all_has_failed(t);
}

void awkward_wild_stream(void)
{
	struct awkward_deadline deadline = awkward_deadline("a stream with a wild store is not ready and has no error");
	CUstream s = awkward_stream(CU_STREAM_DEFAULT);
	CUresult result;

	launch_wild(s);
	while ((result = cuStreamQuery(s)) == CUDA_ERROR_NOT_READY)
		awkward_pause(&deadline);
	GIVES(result, CUDA_ERROR_ILLEGAL_ADDRESS);
	all_has_failed(s);
}

/* ---- small copies beside a kernel ---- */

/* A copy to or from memory of the program's own waits for what blocking streams do, and for nothing else. */
void awkward_copies(void)
{
	CUstream blocking = awkward_stream(CU_STREAM_DEFAULT), other = awkward_stream(CU_STREAM_NON_BLOCKING);
	_Atomic uint32_t *go = awkward_pinned(64);
	CUdeviceptr p = awkward_zeroed(8), q = awkward_zeroed(8);
	uint32_t value = 1000;
	pthread_t thread;

	awkward_launch_answer(awkward_module, &go[0], p, 7, blocking);
	awkward_later(&thread, &go[0]);
	OK(cuMemcpyDtoH_v2(&value, p, 4));
	CHECK(go[0] == 1 && value == 7);
	awkward_join(thread);
	/* The kernel reads what was there before it, not what is copied in while it runs. */
	awkward_launch_answer(awkward_module, &go[1], p, 5, blocking);
	awkward_later(&thread, &go[1]);
	value = 1000;
	OK(cuMemcpyHtoD_v2(p, &value, 4));
	value = 0; /* was taken */
	CHECK(awkward_read(p) == 1000 && go[1] == 1);
	awkward_join(thread);
	/* From device memory to device memory: a later read of the copy gets the kernel's result. */
	awkward_launch_answer(awkward_module, &go[2], p, 5, blocking);
	awkward_later(&thread, &go[2]);
	OK(cuMemcpyDtoD_v2(q, p, 4));
	CHECK(awkward_read(q) == 1005 && go[2] == 1);
	awkward_join(thread);
	/* A stream of the other kind is let alone: a copy that waited for it would wait for ever. */
	awkward_launch_answer(awkward_module, &go[3], p, 1, other);
	value = 33;
	OK(cuMemcpyHtoD_v2(q, &value, 4));
	CHECK(awkward_read(q) == 33);
	GIVES(cuStreamQuery(other), CUDA_ERROR_NOT_READY);
	go[3] = 1;
	OK(cuStreamSynchronize(other));
	CHECK(awkward_read(p) == 1006);
}

/* ---- default streams of threads ---- */

struct thread_stream {
	_Atomic uint32_t *go;
	CUdeviceptr mine, held;
	CUfunction step, answer;
	pthread_barrier_t barrier;
};

static void step_ptsz(CUfunction f, CUdeviceptr p)
{
	unsigned int k = 3, n = 1;
	void *params[] = {&p, &k, &n};

	OK(cuLaunchKernel_ptsz(f, 1, 1, 1, 32, 1, 1, 0, NULL, params, NULL));
}

/* Works on a default stream of its own while that of the first thread is held. */
static void *second_thread(void *argument)
{
	struct thread_stream *t = argument;
	uint32_t value = 5;

	OK(cuCtxSetCurrent(awkward_context));
	pthread_barrier_wait(&t->barrier);
	OK(cuMemcpyHtoD_v2_ptds(t->mine, &value, 4));
	step_ptsz(t->step, t->mine);
	OK(cuStreamSynchronize_ptsz(NULL));
	OK(cuStreamQuery(CU_STREAM_PER_THREAD));
	OK(cuMemcpyDtoH_v2_ptds(&value, t->mine, 4));
	CHECK(value == 16);
	OK(cuMemsetD32_v2_ptds(t->mine, 8, 1));
	step_ptsz(t->step, t->mine);
	OK(cuStreamSynchronize(CU_STREAM_PER_THREAD));
	OK(cuMemcpyDtoH_v2_ptds(&value, t->mine, 4));
	CHECK(value == 25 && !*t->go);
	pthread_barrier_wait(&t->barrier);
	pthread_barrier_wait(&t->barrier);
	return NULL;
}

void awkward_per_thread(void)
{
	struct thread_stream t = {
		.go = awkward_pinned(64),
		.mine = awkward_zeroed(4),
		.held = awkward_zeroed(4),
		.step = awkward_function("step"),
		.answer = awkward_function("answer"),
	};
	uint32_t seven = 7, value;
	void *params[] = {&t.go, &t.held, &seven};
	pthread_t thread, later;
	CUevent event;

	OK(cuEventCreate(&event, CU_EVENT_DISABLE_TIMING));
	CHECK(!pthread_barrier_init(&t.barrier, NULL, 2));
	awkward_start(&thread, second_thread, &t);
	OK(cuLaunchKernel_ptsz(t.answer, 1, 1, 1, 1, 1, 1, 0, NULL, params, NULL));
	OK(cuEventRecord_ptsz(event, NULL));
	pthread_barrier_wait(&t.barrier);
	pthread_barrier_wait(&t.barrier);
	GIVES(cuStreamQuery_ptsz(NULL), CUDA_ERROR_NOT_READY);
	GIVES(cuStreamQuery(CU_STREAM_PER_THREAD), CUDA_ERROR_NOT_READY);
	GIVES(cuEventQuery(event), CUDA_ERROR_NOT_READY);
	/* The default stream of all threads waits for those of each. */
	awkward_later(&later, t.go);
	OK(cuMemcpyDtoH_v2(&value, t.held, 4));
	CHECK(value == 7 && *t.go);
	awkward_join(later);
	OK(cuEventQuery(event));
	OK(cuStreamQuery_ptsz(NULL));
	/* The streams also wait for it. */
	t.go[1] = 0;
	awkward_launch_answer(awkward_module, t.go + 1, t.held, 10, CU_STREAM_LEGACY);
	awkward_later(&later, t.go + 1);
	OK(cuMemcpyDtoH_v2_ptds(&value, t.held, 4));
	CHECK(value == 17 && t.go[1]);
	awkward_join(later);
	pthread_barrier_wait(&t.barrier);
	awkward_join(thread);
	OK(cuEventDestroy_v2(event));
}

/* ---- a capture in one thread while another works ---- */

struct other_thread {
	CUresult allocated, loaded, waited;
	CUstreamCaptureMode mode;
	bool exchange;
};

static void *allocate(void *argument)
{
	struct other_thread *o = argument;
	CUdeviceptr p = 0;
	CUmodule module = NULL;
	void *pinned = NULL;

	OK(cuCtxSetCurrent(awkward_context));
	if (o->exchange)
		OK(cuThreadExchangeStreamCaptureMode(&o->mode));
	o->allocated = cuMemAlloc_v2(&p, 4096);
	if (o->allocated)
		return NULL;
	o->loaded = cuModuleLoadData(&module, ".version 7.0\n.target sm_70\n.address_size 64\n"
					      ".visible .entry none()\n{\nret;\n}\n");
	o->waited = cuMemsetD8_v2(p, 1, 4096);
	CHECK(awkward_read(p) == 0x01010101);
	OK(cuMemHostAlloc(&pinned, 4096, 0));
	OK(cuMemFreeHost(pinned));
	OK(cuMemFree_v2(p));
	return NULL;
}

static struct other_thread meanwhile(bool exchange, CUstreamCaptureMode mode)
{
	struct other_thread o = {.mode = mode, .exchange = exchange};
	pthread_t thread;

	awkward_start(&thread, allocate, &o);
	awkward_join(thread);
	return o;
}

/* Captures p = 10, p = p * 2 + 1 around what the other thread does; what it does is none of it. */
static void capture_around(CUstream s, CUdeviceptr p, CUstreamCaptureMode mode, bool exchange)
{
	unsigned int k = 2, n = 1;
	void *params[] = {&p, &k, &n};
	struct other_thread o;
	CUgraphExec exec;
	CUgraph graph;
	size_t nodes;

	OK(cuStreamBeginCapture_v2(s, mode));
	OK(cuMemsetD32Async(p, 10, 1, s));
	o = meanwhile(exchange, CU_STREAM_CAPTURE_MODE_RELAXED);
	GIVES(o.allocated, CUDA_SUCCESS);
	GIVES(o.loaded, CUDA_SUCCESS);
	GIVES(o.waited, CUDA_SUCCESS);
	OK(cuLaunchKernel(awkward_function("step"), 1, 1, 1, 32, 1, 1, 0, s, params, NULL));
	OK(cuStreamEndCapture(s, &graph));
	OK(cuGraphGetNodes(graph, NULL, &nodes));
	CHECK(nodes == 2);
	OK(cuGraphInstantiateWithFlags(&exec, graph, 0));
	OK(cuGraphLaunch(exec, s));
	OK(cuStreamSynchronize(s));
	CHECK(awkward_read(p) == 21);
	OK(cuGraphExecDestroy(exec));
	OK(cuGraphDestroy(graph));
}

void awkward_capture(void)
{
	CUstream s = awkward_stream(CU_STREAM_NON_BLOCKING);
	CUdeviceptr p = awkward_zeroed(4);
	struct other_thread o;
	CUgraph graph;

	capture_around(s, p, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL, false);
	capture_around(s, p, CU_STREAM_CAPTURE_MODE_RELAXED, false);
	/* A thread that has said that it does not mind others' captures. */
	capture_around(s, p, CU_STREAM_CAPTURE_MODE_GLOBAL, true);
	/* One that has not: its call is refused, and the capture is spoiled. */
	OK(cuStreamBeginCapture_v2(s, CU_STREAM_CAPTURE_MODE_GLOBAL));
	o = meanwhile(false, 0);
	GIVES(o.allocated, CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
	GIVES(cuStreamEndCapture(s, &graph), CUDA_ERROR_STREAM_CAPTURE_INVALIDATED);
	o = meanwhile(false, 0);
	GIVES(o.allocated, CUDA_SUCCESS);
}

/* ---- a graph that copies from the stack ---- */

/* Deeper in the stack than its caller, where what the node reads must not have been copied to. */
static void launch_with(CUgraphExec exec, CUstream s, volatile uint32_t *variable, uint32_t value)
{
	*variable = value;
	OK(cuGraphLaunch(exec, s));
	OK(cuStreamSynchronize(s));
}

void awkward_graph(void)
{
	CUstream s = awkward_stream(CU_STREAM_NON_BLOCKING);
	volatile uint32_t in = 1, out = 0;
	CUdeviceptr p = awkward_zeroed(4);
	unsigned int k = 3, n = 1;
	void *params[] = {&p, &k, &n};
	CUDA_MEMCPY3D copy = {
		.srcMemoryType = CU_MEMORYTYPE_HOST,
		.srcHost = (const void *)&in,
		.dstMemoryType = CU_MEMORYTYPE_DEVICE,
		.dstDevice = p,
		.WidthInBytes = 4,
		.Height = 1,
		.Depth = 1,
	};
	CUDA_KERNEL_NODE_PARAMS kernel = {awkward_function("step"), 1, 1, 1, 32, 1, 1, 0, params, NULL, NULL, NULL};
	CUgraphNode nodes[3];
	CUgraphExec exec;
	CUgraph graph;

	OK(cuGraphCreate(&graph, 0));
	OK(cuGraphAddMemcpyNode(&nodes[0], graph, NULL, 0, &copy, awkward_context));
	OK(cuGraphAddKernelNode_v2(&nodes[1], graph, &nodes[0], 1, &kernel));
	copy.srcMemoryType = CU_MEMORYTYPE_DEVICE;
	copy.srcDevice = p;
	copy.srcHost = NULL;
	copy.dstMemoryType = CU_MEMORYTYPE_HOST;
	copy.dstHost = (void *)&out;
	copy.dstDevice = 0;
	OK(cuGraphAddMemcpyNode(&nodes[2], graph, &nodes[1], 1, &copy, awkward_context));
	in = 1000000;
	OK(cuGraphInstantiateWithFlags(&exec, graph, 0));
	for (uint32_t i = 0; i < 50; i++) {
		launch_with(exec, s, &in, i * i);
		CHECK(out == i * i * 3 + 1);
	}
	OK(cuGraphExecDestroy(exec));
	OK(cuGraphDestroy(graph));
}

/* ---- host functions that take their time ---- */

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t changed = PTHREAD_COND_INITIALIZER;
static bool entered, released, helped;
static char *written;

static void set(bool *what)
{
	pthread_mutex_lock(&lock);
	*what = true;
	pthread_cond_broadcast(&changed);
	pthread_mutex_unlock(&lock);
}

static void wait_for(bool *what)
{
	pthread_mutex_lock(&lock);
	while (!*what)
		pthread_cond_wait(&changed, &lock);
	pthread_mutex_unlock(&lock);
}

static void stall(void *unused)
{
	(void)unused;
	set(&entered);
	wait_for(&released);
}

/* Calls CUDA for the host function that waits for it, which may not do so itself. */
static void *help(void *argument)
{
	CUstream s = argument;
	CUdeviceptr p;

	wait_for(&entered);
	OK(cuCtxSetCurrent(awkward_context));
	OK(cuMemAlloc_v2(&p, 4));
	OK(cuMemsetD32Async(p, 77, 1, s));
	OK(cuStreamSynchronize(s));
	set(&helped);
	return NULL;
}

static void ask_for_help(void *unused)
{
	(void)unused;
	set(&entered);
	wait_for(&helped);
}

/* Calls that any function may make: memory, files, threads. */
static void write_text(void *user)
{
	FILE *f = tmpfile();

	CHECK(f);
	fprintf(f, "%s", (const char *)user);
	rewind(f);
	written = malloc(64);
	CHECK(written && fgets(written, 64, f));
	fclose(f);
}

void awkward_stalled(void)
{
	CUstream s = awkward_stream(CU_STREAM_NON_BLOCKING), t = awkward_stream(CU_STREAM_NON_BLOCKING),
		 u = awkward_stream(CU_STREAM_NON_BLOCKING);
	CUdeviceptr p = awkward_zeroed(N * 4), behind = awkward_zeroed(4);
	unsigned int k = 1, n = N;
	void *params[] = {&p, &k, &n};
	pthread_t thread;
	CUevent event;

	OK(cuEventCreate(&event, CU_EVENT_DISABLE_TIMING));
	OK(cuLaunchHostFunc(s, stall, NULL));
	OK(cuMemsetD32Async(behind, 9, 1, s));
	wait_for(&entered);
	for (int i = 0; i < 300; i++) {
		CUstream here = i % 2 ? t : u, there = i % 2 ? u : t;

		OK(cuLaunchKernel(awkward_function("step"), (N + 63) / 64, 1, 1, 64, 1, 1, 0, here, params, NULL));
		OK(cuEventRecord(event, here));
		OK(cuStreamWaitEvent(there, event, 0));
		if (i % 10 == 9)
			OK(cuStreamSynchronize(here));
	}
	OK(cuStreamSynchronize(t));
	OK(cuStreamSynchronize(u));
	CHECK(awkward_read(p) == 300 && awkward_read(p + (N - 1) * 4) == 300);
	GIVES(cuStreamQuery(s), CUDA_ERROR_NOT_READY);
	CHECK(awkward_read(behind) == 0);
	set(&released);
	OK(cuStreamSynchronize(s));
	CHECK(awkward_read(behind) == 9);
	entered = false;
	awkward_start(&thread, help, t);
	OK(cuLaunchHostFunc(s, ask_for_help, NULL));
	OK(cuLaunchHostFunc(s, write_text, "a text"));
	OK(cuStreamSynchronize(s));
	awkward_join(thread);
	CHECK(helped && written && !strcmp(written, "a text"));
	free(written);
}

/* ---- more behind a host function than any queue holds ---- */

#define BACKLOG 270000 /* a GPU's driver holds about a thousand, the software GPU 262144 */

static void take_time(void *calls)
{
	usleep(700000);
	++*(int *)calls;
}

/* A full queue waits for room, and the stream for the function: the function must return nevertheless. */
void awkward_backlog(void)
{
	CUstream s = awkward_stream(CU_STREAM_NON_BLOCKING), t = awkward_stream(CU_STREAM_NON_BLOCKING);
	CUdeviceptr p = awkward_zeroed(4);
	int calls = 0;

	OK(cuLaunchHostFunc(s, take_time, &calls));
	OK(cuLaunchHostFunc(s, take_time, &calls));
	for (unsigned int i = 1; i <= BACKLOG; i++)
		OK(cuMemsetD32Async(p, i, 1, s));
	OK(cuLaunchHostFunc(t, take_time, &calls));
	OK(cuStreamSynchronize(s));
	CHECK(awkward_read(p) == BACKLOG);
	OK(cuStreamSynchronize(t));
	CHECK(calls == 3);
}
