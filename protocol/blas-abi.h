/* SPDX-License-Identifier: Apache-2.0 */
/*
 * BLAS on the wire, as both sides know it. The routines are described in blas.api; a call is a function's number, flags
 * and 8-byte words (blas.py). Nothing here has state.
 */
#ifndef VCUDA_BLAS_ABI_H
#define VCUDA_BLAS_ABI_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "blas-routines.h"

/* Flags of a call. Above them: the math mode. */
#define VCUDA_BLAS_DEVICE                                                                                              \
	1 /* scalars and results are addresses of device memory, read and written in the stream's order */
#define VCUDA_BLAS_WIDE 2 /* sizes are int64_t in the function, and an index that it gives */
#define VCUDA_BLAS_ATOMICS 4
#define VCUDA_BLAS_MATH_SHIFT 8

/* Function 0: makes ready what the calls need and gives the version of the host's library. */
#define VCUDA_BLAS_OPEN 0

/* What a result in the host's memory may take. */
#define VCUDA_BLAS_VALUE_WORDS 2

struct vcuda_blas_operand {
	uint64_t address;
	uint64_t elements; /* from there on: 0 where nothing is touched, UINT64_MAX where more than could be */
	bool written;      /* else only read */
	uint64_t vector;   /* the length of one, else 0 */
	bool apart;        /* whose elements do not follow one another */
};

/* What the variants of a routine have in common. */
struct vcuda_blas_family {
	const char *name;
	bool (*check)(const uint64_t *words);
	/* How many; only of words that check() let pass. */
	unsigned int (*operands)(const uint64_t *words, struct vcuda_blas_operand operands[VCUDA_BLAS_MAX_OPERANDS]);
	uint8_t words;
	uint8_t sizes[12], size_count;    /* the words that are sizes, increments or leading dimensions */
	uint8_t scalars[4], scalar_count; /* the first words of scalars */
	int8_t result;                    /* the word of the result, -1: none */
	uint8_t trans, no_trans;          /* that word is not this of complex matrices; 0: it may be */
	bool gives_index;                 /* which is twice as long where VCUDA_BLAS_WIDE is set */
	bool has_alpha;                   /* the first scalar: where it is 0, what is only read is not even that */
};

struct vcuda_blas_routine {
	const char *name; /* NULL: no such function */
	const struct vcuda_blas_family *family;
	uint8_t element, result; /* bytes */
	uint8_t scalars[4];      /* bytes */
	bool is_double;          /* else made of floats */
	bool is_complex;
};

extern const struct vcuda_blas_routine vcuda_blas_routines[VCUDA_BLAS_LIMIT];

/* False: an invalid value, as cuBLAS has it. */
bool vcuda_blas_check(const struct vcuda_blas_routine *routine, const uint64_t *words);

/* For the generated code: operands by their shapes. */
struct vcuda_blas_operand vcuda_blas_vector(uint64_t address, int64_t n, int64_t increment, bool written);
struct vcuda_blas_operand vcuda_blas_matrix(uint64_t address, int64_t rows, int64_t columns, int64_t leading,
					    bool written);
struct vcuda_blas_operand vcuda_blas_packed(uint64_t address, int64_t order, bool written);

#endif
