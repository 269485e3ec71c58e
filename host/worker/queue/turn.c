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

#include "common/deadline.h"
#include "common/log.h"
#include "common/start-thread.h"
#include "queue/callback.h"
#include "queue/dispatcher.h"
#include "queue/turn-events.h"
#include "session/ledger.h"
#include "session/session.h"

/* How long the thread waits for another command before it records an event, while the VM has the GPU to itself. */
#define QUIET_NS 4000000u

/* Between two queries: while the VM has the GPU to itself, in a turn, and when the turn has ended. */
#define OPEN_NAP_NS 1000000u
#define TURN_NAP_NS 50000u
#define DRAIN_NAP_NS 10000u

/* After this number of naps without a command the thread sleeps until there is a command. */
#define IDLE_NAPS 40

/* Commands on the GPU at first and at most, also where several processes share the GPU. */
#define FIRST_LIMIT 1
#define MOST_LIMIT 256
#define MOST_LIMIT_OF_SEVERAL 1024

/* The time after the end of its work in which a worker needs no trial. */
#define TRIED_NS 2000000000u

/* An event that takes longer is late, and one that takes less than three eighths of the time is early. */
#define LATE_NS 800000u

/*
 * The time slice that the GPU gives to each of several processes in turn (doc/reference/driver-behaviour.md). Commands
 * must fill it.
 */
#define SLICE_NS 2000000u

/* After an event that took so many times longer than late, one command at a time is on the GPU. */
#define ALONE_TIMES 25

/*
 * Without the end of an event, more commands are let through: after twice the time of the last event, but at least and
 * at most after these times.
 */
#define PATIENCE_NS 100000000u
#define MOST_PATIENCE_NS 1000000000u

/* The sleep until the next query is at least this part of the time that an event has taken so far. */
#define NAP_PART 32

#define SECOND_NS 1000000000ull

/*
 * Several commands end with one event. They may take so many times longer at most: those that were given within the
 * limit of a turn, and others.
 */
#define MOST_TIMES 4
#define MOST_TIMES_OF_BACKLOG 16

/* A process that was stopped does not count for longer between two queries. */
#define MOST_LOOK_NS (SECOND_NS / 10)

/* How long worker_turn_settle() waits: an idle GPU's events are queried within some milliseconds. */
#define SETTLE_NS 1000000000u

static struct {
	_Atomic(const struct vcuda_turns *) turns; /* NULL: nothing counts commands */
	struct worker_session *session;
	_Atomic uint64_t outstanding;   /* commands that the driver has, and that are not known to have ended */
	_Atomic uint64_t taken;         /* and those that are being given to the driver */
	_Atomic uint64_t allowed;       /* so many may be taken while VMs take turns */
	_Atomic uint32_t starts;        /* how often a command was the only one outstanding: a futex for the thread */
	_Atomic uint32_t changes;       /* of `allowed`, and fewer taken: a futex for commands */
	_Atomic uint32_t waiters;       /* for `changes` */
	_Atomic uint64_t tried_until;   /* the end of the time without a trial */
	_Atomic uint64_t patient_until; /* then another command may pass without an event's end */
	_Atomic bool forgot_event;      /* of a context, since the last work ended */
	_Atomic bool waits_for_process; /* a command that is outstanding may wait for the process */
	uint32_t number;
	/* The thread's own. */
	uint64_t limit, last_ns;
} turn;

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

/*
 * Processes that share memory or events may wait for one another's work, as ranks of NCCL do: one of them alone could
 * not end its work.
 */
static bool needs_trial(uint32_t now)
{
	const struct worker_session *s = turn.session;

	return now & VCUDA_TURNS_TAKEN && vcuda_now_ns() >= atomic_load(&turn.tried_until) &&
	       !(s->has_shared && s->has_shared());
}

static bool may_begin(uint32_t now, bool needs)
{
	return vcuda_turns_may_run(now, turn.number) && (!needs || VCUDA_TURNS_TRIAL(now) == turn.number);
}

/* vcudad looks for a worker that gets a trial. */
static void set_tries(const struct vcuda_turns *t, uint32_t tries)
{
	if (atomic_exchange(&t->demand->tries, tries) != tries)
		eventfd_write(t->drained, 1);
}

static void tell_commands(void)
{
	atomic_fetch_add(&turn.changes, 1);
	if (atomic_load(&turn.waiters))
		syscall(SYS_futex, &turn.changes, FUTEX_WAKE_PRIVATE, INT_MAX, NULL, NULL, 0);
}

/* Waits for at most this time: the state may change, or a command that needs a trial may need none any more. */
static const struct timespec longest_wait = {.tv_nsec = 10000000};

