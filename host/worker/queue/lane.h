/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The lane: takes commands from the ring in order and runs them.
 *
 * Leader and followers: one thread at a time owns the lane. Asynchronous commands it runs itself, one after the other.
 * Before a synchronous one, which may wait for long, it gives the lane up, so that a follower goes on with the commands
 * of other guest threads; while only one guest thread is active nobody comes, and the call costs no hand-over.
 * Followers sleep on the doorbell.
 */
#ifndef VCUDA_LANE_H
#define VCUDA_LANE_H

#include <stdbool.h>
#include <stdint.h>

struct vcuda_session;

/*
 * Serves until the session breaks: then the guest is told through shm->lost and the process ends. Returns only if it
 * cannot serve at all. Called once.
 */
void vcuda_lane_serve(struct vcuda_session *s);

/* After a function of ring.h said that guest threads sleep. Any thread. */
void vcuda_lane_wake_guest(struct vcuda_session *s);

/* The id of the context that the command which this thread runs was issued in, 0: none. */
uint64_t vcuda_lane_context(void);

/* Whether an earlier call of that command's thread in its context has failed, which the thread has not been told. */
bool vcuda_lane_has_error(struct vcuda_session *s);

/* The staging block `block`, or NULL if there is none or `bytes` does not fit. */
void *vcuda_lane_stage(struct vcuda_session *s, uint32_t block, uint64_t bytes);

#endif
