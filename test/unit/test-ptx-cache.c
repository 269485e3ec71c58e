/* SPDX-License-Identifier: Apache-2.0 */
/* Compiled kernels on disk: entries that are damaged, too old, someone else's, written by many; kernels through it. */
#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "../ptx/harness.h"
#include "ptx-probe.h"
#include "ptx-version.h"

static char folder[64];

static struct ptx_key key_of(unsigned number)
{
	struct ptx_key key = {{0}};

	memcpy(key.bytes, &number, sizeof(number));
	return key;
}

static const char *path_of(unsigned number)
{
	static char path[256];
	struct ptx_key key = key_of(number);
	int n = snprintf(path, sizeof(path), "%s/kernels/", folder);

	for (unsigned k = 0; k < PTX_KEY_BYTES; k++)
		n += snprintf(path + n, sizeof(path) - (size_t)n, "%02x", key.bytes[k]);
	return path;
}

static struct ptx_cache *open_cache(uint64_t limit)
{
	struct ptx_cache *cache;
	char path[80];

	snprintf(path, sizeof(path), "%s/kernels", folder);
	cache = ptx_cache_open(path, limit);
	assert_non_null(cache);
	return cache;
}

static bool has(struct ptx_cache *cache, unsigned number, const char *want)
{
	struct ptx_key key = key_of(number);
	size_t size = 0;
	char *data = ptx_cache_load(cache, &key, &size);
	bool ok = data && size == strlen(want) && !memcmp(data, want, size);

	if (data && !ok)
		fail_msg("an entry with other contents");
	free(data);
	return ok;
}

static bool store(struct ptx_cache *cache, unsigned number, const char *text)
{
	struct ptx_key key = key_of(number);

	return ptx_cache_store(cache, &key, text, strlen(text));
}

static int set_up(void **state)
{
	(void)state;
	strcpy(folder, "/tmp/test-ptx-cache-XXXXXX");
	return !mkdtemp(folder);
}

static int tear_down(void **state)
{
	char command[128];

	(void)state;
	snprintf(command, sizeof(command), "rm -rf %s", folder);
	return system(command);
}

static void entries(void **state)
{
	struct ptx_cache *cache = open_cache(1 << 20);
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
	ptx_cache_close(cache);
	cache = open_cache(1 << 20);
	assert_true(has(cache, 1, "one"));
	ptx_cache_close(cache);
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
	struct ptx_cache *cache = open_cache(1 << 20);
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
	ptx_cache_close(cache);
}

/* Whatever others may have written is not ours. */
static void owners(void **state)
{
	struct ptx_cache *cache = open_cache(1 << 20);
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
	ptx_cache_close(cache);
	snprintf(path, sizeof(path), "%s/kernels", folder);
	assert_int_equal(chmod(path, 0770), 0);
	assert_null(ptx_cache_open(path, 1 << 20));
	assert_int_equal(errno, EPERM);
	assert_int_equal(chmod(path, 0700), 0);
	/* no folder can be made there */
	snprintf(path, sizeof(path), "/proc/self/%s", "kernels");
	assert_null(ptx_cache_open(path, 1 << 20));
}

static void eviction(void **state)
{
	struct ptx_cache *cache = open_cache(64 << 10);
	struct timespec times[2] = {{0}};
	static char text[6 << 10];
	unsigned kept = 0;
	char old[96];

	(void)state;
	memset(text, 'x', sizeof(text) - 1);
	snprintf(old, sizeof(old), "%s/kernels/tmp-0123", folder);
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
	/* what is larger than half of it never enters */
	ptx_cache_close(cache);
	cache = open_cache(8 << 10);
	assert_false(store(cache, 31, text));
	ptx_cache_close(cache);
}

#define PROCESSES 4

static void child(unsigned seed)
{
	struct ptx_cache *cache = open_cache(4 << 10);
	char text[64];

	for (unsigned n = 0; n < 400; n++) {
		seed = seed * 1103515245 + 12345;
		snprintf(text, sizeof(text), "the contents of %u", seed >> 16 & 31);
		if (seed >> 8 & 1)
			store(cache, seed >> 16 & 31, text);
		else
			has(cache, seed >> 16 & 31, text);
	}
	ptx_cache_close(cache);
}

/* They store, read and evict the same entries: each finds what belongs to the key, or nothing. */
static void processes(void **state)
{
	char command[160];

	(void)state;
	for (unsigned n = 0; n < PROCESSES; n++)
		if (!fork()) {
			alarm(60);
			child(n + 1);
			_exit(0);
		}
	for (unsigned n = 0; n < PROCESSES; n++) {
		int status = -1;

		wait(&status);
		assert_int_equal(status, 0);
	}
	snprintf(command, sizeof(command), "! ls %s/kernels | grep -q tmp-", folder);
	assert_int_equal(system(command), 0);
}

/* ---- kernels ---- */

