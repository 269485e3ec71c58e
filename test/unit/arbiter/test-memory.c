/* SPDX-License-Identifier: Apache-2.0 */
/* VMs that share more memory than there is, by a clock of the test. */
#include "tenants.h"

static void test_waits_until_all_are_there(void **state)
{
	struct tenant *a = add(0), *b;

	(void)state;
	want(a, 800);
	run_for(900 * MS);
	assert_int_equal(a->grants, 0);
	b = add(800);
	run_for(200 * MS);
	/* The other one has been idle for less than a second, and has no lease: it is told to go. */
	assert_int_equal(a->grants, 1);
	assert_int_equal(b->outs, 1);
}

static void test_fits(void **state)
{
	struct tenant *a = add(0), *b = add(0);

	(void)state;
	run_for(SECOND);
	want(a, 600);
	want(b, 400);
	run_for(2 * MS);
	assert_int_equal(a->grants + b->grants, 2);
	assert_int_equal(a->outs + b->outs, 0);
}

/* The spare part is no reason to refuse, or to have another one go. */
static void test_spare(void **state)
{
	struct tenant *a = add(0), *b = add_with(100, 0, false);

	(void)state;
	run_for(SECOND);
	a->want = 850;
	memory_want(&memory, &a->vm, 850, 500, now);
	run_for(2 * MS);
	assert_int_equal(a->bytes, 900);
	want(b, 100);
	run_for(2 * MS);
	assert_int_equal(b->grants, 1);
}

static void test_longest_idle_goes(void **state)
{
	struct tenant *a = add(300), *b = add(300), *c = add(300), *d = add(0);

	(void)state;
	memory_set_active(&a->vm, true, now);
	memory_set_active(&b->vm, true, now);
	run_for(SECOND);
	memory_set_active(&b->vm, false, now);
	run_for(SECOND);
	want(d, 300);
	run_for(SECOND);
	assert_int_equal(c->outs, 1);
	want(d, 600);
	run_for(SECOND);
	assert_int_equal(b->outs, 1);
	want(d, 900);
	run_for(SECOND);
	assert_int_equal(a->outs, 1);
	assert_int_equal(d->grants, 3);
}

static void test_largest_surplus_goes(void **state)
{
	struct tenant *a = add_with(350, 400, false), *b = add(300), *c = add(300);

	(void)state;
	for (unsigned int i = 0; i < tenant_count; i++)
		memory_set_active(&tenants[i].vm, true, now);
	run_for(SECOND);
	want(c, 350);
	run_for(SECOND);
	assert_int_equal(a->outs, 0);
	assert_int_equal(b->outs, 1);
}

static void test_lease(void **state)
{
	struct tenant *a = add(700), *b = add_with(0, 700, true);

	(void)state;
	memory_set_active(&a->vm, true, now);
	memory_set_active(&b->vm, true, now);
	want(b, 700);
	run_for(SECOND + 4 * WAY);
	assert_true(a->outs == 1 && !b->out);
	want(a, 700);
	run_for(1200 * MS);
	assert_int_equal(b->outs, 0);
	run_for(SECOND);
	assert_true(b->outs == 1 && !a->out);
	/* A long way makes a long lease. */
	b->way = a->way = 500 * MS;
	for (int i = 0; i < 3; i++) {
		want(b, 700);
		run_for(2 * SECOND);
		want(a, 700);
		run_for(20 * SECOND);
	}
	assert_in_range(a->longest, 8 * SECOND, 10 * SECOND);
}

static void test_idle_has_no_lease(void **state)
{
	struct tenant *a = add(700), *b = add_with(0, 700, true);

	(void)state;
	b->way = 500 * MS;
	memory_set_active(&b->vm, true, now);
	want(b, 700);
	run_for(2 * SECOND);
	want(a, 700);
	memory_set_active(&b->vm, false, now);
	run_for(900 * MS);
	assert_int_equal(b->outs, 0);
	run_for(SECOND);
	assert_int_equal(b->outs, 1);
}

