/* SPDX-License-Identifier: Apache-2.0 */
/* Threads that run a context's commands (host/worker/queue/lanes.h), with contexts that come and go. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <stdatomic.h>
#include <stdlib.h>

#include "host/worker/queue/lanes.h"
#include "host/worker/queue/stage-queue.h"
#include "host/worker/session/destroy.h"
#include "host/worker/session/dispatch.h"
#include "host/worker/session/handle.h"
#include "host/worker/session/session.h"
#include "ring/ring.h"

#define COMMANDS 100

static const struct vcuda_backend_ops ops = {.name = "cpu"};
static struct worker_session session = {.ops = &ops};
static int object;

/* A launch: the stream is the ninth word, and 0 is the context's own. */
static struct {
	struct vcuda_command command;
	uint64_t words[16];
} launch = {.command = {.size = sizeof(launch), .op = VCUDA_OP_vcudaLaunchKernel}};

static _Atomic uint64_t last, ran;
static _Atomic bool in_order = true;

void worker_destroy_ready(struct worker_session *s)
{
}

bool worker_stage_queue_any(void)
{
	return false;
}

static bool has_memory = true;
static unsigned int opens;

static void *open_lane(void)
{
	opens++;
	return has_memory ? malloc(1) : NULL;
}

static void run(void *opened, const struct vcuda_command *c)
{
	if (c->seq != atomic_load(&last) + 1)
		atomic_store(&in_order, false);
	atomic_store(&last, c->seq);
	atomic_fetch_add(&ran, 1);
}

static uint64_t make_context(void)
{
	return worker_handle_add(session.handles, VCUDA_KIND_CONTEXT, false, &object, 0, 0);
}

static void destroy_context(uint64_t id)
{
	assert_non_null(worker_handle_claim(session.handles, id, ~0u));
	worker_handle_remove(session.handles, id);
}

/* Whether a lane has taken it. */
static bool give(uint64_t context, uint32_t thread, uint64_t seq)
{
	launch.command.context = context;
	launch.command.thread = thread;
	launch.command.seq = seq;
	return worker_lanes_give(&session, &launch.command);
}

static void reach_all(void)
{
	struct worker_lanes_mark mark;
	struct vcuda_command other = {.size = sizeof(other), .op = VCUDA_OP_cuCtxSynchronize};

	worker_lanes_mark(&session, &other, &mark);
	worker_lanes_reach(&mark);
}

static uint64_t contexts[WORKER_LANES + 1];

/* Launches of one thread need no lane. */
static void test_one_thread(void **state)
{
	session.handles = worker_handles_create();
	worker_lanes_start(open_lane, run);
	for (int i = 0; i <= WORKER_LANES; i++)
		contexts[i] = make_context();
	assert_false(give(contexts[0], 1, 1));
	assert_false(give(contexts[0], 1, 1));
	assert_int_equal(opens, 0);
}

/* Without memory for a lane the caller runs the commands of its context, and memory is not asked for with each. */
static void test_no_memory(void **state)
{
	uint64_t context = make_context();

	has_memory = false;
	for (int i = 0; i < 3; i++)
		assert_false(give(context, 2, 1));
	assert_int_equal(opens, 1);
	reach_all();
	assert_int_equal(atomic_load(&ran), 0);
	has_memory = true;
	destroy_context(context);
}

/* Launches of several threads, in a context each, have a lane each. */
static void test_several(void **state)
{
	for (int i = 1; i <= WORKER_LANES; i++) {
		atomic_store(&last, 0);
		assert_true(give(contexts[i], (uint32_t)i + 1, 1));
		reach_all();
	}
	assert_int_equal(atomic_load(&ran), WORKER_LANES);
}

/* A lane runs commands in order, and has run all of them when its mark is reached. */
static void test_order(void **state)
{
	uint64_t before = atomic_load(&ran);

	atomic_store(&last, 0);
	for (uint64_t n = 1; n <= COMMANDS; n++)
		assert_true(give(contexts[1], 2, n));
	reach_all();
	assert_int_equal(atomic_load(&ran), before + COMMANDS);
	assert_true(atomic_load(&in_order));
}

/* No lane is left for the first context until another one has been destroyed. */
static void test_take_over(void **state)
{
	uint64_t before = atomic_load(&ran);

	atomic_store(&last, 0);
	for (int i = 0; i < 3; i++)
		assert_false(give(contexts[0], 1, 1));
	destroy_context(contexts[5]);
	for (uint64_t n = 1; n <= COMMANDS; n++)
		assert_true(give(contexts[0], 1, n));
	reach_all();
	assert_int_equal(atomic_load(&ran), before + COMMANDS);
	assert_true(atomic_load(&in_order));
}

/* Nothing is run for what is no context. */
static void test_no_context(void **state)
{
	destroy_context(contexts[6]);
	assert_false(give(contexts[5], 1, 1));
	assert_false(give(12345, 2, 1));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_one_thread),
		cmocka_unit_test(test_no_memory),
		cmocka_unit_test(test_several),
		cmocka_unit_test(test_order),
		cmocka_unit_test(test_take_over),
		cmocka_unit_test(test_no_context),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
