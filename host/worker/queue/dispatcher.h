/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The dispatcher: takes commands from the ring in order and runs them.
 *
 * Leader and followers: one thread at a time owns the dispatcher. That thread runs asynchronous commands itself, one
 * after the other. Before a synchronous command, which may wait for long, it gives the dispatcher up, so that a
 * follower goes on with the commands of other guest threads. While only one guest thread is active no follower takes
 * over, and the call costs no hand-over. Followers sleep on the doorbell.
 */
#ifndef VCUDA_DISPATCHER_H
#define VCUDA_DISPATCHER_H

#include "protocol/cuda-abi.h"

struct worker_session;

/*
 * Serves until the session breaks: then the guest is told through shm->lost and the process ends. Returns only if it
 * cannot serve at all. Called once.
 */
void worker_dispatcher_serve(struct worker_session *s);

/* Ends the process. The guest learns of it first, then vcudad (or the guest, of the closed channel). Any thread. */
_Noreturn void worker_dispatcher_end(struct worker_session *s, CUresult reason);

/* After a function of ring.h said that guest threads sleep. Any thread. */
void worker_dispatcher_wake_guest(struct worker_session *s);

#endif
