/* SPDX-License-Identifier: Apache-2.0 */
/* A process opens files under Landlock's rules of a worker. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <errno.h>
#include <fcntl.h>
#include <glob.h>
#include <stdbool.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "host/sandbox/stages.h"

/* Exit statuses of a child. */
enum { GOOD, BAD, NO_LANDLOCK };

static int run_child(bool (*is_good)(void))
{
	const struct sandbox_needs needs = {.cpu = true, .cuda = true, .libraries = (const char *const[]){NULL}};
	int status;
	pid_t pid = fork();

	assert_true(pid >= 0);
	if (!pid) {
		int err = prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) ? -errno : sandbox_limit_files(&needs);

		_exit(err == -ENOSYS || err == -EOPNOTSUPP ? NO_LANDLOCK : !err && is_good() ? GOOD : BAD);
	}
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_true(WIFEXITED(status));
	if (WEXITSTATUS(status) == NO_LANDLOCK)
		skip();
	return WEXITSTATUS(status);
}

static bool opens(const char *path, int flags)
{
	int fd = open(path, flags | O_CLOEXEC);

	if (fd >= 0)
		close(fd);
	return fd >= 0;
}

static bool is_limited(void)
{
	return !opens("/etc", O_RDONLY | O_DIRECTORY) && errno == EACCES && opens("/dev/null", O_RDWR) &&
	       !opens("/dev/tty", O_RDWR) && opens("/proc/self/status", O_RDONLY);
}

static void test_others_are_refused(void **state)
{
	(void)state;
	assert_int_equal(run_child(is_limited), GOOD);
}

/* A worker that is started anew in its process makes its rules again, and needs the same files for that. */
static bool finds_devices(void)
{
	const struct sandbox_needs needs = {.cpu = true, .cuda = true, .libraries = (const char *const[]){NULL}};
	glob_t found;

	if (glob("/dev/nul[k-m]*", 0, NULL, &found) || found.gl_pathc != 1)
		return false;
	return !sandbox_limit_files(&needs) && is_limited();
}

static void test_rules_are_made_again(void **state)
{
	(void)state;
	assert_int_equal(run_child(finds_devices), GOOD);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_others_are_refused),
		cmocka_unit_test(test_rules_are_made_again),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
