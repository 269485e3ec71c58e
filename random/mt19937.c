/* SPDX-License-Identifier: Apache-2.0 */
/*
 * MT19937, by Matsumoto and Nishimura ("Mersenne Twister: a 623-dimensionally equidistributed uniform pseudo-random
 * number generator"): 8192 lanes, 2^2048 numbers apart in one sequence, which give eight numbers each in turn. From a
 * block of 624 numbers the lane takes eight that are far apart, then 77 times eight that are 7 apart.
 *
 * A jump from lane to lane is a polynomial of the step, modulo the polynomial that the sequence satisfies (Haramoto,
 * Matsumoto, Nishimura, Panneton, L'Ecuyer: "Efficient jump ahead for F2-linear random number generators").
 */
#include <math.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "type.h"

#define LANES 8192
#define CHUNK 64
#define PER_LANE 8
#define N 624
#define M 397
#define TURNS (N / PER_LANE) /* of a block */
#define MATRIX 0x9908b0dfu
#define DEGREE 19937
#define WORDS ((DEGREE + 63) / 64)
#define APART 2048
#define JUMPS 13  /* by 1 to 4096 lanes */
#define GROUP 5   /* coefficients of a jump that are taken at once */
#define PIECE 104 /* of a block, with what follows it for a group: */
#define WINDOW 112
#define TERMS 256

struct polynomial {
	uint64_t bits[WORDS];
};

struct lane {
	uint64_t turns;
	uint32_t words[N]; /* the block that the turn takes from, before it is tempered */
};

static struct polynomial jumps[JUMPS];
static unsigned int terms[TERMS], term_count; /* of the sequence's polynomial, but for the highest */
static uint16_t places[TURNS][PER_LANE];
static pthread_once_t once = PTHREAD_ONCE_INIT;

/* ---- polynomials over the field of two elements ---- */

static bool bit(const uint64_t *bits, unsigned int i)
{
	return bits[i / 64] >> i % 64 & 1;
}

/* to += from << shift */
static void add(uint64_t *to, const uint64_t *from, unsigned int words, unsigned int shift)
{
	uint64_t carry = 0;

	to += shift / 64;
	shift %= 64;
	for (unsigned int i = 0; i < words; i++) {
		to[i] ^= from[i] << shift | carry;
		carry = shift ? from[i] >> (64 - shift) : 0;
	}
	to[words] ^= carry;
}

/*
 * The polynomial is in the paper's appendix: u v^31 + a_0 u v^30 + ... + a_30 u + a_31, with u = t^624 + t^397 and
 * v = t^623 + t^396, where a is the matrix.
 */
static void find_terms(void)
{
	static uint64_t sum[2 * WORDS], power[2 * WORDS], next[2 * WORDS];

	power[0] = 1;
	sum[0] = MATRIX >> 31;
	for (unsigned int k = 0; k <= 31; k++) {
		/* power is v^k, whose factor a_(30 - k) is; the highest has 1. */
		if (k == 31 || MATRIX >> (30 - k) & 1) {
			add(sum, power, WORDS, N);
			add(sum, power, WORDS, M);
		}
		memset(next, 0, sizeof(next));
		add(next, power, WORDS, N - 1);
		add(next, power, WORDS, M - 1);
		memcpy(power, next, sizeof(power));
	}
	for (unsigned int i = 0; i < DEGREE; i++)
		if (bit(sum, i))
			terms[term_count++] = i;
}

static void add_word(uint64_t *to, uint64_t word, unsigned int shift)
{
	to += shift / 64;
	to[0] ^= word << shift % 64;
	to[1] ^= word >> 1 >> (63 - shift % 64);
}

/* The highest term but one is more than 64 below the highest: whole words go at once. */
static void reduce(uint64_t wide[2 * WORDS])
{
	for (int at = 2 * DEGREE - 64; at > DEGREE - 64; at -= 64) {
		unsigned int low = at < DEGREE ? DEGREE : (unsigned int)at, shift = low % 64;
		uint64_t word = wide[low / 64] >> shift;

		if (shift && low / 64 + 1 < 2 * WORDS)
			word |= wide[low / 64 + 1] << (64 - shift);
		if (low != (unsigned int)at)
			word &= (1ull << (at + 64 - DEGREE)) - 1;
		add_word(wide, word, low);
		for (unsigned int i = 0; i < term_count; i++)
			add_word(wide, word, low - DEGREE + terms[i]);
	}
}

