/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Files of cached machine code, for images and other machines of one kind. A file has a head, which names the compiler,
 * and entries: the key, the size, the SHA-256 of these and the data, and the data. Numbers are little-endian.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <nettle/sha2.h>

#include "backend-cpu.h"
#include "cache/ptx-cache.h"
#include "cache/ptx-compiler.h"

#define MAGIC "vcudakrn"
#define FORMAT 1

struct file_head {
	char magic[8];
	uint64_t format, entries;
	uint8_t compiler[PTX_COMPILER_ID_BYTES];
	char text[160]; /* about the compiler */
};

struct file_entry {
	struct vcuda_cache_key key;
	uint64_t size;
	uint8_t hash[SHA256_DIGEST_SIZE];
};

#define EXPORTED __attribute__((visibility("default")))

static bool fail(char *why, size_t bytes, const char *format, ...) __attribute__((format(printf, 3, 4)));

static bool fail(char *why, size_t bytes, const char *format, ...)
{
	va_list values;

	va_start(values, format);
	vsnprintf(why, bytes, format, values);
	va_end(values);
	return false;
}

/* The hash of an entry's key, size and data. */
static void hash(const struct file_entry *entry, const void *data, uint8_t sum[SHA256_DIGEST_SIZE])
{
	struct sha256_ctx sha;

	sha256_init(&sha);
	sha256_update(&sha, offsetof(struct file_entry, hash), (const uint8_t *)entry);
	sha256_update(&sha, entry->size, data);
	sha256_digest(&sha, SHA256_DIGEST_SIZE, sum);
}

static bool is_own(const struct vcuda_cache_key *key)
{
	return !memcmp(key->bytes, ptx_compiler()->id, PTX_COMPILER_MARK_BYTES);
}

static bool count(void *to, const struct vcuda_cache_key *key, uint64_t bytes)
{
	struct vcuda_kernel_cache *cache = to;

	*(is_own(key) ? &cache->entries : &cache->other_entries) += 1;
	*(is_own(key) ? &cache->bytes : &cache->other_bytes) += bytes;
	return true;
}

static void describe(struct vcuda_kernel_cache *cache)
{
	*cache = (struct vcuda_kernel_cache){.limit = ptx_cache_limit()};
	snprintf(cache->folder, sizeof(cache->folder), "%s", ptx_cache_default() ? ptx_cache_path() : "");
	snprintf(cache->compiler, sizeof(cache->compiler), "%s", ptx_compiler()->text);
}

EXPORTED void vcuda_cpu_cache_look(struct vcuda_kernel_cache *cache)
{
	describe(cache);
	if (ptx_cache_default())
		vcuda_cache_each(ptx_cache_default(), count, cache);
}

static bool is_usable(char *why, size_t bytes)
{
	if (!ptx_cache_default())
		return fail(why, bytes, "no kernels are kept: %s",
			    ptx_cache_limit() ? "the folder cannot be used" : "VCUDA_CPU_CACHE is 0");
	if (!ptx_compiler()->is_known)
		return fail(why, bytes, "no kernels are kept: this build of the software GPU has no id");
	return true;
}

/* ---- export ---- */

struct export
{
	FILE *file;
	struct vcuda_kernel_cache *cache;
};

static bool put_entry(void *to, const struct vcuda_cache_key *key, uint64_t unused)
{
	struct export *e = to;
	struct file_entry entry = {.key = *key};
	size_t size;
	void *data;
	bool ok;

	(void)unused;
	if (!is_own(key))
		return true;
	data = vcuda_cache_load(ptx_cache_default(), key, &size);
	/* The entry has gone meanwhile, or is damaged. */
	if (!data)
		return true;
	entry.size = size;
	hash(&entry, data, entry.hash);
	ok = fwrite(&entry, sizeof(entry), 1, e->file) == 1 && fwrite(data, 1, size, e->file) == size;
	free(data);
	e->cache->entries++;
	e->cache->bytes += sizeof(entry) + size;
	return ok;
}

static bool put_all(FILE *file, struct vcuda_kernel_cache *cache)
{
	struct file_head head = {.magic = MAGIC, .format = FORMAT};
	struct export e = {file, cache};

	memcpy(head.compiler, ptx_compiler()->id, sizeof(head.compiler));
	snprintf(head.text, sizeof(head.text), "%s", ptx_compiler()->text);
	if (fwrite(&head, sizeof(head), 1, file) != 1)
		return false;
	vcuda_cache_each(ptx_cache_default(), put_entry, &e);
	head.entries = cache->entries;
	return !fseek(file, 0, SEEK_SET) && fwrite(&head, sizeof(head), 1, file) == 1 && !fflush(file) &&
	       !ferror(file) && !fsync(fileno(file));
}

EXPORTED bool vcuda_cpu_cache_export(const char *path, struct vcuda_kernel_cache *cache, char *why, size_t why_bytes)
{
	char *temporary = NULL;
	int fd = -1, error;
	FILE *file = NULL;
	bool ok;

	describe(cache);
	if (!is_usable(why, why_bytes))
		return false;
	if (asprintf(&temporary, "%s.XXXXXX", path) < 0)
		return fail(why, why_bytes, "there is no memory");
	fd = mkostemp(temporary, O_CLOEXEC);
	file = fd < 0 ? NULL : fdopen(fd, "w");
	ok = file && put_all(file, cache);
	error = errno;
	if (file)
		fclose(file);
	if (ok && rename(temporary, path)) {
		ok = false;
		error = errno;
	}
	if (!ok && fd >= 0)
		unlink(temporary);
	free(temporary);
	return ok || fail(why, why_bytes, "%s cannot be written: %s", path, strerror(error));
}

