/* SPDX-License-Identifier: Apache-2.0 */
/* The file behind memory that the application shares with others (memfd_create, shm_open), which may have closed it. */
#ifndef VCUDA_SHARED_MEMORY_H
#define VCUDA_SHARED_MEMORY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "fork-guard.h"

/*
 * Opens the file that all of the page-aligned range is mapped from in one piece; offset: where in the file the range
 * begins, in bytes. The caller closes the descriptor, client_short_descriptor_close(). -EOPNOTSUPP: it is no such
 * memory, or its file cannot be opened any more; -EFAULT: it cannot be accessed so.
 */
int client_shared_memory_open(const void *address, size_t bytes, bool writable, struct client_short_descriptor *file,
			      uint64_t *offset);

#endif
