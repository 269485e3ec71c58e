/* SPDX-License-Identifier: Apache-2.0 */
/* Probes: many registrations, threads, forks, and memory that is replaced by other memory at its address. */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "registration.h"

#define ARRAYS 50
#define ARRAY_BYTES 1200
#define PAGE 4096u

/* `stride`: the array that is unregistered next; no divisor of ARRAYS. */
static void many(const char *variant, size_t stride)
{
	uint8_t *arrays[ARRAYS];

	probe_begin("50 arrays", variant);
	for (size_t i = 0; i < ARRAYS; i++) {
		arrays[i] = malloc(ARRAY_BYTES);
		GIVES(cuMemHostRegister_v2(arrays[i], ARRAY_BYTES, 0), 0);
	}
	for (size_t i = 0; i < ARRAYS; i++)
		probe_use(arrays[i], ARRAY_BYTES);
	for (size_t i = 0, k = 0; i < ARRAYS; i++, k = (k + stride) % ARRAYS) {
		GIVES(cuMemHostUnregister(arrays[k]), 0);
		free(arrays[k]);
		arrays[k] = NULL;
		for (size_t j = 0; j < ARRAYS && i % 10 == 0; j++)
			if (arrays[j])
				probe_use(arrays[j], ARRAY_BYTES);
	}
}

