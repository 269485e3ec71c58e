/* SPDX-License-Identifier: Apache-2.0 */
#include "limits/overrun.h"

#include <string.h>

#include "common/deadline.h"
#include "common/log.h"
#include "limits/ledger.h"
#include "options/quotas.h"

#define SECOND_NS 1000000000ull

/* Samples are some seconds old at most, and a VM that is late has a turn in ten quanta. */
#define INTERVALS 64

/* The times of samples are not exact. */
#define MARGIN_NS 2000000ull

/* A sample counts for the time since the last one, but at most for this time. */
#define MOST_SAMPLE_NS SECOND_NS

/* Where no look finds a worker of the VM for longer than that, the time of its workers becomes less. */
#define QUIET_NS (3 * SECOND_NS)

/*
 * How long a worker counts whose kernels were found. A sample names one process, and counts only where the VM had no
 * turn meanwhile: beside another VM, 3 s passed on an H200 without a sample that names this one.
 */
#define COUNTS_NS (10 * SECOND_NS)

/*
 * So long a worker's time counts after the last sample that names the worker, or eight times the limit if that is
 * longer: of many processes each is named seldom.
 */
#define OLD_NS (60 * SECOND_NS)

/* How long a worker that is told to end has for that. */
#define END_NS (2 * SECOND_NS)

/* How long a VM is not trusted after one of its processes was ended. */
#define SUSPECT_NS (60 * SECOND_NS)

struct interval {
	uint64_t from, until; /* 0: none; it has not ended */
};

static struct {
	const struct daemon_options *options;
	struct interval intervals[INTERVALS];
	unsigned int last;                                                    /* the newest */
	uint64_t sampled_ns[VCUDA_LEDGER_GPUS], period_ns[VCUDA_LEDGER_GPUS]; /* the last sample, the time before it */
	uint64_t found_ns[VCUDA_LEDGER_GPUS];                                 /* the last sample that counted */
	uint32_t others_share;                                                /* 0: not known */
	uint64_t ended_ns; /* when a process was told to end; 0: none was */
} overrun;

void daemon_overrun_open(const struct daemon_options *options)
{
	overrun.options = options;
}

void daemon_overrun_late_from(uint64_t ns)
{
	const struct interval *last = &overrun.intervals[overrun.last];

	if (last->from && !last->until)
		return;
	overrun.last = (overrun.last + 1) % INTERVALS;
	overrun.intervals[overrun.last] = (struct interval){.from = ns};
}

void daemon_overrun_late_until(uint64_t ns)
{
	struct interval *last = &overrun.intervals[overrun.last];

	if (!last->until)
		last->until = ns;
}

/* All the time between two moments. */
static bool was_late(uint64_t from, uint64_t until)
{
	for (unsigned int i = 0; i < INTERVALS; i++) {
		const struct interval *at = &overrun.intervals[i];

		if (at->from && from >= at->from + MARGIN_NS && (!at->until || until <= at->until))
			return true;
	}
	return false;
}

void daemon_overrun_others_share(uint32_t share)
{
	overrun.others_share = share;
}

void daemon_overrun_forget(struct daemon_ledger_row *row)
{
	/* Each look forgets the time of workers without work, which mostly have none. */
	if (!row->overrun_found_ns)
		return;
	memset(row->overrun_ns, 0, sizeof(row->overrun_ns));
	row->overrun_found_ns = 0;
}

bool daemon_overrun_has_ended(const struct daemon_ledger_row *row)
{
	return row->overrun_ended_ns;
}

bool daemon_overrun_counts(const struct daemon_ledger_row *row)
{
	uint64_t now = vcuda_now_ns();

	return (row->overrun_found_ns && now < row->overrun_found_ns + COUNTS_NS) ||
	       (overrun.ended_ns && now < overrun.ended_ns + SUSPECT_NS);
}

/* ---- one message ---- */

struct look {
	const struct vcuda_gpu_use_sample *sample;
	unsigned int gpu;
	uint64_t ns;
	struct daemon_ledger_row *found;
};

static void find(struct daemon_ledger_row *row, void *argument)
{
	struct look *l = argument;

	if (row->worker == (pid_t)l->sample->process && row->demand && !row->overrun_ended_ns &&
	    atomic_load(&row->demand->running) && atomic_load(&row->demand->waits))
		l->found = row;
}

/* In `ns` without turns for its kernels the VM loses what its share of that time is worth to the others. */
static uint64_t paid_in(uint64_t ns)
{
	return overrun.others_share ? ns / overrun.others_share * overrun.options->share : ns;
}

struct payment {
	unsigned int gpu;
	uint64_t ns;
};

static void pay(struct daemon_ledger_row *row, void *argument)
{
	struct payment *p = argument;
	uint64_t *owed = &row->overrun_ns[p->gpu];
	uint64_t part = row->overrun_ended_ns ? 0 : *owed < p->ns ? *owed : p->ns;

	*owed -= part;
	p->ns -= part;
}

