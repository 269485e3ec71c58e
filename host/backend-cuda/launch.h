/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Kernel launches of the cuda back end through graphs of one kernel. Any thread may launch: each entry of the cache
 * has a lock.
 */
#ifndef VCUDA_CUDA_LAUNCH_H
#define VCUDA_CUDA_LAUNCH_H

#include "protocol/backend.h"

/*
 * Replaces cuLaunchKernel() in `ops`, with the same meaning and errors: a kernel that is launched often in a stream
 * gets a graph there, which is kept and takes less time. Call it after the other parts of the back end that replace
 * functions of `ops`.
 */
void backend_launch_init(struct vcuda_backend_ops *ops);

/* Before any context ends: destroys all graphs. Kernels that are still launched get new ones. */
void backend_launch_forget(void);

#endif
