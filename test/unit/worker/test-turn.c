/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Turns on a GPU (host/worker/queue/turn.h), over a driver whose contexts end their work when the test says so.
 * Forbidden events are watched for during 30 ms: a busy machine may miss a fault, but a correct run never fails.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <errno.h>
#include <linux/futex.h>
#include <limits.h>
#include <pthread.h>
#include <stdlib.h>
#include <sys/eventfd.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "host/worker/queue/callback.h"
#include "host/worker/queue/dispatcher.h"
#include "host/worker/queue/turn-events.h"
#include "host/worker/queue/turn.h"
#include "host/worker/session/destroy.h"
#include "host/worker/session/handle.h"
#include "host/worker/session/ledger.h"
#include "host/worker/session/session.h"

#define WHILE_MS 30
#define PRODUCERS 4
#define COMMANDS 20000

/* More commands are never on the GPU in a turn. */
#define MOST_LIMIT 1024

/* ---- a driver ---- */

struct context {
	_Atomic uint64_t given, done; /* commands */
};

struct event {
	struct context *context;
	_Atomic uint64_t behind; /* number of commands before the event */
};

static CUresult set_current(CUcontext context)
{
	return CUDA_SUCCESS;
}

static _Atomic CUresult create_result;

static CUresult event_create(CUevent *event, unsigned int flags)
{
	*event = atomic_load(&create_result) == CUDA_SUCCESS ? calloc(1, sizeof(struct event)) : NULL;
	return atomic_load(&create_result);
}

static _Atomic unsigned int records;

static CUresult record(CUcontext context, CUevent event)
{
	struct event *e = (struct event *)event;

	e->context = (struct context *)context;
	atomic_store(&e->behind, atomic_load(&e->context->given));
	atomic_fetch_add(&records, 1);
	return CUDA_SUCCESS;
}

static CUresult query(CUevent event)
{
	const struct event *e = (const struct event *)event;

	return atomic_load(&e->context->done) < atomic_load(&e->behind) ? CUDA_ERROR_NOT_READY : CUDA_SUCCESS;
}

static const struct vcuda_backend_ops ops = {.name = "cuda",
					     .cuCtxSetCurrent = set_current,
					     .cuEventCreate = event_create,
					     .cuCtxRecordEvent = record,
					     .cuEventQuery = query};

static _Atomic unsigned int put_off;

void worker_destroy_ready(struct worker_session *s)
{
	atomic_fetch_add(&put_off, 1);
}

/* ---- the worker ---- */

#define NUMBER 7
#define OTHER_NUMBER 8
#define OWN_TURN VCUDA_TURNS_STATE(VCUDA_TURNS_TAKEN, 1, 0, NUMBER)

static struct worker_session session = {.ops = &ops};
static struct vcuda_demand demand = {.number = NUMBER};
static _Atomic uint32_t state;
static struct vcuda_turns turns = {.state = &state, .demand = &demand};
static struct context context;
static uint64_t context_id;

static _Atomic uint64_t kernel_seconds = VCUDA_LEDGER_KERNEL_SECONDS_DEFAULT;
static _Atomic int ended, refused;
static _Atomic bool callback_runs;

bool worker_callback_runs(struct worker_session *s)
{
	return atomic_load(&callback_runs);
}

uint64_t worker_ledger_process_limit(enum vcuda_ledger_process_limit which)
{
	return atomic_load(&kernel_seconds);
}

void worker_ledger_refused(enum vcuda_ledger_process_limit which)
{
	atomic_fetch_add(&refused, which == VCUDA_LEDGER_KERNEL_SECONDS);
}

/* The thread that looks at events ends here, in place of the process. */
void worker_dispatcher_end(struct worker_session *s, CUresult reason)
{
	atomic_store(&ended, (int)reason);
	for (;;)
		pause();
}

static void set_state(uint32_t to)
{
	atomic_store(&state, to);
	syscall(SYS_futex, &state, FUTEX_WAKE, INT_MAX, NULL, NULL, 0);
}

static void nap(void)
{
	nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
}

