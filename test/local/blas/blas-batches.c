/* SPDX-License-Identifier: Apache-2.0 */
/* Batches: of operands so far apart, or wherever an array of addresses says. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "blas-matrix.h"

#define MOST 40
#define MOST_BATCH 6

/* The operands of a batch in one piece of memory, in any order. */
struct batch {
	int64_t count, stride;
	int64_t places[MOST_BATCH];
	struct operand o;
};

static struct batch batch_new(int64_t count, int64_t length, bool strided)
{
	struct batch b = {.count = count, .stride = length + random_below(5)};

	/* Operands that are only read may be the same for all. */
	for (int64_t i = 0; i < count; i++)
		b.places[i] = i * b.stride;
	for (int64_t i = count - 1; i > 0 && !strided; i--) {
		int64_t j = random_below(i + 1), place = b.places[i];

		b.places[i] = b.places[j];
		b.places[j] = place;
	}
	b.o = operand_new(count * b.stride + 2);
	return b;
}

static void batch_share(struct batch *b)
{
	b->stride = 0;
	memset(b->places, 0, sizeof(b->places));
}

static uint64_t batch_array(const struct batch *b)
{
	uint64_t addresses[MOST_BATCH];

	for (int64_t i = 0; i < b->count; i++)
		addresses[i] = b->o.address + (uint64_t)b->places[i] * b->o.e->size;
	return address_array(addresses, b->count);
}

/* One of them as a matrix; `shape` has the rest. */
static struct matrix batch_matrix(const struct batch *b, const struct matrix *shape, int64_t i)
{
	struct matrix m = *shape;

	m.o.now = b->o.now + b->places[i];
	return m;
}

static struct matrix shape_of(enum kind kind, int64_t m, int64_t n)
{
	return (struct matrix){.storage = DENSE,
			       .kind = kind,
			       .uplo = (int)random_below(2),
			       .m = m,
			       .n = n,
			       .ld = (m ? m : 1) + random_below(4)};
}

static cplx sum_of(const struct matrix *a, int op_a, const struct matrix *b, int op_b, int64_t k, int64_t i, int64_t j)
{
	cplx sum = 0;

	for (int64_t l = 0; l < k; l++)
		sum += matrix_op(a, op_a, i, l) * matrix_op(b, op_b, l, j);
	return sum;
}

static void gemm(bool strided, const char *name)
{
	int64_t m = random_below(MOST), n = random_below(MOST), k = random_below(MOST),
		count = random_below(MOST_BATCH);
	int ta = (int)random_below(3), tb = (int)random_below(3);
	struct matrix sa = shape_of(GENERAL, ta ? k : m, ta ? m : k), sb = shape_of(GENERAL, tb ? n : k, tb ? k : n);
	struct matrix sc = shape_of(GENERAL, m, n);
	struct batch a = batch_new(count, sa.ld * sa.n, strided), b = batch_new(count, sb.ld * sb.n, strided);
	struct batch c = batch_new(count, sc.ld * n, strided);
	cplx alpha = random_scalar(), beta = random_scalar();
	void *f = blas_function(name);
	int (*by_stride)(void *, int, int, int64_t, int64_t, int64_t, const void *, uint64_t, int64_t, int64_t,
			 uint64_t, int64_t, int64_t, const void *, uint64_t, int64_t, int64_t, int64_t) = f;
	int (*by_array)(void *, int, int, int64_t, int64_t, int64_t, const void *, uint64_t, int64_t, uint64_t, int64_t,
			const void *, uint64_t, int64_t, int64_t) = f;

	if (random_below(3) == 0)
		batch_share(&a);
	for (int64_t l = 0; l < count; l++) {
		struct matrix one_a = batch_matrix(&a, &sa, l), one_b = batch_matrix(&b, &sb, l),
			      one_c = batch_matrix(&c, &sc, l);

		for (int64_t j = 0; j < n; j++)
			for (int64_t i = 0; i < m; i++)
				one_c.o.now[j * sc.ld + i] = alpha * sum_of(&one_a, ta, &one_b, tb, k, i, j) +
							     beta * matrix_get(&one_c, i, j);
	}
	if (strided)
		CHECK(!by_stride(blas_handle, ta, tb, m, n, k, scalar(alpha), a.o.address, sa.ld, a.stride, b.o.address,
				 sb.ld, b.stride, scalar(beta), c.o.address, sc.ld, c.stride, count));
	else
		CHECK(!by_array(blas_handle, ta, tb, m, n, k, scalar(alpha), batch_array(&a), sa.ld, batch_array(&b),
				sb.ld, scalar(beta), batch_array(&c), sc.ld, count));
	operand_check(&c.o, 60, "gemm");
	operand_free(&a.o);
	operand_free(&b.o);
	operand_free(&c.o);
}

