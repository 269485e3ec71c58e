/* SPDX-License-Identifier: Apache-2.0 */
/*
 * MRG32k3a, by L'Ecuyer ("Good parameters and implementations for combined multiple recursive random number
 * generators"): two recurrences of order 3 modulo primes below 2^32, and their difference. There are 81920 lanes, 2^76
 * numbers apart, or 4096 lanes in the older order.
 */
#include <pthread.h>

#include "type.h"

#define LANES 81920
#define LEGACY_LANES 4096
#define CHUNK 64
#define WORDS 8 /* of a lane: the state, whether half of a pair of normal numbers is left, and the half */
#define M1 4294967087u
#define M2 4294944443u
#define A12 1403580u
#define A13 810728u /* to be subtracted */
#define A21 527612u
#define A23 1370589u /* to be subtracted */
#define APART 76
#define POWERS (APART + 17)
#define SEED 12345u

struct matrix {
	uint32_t at[3][3];
};

struct start {
	uint32_t x[3], y[3];
};

/* 2^k steps of each recurrence. */
static struct matrix of_x[POWERS], of_y[POWERS];
static pthread_once_t once = PTHREAD_ONCE_INIT;

static struct matrix multiply(const struct matrix *a, const struct matrix *b, uint32_t m)
{
	struct matrix c;

	for (unsigned int i = 0; i < 3; i++)
		for (unsigned int j = 0; j < 3; j++) {
			uint64_t sum = 0;

			for (unsigned int k = 0; k < 3; k++)
				sum = (sum + (uint64_t)a->at[i][k] * b->at[k][j] % m) % m;
			c.at[i][j] = (uint32_t)sum;
		}
	return c;
}

static void apply(const struct matrix *a, uint32_t x[3], uint32_t m)
{
	uint32_t y[3];

	for (unsigned int i = 0; i < 3; i++) {
		uint64_t sum = 0;

		for (unsigned int k = 0; k < 3; k++)
			sum += (uint64_t)a->at[i][k] * x[k] % m;
		y[i] = (uint32_t)(sum % m);
	}
	for (unsigned int i = 0; i < 3; i++)
		x[i] = y[i];
}

static void make_powers(void)
{
	of_x[0] = (struct matrix){{{0, 1, 0}, {0, 0, 1}, {M1 - A13, A12, 0}}};
	of_y[0] = (struct matrix){{{0, 1, 0}, {0, 0, 1}, {M2 - A23, 0, A21}}};
	for (unsigned int k = 1; k < POWERS; k++) {
		of_x[k] = multiply(&of_x[k - 1], &of_x[k - 1], M1);
		of_y[k] = multiply(&of_y[k - 1], &of_y[k - 1], M2);
	}
}

/* `times` << `shift` steps. */
static void jump(struct start *s, uint64_t times, unsigned int shift)
{
	for (unsigned int k = shift; times; k++, times >>= 1) {
		if (!(times & 1))
			continue;
		apply(&of_x[k], s->x, M1);
		apply(&of_y[k], s->y, M2);
	}
}

static struct start start_of(uint64_t seed)
{
	uint32_t low = (uint32_t)seed ^ 0x55555555u, high = (uint32_t)(seed >> 32) ^ 0xaaaaaaaau;
	struct start s = {{SEED, SEED, SEED}, {SEED, SEED, SEED}};

	for (unsigned int i = 0; i < 3 && seed; i++) {
		s.x[i] = (uint32_t)((uint64_t)SEED * (i == 1 ? high : low) % M1);
		s.y[i] = (uint32_t)((uint64_t)SEED * (i == 1 ? low : high) % M2);
	}
	return s;
}

static unsigned int count(const vcuda_random *settings)
{
	return settings->ordering == VCUDA_ORDERING_LEGACY ? LEGACY_LANES : LANES;
}

static uint32_t *word(const struct rng *rng, unsigned int k)
{
	return (uint32_t *)rng->state + (size_t)k * LANES;
}

static bool seed(struct rng_job *job, unsigned int lane, unsigned int lanes)
{
	unsigned int all = count(&job->settings);
	uint64_t offset = job->settings.offset;
	struct start s = start_of(job->settings.seed);

	pthread_once(&once, make_powers);
	jump(&s, offset / all, 0);
	jump(&s, lane, APART);
	for (unsigned int i = lane; i < lane + lanes; i++) {
		struct start at = s;

		if (i < offset % all)
			jump(&at, 1, 0);
		for (unsigned int k = 0; k < 3; k++) {
			word(job->rng, k)[i] = at.x[k];
			word(job->rng, 3 + k)[i] = at.y[k];
		}
		word(job->rng, 6)[i] = 0;
		jump(&s, 1, APART);
	}
	return true;
}

