/* SPDX-License-Identifier: Apache-2.0 */
/* Runs of the program vcuda-checkpoint (protocol/ipc/checkpoint.h). All functions belong to the loop's thread. */
#ifndef VCUDA_DAEMON_CHECKPOINT_H
#define VCUDA_DAEMON_CHECKPOINT_H

#include <stdbool.h>

#include "loop/loop.h"

struct daemon_checkpoint;

enum daemon_checkpoint_end {
	DAEMON_CHECKPOINT_DONE,
	DAEMON_CHECKPOINT_REFUSED, /* nothing has changed, and the log says why */
	DAEMON_CHECKPOINT_BROKEN,  /* the program was killed: the driver may hold the worker or its memory */
};

/* A release, or a return of the memory, with two GPUs in each other's place unless their numbers are equal. */
struct daemon_checkpoint_step {
	bool release;
	unsigned int from, to;
};

/*
 * Has the worker of this pidfd release its device memory, or have it back. `done` is called later, and the run is freed
 * then. NULL: the program could not be started, and the log says why.
 */
struct daemon_checkpoint *daemon_checkpoint_start(struct daemon_loop *loop, char *program, int pidfd,
						  const struct daemon_checkpoint_step *step,
						  void (*done)(void *owner, enum daemon_checkpoint_end end),
						  void *owner);

/* Kills the program. `done` is called. */
void daemon_checkpoint_kill(struct daemon_checkpoint *checkpoint);

/* Kills the program. `done` is not called. Harmless with NULL. */
void daemon_checkpoint_drop(struct daemon_checkpoint *checkpoint);

#endif
