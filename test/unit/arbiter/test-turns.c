/* SPDX-License-Identifier: Apache-2.0 */
/* Turns of VMs on a device that a clock of the test drives. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "turns.h"

#define MS 1000000ull
#define TICK (MS / 20)
#define QUANTUM (40 * MS)

/* Runs pieces of work one after the other while it may. A piece cannot be interrupted. */
struct tenant {
	struct turns_vm vm;
	uint64_t piece, ends; /* length of a piece; when the present one ends, 0: none */
	uint64_t work, rest;  /* pieces come for so long, and then none do; rest 0: always */
	uint64_t start, from; /* delay of the work after the begin of a turn; time at which the work begins */
	uint64_t late, since; /* delay of the announcement of work; time of that work, 0: announced */
	uint64_t got;         /* time in which its pieces ran */
	uint64_t sliced;      /* the same, where all that run have an equal part of the device */
	uint32_t turn;
	bool may_run, must_answer, gone, exclusive;
};

static struct turns turns;
static struct tenant tenants[8];
static int tenant_count;
static uint64_t now;

static void tell(struct turns_vm *vm, bool may_run, uint32_t turn)
{
	struct tenant *t = vm->owner;

	assert_true(t->may_run != may_run || !turn || t->exclusive != turns.exclusive);
	t->exclusive = turns.exclusive;
	if (may_run && !t->may_run)
		t->from = now + t->start;
	t->may_run = may_run;
	t->turn = turn;
	t->must_answer = !may_run;
}

static struct tenant *add(uint32_t share, uint64_t piece)
{
	struct tenant *t = &tenants[tenant_count++];

	*t = (struct tenant){.piece = piece};
	turns_add(&turns, &t->vm, share, t, now);
	return t;
}

static bool has_work(const struct tenant *t)
{
	return t->piece && (!t->rest || now % (t->work + t->rest) < t->work);
}

static void tick(struct tenant *t)
{
	bool wants;

	if (t->gone)
		return;
	if (t->ends && now >= t->ends)
		t->ends = 0;
	wants = has_work(t) || t->ends;
	if (!wants || t->vm.active)
		t->since = 0;
	else if (!t->since)
		t->since = now;
	wants = wants && now - t->since >= (t->since ? t->late : 0);
	if (wants != t->vm.active)
		turns_set_active(&turns, &t->vm, wants, now);
	if (t->must_answer && !t->ends) {
		t->must_answer = false;
		turns_drained(&turns, &t->vm, t->turn, now);
	}
	if (!t->ends && t->may_run && now >= t->from && has_work(t))
		t->ends = now + t->piece;
	if (t->ends)
		t->got += TICK;
}

static void slice(void)
{
	unsigned int count = 0;

	for (int i = 0; i < tenant_count; i++)
		count += tenants[i].ends != 0;
	for (int i = 0; i < tenant_count; i++)
		tenants[i].sliced += tenants[i].ends ? TICK / count : 0;
}

static void run_for(uint64_t time)
{
	for (uint64_t end = now + time; now < end; now += TICK) {
		for (int i = 0; i < tenant_count; i++)
			tick(&tenants[i]);
		slice();
		turns_step(&turns, now);
	}
}

/* Lets all of them work for a while before the time that counts. */
static void measure(uint64_t time)
{
	run_for(2000 * MS);
	for (int i = 0; i < tenant_count; i++)
		tenants[i].got = tenants[i].sliced = 0;
	run_for(time);
}

static int begin(void **state)
{
	(void)state;
	tenant_count = 0;
	now = MS;
	turns_init(&turns, QUANTUM, tell);
	return 0;
}

/* A part of the time that all had, in thousandths. */
static int part(const struct tenant *t)
{
	uint64_t sum = 0;

	for (int i = 0; i < tenant_count; i++)
		sum += tenants[i].got;
	return (int)(t->got * 1000 / sum);
}

