/* SPDX-License-Identifier: Apache-2.0 */
/* Products of matrices, of any types. */
#include "blas-call.h"
#include "blas-library.h"

/* A product, or a part of one. */
struct product {
	int op_a, op_b;
	int64_t m, n, k, lda, ldb, ldc;
	const char *a, *b;
	char *c;
	const uint64_t *alpha, *beta;
};

/* The words begin with transa, transb, m, n, k; the operands are alpha, A, B, beta, C. */
static struct product part(const struct cpu_blas_work *w)
{
	const struct vcuda_blas_operand *o = w->o;
	struct product p = {.op_a = (int)w->words[0],
			    .op_b = (int)w->words[1],
			    .m = (int64_t)w->words[2],
			    .n = (int64_t)w->words[3],
			    .k = (int64_t)w->words[4],
			    .lda = o[1].step,
			    .ldb = o[2].step,
			    .ldc = o[4].step};
	int64_t row = (int64_t)w->row, column = (int64_t)w->column;
	int64_t a = row * (p.op_a ? p.lda : 1), b = column * (p.op_b ? 1 : p.ldb), c = column * p.ldc + row;

	p.m = p.m - row < (int64_t)w->rows ? p.m - row : (int64_t)w->rows;
	p.n = p.n - column < (int64_t)w->columns ? p.n - column : (int64_t)w->columns;
	p.alpha = &w->words[o[0].word];
	p.beta = &w->words[o[3].word];
	p.a = (const char *)(uintptr_t)o[1].address + a * vcuda_blas_bytes(o[1].type);
	p.b = (const char *)(uintptr_t)o[2].address + b * vcuda_blas_bytes(o[2].type);
	p.c = (char *)(uintptr_t)o[4].address + c * vcuda_blas_bytes(o[4].type);
	return p;
}

bool cpu_blas_gemm(const struct cpu_blas_work *w)
{
	struct product p = part(w);

	/* Where alpha is 0, A and B were not looked at; kernels of small products would read them. */
	if (w->skipped) {
		p.k = 0;
		p.a = p.b = p.c;
	}
	cpu_gemm(w->o[0].type, p.op_a, p.op_b, p.m, p.n, p.k, p.alpha, p.a, p.lda, p.b, p.ldb, p.beta, p.c, p.ldc);
	return true;
}
