/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Calls that a capture forbids meanwhile: calls that may have to wait for the device, unless its mode or the thread's
 * permits them. A refused call invalidates the capture. As on an H100 with driver 580.
 */
#include <pthread.h>

#include "api-capture.h"

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

	if (b->make)
		b->make();
	OK(cuCtxSynchronize());
	OK(cuStreamBeginCapture_v2(s, mode));
	result = other ? by_another_thread(b) : b->call();
	if (result != expected)
		printf("%s, mode %d, %s: %d instead of %d\n", b->name, mode,
		       other ? "another thread" : "the same thread", result, expected);
	CHECK(result == expected);
	if (refused) {
		GIVES(cuStreamEndCapture(s, &graph), CUDA_ERROR_STREAM_CAPTURE_INVALIDATED);
		if (b->use) {
			b->use();
			OK(b->call());
		}
		return;
	}
	OK(cuStreamEndCapture(s, &graph));
	OK(cuGraphDestroy(graph));
	if (b->clear)
		b->clear();
}

/* Flags of what a capture keeps as nodes: outside they are an error, which spoils no other stream's capture. */
static void external_events(CUstream s)
{
	size_t count = 0;
	CUgraph graph;

	GIVES(cuEventRecordWithFlags(has.event, has.quiet, CU_EVENT_RECORD_EXTERNAL), CUDA_ERROR_ILLEGAL_STATE);
	GIVES(cuStreamWaitEvent(has.quiet, has.event, CU_EVENT_WAIT_EXTERNAL), CUDA_ERROR_ILLEGAL_STATE);
	OK(cuStreamBeginCapture_v2(s, CU_STREAM_CAPTURE_MODE_GLOBAL));
	GIVES(cuEventRecordWithFlags(has.event, has.quiet, CU_EVENT_RECORD_EXTERNAL), CUDA_ERROR_ILLEGAL_STATE);
	GIVES(cuStreamWaitEvent(has.quiet, has.event, CU_EVENT_WAIT_EXTERNAL), CUDA_ERROR_ILLEGAL_STATE);
	OK(cuEventRecordWithFlags(has.event, s, CU_EVENT_RECORD_EXTERNAL));
	OK(cuStreamWaitEvent(s, has.event, CU_EVENT_WAIT_EXTERNAL));
	OK(cuStreamEndCapture(s, &graph));
	OK(cuGraphGetNodes(graph, NULL, &count));
	CHECK(count == 2);
	OK(cuGraphDestroy(graph));
}

void api_capture_modes(void)
{
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
	OK(cuModuleLoadData(&has.module, capture_ptx));
	OK(cuModuleGetFunction(&has.function, has.module, "k"));
	has.host = calloc(1, 1 << 20);
	CHECK(has.host);
	for (size_t n = 0; n < capture_call_count; n++)
		for (int m = CU_STREAM_CAPTURE_MODE_GLOBAL; m <= CU_STREAM_CAPTURE_MODE_RELAXED; m++)
			for (int other = 0; other < 2; other++)
				try_beside(s, &capture_calls[n], (CUstreamCaptureMode)m, other);
	external_events(s);
	/* A thread that says it knows what it does may. */
	OK(cuCtxSynchronize());
	OK(cuThreadExchangeStreamCaptureMode(&mode));
	OK(cuStreamBeginCapture_v2(s, CU_STREAM_CAPTURE_MODE_GLOBAL));
	for (size_t n = 0; n < capture_call_count; n++) {
		if (capture_calls[n].make)
			capture_calls[n].make();
		OK(capture_calls[n].call());
		if (capture_calls[n].clear)
			capture_calls[n].clear();
	}
	OK(cuStreamEndCapture(s, &graph));
	OK(cuThreadExchangeStreamCaptureMode(&mode));
	OK(cuGraphDestroy(graph));
	free(has.host);
	OK(cuModuleUnload(has.module));
	OK(cuGraphExecDestroy(has.exec));
	OK(cuGraphDestroy(has.graph));
	OK(cuMemFree_v2(has.managed));
	OK(cuMemFree_v2(has.memory));
	OK(cuEventDestroy_v2(has.event));
	OK(cuStreamDestroy_v2(has.blocking));
	OK(cuStreamDestroy_v2(has.quiet));
	OK(cuStreamDestroy_v2(s));
}
