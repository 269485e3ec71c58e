/* SPDX-License-Identifier: Apache-2.0 */
/*
 * An entry is a file whose name is its key: a header with the key and a checksum, and the data. It appears by a rename,
 * whole; nothing is synchronised to the disk, since the checksum tells what a crash of the system left behind. Reading
 * an entry makes it young again; the oldest go first.
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "cache.h"

#define FORMAT 1
#define MAX_ENTRY (256ull << 20)
#define NAME_LENGTH (2 * VCUDA_CACHE_KEY_BYTES)
#define TEMPORARY "tmp-"
/* No process takes as long to write an entry. */
#define TEMPORARY_SECONDS 3600
/* An entry's time is set at most once in so many seconds, since a lookup should rarely write. */
#define YOUNG_SECONDS 3600
/* A file takes an inode and a name beside its blocks. */
#define FILE_BYTES 1024
/* Largest number of files: a larger folder is slow, and the inodes of a file system are limited. */
#define MOST_FILES 16384
/* The folder is measured again after so many stores, since other processes store too. */
#define MEASURE_STORES 64

struct vcuda_cache {
	int folder;
	const struct vcuda_cache_kind *kind;
	uint64_t limit;
	pthread_mutex_t lock;
	uint64_t bytes; /* of the disk that the folder takes, and its files, as far as is known */
	uint64_t files;
	unsigned stores; /* since it was measured; 0: never */
	bool warned;
};

struct header {
	char magic[VCUDA_CACHE_MAGIC_BYTES];
	uint64_t format, size;
	struct vcuda_cache_key key;
	uint8_t checksum[VCUDA_CACHE_DIGEST_BYTES];
};

struct entry {
	struct timespec time;
	uint64_t bytes;
	char name[NAME_LENGTH + 1];
};

static void entry_name(const struct vcuda_cache_key *key, char name[NAME_LENGTH + 1])
{
	for (unsigned n = 0; n < VCUDA_CACHE_KEY_BYTES; n++)
		snprintf(name + 2 * n, 3, "%02x", key->bytes[n]);
}

/* ---- the folder ---- */

