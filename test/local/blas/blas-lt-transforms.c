/* SPDX-License-Identifier: Apache-2.0 */
/* Copies of matrices, and products of numbers of 8 bits with a point. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "blas-lt.h"
#include "protocol/cuda-functions.h"

/* ---- C = alpha op(A) + beta op(B) ---- */

struct types {
	char scalar, from, to;
};

static const struct types types[] = {{'S', 'S', 'S'}, {'S', 'H', 'H'}, {'S', 'H', 'S'}, {'S', 'T', 'T'},
				     {'S', 'B', 'B'}, {'D', 'D', 'D'}, {'C', 'C', 'C'}, {'Z', 'Z', 'Z'}};

static void transform(const struct types *t)
{
	int64_t rows = 1 + random_below(300), columns = 1 + random_below(40);
	/* NVIDIA's leaves all but the first of a batch as they are at times. */
	int64_t batch = 1 + random_below(lt_may_lack() ? 1 : 3);
	int ta = (int)random_below(2), tb = (int)random_below(2), mode = now.device_scalars;
	bool two = random_below(2);
	struct lt_matrix a = lt_matrix_new(t->from, random_below(2), ta ? columns : rows, ta ? rows : columns, batch);
	struct lt_matrix b = lt_matrix_new(t->from, random_below(2), tb ? columns : rows, tb ? rows : columns, batch);
	struct lt_matrix c = lt_matrix_new(t->to, random_below(2), rows, columns, batch);
	cplx alpha = t->from == 'B' ? 0.5 : random_scalar(), beta = !two ? 0 : t->from == 'B' ? 0.25 : random_scalar();
	void *desc;
	int status;

	CHECK(!lt.MatrixTransformDescCreate(&desc, now.e->type));
	CHECK(!lt.MatrixTransformDescSetAttribute(desc, CUBLASLT_MATRIX_TRANSFORM_DESC_POINTER_MODE, &mode, 4));
	CHECK(!lt.MatrixTransformDescSetAttribute(desc, CUBLASLT_MATRIX_TRANSFORM_DESC_TRANSA, &ta, 4));
	CHECK(!lt.MatrixTransformDescSetAttribute(desc, CUBLASLT_MATRIX_TRANSFORM_DESC_TRANSB, &tb, 4));
	for (int64_t which = 0; which < batch; which++)
		for (int64_t i = 0; i < rows; i++)
			for (int64_t j = 0; j < columns; j++)
				*lt_at(&c, which, i, j) = alpha * lt_op(&a, ta, which, i, j) +
							  (two ? beta * lt_op(&b, tb, which, i, j) : 0);
	status = lt.MatrixTransform(lt_handle, desc, lt_scalar(alpha), a.address, a.layout, lt_scalar(beta),
				    two ? b.address : 0, two ? b.layout : NULL, c.address, c.layout, lt_stream);
	status = lt_status(status);
	if (status && lt_may_lack()) {
		fprintf(stderr, "not there: transform %c %c %c: %d\n", t->scalar, t->from, t->to, status);
	} else {
		CHECK(!status);
		for (int64_t i = 0; i < c.length && t->to == 'B'; i++)
			c.now[i] = trunc(creal(c.now[i]));
		lt_check(&c, 2, 0, "the transform");
	}
	lt_matrix_free(&a);
	lt_matrix_free(&b);
	lt_matrix_free(&c);
	CHECK(!lt.MatrixTransformDescDestroy(desc));
}

void test_lt_transforms(void)
{
	for (size_t i = 0; i < sizeof(types) / sizeof(types[0]); i++)
		if (types[i].scalar == now.e->letter)
			transform(&types[i]);
}

/* ---- numbers of 8 bits ---- */

struct quarters {
	char a, b, c, d;
};

static const struct quarters quarters[] = {
	{'Q', 'Q', 'T', 'T'}, {'Q', 'R', 'H', 'H'}, {'R', 'Q', 'S', 'S'}, {'Q', 'Q', 'T', 'Q'}, {'R', 'Q', 'H', 'R'}};

static CUdeviceptr device_float(float value)
{
	CUdeviceptr address;

	CHECK(!cuMemAlloc_v2(&address, 4) && !cuMemcpyHtoD_v2(address, &value, 4));
	return address;
}

