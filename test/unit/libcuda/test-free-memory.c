/* SPDX-License-Identifier: Apache-2.0 */
/* Free memory, as folders say it that look like /proc and /sys. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "guest/client/free-memory.h"

#define MIB ((uint64_t)1 << 20)

static char root[64];

/* A file in a folder that is made, too. */
static void say(const char *path, const char *text)
{
	char full[512];
	FILE *file;

	assert_true(snprintf(full, sizeof(full), "%s%s", root, path) < (int)sizeof(full));
	for (char *at = strchr(full + strlen(root) + 1, '/'); at; at = strchr(at + 1, '/')) {
		*at = 0;
		mkdir(full, 0700);
		*at = '/';
	}
	file = fopen(full, "we");
	assert_non_null(file);
	fputs(text, file);
	assert_int_equal(fclose(file), 0);
}

static int make_root(void **state)
{
	strcpy(root, "/tmp/vcuda-test-free-XXXXXX");
	return !mkdtemp(root);
}

static int remove_root(void **state)
{
	char command[128];

	snprintf(command, sizeof(command), "rm -r %s", root);
	return system(command);
}

static void test_nothing_known(void **state)
{
	assert_true(client_free_memory(root) == UINT64_MAX);
	say("/proc/meminfo", "MemTotal: 5 kB\n");
	say("/proc/self/cgroup", "1:name=systemd:/x\n");
	assert_true(client_free_memory(root) == UINT64_MAX);
}

static void test_machine(void **state)
{
	say("/proc/meminfo",
	    "MemTotal:       16384 kB\nMemFree:        1024 kB\nMemAvailable:   2048 kB\nSwapFree: 9999 kB\n");
	assert_true(client_free_memory(root) == 2 * MIB);
}

/* The group, one above it, and the one that a namespace shows as the first. */
static void test_groups(void **state)
{
	say("/proc/meminfo", "MemAvailable:   1048576 kB\n");
	say("/proc/self/cgroup", "1:name=systemd:/x\n0::/a/b\n");
	say("/sys/fs/cgroup/a/b/memory.max", "max\n");
	say("/sys/fs/cgroup/a/b/memory.current", "1048576\n");
	assert_true(client_free_memory(root) == 1024 * MIB);
	say("/sys/fs/cgroup/a/memory.max", "104857600\n");
	say("/sys/fs/cgroup/a/memory.current", "62914560\n");
	assert_true(client_free_memory(root) == 40 * MIB);
	say("/sys/fs/cgroup/a/memory.stat", "anon 5\nfile 7\ninactive_file 10485760\nactive_file 3\n");
	assert_true(client_free_memory(root) == 50 * MIB);
	say("/sys/fs/cgroup/a/b/memory.max", "3145728\n");
	assert_true(client_free_memory(root) == 2 * MIB);
	say("/sys/fs/cgroup/memory.max", "1048576\n");
	say("/sys/fs/cgroup/memory.current", "2097152\n");
	assert_true(client_free_memory(root) == 0);
	say("/proc/self/cgroup", "0::/\n");
	assert_true(client_free_memory(root) == 0);
	say("/sys/fs/cgroup/memory.max", "3145728\n");
	assert_true(client_free_memory(root) == MIB);
}

/* The real ones say something. */
static void test_this_machine(void **state)
{
	uint64_t bytes = client_free_memory("");

	assert_true(bytes > 0 && bytes < (uint64_t)1 << 50);
}

static void test_missing(void **state)
{
	const size_t bytes = 32 * MIB;
	int fd = memfd_create("test", MFD_CLOEXEC);
	char *p;

	assert_true(fd >= 0 && !ftruncate(fd, (off_t)bytes));
	p = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	assert_ptr_not_equal(p, MAP_FAILED);
	madvise(p, bytes, MADV_NOHUGEPAGE);
	assert_int_equal(client_missing_memory(p, bytes), bytes);
	memset(p + 8 * MIB, 1, 5 * 4096);
	assert_int_equal(client_missing_memory(p, bytes), bytes - 5 * 4096);
	assert_int_equal(client_missing_memory(p + 8 * MIB, 6 * 4096), 4096);
	munmap(p, bytes);
	close(fd);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(test_nothing_known, make_root, remove_root),
		cmocka_unit_test_setup_teardown(test_machine, make_root, remove_root),
		cmocka_unit_test_setup_teardown(test_groups, make_root, remove_root),
		cmocka_unit_test(test_this_machine),
		cmocka_unit_test(test_missing),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
