/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The interval table: every range of memory that this library handed out or registered, by address. All pointer
 * questions are answered from it. Ranges do not overlap. Thread-safe; what is found is copied out.
 */
#ifndef VCUDA_RANGE_H
#define VCUDA_RANGE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/context.h"
#include "guest/client/transport.h"

enum libcuda_range_kind {
	LIBCUDA_RANGE_DEVICE = 1,     /* cuMemAlloc */
	LIBCUDA_RANGE_GLOBAL = 2,     /* a module's variable */
	LIBCUDA_RANGE_PINNED = 4,     /* cuMemHostAlloc */
	LIBCUDA_RANGE_REGISTERED = 8, /* cuMemHostRegister */
	LIBCUDA_RANGE_MANAGED = 16,   /* cuMemAllocManaged */
	LIBCUDA_RANGE_RESERVED = 32,  /* cuMemAddressReserve: only the worker knows what is mapped there */
	LIBCUDA_RANGE_IMPORTED = 64,  /* cuIpcOpenMemHandle; the flags count how often */
	LIBCUDA_RANGE_VARIABLE = 128, /* a __managed__ variable: managed memory that belongs to a module or library */
	LIBCUDA_RANGE_POOLED = 512,   /* of a pool in host memory (host-pool.h), which `owner` is */
	LIBCUDA_RANGE_MIRROR =
		256, /* such a one that the driver has placed (managed-mirror.h): to commands it is on the device */
};

#define LIBCUDA_RANGE_ANY_MANAGED (LIBCUDA_RANGE_MANAGED | LIBCUDA_RANGE_VARIABLE | LIBCUDA_RANGE_MIRROR)

#define LIBCUDA_RANGE_ON_DEVICE                                                                                        \
	(LIBCUDA_RANGE_DEVICE | LIBCUDA_RANGE_GLOBAL | LIBCUDA_RANGE_RESERVED | LIBCUDA_RANGE_IMPORTED)
#define LIBCUDA_RANGE_ON_HOST                                                                                          \
	(LIBCUDA_RANGE_PINNED | LIBCUDA_RANGE_REGISTERED | LIBCUDA_RANGE_MANAGED | LIBCUDA_RANGE_VARIABLE |            \
	 LIBCUDA_RANGE_POOLED)

/* The advice about managed memory. The last advice about any part counts for the whole range. */
struct libcuda_advice {
	bool read_mostly;
	CUmemLocation preferred, prefetched;
	uint64_t accessed_by; /* a bit a device */
	bool accessed_by_host;
};

struct libcuda_range {
	uint64_t start, bytes; /* bytes that the application asked for */
	enum libcuda_range_kind kind;
	unsigned int flags;                /* the flags of the allocation or registration */
	uint64_t mapping, mapping_bytes;   /* on the host: the pages around it that the worker maps */
	enum client_mapping_release pages; /* kind of the pages */
	struct libcuda_context *context;
	uint64_t owner; /* of a variable: id of its module or library; of device memory: its pool, where that is known */
	CUdevice pool_device; /* the device of the pool, if POOLED */
	uint64_t id;    /* CU_POINTER_ATTRIBUTE_BUFFER_ID; set by add */
	bool sync_memops;
	bool stream_ordered; /* device memory of a pool, also of one that is not known, or of a graph */
	struct libcuda_advice advice;
};

/* False if memory ran out. A range that is there already under this start is replaced. */
bool libcuda_range_add(const struct libcuda_range *range);

/* The range around an address. */
bool libcuda_range_find(uint64_t address, struct libcuda_range *range);

/* Host memory that a call is about to add to the table. */
struct libcuda_claim {
	uint64_t start, bytes;
	struct libcuda_claim *next;
};

/*
 * Claims memory until unclaim(), which follows the range's add(). False: another claim or a range on the host has a
 * part of it; `pages`: a part of its pages.
 */
bool libcuda_range_claim(struct libcuda_claim *claim, bool pages);
void libcuda_range_unclaim(struct libcuda_claim *claim);

/* Takes out the range that starts at `start`, if its kind is one of `kinds`. */
bool libcuda_range_remove(uint64_t start, unsigned int kinds, struct libcuda_range *range);

/* Takes out one range of the context, or of the owner (whichever is given); false when there is none left. */
bool libcuda_range_remove_next(struct libcuda_context *context, uint64_t owner, struct libcuda_range *range);

/* ---- the operands of copies and memsets ---- */

/* The location of an operand according to the application. */
enum libcuda_side { LIBCUDA_SIDE_DEVICE, LIBCUDA_SIDE_HOST, LIBCUDA_SIDE_ANY };

enum libcuda_memory_kind {
	LIBCUDA_MEMORY_DEVICE,
	LIBCUDA_MEMORY_MAPPED,   /* host memory that the worker maps */
	LIBCUDA_MEMORY_PAGEABLE, /* other host memory */
};

struct libcuda_operand {
	enum libcuda_memory_kind kind;
	bool unsure; /* a device address outside of the table: only the worker knows whether it is valid */
	bool seen;   /* of the kind DEVICE, but the process can read some of it: synchronous calls wait */
};

/*
 * The kind of memory of the operand [address, address + bytes). As with NVIDIA's driver, an operand that the application
 * calls host memory may be on the device. CUDA_ERROR_INVALID_VALUE: the operand is no memory of the device's although
 * the application says so, or exceeds its allocation.
 */
CUresult libcuda_operand_find(uint64_t address, size_t bytes, enum libcuda_side side, struct libcuda_operand *operand);

struct libcuda_place {
	uint64_t address;
	enum libcuda_side side;
};

/* libcuda_operand_find() for both ends of a copy. After an error `from` may not be set. */
CUresult libcuda_operands_find(struct libcuda_place dst, struct libcuda_place src, size_t bytes,
			       struct libcuda_operand *to, struct libcuda_operand *from);

bool libcuda_range_set_sync_memops(uint64_t address, bool on);
bool libcuda_range_set_advice(uint64_t address, const struct libcuda_advice *advice);

#endif
