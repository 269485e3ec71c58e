/* SPDX-License-Identifier: Apache-2.0 */
#include "limits/turns.h"

#include "common/deadline.h"
#include "common/log.h"
#include "limits/arbiter.h"
#include "limits/ledger.h"
#include "limits/overrun.h"

/* How often the workers' work is looked at: while turns are taken and the VM has work, and else. */
#define BUSY_MS 1
#define QUIET_MS 5

/* A VM has no work any more if it had none so many times. */
#define QUIET_TIMES 2

/*
 * Each process whose work has not ended so many quanta after the turn takes the device's time from other VMs. For so
 * long afterwards one process of the VM works at a time: at first, and at most, since the time doubles if that happens
 * again within the most.
 */
#define LATE_QUANTA 5
#define FIRST_ONE_BY_ONE_MS 60000
#define MOST_ONE_BY_ONE_MS 3600000

/* Without an arbiter: until work goes on by itself. */
#define LEASE_MS 100

static struct {
	struct daemon_loop *loop;
	const struct daemon_options *options;
	struct daemon_timer poll, lease, stop;
	bool lost;
	unsigned int exclusive; /* of the arbiter's last message */
	bool held;              /* it is another VM's turn */
	bool active;            /* as the arbiter knows */
	unsigned int processes; /* that share the device in the VM's turn */
	bool drains;
	bool late;                   /* and has not ended since an earlier turn */
	uint32_t only;               /* the worker that works, where one does at a time; 0: all do */
	uint64_t one_by_one;         /* until when */
	uint64_t one_by_one_ms;      /* how long the last time; 0: there was none */
	uint32_t trial;              /* the worker that has one; 0: none */
	bool said;                   /* that others wait */
	unsigned int quantum, waits; /* ms; and how many of them it has been waited for the work to end */
	uint32_t turn;               /* of the last HOLD */
	uint32_t begun;
	unsigned int quiet;
	struct daemon_turns_time time;
	uint64_t timed_until; /* ns */
} turns;

/* Adds the time since the last call. Called before a change of what the VM has, or wants. */
static void count_time(void)
{
	uint64_t now = vcuda_now_ns(), passed = now - turns.timed_until;
	bool has = !turns.held || turns.drains;

	turns.timed_until = now;
	if (!turns.exclusive || !(turns.active || turns.drains))
		return;
	turns.time.wanted_ns += passed;
	if (has)
		turns.time.had_ns += passed;
}

static void say(enum vcuda_arbiter_type type)
{
	struct vcuda_arbiter_message m = {.type = type, .turn = turns.turn};

	daemon_arbiter_say(&m);
}

/* ---- what the workers do ---- */

static void add(struct daemon_ledger_row *row, void *sum)
{
	struct daemon_ledger_work *work = sum;

	if (!daemon_ledger_row_runs(row))
		daemon_overrun_forget(row);
	daemon_ledger_row_note_wait(row);
	daemon_ledger_row_work(row, work);
}

static void end_drain(void)
{
	count_time();
	daemon_overrun_late_until(turns.timed_until);
	turns.drains = false;
	turns.waits = 0;
	daemon_timer_clear(&turns.stop);
	say(VCUDA_ARBITER_DRAINED);
}

static void show_state(void)
{
	uint32_t flags = (turns.held ? VCUDA_TURNS_HELD : 0) | (turns.exclusive ? VCUDA_TURNS_TAKEN : 0);
	bool own = flags == VCUDA_TURNS_TAKEN;
	uint32_t processes = turns.only ? turns.exclusive : turns.processes;

	if (processes > VCUDA_TURNS_MOST_PROCESSES)
		processes = VCUDA_TURNS_MOST_PROCESSES;
	daemon_ledger_set_turns(VCUDA_TURNS_STATE(flags, own ? processes : 0, own ? turns.only : 0, own ? turns.trial : 0));
}

