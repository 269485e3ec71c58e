/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Large copies of pageable memory. Threads of this library copy between the application's memory and several staging
 * blocks while the device copies to or from others: one processor copies at a fifth of a GPU's rate.
 */
#ifndef VCUDA_DOUBLE_BUFFER_H
#define VCUDA_DOUBLE_BUFFER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "guest/client/call.h"
#include "protocol/cuda-abi.h"

/*
 * Copies between `host` and device memory on one of the worker's streams, and waits for the end. False: it has not
 * begun, since it is not large or there are no threads or no blocks for it now. The threads leave SIGSEGV and SIGBUS to
 * the application's handlers, which must return. Thread-safe.
 */
bool libcuda_stage_double_buffer(const struct call_options *how, void *host, uint64_t device, size_t bytes,
				 bool to_device, CUstream stream, CUresult *result);

#endif
