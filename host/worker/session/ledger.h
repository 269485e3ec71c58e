/* SPDX-License-Identifier: Apache-2.0 */
/*
 * This worker's device memory in vcudad's ledger (protocol/ipc/ledger.h). Grants come in chunks, and a small surplus
 * stays here, so that an allocation seldom asks. Without a limit nothing is asked: vcudad is only told. A worker that
 * was not started by vcudad has no ledger and no limit.
 *
 * GPUs are the back end's device numbers, until worker_ledger_swap(). Thread-safe. May be called with locks of a back
 * end held.
 */
#ifndef VCUDA_WORKER_LEDGER_H
#define VCUDA_WORKER_LEDGER_H

#include "protocol/ipc/ledger.h"
#include "protocol/meter.h"
#include "protocol/turns.h"

/*
 * Maps vcudad's page, at the latest when it is first needed: a sandbox may take the rights for that away afterwards.
 */
void worker_ledger_join(void);

/* The memory of two devices is on each other's GPU from now on. */
void worker_ledger_swap(unsigned int gpu, unsigned int other);

/* The meter that a back end counts its memory with. */
extern const struct vcuda_meter worker_ledger_meter;

/*
 * A thread whose command does nothing where its allocation fails is patient: the command can run again when there is
 * room. After such a command worker_ledger_wait_for_room() waits until other VMs have made room, or cannot; false:
 * there is nothing to wait for. The thread holds no lock then, and is in front of the worker's gate (queue/gate.h).
 */
void worker_ledger_set_patient(bool patient);
bool worker_ledger_wait_for_room(void);

/* The turns of the worker's VM; NULL: the VM has no share and no overcommit: the worker runs work at any time. */
const struct vcuda_turns *worker_ledger_turns(void);

/*
 * The host's memory on the software GPU, whose device memory is the host's too. With a limit, the worker measures its
 * own memory. Beyond device memory and WORKER_LEDGER_HOST_FREE bytes that memory counts as memory of GPU 0. Modules,
 * machine code, links, queued commands and objects so end at the quota, whatever each of them takes. The free bytes
 * cover the worker itself and the blocks that softgpu/kernel.h does not charge.
 *
 * worker_ledger_count_host() begins to measure; the caller has one thread then. worker_ledger_host_room(): the worker
 * is about to have about `bytes` more of the host's memory. False: the quota is used up, which the log says.
 * worker_ledger_host_hold() is the same for memory that is written later: it counts until worker_ledger_host_release().
 */
#define WORKER_LEDGER_HOST_FREE (160ull << 20)

void worker_ledger_count_host(void);
bool worker_ledger_host_room(uint64_t bytes);
bool worker_ledger_host_hold(uint64_t bytes);
void worker_ledger_host_release(uint64_t bytes);

/* The GPU that the memory of a device is on. */
unsigned int worker_ledger_gpu(unsigned int device);

/* A new connection to the guest's keeper (session/keeper.h), which is the caller's; -1: there is no keeper. */
int worker_ledger_keeper(void);

/* The current limit of this guest process. */
uint64_t worker_ledger_process_limit(enum vcuda_ledger_process_limit which);

/* The guest process was refused something at that limit: vcudad counts it. */
void worker_ledger_refused(enum vcuda_ledger_process_limit which);

#endif
