/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Large copies of pageable memory in a VM whose RAM is registered. Each case checks the contents of its copies; whether
 * they went directly vm.py sees in what the worker ran (VCUDA_STATS), by the line of numbers that is printed.
 *
 * usage: direct CASE (alone: prints the cases)     exit status 0: as it should be; 1: not
 */
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "direct.h"

static const struct {
	size_t offset, bytes;
} shapes[] = {
	{0, 16 * MIB},     {0, 64 * MIB},        {16, 40 * MIB + 4099},
	{4096, 17 * MIB},  {4095, 36 * MIB + 1}, {2 * MIB - 1, 16 * MIB + 3},
	{0, 16 * MIB - 1},
};

/* Both directions, each checked by small copies; nothing beside the destination changes. */
static void copy_shape(size_t offset, size_t bytes, CUstream stream, bool async)
{
	uint8_t *host = memory(bytes, offset), *check_memory = memory(bytes, 8);
	CUdeviceptr device = device_memory(bytes + 512) + 3;

	fill(host, bytes, offset + 1);
	expect(host, bytes, !async);
	CHECK(!(async ? cuMemcpyHtoDAsync_v2(device, host, bytes, stream) : cuMemcpyHtoD_v2(device, host, bytes)));
	/* The call has returned, and the memory is pageable: the application may reuse it. */
	memset(host, 0, bytes);
	if (async)
		CHECK(!cuStreamSynchronize(stream));
	get(check_memory, device, bytes);
	CHECK(is_filled(check_memory, bytes, offset + 1));
	fill(check_memory, bytes, offset + 2);
	put(device, check_memory, bytes);
	expect(host, bytes, false);
	CHECK(!(async ? cuMemcpyDtoHAsync_v2(host, device, bytes, stream) : cuMemcpyDtoH_v2(host, device, bytes)));
	CHECK(is_filled(host, bytes, offset + 2));
	CHECK((!offset || host[-1] == 0xee) && host[bytes] == 0xee);
	CHECK(!cuMemFree_v2(device - 3) && !pinned_kib());
}

static void contents(void)
{
	CUstream stream;

	start_cuda();
	warm_up();
	CHECK(!cuStreamCreate(&stream, 0));
	for (size_t i = 0; i < sizeof(shapes) / sizeof(*shapes); i++)
		copy_shape(shapes[i].offset, shapes[i].bytes, stream, i % 2);
}

/* Memory that can only be read, and a file that is, are good for a source, and for nothing else. */
static void read_only(void)
{
	const size_t bytes = 24 * MIB;
	uint8_t *host, *check_memory = memory(bytes, 0), *view;
	char path[] = "/tmp/direct-XXXXXX";
	CUdeviceptr device;
	unsigned long own;
	int fd = mkstemp(path);

	start_cuda();
	warm_up();
	host = memory(bytes, 0);
	device = device_memory(bytes);
	fill(host, bytes, 7);
	CHECK(fd >= 0 && write(fd, host, bytes) == (ssize_t)bytes);
	CHECK(!mprotect(host, bytes, PROT_READ));
	expect(host, bytes, true);
	CHECK(!cuMemcpyHtoD_v2(device, host, bytes));
	get(check_memory, device, bytes);
	CHECK(is_filled(check_memory, bytes, 7));
	/* A file's pages lie as they come: either way will do. */
	CHECK(!cuMemsetD8_v2(device, 0, bytes));
	close(fd);
	fd = open(path, O_RDONLY);
	/* Where there are no ends that go by staging in any case. */
	view = mmap(memory(bytes, 0), bytes, PROT_READ, MAP_PRIVATE | MAP_FIXED, fd, 0);
	CHECK(view != MAP_FAILED && !unlink(path));
	own = status_kib("RssAnon:");
	CHECK(!cuMemcpyHtoD_v2(device, view, bytes));
	/* The process has no pages of its own in place of the file's. */
	CHECK(status_kib("RssAnon:") < own + bytes / 4096);
	memset(check_memory, 0, bytes);
	get(check_memory, device, bytes);
	CHECK(is_filled(check_memory, bytes, 7));
	CHECK(!pinned_kib());
}

