/* SPDX-License-Identifier: Apache-2.0 */
/* Batches of factorisations, and what they solve. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "blas-matrix.h"

#define MOST 70 /* more than one panel */
#define MOST_BATCH 4

/* Some matrices, each where it came to lie, and what they were. */
struct group {
	int64_t count;
	struct matrix m[MOST_BATCH];
};

static struct group group_new(int64_t count, int64_t rows, int64_t columns, int64_t ld)
{
	struct group g = {.count = count};

	for (int64_t i = 0; i < count; i++) {
		g.m[i] = (struct matrix){.storage = DENSE, .kind = GENERAL, .m = rows, .n = columns, .ld = ld};
		g.m[i].o = operand_new(ld * columns + 2);
	}
	return g;
}

static int64_t leading(int64_t rows)
{
	return (rows ? rows : 1) + random_below(4);
}

static void group_free(struct group *g)
{
	for (int64_t i = 0; i < g->count; i++)
		operand_free(&g->m[i].o);
}

/* The same matrices again. */
static struct group group_copy(const struct group *g)
{
	struct group copy = group_new(g->count, g->m[0].m, g->m[0].n, g->m[0].ld);

	for (int64_t i = 0; i < g->count; i++) {
		memcpy(copy.m[i].o.now, g->m[i].o.now, sizeof(cplx) * (size_t)g->m[i].o.length);
		operand_write(&copy.m[i].o);
	}
	return copy;
}

static uint64_t group_array(const struct group *g)
{
	uint64_t addresses[MOST_BATCH];

	for (int64_t i = 0; i < g->count; i++)
		addresses[i] = g->m[i].o.address;
	return address_array(addresses, g->count);
}

static void group_read(struct group *g)
{
	for (int64_t i = 0; i < g->count; i++) {
		operand_read(&g->m[i].o);
		memcpy(g->m[i].o.now, g->m[i].o.before, sizeof(cplx) * (size_t)g->m[i].o.length);
	}
}

/* Makes the matrices solvable without pivots. */
static void group_strengthen(struct group *g)
{
	for (int64_t l = 0; l < g->count; l++) {
		for (int64_t i = 0; i < g->m[l].m && i < g->m[l].n; i++)
			g->m[l].o.now[i * g->m[l].ld + i] += (double)g->m[l].m + 1;
		operand_write(&g->m[l].o);
	}
}

static struct operand integers(int64_t n)
{
	const struct element *e = now.e;
	struct operand o;

	now.e = element_of('I');
	o = operand_new(n + 1);
	now.e = e;
	return o;
}

static void check_zeros(struct operand *info)
{
	for (int64_t i = 0; i < info->length - 1; i++)
		info->now[i] = 0;
	operand_check(info, 0, "info");
	operand_free(info);
}

static void near(cplx a, cplx b, double scale)
{
	CHECK(cabs(a - b) <= scale * (now.e->is_double ? 1e-13 : 2e-6));
}

/* Element i, j of L U, of which the rows are those that took each other's place. */
static cplx product_of_factors(const struct matrix *f, int64_t i, int64_t j)
{
	cplx sum = 0;

	for (int64_t l = 0; l <= i && l <= j; l++)
		sum += (l == i ? 1 : matrix_get(f, i, l)) * matrix_get(f, l, j);
	return sum;
}

static void check_factors(const struct matrix *f, const struct matrix *a, const cplx *pivots)
{
	int64_t rows[MOST];

	for (int64_t i = 0; i < a->n; i++)
		rows[i] = i;
	for (int64_t i = 0; i < a->n && pivots; i++) {
		int64_t with = (int64_t)creal(pivots[i]) - 1, row = rows[i];

		CHECK(with >= i && with < a->n);
		rows[i] = rows[with];
		rows[with] = row;
	}
	for (int64_t j = 0; j < a->n; j++)
		for (int64_t i = 0; i < a->n; i++)
			near(product_of_factors(f, i, j), matrix_get(a, rows[i], j), 300);
}