/* Whole pages of a registration that is over are not the worker's any more, though a neighbour's page is. */
static void replaced(void)
{
	uint8_t *p = mmap(NULL, 4 * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	probe_begin("replaced", "whole pages beside a registration");
	GIVES(cuMemHostRegister_v2(p, 3 * PAGE + 100, 0), 0);
	GIVES(cuMemHostRegister_v2(p + 3 * PAGE + 100, 200, 0), 0);
	GIVES(cuMemHostUnregister(p), 0);
	EXPECT(mmap(p, 3 * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0) == p);
	GIVES(cuMemHostRegister_v2(p, 3 * PAGE + 50, 0), 0);
	probe_use(p, 3 * PAGE + 50);
	probe_use(p + 3 * PAGE + 100, 200);
	GIVES(cuMemHostUnregister(p), 0);
	GIVES(cuMemHostUnregister(p + 3 * PAGE + 100), 0);
	munmap(p, 4 * PAGE);
}

static void wait_for(pid_t child)
{
	int status = -1;

	EXPECT(child > 0 && waitpid(child, &status, 0) == child && status == 0);
}

/* The child changes memory beside a registration; the parent does not see it, and its registration goes on. */
static void fork_beside(const char *variant, uint8_t *page)
{
	uint8_t beside;
	pid_t child;

	probe_begin("fork", variant);
	memset(page, 3, PAGE);
	GIVES(cuMemHostRegister_v2(page + 1000, 1200, 0), 0);
	GIVES(cuMemHostRegister_v2(page + 2200, 100, 0), 0);
	probe_use(page + 1000, 1200);
	for (int i = 0; i < 3; i++) {
		beside = page[10];
		child = fork();
		if (!child) {
			bool same = page[10] == beside && page[3000] == 3;

			page[10]++;
			memset(page + 3000, 9, 1000);
			/* and one of its own */
			if (fork() == 0)
				_exit(0);
			while (wait(NULL) > 0)
				;
			_exit(same && page[3500] == 9 ? 0 : 1);
		}
		wait_for(child);
		EXPECT(page[10] == beside && page[3000] == 3);
		page[10]++;
		probe_use(page + 1000, 1200);
		probe_use(page + 2200, 100);
	}
	GIVES(cuMemHostUnregister(page + 1000), 0);
	GIVES(cuMemHostUnregister(page + 2200), 0);
	EXPECT(page[10] == 6 && page[3999] == 3);
}

/* Frames of this function and of those below lie on the pages that are registered. */
static void __attribute__((noinline)) fork_on_stack(int depth)
{
	volatile uint8_t array[600];
	pid_t child;

	memset((uint8_t *)array, depth, sizeof(array));
	GIVES(cuMemHostRegister_v2((uint8_t *)array, sizeof(array), 0), 0);
	if (depth)
		fork_on_stack(depth - 1);
	child = fork();
	if (!child)
		_exit(array[0] == array[599] ? 0 : 1);
	wait_for(child);
	probe_use((uint8_t *)array, sizeof(array));
	GIVES(cuMemHostUnregister((uint8_t *)array), 0);
}

static void *fork_on_other_stack(void *context)
{
	GIVES(cuCtxSetCurrent(context), 0);
	fork_on_stack(8);
	return NULL;
}

#define THREADS 4

static uint8_t *common;
static pthread_barrier_t barrier;

/* Each thread registers pieces of pages that all have pieces of. */
static void *registers(void *number)
{
	uint8_t *own = common + (size_t)(uintptr_t)number * 500;
	uintptr_t failed = 0;

	for (int i = 0; i < 100; i++) {
		pthread_barrier_wait(&barrier);
		failed |= cuMemHostRegister_v2(own, 500, 0) != CUDA_SUCCESS;
		failed |= cuMemHostRegister_v2(own, 500, 0) != CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED;
		failed |= cuMemHostUnregister(own) != CUDA_SUCCESS;
	}
	return (void *)failed;
}

static void *registers_in(void *argument)
{
	void **a = argument;

	if (cuCtxSetCurrent(a[0]) != CUDA_SUCCESS)
		return (void *)1;
	return registers(a[1]);
}

static void threads(CUcontext context)
{
	void *arguments[THREADS][2], *failed;
	pthread_t all[THREADS];

	probe_begin("threads", "on common pages");
	common = aligned_alloc(PAGE, 2 * PAGE);
	memset(common, 7, 2 * PAGE);
	pthread_barrier_init(&barrier, NULL, THREADS);
	for (size_t i = 0; i < THREADS; i++) {
		arguments[i][0] = context;
		arguments[i][1] = (void *)(i + 5);
		EXPECT(pthread_create(&all[i], NULL, registers_in, arguments[i]) == 0);
	}
	for (size_t i = 0; i < THREADS; i++)
		EXPECT(pthread_join(all[i], &failed) == 0 && !failed);
	for (size_t i = 0; i < 2 * PAGE; i++)
		EXPECT(common[i] == 7);
	free(common);
}

/* The end of a context ends its registrations. */
static void context_ends(CUcontext first)
{
	uint8_t *p = aligned_alloc(PAGE, PAGE);
	CUcontext other;

	probe_begin("context", "that ends with registrations");
	GIVES(cuMemHostRegister_v2(p, 100, 0), 0);
	GIVES(cuCtxCreate_v2(&other, 0, 0), 0);
	GIVES(cuMemHostRegister_v2(p + 100, 100, 0), 0);
	GIVES(cuCtxDestroy_v2(other), 0);
	GIVES(cuCtxSetCurrent(first), 0);
	GIVES(cuMemHostRegister_v2(p + 100, 300, 0), 0);
	probe_use(p, 100);
	probe_use(p + 100, 300);
	GIVES(cuMemHostUnregister(p), 0);
	GIVES(cuMemHostUnregister(p + 100), 0);
	free(p);
}

void probe_life(void)
{
	uint8_t *heap = malloc(3 * PAGE), *page = heap + PAGE - (uintptr_t)heap % PAGE;
	uint8_t *mapped = mmap(NULL, PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	CUcontext context;
	pthread_t thread;

	GIVES(cuCtxGetCurrent(&context), 0);
	many("in order", 1);
	many("backwards", ARRAYS - 1);
	many("mixed", 7);
	replaced();
	fork_beside("beside the heap", page);
	fork_beside("beside mapped memory", mapped);
	probe_begin("fork", "on the stack");
	fork_on_stack(8);
	probe_begin("fork", "on a thread's stack");
	EXPECT(pthread_create(&thread, NULL, fork_on_other_stack, context) == 0 && pthread_join(thread, NULL) == 0);
	threads(context);
	context_ends(context);
	free(heap);
	munmap(mapped, PAGE);
}
