/* SPDX-License-Identifier: Apache-2.0 */
/* vcuda-checkpoint: protocol/ipc/checkpoint.h. */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>

#include "common/log.h"
#include "driver.h"
#include "protocol/ipc/checkpoint.h"

const struct vcuda_log_program vcuda_log_program = {.name = "vcuda-checkpoint"};

/* The number of the process behind the pidfd; -1: it is gone, or there is no pidfd. */
static pid_t process_of_pidfd(void)
{
	char path[64], line[128];
	int process = -1;
	FILE *file;

	snprintf(path, sizeof(path), "/proc/self/fdinfo/%d", VCUDA_CHECKPOINT_FD);
	file = fopen(path, "re");
	while (file && fgets(line, sizeof(line), file))
		if (sscanf(line, "Pid: %d", &process) == 1)
			break;
	if (file)
		fclose(file);
	return process;
}

static bool parse_device(const char *text, unsigned int *device)
{
	char *end;
	unsigned long number = strtoul(text, &end, 10);

	*device = (unsigned int)number;
	return *text >= '0' && *text <= '9' && !*end && number < 1000;
}

static bool run(int argc, char **argv, pid_t process, bool *done)
{
	unsigned int from, to;

	if (argc == 2 && !strcmp(argv[1], "release"))
		*done = driver_open() && driver_release(process);
	else if (argc == 2 && !strcmp(argv[1], "restore"))
		*done = driver_open() && driver_restore(process);
	else if (argc == 4 && !strcmp(argv[1], "restore") && parse_device(argv[2], &from) && parse_device(argv[3], &to))
		*done = driver_open() && driver_move(process, from, to);
	else
		return false;
	return true;
}

int main(int argc, char **argv)
{
	pid_t process = process_of_pidfd();
	bool done = false;

	prctl(PR_SET_PDEATHSIG, SIGKILL);
	if (process <= 0 || !run(argc, argv, process, &done))
		vcuda_log("usage: vcuda-checkpoint release, or restore [FROM TO], with a pidfd as descriptor %d",
			  VCUDA_CHECKPOINT_FD);
	return done ? VCUDA_CHECKPOINT_DONE : VCUDA_CHECKPOINT_REFUSED;
}