#define THREADS 4
#define ROUNDS 6

static struct shared {
	uint8_t *source, *target; /* the same of all; the same buffer, to each his part */
	size_t bytes;
	CUcontext context;
} shared;

static void *copy_shared(void *number)
{
	size_t i = (uintptr_t)number;
	uint8_t *mine = shared.target + i * shared.bytes, *check_memory = memory(shared.bytes, 0);
	CUdeviceptr device;
	CUstream stream;

	CHECK(!cuCtxSetCurrent(shared.context) && !cuStreamCreate(&stream, 0));
	device = device_memory(shared.bytes);
	for (int round = 0; round < ROUNDS; round++) {
		CHECK(!cuMemsetD8_v2(device, 0, shared.bytes));
		CHECK(!cuMemcpyHtoDAsync_v2(device, shared.source, shared.bytes, stream));
		CHECK(!cuStreamSynchronize(stream));
		CHECK(!cuMemcpyDtoHAsync_v2(mine, device, shared.bytes, stream));
		CHECK(is_filled(mine, shared.bytes, 11));
		get(check_memory, device, shared.bytes);
		CHECK(is_filled(check_memory, shared.bytes, 11));
		memset(mine, 0, shared.bytes);
	}
	return NULL;
}

/* Several copy from the same pages at once, of which one can have them pinned; and to neighbours in one page. */
static void threads(void)
{
	pthread_t all[THREADS];

	shared.context = start_cuda();
	warm_up();
	shared.bytes = 20 * MIB + 100;
	shared.source = memory(shared.bytes, 0);
	shared.target = memory(THREADS * shared.bytes, 0);
	fill(shared.source, shared.bytes, 11);
	for (uintptr_t i = 0; i < THREADS; i++)
		CHECK(!pthread_create(&all[i], NULL, copy_shared, (void *)i));
	for (int i = 0; i < THREADS; i++)
		CHECK(!pthread_join(all[i], NULL));
	CHECK(!pinned_kib());
}

/* Pages in too many pieces: by staging, all of it. And such pages behind others: from there on. */
static void fragmented(void)
{
	const size_t bytes = 32 * MIB, good = 16 * MIB;
	uint8_t *host, *check_memory;
	CUdeviceptr device;

	start_cuda();
	warm_up();
	host = scattered(bytes);
	check_memory = memory(bytes, 0);
	device = device_memory(bytes);
	fill(host, bytes, 5);
	expect_staged(bytes, true);
	expect_staged(bytes, false);
	CHECK(!cuMemcpyHtoD_v2(device, host, bytes));
	get(check_memory, device, bytes);
	CHECK(is_filled(check_memory, bytes, 5));
	memset(host, 0, bytes);
	CHECK(!cuMemcpyDtoH_v2(host, device, bytes));
	CHECK(is_filled(host, bytes, 5) && !pinned_kib());

	/* The first half is of huge pages: two parts of 8 MiB. */
	CHECK(!munmap(host, good));
	CHECK(mmap(host, good, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0) == host);
	madvise(host, good, MADV_HUGEPAGE);
	fill(host, bytes, 6);
	parts += 2 * 2;
	expect_staged(bytes - good, true);
	expect_staged(bytes - good, false);
	CHECK(!cuMemcpyHtoD_v2(device, host, bytes));
	get(check_memory, device, bytes);
	CHECK(is_filled(check_memory, bytes, 6));
	memset(host, 0, bytes);
	CHECK(!cuMemcpyDtoH_v2(host, device, bytes));
	CHECK(is_filled(host, bytes, 6) && !pinned_kib());
}

