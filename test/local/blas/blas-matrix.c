/* SPDX-License-Identifier: Apache-2.0 */
#include "blas-matrix.h"

struct matrix matrix_new(enum storage storage, enum kind kind, int64_t m, int64_t n, int64_t kl, int64_t ku)
{
	struct matrix a = {.storage = storage, .kind = kind, .m = m, .n = n, .kl = kl, .ku = ku};
	int64_t rows = storage == BAND ? kl + ku + 1 : m;

	a.uplo = (int)random_below(2);
	if (kind != GENERAL && a.uplo == LOWER)
		a.ku = 0;
	else if (kind != GENERAL)
		a.kl = 0;
	if (kind != GENERAL && storage == BAND)
		rows = (kl > ku ? kl : ku) + 1;
	a.ld = (rows ? rows : 1) + random_below(4);
	a.o = operand_new((storage == PACKED ? n * (n + 1) / 2 : a.ld * n) + 2);
	return a;
}

struct matrix triangle_new(enum storage storage, int64_t n, int64_t k)
{
	struct matrix a = matrix_new(storage, TRIANGULAR, n, n, k, k);

	a.unit = (int)random_below(2);
	for (int64_t i = 0; i < a.o.length; i++)
		a.o.now[i] /= (double)(n + 1);
	for (int64_t i = 0; i < n; i++)
		a.o.now[matrix_index(&a, i, i)] += 2;
	operand_write(&a.o);
	return a;
}

int64_t matrix_index(const struct matrix *a, int64_t i, int64_t j)
{
	if (a->kind != GENERAL && (a->uplo == LOWER ? i < j : i > j))
		return -1;
	switch (a->storage) {
	case DENSE:
		return j * a->ld + i;
	case BAND:
		return i - j > a->kl || j - i > a->ku ? -1 : j * a->ld + a->ku + i - j;
	default:
		return a->uplo == UPPER ? i + j * (j + 1) / 2 : i + j * (2 * a->n - j - 1) / 2;
	}
}

cplx matrix_get(const struct matrix *a, int64_t i, int64_t j)
{
	int64_t index;
	cplx value;

	if ((a->kind == SYMMETRIC || a->kind == HERMITIAN) && (a->uplo == LOWER ? i < j : i > j))
		return a->kind == HERMITIAN ? conj(matrix_get(a, j, i)) : matrix_get(a, j, i);
	if (a->unit && i == j)
		return 1;
	index = matrix_index(a, i, j);
	value = index < 0 ? 0 : a->o.now[index];
	return a->kind == HERMITIAN && i == j ? creal(value) : value;
}

cplx matrix_op(const struct matrix *a, int op, int64_t i, int64_t j)
{
	cplx value = op ? matrix_get(a, j, i) : matrix_get(a, i, j);

	return op == 2 ? conj(value) : value;
}