/* A VM whose ways were short grows by its return: the next ways are as long as those of others with as much. */
static void test_grows_by_return(void **state)
{
	struct tenant *a = add(900), *b = add_with(10, 0, true);

	(void)state;
	a->way = 500 * MS;
	memory_set_active(&a->vm, true, now);
	memory_set_active(&b->vm, true, now);
	for (int i = 0; i < 2; i++) {
		want(b, 900);
		run_for(2 * SECOND);
		assert_true(!b->out && b->bytes == 900);
		if (i)
			break;
		memory_went_out(&b->vm, 10, WAY);
		b->out = true;
		want(a, 900);
		run_for(12 * SECOND);
	}
	b->way = 500 * MS;
	want(a, 900);
	run_for(5 * SECOND);
	assert_int_equal(b->outs, 0);
	run_for(7 * SECOND);
	assert_int_equal(b->outs, 1);
}

/* Both wait for memory of one another. */
static void test_two_grow(void **state)
{
	struct tenant *a = add(500), *b = add(500);

	(void)state;
	memory_set_active(&a->vm, true, now);
	memory_set_active(&b->vm, true, now);
	run_for(SECOND);
	want(a, 800);
	want(b, 800);
	run_for(SECOND);
	assert_true(a->bytes == 800 && !a->out && b->out && b->want);
	run_for(3 * SECOND);
	assert_true(b->bytes == 800 && !b->out && !b->want && a->out);
}

static void test_refused(void **state)
{
	struct tenant *a = add(0), *b = add_with(300, 0, false);

	(void)state;
	run_for(SECOND);
	want(a, 701);
	run_for(2 * MS);
	assert_int_equal(a->refusals, 1);
	want(a, 700);
	want(b, 1001);
	run_for(2 * MS);
	assert_int_equal(a->grants, 1);
	assert_int_equal(b->refusals, 1);
}

/* The next one goes, and where there is none the growth is refused; a return waits. */
static void test_cannot_go(void **state)
{
	struct tenant *a = add(450), *b = add(450), *c = add(100);

	(void)state;
	run_for(SECOND);
	a->fails = true;
	want(c, 500);
	run_for(SECOND);
	assert_true(!a->out && b->outs == 1 && c->grants == 1);
	want(c, 600);
	run_for(SECOND);
	assert_int_equal(c->refusals, 1);
	want(b, 700);
	run_for(SECOND);
	assert_int_equal(b->refusals, 1);
	memory_have(&c->vm, 100);
	c->bytes = 100;
	want(b, 450);
	run_for(SECOND);
	assert_int_equal(b->grants, 1);
	a->fails = false;
	memory_set_active(&b->vm, true, now);
	run_for(MEMORY_HELD_NS);
	want(c, 500);
	run_for(SECOND);
	assert_int_equal(a->outs, 1);
	assert_int_equal(c->grants, 2);
}

/* A VM withdraws its want: no other VM goes out for it. */
static void test_wants_nothing_any_more(void **state)
{
	struct tenant *a = add(800), *b = add(0);

	(void)state;
	memory_set_active(&a->vm, true, now);
	memory_came_in(&a->vm, WAY, now);
	want(b, 800);
	run_for(SECOND);
	want(b, 0);
	run_for(5 * SECOND);
	assert_int_equal(a->outs, 0);
	assert_int_equal(b->refusals, 1);
}

/* The room that is made for a VM is not taken by growth of another one. */
static void test_room_is_kept(void **state)
{
	struct tenant *a = add(400), *b = add(400), *c = add(0), *d = add(0);

	(void)state;
	run_for(SECOND);
	b->way = 500 * MS;
	want(c, 900);
	run_for(200 * MS);
	assert_true(a->out && !b->out);
	want(d, 300);
	run_for(200 * MS);
	assert_true(!d->grants && !b->out);
	run_for(SECOND);
	assert_true(c->grants == 1 && b->out);
}

