/* SPDX-License-Identifier: Apache-2.0 */
/* Poisson's distribution as a table. The functions have no state, so any thread may call them. */
#ifndef RNG_POISSON_H
#define RNG_POISSON_H

#include <stdbool.h>
#include <stdint.h>

#define RNG_POISSON_NORMAL 2000 /* for lambda from this on kernels and most types take a rounded normal number */

/*
 * A square histogram: of a number u, 0 < u <= 1, that falls into a column (of `length` that are equally wide), the
 * value is the column's own number if u is below `value`, else `other`; both count from `shift` on.
 */
struct rng_poisson_table {
	uint32_t shift, length; /* the values whose probability a double can hold */
	bool sums;              /* no histogram: `value` is the sum of the probabilities so far; `other` is unused */
	double *value;
	uint32_t *other;
};

/* NULL: no memory. */
struct rng_poisson_table *rng_poisson_table_new(double lambda, bool sums);
void rng_poisson_table_free(struct rng_poisson_table *t);

#endif
