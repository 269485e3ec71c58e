/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Large copies of pageable memory. Threads of this library copy between the application's memory and several staging
 * blocks while the device copies to or from others: one processor copies at a fifth of a GPU's rate.
 */
#ifndef VCUDA_STAGE_TURNS_H
#define VCUDA_STAGE_TURNS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "cuda-abi.h"

/* Whether a copy of so many bytes is one for vcuda_stage_turns(). */
bool vcuda_stage_is_large(size_t bytes);

/*
 * Copies between `host` and device memory on one of the worker's streams, and waits for the end. Thread-safe.
 * CUDA_ERROR_NOT_SUPPORTED: it has not begun, since there are no threads or the worker cannot do this.
 */
CUresult vcuda_stage_turns(void *host, uint64_t device, size_t bytes, bool to_device, CUstream stream);

#endif
