/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the application sends to another process as a file descriptor is a small sealed file that holds the workers'
 * handle: host memory has no descriptors in a guest.
 */
#ifndef VCUDA_SHAREABLE_H
#define VCUDA_SHAREABLE_H

#include <stdbool.h>

#include "cuda-abi.h"

/* Whether that is how it is to be sent. If not, says that nothing else is there. */
bool vcuda_shareable_type(CUmemAllocationHandleType type);

/* A new descriptor for a handle, -1: none; and the handle behind a descriptor, false: there is none. */
int vcuda_shareable_file(const CUipcMemHandle *handle);
bool vcuda_shareable_read(int fd, CUipcMemHandle *handle);

#endif
