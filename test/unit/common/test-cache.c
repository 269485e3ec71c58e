/* SPDX-License-Identifier: Apache-2.0 */
/* Files that outlive the process: entries that are damaged, too old, someone else's, written by many. */
#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>
#include <cmocka.h>

#include "common/cache.h"
#include "test/seed.h"
#include "test/unit/folder.h"
#include "guest/libcuda/module/sha256.h"

static int warnings;

static void warn(int error)
{
	assert_int_not_equal(error, 0);
	warnings++;
}

static const struct vcuda_cache_kind kind = {"cache-t", libcuda_sha256, warn},
				     another = {"cache-u", libcuda_sha256, NULL};

static struct vcuda_cache_key key_of(unsigned number)
{
	struct vcuda_cache_key key = {{0}};

	memcpy(key.bytes, &number, sizeof(number));
	return key;
}

static const char *path_of(unsigned number)
{
	static char path[256];
	struct vcuda_cache_key key = key_of(number);
	int n = snprintf(path, sizeof(path), "%s/entries/", folder);

	for (unsigned k = 0; k < VCUDA_CACHE_KEY_BYTES; k++)
		n += snprintf(path + n, sizeof(path) - (size_t)n, "%02x", key.bytes[k]);
	return path;
}

static struct vcuda_cache *open_cache(uint64_t limit)
{
	struct vcuda_cache *cache;
	char path[80];

	snprintf(path, sizeof(path), "%s/entries", folder);
	cache = vcuda_cache_open(path, &kind, limit);
	assert_non_null(cache);
	return cache;
}

static bool has(struct vcuda_cache *cache, unsigned number, const char *want)
{
	struct vcuda_cache_key key = key_of(number);
	size_t size = 0;
	char *data = vcuda_cache_load(cache, &key, &size);
	bool ok = data && size == strlen(want) && !memcmp(data, want, size);

	if (data && !ok)
		fail_msg("an entry with other contents");
	free(data);
	return ok;
}

static bool store(struct vcuda_cache *cache, unsigned number, const char *text)
{
	struct vcuda_cache_key key = key_of(number);

	return vcuda_cache_store(cache, &key, text, strlen(text));
}

static void entries(void **state)
{
	struct vcuda_cache *cache = open_cache(1 << 20);
	struct stat st;

	(void)state;
	assert_false(has(cache, 1, "one"));
	assert_true(store(cache, 1, "one"));
	assert_true(store(cache, 2, ""));
	assert_true(has(cache, 1, "one"));
	assert_true(has(cache, 2, ""));
	assert_false(has(cache, 3, ""));
	assert_int_equal(stat(path_of(1), &st), 0);
	assert_int_equal(st.st_mode & 0777, 0600);
	vcuda_cache_close(cache);
	cache = open_cache(1 << 20);
	assert_true(has(cache, 1, "one"));
	vcuda_cache_close(cache);
}

static void write_at(const char *path, off_t offset, char byte)
{
	int fd = open(path, O_WRONLY);

	assert_true(fd >= 0);
	assert_int_equal(pwrite(fd, &byte, 1, offset), 1);
	close(fd);
}

/* Every byte of an entry matters, and an entry that is refused makes room for a good one. */
static void damage(void **state)
{
	struct vcuda_cache *cache = open_cache(1 << 20);
	char other[256];
	struct stat st;
	char byte;
	int fd;

	(void)state;
	assert_true(store(cache, 1, "contents"));
	assert_int_equal(stat(path_of(1), &st), 0);
	for (off_t n = 0; n < st.st_size; n++) {
		fd = open(path_of(1), O_RDONLY);
		assert_int_equal(pread(fd, &byte, 1, n), 1);
		close(fd);
		write_at(path_of(1), n, (char)(byte ^ 0x40));
		assert_false(has(cache, 1, "contents"));
		assert_int_equal(access(path_of(1), F_OK), -1);
		assert_true(store(cache, 1, "contents"));
		assert_int_equal(truncate(path_of(1), n), 0);
		assert_false(has(cache, 1, "contents"));
		assert_true(store(cache, 1, "contents"));
	}
	assert_int_equal(truncate(path_of(1), st.st_size + 1), 0);
	assert_false(has(cache, 1, "contents"));
	/* a good entry under another's name, and as a link */
	assert_true(store(cache, 1, "contents"));
	strcpy(other, path_of(1));
	assert_int_equal(symlink(other, path_of(3)), 0);
	assert_false(has(cache, 3, "contents"));
	assert_int_equal(rename(other, path_of(2)), 0);
	assert_false(has(cache, 2, "contents"));
	vcuda_cache_close(cache);
}

