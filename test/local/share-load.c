/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Work for the device without an end, of one kind, for tests of shares. Prints "ready" when it has begun, and for each
 * SIGUSR1 how many batches of work have ended. With SIGTERM it ends, and prints how long batches have taken since the
 * last SIGUSR2, in ms: the median, the 99th of 100, and the longest one. Exit status 3: a CUDA error.
 *
 *   tiny     kernels of 10 us, 2000 at a time
 *   short    kernels of a fraction of a millisecond, a hundred at a time
 *   sync     the same, each waited for
 *   long     kernels of half a second
 *   endless  kernels of 2^32 rounds, which take a minute or more
 *   later    the same, from the first SIGUSR2 on
 *   writes   the same as later, before the write of a value
 *   waits    the same as later, beside a stream that waits for a value for ever
 *   patient  a stream that waits for five seconds, for a value
 *   hangs    sync, and from the first SIGUSR2 on endless
 *   copies   of 1 MiB to the device, eight at a time
 *   large    copies of 1 GiB to the device
 *   graphs   of ten short kernels, ten at a time
 *
 * usage: share-load tiny|short|sync|long|endless|later|writes|waits|patient|hangs|copies|large|graphs
 */
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "protocol/cuda-functions.h"
#include "test/local/cuda-error.h"

#define BLOCKS 16
#define COPY_BYTES (1u << 20)
#define LARGE_COPY_BYTES (1u << 30)

static const char ptx[] =
	".version 6.3\n.target sm_50\n.address_size 64\n"
	".visible .entry turn(.param .u64 data, .param .u32 times)\n{\n"
	".reg .pred %p<2>;\n.reg .b32 %r<6>;\n.reg .b64 %rd<4>;\n"
	"ld.param.u64 %rd1, [data];\nld.param.u32 %r1, [times];\nmov.u32 %r2, %tid.x;\nmov.u32 %r3, 1;\n"
	"loop:\nmad.lo.s32 %r3, %r3, %r3, %r2;\nxor.b32 %r3, %r3, %r1;\nadd.s32 %r1, %r1, -1;\n"
	"setp.ne.s32 %p1, %r1, 0;\n@%p1 bra loop;\n"
	"cvta.to.global.u64 %rd1, %rd1;\nmul.wide.u32 %rd2, %r2, 4;\nadd.s64 %rd3, %rd1, %rd2;\n"
	"st.global.u32 [%rd3], %r3;\nret;\n}\n";

/* The last batches whose time is kept. */
#define TIMES 65536

static volatile sig_atomic_t stop, batches, timed, begun;
static double took[TIMES];
static CUfunction turn;
static CUdeviceptr data;
static CUstream stream;
static CUgraphExec graph;
static void *host;
static size_t copy_bytes = COPY_BYTES;

static void count(int signal)
{
	char text[16];
	int at = sizeof(text), n = batches;

	text[--at] = '\n';
	do
		text[--at] = (char)('0' + n % 10);
	while (n /= 10);
	if (write(STDOUT_FILENO, text + at, sizeof(text) - (size_t)at) < 0)
		_exit(1);
}

static void forget_times(int signal)
{
	timed = 0;
	begun = 1;
}

static void end(int signal)
{
	stop = 1;
}

static void launch(uint32_t times)
{
	void *params[] = {&data, &times};

	OK(cuLaunchKernel(turn, BLOCKS, 1, 1, 32, 1, 1, 0, stream, params, NULL));
}

