/* SPDX-License-Identifier: Apache-2.0 */
/*
 * cuBLAS where something is wrong: blas-errors invalid|stray|hostile|stream, and blas-errors queued, which makes 1000
 * calls between two synchronisations, for `--stats`.
 */
#include <math.h>

#include "protocol/blas-abi.h"
#include "protocol/cuda-functions.h"
#include "test/local/parts.h"

enum { NOT_INITIALIZED = 1, INVALID_VALUE = 7, NOT_SUPPORTED = 15 };

int cublasCreate_v2(void **handle);
int cublasDestroy_v2(void *handle);
int cublasSetPointerMode_v2(void *handle, int mode);
int cublasSetEnvironmentMode(void *handle, int mode);
int cublasGetEnvironmentMode(void *handle, int *mode);
int cublasSgeam(void *handle, int transa, int transb, int m, int n, const float *alpha, const float *a, int lda,
		const float *beta, const float *b, int ldb, float *c, int ldc);
int cublasSetStream_v2(void *handle, CUstream stream);
int cublasUint8gemmBias(void *handle, ...);
const char *cublasGetStatusName(int status);
int cublasSaxpy_v2(void *h, int n, const float *alpha, const float *x, int incx, float *y, int incy);
int cublasCdotc_v2(void *h, int n, const void *x, int incx, const void *y, int incy, void *result);
int cublasZdotu_v2(void *h, int n, const void *x, int incx, const void *y, int incy, void *result);
int cublasSdot_v2(void *h, int n, const float *x, int incx, const float *y, int incy, float *result);
int cublasSgemv_v2(void *h, int trans, int m, int n, const float *alpha, const float *a, int lda, const float *x,
		   int incx, const float *beta, float *y, int incy);
int cublasCgemv_v2(void *h, int trans, int m, int n, const void *alpha, const void *a, int lda, const void *x, int incx,
		   const void *beta, void *y, int incy);
int cublasChemv_v2(void *h, int uplo, int n, const void *alpha, const void *a, int lda, const void *x, int incx,
		   const void *beta, void *y, int incy);
int cublasSger_v2(void *h, int m, int n, const float *alpha, const float *x, int incx, const float *y, int incy,
		  float *a, int lda);
int cublasSgemm_v2(void *h, int ta, int tb, int m, int n, int k, const float *alpha, const float *a, int lda,
		   const float *b, int ldb, const float *beta, float *c, int ldc);
int cublasSgemm_v2_64(void *h, int ta, int tb, int64_t m, int64_t n, int64_t k, const float *alpha, const float *a,
		      int64_t lda, const float *b, int64_t ldb, const float *beta, float *c, int64_t ldc);
int cublasSgemmBatched(void *h, int ta, int tb, int m, int n, int k, const float *alpha, const void *a, int lda,
		       const void *b, int ldb, const float *beta, void *c, int ldc, int batch);
int cublasSgemmStridedBatched(void *h, int ta, int tb, int m, int n, int k, const float *alpha, const float *a, int lda,
			      long long stride_a, const float *b, int ldb, long long stride_b, const float *beta,
			      float *c, int ldc, long long stride_c, int batch);
int cublasGemmEx(void *h, int ta, int tb, int m, int n, int k, const void *alpha, const void *a, int type_a, int lda,
		 const void *b, int type_b, int ldb, const void *beta, void *c, int type_c, int ldc, int compute,
		 int algorithm);
int cublasSgetrsBatched(void *h, int trans, int n, int nrhs, const void *a, int lda, const int *p, void *b, int ldb,
			int *info, int batch);
int cublasSmatinvBatched(void *h, int n, const void *a, int lda, void *c, int ldc, int *info, int batch);
int cublasSrotg_v2(void *h, float *a, float *b, float *c, float *s);
int cublasCsyrk_v2(void *h, int uplo, int trans, int n, int k, const void *alpha, const void *a, int lda,
		   const void *beta, void *c, int ldc);
int cublasSetVector(int n, int size, const void *x, int incx, void *y, int incy);
int cublasGetMatrix(int rows, int columns, int size, const void *a, int lda, void *b, int ldb);

