/* SPDX-License-Identifier: Apache-2.0 */
/* C = alpha A A' + beta C, one triangle of it, of a matrix A whose type is an argument: cublasCsyrkEx, cublasCherkEx.
 */
#include <complex.h>
#include <stdlib.h>

#include "math/blas-call.h"
#include "math/blas-product.h"

#define BLOCK SOFTGPU_PRODUCT_BLOCK

/* The product is that of some columns of the result; it begins at `row` and `column` of C. */
struct rank_k {
	struct softgpu_product p; /* first */
	struct softgpu_stored a, c;
	bool upper, hermitian;
	int64_t n, row, column;
	float complex alpha, beta;
};

static float complex sum_at(const struct softgpu_product *p, const char *sums, int64_t at)
{
	if (p->wide == VCUDA_BLAS_C_64F)
		return (float complex)((const double complex *)(const void *)sums)[at];
	return ((const float complex *)(const void *)sums)[at];
}

static void store(const struct rank_k *r, int64_t i, int64_t j, float complex sum)
{
	float complex *c = (float complex *)(void *)softgpu_stored_at(&r->c, i, j);
	float complex value = r->alpha * sum + (r->beta == 0 ? 0 : r->beta * *c);

	*c = r->hermitian && i == j ? crealf(value) : value;
}

static void store_block(const struct softgpu_product *p, int64_t row, int64_t column, char *sums, int64_t m, int64_t n)
{
	const struct rank_k *r = (const struct rank_k *)p;

	for (int64_t j = 0; j < n; j++)
		for (int64_t i = 0; i < m; i++) {
			int64_t at_row = r->row + row + i, at_column = r->column + column + j;

			if (r->upper ? at_row <= at_column : at_row >= at_column)
				store(r, at_row, at_column, sum_at(p, sums, j * m + i));
		}
}

static float complex scalar_of(const struct softgpu_blas_work *w, unsigned int operand)
{
	const float *numbers = (const float *)(const void *)&w->words[w->o[operand].word];

	return CMPLXF(numbers[0], w->o[operand].type == VCUDA_BLAS_C_32F ? numbers[1] : 0);
}

static struct softgpu_stored stored(const struct vcuda_blas_operand *o)
{
	return (struct softgpu_stored){(char *)(uintptr_t)o->address, o->step, o->type, vcuda_blas_bytes(o->type)};
}

/* The words begin with uplo, trans, n, k; the operands are alpha, A, beta, C. */
static struct rank_k rank_k_of(const struct softgpu_blas_work *w)
{
	struct rank_k r = {.p = {.op_a = (int)w->words[1], .k = w->skipped ? 0 : (int64_t)w->words[3]},
			   .a = stored(&w->o[1]),
			   .c = stored(&w->o[3]),
			   .upper = w->words[0],
			   .hermitian = w->o[0].type == VCUDA_BLAS_R_32F,
			   .n = (int64_t)w->words[2],
			   .alpha = scalar_of(w, 0),
			   .beta = scalar_of(w, 2)};

	r.p.op_b = r.p.op_a ? 0 : r.hermitian ? 2 : 1;
	r.p.wide = softgpu_product_wide(r.a.type);
	r.p.wide_size = vcuda_blas_bytes(r.p.wide);
	/* Where alpha is 0, A was not looked at; kernels of small products would read it. */
	if (w->skipped)
		r.a.p = r.c.p;
	r.p.store = store_block;
	return r;
}

/* The columns from r->column on, as far as they are in the triangle. */
static void multiply(struct rank_k *r, char *room)
{
	int64_t here = r->n - r->column < BLOCK ? r->n - r->column : BLOCK;

	r->row = r->upper ? 0 : r->column;
	r->p.m = r->upper ? r->column + here : r->n - r->column;
	r->p.n = here;
	r->p.a = r->p.b = r->a;
	if (r->p.k) {
		r->p.a.p = softgpu_stored_at_op(&r->a, r->p.op_a, r->row, 0);
		r->p.b.p = softgpu_stored_at_op(&r->a, r->p.op_b, 0, r->column);
	}
	softgpu_product_multiply(&r->p, room);
}

CUresult softgpu_blas_rank_k(const struct softgpu_blas_work *w)
{
	struct rank_k r = rank_k_of(w);
	char *room = malloc(softgpu_product_room(
		&(struct softgpu_product){.wide = r.p.wide, .wide_size = r.p.wide_size, .a = r.a, .b = r.a}));

	if (!room)
		return CUDA_ERROR_OUT_OF_MEMORY;
	for (; r.column < r.n; r.column += BLOCK)
		multiply(&r, room);
	free(room);
	return CUDA_SUCCESS;
}
