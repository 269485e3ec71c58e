/* SPDX-License-Identifier: Apache-2.0 */
/* Copies that leave the staging area while the guest goes on. */
#include "test-stage-queue.h"

#include "protocol/handlers.h"
#include "host/worker/session/command.h"
#include "host/worker/session/session.h"
#include "host/worker/queue/stage-queue.h"

#define PART (64u * 1024)

static uint64_t dispatcher_context;

CUresult worker_unsupported(struct worker_session *s, unsigned int op)
{
	return CUDA_ERROR_NOT_SUPPORTED;
}

/* The lane's. */
uint64_t worker_command_context(void)
{
	return dispatcher_context;
}

void *worker_command_stage(struct worker_session *s, uint32_t block, uint64_t bytes)
{
	return block < VCUDA_STAGE_BLOCKS && bytes <= VCUDA_STAGE_BLOCK_BYTES ? vcuda_shm_stage(s->shm, block) : NULL;
}

static struct worker_session session = {.ops = &ops};
static uint8_t device[16 * PART];

static uint8_t *stage(uint32_t block, size_t offset)
{
	return (uint8_t *)vcuda_shm_stage(session.shm, block) + offset;
}

static bool in_stage(const void *p)
{
	return (const uint8_t *)p >= stage(0, 0) && (const uint8_t *)p < stage(VCUDA_STAGE_BLOCKS, 0);
}

static uint32_t turn(uint32_t block)
{
	return atomic_load(&((struct vcuda_shm *)session.shm)->handovers[block].count);
}

static void enter(uint64_t context)
{
	dispatcher_context = context;
	driver.current = (CUcontext)(uintptr_t)(context * 16);
}

/* A part of the device's memory is given the value of its ticket. */
static struct worker_staged staged(uint32_t ticket, size_t bytes)
{
	uint8_t *from = stage(3, ticket % 4 * PART);

	memset(from, (int)ticket, bytes);
	return (struct worker_staged){(uintptr_t)device + ticket % 16 * PART, from, bytes, 3, ticket};
}

static CUresult put(uint32_t ticket, size_t bytes)
{
	struct worker_staged copy = staged(ticket, bytes);

	return worker_stage_queue_put(&session, &copy);
}

static void end(CUcontext context)
{
	worker_stage_queue_close(&session, context);
	worker_stage_queue_reopen();
}

static bool has(uint32_t ticket, size_t bytes)
{
	const uint8_t *at = device + ticket % 16 * PART;

	for (size_t i = 0; i < bytes; i++)
		if (at[i] != (uint8_t)ticket)
			return false;
	return true;
}

static int setup(void **state)
{
	if (!session.shm)
		session.shm = aligned_alloc(4096, VCUDA_SHM_BYTES);
	memset(session.shm, 0, VCUDA_SHM_BYTES);
	memset(device, 0, sizeof(device));
	memset(&driver, 0, sizeof(driver));
	enter(1);
	return 0;
}

/* The first copy in a context comes behind what its default stream has to do. */
static void begin_context(void)
{
	assert_int_equal(put(0, 1), CUDA_SUCCESS);
	worker_stage_queue_drain(&session);
	driver.count = 0;
}

static int teardown(void **state)
{
	end(NULL);
	for (unsigned int i = 0; i < driver.count; i++)
		free(driver.ops[i].taken);
	return worker_stage_queue_any() || driver.streams || driver.events;
}

/* The guest learns of a part when the device has read it, not before, and in order. */
static void in_order(void **state)
{
	begin_context();
	for (uint32_t t = 1; t <= 3; t++)
		assert_int_equal(put(t, PART), CUDA_SUCCESS);
	worker_stage_queue_look(&session);
	assert_int_equal(turn(3), 0);
	assert_true(worker_stage_queue_any());
	for (uint32_t t = 1; t <= 3; t++) {
		assert_true(run_next()); /* the copy */
		worker_stage_queue_look(&session);
		assert_int_equal(turn(3), t - 1);
		assert_true(run_next()); /* the event of the copy */
		worker_stage_queue_look(&session);
		assert_int_equal(turn(3), t);
		assert_true(has(t, PART));
	}
	assert_false(worker_stage_queue_any());
}

