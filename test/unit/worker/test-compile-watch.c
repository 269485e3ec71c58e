/* SPDX-License-Identifier: Apache-2.0 */
/* A call that compiles ends its worker by the time that it uses of a processor, and by no other time. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "host/worker/queue/compile-watch.h"
#include "host/worker/session/ledger.h"

uint64_t worker_ledger_process_limit(enum vcuda_ledger_process_limit which)
{
	assert_int_equal(which, VCUDA_LEDGER_COMPILE_SECONDS);
	return 1;
}

void worker_ledger_refused(enum vcuda_ledger_process_limit which)
{
	assert_int_equal(which, VCUDA_LEDGER_COMPILE_SECONDS);
}

static void work(double seconds)
{
	struct timespec t;

	do
		clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
	while ((double)t.tv_sec + (double)t.tv_nsec * 1e-9 < seconds);
}

static int status_of(void (*run)(void))
{
	int status = -1;
	pid_t pid = fork();

	if (!pid) {
		alarm(600);
		run();
		_exit(0);
	}
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_true(WIFEXITED(status));
	return WEXITSTATUS(status);
}

static void call_for_ever(void)
{
	struct worker_compile_watch watch, other;

	worker_compile_watch_begin(&watch);
	worker_compile_watch_begin(&other);
	worker_compile_watch_end(&other);
	work(1e9);
}

static void work_outside(void)
{
	struct worker_compile_watch watch;

	work(0.7);
	worker_compile_watch_begin(&watch);
	/* waits for a lock, say */
	usleep(1200000);
	work(1.2);
	worker_compile_watch_end(&watch);
	work(2);
}

static void ends(void **state)
{
	(void)state;
	assert_int_equal(status_of(call_for_ever), 1);
}

static void lives(void **state)
{
	(void)state;
	assert_int_equal(status_of(work_outside), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(ends),
		cmocka_unit_test(lives),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