static void test_alone(void **state)
{
	struct tenant *a = add(1, MS), *b = add(1, 0);

	(void)state;
	measure(1000 * MS);
	assert_true(a->may_run && b->may_run);
	assert_true(a->got >= 999 * MS);
	assert_true(turns_step(&turns, now) == UINT64_MAX);
	assert_false(a->exclusive || b->exclusive);
	b->piece = MS;
	run_for(1000 * MS);
	assert_true(a->exclusive && b->exclusive);
	b->piece = 0;
	run_for(1000 * MS);
	assert_true(!a->exclusive && !b->exclusive && a->may_run && b->may_run);
}

static void check_shares(uint32_t first, uint64_t first_piece, uint32_t second, uint64_t second_piece, uint64_t time)
{
	struct tenant *a = add(first, first_piece), *b = add(second, second_piece);
	int asked = (int)(first * 1000 / (first + second));

	measure(time);
	assert_in_range(part(a), asked - 20, asked + 20);
	/* One at a time, with hardly a gap. */
	assert_in_range((a->got + b->got) * 100 / time, 97, 101);
	assert_int_equal(turns_share_of_others(&turns, &a->vm), second);
	assert_int_equal(turns_share_of_others(&turns, &b->vm), first);
}

static void test_equal(void **state)
{
	check_shares(1, MS / 10, 1, MS / 10, 10000 * MS);
}

static void test_one_to_nine(void **state)
{
	check_shares(1, MS / 10, 9, MS / 10, 10000 * MS);
}

/* Each turn begins with time in which nothing runs. A tenth has the work of a tenth nevertheless. */
static void test_one_to_nine_with_messages(void **state)
{
	struct tenant *a = add(1, MS / 10), *b = add(9, MS / 10);

	(void)state;
	a->start = b->start = MS * 7 / 20;
	measure(20000 * MS);
	assert_in_range(a->got * 1000 / (20000 * MS), 95, 103);
	assert_in_range(b->got * 1000 / (20000 * MS), 870, 905);
}

/* The time that a piece of 150 ms takes beyond its turn is paid back. */
static void test_long_pieces(void **state)
{
	check_shares(1, MS / 10, 1, 150 * MS, 60000 * MS);
}

static void test_pieces_of_half_a_second(void **state)
{
	check_shares(1, MS / 10, 1, 500 * MS, 120000 * MS);
}

static void test_pieces_of_half_a_second_of_a_tenth(void **state)
{
	check_shares(1, 500 * MS, 9, MS / 10, 240000 * MS);
}

/*
 * Less is owed by no more than the time in which the other one rests, as a program does between two batches: a tenth,
 * and four of a hundred.
 */
static void test_short_rests(void **state)
{
	struct tenant *a = add(1, 500 * MS), *b = add(9, MS / 10);

	(void)state;
	b->work = 25 * MS;
	b->rest = MS;
	measure(240000 * MS);
	assert_in_range(part(a), 90, 140);
}

/* A VM that has work now and then, and little of it, does not keep the device from others. */
static void test_little_work(void **state)
{
	static const struct {
		uint32_t first, second;
		uint64_t piece, work, rest;
		int least;
	} cases[] = {
		{1, 1, 500 * MS, 2 * MS, 31 * MS, 850}, {1, 1, 100 * MS, 2 * MS, 31 * MS, 700},
		{9, 1, 500 * MS, 2 * MS, 31 * MS, 850}, {1, 1, 20 * MS, 2 * MS, 31 * MS, 700},
		{1, 9, 500 * MS, MS / 5, 3 * MS, 400},  {1, 9, MS, 2 * MS, 31 * MS, 850},
	};

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct tenant *a, *b;

		begin(state);
		a = add(cases[i].first, cases[i].piece);
		b = add(cases[i].second, MS / 10);
		b->work = cases[i].work;
		b->rest = cases[i].rest;
		measure(60000 * MS);
		assert_true((int)(a->got / (60 * MS)) >= cases[i].least);
	}
}

/* A VM that is alone with its work goes on soon, whatever it owes. */
static void test_owes_and_is_alone(void **state)
{
	struct tenant *a = add(1, 500 * MS), *b = add(9, MS / 10);

	(void)state;
	measure(5000 * MS);
	b->piece = 0;
	a->piece = MS;
	run_for(700 * MS);
	a->got = 0;
	run_for(1000 * MS);
	assert_true(a->got >= 990 * MS);
}

