/* SPDX-License-Identifier: Apache-2.0 */
/*
 * When commands ran in the worker, and when the device ran their work, for a guest that profiles
 * (protocol/activity-rows.h). The device's times are those of two events around the work, in its stream, less what the
 * events take. Times of one stream do not overlap. Thread-safe.
 *
 * A row waits until the guest reads it. Where there is no room for more rows, or no event can be had, the row is lost
 * and counted.
 */
#ifndef VCUDA_WORKER_ACTIVITY_H
#define VCUDA_WORKER_ACTIVITY_H

#include <stdbool.h>
#include <stdint.h>

#include "protocol/cuda-abi.h"

struct vcuda_command;
struct worker_session;

/*
 * Around the calls that give the device the work of the thread's command, in `stream`, in the current context. Nothing
 * where the guest does not profile. Work is not measured within work.
 */
void worker_activity_begin(struct worker_session *s, CUstream stream);
void worker_activity_end(struct worker_session *s, CUstream stream);

/* The worker ran the command from `begin` to `end`, in ns of the monotonic clock. */
void worker_activity_command(const struct vcuda_command *c, uint64_t begin, uint64_t end);

/*
 * The context of that id is about to end, and its events with it. Work that has ended is known from here on, other work
 * is lost. If no command is in the context, and none enters it, no thread uses its events once this returns. Else it is
 * called again when that is so.
 */
void worker_activity_forget(struct worker_session *s, uint64_t context);

#endif
