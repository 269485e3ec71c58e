/* SPDX-License-Identifier: Apache-2.0 */
/* Vectors. The functions have int or int64_t sizes: a value that fits both goes into the same registers. */
#include <math.h>
#include <stdlib.h>

#include "blas.h"

struct pair {
	int64_t n, incx, incy;
	struct operand x, y;
};

static int64_t increment(void)
{
	int64_t i = random_below(7) - 3;

	return i ? i : 1;
}

static struct pair pair_new(void)
{
	struct pair p = {.n = random_below(300), .incx = increment(), .incy = increment()};

	p.x = vector_new(p.n, p.incx);
	p.y = vector_new(p.n, p.incy);
	return p;
}

#define X(p, i) (p).x.now[at(i, (p).n, (p).incx)]
#define Y(p, i) (p).y.now[at(i, (p).n, (p).incy)]

static void pair_end(struct pair *p, const char *what)
{
	operand_check(&p->x, 4, what);
	operand_check(&p->y, 4, what);
	operand_free(&p->x);
	operand_free(&p->y);
}

static void axpy(void)
{
	int (*f)(void *, int64_t, const void *, uint64_t, int64_t, uint64_t, int64_t) = blas_function("*axpy");
	cplx alpha = random_scalar();
	struct pair p = pair_new();

	for (int64_t i = 0; i < p.n; i++)
		Y(p, i) += alpha * X(p, i);
	CHECK(!f(blas_handle, p.n, scalar(alpha), p.x.address, p.incx, p.y.address, p.incy));
	pair_end(&p, "axpy");
}

static void copy_and_swap(void)
{
	int (*f)(void *, int64_t, uint64_t, int64_t, uint64_t, int64_t) = blas_function("*copy");
	struct pair p = pair_new();

	for (int64_t i = 0; i < p.n; i++)
		Y(p, i) = X(p, i);
	CHECK(!f(blas_handle, p.n, p.x.address, p.incx, p.y.address, p.incy));
	pair_end(&p, "copy");
	p = pair_new();
	f = blas_function("*swap");
	for (int64_t i = 0; i < p.n; i++) {
		cplx x = X(p, i);

		X(p, i) = Y(p, i);
		Y(p, i) = x;
	}
	CHECK(!f(blas_handle, p.n, p.x.address, p.incx, p.y.address, p.incy));
	pair_end(&p, "swap");
}

static void dot(bool conjugate)
{
	int (*f)(void *, int64_t, uint64_t, int64_t, uint64_t, int64_t, void *) =
		blas_function(now.e->is_complex ? conjugate ? "*dotc" : "*dotu" : "*dot");
	struct pair p = pair_new();
	cplx sum = 0;

	for (int64_t i = 0; i < p.n; i++)
		sum += (conjugate ? conj(X(p, i)) : X(p, i)) * Y(p, i);
	CHECK(!f(blas_handle, p.n, p.x.address, p.incx, p.y.address, p.incy, result_room()));
	CHECK(cabs(result_value(false) - sum) <= (now.e->is_double ? 1e-12 : 1e-4) * (1 + cabs(sum)));
	pair_end(&p, "dot");
}

static void rotate(void)
{
	int (*f)(void *, int64_t, uint64_t, int64_t, uint64_t, int64_t, const void *, const void *) =
		blas_function(now.e->is_complex ? now.e->is_double ? "Zdrot" : "Csrot" : "*rot");
	struct pair p = pair_new();
	double c = creal(random_number()), s = creal(random_number());

	for (int64_t i = 0; i < p.n; i++) {
		cplx x = X(p, i), y = Y(p, i);

		X(p, i) = c * x + s * y;
		Y(p, i) = c * y - s * x;
	}
	CHECK(!f(blas_handle, p.n, p.x.address, p.incx, p.y.address, p.incy, real_scalar(c), real_scalar(s)));
	pair_end(&p, "rot");
}

static void scale(bool real)
{
	int (*f)(void *, int64_t, const void *, uint64_t, int64_t) = blas_function(!real              ? "*scal"
										   : now.e->is_double ? "Zdscal"
												      : "Csscal");
	int64_t n = random_below(300), inc = 1 + random_below(3);
	struct operand x = vector_new(n, inc);
	cplx alpha = real ? creal(random_scalar()) : random_scalar();

	for (int64_t i = 0; i < n; i++)
		x.now[i * inc] *= alpha;
	CHECK(!f(blas_handle, n, real ? real_scalar(creal(alpha)) : scalar(alpha), x.address, inc));
	operand_check(&x, 1, "scal");
	operand_free(&x);
}

static double size_of(cplx z)
{
	return fabs(creal(z)) + fabs(cimag(z));
}

/* The first of the largest, or smallest, from 1 on; 0 where there is none. */
static int64_t extreme(const struct operand *x, int64_t n, int64_t inc, bool largest)
{
	int64_t best = 0;

	for (int64_t i = 1; i < n; i++) {
		double a = size_of(x->now[i * inc]), b = size_of(x->now[best * inc]);

		if (largest ? a > b : a < b)
			best = i;
	}
	return n ? best + 1 : 0;
}

static void reduce(void)
{
	int64_t n = random_below(300), inc = 1 + random_below(3);
	struct operand x = vector_new(n, inc);
	double sum = 0, squares = 0;
	int (*f)(void *, int64_t, uint64_t, int64_t, void *);

	for (int64_t i = 0; i < n; i++) {
		sum += size_of(x.now[i * inc]);
		squares += creal(x.now[i * inc] * conj(x.now[i * inc]));
	}
	f = blas_function("^asum");
	CHECK(!f(blas_handle, n, x.address, inc, result_room()));
	CHECK(fabs(creal(result_value(true)) - sum) <= (now.e->is_double ? 1e-12 : 1e-5) * (1 + sum));
	f = blas_function("^nrm2");
	CHECK(!f(blas_handle, n, x.address, inc, result_room()));
	CHECK(fabs(creal(result_value(true)) - sqrt(squares)) <=
	      (now.e->is_double ? 1e-12 : 1e-5) * (1 + sqrt(squares)));
	f = blas_function("I.amax");
	CHECK(!f(blas_handle, n, x.address, inc, result_room()));
	CHECK(result_index() == extreme(&x, n, inc, true));
	f = blas_function("I.amin");
	CHECK(!f(blas_handle, n, x.address, inc, result_room()));
	CHECK(result_index() == extreme(&x, n, inc, false));
	operand_free(&x);
}

void test_level_1(void)
{
	axpy();
	copy_and_swap();
	dot(false);
	if (now.e->is_complex)
		dot(true);
	rotate();
	scale(false);
	if (now.e->is_complex)
		scale(true);
	reduce();
}