static double seconds(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

/* How often the loop goes round in a kernel that takes so many seconds, at most. */
static uint32_t times_for(double wanted)
{
	double best = 1e9;

	for (int i = 0; i < 5; i++) {
		double start = seconds();

		launch(1u << 16);
		OK(cuStreamSynchronize(stream));
		best = seconds() - start < best ? seconds() - start : best;
	}
	return (uint32_t)(wanted / best * (1u << 16)) + 1;
}

static void make_graph(uint32_t times)
{
	CUDA_KERNEL_NODE_PARAMS node = {.func = turn,
					.gridDimX = BLOCKS,
					.gridDimY = 1,
					.gridDimZ = 1,
					.blockDimX = 32,
					.blockDimY = 1,
					.blockDimZ = 1};
	void *params[] = {&data, &times};
	CUgraphNode last = NULL;
	CUgraph made;

	node.kernelParams = params;
	OK(cuGraphCreate(&made, 0));
	for (int i = 0; i < 10; i++)
		OK(cuGraphAddKernelNode_v2(&last, made, i ? &last : NULL, i ? 1 : 0, &node));
	OK(cuGraphInstantiateWithFlags(&graph, made, 0));
}

static void set_up(void)
{
	CUcontext context;
	CUmodule module;

	OK(cuInit(0));
	OK(cuDevicePrimaryCtxRetain(&context, 0));
	OK(cuCtxSetCurrent(context));
	OK(cuModuleLoadData(&module, ptx));
	OK(cuModuleGetFunction(&turn, module, "turn"));
	OK(cuMemAlloc_v2(&data, copy_bytes));
	OK(cuMemHostAlloc(&host, copy_bytes, 0));
	OK(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
}

static void wait_for_ever(void)
{
	CUstream other;

	OK(cuStreamCreate(&other, CU_STREAM_NON_BLOCKING));
	OK(cuMemsetD32_v2(data, 0, 1));
	OK(cuStreamWaitValue32_v2(other, data, 1, CU_STREAM_WAIT_VALUE_EQ));
}

static int batch_of(const char *kind)
{
	static const struct {
		const char *kind;
		int batch;
	} batches_of[] = {{"tiny", 2000}, {"short", 100}, {"copies", 8}, {"graphs", 10}};

	for (size_t i = 0; i < sizeof(batches_of) / sizeof(*batches_of); i++)
		if (!strcmp(kind, batches_of[i].kind))
			return batches_of[i].batch;
	return 1;
}

static bool begins_later(const char *kind)
{
	return !strcmp(kind, "later") || !strcmp(kind, "writes") || !strcmp(kind, "waits");
}

static bool is_endless(const char *kind)
{
	return !strcmp(kind, "endless") || begins_later(kind);
}

static uint32_t times_of(const char *kind, uint32_t long_times)
{
	if (is_endless(kind))
		return 0;
	return !strcmp(kind, "long") ? long_times : long_times / (!strcmp(kind, "tiny") ? 50000 : 2500) + 1;
}

static void wait_for_value(void)
{
	CUstream other;

	OK(cuStreamCreate(&other, CU_STREAM_NON_BLOCKING));
	OK(cuMemsetD32_v2(data, 0, 1));
	OK(cuCtxSynchronize());
	OK(cuStreamWaitValue32_v2(stream, data, 1, CU_STREAM_WAIT_VALUE_EQ));
	sleep(5);
	OK(cuStreamWriteValue32_v2(other, data, 1, CU_STREAM_WRITE_VALUE_DEFAULT));
	OK(cuStreamDestroy_v2(other));
}

static void work(const char *kind, uint32_t long_times)
{
	double begin = seconds();

	for (int i = 0; i < batch_of(kind); i++) {
		if (!strcmp(kind, "copies") || !strcmp(kind, "large"))
			OK(cuMemcpyHtoDAsync_v2(data, host, copy_bytes, stream));
		else if (!strcmp(kind, "graphs"))
			OK(cuGraphLaunch(graph, stream));
		else if (!strcmp(kind, "patient"))
			wait_for_value();
		else
			launch(times_of(kind, long_times));
		if (!strcmp(kind, "writes"))
			OK(cuStreamWriteValue32_v2(stream, data, 1, CU_STREAM_WRITE_VALUE_DEFAULT));
	}
	OK(cuStreamSynchronize(stream));
	took[timed++ % TIMES] = seconds() - begin;
	batches++;
}

/* The kind of the work that comes next. */
static const char *current(const char *kind)
{
	if (strcmp(kind, "hangs"))
		return kind;
	return begun ? "endless" : "sync";
}

static int by_time(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;

	return (x > y) - (x < y);
}

static void print_times(void)
{
	size_t n = (size_t)(timed < TIMES ? timed : TIMES);

	qsort(took, n, sizeof(took[0]), by_time);
	if (n)
		printf("%.2f %.2f %.2f\n", took[n / 2] * 1e3, took[n * 99 / 100] * 1e3, took[n - 1] * 1e3);
}

int main(int argc, char **argv)
{
	uint32_t long_times;

	if (argc != 2)
		return 1;
	setvbuf(stdout, NULL, _IOLBF, 0);
	sigaction(SIGUSR1, &(struct sigaction){.sa_handler = count, .sa_flags = SA_RESTART}, NULL);
	sigaction(SIGUSR2, &(struct sigaction){.sa_handler = forget_times, .sa_flags = SA_RESTART}, NULL);
	sigaction(SIGTERM, &(struct sigaction){.sa_handler = end, .sa_flags = SA_RESTART}, NULL);
	if (!strcmp(argv[1], "large"))
		copy_bytes = LARGE_COPY_BYTES;
	set_up();
	long_times = times_for(0.5);
	make_graph(times_of("short", long_times));
	if (!is_endless(argv[1]))
		work(current(argv[1]), long_times);
	puts("ready");
	while (begins_later(argv[1]) && !begun)
		usleep(1000);
	if (!strcmp(argv[1], "waits"))
		wait_for_ever();
	while (!stop)
		work(current(argv[1]), long_times);
	print_times();
	return 0;
}
