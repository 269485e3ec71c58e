/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The driver's events that the application has destroyed, for those that it creates next: neither asks the worker. They
 * are done, so that they are to nobody who waits for them what they were. What remains of one's past is its time.
 */
#ifndef VCUDA_EVENT_POOL_H
#define VCUDA_EVENT_POOL_H

#include <stdbool.h>
#include <stdint.h>

#include "protocol/cuda-abi.h"

struct vcuda_context;

/*
 * Events of a context; each takes what it returns true for. Events of several processes are not kept. `life`: the
 * context's when the event was made, since one may be left over from an earlier one.
 */
bool vcuda_event_pool_keep(struct vcuda_context *c, CUevent event, unsigned int flags, uint64_t life);
bool vcuda_event_pool_take(struct vcuda_context *c, CUevent *event, unsigned int flags, uint64_t life);

/* The context's life has ended, and with it its events. */
void vcuda_event_pool_end_context(const struct vcuda_context *context);

#endif