/* Copies of a process with a tiny limit of pinned memory succeed (vm.py sets the module's limit). */
static void limit(void)
{
	const size_t bytes = 24 * MIB;
	uint8_t *host = memory(bytes, 0), *check_memory = memory(bytes, 0);
	CUdeviceptr device;

	CHECK(!setrlimit(RLIMIT_MEMLOCK, &(struct rlimit){65536, 65536}));
	start_cuda();
	device = device_memory(bytes);
	fill(host, bytes, 9);
	/* Long enough for all to be registered. */
	for (int i = 0; i < 20; i++) {
		CHECK(!cuMemcpyHtoD_v2(device, host, bytes));
		expect_staged(bytes, true);
		usleep(100000);
	}
	get(check_memory, device, bytes);
	CHECK(is_filled(check_memory, bytes, 9) && !pinned_kib());
	memset(host, 0, bytes);
	CHECK(!cuMemcpyDtoH_v2(host, device, bytes));
	expect_staged(bytes, false);
	CHECK(is_filled(host, bytes, 9));
}

/* Where it is not offered. */
static void no_way(void)
{
	const size_t bytes = 24 * MIB;
	uint8_t *host = memory(bytes, 0);
	CUdeviceptr device;

	start_cuda();
	device = device_memory(bytes);
	for (uint64_t i = 0; i < 5; i++) {
		fill(host, bytes, i);
		CHECK(!cuMemcpyHtoD_v2(device, host, bytes));
		memset(host, 0, bytes);
		CHECK(!cuMemcpyDtoH_v2(host, device, bytes) && is_filled(host, bytes, i));
		expect_staged(bytes, true);
		expect_staged(bytes, false);
	}
}

static void copy_and_check(uint64_t seed)
{
	const size_t bytes = 20 * MIB;
	uint8_t *host = memory(bytes, 0), *check_memory = memory(bytes, 0);
	CUdeviceptr device = device_memory(bytes);

	fill(host, bytes, seed);
	CHECK(!cuMemcpyHtoD_v2(device, host, bytes));
	get(check_memory, device, bytes);
	CHECK(is_filled(check_memory, bytes, seed));
	memset(host, 0, bytes);
	CHECK(!cuMemcpyDtoH_v2(host, device, bytes) && is_filled(host, bytes, seed));
	CHECK(!cuMemFree_v2(device) && !munmap(host, bytes) && !munmap(check_memory, bytes));
}

/* RAM is registered in a context; when that has ended, in the next one, in which copies then go directly again. */
static void contexts(void)
{
	CUcontext context;

	start_cuda();
	warm_up();
	copy_and_check(1);
	CHECK(!cuDevicePrimaryCtxRelease_v2(0));
	for (int i = 0; i < 3; i++) {
		CHECK(!cuCtxCreate_v2(&context, 0, 0));
		copy_and_check((uint64_t)(2 + i));
		warm_up();
		copy_and_check((uint64_t)(5 + i));
		CHECK(!cuCtxDestroy_v2(context));
	}
	CHECK(!cuDevicePrimaryCtxRetain(&context, 0) && !cuCtxSetCurrent(context));
	warm_up();
	CHECK(!cuDevicePrimaryCtxReset_v2(0));
	CHECK(!cuDevicePrimaryCtxRetain(&context, 0) && !cuCtxSetCurrent(context));
	copy_and_check(9);
	warm_up();
	/* Ended while it registers, perhaps. */
	for (int i = 0; i < 5; i++) {
		CHECK(!cuDevicePrimaryCtxRelease_v2(0) && !cuDevicePrimaryCtxRetain(&context, 0));
		CHECK(!cuCtxSetCurrent(context));
		copy_and_check((uint64_t)(10 + i));
	}
}

static void *fork_often(void *stop)
{
	while (!*(_Atomic bool *)stop) {
		int status;
		pid_t pid = fork();

		if (!pid)
			_exit(0);
		CHECK(pid > 0 && waitpid(pid, &status, 0) == pid && !status);
		/* Long enough for memory that no child has: what one had comes to be small pages. */
		usleep(200000);
	}
	return NULL;
}

