/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Generators of many lanes, which give their numbers in turn: a row is one turn of all lanes. A place in a row is a
 * slot. A generation starts at the slot after the last one of the generation before. Each lane continues from its own
 * position, which depends on the kinds of numbers that it has given. So a unit is a chunk of lanes.
 */
#include <string.h>

#include "type.h"

unsigned int rng_lanes_pair(const struct rng_job *job)
{
	return vcuda_random_pair(job->settings.type, job->kind);
}

uint64_t rng_lanes_start(const struct rng *rng)
{
	const struct rng_lanes *l = rng->ops->lanes;

	return rng->settings.offset % ((uint64_t)l->count(&rng->settings) * l->per_lane);
}

bool rng_lanes_begin(struct rng_job *job)
{
	const struct rng_lanes *l = job->rng->ops->lanes;
	uint64_t wide = (uint64_t)l->chunk * l->per_lane, touched;

	job->row = (uint64_t)l->count(&job->settings) * l->per_lane;
	job->cursor %= job->row;
	job->slots = job->count / rng_lanes_pair(job);
	job->first = job->cursor / wide;
	touched = (job->cursor + job->slots + wide - 1) / wide - job->first;
	job->units = touched < job->row / wide ? touched : job->row / wide;
	if (!job->slots)
		job->units = 0;
	return true;
}

void rng_lanes_run(struct rng_job *job, uint64_t unit)
{
	const struct rng_lanes *l = job->rng->ops->lanes;
	uint64_t wide = (uint64_t)l->chunk * l->per_lane, chunk = (job->first + unit) % (job->row / wide);
	uint64_t size = vcuda_random_bytes(job->kind) * rng_lanes_pair(job), end = job->cursor + job->slots;

	if (!job->rng->ready[chunk]) {
		if (!l->seed(job, (unsigned int)(chunk * l->chunk), l->chunk)) {
			__atomic_store_n(&job->failed, true, __ATOMIC_RELAXED);
			return;
		}
		job->rng->ready[chunk] = 1;
	}
	for (uint64_t row = 0; row < end && !rng_cancelled(job); row += job->row) {
		uint64_t from = row + chunk * wide, to = from + wide;

		from = from < job->cursor ? job->cursor : from;
		to = to > end ? end : to;
		if (from < to)
			l->turn(job, from - row, to - row, (char *)job->out + (from - job->cursor) * size);
	}
}

void rng_lanes_end(struct rng_job *job)
{
	job->rng->cursor = (job->cursor + job->slots) % job->row;
}

void rng_lanes_poisson(struct rng_job *job, uint64_t from, uint64_t to, uint32_t *out,
		       void (*plain_pair)(struct rng *rng, unsigned int lane, float pair[2]), uint32_t *kept,
		       uint32_t *half)
{
	for (unsigned int lane = (unsigned int)from; lane < to; lane++) {
		float pair[2];

		if (kept[lane]) {
			memcpy(pair, &half[lane], sizeof(pair[0]));
		} else {
			plain_pair(job->rng, lane, pair);
			memcpy(&half[lane], &pair[1], sizeof(pair[1]));
		}
		kept[lane] = !kept[lane];
		*out++ = rng_poisson_normal(job, (double)pair[0]);
	}
}
