/* SPDX-License-Identifier: Apache-2.0 */
#ifndef VCUDA_CUDA_BLAS_H
#define VCUDA_CUDA_BLAS_H

#include "backend.h"

/* BLAS by the host's own cuBLAS, which is opened when a guest first asks. `driver`: the driver's library. */
void vcuda_cuda_blas_init(struct vcuda_backend_ops *ops, void *driver);

/* The context, which is current, ends: the handles in it that nobody uses go. */
void vcuda_cuda_blas_forget(CUcontext context);

#endif
