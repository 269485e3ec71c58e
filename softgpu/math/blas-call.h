/* SPDX-License-Identifier: Apache-2.0 */
/* The generated calls of CBLAS, and the functions of this program that compute the rest. */
#ifndef VCUDA_CPU_BLAS_CALL_H
#define VCUDA_CPU_BLAS_CALL_H

#include "protocol/blas-abi.h"
#include "ops.h"

/* One computation, or a part of one, whose operands are checked. */
struct softgpu_blas_work {
	const struct vcuda_blas_routine *routine;
	uint64_t words[VCUDA_BLAS_MAX_WORDS]; /* with the scalars' values in them; sizes fit an int */
	struct vcuda_blas_operand o[VCUDA_BLAS_MAX_OPERANDS];
	uint32_t skipped;                    /* operands, a bit each, that were not looked at and are not read */
	uint64_t *result;                    /* VCUDA_BLAS_VALUE_WORDS */
	uint64_t row, rows, column, columns; /* the part of a product of matrices */
};

static inline void *softgpu_blas_pointer(const struct softgpu_blas_work *w, unsigned int operand)
{
	return (void *)(uintptr_t)w->o[operand].address;
}

/* The index of a vector's first element: with a negative step, the last one in memory. */
static inline int64_t softgpu_blas_first(const struct vcuda_blas_operand *o)
{
	return o->step < 0 && o->rows > 0 ? (1 - o->rows) * o->step : 0;
}

/* A result other than success ends the context. */
typedef CUresult (*softgpu_blas_own)(const struct softgpu_blas_work *work);

struct softgpu_blas_call {
	const char *symbol; /* NULL: computed by a function of this program, or no such function */
	void (*call)(void (*function)(void), const uint64_t *words, void *value);
	softgpu_blas_own own;
};

extern const struct softgpu_blas_call softgpu_blas_calls[VCUDA_BLAS_LIMIT];

/* ---- blas-gemm.c ---- */

CUresult softgpu_blas_gemm(const struct softgpu_blas_work *work);
/* For types that OpenBLAS lacks, except complex ones. */
CUresult softgpu_blas_gemv(const struct softgpu_blas_work *work);

/* ---- blas-level-1.c ---- */

CUresult softgpu_blas_rot(const struct softgpu_blas_work *work);
CUresult softgpu_blas_asum(const struct softgpu_blas_work *work);
CUresult softgpu_blas_rotg(const struct softgpu_blas_work *work);
CUresult softgpu_blas_rotmg(const struct softgpu_blas_work *work);

/* ---- blas-symmetric.c ---- */

CUresult softgpu_blas_symv(const struct softgpu_blas_work *work);
CUresult softgpu_blas_syr(const struct softgpu_blas_work *work);
CUresult softgpu_blas_syr2(const struct softgpu_blas_work *work);

/* ---- blas-vectors.c ---- */

CUresult softgpu_blas_axpy_ex(const struct softgpu_blas_work *work);
CUresult softgpu_blas_dot_ex(const struct softgpu_blas_work *work);
CUresult softgpu_blas_nrm2_ex(const struct softgpu_blas_work *work);
CUresult softgpu_blas_scal_ex(const struct softgpu_blas_work *work);
CUresult softgpu_blas_rot_ex(const struct softgpu_blas_work *work);

/* ---- blas-level-3.c ---- */

CUresult softgpu_blas_trmm(const struct softgpu_blas_work *work);
CUresult softgpu_blas_syrkx(const struct softgpu_blas_work *work);
CUresult softgpu_blas_geam(const struct softgpu_blas_work *work);
CUresult softgpu_blas_dgmm(const struct softgpu_blas_work *work);
CUresult softgpu_blas_tpttr(const struct softgpu_blas_work *work);
CUresult softgpu_blas_trttp(const struct softgpu_blas_work *work);

/* ---- blas-rank-k.c ---- */

CUresult softgpu_blas_rank_k(const struct softgpu_blas_work *work);

/* ---- blas-factors.c ---- */

CUresult softgpu_blas_getrf(const struct softgpu_blas_work *work);
CUresult softgpu_blas_getrs(const struct softgpu_blas_work *work);
CUresult softgpu_blas_getri(const struct softgpu_blas_work *work);
CUresult softgpu_blas_matinv(const struct softgpu_blas_work *work);
CUresult softgpu_blas_geqrf(const struct softgpu_blas_work *work);
CUresult softgpu_blas_gels(const struct softgpu_blas_work *work);

#endif
