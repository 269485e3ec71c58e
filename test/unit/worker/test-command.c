/* SPDX-License-Identifier: Apache-2.0 */
/* Errors of asynchronous commands (host/worker/session/command.h), which lanes record at the same time. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>

#include "host/worker/session/command.h"
#include "host/worker/session/destroy.h"
#include "host/worker/session/handle.h"
#include "host/worker/session/session.h"
#include "ring/ring.h"

#define THREAD 7 /* of the guest */
#define ROUNDS 5000
#define LANES 4

_Static_assert(LANES <= WORKER_PENDING_ERRORS, "each lane's error has a place");

static struct worker_session session;
static _Atomic unsigned int arrived;

void worker_destroy_ready(struct worker_session *s)
{
}

static struct vcuda_command command_in(uint64_t context)
{
	return (struct vcuda_command){.context = context, .thread = THREAD};
}

static uint64_t context_of(int lane, int round)
{
	return (uint64_t)(round + 1) * LANES + (uint64_t)lane;
}

/* Lets all lanes go on at one time. */
static void meet(unsigned int count)
{
	atomic_fetch_add(&arrived, 1);
	while (atomic_load(&arrived) < count * LANES)
		sched_yield();
}

/* Returns what went wrong. All lanes make all rounds: the others would wait for one that ends. */
static void *record(void *lane)
{
	const char *wrong = NULL;

	for (int round = 0; round < ROUNDS; round++) {
		struct vcuda_command c = command_in(context_of((int)(intptr_t)lane, round));

		meet(3 * (unsigned int)round + 1);
		worker_command_record_error(&session, &c, CUDA_ERROR_ILLEGAL_ADDRESS + (CUresult)(intptr_t)lane);
		meet(3 * (unsigned int)round + 2);
		/* All have been recorded, and none has been taken. */
		if (worker_command_take_error(&session, &c) != CUDA_ERROR_ILLEGAL_ADDRESS + (CUresult)(intptr_t)lane)
			wrong = "an error was lost";
		if (worker_command_take_error(&session, &c) != CUDA_SUCCESS)
			wrong = "an error was taken twice";
		meet(3 * (unsigned int)round + 3);
	}
	return (void *)wrong;
}

/* Commands of one guest thread fail in several contexts at one time: each error is there for a wait in its context. */
static void test_at_one_time(void **state)
{
	pthread_t lanes[LANES];

	for (intptr_t i = 0; i < LANES; i++)
		assert_int_equal(pthread_create(&lanes[i], NULL, record, (void *)i), 0);
	for (int i = 0; i < LANES; i++) {
		void *said;

		assert_int_equal(pthread_join(lanes[i], &said), 0);
		if (said)
			fail_msg("%s", (const char *)said);
	}
}

/* Whether the device may wait for the process is known of the last command alone. */
static void test_may_wait(void **state)
{
	struct vcuda_command c = command_in(1);

	worker_command_begin(&c);
	assert_false(worker_command_may_wait());
	worker_command_note_wait();
	worker_command_end(&session);
	assert_true(worker_command_may_wait());
	worker_command_begin(&c);
	assert_false(worker_command_may_wait());
	worker_command_end(&session);
}

int main(void)
{
	const struct CMUnitTest tests[] = {cmocka_unit_test(test_at_one_time), cmocka_unit_test(test_may_wait)};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