/* ---- import ---- */

struct import {
	const char *at, *end;
};

static const void *cut(struct import *i, uint64_t bytes)
{
	const char *at = i->at;

	if (bytes > (uint64_t)(i->end - at))
		return NULL;
	i->at += bytes;
	return at;
}

/* The next entry, copied, since it need not be aligned. NULL: there is none. */
static const void *next(struct import *i, struct file_entry *entry)
{
	const void *head = cut(i, sizeof(*entry));

	if (!head)
		return NULL;
	memcpy(entry, head, sizeof(*entry));
	return cut(i, entry->size);
}

static bool check_entries(struct import i, uint64_t entries, const char *path, char *why, size_t why_bytes)
{
	uint8_t sum[SHA256_DIGEST_SIZE];
	struct file_entry entry;
	const void *data;

	for (uint64_t n = 0; n < entries; n++) {
		data = next(&i, &entry);
		if (!data)
			return fail(why, why_bytes, "%s is not whole: entry %llu of %llu is cut off", path,
				    (unsigned long long)n + 1, (unsigned long long)entries);
		hash(&entry, data, sum);
		if (memcmp(sum, entry.hash, sizeof(sum)) || !is_own(&entry.key))
			return fail(why, why_bytes, "%s is damaged: entry %llu has another hash", path,
				    (unsigned long long)n + 1);
	}
	return i.at == i.end || fail(why, why_bytes, "%s is damaged: there is more behind its entries", path);
}

static bool take_entries(struct import i, uint64_t entries, struct vcuda_kernel_cache *cache, char *why,
			 size_t why_bytes)
{
	struct file_entry entry;

	for (uint64_t n = 0; n < entries; n++) {
		const void *data = next(&i, &entry);

		if (!vcuda_cache_store(ptx_cache_default(), &entry.key, data, entry.size))
			return fail(why, why_bytes, "entry %llu of %llu cannot be kept in %s. Is the disk full?",
				    (unsigned long long)n + 1, (unsigned long long)entries, cache->folder);
		cache->entries++;
		cache->bytes += sizeof(entry) + entry.size;
	}
	return true;
}

static bool read_file(struct import i, const char *path, struct vcuda_kernel_cache *cache, char *why, size_t why_bytes)
{
	const struct file_head *head = cut(&i, sizeof(*head));

	if (!head || memcmp(head->magic, MAGIC, sizeof(head->magic)))
		return fail(why, why_bytes, "%s is no file of `vcuda cache export`", path);
	if (head->format != FORMAT)
		return fail(why, why_bytes, "%s has another format, of another version of virtio-cuda", path);
	if (memcmp(head->compiler, ptx_compiler()->id, sizeof(head->compiler)))
		return fail(why, why_bytes, "%s is for another software GPU: %.*s. This one is: %s", path,
			    (int)strnlen(head->text, sizeof(head->text)), head->text, ptx_compiler()->text);
	if ((uint64_t)(i.end - i.at) > ptx_cache_limit() / 10 * 9)
		return fail(why, why_bytes, "%s has %llu MiB, and the cache's limit is %llu MiB (VCUDA_CPU_CACHE)",
			    path, (unsigned long long)(i.end - i.at) >> 20,
			    (unsigned long long)ptx_cache_limit() >> 20);
	return check_entries(i, head->entries, path, why, why_bytes) &&
	       take_entries(i, head->entries, cache, why, why_bytes);
}

/* A copy in memory: another process could change a mapped file between its check and its use. */
static char *copy_of(int fd, size_t size)
{
	char *data = malloc(size + 1);
	size_t at = 0;
	ssize_t n = 1;

	while (data && at < size && n > 0) {
		n = read(fd, data + at, size - at);
		if (n < 0 && errno == EINTR)
			n = 1;
		else if (n > 0)
			at += (size_t)n;
	}
	if (data && at == size)
		return data;
	free(data);
	return NULL;
}

static bool import_open(int fd, const char *path, struct vcuda_kernel_cache *cache, char *why, size_t why_bytes)
{
	struct stat st;
	char *data;
	bool ok;

	if (fstat(fd, &st) || !S_ISREG(st.st_mode))
		return fail(why, why_bytes, "%s is no file", path);
	if ((st.st_uid != geteuid() && st.st_uid != 0) || st.st_mode & 022)
		return fail(
			why, why_bytes,
			"%s is not taken: its machine code would run in your programs, and %s. Give it to your user "
			"or root, and `chmod go-w` it",
			path, st.st_mode & 022 ? "other users may write to it" : "it is another user's");
	if ((uint64_t)st.st_size > ptx_cache_limit() + sizeof(struct file_head))
		return fail(why, why_bytes, "%s has %llu MiB, and the cache's limit is %llu MiB (VCUDA_CPU_CACHE)",
			    path, (unsigned long long)st.st_size >> 20, (unsigned long long)ptx_cache_limit() >> 20);
	data = copy_of(fd, (size_t)st.st_size);
	if (!data)
		return fail(why, why_bytes, "%s cannot be read, or there is no memory", path);
	ok = read_file((struct import){data, data + st.st_size}, path, cache, why, why_bytes);
	free(data);
	return ok;
}

EXPORTED bool vcuda_cpu_cache_import(const char *path, struct vcuda_kernel_cache *cache, char *why, size_t why_bytes)
{
	bool ok;
	int fd;

	describe(cache);
	if (!is_usable(why, why_bytes))
		return false;
	fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
	if (fd < 0)
		return fail(why, why_bytes, "%s: %s", path, strerror(errno));
	ok = import_open(fd, path, cache, why, why_bytes);
	close(fd);
	return ok;
}
