/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Directions of Sobol's sequences, made (directions.c, scramble.c) from the numbers that joe-kuo.py packs. The
 * functions have no state, so any thread may call them.
 */
#ifndef RNG_SOBOL_DATA_H
#define RNG_SOBOL_DATA_H

#include <stdint.h>

/* The packed numbers of joe-kuo.py, followed by one more word. */
extern const uint64_t rng_joe_kuo[];

/* The `bits` (32 or 64) directions of a dimension, each of so many bits. */
void rng_directions(unsigned int dimension, unsigned int bits, uint64_t directions[]);

/* The same for the scrambled sequence. Returns the number that is added to each of its numbers. */
uint64_t rng_scrambled(unsigned int dimension, unsigned int bits, uint64_t directions[]);

/* Calls one of the two functions above, by the type. `scrambles`: as rng_set_scrambles() takes them, or NULL. */
uint64_t rng_load_sobol(uint32_t type, const uint64_t *scrambles, unsigned int dimension, uint64_t directions[]);

#endif
