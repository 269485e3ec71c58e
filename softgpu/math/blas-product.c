/* SPDX-License-Identifier: Apache-2.0 */
#include "math/blas-product.h"

#include "math/blas-convert.h"
#include "math/blas-library.h"

#define BLOCK SOFTGPU_PRODUCT_BLOCK

unsigned int softgpu_product_wide(unsigned int type)
{
	switch (type) {
	case VCUDA_BLAS_R_16F:
	case VCUDA_BLAS_R_16BF:
	case VCUDA_BLAS_R_8F_E4M3:
	case VCUDA_BLAS_R_8F_E5M2:
		return VCUDA_BLAS_R_32F;
	case VCUDA_BLAS_R_8I:
		return VCUDA_BLAS_R_64F;
	case VCUDA_BLAS_C_8I:
		return VCUDA_BLAS_C_64F;
	default:
		return type;
	}
}

/* Some rows and columns of a matrix, as numbers that are computed with; they follow one another. */
static void load(const struct softgpu_product *p, const struct softgpu_stored *s, const char *from, int64_t rows,
		 int64_t columns, char *to)
{
	if (rows == 1) {
		softgpu_blas_widen(s->type, from, s->ld, columns, p->wide, to);
		return;
	}
	for (int64_t j = 0; j < columns; j++)
		softgpu_blas_widen(s->type, from + j * s->ld * (int64_t)s->size, 1, rows, p->wide,
				   to + j * rows * p->wide_size);
}

static bool is_wide(const struct softgpu_product *p)
{
	return p->a.type == p->wide && p->b.type == p->wide;
}

static const double one[2] = {1, 0}, zero[2];
static const float single[2] = {1, 0};

static const void *unit_of(const struct softgpu_product *p)
{
	return p->wide == VCUDA_BLAS_R_32F || p->wide == VCUDA_BLAS_C_32F ? (const void *)single : one;
}

/* A sum over numbers that must be converted. */
static void sum_loaded(const struct softgpu_product *p, int64_t row, int64_t column, int64_t m, int64_t n, char *a,
		       char *sums)
{
	char *b = a + BLOCK * BLOCK * p->wide_size;
	int64_t at_k = 0;

	do {
		int64_t k = p->k - at_k < BLOCK ? p->k - at_k : BLOCK;

		if (k) {
			load(p, &p->a, softgpu_stored_at_op(&p->a, p->op_a, row, at_k), p->op_a ? k : m,
			     p->op_a ? m : k, a);
			load(p, &p->b, softgpu_stored_at_op(&p->b, p->op_b, at_k, column), p->op_b ? n : k,
			     p->op_b ? k : n, b);
		}
		softgpu_gemm(p->wide, p->op_a, p->op_b, m, n, k, unit_of(p), a, p->op_a && k ? k : m, b,
			     p->op_b || !k ? n : k, at_k ? unit_of(p) : zero, sums, m);
		at_k += k;
	} while (at_k < p->k);
}

size_t softgpu_product_room(const struct softgpu_product *p)
{
	return (is_wide(p) ? 1 : 3) * (size_t)BLOCK * BLOCK * p->wide_size;
}

void softgpu_product_multiply(const struct softgpu_product *p, char *room)
{
	for (int64_t column = 0; column < p->n; column += BLOCK) {
		int64_t n = p->n - column < BLOCK ? p->n - column : BLOCK;

		for (int64_t row = 0; row < p->m; row += BLOCK) {
			int64_t m = p->m - row < BLOCK ? p->m - row : BLOCK;

			if (is_wide(p) && p->k)
				softgpu_gemm(p->wide, p->op_a, p->op_b, m, n, p->k, unit_of(p),
					     softgpu_stored_at_op(&p->a, p->op_a, row, 0), p->a.ld,
					     softgpu_stored_at_op(&p->b, p->op_b, 0, column), p->b.ld, zero, room, m);
			else
				sum_loaded(p, row, column, m, n, room + BLOCK * BLOCK * p->wide_size, room);
			p->store(p, row, column, room, m, n);
		}
	}
}
