/* SPDX-License-Identifier: Apache-2.0 */
#ifndef VCUDA_CUDA_RANDOM_H
#define VCUDA_CUDA_RANDOM_H

#include "protocol/backend.h"

/* Random numbers by the host's own cuRAND, which is opened when a guest first asks. */
void backend_random_init(struct vcuda_backend_ops *ops);

/* The context, which is current, ends: its generators give CUDA_ERROR_INVALID_HANDLE from now on. */
void backend_random_forget(CUcontext context);

#endif
