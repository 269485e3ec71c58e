/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Threads that run a context's launches, records of events and waits for them, beside those of other contexts: NVIDIA's
 * driver lets threads of several contexts work at the same time, as the threads of a program with several GPUs do
 * natively. A lane runs what it is given in order. For the dispatcher's owner, but where
 * it says so.
 */
#ifndef VCUDA_WORKER_LANES_H
#define VCUDA_WORKER_LANES_H

#include <stdbool.h>
#include <stdint.h>

struct vcuda_command;
struct worker_session;

/*
 * As many as a process has busy GPUs. The lane of a context that has been destroyed serves another one. A context without
 * a lane has its commands run by the owner.
 */
#define WORKER_LANES 16

/* Makes what a lane's thread runs commands with, for free(); NULL: there is no memory. */
typedef void *(*worker_lanes_open)(void);

/* Runs a command, which is valid until the function returns. */
typedef void (*worker_lanes_run)(void *opened, const struct vcuda_command *c);

void worker_lanes_start(worker_lanes_open open, worker_lanes_run run);

/*
 * Gives an asynchronous command to the lane of its context. False: the caller runs the command, once the lanes have
 * come as far as worker_lanes_mark() says.
 */
bool worker_lanes_give(struct worker_session *s, const struct vcuda_command *c);

/* How far each lane has to come. */
struct worker_lanes_mark {
	uint32_t counts[WORKER_LANES], lanes; /* bits of `lanes`: those with a count */
};

/*
 * The work that the command must see done: all that the lanes have been given so far, or that one lane has, for a query
 * or a wait for a stream.
 */
void worker_lanes_mark(struct worker_session *s, const struct vcuda_command *c, struct worker_lanes_mark *mark);

/* Waits until the lanes have run that. From any thread. */
void worker_lanes_reach(const struct worker_lanes_mark *mark);

#endif
