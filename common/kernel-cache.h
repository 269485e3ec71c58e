/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The software GPU's cache of compiled kernels, as libvcuda-cpu.so shows it to `vcuda cache`. The folder is that of the
 * environment (VCUDA_CACHE) at the first call. Thread-safe.
 */
#ifndef VCUDA_KERNEL_CACHE_H
#define VCUDA_KERNEL_CACHE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct vcuda_kernel_cache {
	char folder[4096]; /* "": no kernels are kept */
	char compiler[160];
	uint64_t limit; /* bytes */
	/* of this compiler: the builds of the software GPU and LLVM, and the processor; bytes of the disk */
	uint64_t entries, bytes;
	uint64_t other_entries, other_bytes;
};

typedef void vcuda_kernel_cache_look(struct vcuda_kernel_cache *cache);

/*
 * Writes this compiler's entries to a file, which appears when it is whole; or reads such a file. `cache` then has the
 * entries that were written or read, and their bytes in the file. False: `why` is a sentence, and nothing has changed,
 * but for entries of a file that a full disk has stopped.
 *
 * A file that is read must belong to the user or to root, and no other user may be able to write to it: its machine
 * code will run in the user's programs. All hashes are checked before the first entry is kept.
 */
typedef bool vcuda_kernel_cache_file(const char *path, struct vcuda_kernel_cache *cache, char *why, size_t why_bytes);

#endif
