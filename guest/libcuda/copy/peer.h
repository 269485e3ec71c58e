/* SPDX-License-Identifier: Apache-2.0 */
/* Copies between contexts. Addresses are unique over all devices, so that such a copy is a copy like others, but for
 * its order. */
#ifndef VCUDA_PEER_H
#define VCUDA_PEER_H

#include <stdbool.h>

#include "protocol/cuda-abi.h"

/*
 * Before a copy between two contexts; NULL: the current one. Only a stream orders an `async` copy; another one comes
 * after all that either context has been given so far, and before what is given from then on, for which
 * libcuda_peer_end() is called afterwards with the copy's result and stream. A stream that captures refuses the copy, as
 * NVIDIA's driver does.
 */
CUresult libcuda_peer_begin(CUcontext to, CUcontext from, CUstream stream, bool async);
CUresult libcuda_peer_end(CUcontext to, CUcontext from, CUstream stream, CUresult result);

#endif
