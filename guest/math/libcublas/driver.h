/* SPDX-License-Identifier: Apache-2.0 */
/* The entry points of the guest's libcuda.so.1 that the library is made of. */
#ifndef CUBLAS_DRIVER_H
#define CUBLAS_DRIVER_H

#include "protocol/cuda-abi.h"

CUresult cuInit(unsigned int flags);
CUresult cuCtxGetCurrent(CUcontext *context);
CUresult cuCtxSetCurrent(CUcontext context);
CUresult cuDevicePrimaryCtxRetain(CUcontext *context, CUdevice device);
CUresult cuMemAlloc_v2(CUdeviceptr *address, size_t bytes);
CUresult cuMemFree_v2(CUdeviceptr address);
CUresult cuMemcpy2DUnaligned_v2(const CUDA_MEMCPY2D *copy);
CUresult cuMemcpy2DAsync_v2(const CUDA_MEMCPY2D *copy, CUstream stream);

/* guest/libcuda/launch/computation.c */
CUresult cuVcudaBlas(CUstream stream, unsigned int function, unsigned int flags, unsigned int count,
		     const uint64_t *words);
CUresult cuVcudaBlasValue(CUstream stream, unsigned int function, unsigned int flags, unsigned int count,
			  const uint64_t *words, uint64_t *value);

#endif