static void test_minimums(void **state)
{
	struct memory_vm vm, said = {.capacity = CAPACITY, .minimum = 401};

	(void)state;
	add_with(600, 0, false);
	assert_false(memory_add(&memory, &vm, &said, false, now));
	said.minimum = 400;
	assert_true(memory_add(&memory, &vm, &said, false, now));
	memory_remove(&memory, &vm);
	/* The smallest capacity counts. */
	said = (struct memory_vm){.capacity = 500};
	assert_false(memory_add(&memory, &vm, &said, false, now));
	said = (struct memory_vm){.capacity = 700};
	assert_true(memory_add(&memory, &vm, &said, false, now));
	assert_int_equal(memory_capacity(&memory), 700);
	memory_remove(&memory, &vm);
	assert_int_equal(memory_capacity(&memory), CAPACITY);
}

/* Another vcudad has reported a smaller capacity, so a VM's memory exceeds it: the VM comes in alone. */
static void test_larger_than_the_device(void **state)
{
	struct tenant *a = add_with(0, 900, true), *b = add(100);
	struct memory_vm vm, said = {.capacity = 500};

	(void)state;
	assert_true(memory_add(&memory, &vm, &said, false, now));
	want(a, 900);
	run_for(2 * SECOND);
	assert_true(!a->out && b->outs == 1);
	memory_remove(&memory, &vm);
}

/* One that has said nothing goes when the operator wants it to. */
static void test_goes_by_itself(void **state)
{
	struct tenant *a = add(800), *b = add(0);

	(void)state;
	memory_set_active(&a->vm, true, now);
	memory_came_in(&a->vm, WAY, now);
	run_for(SECOND);
	want(b, 800);
	run_for(500 * MS);
	assert_int_equal(b->grants, 0);
	a->out = true;
	memory_went_out(&a->vm, a->bytes, WAY);
	run_for(2 * MS);
	assert_int_equal(b->grants, 1);
}

/* Growth of others that leaves the first want enough does not wait until the VM has gone. */
static void test_growth_beside_a_way_out(void **state)
{
	struct tenant *a = add(800), *b = add(0), *c = add(0);

	(void)state;
	run_for(SECOND);
	a->way = 10 * SECOND;
	want(b, 900);
	want(c, 101);
	run_for(SECOND);
	assert_true(!a->out && !c->grants);
	want(c, 100);
	run_for(2 * MS);
	assert_true(!a->out && c->grants == 1);
	run_for(10 * SECOND);
	assert_true(a->out && b->grants == 1);
}

/* A VM has time to use memory that others made room for, even if it had no work while it waited. */
static void test_growth_has_a_lease(void **state)
{
	struct tenant *a = add(800), *b = add(0);

	(void)state;
	run_for(SECOND);
	a->way = 500 * MS;
	want(b, 800);
	run_for(SECOND);
	assert_true(a->out && b->grants == 1);
	memory_set_active(&b->vm, true, now);
	memory_set_active(&a->vm, true, now);
	want(a, 800);
	run_for(3500 * MS);
	assert_int_equal(b->outs, 0);
	run_for(2 * SECOND);
	assert_true(b->outs == 1 && !a->out);
}

static void come_in(struct tenant *t, uint64_t bytes)
{
	memory_set_active(&t->vm, true, now);
	want(t, bytes);
	run_for(2 * WAY);
	assert_false(t->out);
}

/* A VM comes in beside another one, and its command needs more. Later growth comes behind the want of a third VM. */
static void test_growth_keeps_its_place(void **state)
{
	for (int is_late = 0; is_late < 2; is_late++) {
		struct tenant *a, *b, *c;

		begin(state);
		a = add_with(0, 300, true), b = add_with(0, 500, true), c = add_with(0, 600, true);
		run_for(SECOND);
		come_in(c, 600);
		run_for(MEMORY_ARRIVAL_NS);
		memory_set_active(&b->vm, true, now);
		want(a, 300);
		want(b, 500);
		run_for(2 * WAY + (is_late ? MEMORY_ARRIVAL_NS : 0));
		want(a, 900);
		run_for(MEMORY_LEAST_LEASE_NS + 4 * WAY);
		assert_int_equal(c->outs, 1);
		assert_true(is_late ? !b->out && a->want : a->bytes == 900 && !a->out && b->want);
	}
}

