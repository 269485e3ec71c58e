/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Collective operations of NCCL between GPUs: all elements are checked, then the operations are timed.
 *
 * usage: nccl-bench [--library FILE] [--ranks N] [--rounds N] [--max-mib N] [--graph] [--split]
 *                   [--only OPERATION] processes|threads
 *
 * Each rank has one GPU: rank r the device r. The ranks are processes, or the threads of one process. A size is as in
 * NVIDIA's nccl-tests: the bytes of the larger one of the two buffers of a rank. A round is as many operations as move
 * 64 MiB, at least 1 and at most 20, and the wait for them; its time is that of the slowest rank, divided by the
 * operations. With --graph a round is one launch of a graph that has these operations. With --split the ranks use a
 * communicator that ncclCommSplit() has made.
 *
 * Prints for each operation and size the median of the rounds: microseconds up to 64 KiB, above that GB/s (10^9 bytes
 * of the size a second, which nccl-tests calls algorithm bandwidth).
 */
#include "nccl.h"

#include <pthread.h>
#include <signal.h>
#include <stdbool.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

enum { RANKS = 16, ROUNDS = 1000, MANY = 20, WARM = 3 };

static const size_t sizes[] = {8, 1 << 10, 64 << 10, 1 << 20, 16 << 20, 128 << 20, 1 << 30};
enum { SIZES = sizeof(sizes) / sizeof(*sizes) };

/* Between the ranks, processes or threads. */
struct shared {
	pthread_barrier_t barrier;
	ncclUniqueId id;
	double took[RANKS]; /* us for the last round */
};

struct rank {
	int rank;
	ncclComm_t whole, comm;
	CUstream stream;
	CUdeviceptr send, recv;
	float *host; /* as large as `recv` */
};

static struct shared *shared;
static int ranks, rounds = 20;
static size_t most = (size_t)1 << 30;
static bool graphs, splits;
static const char *only, *layout;

/* Element `i` of the send buffer of a rank. The sum over 16 ranks is exact. */
static float element(int rank, size_t i)
{
	return (float)(((uint32_t)i * 2654435761u + (uint32_t)rank * 0x85ebca6bu + 0x2545f491u) >> 18);
}

static float sum(size_t i)
{
	float s = 0;

	for (int r = 0; r < ranks; r++)
		s += element(r, i);
	return s;
}

/*
 * The operations. `count` is the number of elements of the larger buffer, divisible by the number of ranks; `begin`
 * puts one operation on the rank's stream, `expected` is element `i` of what it receives.
 */

static void *at(CUdeviceptr base, size_t element)
{
	return (void *)(uintptr_t)(base + element * sizeof(float)); /* NOLINT: NCCL takes addresses of the device so */
}

static int begin_all_reduce(struct rank *r, size_t count)
{
	return ncclAllReduce(at(r->send, 0), at(r->recv, 0), count, NCCL_FLOAT, NCCL_SUM, r->comm, r->stream);
}

static float expect_sum(int rank, size_t count, size_t i)
{
	(void)rank, (void)count;
	return sum(i);
}

static int begin_all_gather(struct rank *r, size_t count)
{
	return ncclAllGather(at(r->send, 0), at(r->recv, 0), count / (size_t)ranks, NCCL_FLOAT, r->comm, r->stream);
}

static float expect_gathered(int rank, size_t count, size_t i)
{
	size_t part = count / (size_t)ranks;

	(void)rank;
	return element((int)(i / part), i % part);
}

static int begin_reduce_scatter(struct rank *r, size_t count)
{
	return ncclReduceScatter(at(r->send, 0), at(r->recv, 0), count / (size_t)ranks, NCCL_FLOAT, NCCL_SUM, r->comm,
				 r->stream);
}

static float expect_scattered(int rank, size_t count, size_t i)
{
	return sum((size_t)rank * (count / (size_t)ranks) + i);
}

static int begin_broadcast(struct rank *r, size_t count)
{
	return ncclBroadcast(at(r->send, 0), at(r->recv, 0), count, NCCL_FLOAT, ranks - 1, r->comm, r->stream);
}

