/* SPDX-License-Identifier: Apache-2.0 */
/* Operand types of the instruction tests: which values go in, and when two results count as the same. */
#ifndef TEST_PTX_VALUE_H
#define TEST_PTX_VALUE_H

#include <stdbool.h>
#include <stdint.h>

struct value_type {
	const char *name;
	unsigned bits;      /* of a value */
	unsigned reg;       /* of the register that holds it; 1: a predicate */
	unsigned part_bits; /* of a float, or of each float in it; 0: an integer */
	unsigned mantissa;  /* number of bits of the mantissa */
	unsigned pool;      /* of special values */
};

/* NULL: no such type. */
const struct value_type *value_type(const char *name);

/* The input of tuple `n` at operand `position`: special values and random ones, always the same. */
uint64_t value_input(const struct value_type *type, unsigned position, unsigned n);

/* Largest allowed distance of a result from the recorded one. */
struct value_bound {
	double relative, absolute; /* the larger counts; both 0: exact */
};

/* NaNs count as equal. */
bool value_same(const struct value_type *type, const struct value_bound *bound, uint64_t a, uint64_t b);

/* The value with every NaN replaced by one of them. */
uint64_t value_canonical(const struct value_type *type, uint64_t value);

/* As text, for people: hexadecimal, and floats in decimal as well. */
const char *value_print(const struct value_type *type, uint64_t value, char *text, unsigned size);

uint64_t value_mix(uint64_t seed);

#endif
