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

enum vcuda_range_kind {
	VCUDA_RANGE_DEVICE = 1,     /* cuMemAlloc */
	VCUDA_RANGE_GLOBAL = 2,     /* a module's variable */
	VCUDA_RANGE_PINNED = 4,     /* cuMemHostAlloc */
	VCUDA_RANGE_REGISTERED = 8, /* cuMemHostRegister */
	VCUDA_RANGE_MANAGED = 16,   /* cuMemAllocManaged */
	VCUDA_RANGE_RESERVED = 32,  /* cuMemAddressReserve: only the worker knows what is mapped there */
	VCUDA_RANGE_IMPORTED = 64,  /* cuIpcOpenMemHandle; the flags count how often */
	VCUDA_RANGE_VARIABLE = 128, /* a __managed__ variable: managed memory that belongs to a module or library */
	VCUDA_RANGE_SHADOW =
		256, /* such a one that the driver has placed (managed-mirror.h): to commands it is on the device */
};

#define VCUDA_RANGE_ANY_MANAGED (VCUDA_RANGE_MANAGED | VCUDA_RANGE_VARIABLE | VCUDA_RANGE_SHADOW)

#define VCUDA_RANGE_ON_DEVICE (VCUDA_RANGE_DEVICE | VCUDA_RANGE_GLOBAL | VCUDA_RANGE_RESERVED | VCUDA_RANGE_IMPORTED)
#define VCUDA_RANGE_ON_HOST (VCUDA_RANGE_PINNED | VCUDA_RANGE_REGISTERED | VCUDA_RANGE_MANAGED | VCUDA_RANGE_VARIABLE)

/* What was advised about managed memory: of the whole range, whatever part it was said of last. */
struct vcuda_advice {
	bool read_mostly;
	CUmemLocation preferred, prefetched;
	uint64_t accessed_by; /* a bit a device */
	bool accessed_by_host;
};

struct vcuda_range {
	uint64_t start, bytes; /* as the application asked for it */
	enum vcuda_range_kind kind;
	unsigned int flags;            /* as it was allocated or registered with */
	uint64_t window, window_bytes; /* on the host: the pages around it that the worker maps */
	enum vcuda_window pages;       /* what these are */
	struct vcuda_context *context;
	uint64_t owner; /* id of a variable's module or library */
	uint64_t id;    /* CU_POINTER_ATTRIBUTE_BUFFER_ID; set by add */
	bool sync_memops;
	struct vcuda_advice advice;
};

/* False if memory ran out. A range that is there already under this start is replaced. */
bool vcuda_range_add(const struct vcuda_range *range);

/* The range around an address. */
bool vcuda_range_find(uint64_t address, struct vcuda_range *range);

/* True if a range on the host has pages of the window [window, window + bytes). */
bool vcuda_range_window_overlaps(uint64_t window, uint64_t bytes);

/* Takes out the range that starts at `start`, if its kind is one of `kinds`. */
bool vcuda_range_remove(uint64_t start, unsigned int kinds, struct vcuda_range *range);

/* Takes out one range of the context, or of the owner (whichever is given); false when there is none left. */
bool vcuda_range_remove_next(struct vcuda_context *context, uint64_t owner, struct vcuda_range *range);

bool vcuda_range_set_sync_memops(uint64_t address, bool on);
bool vcuda_range_set_advice(uint64_t address, const struct vcuda_advice *advice);

#endif
