/* SPDX-License-Identifier: Apache-2.0 */
/* Exchanging private pages of the application for shared ones and back, with their contents. Page-aligned ranges; 0 or
 * -errno. */
#ifndef VCUDA_PRIVATE_MEMORY_H
#define VCUDA_PRIVATE_MEMORY_H

#include <stdbool.h>
#include <stddef.h>

/*
 * 0 if all of the range is private anonymous memory that is no stack. -EFAULT: not all of it is mapped, readable, and
 * writable if so asked; -EOPNOTSUPP: it is memory of another kind.
 */
int client_private_memory_check(const void *address, size_t bytes, bool writable);

/* Puts `memfd`, which has `bytes` bytes, in the range's place. */
int client_private_memory_share(void *address, size_t bytes, int memfd);

/* Puts private pages in place of shared ones. */
int client_private_memory_restore(void *address, size_t bytes);

#endif
