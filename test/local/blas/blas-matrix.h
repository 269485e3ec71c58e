/* SPDX-License-Identifier: Apache-2.0 */
/* Matrices in the forms that BLAS stores them in. */
#ifndef LOCAL_BLAS_MATRIX_H
#define LOCAL_BLAS_MATRIX_H

#include "blas.h"

enum storage { DENSE, BAND, PACKED };
enum kind { GENERAL, SYMMETRIC, HERMITIAN, TRIANGULAR };
enum { LOWER, UPPER }; /* as cuBLAS numbers them */

struct matrix {
	enum storage storage;
	enum kind kind;
	int uplo, unit;
	int64_t m, n, kl, ku, ld;
	struct operand o;
};

/* kl, ku: of bands only. */
struct matrix matrix_new(enum storage storage, enum kind kind, int64_t m, int64_t n, int64_t kl, int64_t ku);
/* A triangle, with diagonal elements that it can be solved with. */
struct matrix triangle_new(enum storage storage, int64_t n, int64_t k);

/* The index of element i, j, or -1. */
int64_t matrix_index(const struct matrix *a, int64_t i, int64_t j);
cplx matrix_get(const struct matrix *a, int64_t i, int64_t j);
/* op: 0, or 1: of the transpose, or 2: of the conjugate transpose. */
cplx matrix_op(const struct matrix *a, int op, int64_t i, int64_t j);

#endif
