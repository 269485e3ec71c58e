/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One of two ranks of NCCL is killed by SIGKILL, many times. The other one aborts its communicator and ends; the memory
 * of both devices is free again, and the next two ranks work. Runs natively, and through virtio-cuda.
 *
 * NCCL does not notice that a rank of the same host is gone: an application does, by a time limit, and aborts.
 *
 * usage: nccl-killed LIBRARY TIMES       prints for each time how long ncclCommAbort() took
 */
#include "bench/nccl.h"

#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define RANKS 2
#define ELEMENTS (4u << 20)
#define ROUNDS_BEFORE 5

/* After so long without an end of its work a rank aborts. */
#define PATIENCE_US 1000000.0
#define LONGEST_S 60

/* Free memory may vary by what the driver keeps of its own. */
#define SLACK ((size_t)64 << 20)

static struct shared {
	ncclUniqueId id;
	_Atomic bool has_id;
	_Atomic unsigned int rounds[RANKS];
	size_t free[RANKS];
} * shared;

static void nap(void)
{
	nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
}

static void set_up(int rank)
{
	CUcontext context;
	CUdevice device;

	check(cuInit(0), "cuInit");
	check(cuDeviceGet(&device, rank), "cuDeviceGet");
	check(cuDevicePrimaryCtxRetain(&context, device), "cuDevicePrimaryCtxRetain");
	check(cuCtxSetCurrent(context), "cuCtxSetCurrent");
}

/* False: the work does not end. */
static bool ends(CUstream stream)
{
	double begin = now_us();
	CUresult r;

	while ((r = cuStreamQuery(stream)) == CUDA_ERROR_NOT_READY && now_us() - begin < PATIENCE_US)
		nap();
	check(r != CUDA_ERROR_NOT_READY ? r : CUDA_SUCCESS, "cuStreamQuery");
	return !r;
}

/* Until a partner is gone. */
static void run_rank(int rank)
{
	CUdeviceptr send, recv;
	ncclComm_t comm;
	CUstream stream;
	double begin;
	int error;

	set_up(rank);
	check(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING), "cuStreamCreate");
	check(cuMemAlloc_v2(&send, ELEMENTS * sizeof(float)), "cuMemAlloc");
	check(cuMemAlloc_v2(&recv, ELEMENTS * sizeof(float)), "cuMemAlloc");
	check(cuMemsetD8_v2(send, 0, ELEMENTS * sizeof(float)), "cuMemsetD8");
	if (!rank) {
		nccl_check(ncclGetUniqueId(&shared->id), NULL, "ncclGetUniqueId");
		shared->has_id = true;
	}
	while (!shared->has_id)
		nap();
	nccl_check(ncclCommInitRank(&comm, RANKS, shared->id, rank), NULL, "ncclCommInitRank");
	do {
		nccl_check(ncclAllReduce((void *)(uintptr_t)send, (void *)(uintptr_t)recv, ELEMENTS, NCCL_FLOAT,
					 NCCL_SUM, comm, stream),
			   comm, "ncclAllReduce"); /* NOLINT: addresses of the device */
		shared->rounds[rank]++;
	} while (ends(stream));
	begin = now_us();
	nccl_check(ncclCommGetAsyncError(comm, &error), comm, "ncclCommGetAsyncError");
	nccl_check(ncclCommAbort(comm), NULL, "ncclCommAbort");
	check(cuStreamSynchronize(stream), "cuStreamSynchronize");
	check(cuMemFree_v2(send), "cuMemFree");
	check(cuMemFree_v2(recv), "cuMemFree");
	printf("aborted in %.0f ms, error %d\n", (now_us() - begin) / 1000, error);
	fflush(stdout);
}

static pid_t start(void (*run)(int), int rank)
{
	pid_t pid = fork();

	check(pid < 0, "fork");
	if (pid)
		return pid;
	run(rank);
	/* NCCL's exit handlers may wait for the lost partner. */
	_exit(0);
}

static void look_at_memory(int rank)
{
	size_t total;

	set_up(rank);
	check(cuMemGetInfo_v2(&shared->free[rank], &total), "cuMemGetInfo");
}

/* Ends the program if the process does not end well in time. */
static void expect_end(pid_t pid, const char *what)
{
	int status = 0;

	for (int ms = 0; !waitpid(pid, &status, WNOHANG); ms++, nap())
		if (ms > LONGEST_S * 1000) {
			kill(pid, SIGKILL);
			fprintf(stderr, "%s does not end\n", what);
			exit(1);
		}
	if (status) {
		fprintf(stderr, "%s ended with status 0x%x\n", what, (unsigned int)status);
		exit(1);
	}
}

static void measure_memory(size_t free[RANKS])
{
	for (int rank = 0; rank < RANKS; rank++) {
		expect_end(start(look_at_memory, rank), "a look at the memory");
		free[rank] = shared->free[rank];
	}
}

static void kill_one(int victim)
{
	pid_t pids[RANKS];

	shared->has_id = false;
	for (int rank = 0; rank < RANKS; rank++)
		shared->rounds[rank] = 0;
	for (int rank = 0; rank < RANKS; rank++)
		pids[rank] = start(run_rank, rank);
	while (shared->rounds[0] < ROUNDS_BEFORE || shared->rounds[1] < ROUNDS_BEFORE) {
		nap();
		for (int rank = 0; rank < RANKS; rank++)
			check(waitpid(pids[rank], NULL, WNOHANG), "a rank ended early");
	}
	for (int ms = rand() % 20; ms; ms--)
		nap();
	kill(pids[victim], SIGKILL);
	waitpid(pids[victim], NULL, 0);
	expect_end(pids[!victim], "the other rank");
}

int main(int argc, char **argv)
{
	size_t before[RANKS], after[RANKS];
	int times;

	if (argc != 3 || (times = atoi(argv[2])) < 1) {
		fprintf(stderr, "usage: nccl-killed LIBRARY TIMES\n");
		return 1;
	}
	shared = mmap(NULL, sizeof(*shared), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	check(shared == MAP_FAILED, "mmap");
	driver_open();
	nccl_open(argv[1]);
	measure_memory(before);
	for (int i = 0; i < times; i++) {
		kill_one(i % RANKS);
		measure_memory(after);
		for (int rank = 0; rank < RANKS; rank++)
			if (after[rank] + SLACK < before[rank]) {
				fprintf(stderr, "device %d has %zu bytes less than before\n", rank,
					before[rank] - after[rank]);
				return 1;
			}
	}
	printf("%d ranks were killed\n", times);
	return 0;
}