/* A child shares the pages until either writes: what the device writes is the parent's. */
static void forks(void)
{
	static _Atomic bool stop;
	pthread_t thread;

	start_cuda();
	warm_up();
	CHECK(!pthread_create(&thread, NULL, fork_often, &stop));
	for (int i = 0; i < 6; i++)
		copy_and_check((uint64_t)(20 + i));
	stop = true;
	CHECK(!pthread_join(thread, NULL));
}

/* ---- killed in the middle of copies to its memory: then others have its pages, and nothing may write there ---- */

#define DEVICE_BYTE 0xA5
#define OWN_WORD 0x5A5A5A5A5A5A5A5Aull
#define STRIDE 512

static void victim(size_t bytes, int ready)
{
	uint8_t *host;
	CUdeviceptr device;

	start_cuda();
	warm_up();
	host = memory(bytes, 0);
	device = device_memory(bytes);
	CHECK(!cuMemsetD8_v2(device, DEVICE_BYTE, bytes) && write(ready, "r", 1) == 1);
	for (;;)
		CHECK(!cuMemcpyDtoH_v2(host, device, bytes));
}

static void refill_and_watch(size_t bytes)
{
	uint8_t *p = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	CHECK(p != MAP_FAILED);
	madvise(p, bytes, MADV_HUGEPAGE);
	for (size_t i = 0; i < bytes; i += STRIDE)
		*(volatile uint64_t *)(p + i) = OWN_WORD;
	for (int look = 0; look < 3; look++) {
		for (size_t i = 0; i < bytes; i += STRIDE)
			CHECK(*(volatile uint64_t *)(p + i) == OWN_WORD);
		usleep(3000);
	}
	munmap(p, bytes);
}

static void killed(void)
{
	const size_t bytes = 64 * MIB;

	srand(1);
	for (int i = 0; i < 4; i++) {
		int ready[2], status;
		char c;
		pid_t pid;

		CHECK(!pipe(ready));
		pid = fork();
		if (!pid)
			victim(bytes, ready[1]);
		close(ready[1]);
		CHECK(pid > 0 && read(ready[0], &c, 1) == 1);
		close(ready[0]);
		usleep((useconds_t)(rand() % 30000));
		kill(pid, SIGKILL);
		CHECK(waitpid(pid, &status, 0) == pid && WIFSIGNALED(status));
		refill_and_watch(bytes);
	}
}

/* Copies without end, until its worker is gone: then it is told. */
static void worker_dies(void)
{
	const size_t bytes = 64 * MIB;
	uint8_t *host;
	CUdeviceptr device;
	CUresult result;

	start_cuda();
	warm_up();
	host = memory(bytes, 0);
	device = device_memory(bytes);
	puts("ready");
	do {
		result = cuMemcpyDtoH_v2(host, device, bytes);
	} while (!result);
	printf("CUDA error %d\n", (int)result);
	CHECK(result == CUDA_ERROR_LAUNCH_FAILED && !pinned_kib());
}

static const struct {
	const char *name;
	void (*run)(void);
} cases[] = {
	{"contents", contents}, {"read-only", read_only},     {"threads", threads},   {"fragmented", fragmented},
	{"limit", limit},       {"no-way", no_way},           {"contexts", contexts}, {"forks", forks},
	{"killed", killed},     {"worker-dies", worker_dies},
};

int main(int argc, char **argv)
{
	setvbuf(stdout, NULL, _IOLBF, 0);
	for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
		if (argc < 2) {
			puts(cases[i].name);
		} else if (!strcmp(argv[1], cases[i].name)) {
			cases[i].run();
			printf("warmed %u parts %u pieces %u blocks %u\n", warmed, parts, pieces, blocks);
			return 0;
		}
	}
	return argc < 2 ? 0 : 2;
}