/* Small ones are given back together; when nothing else comes, at once. */
static void together(void **state)
{
	begin_context();
	for (uint32_t t = 1; t <= 3; t++)
		assert_int_equal(put(t, PART / 4), CUDA_SUCCESS);
	assert_int_equal(driver.count, 3);
	assert_int_equal(put(4, PART / 4), CUDA_SUCCESS);
	assert_int_equal(driver.count, 5);
	assert_int_equal(put(6, 7), CUDA_SUCCESS); /* in the place of the second */
	worker_stage_queue_look(&session);
	assert_int_equal(driver.count, 7);
	while (run_next())
		continue;
	worker_stage_queue_look(&session);
	assert_int_equal(turn(3), 6);
	assert_false(worker_stage_queue_any());
	assert_true(has(1, PART / 4) && has(4, PART / 4) && has(6, 7));
}

/* Each block learns of its own. */
static void two_blocks(void **state)
{
	struct worker_staged copy = staged(1, 100);

	assert_int_equal(worker_stage_queue_put(&session, &copy), CUDA_SUCCESS);
	copy.block = 5;
	copy.ticket = 77;
	assert_int_equal(worker_stage_queue_put(&session, &copy), CUDA_SUCCESS);
	worker_stage_queue_drain(&session);
	assert_int_equal(turn(3), 1);
	assert_int_equal(turn(5), 77);
}

static void drained(void **state)
{
	for (uint32_t t = 1; t <= 15; t++)
		assert_int_equal(put(t, t % 2 ? 1000 : 70), CUDA_SUCCESS);
	enter(9); /* any context may be current in the wait */
	worker_stage_queue_drain(&session);
	assert_ptr_equal(driver.current, (CUcontext)(9 * 16));
	assert_int_equal(turn(3), 15);
	assert_false(worker_stage_queue_any());
	for (uint32_t t = 12; t <= 15; t++)
		assert_true(has(t, 70));
	enter(1);
}

/* More of them than there are events: the oldest are waited for. */
static void many(void **state)
{
	for (uint32_t t = 1; t <= 40; t++)
		assert_int_equal(put(t, PART), CUDA_SUCCESS);
	assert_true(turn(3) >= 30 && turn(3) < 40);
	worker_stage_queue_drain(&session);
	assert_int_equal(turn(3), 40);
}

static void refused(void **state)
{
	driver.refuses = CUDA_ERROR_INVALID_VALUE;
	assert_int_equal(put(1, PART), CUDA_ERROR_INVALID_VALUE);
	driver.refuses = CUDA_SUCCESS;
	worker_stage_queue_drain(&session);
	assert_int_equal(turn(3), 1);
}

/* The copies of one context end before those of another begin. */
static void contexts(void **state)
{
	assert_int_equal(put(1, 100), CUDA_SUCCESS);
	enter(2);
	assert_int_equal(put(2, 100), CUDA_SUCCESS);
	assert_true(has(1, 100) && !has(2, 100));
	assert_int_equal(turn(3), 1);
	enter(1);
	assert_int_equal(put(3, 100), CUDA_SUCCESS);
	assert_true(has(2, 100));
	assert_int_equal(driver.streams, 2);
	end(NULL);
	assert_true(has(3, 100));
	assert_int_equal(driver.streams, 0);
	assert_ptr_equal(driver.current, (CUcontext)16);
	/* The fifth context has no stream, and is served nevertheless. */
	for (uint64_t c = 1; c <= 5; c++) {
		enter(c);
		assert_int_equal(put((uint32_t)c, 100), CUDA_SUCCESS);
	}
	assert_int_equal(driver.streams, 4);
	assert_int_equal(driver.copies_now, 1);
	assert_int_equal(turn(3), 5);
	enter(1);
}