#define N 64

static const float one = 1, none = 0;

static float *memory(size_t floats)
{
	CUdeviceptr p;

	CHECK(!cuMemAlloc_v2(&p, floats * sizeof(float)) && !cuMemsetD32_v2(p, 0x3f800000, floats));
	return (float *)(uintptr_t)p;
}

/* The settings that NVIDIA's cuSOLVER and others keep in a handle. */
static void settings(void)
{
	float *a = memory(N * N), host[N];
	int mode = -1;
	void *h;

	CHECK(!cublasCreate_v2(&h));
	CHECK(cublasSetEnvironmentMode(NULL, 0) == NOT_INITIALIZED);
	CHECK(!cublasGetEnvironmentMode(h, &mode) && mode == 0);
	CHECK(!cublasSetEnvironmentMode(h, 1) && !cublasGetEnvironmentMode(h, &mode) && mode == 1);
	CHECK(cublasSetEnvironmentMode(h, 2) == INVALID_VALUE && cublasSetEnvironmentMode(h, -1) == INVALID_VALUE);
	CHECK(cublasGetEnvironmentMode(h, NULL) == INVALID_VALUE);
	/* a 0 need not be there, unless it would be the device's */
	CHECK(!cublasSgeam(h, 0, 0, N, N, &one, a, N, NULL, a, N, a, N));
	CHECK(!cuMemcpyDtoH_v2(host, (uintptr_t)a, sizeof(host)) && host[0] == 1);
	CHECK(!cublasSetPointerMode_v2(h, 1));
	CHECK(cublasSgeam(h, 0, 0, N, N, a, a, N, NULL, a, N, a, N) == INVALID_VALUE);
	CHECK(!cublasDestroy_v2(h));
}

