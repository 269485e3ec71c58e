/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Windows: guest memory mapped into the worker at the guest process's own addresses.
 *
 * They lie only in address ranges that the worker reserved (PROT_NONE) before it loaded a back end, are never
 * executable, and unmapping restores the reservation: a guest cannot map over the worker's own memory. Thread-safe.
 * Functions return 0 or -errno.
 */
#ifndef VCUDA_MAPPING_H
#define VCUDA_MAPPING_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct vcuda_windows;

struct vcuda_window_extent {
	int fd;                  /* a memfd */
	uint64_t offset, length; /* page aligned */
};

/*
 * Where new memory that both sides share is placed; the guest reserves the same range. The thread sanitizer leaves only
 * low places free.
 */
#ifdef __SANITIZE_THREAD__
#define VCUDA_ARENA_START 0x002000000000ull
#define VCUDA_ARENA_LENGTH 0x001000000000ull
#else
#define VCUDA_ARENA_START 0x200000000000ull
#define VCUDA_ARENA_LENGTH 0x020000000000ull /* 2 TiB of address space */
#endif

/* A second one behind it is for processes that cannot have that: for a worker whose own GPU is virtual (nest()). */
#define VCUDA_ARENA_END (VCUDA_ARENA_START + 2 * VCUDA_ARENA_LENGTH)

/* Behind that: where workers have what they share with their guest processes. */
#define VCUDA_OWN_PLACES 64ull
#define VCUDA_OWN_BYTES (16u << 20)

/* Reserves the address ranges; called once, before any other library is loaded. */
struct vcuda_windows *vcuda_windows_create(void);
void vcuda_windows_destroy(struct vcuda_windows *w);

/*
 * The back end is a guest of another host: the second arena is its own, and windows of one extent keep their files, for
 * it to hand on. Called before it is initialised.
 */
void vcuda_windows_nest(struct vcuda_windows *w);

/*
 * A place of VCUDA_OWN_BYTES for this worker's own memory, PROT_NONE so far, where no window can be from now on: one of
 * several, so that another worker, whose guest process this worker is, most probably can have a window there.
 * NULL: none is free.
 */
void *vcuda_windows_own_place(struct vcuda_windows *w);

/*
 * Maps a part of the window [address, address + length): the extents follow one another from address + offset on. The
 * first part (offset 0) creates the window; it can be used once the part with `last` is mapped. On failure the whole
 * window is gone. -EADDRNOTAVAIL: outside the reserved ranges; -EEXIST: overlaps a window; -EINVAL; -ENOMEM
 * (vm.max_map_count).
 */
int vcuda_window_map(struct vcuda_windows *w, uint64_t address, uint64_t length, uint64_t offset, bool writable,
		     bool last, const struct vcuda_window_extent *extents, unsigned int count);

/* Removes exactly this window. -ENOENT; -EBUSY while it is registered with the back end. */
int vcuda_window_unmap(struct vcuda_windows *w, uint64_t address, uint64_t length);

/* True if [p, p + bytes) lies in one complete window, a writable one if so asked. */
bool vcuda_window_covers(struct vcuda_windows *w, const void *p, uint64_t bytes, bool writable);

/* Holds or releases the windows under [p, p + bytes) for a registration with the back end. False if none covers it. */
bool vcuda_window_hold(struct vcuda_windows *w, const void *p, uint64_t bytes, bool writable);
void vcuda_window_release(struct vcuda_windows *w, const void *p);

#endif
