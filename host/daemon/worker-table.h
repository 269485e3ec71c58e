/* SPDX-License-Identifier: Apache-2.0 */
/* The worker table of workers (protocol/ipc/worker-table.h) as the daemon has it. */
#ifndef VCUDA_DAEMON_WORKER_TABLE_H
#define VCUDA_DAEMON_WORKER_TABLE_H

#include <stdint.h>
#include <sys/types.h>

/* The daemon's descriptor of it, above those that workers are given; -1: there is none, and workers do without. */
int daemon_worker_table_fd(void);

/* The device memory that the worker says it has; 0 where it says nothing. For display: a worker may say anything. */
uint64_t daemon_worker_table_bytes(pid_t worker);

/* A worker was reaped. */
void daemon_worker_table_remove(pid_t worker);

#endif
