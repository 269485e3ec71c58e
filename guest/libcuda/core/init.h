/* SPDX-License-Identifier: Apache-2.0 */
/* Whether calls can be made, and the host's description of itself. */
#ifndef VCUDA_INIT_H
#define VCUDA_INIT_H

#include <stdatomic.h>
#include <stdbool.h>
#include <string.h>

#include "core/thread.h"
#include "guest/client/session.h"
#include "protocol/cuda-abi.h"
#include "protocol/types.h"

/* The host's answer to the first call. Constant once libcuda_require_init() returns CUDA_SUCCESS. */
extern struct vcuda_host_info libcuda_host;

/* cuInit has succeeded, in this process or its parent. */
extern _Atomic bool libcuda_ready;

/*
 * CUDA_SUCCESS, or why no call may be made: CUDA_ERROR_NOT_INITIALIZED (cuInit comes first, also in a forked child),
 * CUDA_ERROR_NOT_PERMITTED (in a host function), or the error that ended the session.
 */
static inline CUresult libcuda_require_init(void)
{
	if (!atomic_load_explicit(&libcuda_ready, memory_order_acquire) || client_session_forked())
		return CUDA_ERROR_NOT_INITIALIZED;
	if (libcuda_thread()->in_callback)
		return CUDA_ERROR_NOT_PERMITTED;
	return (CUresult)client_session_error();
}

/* The answer to an argument that is no good: CUDA_ERROR_INVALID_VALUE where a call may be made at all. */
static inline CUresult libcuda_invalid_value(void)
{
	CUresult result = libcuda_require_init();

	return result != CUDA_SUCCESS ? result : CUDA_ERROR_INVALID_VALUE;
}

/* The back end is a driver of GPUs, not the software GPU. Each command asks: a comparison of one word. */
static inline bool libcuda_host_is_gpu(void)
{
	return memcmp(libcuda_host.backend, "cpu", sizeof("cpu")) != 0;
}

#endif
