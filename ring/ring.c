/* SPDX-License-Identifier: Apache-2.0 */
#include "ring.h"

#include <errno.h>
#include <string.h>

static uint8_t *ring_at(struct vcuda_shm *shm, uint64_t index)
{
	return (uint8_t *)shm + VCUDA_RING_OFFSET + index % VCUDA_RING_BYTES;
}

void vcuda_producer_init(struct vcuda_producer *p, void *shm)
{
	*p = (struct vcuda_producer){.shm = shm};
}

static bool producer_has_room(struct vcuda_producer *p, uint64_t bytes)
{
	if (p->tail + bytes - p->head <= VCUDA_RING_BYTES)
		return true;
	/* acquire: the consumer's reads of the freed space happen before our writes to it */
	p->head = atomic_load_explicit(&p->shm->head, memory_order_acquire);
	return p->tail - p->head <= VCUDA_RING_BYTES && p->tail + bytes - p->head <= VCUDA_RING_BYTES;
}

struct vcuda_command *vcuda_producer_reserve(struct vcuda_producer *p, uint32_t bytes)
{
	uint64_t to_end = VCUDA_RING_BYTES - p->tail % VCUDA_RING_BYTES;
	uint64_t pad = to_end < bytes ? to_end : 0;

	if (bytes > VCUDA_COMMAND_MAX || !producer_has_room(p, pad + bytes))
		return NULL;
	if (pad) {
		/* A command is contiguous: skip the end of the ring. Sizes are multiples of 8, so size and op always
		 * fit. */
		struct vcuda_command *filler = (struct vcuda_command *)ring_at(p->shm, p->tail);

		filler->size = (uint32_t)pad;
		filler->op = 0;
		filler->flags = 0;
		p->tail += pad;
	}
	return (struct vcuda_command *)ring_at(p->shm, p->tail);
}

_Static_assert(2 * VCUDA_COMMAND_MAX <= VCUDA_RING_BYTES / 2, "half a ring holds the largest command and its filler");

void vcuda_producer_want_room(struct vcuda_producer *p)
{
	atomic_store(&p->shm->room_at, p->tail - VCUDA_RING_BYTES / 2);
}

bool vcuda_producer_may_retry(const struct vcuda_producer *p)
{
	/* A head beyond the tail gives a huge difference: no retry. */
	return p->tail - atomic_load(&p->shm->head) <= VCUDA_RING_BYTES / 2;
}

bool vcuda_producer_is_empty(const struct vcuda_producer *p)
{
	return atomic_load(&p->shm->tail) == atomic_load(&p->shm->head);
}

bool vcuda_producer_publish(struct vcuda_producer *p, struct vcuda_command *command, uint32_t bytes)
{
	command->size = (bytes + 7) & ~7u;
	command->seq = ++p->seq;
	p->tail += command->size;
	atomic_store(&p->shm->tail, p->tail);
	/* The thread that clears the flag rings, so one sleep gets one ring. */
	return atomic_load(&p->shm->consumer_sleeps) && atomic_exchange(&p->shm->consumer_sleeps, 0);
}

int vcuda_shm_sleep(struct vcuda_shm *shm, vcuda_shm_wait *wait, void *transport, uint32_t timeout_us,
		    bool (*blocked)(void *argument), void *argument)
{
	uint32_t seen;
	int err = 0;

	/* seq_cst, then a second look: the worker stores the awaited value first and reads `waiters` then. */
	atomic_fetch_add(&shm->waiters, 1);
	seen = atomic_load(&shm->wake);
	if (!atomic_load(&shm->lost) && blocked(argument))
		err = wait(transport, seen, timeout_us);
	atomic_fetch_sub(&shm->waiters, 1);
	return err;
}

void vcuda_consumer_init(struct vcuda_consumer *c, void *shm)
{
	*c = (struct vcuda_consumer){.shm = shm};
}

