/* SPDX-License-Identifier: Apache-2.0 */
/*
 * XORWOW, by Marsaglia ("Xorshift RNGs"): five words that a linear map of bits takes to the next five, and a counter
 * that is added. 4096 lanes, 2^67 numbers apart in one sequence; or, if so ordered, each with a seed of its own.
 */
#include <pthread.h>

#include "type.h"

#define LANES 4096
#define CHUNK 64
#define BITS 160
#define WORDS 8 /* of a lane: the state, whether half of a pair of normal numbers is left, and the half */
#define APART 67
#define COUNTER_STEP 362437u
#define SEED_STEP 3133713u /* between the seeds of lanes that are seeded one by one */

struct words {
	uint32_t w[5];
};

/* A linear map: the image of each bit of a state. */
struct map {
	struct words of[BITS];
};

/* steps[k] is 2^k steps; from APART on, this is also the jump of 2^(k - APART) lanes. */
static struct map steps[APART + 12];
static pthread_once_t once = PTHREAD_ONCE_INIT;

static struct words apply(const struct map *map, struct words x)
{
	struct words y = {{0}};

	for (unsigned int i = 0; i < BITS; i++) {
		uint32_t mask = -(x.w[i / 32] >> i % 32 & 1);

		for (unsigned int k = 0; k < 5; k++)
			y.w[k] ^= map->of[i].w[k] & mask;
	}
	return y;
}

static uint32_t next(uint32_t first, uint32_t last)
{
	uint32_t t = first ^ first >> 2;

	return last ^ last << 4 ^ t ^ t << 1;
}

static struct words step(struct words x)
{
	return (struct words){{x.w[1], x.w[2], x.w[3], x.w[4], next(x.w[0], x.w[4])}};
}

static void make_steps(void)
{
	for (unsigned int i = 0; i < BITS; i++) {
		struct words bit = {{0}};

		bit.w[i / 32] = 1u << i % 32;
		steps[0].of[i] = step(bit);
	}
	for (unsigned int k = 1; k < sizeof(steps) / sizeof(steps[0]); k++)
		for (unsigned int i = 0; i < BITS; i++)
			steps[k].of[i] = apply(&steps[k - 1], steps[k - 1].of[i]);
}

struct start {
	struct words x;
	uint32_t counter;
};

/* The state `skip` numbers after the state of a seed. */
static struct start start_of(uint64_t seed, uint64_t skip)
{
	uint32_t low = 1099087573u * ((uint32_t)seed ^ 0xaad26b49u);
	uint32_t high = 2591861531u * ((uint32_t)(seed >> 32) ^ 0xf7dcefddu);
	struct start s = {
		.x = {{123456789u + low, 362436069u ^ low, 521288629u + high, 88675123u ^ high, 5783321u + low}},
		.counter = 6615241u + high + low + COUNTER_STEP * (uint32_t)skip,
	};

	for (unsigned int k = 0; skip; k++, skip >>= 1)
		if (skip & 1)
			s.x = apply(&steps[k], s.x);
	return s;
}

static uint32_t *word(const struct rng *rng, unsigned int k)
{
	return (uint32_t *)rng->state + (size_t)k * LANES;
}

static void put(struct rng *rng, unsigned int lane, struct start s, bool one_more)
{
	if (one_more) {
		s.x = step(s.x);
		s.counter += COUNTER_STEP;
	}
	for (unsigned int k = 0; k < 5; k++)
		word(rng, k)[lane] = s.x.w[k];
	word(rng, 5)[lane] = s.counter;
	word(rng, 6)[lane] = 0;
}

static bool seed(struct rng_job *job, unsigned int lane, unsigned int lanes)
{
	uint64_t offset = job->settings.offset, skip = offset / LANES;
	bool apart = job->settings.ordering == VCUDA_ORDERING_SEEDED;
	struct start s;

	pthread_once(&once, make_steps);
	s = start_of(job->settings.seed, skip);
	for (unsigned int k = 0; lane >> k && !apart; k++)
		if (lane >> k & 1)
			s.x = apply(&steps[APART + k], s.x);
	for (unsigned int i = lane; i < lane + lanes; i++) {
		if (apart)
			s = start_of(job->settings.seed + (uint64_t)i * SEED_STEP, skip);
		put(job->rng, i, s, i < offset % LANES);
		if (!apart)
			s.x = apply(&steps[APART], s.x);
	}
	return true;
}

