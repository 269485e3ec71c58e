/* SPDX-License-Identifier: Apache-2.0 */
/* Vectors: functions that CBLAS lacks, or that OpenBLAS computes wrongly. */
#include <complex.h>
#include <math.h>

#include "math/blas-call.h"
#include "protocol/blas-rotations.h"

/* OpenBLAS 0.3.21 adds other numbers than these on processors with AVX-512. */
CUresult softgpu_blas_asum(const struct softgpu_blas_work *w)
{
	const float complex *x = softgpu_blas_pointer(w, 0);
	double sums[2] = {0, 0};

	/* BLAS: nothing, if they go backwards. */
	for (int64_t i = 0; i < w->o[0].rows && w->o[0].step > 0; i++, x += w->o[0].step) {
		sums[0] += fabs((double)crealf(*x));
		sums[1] += fabs((double)cimagf(*x));
	}
	*(float *)w->result = (float)(sums[0] + sums[1]);
	return CUDA_SUCCESS;
}

/* x, y, c, s: rotated by a real cosine and a complex sine. */
#define ROTATE(name, T, R, conjugate)                                                                                  \
	static void name(const struct softgpu_blas_work *w)                                                            \
	{                                                                                                              \
		T *x = (T *)softgpu_blas_pointer(w, 0) + softgpu_blas_first(&w->o[0]),                                 \
		  *y = (T *)softgpu_blas_pointer(w, 1) + softgpu_blas_first(&w->o[1]);                                 \
		R c = *(const R *)&w->words[w->o[2].word];                                                             \
		T s = *(const T *)&w->words[w->o[3].word];                                                             \
                                                                                                                       \
		for (int64_t i = 0; i < w->o[0].rows; i++, x += w->o[0].step, y += w->o[1].step) {                     \
			T old = *x;                                                                                    \
                                                                                                                       \
			*x = c * old + s * *y;                                                                         \
			*y = c * *y - conjugate(s) * old;                                                              \
		}                                                                                                      \
	}

ROTATE(rotate_c, float complex, float, conjf)
ROTATE(rotate_z, double complex, double, conj)

CUresult softgpu_blas_rot(const struct softgpu_blas_work *w)
{
	if (w->routine->read == VCUDA_BLAS_C_32F)
		rotate_c(w);
	else
		rotate_z(w);
	return CUDA_SUCCESS;
}

CUresult softgpu_blas_rotg(const struct softgpu_blas_work *w)
{
	vcuda_blas_rotg(w->routine->read, softgpu_blas_pointer(w, 0), softgpu_blas_pointer(w, 1),
			softgpu_blas_pointer(w, 2), softgpu_blas_pointer(w, 3));
	return CUDA_SUCCESS;
}

CUresult softgpu_blas_rotmg(const struct softgpu_blas_work *w)
{
	vcuda_blas_rotmg(w->routine->read, softgpu_blas_pointer(w, 0), softgpu_blas_pointer(w, 1),
			 softgpu_blas_pointer(w, 2), softgpu_blas_pointer(w, 3), softgpu_blas_pointer(w, 4));
	return CUDA_SUCCESS;
}
