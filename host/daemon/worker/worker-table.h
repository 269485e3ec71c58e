/* SPDX-License-Identifier: Apache-2.0 */
/* The worker table of workers (protocol/ipc/worker-table.h) as the daemon has it. */
#ifndef VCUDA_DAEMON_WORKER_TABLE_H
#define VCUDA_DAEMON_WORKER_TABLE_H

#include <stdint.h>
#include <sys/types.h>

/* The daemon's descriptor of it, above those that workers are given; -1: there is none, and workers do without. */
int daemon_worker_table_fd(void);

/* The worker ends or has ended. Its memory is not free yet: other workers may wait for that. */
void daemon_worker_table_ends(pid_t worker);

/* No process of the worker is left. */
void daemon_worker_table_remove(pid_t worker);

#endif
