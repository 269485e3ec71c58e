/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Kernels that run on a GPU outside of the VM's turns (vcudad --share).
 *
 * A worker ends its process when a kernel takes longer than --max-kernel-time (worker/queue/turn.h). It does not where
 * commands may wait for the guest process, since it cannot know whether a kernel runs or waits, and one that is taken
 * over does not at all. So vcudad looks at whose kernels NVIDIA's driver finds on the GPU (protocol/ipc/gpu-use.h)
 * while none of the VM's should be there: in another VM's turn, when the workers say that all work has ended, or five
 * quanta later. Time of a worker counts that says that nothing of its work runs, or that its work may wait. A worker
 * whose work runs, and waits for nothing, looks at the time itself.
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

struct daemon_ledger_row;

/* The options stay valid. */
void daemon_overrun_open(const struct daemon_options *options);

/* From this time on (CLOCK_MONOTONIC, ns) nothing of the VM should run, or until this time. */
void daemon_overrun_silent_from(uint64_t ns);
void daemon_overrun_silent_until(uint64_t ns);

/* Samples of one GPU: a message of this type that is whole. */
void daemon_overrun_samples(const struct vcuda_gpu_use *m);

/* The worker's kernels ran outside of the VM's turns lately. */
bool daemon_overrun_is_seen(const struct daemon_ledger_row *row);

#endif
