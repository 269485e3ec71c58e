/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Events of several processes: numbers in a page that all of them map. A new record increments the first number. When
 * the record is done, its number goes into its slot among the others. A record whose process died counts as done. With
 * the lock held.
 */
#ifndef VCUDA_CPU_IPC_EVENT_H
#define VCUDA_CPU_IPC_EVENT_H

#include <stdbool.h>
#include <stdint.h>

#include "device/schedule.h"

struct softgpu_shared_event;

struct softgpu_shared_event *softgpu_shared_event_create(void); /* NULL: not possible */
void softgpu_shared_event_get(struct softgpu_shared_event *event);
void softgpu_shared_event_put(struct softgpu_shared_event *event); /* NULL is fine */

/* The number of a new record, which later waits then wait for. 0: 511 records of all processes are under way. */
uint64_t softgpu_shared_event_begin(struct softgpu_shared_event *event);
void softgpu_shared_event_finish(struct softgpu_shared_event *event, uint64_t number);

/* The newest record of any process, and whether a record is done. */
uint64_t softgpu_shared_event_newest(const struct softgpu_shared_event *event);
bool softgpu_shared_event_done(const struct softgpu_shared_event *event, uint64_t number);

/* The stream waits for that record. False: no memory. */
bool softgpu_shared_event_await(struct CUstream_st *stream, struct softgpu_shared_event *event, uint64_t number);

/* The calling thread does, without the lock meanwhile; ends early if the context, which it holds, fails or is gone. */
void softgpu_shared_event_sleep(struct CUctx_st *context, struct softgpu_shared_event *event, uint64_t number);

#endif