int vcuda_consumer_take(struct vcuda_consumer *c, void *buffer)
{
	for (;;) {
		/* acquire: pairs with publish, the command's bytes are there */
		uint64_t available = atomic_load_explicit(&c->shm->tail, memory_order_acquire) - c->head;
		uint64_t to_end = VCUDA_RING_BYTES - c->head % VCUDA_RING_BYTES;
		struct vcuda_command head;
		uint32_t size;

		if (!available)
			return 0;
		if (available > VCUDA_RING_BYTES || available < 8)
			return -EPROTO;
		/* size, op and flags: one 8-byte read, once; the guest may change them behind our back */
		memcpy(&head, ring_at(c->shm, c->head), 8);
		size = head.size;
		if (size < 8 || size % 8 || size > available || size > to_end)
			return -EPROTO;
		if (head.op == 0) {
			c->head += size;
			atomic_store_explicit(&c->shm->head, c->head, memory_order_release);
			continue;
		}
		if (size < sizeof(struct vcuda_command) || size > VCUDA_COMMAND_MAX)
			return -EPROTO;
		memcpy(buffer, ring_at(c->shm, c->head), size);
		memcpy(buffer, &head, 8);
		c->head += size;
		/* seq_cst: vcuda_consumer_made_room() reads afterwards whether a producer waits for room */
		atomic_store(&c->shm->head, c->head);
		return (int)size;
	}
}

uint64_t vcuda_consumer_backlog(const struct vcuda_consumer *c)
{
	uint64_t bytes = atomic_load_explicit(&c->shm->tail, memory_order_relaxed) - c->head;

	return bytes <= VCUDA_RING_BYTES ? bytes : 0;
}

bool vcuda_consumer_prepare_sleep(struct vcuda_consumer *c)
{
	atomic_store(&c->shm->consumer_sleeps, 1);
	if (atomic_load(&c->shm->tail) == c->head)
		return true;
	atomic_store(&c->shm->consumer_sleeps, 0);
	return false;
}

void vcuda_consumer_awake(struct vcuda_consumer *c)
{
	atomic_store(&c->shm->consumer_sleeps, 0);
}

static bool wake_needed(struct vcuda_shm *shm)
{
	if (!atomic_load(&shm->waiters))
		return false;
	atomic_fetch_add(&shm->wake, 1);
	return true;
}

bool vcuda_consumer_made_room(struct vcuda_consumer *c)
{
	uint64_t at = atomic_load(&c->shm->room_at);

	while (at && c->head >= at) {
		/* The producer may have set a new room_at meanwhile, which this call must not clear. */
		if (!atomic_compare_exchange_strong(&c->shm->room_at, &at, 0))
			continue;
		atomic_fetch_add(&c->shm->wake, 1);
		return true;
	}
	return false;
}

bool vcuda_complete_slot(struct vcuda_shm *shm, uint32_t slot, uint64_t seq, int32_t result, uint32_t bytes)
{
	struct vcuda_slot *s = vcuda_shm_slot(shm, slot);

	s->result = result;
	s->bytes = bytes;
	atomic_store(&s->done, seq);
	return wake_needed(shm);
}

bool vcuda_callback_due(struct vcuda_shm *shm, uint64_t n, uint64_t id, int32_t status)
{
	shm->callbacks[n % VCUDA_CALLBACKS] = (struct vcuda_callback){.id = id, .status = status};
	atomic_store(&shm->callbacks_due, n);
	return wake_needed(shm);
}

bool vcuda_compiling_begin(struct vcuda_shm *shm, uint32_t number, uint32_t done, const char *name)
{
	struct vcuda_compiling *c = &shm->compiling;

	atomic_store(&c->number, 0);
	atomic_thread_fence(memory_order_release);
	strncpy(c->name, name, sizeof(c->name) - 1);
	atomic_store(&c->done, done);
	/* seq_cst: a guest thread counts itself in `waiters` first and looks at the number then */
	atomic_store(&c->number, number);
	return wake_needed(shm);
}

void vcuda_compiling_end(struct vcuda_shm *shm, uint32_t done)
{
	atomic_store(&shm->compiling.done, done);
	atomic_store(&shm->compiling.number, 0);
}

bool vcuda_compiling_read(struct vcuda_shm *shm, uint32_t *number, uint32_t *done,
			  char name[VCUDA_COMPILING_NAME_BYTES])
{
	const struct vcuda_compiling *c = &shm->compiling;

	*number = atomic_load(&c->number);
	*done = atomic_load(&c->done);
	for (size_t n = 0; n < VCUDA_COMPILING_NAME_BYTES - 1; n++) {
		char letter = *(const volatile char *)&c->name[n];

		name[n] = letter && (letter < ' ' || letter > '~') ? '?' : letter;
	}
	name[VCUDA_COMPILING_NAME_BYTES - 1] = 0;
	atomic_thread_fence(memory_order_acquire);
	return *number && atomic_load(&c->number) == *number;
}

bool vcuda_complete_lost(struct vcuda_shm *shm, int32_t result)
{
	atomic_store(&shm->lost, result);
	return wake_needed(shm);
}
