/* SPDX-License-Identifier: Apache-2.0 */
/* NVIDIA's cuBLAS and cuBLASLt. */
#include "check.h"

#include <cublasLt.h>
#include <cublas_v2.h>

static cublasHandle_t blas;

/* The element of a column-major matrix with `rows` rows, or of its transpose. */
static size_t at(cublasOperation_t op, int row, int column, int rows)
{
	return op == CUBLAS_OP_N ? (size_t)column * rows + row : (size_t)row * rows + column;
}

/* c = alpha a b + beta c of n x m with k products each, a and b as numbers that start at 0 and 5000. */
static double expected(cublasOperation_t ta, cublasOperation_t tb, int n, int m, int k, int row, int column, double c)
{
	double sum = 0;

	for (int i = 0; i < k; i++)
		sum += number(at(ta, row, i, ta == CUBLAS_OP_N ? n : k)) *
		       number(5000 + at(tb, i, column, tb == CUBLAS_OP_N ? k : m));
	return 2 * sum - 0.5 * c;
}

static void gemm_single(cublasOperation_t ta, cublasOperation_t tb, int n, int m, int k)
{
	const float alpha = 2, beta = -0.5f;
	float *host = malloc(sizeof(float) * (5000 + n * (m + k) + k * m)), *a, *b, *c;

	CHECK(n * k <= 5000);
	for (int i = 0; i < 5000 + k * m; i++)
		host[i] = (float)number(i);
	a = to_device(host, sizeof(float) * n * k);
	b = to_device(host + 5000, sizeof(float) * k * m);
	for (int i = 0; i < n * m; i++)
		host[i] = (float)(i % 9);
	c = to_device(host, sizeof(float) * n * m);
	OK(cublasSgemm(blas, ta, tb, n, m, k, &alpha, a, ta == CUBLAS_OP_N ? n : k, b, tb == CUBLAS_OP_N ? k : m, &beta,
		       c, n));
	from_device(host, c, sizeof(float) * n * m);
	for (int i = 0; i < n * m; i++)
		CHECK(host[i] == (float)expected(ta, tb, n, m, k, i % n, i / n, i % 9));
	OK(cudaFree(a));
	OK(cudaFree(b));
	OK(cudaFree(c));
	free(host);
}

static void gemm_double(int n)
{
	const double alpha = 2, beta = -0.5;
	double *host = malloc(sizeof(double) * (5000 + n * n)), *a, *b, *c;

	for (int i = 0; i < 5000 + n * n; i++)
		host[i] = number(i);
	a = to_device(host, sizeof(double) * n * n);
	b = to_device(host + 5000, sizeof(double) * n * n);
	for (int i = 0; i < n * n; i++)
		host[i] = i % 9;
	c = to_device(host, sizeof(double) * n * n);
	OK(cublasDgemm(blas, CUBLAS_OP_N, CUBLAS_OP_T, n, n, n, &alpha, a, n, b, n, &beta, c, n));
	from_device(host, c, sizeof(double) * n * n);
	for (int i = 0; i < n * n; i++)
		CHECK(host[i] == expected(CUBLAS_OP_N, CUBLAS_OP_T, n, n, n, i % n, i / n, i % 9));
	free(host);
}

/* The numbers here are so short that a bfloat16 is the upper half of a float. */
static uint16_t narrow(cudaDataType type, double value)
{
	_Float16 half = (_Float16)value;
	float single = (float)value;
	uint16_t bits[2];

	memcpy(bits, &single, sizeof(bits));
	if (type == CUDA_R_16F)
		memcpy(&bits[1], &half, sizeof(half));
	return bits[1];
}

/* Half or bfloat16 in, float out, sums in float. */
static void gemm_16(cudaDataType type, int n)
{
	const float alpha = 2, beta = -0.5f;
	uint16_t *in = malloc(2 * (5000 + n * n));
	float *host = malloc(sizeof(float) * n * n), *c;
	void *a, *b;

	for (int i = 0; i < 5000 + n * n; i++)
		in[i] = narrow(type, number(i));
	a = to_device(in, 2 * n * n);
	b = to_device(in + 5000, 2 * n * n);
	for (int i = 0; i < n * n; i++)
		host[i] = (float)(i % 9);
	c = to_device(host, sizeof(float) * n * n);
	OK(cublasGemmEx(blas, CUBLAS_OP_N, CUBLAS_OP_N, n, n, n, &alpha, a, type, n, b, type, n, &beta, c, CUDA_R_32F,
			n, CUBLAS_COMPUTE_32F, CUBLAS_GEMM_DEFAULT));
	from_device(host, c, sizeof(float) * n * n);
	for (int i = 0; i < n * n; i++)
		CHECK(host[i] == (float)expected(CUBLAS_OP_N, CUBLAS_OP_N, n, n, n, i % n, i / n, i % 9));
	free(in);
	free(host);
}

