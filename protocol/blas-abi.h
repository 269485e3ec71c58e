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

#include "protocol/blas-routines.h"

/* Flags of a call. Above them: the math mode. */
#define VCUDA_BLAS_DEVICE                                                                                              \
	1 /* scalars and results are addresses of device memory, read and written in the stream's order */
#define VCUDA_BLAS_WIDE 2 /* sizes are int64_t in the function, and an index that it gives */
#define VCUDA_BLAS_ATOMICS 4
#define VCUDA_BLAS_MATH_SHIFT 8

/* Function 0: makes ready what the calls need and gives the version of the host's library. */
#define VCUDA_BLAS_OPEN 0

/* Largest number of words of a result in host memory. */
#define VCUDA_BLAS_VALUE_WORDS 2

/* Types of elements: cudaDataType's numbers. */
enum vcuda_blas_type {
	VCUDA_BLAS_R_32F = 0,
	VCUDA_BLAS_R_64F = 1,
	VCUDA_BLAS_R_16F = 2,
	VCUDA_BLAS_R_8I = 3,
	VCUDA_BLAS_C_32F = 4,
	VCUDA_BLAS_C_64F = 5,
	VCUDA_BLAS_C_8I = 7,
	VCUDA_BLAS_R_32I = 10,
	VCUDA_BLAS_R_16BF = 14,
	VCUDA_BLAS_R_64I = 24,
	VCUDA_BLAS_R_8F_E4M3 = 28,
	VCUDA_BLAS_R_8F_E5M2 = 29,
	VCUDA_BLAS_NO_TYPE = 255
};

/* The states of vcuda_blas_check(), in cuBLAS's numbers. */
enum { VCUDA_BLAS_GOOD = 0, VCUDA_BLAS_INVALID = 7, VCUDA_BLAS_NOT_SUPPORTED = 15 };

enum vcuda_blas_operand_kind { VCUDA_BLAS_SCALAR, VCUDA_BLAS_MEMORY, VCUDA_BLAS_RESULT };

#define VCUDA_BLAS_ALWAYS 255

/*
 * An operand. In a batch, all members but `total` describe one operand of the batch. `elements` and `total` are
 * UINT64_MAX where they would not fit.
 */
struct vcuda_blas_operand {
	uint64_t address;  /* of the words of a scalar or result, of which only these matter: kind, type, word, elements
			    */
	uint64_t elements; /* the span of the call's elements, from the lowest address; 0: none */
	uint64_t total;    /* elements of all operands that follow one another in strides; else `elements` */
	int64_t rows, columns; /* a vector: its length and 1 */
	int64_t step;          /* the leading dimension, or the increment */
	int64_t stride;        /* elements from one operand of the batch to the next; 0: all are the same operand */
	uint8_t kind, type, word;
	uint8_t unless; /* index of a scalar; where the scalar is 0 this operand is not read; or VCUDA_BLAS_ALWAYS */
	bool written;   /* else only read */
	bool pointers;  /* `address` is that of an array with the addresses of the batch */
	bool vector, optional;
};

struct vcuda_blas_routine;

/* A routine, for all of its variants: the types of elements. */
struct vcuda_blas_family {
	const char *name;
	/* The first parameter with an invalid value, counted from 1 behind the handle; 0: none. */
	int (*check)(const uint64_t *words);
	/* Fills in the operands and returns their number. The words have passed check(). */
	unsigned int (*operands)(const struct vcuda_blas_routine *routine, const uint64_t *words,
				 struct vcuda_blas_operand operands[VCUDA_BLAS_MAX_OPERANDS]);
	/* Whether cuBLAS supports this combination of valid arguments, such as types. NULL: it supports all. */
	bool (*goes)(const struct vcuda_blas_operand *operands, unsigned int count, const uint64_t *words,
		     unsigned int word_count);
	uint8_t words;
	uint8_t sizes[16], size_count; /* the words that are sizes, increments, leading dimensions or strides */
	int8_t result;                 /* the word of the result, -1: none */
	int8_t batch;                  /* the word with the size of the batch, -1: there is one computation */
	uint8_t trans, no_trans;       /* for complex matrices, word `trans` may not be `no_trans`; 0: it may */
	bool by_address;               /* served with VCUDA_BLAS_DEVICE only */
	bool has_scalars;              /* or a result: numbers that may be in host or device memory */
	bool gives_index;              /* the result is an index, which is twice as long with VCUDA_BLAS_WIDE */
	/* The family of one computation of a batch, and the places of its words among these. NULL: no batch. */
	const struct vcuda_blas_family *base;
	const uint8_t *base_words;
};

