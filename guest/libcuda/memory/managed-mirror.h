/* SPDX-License-Identifier: Apache-2.0 */
/*
 * __managed__ variables of a driver that places them itself: NVIDIA's. Its memory cannot be the guest's, so that the
 * guest has a copy at the same address, and the two are made equal where CUDA lets host and device take turns
 * (concurrentManagedAccess is 0): what the program wrote goes to the device before each command, what kernels wrote
 * comes back when the program has waited. Only bytes that have changed go over, in both directions.
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
 * owner or the context (NULL: none, a library's) ends. One that is there stays as it is. Errors:
 * CUDA_ERROR_NOT_SUPPORTED (logged: the program has something else there), CUDA_ERROR_OUT_OF_MEMORY.
 */
CUresult libcuda_mirror_add(uint64_t address, size_t bytes, const void *owner, struct libcuda_context *context);

/* Drops a mirror whose range has been taken out of the table. */
void libcuda_mirror_drop(uint64_t address);

#endif
