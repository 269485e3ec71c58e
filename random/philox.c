/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Philox 4x32-10, by Salmon and others ("Parallel random numbers: as easy as 1, 2, 3"): a counter of 128 bits and a
 * key, the seed, give four words. The upper half of the counter is the number of one of 65536 lanes; the lower half
 * counts.
 */
#include "type.h"

#define LANES 65536
#define CHUNK 64
#define ROUNDS 10

void rng_philox_block(uint64_t low, uint64_t high, uint64_t seed, uint32_t out[4])
{
	uint32_t a = (uint32_t)low, b = (uint32_t)(low >> 32), c = (uint32_t)high, d = (uint32_t)(high >> 32);
	uint32_t key = (uint32_t)seed, other_key = (uint32_t)(seed >> 32);

	for (unsigned int i = 0; i < ROUNDS; i++) {
		uint64_t p = (uint64_t)0xd2511f53u * a, q = (uint64_t)0xcd9e8d57u * c;

		a = (uint32_t)(q >> 32) ^ b ^ key;
		b = (uint32_t)q;
		c = (uint32_t)(p >> 32) ^ d ^ other_key;
		d = (uint32_t)p;
		key += 0x9e3779b9u;
		other_key += 0xbb67ae85u;
	}
	out[0] = a;
	out[1] = b;
	out[2] = c;
	out[3] = d;
}

static bool seed(struct rng_job *job, unsigned int lane, unsigned int lanes)
{
	uint64_t *counts = job->rng->state, offset = job->settings.offset / 4;

	for (unsigned int i = lane; i < lane + lanes; i++)
		counts[i] = offset / LANES + (i < offset % LANES);
	return true;
}

static bool is_double(uint32_t kind)
{
	return vcuda_random_bytes(kind) == 8;
}

static void quad_poisson(const struct rng_job *job, const uint32_t x[4], uint32_t *out)
{
	float pair[2];

	for (unsigned int i = 0; i < 4; i++) {
		if (i % 2 == 0)
			rng_plain_pair(rng_uniform(x[i]), rng_angle(x[i + 1]), pair);
		out[i] = job->table ? rng_poisson(job, rng_unit(x[i])) : rng_poisson_normal(job, (double)pair[i % 2]);
	}
}

/* The four numbers of a lane's turn. */
static void quad(const struct rng_job *job, const uint32_t x[8], void *out)
{
	float *f = out;
	double *d = out;

	switch (job->kind) {
	case VCUDA_RANDOM_UNIFORM:
		for (unsigned int i = 0; i < 4; i++)
			f[i] = rng_uniform(x[i]);
		break;
	case VCUDA_RANDOM_UNIFORM_DOUBLE:
		for (unsigned int i = 0; i < 4; i++)
			d[i] = rng_uniform_double(x[2 * i], x[2 * i + 1]);
		break;
	case VCUDA_RANDOM_NORMAL:
	case VCUDA_RANDOM_LOG_NORMAL:
		for (unsigned int i = 0; i < 4; i += 2)
			rng_normal_pair(job, rng_uniform(x[i]), rng_angle(x[i + 1]), f + i);
		break;
	case VCUDA_RANDOM_NORMAL_DOUBLE:
	case VCUDA_RANDOM_LOG_NORMAL_DOUBLE:
		for (unsigned int i = 0; i < 4; i += 2)
			rng_normal_pair_double(job, rng_uniform_double(x[2 * i], x[2 * i + 1]),
					       rng_half_turns(x[2 * i + 2], x[2 * i + 3]), d + i);
		break;
	case VCUDA_RANDOM_POISSON:
		quad_poisson(job, x, out);
		break;
	default:
		for (unsigned int i = 0; i < 4; i++)
			((uint32_t *)out)[i] = x[i];
	}
}

static void turn(struct rng_job *job, uint64_t from, uint64_t to, void *out)
{
	unsigned int size = vcuda_random_bytes(job->kind), calls = is_double(job->kind) ? 2 : 1;
	uint64_t *counts = job->rng->state;
	char *at = out;

	while (from < to) {
		uint64_t lane = from / 4, skip = from % 4, n = to - from < 4 - skip ? to - from : 4 - skip;
		uint64_t count = __atomic_load_n(&counts[lane], __ATOMIC_RELAXED);
		uint32_t x[8];
		double four[4];

		for (unsigned int i = 0; i < calls; i++)
			rng_philox_block(count + i, lane, job->settings.seed, x + (size_t)4 * i);
		quad(job, x, four);
		__builtin_memcpy(at, (char *)four + skip * size, n * size);
		/* A turn that takes the last of the four numbers advances the lane. */
		if (skip + n == 4)
			counts[lane] = count + calls;
		at += n * size;
		from += n;
	}
}

static unsigned int count(const vcuda_random *settings)
{
	return LANES;
}

static const struct rng_lanes lanes_of_philox = {
	.chunk = CHUNK, .per_lane = 4, .count = count, .seed = seed, .turn = turn};

const struct rng_type rng_philox = {
	.state_bytes = LANES * sizeof(uint64_t),
	.chunks = LANES / CHUNK,
	.begin = rng_lanes_begin,
	.run = rng_lanes_run,
	.end = rng_lanes_end,
	.start = rng_lanes_start,
	.lanes = &lanes_of_philox,
};