/* Found at the call: nothing is done and nothing is lost. */
static void invalid(void)
{
	float *a = memory(N * N), result, host[N];
	const float i_too[2] = {1, 1};
	void *h;
	int info = 1;

	CHECK(cublasSaxpy_v2(NULL, 1, &one, a, 1, a, 1) == NOT_INITIALIZED);
	CHECK(!cublasCreate_v2(&h));
	CHECK(cublasSgemm_v2(h, 3, 0, N, N, N, &one, a, N, a, N, &none, a, N) == INVALID_VALUE);
	CHECK(cublasSgemm_v2(h, 0, -1, N, N, N, &one, a, N, a, N, &none, a, N) == INVALID_VALUE);
	CHECK(cublasSgemm_v2(h, 0, 0, -1, N, N, &one, a, N, a, N, &none, a, N) == INVALID_VALUE);
	CHECK(cublasSgemm_v2(h, 0, 0, N, N, N, &one, a, N - 1, a, N, &none, a, N) == INVALID_VALUE);
	CHECK(cublasSgemm_v2(h, 0, 0, N, N, N, NULL, a, N, a, N, &none, a, N) == INVALID_VALUE);
	CHECK(cublasSgemm_v2(h, 0, 0, 0, 0, 0, &one, a, 0, a, 1, &none, a, 1) == INVALID_VALUE);
	CHECK(cublasSgemv_v2(h, 0, N, N, &one, a, N, a, 0, &none, a, 1) == INVALID_VALUE);
	CHECK(cublasSdot_v2(h, N, a, 1, a, 1, NULL) == INVALID_VALUE);
	CHECK(cublasCsyrk_v2(h, 0, 2, 4, 4, i_too, a, 4, i_too, a, 4) == INVALID_VALUE);
	CHECK(cublasSetVector(N, 4, host, 0, a, 1) == INVALID_VALUE);
	CHECK(cublasGetMatrix(4, 4, 4, a, 3, host, 4) == INVALID_VALUE);
	CHECK(cublasSgemmBatched(h, 0, 0, N, N, N, &one, a, N, a, N, &none, a, N, -1) == INVALID_VALUE);
	CHECK(cublasSgemmBatched(h, 0, 0, N, N, N, &one, a, N, a, N - 1, &none, a, N, 1) == INVALID_VALUE);
	CHECK(!cublasSgemmBatched(h, 0, 0, N, N, N, &one, NULL, N, NULL, N, &none, NULL, N, 0));
	CHECK(cublasGemmEx(h, 0, 0, 2, 2, 2, &one, a, 2, 2, a, 0, 2, &none, a, 0, 2, 68, -1) == NOT_SUPPORTED);
	CHECK(cublasGemmEx(h, 0, 0, 2, 2, 2, &one, a, 0, 2, a, 0, 2, &none, a, 0, 2, 12, -1) == NOT_SUPPORTED);
	/* The type of computation as CUDA 10 had it. */
	CHECK(!cublasGemmEx(h, 0, 0, 1, 1, 1, &one, a, 0, 2, a, 0, 2, &none, a + 1, 0, 2, 0, -1));
	CHECK(cublasSgetrsBatched(h, 0, 4, 1, a, 3, NULL, a, 4, &info, 1) == INVALID_VALUE && info == -5);
	CHECK(cublasSgetrsBatched(h, 0, 4, 1, a, 4, NULL, a, 4, NULL, 1) == INVALID_VALUE);
	CHECK(cublasSmatinvBatched(h, 33, a, 33, a, 33, (int *)a, 1) == INVALID_VALUE);
	CHECK(cublasSrotg_v2(h, NULL, &result, &result, &result) == INVALID_VALUE);
	CHECK(cublasUint8gemmBias(h) == NOT_SUPPORTED && cublasUint8gemmBias(h) == NOT_SUPPORTED);
	CHECK(!strcmp(cublasGetStatusName(NOT_SUPPORTED), "CUBLAS_STATUS_NOT_SUPPORTED"));
	CHECK(!cublasSdot_v2(h, N, a, 1, a, 1, &result) && result == N);
	/* Every second of the host's, in every third's place of the device's; and back as the columns of a matrix. */
	for (int i = 0; i < N; i++)
		host[i] = (float)i;
	CHECK(!cublasSetVector(10, 4, host, 2, a, 3) && !cublasGetMatrix(1, 10, 4, a, 3, host + 30, 2));
	for (int i = 0; i < 10; i++)
		CHECK(host[30 + 2 * i] == 2 * (float)i && host[31 + 2 * i] == 31 + 2 * (float)i);
	CHECK(!cublasDestroy_v2(h) && cublasDestroy_v2(NULL) == NOT_INITIALIZED);
	CHECK(!cuCtxSynchronize());
}

/* In a context of its own: what it ends with. */
static CUresult in_context(void (*part)(void *h, float *a))
{
	CUcontext context;
	CUresult result;
	void *h;

	CHECK(!cuCtxCreate_v2(&context, 0, 0) && !cublasCreate_v2(&h));
	part(h, memory(N * N));
	result = cuCtxSynchronize();
	cublasDestroy_v2(h);
	cuCtxDestroy_v2(context);
	return result;
}

static void beyond(void *h, float *a)
{
	cublasSgemm_v2(h, 0, 0, N, N, N, &one, a, N, a + 1, N, &none, a, N);
}

static void beside(void *h, float *a)
{
	cublasSaxpy_v2(h, 2, &one, a, 1, (float *)16, 1);
}

static void backwards(void *h, float *a)
{
	cublasSaxpy_v2(h, N * N, &one, a, 1, a, -2);
}

static void overflowing(void *h, float *a)
{
	cublasSgemm_v2(h, 0, 0, 46341, 46341, 46341, &one, a, 0x7fffffff, a, 0x7fffffff, &one, a, 0x7fffffff);
}

static void wide(void *h, float *a)
{
	int64_t huge = (int64_t)1 << 31;

	cublasSgemm_v2_64(h, 0, 0, huge, huge, huge, &one, a, huge, a, huge, &one, a, huge);
}

static void misaligned(void *h, float *a)
{
	cublasSaxpy_v2(h, 2, &one, (float *)((char *)a + 2), 1, a, 1);
}

static void stray_scalar(void *h, float *a)
{
	CHECK(!cublasSetPointerMode_v2(h, 1));
	cublasSaxpy_v2(h, 2, (float *)64, a, 1, a, 1);
}

