/* SPDX-License-Identifier: Apache-2.0 */
/* Matrices and vectors. */
#include <math.h>
#include <stdlib.h>

#include "blas-matrix.h"

#define MOST 60

struct line {
	int64_t n, inc;
	struct operand o;
};

static struct line line_new(int64_t n)
{
	struct line l = {.n = n, .inc = random_below(7) - 3};

	if (!l.inc)
		l.inc = 1;
	l.o = vector_new(n, l.inc);
	return l;
}

#define L(l, i) (l).o.now[at(i, (l).n, (l).inc)]

static void line_end(struct line *l, const char *what)
{
	operand_check(&l->o, 20, what);
	operand_free(&l->o);
}

/* y = alpha op(A) x + beta y; where beta is 0, whatever y was. */
static void expect_product(const struct matrix *a, int op, cplx alpha, const struct line *x, cplx beta, struct line *y)
{
	for (int64_t i = 0; i < y->n && beta == 0; i++)
		L(*y, i) = NAN;
	operand_write(&y->o);
	for (int64_t i = 0; i < y->n; i++) {
		cplx sum = 0;

		for (int64_t j = 0; j < x->n; j++)
			sum += matrix_op(a, op, i, j) * L(*x, j);
		L(*y, i) = alpha * sum + (beta == 0 ? 0 : beta * L(*y, i));
	}
}

static void general(bool band)
{
	int64_t m = random_below(MOST), n = random_below(MOST), kl = random_below(5), ku = random_below(5);
	struct matrix a = matrix_new(band ? BAND : DENSE, GENERAL, m, n, kl, ku);
	int op = (int)random_below(3), status;
	struct line x = line_new(op ? m : n), y = line_new(op ? n : m);
	cplx alpha = random_scalar(), beta = random_scalar();
	void *f = blas_function(band ? "*gbmv" : "*gemv");
	int (*gemv)(void *, int, int64_t, int64_t, const void *, uint64_t, int64_t, uint64_t, int64_t, const void *,
		    uint64_t, int64_t) = f;
	int (*gbmv)(void *, int, int64_t, int64_t, int64_t, int64_t, const void *, uint64_t, int64_t, uint64_t, int64_t,
		    const void *, uint64_t, int64_t) = f;

	if (m && n)
		expect_product(&a, op, alpha, &x, beta, &y);
	if (band)
		status = gbmv(blas_handle, op, m, n, kl, ku, scalar(alpha), a.o.address, a.ld, x.o.address, x.inc,
			      scalar(beta), y.o.address, y.inc);
	else
		status = gemv(blas_handle, op, m, n, scalar(alpha), a.o.address, a.ld, x.o.address, x.inc, scalar(beta),
			      y.o.address, y.inc);
	CHECK(!status);
	line_end(&y, "gemv, gbmv");
	line_end(&x, "gemv, gbmv: x");
	operand_free(&a.o);
}

/* Complex matrices may be Hermitian or symmetric, which only dense ones are. */
static void symmetric(enum storage storage, bool hermitian)
{
	static const char *const names[2][3] = {{"*symv", "*sbmv", "*spmv"}, {"*hemv", "*hbmv", "*hpmv"}};
	int64_t n = random_below(MOST), k = random_below(5);
	struct matrix a = matrix_new(storage, hermitian ? HERMITIAN : SYMMETRIC, n, n, k, k);
	struct line x = line_new(n), y = line_new(n);
	cplx alpha = random_scalar(), beta = random_scalar();
	void *f = blas_function(names[hermitian][storage]);
	int (*symv)(void *, int, int64_t, const void *, uint64_t, int64_t, uint64_t, int64_t, const void *, uint64_t,
		    int64_t) = f;
	int (*sbmv)(void *, int, int64_t, int64_t, const void *, uint64_t, int64_t, uint64_t, int64_t, const void *,
		    uint64_t, int64_t) = f;
	int (*spmv)(void *, int, int64_t, const void *, uint64_t, uint64_t, int64_t, const void *, uint64_t, int64_t) =
		f;
	int status;

	expect_product(&a, 0, alpha, &x, beta, &y);
	if (storage == DENSE)
		status = symv(blas_handle, a.uplo, n, scalar(alpha), a.o.address, a.ld, x.o.address, x.inc,
			      scalar(beta), y.o.address, y.inc);
	else if (storage == BAND)
		status = sbmv(blas_handle, a.uplo, n, k, scalar(alpha), a.o.address, a.ld, x.o.address, x.inc,
			      scalar(beta), y.o.address, y.inc);
	else
		status = spmv(blas_handle, a.uplo, n, scalar(alpha), a.o.address, x.o.address, x.inc, scalar(beta),
			      y.o.address, y.inc);
	CHECK(!status);
	line_end(&y, "symv, sbmv, spmv");
	line_end(&x, "symv, sbmv, spmv: x");
	operand_free(&a.o);
}

