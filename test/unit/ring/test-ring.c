/* SPDX-License-Identifier: Apache-2.0 */
/* The ring in one thread: wrapping, padding, a full ring, a hostile producer, the sleep and wake flags, completion. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "ring/ring.h"

struct fixture {
	struct vcuda_shm *shm;
	struct vcuda_producer producer;
	struct vcuda_consumer consumer;
	uint64_t buffer[VCUDA_COMMAND_MAX / 8];
};

static int set_up(void **state)
{
	struct fixture *f = calloc(1, sizeof(*f));

	if (!f)
		return -1;
	f->shm = aligned_alloc(4096, VCUDA_SHM_BYTES);
	if (!f->shm)
		return -1;
	memset(f->shm, 0, VCUDA_SHM_BYTES);
	vcuda_producer_init(&f->producer, f->shm);
	vcuda_consumer_init(&f->consumer, f->shm);
	*state = f;
	return 0;
}

static int tear_down(void **state)
{
	struct fixture *f = *state;

	free(f->shm);
	free(f);
	return 0;
}

static bool send(struct fixture *f, uint16_t op, uint32_t bytes)
{
	struct vcuda_command *c = vcuda_producer_reserve(&f->producer, bytes);

	if (!c)
		return false;
	memset(c, 0, bytes);
	c->op = op;
	if (bytes > sizeof(*c))
		memset(c + 1, op & 0xff, bytes - sizeof(*c));
	vcuda_producer_publish(&f->producer, c, bytes);
	return true;
}

/* Takes one command and checks that it is the one sent. */
static void expect(struct fixture *f, uint16_t op, uint32_t bytes, uint64_t seq)
{
	const struct vcuda_command *c = (const struct vcuda_command *)f->buffer;
	const uint8_t *data = (const uint8_t *)(c + 1);

	assert_int_equal(vcuda_consumer_take(&f->consumer, f->buffer), (bytes + 7) & ~7u);
	assert_int_equal(c->op, op);
	assert_int_equal(c->seq, seq);
	for (uint32_t i = 0; i + sizeof(*c) < bytes; i++)
		assert_int_equal(data[i], op & 0xff);
}

static void test_layout(void **state)
{
	(void)state;
	/* Fixed in protocol major version 1. */
	assert_int_equal(sizeof(struct vcuda_command), 32);
	assert_int_equal(sizeof(struct vcuda_slot), VCUDA_SLOT_BYTES);
	assert_int_equal(offsetof(struct vcuda_slot, data), 64);
	assert_int_equal(offsetof(struct vcuda_shm, head), 64);
	assert_int_equal(offsetof(struct vcuda_shm, consumer_sleeps), 128);
	assert_int_equal(offsetof(struct vcuda_shm, waiters), 192);
	assert_int_equal(VCUDA_WAKE_OFFSET, 196);
	assert_int_equal(offsetof(struct vcuda_shm, room_at), 256);
	assert_int_equal(offsetof(struct vcuda_shm, lost), 320);
	assert_true(sizeof(struct vcuda_shm) <= VCUDA_RING_OFFSET);
	assert_true(VCUDA_SHM_BYTES <= 4u << 20);
	assert_int_equal(VCUDA_SHM_BYTES % 4096, 0);
}

static void test_empty(void **state)
{
	struct fixture *f = *state;

	assert_int_equal(vcuda_consumer_take(&f->consumer, f->buffer), 0);
}

static void test_order(void **state)
{
	struct fixture *f = *state;

	for (uint16_t i = 1; i <= 100; i++)
		assert_true(send(f, i, 32 + i));
	for (uint16_t i = 1; i <= 100; i++)
		expect(f, i, 32 + i, i);
	assert_int_equal(vcuda_consumer_take(&f->consumer, f->buffer), 0);
}