/* The first sample after a pause may stand for less than it counts. */
static void forget_paid(unsigned int gpu, uint64_t now)
{
	uint64_t quiet = now > overrun.found_ns[gpu] ? now - overrun.found_ns[gpu] : 0;

	if (quiet > QUIET_NS)
		daemon_ledger_each(pay, &(struct payment){.gpu = gpu, .ns = paid_in(quiet) + MOST_SAMPLE_NS});
	overrun.found_ns[gpu] += quiet;
}

static uint64_t limit_ns(void)
{
	uint64_t seconds = overrun.options->max_kernel_time;

	if (seconds == VCUDA_LEDGER_KERNEL_SECONDS_DEFAULT)
		seconds = VCUDA_TURNS_KERNEL_SECONDS;
	return seconds < UINT64_MAX / SECOND_NS ? seconds * SECOND_NS : UINT64_MAX;
}

static bool is_old(const struct daemon_ledger_row *row, uint64_t now)
{
	uint64_t limit = limit_ns(), old = limit < UINT64_MAX / 16 ? 8 * limit : UINT64_MAX / 2;

	return now >= row->overrun_found_ns + (old > OLD_NS ? old : OLD_NS);
}

static void count(struct look *l)
{
	struct daemon_ledger_row *row;

	daemon_ledger_each(find, l);
	row = l->found;
	if (!row)
		return;
	forget_paid(l->gpu, l->sample->time_ns);
	if (is_old(row, l->sample->time_ns))
		daemon_overrun_forget(row);
	vcuda_log_debug("worker %d ran kernels in other VMs' turns, %llu ms", row->worker,
			(unsigned long long)(l->ns / 1000000));
	row->overrun_ns[l->gpu] += l->ns;
	row->overrun_found_ns = l->sample->time_ns;
}

static void count_samples(const struct vcuda_gpu_use *m)
{
	for (uint32_t i = 0; i < m->count; i++) {
		const struct vcuda_gpu_use_sample *s = &m->samples[i];
		uint64_t passed = s->time_ns - overrun.sampled_ns[m->gpu], ns;

		/* Several processes may be found at once. */
		if (passed)
			overrun.period_ns[m->gpu] = passed < MOST_SAMPLE_NS ? passed : MOST_SAMPLE_NS;
		overrun.sampled_ns[m->gpu] = s->time_ns;
		ns = overrun.period_ns[m->gpu] * s->busy / 100;
		if (ns && was_late(s->time_ns - overrun.period_ns[m->gpu], s->time_ns))
			count(&(struct look){.sample = s, .gpu = m->gpu, .ns = ns});
	}
}

struct sum {
	unsigned int gpu;
	uint64_t now, ns, most;
};

/*
 * One whose process has not been told to end. It counts also while looks find others of the VM: a sample names one
 * process, and of sixteen with endless kernels each is found once in some seconds.
 */
static bool is_counted(const struct daemon_ledger_row *row, const struct sum *sum)
{
	return row->demand && row->overrun_ns[sum->gpu] && !row->overrun_ended_ns && !is_old(row, sum->now) &&
	       sum->now < overrun.found_ns[sum->gpu] + QUIET_NS;
}

static void add(struct daemon_ledger_row *row, void *argument)
{
	struct sum *sum = argument;

	if (!is_counted(row, sum))
		return;
	sum->ns += row->overrun_ns[sum->gpu];
	if (row->overrun_ns[sum->gpu] > sum->most)
		sum->most = row->overrun_ns[sum->gpu];
}

/* One that was found lately, with half as much time as the one with most, or more. */
static void end(struct daemon_ledger_row *row, void *argument)
{
	const struct sum *sum = argument;

	if (!is_counted(row, sum) || sum->now >= row->overrun_found_ns + COUNTS_NS ||
	    row->overrun_ns[sum->gpu] < sum->most / 2)
		return;
	vcuda_log_peer("guest process %u (worker %d) runs kernels in other VMs' turns, and says that they may wait: "
		       "%llu s on GPU %u, of all such processes together, so it is ended (raise --max-kernel-time)",
		       *row->guest_pid, row->worker, (unsigned long long)(sum->ns / SECOND_NS), sum->gpu);
	daemon_quota_refuse(DAEMON_QUOTA_KERNEL_TIME);
	row->overrun_ended_ns = sum->now;
	overrun.ended_ns = vcuda_now_ns();
	atomic_store(&row->demand->overran, 1);
}

static void kill_if_late(struct daemon_ledger_row *row, void *now)
{
	if (!row->demand || !row->overrun_ended_ns || row->over || *(uint64_t *)now < row->overrun_ended_ns + END_NS)
		return;
	vcuda_log_peer("worker %d (guest process %u) runs kernels in other VMs' turns, was told to end its process, "
		       "and goes on: it is killed (raise --max-kernel-time)",
		       row->worker, *row->guest_pid);
	row->over = true;
	row->broken(row);
}

void daemon_overrun_samples(const struct vcuda_gpu_use *m)
{
	struct sum sum = {.gpu = m->gpu};

	if (!overrun.options)
		return;
	count_samples(m);
	sum.now = overrun.sampled_ns[m->gpu];
	daemon_ledger_each(kill_if_late, &sum.now);
	daemon_ledger_each(add, &sum);
	if (sum.ns >= limit_ns())
		daemon_ledger_each(end, &sum);
}