static double multiply(struct lt_matrix *d, const struct lt_matrix *a, const struct lt_matrix *b,
		       const struct lt_matrix *c, double by, double beta, double to)
{
	double largest = 0;

	for (int64_t j = 0; j < d->columns; j++)
		for (int64_t i = 0; i < d->rows; i++) {
			double sum = 0;

			for (int64_t l = 0; l < a->rows; l++)
				sum += creal(*lt_at(a, 0, l, i)) * creal(*lt_at(b, 0, l, j));
			sum = by * sum + (beta != 0 ? beta * creal(*lt_at(c, 0, i, j)) : 0);
			largest = fmax(largest, fabs(sum));
			*lt_at(d, 0, i, j) = sum * to;
		}
	return largest;
}

/* A product of a transposed A and an untransposed B, the form that GPUs have; scales are powers of 2. */
static void product(const struct quarters *q)
{
	int64_t m = 16 * (1 + random_below(4)), n = 16 * (1 + random_below(4)), k = 16 * (1 + random_below(4));
	struct lt_matrix a = lt_matrix_new(q->a, false, k, m, 1), b = lt_matrix_new(q->b, false, k, n, 1);
	struct lt_matrix c = lt_matrix_new(q->c, false, m, n, 1), d = lt_matrix_new(q->d, false, m, n, 1);
	CUdeviceptr scale_a = device_float(2), scale_b = device_float(0.25f), scale_d = device_float(0.5f),
		    largest = device_float(-1);
	double alpha = creal(random_number()), beta = q->c == q->d ? creal(random_scalar()) : 0, expected;
	bool scaled = strchr("QR", q->d);
	float there;
	void *desc;
	int status;

	CHECK(!lt.MatmulDescCreate(&desc, 68, 0));
	lt_set_desc(desc, CUBLASLT_MATMUL_DESC_TRANSA, 1);
	lt_set_desc(desc, CUBLASLT_MATMUL_DESC_POINTER_MODE, now.device_scalars);
	lt_set_desc(desc, CUBLASLT_MATMUL_DESC_A_SCALE_POINTER, (int64_t)scale_a);
	lt_set_desc(desc, CUBLASLT_MATMUL_DESC_B_SCALE_POINTER, (int64_t)scale_b);
	if (scaled) {
		lt_set_desc(desc, CUBLASLT_MATMUL_DESC_D_SCALE_POINTER, (int64_t)scale_d);
		lt_set_desc(desc, CUBLASLT_MATMUL_DESC_AMAX_D_POINTER, (int64_t)largest);
	}
	status = lt.Matmul(lt_handle, desc, lt_scalar(alpha), a.address, a.layout, b.address, b.layout, lt_scalar(beta),
			   c.address, c.layout, d.address, d.layout, NULL, 0, 0, lt_stream);
	status = lt_status(status);
	if (status && lt_may_lack()) {
		fprintf(stderr, "not there: %c %c %c %c: %d\n", q->a, q->b, q->c, q->d, status);
	} else {
		CHECK(!status);
		expected = multiply(&d, &a, &b, &c, alpha * 0.5, beta, scaled ? 0.5 : 1);
		/* A GPU's tensor cores add such products with some 14 bits. */
		lt_check(&d, scaled ? 0.05 : (double)k, lt_may_lack() ? 1e-5 * (double)k : 0, "of 8 bits");
		CHECK(!cuMemcpyDtoH_v2(&there, largest, 4));
		CHECK(scaled ? fabs(there - expected) <= 1e-3 * (1 + expected) : there == -1);
	}
	lt_matrix_free(&a);
	lt_matrix_free(&b);
	lt_matrix_free(&c);
	lt_matrix_free(&d);
	CHECK(!lt.MatmulDescDestroy(desc) && !cuMemFree_v2(scale_a) && !cuMemFree_v2(scale_b) &&
	      !cuMemFree_v2(scale_d) && !cuMemFree_v2(largest));
}

void test_lt_quarters(void)
{
	for (size_t i = 0; i < sizeof(quarters) / sizeof(quarters[0]) && now.e->letter == 'S'; i++)
		product(&quarters[i]);
}
