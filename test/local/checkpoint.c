/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Makes calls of cuCheckpointProcess*() on a process, as NVIDIA's utility of that name does, and prints the result of
 * each, or "state N", or "thread N". `self` is the calling process, which then also computes.
 *
 * With `utility` it does as NVIDIA's program does, whose arguments follow.
 *
 * usage: checkpoint utility ARGUMENT...
 *        checkpoint PID|self ACTION...    state, lock[=MS], checkpoint, restore, unlock, thread, reserved, pairs,
 *                                         user=UID (prints nothing: the next calls are that user's)
 */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "protocol/cuda-functions.h"

static CUresult reserved(int pid)
{
	CUcheckpointLockArgs lock = {.reserved0 = 1}, more = {.reserved1 = {[6] = 1}};
	CUcheckpointCheckpointArgs checkpoint = {.reserved = {[7] = 1}};
	CUcheckpointRestoreArgs restore = {.reserved1 = 1};
	CUcheckpointUnlockArgs unlock = {.reserved = {1}};
	CUresult results[] = {cuCheckpointProcessLock(pid, &lock),
			      cuCheckpointProcessLock(pid, &more),
			      cuCheckpointProcessCheckpoint(pid, &checkpoint),
			      cuCheckpointProcessRestore(pid, &restore),
			      cuCheckpointProcessUnlock(pid, &unlock),
			      cuCheckpointProcessGetState(pid, NULL),
			      cuCheckpointProcessGetRestoreThreadId(pid, NULL)};

	for (size_t i = 0; i < sizeof(results) / sizeof(*results); i++)
		if (results[i] != CUDA_ERROR_INVALID_VALUE)
			return CUDA_SUCCESS;
	if (cuCheckpointProcessLock(-1, NULL) != CUDA_ERROR_OPERATING_SYSTEM ||
	    cuCheckpointProcessUnlock(0, NULL) != CUDA_ERROR_OPERATING_SYSTEM)
		return CUDA_SUCCESS;
	return CUDA_ERROR_INVALID_VALUE;
}

static CUresult pairs(int pid)
{
	CUcheckpointGpuPair pair = {0};
	CUcheckpointRestoreArgs restore = {.gpuPairs = &pair, .gpuPairsCount = 1};

	return cuCheckpointProcessRestore(pid, &restore);
}

static CUresult lock(int pid, const char *action)
{
	CUcheckpointLockArgs arguments = {.timeoutMs = action[4] ? (unsigned int)atoi(action + 5) : 0};

	return cuCheckpointProcessLock(pid, action[4] ? &arguments : NULL);
}

static CUresult act(int pid, const char *action)
{
	CUcheckpointCheckpointArgs checkpoint = {0};
	CUcheckpointRestoreArgs restore = {0};
	CUcheckpointUnlockArgs unlock = {0};

	if (!strncmp(action, "lock", 4))
		return lock(pid, action);
	if (!strcmp(action, "checkpoint"))
		return cuCheckpointProcessCheckpoint(pid, &checkpoint);
	if (!strcmp(action, "restore"))
		return cuCheckpointProcessRestore(pid, &restore);
	if (!strcmp(action, "unlock"))
		return cuCheckpointProcessUnlock(pid, &unlock);
	if (!strcmp(action, "pairs"))
		return pairs(pid);
	return reserved(pid);
}

static void say_state(int pid)
{
	CUprocessState state;
	CUresult result = cuCheckpointProcessGetState(pid, &state);

	if (result)
		printf("%d\n", (int)result);
	else
		printf("state %d\n", (int)state);
}

static void say_thread(int pid)
{
	int thread = 0;
	CUresult result = cuCheckpointProcessGetRestoreThreadId(pid, &thread);

	if (result)
		printf("%d\n", (int)result);
	else
		printf("thread %d\n", thread);
}

/* Whether the memory has `value` still: then it gets `next`. */
static int compute(CUdeviceptr memory, uint32_t value, uint32_t next)
{
	uint32_t there = 0;

	return cuMemcpyDtoH_v2(&there, memory, sizeof(there)) || there != value ||
	       cuMemcpyHtoD_v2(memory, &next, sizeof(next));
}

static int utility(int argc, char **argv)
{
	static const CUuuid uuid = {
		{0x69, 0xa2, 0x8e, 0x9f, 0x24, 0x49, 0x8b, 0x47, 0xb0, 0x30, 0xc5, 0xda, 0x33, 0x0e, 0xa4, 0xe9}};
	const void *table = NULL;
	int (*run)(int, char **);

	if (cuGetExportTable(&table, &uuid) || *(const size_t *)table < 8 * sizeof(void *))
		return 5;
	run = ((int (*const *)(int, char **))table)[7];
	return run(argc, argv);
}

int main(int argc, char **argv)
{
	int pid = argc < 2 ? 0 : !strcmp(argv[1], "self") ? getpid() : atoi(argv[1]);
	CUdeviceptr memory = 0;
	CUcontext context;

	if (argc > 1 && !strcmp(argv[1], "utility"))
		return utility(argc - 1, argv + 1);
	/* As NVIDIA's utility it needs no cuInit for another process. */
	if (pid == getpid() && (cuInit(0) || cuDevicePrimaryCtxRetain(&context, 0) || cuCtxSetCurrent(context) ||
				cuMemAlloc_v2(&memory, sizeof(uint32_t)) || cuMemsetD32_v2(memory, 1, 1)))
		return 3;
	for (int i = 2; i < argc; i++) {
		if (!strncmp(argv[i], "user=", 5)) {
			uid_t user = (uid_t)atoi(argv[i] + 5);

			if (setresgid(user, user, user) || setresuid(user, user, user))
				return 4;
		} else if (!strcmp(argv[i], "state")) {
			say_state(pid);
		} else if (!strcmp(argv[i], "thread")) {
			say_thread(pid);
		} else {
			printf("%d\n", (int)act(pid, argv[i]));
		}
	}
	return memory && (compute(memory, 1, 2) || compute(memory, 2, 3)) ? 2 : 0;
}