static void test_long_pieces_of_the_smaller_share(void **state)
{
	check_shares(1, 150 * MS, 3, MS, 60000 * MS);
}

static void test_three(void **state)
{
	struct tenant *a = add(1, MS), *b = add(2, MS), *c = add(5, 10 * MS);

	measure(20000 * MS);
	assert_in_range(part(a), 105, 145);
	assert_in_range(part(b), 230, 270);
	assert_in_range(part(c), 605, 645);
}

/* One that owes earns its part in each round, not in each turn of the others. */
static void test_long_pieces_beside_two(void **state)
{
	struct tenant *a = add(1, 150 * MS), *b = add(1, MS), *c = add(1, MS);

	measure(60000 * MS);
	assert_in_range(part(a), 310, 360);
	assert_in_range(part(b), 310, 360);
	assert_in_range(part(c), 310, 360);
}

static void test_small_share_beside_four(void **state)
{
	struct tenant *a = add(1, MS / 10);

	for (int i = 0; i < 4; i++)
		add(50, MS / 10);
	measure(60000 * MS);
	assert_in_range(part(a), 4, 6);
}

/* A part of the quantum that is below the shortest turn: every few rounds. */
static void test_small_share(void **state)
{
	struct tenant *a = add(1, MS / 10);

	add(200, MS / 10);
	measure(60000 * MS);
	assert_in_range(part(a), 4, 6);
}

/* The time of one that has no work goes to the other one, and it earns nothing meanwhile. */
static void test_work_now_and_then(void **state)
{
	struct tenant *a = add(1, MS / 10), *b = add(1, MS / 10);

	a->work = 300 * MS;
	a->rest = 700 * MS;
	measure(20000 * MS);
	/* Half of the device for 300 of 1,000 ms. */
	assert_in_range(part(a), 140, 165);
	assert_in_range((a->got + b->got) * 100 / (20000 * MS), 97, 101);
}

/* Work that comes and goes gets no more than work that stays, and waits no longer than the turn of the other one. */
static void test_bursts(void **state)
{
	struct tenant *a = add(1, MS / 10), *b = add(19, MS / 10);

	a->work = 5 * MS;
	a->rest = 5 * MS;
	a->late = 3 * MS;
	measure(20000 * MS);
	assert_in_range(part(a), 10, 55);
	assert_in_range((a->got + b->got) * 100 / (20000 * MS), 97, 101);
}

/* Turns that no other VM waits for do not end, and cost nothing. */
static void test_alone_again(void **state)
{
	struct tenant *a = add(1, MS / 10), *b = add(1, MS / 10);

	run_for(1000 * MS);
	b->piece = 0;
	run_for(50 * MS);
	a->got = 0;
	run_for(300 * MS);
	assert_true(a->got >= 299 * MS && a->exclusive);
	assert_true(a->vm.credit > -(int64_t)(50 * MS));
	run_for(600 * MS);
	assert_true(!a->exclusive && b->may_run);
}

/* One whose work never ends is on the device for ever; the others take turns beside it. */
static void test_endless(void **state)
{
	struct tenant *a = add(1, 1000000 * MS), *b = add(1, MS), *c = add(1, MS);

	measure(10000 * MS);
	assert_true(a->got >= 9999 * MS);
	assert_in_range(b->got, 4500 * MS, 5100 * MS);
	assert_in_range(c->got, 4500 * MS, 5100 * MS);
}

/* Pieces that are not waited for: what the other VM has lost until then is paid back when each has ended. */
static void check_overdue(uint32_t first, uint32_t second, uint64_t least)
{
	struct tenant *a = add(first, 5000 * MS), *b = add(second, MS / 10);

	measure(120000 * MS);
	assert_in_range(b->sliced * 1000 / (120000 * MS), least, 1000);
	assert_in_range((a->sliced + b->sliced) * 1000 / (120000 * MS), 970, 1001);
}

static void test_overdue_pieces(void **state)
{
	check_overdue(1, 1, 490);
}

/* The device gives each half of its time, whatever the shares are. */
static void test_overdue_pieces_of_a_tenth(void **state)
{
	check_overdue(1, 9, 500);
}

