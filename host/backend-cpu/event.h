/* SPDX-License-Identifier: Apache-2.0 */
/* Events and their records. All calls with the lock held. */
#ifndef VCUDA_CPU_EVENT_H
#define VCUDA_CPU_EVENT_H

#include <stdbool.h>

#include "context.h"

/*
 * One recording of an event. A later recording makes a new one, so a wait that was queued keeps what it waits for, also
 * when the event is destroyed.
 */
struct cpu_record;

bool cpu_record_done(const struct cpu_record *record);

/* Destroys all events of a context. */
void cpu_events_destroy(struct CUctx_st *context);

#endif
