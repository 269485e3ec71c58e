/* SPDX-License-Identifier: Apache-2.0 */
#include "queue/turn.h"

#include <errno.h>
#include <limits.h>
#include <linux/futex.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/eventfd.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "common/start-thread.h"
#include "queue/turn-events.h"
#include "session/session.h"

/* How long the thread waits for another command before it records an event, while the VM has the GPU to itself. */
#define QUIET_NS 4000000u

/* Between two queries: while the VM has the GPU to itself, in a turn, and when the turn has ended. */
#define OPEN_NAP_NS 1000000u
#define TURN_NAP_NS 50000u
#define DRAIN_NAP_NS 10000u

/* So many naps without a command, and the thread sleeps until there is one. */
#define IDLE_NAPS 40

/* Commands on the GPU at first and at most. */
#define FIRST_LIMIT 16
#define MOST_LIMIT 1024

/* An event that takes longer is late, and one that takes less than three eighths of the time is early. */
#define LATE_NS 800000u

/* Of several processes the GPU gives each a slice of that time in turn (doc/measured.md), which commands have to fill.
 */
#define SLICE_NS 2000000u

/* An event that is late by so many times: its commands are on the GPU alone. */
#define ALONE_TIMES 25

/* Without the end of an event, more commands are let through: after this time, or twice that of the last event. */
#define PATIENCE_NS 100000000u

static struct {
	_Atomic(const struct vcuda_turns *) turns; /* NULL: nothing counts commands */
	struct worker_session *session;
	_Atomic uint64_t outstanding; /* commands that the driver has, and that are not known to have ended */
	_Atomic uint64_t allowed;     /* so many may be outstanding while VMs take turns */
	_Atomic uint32_t starts;      /* how often a command was the only one outstanding: a futex for the thread */
	_Atomic uint32_t changes;     /* of `allowed`, and fewer outstanding: a futex for commands */
	_Atomic uint32_t waiters;     /* for `changes` */
	/* The thread's own. */
	uint64_t limit, last_ns;
} turn;

