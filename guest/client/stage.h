/* SPDX-License-Identifier: Apache-2.0 */
/* The staging blocks of the shared area: lent to one call at a time. */
#ifndef VCUDA_STAGE_H
#define VCUDA_STAGE_H

#include <stddef.h>
#include <stdint.h>

void client_stage_attach(void *shm, unsigned int blocks);

/*
 * Waits for a free block; *memory is its VCUDA_STAGE_BLOCK_BYTES bytes. Until client_stage_give() the thread is in a
 * section (section.h), but for its calls.
 */
uint32_t client_stage_take(void **memory);
void client_stage_give(uint32_t block);

/* The same for a block that is kept for long. A thread enters a section to write to it. */
uint32_t client_stage_take_kept(void **memory);

/* One more block, if one is free: its bit. 0: none is. A thread enters a section to write to such a block. */
uint32_t client_stage_try(void);
void client_stage_give_tried(uint32_t block);

/*
 * As memcpy(), to a block's begin, but past the processor's caches. On many processors a device reads cached data at
 * half the rate of memory.
 */
void client_stage_fill(void *block, const void *from, size_t bytes);

/*
 * As memcpy(), from a block's begin, and leaves neither side in the caches: a device writes to memory faster than to
 * cached lines. For copies that are too large for caches. On a processor without the instruction it is memcpy().
 */
void client_stage_drain(void *to, const void *block, size_t bytes);

#endif
