/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The meaning of device addresses: one table of ranges sorted by address, for allocations, variables of modules and
 * registered host memory. All calls with the lock held unless they say otherwise.
 */
#ifndef VCUDA_CPU_MEMORY_H
#define VCUDA_CPU_MEMORY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "device/context.h"
#include "kernel.h"
#include "protocol/meter.h"

enum softgpu_range_kind {
	SOFTGPU_ALLOCATION,
	SOFTGPU_VARIABLE,
	SOFTGPU_HOST,
	SOFTGPU_ARRAY_MEMORY, /* reached through its array only */
	SOFTGPU_MAPPED, /* vmm.c */
	SOFTGPU_IMPORTED, /* another process's: ipc.c */
};

struct softgpu_range {
	uint64_t start, size; /* as asked for: the next byte is out of bounds */
	struct CUctx_st *context; /* NULL: a __managed__ variable in host memory */
	enum softgpu_range_kind kind;
	CUdevice device;       /* the device with the memory; no meaning for host memory */
	uint8_t reads, writes; /* bits of the devices whose kernels may; contexts with peer access may as well */
	bool copy_writes;
	struct CUmemPoolHandle_st *pool; /* NULL: none */
	uint64_t lead, taken; /* device memory: bytes of the arena before the start, and in all */
};

/* The range that holds all of [address, address + bytes), or NULL. Valid until the table changes. */
const struct softgpu_range *softgpu_range_find(uint64_t address, uint64_t bytes);

/* The first range that ends behind `address`, or NULL. Valid until the table changes. */
const struct softgpu_range *softgpu_range_behind(uint64_t address);

/* The last range that ends at `address` or before it, or NULL. Valid until the table changes. */
const struct softgpu_range *softgpu_range_before(uint64_t address);

/*
 * Whether copies, memsets and textures may use all of [address, address + bytes). That is memory of one range, or of
 * adjacent mappings (vmm.c), which a program's own growing pool has.
 */
bool softgpu_range_spans(uint64_t address, uint64_t bytes, bool write);

/* The number of bytes from `address` on, at most `bytes`, that spans() allows to read. */
uint64_t softgpu_range_reach(uint64_t address, uint64_t bytes);

/*
 * Whether all of it is contiguous memory, and writable for kernels if `write` is set; several allocations may make it
 * up.
 */
bool softgpu_is_memory(uint64_t address, uint64_t bytes, bool write);

/* Whether any range overlaps. */
bool softgpu_range_overlaps(uint64_t address, uint64_t bytes);

/* Another number after each change of the table. With the lock held or not. */
uint64_t softgpu_memory_version(void);

/* False: no memory. The range overlaps no other. */
bool softgpu_range_add(const struct softgpu_range *range);

/* Removes the range that starts there, which exists. */
void softgpu_range_remove(uint64_t start);

/*
 * Whether registered host memory may lie there: CUDA_SUCCESS if the process itself may read, or write, all of it, which
 * is present from then on. Not with the lock held: it may take long.
 */
CUresult softgpu_host_check(uint64_t start, uint64_t bytes, bool write);

/* Registered memory that starts there, or NULL. `managed`: a __managed__ variable's, which is of no context. */
const struct softgpu_range *softgpu_host_find(uint64_t start, bool managed);

/*
 * Takes it off the table once nothing that was submitted can touch it; false: it is not there. Drops the lock meanwhile.
 */
bool softgpu_host_remove(uint64_t start, bool managed);

/* New device memory. CUDA_ERROR_OUT_OF_MEMORY where the device's memory or the host's is used up. */
CUresult softgpu_memory_alloc(struct CUctx_st *context, uint64_t bytes, enum softgpu_range_kind kind, uint64_t *address);
/* The same for an alignment, a power of two. All others are aligned to SOFTGPU_ALIGNMENT. */
#define SOFTGPU_ALIGNMENT 512
CUresult softgpu_memory_alloc_aligned(struct CUctx_st *context, uint64_t bytes, uint64_t align,
				      enum softgpu_range_kind kind, uint64_t *address);

/* The same for memory of a pool: it counts for the pool's device, and the pool's devices may access it. */
CUresult softgpu_memory_alloc_pooled(struct CUctx_st *context, uint64_t bytes, struct CUmemPoolHandle_st *pool,
				     uint64_t *address);

/* Counts memory of a device outside of the arena, another process's included; false: the device has too little left. */
bool softgpu_memory_count(CUdevice dev, uint64_t bytes);
void softgpu_memory_uncount(CUdevice dev, uint64_t bytes);