/* `from`, `to`: the types of what is read and written. */
static void gemv(bool strided, const char *name, const struct element *from, const struct element *to)
{
	const struct element *scalars = now.e;
	int64_t m = 1 + random_below(MOST), n = 1 + random_below(MOST), count = random_below(MOST_BATCH);
	int op = (int)random_below(3);
	int64_t incx = 1 + random_below(3), incy = 1 + random_below(3), nx = op ? m : n, ny = op ? n : m;
	struct matrix shape = shape_of(GENERAL, m, n);
	struct batch a, x, y;
	cplx alpha = random_scalar(), beta = random_scalar();
	void *f = blas_function(name);
	int (*by_stride)(void *, int, int64_t, int64_t, const void *, uint64_t, int64_t, int64_t, uint64_t, int64_t,
			 int64_t, const void *, uint64_t, int64_t, int64_t, int64_t) = f;
	int (*by_array)(void *, int, int64_t, int64_t, const void *, uint64_t, int64_t, uint64_t, int64_t, const void *,
			uint64_t, int64_t, int64_t) = f;

	now.e = from;
	a = batch_new(count, shape.ld * n, strided);
	x = batch_new(count, nx * incx, strided);
	now.e = to;
	y = batch_new(count, ny * incy, strided);
	now.e = scalars;
	for (int64_t l = 0; l < count; l++) {
		struct matrix one = batch_matrix(&a, &shape, l);

		for (int64_t i = 0; i < ny; i++) {
			cplx sum = 0, *at_y = &y.o.now[y.places[l] + i * incy];

			for (int64_t j = 0; j < nx; j++)
				sum += matrix_op(&one, op, i, j) * x.o.now[x.places[l] + j * incx];
			*at_y = alpha * sum + beta * *at_y;
		}
	}
	if (strided)
		CHECK(!by_stride(blas_handle, op, m, n, scalar(alpha), a.o.address, shape.ld, a.stride, x.o.address,
				 incx, x.stride, scalar(beta), y.o.address, incy, y.stride, count));
	else
		CHECK(!by_array(blas_handle, op, m, n, scalar(alpha), batch_array(&a), shape.ld, batch_array(&x), incx,
				scalar(beta), batch_array(&y), incy, count));
	operand_check(&y.o, 60, "gemv");
	operand_free(&a.o);
	operand_free(&x.o);
	operand_free(&y.o);
}

static void trsm(void)
{
	int64_t m = random_below(MOST), n = random_below(MOST), count = random_below(MOST_BATCH);
	int right = (int)random_below(2), op = (int)random_below(3);
	int64_t order = right ? n : m;
	struct matrix sa = shape_of(TRIANGULAR, order, order), sb = shape_of(GENERAL, m, n);
	struct batch a = batch_new(count, sa.ld * order, false), b = batch_new(count, sb.ld * n, false);
	struct batch x = batch_new(count, sb.ld * n, false);
	cplx alpha = random_scalar();
	int (*f)(void *, int, int, int, int, int64_t, int64_t, const void *, uint64_t, int64_t, uint64_t, int64_t,
		 int64_t) = blas_function("=*trsmBatched");

	sa.unit = (int)random_below(2);
	for (int64_t i = 0; i < a.o.length; i++)
		a.o.now[i] /= (double)(order + 1);
	for (int64_t l = 0; l < count; l++)
		for (int64_t i = 0; i < order; i++)
			a.o.now[a.places[l] + i * sa.ld + i] += 2;
	operand_write(&a.o);
	for (int64_t l = 0; l < count; l++) {
		struct matrix one_a = batch_matrix(&a, &sa, l), one_x = batch_matrix(&x, &sb, l);

		for (int64_t j = 0; j < n; j++)
			for (int64_t i = 0; i < m; i++)
				b.o.now[b.places[l] + j * sb.ld + i] = right ? sum_of(&one_x, 0, &one_a, op, n, i, j)
									     : sum_of(&one_a, op, &one_x, 0, m, i, j);
	}
	operand_write(&b.o);
	for (int64_t l = 0; l < count; l++)
		for (int64_t j = 0; j < n; j++)
			for (int64_t i = 0; i < m; i++)
				b.o.now[b.places[l] + j * sb.ld + i] = alpha * x.o.now[x.places[l] + j * sb.ld + i];
	CHECK(!f(blas_handle, right, sa.uplo, op, sa.unit, m, n, scalar(alpha), batch_array(&a), sa.ld, batch_array(&b),
		 sb.ld, count));
	operand_check(&b.o, 20, "trsmBatched");
	operand_free(&a.o);
	operand_free(&b.o);
	operand_free(&x.o);
}

