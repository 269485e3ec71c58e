/* SPDX-License-Identifier: Apache-2.0 */
/*
 * States of cuBLAS and cuBLASLt, and the context of a call. The numbers are NVIDIA's cublasStatus_t. An int that these
 * functions return is such a number. The current context is the calling thread's; the functions have no other state.
 */
#ifndef CUBLAS_STATUS_H
#define CUBLAS_STATUS_H

#include <stdbool.h>
#include <stddef.h>

#include "protocol/cuda-abi.h"

#define BLAS_API __attribute__((visibility("default")))

enum blas_status {
	BLAS_SUCCESS = 0,
	BLAS_NOT_INITIALIZED = 1,
	BLAS_ALLOC_FAILED = 3,
	BLAS_INVALID_VALUE = 7,
	BLAS_ARCH_MISMATCH = 8,
	BLAS_MAPPING_ERROR = 11,
	BLAS_EXECUTION_FAILED = 13,
	BLAS_INTERNAL_ERROR = 14,
	BLAS_NOT_SUPPORTED = 15,
	BLAS_LICENSE_ERROR = 16,
};

const char *blas_status_name(int status);
const char *blas_status_text(int status);

/* The status for an error of the driver. */
int blas_status(CUresult result);

/* The calling thread's context, which becomes device 0's first one where it has none. */
int blas_context(CUcontext *context);

/* Makes the context current if the calling thread has none. */
int blas_enter(CUcontext context);

/* A part of a library's version, for cublasGetProperty() and similar functions. */
int blas_property(int version, int type, int *value);

#endif
