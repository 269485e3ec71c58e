/* SPDX-License-Identifier: Apache-2.0 */
/* The cuda back end's BLAS, by the host's cuBLAS. Errors are those of the driver. */
#ifndef VCUDA_CUDA_BLAS_H
#define VCUDA_CUDA_BLAS_H

#include "protocol/backend.h"

/* The status codes of cuBLAS and cuBLASLt. */
enum {
	CUBLAS_STATUS_SUCCESS = 0,
	CUBLAS_STATUS_NOT_INITIALIZED = 1,
	CUBLAS_STATUS_ALLOC_FAILED = 3,
	CUBLAS_STATUS_INVALID_VALUE = 7,
	CUBLAS_STATUS_ARCH_MISMATCH = 8,
	CUBLAS_STATUS_NOT_SUPPORTED = 15,
};

/* The driver's error for a status code. */
CUresult backend_blas_result(int status);

/* BLAS by the host's own cuBLAS, which is opened when a guest first asks. */
void backend_blas_init(struct vcuda_backend_ops *ops);

/* Before the current context ends: destroys its unused handles. */
void backend_blas_forget(CUcontext context);

#endif