static void stray_result(void *h, float *a)
{
	CHECK(!cublasSetPointerMode_v2(h, 1));
	cublasSdot_v2(h, N, a, 1, a, 1, a + N * N);
}

/* Without alpha, what is only read is not even looked at. */
static void unread(void *h, float *a)
{
	cublasSgemm_v2(h, 0, 0, N, N, N, &none, NULL, N, NULL, N, &one, a, N);
}

/* OpenBLAS would copy the vector to a buffer that is smaller, and not look. */
static void long_vector(void *h, float *a)
{
	enum { LONG = 5 << 20 };
	float *x = memory(2 * LONG), *matrix = memory(LONG);

	(void)a;
	cublasSger_v2(h, LONG, 1, &one, x, 2, x, 1, matrix, LONG);
}

/* OpenBLAS would read at the second of a complex vector's elements where there is one only. */
static void far_second(void *h, float *a)
{
	const float i_too[2] = {1, 1};
	enum { FAR = 0x7fffffff };
	double result[2];
	float *y = a + 2 * N;

	CHECK(!cublasCdotc_v2(h, 1, a, FAR, y, FAR, result) && !cublasCdotc_v2(h, 1, a, -FAR, y, 1, result));
	CHECK(((float *)result)[0] == 2 && ((float *)result)[1] == 0);
	CHECK(!cublasZdotu_v2(h, 1, a, 1, y, -FAR, result) && !cublasZdotu_v2(h, 1, a, FAR, y, 1, result));
	for (int trans = 0; trans <= 2; trans++) {
		CHECK(!cublasCgemv_v2(h, trans, 1, 1, i_too, a, 1, a, FAR, i_too, y, -FAR));
		CHECK(!cublasCgemv_v2(h, trans, 1, 1, i_too, a, 1, a, -FAR, i_too, y, FAR));
	}
	CHECK(!cublasChemv_v2(h, 0, 1, i_too, a, 1, a, FAR, i_too, y, FAR));
	CHECK(!cublasChemv_v2(h, 1, 1, i_too, a, 1, a, -FAR, i_too, y, -FAR));
}

/* An array of addresses, of which some are of memory. */
static const uint64_t *addresses(float *first, float *second)
{
	uint64_t both[2] = {(uint64_t)(uintptr_t)first, (uint64_t)(uintptr_t)second}, *array = (uint64_t *)memory(4);

	CHECK(!cuMemcpyHtoD_v2((CUdeviceptr)(uintptr_t)array, both, sizeof(both)));
	return array;
}

static void stray_address(void *h, float *a)
{
	const uint64_t *good = addresses(a, a), *bad = addresses(a, a + N * N - 4);

	cublasSgemmBatched(h, 0, 0, 4, 4, 4, &one, good, 4, good, 4, &none, (void *)(uintptr_t)bad, 4, 2);
}

static void stray_array(void *h, float *a)
{
	cublasSgemmBatched(h, 0, 0, 4, 4, 4, &one, a + N * N - 2, 4, a, 4, &none, a, 4, 2);
}

static void stray_batch(void *h, float *a)
{
	cublasSgemmStridedBatched(h, 0, 0, 4, 4, 4, &one, a, 4, 0, a, 4, 0, &none, a, 4, N * N - 15, 2);
}

static void overflowing_batch(void *h, float *a)
{
	cublasSgemmStridedBatched(h, 0, 0, 4, 4, 4, &one, a, 4, 0, a, 4, 0, &none, a, 4, 1ll << 40, 1 << 24);
}

/* One of the pivots is no row. */
static void stray_pivot(void *h, float *a)
{
	const uint64_t *array = addresses(a, a);
	int pivots[2] = {1, 1 << 20}, *p = (int *)memory(2), info;

	CHECK(!cuMemcpyHtoD_v2((CUdeviceptr)(uintptr_t)p, pivots, sizeof(pivots)));
	cublasSgetrsBatched(h, 0, 2, 1, array, 2, p, (void *)(uintptr_t)array, 2, &info, 1);
}

