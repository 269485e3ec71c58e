/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a capture forbids beside it: calls that may have to wait for the device, unless its mode or the thread's permits
 * them. What is refused spoils the capture. As an H100 with driver 580 has it.
 */
#include <pthread.h>

#include "api.h"

CUresult cuMemHostAlloc(void **p, size_t bytes, unsigned int flags);
CUresult cuMemFreeHost(void *p);
CUresult cuMemHostRegister_v2(void *p, size_t bytes, unsigned int flags);
CUresult cuMemAllocManaged(CUdeviceptr *p, size_t bytes, unsigned int flags);
CUresult cuMemAllocPitch_v2(CUdeviceptr *p, size_t *pitch, size_t width, size_t height, unsigned int element);
CUresult cuMemAllocAsync(CUdeviceptr *p, size_t bytes, CUstream stream);
CUresult cuMemFreeAsync(CUdeviceptr p, CUstream stream);
CUresult cuMemcpyHtoDAsync_v2(CUdeviceptr dst, const void *src, size_t bytes, CUstream stream);
CUresult cuMemcpyDtoHAsync_v2(void *dst, CUdeviceptr src, size_t bytes, CUstream stream);
CUresult cuStreamAttachMemAsync(CUstream stream, CUdeviceptr address, size_t bytes, unsigned int flags);
CUresult cuModuleUnload(CUmodule module);
CUresult cuMemGetInfo_v2(size_t *free, size_t *total);

static struct {
	CUcontext context;
	CUstream quiet, blocking; /* neither captures */
	CUevent event;
	CUdeviceptr memory, managed;
	CUmodule module;
	CUgraph graph;
	CUgraphExec exec;
	CUmemoryPool pool;
	char *host;
} has;

/* ---- forbidden ---- */

static CUresult stream_synchronize(void)
{
	return cuStreamSynchronize(has.quiet);
}

static CUresult stream_query(void)
{
	return cuStreamQuery(has.blocking);
}

static CUresult legacy_synchronize(void)
{
	return cuStreamSynchronize(CU_STREAM_LEGACY);
}

static CUresult event_query(void)
{
	return cuEventQuery(has.event);
}

static CUresult event_synchronize(void)
{
	return cuEventSynchronize(has.event);
}

static CUresult allocate(void)
{
	CUdeviceptr p;
	CUresult result = cuMemAlloc_v2(&p, 64);

	return result == CUDA_SUCCESS ? cuMemFree_v2(p) : result;
}

static CUresult allocate_rows(void)
{
	size_t pitch;
	CUdeviceptr p;
	CUresult result = cuMemAllocPitch_v2(&p, &pitch, 64, 2, 4);

	return result == CUDA_SUCCESS ? cuMemFree_v2(p) : result;
}

static CUresult allocate_managed(void)
{
	CUdeviceptr p;
	CUresult result = cuMemAllocManaged(&p, 64, CU_MEM_ATTACH_GLOBAL);

	return result == CUDA_SUCCESS ? cuMemFree_v2(p) : result;
}

static CUresult allocate_pinned(void)
{
	void *p;
	CUresult result = cuMemHostAlloc(&p, 64, 0);

	return result == CUDA_SUCCESS ? cuMemFreeHost(p) : result;
}

static CUresult allocate_in_stream(void)
{
	CUdeviceptr p;
	CUresult result = cuMemAllocAsync(&p, 64, has.quiet);

	return result == CUDA_SUCCESS ? cuMemFreeAsync(p, has.quiet) : result;
}

static CUresult free_nothing(void)
{
	return cuMemFree_v2(0);
}

static CUresult trim(void)
{
	return cuMemPoolTrimTo(has.pool, 0);
}

static CUresult attach(void)
{
	return cuStreamAttachMemAsync(has.quiet, has.managed, 0, CU_MEM_ATTACH_GLOBAL);
}

