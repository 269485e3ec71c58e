/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Address space that guest and worker reserve for each other: for memory that both share, and for the memory of the
 * worker's devices. So no mapping of this process ever has a device pointer's value. Functions return 0 or -errno;
 * thread-safe.
 */
#ifndef VCUDA_ARENA_H
#define VCUDA_ARENA_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/init.h"
#include "protocol/types.h"

/* Reserves the ranges that the worker named. A failure is logged: then there is no address space for pinned memory. */
void libcuda_arena_reserve(const vcuda_host_info *host);

/* `bytes` (page aligned) of reserved, unmapped address space. */
int libcuda_arena_take(size_t bytes, void **address);
void libcuda_arena_give(void *address, size_t bytes);

/* True if the address can be a device's. */
static inline bool libcuda_arena_is_device(uint64_t address)
{
	for (uint32_t i = 0; i < libcuda_host.range_count; i++)
		if (address - libcuda_host.ranges[i].start < libcuda_host.ranges[i].length)
			return true;
	return false;
}

/* True if [start, end) is such address space and reserved, so that the program has no mapping there. */
bool libcuda_arena_is_reserved(uint64_t start, uint64_t end);

#endif