/* Sizes that share no factor with the ring: every way to meet its end comes up. */
static void test_wrap(void **state)
{
	struct fixture *f = *state;
	uint64_t seq = 0;

	for (uint32_t i = 0; i < 20000; i++) {
		uint32_t bytes = 32 + i * 40 % 3000;

		assert_true(send(f, 1 + i % 1000, bytes));
		expect(f, 1 + i % 1000, bytes, ++seq);
	}
	assert_true(f->consumer.head > 10ull * VCUDA_RING_BYTES);
}

static void test_padding(void **state)
{
	struct fixture *f = *state;
	uint32_t left = VCUDA_RING_BYTES;
	uint64_t seq = 0;

	/* Leave 8 bytes at the end: not even a header fits, but the padding's size and op do. */
	while (left > 8) {
		uint32_t bytes = left - 8 < VCUDA_COMMAND_MAX ? left - 8 : VCUDA_COMMAND_MAX - 32;

		assert_true(send(f, 1, bytes));
		expect(f, 1, bytes, ++seq);
		left -= bytes;
	}
	assert_int_equal(left, 8);
	assert_true(send(f, 2, 64));
	assert_int_equal(f->producer.tail, VCUDA_RING_BYTES + 64);
	expect(f, 2, 64, ++seq);
	assert_int_equal(f->consumer.head, VCUDA_RING_BYTES + 64);
}

static void test_full(void **state)
{
	struct fixture *f = *state;

	for (int i = 0; i < 4; i++)
		assert_true(send(f, 1, VCUDA_COMMAND_MAX));
	assert_false(send(f, 2, 32));
	expect(f, 1, VCUDA_COMMAND_MAX, 1);
	assert_true(send(f, 2, VCUDA_COMMAND_MAX));
	assert_false(send(f, 3, 32));
	for (int i = 0; i < 3; i++)
		expect(f, 1, VCUDA_COMMAND_MAX, 2 + (uint64_t)i);
	expect(f, 2, VCUDA_COMMAND_MAX, 5);
	assert_int_equal(vcuda_consumer_take(&f->consumer, f->buffer), 0);
}

/* No room behind the padding: nothing may be written, not even the padding. */
static void test_full_at_the_end(void **state)
{
	struct fixture *f = *state;

	for (int i = 0; i < 3; i++)
		assert_true(send(f, 1, VCUDA_COMMAND_MAX));
	assert_true(send(f, 1, VCUDA_COMMAND_MAX - 64));
	assert_false(send(f, 2, 128));
	assert_int_equal(f->producer.tail, VCUDA_RING_BYTES - 64);
	for (int i = 0; i < 3; i++)
		expect(f, 1, VCUDA_COMMAND_MAX, 1 + (uint64_t)i);
	assert_true(send(f, 2, 128));
	expect(f, 1, VCUDA_COMMAND_MAX - 64, 4);
	expect(f, 2, 128, 5);
}

/* A producer that waits for room is woken once, when half of the ring is free, and by no command before. */
static void test_room(void **state)
{
	struct fixture *f = *state;

	atomic_fetch_add(&f->shm->waiters, 1);
	for (int i = 0; i < 8; i++)
		assert_true(send(f, 1, VCUDA_RING_BYTES / 8));
	assert_false(send(f, 2, 32));
	expect(f, 1, VCUDA_RING_BYTES / 8, 1);
	assert_false(vcuda_consumer_made_room(&f->consumer)); /* no producer has asked */
	assert_true(send(f, 1, VCUDA_RING_BYTES / 8));
	assert_false(send(f, 2, 32));
	vcuda_producer_want_room(&f->producer);
	for (uint64_t i = 2; i <= 5; i++) {
		assert_false(vcuda_producer_may_retry(&f->producer));
		expect(f, 1, VCUDA_RING_BYTES / 8, i);
		assert_true(vcuda_consumer_made_room(&f->consumer) == (i == 5));
		assert_int_equal(atomic_load(&f->shm->wake), i == 5);
	}
	assert_true(vcuda_producer_may_retry(&f->producer));
	expect(f, 1, VCUDA_RING_BYTES / 8, 6);
	assert_false(vcuda_consumer_made_room(&f->consumer));
	assert_int_equal(atomic_load(&f->shm->wake), 1);
}