static void rank_one(bool conjugate)
{
	int64_t m = random_below(MOST), n = random_below(MOST);
	struct matrix a = matrix_new(DENSE, GENERAL, m, n, 0, 0);
	struct line x = line_new(m), y = line_new(n);
	cplx alpha = random_scalar();
	int (*ger)(void *, int64_t, int64_t, const void *, uint64_t, int64_t, uint64_t, int64_t, uint64_t, int64_t) =
		blas_function(now.e->is_complex ? conjugate ? "*gerc" : "*geru" : "*ger");

	for (int64_t j = 0; j < n; j++)
		for (int64_t i = 0; i < m; i++)
			a.o.now[j * a.ld + i] += alpha * L(x, i) * (conjugate ? conj(L(y, j)) : L(y, j));
	CHECK(!ger(blas_handle, m, n, scalar(alpha), x.o.address, x.inc, y.o.address, y.inc, a.o.address, a.ld));
	operand_check(&a.o, 4, "ger");
	line_end(&y, "ger: y");
	line_end(&x, "ger: x");
	operand_free(&a.o);
}

/* A += alpha x x', or alpha x y' + its transpose, in one triangle. */
static void expect_update(struct matrix *a, bool hermitian, cplx alpha, const struct line *x, const struct line *y)
{
	for (int64_t j = 0; j < a->n; j++) {
		for (int64_t i = 0; i < a->n; i++) {
			int64_t index = matrix_index(a, i, j);
			cplx xj = hermitian ? conj(L(*x, j)) : L(*x, j), yj = hermitian ? conj(L(*y, j)) : L(*y, j),
			     sum;

			if (index < 0)
				continue;
			sum = x == y ? alpha * L(*x, i) * xj
				     : alpha * L(*x, i) * yj + (hermitian ? conj(alpha) : alpha) * L(*y, i) * xj;
			/* Without anything to add, the diagonal's imaginary part stays. */
			if (alpha != 0)
				a->o.now[index] = matrix_get(a, i, j) + sum;
		}
	}
}

