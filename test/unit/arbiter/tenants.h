/* SPDX-License-Identifier: Apache-2.0 */
/* VMs as their vcudads see them, for tests of memory.h by a clock of the test. */
#ifndef VCUDA_TEST_TENANTS_H
#define VCUDA_TEST_TENANTS_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "memory.h"

#define MS 1000000ull
#define SECOND (1000 * MS)
#define CAPACITY 1000u
#define WAY (50 * MS)

/* A VM as its vcudad sees it. */
struct tenant {
	struct memory_vm vm;
	uint64_t bytes, want; /* bytes that the tenant has; bytes that it waits for, 0: none */
	uint64_t since;       /* begin of the wait */
	uint64_t arrives;     /* end of its move out or in; 0: no move */
	uint64_t way, leased; /* duration of its moves; time until which the arbiter must leave it in */
	uint64_t longest;     /* wait */
	unsigned int outs, grants, refusals;
	bool out, fails;
};

static struct memory memory;
static struct tenant tenants[8];
static unsigned int tenant_count;
static uint64_t now, random_state;

static inline uint64_t random_below(uint64_t limit)
{
	random_state ^= random_state << 13;
	random_state ^= random_state >> 7;
	random_state ^= random_state << 17;
	return (random_state >> 11) % limit;
}

static inline void end_wait(struct tenant *t)
{
	assert_int_not_equal(t->want, 0);
	if (now - t->since > t->longest)
		t->longest = now - t->since;
	t->want = 0;
}

static inline void go_out(struct tenant *t)
{
	bool idle = !t->vm.active && (t->want || now - t->vm.idle_since >= MEMORY_IDLE_NS);

	assert_false(t->out || t->arrives);
	assert_true(idle || now >= t->leased);
	t->arrives = now + t->way;
}

static inline void tell(struct memory_vm *vm, enum memory_word word, uint64_t bytes)
{
	struct tenant *t = vm->owner;

	if (word == MEMORY_GO_OUT) {
		go_out(t);
	} else if (word == MEMORY_REFUSE) {
		assert_int_equal(bytes, t->want);
		t->refusals++;
		if (bytes)
			end_wait(t);
	} else {
		assert_true(bytes >= t->want);
		t->grants++;
		end_wait(t);
		t->bytes = bytes;
		if (t->out)
			t->arrives = now + t->way;
	}
}

static inline struct tenant *add_with(uint64_t minimum, uint64_t bytes, bool out)
{
	struct tenant *t = &tenants[tenant_count++];
	struct memory_vm said = {.owner = t, .capacity = CAPACITY, .minimum = minimum, .bytes = bytes};

	*t = (struct tenant){.bytes = bytes, .way = WAY, .out = out};
	assert_true(memory_add(&memory, &t->vm, &said, out, now));
	return t;
}

static inline struct tenant *add(uint64_t bytes)
{
	return add_with(0, bytes, false);
}

static inline void want(struct tenant *t, uint64_t bytes)
{
	if (!t->want)
		t->since = now;
	t->want = bytes;
	memory_want(&memory, &t->vm, bytes, 0, now);
}

static inline void arrive(struct tenant *t)
{
	t->arrives = 0;
	if (t->out) {
		uint64_t lease = MEMORY_LEASE * (t->vm.out_ns + t->way);

		t->out = false;
		t->leased = now + (lease > MEMORY_LEAST_LEASE_NS ? lease : MEMORY_LEAST_LEASE_NS);
		memory_came_in(&t->vm, t->way, now);
	} else if (t->fails) {
		memory_failed(&t->vm, now);
	} else {
		t->out = true;
		t->outs++;
		memory_went_out(&t->vm, t->bytes, t->way);
	}
}

static inline void check_sum(void)
{
	uint64_t sum = 0;

	for (unsigned int i = 0; i < tenant_count; i++)
		if (!tenants[i].out || tenants[i].arrives)
			sum += tenants[i].bytes;
	assert_true(sum <= CAPACITY);
}

/* A millisecond after the other, or sooner where the arbiter wants it. */
static inline void run_for(uint64_t time)
{
	for (uint64_t end = now + time; now < end; now += MS) {
		for (unsigned int i = 0; i < tenant_count; i++)
			if (tenants[i].arrives && now >= tenants[i].arrives)
				arrive(&tenants[i]);
		memory_step(&memory, now);
		check_sum();
	}
}

static inline int begin(void **state)
{
	(void)state;
	tenant_count = 0;
	now = SECOND;
	memory_init(&memory, now, tell);
	return 0;
}

#endif