/* x modulo m = 2^32 - c. */
static uint32_t reduce(uint64_t x, uint32_t m, uint32_t c)
{
	x = (x >> 32) * c + (uint32_t)x;
	x = (x >> 32) * c + (uint32_t)x;
	return (uint32_t)(x >= m ? x - m : x);
}

/* The next number of each lane, 1 to M1. */
static void draw(struct rng *rng, unsigned int lane, unsigned int lanes, uint32_t *out)
{
	uint32_t *a = word(rng, 0) + lane, *b = word(rng, 1) + lane, *c = word(rng, 2) + lane, *d = word(rng, 3) + lane,
		 *e = word(rng, 4) + lane, *f = word(rng, 5) + lane;

	for (unsigned int i = 0; i < lanes; i++) {
		uint32_t x = reduce((uint64_t)A12 * b[i] + (uint64_t)A13 * (M1 - a[i]), M1, (uint32_t)-M1);
		uint32_t y = reduce((uint64_t)A21 * f[i] + (uint64_t)A23 * (M2 - d[i]), M2, (uint32_t)-M2);

		a[i] = b[i];
		b[i] = c[i];
		c[i] = x;
		d[i] = e[i];
		e[i] = f[i];
		f[i] = y;
		out[i] = x > y ? x - y : x - y + M1;
	}
}

/* To (0, 1], and to 32 bits: cuRAND's own factors. */
static double unit(uint32_t x)
{
	return x * 2.3283065498378288e-10;
}

static float angle(uint32_t x)
{
	return (float)unit(x) * 6.2831855f;
}

static uint32_t bits(uint32_t x)
{
	return (uint32_t)(x * 1.000000048662);
}

static void pair(const struct rng_job *job, uint32_t x, uint32_t y, void *out, unsigned int i)
{
	if (vcuda_random_bytes(job->kind) == sizeof(double))
		rng_normal_pair_double(job, unit(x), unit(y) * 2, (double *)out + (size_t)2 * i);
	else
		rng_normal_pair(job, (float)unit(x), angle(y), (float *)out + (size_t)2 * i);
}

static void plain_pair(struct rng *rng, unsigned int lane, float pair[2])
{
	uint32_t x, y;

	draw(rng, lane, 1, &x);
	draw(rng, lane, 1, &y);
	rng_plain_pair((float)unit(x), angle(y), pair);
}

static void turn(struct rng_job *job, uint64_t from, uint64_t to, void *out)
{
	unsigned int lanes = (unsigned int)(to - from), draws = rng_lanes_pair(job);
	uint32_t x[2][CHUNK];

	if (job->kind == VCUDA_RANDOM_POISSON && !job->table) {
		rng_lanes_poisson(job, from, to, out, plain_pair, word(job->rng, 6), word(job->rng, 7));
		return;
	}
	for (unsigned int k = 0; k < draws; k++)
		draw(job->rng, (unsigned int)from, lanes, x[k]);
	for (unsigned int i = 0; i < lanes; i++) {
		if (draws == 2)
			pair(job, x[0][i], x[1][i], out, i);
		else if (job->kind == VCUDA_RANDOM_UNIFORM)
			((float *)out)[i] = (float)unit(x[0][i]);
		else if (job->kind == VCUDA_RANDOM_UNIFORM_DOUBLE)
			((double *)out)[i] = unit(x[0][i]);
		else if (job->kind == VCUDA_RANDOM_POISSON)
			((uint32_t *)out)[i] = rng_poisson(job, rng_unit(bits(x[0][i])));
		else
			((uint32_t *)out)[i] = bits(x[0][i]);
	}
}

static const struct rng_lanes lanes_of_mrg32k3a = {
	.chunk = CHUNK, .per_lane = 1, .count = count, .seed = seed, .turn = turn};

const struct rng_type rng_mrg32k3a = {
	.state_bytes = WORDS * LANES * sizeof(uint32_t),
	.chunks = LANES / CHUNK,
	.begin = rng_lanes_begin,
	.run = rng_lanes_run,
	.end = rng_lanes_end,
	.start = rng_lanes_start,
	.lanes = &lanes_of_mrg32k3a,
};
