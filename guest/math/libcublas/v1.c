/* SPDX-License-Identifier: Apache-2.0 */
/* Functions of cublas.h without a form in cublas_v2.h. The others are in blas-v1.c, which is generated. */
#include "v1.h"

#include <ctype.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static _Atomic(struct blas_handle *) handle;
static atomic_int last;

int cublasCreate_v2(struct blas_handle **made);
int cublasDestroy_v2(struct blas_handle *h);
int cublasSetStream_v2(struct blas_handle *h, CUstream stream);
int cublasGetVersion_v2(struct blas_handle *h, int *version);

static int init(void)
{
	struct blas_handle *made;
	int status = BLAS_SUCCESS;

	pthread_mutex_lock(&lock);
	if (!atomic_load(&handle)) {
		status = cublasCreate_v2(&made);
		if (!status)
			atomic_store(&handle, made);
	}
	pthread_mutex_unlock(&lock);
	return status;
}

void *blas_v1(void)
{
	void *h = atomic_load(&handle);

	return h || init() ? h : atomic_load(&handle);
}

void blas_v1_status(int status)
{
	atomic_store(&last, status);
}

static int option(const char *letters, char letter)
{
	const char *found = letter ? strchr(letters, toupper((unsigned char)letter)) : NULL;

	return found ? (int)(found - letters) : -1;
}

int blas_v1_trans(char letter)
{
	return option("NTC", letter);
}

int blas_v1_fill(char letter)
{
	return option("LU", letter);
}

int blas_v1_side(char letter)
{
	return option("LR", letter);
}

int blas_v1_diag(char letter)
{
	return option("NU", letter);
}

/* Once more is no error; nor is it one to leave this out. */
BLAS_API int cublasInit(void)
{
	return init();
}

BLAS_API int cublasShutdown(void)
{
	struct blas_handle *h = atomic_exchange(&handle, NULL);

	return h ? cublasDestroy_v2(h) : BLAS_SUCCESS;
}

BLAS_API int cublasGetError(void)
{
	return atomic_exchange(&last, BLAS_SUCCESS);
}

BLAS_API int cublasGetVersion(int *version)
{
	return blas_v1() ? cublasGetVersion_v2(blas_v1(), version) : BLAS_NOT_INITIALIZED;
}

BLAS_API int cublasSetKernelStream(CUstream stream)
{
	return cublasSetStream_v2(blas_v1(), stream);
}

BLAS_API int cublasAlloc(int n, int element, void **memory)
{
	CUdeviceptr address;
	CUresult result;
	int status = !blas_v1()                          ? BLAS_NOT_INITIALIZED
		     : n <= 0 || element <= 0 || !memory ? BLAS_INVALID_VALUE
							 : blas_enter(((struct blas_handle *)blas_v1())->context);

	if (status)
		return status;
	result = cuMemAlloc_v2(&address, (size_t)n * (size_t)element);
	*memory = result == CUDA_SUCCESS ? (void *)(uintptr_t)address : NULL;
	return result == CUDA_SUCCESS ? BLAS_SUCCESS : BLAS_ALLOC_FAILED;
}

BLAS_API int cublasFree(void *memory)
{
	int status = blas_v1() ? blas_enter(((struct blas_handle *)blas_v1())->context) : BLAS_NOT_INITIALIZED;

	if (status || !memory)
		return status;
	return cuMemFree_v2((CUdeviceptr)(uintptr_t)memory) == CUDA_SUCCESS ? BLAS_SUCCESS : BLAS_INTERNAL_ERROR;
}

/* The function that BLAS calls for an invalid parameter. */
BLAS_API void cublasXerbla(const char *name, int parameter)
{
	fprintf(stderr, "cuBLAS: %s: parameter %d is invalid\n", name, parameter);
}

/* ---- of other parameters than today's ---- */

#define ROTATION(Letter, number, real)                                                                                 \
	int cublas##Letter##rotg_v2(void *h, void *a, void *b, void *c, void *s);                                      \
	BLAS_API void cublas##Letter##rotg(number *a, number b, real *c, number *s)                                    \
	{                                                                                                              \
		blas_v1_status(cublas##Letter##rotg_v2(blas_v1(), a, &b, c, s));                                       \
	}

/* In place. */
#define TRIANGLE(Letter, number)                                                                                       \
	int cublas##Letter##trmm_v2(void *h, int side, int fill, int trans, int diag, int m, int n, const void *alpha, \
				    const void *a, int lda, const void *b, int ldb, void *c, int ldc);                 \
	BLAS_API void cublas##Letter##trmm(char side, char fill, char trans, char diag, int m, int n, number alpha,    \
					   const void *a, int lda, void *b, int ldb)                                   \
	{                                                                                                              \
		blas_v1_status(cublas##Letter##trmm_v2(blas_v1(), blas_v1_side(side), blas_v1_fill(fill),              \
						       blas_v1_trans(trans), blas_v1_diag(diag), m, n, &alpha, a, lda, \
						       b, ldb, b, ldb));                                               \
	}

ROTATION(C, struct blas_complex, float)
ROTATION(Z, struct blas_double_complex, double)
TRIANGLE(S, float)
TRIANGLE(D, double)
TRIANGLE(C, struct blas_complex)
TRIANGLE(Z, struct blas_double_complex)
