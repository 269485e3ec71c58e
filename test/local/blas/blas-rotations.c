/* SPDX-License-Identifier: Apache-2.0 */
/* Rotations: of vectors, and how they are made. */
#include <math.h>
#include <stdlib.h>

#include "blas.h"

static int64_t increment(void)
{
	int64_t i = random_below(7) - 3;

	return i ? i : 1;
}

struct pair {
	int64_t n, incx, incy;
	struct operand x, y;
};

static struct pair pair_new(void)
{
	struct pair p = {.n = random_below(200), .incx = increment(), .incy = increment()};

	p.x = vector_new(p.n, p.incx);
	p.y = vector_new(p.n, p.incy);
	return p;
}

static void pair_end(struct pair *p, const char *what)
{
	operand_check(&p->x, 4, what);
	operand_check(&p->y, 4, what);
	operand_free(&p->x);
	operand_free(&p->y);
}

/* (x, y) = (h11 x + h12 y, h21 x + h22 y) */
static void turn(struct pair *p, cplx h11, cplx h12, cplx h21, cplx h22)
{
	for (int64_t i = 0; i < p->n; i++) {
		cplx *x = &p->x.now[at(i, p->n, p->incx)], *y = &p->y.now[at(i, p->n, p->incy)], old = *x;

		*x = h11 * old + h12 * *y;
		*y = h21 * old + h22 * *y;
	}
}

static void complex_rot(void)
{
	int (*f)(void *, int64_t, uint64_t, int64_t, uint64_t, int64_t, const void *, const void *) =
		blas_function("*rot");
	struct pair p = pair_new();
	double c = creal(random_number());
	cplx s = random_number();

	turn(&p, c, s, -conj(s), c);
	CHECK(!f(blas_handle, p.n, p.x.address, p.incx, p.y.address, p.incy, real_scalar(c), scalar(s)));
	pair_end(&p, "rot");
}

static void rotm(void)
{
	int (*f)(void *, int64_t, uint64_t, int64_t, uint64_t, int64_t, const void *) = blas_function("*rotm");
	struct pair p = pair_new();
	cplx h[5];

	for (int i = 1; i < 5; i++)
		h[i] = random_number();
	h[0] = (double)random_below(4) - 2;
	if (h[0] == -1)
		turn(&p, h[1], h[3], h[2], h[4]);
	else if (h[0] == 0)
		turn(&p, 1, h[3], h[2], 1);
	else if (h[0] == 1)
		turn(&p, h[1], 1, -1, h[4]);
	CHECK(!f(blas_handle, p.n, p.x.address, p.incx, p.y.address, p.incy, numbers(h, 5, true)));
	pair_end(&p, "rotm");
}

static void near(cplx a, cplx b, double scale)
{
	CHECK(cabs(a - b) <= scale * (now.e->is_double ? 1e-13 : 2e-6));
}

/* The rotation takes (a, b) to (r, 0), and has length 1. */
static void rotg(void)
{
	int (*f)(void *, void *, void *, void *, void *) = blas_function("~*rotg_v2");
	cplx a = random_below(8) ? random_number() : 0, b = random_below(8) ? random_number() : 0, zero = 0, s, r;
	void *a_at = numbers(&a, 1, false), *b_at = numbers(&b, 1, false), *c_at = numbers(&zero, 1, true);
	void *s_at = numbers(&zero, 1, false);
	double c;

	CHECK(!f(blas_handle, a_at, b_at, c_at, s_at));
	c = creal(number_at(c_at, 0, true));
	s = number_at(s_at, 0, false);
	r = number_at(a_at, 0, false);
	near(c * a + s * b, r, 2);
	near(c * b - conj(s) * a, 0, 2);
	near(c * c + creal(s * conj(s)), 1, 2);
	if (!now.e->is_complex)
		near(number_at(b_at, 0, false),
		     cabs(a) > cabs(b) || b == 0 ? s
		     : c != 0                    ? 1 / c
						 : 1,
		     2 + (c == 0 ? 0 : 1 / fabs(c)));
}

/* H takes (x1, y1), weighed by d1 and d2, to (x, 0) of the same length. */
static void rotmg(void)
{
	int (*f)(void *, void *, void *, void *, const void *, void *) = blas_function("~*rotmg_v2");
	double wide = random_below(2) ? 1e-9 : 1;
	cplx d1 = (1.5 + creal(random_number())) * wide, d2 = (1.5 + creal(random_number())) / wide;
	cplx x = random_number() + 2, y = random_number() + 2, none[5] = {0};
	void *d1_at = numbers(&d1, 1, true), *d2_at = numbers(&d2, 1, true), *x_at = numbers(&x, 1, true);
	void *y_at = numbers(&y, 1, true), *h_at = numbers(none, 5, true);
	double flag, h[5];
	cplx e1, e2;

	CHECK(!f(blas_handle, d1_at, d2_at, x_at, y_at, h_at));
	flag = creal(number_at(h_at, 0, true));
	CHECK(flag == -1 || flag == 0 || flag == 1);
	for (int i = 1; i < 5; i++)
		h[i] = creal(number_at(h_at, i, true));
	if (flag == 0)
		h[1] = h[4] = 1;
	if (flag == 1)
		h[3] = 1, h[2] = -1;
	e1 = number_at(d1_at, 0, true);
	e2 = number_at(d2_at, 0, true);
	near(h[1] * x + h[3] * y, number_at(x_at, 0, true), 4 * (cabs(h[1] * x) + cabs(h[3] * y)));
	near(h[2] * x + h[4] * y, 0, 4 * (cabs(h[2] * x) + cabs(h[4] * y)));
	near(e1 * cpow(number_at(x_at, 0, true), 2), d1 * x * x + d2 * y * y, 20 * cabs(d1 * x * x + d2 * y * y));
	CHECK(cabs(e2) >= 0 && cabs(e1) <= 4096. * 4096 && cabs(e1) >= 1 / (4096. * 4096));
}

void test_rotations(void)
{
	if (now.e->is_complex) {
		complex_rot();
	} else {
		rotm();
		rotmg();
	}
	rotg();
}
