/* SPDX-License-Identifier: Apache-2.0 */
#ifndef VCUDA_MEMSET_H
#define VCUDA_MEMSET_H

#include <stdbool.h>

#include "protocol/cuda-abi.h"

/* On a stream as the application names it. */
CUresult vcuda_memset(const CUDA_MEMSET_NODE_PARAMS *params, CUstream stream);

/* Whether nothing is wrong with it that is known here. */
bool vcuda_memset_is_sound(const CUDA_MEMSET_NODE_PARAMS *params);

#endif