static void test_too_large(void **state)
{
	struct fixture *f = *state;

	assert_null(vcuda_producer_reserve(&f->producer, VCUDA_COMMAND_MAX + 1));
	assert_null(vcuda_producer_reserve(&f->producer, UINT32_MAX));
	assert_non_null(vcuda_producer_reserve(&f->producer, VCUDA_COMMAND_MAX));
}

/* A consumer gone mad must not make the producer write outside the ring, or over what was not consumed. */
static void test_hostile_head(void **state)
{
	struct fixture *f = *state;
	const uint64_t heads[] = {VCUDA_RING_BYTES * 2ull, UINT64_MAX, 1ull << 63, UINT64_MAX - 7};

	for (int i = 0; i < 4; i++)
		assert_true(send(f, 1, VCUDA_COMMAND_MAX));
	for (size_t i = 0; i < sizeof(heads) / sizeof(*heads); i++) {
		atomic_store(&f->shm->head, heads[i]);
		assert_null(vcuda_producer_reserve(&f->producer, 64));
	}
	/* Once it makes sense again, so does the ring. */
	atomic_store(&f->shm->head, VCUDA_COMMAND_MAX);
	assert_non_null(vcuda_producer_reserve(&f->producer, 64));
}

static void hostile(struct fixture *f, uint64_t tail, uint32_t size, uint16_t op, int result)
{
	struct vcuda_command *c =
		(struct vcuda_command *)((uint8_t *)f->shm + VCUDA_RING_OFFSET + f->consumer.head % VCUDA_RING_BYTES);

	c->size = size;
	c->op = op;
	atomic_store(&f->shm->tail, tail);
	assert_int_equal(vcuda_consumer_take(&f->consumer, f->buffer), result);
}

static void test_hostile_tail(void **state)
{
	struct fixture *f = *state;

	hostile(f, VCUDA_RING_BYTES + 8, 32, 1, -EPROTO);
	hostile(f, UINT64_MAX, 32, 1, -EPROTO);
	hostile(f, 1ull << 63, 32, 1, -EPROTO);
	hostile(f, 7, 32, 1, -EPROTO);
	hostile(f, 16, 32, 1, -EPROTO); /* less than the command says */
	assert_int_equal(f->consumer.head, 0);
}

static void test_hostile_size(void **state)
{
	struct fixture *f = *state;
	const uint32_t sizes[] = {0,
				  1,
				  4,
				  7,
				  8,
				  24,
				  31,
				  33,
				  36,
				  VCUDA_COMMAND_MAX + 8,
				  VCUDA_RING_BYTES,
				  VCUDA_RING_BYTES + 8,
				  0x80000000,
				  UINT32_MAX,
				  UINT32_MAX - 7};

	for (size_t i = 0; i < sizeof(sizes) / sizeof(*sizes); i++)
		hostile(f, VCUDA_RING_BYTES, sizes[i], 1, -EPROTO);
	assert_int_equal(f->consumer.head, 0);
}

/* A command or padding that would cross the ring's end. */
static void test_hostile_end(void **state)
{
	struct fixture *f = *state;

	f->consumer.head = VCUDA_RING_BYTES - 64;
	hostile(f, VCUDA_RING_BYTES + 64, 128, 1, -EPROTO);
	hostile(f, VCUDA_RING_BYTES + 64, 72, 0, -EPROTO);
	hostile(f, VCUDA_RING_BYTES - 32, 40, 1, -EPROTO);
	assert_int_equal(f->consumer.head, VCUDA_RING_BYTES - 64);
}

