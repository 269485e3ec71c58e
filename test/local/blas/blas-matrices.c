/* SPDX-License-Identifier: Apache-2.0 */
/* The functions of cuBLAS for matrices beyond BLAS. */
#include <math.h>
#include <stdlib.h>

#include "blas-matrix.h"

#define MOST 150 /* more than one block */

static struct matrix general(int64_t m, int64_t n)
{
	return matrix_new(DENSE, GENERAL, m, n, 0, 0);
}

static void end(struct matrix *a, struct matrix *b, struct matrix *c, const char *what)
{
	operand_check(&c->o, 120, what);
	operand_free(&c->o);
	if (b && b != c)
		operand_free(&b->o);
	if (a != c)
		operand_free(&a->o);
}

/* NVIDIA's takes no address for 0 here, which its cuSOLVER makes use of. */
static const void *perhaps(cplx value)
{
	return value == 0 && !now.device_scalars && random_below(2) ? NULL : scalar(value);
}

static void geam(void)
{
	int64_t m = random_below(MOST), n = random_below(MOST);
	int ta = (int)random_below(3), tb = (int)random_below(3), place = (int)random_below(4);
	struct matrix a = general(ta ? n : m, ta ? m : n), b = general(tb ? n : m, tb ? m : n), c = general(m, n);
	cplx alpha = random_scalar(), beta = random_scalar();
	struct matrix *to = place == 0 && !ta ? &a : place == 1 && !tb ? &b : &c;
	int (*f)(void *, int, int, int64_t, int64_t, const void *, uint64_t, int64_t, const void *, uint64_t, int64_t,
		 uint64_t, int64_t) = blas_function("=*geam");

	for (int64_t j = 0; j < n; j++)
		for (int64_t i = 0; i < m; i++)
			to->o.now[j * to->ld + i] = (alpha == 0 ? 0 : alpha * matrix_op(&a, ta, i, j)) +
						    (beta == 0 ? 0 : beta * matrix_op(&b, tb, i, j));
	CHECK(!f(blas_handle, ta, tb, m, n, perhaps(alpha), alpha == 0 && to != &a ? 0 : a.o.address, a.ld,
		 perhaps(beta), beta == 0 && to != &b ? 0 : b.o.address, b.ld, to->o.address, to->ld));
	end(&a, &b, to, "geam");
	if (to != &c)
		operand_free(&c.o);
}

static void dgmm(void)
{
	int64_t m = random_below(MOST), n = random_below(MOST), inc = random_below(7) - 3;
	int right = (int)random_below(2);
	struct matrix a = general(m, n), c = general(m, n);
	struct operand x;
	int (*f)(void *, int, int64_t, int64_t, uint64_t, int64_t, uint64_t, int64_t, uint64_t, int64_t) =
		blas_function("=*dgmm");

	inc = inc ? inc : 1;
	x = vector_new(right ? n : m, inc);
	for (int64_t j = 0; j < n; j++)
		for (int64_t i = 0; i < m; i++)
			c.o.now[j * c.ld + i] = matrix_get(&a, i, j) * x.now[right ? at(j, n, inc) : at(i, m, inc)];
	CHECK(!f(blas_handle, right, m, n, a.o.address, a.ld, x.address, inc, c.o.address, c.ld));
	operand_free(&x);
	end(&a, NULL, &c, "dgmm");
}

static void trmm(void)
{
	int64_t m = random_below(MOST / 3), n = random_below(MOST / 3);
	int right = (int)random_below(2), op = (int)random_below(3), in_place = (int)random_below(2);
	struct matrix a = triangle_new(DENSE, right ? n : m, 0), b = general(m, n), c = general(m, n);
	struct matrix *to = in_place ? &b : &c;
	cplx alpha = random_scalar(), *sums = malloc(sizeof(*sums) * (size_t)(m * n + 1));
	int (*f)(void *, int, int, int, int, int64_t, int64_t, const void *, uint64_t, int64_t, uint64_t, int64_t,
		 uint64_t, int64_t) = blas_function("*trmm");

	CHECK(sums);
	for (int64_t j = 0; j < n; j++) {
		for (int64_t i = 0; i < m; i++) {
			cplx sum = 0;

			for (int64_t l = 0; l < (right ? n : m); l++)
				sum += right ? matrix_get(&b, i, l) * matrix_op(&a, op, l, j)
					     : matrix_op(&a, op, i, l) * matrix_get(&b, l, j);
			sums[j * m + i] = alpha * sum;
		}
	}
	for (int64_t j = 0; j < n; j++)
		for (int64_t i = 0; i < m; i++)
			to->o.now[j * to->ld + i] = sums[j * m + i];
	free(sums);
	CHECK(!f(blas_handle, right, a.uplo, op, a.unit, m, n, scalar(alpha), a.o.address, a.ld, b.o.address, b.ld,
		 to->o.address, to->ld));
	end(&a, &b, to, "trmm");
	if (in_place)
		operand_free(&c.o);
}

