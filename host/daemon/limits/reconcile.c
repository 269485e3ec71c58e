/* SPDX-License-Identifier: Apache-2.0 */
#include "limits/reconcile.h"

#include "common/log.h"
#include "limits/ledger.h"
#include "options/quotas.h"

#define TOLERANCE_BYTES (256ull << 20)
#define TOLERANCE_PART 10

/* More than any GPU has. */
#define MOST_BYTES (1ull << 50)

#define TIMES_TO_CHARGE 2
#define TIMES_TO_END 3

/* The workers of one GPU, and the one with the largest surplus. */
struct gpu {
	const struct vcuda_gpu_use *m;
	uint64_t surplus; /* of all */
	struct daemon_ledger_row *worst;
	bool ends; /* one of them */
};

uint64_t daemon_reconcile_tolerance(uint64_t bytes)
{
	return TOLERANCE_BYTES + bytes / TOLERANCE_PART;
}

static uint64_t find(const struct vcuda_gpu_use *m, pid_t worker)
{
	for (uint32_t i = 0; i < m->count; i++)
		if (m->memory[i].process == (uint32_t)worker)
			return m->memory[i].bytes < MOST_BYTES ? m->memory[i].bytes : MOST_BYTES;
	return 0;
}

static void log_surplus(const struct daemon_ledger_row *row, unsigned int gpu)
{
	vcuda_log_peer(
		"guest process %u (worker %d) has %llu MiB of GPU %u beyond the %llu MiB that were granted: they "
		"count too",
		*row->guest_pid, row->worker, (unsigned long long)(row->surplus[gpu] >> 20), gpu,
		(unsigned long long)(row->granted[gpu] >> 20));
}

static void charge(struct daemon_ledger_row *row, void *argument)
{
	struct gpu *g = argument;
	unsigned int gpu = g->m->gpu;
	uint64_t bytes = find(g->m, row->worker), granted = row->granted[gpu], before = row->surplus[gpu];
	bool is_above = granted < MOST_BYTES && bytes > granted + daemon_reconcile_tolerance(granted);

	row->times[gpu] = !is_above ? 0 : row->times[gpu] < TIMES_TO_END ? row->times[gpu] + 1 : TIMES_TO_END;
	daemon_ledger_set_surplus(row, gpu, row->times[gpu] >= TIMES_TO_CHARGE ? bytes - granted : 0);
	if (row->surplus[gpu] && !before)
		log_surplus(row, gpu);
	g->surplus += row->surplus[gpu];
	g->ends |= row->over;
	if (row->times[gpu] >= TIMES_TO_END && (!g->worst || row->surplus[gpu] > g->worst->surplus[gpu]))
		g->worst = row;
}

static void end(struct daemon_ledger_row *row, unsigned int gpu, enum daemon_quota quota)
{
	vcuda_log("guest process %u (worker %d) has %llu MiB of GPU %u, and was granted %llu MiB: it is over the quota "
		  "and ended (raise --%s)",
		  *row->guest_pid, row->worker, (unsigned long long)((row->granted[gpu] + row->surplus[gpu]) >> 20),
		  gpu, (unsigned long long)(row->granted[gpu] >> 20), daemon_quota_kind(quota)->name);
	daemon_quota_refuse(quota);
	row->over = true;
	row->broken(row);
}

/* Grants alone exceed no limit, unless the limit was lowered: no process is ended for that. */
static bool is_over(uint64_t granted, uint64_t surplus, uint64_t limit)
{
	uint64_t tolerance = daemon_reconcile_tolerance(limit);

	return surplus > tolerance && granted + surplus > limit + tolerance;
}

static void end_if_over(struct daemon_ledger_row *row, void *argument)
{
	struct gpu *g = argument;
	unsigned int gpu = g->m->gpu;

	if (row->over || row->times[gpu] < TIMES_TO_END ||
	    !is_over(row->granted[gpu], row->surplus[gpu], daemon_ledger_process_limit()))
		return;
	end(row, gpu, DAEMON_QUOTA_PROCESS_DEVICE_MEMORY);
	g->ends = true;
}

void daemon_reconcile(const struct vcuda_gpu_use *m)
{
	struct gpu g = {.m = m};

	daemon_ledger_each(charge, &g);
	daemon_ledger_each(end_if_over, &g);
	/* The memory of one that ends is still there. */
	if (!g.ends && g.worst && is_over(daemon_ledger_granted(m->gpu) - g.surplus, g.surplus, daemon_ledger_limit()))
		end(g.worst, m->gpu, DAEMON_QUOTA_DEVICE_MEMORY);
}