/* Entries of another make are not ours. */
static void kinds(void **state)
{
	struct vcuda_cache *cache = open_cache(1 << 20), *other;
	struct vcuda_cache_key key = key_of(1);
	char path[80];
	size_t size;

	(void)state;
	assert_true(store(cache, 1, "contents"));
	snprintf(path, sizeof(path), "%s/entries", folder);
	other = vcuda_cache_open(path, &another, 1 << 20);
	assert_non_null(other);
	assert_null(vcuda_cache_load(other, &key, &size));
	vcuda_cache_close(other);
	/* the entry was discarded like a damaged one; a forgotten entry is gone, too */
	assert_false(has(cache, 1, "contents"));
	assert_true(store(cache, 1, "contents"));
	vcuda_cache_forget(cache, &key);
	assert_false(has(cache, 1, "contents"));
	vcuda_cache_close(cache);
}

/* The folder is gone while it is open: nothing is kept, and that is said once. */
static void no_room(void **state)
{
	struct vcuda_cache *cache = open_cache(1 << 20);
	char path[80];

	(void)state;
	snprintf(path, sizeof(path), "%s/entries", folder);
	assert_int_equal(rmdir(path), 0);
	warnings = 0;
	assert_false(store(cache, 1, "contents"));
	assert_false(store(cache, 2, "contents"));
	assert_false(has(cache, 1, "contents"));
	assert_int_equal(warnings, 1);
	vcuda_cache_close(cache);
}

/* Entries that other users may have written are not used. */
static void owners(void **state)
{
	struct vcuda_cache *cache = open_cache(1 << 20);
	char path[80];

	(void)state;
	assert_true(store(cache, 1, "contents"));
	assert_int_equal(chmod(path_of(1), 0620), 0);
	assert_false(has(cache, 1, "contents"));
	if (!geteuid()) {
		assert_true(store(cache, 1, "contents"));
		assert_int_equal(chown(path_of(1), 12345, 0), 0);
		assert_false(has(cache, 1, "contents"));
	}
	vcuda_cache_close(cache);
	snprintf(path, sizeof(path), "%s/entries", folder);
	assert_int_equal(chmod(path, 0770), 0);
	assert_null(vcuda_cache_open(path, &kind, 1 << 20));
	assert_int_equal(errno, EPERM);
	assert_int_equal(chmod(path, 0700), 0);
	/* no folder can be made there */
	snprintf(path, sizeof(path), "/proc/self/%s", "entries");
	assert_null(vcuda_cache_open(path, &kind, 1 << 20));
}