/* Where alpha is -0 too, what it goes with is not read, nor are the addresses. */
static void unread_batch(void *h, float *a)
{
	static const float minus = -0.f;
	const uint64_t *none_at_all = addresses(NULL, NULL), *good = addresses(a, a + 16);

	cublasSgemmBatched(h, 0, 0, 4, 4, 4, &minus, none_at_all, 4, none_at_all, 4, &one, (void *)(uintptr_t)good, 4,
			   2);
}

static void stray(void)
{
	CHECK(in_context(stray_address) == CUDA_ERROR_ILLEGAL_ADDRESS);
	CHECK(in_context(stray_array) == CUDA_ERROR_ILLEGAL_ADDRESS);
	CHECK(in_context(stray_batch) == CUDA_ERROR_ILLEGAL_ADDRESS);
	CHECK(in_context(overflowing_batch) == CUDA_ERROR_ILLEGAL_ADDRESS);
	CHECK(in_context(stray_pivot) == CUDA_ERROR_ILLEGAL_ADDRESS);
	CHECK(in_context(unread_batch) == CUDA_SUCCESS);
	CHECK(in_context(beyond) == CUDA_ERROR_ILLEGAL_ADDRESS);
	CHECK(in_context(beside) == CUDA_ERROR_ILLEGAL_ADDRESS);
	CHECK(in_context(backwards) == CUDA_ERROR_ILLEGAL_ADDRESS);
	CHECK(in_context(overflowing) == CUDA_ERROR_ILLEGAL_ADDRESS);
	CHECK(in_context(wide) == CUDA_ERROR_NOT_SUPPORTED);
	CHECK(in_context(long_vector) == CUDA_ERROR_NOT_SUPPORTED);
	CHECK(in_context(stray_scalar) == CUDA_ERROR_ILLEGAL_ADDRESS);
	CHECK(in_context(stray_result) == CUDA_ERROR_ILLEGAL_ADDRESS);
	CHECK(in_context(misaligned) == CUDA_ERROR_MISALIGNED_ADDRESS);
	CHECK(in_context(unread) == CUDA_SUCCESS);
	CHECK(in_context(far_second) == CUDA_SUCCESS);
}

/* ---- what no library sends ---- */

static uint64_t random_word(const float *a)
{
	static const uint64_t odd[] = {0,    1,          2,          3,          4,          64,
				       4096, 0x7fffffff, 0x80000000, 1ull << 40, UINT64_MAX, 1ull << 63};

	switch (random_bits() % 4) {
	case 0:
		return (uint64_t)(uintptr_t)a + random_bits() % 64;
	case 1:
		return random_bits() % 8;
	case 2:
		return random_bits();
	default:
		return odd[random_bits() % (sizeof(odd) / sizeof(odd[0]))];
	}
}

/* Words that could be meant so, but for a few. */
static void likely_words(const struct vcuda_blas_routine *r, const float *a, uint64_t *words)
{
	const struct vcuda_blas_family *f = r->family;
	struct vcuda_blas_operand o[VCUDA_BLAS_MAX_OPERANDS];
	unsigned int operands;

	for (unsigned int i = 0; i < f->words; i++)
		words[i] = random_bits() % 2;
	/* Sizes come first among these, and then leading dimensions. */
	for (unsigned int i = 0; i < f->size_count; i++)
		words[f->sizes[i]] = i <= f->size_count / 2u ? random_bits() % 6 : 5 + random_bits() % 64;
	operands = f->operands(r, words, o);
	for (unsigned int i = 0; i < operands; i++)
		words[o[i].word] = (uint64_t)(uintptr_t)a + random_bits() % 64 * 16;
	if (random_bits() % 4 == 0)
		words[random_bits() % f->words] = random_word(a);
	if (random_bits() % 8 == 0)
		words[random_bits() % f->words] = 68 + random_bits() % 10;
}

