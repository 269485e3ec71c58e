/* SPDX-License-Identifier: Apache-2.0 */
/* Host functions in streams, and what kernels print. */
#include "test/local/api.h"

#include <unistd.h>

static int order[8], at;
static CUstream stream_seen;
static CUresult status_seen, inside;

static void first(void *user)
{
	usleep(20000);
	order[at++] = *(int *)user;
	inside = cuCtxSynchronize();
}

static void second(CUstream stream, CUresult status, void *user)
{
	order[at++] = *(int *)user;
	stream_seen = stream;
	status_seen = status;
}

static void read_value(void *user)
{
	order[at++] = *(volatile int *)user;
}

static void release(void *user)
{
	*(volatile int *)user = 1;
}

void api_callbacks(void)
{
	static int one = 1, two = 2, thousand[1000];
	CUdeviceptr p;
	CUstream s, t;
	int *host;
	void *params[] = {&host};

	OK(cuStreamCreate(&s, CU_STREAM_NON_BLOCKING));
	OK(cuStreamCreate(&t, CU_STREAM_NON_BLOCKING));
	OK(cuMemAlloc_v2(&p, 4));
	OK(cuMemHostAlloc((void **)&host, 8, 0));
	GIVES(cuLaunchHostFunc(s, NULL, NULL), CUDA_ERROR_INVALID_VALUE);
	GIVES(cuLaunchHostFunc((CUstream)0x77777, first, NULL), CUDA_ERROR_INVALID_HANDLE);
	OK(cuMemsetD32Async(p, 77, 1, s));
	OK(cuLaunchHostFunc(s, first, &one));
	OK(cuStreamAddCallback(s, second, &two, 0));
	OK(cuMemcpyDtoHAsync_v2(host, p, 4, s));
	/* Reads what the copy before it brought. */
	OK(cuLaunchHostFunc(s, read_value, host));
	OK(cuStreamSynchronize(s));
	CHECK(at == 3 && order[0] == 1 && order[1] == 2 && order[2] == 77);
	CHECK(inside == CUDA_ERROR_NOT_PERMITTED && stream_seen == s && status_seen == CUDA_SUCCESS);
	/* A kernel waits for what a host function of another stream writes. */
	host[1] = 0;
	host = host + 1;
	OK(cuLaunchKernel(api_function("hold"), 1, 1, 1, 1, 1, 1, 0, s, params, NULL));
	OK(cuLaunchHostFunc(t, release, host));
	OK(cuStreamSynchronize(s));
	at = 0;
	for (int i = 0; i < 1000; i++) {
		thousand[i] = i % 8;
		OK(cuLaunchHostFunc(i % 2 ? s : NULL, release, &thousand[i]));
	}
	OK(cuCtxSynchronize());
	for (int i = 0; i < 1000; i++)
		CHECK(thousand[i] == 1);
}

static void print(unsigned int value, unsigned int blocks)
{
	void *params[] = {&value};

	OK(cuLaunchKernel(api_function("print"), blocks, 1, 1, 1, 1, 1, 0, NULL, params, NULL));
}

/* Kernels' text comes where the application waits, in order with what it prints itself. */
void api_output(void)
{
	CUevent event;

	printf("before\n");
	print(1, 1);
	print(2, 1);
	OK(cuCtxSynchronize());
	printf("between\n");
	OK(cuEventCreate(&event, 0));
	print(3, 1);
	OK(cuEventRecord(event, NULL));
	OK(cuEventSynchronize(event));
	printf("after\n");
	/* More than fits one reply. */
	print(4, 5000);
	OK(cuStreamSynchronize(NULL));
	printf("end\n");
}
