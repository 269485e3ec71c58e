/* SPDX-License-Identifier: Apache-2.0 */
/* vcuda-checkpoint: protocol/ipc/checkpoint.h. */
#include <signal.h>
#include <stdio.h>
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

int main(int argc, char **argv)
{
	bool releases = argc == 2 && !strcmp(argv[1], "release");
	pid_t process = process_of_pidfd();

	prctl(PR_SET_PDEATHSIG, SIGKILL);
	if ((!releases && (argc != 2 || strcmp(argv[1], "restore"))) || process <= 0) {
		vcuda_log("usage: vcuda-checkpoint release|restore, with a pidfd as descriptor %d",
			  VCUDA_CHECKPOINT_FD);
		return VCUDA_CHECKPOINT_REFUSED;
	}
	if (!driver_open())
		return VCUDA_CHECKPOINT_REFUSED;
	return (releases ? driver_release(process) : driver_restore(process)) ? VCUDA_CHECKPOINT_DONE
									      : VCUDA_CHECKPOINT_REFUSED;
}