static uint64_t now_ns(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

static void nap(uint64_t ns)
{
	nanosleep(&(struct timespec){.tv_nsec = (long)ns}, NULL);
}

static uint32_t state(const struct vcuda_turns *t)
{
	return atomic_load(t->state);
}

/* ---- commands ---- */

static void stop_running(const struct vcuda_turns *t)
{
	if (atomic_fetch_sub(&t->demand->running, 1) == 1 && state(t) & VCUDA_TURNS_HELD)
		eventfd_write(t->drained, 1);
}

static void wait_for_change(uint32_t seen)
{
	atomic_fetch_add(&turn.waiters, 1);
	syscall(SYS_futex, &turn.changes, FUTEX_WAIT_PRIVATE, seen, NULL, NULL, 0);
	atomic_fetch_sub(&turn.waiters, 1);
}

/* Waits for a moment where the command may not pass. */
static bool may_pass(const struct vcuda_turns *t)
{
	uint32_t seen = atomic_load(&turn.changes), now = state(t);

	if (now & VCUDA_TURNS_HELD)
		syscall(SYS_futex, t->state, FUTEX_WAIT, now, NULL, NULL, 0);
	else if (now & VCUDA_TURNS_TAKEN && atomic_load(&turn.outstanding) >= atomic_load(&turn.allowed))
		wait_for_change(seen);
	else
		return true;
	return false;
}

void worker_turn_wait(void)
{
	const struct vcuda_turns *t = atomic_load_explicit(&turn.turns, memory_order_acquire);

	if (!t || !state(t))
		return;
	atomic_fetch_add(&t->demand->wanted, 1);
	while (!may_pass(t))
		;
	atomic_fetch_sub(&t->demand->wanted, 1);
}

enum worker_turn worker_turn_begin(void)
{
	const struct vcuda_turns *t = atomic_load_explicit(&turn.turns, memory_order_acquire);

	if (!t)
		return WORKER_TURN_NONE;
	atomic_fetch_add(&t->demand->running, 1);
	if (!(state(t) & VCUDA_TURNS_HELD))
		return WORKER_TURN_BEGUN;
	stop_running(t);
	return WORKER_TURN_OTHER;
}

/* The first outstanding command leaves its count in `running` to all of them. */
void worker_turn_end(void)
{
	const struct vcuda_turns *t = atomic_load_explicit(&turn.turns, memory_order_acquire);

	if (atomic_fetch_add(&turn.outstanding, 1)) {
		stop_running(t);
		return;
	}
	atomic_fetch_add(&t->demand->begun, 1);
	atomic_fetch_add(&turn.starts, 1);
	syscall(SYS_futex, &turn.starts, FUTEX_WAKE_PRIVATE, 1, NULL, NULL, 0);
}

/* ---- the thread ---- */

static void tell_commands(void)
{
	atomic_fetch_add(&turn.changes, 1);
	if (atomic_load(&turn.waiters))
		syscall(SYS_futex, &turn.changes, FUTEX_WAKE_PRIVATE, INT_MAX, NULL, NULL, 0);
}

static void wait_for_command(const struct vcuda_turns *t)
{
	for (unsigned int naps = 0; !atomic_load(&turn.outstanding); naps++) {
		uint32_t seen = atomic_load(&turn.starts);

		if (state(t) && naps < IDLE_NAPS)
			nap(TURN_NAP_NS);
		else if (!atomic_load(&turn.outstanding))
			syscall(SYS_futex, &turn.starts, FUTEX_WAIT_PRIVATE, seen, NULL, NULL, 0);
	}
}

/* Returns when no command has come for a while, or VMs take turns. */
static void wait_for_quiet(const struct vcuda_turns *t)
{
	uint64_t before;

	do {
		before = atomic_load(&turn.outstanding);
		for (uint64_t slept = 0; !state(t) && slept < QUIET_NS; slept += OPEN_NAP_NS)
			nap(OPEN_NAP_NS);
	} while (!state(t) && atomic_load(&turn.outstanding) != before);
}

static void nap_between_queries(const struct vcuda_turns *t)
{
	uint32_t now = state(t);

	nap(now & VCUDA_TURNS_HELD ? DRAIN_NAP_NS : now ? TURN_NAP_NS : OPEN_NAP_NS);
}

/* Returns how long it took. */
static uint64_t wait_for_events(const struct vcuda_turns *t)
{
	uint64_t began = now_ns(), patience = 2 * turn.last_ns, next;

	patience = patience > PATIENCE_NS ? patience : PATIENCE_NS;
	next = began + patience;
	while (!worker_turn_events_done(turn.session)) {
		nap_between_queries(t);
		if (state(t) & VCUDA_TURNS_HELD)
			next = now_ns() + patience;
		if (now_ns() < next)
			continue;
		patience *= 2;
		next = now_ns() + patience;
		atomic_fetch_add(&turn.allowed, turn.limit);
		tell_commands();
	}
	return now_ns() - began;
}

/* `full`: all commands that may be on the GPU were there. */
static void adapt_limit(uint64_t ns, uint32_t processes, bool full)
{
	uint64_t late = processes > 1 ? processes * (uint64_t)SLICE_NS : LATE_NS;

	if (ns < late * 3 / 8 && full)
		turn.limit = 2 * turn.limit < MOST_LIMIT ? 2 * turn.limit : MOST_LIMIT;
	else if (ns > late * ALONE_TIMES)
		turn.limit = 1;
	else if (ns > late)
		turn.limit = turn.limit > 4 ? turn.limit / 2 : 2;
	turn.last_ns = ns;
}

static void settle(const struct vcuda_turns *t)
{
	uint64_t count = atomic_load(&turn.outstanding), ns;
	uint32_t now = state(t);
	bool limited = now && count <= atomic_load(&turn.allowed);

	worker_turn_events_record(turn.session);
	ns = wait_for_events(t);
	/* More commands are from a time without a limit. */
	if (limited)
		adapt_limit(ns, VCUDA_TURNS_PROCESSES(now),
			    atomic_load(&turn.outstanding) >= atomic_load(&turn.allowed));
	atomic_store(&turn.allowed, turn.limit);
	if (atomic_fetch_sub(&turn.outstanding, count) == count)
		stop_running(t);
	tell_commands();
}

static void *run(void *turns)
{
	const struct vcuda_turns *t = turns;

	/* Naps are shorter than the usual slack. */
	prctl(PR_SET_TIMERSLACK, 1000);
	for (;;) {
		wait_for_command(t);
		wait_for_quiet(t);
		settle(t);
	}
	return NULL;
}

void worker_turn_settle(const struct timespec *end)
{
	uint64_t until = (uint64_t)end->tv_sec * 1000000000u + (uint64_t)end->tv_nsec;

	while (atomic_load(&turn.outstanding) && now_ns() < until)
		nap(OPEN_NAP_NS);
}

bool worker_turn_start(struct worker_session *s, const struct vcuda_turns *turns)
{
	turn.session = s;
	turn.limit = FIRST_LIMIT;
	atomic_store(&turn.allowed, FIRST_LIMIT);
	atomic_store(&turns->demand->on_gpu, 1);
	if (!vcuda_thread_start(run, (void *)turns))
		return false;
	atomic_store_explicit(&turn.turns, turns, memory_order_release);
	return true;
}
