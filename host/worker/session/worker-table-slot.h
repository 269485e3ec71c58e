/* SPDX-License-Identifier: Apache-2.0 */
/*
 * This worker's place in the worker table. Other processes write to the table at any time. worker_table_join() comes
 * first; then any thread may call the other functions.
 */
#ifndef VCUDA_WORKER_TABLE_SLOT_H
#define VCUDA_WORKER_TABLE_SLOT_H

#include <stdbool.h>
#include <sys/types.h>

#include "protocol/ipc/worker-table.h"

/*
 * Maps the worker table and takes a slot for guest process `pid`, or the one that it has. Without a worker table the
 * worker goes on without. The descriptor stays open.
 */
void worker_table_join(bool local, pid_t pid);

/* The guest process was restored, and has this number from now on. */
void worker_table_renumber(pid_t pid);

/*
 * Where this worker's memory of each of VCUDA_CPU_DEVICES_MOST devices is counted; a place of no consequence where it
 * has no slot.
 */
_Atomic uint64_t *worker_table_bytes(void);

/* Where this worker says which software GPUs run something; a place of no consequence where it has no slot. */
_Atomic uint32_t *worker_table_at_work(void);

/* The worker's guest process has ended. */
void worker_table_ends(void);

/*
 * Waits for the workers whose guest processes are gone by now, so that what they had on the GPU is free, as it is
 * natively when a program has ended. False: there is none, or they take longer than a second.
 */
bool worker_table_wait_for_ends(void);

/* From its first context on the process is listed. */
void worker_table_computes(void);

/* The slot at or behind *at that its guest may see, NULL at the end; *at is then behind it. */
const struct vcuda_worker_table_slot *worker_table_next(unsigned int *at);

/* Whether this worker's guest is a VM, and whether a process of the host is a worker of the same guest and vcudad. */
bool worker_table_is_vm(void);
bool worker_table_same_guest(pid_t worker);

#endif