static CUresult instantiate(void)
{
	CUgraphExec exec;
	CUresult result = cuGraphInstantiateWithFlags(&exec, has.graph, 0);

	return result == CUDA_SUCCESS ? cuGraphExecDestroy(exec) : result;
}

/* ---- permitted ---- */

static CUresult copy(void)
{
	return cuMemcpyHtoD_v2(has.memory, has.host, 64);
}

static CUresult copy_in_stream(void)
{
	return cuMemcpyDtoHAsync_v2(has.host, has.memory, 1 << 20, has.quiet);
}

static CUresult set_in_stream(void)
{
	return cuMemsetD32Async(has.memory, 1, 1, has.blocking);
}

static CUresult new_stream(void)
{
	CUstream s;
	CUresult result = cuStreamCreate(&s, CU_STREAM_DEFAULT);

	return result == CUDA_SUCCESS ? cuStreamDestroy_v2(s) : result;
}

static CUresult new_event(void)
{
	CUevent e;
	CUresult result = cuEventCreate(&e, CU_EVENT_DEFAULT);

	return result == CUDA_SUCCESS ? cuEventDestroy_v2(e) : result;
}

static CUresult record(void)
{
	return cuEventRecord(has.event, has.quiet);
}

static CUresult wait(void)
{
	return cuStreamWaitEvent(has.blocking, has.event, 0);
}

static CUresult launch_graph(void)
{
	return cuGraphLaunch(has.exec, has.quiet);
}

static CUresult ask_memory(void)
{
	size_t available, total;

	return cuMemGetInfo_v2(&available, &total);
}

static CUresult another_capture(void)
{
	CUgraph graph;
	CUresult result = cuStreamBeginCapture_v2(has.quiet, CU_STREAM_CAPTURE_MODE_GLOBAL);

	if (result == CUDA_SUCCESS)
		result = cuStreamEndCapture(has.quiet, &graph);
	return result == CUDA_SUCCESS ? cuGraphDestroy(graph) : result;
}

struct beside {
	const char *name;
	CUresult (*call)(void);
	bool is_unsafe;
};

#define UNSAFE(call)                                                                                                   \
	{                                                                                                              \
#call, call, true                                                                                      \
	}
#define SAFE(call)                                                                                                     \
	{                                                                                                              \
#call, call, false                                                                                     \
	}

static const struct beside calls[] = {
	UNSAFE(stream_synchronize),
	UNSAFE(stream_query),
	UNSAFE(legacy_synchronize),
	UNSAFE(event_query),
	UNSAFE(event_synchronize),
	UNSAFE(allocate),
	UNSAFE(allocate_rows),
	UNSAFE(allocate_managed),
	UNSAFE(allocate_pinned),
	UNSAFE(allocate_in_stream),
	UNSAFE(free_nothing),
	UNSAFE(trim),
	UNSAFE(attach),
	UNSAFE(instantiate),
	SAFE(copy),
	SAFE(copy_in_stream),
	SAFE(set_in_stream),
	SAFE(new_stream),
	SAFE(new_event),
	SAFE(record),
	SAFE(wait),
	SAFE(launch_graph),
	SAFE(ask_memory),
	SAFE(another_capture),
};

struct use {
	const struct beside *beside;
	CUresult result;
};

static void *elsewhere(void *argument)
{
	struct use *u = argument;

	OK(cuCtxSetCurrent(has.context));
	u->result = u->beside->call();
	return NULL;
}

static CUresult by_another_thread(const struct beside *b)
{
	struct use u = {.beside = b};
	pthread_t thread;

	CHECK(!pthread_create(&thread, NULL, elsewhere, &u));
	CHECK(!pthread_join(thread, NULL));
	return u.result;
}