/* The device makes the copy when the default stream has done what it had to do. */
static void behind(void **state)
{
	struct worker_staged copy = staged(1, 5000);

	issue(OTHER, NULL);
	assert_int_equal(worker_stage_queue_put_behind(&session, &copy), CUDA_SUCCESS);
	assert_true(driver.ops[0].done);
	assert_false(has(1, 5000));
	assert_int_equal(turn(3), 0);
	assert_true(worker_stage_queue_any());
	worker_stage_queue_drain(&session);
	assert_true(has(1, 5000));
	assert_int_equal(turn(3), 1);
}

static const struct op *last_copy(void)
{
	const struct op *o = &driver.ops[driver.count - 1];

	while (o->kind != COPY)
		o--;
	return o;
}

/* Little is given to the driver in memory that is not pinned, which it takes what is there from at once. */
static void little_behind(void **state)
{
	for (uint32_t t = 1; t <= 3; t++) {
		struct worker_staged copy = staged(t, t < 3 ? PART / 2 : PART / 2 + 1);

		issue(OTHER, NULL);
		assert_int_equal(worker_stage_queue_put_behind(&session, &copy), CUDA_SUCCESS);
		assert_int_equal(!last_copy()->taken, t == 3);
		if (t < 3)
			memset(stage(3, t * PART), 0xa5, copy.bytes);
		worker_stage_queue_drain(&session);
		assert_true(has(t, copy.bytes));
	}
}

/* A command's copy in the default stream may not be complete when the command has returned. */
static void behind_a_command(void **state)
{
	uint8_t value = 9;
	struct vcuda_args_vcudaCopyIn a = {(uintptr_t)device + 3 * PART, 1, &value};

	begin_context();
	for (unsigned int follows = 0; follows < 2; follows++) {
		issue(OTHER, NULL);
		if (follows)
			assert_int_equal(vcuda_handle_vcudaCopyIn(&session, &a), CUDA_SUCCESS);
		assert_int_equal(put(3, 100), CUDA_SUCCESS);
		assert_int_equal(run_next(), !follows);
		assert_int_equal(synchronize_stream(NULL), CUDA_SUCCESS);
		worker_stage_queue_drain(&session);
		assert_true(has(3, 100));
	}
	/* Where it cannot be made to come behind it is made by the default stream itself. */
	worker_stage_queue_follow();
	driver.refuses_events = CUDA_ERROR_OUT_OF_MEMORY;
	assert_int_equal(put(4, 100), CUDA_SUCCESS);
	assert_int_equal(driver.copies_now, 2);
	assert_true(has(4, 100));
	driver.refuses_events = CUDA_SUCCESS;
	assert_int_equal(put(3, 100), CUDA_SUCCESS);
	worker_stage_queue_drain(&session);
	/* once is enough */
	issue(OTHER, NULL);
	assert_int_equal(put(5, 100), CUDA_SUCCESS);
	assert_true(run_next());
}

static bool nothing_is_done(void)
{
	for (unsigned int i = 0; i < driver.count; i++)
		if (driver.ops[i].done)
			return false;
	return true;
}

static unsigned int waits_in(const struct stream *stream)
{
	unsigned int waits = 0;

	for (unsigned int i = 0; i < driver.count; i++)
		waits += driver.ops[i].kind == WAIT && driver.ops[i].stream == stream;
	return waits;
}

/* A kernel waits on the device for copies before it, and the worker for neither. */
static void before_a_kernel(void **state)
{
	struct op *kernel;

	begin_context();
	assert_int_equal(put(1, 100), CUDA_SUCCESS);
	worker_stage_queue_precede(&session, NULL);
	kernel = issue(OTHER, NULL);
	assert_false(may_run(kernel));
	worker_stage_queue_precede(&session, NULL);
	assert_true(nothing_is_done() && worker_stage_queue_any());
	assert_int_equal(waits_in(&driver.null), 1);
	/* Copies that were put since then are waited for, too. */
	assert_int_equal(put(2, 100), CUDA_SUCCESS);
	worker_stage_queue_precede(&session, NULL);
	assert_int_equal(waits_in(&driver.null), 2);
	assert_true(nothing_is_done());
	while (run_next())
		continue;
	assert_true(may_run(kernel) && has(1, 100) && has(2, 100));
	run_one(kernel);
	/* The guest is told, although it is never idle. */
	assert_int_equal(turn(3), 0);
	worker_stage_queue_precede(&session, NULL);
	assert_int_equal(turn(3), 2);
	assert_false(worker_stage_queue_any());
	assert_int_equal(waits_in(&driver.null), 2);
}

