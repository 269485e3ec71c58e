/* SPDX-License-Identifier: Apache-2.0 */
/* The interface between rng.c and the types of generators, and the code that several types share. */
#ifndef RNG_TYPE_H
#define RNG_TYPE_H

#include "rng.h"

struct rng {
	const struct rng_type *ops;
	vcuda_random settings; /* of the last generation that was fresh */
	uint64_t cursor;       /* start of the next generation: a slot, or an index of the sequence */
	void *state;
	const uint64_t *scrambles; /* of rng_set_scrambles(); NULL: scramble.c's */
	uint8_t ready[];           /* by chunk of lanes: 1: its state has been made from the settings */
};

struct rng_type {
	size_t state_bytes;
	unsigned int chunks;
	/* Fills in `units` and the members of the type. False: no memory. */
	bool (*begin)(struct rng_job *job);
	void (*run)(struct rng_job *job, uint64_t unit);
	void (*end)(struct rng_job *job);
	/* The start position of a generator with these settings. */
	uint64_t (*start)(const struct rng *rng);
	/* For types whose lanes give numbers in turn (lanes.c), else NULL. */
	const struct rng_lanes *lanes;
};

extern const struct rng_type rng_xorwow, rng_mrg32k3a, rng_philox, rng_mt19937, rng_mtgp32, rng_sobol;

/* A generator of `count` lanes, each with a sequence of its own. A row is one turn of all lanes. */
struct rng_lanes {
	unsigned int chunk;    /* lanes that are worked on together */
	unsigned int per_lane; /* numbers of one lane in a row */
	unsigned int (*count)(const vcuda_random *settings);
	/* Makes the state of `lanes` lanes. False: no memory. */
	bool (*seed)(struct rng_job *job, unsigned int lane, unsigned int lanes);
	/* One turn: writes the numbers `from` to `to` of the row, and advances the lanes whose last number is written.
	 */
	void (*turn)(struct rng_job *job, uint64_t from, uint64_t to, void *out);
};

bool rng_lanes_begin(struct rng_job *job);
void rng_lanes_run(struct rng_job *job, uint64_t unit);
void rng_lanes_end(struct rng_job *job);
uint64_t rng_lanes_start(const struct rng *rng);
/* The numbers that a slot gives: two where they are made in pairs. */
unsigned int rng_lanes_pair(const struct rng_job *job);

/*
 * A turn of Poisson's distribution by normal numbers. Each lane makes normal numbers in pairs, and keeps the second one
 * for its next turn. By lane: `kept` says whether one is kept, and `half` has its bits.
 */
void rng_lanes_poisson(struct rng_job *job, uint64_t from, uint64_t to, uint32_t *out,
		       void (*plain_pair)(struct rng *rng, unsigned int lane, float pair[2]), uint32_t *kept,
		       uint32_t *half);

static inline bool rng_cancelled(const struct rng_job *job)
{
	return job->cancel && __atomic_load_n(job->cancel, __ATOMIC_RELAXED);
}

/* The four words of a counter, whose halves these are, and a key. */
void rng_philox_block(uint64_t low, uint64_t high, uint64_t key, uint32_t out[4]);

/* ---- poisson.c ---- */

/* Makes the job's table where its kind and lambda need one. False: no memory. */
bool rng_poisson_begin(struct rng_job *job);
void rng_poisson_end(struct rng_job *job);
/* A number by the job's table; and by a normal number, where it has none. */
uint32_t rng_poisson(const struct rng_job *job, double u);
uint32_t rng_poisson_normal(const struct rng_job *job, double normal);

/* ---- distribution.c ---- */

/* A uniform number for Poisson's distribution, 0 < u <= 1. */
static inline double rng_unit(uint32_t x)
{
	return x * 0x1p-32 + 0x1p-32;
}

/* The first two of a pair of normal numbers, without the job's mean and deviation. */
void rng_plain_pair(float u, float angle, float out[2]);
float rng_quantile(uint32_t x);

/* For types that make a number from one word: stores number `i`. Any kind but uniform doubles. */
void rng_store_word(const struct rng_job *job, uint32_t x, uint64_t i);
/* Normal numbers by the inverse of their distribution, from 32 bits and from 64. */
double rng_normal_double(const struct rng_job *job, uint32_t x);
double rng_normal_long(const struct rng_job *job, uint64_t x);
/* A normal number of single precision as a double: only mean and deviation have double precision. */
double rng_normal_widened(const struct rng_job *job, uint32_t x);

static inline float rng_uniform(uint32_t x)
{
	return (float)x * 0x1p-32f + 0x1p-33f;
}

double rng_uniform_double(uint32_t x, uint32_t y);
/* Two normal numbers from two uniform ones, by Box and Muller, with the job's mean and deviation, or their exponential.
 */
void rng_normal_pair(const struct rng_job *job, float u, float angle, float *out);
void rng_normal_pair_double(const struct rng_job *job, double u, double half_turns, double *out);
/* From 32 bits each: an angle in radians; from 53 bits: an angle in half turns. */
float rng_angle(uint32_t x);
double rng_half_turns(uint32_t x, uint32_t y);

#endif
