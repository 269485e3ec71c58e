/* SPDX-License-Identifier: Apache-2.0 */
/* Events and their records. All calls with the lock held. */
#ifndef VCUDA_CPU_EVENT_H
#define VCUDA_CPU_EVENT_H

#include <stdbool.h>

#include "device/context.h"

/*
 * One recording of an event. A later recording makes a new one. So a queued wait keeps its record, also when the event
 * is destroyed.
 */
struct softgpu_record;

bool softgpu_record_done(const struct softgpu_record *record);

/* The shared part of an event that several processes use; NULL: the event is not shared. */
struct softgpu_shared_event *softgpu_event_shared(CUevent handle);

/* A new event for one that another process made; takes it over. */
CUresult softgpu_event_open(struct CUctx_st *context, struct softgpu_shared_event *shared, CUevent *handle);

/* Destroys all events of a context. */
void softgpu_events_destroy(struct CUctx_st *context);

#endif
