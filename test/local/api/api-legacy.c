/* SPDX-License-Identifier: Apache-2.0 */
/* Calls that use the legacy default stream, or a whole context, while a stream captures. */
#include <pthread.h>

#include "test/local/api.h"

static CUdeviceptr legacy_memory;
static CUevent legacy_event;

static void nothing(void *unused)
{
	(void)unused;
}

enum { SET, SET_AND_WAIT, COPY, RECORD, WAIT, CALL, QUERY, SYNCHRONIZE, WAYS };

static CUresult use_legacy(int way)
{
	uint32_t value = 0;

	switch (way) {
	case SET:
		return cuMemsetD32Async(legacy_memory, 1, 1, NULL);
	case SET_AND_WAIT:
		return cuMemsetD8_v2(legacy_memory, 1, 4);
	case COPY:
		return cuMemcpyHtoD_v2(legacy_memory, &value, 4);
	case RECORD:
		return cuEventRecord(legacy_event, CU_STREAM_LEGACY);
	case WAIT:
		return cuStreamWaitEvent(NULL, legacy_event, 0);
	case CALL:
		return cuLaunchHostFunc(NULL, nothing, NULL);
	case QUERY:
		return cuStreamQuery(NULL);
	default:
		return cuStreamSynchronize(CU_STREAM_LEGACY);
	}
}

struct use {
	int way;
	CUcontext context;
	CUresult result;
};

static void *use_elsewhere(void *argument)
{
	struct use *u = argument;

	OK(cuCtxSetCurrent(u->context));
	u->result = u->way == WAYS ? cuCtxSynchronize() : use_legacy(u->way);
	return NULL;
}

static CUresult by_another_thread(int way)
{
	struct use u = {.way = way};
	pthread_t thread;

	OK(cuCtxGetCurrent(&u.context));
	CHECK(!pthread_create(&thread, NULL, use_elsewhere, &u));
	CHECK(!pthread_join(thread, NULL));
	return u.result;
}

static void spoiled(CUstream s)
{
	CUstreamCaptureStatus status;
	CUgraph graph;

	OK(cuStreamIsCapturing(s, &status));
	CHECK(status == CU_STREAM_CAPTURE_STATUS_INVALIDATED);
	GIVES(cuStreamEndCapture(s, &graph), CUDA_ERROR_STREAM_CAPTURE_INVALIDATED);
}

/* Waiting for a stream and asking for its state is what the capture's mode is about. */
static bool is_unsafe(int way, CUstreamCaptureMode mode, bool other)
{
	return (way == QUERY || way == SYNCHRONIZE) && mode != CU_STREAM_CAPTURE_MODE_RELAXED &&
	       !(other && mode == CU_STREAM_CAPTURE_MODE_THREAD_LOCAL);
}

/* Whether the legacy stream can be used while `s` captures. */
static void beside(CUstream s, CUstreamCaptureMode mode, bool is_possible)
{
	CUgraph graph;

	for (int way = 0; way < WAYS; way++) {
		for (int other = 0; other < 2; other++) {
			int expected = !is_possible                  ? CUDA_ERROR_STREAM_CAPTURE_IMPLICIT
				       : is_unsafe(way, mode, other) ? CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED
								     : CUDA_SUCCESS;

			OK(cuStreamSynchronize(NULL));
			OK(cuStreamBeginCapture_v2(s, mode));
			GIVES(other ? by_another_thread(way) : use_legacy(way), expected);
			if (expected != CUDA_SUCCESS) {
				spoiled(s);
				continue;
			}
			OK(cuStreamEndCapture(s, &graph));
			OK(cuGraphDestroy(graph));
		}
	}
}

/* A blocking stream that takes part in the capture of one that is not. */
static void joined_to_legacy(CUstream origin, CUstream blocking)
{
	OK(cuStreamBeginCapture_v2(origin, CU_STREAM_CAPTURE_MODE_RELAXED));
	OK(cuMemsetD32Async(legacy_memory, 1, 1, NULL));
	OK(cuEventRecord(legacy_event, origin));
	OK(cuStreamWaitEvent(blocking, legacy_event, 0));
	GIVES(cuMemsetD32Async(legacy_memory, 1, 1, NULL), CUDA_ERROR_STREAM_CAPTURE_IMPLICIT);
	spoiled(origin);
	OK(cuMemsetD32Async(legacy_memory, 1, 1, NULL));
	OK(cuStreamSynchronize(NULL));
}

/*
 * The legacy stream waits for blocking streams, so that what it did would be part of their capture: no mode permits
 * that, as modes are about what no stream sees. Nor may a context be waited for as a whole.
 */
void api_legacy_capture(void)
{
	CUstream blocking, other;
	CUcontext own;

	OK(cuMemAlloc_v2(&legacy_memory, 4));
	OK(cuEventCreate(&legacy_event, CU_EVENT_DISABLE_TIMING));
	OK(cuStreamCreate(&blocking, CU_STREAM_DEFAULT));
	OK(cuStreamCreate(&other, CU_STREAM_NON_BLOCKING));
	for (int mode = CU_STREAM_CAPTURE_MODE_GLOBAL; mode <= CU_STREAM_CAPTURE_MODE_RELAXED; mode++) {
		beside(blocking, (CUstreamCaptureMode)mode, false);
		beside(CU_STREAM_PER_THREAD, (CUstreamCaptureMode)mode, false);
		beside(other, (CUstreamCaptureMode)mode, true);
		OK(cuStreamBeginCapture_v2(other, (CUstreamCaptureMode)mode));
		GIVES(by_another_thread(WAYS), CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
		spoiled(other);
	}
	joined_to_legacy(other, blocking);
	OK(cuStreamDestroy_v2(blocking));
	OK(cuStreamDestroy_v2(other));
	/* Another context has a legacy stream of its own. */
	OK(cuCtxCreate_v2(&own, 0, 0));
	OK(cuStreamCreate(&blocking, CU_STREAM_DEFAULT));
	OK(cuCtxPopCurrent_v2(&own));
	beside(blocking, CU_STREAM_CAPTURE_MODE_RELAXED, true);
	OK(cuCtxDestroy_v2(own));
	OK(cuEventDestroy_v2(legacy_event));
	OK(cuMemFree_v2(legacy_memory));
}