/* a: of n rows; x: what was solved for, with B = op(A) X. */
static void check_solution(const struct matrix *a, int op, const struct matrix *x, const struct matrix *b)
{
	for (int64_t j = 0; j < x->n; j++) {
		for (int64_t i = 0; i < a->n; i++) {
			cplx sum = 0;

			for (int64_t l = 0; l < a->n; l++)
				sum += matrix_op(a, op, i, l) * matrix_get(x, l, j);
			near(sum, matrix_get(b, i, j), 3000);
		}
	}
}

/* Factors, solves and inverts. */
static void factors(bool pivoting)
{
	int (*getrf)(void *, int, uint64_t, int, uint64_t, uint64_t, int) = blas_function("~*getrfBatched");
	int (*getrs)(void *, int, int, int, uint64_t, int, uint64_t, uint64_t, int, int *, int) =
		blas_function("~*getrsBatched");
	int (*getri)(void *, int, uint64_t, int, uint64_t, uint64_t, int, uint64_t, int) =
		blas_function("~*getriBatched");
	int64_t n = 1 + random_below(MOST - 1), columns = random_below(10), count = 1 + random_below(MOST_BATCH);
	int64_t lda = leading(n), ldb = leading(n), ldc = leading(n);
	int op = (int)random_below(3), said = 5;
	struct group a = group_new(count, n, n, lda), b = group_new(count, n, columns, ldb), c, f, x;
	struct operand pivots = integers(n * count), info = integers(count), info_again = integers(count);
	uint64_t p = pivoting ? pivots.address : 0;

	c = group_new(count, n, n, ldc);
	group_strengthen(&a);
	/* The rows in another order want pivots. */
	for (int64_t l = 0; l < count && pivoting; l++) {
		for (int64_t j = 0; j < n; j++) {
			cplx *column = a.m[l].o.now + j * lda, first = column[0];

			memmove(column, column + 1, sizeof(cplx) * (size_t)(n - 1));
			column[n - 1] = first;
		}
		operand_write(&a.m[l].o);
	}
	f = group_copy(&a);
	x = group_copy(&b);
	CHECK(!getrf(blas_handle, (int)n, group_array(&f), (int)lda, p, info.address, (int)count));
	CHECK(!getrs(blas_handle, op, (int)n, (int)columns, group_array(&f), (int)lda, p, group_array(&x), (int)ldb,
		     &said, (int)count));
	CHECK(said == 0);
	CHECK(!getri(blas_handle, (int)n, group_array(&f), (int)lda, p, group_array(&c), (int)ldc, info_again.address,
		     (int)count));
	check_zeros(&info);
	check_zeros(&info_again);
	group_read(&f);
	group_read(&x);
	group_read(&c);
	operand_read(&pivots);
	for (int64_t l = 0; l < count; l++) {
		struct matrix one = group_new(1, n, n, n).m[0];

		for (int64_t i = 0; i < n * n; i++)
			one.o.now[i] = i % (n + 1) == 0;
		check_factors(&f.m[l], &a.m[l], pivoting ? pivots.before + l * n : NULL);
		check_solution(&a.m[l], op, &x.m[l], &b.m[l]);
		check_solution(&a.m[l], 0, &c.m[l], &one);
		operand_free(&one.o);
	}
	operand_free(&pivots);
	group_free(&a);
	group_free(&b);
	group_free(&c);
	group_free(&f);
	group_free(&x);
}

static void matinv(void)
{
	int (*f)(void *, int, uint64_t, int, uint64_t, int, uint64_t, int) = blas_function("~*matinvBatched");
	int64_t n = 1 + random_below(32), count = 1 + random_below(MOST_BATCH), lda = leading(n), ldc = leading(n);
	struct group a = group_new(count, n, n, lda), c = group_new(count, n, n, ldc);
	struct matrix one = group_new(1, n, n, n).m[0];
	struct operand info = integers(count);

	group_strengthen(&a);
	CHECK(!f(blas_handle, (int)n, group_array(&a), (int)lda, group_array(&c), (int)ldc, info.address, (int)count));
	check_zeros(&info);
	group_read(&c);
	for (int64_t i = 0; i < n * n; i++)
		one.o.now[i] = i % (n + 1) == 0;
	for (int64_t l = 0; l < count; l++)
		check_solution(&a.m[l], 0, &c.m[l], &one);
	operand_free(&one.o);
	group_free(&a);
	group_free(&c);
}

