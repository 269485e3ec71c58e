/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A cache: a folder of files that outlives the process. A key finds an entry again. Any number of threads and
 * processes may use a folder at once. A failed lookup is a miss, whatever the reason. A damaged entry is a miss too. A
 * failed store leaves nothing behind.
 */
#ifndef VCUDA_CACHE_H
#define VCUDA_CACHE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define VCUDA_CACHE_KEY_BYTES 32
#define VCUDA_CACHE_DIGEST_BYTES 32
#define VCUDA_CACHE_MAGIC_BYTES 8

/* SHA-256 of all that the entry was made from. */
struct vcuda_cache_key {
	uint8_t bytes[VCUDA_CACHE_KEY_BYTES];
};

/* The kind of the entries. The caller keeps the structure as long as the cache is open. */
struct vcuda_cache_kind {
	char magic[VCUDA_CACHE_MAGIC_BYTES]; /* the first bytes of each entry */
	/* SHA-256, from any library that the caller links. */
	void (*digest)(const void *data, size_t size, uint8_t digest[VCUDA_CACHE_DIGEST_BYTES]);
	/* Called at most once while the cache is open, when an entry cannot be written; NULL: no warning. */
	void (*warn)(int error);
};

struct vcuda_cache;

/*
 * Opens a folder, and makes the folder if it is missing. `limit` is in bytes of disk: blocks, and 1 KiB for each file.
 * There are 16384 files at most. NULL, with errno set: the folder belongs to another user, other users may write to
 * it, or there is no memory.
 */
struct vcuda_cache *vcuda_cache_open(const char *path, const struct vcuda_cache_kind *kind, uint64_t limit);
/* NULL is allowed. */
void vcuda_cache_close(struct vcuda_cache *cache);

/* An entry's bytes, for free(); NULL: there is none. */
void *vcuda_cache_load(struct vcuda_cache *cache, const struct vcuda_cache_key *key, size_t *size);
bool vcuda_cache_store(struct vcuda_cache *cache, const struct vcuda_cache_key *key, const void *data, size_t size);
/*
 * Calls `visit` for each entry, with its bytes on the disk, in no order, until one call returns false. Entries may come
 * and go meanwhile, and may turn out not to be whole.
 */
void vcuda_cache_each(struct vcuda_cache *cache,
		      bool (*visit)(void *to, const struct vcuda_cache_key *key, uint64_t bytes), void *to);
/* Removes an entry, for a caller that cannot use its data. */
void vcuda_cache_forget(struct vcuda_cache *cache, const struct vcuda_cache_key *key);

#endif
