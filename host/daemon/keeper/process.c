/* SPDX-License-Identifier: Apache-2.0 */
#include "keeper/process.h"

#include <unistd.h>

#include "common/descriptors.h"
#include "common/share-keeper.h"
#include "worker/launch.h"

static void ended(struct daemon_helper *helper, const siginfo_t *info)
{
	struct daemon_keeper_process *process = container_of(helper, struct daemon_keeper_process, helper);

	/* Log the keeper's last output before the line about its end. */
	daemon_worker_log_close(&process->log);
	process->ended(process, info);
}

static int launch(struct daemon_keeper_process *process, const struct daemon_options *options, bool local, int socket,
		  int log)
{
	pid_t pid;
	int status = daemon_launch_keeper(options, local, socket, log, &pid);

	if (!status)
		status = daemon_helper_adopt(&process->helper, pid);
	if (!status)
		daemon_worker_log_start(&process->log, "vcuda-keeper", pid);
	return status;
}

int daemon_keeper_process_start(struct daemon_keeper_process *process, struct daemon_loop *loop,
				const struct daemon_options *options, bool local, int *socket,
				void (*call)(struct daemon_keeper_process *process, const siginfo_t *info))
{
	/* Where both numbers are the same the child would lose the descriptor. */
	int ends[2], log, status = vcuda_descriptors_pair(VCUDA_KEEPER_FD + 1, ends);

	if (status)
		return status;
	process->ended = call;
	daemon_helper_init(&process->helper, loop, ended);
	status = daemon_worker_log_open(&process->log, loop, &log);
	if (!status) {
		status = launch(process, options, local, ends[1], log);
		close(log);
		if (status)
			daemon_worker_log_close(&process->log);
	}
	close(ends[1]);
	if (status)
		close(ends[0]);
	else
		*socket = ends[0];
	return status;
}

void daemon_keeper_process_kill(struct daemon_keeper_process *process)
{
	daemon_helper_kill(&process->helper);
}

void daemon_keeper_process_close(struct daemon_keeper_process *process)
{
	daemon_helper_close(&process->helper);
	daemon_worker_log_close(&process->log);
}
