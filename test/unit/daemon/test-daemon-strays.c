/* SPDX-License-Identifier: Apache-2.0 */
/* Processes that a worker leaves behind: vcudad ends its own children alone, whatever number it reads. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>

#include <cmocka.h>

/* Compiled into the test, which replaces the kernel's list of children by its own. */
#include "host/daemon/worker/strays.c"

static bool known(pid_t child)
{
	return child == 0;
}

static void set_list(const char *text)
{
	strays.known = known;
	strays.adopts = true;
	strays.children = memfd_create("children", MFD_CLOEXEC);
	assert_true(strays.children >= 0);
	assert_int_equal(write(strays.children, text, strlen(text)), (ssize_t)strlen(text));
}

/* A process that is no child of this one: its parent sends its number, and lives until the pipe is closed. */
static pid_t other_process(pid_t *parent, int *end)
{
	int numbers[2], ends[2];
	pid_t other = 0;
	char c;

	assert_int_equal(pipe(numbers) || pipe(ends), 0);
	*parent = fork();
	assert_true(*parent >= 0);
	if (!*parent) {
		close(ends[1]);
		other = fork();
		if (!other)
			_exit(read(ends[0], &c, 1) ? 1 : 0);
		if (write(numbers[1], &other, sizeof(other)) < 0)
			_exit(1);
		_exit(waitpid(other, &(int){0}, 0) == other && read(ends[0], &c, 1) == 0 ? 0 : 1);
	}
	close(ends[0]);
	assert_int_equal(read(numbers[0], &other, sizeof(other)), sizeof(other));
	close(numbers[0]);
	close(numbers[1]);
	*end = ends[1];
	return other;
}

static void test_no_child(void **state)
{
	char text[64];
	pid_t parent, other;
	int end, status;

	(void)state;
	other = other_process(&parent, &end);
	snprintf(text, sizeof(text), "%d %d ", other, getpid());
	set_list(text);
	assert_true(daemon_strays_left());
	/* A process that was killed is waited for by its parent. */
	usleep(50000);
	assert_int_equal(kill(other, 0), 0);
	close(end);
	assert_int_equal(waitpid(parent, &status, 0), parent);
	assert_int_equal(status, 0);
	close(strays.children);
}

static void test_child(void **state)
{
	pid_t child = fork();
	char text[32];
	siginfo_t info;

	(void)state;
	assert_true(child >= 0);
	if (!child)
		for (;;)
			pause();
	snprintf(text, sizeof(text), "%d ", child);
	set_list(text);
	assert_true(daemon_strays_left());
	assert_int_equal(waitid(P_PID, (id_t)child, &info, WEXITED | WNOWAIT), 0);
	assert_int_equal(info.si_code, CLD_KILLED);
	/* The next call waits for the child. */
	daemon_strays_left();
	assert_int_equal(waitid(P_PID, (id_t)child, &info, WEXITED | WNOHANG), -1);
	close(strays.children);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_no_child),
		cmocka_unit_test(test_child),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