static CUresult launch(CUfunction f, unsigned int gx, unsigned int gy, unsigned int gz, unsigned int bx, unsigned int by,
		       unsigned int bz, unsigned int shared, CUstream stream, void **params, void **extra)
{
	issue(OTHER, stream);
	return CUDA_SUCCESS;
}

static void by_the_launch(void **state)
{
	struct vcuda_args_vcudaLaunchKernel a = {0};

	begin_context();
	assert_int_equal(put(1, 100), CUDA_SUCCESS);
	ops.cuLaunchKernel = launch;
	assert_int_equal(vcuda_handle_vcudaLaunchKernel(&session, &a), CUDA_SUCCESS);
	assert_true(nothing_is_done() && worker_stage_queue_any());
	assert_false(may_run(&driver.ops[driver.count - 1]));
	worker_stage_queue_drain(&session);
	while (run_next())
		continue;
	assert_true(may_run(&driver.ops[driver.count - 1]));
}

/* Each other stream waits for itself. */
static void before_kernels_of_streams(void **state)
{
	struct stream other = {driver.current};

	begin_context();
	assert_int_equal(put(1, 100), CUDA_SUCCESS);
	worker_stage_queue_precede(&session, NULL);
	worker_stage_queue_precede(&session, (CUstream)&other);
	worker_stage_queue_precede(&session, (CUstream)&other);
	assert_int_equal(waits_in(&other), 2);
	assert_true(nothing_is_done());
	worker_stage_queue_drain(&session);
	assert_true(has(1, 100));
	driver.count = 0;
}

/* Where the device cannot wait, or the copy is another context's, the worker does. */
static void before_other_kernels(void **state)
{
	begin_context();
	for (uint32_t t = 1; t <= 2; t++) {
		assert_int_equal(put(t, 100), CUDA_SUCCESS);
		driver.refuses_waits = t == 1 ? CUDA_ERROR_OUT_OF_MEMORY : CUDA_SUCCESS;
		enter(t);
		worker_stage_queue_precede(&session, NULL);
		assert_true(has(t, 100) && !worker_stage_queue_any());
		assert_int_equal(turn(3), t);
	}
	enter(1);
}

static void end_second(void)
{
	dispatcher_context = 2;
	end((CUcontext)32);
	dispatcher_context = 1;
}

/* A context that ends takes nothing away from a copy in another, which is not yet made. */
static void other_ends(void **state)
{
	struct worker_staged copy = staged(1, 5000);

	enter(2);
	assert_int_equal(put(7, 100), CUDA_SUCCESS);
	enter(1);
	issue(OTHER, NULL);
	driver.meanwhile = end_second;
	assert_int_equal(worker_stage_queue_put_behind(&session, &copy), CUDA_SUCCESS);
	assert_int_equal(driver.streams, 1);
	worker_stage_queue_look(&session);
	assert_false(has(1, 5000));
	assert_int_equal(turn(3), 7);
	worker_stage_queue_drain(&session);
	assert_true(has(1, 5000));
	assert_int_equal(turn(3), 1);
}

