/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Memory and descriptors of the library that a forked child must not have. Between client_fork_hold() and
 * client_fork_release() no other thread forks: a thread holds off forks where it opens a file or maps memory and has
 * not yet marked it as its own process's. It waits for nothing but a file system meanwhile, and takes no
 * other lock but malloc()'s.
 *
 * Thread-safe; one thread holds it at a time.
 */
#ifndef VCUDA_FORK_GUARD_H
#define VCUDA_FORK_GUARD_H

#include <stddef.h>

void client_fork_hold(void);
void client_fork_release(void);

/* A descriptor for a short time, on the stack of the thread that uses it: a forked child closes it. */
struct client_short_descriptor {
	int fd;
	struct client_short_descriptor *next;
};

/* open() of the file, without O_CREAT. 0 and d->fd, or -errno. */
int client_short_descriptor_open(struct client_short_descriptor *d, const char *path, int flags);

/* Closes it. */
void client_short_descriptor_close(struct client_short_descriptor *d);

/* mmap(), with MADV_DONTFORK. MAP_FAILED and errno. */
void *client_fork_map(void *address, size_t bytes, int protection, int flags, int fd);

#endif
