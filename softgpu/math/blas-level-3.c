/* SPDX-License-Identifier: Apache-2.0 */
/* Matrices: functions that CBLAS lacks. */
#include <complex.h>
#include <string.h>

#include "math/blas-call.h"
#include "math/blas-library.h"

/* ---- for each type of elements ---- */

#define BLOCK 64

static inline float same_s(float x)
{
	return x;
}

static inline double same_d(double x)
{
	return x;
}

static inline float complex real_c(float complex x)
{
	return crealf(x);
}

static inline double complex real_z(double complex x)
{
	return creal(x);
}

/* Element i, j of op(A), which is at a. */
#define AT(a, ld, op, i, j) ((op) ? (a)[(i) * (ld) + (j)] : (a)[(j) * (ld) + (i)])

/*
 * geam: C = alpha op(A) + beta op(B), in blocks, for the sake of the transposes; what is skipped is not read.
 * dgmm: C = diag(x) A, or A diag(x).
 * triangle: C = beta C + a square block, in the triangle only; the diagonal is real if C is Hermitian.
 */
#define ELEMENTS(s, T, conjugate, real_part)                                                                           \
	static T term_##s(const struct softgpu_blas_work *w, unsigned int operand, int op, int64_t i, int64_t j)       \
	{                                                                                                              \
		const T *a = (const T *)(uintptr_t)w->o[operand].address;                                              \
		T value;                                                                                               \
                                                                                                                       \
		if (w->skipped & 1u << operand)                                                                        \
			return 0;                                                                                      \
		value = AT(a, w->o[operand].step, op, i, j);                                                           \
		return *(const T *)&w->words[w->o[operand - 1].word] * (op == 2 ? conjugate(value) : value);           \
	}                                                                                                              \
                                                                                                                       \
	static void geam_block_##s(const struct softgpu_blas_work *w, int64_t row, int64_t column)                     \
	{                                                                                                              \
		const struct vcuda_blas_operand *o = &w->o[4];                                                         \
		int64_t rows = row + BLOCK < o->rows ? row + BLOCK : o->rows;                                          \
		int64_t columns = column + BLOCK < o->columns ? column + BLOCK : o->columns;                           \
		T *c = (T *)(uintptr_t)o->address;                                                                     \
                                                                                                                       \
		for (int64_t j = column; j < columns; j++)                                                             \
			for (int64_t i = row; i < rows; i++)                                                           \
				c[j * o->step + i] = term_##s(w, 1, (int)w->words[0], i, j) +                          \
						     term_##s(w, 3, (int)w->words[1], i, j);                           \
	}                                                                                                              \
                                                                                                                       \
	static void geam_##s(const struct softgpu_blas_work *w)                                                        \
	{                                                                                                              \
		for (int64_t column = 0; column < w->o[4].columns; column += BLOCK)                                    \
			for (int64_t row = 0; row < w->o[4].rows; row += BLOCK)                                        \
				geam_block_##s(w, row, column);                                                        \
	}                                                                                                              \
                                                                                                                       \
	static void dgmm_##s(const struct softgpu_blas_work *w)                                                        \
	{                                                                                                              \
		const struct vcuda_blas_operand *o = w->o;                                                             \
		const T *a = (const T *)(uintptr_t)o[0].address, *x = (const T *)(uintptr_t)o[1].address;              \
		T *c = (T *)(uintptr_t)o[2].address;                                                                   \
                                                                                                                       \
		if (o[1].step < 0)                                                                                     \
			x += (1 - o[1].rows) * o[1].step;                                                              \
		for (int64_t j = 0; j < o[2].columns; j++)                                                             \
			for (int64_t i = 0; i < o[2].rows; i++)                                                        \
				c[j * o[2].step + i] = a[j * o[0].step + i] * x[(w->words[0] ? j : i) * o[1].step];    \
	}                                                                                                              \
                                                                                                                       \
	static void triangle_##s(const void *from, void *to, int64_t ld, int64_t n, const void *beta, bool upper,      \
				 bool hermitian)                                                                       \
	{                                                                                                              \
		T by = *(const T *)beta;                                                                               \
                                                                                                                       \
		for (int64_t j = 0; j < n; j++) {                                                                      \
			T *c = (T *)to + j * ld;                                                                       \
			const T *b = (const T *)from + j * BLOCK;                                                      \
                                                                                                                       \
			for (int64_t i = upper ? 0 : j; i < (upper ? j + 1 : n); i++)                                  \
				c[i] = by == 0 ? b[i] : b[i] + by * c[i];                                              \
			if (hermitian)                                                                                 \
				c[j] = real_part(c[j]);                                                                \
		}                                                                                                      \
	}

/* clang-format off */
ELEMENTS(s, float, same_s, same_s)
ELEMENTS(d, double, same_d, same_d)
ELEMENTS(c, float complex, conjf, real_c)
ELEMENTS(z, double complex, conj, real_z)
/* clang-format on */

struct elements {
	void (*geam)(const struct softgpu_blas_work *w);
	void (*dgmm)(const struct softgpu_blas_work *w);
	void (*triangle)(const void *from, void *to, int64_t ld, int64_t n, const void *beta, bool upper,
			 bool hermitian);
};

static const struct elements *elements_of(const struct softgpu_blas_work *w)
{
	static const struct elements s = {geam_s, dgmm_s, triangle_s}, d = {geam_d, dgmm_d, triangle_d},
				     c = {geam_c, dgmm_c, triangle_c}, z = {geam_z, dgmm_z, triangle_z};

	switch (w->routine->read) {
	case VCUDA_BLAS_R_32F:
		return &s;
	case VCUDA_BLAS_R_64F:
		return &d;
	case VCUDA_BLAS_C_32F:
		return &c;
	default:
		return &z;
	}
}

