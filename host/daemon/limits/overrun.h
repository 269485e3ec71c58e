/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Kernels that run on a GPU in other VMs' turns (vcudad --share), and do not end.
 *
 * A worker ends its process when a kernel takes longer than --max-kernel-time (worker/queue/turn.h). It does not where
 * commands may wait for the guest process, since it cannot know whether a kernel runs or waits. So vcudad looks at
 * whose kernels NVIDIA's driver finds on the GPU (protocol/ipc/gpu-use.h) while work of the VM is late: it has not
 * ended some quanta after the VM's turn. The driver's answer is about all the time since its last look, so a look
 * counts only if the work was late in all of that time.
 *
 * When the time of all workers on one GPU is --max-kernel-time, those that had most of it and were found lately are
 * told to end their processes, and killed if they do not. A worker's time is forgotten when its work has ended, or
 * when no look has found the worker for eight times the limit, at least a minute. Where no look finds kernels of the
 * VM on a GPU for more than some seconds, the time there becomes less by what the VM's share is worth meanwhile: a VM
 * that has pauses of its own gets no more than its share, and a VM whose turns the arbiter holds back for a kernel
 * that took long has paid for it. Not thread-safe.
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

/* Work of the VM is late from this time on, or until this time (CLOCK_MONOTONIC, ns). */
void daemon_overrun_late_from(uint64_t ns);
void daemon_overrun_late_until(uint64_t ns);

/*
 * The shares of the other VMs with work together, as the arbiter says; not 0. Until the first call: as much as this
 * VM's share.
 */
void daemon_overrun_others_share(uint32_t share);

/* Samples of one GPU: a message of this type that is whole. */
void daemon_overrun_samples(const struct vcuda_gpu_use *m);

/* The worker's work has ended. */
void daemon_overrun_forget(struct daemon_ledger_row *row);

/* The worker was told to end its process. */
bool daemon_overrun_has_ended(const struct daemon_ledger_row *row);

/*
 * Work of this worker that may wait for its process counts as work that runs: kernels of the worker were found a moment
 * ago, or a process of the VM was ended for that in the last minute.
 */
bool daemon_overrun_counts(const struct daemon_ledger_row *row);

#endif
