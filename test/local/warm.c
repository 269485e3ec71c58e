/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A program cannot distinguish a worker that was started before it from a new one.
 *
 * usage: warm retain|own|flags|query [ROUNDS]
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "protocol/cuda-functions.h"
#include "test/check.h"

static int rounds = 100;

static void state(unsigned int wanted_flags, int wanted)
{
	unsigned int flags;
	int active;

	OK(cuDevicePrimaryCtxGetState(0, &flags, &active));
	if (active != wanted || (wanted_flags != ~0u && flags != wanted_flags)) {
		printf("flags %#x and active %d, not %#x and %d\n", flags, active, wanted_flags, wanted);
		exit(1);
	}
}

static void say_memory(void)
{
	size_t available, total;

	OK(cuMemGetInfo_v2(&available, &total));
	printf("%zu of %zu bytes\n", available, total);
}

static void retain(unsigned int flags)
{
	unsigned int now;
	CUcontext context;

	OK(cuDevicePrimaryCtxRetain(&context, 0));
	state(~0u, 1);
	OK(cuCtxPushCurrent_v2(context));
	OK(cuCtxGetFlags(&now));
	if ((now & 7) != flags) {
		printf("the context has flags %#x, not %#x\n", now, flags);
		exit(1);
	}
	say_memory();
	OK(cuCtxPopCurrent_v2(&context));
	/* A GPU's driver takes 160 ms for each. */
	for (int i = 0; i < rounds; i++) {
		OK(cuDevicePrimaryCtxRelease_v2(0));
		state(~0u, 0);
		OK(cuDevicePrimaryCtxRetain(&context, 0));
		state(~0u, 1);
	}
}

int main(int argc, char **argv)
{
	const char *part = argc > 1 ? argv[1] : "";
	CUcontext context;

	if (argc > 2)
		rounds = atoi(argv[2]);
	OK(cuInit(0));
	state(0, 0);
	if (cuDevicePrimaryCtxRelease_v2(0) != CUDA_ERROR_INVALID_CONTEXT) {
		puts("a context that nobody retained was released");
		return 1;
	}
	if (!strcmp(part, "retain")) {
		retain(0);
	} else if (!strcmp(part, "flags")) {
		OK(cuDevicePrimaryCtxSetFlags_v2(0, CU_CTX_SCHED_BLOCKING_SYNC));
		state(CU_CTX_SCHED_BLOCKING_SYNC, 0);
		retain(CU_CTX_SCHED_BLOCKING_SYNC);
	} else if (!strcmp(part, "own")) {
		OK(cuCtxCreate_v2(&context, 0, 0));
		state(0, 0);
		say_memory();
	}
	printf("%s: passed\n", part);
	return 0;
}
