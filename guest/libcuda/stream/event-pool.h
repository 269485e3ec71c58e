/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The driver's events that the application has destroyed, for reuse: neither the destruction nor the next creation asks
 * the worker. All events in the pool are done, so that no stream waits for them. An event only keeps its time.
 */
#ifndef VCUDA_EVENT_POOL_H
#define VCUDA_EVENT_POOL_H

#include <stdbool.h>
#include <stdint.h>

#include "protocol/cuda-abi.h"

struct libcuda_context;

/*
 * Events of a context. True: put() has taken the event over, or take() has given one. Events of several processes are
 * not kept. `generation`: the context's when the event was made, since an event may be left over from an earlier one.
 */
bool libcuda_event_pool_put(struct libcuda_context *c, CUevent event, unsigned int flags, uint64_t generation);
bool libcuda_event_pool_take(struct libcuda_context *c, CUevent *event, unsigned int flags, uint64_t generation);

/* The context's generation has ended, and with it its events. */
void libcuda_event_pool_end_context(const struct libcuda_context *context);

#endif
