/* SPDX-License-Identifier: Apache-2.0 */
/* Events and their records. All calls with the lock held. */
#ifndef VCUDA_CPU_EVENT_H
#define VCUDA_CPU_EVENT_H

#include <stdbool.h>

#include "device/context.h"

/*
 * One recording of an event. A later recording makes a new one, so a wait that was queued keeps what it waits for, also
 * when the event is destroyed.
 */
struct cpu_record;

bool cpu_record_done(const struct cpu_record *record);

/* What others see of an event that processes share; NULL: it is not one. */
struct cpu_shared_event *cpu_event_shared(CUevent handle);

/* A new event for one that another process made; takes it over. */
CUresult cpu_event_open(struct CUctx_st *context, struct cpu_shared_event *shared, CUevent *handle);

/* Destroys all events of a context. */
void cpu_events_destroy(struct CUctx_st *context);

#endif