static int make_folders(const char *path)
{
	char *copy = strdup(path);

	if (!copy)
		return -1;
	for (char *p = copy + 1; *p; p++) {
		if (*p != '/')
			continue;
		*p = 0;
		mkdir(copy, 0700);
		*p = '/';
	}
	mkdir(copy, 0700);
	free(copy);
	return open(path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
}

/* A user who can write to the file or folder decides what this process executes. */
static bool ours(int fd, mode_t forbidden, struct stat *st)
{
	return !fstat(fd, st) && st->st_uid == geteuid() && !(st->st_mode & forbidden);
}

struct vcuda_cache *vcuda_cache_open(const char *path, const struct vcuda_cache_kind *kind, uint64_t limit)
{
	struct vcuda_cache *cache = calloc(1, sizeof(*cache));
	struct stat st;

	if (!cache)
		return NULL;
	cache->kind = kind;
	cache->limit = limit;
	cache->folder = make_folders(path);
	if (cache->folder < 0)
		goto free_cache;
	if (!ours(cache->folder, 022, &st)) {
		errno = EPERM;
		goto close_folder;
	}
	pthread_mutex_init(&cache->lock, NULL);
	return cache;

close_folder:
	close(cache->folder);
free_cache:
	free(cache);
	return NULL;
}

void vcuda_cache_close(struct vcuda_cache *cache)
{
	if (!cache)
		return;
	close(cache->folder);
	pthread_mutex_destroy(&cache->lock);
	free(cache);
}

/* ---- reading ---- */

static bool read_all(int fd, void *to, size_t size)
{
	while (size) {
		ssize_t n = read(fd, to, size);

		if (n < 0 && errno == EINTR)
			continue;
		if (n <= 0)
			return false;
		to = (char *)to + n;
		size -= (size_t)n;
	}
	return true;
}

/* The data is copied, not mapped: another process could cut the file short under a mapping. */
static void *read_entry(int fd, const struct vcuda_cache_kind *kind, const struct vcuda_cache_key *key, uint64_t size)
{
	uint8_t sum[VCUDA_CACHE_DIGEST_BYTES];
	struct header header;
	void *data;

	if (!read_all(fd, &header, sizeof(header)) || memcmp(header.magic, kind->magic, sizeof(header.magic)) ||
	    header.format != FORMAT || header.size != size || memcmp(&header.key, key, sizeof(*key)))
		return NULL;
	data = malloc(size ? size : 1);
	if (!data || !read_all(fd, data, size))
		goto free_data;
	kind->digest(data, size, sum);
	if (!memcmp(sum, header.checksum, sizeof(sum)))
		return data;
free_data:
	free(data);
	return NULL;
}

static void make_young(int fd, const struct stat *st)
{
	struct timespec times[2] = {{0, UTIME_OMIT}, {0, UTIME_NOW}};

	if (time(NULL) - st->st_mtime > YOUNG_SECONDS)
		futimens(fd, times);
}

void *vcuda_cache_load(struct vcuda_cache *cache, const struct vcuda_cache_key *key, size_t *size)
{
	char name[NAME_LENGTH + 1];
	void *data = NULL;
	struct stat st;
	int fd;

	entry_name(key, name);
	fd = openat(cache->folder, name, O_RDONLY | O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK);
	if (fd < 0)
		return NULL;
	if (ours(fd, 077, &st) && S_ISREG(st.st_mode) && st.st_size >= (off_t)sizeof(struct header) &&
	    (uint64_t)st.st_size <= MAX_ENTRY) {
		*size = (size_t)st.st_size - sizeof(struct header);
		data = read_entry(fd, cache->kind, key, *size);
		if (data)
			make_young(fd, &st);
	}
	if (!data)
		unlinkat(cache->folder, name, 0);
	close(fd);
	return data;
}

void vcuda_cache_forget(struct vcuda_cache *cache, const struct vcuda_cache_key *key)
{
	char name[NAME_LENGTH + 1];

	entry_name(key, name);
	unlinkat(cache->folder, name, 0);
}

/* ---- making room ---- */

static int by_time(const void *a, const void *b)
{
	const struct entry *x = a, *y = b;

	if (x->time.tv_sec != y->time.tv_sec)
		return x->time.tv_sec < y->time.tv_sec ? -1 : 1;
	return (x->time.tv_nsec > y->time.tv_nsec) - (x->time.tv_nsec < y->time.tv_nsec);
}

static DIR *open_list(const struct vcuda_cache *cache)
{
	int fd = openat(cache->folder, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	DIR *list = fd < 0 ? NULL : fdopendir(fd);

	if (!list && fd >= 0)
		close(fd);
	return list;
}

static uint64_t whole_blocks(uint64_t bytes)
{
	return (bytes + 4095) / 4096 * 4096;
}

/* st_blocks may leave out blocks that are not written yet. */
static uint64_t disk_bytes(const struct stat *st)
{
	uint64_t blocks = (uint64_t)st->st_blocks * 512, size = whole_blocks((uint64_t)st->st_size);

	return (blocks > size ? blocks : size) + FILE_BYTES;
}

/* Lists all entries. Removes temporary files of processes that died. */
static struct entry *list_entries(const struct vcuda_cache *cache, size_t *count)
{
	DIR *list = open_list(cache);
	struct entry *entries = NULL, *more;
	size_t room = 0;
	struct dirent *d;
	struct stat st;

	*count = 0;
	while (list && (d = readdir(list))) {
		if (d->d_name[0] == '.' || fstatat(cache->folder, d->d_name, &st, AT_SYMLINK_NOFOLLOW))
			continue;
		if (!strncmp(d->d_name, TEMPORARY, strlen(TEMPORARY)) && time(NULL) - st.st_mtime > TEMPORARY_SECONDS)
			unlinkat(cache->folder, d->d_name, 0);
		if (strlen(d->d_name) != NAME_LENGTH)
			continue;
		if (*count == room) {
			room = room ? 2 * room : 256;
			more = realloc(entries, room * sizeof(*entries));
			if (!more)
				break;
			entries = more;
		}
		entries[*count] = (struct entry){.time = st.st_mtim, .bytes = disk_bytes(&st)};
		memcpy(entries[(*count)++].name, d->d_name, NAME_LENGTH + 1);
	}
	if (list)
		closedir(list);
	return entries;
}

static bool key_of_name(const char *name, struct vcuda_cache_key *key)
{
	char back[NAME_LENGTH + 1];

	for (unsigned n = 0; n < VCUDA_CACHE_KEY_BYTES; n++)
		if (sscanf(name + 2 * n, "%2hhx", &key->bytes[n]) != 1)
			return false;
	entry_name(key, back);
	return !strcmp(name, back);
}

void vcuda_cache_each(struct vcuda_cache *cache,
		      bool (*visit)(void *to, const struct vcuda_cache_key *key, uint64_t bytes), void *to)
{
	struct vcuda_cache_key key;
	size_t count;
	struct entry *entries = list_entries(cache, &count);

	for (size_t n = 0; n < count; n++)
		if (key_of_name(entries[n].name, &key) && !visit(to, &key, entries[n].bytes))
			break;
	free(entries);
}

static bool is_over(const struct vcuda_cache *cache, uint64_t bytes, uint64_t files)
{
	return cache->bytes > bytes || cache->files > files;
}

/* Measures the folder, and removes the oldest entries if it is too large. The caller holds the lock. */
static void make_room(struct vcuda_cache *cache)
{
	size_t count;
	struct entry *entries = list_entries(cache, &count);

	cache->bytes = 0;
	cache->stores = 1;
	for (size_t n = 0; n < count; n++)
		cache->bytes += entries[n].bytes;
	cache->files = count;
	if (is_over(cache, cache->limit, MOST_FILES)) {
		qsort(entries, count, sizeof(*entries), by_time);
		/* frees a tenth more than needed, so that not every store removes entries */
		for (size_t n = 0; n < count && is_over(cache, cache->limit / 10 * 9, MOST_FILES / 10 * 9); n++) {
			unlinkat(cache->folder, entries[n].name, 0);
			cache->bytes -= entries[n].bytes;
			cache->files--;
		}
	}
	free(entries);
}

static void account(struct vcuda_cache *cache, uint64_t bytes)
{
	pthread_mutex_lock(&cache->lock);
	cache->bytes += whole_blocks(bytes) + FILE_BYTES;
	cache->files++;
	if (!cache->stores || cache->stores++ >= MEASURE_STORES || is_over(cache, cache->limit, MOST_FILES))
		make_room(cache);
	pthread_mutex_unlock(&cache->lock);
}

/* ---- writing ---- */

static bool write_all(int fd, const void *from, size_t size)
{
	while (size) {
		ssize_t n = write(fd, from, size);

		if (n < 0 && errno == EINTR)
			continue;
		if (n <= 0)
			return false;
		from = (const char *)from + n;
		size -= (size_t)n;
	}
	return true;
}

static void warn_once(struct vcuda_cache *cache, int error)
{
	if (cache->kind->warn && !__atomic_exchange_n(&cache->warned, true, __ATOMIC_RELAXED))
		cache->kind->warn(error);
}

static bool write_entry(struct vcuda_cache *cache, const char *name, const struct header *header, const void *data)
{
	char temporary[40];
	uint64_t number;
	bool ok;
	int fd;

	if (getrandom(&number, sizeof(number), 0) != sizeof(number))
		return false;
	snprintf(temporary, sizeof(temporary), TEMPORARY "%016llx", (unsigned long long)number);
	fd = openat(cache->folder, temporary, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
	if (fd < 0) {
		warn_once(cache, errno);
		return false;
	}
	ok = write_all(fd, header, sizeof(*header)) && write_all(fd, data, header->size);
	ok = !close(fd) && ok && !renameat(cache->folder, temporary, cache->folder, name);
	if (!ok) {
		warn_once(cache, errno);
		unlinkat(cache->folder, temporary, 0);
	}
	return ok;
}

bool vcuda_cache_store(struct vcuda_cache *cache, const struct vcuda_cache_key *key, const void *data, size_t size)
{
	struct header header = {.format = FORMAT, .size = size, .key = *key};
	char name[NAME_LENGTH + 1];

	/* an entry that pushes most others out is not worth it */
	if (size > MAX_ENTRY - sizeof(header) || whole_blocks(size + sizeof(header)) + FILE_BYTES > cache->limit / 2)
		return false;
	memcpy(header.magic, cache->kind->magic, sizeof(header.magic));
	cache->kind->digest(data, size, header.checksum);
	entry_name(key, name);
	if (!write_entry(cache, name, &header, data))
		return false;
	account(cache, size + sizeof(header));
	return true;
}
