/* SPDX-License-Identifier: Apache-2.0 */
/* VMs that share more memory than there is, at random. */
#include "test/seed.h"
#include "tenants.h"

static void live(struct tenant *t)
{
	unsigned int what = (unsigned int)random_below(400);

	if (t->arrives || t->want)
		return;
	if (what == 0)
		memory_set_active(&t->vm, !t->vm.active, now);
	if (t->out && what < 40) {
		memory_set_active(&t->vm, true, now);
		want(t, t->bytes ? t->bytes : 1);
	} else if (!t->out && what < 3) {
		want(t, t->bytes + 1 + random_below(CAPACITY / 3));
	} else if (!t->out && what < 6) {
		t->bytes = random_below(t->bytes + 1);
		memory_have(&t->vm, t->bytes);
	}
}

static void live_for(uint64_t time)
{
	for (uint64_t end = now + time; now < end;) {
		for (unsigned int i = 0; i < tenant_count; i++)
			live(&tenants[i]);
		run_for(MS);
	}
}

/* All wants of `tenant_count` VMs have an answer in the time of that many leases and ways. */
static void test_random(void **state)
{
	uint64_t lease = MEMORY_LEASE * 2 * 300 * MS, bound;

	(void)state;
	for (unsigned int i = 0, count = 2 + (unsigned int)random_below(4); i < count; i++) {
		struct tenant *t = add_with(random_below(CAPACITY / 8), 0, false);

		t->way = MS + random_below(300 * MS);
	}
	live_for(600 * SECOND);
	bound = tenant_count * (lease + 2 * 300 * MS);
	assert_true(memory_longest_wait(&memory) <= bound);
	run_for(bound);
	for (unsigned int i = 0; i < tenant_count; i++) {
		assert_int_equal(tenants[i].want, 0);
		assert_true(tenants[i].longest <= bound);
	}
}

/* With VMs that cannot go out at times, and VMs that end: all have an answer at some time. */
static void test_random_failures(void **state)
{
	(void)state;
	for (int i = 0; i < 4; i++)
		add(0)->way = MS + random_below(300 * MS);
	for (int i = 0; i < 40; i++) {
		struct tenant *t = &tenants[random_below(tenant_count)];

		tenants[random_below(tenant_count)].fails ^= true;
		live_for(10 * SECOND);
		if (i % 8)
			continue;
		memory_remove(&memory, &t->vm);
		*t = (struct tenant){.way = t->way};
		assert_true(
			memory_add(&memory, &t->vm, &(struct memory_vm){.owner = t, .capacity = CAPACITY}, false, now));
	}
	for (unsigned int i = 0; i < tenant_count; i++)
		tenants[i].fails = false;
	run_for(100 * SECOND);
	for (unsigned int i = 0; i < tenant_count; i++)
		assert_int_equal(tenants[i].want, 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup(test_random, begin),
		cmocka_unit_test_setup(test_random, begin),
		cmocka_unit_test_setup(test_random, begin),
		cmocka_unit_test_setup(test_random_failures, begin),
	};

	random_state = test_seed_state(test_seed());
	return cmocka_run_group_tests(tests, NULL, NULL);
}