static uint64_t spread(uint32_t bits)
{
	uint64_t x = bits;

	x = (x | x << 16) & 0x0000ffff0000ffff;
	x = (x | x << 8) & 0x00ff00ff00ff00ff;
	x = (x | x << 4) & 0x0f0f0f0f0f0f0f0f;
	x = (x | x << 2) & 0x3333333333333333;
	return (x | x << 1) & 0x5555555555555555;
}

static void square(struct polynomial *p)
{
	uint64_t wide[2 * WORDS + 1] = {0};

	/* Each bit goes to twice its place. */
	for (unsigned int i = 0; i < WORDS; i++) {
		wide[2 * i] = spread((uint32_t)p->bits[i]);
		wide[2 * i + 1] = spread((uint32_t)(p->bits[i] >> 32));
	}
	reduce(wide);
	memcpy(p->bits, wide, sizeof(p->bits));
}

/* ---- sequences ---- */

static uint32_t twist(uint32_t first, uint32_t second, uint32_t middle)
{
	uint32_t x = (first & 0x80000000u) | (second & 0x7fffffffu);

	return middle ^ x >> 1 ^ (x & 1 ? MATRIX : 0);
}

static void next_block(uint32_t words[N])
{
	for (unsigned int k = 0; k < N; k++)
		words[k] = twist(words[k], words[(k + 1) % N], words[(k + M) % N]);
}

struct jump_room {
	uint32_t sequence[DEGREE + GROUP + N + WINDOW];
	uint32_t sums[1 << GROUP][WINDOW];
};

static void xor_words(uint32_t *to, const uint32_t *from, unsigned int count)
{
	for (unsigned int i = 0; i < count; i++)
		to[i] ^= from[i];
}

/* Words of the block from a place in the sequence on. */
static void jump_piece(uint32_t words[PIECE], const struct polynomial *p, const uint32_t *sequence,
		       uint32_t sums[][WINDOW])
{
	memset(sums, 0, sizeof(*sums) << GROUP);
	for (unsigned int i = 0; i < DEGREE; i += GROUP) {
		unsigned int alike = (unsigned int)(p->bits[i / 64] >> i % 64);

		if (i % 64 > 64 - GROUP && i / 64 + 1 < WORDS)
			alike |= (unsigned int)(p->bits[i / 64 + 1] << (64 - i % 64));
		xor_words(sums[alike & ((1u << GROUP) - 1)], sequence + i, WINDOW);
	}
	memset(words, 0, PIECE * sizeof(*words));
	for (unsigned int k = 0; k < GROUP; k++)
		for (unsigned int alike = 1; alike < 1 << GROUP; alike++)
			if (alike >> k & 1)
				xor_words(words, sums[alike] + k, PIECE);
}

/*
 * Moves `words` one jump ahead. The new block is the sum of the blocks of the sequence whose coefficients are 1. Blocks
 * with equal groups of coefficients are summed first, in pieces that fit the processor's cache.
 */
static void jump(uint32_t words[N], const struct polynomial *p, struct jump_room *room)
{
	uint32_t *s = room->sequence;

	memcpy(s, words, N * sizeof(*words));
	for (unsigned int i = N; i < sizeof(room->sequence) / sizeof(*s); i++)
		s[i] = twist(s[i - N], s[i - N + 1], s[i - N + M]);
	for (unsigned int at = 0; at < N; at += PIECE)
		jump_piece(words + at, p, s + at, room->sums);
}

/* ---- lanes ---- */