/* A GPU gives slices of its time to each process whose work has not ended, also in other VMs' turns. */
static void work_one_by_one(void)
{
	unsigned int running;

	daemon_ledger_choose_worker(0, true, &running);
	if (!running && !turns.only)
		return;
	if (!turns.one_by_one_ms || daemon_now() > turns.one_by_one + MOST_ONE_BY_ONE_MS)
		turns.one_by_one_ms = FIRST_ONE_BY_ONE_MS;
	else if (turns.one_by_one <= daemon_now() && turns.one_by_one_ms < MOST_ONE_BY_ONE_MS)
		turns.one_by_one_ms *= 2;
	turns.one_by_one = daemon_now() + turns.one_by_one_ms;
}

static void be_late(void)
{
	turns.late = true;
	daemon_overrun_late_from(vcuda_now_ns());
	work_one_by_one();
}

/* Work that does not end is stopped, in the middle of a kernel. A GPU's work cannot be stopped. */
static void stop_expired(struct daemon_timer *timer)
{
	if (daemon_ledger_stop_work())
		end_drain();
	else if (++turns.waits < LATE_QUANTA)
		daemon_timer_set(turns.loop, timer, turns.quantum);
	else
		be_late();
}

/* The operator wants it, or work was late. */
static bool is_one_by_one(void)
{
	return turns.options->share_one_process || turns.one_by_one > daemon_now();
}

/* In the VM's turn. `next`: at its begin. Work that runs ends first, unless it may wait for the process. */
static void choose_only(bool next)
{
	bool wanted = is_one_by_one();
	unsigned int running;
	uint32_t only = wanted ? daemon_ledger_choose_worker(turns.only, next, &running) : 0;
	bool others_wait = only && turns.processes > turns.exclusive;

	if (only)
		daemon_ledger_note_choice(only);
	if (others_wait && !turns.said && !turns.options->share_one_process)
		vcuda_log("work of a process does not end with the turn: this VM's processes use the GPU one after the "
			  "other while there are turns");
	turns.said = wanted && (turns.said || others_wait);
	if (only == turns.only || (wanted && !only))
		return;
	turns.only = only;
	show_state();
}

/* In the VM's turn. */
static void choose_trial(void)
{
	uint32_t trial = daemon_ledger_choose_trial(turns.trial, turns.only);

	if (trial == turns.trial)
		return;
	turns.trial = trial;
	show_state();
}

/* Each other VM that has work on the device counts as a process. */
static void count_processes(unsigned int workers)
{
	unsigned int processes = workers + (turns.exclusive ? turns.exclusive - 1 : 0);

	if (processes == turns.processes || !turns.exclusive || turns.held)
		return;
	turns.processes = processes;
	show_state();
}

static void look(void)
{
	struct daemon_ledger_work work = {0};
	bool busy;

	/* A worker without running work may have a guest process that waits for it, and no turn to come. */
	daemon_ledger_continue_ended();
	daemon_ledger_each(add, &work);
	busy = work.wanted || work.running || work.begun != turns.begun;
	turns.begun = work.begun;
	turns.quiet = busy ? 0 : turns.quiet + 1;
	if (turns.drains && !work.running)
		end_drain();
	if (!work.running)
		turns.late = false;
	if (busy && !turns.active)
		say(VCUDA_ARBITER_ACTIVE);
	else if (turns.active && turns.quiet == QUIET_TIMES)
		say(VCUDA_ARBITER_IDLE);
	if (turns.active != (turns.quiet < QUIET_TIMES))
		count_time();
	turns.active = turns.quiet < QUIET_TIMES;
	if (turns.exclusive && !turns.held && (is_one_by_one() || turns.only))
		choose_only(false);
	if (turns.exclusive && !turns.held)
		choose_trial();
	count_processes(work.workers);
}

static void drained(void)
{
	if (turns.drains)
		look();
	else if (turns.exclusive && !turns.held)
		choose_trial();
}

