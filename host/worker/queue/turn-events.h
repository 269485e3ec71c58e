/* SPDX-License-Identifier: Apache-2.0 */
/*
 * An event for each of the session's contexts, behind all that the context has been given. Both functions belong to one
 * thread, and neither waits for the GPU.
 *
 * A context that ends takes its event along. A context in which a kernel has failed has no work, and needs no event.
 */
#ifndef VCUDA_WORKER_TURN_EVENTS_H
#define VCUDA_WORKER_TURN_EVENTS_H

#include <stdbool.h>

struct worker_session;

void worker_turn_events_record(struct worker_session *s);

/* Whether all that was recorded last has happened. */
bool worker_turn_events_done(struct worker_session *s);

#endif