/* B is a multiple of A, so that the result is symmetric or Hermitian. */
static void syrkx(bool hermitian)
{
	int64_t n = random_below(MOST), k = random_below(MOST / 3);
	int other = hermitian ? 2 : 1, op = random_below(2) ? other : 0;
	struct matrix a = general(op ? k : n, op ? n : k), b = general(op ? k : n, op ? n : k);
	struct matrix c = matrix_new(DENSE, hermitian ? HERMITIAN : SYMMETRIC, n, n, 0, 0);
	cplx alpha = random_scalar(), beta = hermitian ? creal(random_scalar()) : random_scalar();
	int (*f)(void *, int, int, int64_t, int64_t, const void *, uint64_t, int64_t, uint64_t, int64_t, const void *,
		 uint64_t, int64_t) = blas_function(hermitian ? "=*herkx" : "=*syrkx");

	alpha = hermitian ? creal(alpha) : alpha;
	for (int64_t j = 0; j < a.n; j++)
		for (int64_t i = 0; i < a.m; i++)
			b.o.now[j * b.ld + i] = 2 * matrix_get(&a, i, j);
	operand_write(&b.o);
	for (int64_t i = 0; i < n && hermitian; i++)
		c.o.now[i * c.ld + i] = creal(c.o.now[i * c.ld + i]);
	for (int64_t j = 0; j < n; j++)
		for (int64_t i = 0; i < n && beta == 0; i++)
			if (matrix_index(&c, i, j) >= 0)
				c.o.now[matrix_index(&c, i, j)] = NAN;
	operand_write(&c.o);
	for (int64_t j = 0; j < n; j++) {
		for (int64_t i = 0; i < n; i++) {
			int64_t index = matrix_index(&c, i, j);
			cplx sum = 0;

			for (int64_t l = 0; l < k && index >= 0; l++)
				sum += matrix_op(&a, op, i, l) * matrix_op(&b, other - op, l, j);
			if (index >= 0)
				c.o.now[index] = alpha * sum + (beta == 0 ? 0 : beta * matrix_get(&c, i, j));
		}
	}
	CHECK(!f(blas_handle, c.uplo, op, n, k, scalar(alpha), a.o.address, a.ld, b.o.address, b.ld,
		 hermitian ? real_scalar(creal(beta)) : scalar(beta), c.o.address, c.ld));
	end(&a, &b, &c, "syrkx");
}

static void triangles(void)
{
	int64_t n = random_below(MOST);
	struct matrix full = matrix_new(DENSE, TRIANGULAR, n, n, 0, 0);
	struct matrix packed = {.storage = PACKED, .kind = TRIANGULAR, .uplo = full.uplo, .m = n, .n = n};
	bool pack = random_below(2);
	int (*ttp)(void *, int, int64_t, uint64_t, int64_t, uint64_t) = blas_function("~*trttp");
	int (*ptr)(void *, int, int64_t, uint64_t, uint64_t, int64_t) = blas_function("~*tpttr");

	packed.o = operand_new(n * (n + 1) / 2 + 2);
	for (int64_t j = 0; j < n; j++)
		for (int64_t i = 0; i < n; i++)
			if (matrix_index(&full, i, j) >= 0 && pack)
				packed.o.now[matrix_index(&packed, i, j)] = matrix_get(&full, i, j);
			else if (matrix_index(&full, i, j) >= 0)
				full.o.now[matrix_index(&full, i, j)] = matrix_get(&packed, i, j);
	if (pack)
		CHECK(!ttp(blas_handle, full.uplo, n, full.o.address, full.ld, packed.o.address));
	else
		CHECK(!ptr(blas_handle, full.uplo, n, packed.o.address, full.o.address, full.ld));
	operand_check(&packed.o, 0, "trttp");
	operand_check(&full.o, 0, "tpttr");
	operand_free(&packed.o);
	operand_free(&full.o);
}

void test_matrices(void)
{
	geam();
	dgmm();
	trmm();
	syrkx(false);
	if (now.e->is_complex)
		syrkx(true);
	triangles();
}
