/* SPDX-License-Identifier: Apache-2.0 */
/* Functions of the application that run in stream order, on a thread of this library's. */
#ifndef VCUDA_CALLBACK_H
#define VCUDA_CALLBACK_H

#include "guest/client/call.h"
#include "protocol/cuda-abi.h"

/* Calls `function(user)` when the resolved stream has got there. */
CUresult libcuda_callback_launch(const struct call_options *how, CUstream resolved, CUhostFn function, void *user);

#endif
