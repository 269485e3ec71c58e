/* SPDX-License-Identifier: Apache-2.0 */
/* Contexts, streams and events have the numbers that NVIDIA's driver gives them (asked on an H200, driver 580). */
#include "cupti.h"

#include <pthread.h>

static void check_stream(CUcontext of, CUstream stream, uint32_t expected)
{
	unsigned long long id;
	uint32_t number;

	OK(cuptiGetStreamId(of, stream, &number));
	CHECK(number == expected);
	OK(cuStreamGetId(stream, &id));
	CHECK(id == expected);
}

static void check_context(CUcontext of, uint32_t expected)
{
	unsigned long long id;
	uint32_t number;

	OK(cuptiGetContextId(of, &number));
	CHECK(number == expected);
	OK(cuCtxGetId(of, &id));
	CHECK(id == expected);
}

static void *use_own_stream(void *expected)
{
	CUdeviceptr data;

	OK(cuCtxSetCurrent(context));
	OK(cuMemAlloc_v2(&data, 64));
	launch(first, 1, 1, 0, data, CU_STREAM_PER_THREAD);
	OK(cuStreamSynchronize(CU_STREAM_PER_THREAD));
	check_stream(context, CU_STREAM_PER_THREAD, *(uint32_t *)expected);
	OK(cuMemFree_v2(data));
	return NULL;
}

static void check_thread(uint32_t expected)
{
	pthread_t thread;

	CHECK(!pthread_create(&thread, NULL, use_own_stream, &expected) && !pthread_join(thread, NULL));
}

static uint32_t event_number(unsigned int record)
{
	const struct cupti_event_record *e = find_record(CUPTI_KIND_CUDA_EVENT, record);

	CHECK(e);
	return e->event;
}

static bool has_kernel_in(uint32_t stream)
{
	const struct cupti_kernel_record *k;

	for (unsigned int n = 0; (k = find_record(CUPTI_KIND_KERNEL, n)); n++)
		if (k->stream == stream)
			return true;
	return false;
}

static void test_events(CUstream stream)
{
	CUevent events[3];

	OK(cuEventCreate(&events[0], CU_EVENT_DEFAULT));
	OK(cuEventCreate(&events[1], CU_EVENT_DISABLE_TIMING));
	OK(cuEventRecord(events[1], stream));
	OK(cuEventRecord(events[0], stream));
	OK(cuEventDestroy_v2(events[1]));
	OK(cuEventCreate(&events[2], CU_EVENT_DEFAULT));
	OK(cuEventRecord(events[2], stream));
	OK(cuCtxSynchronize());
	OK(cuptiActivityFlushAll(0));
	CHECK(event_number(0) == 2 && event_number(1) == 1 && event_number(2) == 3);
}

void test_numbers(void)
{
	CUstream streams[4];
	CUcontext other;

	start_client();
	start_device();
	OK(cuptiActivityEnable(CUPTI_KIND_KERNEL));
	OK(cuptiActivityEnable(CUPTI_KIND_CUDA_EVENT));
	check_context(context, 1);
	check_stream(context, NULL, 7);
	check_stream(context, CU_STREAM_LEGACY, 7);
	OK(cuStreamCreate(&streams[0], CU_STREAM_DEFAULT));
	OK(cuStreamCreate(&streams[1], CU_STREAM_NON_BLOCKING));
	check_stream(context, streams[0], 13);
	check_stream(context, streams[1], 14);
	check_stream(context, CU_STREAM_PER_THREAD, 15);
	check_thread(16);
	check_thread(17);
	OK(cuStreamDestroy_v2(streams[0]));
	OK(cuStreamCreateWithPriority(&streams[2], CU_STREAM_DEFAULT, 0));
	check_stream(context, streams[2], 18);
	test_events(streams[2]);
	CHECK(has_kernel_in(16) && has_kernel_in(17));

	/* Another context has streams of its own, and so has the first one when it begins anew. */
	OK(cuCtxCreate_v2(&other, 0, 0));
	check_context(other, 2);
	check_stream(other, NULL, 20);
	OK(cuStreamCreate(&streams[3], CU_STREAM_DEFAULT));
	check_stream(other, streams[3], 26);
	OK(cuCtxDestroy_v2(other));
	OK(cuDevicePrimaryCtxReset_v2(0));
	OK(cuDevicePrimaryCtxRetain(&context, 0));
	OK(cuCtxSetCurrent(context));
	check_context(context, 3);
	check_stream(context, NULL, 28);
}
