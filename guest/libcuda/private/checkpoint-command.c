/* SPDX-License-Identifier: Apache-2.0 */
#include "private/checkpoint-command.h"

#include <getopt.h>
#include <limits.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/checkpoint.h"
#include "protocol/cuda-functions.h"

#define FAILED 1

CUresult cuGetErrorString(CUresult error, const char **text);

struct command {
	const char *action; /* "lock" and so on, "get-state", "toggle", "get-restore-tid"; NULL: none is given */
	int pid;            /* 0: none is given */
	unsigned int timeout;
	bool help;
};

static const char usage[] =
	"usage: cuda-checkpoint --get-state --pid PID\n"
	"       cuda-checkpoint --action lock|checkpoint|restore|unlock --pid PID [--timeout MS]\n"
	"       cuda-checkpoint --toggle --pid PID [--timeout MS]\n"
	"\n"
	"Tells or changes the state of a process that computes with virtio-cuda. Its device memory is free for others\n"
	"while it is checkpointed.\n";

static int fail(const struct command *command, CUresult result)
{
	const char *text = "unknown error";

	cuGetErrorString(result, &text);
	fprintf(stderr, "cuda-checkpoint: %s of process %d failed: %s (CUDA error %d)\n", command->action, command->pid,
		text, (int)result);
	return FAILED;
}

static CUresult lock(const struct command *command)
{
	return libcuda_checkpoint_step(command->pid, VCUDA_PROCESS_LOCK, command->timeout);
}

static CUresult checkpoint(const struct command *command)
{
	return libcuda_checkpoint_step(command->pid, VCUDA_PROCESS_CHECKPOINT, 0);
}

static CUresult restore(const struct command *command)
{
	return libcuda_checkpoint_step(command->pid, VCUDA_PROCESS_RESTORE, 0);
}

static CUresult unlock(const struct command *command)
{
	return libcuda_checkpoint_step(command->pid, VCUDA_PROCESS_UNLOCK, 0);
}

static CUresult suspend(const struct command *command)
{
	CUresult result = lock(command);

	if (result)
		return result;
	result = checkpoint(command);
	if (result)
		unlock(command);
	return result;
}

static CUresult wake(const struct command *command)
{
	CUresult result = restore(command);

	return result ? result : unlock(command);
}

static CUresult toggle(const struct command *command)
{
	CUprocessState state;
	CUresult result = libcuda_checkpoint_state(command->pid, &state);

	if (result)
		return result;
	if (state == CU_PROCESS_STATE_RUNNING)
		return suspend(command);
	return state == CU_PROCESS_STATE_CHECKPOINTED ? wake(command) : CUDA_ERROR_ILLEGAL_STATE;
}

static CUresult say_state(const struct command *command)
{
	static const char *const names[] = {"running", "locked", "checkpointed", "failed"};
	CUprocessState state;
	CUresult result = libcuda_checkpoint_state(command->pid, &state);

	if (!result)
		puts(names[state]);
	return result;
}

static CUresult say_restore_thread(const struct command *command)
{
	int thread;
	CUresult result = libcuda_checkpoint_thread(command->pid, &thread);

	if (!result)
		printf("%d\n", thread);
	return result;
}

static const struct {
	const char *name;
	CUresult (*act)(const struct command *command);
} actions[] = {
	{"lock", lock},
	{"checkpoint", checkpoint},
	{"restore", restore},
	{"unlock", unlock},
	{"get-state", say_state},
	{"toggle", toggle},
	{"get-restore-tid", say_restore_thread},
};

static bool parse_number(const char *text, long most, long *number)
{
	char *end;

	*number = strtol(text, &end, 10);
	return end != text && !*end && *number > 0 && *number <= most;
}

/* False: there is a mistake, and standard error has it. */
static bool parse(int argc, char **argv, struct command *command)
{
	static const struct option options[] = {
		{"get-state", no_argument, NULL, 's'},
		{"toggle", no_argument, NULL, 's'},
		{"get-restore-tid", no_argument, NULL, 's'},
		{"action", required_argument, NULL, 'a'},
		{"pid", required_argument, NULL, 'p'},
		{"timeout", required_argument, NULL, 't'},
		{"help", no_argument, NULL, 'h'},
		{0},
	};
	long number;
	int option, index = 0;

	optind = 1;
	while ((option = getopt_long(argc, argv, "p:t:h", options, &index)) != -1) {
		if (option == '?' || (strchr("sa", option) && command->action))
			return false;
		if (option == 's')
			command->action = options[index].name;
		else if (option == 'a')
			command->action = optarg;
		else if (option == 'h')
			command->help = true;
		else if (!parse_number(optarg, INT_MAX, &number))
			return false;
		else if (option == 'p')
			command->pid = (int)number;
		else
			command->timeout = (unsigned int)number;
	}
	return optind == argc && (command->help || (command->action && command->pid));
}

int libcuda_checkpoint_command(int argc, char **argv)
{
	struct command command = {0};

	if (!parse(argc, argv, &command)) {
		fputs(usage, stderr);
		return FAILED;
	}
	if (command.help) {
		fputs(usage, stdout);
		return 0;
	}
	for (size_t i = 0; i < sizeof(actions) / sizeof(*actions); i++) {
		if (!strcmp(actions[i].name, command.action)) {
			CUresult result = actions[i].act(&command);

			return result ? fail(&command, result) : 0;
		}
	}
	fprintf(stderr, "cuda-checkpoint: there is no action %s\n%s", command.action, usage);
	return FAILED;
}
