/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Address space for device memory: one reservation at a fixed place, used from its start. Pages exist from their first
 * use until the memory on them is freed. With the lock held unless a function says otherwise.
 */
#ifndef VCUDA_CPU_ARENA_H
#define VCUDA_CPU_ARENA_H

#include <stdbool.h>
#include <stdint.h>

/* Reserves it at the first call; any thread, lock or not. length 0: the reservation failed. */
void softgpu_arena_range(uint64_t *start, uint64_t *length);

/*
 * Whether reads there cannot fault: memory, gaps and free space below the highest allocation. Any thread, with or
 * without the lock.
 */
bool softgpu_arena_is_readable(uint64_t start, uint64_t bytes);

/*
 * Address space for `bytes`, 512-byte aligned, with an unused gap behind it. 0: none left. dense: close to its
 * neighbours. Without it, large memory begins with a huge page, which is faster and takes up to 2 MiB more.
 */
uint64_t softgpu_arena_alloc(uint64_t bytes, bool dense);

/* Bytes of the device's memory that an allocation takes, its gap included. */
uint64_t softgpu_arena_slot(uint64_t bytes);

/* Returns the pages of an allocation to the system. Before softgpu_arena_free(), without the lock: it may take long. */
void softgpu_arena_discard(uint64_t address, uint64_t bytes);

void softgpu_arena_free(uint64_t address, uint64_t bytes);

/*
 * Whole pages of device memory become pages of `fd` from `offset` on; their contents and addresses stay (move.c).
 * Kernels and copies may run: a thread that stores to the pages meanwhile waits, and no store is lost. With the lock
 * held throughout. False: nothing has changed.
 */
bool softgpu_move_to_file(uint64_t address, uint64_t bytes, int fd, uint64_t offset);

#endif