static void make_places(void)
{
	unsigned int turn = 1, lane = 0;
	uint16_t at = 0;

	/* The places of the first turn are apart. Between two of them are the places of seven turns, or none. */
	static const uint16_t first[PER_LANE] = {0, 113, 170, 283, 340, 397, 510, 567};

	memcpy(places[0], first, sizeof(first));
	while (turn < TURNS) {
		while (lane < PER_LANE && at == first[lane]) {
			lane++;
			at++;
		}
		for (unsigned int i = 0; i < 7; i++)
			for (unsigned int k = 0; k < PER_LANE; k++)
				places[turn + i][k] = (uint16_t)(at + 7 * k + i);
		turn += 7;
		at += 7 * PER_LANE;
	}
}

static void prepare(void)
{
	struct polynomial p = {{2}};

	make_places();
	find_terms();
	for (unsigned int k = 0; k < APART + JUMPS; k++) {
		if (k >= APART)
			jumps[k - APART] = p;
		square(&p);
	}
}

static void first_block(uint32_t words[N], uint32_t seed)
{
	words[0] = seed;
	for (unsigned int k = 1; k < N; k++)
		words[k] = 1812433253u * (words[k - 1] ^ words[k - 1] >> 30) + k;
	next_block(words);
}

static bool seed(struct rng_job *job, unsigned int first, unsigned int lanes)
{
	struct jump_room *room = malloc(sizeof(*room));
	struct lane *lane = job->rng->state;
	uint32_t words[N];

	if (!room)
		return false;
	pthread_once(&once, prepare);
	first_block(words, (uint32_t)job->settings.seed);
	for (unsigned int k = 0; k < JUMPS; k++)
		if (first >> k & 1)
			jump(words, &jumps[k], room);
	for (unsigned int i = first; i < first + lanes; i++) {
		lane[i].turns = 0;
		memcpy(lane[i].words, words, sizeof(words));
		if (i + 1 < first + lanes)
			jump(words, &jumps[0], room);
	}
	free(room);
	return true;
}

static uint32_t temper(uint32_t x)
{
	x ^= x >> 11;
	x ^= x << 7 & 0x9d2c5680u;
	x ^= x << 15 & 0xefc60000u;
	return x ^ x >> 18;
}

/* The rounding of single precision is cuRAND's. */
static uint32_t poisson(const struct rng_job *job, uint32_t x)
{
	if (job->table)
		return rng_poisson(job, rng_unit(x));
	return (uint32_t)(sqrtf((float)job->a) * rng_quantile(x) + (float)job->a + 0.5f);
}

static void turn(struct rng_job *job, uint64_t from, uint64_t to, void *out)
{
	uint64_t at = (uint64_t)((char *)out - (char *)job->out) / vcuda_random_bytes(job->kind);

	for (; from < to; from++, at++) {
		struct lane *lane = (struct lane *)job->rng->state + from / PER_LANE;
		uint32_t x = temper(lane->words[places[lane->turns % TURNS][from % PER_LANE]]);

		if (job->kind == VCUDA_RANDOM_UNIFORM_DOUBLE)
			((double *)job->out)[at] = x * 0x1p-32 + 0x1p-33;
		else if (job->kind == VCUDA_RANDOM_POISSON)
			((uint32_t *)job->out)[at] = poisson(job, x);
		else if (job->kind == VCUDA_RANDOM_UNIFORM)
			((float *)job->out)[at] = (float)(x * 0x1p-32 + 0x1p-33);
		else
			rng_store_word(job, x, at);
		if (from % PER_LANE == PER_LANE - 1 && ++lane->turns % TURNS == 0)
			next_block(lane->words);
	}
}

static unsigned int count(const vcuda_random *settings)
{
	return LANES;
}

static uint64_t start(const struct rng *rng)
{
	return 0;
}

static const struct rng_lanes lanes_of_mt19937 = {
	.chunk = CHUNK, .per_lane = PER_LANE, .count = count, .seed = seed, .turn = turn};

const struct rng_type rng_mt19937 = {
	.state_bytes = LANES * sizeof(struct lane),
	.chunks = LANES / CHUNK,
	.begin = rng_lanes_begin,
	.run = rng_lanes_run,
	.end = rng_lanes_end,
	.start = start,
	.lanes = &lanes_of_mt19937,
};
