/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Mappings of host memory in reservations. The worker maps the same pages at the same address.
 *
 * Where the back end has places for such memory in its own address space (the software GPU: VCUDA_FEATURE_PLACES), it
 * can be mapped in any reservation, beside device memory. Else it can be mapped in reservations in the arena only,
 * which have nothing else: those that are made while host memory waits to be mapped
 * (libcuda_host_reservation_is_due()).
 *
 * Thread-safe.
 */
#ifndef VCUDA_MAPPED_HOST_H
#define VCUDA_MAPPED_HOST_H

#include <stdbool.h>

#include "memory/allocation.h"
#include "memory/range.h"

/* A reservation in the arena. */
static inline bool libcuda_is_host_reservation(const struct libcuda_range *r)
{
	return r->kind == LIBCUDA_RANGE_RESERVED && r->mapping_bytes;
}

/* Whether the next reservation has to be one in the arena. */
bool libcuda_host_reservation_is_due(void);

/* Address space for r->bytes. CUDA_ERROR_INVALID_VALUE: size or alignment are not allowed. */
CUresult libcuda_host_reserve(struct libcuda_range *r, size_t alignment);
void libcuda_host_unreserve(const struct libcuda_range *r);

/*
 * Ends the reservation of exactly [start, start + bytes), in the arena or not, and takes it out of the table.
 * CUDA_ERROR_INVALID_VALUE: there is none, or something is mapped there.
 */
CUresult libcuda_host_free_addresses(uint64_t start, uint64_t bytes);

/*
 * Maps all of the memory behind a handle in the reservation, which has all of [start, start + bytes) if it is still
 * there. Neither this process nor a device can access it yet.
 */
CUresult libcuda_host_map(const struct libcuda_range *r, uint64_t start, uint64_t bytes,
			  CUmemGenericAllocationHandle handle, const struct libcuda_host_memory *memory);

/*
 * Ends all mappings that begin in [start, start + bytes) of the reservation, which they fill: whole ones, of host
 * memory or not. After an error those that the host did not let go of are still there, and keep the reservation; the
 * same call can be made again.
 */
CUresult libcuda_host_unmap(const struct libcuda_range *r, uint64_t start, uint64_t bytes);

/*
 * The access of this process to the mappings that begin in there, one after the other. CUDA_ERROR_NOT_SUPPORTED: one is
 * of device memory; those before it have their access.
 */
CUresult libcuda_host_set_access(uint64_t start, uint64_t bytes, CUmemAccess_flags flags);

/* The access of a device in the arena, to whole mappings, which the function checks. */
CUresult libcuda_host_set_device(uint64_t start, uint64_t bytes, CUdevice device, CUmemAccess_flags flags);

/*
 * How many bytes from the address on one command may name. In the arena each mapping is a registration of its own,
 * beyond whose end NVIDIA's driver does not copy or fill; elsewhere, all of `bytes`.
 */
size_t libcuda_host_piece(uint64_t address, size_t bytes);

#endif