static void poll_expired(struct daemon_timer *timer)
{
	bool often;

	look();
	often = turns.drains || (turns.exclusive && turns.active);
	daemon_timer_set(turns.loop, timer, often ? BUSY_MS : QUIET_MS);
}

/* ---- the arbiter ---- */

static void lost(void)
{
	count_time();
	daemon_overrun_late_until(turns.timed_until);
	daemon_timer_clear(&turns.stop);
	daemon_ledger_continue_work();
	turns.active = turns.drains = turns.late = false;
	turns.exclusive = 0;
	if (!turns.lost)
		daemon_timer_set(turns.loop, &turns.lease, LEASE_MS);
	turns.lost = true;
}

static void lease_expired(struct daemon_timer *timer)
{
	vcuda_log("there is no arbiter at %s: %s", daemon_arbiter_path(),
		  turns.options->share_strict ? "the work of this VM waits for one (--share-strict)"
					      : "this VM works without regard to shares until there is one");
	daemon_ledger_set_turns(turns.options->share_strict ? VCUDA_TURNS_HELD : 0);
}

static void fill(struct vcuda_arbiter_message *m)
{
	m->share = turns.options->share;
}

static void found(void)
{
	turns.quiet = QUIET_TIMES;
	turns.active = false;
}

static bool take(const struct vcuda_arbiter_message *m)
{
	if (m->type != VCUDA_ARBITER_RUN && m->type != VCUDA_ARBITER_HOLD)
		return false;
	/* One that has answered is there: another version, or one that is full, closes the socket. */
	turns.lost = false;
	daemon_timer_clear(&turns.lease);
	count_time();
	turns.exclusive = m->exclusive;
	if (m->share)
		daemon_overrun_others_share(m->share);
	turns.turn = m->turn;
	turns.held = turns.drains = m->type == VCUDA_ARBITER_HOLD;
	if (!turns.held)
		daemon_overrun_late_until(turns.timed_until);
	else if (turns.late)
		daemon_overrun_late_from(turns.timed_until);
	if (turns.exclusive && !turns.held && is_one_by_one())
		choose_only(true);
	show_state();
	if (turns.held) {
		turns.quantum = m->quantum;
		daemon_timer_set(turns.loop, &turns.stop, m->quantum);
	} else {
		daemon_timer_clear(&turns.stop);
		daemon_ledger_continue_work();
	}
	look();
	daemon_timer_set(turns.loop, &turns.poll, BUSY_MS);
	return true;
}

static const struct daemon_arbiter_user user = {.fill = fill, .found = found, .take = take, .lost = lost};

void daemon_turns_open(struct daemon_loop *loop, const struct daemon_options *options)
{
	if (!options->share)
		return;
	turns.options = options;
	turns.loop = loop;
	daemon_overrun_open(options);
	daemon_ledger_set_turns(options->share_strict ? VCUDA_TURNS_HELD : 0);
	daemon_timer_init(&turns.poll, poll_expired);
	daemon_timer_init(&turns.lease, lease_expired);
	daemon_timer_init(&turns.stop, stop_expired);
	daemon_ledger_on_drained(drained);
	daemon_arbiter_use(&user);
	daemon_timer_set(loop, &turns.poll, QUIET_MS);
}

const char *daemon_turns_state(void)
{
	if (!daemon_arbiter_is_there())
		return "lost";
	return !turns.exclusive ? "open" : turns.held ? "other" : "own";
}

struct daemon_turns_time daemon_turns_time(void)
{
	count_time();
	return turns.time;
}

void daemon_turns_close(void)
{
	if (!turns.loop)
		return;
	/* A worker that is stopped could not end. */
	daemon_ledger_continue_work();
	daemon_ledger_on_drained(NULL);
	daemon_timer_clear(&turns.poll);
	daemon_timer_clear(&turns.lease);
	daemon_timer_clear(&turns.stop);
}
