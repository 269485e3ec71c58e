/* SPDX-License-Identifier: Apache-2.0 */
/*
 * An event for each of the session's contexts, behind all that the context has been given. No call waits for the GPU.
 *
 * The events of a context end with the context. A context in which a kernel has failed has no work, and needs no event.
 * While there is no memory for an event, the context counts as busy.
 * Thread-safe.
 */
#ifndef VCUDA_WORKER_TURN_EVENTS_H
#define VCUDA_WORKER_TURN_EVENTS_H

#include <stdbool.h>
#include <stdint.h>

struct worker_session;

void worker_turn_events_record(struct worker_session *s);

/* Whether all that was recorded last has happened. */
bool worker_turn_events_done(struct worker_session *s);

/* The context of that id is destroyed or has been reset. Once this returns no other thread uses it here. */
void worker_turn_events_forget(uint64_t context);

#endif