static void vectors(void)
{
	enum { N = 1000 };
	float host[2 * N], *x, *y, *device_result, dot = 0, sum = 0, result, alpha = 3;
	int largest;

	for (int i = 0; i < 2 * N; i++)
		host[i] = (float)number(i);
	host[700] = 50;
	for (int i = 0; i < N; i++) {
		dot += host[i] * (host[N + i] + 3 * host[i]);
		sum += fabsf(host[i]);
	}
	x = to_device(host, sizeof(float) * N);
	y = to_device(host + N, sizeof(float) * N);
	OK(cublasSaxpy(blas, N, &alpha, x, 1, y, 1));
	OK(cublasSdot(blas, N, x, 1, y, 1, &result));
	CHECK(fabsf(result - dot) <= 1e-5f * fabsf(dot));
	OK(cublasIsamax(blas, N, x, 1, &largest));
	CHECK(largest == 701);
	device_result = device_memory(sizeof(float));
	OK(cublasSetPointerMode(blas, CUBLAS_POINTER_MODE_DEVICE));
	OK(cublasSasum(blas, N, x, 1, device_result));
	OK(cublasSetPointerMode(blas, CUBLAS_POINTER_MODE_HOST));
	from_device(&result, device_result, sizeof(result));
	CHECK(fabsf(result - sum) <= 1e-5f * sum);
}

static void lt_matmul(void)
{
	enum { N = 48 };
	const float alpha = 2, beta = -0.5f;
	cublasLtMatmulPreference_t preference;
	cublasLtMatmulHeuristicResult_t found;
	cublasLtMatmulDesc_t description;
	cublasLtMatrixLayout_t layout;
	size_t workspace = 1 << 20;
	float host[5000 + N * N];
	cublasLtHandle_t lt;
	float *a, *b, *c;
	int count;

	for (int i = 0; i < 5000 + N * N; i++)
		host[i] = (float)number(i);
	a = to_device(host, sizeof(float) * N * N);
	b = to_device(host + 5000, sizeof(float) * N * N);
	for (int i = 0; i < N * N; i++)
		host[i] = (float)(i % 9);
	c = to_device(host, sizeof(float) * N * N);
	OK(cublasLtCreate(&lt));
	OK(cublasLtMatmulDescCreate(&description, CUBLAS_COMPUTE_32F, CUDA_R_32F));
	OK(cublasLtMatrixLayoutCreate(&layout, CUDA_R_32F, N, N, N));
	OK(cublasLtMatmulPreferenceCreate(&preference));
	OK(cublasLtMatmulPreferenceSetAttribute(preference, CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, &workspace,
						sizeof(workspace)));
	OK(cublasLtMatmulAlgoGetHeuristic(lt, description, layout, layout, layout, layout, preference, 1, &found,
					  &count));
	CHECK(count == 1);
	OK(cublasLtMatmul(lt, description, &alpha, a, layout, b, layout, &beta, c, layout, c, layout, &found.algo,
			  device_memory(workspace), workspace, 0));
	from_device(host, c, sizeof(float) * N * N);
	for (int i = 0; i < N * N; i++)
		CHECK(host[i] == (float)expected(CUBLAS_OP_N, CUBLAS_OP_N, N, N, N, i % N, i / N, i % 9));
	OK(cublasLtDestroy(lt));
}

int main(void)
{
	OK(cublasCreate(&blas));
	gemm_single(CUBLAS_OP_N, CUBLAS_OP_N, 64, 64, 64);
	gemm_single(CUBLAS_OP_T, CUBLAS_OP_N, 33, 70, 20);
	gemm_double(40);
	gemm_16(CUDA_R_16F, 64);
	gemm_16(CUDA_R_16BF, 64);
	vectors();
	lt_matmul();
	OK(cublasDestroy(blas));
	printf("cublas: passed\n");
	return 0;
}
