/* SPDX-License-Identifier: Apache-2.0 */
/* Shared memory whose file is exchanged while threads write to it. */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "guest/client/map-scan.h"
#include "guest/client/shared-pages.h"

#define BYTES ((size_t)9 * 16384 + 4096) /* parts, and a smaller one */
#define WORDS (BYTES / sizeof(uint64_t))
#define WRITERS 3
#define ROUNDS 60

static _Atomic unsigned long parts; /* exchanged so far */

static int new_file(void)
{
	int fd = memfd_create("test", MFD_CLOEXEC);

	assert_true(fd >= 0 && !ftruncate(fd, BYTES));
	return fd;
}

static void *map(int fd)
{
	void *p = mmap(NULL, BYTES, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);

	assert_ptr_not_equal(p, MAP_FAILED);
	return p;
}

static void fill(uint64_t *words, uint64_t first)
{
	for (size_t i = 0; i < WORDS; i++)
		words[i] = first + i;
}

static int differs(const uint64_t *words, uint64_t first)
{
	for (size_t i = 0; i < WORDS; i++)
		if (words[i] != first + i)
			return 1;
	return 0;
}

/* All parts, with the file from `offset` on. */
static int replace(void *words, int file, uint64_t offset, bool forks)
{
	int err = 0;

	for (size_t done = 0, part; !err && done < BYTES; done += part) {
		part = BYTES - done < CLIENT_SHARED_PART ? BYTES - done : CLIENT_SHARED_PART;
		err = client_shared_pages_replace((char *)words + done, part, file, offset + done, forks);
		atomic_fetch_add(&parts, 1);
	}
	client_shared_pages_end();
	return err;
}

static int covers(const void *words, size_t bytes, const struct client_file_id *file, uint64_t offset)
{
	static struct client_map_scan scan;
	int is;

	assert_int_equal(client_map_scan_begin(&scan), 0);
	is = client_map_scan_covers(&scan, words, bytes, file, offset);
	client_map_scan_end(&scan);
	return is;
}

/* The number of mappings of the file in the process. */
static int mappings_of(const char *name)
{
	FILE *maps = fopen("/proc/self/maps", "re");
	char line[512];
	int count = 0;

	assert_non_null(maps);
	while (fgets(line, sizeof(line), maps))
		count += strstr(line, name) != NULL;
	fclose(maps);
	return count;
}

/* To a file that is empty, and has something else before, and back. */
static void test_contents(void **state)
{
	int one = new_file(), two = memfd_create("second", MFD_CLOEXEC);
	uint64_t *words = map(one), *there;
	struct stat size;

	fill(words, 5);
	assert_int_equal(replace(words, two, 4096, false), 0);
	assert_int_equal(fstat(two, &size), 0);
	assert_int_equal(size.st_size, BYTES + 4096);
	there = mmap(NULL, BYTES, PROT_READ | PROT_WRITE, MAP_SHARED, two, 4096);
	assert_ptr_not_equal(there, MAP_FAILED);
	assert_false(differs(words, 5));
	fill(words, 7);
	assert_false(differs(there, 7));
	assert_int_equal(replace(words, one, 0, false), 0);
	fill(words, 9);
	assert_false(differs(words, 9));
	/* The other file has it no more, and nothing of that is left. */
	assert_false(differs(there, 7));
	munmap(there, BYTES);
	assert_int_equal(mappings_of("memfd:second"), 0);
	munmap(words, BYTES);
	close(one);
	close(two);
}