/* As the gate does. */
static void pass(struct context *c)
{
	enum worker_turn turn;

	do {
		worker_turn_wait();
		turn = worker_turn_begin();
	} while (turn == WORKER_TURN_OTHER);
	atomic_fetch_add(&c->given, 1);
	if (turn == WORKER_TURN_BEGUN)
		worker_turn_end();
}

static void end_all_work(void)
{
	atomic_store(&context.done, UINT64_MAX);
}

static void end_no_work(void)
{
	atomic_store(&context.done, atomic_load(&context.given));
}

static void wait_until_idle(void)
{
	while (atomic_load(&demand.running) || atomic_load(&demand.wanted))
		nap();
}

static void settle_all(void)
{
	end_all_work();
	set_state(0);
	wait_until_idle();
	end_no_work();
}

/* A thread that passes commands until it is told to stop. */
static struct {
	pthread_t thread;
	_Atomic uint64_t passed;
	_Atomic bool stop;
} producer;

static void *produce(void *unused)
{
	while (!atomic_load(&producer.stop)) {
		pass(&context);
		atomic_fetch_add(&producer.passed, 1);
	}
	return unused;
}

static void start_producer(void)
{
	atomic_store(&producer.passed, 0);
	atomic_store(&producer.stop, false);
	assert_int_equal(pthread_create(&producer.thread, NULL, produce, NULL), 0);
}

static void stop_producer(void)
{
	atomic_store(&producer.stop, true);
	end_all_work();
	set_state(0);
	pthread_join(producer.thread, NULL);
	settle_all();
}

/* Returns once the producer waits. */
static uint64_t wait_until_blocked(void)
{
	uint64_t before;

	do {
		before = atomic_load(&producer.passed);
		for (int i = 0; i < 10; i++)
			nap();
	} while (!atomic_load(&demand.wanted) || !before || atomic_load(&producer.passed) != before);
	return before;
}

/* ---- tests ---- */

static void test_before_start(void **unused)
{
	worker_turn_wait();
	assert_int_equal(worker_turn_begin(), WORKER_TURN_NONE);
	assert_int_equal(atomic_load(&demand.running), 0);
}

static void test_start(void **unused)
{
	session.handles = worker_handles_create();
	context_id = worker_handle_add(session.handles, VCUDA_KIND_CONTEXT, false, &context, 0, 0);
	turns.drained = eventfd(0, EFD_NONBLOCK);
	assert_true(worker_turn_start(&session, &turns));
	assert_int_equal(atomic_load(&demand.on_gpu), 1);
}

/*
 * In turns a worker whose work has not ended lately waits for a trial, which lasts until its work ends. Commands that are
 * given then need none.
 */
static void test_trial(void **unused)
{
	const uint32_t others = VCUDA_TURNS_STATE(VCUDA_TURNS_TAKEN, 1, 0, OTHER_NUMBER);
	uint64_t count;

	end_no_work();
	set_state(others);
	start_producer();
	while (!atomic_load(&demand.tries))
		nap();
	for (int i = 0; i < WHILE_MS; i++, nap())
		assert_int_equal(atomic_load(&producer.passed), 0);
	assert_true(read(turns.drained, &count, sizeof(count)) > 0);
	set_state(OWN_TURN);
	while (!atomic_load(&producer.passed))
		nap();
	for (int i = 0; i < WHILE_MS; i++, nap())
		assert_int_equal(atomic_load(&demand.tries), 1);
	set_state(others);
	wait_until_blocked();
	end_no_work();
	while (atomic_load(&demand.tries))
		nap();
	assert_true(read(turns.drained, &count, sizeof(count)) > 0);
	/* The next commands, of a worker that needs no trial for two seconds, or whose trial it is. */
	set_state(OWN_TURN);
	count = atomic_load(&producer.passed);
	while (atomic_load(&producer.passed) == count)
		nap();
	stop_producer();
}

static _Atomic bool shares;

static bool has_shared(void)
{
	return atomic_load(&shares);
}

