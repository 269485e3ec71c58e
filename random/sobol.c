/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Sobol's sequences, in the order of Gray's code: number i of a dimension is the sum, without carries, of the
 * directions whose bits are set in the code of i. All numbers of a dimension precede those of the next. A scrambled
 * sequence adds another number in the same way.
 */
#include <string.h>

#include "sobol-data.h"
#include "type.h"

#define PIECE 8192 /* numbers in a unit */

static unsigned int bits_of(const struct rng_job *job)
{
	return vcuda_random_is_long(job->settings.type) ? 64 : 32;
}

uint64_t rng_load_sobol(uint32_t type, const uint64_t *scrambles, unsigned int dimension, uint64_t directions[])
{
	unsigned int bits = vcuda_random_is_long(type) ? 64 : 32;

	if (!vcuda_random_is_scrambled(type)) {
		rng_directions(dimension, bits, directions);
		return 0;
	}
	if (!scrambles)
		return rng_scrambled(dimension, bits, directions);
	scrambles += (size_t)dimension * (bits + 1);
	memcpy(directions, scrambles, bits * sizeof(*directions));
	return scrambles[bits];
}

static bool begin(struct rng_job *job)
{
	job->row = job->count / job->settings.dimensions;
	job->units = (job->count + PIECE - 1) / PIECE;
	return true;
}

static double unit_long(uint64_t x)
{
	return (double)(x >> 11) * 0x1p-53 + 0x1p-54;
}

static uint32_t poisson(const struct rng_job *job, uint64_t x)
{
	bool wide = bits_of(job) == 64;

	if (job->table)
		return rng_poisson(job, wide ? unit_long(x) : rng_unit((uint32_t)x));
	return rng_poisson_normal(job, (double)rng_quantile((uint32_t)(wide ? x >> 32 : x)));
}

static void store(const struct rng_job *job, uint64_t x, uint64_t i)
{
	bool wide = bits_of(job) == 64;
	uint32_t high = (uint32_t)(wide ? x >> 32 : x);

	switch (job->kind) {
	case VCUDA_RANDOM_LONG_BITS:
		((uint64_t *)job->out)[i] = x;
		break;
	case VCUDA_RANDOM_UNIFORM_DOUBLE:
		((double *)job->out)[i] = wide ? unit_long(x) : rng_unit(high);
		break;
	case VCUDA_RANDOM_POISSON:
		((uint32_t *)job->out)[i] = poisson(job, x);
		break;
	case VCUDA_RANDOM_NORMAL_DOUBLE:
	case VCUDA_RANDOM_LOG_NORMAL_DOUBLE:
		((double *)job->out)[i] = wide ? rng_normal_long(job, x) : rng_normal_double(job, high);
		break;
	default:
		rng_store_word(job, high, i);
	}
}

/* The numbers from `from` to `to` of a dimension; the first of them is number `at` of the sequence. */
static void run_dimension(const struct rng_job *job, unsigned int dimension, uint64_t from, uint64_t to)
{
	unsigned int bits = bits_of(job);
	uint64_t directions[64], at = job->cursor + from;
	uint64_t first = rng_load_sobol(job->settings.type, job->rng->scrambles, dimension, directions), x = first;

	for (unsigned int k = 0; k < bits; k++)
		if ((at ^ at >> 1) >> k & 1)
			x ^= directions[k];
	for (uint64_t i = from; i < to; i++) {
		unsigned int last = (unsigned int)__builtin_ctzll(~at | 1ull << 63);

		store(job, x, dimension * job->row + i);
		/* Beyond the last of its bits the sequence begins anew. */
		x = last < bits ? x ^ directions[last] : x;
		at++;
		if (bits == 32 && !(uint32_t)at)
			x = first;
	}
}

static void run(struct rng_job *job, uint64_t unit)
{
	uint64_t from = unit * PIECE, end = from + PIECE < job->count ? from + PIECE : job->count;

	while (from < end && !rng_cancelled(job)) {
		uint64_t dimension = from / job->row, stop = (dimension + 1) * job->row;

		stop = stop < end ? stop : end;
		run_dimension(job, (unsigned int)dimension, from - dimension * job->row, stop - dimension * job->row);
		from = stop;
	}
}

static void end(struct rng_job *job)
{
	job->rng->cursor = job->cursor + job->row;
}

static uint64_t start(const struct rng *rng)
{
	return rng->settings.offset;
}

const struct rng_type rng_sobol = {.begin = begin, .run = run, .end = end, .start = start};