struct vcuda_blas_routine {
	const char *name; /* NULL: no such function */
	const struct vcuda_blas_family *family;
	uint8_t read, scalar, written; /* types that the variant fixes, where no argument has them */
};

extern const struct vcuda_blas_routine vcuda_blas_routines[VCUDA_BLAS_LIMIT];

/* Checks the words of a call. Returns VCUDA_BLAS_GOOD, _INVALID or _NOT_SUPPORTED. */
int vcuda_blas_check(const struct vcuda_blas_routine *routine, const uint64_t *words);

/* Bytes of an element; 0: an unknown type. */
unsigned int vcuda_blas_bytes(unsigned int type);
bool vcuda_blas_is_complex(unsigned int type);
/* The type of the parts of a complex type; another type itself. */
uint8_t vcuda_blas_real(unsigned int type);
/* The type of scalars, by cuBLAS's type of computation and the type of the result. */
uint8_t vcuda_blas_scale(uint64_t compute, uint64_t result);
/* The type of computation for a type of elements, which programs of CUDA 10 pass instead. */
int vcuda_blas_compute(int type);

/* ---- for the generated code ---- */

enum {
	VCUDA_BLAS_OUT = 1,
	VCUDA_BLAS_TYPED = 2,    /* a word behind it is its type */
	VCUDA_BLAS_POINTERS = 4, /* an array of addresses */
	VCUDA_BLAS_STRIDED = 8,  /* a word behind it is the stride */
	VCUDA_BLAS_EACH = 16,    /* the elements of each product of a batch follow those of the last one */
	VCUDA_BLAS_OPTIONAL = 32 /* or NULL */
};

/* Fill in an operand by its shape. `w`: the words of the operand; `batch`: the size of the batch. */
void vcuda_blas_vector(struct vcuda_blas_operand *o, const uint64_t *w, uint8_t type, int flags, int64_t batch,
		       int64_t n);
void vcuda_blas_matrix(struct vcuda_blas_operand *o, const uint64_t *w, uint8_t type, int flags, int64_t batch,
		       int64_t rows, int64_t columns);
void vcuda_blas_packed(struct vcuda_blas_operand *o, const uint64_t *w, uint8_t type, int flags, int64_t batch,
		       int64_t order);
void vcuda_blas_elements(struct vcuda_blas_operand *o, const uint64_t *w, uint8_t type, int flags, int64_t batch,
			 int64_t n);

bool vcuda_blas_goes_gemm(const struct vcuda_blas_operand *o, unsigned int count, const uint64_t *w,
			  unsigned int words);
bool vcuda_blas_goes_least_squares(const struct vcuda_blas_operand *o, unsigned int count, const uint64_t *w,
				   unsigned int words);
bool vcuda_blas_goes_norm(const struct vcuda_blas_operand *o, unsigned int count, const uint64_t *w,
			  unsigned int words);
bool vcuda_blas_goes_rank_k(const struct vcuda_blas_operand *o, unsigned int count, const uint64_t *w,
			    unsigned int words);
bool vcuda_blas_goes_vectors(const struct vcuda_blas_operand *o, unsigned int count, const uint64_t *w,
			     unsigned int words);

#endif
