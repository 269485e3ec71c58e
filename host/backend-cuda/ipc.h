/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Memory, events and pools of several processes. The driver's own handles open in whatever process of the host knows or
 * guesses them, so no guest is ever given one, nor is one of a guest's given to the driver: a guest has handles of
 * common/share.h, behind which the workers of that guest alone get the driver's.
 */
#ifndef VCUDA_CUDA_IPC_H
#define VCUDA_CUDA_IPC_H

#include "protocol/backend.h"

/* Puts that between the worker and the driver's functions in `ops`, which stay NULL where the driver lacks them. */
void backend_share(struct vcuda_backend_ops *ops);

#endif
