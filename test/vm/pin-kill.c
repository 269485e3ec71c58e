/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Pages outlive the DMA: a process is killed in the middle of asynchronous copies to (and from) its pinned memory,
 * again and again, and its pages are filled at once by another process. If the device wrote to a page after the kernel
 * had given it away, that process sees it.
 *
 * usage: pin-kill [ITERATIONS [MIB]]   exit status 0: nothing foreign seen; 1: seen; 77: no device here
 */
#include <dlfcn.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "protocol/cuda-abi.h"
#include "test/seed.h"

#define CHECK_END() _exit(1)
#include "test/check.h"

#define DEVICE_BYTE 0xA5
#define OWN_WORD 0x5A5A5A5A5A5A5A5Aull

#define NO_DEVICE 77

#define FUNCTION(result, name, parameters) \
	result(*name) parameters = (result(*) parameters)dlsym(library, #name)

/* Copies without end between device memory and pinned memory; says so on `ready` once the first is under way. */
static void victim(size_t bytes, int to_host, int ready)
{
	void *library = dlopen("libcuda.so.1", RTLD_NOW), *host;
	CUcontext context;
	CUdeviceptr device;

	if (!library) {
		fprintf(stderr, "pin-kill: %s\n", dlerror());
		_exit(1);
	}
	FUNCTION(CUresult, cuInit, (unsigned int));
	FUNCTION(CUresult, cuDevicePrimaryCtxRetain, (CUcontext *, CUdevice));
	FUNCTION(CUresult, cuCtxSetCurrent, (CUcontext));
	FUNCTION(CUresult, cuMemAlloc_v2, (CUdeviceptr *, size_t));
	FUNCTION(CUresult, cuMemHostAlloc, (void **, size_t, unsigned int));
	FUNCTION(CUresult, cuMemsetD8_v2, (CUdeviceptr, unsigned char, size_t));
	FUNCTION(CUresult, cuMemcpyDtoHAsync_v2, (void *, CUdeviceptr, size_t, CUstream));
	FUNCTION(CUresult, cuMemcpyHtoDAsync_v2, (CUdeviceptr, const void *, size_t, CUstream));
	FUNCTION(CUresult, cuCtxSynchronize, (void));

	if (cuInit(0) != CUDA_SUCCESS)
		_exit(NO_DEVICE);
	OK(cuDevicePrimaryCtxRetain(&context, 0));
	OK(cuCtxSetCurrent(context));
	OK(cuMemHostAlloc(&host, bytes, 0));
	OK(cuMemAlloc_v2(&device, bytes));
	OK(cuMemsetD8_v2(device, DEVICE_BYTE, bytes));
	OK(cuCtxSynchronize());
	for (int i = 0;; i++) {
		if (to_host)
			OK(cuMemcpyDtoHAsync_v2(host, device, bytes, NULL));
		else
			OK(cuMemcpyHtoDAsync_v2(device, host, bytes, NULL));
		if (i == 0 && write(ready, "r", 1) != 1)
			_exit(1);
		if (i % 4 == 3)
			OK(cuCtxSynchronize());
	}
}

/* One word in so many bytes is written and watched: a copy engine writes whole pages, in order. */
#define STRIDE 512

/* The first word that is not ours, or -1. */
static long foreign(const uint8_t *p, size_t bytes)
{
	for (size_t i = 0; i < bytes; i += STRIDE)
		if (*(const volatile uint64_t *)(p + i) != OWN_WORD)
			return (long)i;
	return -1;
}

/* Takes the pages that the victim lost and watches them for a while. */
static int refill_and_watch(size_t bytes, int iteration)
{
	uint8_t *p = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	long at = -1;

	if (p == MAP_FAILED) {
		perror("pin-kill: mmap");
		return 1;
	}
	madvise(p, bytes, MADV_HUGEPAGE);
	for (size_t i = 0; i < bytes; i += STRIDE)
		*(volatile uint64_t *)(p + i) = OWN_WORD;
	for (int look = 0; look < 3 && at < 0; look++) {
		at = foreign(p, bytes);
		usleep(3000);
	}
	if (at >= 0)
		printf("pin-kill: iteration %d: foreign byte 0x%02x at offset %ld\n", iteration, p[at], at);
	munmap(p, bytes);
	return at >= 0;
}

static int iterate(size_t bytes, int iteration)
{
	int ready[2], status = 0;
	char c;
	pid_t pid;

	if (pipe(ready))
		return 1;
	pid = fork();
	if (pid == 0)
		victim(bytes, iteration % 2, ready[1]);
	close(ready[1]);
	if (pid < 0 || read(ready[0], &c, 1) != 1) {
		close(ready[0]);
		waitpid(pid, &status, 0);
		return WIFEXITED(status) ? WEXITSTATUS(status) : 1;
	}
	close(ready[0]);
	usleep((useconds_t)(rand() % 4000));
	kill(pid, SIGKILL);
	waitpid(pid, &status, 0);
	return refill_and_watch(bytes, iteration);
}

int main(int argc, char **argv)
{
	int iterations = argc > 1 ? atoi(argv[1]) : 10;
	size_t bytes = (size_t)(argc > 2 ? atoi(argv[2]) : 64) << 20;

	srand(test_seed());
	for (int i = 0; i < iterations; i++) {
		int result = iterate(bytes, i);

		if (result) {
			printf("pin-kill: %s after %d iterations\n", result == NO_DEVICE ? "no device" : "FAILED", i);
			return result;
		}
	}
	printf("pin-kill: %d processes killed in the middle of copies of %zu MiB, no foreign write seen\n", iterations, bytes >> 20);
	return 0;
}
