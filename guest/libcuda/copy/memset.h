/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Memsets. All return before the work is done, also for the synchronous functions, as with CUDA. Errors are found
 * before the command is issued. Height 0 or 1: one line, and the pitch means nothing.
 */
#ifndef VCUDA_MEMSET_H
#define VCUDA_MEMSET_H

#include <stdbool.h>

#include "memory/range.h"
#include "guest/client/call.h"
#include "protocol/cuda-abi.h"

/* Sets `to` unless the width is 0. */
CUresult libcuda_memset_check(const CUDA_MEMSET_NODE_PARAMS *params, struct libcuda_operand *to);

/* A memset that was checked and is not empty. `unsure`: the worker's result is waited for. */
CUresult libcuda_memset_issue(const struct call_options *how, const CUDA_MEMSET_NODE_PARAMS *params, bool unsure,
			      CUstream resolved);

/* Checks and issues a memset on a stream as the application names it. Height 0 is an empty memset here. */
CUresult libcuda_memset(const CUDA_MEMSET_NODE_PARAMS *params, CUstream stream);

/* Whether a node with these parameters would run without an error that is known here. Height 0 is an empty memset. */
bool libcuda_memset_is_sound(const CUDA_MEMSET_NODE_PARAMS *params);

#endif
