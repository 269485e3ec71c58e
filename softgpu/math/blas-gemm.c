/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Products of matrices, of any types. Those that OpenBLAS has not are made of blocks that are converted: halves and
 * bfloat16 are multiplied as floats, integers as doubles, in which their sums are exact.
 */
#include <complex.h>
#include <stdlib.h>
#include <string.h>

#include "math/blas-call.h"
#include "math/blas-convert.h"
#include "math/blas-library.h"
#include "math/blas-product.h"

#define BLOCK SOFTGPU_PRODUCT_BLOCK

/* A product, or a part of one. */
struct product {
	struct softgpu_product p; /* first */
	struct softgpu_stored c;
	unsigned int scale;
	const uint64_t *alpha, *beta;
};

static struct softgpu_stored stored(const struct vcuda_blas_operand *o)
{
	return (struct softgpu_stored){(char *)(uintptr_t)o->address, o->step, o->type, vcuda_blas_bytes(o->type)};
}

/* The words begin with transa, transb, m, n, k; the operands are alpha, A, B, beta, C. */
static struct product part(const struct softgpu_blas_work *w)
{
	const struct vcuda_blas_operand *o = w->o;
	int64_t row = (int64_t)w->row, column = (int64_t)w->column;
	int64_t m = (int64_t)w->words[2] - row, n = (int64_t)w->words[3] - column;
	struct product p = {.p = {.op_a = (int)w->words[0],
				  .op_b = (int)w->words[1],
				  .m = m < (int64_t)w->rows ? m : (int64_t)w->rows,
				  .n = n < (int64_t)w->columns ? n : (int64_t)w->columns,
				  .k = (int64_t)w->words[4],
				  .a = stored(&o[1]),
				  .b = stored(&o[2])},
			    .c = stored(&o[4]),
			    .scale = o[0].type,
			    .alpha = &w->words[o[0].word],
			    .beta = &w->words[o[3].word]};

	p.p.a.p = softgpu_stored_at_op(&p.p.a, p.p.op_a, row, 0);
	p.p.b.p = softgpu_stored_at_op(&p.p.b, p.p.op_b, 0, column);
	p.c.p = softgpu_stored_at(&p.c, row, column);
	/* Where alpha is 0, A and B were not looked at; kernels of small products would read them. */
	if (w->skipped) {
		p.p.k = 0;
		p.p.a.p = p.p.b.p = p.c.p;
	}
	return p;
}

static bool is_direct(const struct product *p)
{
	return p->p.a.type == p->scale && p->p.b.type == p->scale && p->c.type == p->scale && p->p.wide == p->scale;
}

/* c = alpha c + beta old */
#define BLEND(T, c, old, n, alpha, beta)                                                                               \
	do {                                                                                                           \
		T *to = (c);                                                                                           \
		const T *was = (old), x = (alpha), y = (beta);                                                         \
                                                                                                                       \
		for (int64_t i = 0; i < (n); i++)                                                                      \
			to[i] = y == 0 ? x * to[i] : x * to[i] + y * was[i];                                           \
	} while (0)

/* A column of alpha times the sums plus beta times the old values. */
static void blend(const struct product *p, void *sums, const void *old, int64_t n)
{
	double complex scalars[2];

	softgpu_blas_widen(p->scale, p->alpha, 1, 1, p->p.wide, &scalars[0]);
	softgpu_blas_widen(p->scale, p->beta, 1, 1, p->p.wide, &scalars[1]);
	if (p->p.wide == VCUDA_BLAS_R_32F)
		BLEND(float, sums, old, n, *(const float *)&scalars[0], *(const float *)&scalars[1]);
	else if (p->p.wide == VCUDA_BLAS_R_64F)
		BLEND(double, sums, old, n, *(const double *)&scalars[0], *(const double *)&scalars[1]);
	else
		BLEND(double complex, sums, old, n, scalars[0], scalars[1]);
}

