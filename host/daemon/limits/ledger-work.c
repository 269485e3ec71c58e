/* SPDX-License-Identifier: Apache-2.0 */
#include <signal.h>

#include "limits/ledger.h"

static bool is_running(const struct daemon_ledger_row *row)
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
	running = is_running(row) && !row->stopped;
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
	if (row->stopped || !is_running(row))
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
	if (!is_running(row))
		continue_work(row, NULL);
}

void daemon_ledger_continue_ended(void)
{
	daemon_ledger_each(continue_ended, NULL);
}

/* ---- one worker at a time ---- */

struct choice {
	uint32_t last, first, next, running;
	unsigned int count;
};

/* The least number above `last`, and the least of all. */
static void consider(struct daemon_ledger_row *row, void *argument)
{
	struct choice *c = argument;

	if (is_running(row)) {
		c->count++;
		if (!c->running || row->number == c->last)
			c->running = row->number;
	}
	if (!row->demand || !atomic_load(&row->demand->wanted))
		return;
	if (!c->first || row->number < c->first)
		c->first = row->number;
	if (row->number > c->last && (!c->next || row->number < c->next))
		c->next = row->number;
}

uint32_t daemon_ledger_next_worker(uint32_t last, unsigned int *running)
{
	struct choice c = {.last = last};

	daemon_ledger_each(consider, &c);
	*running = c.count;
	return c.running ? c.running : c.next ? c.next : c.first;
}