/* Odd threads go another way, and the last warp is not full: both versions are needed. A variable has an address. */
#define KERNEL                                                                                                         \
	PTX_HEAD ".global .align 4 .u32 bias = 7;\n"                                                                   \
		 ".visible .entry test(.param .u64 p_out, .param .u64 p_in)\n{\n"                                      \
		 ".reg .pred %p<4>;\n.reg .b32 %r<8>;\n.reg .b64 %l<8>;\nld.param.u64 %l1, [p_out];\n"                 \
		 "mov.u32 %r1, %tid.x;\nmul.wide.u32 %l3, %r1, 4;\nadd.s64 %l3, %l1, %l3;\nld.global.u32 %r2, "        \
		 "[bias];\nand.b32 %r3, %r1, 1;\nsetp.eq.u32 %p1, %r3, 0;\n@%p1 bra $even;\nmul.lo.u32 %r2, %r2, "      \
		 "%r1;\n$even:\nst.global.u32 [%l3], %r2;\nret;\n}\n"

struct expected {
	uint64_t compiled, loaded;
};

/* In a process of its own, since the folder is chosen once. */
static void run_kernel(const char *text, unsigned move, struct expected want)
{
	int status = -1;

	if (!fork()) {
		struct ptx_statistics s;
		struct ptx_module *m;
		static uint32_t bias[16];

		alarm(100);
		map.count = 0;
		add_range(out32, sizeof(out32), true);
		m = load(text);
		bias[move] = 7 + move;
		add_range(&bias[move], 4, true);
		ptx_module_place(m, 0, (uintptr_t)&bias[move]);
		for (unsigned n = 0; n < 2; n++) {
			void *params[2] = {out32, in32};
			struct ptx_fault fault;

			memset(out32, 0, sizeof(out32));
			if (!launch(m, 1, 50, 1, 0, params, &fault))
				_exit(10);
			for (unsigned t = 0; t < THREADS; t++)
				if (out32[t] != (t >= 50 ? 0 : t & 1 ? (7 + move) * t : 7 + move))
					_exit(11);
		}
		ptx_module_destroy(m);
		ptx_statistics_get(&s);
		_exit(s.compiled != want.compiled ? 12 : s.loaded != want.loaded ? 13 : 0);
	}
	wait(&status);
	assert_int_equal(status, 0);
}

static void damage_all(void)
{
	char command[256];

	snprintf(command, sizeof(command),
		 "for f in %s/vcuda/kernels/*; do printf x | dd of=$f bs=1 seek=900 conv=notrunc 2>/dev/null; done", folder);
	assert_int_equal(system(command), 0);
}

static void kernels(void **state)
{
	char path[80];

	(void)state;
	setenv("XDG_CACHE_HOME", folder, 1);
	unsetenv("VCUDA_CACHE");
	unsetenv("VCUDA_CPU_CACHE");
	run_kernel(KERNEL, 0, (struct expected){2, 0});
	run_kernel(KERNEL, 0, (struct expected){0, 2});
	/* the code does not know where the variable is */
	run_kernel(KERNEL, 3, (struct expected){0, 2});
	/* the text decides */
	run_kernel(KERNEL "// other\n", 0, (struct expected){2, 0});
	damage_all();
	run_kernel(KERNEL, 0, (struct expected){2, 0});
	run_kernel(KERNEL, 0, (struct expected){0, 2});
	setenv("VCUDA_CPU_CACHE", "0", 1);
	run_kernel(KERNEL, 0, (struct expected){2, 0});
	unsetenv("VCUDA_CPU_CACHE");
	/* nowhere to keep anything */
	setenv("XDG_CACHE_HOME", "/proc/self", 1);
	run_kernel(KERNEL, 0, (struct expected){2, 0});
	snprintf(path, sizeof(path), "%s/mine", folder);
	setenv("VCUDA_CACHE", path, 1);
	run_kernel(KERNEL, 0, (struct expected){2, 0});
	run_kernel(KERNEL, 0, (struct expected){0, 2});
	unsetenv("VCUDA_CACHE");
}

/* Whatever decides about the code is in the key. */
static void keys(void **state)
{
	struct ptx_version versions[] = {{false, false}, {true, false}, {false, true}, {true, true}};
	struct ptx_binary b = {.blockdim = {32, 2, 1}}, turned = {.blockdim = {2, 32, 1}};
	struct ptx_module *m, *other;
	struct ptx_key k[6];

	(void)state;
	map.count = 0;
	m = load(KERNEL);
	other = load(KERNEL "\n//\n");
	b.kernel = turned.kernel = ptx_module_kernel(m, 0);
	for (unsigned n = 0; n < 4; n++)
		assert_true(ptx_key_version(&b, versions[n], &k[n]));
	assert_true(ptx_key_version(&turned, versions[0], &k[4]));
	b.kernel = ptx_module_kernel(other, 0);
	assert_true(ptx_key_version(&b, versions[0], &k[5]));
	for (unsigned n = 0; n < 6; n++)
		for (unsigned i = 0; i < n; i++)
			assert_memory_not_equal(&k[n], &k[i], sizeof(k[0]));
	ptx_module_destroy(other);
	ptx_module_destroy(m);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(entries, set_up, tear_down),
		cmocka_unit_test_setup_teardown(damage, set_up, tear_down),
		cmocka_unit_test_setup_teardown(owners, set_up, tear_down),
		cmocka_unit_test_setup_teardown(eviction, set_up, tear_down),
		cmocka_unit_test_setup_teardown(processes, set_up, tear_down),
		cmocka_unit_test_setup_teardown(kernels, set_up, tear_down),
		cmocka_unit_test(keys),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
