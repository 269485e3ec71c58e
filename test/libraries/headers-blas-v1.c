/* SPDX-License-Identifier: Apache-2.0 */
/* Programs built with NVIDIA's cublas.h, the interface before version 2. */
#include "headers.h"

#include <cublas.h>
#include <stdbool.h>

#define OPERATION(transposed) ((transposed) ? 't' : 'n')
#define ASUM(n, x, incx, result) ((result) = F(asum)(n, x, incx))
#define DOT(n, x, incx, y, incy, result) ((result) = F(dot)(n, x, incx, y, incy))
#define AXPY(...) F(axpy)(__VA_ARGS__)
#define SCAL(...) F(scal)(__VA_ARGS__)
#define COPY(...) F(copy)(__VA_ARGS__)
#define GEMV(t, ...) F(gemv)(OPERATION(t), __VA_ARGS__)
#define GEMM(ta, tb, ...) F(gemm)(OPERATION(ta), OPERATION(tb), __VA_ARGS__)

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
	cudaStream_t stream;
	float *memory = NULL;

	loaded_from(argc > 1 ? argv[1] : NULL, "cublasSgemm");
	OK(cublasInit());
	OK(cublasAlloc(100, sizeof(float), (void **)&memory));
	CHECK(memory);
	OK(cublasFree(memory));
	single_all();
	OK(cudaStreamCreate(&stream));
	OK(cublasSetKernelStream(stream));
	double_all();
	OK(cublasGetError());
	/* No function of this interface returns a state: the first that went wrong is kept. */
	cublasSgemm('x', 'n', 1, 1, 1, 1, NULL, 1, NULL, 1, 1, NULL, 1);
	CHECK(cublasGetError() == CUBLAS_STATUS_INVALID_VALUE);
	OK(cublasGetError());
	OK(cublasShutdown());
	OK(cudaStreamDestroy(stream));
	printf("cublas, version 1: passed\n");
	return 0;
}