static float expect_broadcast(int rank, size_t count, size_t i)
{
	(void)rank, (void)count;
	return element(ranks - 1, i);
}

static int begin_all_to_all(struct rank *r, size_t count)
{
	size_t part = count / (size_t)ranks;
	int result = ncclGroupStart();

	for (int peer = 0; peer < ranks && !result; peer++) {
		result = ncclSend(at(r->send, (size_t)peer * part), part, NCCL_FLOAT, peer, r->comm, r->stream);
		if (!result)
			result = ncclRecv(at(r->recv, (size_t)peer * part), part, NCCL_FLOAT, peer, r->comm, r->stream);
	}
	return result ? result : ncclGroupEnd();
}

static float expect_exchanged(int rank, size_t count, size_t i)
{
	size_t part = count / (size_t)ranks;

	return element((int)(i / part), (size_t)rank * part + i % part);
}

static int begin_send_receive(struct rank *r, size_t count)
{
	int result = ncclGroupStart();

	if (!result)
		result = ncclSend(at(r->send, 0), count, NCCL_FLOAT, (r->rank + 1) % ranks, r->comm, r->stream);
	if (!result)
		result = ncclRecv(at(r->recv, 0), count, NCCL_FLOAT, (r->rank + ranks - 1) % ranks, r->comm, r->stream);
	return result ? result : ncclGroupEnd();
}

static float expect_received(int rank, size_t count, size_t i)
{
	(void)count;
	return element((rank + ranks - 1) % ranks, i);
}

static const struct operation {
	const char *name;
	bool scatters; /* the received buffer is the smaller one */
	int (*begin)(struct rank *r, size_t count);
	float (*expected)(int rank, size_t count, size_t i);
} operations[] = {{"all_reduce", false, begin_all_reduce, expect_sum},
		  {"all_gather", false, begin_all_gather, expect_gathered},
		  {"reduce_scatter", true, begin_reduce_scatter, expect_scattered},
		  {"broadcast", false, begin_broadcast, expect_broadcast},
		  {"all_to_all", false, begin_all_to_all, expect_exchanged},
		  {"send_receive", false, begin_send_receive, expect_received}};

static void meet(void)
{
	pthread_barrier_wait(&shared->barrier);
}

static void start(struct rank *r, const struct operation *o, size_t count)
{
	nccl_check(o->begin(r, count), r->comm, o->name);
}

static CUgraphExec capture(struct rank *r, const struct operation *o, size_t count, int many)
{
	CUgraph graph;
	CUgraphExec executable;

	check(cuStreamBeginCapture_v2(r->stream, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL), "cuStreamBeginCapture");
	for (int i = 0; i < many; i++)
		start(r, o, count);
	check(cuStreamEndCapture(r->stream, &graph), "cuStreamEndCapture");
	check(cuGraphInstantiateWithFlags(&executable, graph, 0), "cuGraphInstantiate");
	check(cuGraphDestroy(graph), "cuGraphDestroy");
	return executable;
}

/* Receives over bytes that are no element. */
static void compare(struct rank *r, const struct operation *o, size_t count)
{
	size_t received = o->scatters ? count / (size_t)ranks : count, i;
	CUgraphExec executable = graphs ? capture(r, o, count, 1) : NULL;

	check(cuMemsetD8_v2(r->recv, 0xff, most), "cuMemsetD8");
	check(cuCtxSynchronize(), "cuCtxSynchronize");
	if (executable)
		check(cuGraphLaunch(executable, r->stream), "cuGraphLaunch");
	else
		start(r, o, count);
	check(cuStreamSynchronize(r->stream), "cuStreamSynchronize");
	if (executable)
		check(cuGraphExecDestroy(executable), "cuGraphExecDestroy");
	check(cuMemcpyDtoH_v2(r->host, r->recv, received * sizeof(float)), "cuMemcpyDtoH");
	for (i = 0; i < received; i++)
		if (r->host[i] != o->expected(r->rank, count, i))
			break;
	if (i == received)
		return;
	fprintf(stderr, "%s of %zu bytes: rank %d got %g as element %zu, and not %g\n", o->name, count * sizeof(float),
		r->rank, (double)r->host[i], i, (double)o->expected(r->rank, count, i));
	exit(1);
}

