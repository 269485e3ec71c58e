/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Products of matrices, of any types. Those that OpenBLAS has not are made of blocks that are converted: halves and
 * bfloat16 are multiplied as floats, integers as doubles, in which their sums are exact.
 */
#include <complex.h>
#include <stdlib.h>
#include <string.h>

#include "blas-call.h"
#include "blas-convert.h"
#include "blas-library.h"

#define BLOCK 256

/* A matrix as it is stored: columns of `rows` numbers. */
struct stored {
	char *p;
	int64_t ld;
	unsigned int type, size;
};

/* A product, or a part of one. */
struct product {
	int op_a, op_b;
	int64_t m, n, k;
	struct stored a, b, c;
	unsigned int scale;
	const uint64_t *alpha, *beta;
	unsigned int wide, wide_size; /* what is computed with */
};

static char *at(const struct stored *s, int64_t row, int64_t column)
{
	return s->p + (column * s->ld + row) * (int64_t)s->size;
}

/* From row and column of op(A) on. */
static char *at_op(const struct stored *s, int op, int64_t row, int64_t column)
{
	return op ? at(s, column, row) : at(s, row, column);
}

static struct stored stored(const struct vcuda_blas_operand *o)
{
	return (struct stored){(char *)(uintptr_t)o->address, o->step, o->type, vcuda_blas_bytes(o->type)};
}

static unsigned int wide_of(unsigned int type)
{
	switch (type) {
	case VCUDA_BLAS_R_16F:
	case VCUDA_BLAS_R_16BF:
		return VCUDA_BLAS_R_32F;
	case VCUDA_BLAS_R_8I:
		return VCUDA_BLAS_R_64F;
	case VCUDA_BLAS_C_8I:
		return VCUDA_BLAS_C_64F;
	default:
		return type;
	}
}

/* The words begin with transa, transb, m, n, k; the operands are alpha, A, B, beta, C. */
static struct product part(const struct cpu_blas_work *w)
{
	const struct vcuda_blas_operand *o = w->o;
	int64_t row = (int64_t)w->row, column = (int64_t)w->column;
	int64_t m = (int64_t)w->words[2] - row, n = (int64_t)w->words[3] - column;
	struct product p = {.op_a = (int)w->words[0],
			    .op_b = (int)w->words[1],
			    .m = m < (int64_t)w->rows ? m : (int64_t)w->rows,
			    .n = n < (int64_t)w->columns ? n : (int64_t)w->columns,
			    .k = (int64_t)w->words[4],
			    .a = stored(&o[1]),
			    .b = stored(&o[2]),
			    .c = stored(&o[4]),
			    .scale = o[0].type,
			    .alpha = &w->words[o[0].word],
			    .beta = &w->words[o[3].word]};

	p.a.p = at_op(&p.a, p.op_a, row, 0);
	p.b.p = at_op(&p.b, p.op_b, 0, column);
	p.c.p = at(&p.c, row, column);
	/* Where alpha is 0, A and B were not looked at; kernels of small products would read them. */
	if (w->skipped) {
		p.k = 0;
		p.a.p = p.b.p = p.c.p;
	}
	return p;
}

static bool is_direct(const struct product *p)
{
	return p->a.type == p->scale && p->b.type == p->scale && p->c.type == p->scale && p->wide == p->scale;
}

