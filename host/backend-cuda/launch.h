/* SPDX-License-Identifier: Apache-2.0 */
#ifndef VCUDA_CUDA_LAUNCH_H
#define VCUDA_CUDA_LAUNCH_H

#include "protocol/backend.h"

/*
 * What is launched often in a stream has a graph of its own there, which is kept: cuLaunchKernel(), with its meaning
 * and errors, in less time. After the other parts of the back end that replace functions of `ops`.
 */
void backend_launch_init(struct vcuda_backend_ops *ops);

/* Before a context ends, whichever that is: all graphs go, and come again where launches go on. */
void backend_launch_forget(void);

#endif
