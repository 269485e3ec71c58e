/* SPDX-License-Identifier: Apache-2.0 */
/* Copies between contexts. Addresses are unique over all devices, so such a copy differs from others only in its order.
 */
#ifndef VCUDA_PEER_H
#define VCUDA_PEER_H

#include <stdbool.h>

#include "protocol/cuda-abi.h"

/*
 * Called before and after a copy between two contexts; NULL: the current one. Only its stream orders an `async` copy. A
 * synchronous copy follows all work that either context has been given so far, and precedes all later work.
 * libcuda_peer_end() gets the copy's result and stream. A stream that captures refuses the copy, as NVIDIA's driver
 * does.
 */
CUresult libcuda_peer_begin(CUcontext to, CUcontext from, CUstream stream, bool async);
CUresult libcuda_peer_end(CUcontext to, CUcontext from, CUstream stream, CUresult result);

#endif