static void test_holder_is_gone(void **state)
{
	struct tenant *holder;

	(void)state;
	for (int i = 0; i < 3; i++)
		add(1, MS);
	run_for(1000 * MS);
	assert_non_null(turns.holder);
	holder = turns.holder->owner;
	turns_remove(&turns, &holder->vm, now);
	holder->gone = true;
	measure(2000 * MS);
	for (int i = 0; i < 3; i++)
		assert_in_range(part(&tenants[i]), tenants[i].gone ? 0 : 470, tenants[i].gone ? 0 : 530);
}

/* A kernel that waits for another one, which has not begun: it ends in the VM's next turn. */
static void test_work_that_waits_for_work(void **state)
{
	struct tenant *a = add(1, 1000000 * MS), *b = add(1, MS);

	(void)state;
	run_for(1000 * MS);
	assert_true(a->vm.drains && b->vm.active);
	for (int i = 0; i < 2000 && !a->may_run; i++)
		run_for(MS);
	assert_true(a->may_run);
	a->ends = now;
	a->piece = MS;
	measure(10000 * MS);
	assert_in_range(part(a), 480, 520);
}

/* Overdue VMs have their short turns even where there is no other VM. */
static void test_all_are_endless(void **state)
{
	struct tenant *a = add(1, 1000000 * MS), *b = add(1, 1000000 * MS);
	int turns_of_a = 0, turns_of_b = 0;

	(void)state;
	for (int i = 0; i < 5000; i++) {
		run_for(MS);
		turns_of_a += a->may_run;
		turns_of_b += b->may_run;
	}
	assert_true(turns_of_a > 10 && turns_of_b > 10);
}

/* The answer to an earlier HOLD says nothing of this one. */
static void test_late_answer(void **state)
{
	struct tenant *a = add(1, MS), *b = add(1, 0);
	uint32_t turn;

	run_for(10 * MS);
	a->piece = 100000 * MS; /* never ends */
	b->piece = MS;
	run_for(100 * MS);
	assert_true(a->vm.drains && !b->may_run);
	turn = a->turn;
	turns_drained(&turns, &a->vm, turn - 1, now);
	assert_true(a->vm.drains);
	turns_drained(&turns, &a->vm, turn, now);
	assert_false(a->vm.drains);
	turns_step(&turns, now);
	assert_true(b->may_run || a->may_run);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup(test_alone, begin),
		cmocka_unit_test_setup(test_equal, begin),
		cmocka_unit_test_setup(test_one_to_nine, begin),
		cmocka_unit_test_setup(test_one_to_nine_with_messages, begin),
		cmocka_unit_test_setup(test_long_pieces, begin),
		cmocka_unit_test_setup(test_pieces_of_half_a_second, begin),
		cmocka_unit_test_setup(test_pieces_of_half_a_second_of_a_tenth, begin),
		cmocka_unit_test_setup(test_long_pieces_of_the_smaller_share, begin),
		cmocka_unit_test_setup(test_three, begin),
		cmocka_unit_test_setup(test_long_pieces_beside_two, begin),
		cmocka_unit_test_setup(test_small_share_beside_four, begin),
		cmocka_unit_test_setup(test_small_share, begin),
		cmocka_unit_test_setup(test_work_now_and_then, begin),
		cmocka_unit_test_setup(test_bursts, begin),
		cmocka_unit_test_setup(test_alone_again, begin),
		cmocka_unit_test_setup(test_endless, begin),
		cmocka_unit_test_setup(test_overdue_pieces, begin),
		cmocka_unit_test_setup(test_overdue_pieces_of_a_tenth, begin),
		cmocka_unit_test_setup(test_holder_is_gone, begin),
		cmocka_unit_test_setup(test_work_that_waits_for_work, begin),
		cmocka_unit_test_setup(test_all_are_endless, begin),
		cmocka_unit_test_setup(test_late_answer, begin),
		cmocka_unit_test_setup(test_short_rests, begin),
		cmocka_unit_test_setup(test_little_work, begin),
		cmocka_unit_test_setup(test_owes_and_is_alone, begin),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
