/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The file descriptor of exported device memory contains the worker's handle, because device memory has no file in a
 * guest. The host keeps the memory as long as a process of the guest has the descriptor (transport.h). With an older
 * host or guest driver the descriptor is a small sealed file, and the memory ends with the process that exported it.
 * The descriptor of host memory is the memory's own file (host-memory.h).
 */
#ifndef VCUDA_SHAREABLE_H
#define VCUDA_SHAREABLE_H

#include <stdbool.h>

#include "protocol/cuda-abi.h"

/* Whether that is how it is to be sent. If not, says that nothing else is there. */
bool libcuda_shareable_type(CUmemAllocationHandleType type);

/* Puts a new descriptor for a handle at *(int *)to: CUDA_ERROR_OUT_OF_MEMORY if none can be made, which the log
 * explains. */
CUresult libcuda_shareable_give(const CUipcMemHandle *handle, void *to);

/* The handle behind a descriptor; false: there is none. */
bool libcuda_shareable_read(int fd, CUipcMemHandle *handle);

#endif
