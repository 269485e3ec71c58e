/* SPDX-License-Identifier: Apache-2.0 */
#include "limits/overrun.h"

#include "common/deadline.h"
#include "common/log.h"
#include "limits/ledger.h"
#include "options/quotas.h"

#define SECOND_NS 1000000000ull

/* Samples are a second old, and turns last 2 ms and longer: two of a round, with time to spare. */
#define INTERVALS 256

/* The times of samples are not exact. */
#define MARGIN_NS 2000000ull

/* A sample stands for the time since the last one, but for no more. */
#define MOST_SAMPLE_NS SECOND_NS

/* Without a sample that counts for so long, what was counted is forgotten. */
#define FORGET_NS (3 * SECOND_NS)

/* How long a worker that is told to end has for that. */
#define END_NS (2 * SECOND_NS)

/* How long daemon_overrun_is_recent(), and how much time it takes for that. */
#define RECENT_NS (60 * SECOND_NS)
#define LEAST_RECENT_NS (SECOND_NS / 10)

struct interval {
	uint64_t from; /* until the next one; 0: none */
	enum daemon_overrun_turn turn;
};

static struct {
	const struct daemon_options *options;
	struct interval intervals[INTERVALS];
	unsigned int last; /* the newest */
	uint64_t sampled_ns[VCUDA_LEDGER_GPUS],
		period_ns[VCUDA_LEDGER_GPUS]; /* the last sample, and the time before it */
	uint64_t counted_ns;                  /* the time of the last sample that counted */
	uint64_t time_ns;                     /* of all workers */
	uint64_t recent_ns;                   /* when it was last LEAST_RECENT_NS or longer */
} overrun;

void daemon_overrun_open(const struct daemon_options *options)
{
	overrun.options = options;
}

void daemon_overrun_turn(enum daemon_overrun_turn turn, uint64_t ns)
{
	if (overrun.intervals[overrun.last].turn == turn)
		return;
	overrun.last = (overrun.last + 1) % INTERVALS;
	overrun.intervals[overrun.last] = (struct interval){.from = ns, .turn = turn};
}

/* What it was all the time between two moments; OWN where it was not one thing, or is not known any more. */
static enum daemon_overrun_turn turn_between(uint64_t from, uint64_t until)
{
	uint64_t next = UINT64_MAX;

	for (unsigned int i = 0; i < INTERVALS; i++) {
		const struct interval *at = &overrun.intervals[(overrun.last - i) % INTERVALS];

		if (at->from && until >= at->from)
			return from >= at->from + MARGIN_NS && until <= next ? at->turn : DAEMON_OVERRUN_OWN;
		next = at->from;
	}
	return DAEMON_OVERRUN_OWN;
}

bool daemon_overrun_is_recent(void)
{
	return overrun.recent_ns && vcuda_now_ns() < overrun.recent_ns + RECENT_NS;
}

/* ---- one message ---- */

struct count {
	const struct vcuda_gpu_use_sample *sample;
	enum daemon_overrun_turn turn;
	uint64_t ns;
};

static void count_sample(struct daemon_ledger_row *row, void *argument)
{
	const struct count *c = argument;

	if (row->worker != (pid_t)c->sample->process || !row->demand ||
	    (c->turn == DAEMON_OVERRUN_LATE && !atomic_load(&row->demand->waits)))
		return;
	vcuda_log_debug("worker %d ran kernels outside of this VM's turns, %llu ms", row->worker,
			(unsigned long long)(c->ns / 1000000));
	row->overrun_ns += c->ns;
	overrun.time_ns += c->ns;
	overrun.counted_ns = c->sample->time_ns;
}

static void count_samples(const struct vcuda_gpu_use *m)
{
	for (uint32_t i = 0; i < m->count; i++) {
		const struct vcuda_gpu_use_sample *s = &m->samples[i];
		uint64_t passed = s->time_ns - overrun.sampled_ns[m->gpu], ns;
		enum daemon_overrun_turn turn;

		/* Several processes may be found at once. */
		if (passed)
			overrun.period_ns[m->gpu] = passed < MOST_SAMPLE_NS ? passed : MOST_SAMPLE_NS;
		ns = overrun.period_ns[m->gpu] * s->busy / 100;
		overrun.sampled_ns[m->gpu] = s->time_ns;
		turn = turn_between(s->time_ns - overrun.period_ns[m->gpu], s->time_ns);
		if (ns && turn != DAEMON_OVERRUN_OWN)
			daemon_ledger_each(count_sample, &(struct count){.sample = s, .turn = turn, .ns = ns});
	}
}

static void forget(struct daemon_ledger_row *row, void *unused)
{
	row->overrun_ns = 0;
}

static void find_most(struct daemon_ledger_row *row, void *most)
{
	if (row->overrun_ns > *(uint64_t *)most)
		*(uint64_t *)most = row->overrun_ns;
}

/* One with half as much time as the one with most. */
static void end(struct daemon_ledger_row *row, void *most)
{
	if (!row->overrun_ns || row->overrun_ns < *(uint64_t *)most / 2 || row->overrun_ended_ns)
		return;
	vcuda_log_peer("guest process %u (worker %d) runs kernels outside of this VM's turns, and its worker does not "
		       "end them: %llu s of all such processes together, so it is ended (raise --max-kernel-time)",
		       *row->guest_pid, row->worker, (unsigned long long)(overrun.time_ns / SECOND_NS));
	daemon_quota_refuse(DAEMON_QUOTA_KERNEL_TIME);
	row->overrun_ended_ns = overrun.counted_ns;
	atomic_store(&row->demand->overran, 1);
}

static void kill_if_late(struct daemon_ledger_row *row, void *now)
{
	if (!row->overrun_ended_ns || row->over || *(uint64_t *)now < row->overrun_ended_ns + END_NS)
		return;
	vcuda_log_peer("worker %d (guest process %u) was told to end its process, and goes on: it is killed",
		       row->worker, *row->guest_pid);
	row->over = true;
	row->broken(row);
}

static uint64_t limit_ns(void)
{
	uint64_t seconds = overrun.options->max_kernel_time;

	if (seconds == VCUDA_LEDGER_KERNEL_SECONDS_DEFAULT)
		seconds = VCUDA_TURNS_KERNEL_SECONDS;
	return seconds < UINT64_MAX / SECOND_NS ? seconds * SECOND_NS : UINT64_MAX;
}

void daemon_overrun_samples(const struct vcuda_gpu_use *m)
{
	uint64_t most = 0;

	if (!overrun.options)
		return;
	count_samples(m);
	if (overrun.time_ns >= LEAST_RECENT_NS)
		overrun.recent_ns = vcuda_now_ns();
	daemon_ledger_each(kill_if_late, &overrun.sampled_ns[m->gpu]);
	if (overrun.time_ns >= limit_ns()) {
		daemon_ledger_each(find_most, &most);
		daemon_ledger_each(end, &most);
	} else if (overrun.sampled_ns[m->gpu] < overrun.counted_ns + FORGET_NS) {
		return;
	}
	daemon_ledger_each(forget, NULL);
	overrun.time_ns = 0;
}
