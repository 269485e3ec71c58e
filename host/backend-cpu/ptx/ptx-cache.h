/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A folder of files that outlives the process: what was made once, found again by its key. Any number of threads and
 * processes may use a folder at once. What is not wholly there and whole is not there: a lookup that fails, for
 * whatever reason, is a miss, and a store that fails leaves nothing behind.
 */
#ifndef VCUDA_BACKEND_CPU_PTX_CACHE_H
#define VCUDA_BACKEND_CPU_PTX_CACHE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define PTX_KEY_BYTES 32

/* SHA-256 of all that the entry was made from. */
struct ptx_key {
	uint8_t bytes[PTX_KEY_BYTES];
};

struct ptx_cache;

/*
 * Opens a folder, which is made if it is missing; `limit` in bytes. NULL, with errno set, if it cannot be used: it is
 * another user's or others may write to it, there is no memory.
 */
struct ptx_cache *ptx_cache_open(const char *path, uint64_t limit);

/* The folder that the environment names; NULL: none. Lives as long as the process. */
struct ptx_cache *ptx_cache_default(void);

/* An entry's bytes, for free(); NULL: there is none. */
void *ptx_cache_load(struct ptx_cache *cache, const struct ptx_key *key, size_t *size);
bool ptx_cache_store(struct ptx_cache *cache, const struct ptx_key *key, const void *data, size_t size);
/* For an entry that is whole but makes no sense. */
void ptx_cache_forget(struct ptx_cache *cache, const struct ptx_key *key);

#endif
