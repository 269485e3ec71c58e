/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Memory of cuMemCreate(), in the worker, or, for host memory, in this process. The application's references to a
 * handle are counted, and a handle is found by the address of a mapping. The memory exists until it is neither held nor
 * mapped. Thread-safe.
 */
#ifndef VCUDA_ALLOCATION_H
#define VCUDA_ALLOCATION_H

#include <stdbool.h>

#include "memory/host-memory.h"
#include "protocol/types.h"

/* The number of devices whose access is kept. */
#define LIBCUDA_ACCESS_DEVICES 64

/* The properties that an allocation was made with. */
struct libcuda_allocation {
	CUmemLocation location;
	unsigned int handle_types;
	bool is_imported;
	struct libcuda_host_memory *memory; /* NULL: it is the worker's */
	uint64_t bytes;                     /* 0: only the worker knows */
};

/* A new allocation, which the application holds and which owns `memory`. CUDA_ERROR_OUT_OF_MEMORY: it is released. */
CUresult libcuda_allocation_add(vcuda_allocation allocation, const struct libcuda_allocation *made,
				CUmemGenericAllocationHandle *handle);

/* An allocation that is held or mapped. CUDA_ERROR_INVALID_VALUE: there is none. */
CUresult libcuda_allocation_find(CUmemGenericAllocationHandle handle, struct libcuda_allocation *made);

/* An allocation that is held. The memory stays until libcuda_allocation_end(), even if it is released meanwhile. */
CUresult libcuda_allocation_begin(CUmemGenericAllocationHandle handle, struct libcuda_allocation *made);
void libcuda_allocation_end(CUmemGenericAllocationHandle handle);

CUresult libcuda_allocation_release(CUmemGenericAllocationHandle handle);

/* Whether an allocation of host memory is held but not mapped. */
bool libcuda_allocation_waits(void);

/*
 * Notes a mapping at [start, start + bytes) of an allocation that is held or mapped, or its end. unmap() ends all
 * mappings of the worker's memory that begin in the range, and of host memory the one that begins at `start`.
 */
CUresult libcuda_allocation_map(CUmemGenericAllocationHandle handle, uint64_t start, uint64_t bytes);
void libcuda_allocation_unmap(uint64_t start, uint64_t bytes);
void libcuda_host_mapping_end(uint64_t start);

/* Whether any mapping begins in the range. */
bool libcuda_allocation_is_mapped_in(uint64_t start, uint64_t bytes);

/* The allocation that is mapped around an address is held once more. */
CUresult libcuda_allocation_retain(uint64_t address, CUmemGenericAllocationHandle *handle);

/* Bits (CUmemAllocationHandleType) of the allocation that is mapped around the address; 0: none is. */
unsigned int libcuda_allocation_types_at(uint64_t address);

/* ---- mappings ---- */

struct libcuda_mapping {
	uint64_t start, bytes;
	bool is_host;                            /* of host memory */
	CUdevice device;                         /* the device with the memory; 0: host memory */
	CUmemAccess_flags cpu;                   /* the access of this process */
	uint8_t devices[LIBCUDA_ACCESS_DEVICES]; /* CUmemAccess_flags */
	bool is_ending; /* of host memory: no device has it any more; its pages are still to be released */
};

/* The mapping around the address; the first mapping that begins in [start, end). */
bool libcuda_mapping_at(uint64_t address, struct libcuda_mapping *mapping);
bool libcuda_mapping_next(uint64_t start, uint64_t end, struct libcuda_mapping *mapping);

/* Updates the access and `is_ending` of the mapping with the same begin. */
void libcuda_mapping_set(const struct libcuda_mapping *mapping);

/* Whether [start, start + bytes) has a part of a mapping, but not all of it. */
bool libcuda_mappings_are_cut(uint64_t start, uint64_t bytes);

/* ---- mappings of host memory ---- */

/* The mapping around the address. */
bool libcuda_host_mapping_at(uint64_t address, struct libcuda_mapping *mapping);

/* The first mapping that begins in [start, end). */
bool libcuda_host_mapping_next(uint64_t start, uint64_t end, struct libcuda_mapping *mapping);

/* Whether such mappings are all of [start, start + bytes), none of them in part, and none of them ends. */
bool libcuda_host_mappings_cover(uint64_t start, uint64_t bytes);

/* Whether such mappings have all of [address, address + bytes), and this process can read and write it. */
bool libcuda_host_mappings_are_open(uint64_t address, uint64_t bytes);

/* Whether this process can read a part of the range. */
bool libcuda_host_mappings_are_seen(uint64_t address, uint64_t bytes);

#endif
