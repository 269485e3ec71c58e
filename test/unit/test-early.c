/* SPDX-License-Identifier: Apache-2.0 */
/* Waits that the worker answers before their turn: whose are looked at and when, and which commands are then passed
 * over. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>
#include <unistd.h>

#include "calls.h"
#include "early.h"

#define WAIT VCUDA_OP_cuStreamSynchronize
#define WORK VCUDA_OP_vcudaLaunchKernel

/* The requests are the process's: each test has slots of its own, and a seq that counts on. */
static struct vcuda_shm *shm;
static struct vcuda_producer producer;
static struct vcuda_consumer consumer;
static uint64_t seq;

static int set_up(void **state)
{
	uint64_t buffer[VCUDA_COMMAND_MAX / 8];

	if (!shm) {
		shm = aligned_alloc(4096, VCUDA_SHM_BYTES);
		if (!shm)
			return -1;
		memset(shm, 0, VCUDA_SHM_BYTES);
		vcuda_producer_init(&producer, shm);
		vcuda_consumer_init(&consumer, shm);
	}
	while (vcuda_consumer_take(&consumer, buffer) > 0)
		continue;
	return 0;
}

/* Returns where it ends. */
static uint64_t work(void)
{
	struct vcuda_command *c = vcuda_producer_reserve(&producer, sizeof(*c));

	memset(c, 0, sizeof(*c));
	c->op = WORK;
	vcuda_producer_publish(&producer, c, sizeof(*c));
	seq++;
	return producer.tail;
}

static void ask(uint32_t slot, uint16_t op, uint64_t handle, uint64_t after)
{
	struct vcuda_command *c = vcuda_producer_reserve(&producer, sizeof(*c) + 8);

	memset(c, 0, sizeof(*c));
	c->op = op;
	c->flags = VCUDA_COMMAND_SYNC;
	c->slot = slot;
	memcpy(c + 1, &handle, 8);
	vcuda_producer_ask_early(&producer, c, after);
	vcuda_producer_publish(&producer, c, sizeof(*c) + 8);
	seq++;
}

/* Takes a command as the lane does. Returns true if it is passed over. */
static bool take(uint16_t op)
{
	uint64_t buffer[VCUDA_COMMAND_MAX / 8];
	const struct vcuda_command *c = (const struct vcuda_command *)buffer;

	assert_true(vcuda_consumer_take(&consumer, buffer) > 0);
	assert_int_equal(c->op, op);
	return c->flags & VCUDA_COMMAND_SYNC && vcuda_early_was_answered(&consumer, c);
}

static void expect(uint32_t slot, uint64_t handle)
{
	const struct vcuda_early *early = vcuda_early_next(&consumer);

	assert_non_null(early);
	assert_int_equal(early->command.slot, slot);
	assert_int_equal(early->handle, handle);
	assert_true(early->command.seq <= seq);
}

static void not_before_its_work(void **state)
{
	uint64_t after = work();

	work();
	ask(1, WAIT, 7, after);
	assert_null(vcuda_early_next(&consumer));
	take(WORK);
	expect(1, 7);
	vcuda_early_answered(vcuda_early_next(&consumer));
	assert_null(vcuda_early_next(&consumer));
	take(WORK);
	assert_true(take(WAIT));
}

/* A thread that waits for one stream after the other has one slot for all of that. */
static void one_slot(void **state)
{
	uint64_t after[5];

	for (int i = 0; i < 5; i++)
		after[i] = work();
	work();
	for (uint64_t i = 0; i < 4; i++) {
		ask(2, WAIT, i, after[i]);
		take(WORK);
		expect(2, i);
		vcuda_early_answered(vcuda_early_next(&consumer));
	}
	/* The last one is not answered early: of all that stand in the ring it alone is run. */
	ask(2, WAIT, 4, after[4]);
	take(WORK);
	take(WORK);
	for (int i = 0; i < 4; i++)
		assert_true(take(WAIT));
	assert_false(take(WAIT));
	assert_null(vcuda_early_next(&consumer));
	/* Nor is what comes in the slot then passed over. */
	work();
	ask(2, WAIT, 5, producer.tail);
	take(WORK);
	assert_false(take(WAIT));
}