/* A process that shares memory may wait for another one's work, and needs no trial. */
static void test_shares(void **unused)
{
	session.has_shared = has_shared;
	settle_all();
	/* Until the worker would need a trial. */
	for (int i = 0; i < 2100; i++)
		nap();
	set_state(VCUDA_TURNS_STATE(VCUDA_TURNS_TAKEN, 1, 0, OTHER_NUMBER));
	start_producer();
	while (!atomic_load(&demand.tries))
		nap();
	assert_int_equal(atomic_load(&producer.passed), 0);
	atomic_store(&shares, true);
	while (!atomic_load(&producer.passed))
		nap();
	stop_producer();
	atomic_store(&shares, false);
}

/* Work counts from the command on until it has ended. */
static void test_open(void **unused)
{
	uint32_t begun = atomic_load(&demand.begun);

	end_no_work();
	for (int i = 0; i < 1000; i++)
		pass(&context);
	assert_true(atomic_load(&demand.begun) != begun);
	for (int i = 0; i < WHILE_MS; i++, nap())
		assert_int_equal(atomic_load(&demand.running), 1);
	end_all_work();
	wait_until_idle();
}

static void test_held(void **unused)
{
	settle_all();
	set_state(VCUDA_TURNS_HELD | VCUDA_TURNS_TAKEN);
	start_producer();
	while (!atomic_load(&demand.wanted))
		nap();
	for (int i = 0; i < WHILE_MS; i++, nap())
		assert_int_equal(atomic_load(&producer.passed), 0);
	assert_int_equal(atomic_load(&demand.running), 0);
	set_state(OWN_TURN);
	while (!atomic_load(&producer.passed))
		nap();
	stop_producer();
}

/* Another worker of the VM may run, and this worker may not. */
static void test_other_worker(void **unused)
{
	settle_all();
	set_state(VCUDA_TURNS_STATE(VCUDA_TURNS_TAKEN, 2, OTHER_NUMBER, NUMBER));
	start_producer();
	while (!atomic_load(&demand.wanted))
		nap();
	for (int i = 0; i < WHILE_MS; i++, nap())
		assert_int_equal(atomic_load(&producer.passed), 0);
	assert_int_equal(atomic_load(&demand.running), 0);
	set_state(VCUDA_TURNS_STATE(VCUDA_TURNS_TAKEN, 2, NUMBER, NUMBER));
	while (!atomic_load(&producer.passed))
		nap();
	stop_producer();
}

/* The turn has ended when all work has. */
static void test_drain(void **unused)
{
	uint64_t count;

	settle_all();
	set_state(OWN_TURN);
	pass(&context);
	pass(&context);
	while (read(turns.drained, &count, sizeof(count)) > 0)
		;
	set_state(VCUDA_TURNS_HELD | VCUDA_TURNS_TAKEN);
	for (int i = 0; i < WHILE_MS; i++, nap())
		assert_int_equal(atomic_load(&demand.running), 1);
	assert_true(read(turns.drained, &count, sizeof(count)) < 0 && errno == EAGAIN);
	end_all_work();
	while (atomic_load(&demand.running))
		nap();
	while (read(turns.drained, &count, sizeof(count)) < 0)
		nap();
	settle_all();
}

/* In a turn few commands are on the GPU; when those have ended, more come. */
static void test_limit(void **unused)
{
	uint64_t first, second;

	settle_all();
	set_state(OWN_TURN);
	start_producer();
	first = wait_until_blocked();
	assert_in_range(first, 1, MOST_LIMIT);
	end_no_work();
	while (atomic_load(&producer.passed) == first)
		nap();
	second = wait_until_blocked();
	assert_in_range(second - first, 1, 2 * MOST_LIMIT);
	stop_producer();
}

/* Calls that have begun and stay in the driver: as many as the limit lets through. */
static uint64_t begin_calls(void)
{
	uint64_t begun = 0;

	set_state(OWN_TURN);
	worker_turn_wait();
	while (begun <= MOST_LIMIT && worker_turn_begin() == WORKER_TURN_BEGUN)
		begun++;
	return begun;
}

