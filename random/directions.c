/* SPDX-License-Identifier: Apache-2.0 */
#include "sobol-data.h"

/* The number of primitive polynomials of each degree, and so of the dimensions with a polynomial of that degree. */
static const uint16_t polynomials[] = {0, 1, 1, 2, 2, 6, 6, 18, 16, 48, 60, 176, 144, 630, 756, 1800, 2048, 7710, 7776};

static unsigned int read_bits(uint64_t at, unsigned int count)
{
	const uint64_t *word = rng_joe_kuo + at / 64;
	uint64_t bits = word[0] >> at % 64;

	if (at % 64)
		bits |= word[1] << (64 - at % 64);
	return (unsigned int)(bits & ((1u << count) - 1));
}

/* The degree of a dimension's polynomial, and the bit where its packed numbers begin. Dimension 0 has no polynomial. */
static unsigned int find(unsigned int dimension, uint64_t *at)
{
	unsigned int degree = 1, left = dimension - 1;

	*at = 0;
	for (;; degree++) {
		uint64_t size = degree - 1 + degree * (degree - 1) / 2;

		if (left < polynomials[degree]) {
			*at += left * size;
			return degree;
		}
		*at += polynomials[degree] * size;
		left -= polynomials[degree];
	}
}

void rng_directions(unsigned int dimension, unsigned int bits, uint64_t directions[])
{
	unsigned int degree = 0, polynomial = 0;
	uint64_t at, m[64];

	if (dimension) {
		degree = find(dimension, &at);
		polynomial = read_bits(at, degree - 1);
		at += degree - 1;
	}
	for (unsigned int k = 0; k < bits; k++) {
		if (!degree) {
			m[k] = 1;
		} else if (k < degree) {
			m[k] = (uint64_t)read_bits(at, k) << 1 | 1;
			at += k;
		} else {
			m[k] = m[k - degree] ^ m[k - degree] << degree;
			for (unsigned int j = 1; j < degree; j++)
				if (polynomial >> (degree - 1 - j) & 1)
					m[k] ^= m[k - j] << j;
		}
		directions[k] = m[k] << (bits - 1 - k);
	}
}
