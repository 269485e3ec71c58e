/* SPDX-License-Identifier: Apache-2.0 */
#include <signal.h>

#include "common/deadline.h"
#include "limits/ledger.h"
#include "limits/overrun.h"

/*
 * So long work that may wait keeps others from a trial. NVIDIA's driver finds kernels that run meanwhile (overrun.h):
 * vcudad gets five samples a second, each with one process of the GPU.
 */
#define UNKNOWN_NS 3000000000ull

bool daemon_ledger_row_runs(const struct daemon_ledger_row *row)
{
	return row->demand && atomic_load(&row->demand->running);
}

void daemon_ledger_row_work(const struct daemon_ledger_row *row, struct daemon_ledger_work *sum)
{
	bool wanted, running;

	if (!row->demand)
		return;
	wanted = atomic_load(&row->demand->wanted);
	/* A stopped worker does not run. */
	running = daemon_ledger_row_runs(row) && !row->stopped;
	sum->begun += atomic_load(&row->demand->begun);
	sum->wanted |= wanted;
	sum->running |= running;
	sum->workers += wanted || running;
	sum->commands += atomic_load(&row->demand->commands);
	sum->inside |= atomic_load(&row->demand->inside) != 0;
	sum->waiting |= atomic_load(&row->demand->waiting) != 0;
}

static void stop_work(struct daemon_ledger_row *row, void *all)
{
	if (row->stopped || !daemon_ledger_row_runs(row))
		return;
	if (daemon_ledger_may_be_on_gpu() && atomic_load(&row->demand->on_gpu))
		*(bool *)all = false;
	else
		row->stopped = !kill(row->worker, SIGSTOP);
}

bool daemon_ledger_stop_work(void)
{
	bool all = true;

	daemon_ledger_each(stop_work, &all);
	return all;
}

static void continue_work(struct daemon_ledger_row *row, void *unused)
{
	if (row->stopped)
		kill(row->worker, SIGCONT);
	row->stopped = false;
}

void daemon_ledger_continue_work(void)
{
	daemon_ledger_each(continue_work, NULL);
}

static void continue_ended(struct daemon_ledger_row *row, void *unused)
{
	if (!daemon_ledger_row_runs(row))
		continue_work(row, NULL);
}

void daemon_ledger_continue_ended(void)
{
	daemon_ledger_each(continue_ended, NULL);
}

/* ---- work that may wait for its process ---- */

static bool says_waits(const struct daemon_ledger_row *row)
{
	return daemon_ledger_row_runs(row) && atomic_load(&row->demand->waits);
}

void daemon_ledger_row_note_wait(struct daemon_ledger_row *row)
{
	if (!says_waits(row))
		row->waits_since = 0;
	else if (!row->waits_since)
		row->waits_since = vcuda_now_ns();
}

/* Such work may wait for another process as well: it keeps none from the GPU, unless its kernels were found. */
static bool may_wait(const struct daemon_ledger_row *row)
{
	return says_waits(row) && !daemon_overrun_counts(row);
}

static bool has_waited_long(const struct daemon_ledger_row *row)
{
	return may_wait(row) && row->waits_since && vcuda_now_ns() >= row->waits_since + UNKNOWN_NS;
}

/* ---- one worker at a time ---- */

static uint64_t choices; /* and first needs of workers, which wait behind those that were there before */

struct choice {
	uint32_t last;
	const struct daemon_ledger_row *stays, *running, *waiting;
	unsigned int count;
};

static bool is_earlier(const struct daemon_ledger_row *row, const struct daemon_ledger_row *than)
{
	return !than || row->chosen < than->chosen;
}

static void consider(struct daemon_ledger_row *row, void *argument)
{
	struct choice *c = argument;
	bool runs = daemon_ledger_row_runs(row);
	bool waits = may_wait(row);

	c->count += runs && !waits;
	if (!row->demand || !(atomic_load(&row->demand->wanted) || runs))
		return;
	if (!row->chosen)
		row->chosen = ++choices;
	if (row->number == c->last)
		c->stays = row;
	if (runs && !waits && is_earlier(row, c->running))
		c->running = row;
	else if (atomic_load(&row->demand->wanted) && is_earlier(row, c->waiting))
		c->waiting = row;
}

uint32_t daemon_ledger_choose_worker(uint32_t last, bool next, unsigned int *running)
{
	struct choice c = {.last = last};
	const struct daemon_ledger_row *chosen;

	daemon_ledger_each(consider, &c);
	*running = c.count;
	chosen = c.stays && !next ? c.stays : c.running ? c.running : c.waiting;
	return chosen ? chosen->number : 0;
}

static void stamp(struct daemon_ledger_row *row, void *number)
{
	if (row->number == *(const uint32_t *)number)
		row->chosen = ++choices;
}

void daemon_ledger_note_choice(uint32_t number)
{
	daemon_ledger_each(stamp, &number);
}

/* ---- trials ---- */

static uint64_t trials;

struct trial {
	uint32_t last, only;
	const struct daemon_ledger_row *stays, *alone, *first, *waits;
};

static void consider_trial(struct daemon_ledger_row *row, void *argument)
{
	struct trial *c = argument;
	bool runs = daemon_ledger_row_runs(row);

	if (!row->demand || !atomic_load(&row->demand->tries)) {
		row->tries = 0;
		return;
	}
	if (!row->tries)
		row->tries = ++trials;
	/* The operator's pause may hold its command back. */
	if (!runs && !atomic_load(&row->demand->wanted))
		return;
	if (row->number == c->only)
		c->alone = row;
	if (has_waited_long(row)) {
		/* The command that it waits for may be its own. */
		if (atomic_load(&row->demand->wanted) && (!c->waits || row->tries < c->waits->tries))
			c->waits = row;
		return;
	}
	if (row->number == c->last)
		c->stays = row;
	if (!c->first || row->tries < c->first->tries)
		c->first = row;
}

uint32_t daemon_ledger_choose_trial(uint32_t last, uint32_t only)
{
	struct trial c = {.last = last, .only = only};
	const struct daemon_ledger_row *chosen;

	daemon_ledger_each(consider_trial, &c);
	chosen = c.alone ? c.alone : c.stays ? c.stays : c.first ? c.first : c.waits;
	return chosen ? chosen->number : 0;
}