/* Two groups of a product each, of one shape. */
static void grouped(void)
{
	int64_t n = 1 + random_below(MOST), wide_n[2] = {n, n}, wide_sizes[2] = {1, 2};
	int narrow_n[2] = {(int)n, (int)n}, narrow_sizes[2] = {1, 2}, ops[2] = {0, 0};
	const void *ns = now.wide ? (void *)wide_n : narrow_n, *sizes = now.wide ? (void *)wide_sizes : narrow_sizes;
	struct batch a = batch_new(3, n * n, false), b = batch_new(3, n * n, false), c = batch_new(3, n * n, false);
	cplx alpha[2] = {1, 2}, beta[2] = {0, 1};
	struct matrix shape = shape_of(GENERAL, n, n);
	int (*f)(void *, const int *, const int *, const void *, const void *, const void *, const void *, uint64_t,
		 const void *, uint64_t, const void *, const void *, uint64_t, const void *, int64_t, const void *) =
		blas_function("=*gemmGroupedBatched");

	shape.ld = n;
	for (int64_t l = 0; l < 3; l++) {
		struct matrix one_a = batch_matrix(&a, &shape, l), one_b = batch_matrix(&b, &shape, l),
			      one_c = batch_matrix(&c, &shape, l);

		for (int64_t j = 0; j < n; j++)
			for (int64_t i = 0; i < n; i++)
				one_c.o.now[j * n + i] = alpha[l != 0] * sum_of(&one_a, 0, &one_b, 0, n, i, j) +
							 beta[l != 0] * matrix_get(&one_c, i, j);
	}
	CHECK(!f(blas_handle, ops, ops, ns, ns, ns, numbers(alpha, 2, true), batch_array(&a), ns, batch_array(&b), ns,
		 numbers(beta, 2, true), batch_array(&c), ns, 2, sizes));
	operand_check(&c.o, 60, "gemmGroupedBatched");
	operand_free(&a.o);
	operand_free(&b.o);
	operand_free(&c.o);
}

void test_batches(void)
{
	static const char *const mixed[4][3] = {
		{"=HSHgemv", "H", "H"}, {"=HSSgemv", "H", "S"}, {"=TSTgemv", "T", "T"}, {"=TSSgemv", "T", "S"}};
	char name[64];

	gemm(true, "=*gemmStridedBatched");
	gemm(false, "=*gemmBatched");
	if (now.e->letter == 'C') {
		gemm(true, "=Cgemm3mStridedBatched");
		gemm(false, "=Cgemm3mBatched");
	}
	gemv(true, "=*gemvStridedBatched", now.e, now.e);
	gemv(false, "=*gemvBatched", now.e, now.e);
	for (int i = 0; i < 4 && now.e->letter == 'S'; i++) {
		const struct element *from = element_of(*mixed[i][1]), *to = element_of(*mixed[i][2]);

		gemv(true, strcat(strcpy(name, mixed[i][0]), "StridedBatched"), from, to);
		gemv(false, strcat(strcpy(name, mixed[i][0]), "Batched"), from, to);
	}
	trsm();
	if (!now.e->is_complex && !now.device_scalars && blas_has("cublasSgemmGroupedBatched"))
		grouped();
}
