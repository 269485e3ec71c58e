/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Scrambled Sobol sequences, by Matousek's linear scrambling ("On the L2-discrepancy for anchored boxes") and a digital
 * shift. The directions of a dimension are multiplied by a random matrix of bits, which multiplies every sum of them
 * too. The matrix is lower triangular from the highest bit down, with ones on its diagonal. Then a random number is
 * added to each number, without carries. The first bits of a result depend on the same first bits only, one to one, so
 * the points are spread as evenly as before.
 *
 * The random bits are Philox's (philox.c) with the key KEY. The upper half of the counter is the dimension; each value
 * of the lower half gives two numbers of 64 bits. Number j makes column j of the matrix, number 64 the shift. A
 * sequence of 32 bits has the upper halves.
 */
#include "sobol-data.h"
#include "type.h"

#define KEY 0x536f626f6cu /* "Sobol" */
#define BITS 64

static void random_words(unsigned int dimension, uint64_t words[BITS + 2])
{
	for (unsigned int i = 0; i < BITS + 2; i += 2) {
		uint32_t out[4];

		rng_philox_block(i / 2, dimension, KEY, out);
		words[i] = out[0] | (uint64_t)out[1] << 32;
		words[i + 1] = out[2] | (uint64_t)out[3] << 32;
	}
}

uint64_t rng_scrambled(unsigned int dimension, unsigned int bits, uint64_t directions[])
{
	uint64_t plain[BITS], words[BITS + 2];

	random_words(dimension, words);
	for (unsigned int j = 0; j < BITS; j++) {
		uint64_t diagonal = 1ull << (BITS - 1 - j);

		words[j] = diagonal | (words[j] & (diagonal - 1));
	}
	rng_directions(dimension, bits, plain);
	for (unsigned int k = 0; k < bits; k++) {
		uint64_t left = plain[k] << (BITS - bits), direction = 0;

		for (; left; left &= left - 1)
			direction ^= words[BITS - 1 - __builtin_ctzll(left)];
		directions[k] = direction >> (BITS - bits);
	}
	return words[BITS] >> (BITS - bits);
}
