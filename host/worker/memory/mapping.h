/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Mappings: guest memory mapped into the worker at the guest process's own addresses.
 *
 * They are only in address ranges that the worker reserved (PROT_NONE) before it loaded a back end, or in ranges that
 * the back end has lent of its own address space. They are never executable, and unmapping restores the reservation: a
 * guest cannot map over the worker's own memory. Thread-safe. Functions return 0 or -errno.
 */
#ifndef VCUDA_MAPPING_H
#define VCUDA_MAPPING_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct worker_mappings;

struct worker_mapping_extent {
	int file;                /* a memfd; with the mapper (mapper.h): the number of a region of RAM */
	uint64_t offset, length; /* page aligned */
};

/*
 * Where new memory that both sides share is placed; the guest reserves the same range. The thread sanitizer leaves only
 * low places free.
 */
#ifdef __SANITIZE_THREAD__
#define WORKER_ARENA_START 0x002000000000ull
#define WORKER_ARENA_LENGTH 0x001000000000ull
#else
#define WORKER_ARENA_START 0x200000000000ull
#define WORKER_ARENA_LENGTH 0x020000000000ull /* 2 TiB of address space */
#endif

/* A second one behind it is for processes that cannot have that: for a worker whose own GPU is virtual (nest()). */
#define WORKER_ARENA_END (WORKER_ARENA_START + 2 * WORKER_ARENA_LENGTH)

/* Behind the arenas: the areas that workers share with their guest processes. */
#define WORKER_OWN_AREAS 64ull
#define WORKER_OWN_BYTES (16u << 20)

/* Reserves the address ranges; called once, before any other library is loaded. */
struct worker_mappings *worker_mappings_create(void);
void worker_mappings_destroy(struct worker_mappings *w);

/* In a process that was forked from the worker: it has no memory of the guest any more, nor the reserved ranges. */
void worker_mappings_leave(const struct worker_mappings *w);

/*
 * The back end is a guest of another host: the second arena is its own, and mappings of one extent keep their files,
 * for it to hand on. Called before it is initialised.
 */
void worker_mappings_nest(struct worker_mappings *w);

/*
 * From now on mappings of one extent keep their files, for worker_mapping_file(): as many as leave half of the
 * descriptors free.
 */
void worker_mappings_keep_files(struct worker_mappings *w);

/*
 * A place of WORKER_OWN_BYTES for this worker's own memory, PROT_NONE so far, where no mapping can be from now on: one
 * of several, so that another worker, whose guest process this worker is, most probably can have a mapping there. NULL:
 * none is free.
 */
void *worker_mappings_own_area(struct worker_mappings *w);

/*
 * Maps a part of the mapping [address, address + length): the extents follow one another from address + offset on. The
 * first part (offset 0) creates the mapping; it can be used once the part with `last` is mapped. On failure the whole
 * mapping is gone. -EADDRNOTAVAIL: outside the reserved ranges; -EEXIST: overlaps a mapping; -EINVAL; -ENOMEM
 * (vm.max_map_count).
 */
int worker_mapping_add(struct worker_mappings *w, uint64_t address, uint64_t length, uint64_t offset, bool writable,
		       bool last, const struct worker_mapping_extent *extents, unsigned int count);

/* Removes exactly this mapping. -ENOENT; -EBUSY while it is registered with the back end. */
int worker_mapping_remove(struct worker_mappings *w, uint64_t address, uint64_t length);

/*
 * The back end lends [address, address + length), where it has memory that nothing uses: one mapping of exactly that
 * range may use it. The end of the mapping ends the loan, and leaves new memory. -ENOMEM.
 */
int worker_mapping_lend(struct worker_mappings *w, uint64_t address, uint64_t length);

/*
 * Ends the loans that begin in [address, address + length). A mapping that uses one is empty from then on, with new
 * memory in its place, until it is removed. -ENOMEM: some loans go on.
 */
int worker_mapping_take_back(struct worker_mappings *w, uint64_t address, uint64_t length);

/* All complete mappings have kept their files. */
bool worker_mappings_have_files(struct worker_mappings *w);

/* The descriptor of exactly this mapping's file, which stays the mapping's. -ENOENT; -EMFILE: it has not kept it. */
int worker_mapping_file(struct worker_mappings *w, uint64_t address, uint64_t length);

/* True if adjacent, complete mappings cover [p, p + bytes); writable ones with `writable`. */
bool worker_mapping_covers(struct worker_mappings *w, const void *p, uint64_t bytes, bool writable);

/* The purpose of a registration with the back end. A guest may name the address of another registration. */
enum vcuda_hold_owner {
	VCUDA_HOLD_NONE,
	VCUDA_HOLD_REGISTER, /* cuMemHostRegister() */
	VCUDA_HOLD_ACCESS,   /* vcudaMemHostAccess() */
	VCUDA_HOLD_MANAGED,  /* vcudaManagedPlace() */
};

/*
 * Holds the mappings under [p, p + bytes) for a registration with the back end; several registrations may hold one.
 * False if they do not cover it, or if a hold of any owner begins at p already.
 */
bool vcuda_mapping_hold(struct worker_mappings *w, const void *p, uint64_t bytes, bool writable,
			enum vcuda_hold_owner owner);

/* Ends the hold that began at p. Nothing happens if the owner is another. */
void vcuda_mapping_release(struct worker_mappings *w, const void *p, enum vcuda_hold_owner owner);

/* The owner of the hold that began at p. */
enum vcuda_hold_owner vcuda_mapping_holder(struct worker_mappings *w, const void *p);

#endif
