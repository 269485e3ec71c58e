/* SPDX-License-Identifier: Apache-2.0 */
/* The entry points of the guest's libcuda.so.1 that the library is made of, beside those of libcublas. */
#ifndef CUBLASLT_LT_DRIVER_H
#define CUBLASLT_LT_DRIVER_H

#include "protocol/matmul-abi.h"
#include "guest/math/libcublas/status.h"

CUresult cuCtxGetDevice(CUdevice *device);

/* guest/libcuda/launch/computation.c */
CUresult cuVcudaMatmulAsk(const vcuda_matmul_question *question, unsigned int room, unsigned int *count,
			  uint64_t *words);
CUresult cuVcudaMatmul(CUstream stream, const vcuda_matmul *matmul);
CUresult cuVcudaTransform(CUstream stream, const vcuda_transform *transform);

#endif
