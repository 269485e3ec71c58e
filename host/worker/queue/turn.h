/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Turns of VMs on a GPU (protocol/turns.h). A GPU's driver knows no turns, so the gate (gate.h) holds commands back
 * while it is another VM's turn. While VMs take turns, the gate also lets only so many commands be on the GPU at once
 * that they end within a millisecond: a turn cannot end earlier than what the GPU was given.
 *
 * A thread finds out which commands have ended. The thread records an event for each context (cuCtxRecordEvent) and
 * queries the events. While the VM has the GPU to itself, the thread does so only after a few milliseconds without a
 * command. A kernel may wait for a later command: when an event takes very long, the thread lets more commands through.
 * Commands that take longer than --max-kernel-time while VMs take turns end the worker, with CUDA_ERROR_LAUNCH_TIMEOUT.
 * An event tells of several commands together, which may take some times as long. Time in which a command may wait for
 * the process does not count: a host function has not returned, or a stream or a graph may wait for a value.
 *
 * The software GPU takes turns in its own scheduler, and needs none of this. Thread-safe.
 */
#ifndef VCUDA_WORKER_TURN_H
#define VCUDA_WORKER_TURN_H

#include <stdbool.h>

#include "protocol/turns.h"

struct worker_context_watcher;
struct worker_session;

/* Once, when the session has its driver. From then on commands count. False: no thread could be started. */
bool worker_turn_start(struct worker_session *s, const struct vcuda_turns *turns);

/* Before the gate: waits for the VM's turn, and until the GPU may be given another command. */
void worker_turn_wait(void);

enum worker_turn {
	WORKER_TURN_NONE, /* nothing counts commands */
	WORKER_TURN_BEGUN,
	WORKER_TURN_OTHER, /* another VM's turn has begun, another worker of the VM may run alone or has a trial, or
			      other threads have filled the limit */
};

/* Behind the gate, before a command is given to the driver. */
enum worker_turn worker_turn_begin(void);

/* A command that the driver has been given may wait for the process. After worker_turn_end(). */
void worker_turn_may_wait(void);

/* The driver has the command. Only after WORKER_TURN_BEGUN. */
void worker_turn_end(void);

/* After all commands have ended: waits until that is known. False: it was not known within a second. */
bool worker_turn_settle(void);

/* The session's. */
extern const struct worker_context_watcher worker_turn_watcher;

#endif