CUresult softgpu_blas_geam(const struct softgpu_blas_work *w)
{
	elements_of(w)->geam(w);
	return CUDA_SUCCESS;
}

CUresult softgpu_blas_dgmm(const struct softgpu_blas_work *w)
{
	elements_of(w)->dgmm(w);
	return CUDA_SUCCESS;
}

/* ---- trmm: side, uplo, trans, diag, m, n, alpha; A, B and, out of place, C ---- */

CUresult softgpu_blas_trmm(const struct softgpu_blas_work *w)
{
	const struct vcuda_blas_operand *b = &w->o[2], *c = &w->o[3];
	unsigned int size = vcuda_blas_bytes(w->routine->read);
	const char *from = (const char *)(uintptr_t)b->address;
	char *to = (char *)(uintptr_t)c->address;

	for (int64_t j = 0; j < c->columns && c->rows > 0; j++, from += b->step * size, to += c->step * size) {
		if (w->skipped)
			memset(to, 0, (size_t)c->rows * size);
		else if (from != to)
			memmove(to, from, (size_t)c->rows * size);
	}
	if (!w->skipped)
		softgpu_trmm(w->routine->read, (int)w->words[0], (int)w->words[1], (int)w->words[2], (int)w->words[3],
			     c->rows, c->columns, &w->words[w->o[0].word], (const void *)(uintptr_t)w->o[1].address,
			     w->o[1].step, (void *)(uintptr_t)c->address, c->step);
	return CUDA_SUCCESS;
}

/* ---- syrkx: uplo, trans, n, k, alpha, A, B, beta, C ---- */

struct rank_k {
	unsigned int type, size;
	bool upper, hermitian;
	int op_a, op_b;
	int64_t n, k, lda, ldb, ldc;
	const char *a, *b;
	char *c;
	const void *alpha;
	uint64_t beta[2];
};

static struct rank_k rank_k_of(const struct softgpu_blas_work *w)
{
	const struct vcuda_blas_operand *o = w->o;
	unsigned int type = w->routine->read;
	struct rank_k r = {.type = type,
			   .size = vcuda_blas_bytes(type),
			   .upper = w->words[0],
			   .n = (int64_t)w->words[2],
			   .k = w->skipped ? 0 : (int64_t)w->words[3],
			   .alpha = &w->words[o[0].word]};

	r.hermitian = o[3].type != type;
	r.op_a = (int)w->words[1];
	r.op_b = r.op_a ? 0 : r.hermitian ? 2 : 1;
	r.lda = o[1].step;
	r.ldb = o[2].step;
	r.ldc = o[4].step;
	r.c = (char *)(uintptr_t)o[4].address;
	r.a = w->skipped ? r.c : (const char *)(uintptr_t)o[1].address;
	r.b = w->skipped ? r.c : (const char *)(uintptr_t)o[2].address;
	/* A real number has no imaginary part. */
	memcpy(r.beta, &w->words[o[3].word], vcuda_blas_bytes(o[3].type));
	return r;
}

/* Some rows and columns of op(A) op(B). */
static void multiply(const struct rank_k *r, int64_t row, int64_t rows, int64_t column, int64_t columns,
		     const void *beta, void *c, int64_t ldc)
{
	const char *a = r->a + row * (r->op_a && r->k ? r->lda : 1) * r->size;
	const char *b = r->b + column * (r->op_b ? 1 : r->k ? r->ldb : 0) * r->size;

	softgpu_gemm(r->type, r->op_a, r->op_b, rows, columns, r->k, r->alpha, r->k ? a : r->a, r->lda, r->k ? b : r->b,
		     r->ldb, beta, c, ldc);
}

CUresult softgpu_blas_syrkx(const struct softgpu_blas_work *w)
{
	static const uint64_t zero[2];
	struct rank_k r = rank_k_of(w);
	double complex block[BLOCK * BLOCK];

	for (int64_t at = 0; at < r.n; at += BLOCK) {
		int64_t here = r.n - at < BLOCK ? r.n - at : BLOCK, above = r.upper ? 0 : at + here;
		int64_t rows = r.upper ? at : r.n - above;

		if (rows)
			multiply(&r, above, rows, at, here, r.beta, r.c + (at * r.ldc + above) * r.size, r.ldc);
		multiply(&r, at, here, at, here, zero, block, BLOCK);
		elements_of(w)->triangle(block, r.c + (at * r.ldc + at) * r.size, r.ldc, here, r.beta, r.upper,
					 r.hermitian);
	}
	return CUDA_SUCCESS;
}

/* ---- triangles between two forms: uplo, n ---- */

static void copy_triangle(const struct softgpu_blas_work *w, char *full, int64_t ld, char *packed, bool pack)
{
	int64_t n = (int64_t)w->words[1], size = vcuda_blas_bytes(w->routine->read);

	for (int64_t j = 0; j < n; j++) {
		int64_t first = w->words[0] ? 0 : j, count = w->words[0] ? j + 1 : n - j;
		char *column = full + (j * ld + first) * size;

		memmove(pack ? packed : column, pack ? column : packed, (size_t)(count * size));
		packed += count * size;
	}
}

CUresult softgpu_blas_tpttr(const struct softgpu_blas_work *w)
{
	copy_triangle(w, (char *)(uintptr_t)w->o[1].address, w->o[1].step, (char *)(uintptr_t)w->o[0].address, false);
	return CUDA_SUCCESS;
}

CUresult softgpu_blas_trttp(const struct softgpu_blas_work *w)
{
	copy_triangle(w, (char *)(uintptr_t)w->o[0].address, w->o[0].step, (char *)(uintptr_t)w->o[1].address, true);
	return CUDA_SUCCESS;
}
