/* SPDX-License-Identifier: Apache-2.0 */
/* Starts the programs of workers and keepers. */
#ifndef VCUDA_LAUNCH_H
#define VCUDA_LAUNCH_H

#include <stdbool.h>
#include <sys/types.h>

#include "options/options.h"
#include "worker/worker-group.h"

/* The worker serves a local client, a process of the VM, or a process that comes later. */
enum daemon_launch_kind { DAEMON_LAUNCH_LOCAL, DAEMON_LAUNCH_VIRTIO, DAEMON_LAUNCH_WARM, DAEMON_LAUNCH_WARM_QUIET };

/*
 * Runs the worker program with `log` as its stdout and stderr, `channel` as its descriptor VCUDA_CHANNEL_FD, the worker
 * table as VCUDA_WORKER_TABLE_FD, `ledger` as VCUDA_LEDGER_FD, `gate` as VCUDA_GATE_FD and no other descriptor of vcudad, with default
 * signals and only the environment that concerns the worker. `ledger` and `gate` have their numbers or higher ones. The
 * worker is in `group` before its first instruction, and has a mapper if `mapper`, which is above VCUDA_MAPPER_FD, is
 * not -1. 0 or -errno; *pidfd is the caller's to close.
 */
int daemon_launch(const struct daemon_options *options, enum daemon_launch_kind kind, int channel, int log, int ledger,
		  int mapper, int gate, struct daemon_worker_group *group, pid_t *pid, int *pidfd);

/*
 * Runs the keeper's program, for a local user or the VM, as a worker of that guest runs: in the view, as its user, on its processors,
 * with its environment and `log` as stdout and stderr. `socket`, which is above VCUDA_KEEPER_FD, is its descriptor
 * VCUDA_KEEPER_FD, and there is no other one. 0 or -errno. Both descriptors stay the caller's; *pid is a child to wait
 * for.
 */
int daemon_launch_keeper(const struct daemon_options *options, bool local, int socket, int log, pid_t *pid);

#endif
