/* SPDX-License-Identifier: Apache-2.0 */
#ifndef VCUDA_CUDA_MATMUL_H
#define VCUDA_CUDA_MATMUL_H

#include "protocol/backend.h"

/* Products by the host's own cuBLASLt, which is opened when a guest first asks. */
void backend_matmul_init(struct vcuda_backend_ops *ops);

/* The context, which is current, ends: its handles that nobody uses go. */
void backend_matmul_forget(CUcontext context);

#endif
