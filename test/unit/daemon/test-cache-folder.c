/* SPDX-License-Identifier: Apache-2.0 */
/* The folders that workers of VMs keep compiled code in. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <cmocka.h>

#include "host/daemon/options/cache-folder.h"
#include "test/unit/folder.h"

static const char *ask(const char *vhost, const char *cache, const char **driver)
{
	struct daemon_options options = {.vhost_socket = vhost, .socket = "/s", .cache = cache};
	const char *variables[DAEMON_CACHE_VARIABLES];

	daemon_cache_variables(&options, variables);
	*driver = variables[1];
	return variables[0];
}

static const char *ask_for(struct daemon_worker_user user, const char *cache)
{
	struct daemon_options options = {.vhost_socket = "/v", .cache = cache, .user = user};
	const char *variables[DAEMON_CACHE_VARIABLES];

	daemon_cache_variables(&options, variables);
	return variables[0];
}

static void folders(void **state)
{
	char expected[200], first[200];
	const char *got, *driver;
	struct stat made;

	(void)state;
	unsetenv("CUDA_CACHE_PATH");
	setenv("VCUDA_CACHE", folder, 1);
	assert_null(ask(NULL, NULL, &driver));
	assert_null(driver);
	assert_null(ask("/run/a.sock", "shared", &driver));
	got = ask("/run/a.sock", "web-1", &driver);
	snprintf(expected, sizeof(expected), "VCUDA_CACHE=%s/vm/web-1", folder);
	assert_string_equal(got, expected);
	snprintf(expected, sizeof(expected), "CUDA_CACHE_PATH=%s/vm/web-1/nv", folder);
	assert_string_equal(driver, expected);
	assert_int_equal(access(strchr(driver, '/'), W_OK), 0);
	/* by the socket: the same each time, and another one for another VM */
	snprintf(first, sizeof(first), "%s", ask("/run/a.sock", NULL, &driver));
	assert_string_equal(ask("/run/a.sock", NULL, &driver), first);
	assert_string_not_equal(ask("/run/b.sock", NULL, &driver), first);
	assert_int_equal(chdir("/run"), 0);
	assert_string_equal(ask("a.sock", NULL, &driver), first);
	/* another user's files are in a folder of its own */
	got = ask_for((struct daemon_worker_user){.set = true, .uid = 61234, .gid = 61234}, "web-1");
	snprintf(expected, sizeof(expected), "VCUDA_CACHE=%s/vm/web-1/61234", folder);
	assert_string_equal(got, expected);
	snprintf(expected, sizeof(expected), "%s/vm/web-1/61234/kernels", folder);
	assert_int_equal(stat(expected, &made), 0);
	assert_int_equal(made.st_uid, geteuid() ? geteuid() : 61234);
	/* the operator's variables for the driver stay */
	setenv("CUDA_CACHE_PATH", "/elsewhere", 1);
	assert_non_null(ask("/run/a.sock", NULL, &driver));
	assert_null(driver);
}

static void homes(void **state)
{
	char expected[200];
	const char *driver;

	(void)state;
	unsetenv("VCUDA_CACHE");
	setenv("XDG_CACHE_HOME", folder, 1);
	snprintf(expected, sizeof(expected), "VCUDA_CACHE=%s/vcuda/vm/a", folder);
	assert_string_equal(ask("/run/a.sock", "a", &driver), expected);
	unsetenv("XDG_CACHE_HOME");
	setenv("HOME", folder, 1);
	snprintf(expected, sizeof(expected), "VCUDA_CACHE=%s/.cache/vcuda/vm/a", folder);
	assert_string_equal(ask("/run/a.sock", "a", &driver), expected);
	unsetenv("HOME");
	assert_null(ask("/run/a.sock", "a", &driver));
}

static void names(void **state)
{
	static const char *const good[] = {"a", "web-1", "A.b_c", "shared"}, *const bad[] = {"",    ".",  "..",
											     "a/b", "-a", "a b"};

	(void)state;
	for (size_t n = 0; n < sizeof(good) / sizeof(good[0]); n++)
		assert_true(daemon_cache_is_name(good[n]));
	for (size_t n = 0; n < sizeof(bad) / sizeof(bad[0]); n++)
		assert_false(daemon_cache_is_name(bad[n]));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(folders, set_up, tear_down),
		cmocka_unit_test_setup_teardown(homes, set_up, tear_down),
		cmocka_unit_test(names),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