static double slowest(void)
{
	double most_us = 0;

	for (int i = 0; i < ranks; i++)
		most_us = shared->took[i] > most_us ? shared->took[i] : most_us;
	return most_us;
}

/* `size` names the figure. */
static void time_operation(struct rank *r, const struct operation *o, size_t count, size_t size)
{
	size_t bytes = count * sizeof(float), fit = ((size_t)64 << 20) / bytes;
	int many = fit > MANY ? MANY : fit ? (int)fit : 1;
	CUgraphExec executable = graphs ? capture(r, o, count, many) : NULL;
	double samples[ROUNDS], us;

	for (int round = -WARM; round < rounds; round++) {
		meet();
		us = now_us();
		if (executable)
			check(cuGraphLaunch(executable, r->stream), "cuGraphLaunch");
		for (int i = 0; i < many && !executable; i++)
			start(r, o, count);
		check(cuStreamSynchronize(r->stream), "cuStreamSynchronize");
		shared->took[r->rank] = now_us() - us;
		meet();
		if (round >= 0)
			samples[round] = slowest() / many;
	}
	if (executable)
		check(cuGraphExecDestroy(executable), "cuGraphExecDestroy");
	if (r->rank)
		return;
	us = median(samples, rounds);
	printf("%s%s_%s_%zu%s ", layout, graphs ? "_graph" : "", o->name, size < 1 << 20 ? size : size >> 20,
	       size < 1 << 20 ? "B" : "MiB");
	printf(size > 64 << 10 ? "%.6g GB/s\n" : "%.6g us\n", size > 64 << 10 ? (double)bytes / us * 1e-3 : us);
	fflush(stdout);
}

static void set_up(struct rank *r)
{
	CUcontext context;
	CUdevice device;

	check(cuInit(0), "cuInit");
	check(cuDeviceGet(&device, r->rank), "cuDeviceGet");
	check(cuDevicePrimaryCtxRetain(&context, device), "cuDevicePrimaryCtxRetain");
	check(cuCtxSetCurrent(context), "cuCtxSetCurrent");
	check(cuStreamCreate(&r->stream, CU_STREAM_NON_BLOCKING), "cuStreamCreate");
	check(cuMemAlloc_v2(&r->send, most), "cuMemAlloc");
	check(cuMemAlloc_v2(&r->recv, most), "cuMemAlloc");
	r->host = malloc(most);
	check(!r->host, "malloc");
	for (size_t i = 0; i < most / sizeof(float); i++)
		r->host[i] = element(r->rank, i);
	check(cuMemcpyHtoD_v2(r->send, r->host, most), "cuMemcpyHtoD");
	if (!r->rank)
		nccl_check(ncclGetUniqueId(&shared->id), NULL, "ncclGetUniqueId");
	meet();
	nccl_check(ncclCommInitRank(&r->whole, ranks, shared->id, r->rank), NULL, "ncclCommInitRank");
	r->comm = r->whole;
	if (splits)
		nccl_check(ncclCommSplit(r->whole, 0, r->rank, &r->comm, NULL), r->whole, "ncclCommSplit");
}

static bool is_operation(const char *name)
{
	for (size_t o = 0; o < sizeof(operations) / sizeof(*operations); o++)
		if (!strcmp(name, operations[o].name))
			return true;
	return false;
}

static void *work(void *argument)
{
	struct rank r = {.rank = (int)(intptr_t)argument};

	set_up(&r);
	for (size_t o = 0; o < sizeof(operations) / sizeof(*operations); o++) {
		if (only && strcmp(only, operations[o].name))
			continue;
		for (int s = 0; s < SIZES && sizes[s] <= most; s++) {
			size_t count = sizes[s] / sizeof(float) / (size_t)ranks * (size_t)ranks;

			count = count ? count : (size_t)ranks;
			compare(&r, &operations[o], count);
			time_operation(&r, &operations[o], count, sizes[s]);
		}
	}
	nccl_check(ncclCommDestroy(r.comm), NULL, "ncclCommDestroy");
	if (splits)
		nccl_check(ncclCommDestroy(r.whole), NULL, "ncclCommDestroy");
	free(r.host);
	return NULL;
}