static void end_calls(uint64_t begun)
{
	end_all_work();
	while (begun--)
		worker_turn_end();
}

/* Threads that have all seen room for a command fill the limit together, and go no further. */
static void test_limit_of_threads(void **unused)
{
	uint64_t begun;

	settle_all();
	begun = begin_calls();
	assert_in_range(begun, 1, MOST_LIMIT);
	end_calls(begun);
	settle_all();
}

/* A call in the driver may wait for another thread's command, which passes after some time. */
static void test_patience_of_calls(void **unused)
{
	uint64_t begun;

	settle_all();
	begun = begin_calls();
	start_producer();
	while (!atomic_load(&producer.passed))
		nap();
	end_calls(begun);
	stop_producer();
}

/* The command passes at once when there are no turns any more. */
static void test_calls_without_turns(void **unused)
{
	uint64_t begun;

	settle_all();
	begun = begin_calls();
	start_producer();
	while (!atomic_load(&demand.wanted))
		nap();
	set_state(0);
	while (atomic_load(&producer.passed) < 1000)
		nap();
	end_calls(begun);
	stop_producer();
}

/* Running work may wait for a later command. */
static void test_patience(void **unused)
{
	uint64_t first;

	settle_all();
	set_state(OWN_TURN);
	start_producer();
	first = wait_until_blocked();
	while (atomic_load(&producer.passed) < first + 2)
		nap();
	stop_producer();
}

/* A context that ends takes its work along. */
static void test_context_ends(void **unused)
{
	struct context other = {0};
	uint64_t id = worker_handle_add(session.handles, VCUDA_KIND_CONTEXT, false, &other, 0, 0);
	unsigned int before;

	settle_all();
	before = atomic_load(&records);
	set_state(OWN_TURN);
	pass(&other);
	while (atomic_load(&records) == before)
		nap();
	assert_int_equal(atomic_load(&demand.running), 1);
	assert_non_null(worker_handle_claim(session.handles, id, ~0u));
	worker_handle_remove(session.handles, id);
	wait_until_idle();
	settle_all();
}

/* The destruction is put off, and the work of the context counts until that has ended. */
static void test_context_ends_later(void **unused)
{
	struct context other = {0};
	uint64_t id = worker_handle_add(session.handles, VCUDA_KIND_CONTEXT, false, &other, 0, 0);

	settle_all();
	pass(&other);
	assert_non_null(worker_handle_claim(session.handles, id, ~0u));
	worker_turn_watcher.ends(id);
	worker_turn_watcher.is_put_off();
	worker_handle_remove(session.handles, id);
	while (!worker_turn_settle() || atomic_load(&demand.running) != 1)
		nap();
	for (int i = 0; i < WHILE_MS; i++, nap())
		assert_int_equal(atomic_load(&demand.running), 1);
	worker_turn_watcher.has_ended();
	assert_int_equal(atomic_load(&demand.running), 0);
}

/* A context whose event cannot be made is busy. */
static void test_no_event(void **unused)
{
	struct context other = {0};
	uint64_t id = worker_handle_add(session.handles, VCUDA_KIND_CONTEXT, false, &other, 0, 0);

	settle_all();
	atomic_store(&create_result, CUDA_ERROR_OUT_OF_MEMORY);
	pass(&other);
	for (int i = 0; i < WHILE_MS; i++, nap())
		assert_int_equal(atomic_load(&demand.running), 1);
	atomic_store(&create_result, CUDA_SUCCESS);
	for (int i = 0; i < WHILE_MS; i++, nap())
		assert_int_equal(atomic_load(&demand.running), 1);
	atomic_store(&other.done, 1);
	wait_until_idle();
	/* A context that failed has no work. */
	atomic_store(&other.done, 0);
	worker_turn_events_forget(id);
	atomic_store(&create_result, CUDA_ERROR_ILLEGAL_ADDRESS);
	pass(&other);
	wait_until_idle();
	atomic_store(&create_result, CUDA_SUCCESS);
	worker_turn_events_forget(id);
	assert_non_null(worker_handle_claim(session.handles, id, ~0u));
	worker_handle_remove(session.handles, id);
}

