/* SPDX-License-Identifier: Apache-2.0 */
/*
 * MTGP32, by Saito and Matsumoto ("Variants of Mersenne Twister suitable for graphic processors"): 192 lanes, each a
 * generator of period 2^11213 - 1 with parameters and a seed of its own, which give 256 numbers each in turn. `LEGACY`
 * has the first 64 lanes. The authors chose the parameters so that no number of a block of 256 depends on another.
 */
#include <string.h>

#include "mtgp32-data.h"
#include "type.h"

#define LANES 192
#define LEGACY_LANES 64
#define BLOCK 256
#define N 351             /* words of a state */
#define UPPER 0xfff80000u /* mask for the first word; 11213 bits with the others */

/* A state, followed by the next words, which a turn gives before the state advances. */
struct lane {
	uint32_t words[N + BLOCK];
};

/* The sum, without carries, of those words of a table that the lowest bits choose. */
static inline uint32_t sum(const uint32_t table[4], uint32_t bits)
{
	return (-(bits & 1) & table[0]) ^ (-(bits >> 1 & 1) & table[1]) ^ (-(bits >> 2 & 1) & table[2]) ^
	       (-(bits >> 3 & 1) & table[3]);
}

static void next_block(struct lane *lane, const struct rng_mtgp32_set *set)
{
	const uint32_t *state = lane->words, *picked = lane->words + set->place;
	uint32_t *next = lane->words + N;

	for (unsigned int i = 0; i < BLOCK; i++) {
		uint32_t x = (state[i] & UPPER) ^ state[i + 1];

		x ^= x << set->left ^ picked[i] >> set->right;
		next[i] = x ^ sum(set->matrix, x);
	}
}

/* The authors' seeding: all bytes begin equal, but for the first two words; then each word is mixed with the last. */
static void fill(uint32_t words[N], const struct rng_mtgp32_set *set, uint32_t seed)
{
	uint32_t own = set->matrix[2] ^ set->matrix[3] << 16, byte = own + (own >> 16);

	byte += byte >> 8;
	memset(words, (int)(byte & 0xff), N * sizeof(*words));
	words[0] = seed;
	words[1] = own;
	for (uint32_t i = 1; i < N; i++)
		words[i] ^= 1812433253u * (words[i - 1] ^ words[i - 1] >> 30) + i;
}

static bool seed(struct rng_job *job, unsigned int first, unsigned int lanes)
{
	uint32_t folded = (uint32_t)(job->settings.seed ^ job->settings.seed >> 32);
	struct lane *lane = job->rng->state;

	for (unsigned int i = first; i < first + lanes; i++) {
		fill(lane[i].words, &rng_mtgp32_sets[i], folded + i + 1);
		next_block(&lane[i], &rng_mtgp32_sets[i]);
	}
	return true;
}

static uint32_t temper(const struct lane *lane, const struct rng_mtgp32_set *set, unsigned int i)
{
	uint32_t other = lane->words[i + set->place - 1];

	other ^= other >> 16;
	other ^= other >> 8;
	return lane->words[N + i] ^ sum(set->tempering, other);
}

static uint32_t poisson(const struct rng_job *job, uint32_t x)
{
	return job->table ? rng_poisson(job, rng_unit(x)) : rng_poisson_normal(job, (double)rng_quantile(x));
}

static void store(const struct rng_job *job, const uint32_t *x, unsigned int count, void *out)
{
	uint64_t at = (uint64_t)((char *)out - (char *)job->out) / vcuda_random_bytes(job->kind);

	switch (job->kind) {
	case VCUDA_RANDOM_BITS:
		memcpy(out, x, count * sizeof(*x));
		break;
	case VCUDA_RANDOM_UNIFORM:
		for (unsigned int i = 0; i < count; i++)
			((float *)out)[i] = rng_uniform(x[i]);
		break;
	case VCUDA_RANDOM_UNIFORM_DOUBLE:
		for (unsigned int i = 0; i < count; i++)
			((double *)out)[i] = rng_unit(x[i]);
		break;
	case VCUDA_RANDOM_NORMAL_DOUBLE:
		for (unsigned int i = 0; i < count; i++)
			((double *)out)[i] = rng_normal_widened(job, x[i]);
		break;
	case VCUDA_RANDOM_POISSON:
		for (unsigned int i = 0; i < count; i++)
			((uint32_t *)out)[i] = poisson(job, x[i]);
		break;
	default:
		for (unsigned int i = 0; i < count; i++)
			rng_store_word(job, x[i], at + i);
	}
}

static void turn(struct rng_job *job, uint64_t from, uint64_t to, void *out)
{
	struct lane *lane = (struct lane *)job->rng->state + from / BLOCK;
	const struct rng_mtgp32_set *set = &rng_mtgp32_sets[from / BLOCK];
	unsigned int first = from % BLOCK, count = (unsigned int)(to - from);
	uint32_t x[BLOCK];

	for (unsigned int i = 0; i < count; i++)
		x[i] = temper(lane, set, first + i);
	store(job, x, count, out);
	if (first + count == BLOCK) {
		memmove(lane->words, lane->words + BLOCK, N * sizeof(*lane->words));
		next_block(lane, set);
	}
}

static unsigned int count(const vcuda_random *settings)
{
	return settings->ordering == VCUDA_ORDERING_LEGACY ? LEGACY_LANES : LANES;
}

static uint64_t start(const struct rng *rng)
{
	return 0;
}

static const struct rng_lanes lanes_of_mtgp32 = {
	.chunk = 1, .per_lane = BLOCK, .count = count, .seed = seed, .turn = turn};

const struct rng_type rng_mtgp32 = {
	.state_bytes = LANES * sizeof(struct lane),
	.chunks = LANES,
	.begin = rng_lanes_begin,
	.run = rng_lanes_run,
	.end = rng_lanes_end,
	.start = start,
	.lanes = &lanes_of_mtgp32,
};
