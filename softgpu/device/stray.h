/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Accesses of kernels beside allocations. A GPU maps memory by granules of 2 MiB, and so an access beside an allocation
 * reaches whatever else of the process is in the granule. With the lock held.
 */
#ifndef VCUDA_CPU_STRAY_H
#define VCUDA_CPU_STRAY_H

#include <stdbool.h>
#include <stdint.h>

/* An allocation, and how far from it an address is. */
struct softgpu_neighbour {
	uint64_t start, size;
	uint64_t distance; /* bytes from the end on, or to the start */
	enum { SOFTGPU_BEHIND, SOFTGPU_BEFORE, SOFTGPU_ACROSS_END, SOFTGPU_ACROSS_START, SOFTGPU_INSIDE } where;
};

/* The allocation that is nearest to [address, address + bytes); false: none within 1 GiB. */
bool softgpu_stray_neighbour(uint64_t address, uint64_t bytes, struct softgpu_neighbour *n);

/*
 * Whether a kernel may access [address, address + bytes), which is in no allocation or not wholly: each granule of it
 * has an allocation of this process, and none of its bytes is in pages of another process. Pages that no allocation has
 * a part in count as the process's device memory once a store may have been there; too many of them are refused.
 */
bool softgpu_stray_is_mapped(uint64_t address, uint64_t bytes, bool write);

#endif
