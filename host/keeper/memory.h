/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The memory of entries that no worker counts any more. Entries in one file count once, with the size of the whole
 * file, since no other process keeps the file. The sums are computed from the lists, so they never drift. The keeper
 * has one thread.
 */
#ifndef VCUDA_KEEPER_MEMORY_H
#define VCUDA_KEEPER_MEMORY_H

#include <stdbool.h>
#include <stdint.h>

#include "common/list.h"

struct keeper_memory;

/* An entry's use of memory. */
struct keeper_use {
	struct vcuda_list entry; /* of the memory's uses that count */
	struct keeper_memory *memory;
	int fd;
};

/* Before the other functions. fd: the file, which stays the caller's, or another descriptor, or -1. False: no memory.
 */
bool keeper_memory_open(struct keeper_use *use, int fd, uint32_t gpu);

/* The use ends, and counts no more. */
void keeper_memory_close(struct keeper_use *use);

/* The use counts from now on, once, with at least so many bytes. */
void keeper_memory_count(struct keeper_use *use, uint64_t bytes);

/* Files that a worker may write to beside its own entries. */
struct keeper_shared {
	struct vcuda_list files;
};

/* Notes that the worker may write to the use's file from now on. False: no memory. */
bool keeper_memory_share(const struct keeper_use *use, struct keeper_shared *worker);

/* The worker is gone. Its files may have grown, and are measured. */
void keeper_memory_end_sharing(struct keeper_shared *worker);

/* The memory that entries hold on one GPU. */
struct keeper_memory_sum {
	uint64_t bytes;
	uint64_t uses; /* the number of uses that count */
};

/* Calls with each GPU whose sum has changed since the last call, and the sum. */
void keeper_memory_report(void (*call)(uint64_t argument, uint32_t gpu, const struct keeper_memory_sum *sum),
			  uint64_t argument);

#endif
