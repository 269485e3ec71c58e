/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The generators of cuRAND on the CPU. Their numbers are those of NVIDIA's, in the same order
 * (doc/reference/curand.md). The guest's libcurand uses them for generators of the host, the software GPU for those of
 * the device. A generation is cut into units that any threads may run at once; the result is the same.
 */
#ifndef RNG_H
#define RNG_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "protocol/random-abi.h"

struct rng;

struct rng_job {
	struct rng *rng;
	vcuda_random settings; /* the generator's; what is generated is in the members below */
	uint32_t kind;
	double a, b;
	uint64_t count;
	void *out;
	uint64_t units;
	bool failed;        /* atomic: memory has run out, and what was to be written was not */
	const bool *cancel; /* once true, the rest of the numbers may be left out; NULL: never */
	/* The rest is the type's own. */
	uint64_t cursor, slots, row, first;
	struct rng_poisson_table *table; /* poisson.c */
};

/* `type`: vcuda_random_is_type(). NULL: no memory. */
struct rng *rng_new(uint32_t type);
void rng_free(struct rng *rng);

/* The bytes of memory that a generator takes. */
size_t rng_bytes(uint32_t type);

/*
 * Replaces the scrambles of scramble.c, for scrambled types. `words` has for each dimension the directions and the
 * number that is added. The generator keeps the pointer.
 */
void rng_set_scrambles(struct rng *rng, const uint64_t *words);

/*
 * `r` passed vcuda_random_check() and is of the generator's type. A job is: begin, each unit once, end. The caller runs
 * the jobs of a generator one after another. Two at once give undefined numbers, but stay within their memory.
 */
bool rng_begin(struct rng *rng, const vcuda_random *r, void *out, struct rng_job *job);
void rng_run(struct rng_job *job, uint64_t unit);
void rng_end(struct rng_job *job);

#endif
