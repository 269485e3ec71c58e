/* SPDX-License-Identifier: Apache-2.0 */
#ifndef VCUDA_CUDA_BLAS_H
#define VCUDA_CUDA_BLAS_H

#include "protocol/backend.h"

/* What cuBLAS and cuBLASLt return: their numbers. */
enum {
	CUBLAS_STATUS_SUCCESS = 0,
	CUBLAS_STATUS_NOT_INITIALIZED = 1,
	CUBLAS_STATUS_ALLOC_FAILED = 3,
	CUBLAS_STATUS_INVALID_VALUE = 7,
	CUBLAS_STATUS_ARCH_MISMATCH = 8,
	CUBLAS_STATUS_NOT_SUPPORTED = 15,
};

/* The driver's error for one. */
CUresult backend_blas_result(int status);

/* BLAS by the host's own cuBLAS, which is opened when a guest first asks. */
void backend_blas_init(struct vcuda_backend_ops *ops);

/* The context, which is current, ends: the handles in it that nobody uses go. */
void backend_blas_forget(CUcontext context);

#endif