/* A rank that fails ends the process at once: others are inside of NCCL, or wait for it. */
static bool finished;

static void end_at_once(void)
{
	if (finished)
		return;
	fflush(NULL);
	_exit(1);
}

static int run_threads(void)
{
	pthread_t threads[RANKS];

	check(atexit(end_at_once), "atexit");
	for (int i = 0; i < ranks; i++)
		check(pthread_create(&threads[i], NULL, work, (void *)(intptr_t)i), "pthread_create");
	for (int i = 0; i < ranks; i++)
		pthread_join(threads[i], NULL);
	finished = true;
	return 0;
}

static void kill_all(const pid_t *pids, int count)
{
	for (int i = 0; i < count; i++)
		if (pids[i] > 0)
			kill(pids[i], SIGKILL);
}

/* A rank that fails ends all: the other ranks would wait for it. */
static int run_processes(void)
{
	pid_t pids[RANKS] = {0}, ended;
	int failed = 0, status;

	for (int i = 0; i < ranks && !failed; i++) {
		pids[i] = fork();
		if (!pids[i]) {
			prctl(PR_SET_PDEATHSIG, SIGKILL);
			work((void *)(intptr_t)i);
			exit(0);
		}
		failed = pids[i] < 0;
	}
	if (failed)
		kill_all(pids, ranks);
	while ((ended = wait(&status)) > 0) {
		for (int i = 0; i < ranks; i++)
			if (pids[i] == ended)
				pids[i] = 0;
		if (!status)
			continue;
		failed = 1;
		kill_all(pids, ranks);
	}
	return failed;
}

static int usage(void)
{
	fprintf(stderr, "usage: nccl-bench [--library FILE] [--ranks N] [--rounds N] [--max-mib N] [--graph]\n"
			"                  [--split] [--only OPERATION] processes|threads\n");
	return 1;
}

int main(int argc, char **argv)
{
	const char *library = "libnccl.so.2";
	pthread_barrierattr_t attributes;
	int i;

	ranks = 2;
	for (i = 1; i < argc && !strncmp(argv[i], "--", 2); i++) {
		if (!strcmp(argv[i], "--graph"))
			graphs = true;
		else if (!strcmp(argv[i], "--split"))
			splits = true;
		else if (i + 1 == argc)
			return usage();
		else if (!strcmp(argv[i], "--library"))
			library = argv[++i];
		else if (!strcmp(argv[i], "--ranks"))
			ranks = atoi(argv[++i]);
		else if (!strcmp(argv[i], "--rounds"))
			rounds = atoi(argv[++i]);
		else if (!strcmp(argv[i], "--max-mib"))
			most = strtoul(argv[++i], NULL, 10) << 20;
		else if (!strcmp(argv[i], "--only"))
			only = argv[++i];
		else
			return usage();
	}
	if (argc - i != 1 || ranks < 1 || ranks > RANKS || rounds < 1 || rounds > ROUNDS || !most ||
	    (only && !is_operation(only)))
		return usage();
	layout = argv[i];
	shared = mmap(NULL, sizeof(*shared), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	check(shared == MAP_FAILED, "mmap");
	check(pthread_barrierattr_init(&attributes), "pthread_barrierattr_init");
	check(pthread_barrierattr_setpshared(&attributes, PTHREAD_PROCESS_SHARED), "pthread_barrierattr_setpshared");
	check(pthread_barrier_init(&shared->barrier, &attributes, (unsigned)ranks), "pthread_barrier_init");
	driver_open();
	nccl_open(library);
	if (!strcmp(layout, "threads"))
		return run_threads();
	if (!strcmp(layout, "processes"))
		return run_processes();
	return usage();
}
