/* SPDX-License-Identifier: Apache-2.0 */
/* The cost of the driver's objects in device memory: one table, by the object's handle or address. Thread-safe. */
#ifndef VCUDA_CUDA_CHARGE_H
#define VCUDA_CUDA_CHARGE_H

#include <stdbool.h>
#include <stdint.h>

#include "protocol/backend.h"
#include "protocol/meter.h"

enum backend_charge_kind {
	BACKEND_ADDRESS, /* memory that was allocated, or opened, there */
	BACKEND_ARRAY,
	BACKEND_MIPMAPPED,
	BACKEND_MODULE,
	BACKEND_LIBRARY,
	BACKEND_CONTEXT,
	BACKEND_MEMORY,  /* of cuMemCreate() */
	BACKEND_MAPPING, /* such memory, mapped at an address */
	BACKEND_POOLED,  /* a pool's allocation, at an address */
};

struct backend_charge {
	struct backend_charge *next;
	enum backend_charge_kind kind;
	unsigned int gpu;
	uint64_t object;
	uint64_t bytes;    /* taken from the meter */
	CUcontext context; /* ends with it; NULL: with no context */
	/* BACKEND_MEMORY: `handles` and mappings of it, and its other names; how often the program has the handle. */
	unsigned int refs, handles;
	uint64_t live; /* BACKEND_POOLED: its bytes, which the pool has taken; BACKEND_MEMORY: its size */
	void *of;      /* BACKEND_MAPPING: the memory's charge; BACKEND_MEMORY: of the allocation that it is another
			  name of, or NULL; BACKEND_POOLED: the pool */
};

/* `reclaim` frees what the program does not use, where the meter refuses; then it is asked once more. */
void backend_charge_init(const struct vcuda_meter *meter, void (*reclaim)(void));

bool backend_charge_take(unsigned int gpu, uint64_t bytes);
void backend_charge_give(unsigned int gpu, uint64_t bytes);

/* A charge that is in no table yet, with so many bytes taken. NULL: refused, or no memory. */
struct backend_charge *backend_charge_new(enum backend_charge_kind kind, unsigned int gpu, uint64_t bytes);

/* Sets the charge to `bytes` in all. False: the meter refuses. */
bool backend_charge_resize(struct backend_charge *charge, uint64_t bytes);

/* Gives the bytes of a charge that is in no table back, and frees it. */
void backend_charge_free(struct backend_charge *charge);

void backend_charge_add(struct backend_charge *charge, uint64_t object);

/* Takes the object's oldest charge out. NULL: it has none. Addresses and handles may be used again at once. */
struct backend_charge *backend_charge_remove(enum backend_charge_kind kind, uint64_t object);

/* The same for one with an object in [start, start + bytes). Looks at all. */
struct backend_charge *backend_charge_remove_in(enum backend_charge_kind kind, uint64_t start, uint64_t bytes);

/*
 * The object's charge, which stays in the table. The caller uses the object's handle, so no other thread removes the
 * charge.
 */
struct backend_charge *backend_charge_find(enum backend_charge_kind kind, uint64_t object);

/* Ends all charges of a context. */
void backend_charge_end_context(CUcontext context);

#endif
