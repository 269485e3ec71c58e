/* SPDX-License-Identifier: Apache-2.0 */
/* Which worker of a VM may try whether its work on a GPU ends (protocol/turns.h). */
#include <unistd.h>

#include "common/deadline.h"
#include "host/daemon/limits/ledger.h"
#include "host/daemon/limits/overrun.h"
#include "test/check.h"

#define WORKERS 3
#define SECOND_NS 1000000000ull

static struct daemon_options options = {.backend = "cuda",
					.share = 1,
					.max_device_memory = VCUDA_LEDGER_NO_LIMIT,
					.max_process_device_memory = VCUDA_LEDGER_NO_LIMIT};
static struct daemon_loop loop;
static struct daemon_ledger_row rows[WORKERS];
static const uint32_t guest_pid = 42;

static void broken(struct daemon_ledger_row *row)
{
	(void)row;
	CHECK(false);
}

static void needs(int worker, bool trial)
{
	atomic_store(&rows[worker].demand->tries, trial);
	atomic_store(&rows[worker].demand->wanted, trial);
}

static void runs(int worker, bool running, bool waits)
{
	atomic_store(&rows[worker].demand->running, running);
	atomic_store(&rows[worker].demand->waits, waits);
	daemon_ledger_row_note_wait(&rows[worker]);
}

static void check_order(void)
{
	uint32_t trial = daemon_ledger_choose_trial(0, 0);

	CHECK(!trial);
	needs(1, true);
	CHECK(daemon_ledger_choose_trial(0, 0) == rows[1].number);
	needs(0, true);
	needs(2, true);
	/* The worker keeps the trial while its work runs. */
	runs(1, true, false);
	CHECK(daemon_ledger_choose_trial(rows[1].number, 0) == rows[1].number);
	CHECK(daemon_ledger_choose_trial(0, 0) == rows[1].number);
	/* The worker's command has come to a closed gate. */
	runs(1, false, false);
	atomic_store(&rows[1].demand->wanted, 0);
	CHECK(daemon_ledger_choose_trial(rows[1].number, 0) != rows[1].number);
	/* The worker's work has ended. */
	runs(1, false, false);
	needs(1, false);
	trial = daemon_ledger_choose_trial(rows[1].number, 0);
	CHECK(trial == rows[0].number || trial == rows[2].number);
	/* The worker needs a trial again, behind the others. */
	needs(1, true);
	needs(trial == rows[0].number ? 0 : 2, false);
	CHECK(daemon_ledger_choose_trial(trial, 0) == rows[trial == rows[0].number ? 2 : 0].number);
	needs(0, false);
	needs(2, false);
	CHECK(daemon_ledger_choose_trial(0, 0) == rows[1].number);
}

/* The worker that may run alone, and one whose work may wait for another worker's. */
static void check_others(void)
{
	needs(0, false);
	needs(1, true);
	CHECK(daemon_ledger_choose_trial(0, 0) == rows[1].number);
	needs(2, true);
	CHECK(daemon_ledger_choose_trial(rows[1].number, rows[2].number) == rows[2].number);
	CHECK(daemon_ledger_choose_trial(rows[1].number, rows[0].number) == rows[1].number);
	/* Work that may wait keeps the trial until NVIDIA's driver would have found its kernels. */
	runs(1, true, true);
	CHECK(daemon_ledger_choose_trial(rows[1].number, 0) == rows[1].number);
	rows[1].waits_since -= 2 * SECOND_NS;
	CHECK(daemon_ledger_choose_trial(rows[1].number, 0) == rows[1].number);
	rows[1].waits_since -= 2 * SECOND_NS;
	CHECK(daemon_ledger_choose_trial(rows[1].number, 0) == rows[2].number);
	/* Kernels of the worker have been found. */
	rows[1].overrun_found_ns = vcuda_now_ns() - 9 * SECOND_NS;
	CHECK(daemon_ledger_choose_trial(rows[1].number, 0) == rows[1].number);
	rows[1].overrun_found_ns -= 2 * SECOND_NS;
	CHECK(daemon_ledger_choose_trial(rows[1].number, 0) == rows[2].number);
	runs(2, true, true);
	CHECK(daemon_ledger_choose_trial(rows[2].number, 0) == rows[2].number);
	rows[2].waits_since -= 4 * SECOND_NS;
	/* The only one that may run gets the trial that it needs, whatever its work waits for. */
	CHECK(daemon_ledger_choose_trial(rows[1].number, rows[2].number) == rows[2].number);
	needs(0, true);
	CHECK(daemon_ledger_choose_trial(rows[1].number, rows[2].number) == rows[2].number);
	needs(0, false);
	/* All work waits: the command that ends it may be any. */
	CHECK(daemon_ledger_choose_trial(rows[1].number, 0) == rows[1].number);
	runs(1, true, false);
	CHECK(daemon_ledger_choose_trial(0, 0) == rows[1].number);
	/* A worker that has ended needs none. */
	runs(2, false, false);
	daemon_ledger_end_work(&rows[1]);
	CHECK(daemon_ledger_choose_trial(rows[1].number, 0) == rows[2].number);
}

int main(void)
{
	int ends[WORKERS];

	CHECK(!daemon_loop_init(&loop));
	CHECK(!daemon_ledger_refresh(&options));
	daemon_overrun_open(&options);
	for (int i = 0; i < WORKERS; i++) {
		/* The numbers are no processes': nothing sends a signal here. */
		CHECK(!daemon_ledger_open(&rows[i], &loop, &ends[i]));
		CHECK(!daemon_ledger_start(&rows[i], 100000000 + i, &guest_pid, broken));
	}
	check_order();
	check_others();
	for (int i = 0; i < WORKERS; i++) {
		if (i != 1)
			daemon_ledger_end_work(&rows[i]);
		daemon_ledger_close(&rows[i]);
		close(ends[i]);
	}
	daemon_loop_close(&loop);
	return 0;
}