/* The next number of each lane. */
static void draw(struct rng *rng, unsigned int lane, unsigned int lanes, uint32_t *out)
{
	uint32_t *a = word(rng, 0) + lane, *b = word(rng, 1) + lane, *c = word(rng, 2) + lane, *d = word(rng, 3) + lane,
		 *e = word(rng, 4) + lane, *counter = word(rng, 5) + lane;

	for (unsigned int i = 0; i < lanes; i++) {
		uint32_t x = next(a[i], e[i]);

		a[i] = b[i];
		b[i] = c[i];
		c[i] = d[i];
		d[i] = e[i];
		e[i] = x;
		counter[i] += COUNTER_STEP;
		out[i] = x + counter[i];
	}
}

static unsigned int draws(uint32_t kind)
{
	switch (kind) {
	case VCUDA_RANDOM_BITS:
	case VCUDA_RANDOM_UNIFORM:
	case VCUDA_RANDOM_POISSON:
		return 1;
	case VCUDA_RANDOM_NORMAL_DOUBLE:
	case VCUDA_RANDOM_LOG_NORMAL_DOUBLE:
		return 4;
	default:
		return 2;
	}
}

static void plain_pair(struct rng *rng, unsigned int lane, float pair[2])
{
	uint32_t x, y;

	draw(rng, lane, 1, &x);
	draw(rng, lane, 1, &y);
	rng_plain_pair(rng_uniform(x), rng_angle(y), pair);
}

static void turn(struct rng_job *job, uint64_t from, uint64_t to, void *out)
{
	unsigned int lanes = (unsigned int)(to - from);
	uint32_t x[4][CHUNK];

	if (job->kind == VCUDA_RANDOM_POISSON && !job->table) {
		rng_lanes_poisson(job, from, to, out, plain_pair, word(job->rng, 6), word(job->rng, 7));
		return;
	}
	for (unsigned int k = 0; k < draws(job->kind); k++)
		draw(job->rng, (unsigned int)from, lanes, x[k]);
	for (unsigned int i = 0; i < lanes; i++) {
		switch (job->kind) {
		case VCUDA_RANDOM_BITS:
			((uint32_t *)out)[i] = x[0][i];
			break;
		case VCUDA_RANDOM_POISSON:
			((uint32_t *)out)[i] = rng_poisson(job, rng_unit(x[0][i]));
			break;
		case VCUDA_RANDOM_UNIFORM:
			((float *)out)[i] = rng_uniform(x[0][i]);
			break;
		case VCUDA_RANDOM_UNIFORM_DOUBLE:
			((double *)out)[i] = rng_uniform_double(x[0][i], x[1][i]);
			break;
		case VCUDA_RANDOM_NORMAL:
		case VCUDA_RANDOM_LOG_NORMAL:
			rng_normal_pair(job, rng_uniform(x[0][i]), rng_angle(x[1][i]), (float *)out + (size_t)2 * i);
			break;
		default:
			rng_normal_pair_double(job, rng_uniform_double(x[0][i], x[1][i]),
					       rng_half_turns(x[2][i], x[3][i]), (double *)out + (size_t)2 * i);
		}
	}
}

static unsigned int count(const vcuda_random *settings)
{
	return LANES;
}

static const struct rng_lanes lanes_of_xorwow = {
	.chunk = CHUNK, .per_lane = 1, .count = count, .seed = seed, .turn = turn};

const struct rng_type rng_xorwow = {
	.state_bytes = WORDS * LANES * sizeof(uint32_t),
	.chunks = LANES / CHUNK,
	.begin = rng_lanes_begin,
	.run = rng_lanes_run,
	.end = rng_lanes_end,
	.start = rng_lanes_start,
	.lanes = &lanes_of_xorwow,
};
