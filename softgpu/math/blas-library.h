/* SPDX-License-Identifier: Apache-2.0 */
/* OpenBLAS, opened when a program first makes a handle of cuBLAS. */
#ifndef VCUDA_CPU_BLAS_LIBRARY_H
#define VCUDA_CPU_BLAS_LIBRARY_H

#include <stdint.h>

#include "ops.h"

/* CUDA_SUCCESS, or CUDA_ERROR_NOT_SUPPORTED, logged once: it is not installed. Thread-safe. */
CUresult softgpu_blas_open(void);

/* A function of vcuda_blas_routines; NULL if the library has none such. After a successful open; thread-safe. */
void (*softgpu_blas_function(uint32_t number))(void);

/*
 * BLAS of a type, one of vcuda_blas_type's S D C Z. Options are numbered as cuBLAS has them; a scalar is of the type.
 */
void softgpu_gemm(unsigned int type, int op_a, int op_b, int64_t m, int64_t n, int64_t k, const void *alpha,
		  const void *a, int64_t lda, const void *b, int64_t ldb, const void *beta, void *c, int64_t ldc);
/* B = alpha op(A) B, or B op(A). */
void softgpu_trmm(unsigned int type, int side, int uplo, int op, int diag, int64_t m, int64_t n, const void *alpha,
		  const void *a, int64_t lda, void *b, int64_t ldb);
/* Solves op(A) X = alpha B, or X op(A), for X, which takes B's place. */
void softgpu_trsm(unsigned int type, int side, int uplo, int op, int diag, int64_t m, int64_t n, const void *alpha,
		  const void *a, int64_t lda, void *b, int64_t ldb);
/* A = Q R; `room` is for at least n numbers, and `room_size` of them. */
void softgpu_geqrf(unsigned int type, int64_t m, int64_t n, void *a, int64_t lda, void *tau, void *room,
		   int64_t room_size);
/* C = op(Q) C, of k of such reflectors. */
void softgpu_ormqr(unsigned int type, int op, int64_t m, int64_t n, int64_t k, const void *a, int64_t lda,
		   const void *tau, void *c, int64_t ldc, void *room, int64_t room_size);

#endif
