/* SPDX-License-Identifier: Apache-2.0 */
/* Programs built with NVIDIA's cublas_v2.h: what those of the systems before this one called. */
#include "headers.h"

#include <cublas_v2.h>
#include <stdbool.h>

static cublasHandle_t blas;

#define OPERATION(transposed) ((transposed) ? CUBLAS_OP_T : CUBLAS_OP_N)
#define ASUM(n, x, incx, result) OK(F(asum)(blas, n, x, incx, &(result)))
#define DOT(n, x, incx, y, incy, result) OK(F(dot)(blas, n, x, incx, y, incy, &(result)))
#define AXPY(n, alpha, x, incx, y, incy) OK(F(axpy)(blas, n, &(REAL){alpha}, x, incx, y, incy))
#define SCAL(n, alpha, x, incx) OK(F(scal)(blas, n, &(REAL){alpha}, x, incx))
#define COPY(n, x, incx, y, incy) OK(F(copy)(blas, n, x, incx, y, incy))
#define GEMV(t, m, n, alpha, a, lda, x, incx, beta, y, incy)                                                           \
	OK(F(gemv)(blas, OPERATION(t), m, n, &(REAL){alpha}, a, lda, x, incx, &(REAL){beta}, y, incy))
#define GEMM(ta, tb, m, n, k, alpha, a, lda, b, ldb, beta, c, ldc)                                                     \
	OK(F(gemm)(blas, OPERATION(ta), OPERATION(tb), m, n, k, &(REAL){alpha}, a, lda, b, ldb, &(REAL){beta}, c, ldc))

#define REAL float
#define T(name) single_##name
#define F(name) cublasS##name
#include "headers-blas.h"

#define REAL double
#define T(name) double_##name
#define F(name) cublasD##name
#include "headers-blas.h"

int main(int argc, char **argv)
{
	cudaStream_t stream, now;
	int version = 0;

	loaded_from(argc > 1 ? argv[1] : NULL, "cublasSgemm_v2");
	OK(cublasCreate(&blas));
	OK(cublasGetVersion(blas, &version));
	CHECK(version / 10000 == CUBLAS_VER_MAJOR);
	OK(cublasGetStream(blas, &now));
	CHECK(!now);
	single_all();
	OK(cudaStreamCreate(&stream));
	OK(cublasSetStream(blas, stream));
	OK(cublasGetStream(blas, &now));
	CHECK(now == stream);
	double_all();
	/* Errors have the codes of the header's documentation. */
	CHECK(cublasSgemm(blas, CUBLAS_OP_N, CUBLAS_OP_N, -1, 1, 1, &(float){1}, NULL, 1, NULL, 1, &(float){1}, NULL,
			  1) == CUBLAS_STATUS_INVALID_VALUE);
	CHECK(cublasSetVector(1, 0, &version, 1, &version, 1) == CUBLAS_STATUS_INVALID_VALUE);
	OK(cublasDestroy(blas));
	CHECK(cublasDestroy(NULL) == CUBLAS_STATUS_NOT_INITIALIZED);
	OK(cudaStreamDestroy(stream));
	printf("cublas %d, version 2: passed\n", CUBLAS_VER_MAJOR);
	return 0;
}
