/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The memory that the process can use before the kernel kills processes for lack of memory. Nothing here allocates
 * memory or writes to a stream: other threads may be stopped inside the C library. Thread-safe.
 */
#ifndef VCUDA_FREE_MEMORY_H
#define VCUDA_FREE_MEMORY_H

#include <stddef.h>
#include <stdint.h>

/*
 * Bytes: what the machine has, or the process's control group and those above it (version 2), whichever is least.
 * Swap space does not count, and pages of files that are not in use count as free. UINT64_MAX: not known. `root`: the
 * folder of /proc and /sys, "" but for tests.
 */
uint64_t client_free_memory(const char *root);

/* The number of these bytes of shared memory, in whole pages, without a page yet. Reading them takes a page. */
size_t client_missing_memory(const void *address, size_t bytes);

#endif
