/* SPDX-License-Identifier: Apache-2.0 */
/* The generated calls of CBLAS, and what is computed by functions of our own. */
#ifndef VCUDA_CPU_BLAS_CALL_H
#define VCUDA_CPU_BLAS_CALL_H

#include "protocol/blas-abi.h"
#include "ops.h"

/* One computation, or a part of one, all of which has been looked at. */
struct cpu_blas_work {
	const struct vcuda_blas_routine *routine;
	uint64_t words[VCUDA_BLAS_MAX_WORDS]; /* with the scalars' values in them; sizes fit an int */
	struct vcuda_blas_operand o[VCUDA_BLAS_MAX_OPERANDS];
	uint32_t skipped;                    /* operands, a bit each, that were not looked at and are not read */
	uint64_t *result;                    /* VCUDA_BLAS_VALUE_WORDS */
	uint64_t row, rows, column, columns; /* the part of a product of matrices */
};

static inline void *cpu_blas_pointer(const struct cpu_blas_work *w, unsigned int operand)
{
	return (void *)(uintptr_t)w->o[operand].address;
}

/* Where the first of a vector lies: the last in memory, if they go backwards. */
static inline int64_t cpu_blas_first(const struct vcuda_blas_operand *o)
{
	return o->step < 0 && o->rows > 0 ? (1 - o->rows) * o->step : 0;
}

/* What is not success ends the context. */
typedef CUresult (*cpu_blas_own)(const struct cpu_blas_work *work);

struct cpu_blas_call {
	const char *symbol; /* NULL: one of our own, or no such function */
	void (*call)(void (*function)(void), const uint64_t *words, void *value);
	cpu_blas_own own;
};

extern const struct cpu_blas_call cpu_blas_calls[VCUDA_BLAS_LIMIT];

/* ---- blas-gemm.c ---- */

CUresult cpu_blas_gemm(const struct cpu_blas_work *work);
/* Of types that OpenBLAS has not; not of complex ones. */
CUresult cpu_blas_gemv(const struct cpu_blas_work *work);

/* ---- blas-level-1.c ---- */

CUresult cpu_blas_rot(const struct cpu_blas_work *work);
CUresult cpu_blas_asum(const struct cpu_blas_work *work);
CUresult cpu_blas_rotg(const struct cpu_blas_work *work);
CUresult cpu_blas_rotmg(const struct cpu_blas_work *work);

/* ---- blas-symmetric.c ---- */

CUresult cpu_blas_symv(const struct cpu_blas_work *work);
CUresult cpu_blas_syr(const struct cpu_blas_work *work);
CUresult cpu_blas_syr2(const struct cpu_blas_work *work);

/* ---- blas-vectors.c ---- */

CUresult cpu_blas_axpy_ex(const struct cpu_blas_work *work);
CUresult cpu_blas_dot_ex(const struct cpu_blas_work *work);
CUresult cpu_blas_nrm2_ex(const struct cpu_blas_work *work);
CUresult cpu_blas_scal_ex(const struct cpu_blas_work *work);
CUresult cpu_blas_rot_ex(const struct cpu_blas_work *work);

/* ---- blas-level-3.c ---- */

CUresult cpu_blas_trmm(const struct cpu_blas_work *work);
CUresult cpu_blas_syrkx(const struct cpu_blas_work *work);
CUresult cpu_blas_geam(const struct cpu_blas_work *work);
CUresult cpu_blas_dgmm(const struct cpu_blas_work *work);
CUresult cpu_blas_tpttr(const struct cpu_blas_work *work);
CUresult cpu_blas_trttp(const struct cpu_blas_work *work);

/* ---- blas-factors.c ---- */

CUresult cpu_blas_getrf(const struct cpu_blas_work *work);
CUresult cpu_blas_getrs(const struct cpu_blas_work *work);
CUresult cpu_blas_getri(const struct cpu_blas_work *work);
CUresult cpu_blas_matinv(const struct cpu_blas_work *work);
CUresult cpu_blas_geqrf(const struct cpu_blas_work *work);
CUresult cpu_blas_gels(const struct cpu_blas_work *work);

#endif
