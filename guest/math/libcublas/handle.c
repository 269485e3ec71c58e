/* SPDX-License-Identifier: Apache-2.0 */
/* A handle and what is set in it. */
#include "handle.h"

#include <stdlib.h>

#define WORKSPACE_ALIGNMENT 256

/* The one round trip that a handle makes by itself: whether the host has a library that computes. */
static int open_library(void)
{
	uint64_t value[VCUDA_BLAS_VALUE_WORDS], nothing = 0;
	CUresult result = cuVcudaBlasValue(NULL, VCUDA_BLAS_OPEN, 0, 0, &nothing, value);

	return result == CUDA_ERROR_NOT_SUPPORTED ? BLAS_NOT_INITIALIZED : blas_status(result);
}

BLAS_API int cublasCreate_v2(struct blas_handle **handle)
{
	struct blas_handle *h;
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
BLAS_API int cublasDestroy_v2(struct blas_handle *h)
{
	if (!h)
		return BLAS_NOT_INITIALIZED;
	free(h);
	return BLAS_SUCCESS;
}

BLAS_API int cublasGetVersion_v2(struct blas_handle *h, int *version)
{
	if (!version)
		return BLAS_INVALID_VALUE;
	*version = cublas_version;
	return BLAS_SUCCESS;
}

BLAS_API const char *cublasGetStatusName(int status)
{
	return blas_status_name(status);
}

BLAS_API const char *cublasGetStatusString(int status)
{
	return blas_status_text(status);
}

BLAS_API int cublasGetProperty(int type, int *value)
{
	return blas_property(cublas_version, type, value);
}

/* The release of CUDA that the library is of. */
BLAS_API size_t cublasGetCudartVersion(void)
{
	return (size_t)cublas_version / 10000 * 1000;
}

BLAS_API int cublasSetStream_v2(struct blas_handle *h, CUstream stream)
{
	if (!h)
		return BLAS_NOT_INITIALIZED;
	h->stream = stream;
	h->workspace = NULL;
	h->workspace_bytes = 0;
	return BLAS_SUCCESS;
}

BLAS_API int cublasSetWorkspace_v2(struct blas_handle *h, void *workspace, size_t bytes)
{
	if (!h)
		return BLAS_NOT_INITIALIZED;
	if ((uintptr_t)workspace % WORKSPACE_ALIGNMENT)
		return BLAS_INVALID_VALUE;
	h->workspace = workspace;
	h->workspace_bytes = bytes;
	return BLAS_SUCCESS;
}

/* TYPE must be of a value of the handle, and VALID a condition on `value`. */
#define SETTING(set, get, type, member, valid)                                                                         \
	BLAS_API int set(struct blas_handle *h, type value)                                                            \
	{                                                                                                              \
		if (!h)                                                                                                \
			return BLAS_NOT_INITIALIZED;                                                                   \
		if (!(valid))                                                                                          \
			return BLAS_INVALID_VALUE;                                                                     \
		h->member = value;                                                                                     \
		return BLAS_SUCCESS;                                                                                   \
	}                                                                                                              \
	GETTING(get, type, member)

#define GETTING(get, type, member)                                                                                     \
	BLAS_API int get(struct blas_handle *h, type *value)                                                           \
	{                                                                                                              \
		if (!h)                                                                                                \
			return BLAS_NOT_INITIALIZED;                                                                   \
		if (!value)                                                                                            \
			return BLAS_INVALID_VALUE;                                                                     \
		*value = h->member;                                                                                    \
		return BLAS_SUCCESS;                                                                                   \
	}

/* The modes of today and of CUDA 11; 16 may be added to any. */
static bool is_math_mode(int mode)
{
	int base = mode & ~16;

	return (base >= 0 && base <= 4) || base == 8;
}

/* clang-format off */
GETTING(cublasGetStream_v2, CUstream, stream)
SETTING(cublasSetPointerMode_v2, cublasGetPointerMode_v2, int, pointer_mode, value == 0 || value == 1)
SETTING(cublasSetAtomicsMode, cublasGetAtomicsMode, int, atomics_mode, value == 0 || value == 1)
SETTING(cublasSetMathMode, cublasGetMathMode, int, math_mode, is_math_mode(value))
/* Neither is of consequence here: NVIDIA's cuSOLVER sets them, and does not start without. */
SETTING(cublasSetEnvironmentMode, cublasGetEnvironmentMode, int, environment_mode, value == 0 || value == 1)
SETTING(cublasSetEmulationStrategy, cublasGetEmulationStrategy, int, emulation_strategy, value >= 0 && value <= 2)
SETTING(cublasSetSmCountTarget, cublasGetSmCountTarget, int, sm_count, value >= 0)
/* clang-format on */
