/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How long programs wait that work, rest and grow at random. Each VM has one program. Its commands wait while the VM is
 * out, and its allocations wait for other VMs. The arbiter learns of an allocation when the VM is in.
 */
#include <stdio.h>

#include "test/seed.h"
#include "tenants.h"

#define PROGRAMS 4

/* Until vcudad says that a VM has no work any more (worker/overcommit.c). */
#define QUIET (200 * MS)

/* A program is looked at once in a millisecond, and some steps follow one another. */
#define LOOKS (20 * MS)

enum doing { WORKS, RESTS, WAITS };

struct program {
	struct tenant *vm;
	enum doing doing;
	uint64_t until;  /* end of its work or rest */
	uint64_t target; /* the bytes that its command needs altogether; 0: as much as the VM has */
	uint64_t called; /* time at which its command began to wait */
	uint64_t worked; /* last time with work */
	uint64_t longest;
};

static struct program programs[PROGRAMS];

static void call(struct program *p, uint64_t target)
{
	p->doing = WAITS;
	p->target = target;
	p->called = now;
}

static void end_call(struct program *p)
{
	if (now - p->called > p->longest)
		p->longest = now - p->called;
	p->doing = WORKS;
	p->until = now + random_below(random_below(2) ? SECOND : 40 * SECOND);
}

static void choose(struct program *p)
{
	unsigned int what = (unsigned int)random_below(8);
	struct tenant *t = p->vm;

	if (what == 0 && p->doing == WORKS && t->bytes) {
		t->bytes = random_below(t->bytes);
		memory_have(&t->vm, t->bytes);
	} else if (what <= 2 && p->doing == WORKS) {
		p->doing = RESTS;
		p->until = now + random_below(5 * SECOND);
	} else if (what <= 5 && t->bytes < CAPACITY) {
		call(p, t->bytes + 1 + random_below(CAPACITY - t->bytes));
	} else {
		call(p, 0);
	}
}

static void go_on(struct program *p)
{
	struct tenant *t = p->vm;
	bool is_in = !t->out && !t->arrives;

	if (p->doing != WAITS && now >= p->until && (is_in || p->doing == RESTS))
		choose(p);
	if (p->doing == WORKS && !is_in)
		call(p, 0);
	if (p->doing != WAITS || t->arrives || t->want)
		return;
	if (t->out)
		want(t, t->bytes ? t->bytes : 1);
	else if (p->target > t->bytes)
		want(t, p->target);
	else
		end_call(p);
}

/* An allocation that waits is no work. A command in front of a closed gate is. */
static void tell_work(struct program *p)
{
	struct tenant *t = p->vm;
	bool grows = p->target && t->want >= p->target;
	bool works = p->doing == WORKS || (p->doing == WAITS && t->out && !grows);

	p->worked = works ? now : p->worked;
	if (works != t->vm.active && (works || now >= p->worked + QUIET))
		memory_set_active(&t->vm, works, now);
}

static void live_for(unsigned int count, uint64_t time)
{
	for (uint64_t end = now + time; now < end;) {
		for (unsigned int i = 0; i < count; i++) {
			go_on(&programs[i]);
			tell_work(&programs[i]);
		}
		run_for(MS);
	}
}

/*
 * A call waits no longer than the arbiter says, and for the ways of its own VM. For each other VM it may also wait for
 * one more way out, for an earlier want, and for the growth that may follow a return.
 */
static void check_waits(unsigned int count, uint64_t longest_way, uint64_t time)
{
	uint64_t way = longest_way / 2 + random_below(longest_way / 2), bound;

	begin(NULL);
	for (unsigned int i = 0; i < count; i++) {
		struct tenant *t = add(0);

		programs[i] = (struct program){.vm = t, .doing = RESTS, .until = now + random_below(5 * SECOND)};
		t->way = way;
	}
	live_for(count, time);
	bound = memory_longest_wait(&memory) + (count + 1) * way + (count - 1) * MEMORY_ARRIVAL_NS + QUIET + LOOKS;
	for (unsigned int i = 0; i < count; i++) {
		printf("VM %u of %u, ways of %llu ms: out %u times, waited for %llu ms at most, of %llu\n", i, count,
		       way / MS, programs[i].vm->outs, programs[i].longest / MS, bound / MS);
		assert_true(programs[i].vm->outs > 3);
		assert_true(programs[i].longest <= bound);
		assert_int_equal(programs[i].vm->refusals, 0);
	}
}

static void test_three(void **state)
{
	(void)state;
	check_waits(3, 100 * MS, 2000 * SECOND);
	check_waits(3, 2 * SECOND, 2000 * SECOND);
}

static void test_four(void **state)
{
	(void)state;
	check_waits(4, 100 * MS, 2000 * SECOND);
	check_waits(4, 2 * SECOND, 2000 * SECOND);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_three),
		cmocka_unit_test(test_four),
	};

	random_state = test_seed_state(test_seed());
	return cmocka_run_group_tests(tests, NULL, NULL);
}