static void update(bool packed, bool two, bool hermitian)
{
	static const char *const names[2][2][2] = {{{"*syr", "*syr2"}, {"*spr", "*spr2"}},
						   {{"*her", "*her2"}, {"*hpr", "*hpr2"}}};
	int64_t n = random_below(MOST);
	struct matrix a = matrix_new(packed ? PACKED : DENSE, hermitian ? HERMITIAN : SYMMETRIC, n, n, 0, 0);
	struct line x = line_new(n), y = line_new(n);
	cplx alpha = two || !hermitian ? random_scalar() : creal(random_scalar());
	void *f = blas_function(names[hermitian][packed][two]);
	int (*one_f)(void *, int, int64_t, const void *, uint64_t, int64_t, uint64_t, int64_t) = f;
	int (*two_f)(void *, int, int64_t, const void *, uint64_t, int64_t, uint64_t, int64_t, uint64_t, int64_t) = f;
	const void *value = two || !hermitian ? scalar(alpha) : real_scalar(creal(alpha));

	/* The imaginary parts of a Hermitian matrix's diagonal are unused and not compared. */
	for (int64_t i = 0; i < n && hermitian; i++)
		a.o.now[matrix_index(&a, i, i)] = creal(a.o.now[matrix_index(&a, i, i)]);
	operand_write(&a.o);
	expect_update(&a, hermitian, alpha, &x, two ? &y : &x);
	/* A packed matrix has no leading dimension: the last argument is one too many. */
	if (two)
		CHECK(!two_f(blas_handle, a.uplo, n, value, x.o.address, x.inc, y.o.address, y.inc, a.o.address, a.ld));
	else
		CHECK(!one_f(blas_handle, a.uplo, n, value, x.o.address, x.inc, a.o.address, a.ld));
	operand_check(&a.o, 8, "syr, spr");
	line_end(&y, "syr: y");
	line_end(&x, "syr: x");
	operand_free(&a.o);
}

static void triangular(enum storage storage, bool solve)
{
	static const char *const names[2][3] = {{"*trmv", "*tbmv", "*tpmv"}, {"*trsv", "*tbsv", "*tpsv"}};
	int64_t n = random_below(MOST), k = random_below(5);
	struct matrix a = triangle_new(storage, n, k);
	struct line x = line_new(n), y = line_new(n);
	int op = (int)random_below(3), status;
	void *f = blas_function(names[solve][storage]);
	int (*dense)(void *, int, int, int, int64_t, uint64_t, int64_t, uint64_t, int64_t) = f;
	int (*band)(void *, int, int, int, int64_t, int64_t, uint64_t, int64_t, uint64_t, int64_t) = f;
	int (*packed)(void *, int, int, int, int64_t, uint64_t, uint64_t, int64_t) = f;

	y.inc = x.inc = 1 + random_below(3);
	operand_free(&x.o);
	operand_free(&y.o);
	x.o = vector_new(n, x.inc);
	y.o = operand_new(x.o.length);
	for (int64_t i = 0; i < y.o.length; i++)
		y.o.now[i] = x.o.now[i];
	/* x times the matrix is y: one of them is given, the other to come out. */
	expect_product(&a, op, 1, &x, 1, &y);
	for (int64_t i = 0; i < n; i++)
		L(y, i) -= L(x, i);
	operand_write(&y.o);
	if (storage == DENSE)
		status = dense(blas_handle, a.uplo, op, a.unit, n, a.o.address, a.ld, solve ? y.o.address : x.o.address,
			       x.inc);
	else if (storage == BAND)
		status = band(blas_handle, a.uplo, op, a.unit, n, k, a.o.address, a.ld,
			      solve ? y.o.address : x.o.address, x.inc);
	else
		status = packed(blas_handle, a.uplo, op, a.unit, n, a.o.address, solve ? y.o.address : x.o.address,
				x.inc);
	CHECK(!status);
	for (int64_t i = 0; i < x.o.length; i++) {
		cplx is = x.o.now[i];

		x.o.now[i] = solve ? is : y.o.now[i];
		y.o.now[i] = solve ? is : y.o.now[i];
	}
	operand_check(solve ? &y.o : &x.o, 20, solve ? "trsv, tbsv, tpsv" : "trmv, tbmv, tpmv");
	operand_free(&x.o);
	operand_free(&y.o);
	operand_free(&a.o);
}

void test_level_2(void)
{
	general(false);
	general(true);
	rank_one(false);
	if (now.e->is_complex)
		rank_one(true);
	for (int storage = DENSE; storage <= PACKED; storage++) {
		symmetric(storage, now.e->is_complex);
		triangular(storage, false);
		triangular(storage, true);
	}
	for (int i = 0; i < 4; i++)
		update(i & 1, i & 2, now.e->is_complex);
	if (now.e->is_complex) {
		symmetric(DENSE, false);
		update(false, false, false);
		update(false, true, false);
	}
}
