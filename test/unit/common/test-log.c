/* SPDX-License-Identifier: Apache-2.0 */
/* The log: the form of a line and the switches that turn lines off. stderr is a pipe in each test. */
#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "common/log.h"

static char observed[2000];
static size_t observed_bytes;

static void observe(const char *message, size_t length)
{
	memcpy(observed, message, length);
	observed_bytes = length;
}

const struct vcuda_log_program vcuda_log_program = {.name = "program", .variable = "TEST_LOG", .observe = observe};

static int stderr_before, from_stderr;

static int redirect(void **state)
{
	int ends[2];

	if (pipe2(ends, O_NONBLOCK))
		return -1;
	stderr_before = dup(STDERR_FILENO);
	from_stderr = ends[0];
	dup2(ends[1], STDERR_FILENO);
	close(ends[1]);
	return 0;
}

static int restore(void **state)
{
	dup2(stderr_before, STDERR_FILENO);
	close(stderr_before);
	close(from_stderr);
	unsetenv("TEST_LOG");
	vcuda_log_quiet(false);
	vcuda_log_verbose(false);
	return 0;
}

/* Returns and takes the output so far. */
static const char *written(void)
{
	static char text[8000];
	ssize_t n = read(from_stderr, text, sizeof(text) - 1);

	text[n < 0 ? 0 : n] = 0;
	return text;
}

static void test_line(void **state)
{
	errno = EBADF;
	vcuda_log("%d is %m", 7);
	assert_int_equal(errno, EBADF);
	assert_string_equal(written(), "program: 7 is Bad file descriptor\n");
	assert_memory_equal(observed, "7 is Bad file descriptor", observed_bytes);
}

static void test_long_line(void **state)
{
	char message[1500];
	const char *line;

	memset(message, 'x', sizeof(message) - 1);
	message[sizeof(message) - 1] = 0;
	vcuda_log("%s", message);
	line = written();
	assert_int_equal(strlen(line), 1023);
	assert_int_equal(line[1022], '\n');
}

static void test_off(void **state)
{
	vcuda_log_debug("not asked for");
	setenv("TEST_LOG", "0", 1);
	vcuda_log("off");
	assert_memory_equal(observed, "off", observed_bytes);
	setenv("TEST_LOG", "1", 1);
	vcuda_log_quiet(true);
	vcuda_log("quiet");
	assert_string_equal(written(), "");
	vcuda_log_quiet(false);
	vcuda_log_verbose(true);
	vcuda_log_debug("debug");
	assert_string_equal(written(), "program: debug\n");
}

static void test_keep(void **state)
{
	char buffer[10];

	vcuda_log_capture(buffer, sizeof(buffer));
	vcuda_log("abc");
	assert_string_equal(buffer, "abc\n");
	vcuda_log("defghij");
	assert_string_equal(buffer, "abc\ndefgh");
	assert_int_equal(vcuda_log_capture(NULL, 0), 9);
	vcuda_log("not kept");
	assert_string_equal(buffer, "abc\ndefgh");
	assert_string_equal(written(), "program: abc\nprogram: defghij\nprogram: not kept\n");
}

static void test_once_and_limit(void **state)
{
	const char *text;
	int lines = 0;

	for (int i = 0; i < 20; i++)
		vcuda_log_once("once");
	assert_string_equal(written(), "program: once\n");
	for (int i = 0; i < 100; i++)
		vcuda_log_peer("peer");
	for (text = written(); (text = strchr(text, '\n')); text++)
		lines++;
	/* More than ten only if the loop takes longer than the limit's period. */
	assert_in_range(lines, 10, 50);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(test_line, redirect, restore),
		cmocka_unit_test_setup_teardown(test_long_line, redirect, restore),
		cmocka_unit_test_setup_teardown(test_off, redirect, restore),
		cmocka_unit_test_setup_teardown(test_keep, redirect, restore),
		cmocka_unit_test_setup_teardown(test_once_and_limit, redirect, restore),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
