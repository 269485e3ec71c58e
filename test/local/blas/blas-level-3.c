/* SPDX-License-Identifier: Apache-2.0 */
/* Matrices and matrices. */
#include <math.h>

#include "blas-matrix.h"

#define MOST 50
#define MOST_GEMM 300 /* some are cut into tiles */

static cplx product(const struct matrix *a, int op_a, const struct matrix *b, int op_b, int64_t k, int64_t i, int64_t j)
{
	cplx sum = 0;

	for (int64_t l = 0; l < k; l++)
		sum += matrix_op(a, op_a, i, l) * matrix_op(b, op_b, l, j);
	return sum;
}

/* Where beta is 0 it does not matter what was there. */
static void poison(struct matrix *c, cplx beta)
{
	for (int64_t j = 0; j < c->n && beta == 0; j++)
		for (int64_t i = 0; i < c->m; i++)
			if (matrix_index(c, i, j) >= 0)
				c->o.now[matrix_index(c, i, j)] = NAN;
	operand_write(&c->o);
}

static void put(struct matrix *c, int64_t i, int64_t j, cplx sum, cplx beta)
{
	int64_t index = matrix_index(c, i, j);

	if (index >= 0)
		c->o.now[index] = sum + (beta == 0 ? 0 : beta * matrix_get(c, i, j));
}

static void end(struct matrix *a, struct matrix *b, struct matrix *c, const char *what)
{
	operand_check(&c->o, 60, what);
	operand_free(&a->o);
	operand_free(&b->o);
	operand_free(&c->o);
}

static void gemm(int64_t most, const char *name)
{
	int64_t m = random_below(most), n = random_below(most), k = random_below(most / 4 + 1);
	int ta = (int)random_below(3), tb = (int)random_below(3);
	struct matrix a = matrix_new(DENSE, GENERAL, ta ? k : m, ta ? m : k, 0, 0);
	struct matrix b = matrix_new(DENSE, GENERAL, tb ? n : k, tb ? k : n, 0, 0);
	struct matrix c = matrix_new(DENSE, GENERAL, m, n, 0, 0);
	cplx alpha = random_scalar(), beta = random_scalar();
	int (*f)(void *, int, int, int64_t, int64_t, int64_t, const void *, uint64_t, int64_t, uint64_t, int64_t,
		 const void *, uint64_t, int64_t) = blas_function(name);

	poison(&c, beta);
	for (int64_t j = 0; j < n; j++)
		for (int64_t i = 0; i < m; i++)
			put(&c, i, j, alpha * product(&a, ta, &b, tb, k, i, j), beta);
	CHECK(!f(blas_handle, ta, tb, m, n, k, scalar(alpha), a.o.address, a.ld, b.o.address, b.ld, scalar(beta),
		 c.o.address, c.ld));
	end(&a, &b, &c, "gemm");
}

static void symm(bool hermitian)
{
	int64_t m = random_below(MOST), n = random_below(MOST);
	int right = (int)random_below(2);
	int64_t order = right ? n : m;
	struct matrix a = matrix_new(DENSE, hermitian ? HERMITIAN : SYMMETRIC, order, order, 0, 0);
	struct matrix b = matrix_new(DENSE, GENERAL, m, n, 0, 0), c = matrix_new(DENSE, GENERAL, m, n, 0, 0);
	cplx alpha = random_scalar(), beta = random_scalar();
	int (*f)(void *, int, int, int64_t, int64_t, const void *, uint64_t, int64_t, uint64_t, int64_t, const void *,
		 uint64_t, int64_t) = blas_function(hermitian ? "*hemm" : "*symm");

	poison(&c, beta);
	for (int64_t j = 0; j < n; j++)
		for (int64_t i = 0; i < m; i++)
			put(&c, i, j, alpha * (right ? product(&b, 0, &a, 0, n, i, j) : product(&a, 0, &b, 0, m, i, j)),
			    beta);
	CHECK(!f(blas_handle, right, a.uplo, m, n, scalar(alpha), a.o.address, a.ld, b.o.address, b.ld, scalar(beta),
		 c.o.address, c.ld));
	end(&a, &b, &c, "symm");
}