/* A return that fits waits until a VM that has waited and comes in before has what it needs. */
static void test_returns_one_after_the_other(void **state)
{
	struct tenant *a = add_with(0, 300, true), *b = add_with(0, 300, true), *c = add(800);

	(void)state;
	run_for(SECOND);
	memory_set_active(&b->vm, true, now);
	memory_set_active(&c->vm, true, now);
	memory_came_in(&c->vm, WAY, now);
	want(a, 300);
	want(b, 300);
	run_for(MEMORY_LEAST_LEASE_NS + 3 * WAY);
	assert_true(!a->out && b->want && c->out);
	want(a, 800);
	run_for(2 * MS);
	assert_true(a->bytes == 800 && b->want);
	memory_have(&a->vm, 300);
	a->bytes = 300;
	run_for(MEMORY_ARRIVAL_NS + 2 * WAY);
	assert_true(!a->out && !b->out);
}

/* A VM without work whose growth waits loses its lease. */
static void test_growth_ends_the_lease(void **state)
{
	struct tenant *a = add_with(0, 600, true), *b = add_with(0, 600, true), *c = add_with(0, 300, true);

	(void)state;
	run_for(SECOND);
	come_in(a, 600);
	run_for(MEMORY_ARRIVAL_NS);
	come_in(c, 300);
	run_for(MEMORY_ARRIVAL_NS);
	memory_set_active(&b->vm, true, now);
	want(b, 600);
	want(a, 900);
	run_for(4 * WAY);
	assert_true(b->out && !a->outs);
	memory_set_active(&a->vm, false, now);
	run_for(4 * WAY);
	assert_true(!b->out && a->outs == 1);
}

/* Growth that has waited has a lease, also where it fits because the other VM has given memory back. */
static void test_growth_that_fits_has_a_lease(void **state)
{
	struct tenant *a = add(0), *b = add_with(0, 600, true), *c = add_with(0, 900, true);

	(void)state;
	run_for(SECOND);
	come_in(c, 900);
	memory_set_active(&b->vm, true, now);
	want(a, 600);
	want(b, 600);
	run_for(500 * MS);
	memory_have(&c->vm, 100);
	c->bytes = 100;
	run_for(MS);
	assert_int_equal(a->bytes, 600);
	memory_set_active(&a->vm, true, now);
	run_for(MEMORY_LEAST_LEASE_NS - 100 * MS);
	assert_int_equal(a->outs, 0);
	run_for(SECOND);
	assert_true(a->outs == 1 && !b->out);
}

/* Memory beyond the grant comes back with its VM, and is no growth that others could refuse. */
static void test_returns_with_more(void **state)
{
	struct tenant *a = add(500), *b = add_with(400, 400, false);

	(void)state;
	run_for(SECOND);
	a->bytes = 650;
	a->out = true;
	memory_went_out(&a->vm, 600, WAY);
	memory_went_out(&a->vm, 650, WAY);
	want(a, 650);
	run_for(SECOND);
	assert_int_equal(a->refusals, 0);
	assert_true(!a->out && b->outs == 1);
}

/* No time that a vcudad says has others wait for hours. */
static void test_bounds(void **state)
{
	struct tenant *a = add_with(0, 700, true);

	(void)state;
	memory_went_out(&a->vm, 700, 1000000 * SECOND);
	assert_true(a->vm.out_ns <= 11 * SECOND);
	memory_came_in(&a->vm, UINT64_MAX, now);
	assert_true(a->vm.in_ns <= 11 * SECOND);
	assert_int_equal(a->vm.lease_until, now + MEMORY_LEASE * (a->vm.out_ns + a->vm.in_ns));
	memory_went_out(&a->vm, 700, 1000000 * SECOND);
	a->vm.bytes = 5000000000;
	memory_came_in(&a->vm, UINT64_MAX, now);
	assert_int_equal(a->vm.lease_until, now + MEMORY_MOST_LEASE_NS);
	memory_went_out(&a->vm, UINT64_MAX, UINT64_MAX);
	assert_true(memory_longest_wait(&memory) == 0);
}

