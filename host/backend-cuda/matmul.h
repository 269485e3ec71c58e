/* SPDX-License-Identifier: Apache-2.0 */
/* The cuda back end's matrix products, by the host's cuBLASLt. */
#ifndef VCUDA_CUDA_MATMUL_H
#define VCUDA_CUDA_MATMUL_H

#include "protocol/backend.h"

/* Products by the host's own cuBLASLt, which is opened when a guest first asks. */
void backend_matmul_init(struct vcuda_backend_ops *ops);

/* Before the current context ends: destroys its unused handles. */
void backend_matmul_forget(CUcontext context);

#endif
