/* SPDX-License-Identifier: Apache-2.0 */
/* Groups of products of matrices: a batch for each group. The shapes are in host memory. */
#include "handle.h"

#define ADD(p, elements, size) ((p) ? (const char *)(p) + (size_t)(elements) * (size) : NULL)

#define GROUPED(Letter, type, integer, tail)                                                                           \
	int cublas##Letter##gemmBatched##tail(void *handle, int ta, int tb, integer m, integer n, integer k,           \
					      const void *alpha, const void *a, integer lda, const void *b,            \
					      integer ldb, const void *beta, void *c, integer ldc, integer batch);     \
	BLAS_API int cublas##Letter##gemmGroupedBatched##tail(                                                         \
		void *handle, const int *ta, const int *tb, const integer *m, const integer *n, const integer *k,      \
		const void *alpha, const void *const *a, const integer *lda, const void *const *b, const integer *ldb, \
		const void *beta, void *const *c, const integer *ldc, integer groups, const integer *sizes)            \
	{                                                                                                              \
		int status = !handle ? BLAS_NOT_INITIALIZED : groups < 0 ? BLAS_INVALID_VALUE : BLAS_SUCCESS;          \
                                                                                                                       \
		for (integer i = 0; i < groups && !status; i++) {                                                      \
			status = cublas##Letter##gemmBatched##tail(                                                    \
				handle, ta[i], tb[i], m[i], n[i], k[i], ADD(alpha, i, sizeof(type)), a, lda[i], b,     \
				ldb[i], ADD(beta, i, sizeof(type)), (void *)(uintptr_t)c, ldc[i], sizes[i]);           \
			a += sizes[i];                                                                                 \
			b += sizes[i];                                                                                 \
			c += sizes[i];                                                                                 \
		}                                                                                                      \
		return status;                                                                                         \
	}

#define GROUPED_EX(integer, tail)                                                                                      \
	int cublasGemmBatchedEx##tail(void *handle, int ta, int tb, integer m, integer n, integer k,                   \
				      const void *alpha, const void *a, int type_a, integer lda, const void *b,        \
				      int type_b, integer ldb, const void *beta, void *c, int type_c, integer ldc,     \
				      integer batch, int compute, int algorithm);                                      \
	BLAS_API int cublasGemmGroupedBatchedEx##tail(                                                                 \
		void *handle, const int *ta, const int *tb, const integer *m, const integer *n, const integer *k,      \
		const void *alpha, const void *const *a, int type_a, const integer *lda, const void *const *b,         \
		int type_b, const integer *ldb, const void *beta, void *const *c, int type_c, const integer *ldc,      \
		integer groups, const integer *sizes, int compute)                                                     \
	{                                                                                                              \
		unsigned int size =                                                                                    \
			vcuda_blas_bytes(vcuda_blas_scale((uint64_t)vcuda_blas_compute(compute), (uint64_t)type_c));   \
		int status = !handle ? BLAS_NOT_INITIALIZED : groups < 0 ? BLAS_INVALID_VALUE : BLAS_SUCCESS;          \
                                                                                                                       \
		for (integer i = 0; i < groups && !status; i++) {                                                      \
			status = cublasGemmBatchedEx##tail(handle, ta[i], tb[i], m[i], n[i], k[i],                     \
							   ADD(alpha, i, size), a, type_a, lda[i], b, type_b, ldb[i],  \
							   ADD(beta, i, size), (void *)(uintptr_t)c, type_c, ldc[i],   \
							   sizes[i], compute, -1);                                     \
			a += sizes[i];                                                                                 \
			b += sizes[i];                                                                                 \
			c += sizes[i];                                                                                 \
		}                                                                                                      \
		return status;                                                                                         \
	}

/* clang-format off */
GROUPED(S, float, int, )
GROUPED(D, double, int, )
GROUPED(S, float, int64_t, _64)
GROUPED(D, double, int64_t, _64)
GROUPED_EX(int, )
GROUPED_EX(int64_t, _64)
/* clang-format on */
