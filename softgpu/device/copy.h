/* SPDX-License-Identifier: Apache-2.0 */
/* Whether a copy may touch memory: `bytes` from an address on. The caller holds softgpu_lock() (schedule.h). */
#ifndef VCUDA_CPU_COPY_H
#define VCUDA_CPU_COPY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* A device address: allocated, or registered host memory. */
bool softgpu_copy_device_side(uint64_t address, size_t bytes, bool write);

/* A host address: memory of the process is the caller's matter, device memory has to be allocated. */
bool softgpu_copy_host_side(uint64_t address, size_t bytes, bool write);

#endif
