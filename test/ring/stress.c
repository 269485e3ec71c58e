/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The ring with real threads, for the thread sanitizer: several producers under one lock, one consumer that sleeps on
 * an eventfd, replies waited for through the wake word. Every command must arrive once, in order, with its bytes; every
 * reply must reach its caller. stress [COMMANDS]: per producer.
 */
#include "ring/ring.h"
#define CHECK_END() abort()
#include "test/check.h"
#include "test/seed.h"

#include <errno.h>
#include <linux/futex.h>
#include <limits.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#define PRODUCERS 4
#define OP_END 0xffff

static struct vcuda_shm *shm;
static struct vcuda_producer producer;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static int doorbell;
static unsigned long commands = 20000;
static uint32_t seed;
static unsigned long doorbells, full, sleeps; /* under the lock; the consumer's */

/* Every byte of a command's body follows from its sequence number. */
static uint8_t pattern(uint64_t seq, uint32_t i)
{
	return (uint8_t)(seq * 31 + i);
}

/* A lost wake-up is a bug, not a delay: the sleep has an end only to say so. */
static void sleep_until(bool (*due)(const void *), const void *argument)
{
	const struct timespec limit = {.tv_sec = 60};

	while (!due(argument)) {
		uint32_t seen;

		atomic_fetch_add(&shm->waiters, 1);
		seen = atomic_load(&shm->wake);
		if (!due(argument) && syscall(SYS_futex, &shm->wake, FUTEX_WAIT, seen, &limit, NULL, 0) < 0)
			CHECK(errno != ETIMEDOUT);
		atomic_fetch_sub(&shm->waiters, 1);
	}
}

static bool has_room(const void *p)
{
	return vcuda_producer_may_retry(p);
}

static uint64_t send_command(uint16_t op, uint32_t slot, uint32_t bytes, bool sync)
{
	struct vcuda_command *c;
	uint64_t seq;
	bool ring;

	pthread_mutex_lock(&lock);
	while (!(c = vcuda_producer_reserve(&producer, sizeof(*c) + bytes))) {
		vcuda_producer_want_room(&producer);
		sleep_until(has_room, &producer);
		full++;
	}
	seq = producer.seq + 1;
	c->op = op;
	c->flags = sync ? VCUDA_COMMAND_SYNC : 0;
	c->context = 0;
	c->slot = slot;
	c->thread = slot;
	for (uint32_t i = 0; i < bytes; i++)
		((uint8_t *)(c + 1))[i] = pattern(seq, i);
	ring = vcuda_producer_publish(&producer, c, sizeof(*c) + bytes);
	doorbells += ring;
	pthread_mutex_unlock(&lock);
	if (ring)
		CHECK(write(doorbell, &(uint64_t){1}, 8) == 8);
	return seq;
}

struct answer {
	struct vcuda_slot *slot;
	uint64_t seq;
};

static bool is_answered(const void *answer)
{
	const struct answer *a = answer;

	return atomic_load(&a->slot->done) == a->seq;
}

static void wait_reply(uint32_t slot, uint64_t seq)
{
	struct vcuda_slot *s = vcuda_shm_slot(shm, slot);

	sleep_until(is_answered, &(struct answer){s, seq});
	CHECK(s->result == (int32_t)(seq & 0xffff));
	CHECK(s->bytes == 8 && !memcmp(s->data, &seq, 8));
}

static void *produce(void *argument)
{
	uint32_t slot = (uint32_t)(uintptr_t)argument;
	uint64_t random = test_seed_state(seed) + slot;

	for (unsigned long i = 0; i < commands; i++) {
		uint32_t bytes;
		bool sync;

		random = random * 6364136223846793005u + 1442695040888963407u;
		bytes = random >> 62 ? (uint32_t)(random >> 40) % 200 : (uint32_t)(random >> 40) % 20000;
		sync = (random >> 33) % 32 == 0;
		uint64_t seq = send_command((uint16_t)(1 + slot), slot, bytes, sync);

		if (sync)
			wait_reply(slot, seq);
	}
	return NULL;
}

static void wake(bool needed)
{
	if (needed)
		syscall(SYS_futex, &shm->wake, FUTEX_WAKE, INT_MAX, NULL, NULL, 0);
}

static void check_command(const struct vcuda_command *c, int size, uint64_t seq)
{
	const uint8_t *body = (const uint8_t *)(c + 1);

	CHECK(c->seq == seq);
	CHECK(c->op == OP_END || c->op == 1 + c->slot);
	for (uint32_t i = 0; i + 8 < (uint32_t)size - sizeof(*c); i++)
		CHECK(body[i] == pattern(seq, i));
}

static void sleep_if_empty(struct vcuda_consumer *consumer)
{
	uint64_t rings;

	if (!vcuda_consumer_prepare_sleep(consumer))
		return;
	sleeps++;
	CHECK(read(doorbell, &rings, sizeof(rings)) == sizeof(rings));
	vcuda_consumer_awake(consumer);
}

static void *consume(void *unused)
{
	_Alignas(8) static uint8_t buffer[VCUDA_COMMAND_MAX];
	const struct vcuda_command *c = (const struct vcuda_command *)buffer;
	struct vcuda_consumer consumer;
	uint64_t seq = 0;

	vcuda_consumer_init(&consumer, shm);
	for (;;) {
		int size = vcuda_consumer_take(&consumer, buffer);

		CHECK(size >= 0);
		if (!size) {
			sleep_if_empty(&consumer);
			continue;
		}
		wake(vcuda_consumer_made_room(&consumer));
		check_command(c, size, ++seq);
		if (c->op == OP_END)
			return unused;
		if (c->flags & VCUDA_COMMAND_SYNC) {
			memcpy(vcuda_shm_slot(shm, c->slot)->data, &seq, 8);
			wake(vcuda_complete_slot(shm, c->slot, seq, (int32_t)(seq & 0xffff), 8));
		}
	}
}

int main(int argc, char **argv)
{
	pthread_t producers[PRODUCERS], consumer;
	uint64_t last;

	if (argc > 1)
		commands = strtoul(argv[1], NULL, 10);
	seed = test_seed();
	shm = aligned_alloc(4096, VCUDA_SHM_BYTES);
	doorbell = eventfd(0, 0);
	CHECK(shm && doorbell >= 0);
	memset(shm, 0, VCUDA_SHM_BYTES);
	vcuda_producer_init(&producer, shm);
	CHECK(!pthread_create(&consumer, NULL, consume, NULL));
	for (uintptr_t i = 0; i < PRODUCERS; i++)
		CHECK(!pthread_create(&producers[i], NULL, produce, (void *)i));
	for (int i = 0; i < PRODUCERS; i++)
		CHECK(!pthread_join(producers[i], NULL));
	last = send_command(OP_END, 0, 0, false);
	CHECK(!pthread_join(consumer, NULL));
	CHECK(last == PRODUCERS * commands + 1);
	CHECK(atomic_load(&shm->waiters) == 0);
	printf("%lu commands, %lu doorbells, %lu sleeps, %lu times full\n", PRODUCERS * commands, doorbells, sleeps,
	       full);
	free(shm);
	return 0;
}
