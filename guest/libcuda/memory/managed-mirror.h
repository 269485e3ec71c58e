/* SPDX-License-Identifier: Apache-2.0 */
/*
 * __managed__ variables with a driver that places them itself: NVIDIA's. The driver's memory cannot be the guest's, so
 * the guest has a copy at the same address. The two are made equal where CUDA lets host and device take turns
 * (concurrentManagedAccess is 0). Writes of the program go to the device before each command; writes of kernels come
 * back when the program has waited. In both directions only changed bytes are copied.
 */
#ifndef VCUDA_MANAGED_MIRROR_H
#define VCUDA_MANAGED_MIRROR_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "protocol/cuda-abi.h"

struct libcuda_context;

/* Whether the worker's driver is of that kind. */
bool libcuda_mirror_possible(void);

/*
 * The variable at [address, address + bytes), which belongs to `owner`, gets memory here, with its value, until the
 * owner or the context (NULL: none, a library's) ends. A second call for a variable has no effect. Errors:
 * CUDA_ERROR_NOT_SUPPORTED (logged: the program has something else there), CUDA_ERROR_OUT_OF_MEMORY.
 */
CUresult libcuda_mirror_add(uint64_t address, size_t bytes, const void *owner, struct libcuda_context *context);

/* The variable's range has been taken out of the table. */
void libcuda_mirror_drop(uint64_t address);

#endif
