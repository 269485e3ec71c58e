/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Products of matrices in blocks, for combinations of types that OpenBLAS has no function for. OpenBLAS computes blocks
 * of sums in a type that it has, and a callback stores them.
 */
#ifndef VCUDA_CPU_BLAS_PRODUCT_H
#define VCUDA_CPU_BLAS_PRODUCT_H

#include "protocol/blas-abi.h"
#include "ops.h"

#define SOFTGPU_PRODUCT_BLOCK 256

/* A matrix as it is stored: columns of `rows` numbers. */
struct softgpu_stored {
	char *p;
	int64_t ld;
	unsigned int type, size;
};

/* A product, or a part of one. Sums of op(A) op(B) go to `store`, a block at a time: m rows and n columns from there
 * on, which follow one another; it may change them. */
struct softgpu_product {
	int op_a, op_b;
	int64_t m, n, k;
	struct softgpu_stored a, b;
	unsigned int wide, wide_size; /* type of the computation, and its bytes */
	void (*store)(const struct softgpu_product *p, int64_t row, int64_t column, char *sums, int64_t m, int64_t n);
};

/* The type that numbers of a type are computed in; an unknown type gives itself. */
unsigned int softgpu_product_wide(unsigned int type);

/* Bytes that a thread needs to multiply. */
size_t softgpu_product_room(const struct softgpu_product *p);
void softgpu_product_multiply(const struct softgpu_product *p, char *room);

static inline char *softgpu_stored_at(const struct softgpu_stored *s, int64_t row, int64_t column)
{
	return s->p + (column * s->ld + row) * (int64_t)s->size;
}

/* From row and column of op(A) on. */
static inline char *softgpu_stored_at_op(const struct softgpu_stored *s, int op, int64_t row, int64_t column)
{
	return op ? softgpu_stored_at(s, column, row) : softgpu_stored_at(s, row, column);
}

#endif