/* Sums of products of integers wrap around, as NVIDIA's do. */
static void store_integers(const struct product *p, const double *sums, char *to, int64_t n, int64_t step)
{
	uint32_t alpha = (uint32_t)*p->alpha, beta = (uint32_t)*p->beta;

	for (int64_t i = 0; i < n; i++) {
		uint32_t *c = (uint32_t *)(void *)to + i * step, sum = (uint32_t)(int64_t)sums[i];

		*c = alpha * sum + (beta ? beta * *c : 0);
	}
}

static void store(const struct product *p, char *sums, char *to, int64_t n, int64_t step)
{
	double complex old[BLOCK];

	if (p->c.type == VCUDA_BLAS_R_32I) {
		store_integers(p, (const double *)(const void *)sums, to, n, step);
		return;
	}
	if (softgpu_blas_is_zero(p->scale, p->beta))
		memset(old, 0, (size_t)n * p->p.wide_size);
	else
		softgpu_blas_widen(p->c.type, to, step, n, p->p.wide, old);
	blend(p, sums, old, n);
	softgpu_blas_narrow(p->p.wide, sums, n, p->c.type, to, step);
}

static void store_block(const struct softgpu_product *base, int64_t row, int64_t column, char *sums, int64_t m,
			int64_t n)
{
	const struct product *p = (const struct product *)base;

	if (m == 1)
		store(p, sums, softgpu_stored_at(&p->c, row, column), n, p->c.ld);
	for (int64_t j = 0; j < n && m > 1; j++)
		store(p, sums + j * m * p->p.wide_size, softgpu_stored_at(&p->c, row, column + j), m, 1);
}

static CUresult multiply(struct product *p)
{
	char *room = malloc(softgpu_product_room(&p->p));

	if (!room)
		return CUDA_ERROR_OUT_OF_MEMORY;
	p->p.store = store_block;
	softgpu_product_multiply(&p->p, room);
	free(room);
	return CUDA_SUCCESS;
}

static void widen(struct product *p)
{
	p->p.wide = softgpu_product_wide(p->p.a.type);
	p->p.wide_size = vcuda_blas_bytes(p->p.wide);
}

CUresult softgpu_blas_gemm(const struct softgpu_blas_work *w)
{
	struct product p = part(w);

	widen(&p);
	if (!is_direct(&p))
		return multiply(&p);
	softgpu_gemm(p.p.wide, p.p.op_a, p.p.op_b, p.p.m, p.p.n, p.p.k, p.alpha, p.p.a.p, p.p.a.ld, p.p.b.p, p.p.b.ld,
		     p.beta, p.c.p, p.c.ld);
	return CUDA_SUCCESS;
}

/* The words are trans, m, n; the operands alpha, A, x, beta, y. A vector is a matrix of one row: y' = alpha x' op(A)'.
 */
CUresult softgpu_blas_gemv(const struct softgpu_blas_work *w)
{
	const struct vcuda_blas_operand *o = w->o, *x = &o[2], *y = &o[4];
	struct product p = {.p = {.op_b = w->words[0] ? 0 : 1,
				  .m = 1,
				  .n = y->rows,
				  .k = w->skipped ? 0 : x->rows,
				  .a = stored(x),
				  .b = stored(&o[1])},
			    .c = stored(y),
			    .scale = o[0].type,
			    .alpha = &w->words[o[0].word],
			    .beta = &w->words[o[3].word]};

	widen(&p);
	if (x->step < 0 && x->rows > 0)
		p.p.a.p = softgpu_stored_at(&p.p.a, 0, 1 - x->rows);
	if (y->step < 0 && y->rows > 0)
		p.c.p = softgpu_stored_at(&p.c, 0, 1 - y->rows);
	/* As BLAS has it, nothing happens to y where A is empty. */
	return w->words[1] && w->words[2] ? multiply(&p) : CUDA_SUCCESS;
}
