/* SPDX-License-Identifier: Apache-2.0 */
/*
 * NVIDIA's driver for programs that ask for the GPUs' addresses (two GPUs, in another order than their addresses), and
 * for checkpoints of other processes.
 */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

int cuInit(unsigned int flags)
{
	return 0;
}

int cuDeviceGetCount(int *count)
{
	*count = 2;
	return 0;
}

int cuDeviceGetPCIBusId(char *id, int length, int device)
{
	snprintf(id, (size_t)length, "0000:%02d:00.0", 9 - device);
	return 0;
}

/*
 * Checkpoints of other processes. VCUDA_TEST_CHECKPOINTS names a folder with the state of each process, in a file that
 * its number names. A file refuse-CALL has the call fail, crash-CALL kills the caller before the state changes, and
 * hang-CALL holds it.
 */
enum { RUNNING, LOCKED, CHECKPOINTED };

static int is_wanted(const char *how, const char *call)
{
	char path[4096];

	snprintf(path, sizeof(path), "%s/%s-%s", getenv("VCUDA_TEST_CHECKPOINTS"), how, call);
	return !access(path, F_OK);
}

static void name_file(int process, char *path, size_t size)
{
	snprintf(path, size, "%s/%d", getenv("VCUDA_TEST_CHECKPOINTS"), process);
}

int cuCheckpointProcessGetState(int process, unsigned int *state)
{
	char path[4096];
	FILE *file;

	name_file(process, path, sizeof(path));
	file = fopen(path, "r");
	if (!file || fscanf(file, "%u", state) != 1)
		*state = RUNNING;
	if (file)
		fclose(file);
	return 0;
}

static int change(int process, const char *call, unsigned int from, unsigned int to)
{
	char path[4096];
	unsigned int state;
	FILE *file;

	cuCheckpointProcessGetState(process, &state);
	if (state != from)
		return 401;
	if (is_wanted("refuse", call))
		return 304;
	if (is_wanted("crash", call))
		raise(SIGKILL);
	while (is_wanted("hang", call))
		usleep(10000);
	name_file(process, path, sizeof(path));
	file = fopen(path, "w");
	fprintf(file, "%u", to);
	fclose(file);
	return 0;
}

int cuCheckpointProcessLock(int process, void *arguments)
{
	return change(process, "lock", RUNNING, LOCKED);
}

int cuCheckpointProcessCheckpoint(int process, void *arguments)
{
	return change(process, "checkpoint", LOCKED, CHECKPOINTED);
}

int cuDeviceGetUuid_v2(unsigned char uuid[16], int device)
{
	memset(uuid, 0, 16);
	uuid[0] = (unsigned char)('a' + device);
	return 0;
}

/* The first members of CUcheckpointRestoreArgs. */
struct restore_arguments {
	const unsigned char (*pairs)[2][16];
	unsigned int count;
};

/* As driver 580 does: each device is in the list once, on both sides. The file moved-PROCESS has the list. */
static int move(int process, const struct restore_arguments *arguments)
{
	char path[4096];
	int seen[2] = {0, 0};
	FILE *file;

	if (arguments->count != 2)
		return 1;
	for (unsigned int i = 0; i < 2; i++)
		seen[arguments->pairs[i][1][0] == 'b']++;
	if (seen[0] != 1 || seen[1] != 1)
		return 1;
	snprintf(path, sizeof(path), "%s/moved-%d", getenv("VCUDA_TEST_CHECKPOINTS"), process);
	file = fopen(path, "a");
	for (unsigned int i = 0; i < 2; i++)
		fprintf(file, "%c%c ", arguments->pairs[i][0][0], arguments->pairs[i][1][0]);
	fclose(file);
	return 0;
}

int cuCheckpointProcessRestore(int process, const struct restore_arguments *arguments)
{
	int refused = arguments ? move(process, arguments) : 0;

	return refused ? refused : change(process, "restore", CHECKPOINTED, LOCKED);
}

int cuCheckpointProcessUnlock(int process, void *arguments)
{
	return change(process, "unlock", LOCKED, RUNNING);
}

int cuGetErrorName(int error, const char **name)
{
	*name = error == 1     ? "CUDA_ERROR_INVALID_VALUE"
		: error == 304 ? "CUDA_ERROR_OPERATING_SYSTEM"
			       : "CUDA_ERROR_ILLEGAL_STATE";
	return 0;
}
