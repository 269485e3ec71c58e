/* SPDX-License-Identifier: Apache-2.0 */
/* Exchanging the file behind shared memory. For one thread at a time. */
#ifndef VCUDA_SHARED_PAGES_H
#define VCUDA_SHARED_PAGES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Largest number of bytes of one exchange, which is short. Smaller parts spend most of the time in the kernel. */
#define CLIENT_SHARED_PART 16384u

/*
 * Puts the bytes of `file` from `offset` on in the place of `bytes` bytes of page-aligned shared memory, with the
 * memory's contents. bytes: at most CLIENT_SHARED_PART. The file becomes larger if it has to. A forked child has the
 * memory too if `forks`. From the first use on no more address space is needed.
 *
 * Other threads may write to the memory meanwhile. For some microseconds a thread may read an aligned 8-byte word as it
 * was before the last write to it. After that the word has the last value that was written, unless the threads wrote
 * twice and the second value is the one before the first.
 *
 * 0 or -errno, with the memory as it was. ENOSPC, ENOMEM, EAGAIN: there is no memory for it; EINVAL: it is not shared
 * memory.
 */
int client_shared_pages_replace(void *address, size_t bytes, int file, uint64_t offset, bool forks);

/* After the last part: no mapping of a file stays but the memory's. */
void client_shared_pages_end(void);

#endif
