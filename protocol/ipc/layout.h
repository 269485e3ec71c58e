/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The addresses of a worker's own memory. Guest memory is mapped in the worker at the guest's own addresses, which are
 * high: programs and heaps from 0x540000000000 on, and mmap() from the stack down. So the worker's mmap(), with the
 * code of all libraries and all stacks of threads, begins at a random place between guests' programs and the arenas
 * (host/worker/memory/mapping.h), and goes down.
 *
 * The kernel's own randomisation would put the worker among the guest's memory, and is off. In its place the limit of
 * the stack says where mmap() begins: the kernel keeps so much free below the stack.
 */
#ifndef VCUDA_LAYOUT_H
#define VCUDA_LAYOUT_H

#include <stdint.h>
#include <sys/personality.h>
#include <sys/random.h>
#include <sys/resource.h>

#define VCUDA_STACK_TOP 0x7ffffffff000ull

/* mmap() begins in [start, start + length), at one of 2^32 pages. */
#define VCUDA_WORKER_MMAP_START 0x3aaaaaaab000ull
#define VCUDA_WORKER_MMAP_LENGTH 0x100000000000ull

/* mmap() goes down from there, and never below this address: no GPU has as much memory. */
#define VCUDA_WORKER_MMAP_LOWEST 0x2aaaaaaab000ull

/* The lowest limit of the stack that vcuda_worker_layout() sets. A worker tells by the limit which layout it has. */
#define VCUDA_WORKER_STACK_LIMIT (VCUDA_STACK_TOP - VCUDA_WORKER_MMAP_START - VCUDA_WORKER_MMAP_LENGTH)

/* The size of a worker's stacks. */
#define VCUDA_WORKER_STACK_BYTES (8ul << 20)

/*
 * Called before a worker is run. Sets this process's limit of the stack, and returns the bits of the personality to
 * set. A caller that does not become the worker sets the limit back to *before. Where the limit cannot be as high,
 * workers have the old layout, which begins at VCUDA_WORKER_MMAP_LOWEST.
 * The thread sanitizer needs certain addresses, so the limit does not change there.
 */
static inline unsigned long vcuda_worker_layout(struct rlimit *before)
{
#ifdef __SANITIZE_THREAD__
	getrlimit(RLIMIT_STACK, before);
	return ADDR_NO_RANDOMIZE;
#else
	struct rlimit stack;
	uint64_t random;

	if (getrlimit(RLIMIT_STACK, before) || getrandom(&random, sizeof(random), 0) != sizeof(random))
		return ADDR_NO_RANDOMIZE | ADDR_COMPAT_LAYOUT;
	stack = *before;
	stack.rlim_cur = VCUDA_WORKER_STACK_LIMIT + (random % VCUDA_WORKER_MMAP_LENGTH & ~4095ull);
	if (stack.rlim_cur > stack.rlim_max || setrlimit(RLIMIT_STACK, &stack))
		return ADDR_NO_RANDOMIZE | ADDR_COMPAT_LAYOUT;
	return ADDR_NO_RANDOMIZE;
#endif
}

#endif