/* column = H column, of the reflector k: I - tau v v' */
static void reflect(const struct matrix *f, cplx tau, int64_t k, cplx *column)
{
	cplx sum = column[k];

	for (int64_t i = k + 1; i < f->m; i++)
		sum += conj(matrix_get(f, i, k)) * column[i];
	column[k] -= tau * sum;
	for (int64_t i = k + 1; i < f->m; i++)
		column[i] -= tau * sum * matrix_get(f, i, k);
}

static void geqrf(void)
{
	int (*f)(void *, int, int, uint64_t, int, uint64_t, int *, int) = blas_function("~*geqrfBatched");
	int64_t m = 1 + random_below(MOST - 1), n = 1 + random_below(MOST - 1), count = 1 + random_below(MOST_BATCH);
	int64_t least = m < n ? m : n, lda = leading(m);
	struct group a = group_new(count, m, n, lda), q = group_copy(&a), tau = group_new(count, least, 1, least);
	int said = 5;

	CHECK(!f(blas_handle, (int)m, (int)n, group_array(&q), (int)lda, group_array(&tau), &said, (int)count));
	CHECK(said == 0);
	group_read(&q);
	group_read(&tau);
	for (int64_t l = 0; l < count; l++) {
		for (int64_t j = 0; j < n; j++) {
			cplx column[MOST] = {0};

			for (int64_t i = 0; i <= j && i < m; i++)
				column[i] = matrix_get(&q.m[l], i, j);
			for (int64_t k = least; k-- > 0;)
				reflect(&q.m[l], tau.m[l].o.now[k], k, column);
			for (int64_t i = 0; i < m; i++)
				near(column[i], matrix_get(&a.m[l], i, j), 200);
		}
	}
	group_free(&a);
	group_free(&q);
	group_free(&tau);
}

/* The residual of the right-hand side is orthogonal to all columns. */
static void gels(void)
{
	int (*f)(void *, int, int, int, int, uint64_t, int, uint64_t, int, int *, uint64_t, int) =
		blas_function("~*gelsBatched");
	int64_t n = 1 + random_below(20), m = n + random_below(20), columns = 1 + random_below(5);
	int64_t count = 1 + random_below(MOST_BATCH), lda = leading(m), ldc = leading(m);
	struct group a = group_new(count, m, n, lda), b = group_new(count, m, columns, ldc), q, x;
	struct operand info = integers(count);
	int said = 5;

	group_strengthen(&a);
	q = group_copy(&a);
	x = group_copy(&b);
	CHECK(!f(blas_handle, 0, (int)m, (int)n, (int)columns, group_array(&q), (int)lda, group_array(&x), (int)ldc,
		 &said, info.address, (int)count));
	CHECK(said == 0);
	check_zeros(&info);
	group_read(&x);
	for (int64_t l = 0; l < count; l++) {
		for (int64_t j = 0; j < columns; j++) {
			cplx left[MOST];

			for (int64_t i = 0; i < m; i++) {
				left[i] = matrix_get(&b.m[l], i, j);
				for (int64_t k = 0; k < n; k++)
					left[i] -= matrix_get(&a.m[l], i, k) * matrix_get(&x.m[l], k, j);
			}
			for (int64_t k = 0; k < n; k++) {
				cplx sum = 0;

				for (int64_t i = 0; i < m; i++)
					sum += conj(matrix_get(&a.m[l], i, k)) * left[i];
				near(sum, 0, 4000);
			}
		}
	}
	group_free(&a);
	group_free(&b);
	group_free(&q);
	group_free(&x);
}

void test_factors(void)
{
	factors(true);
	factors(false);
	matinv();
	geqrf();
	gels();
}
