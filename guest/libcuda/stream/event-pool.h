/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The driver's events that the application has destroyed, for events that it creates next: neither call asks the
 * worker. Pooled events are done, so no wait depends on their past. Only the time of the last record remains.
 */
#ifndef VCUDA_EVENT_POOL_H
#define VCUDA_EVENT_POOL_H

#include <stdbool.h>
#include <stdint.h>

#include "protocol/cuda-abi.h"

struct libcuda_context;

/*
 * Events of a context; each takes what it returns true for. Events of several processes are not kept. `generation`: the
 * context's when the event was made, since one may be left over from an earlier one.
 */
bool libcuda_event_pool_put(struct libcuda_context *c, CUevent event, unsigned int flags, uint64_t generation);
bool libcuda_event_pool_take(struct libcuda_context *c, CUevent *event, unsigned int flags, uint64_t generation);

/* The context's generation has ended, and with it its events. */
void libcuda_event_pool_end_context(const struct libcuda_context *context);

#endif
