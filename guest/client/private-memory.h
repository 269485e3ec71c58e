/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Exchanging private pages of the application for shared ones and back, with their contents. Page-aligned ranges; 0 or
 * -errno. A write of another thread to the range during an exchange may be lost. The range may include the calling
 * thread's own stack.
 */
#ifndef VCUDA_PRIVATE_MEMORY_H
#define VCUDA_PRIVATE_MEMORY_H

#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>

/*
 * 0 if all of the range is private memory that is anonymous or that the process writes to, and not the first thread's
 * stack, unless that thread asks. -EFAULT: not all of it is mapped, readable, and writable if so asked; -EOPNOTSUPP: it
 * is memory of another kind.
 */
int client_private_memory_check(const void *address, size_t bytes, bool writable);

/* Puts `memfd`, which has `bytes` bytes, in the range's place. */
int client_private_memory_share(void *address, size_t bytes, int memfd);

/* Puts private pages in place of shared ones. */
int client_private_memory_restore(void *address, size_t bytes);

/* Whether the calling thread runs on a stack that the address is part of. */
bool client_private_memory_is_own_stack(const void *address);

/* A shared page that is private for a while. */
struct client_private_page {
	void *shared;   /* the page's other place meanwhile; NULL: nothing was done */
	void *snapshot; /* the contents at the begin */
};

/*
 * Makes the shared page at `address` private. The other processes that have it go on with the shared page. Nothing
 * happens if memory is short.
 */
void client_private_page_begin(struct client_private_page *p, void *address);

/*
 * Makes it shared again. A byte that the process has changed meanwhile has the process's value; each other byte has the
 * value that the shared page has.
 */
void client_private_page_end(struct client_private_page *p, void *address);

#endif
