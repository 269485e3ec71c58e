/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Turns on a device. A page has the work of a worker: the worker writes it and vcudad reads it, but for `overran`.
 * vcudad makes a page for each worker where the VM has a share (vcudad --share) or may go out of memory (vcudad
 * --overcommit). The worker gets it with the ledger's page (ipc/ledger.h), in which `turns` says whether the worker may
 * begin to run work. The page of a worker affects only the turns of its own VM.
 */
#ifndef VCUDA_TURNS_H
#define VCUDA_TURNS_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

/* The longest time of a kernel while VMs take turns, without vcudad --max-kernel-time. */
#define VCUDA_TURNS_KERNEL_SECONDS 10

struct vcuda_demand {
	_Atomic uint32_t begun;   /* operations that could begin, modulo 2^32 */
	_Atomic uint32_t wanted;  /* begun operations that have not ended */
	_Atomic uint32_t running; /* threads that run a part of an operation; on a GPU: that issue commands, and 1 while
				     any runs */
	_Atomic uint32_t on_gpu;  /* not 0: work runs on when the worker's process is stopped */
	_Atomic uint32_t waits;   /* not 0: on a GPU, work that runs may wait for its process */
	_Atomic uint32_t overran; /* not 0: the process ends: its kernels run outside of the VM's turns */
	uint32_t number;          /* the worker's, by vcudad; not 0 */

	/* The worker's gate (ipc/gate.h). */
	_Atomic uint32_t commands; /* commands that have passed the gate, modulo 2^32 */
	_Atomic uint32_t inside;   /* commands that have passed the gate and not ended */
	_Atomic uint32_t waiting;  /* threads that wait at the gate; each also adds 1 to `drained` */

	_Atomic uint32_t tries; /* not 0: on a GPU, a command of the worker waits for a trial, or runs in it */
};

/*
 * The state: two bits; while the VM has its turn, the number of processes that share the device, the number of the only
 * worker of the VM that may begin to run work (0: all may), and the number of the worker that has a trial (0: none has).
 *
 * A worker whose work has not ended lately waits for a trial before it gives a GPU a command: so kernels without an end
 * reach a GPU from one process of a VM only, and not from all that begin at once.
 */
#define VCUDA_TURNS_HELD 1u  /* another VM has its turn */
#define VCUDA_TURNS_TAKEN 2u /* several VMs have work, and take turns */
#define VCUDA_TURNS_MOST_PROCESSES 0x3fu
#define VCUDA_TURNS_MOST_NUMBER 0xfffu
#define VCUDA_TURNS_PROCESSES(state) ((state) >> 2 & VCUDA_TURNS_MOST_PROCESSES)
#define VCUDA_TURNS_ONLY(state) ((state) >> 8 & VCUDA_TURNS_MOST_NUMBER)
#define VCUDA_TURNS_TRIAL(state) ((state) >> 20)
#define VCUDA_TURNS_STATE(flags, processes, only, trial) ((flags) | (processes) << 2 | (only) << 8 | (trial) << 20)

static inline bool vcuda_turns_may_run(uint32_t state, uint32_t number)
{
	return !(state & VCUDA_TURNS_HELD) && (!VCUDA_TURNS_ONLY(state) || VCUDA_TURNS_ONLY(state) == number);
}

/*
 * Before a thread runs work it increments `running` and then reads the state; with VCUDA_TURNS_HELD it decrements
 * `running` and waits. A thread that makes `running` 0 reads the state after that; with VCUDA_TURNS_HELD it adds 1 to
 * `drained`. A GPU's worker that is not the only one that may run, or that needs a trial, waits in the same way,
 * without adding to `drained`. A worker that begins to need a trial, or needs it no more, adds 1 to `drained`.
 * The state is a futex of several processes: each change wakes all that wait. Without a share the state is always 0.
 */
struct vcuda_turns {
	_Atomic uint32_t *state; /* read-only memory */
	int drained;             /* an eventfd of this worker, which vcudad waits for */
	struct vcuda_demand *demand;
};

#endif
