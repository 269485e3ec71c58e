/* SPDX-License-Identifier: Apache-2.0 */
/* Complex matrices that are symmetric and not Hermitian, and vectors: CBLAS has none of these. */
#include <complex.h>

#include "math/blas-call.h"

/* Which triangle is there: cuBLAS's numbers. */
enum { LOWER = 0 };

static bool is_there(const struct softgpu_blas_work *w, int64_t i, int64_t j)
{
	return w->words[0] == LOWER ? i >= j : i <= j;
}

#define SCALAR(T, operand) (*(const T *)&w->words[w->o[operand].word])
#define VECTOR(T, operand) ((T *)softgpu_blas_pointer(w, operand) + softgpu_blas_first(&w->o[operand]))

/*
 * symv: y = alpha A x + beta y; what goes with a factor of 0 is not read.
 * syr: A += alpha x x', syr2: A += alpha (x y' + y x'), in the triangle.
 */
#define SYMMETRIC(s, T)                                                                                                \
	static void symv_##s(const struct softgpu_blas_work *w)                                                        \
	{                                                                                                              \
		const T *a = softgpu_blas_pointer(w, 1), *x = VECTOR(T, 2);                                            \
		T alpha = SCALAR(T, 0), beta = SCALAR(T, 3), *y = VECTOR(T, 4);                                        \
		int64_t n = w->o[4].rows, ld = w->o[1].step, step = w->o[2].step;                                      \
                                                                                                                       \
		for (int64_t i = 0; i < n; i++, y += w->o[4].step) {                                                   \
			T sum = 0;                                                                                     \
                                                                                                                       \
			for (int64_t j = 0; j < n && alpha != 0; j++)                                                  \
				sum += (is_there(w, i, j) ? a[j * ld + i] : a[i * ld + j]) * x[j * step];              \
			*y = (alpha == 0 ? 0 : alpha * sum) + (beta == 0 ? 0 : beta * *y);                             \
		}                                                                                                      \
	}                                                                                                              \
                                                                                                                       \
	static void update_##s(const struct softgpu_blas_work *w, T alpha, const T *x, int64_t x_step, const T *y,     \
			       int64_t y_step, T *a, int64_t ld, int64_t n)                                            \
	{                                                                                                              \
		for (int64_t j = 0; j < n && alpha != 0; j++)                                                          \
			for (int64_t i = 0; i < n; i++)                                                                \
				if (is_there(w, i, j))                                                                 \
					a[j * ld + i] += alpha * x[i * x_step] * y[j * y_step];                        \
	}                                                                                                              \
                                                                                                                       \
	static void syr_##s(const struct softgpu_blas_work *w)                                                         \
	{                                                                                                              \
		const T *x = VECTOR(T, 1);                                                                             \
		int64_t step = w->o[1].step;                                                                           \
                                                                                                                       \
		update_##s(w, SCALAR(T, 0), x, step, x, step, softgpu_blas_pointer(w, 2), w->o[2].step, w->o[1].rows); \
	}                                                                                                              \
                                                                                                                       \
	static void syr2_##s(const struct softgpu_blas_work *w)                                                        \
	{                                                                                                              \
		const T *x = VECTOR(T, 1), *y = VECTOR(T, 2);                                                          \
		int64_t x_step = w->o[1].step, y_step = w->o[2].step, ld = w->o[3].step, n = w->o[1].rows;             \
		T alpha = SCALAR(T, 0), *a = softgpu_blas_pointer(w, 3);                                               \
                                                                                                                       \
		update_##s(w, alpha, x, x_step, y, y_step, a, ld, n);                                                  \
		update_##s(w, alpha, y, y_step, x, x_step, a, ld, n);                                                  \
	}

SYMMETRIC(c, float complex)
SYMMETRIC(z, double complex)

#define BY_TYPE(name)                                                                                                  \
	CUresult softgpu_blas_##name(const struct softgpu_blas_work *w)                                                \
	{                                                                                                              \
		if (w->routine->read == VCUDA_BLAS_C_32F)                                                              \
			name##_c(w);                                                                                   \
		else                                                                                                   \
			name##_z(w);                                                                                   \
		return CUDA_SUCCESS;                                                                                   \
	}

BY_TYPE(symv)
BY_TYPE(syr)
BY_TYPE(syr2)