/* The memory begins with addresses of itself. */
static void nonsense(void *h, float *a)
{
	uint64_t words[64], value[2], addresses[128];

	(void)h;
	for (unsigned int i = 0; i < 128; i++)
		addresses[i] = (uint64_t)(uintptr_t)a + 1024 + random_bits() % 64 * 16;
	CHECK(!cuMemcpyHtoD_v2((CUdeviceptr)(uintptr_t)a, addresses, sizeof(addresses)));
	for (unsigned int i = 0; i < 400; i++) {
		unsigned int function = (unsigned int)(random_bits() % (VCUDA_BLAS_LIMIT + 8));
		unsigned int flags = (unsigned int)random_bits() & 0xfff, count = (unsigned int)random_bits() % 30;
		bool likely = function < VCUDA_BLAS_LIMIT && vcuda_blas_routines[function].name && random_bits() % 8;

		for (unsigned int j = 0; j < 64; j++)
			words[j] = random_word(a);
		if (likely) {
			likely_words(&vcuda_blas_routines[function], a, words);
			count = vcuda_blas_routines[function].family->words;
		}
		if (random_bits() % 2)
			cuVcudaBlas(NULL, function, flags, count, words);
		else
			cuVcudaBlasValue(NULL, function, flags, count, words, value);
	}
	cuVcudaBlas(NULL, UINT32_MAX, 0, 0, words);
	cuVcudaBlas(NULL, 8, 0, 64, words);
}

static void hostile(void)
{
	for (int i = 0; i < 200; i++) {
		CUresult result = in_context(nonsense);

		CHECK(result == CUDA_SUCCESS || result == CUDA_ERROR_INVALID_VALUE ||
		      result == CUDA_ERROR_NOT_SUPPORTED || result == CUDA_ERROR_ILLEGAL_ADDRESS ||
		      result == CUDA_ERROR_MISALIGNED_ADDRESS);
	}
	CHECK(in_context(unread) == CUDA_SUCCESS);
}

/* A stream of another context than the handle's is refused at the call, and leaves no error in either. */
static void stream(void)
{
	float *a = memory(N * N), before[2] = {1, 2}, after[2], sum;
	CUcontext context, other;
	CUstream s;
	void *h;

	CHECK(!cuMemcpyHtoD_v2((CUdeviceptr)a, before, sizeof(before)));
	CHECK(!cuCtxGetCurrent(&context) && !cublasCreate_v2(&h));
	CHECK(!cuCtxCreate_v2(&other, 0, 0) && !cuStreamCreate(&s, CU_STREAM_NON_BLOCKING));
	CHECK(!cuCtxSetCurrent(context) && !cublasSetStream_v2(h, s));
	CHECK(cublasSaxpy_v2(h, 2, &one, a, 1, a, 1));
	CHECK(cublasSdot_v2(h, 2, a, 1, a, 1, &sum));
	CHECK(!cuCtxSetCurrent(other) && !cuCtxSynchronize() && !cuCtxDestroy_v2(other));
	CHECK(!cuCtxSetCurrent(context) && !cuCtxSynchronize());
	CHECK(!cuMemcpyDtoH_v2(after, (CUdeviceptr)a, sizeof(after)) && after[0] == 1 && after[1] == 2);
	CHECK(!cublasSetStream_v2(h, NULL) && !cublasSaxpy_v2(h, 2, &one, a, 1, a, 1));
	CHECK(!cuMemcpyDtoH_v2(after, (CUdeviceptr)a, sizeof(after)) && after[0] == 2 && after[1] == 4);
	CHECK(!cublasDestroy_v2(h));
}

static void queued(void)
{
	float *a = memory(N * N), result;
	void *h;

	CHECK(!cublasCreate_v2(&h));
	for (int i = 0; i < 500; i++) {
		CHECK(!cublasSaxpy_v2(h, N, &one, a, 1, a + N, 1));
		CHECK(!cublasSgemv_v2(h, 0, N, N, &none, a, N, a, 1, &one, a + N, 1));
	}
	CHECK(!cublasSdot_v2(h, 1, a + N, 1, a, 1, &result) && result == 501);
}

int main(int argc, char **argv)
{
	static const struct part parts[] = {{"invalid", invalid}, {"stray", stray},   {"hostile", hostile},
					    {"stream", stream},   {"queued", queued}, {"settings", settings},
					    {NULL, NULL}};

	return run_part(argc, argv, parts);
}
