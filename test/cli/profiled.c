/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Makes calls whose profile is known (test-profile.py): kernels in two streams, copies, memsets, a graph that is
 * launched twice. Prints the times of the monotonic clock, in ns, between which the device did all of that. Ends as the
 * argument says: exit, killed, reset; signals: after a time in which a signal handler makes calls, too.
 */
#include <inttypes.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

#include "protocol/cuda-functions.h"

#define CHECK_END() _exit(1)
#include "test/check.h"

#define FIRST_LAUNCHES 5
#define SECOND_LAUNCHES 3
#define SMALL 4096
#define LARGE (3u << 20)

static const char ptx[] =
	".version 6.3\n.target sm_50\n.address_size 64\n"
	".visible .entry first(.param .u64 data)\n{\n"
	".reg .pred %p;\n.reg .b32 %r<3>;\n.reg .b64 %rd<2>;\n"
	"ld.param.u64 %rd1, [data];\ncvta.to.global.u64 %rd1, %rd1;\nmov.u32 %r1, 20000;\nmov.u32 %r2, 1;\n"
	"loop:\nmad.lo.s32 %r2, %r2, %r2, %r1;\nadd.s32 %r1, %r1, -1;\n"
	"setp.ne.s32 %p, %r1, 0;\n@%p bra loop;\nst.global.u32 [%rd1], %r2;\nret;\n}\n"
	".visible .entry second(.param .u64 data)\n{\n"
	".reg .b64 %rd<2>;\n.reg .b32 %r<2>;\n"
	"ld.param.u64 %rd1, [data];\ncvta.to.global.u64 %rd1, %rd1;\nmov.u32 %r1, 3;\n"
	"st.global.u32 [%rd1+4], %r1;\nret;\n}\n";

static char memory[LARGE];

static uint64_t now(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (uint64_t)t.tv_sec * 1000000000 + (uint64_t)t.tv_nsec;
}

static void launch(CUfunction f, CUdeviceptr data, CUstream stream)
{
	void *params[] = {&data};

	OK(cuLaunchKernel(f, 1, 1, 1, 32, 1, 1, 0, stream, params, NULL));
}

static void launch_graph(CUfunction f, CUdeviceptr data, CUstream stream)
{
	CUgraphExec exec;
	CUgraph graph;

	OK(cuStreamBeginCapture_v2(stream, CU_STREAM_CAPTURE_MODE_GLOBAL));
	launch(f, data, stream);
	launch(f, data, stream);
	OK(cuStreamEndCapture(stream, &graph));
	OK(cuGraphInstantiateWithFlags(&exec, graph, 0));
	OK(cuGraphLaunch(exec, stream));
	OK(cuGraphLaunch(exec, stream));
	OK(cuStreamSynchronize(stream));
}

static void work(void)
{
	CUstream streams[2];
	CUfunction first, second;
	CUdeviceptr data;
	CUcontext context;
	CUmodule module;
	uint64_t begin;

	OK(cuInit(0));
	OK(cuDevicePrimaryCtxRetain(&context, 0));
	OK(cuCtxSetCurrent(context));
	OK(cuModuleLoadData(&module, ptx));
	OK(cuModuleGetFunction(&first, module, "first"));
	OK(cuModuleGetFunction(&second, module, "second"));
	OK(cuStreamCreate(&streams[0], CU_STREAM_NON_BLOCKING));
	OK(cuStreamCreate(&streams[1], CU_STREAM_NON_BLOCKING));
	OK(cuMemAlloc_v2(&data, LARGE));
	begin = now();
	OK(cuMemcpyHtoD_v2(data, memory, SMALL));
	OK(cuMemcpyHtoD_v2(data, memory, LARGE));
	for (int i = 0; i < FIRST_LAUNCHES; i++)
		launch(first, data, streams[0]);
	for (int i = 0; i < SECOND_LAUNCHES; i++)
		launch(second, data, streams[1]);
	OK(cuMemsetD32Async(data + SMALL, 7, SMALL / 4, streams[1]));
	OK(cuStreamSynchronize(streams[0]));
	OK(cuStreamSynchronize(streams[1]));
	launch_graph(second, data, streams[1]);
	OK(cuMemcpyDtoH_v2(memory, data, LARGE));
	GIVES(cuMemFree_v2(data + 1), CUDA_ERROR_INVALID_VALUE);
	printf("%" PRIu64 " %" PRIu64 "\n", begin, now());
	fflush(stdout);
}

static volatile sig_atomic_t signals;

static void on_signal(int signal)
{
	CUcontext context;

	(void)signal;
	signals++;
	cuCtxGetCurrent(&context);
}

/* Sooner or later a signal comes in the middle of a call. */
static void call_in_signals(void)
{
	const struct itimerval often = {{0, 200}, {0, 200}}, never = {{0, 0}, {0, 0}};
	CUcontext context;

	signal(SIGALRM, on_signal);
	setitimer(ITIMER_REAL, &often, NULL);
	while (signals < 200)
		OK(cuCtxGetCurrent(&context));
	setitimer(ITIMER_REAL, &never, NULL);
}

/* Until the profile has the last call. */
static void wait_for_profile(void)
{
	static char text[4 << 20];
	size_t n;
	FILE *f;

	do {
		usleep(10000);
		f = fopen(getenv("VCUDA_PROFILE"), "re");
		n = f ? fread(text, 1, sizeof(text) - 1, f) : 0;
		text[n] = 0;
		if (f)
			fclose(f);
	} while (!strstr(text, "cuMemFree_v2"));
}

int main(int argc, char **argv)
{
	const char *end = argc > 1 ? argv[1] : "exit";

	work();
	if (!strcmp(end, "reset"))
		OK(cuDevicePrimaryCtxReset_v2(0));
	if (!strcmp(end, "signals"))
		call_in_signals();
	if (!strcmp(end, "killed")) {
		wait_for_profile();
		raise(SIGKILL);
	}
	return 0;
}
