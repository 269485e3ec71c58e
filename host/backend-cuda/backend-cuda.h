/* SPDX-License-Identifier: Apache-2.0 */
/* The cuda back end: NVIDIA's driver of the host, found at run time. The table of operations is static. */
#ifndef VCUDA_BACKEND_CUDA_H
#define VCUDA_BACKEND_CUDA_H

#include <stddef.h>

#include "protocol/backend.h"
#include "protocol/meter.h"

/*
 * Opens the driver's library. Returns NULL with a sentence in `why` (ending without a full stop) if it cannot be used.
 * *host: in a guest of virtio-cuda that library is the guest's, and this function, once the library is initialised,
 * describes its host; else NULL. `meter` is asked for all device memory that calls allocate.
 */
const struct vcuda_backend_ops *backend_cuda(CUresult (**host)(vcuda_host_info *info), const struct vcuda_meter *meter,
					     char *why, size_t size);

#endif
