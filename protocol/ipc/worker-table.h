/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The table of workers: a page that vcudad makes and all of its workers share, descriptor VCUDA_WORKER_TABLE_FD of a
 * new worker. A worker takes a slot and keeps its figures there. vcudad empties the slots of workers that it has
 * reaped. vcudad shows the figures to the operator, and relies on them for nothing. A worker shows its guest only slots
 * of the same group: the VM, or the user over the local socket.
 */
#ifndef VCUDA_WORKER_TABLE_H
#define VCUDA_WORKER_TABLE_H

#include <stdatomic.h>
#include <stdint.h>

#include "protocol/cpu-devices.h"

#define VCUDA_WORKER_TABLE_FD 4
#define VCUDA_WORKER_TABLE_SLOTS 1024

/* `group` of a VM. Over the local socket `group` is the peer's user. */
#define VCUDA_WORKER_TABLE_VM UINT64_MAX

struct vcuda_worker_table_slot {
	_Atomic int32_t worker; /* process id; 0: a free slot */
	uint32_t pid;           /* the guest's process, as its kernel or library said */
	uint64_t group;
	/* of each device's memory, where the back end counts it (the software GPU) */
	_Atomic uint64_t bytes[VCUDA_CPU_DEVICES_MOST];
	_Atomic uint32_t at_work;  /* devices that run work now, on the software GPU: protocol/cpu-devices.h */
	_Atomic uint32_t computes; /* the worker has or had a context; other members are valid while this is not 0 */
	_Atomic uint32_t ends;     /* the guest process is gone, and its objects are being freed */
};

struct vcuda_worker_table {
	struct vcuda_worker_table_slot slots[VCUDA_WORKER_TABLE_SLOTS];
};

#endif