static void test_refused(void **state)
{
	int one = new_file();
	uint64_t *words = map(one),
		 *private = mmap(NULL, BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	assert_ptr_not_equal(private, MAP_FAILED);
	fill(words, 5);
	fill(private, 6);
	assert_int_equal(replace(words, 1000000, 0, false), -EBADF);
	assert_int_equal(replace(private, one, 0, false), -EINVAL);
	assert_false(differs(words, 5));
	assert_false(differs(private, 6));
	munmap(words, BYTES);
	munmap(private, BYTES);
	close(one);
}

/* The address space that the process has. */
static rlim_t address_space(void)
{
	FILE *file = fopen("/proc/self/statm", "re");
	unsigned long pages = 0;

	assert_non_null(file);
	assert_int_equal(fscanf(file, "%lu", &pages), 1);
	fclose(file);
	return (rlim_t)pages * 4096;
}

/* A file that may not become so large, and no more address space than there is. */
static void test_limits(void **state)
{
	int one = new_file(), two = memfd_create("second", MFD_CLOEXEC), last;
	uint64_t *words = map(one);
	struct rlimit before, none = {RLIM_INFINITY, RLIM_INFINITY}, small = {CLIENT_SHARED_PART, RLIM_INFINITY};

	fill(words, 5);
	signal(SIGXFSZ, SIG_IGN);
	assert_int_equal(getrlimit(RLIMIT_FSIZE, &before), 0);
	assert_int_equal(setrlimit(RLIMIT_FSIZE, &small), 0);
	assert_int_equal(replace(words, two, 0, false), -EFBIG);
	assert_int_equal(setrlimit(RLIMIT_FSIZE, &before), 0);
	assert_false(differs(words, 5));
	last = (int)words[WORDS - 1];
	assert_int_equal(replace(words, two, 0, false), 0);
	assert_int_equal(replace(words, one, 0, false), 0);
	none.rlim_cur = address_space();
	assert_int_equal(setrlimit(RLIMIT_AS, &none), 0);
	assert_ptr_equal(mmap(NULL, 4096, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0), MAP_FAILED);
	assert_int_equal(replace(words, two, 0, false), 0);
	assert_int_equal(replace(words, one, 0, false), 0);
	none.rlim_cur = RLIM_INFINITY;
	assert_int_equal(setrlimit(RLIMIT_AS, &none), 0);
	assert_int_equal(words[WORDS - 1], last);
	assert_false(differs(words, 5));
	munmap(words, BYTES);
	close(one);
	close(two);
}

/* The memory at an address is the file, at the right offset, shared and writable, and without a hole; or it is not. */
static void test_scan(void **state)
{
	int one = new_file(), two = new_file();
	char *p = map(one);
	struct client_file_id file = client_file_id(one), other = client_file_id(two);
	static struct client_map_scan scan;

	assert_true(covers(p, BYTES, &file, 0));
	assert_true(covers(p + 4096, 8192, &file, 4096));
	assert_false(covers(p + 4096, 8192, &file, 0));
	assert_false(covers(p, BYTES, &other, 0));
	/* Two entries of one file are as good as one. */
	madvise(p + 8192, 4096, MADV_DONTFORK);
	assert_true(covers(p, BYTES, &file, 0));
	assert_int_equal(mprotect(p + 4096, 4096, PROT_READ), 0);
	assert_false(covers(p, BYTES, &file, 0));
	assert_true(covers(p + 8192, BYTES - 8192, &file, 8192));
	assert_ptr_not_equal(mmap(p + 4096, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_FIXED, one, 4096),
			     MAP_FAILED);
	assert_false(covers(p, BYTES, &file, 0));
	assert_ptr_not_equal(mmap(p + 4096, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, two, 4096),
			     MAP_FAILED);
	assert_false(covers(p, BYTES, &file, 0));
	assert_int_equal(client_map_scan_begin(&scan), 0);
	assert_true(client_map_scan_file(&scan, p).inode == file.inode);
	assert_true(client_map_scan_file(&scan, p + 4096).inode == other.inode);
	assert_true(client_map_scan_file(&scan, p + 12288).inode == file.inode);
	client_map_scan_end(&scan);
	munmap(p + 4096, 4096);
	assert_false(covers(p, BYTES, &file, 0));
	assert_true(covers(p, 4096, &file, 0));
	munmap(p, BYTES);
	assert_false(covers(p, 4096, &file, 0));
	close(one);
	close(two);
}

/* A thing that could not be read is not the same as one that is not there. */
static void test_broken_scan(void **state)
{
	int one = new_file();
	char *p = map(one);
	struct client_file_id file = client_file_id(one);
	static struct client_map_scan scan;
	int other;

	assert_int_equal(client_map_scan_begin(&scan), 0);
	assert_false(client_map_scan_covers(&scan, (void *)4096, 4096, &file, 0));
	assert_int_equal(scan.err, 0);
	client_map_scan_end(&scan);
	assert_int_equal(client_map_scan_begin(&scan), 0);
	close(scan.file.fd);
	assert_false(client_map_scan_covers(&scan, p, BYTES, &file, 0));
	assert_true(scan.err < 0);
	client_map_scan_end(&scan);
	/* A file of the application's has the number: it is not read, and not closed. */
	assert_int_equal(client_map_scan_begin(&scan), 0);
	other = scan.file.fd;
	assert_int_equal(dup2(one, other), other);
	assert_false(client_map_scan_covers(&scan, p, BYTES, &file, 0));
	assert_true(scan.err < 0);
	client_map_scan_end(&scan);
	assert_int_equal(close(other), 0);
	munmap(p, BYTES);
	close(one);
}

/* More mappings than one read gives, one of them with a long name. */
static void test_long_scan(void **state)
{
	char name[240], *p;
	struct client_file_id file;
	int fd;

	memset(name, 'x', sizeof(name));
	name[sizeof(name) - 1] = 0;
	fd = memfd_create(name, MFD_CLOEXEC);
	assert_true(fd >= 0 && !ftruncate(fd, 4096));
	file = client_file_id(fd);
	p = mmap(NULL, 512 * 4096, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	assert_ptr_not_equal(p, MAP_FAILED);
	for (int i = 0; i < 512; i += 2)
		assert_ptr_equal(mmap(p + i * 4096, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, fd, 0),
				 p + i * 4096);
	for (int i = 0; i < 512; i++)
		assert_int_equal(covers(p + i * 4096, 4096, &file, 0), i % 2 == 0);
	munmap(p, 512 * 4096);
	close(fd);
}

/* A child that has the range sees the parent's writes; else it has none. */
static void test_forks(void **state)
{
	int one = new_file(), two = memfd_create("second", MFD_CLOEXEC), status;
	volatile uint64_t *words = map(one);
	pid_t child;

	assert_int_equal(replace((void *)words, two, 0, true), 0);
	words[0] = 3;
	child = fork();
	if (!child) {
		words[1] = words[0];
		_exit(0);
	}
	assert_int_equal(waitpid(child, &status, 0), child);
	assert_true(WIFEXITED(status));
	assert_int_equal(words[1], 3);
	assert_int_equal(replace((void *)words, one, 0, false), 0);
	child = fork();
	if (!child) {
		signal(SIGSEGV, SIG_DFL);
		_exit((int)words[0]);
	}
	assert_int_equal(waitpid(child, &status, 0), child);
	assert_true(WIFSIGNALED(status));
	munmap((void *)words, BYTES);
	close(one);
	close(two);
}

static _Atomic int stop, lost;

struct writer {
	pthread_t thread;
	volatile uint64_t *words;
	size_t number;
	uint64_t last[WORDS]; /* the last values that the writer stored */
};

/* An older value may be there until the part has been exchanged, however long that takes on a busy machine. */
static int has(const volatile uint64_t *word, uint64_t value)
{
	unsigned long before;

	if (*word == value)
		return 1;
	before = atomic_load(&parts);
	while (atomic_load(&parts) == before && !atomic_load(&stop))
		sched_yield();
	return *word == value;
}

/* Each writer has words of its own, writes a number once, and looks for it before it writes the next one. */
static void *write_words(void *argument)
{
	struct writer *w = argument;
	uint64_t value = 0;

	do {
		for (size_t i = w->number; i < WORDS && !atomic_load(&lost); i += WRITERS) {
			if (!has(&w->words[i], w->last[i])) {
				print_error("word %zu: %#" PRIx64 ", not %#" PRIx64 "\n", i, w->words[i], w->last[i]);
				atomic_store(&lost, 1);
			}
			w->words[i] = w->last[i] = ++value;
		}
	} while (!atomic_load(&stop) && !atomic_load(&lost));
	return NULL;
}

static void test_writers(void **state)
{
	static struct writer writers[WRITERS];
	int file = new_file(), other = memfd_create("second", MFD_CLOEXEC);
	uint64_t *words = map(file);

	for (size_t i = 0; i < WRITERS; i++) {
		writers[i].words = words;
		writers[i].number = i;
		assert_int_equal(pthread_create(&writers[i].thread, NULL, write_words, &writers[i]), 0);
	}
	for (int i = 0; i < ROUNDS && !atomic_load(&lost); i++) {
		assert_int_equal(replace(words, other, 0, false), 0);
		assert_int_equal(replace(words, file, 0, false), 0);
	}
	atomic_store(&stop, 1);
	for (size_t i = 0; i < WRITERS; i++)
		pthread_join(writers[i].thread, NULL);
	assert_false(lost);
	for (size_t i = 0; i < WORDS; i++)
		assert_int_equal(words[i], writers[i % WRITERS].last[i]);
	munmap(words, BYTES);
	close(file);
	close(other);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_contents),  cmocka_unit_test(test_refused),     cmocka_unit_test(test_scan),
		cmocka_unit_test(test_long_scan), cmocka_unit_test(test_forks),       cmocka_unit_test(test_writers),
		cmocka_unit_test(test_limits),    cmocka_unit_test(test_broken_scan),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