static void wait_for_change(uint32_t seen)
{
	atomic_fetch_add(&turn.waiters, 1);
	syscall(SYS_futex, &turn.changes, FUTEX_WAIT_PRIVATE, seen, &longest_wait, NULL, 0);
	atomic_fetch_sub(&turn.waiters, 1);
}

/*
 * A call in the driver may wait for a later command. While there is no event to wait for, a thread with such a command
 * lets one more through when none has begun for some time.
 */
static void lose_patience(void)
{
	uint64_t until = atomic_load(&turn.patient_until), now = vcuda_now_ns();

	if (!atomic_load(&turn.outstanding) && now >= until &&
	    atomic_compare_exchange_strong(&turn.patient_until, &until, now + PATIENCE_NS))
		atomic_fetch_add(&turn.allowed, 1);
}

/* Whether the GPU may be given no command beside so many. */
static bool is_full(uint32_t now, uint64_t taken)
{
	return now & VCUDA_TURNS_TAKEN && taken >= atomic_load(&turn.allowed);
}

/* Waits for a moment where the command may not pass. */
static bool may_pass(const struct vcuda_turns *t)
{
	uint32_t seen = atomic_load(&turn.changes), now = state(t);
	bool needs = needs_trial(now);

	if (needs)
		set_tries(t, 1);
	if (!may_begin(now, needs))
		syscall(SYS_futex, t->state, FUTEX_WAIT, now, needs ? &longest_wait : NULL, NULL, 0);
	else if (!is_full(now, atomic_load(&turn.taken)))
		return true;
	else {
		wait_for_change(seen);
		lose_patience();
	}
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
	uint64_t before;
	uint32_t now;

	if (!t)
		return WORKER_TURN_NONE;
	/* Threads of several contexts may have seen room for one command. */
	before = atomic_fetch_add(&turn.taken, 1);
	atomic_fetch_add(&t->demand->running, 1);
	now = state(t);
	if (may_begin(now, needs_trial(now)) && !is_full(now, before)) {
		if (now)
			atomic_store(&turn.patient_until, vcuda_now_ns() + PATIENCE_NS);
		return WORKER_TURN_BEGUN;
	}
	stop_running(t);
	atomic_fetch_sub(&turn.taken, 1);
	tell_commands();
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

/* An event that has taken long is queried less often. */
static void nap_between_queries(uint32_t now, uint64_t waited)
{
	uint64_t ns = now & VCUDA_TURNS_HELD ? DRAIN_NAP_NS : now ? TURN_NAP_NS : OPEN_NAP_NS;

	ns = waited / NAP_PART > ns ? waited / NAP_PART : ns;
	nap(ns < OPEN_NAP_NS ? ns : OPEN_NAP_NS);
}

static uint64_t first_patience(void)
{
	uint64_t ns = 2 * turn.last_ns;

	return ns < PATIENCE_NS ? PATIENCE_NS : ns < MOST_PATIENCE_NS ? ns : MOST_PATIENCE_NS;
}

/* ---- commands that do not end ---- */

void worker_turn_may_wait(void)
{
	atomic_store(&turn.waits_for_process, true);
}

static bool may_wait_for_process(void)
{
	return atomic_load(&turn.waits_for_process) || worker_callback_runs(turn.session);
}

/* How long `count` commands may take while VMs take turns. */
static uint64_t time_for(uint64_t count, bool limited)
{
	uint64_t seconds = worker_ledger_process_limit(VCUDA_LEDGER_KERNEL_SECONDS);
	uint64_t most = limited ? MOST_TIMES : MOST_TIMES_OF_BACKLOG;

	if (seconds == VCUDA_LEDGER_KERNEL_SECONDS_DEFAULT)
		seconds = VCUDA_TURNS_KERNEL_SECONDS;
	if (seconds > UINT64_MAX / MOST_TIMES_OF_BACKLOG / SECOND_NS)
		return UINT64_MAX;
	return seconds * SECOND_NS * (count < most ? count : most);
}

/* A kernel that runs cannot be ended but with its process. */
static _Noreturn void end_process(uint64_t ns)
{
	vcuda_log("what this process gave the GPU ran for longer than %llu s while VMs took turns: the process is "
		  "ended (raise --max-kernel-time)",
		  (unsigned long long)(ns / SECOND_NS));
	worker_ledger_refused(VCUDA_LEDGER_KERNEL_SECONDS);
	worker_dispatcher_end(turn.session, CUDA_ERROR_LAUNCH_TIMEOUT);
}

/* vcudad has logged why, and counted it. */
static _Noreturn void end_overrun(void)
{
	worker_dispatcher_end(turn.session, CUDA_ERROR_LAUNCH_TIMEOUT);
}

/* ---- events ---- */

/*
 * Returns how long it took. Patience that ends in another VM's turn lets commands through at the start of the next.
 * Ends the process when turns have taken longer than `most` meanwhile.
 */
static uint64_t wait_for_events(const struct vcuda_turns *t, uint64_t most)
{
	uint64_t began = vcuda_now_ns(), patience = first_patience(), next = began + patience, looked = began,
		 in_turns = 0;
	uint32_t before = state(t), now;

	for (; !worker_turn_events_done(turn.session); before = now) {
		bool waits = may_wait_for_process();

		atomic_store(&t->demand->waits, waits);
		now = state(t);
		nap_between_queries(now, vcuda_now_ns() - began);
		if (now & VCUDA_TURNS_TAKEN && !waits)
			in_turns += vcuda_now_ns() - looked < MOST_LOOK_NS ? vcuda_now_ns() - looked : MOST_LOOK_NS;
		looked = vcuda_now_ns();
		if (in_turns > most && !worker_turn_events_done(turn.session))
			end_process(in_turns);
		if (atomic_load(&t->demand->overran))
			end_overrun();
		/* In open mode no command waits. */
		if (before && !now)
			tell_commands();
		if (!vcuda_turns_may_run(now, turn.number) || vcuda_now_ns() < next)
			continue;
		patience = patience < 4 * (uint64_t)MOST_PATIENCE_NS ? 2 * patience : patience;
		next = vcuda_now_ns() + patience;
		atomic_fetch_add(&turn.allowed, turn.limit);
		tell_commands();
	}
	return vcuda_now_ns() - began;
}

/* `full`: all commands that may be on the GPU were there. */
static void adapt_limit(uint64_t ns, uint32_t processes, bool full)
{
	uint64_t late = processes > 1 ? processes * (uint64_t)SLICE_NS : LATE_NS;
	uint64_t most = processes > 1 ? MOST_LIMIT_OF_SEVERAL : MOST_LIMIT;

	if (ns < late * 3 / 8 && full)
		turn.limit = 2 * turn.limit < most ? 2 * turn.limit : most;
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
	bool waits;
	bool limited =
		now & VCUDA_TURNS_TAKEN && vcuda_turns_may_run(now, turn.number) && count <= atomic_load(&turn.allowed);

	worker_turn_events_record(turn.session);
	ns = wait_for_events(t, time_for(count, limited));
	/* A larger count was issued in open mode, and says nothing about the limit. So does the rest of a turn. */
	if (limited)
		adapt_limit(ns, VCUDA_TURNS_PROCESSES(now),
			    atomic_load(&turn.outstanding) >= atomic_load(&turn.allowed));
	atomic_store(&turn.allowed, turn.limit);
	/* Work of a context that is being destroyed has no event, and may run. */
	if (!atomic_exchange(&turn.forgot_event, false)) {
		atomic_store(&turn.tried_until, vcuda_now_ns() + TRIED_NS);
		set_tries(t, 0);
	}
	waits = atomic_exchange(&turn.waits_for_process, false);
	atomic_fetch_sub(&turn.taken, count);
	if (atomic_fetch_sub(&turn.outstanding, count) == count)
		stop_running(t);
	else if (waits)
		worker_turn_may_wait();
	atomic_store(&t->demand->waits, 0);
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

bool worker_turn_settle(void)
{
	uint64_t until = vcuda_now_ns() + SETTLE_NS;

	while (atomic_load(&turn.outstanding) && vcuda_now_ns() < until)
		nap(OPEN_NAP_NS);
	return !atomic_load(&turn.outstanding);
}

/* ---- contexts that are destroyed later ---- */

static void hold_turn(void)
{
	atomic_fetch_add(&atomic_load(&turn.turns)->demand->running, 1);
}

static void give_turn_up(void)
{
	stop_running(atomic_load(&turn.turns));
}

static void forget_event(uint64_t context)
{
	atomic_store(&turn.forgot_event, true);
	worker_turn_events_forget(context);
}

const struct worker_context_watcher worker_turn_watcher = {
	.ends = forget_event, .is_put_off = hold_turn, .has_ended = give_turn_up};

bool worker_turn_start(struct worker_session *s, const struct vcuda_turns *turns)
{
	turn.session = s;
	turn.number = turns->demand->number;
	turn.limit = FIRST_LIMIT;
	atomic_store(&turn.allowed, FIRST_LIMIT);
	atomic_store(&turns->demand->on_gpu, 1);
	if (!vcuda_thread_start(run, (void *)turns))
		return false;
	atomic_store_explicit(&turn.turns, turns, memory_order_release);
	return true;
}