/* More than there is, with no want: one goes. */
static void test_excess(void **state)
{
	struct tenant *a = &tenants[0], *b;
	struct memory_vm said = {.owner = a, .capacity = CAPACITY, .bytes = 700};

	(void)state;
	*a = (struct tenant){.way = WAY};
	tenant_count = 1;
	assert_true(memory_add(&memory, &a->vm, &said, false, now));
	b = add(700);
	a->bytes = 0;
	while (now < 3 * SECOND && !a->arrives && !b->arrives)
		memory_step(&memory, now += MS);
	assert_true(a->arrives || b->arrives);
	a->bytes = 700;
	now += WAY;
	arrive(a->arrives ? a : b);
	run_for(5 * SECOND);
	assert_int_equal(a->outs + b->outs, 1);
}

/* The memory of a VM whose vcudad has gone counts until it is removed; a want that needs this memory waits. */
static void test_lost(void **state)
{
	struct tenant *a = add(800), *b = add(0);

	(void)state;
	run_for(SECOND);
	memory_lose(&a->vm);
	want(b, 800);
	run_for(500 * MS);
	assert_true(!b->grants && !b->refusals && !a->arrives);
	memory_remove(&memory, &a->vm);
	a->bytes = 0;
	run_for(2 * MS);
	assert_int_equal(b->grants, 1);
}

/* A VM that comes in only in part goes out again, and keeps no memory from others. */
static void test_comes_in_vain(void **state)
{
	struct tenant *a = add_with(0, 800, true), *b = add(0);

	(void)state;
	want(a, 800);
	a->way = 10 * SECOND;
	run_for(2 * SECOND);
	assert_true(a->arrives);
	want(b, 800);
	run_for(SECOND);
	assert_int_equal(b->grants, 0);
	a->arrives = 0;
	memory_went_out(&a->vm, 800, WAY);
	run_for(2 * MS);
	assert_int_equal(b->grants, 1);
}

/* Nothing is known to lack room: no return waits for the growth of another VM. */
static void test_returns_that_fit_come_together(void **state)
{
	struct tenant *a = add_with(0, 300, true), *b = add_with(0, 300, true);

	(void)state;
	run_for(SECOND);
	want(a, 300);
	want(b, 300);
	run_for(2 * MS);
	assert_true(a->grants && b->grants);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup(test_waits_until_all_are_there, begin),
		cmocka_unit_test_setup(test_fits, begin),
		cmocka_unit_test_setup(test_spare, begin),
		cmocka_unit_test_setup(test_longest_idle_goes, begin),
		cmocka_unit_test_setup(test_largest_surplus_goes, begin),
		cmocka_unit_test_setup(test_lease, begin),
		cmocka_unit_test_setup(test_idle_has_no_lease, begin),
		cmocka_unit_test_setup(test_grows_by_return, begin),
		cmocka_unit_test_setup(test_two_grow, begin),
		cmocka_unit_test_setup(test_refused, begin),
		cmocka_unit_test_setup(test_cannot_go, begin),
		cmocka_unit_test_setup(test_wants_nothing_any_more, begin),
		cmocka_unit_test_setup(test_room_is_kept, begin),
		cmocka_unit_test_setup(test_minimums, begin),
		cmocka_unit_test_setup(test_larger_than_the_device, begin),
		cmocka_unit_test_setup(test_goes_by_itself, begin),
		cmocka_unit_test_setup(test_growth_beside_a_way_out, begin),
		cmocka_unit_test_setup(test_growth_has_a_lease, begin),
		cmocka_unit_test_setup(test_growth_keeps_its_place, begin),
		cmocka_unit_test_setup(test_returns_one_after_the_other, begin),
		cmocka_unit_test_setup(test_growth_ends_the_lease, begin),
		cmocka_unit_test_setup(test_growth_that_fits_has_a_lease, begin),
		cmocka_unit_test_setup(test_returns_with_more, begin),
		cmocka_unit_test_setup(test_bounds, begin),
		cmocka_unit_test_setup(test_excess, begin),
		cmocka_unit_test_setup(test_lost, begin),
		cmocka_unit_test_setup(test_comes_in_vain, begin),
		cmocka_unit_test_setup(test_returns_that_fit_come_together, begin),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