/* C = alpha A A' + beta C, or alpha A B' + its transpose. */
static void rank_k(bool hermitian, bool two)
{
	static const char *const names[2][2] = {{"*syrk", "*syr2k"}, {"*herk", "*her2k"}};
	int64_t n = random_below(MOST), k = random_below(MOST);
	int other = hermitian ? 2 : 1, op = random_below(2) ? other : 0;
	struct matrix a = matrix_new(DENSE, GENERAL, op ? k : n, op ? n : k, 0, 0);
	struct matrix b = matrix_new(DENSE, GENERAL, op ? k : n, op ? n : k, 0, 0);
	struct matrix c = matrix_new(DENSE, hermitian ? HERMITIAN : SYMMETRIC, n, n, 0, 0);
	cplx alpha = hermitian && !two ? creal(random_scalar()) : random_scalar();
	cplx beta = hermitian ? creal(random_scalar()) : random_scalar();
	const void *alpha_at = hermitian && !two ? real_scalar(creal(alpha)) : scalar(alpha);
	const void *beta_at = hermitian ? real_scalar(creal(beta)) : scalar(beta);
	void *f = blas_function(names[hermitian][two]);
	int (*one_f)(void *, int, int, int64_t, int64_t, const void *, uint64_t, int64_t, const void *, uint64_t,
		     int64_t) = f;
	int (*two_f)(void *, int, int, int64_t, int64_t, const void *, uint64_t, int64_t, uint64_t, int64_t,
		     const void *, uint64_t, int64_t) = f;

	for (int64_t i = 0; i < n && hermitian; i++)
		c.o.now[i * c.ld + i] = creal(c.o.now[i * c.ld + i]);
	poison(&c, beta);
	for (int64_t j = 0; j < n; j++) {
		for (int64_t i = 0; i < n; i++) {
			/* op(A) op(B)' is A'B where op is not N: the transposes change places. */
			cplx sum = alpha * product(&a, op, two ? &b : &a, other - op, k, i, j);

			if (two)
				sum += (hermitian ? conj(alpha) : alpha) * product(&b, op, &a, other - op, k, i, j);
			put(&c, i, j, sum, beta);
		}
	}
	if (two)
		CHECK(!two_f(blas_handle, c.uplo, op, n, k, alpha_at, a.o.address, a.ld, b.o.address, b.ld, beta_at,
			     c.o.address, c.ld));
	else
		CHECK(!one_f(blas_handle, c.uplo, op, n, k, alpha_at, a.o.address, a.ld, beta_at, c.o.address, c.ld));
	end(&a, &b, &c, "syrk, syr2k");
}

static void trsm(void)
{
	int64_t m = random_below(MOST), n = random_below(MOST);
	int right = (int)random_below(2), op = (int)random_below(3);
	struct matrix a = triangle_new(DENSE, right ? n : m, 0);
	struct matrix x = matrix_new(DENSE, GENERAL, m, n, 0, 0), b = matrix_new(DENSE, GENERAL, m, n, 0, 0);
	cplx alpha = random_scalar();
	int (*f)(void *, int, int, int, int, int64_t, int64_t, const void *, uint64_t, int64_t, uint64_t, int64_t) =
		blas_function("*trsm");

	/* B is what X becomes by the matrix; alpha X is to come out. */
	for (int64_t j = 0; j < n; j++)
		for (int64_t i = 0; i < m; i++)
			b.o.now[j * b.ld + i] =
				right ? product(&x, 0, &a, op, n, i, j) : product(&a, op, &x, 0, m, i, j);
	operand_write(&b.o);
	for (int64_t j = 0; j < n; j++)
		for (int64_t i = 0; i < m; i++)
			b.o.now[j * b.ld + i] = alpha * matrix_get(&x, i, j);
	CHECK(!f(blas_handle, right, a.uplo, op, a.unit, m, n, scalar(alpha), a.o.address, a.ld, b.o.address, b.ld));
	end(&a, &x, &b, "trsm");
}

void test_level_3(void)
{
	gemm(MOST, "*gemm");
	gemm(MOST_GEMM, "*gemm");
	symm(false);
	rank_k(false, false);
	rank_k(false, true);
	if (now.e->is_complex) {
		gemm(MOST, "=*gemm3m");
		symm(true);
		rank_k(true, false);
		rank_k(true, true);
	}
	trsm();
}