/* The meter that is also asked; NULL: none. */
const struct vcuda_meter *softgpu_meter(void);

/* About to have about `bytes` more of the host's memory. False: that is refused. With the lock held or not. */
bool softgpu_host_room(uint64_t bytes);

/* Adds to, or subtracts from, the counted bytes that are in files which other processes may map. */
void softgpu_memory_in_files(int64_t bytes);

/* A device's size as the program sees it, and how much of it the program may still allocate. */
uint64_t softgpu_memory_size(CUdevice dev, uint64_t *left);

/* Whether cuMemFree() frees it: allocations, and memory imported from another process's pool. */
static inline bool softgpu_range_is_freed(const struct softgpu_range *range)
{
	return range->kind == SOFTGPU_ALLOCATION || (range->kind == SOFTGPU_IMPORTED && range->pool);
}

/* The pool's devices that have access are others now. */
void softgpu_memory_pool_access(const struct CUmemPoolHandle_st *pool);

/* The table's ranges, sorted. Valid until the table changes. */
const struct softgpu_range *softgpu_ranges(size_t *count);

/* Kernels may access other memory than before, though the table is the same. */
void softgpu_memory_changed(void);

/* Frees an allocation whose work is done, if it still exists. Drops the lock for slow parts. */
void softgpu_memory_free_now(struct CUctx_st *context, uint64_t address);

/*
 * Gives a variable or an array's memory back, which no work uses any more. Nothing happens if it is not memory of this
 * context any more.
 */
void softgpu_memory_drop(struct CUctx_st *context, uint64_t address);

/* Drops every range of a context whose work is done. */
void softgpu_memory_release(struct CUctx_st *context);

/* Whether kernels of a context may read, or write, the memory of a range (map.c). */
bool softgpu_range_is_open(const struct softgpu_range *range, const struct CUctx_st *context, bool write);

/*
 * Contexts whose kernels may access the same memory have the same number, as long as softgpu_memory_version() is the
 * same.
 */
uint64_t softgpu_context_view(const struct CUctx_st *context);

/*
 * The memory that kernels of a context may access, kept until that changes and while a kernel uses it. NULL: no memory.
 */
struct softgpu_map {
	struct ptx_memory_map map;
	uint64_t version; /* of the memory */
	unsigned int refs;
	struct ptx_range ranges[];
};

struct softgpu_map *softgpu_map_get(struct CUctx_st *context);
void softgpu_map_put(struct softgpu_map *map);

/* Forgets the maps of all contexts without peers: the table has changed. */
void softgpu_maps_drop(void);

/* Whether another process may have the mapped memory at this address, which is in a range of SOFTGPU_MAPPED (vmm.c). */
bool softgpu_mapped_is_shared(uint64_t address);

/* Whether it is memory of the guest process, which its processors use as well. */
bool softgpu_mapped_is_guest(uint64_t address);

/* The first address of such memory, from this one on, whose page has contents; the end of the mapping: none has. */
uint64_t softgpu_mapped_data(uint64_t address);

/*
 * Accesses of kernels beside allocations (stray.c). A GPU maps memory by granules of 2 MiB. So an access beside an
 * allocation reaches the process's other memory in the granule.
 */

/* An allocation, and how far from it an address is. */
struct softgpu_neighbour {
	uint64_t start, size;
	CUdevice device;
	uint64_t distance; /* bytes from the end on, or to the start */
	enum { SOFTGPU_BEHIND, SOFTGPU_BEFORE, SOFTGPU_ACROSS_END, SOFTGPU_ACROSS_START, SOFTGPU_INSIDE } where;
};

/* The allocation that is nearest to [address, address + bytes); false: none within 1 GiB. */
bool softgpu_stray_neighbour(uint64_t address, uint64_t bytes, struct softgpu_neighbour *n);

/*
 * Whether a kernel of a context may access [address, address + bytes), which is in no allocation that it may access, or
 * not wholly: each granule of it has such an allocation of this process, and none of its bytes is in pages of another
 * process, or in memory that the kernel may not access. Pages that no allocation has
 * a part in count as the process's device memory once a store may have been there; too many of them are refused.
 * `*same`: the bytes around a mapped access for which the answer is the same, until the table changes.
 */
struct softgpu_span {
	uint64_t start, end;
};

bool softgpu_stray_is_mapped(const struct CUctx_st *context, uint64_t address, uint64_t bytes, bool write,
			     struct softgpu_span *same);

#endif