static void eviction(void **state)
{
	struct vcuda_cache *cache = open_cache(64 << 10);
	struct timespec times[2] = {{0}};
	static char text[6 << 10];
	unsigned kept = 0;
	char old[96];

	(void)state;
	memset(text, 'x', sizeof(text) - 1);
	snprintf(old, sizeof(old), "%s/entries/tmp-0123", folder);
	close(open(old, O_CREAT | O_WRONLY, 0600));
	utimensat(AT_FDCWD, old, times, 0);
	for (unsigned n = 1; n <= 30; n++) {
		assert_true(store(cache, n, text));
		times[0].tv_sec = times[1].tv_sec = 1000 + n;
		utimensat(AT_FDCWD, path_of(n), times, 0);
		/* number 2 is used all the time */
		if (n >= 2)
			assert_true(has(cache, 2, text));
	}
	assert_int_equal(access(old, F_OK), -1);
	for (unsigned n = 1; n <= 30; n++)
		kept += !access(path_of(n), F_OK);
	assert_true(kept >= 5 && kept * sizeof(text) <= 64 << 10);
	assert_true(has(cache, 30, text));
	assert_true(has(cache, 2, text));
	assert_false(has(cache, 3, text));
	/* an entry larger than half of the cache is not stored */
	vcuda_cache_close(cache);
	cache = open_cache(16 << 10);
	assert_false(store(cache, 31, text));
	vcuda_cache_close(cache);
}

/* Small entries count with the blocks that they take. */
static void blocks(void **state)
{
	struct vcuda_cache *cache = open_cache(256 << 10);
	uint64_t bytes = 0;
	unsigned kept = 0;
	struct stat st;

	(void)state;
	for (unsigned n = 1; n <= 200; n++)
		assert_true(store(cache, n, "small"));
	for (unsigned n = 1; n <= 200; n++)
		if (!stat(path_of(n), &st)) {
			bytes += (uint64_t)st.st_blocks * 512;
			kept++;
		}
	assert_in_range(kept, 20, 51);
	assert_true(bytes <= 256 << 10);
	vcuda_cache_close(cache);
}

/* Files are counted, too: another process has made many. */
static void files(void **state)
{
	struct vcuda_cache *cache = open_cache(1ull << 40);
	unsigned kept = 0;

	(void)state;
	for (unsigned n = 1; n <= 16400; n++)
		close(open(path_of(n), O_CREAT | O_WRONLY, 0600));
	assert_true(store(cache, 20000, "one more"));
	for (unsigned n = 1; n <= 16400; n++)
		kept += !access(path_of(n), F_OK);
	assert_in_range(kept, 14000, 14746);
	assert_true(has(cache, 20000, "one more"));
	vcuda_cache_close(cache);
}

#define PROCESSES 4

static void child(unsigned seed)
{
	struct vcuda_cache *cache = open_cache(64 << 10);
	char text[64];

	for (unsigned n = 0; n < 400; n++) {
		seed = seed * 1103515245 + 12345;
		snprintf(text, sizeof(text), "the contents of %u", seed >> 16 & 31);
		if (seed >> 8 & 1)
			store(cache, seed >> 16 & 31, text);
		else
			has(cache, seed >> 16 & 31, text);
	}
	vcuda_cache_close(cache);
}

/* Processes store, read and evict the same entries: each finds the contents of the key, or nothing. */
static void processes(void **state)
{
	unsigned seed = test_seed();
	char command[160];

	(void)state;
	for (unsigned n = 0; n < PROCESSES; n++)
		if (!fork()) {
			alarm(600);
			child(seed + n);
			_exit(0);
		}
	for (unsigned n = 0; n < PROCESSES; n++) {
		int status = -1;

		wait(&status);
		assert_int_equal(status, 0);
	}
	snprintf(command, sizeof(command), "! ls %s/entries | grep -q tmp-", folder);
	assert_int_equal(system(command), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(entries, set_up, tear_down),
		cmocka_unit_test_setup_teardown(damage, set_up, tear_down),
		cmocka_unit_test_setup_teardown(kinds, set_up, tear_down),
		cmocka_unit_test_setup_teardown(no_room, set_up, tear_down),
		cmocka_unit_test_setup_teardown(owners, set_up, tear_down),
		cmocka_unit_test_setup_teardown(blocks, set_up, tear_down),
		cmocka_unit_test_setup_teardown(files, set_up, tear_down),
		cmocka_unit_test_setup_teardown(eviction, set_up, tear_down),
		cmocka_unit_test_setup_teardown(processes, set_up, tear_down),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
