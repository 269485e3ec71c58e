/* SPDX-License-Identifier: Apache-2.0 */
/* The entry points of the guest's libcuda.so.1 that the library is made of. */
#ifndef CURAND_DRIVER_H
#define CURAND_DRIVER_H

#include "protocol/cuda-abi.h"
#include "protocol/types.h"

CUresult cuInit(unsigned int flags);
CUresult cuCtxGetCurrent(CUcontext *context);
CUresult cuCtxSetCurrent(CUcontext context);
CUresult cuDevicePrimaryCtxRetain(CUcontext *context, CUdevice device);
CUresult cuMemAlloc_v2(CUdeviceptr *address, size_t bytes);
CUresult cuMemFree_v2(CUdeviceptr address);
CUresult cuMemcpyHtoD_v2(CUdeviceptr to, const void *from, size_t bytes);

/* guest/libcuda/launch/computation.c */
CUresult cuVcudaRandomCreate(vcuda_generator *generator, unsigned int type);
CUresult cuVcudaRandomDestroy(vcuda_generator generator);
CUresult cuVcudaRandomScrambles(unsigned int bits, unsigned int first, unsigned int room, uint64_t *words);
CUresult cuVcudaRandom(CUstream stream, vcuda_generator generator, const vcuda_random *random);

#endif
