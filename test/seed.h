/* SPDX-License-Identifier: Apache-2.0 */
/* The seed of a random search: another one in each run, so that repeated runs find more. */
#ifndef TEST_SEED_H
#define TEST_SEED_H

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/random.h>

/* From 1 on: the number in VCUDA_TEST_SEED, which repeats a run, or a random one. Prints it. */
static inline uint32_t test_seed(void)
{
	const char *text = getenv("VCUDA_TEST_SEED");
	uint32_t seed = text ? (uint32_t)strtoul(text, NULL, 0) : 0;

	while (!seed)
		if (getrandom(&seed, sizeof(seed), 0) != sizeof(seed))
			abort();
	fprintf(stderr, "seed: VCUDA_TEST_SEED=%u repeats this run\n", seed);
	return seed;
}

/* A seed as the state of a generator whose state has 64 bits; never 0. */
static inline uint64_t test_seed_state(uint32_t seed)
{
	return seed * 0x9e3779b97f4a7c15ull;
}

#endif
