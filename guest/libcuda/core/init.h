/* SPDX-License-Identifier: Apache-2.0 */
/* The host's answer to the first call. Constant once libcuda_require_init() returns CUDA_SUCCESS. */
#ifndef VCUDA_INIT_H
#define VCUDA_INIT_H

#include <stdbool.h>
#include <string.h>

#include "protocol/types.h"

extern struct vcuda_host_info libcuda_host;

/* The back end is a driver of GPUs, not the software GPU. Each command asks: a comparison of one word. */
static inline bool libcuda_host_is_gpu(void)
{
	return memcmp(libcuda_host.backend, "cpu", sizeof("cpu")) != 0;
}

#endif