static void try_beside(CUstream s, const struct beside *b, CUstreamCaptureMode mode, bool other)
{
	bool refused = b->is_unsafe && mode != CU_STREAM_CAPTURE_MODE_RELAXED &&
		       !(other && mode == CU_STREAM_CAPTURE_MODE_THREAD_LOCAL);
	CUresult expected = refused ? CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED : CUDA_SUCCESS, result;
	CUgraph graph;

	OK(cuCtxSynchronize());
	OK(cuStreamBeginCapture_v2(s, mode));
	result = other ? by_another_thread(b) : b->call();
	if (result != expected)
		printf("%s, mode %d, %s: %d instead of %d\n", b->name, mode,
		       other ? "another thread" : "the same thread", result, expected);
	CHECK(result == expected);
	if (refused) {
		GIVES(cuStreamEndCapture(s, &graph), CUDA_ERROR_STREAM_CAPTURE_INVALIDATED);
		return;
	}
	OK(cuStreamEndCapture(s, &graph));
	OK(cuGraphDestroy(graph));
}

void api_capture_modes(void)
{
	static const char ptx[] = ".version 7.0\n.target sm_70\n.address_size 64\n.visible .entry k()\n{\nret;\n}\n";
	CUstreamCaptureMode mode = CU_STREAM_CAPTURE_MODE_RELAXED;
	CUstream s;
	CUgraph graph;

	OK(cuCtxGetCurrent(&has.context));
	OK(cuStreamCreate(&s, CU_STREAM_NON_BLOCKING));
	OK(cuStreamCreate(&has.quiet, CU_STREAM_NON_BLOCKING));
	OK(cuStreamCreate(&has.blocking, CU_STREAM_DEFAULT));
	OK(cuEventCreate(&has.event, CU_EVENT_DISABLE_TIMING));
	OK(cuMemAlloc_v2(&has.memory, 1 << 20));
	OK(cuMemAllocManaged(&has.managed, 4096, CU_MEM_ATTACH_GLOBAL));
	OK(cuGraphCreate(&has.graph, 0));
	OK(cuGraphInstantiateWithFlags(&has.exec, has.graph, 0));
	OK(cuDeviceGetDefaultMemPool(&has.pool, 0));
	has.host = calloc(1, 1 << 20);
	CHECK(has.host);
	for (size_t n = 0; n < sizeof(calls) / sizeof(*calls); n++)
		for (int m = CU_STREAM_CAPTURE_MODE_GLOBAL; m <= CU_STREAM_CAPTURE_MODE_RELAXED; m++)
			for (int other = 0; other < 2; other++)
				try_beside(s, &calls[n], (CUstreamCaptureMode)m, other);
	/* A module stays where it is, and can be unloaded later. */
	OK(cuModuleLoadData(&has.module, ptx));
	OK(cuStreamBeginCapture_v2(s, CU_STREAM_CAPTURE_MODE_GLOBAL));
	GIVES(cuModuleUnload(has.module), CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
	GIVES(cuStreamEndCapture(s, &graph), CUDA_ERROR_STREAM_CAPTURE_INVALIDATED);
	OK(cuModuleUnload(has.module));
	/* A thread that says it knows what it does may. */
	OK(cuThreadExchangeStreamCaptureMode(&mode));
	OK(cuStreamBeginCapture_v2(s, CU_STREAM_CAPTURE_MODE_GLOBAL));
	OK(allocate());
	OK(event_query());
	OK(stream_synchronize());
	OK(cuStreamEndCapture(s, &graph));
	OK(cuThreadExchangeStreamCaptureMode(&mode));
	OK(cuGraphDestroy(graph));
	free(has.host);
	OK(cuGraphExecDestroy(has.exec));
	OK(cuGraphDestroy(has.graph));
	OK(cuMemFree_v2(has.managed));
	OK(cuMemFree_v2(has.memory));
	OK(cuEventDestroy_v2(has.event));
	OK(cuStreamDestroy_v2(has.blocking));
	OK(cuStreamDestroy_v2(has.quiet));
	OK(cuStreamDestroy_v2(s));
}