/* Another thread copies in a context that ends: nothing is made in it that would be there when it is not. */
static void while_it_ends(void **state)
{
	assert_int_equal(put(1, 100), CUDA_SUCCESS);
	enter(2);
	assert_int_equal(put(2, 100), CUDA_SUCCESS);
	enter(1);
	worker_stage_queue_close(&session, driver.current);
	assert_int_equal(put(3, 100), CUDA_SUCCESS);
	assert_int_equal(driver.copies_now, 1);
	assert_int_equal(driver.streams, 1);
	enter(2); /* has its own */
	assert_int_equal(put(4, 100), CUDA_SUCCESS);
	assert_int_equal(driver.copies_now, 1);
	worker_stage_queue_reopen();
	enter(1);
	assert_int_equal(put(5, 100), CUDA_SUCCESS);
	assert_int_equal(driver.copies_now, 1);
	assert_int_equal(driver.streams, 2);
}

/* A hostile guest's, of no context: the driver says what it thinks of it, and no handle is taken for one that is not.
 */
static void no_context(void **state)
{
	dispatcher_context = 0;
	driver.current = NULL;
	assert_int_equal(put(1, 100), CUDA_SUCCESS);
	worker_stage_queue_look(&session);
	assert_int_equal(driver.count, 0);
	assert_int_equal(driver.copies_now, 1);
	assert_int_equal(turn(3), 1);
	enter(1);
}

/* Without streams or events a copy is made at once. */
static void without(void **state)
{
	driver.refuses_events = CUDA_ERROR_OUT_OF_MEMORY;
	assert_int_equal(put(1, 100), CUDA_SUCCESS);
	assert_true(has(1, 100));
	assert_int_equal(turn(3), 1);
	assert_int_equal(driver.streams, 0);
	driver.refuses_events = CUDA_SUCCESS;
	ops.name = "cpu";
	assert_int_equal(put(2, 100), CUDA_SUCCESS);
	assert_true(has(2, 100));
	ops.name = "fake";
}

/* Bytes outside of the block are refused without a call of the driver. */
static void bounds(void **state)
{
	const uint32_t all = VCUDA_STAGE_BLOCK_BYTES;
	const struct vcuda_args_vcudaStageIn bad[] = {
		{.block = VCUDA_STAGE_BLOCKS, .ByteCount = 1},
		{.block = UINT32_MAX, .ByteCount = 1},
		{.ByteCount = 0},
		{.ByteCount = all + 1},
		{.ByteCount = SIZE_MAX},
		{.offset = 64, .ByteCount = all - 63},
		{.offset = 64, .ByteCount = SIZE_MAX - 32},
		{.offset = all, .ByteCount = 1},
		{.offset = all + 1, .ByteCount = 1},
		{.offset = UINT32_MAX, .ByteCount = 1},
	};
	struct vcuda_args_vcudaStageIn whole = {.dstDevice = (uintptr_t)device,
						.block = 2,
						.ByteCount = all,
						.ticket = 8},
				       last = {.dstDevice = (uintptr_t)device, .offset = all - 1, .ByteCount = 1};

	for (size_t i = 0; i < sizeof(bad) / sizeof(*bad); i++)
		for (int behind = 0; behind < 2; behind++) {
			struct vcuda_args_vcudaStageIn a = bad[i];

			a.dstDevice = (uintptr_t)device;
			a.behind = behind;
			assert_int_equal(vcuda_handle_vcudaStageIn(&session, &a), CUDA_ERROR_INVALID_VALUE);
		}
	assert_int_equal(driver.count, 0);
	assert_false(worker_stage_queue_any());
	assert_int_equal(vcuda_handle_vcudaStageIn(&session, &whole), CUDA_SUCCESS);
	assert_int_equal(vcuda_handle_vcudaStageIn(&session, &last), CUDA_SUCCESS);
	worker_stage_queue_drain(&session);
	assert_int_equal(turn(2), 8);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(in_order), TEST(together), TEST(two_blocks), TEST(drained),       TEST(many),
		TEST(refused),  TEST(contexts), TEST(behind),     TEST(little_behind), TEST(behind_a_command),
		TEST(without),  TEST(bounds),   TEST(no_context), TEST(other_ends),    TEST(while_it_ends),
		TEST(before_a_kernel), TEST(by_the_launch), TEST(before_kernels_of_streams), TEST(before_other_kernels),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
