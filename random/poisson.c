/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Numbers of Poisson's distribution, by the methods that cuRAND chooses:
 *
 *   a square histogram (Marsaglia, Tsang, Wang: "Fast generation of discrete random variables") below 2000, but not
 * with Sobol's sequences, whose order it would spoil: there, from 10 on (Sobol64: everywhere), the distribution is
 * searched, and with MTGP32 from 32 on; from 2000 on (Sobol32 and MTGP32: beyond 8000) the normal distribution,
 * rounded.
 */
#include "poisson.h"

#include <math.h>
#include <stdlib.h>

#include "type.h"

static double probability(double lambda, uint32_t k)
{
	int sign;

	return exp(-lambda + k * log(lambda) - lgamma_r((double)k + 1, &sign));
}

static bool find_range(double lambda, struct rng_poisson_table *t)
{
	uint32_t k = (uint32_t)lambda;

	while (k && probability(lambda, k - 1) > 0)
		k--;
	t->shift = k;
	for (k = (uint32_t)lambda + 1; probability(lambda, k) > 0; k++)
		continue;
	t->length = k - t->shift;
	t->value = malloc(t->length * sizeof(*t->value));
	t->other = calloc(t->length, sizeof(*t->other));
	return t->value && t->other;
}

/* The last column, at most `from`, that has an even share or more and is not `taken`; -1: none. */
static int64_t last_rich(const double *p, const bool *taken, int64_t from, double share)
{
	while (from >= 0 && (taken[from] || p[from] < share))
		from--;
	return from;
}

/*
 * Gives every column an even share. Columns with less are filled up in their order, from the last column that has more,
 * until none has. A column that has given too much is filled up later in the same way.
 */
static bool square(struct rng_poisson_table *t, double *p)
{
	bool *taken = calloc(t->length, sizeof(*taken)), moved = true;
	double share = 1.0 / t->length;
	int64_t rich = taken ? last_rich(p, taken, t->length - 1, share) : -1;

	for (uint32_t i = 0; i < t->length; i++) {
		t->value[i] = (i + 1) * share;
		t->other[i] = i;
	}
	while (moved && rich >= 0) {
		moved = false;
		for (uint32_t i = 0; i < t->length && rich >= 0; i++) {
			if (taken[i] || p[i] >= share)
				continue;
			t->value[i] = p[i] + i * share;
			t->other[i] = (uint32_t)rich;
			taken[i] = moved = true;
			p[rich] -= share - p[i];
			rich = last_rich(p, taken, rich, share);
		}
	}
	free(taken);
	return taken;
}

static bool fill(struct rng_poisson_table *t, double lambda)
{
	double *p = t->sums ? t->value : malloc(t->length * sizeof(*p)), sum = 0;
	bool done = p;

	for (uint32_t i = 0; i < t->length && p; i++) {
		p[i] = probability(lambda, t->shift + i);
		sum += p[i];
		if (t->sums)
			p[i] = sum;
	}
	if (t->sums)
		return true;
	done = p && square(t, p);
	free(p);
	return done;
}

struct rng_poisson_table *rng_poisson_table_new(double lambda, bool sums)
{
	struct rng_poisson_table *t = calloc(1, sizeof(*t));

	if (!t)
		return NULL;
	t->sums = sums;
	if (find_range(lambda, t) && fill(t, lambda))
		return t;
	rng_poisson_table_free(t);
	return NULL;
}

void rng_poisson_table_free(struct rng_poisson_table *t)
{
	if (!t)
		return;
	free(t->value);
	free(t->other);
	free(t);
}

static bool is_normal(uint32_t type, double lambda)
{
	bool late = type == VCUDA_RANDOM_MTGP32 || (vcuda_random_is_quasi(type) && !vcuda_random_is_long(type));

	return late ? lambda > 8000 : lambda >= RNG_POISSON_NORMAL;
}

static bool is_searched(uint32_t type, double lambda)
{
	if (type == VCUDA_RANDOM_MTGP32)
		return lambda >= 32;
	return vcuda_random_is_quasi(type) && (vcuda_random_is_long(type) || lambda >= 10);
}

void rng_poisson_end(struct rng_job *job)
{
	rng_poisson_table_free(job->table);
	job->table = NULL;
}

bool rng_poisson_begin(struct rng_job *job)
{
	job->table = NULL;
	if (job->kind != VCUDA_RANDOM_POISSON || is_normal(job->settings.type, job->a))
		return true;
	job->table = rng_poisson_table_new(job->a, is_searched(job->settings.type, job->a));
	return job->table;
}

uint32_t rng_poisson(const struct rng_job *job, double u)
{
	const struct rng_poisson_table *t = job->table;
	uint32_t low = 0, high = t->length - 1, column;

	if (!t->sums) {
		column = (uint32_t)(t->length * u);
		column = column > high ? high : column; /* u may be 1 */
		return t->shift + (u < t->value[column] ? column : t->other[column]);
	}
	while (low < high) {
		uint32_t middle = (low + high) / 2;

		if (u <= t->value[middle])
			high = middle;
		else
			low = middle + 1;
	}
	return t->shift + low;
}

uint32_t rng_poisson_normal(const struct rng_job *job, double normal)
{
	return (uint32_t)(sqrt(job->a) * normal + job->a + 0.5);
}