/* Its command was taken before anybody looked: the request is gone with it. */
static void too_late(void **state)
{
	uint64_t after = work();

	work();
	ask(3, WAIT, 7, after);
	take(WORK);
	take(WORK);
	assert_false(take(WAIT));
	assert_null(vcuda_early_next(&consumer));
	after = work();
	work();
	ask(3, WAIT, 8, after);
	take(WORK);
	expect(3, 8);
	take(WORK);
	assert_false(take(WAIT));
	assert_null(vcuda_early_next(&consumer));
}

static void left_and_put_off(void **state)
{
	const struct vcuda_early *early;
	uint64_t after = work();

	work();
	ask(4, WAIT, 7, after);
	take(WORK);
	early = vcuda_early_next(&consumer);
	assert_non_null(early);
	/* For some microseconds, in which this thread may stand still. */
	for (int i = 0; early && i < 100; i++) {
		vcuda_early_put_off(early);
		early = vcuda_early_next(&consumer);
	}
	assert_null(early);
	usleep(100);
	expect(4, 7);
	vcuda_early_leave(vcuda_early_next(&consumer));
	assert_null(vcuda_early_next(&consumer));
	take(WORK);
	assert_false(take(WAIT));
}

static void in_turns(void **state)
{
	uint64_t after = work();
	int seen[3] = {0};

	work();
	for (uint32_t i = 0; i < 3; i++)
		ask(5 + i, WAIT, i, after);
	take(WORK);
	for (int i = 0; i < 9; i++)
		seen[vcuda_early_next(&consumer)->handle]++;
	for (int i = 0; i < 3; i++)
		assert_int_equal(seen[i], 3);
	for (int i = 0; i < 3; i++)
		vcuda_early_answered(vcuda_early_next(&consumer));
	take(WORK);
	for (int i = 0; i < 3; i++)
		assert_true(take(WAIT));
}

/* Only where commands stand in front of it that it need not wait for. */
static void nothing_gained(void **state)
{
	uint64_t after = work();

	ask(8, WAIT, 7, after);
	assert_int_equal(atomic_load(&shm->early), 0);
	take(WORK);
	assert_false(take(WAIT));
	ask(8, WAIT, 7, after - 32);
	assert_int_equal(atomic_load(&shm->early), 0);
	assert_false(take(WAIT));
}

/* What a guest may put there: nothing of it is run. */
static void hostile(void **state)
{
	static const struct vcuda_command bad[] = {
		{.size = 40, .op = VCUDA_OP_cuMemFree_v2, .flags = VCUDA_COMMAND_SYNC, .slot = 9},
		{.size = 40, .op = 0xffff, .flags = VCUDA_COMMAND_SYNC, .slot = 9},
		{.size = 0xffffffff, .op = WAIT, .flags = VCUDA_COMMAND_SYNC, .slot = 9},
		{.size = 32, .op = WAIT, .flags = VCUDA_COMMAND_SYNC, .slot = 9},
		{.size = 40, .op = WAIT, .flags = VCUDA_COMMAND_SYNC, .slot = 10},
		{.size = 40, .op = WAIT, .flags = VCUDA_COMMAND_SYNC, .slot = 0xffffffff},
		{.size = 40, .op = WAIT, .slot = 9},
	};

	for (size_t i = 0; i < sizeof(bad) / sizeof(*bad); i++) {
		vcuda_shm_slot(shm, 9)->early = (struct vcuda_early){.command = bad[i]};
		atomic_store(&shm->early, 1u << 9);
		assert_null(vcuda_early_next(&consumer));
	}
	atomic_store(&shm->early, UINT64_MAX);
	for (int i = 0; i < 200; i++) {
		const struct vcuda_early *early = vcuda_early_next(&consumer);

		if (!early)
			break;
		assert_true(early->command.slot < VCUDA_SLOTS);
		vcuda_early_leave(early);
	}
	assert_null(vcuda_early_next(&consumer));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup(not_before_its_work, set_up),
		cmocka_unit_test_setup(one_slot, set_up),
		cmocka_unit_test_setup(too_late, set_up),
		cmocka_unit_test_setup(left_and_put_off, set_up),
		cmocka_unit_test_setup(in_turns, set_up),
		cmocka_unit_test_setup(nothing_gained, set_up),
		cmocka_unit_test_setup(hostile, set_up),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
