/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Kernels that run on a GPU outside of the VM's turns (vcudad --share).
 *
 * A worker ends its process when a kernel takes longer than --max-kernel-time (worker/queue/turn.h). It does not where
 * commands may wait for the guest process, since it cannot know whether a kernel runs or waits, and one that is taken
 * over does not at all. So vcudad looks at whose kernels NVIDIA's driver finds on the GPU (protocol/ipc/gpu-use.h)
 * while none of the VM's should be there, in other VMs' turns: when the workers have said that all work has ended, and
 * before that from some quanta after the VM's turn on. Before that only time of workers counts that say that their work
 * may wait: others look at the time themselves. What the driver says is of all the time since its last look. So a look
 * counts only if no turn of the VM was in that time: with short rounds none does for work that has ended.
 *
 * When the time of all workers together is --max-kernel-time, those that had most of it are told to end their
 * processes, and killed if they do not. Time is forgotten when none has come for some seconds. Not thread-safe.
 */
#ifndef VCUDA_DAEMON_OVERRUN_H
#define VCUDA_DAEMON_OVERRUN_H

#include <stdbool.h>
#include <stdint.h>

#include "protocol/ipc/gpu-use.h"
#include "options/options.h"

/* The options stay valid. */
void daemon_overrun_open(const struct daemon_options *options);

enum daemon_overrun_turn {
	DAEMON_OVERRUN_OWN,   /* it is the VM's turn, or there are no turns, or the turn has just ended */
	DAEMON_OVERRUN_LATE,  /* work has not ended for some quanta since the turn */
	DAEMON_OVERRUN_ENDED, /* all workers have said that their work has ended */
};

/* From this time on (CLOCK_MONOTONIC, ns), until the next call. */
void daemon_overrun_turn(enum daemon_overrun_turn turn, uint64_t ns);

/* Samples of one GPU: a message of this type that is whole. */
void daemon_overrun_samples(const struct vcuda_gpu_use *m);

/* Kernels of the VM ran outside of its turns in the last minute, for a tenth of a second or longer. */
bool daemon_overrun_is_recent(void);

#endif
