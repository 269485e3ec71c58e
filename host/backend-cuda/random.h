/* SPDX-License-Identifier: Apache-2.0 */
/* The cuda back end's random numbers, by the host's cuRAND. */
#ifndef VCUDA_CUDA_RANDOM_H
#define VCUDA_CUDA_RANDOM_H

#include "protocol/backend.h"

/* Random numbers by the host's own cuRAND, which is opened when a guest first asks. */
void backend_random_init(struct vcuda_backend_ops *ops);

/* Before the current context ends: its generators return CUDA_ERROR_INVALID_HANDLE from now on. */
void backend_random_forget(CUcontext context);

#endif
