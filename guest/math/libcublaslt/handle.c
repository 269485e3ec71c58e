/* SPDX-License-Identifier: Apache-2.0 */
/* A handle, and what the library says of itself. */
#include <stdlib.h>

#include "protocol/cuda-functions.h"
#include "lt.h"

/* The one round trip that a handle makes by itself: whether the host has a library that computes. */
static int open_library(void)
{
	vcuda_matmul_question q = {.kind = VCUDA_MATMUL_OPEN};
	unsigned int count;
	uint64_t version;
	CUresult result = cuVcudaMatmulAsk(&q, 1, &count, &version);

	return result == CUDA_ERROR_NOT_SUPPORTED ? BLAS_NOT_INITIALIZED : blas_status(result);
}

BLAS_API int cublasLtCreate(struct lt_handle **handle)
{
	struct lt_handle *h;
	CUcontext context;
	int status;

	if (!handle)
		return BLAS_INVALID_VALUE;
	*handle = NULL;
	status = blas_context(&context);
	if (!status)
		status = open_library();
	if (status)
		return status;
	h = calloc(1, sizeof(*h));
	if (!h)
		return BLAS_ALLOC_FAILED;
	h->context = context;
	*handle = h;
	return BLAS_SUCCESS;
}

/* Queued calls are still executed. */
BLAS_API int cublasLtDestroy(struct lt_handle *h)
{
	if (!h)
		return BLAS_INVALID_VALUE;
	free(h);
	return BLAS_SUCCESS;
}

BLAS_API size_t cublasLtGetVersion(void)
{
	return (size_t)cublasLt_version;
}

/* The release of CUDA that the library is of. */
BLAS_API size_t cublasLtGetCudartVersion(void)
{
	return (size_t)cublasLt_version / 10000 * 1000;
}

BLAS_API int cublasLtGetProperty(int type, int *value)
{
	return blas_property(cublasLt_version, type, value);
}

BLAS_API const char *cublasLtGetStatusName(int status)
{
	return blas_status_name(status);
}

BLAS_API const char *cublasLtGetStatusString(int status)
{
	return blas_status_text(status);
}