/* Running work waits for a later command, and no turn is as long as the patience. */
static void test_patience_of_short_turns(void **unused)
{
	uint64_t first;

	settle_all();
	set_state(OWN_TURN);
	start_producer();
	first = wait_until_blocked();
	while (atomic_load(&producer.passed) < first + 2) {
		set_state(VCUDA_TURNS_TAKEN | VCUDA_TURNS_HELD);
		for (int i = 0; i < 20; i++)
			nap();
		set_state(OWN_TURN);
		for (int i = 0; i < 20; i++)
			nap();
	}
	stop_producer();
}

static void test_settle(void **unused)
{
	settle_all();
	pass(&context);
	assert_false(worker_turn_settle());
	assert_int_equal(atomic_load(&demand.running), 1);
	end_all_work();
	while (!worker_turn_settle())
		;
	wait_until_idle();
}

static void *pass_many(void *unused)
{
	for (int i = 0; i < COMMANDS; i++)
		pass(&context);
	return unused;
}

/* Each command is counted in any order, and at the end none is. */
static void test_many(void **unused)
{
	pthread_t threads[PRODUCERS];

	settle_all();
	end_all_work();
	for (int i = 0; i < PRODUCERS; i++)
		assert_int_equal(pthread_create(&threads[i], NULL, pass_many, NULL), 0);
	for (int i = 0; i < 200; i++, nap())
		set_state((uint32_t)rand() % 2 ? OWN_TURN | (uint32_t)rand() % 2 : 0);
	set_state(0);
	for (int i = 0; i < PRODUCERS; i++)
		pthread_join(threads[i], NULL);
	wait_until_idle();
	assert_int_equal(atomic_load(&demand.running), 0);
	assert_int_equal(atomic_load(&demand.wanted), 0);
}

static void nap_for(unsigned int ms)
{
	for (unsigned int i = 0; i < ms; i++)
		nap();
}

/* The last test: no thread queries events afterwards. Time in which work may wait for the process does not count. */
static void test_takes_too_long(void **unused)
{
	settle_all();
	atomic_store(&kernel_seconds, 1);
	pass(&context);
	nap_for(1500);
	assert_int_equal(atomic_load(&ended), 0);
	end_all_work();
	wait_until_idle();
	end_no_work();
	set_state(OWN_TURN);
	atomic_store(&callback_runs, true);
	pass(&context);
	nap_for(1500);
	assert_int_equal(atomic_load(&ended), 0);
	end_all_work();
	wait_until_idle();
	end_no_work();
	atomic_store(&callback_runs, false);
	pass(&context);
	worker_turn_may_wait();
	nap_for(1500);
	assert_int_equal(atomic_load(&ended), 0);
	end_all_work();
	wait_until_idle();
	end_no_work();
	pass(&context);
	while (!atomic_load(&ended))
		nap();
	assert_int_equal(atomic_load(&ended), CUDA_ERROR_LAUNCH_TIMEOUT);
	assert_int_equal(atomic_load(&refused), 1);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_before_start),
		cmocka_unit_test(test_start),
		cmocka_unit_test(test_trial),
		cmocka_unit_test(test_shares),
		cmocka_unit_test(test_open),
		cmocka_unit_test(test_held),
		cmocka_unit_test(test_other_worker),
		cmocka_unit_test(test_drain),
		cmocka_unit_test(test_limit),
		cmocka_unit_test(test_limit_of_threads),
		cmocka_unit_test(test_patience_of_calls),
		cmocka_unit_test(test_calls_without_turns),
		cmocka_unit_test(test_patience),
		cmocka_unit_test(test_patience_of_short_turns),
		cmocka_unit_test(test_context_ends_later),
		cmocka_unit_test(test_no_event),
		cmocka_unit_test(test_context_ends),
		cmocka_unit_test(test_settle),
		cmocka_unit_test(test_many),
		cmocka_unit_test(test_takes_too_long),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