/* Padding is bounded by what was published: it cannot keep the consumer busy for ever. */
static void test_hostile_padding(void **state)
{
	struct fixture *f = *state;
	uint8_t *ring = (uint8_t *)f->shm + VCUDA_RING_OFFSET;

	for (uint32_t i = 0; i < VCUDA_RING_BYTES; i += 8)
		memcpy(ring + i, &(uint32_t){8}, 4);
	hostile(f, VCUDA_RING_BYTES, 8, 0, 0);
	assert_int_equal(f->consumer.head, VCUDA_RING_BYTES);
	hostile(f, VCUDA_RING_BYTES + 64, 0, 0, -EPROTO);
	hostile(f, VCUDA_RING_BYTES + 64, 4, 0, -EPROTO);
}

static void test_sleep_flags(void **state)
{
	struct fixture *f = *state;
	struct vcuda_command *c = vcuda_producer_reserve(&f->producer, 32);

	c->op = 1;
	assert_false(vcuda_producer_publish(&f->producer, c, 32)); /* no consumer sleeps: no doorbell */
	assert_false(vcuda_consumer_prepare_sleep(&f->consumer));  /* there is work */
	assert_int_equal(atomic_load(&f->shm->consumer_sleeps), 0);
	expect(f, 1, 32, 1);
	assert_true(vcuda_consumer_prepare_sleep(&f->consumer));
	c = vcuda_producer_reserve(&f->producer, 32);
	c->op = 2;
	assert_true(vcuda_producer_publish(&f->producer, c, 32)); /* rings */
	c = vcuda_producer_reserve(&f->producer, 32);
	c->op = 3;
	assert_false(vcuda_producer_publish(&f->producer, c, 32)); /* once a sleep */
	vcuda_consumer_awake(&f->consumer);
	expect(f, 2, 32, 2);
	expect(f, 3, 32, 3);
}

static void test_completion(void **state)
{
	struct fixture *f = *state;
	struct vcuda_slot *slot = vcuda_shm_slot(f->shm, VCUDA_SLOTS - 1);

	assert_false(vcuda_complete_slot(f->shm, VCUDA_SLOTS - 1, 2, 0, 0)); /* no thread waits */
	assert_int_equal(atomic_load(&slot->done), 2);
	assert_int_equal(atomic_load(&f->shm->wake), 0);
	atomic_fetch_add(&f->shm->waiters, 1);
	assert_true(vcuda_complete_slot(f->shm, VCUDA_SLOTS - 1, 3, 700, 16));
	assert_int_equal(atomic_load(&slot->done), 3);
	assert_int_equal(slot->result, 700);
	assert_int_equal(slot->bytes, 16);
	assert_int_equal(atomic_load(&f->shm->wake), 1);
	assert_true(vcuda_complete_lost(f->shm, 999));
	assert_int_equal(atomic_load(&f->shm->lost), 999);
	assert_true((uint8_t *)slot + VCUDA_SLOT_BYTES == (uint8_t *)f->shm + VCUDA_STAGE_OFFSET);
	assert_true((uint8_t *)vcuda_shm_stage(f->shm, VCUDA_STAGE_BLOCKS) == (uint8_t *)f->shm + VCUDA_SHM_BYTES);
}

#define RING_TEST(test) cmocka_unit_test_setup_teardown(test, set_up, tear_down)

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_layout),   RING_TEST(test_empty),
		RING_TEST(test_order),           RING_TEST(test_wrap),
		RING_TEST(test_padding),         RING_TEST(test_full),
		RING_TEST(test_full_at_the_end), RING_TEST(test_room),
		RING_TEST(test_too_large),       RING_TEST(test_hostile_head),
		RING_TEST(test_hostile_tail),    RING_TEST(test_hostile_size),
		RING_TEST(test_hostile_end),     RING_TEST(test_hostile_padding),
		RING_TEST(test_sleep_flags),     RING_TEST(test_completion),
	};

	return cmocka_run_group_tests_name("ring", tests, NULL, NULL);
}