/* Some rows and columns of a matrix, as numbers that are computed with; they follow one another. */
static void load(const struct product *p, const struct stored *s, const char *from, int64_t rows, int64_t columns,
		 char *to)
{
	if (rows == 1) {
		cpu_blas_widen(s->type, from, s->ld, columns, p->wide, to);
		return;
	}
	for (int64_t j = 0; j < columns; j++)
		cpu_blas_widen(s->type, from + j * s->ld * (int64_t)s->size, 1, rows, p->wide,
			       to + j * rows * p->wide_size);
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

/* The sums of a column take alpha, and beta of what is there. */
static void blend(const struct product *p, void *sums, const void *old, int64_t n)
{
	double complex scalars[2];

	cpu_blas_widen(p->scale, p->alpha, 1, 1, p->wide, &scalars[0]);
	cpu_blas_widen(p->scale, p->beta, 1, 1, p->wide, &scalars[1]);
	if (p->wide == VCUDA_BLAS_R_32F)
		BLEND(float, sums, old, n, *(const float *)&scalars[0], *(const float *)&scalars[1]);
	else if (p->wide == VCUDA_BLAS_R_64F)
		BLEND(double, sums, old, n, *(const double *)&scalars[0], *(const double *)&scalars[1]);
	else
		BLEND(double complex, sums, old, n, scalars[0], scalars[1]);
}

/* Sums of products of integers, which wrap around as theirs do. */
static void store_integers(const struct product *p, const double *sums, char *to, int64_t n, int64_t step)
{
	uint32_t alpha = (uint32_t)*p->alpha, beta = (uint32_t)*p->beta;

	for (int64_t i = 0; i < n; i++) {
		uint32_t *c = (uint32_t *)(void *)to + i * step, sum = (uint32_t)(int64_t)sums[i];

		*c = alpha * sum + (beta ? beta * *c : 0);
	}
}

static bool is_zero(const struct product *p, const uint64_t *scalar)
{
	static const float complex none;

	if (p->scale == VCUDA_BLAS_R_16F)
		return !(*scalar & 0x7fff);
	return p->scale == VCUDA_BLAS_C_32F ? *(const float complex *)scalar == none : *(const float *)scalar == 0;
}

static void store(const struct product *p, char *sums, char *to, int64_t n, int64_t step)
{
	double complex old[BLOCK];

	if (p->c.type == VCUDA_BLAS_R_32I) {
		store_integers(p, (const double *)(const void *)sums, to, n, step);
		return;
	}
	if (is_zero(p, p->beta))
		memset(old, 0, (size_t)n * p->wide_size);
	else
		cpu_blas_widen(p->c.type, to, step, n, p->wide, old);
	blend(p, sums, old, n);
	cpu_blas_narrow(p->wide, sums, n, p->c.type, to, step);
}

/* A block of C, from a row and column on. `room`: three blocks. */
static void block(const struct product *p, int64_t row, int64_t column, char *room)
{
	static const double one[2] = {1, 0}, zero[2];
	static const float single[2] = {1, 0};
	int64_t m = p->m - row < BLOCK ? p->m - row : BLOCK, n = p->n - column < BLOCK ? p->n - column : BLOCK,
		at_k = 0;
	char *a = room, *b = a + BLOCK * BLOCK * p->wide_size, *sums = b + BLOCK * BLOCK * p->wide_size;
	const void *unit = p->wide == VCUDA_BLAS_R_32F || p->wide == VCUDA_BLAS_C_32F ? (const void *)single : one;

	do {
		int64_t k = p->k - at_k < BLOCK ? p->k - at_k : BLOCK;

		if (k) {
			load(p, &p->a, at_op(&p->a, p->op_a, row, at_k), p->op_a ? k : m, p->op_a ? m : k, a);
			load(p, &p->b, at_op(&p->b, p->op_b, at_k, column), p->op_b ? n : k, p->op_b ? k : n, b);
		}
		cpu_gemm(p->wide, p->op_a, p->op_b, m, n, k, unit, a, p->op_a && k ? k : m, b, p->op_b || !k ? n : k,
			 at_k ? unit : zero, sums, m);
		at_k += k;
	} while (at_k < p->k);
	if (m == 1)
		store(p, sums, at(&p->c, row, column), n, p->c.ld);
	for (int64_t j = 0; j < n && m > 1; j++)
		store(p, sums + j * m * p->wide_size, at(&p->c, row, column + j), m, 1);
}

static CUresult multiply(const struct product *p)
{
	char *room = malloc(3 * (size_t)BLOCK * BLOCK * p->wide_size);

	if (!room)
		return CUDA_ERROR_OUT_OF_MEMORY;
	for (int64_t column = 0; column < p->n; column += BLOCK)
		for (int64_t row = 0; row < p->m; row += BLOCK)
			block(p, row, column, room);
	free(room);
	return CUDA_SUCCESS;
}

CUresult cpu_blas_gemm(const struct cpu_blas_work *w)
{
	struct product p = part(w);

	p.wide = wide_of(p.a.type);
	p.wide_size = vcuda_blas_bytes(p.wide);
	if (!is_direct(&p))
		return multiply(&p);
	cpu_gemm(p.wide, p.op_a, p.op_b, p.m, p.n, p.k, p.alpha, p.a.p, p.a.ld, p.b.p, p.b.ld, p.beta, p.c.p, p.c.ld);
	return CUDA_SUCCESS;
}

/* The words are trans, m, n; the operands alpha, A, x, beta, y. A vector is a matrix of one row: y' = alpha x' op(A)'.
 */
CUresult cpu_blas_gemv(const struct cpu_blas_work *w)
{
	const struct vcuda_blas_operand *o = w->o, *x = &o[2], *y = &o[4];
	struct product p = {.op_b = w->words[0] ? 0 : 1,
			    .m = 1,
			    .n = y->rows,
			    .k = w->skipped ? 0 : x->rows,
			    .a = stored(x),
			    .b = stored(&o[1]),
			    .c = stored(y),
			    .scale = o[0].type,
			    .alpha = &w->words[o[0].word],
			    .beta = &w->words[o[3].word],
			    .wide = wide_of(x->type)};

	p.wide_size = vcuda_blas_bytes(p.wide);
	if (x->step < 0 && x->rows > 0)
		p.a.p = at(&p.a, 0, 1 - x->rows);
	if (y->step < 0 && y->rows > 0)
		p.c.p = at(&p.c, 0, 1 - y->rows);
	/* As BLAS has it, nothing happens to y where A is empty. */
	return w->words[1] && w->words[2] ? multiply(&p) : CUDA_SUCCESS;
}
