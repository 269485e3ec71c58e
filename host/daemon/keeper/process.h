/* SPDX-License-Identifier: Apache-2.0 */
/* The process of a keeper: in the sandbox of workers, with a pipe for its log. All functions belong to the loop's
 * thread. */
#ifndef VCUDA_DAEMON_KEEPER_PROCESS_H
#define VCUDA_DAEMON_KEEPER_PROCESS_H

#include "loop/helper.h"
#include "options/options.h"
#include "worker/worker-log.h"

struct daemon_keeper_process {
	struct daemon_helper helper;
	struct daemon_worker_log log;
	/* Called once after a start, when the process has been waited for. */
	void (*ended)(struct daemon_keeper_process *process, const siginfo_t *info);
};

/*
 * Starts vcuda-keeper (options->keeper) for a local user, or for the VM. *socket is set to vcudad's end of the
 * connection, which is the caller's. 0 or -errno: nothing runs, and `ended` is not called.
 */
int daemon_keeper_process_start(struct daemon_keeper_process *process, struct daemon_loop *loop,
				const struct daemon_options *options, bool local, int *socket,
				void (*ended)(struct daemon_keeper_process *process, const siginfo_t *info));

/* Kills the process; `ended` is called later. */
void daemon_keeper_process_kill(struct daemon_keeper_process *process);

/* The same, and `ended` is not called: vcudad ends. */
void daemon_keeper_process_close(struct daemon_keeper_process *process);

#endif
