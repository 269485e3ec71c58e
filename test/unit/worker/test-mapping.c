/* SPDX-License-Identifier: Apache-2.0 */
/* The worker's mappings: only in reserved ranges, never over something else, complete before use, gone without a trace.
 */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>
#include <cmocka.h>

#include "host/worker/memory/mapping.h"

#define PAGE 4096ull
#define AT WORKER_ARENA_START

static struct worker_mappings *mappings;
static int memory;

static int setup(void **state)
{
	mappings = worker_mappings_create();
	memory = memfd_create("test", 0);
	return !mappings || memory < 0 || ftruncate(memory, 16 * PAGE);
}

static int teardown(void **state)
{
	worker_mappings_destroy(mappings);
	close(memory);
	return 0;
}

static struct worker_mapping_extent extent(uint64_t page, uint64_t pages)
{
	return (struct worker_mapping_extent){memory, page * PAGE, pages * PAGE};
}

/* The protection that /proc/self/maps shows at an address. */
static void protection(uint64_t address, char prot[5])
{
	FILE *maps = fopen("/proc/self/maps", "r");
	unsigned long long from, to;
	char line[512];

	strcpy(prot, "none");
	while (maps && fgets(line, sizeof(line), maps))
		if (sscanf(line, "%llx-%llx %4s", &from, &to, prot) == 3 && address >= from && address < to)
			break;
	fclose(maps);
}

static void scattered_pages_become_one_mapping(void **state)
{
	struct worker_mapping_extent e[] = {extent(3, 1), extent(0, 2), extent(9, 1)};
	char *backing = mmap(NULL, 16 * PAGE, PROT_READ | PROT_WRITE, MAP_SHARED, memory, 0);
	char prot[5];

	for (int i = 0; i < 16; i++)
		backing[i * PAGE] = (char)i;
	assert_int_equal(worker_mapping_add(mappings, AT, 4 * PAGE, 0, true, true, e, 3), 0);
	assert_int_equal(*(char *)AT, 3);
	assert_int_equal(*(char *)(AT + PAGE), 0);
	assert_int_equal(*(char *)(AT + 2 * PAGE), 1);
	assert_int_equal(*(char *)(AT + 3 * PAGE), 9);
	*(char *)(AT + 3 * PAGE) = 77;
	assert_int_equal(backing[9 * PAGE], 77);
	assert_int_equal(worker_mapping_remove(mappings, AT, 4 * PAGE), 0);
	protection(AT, prot);
	assert_string_equal(prot, "---p");
	munmap(backing, 16 * PAGE);
}

static void own_memory_is_out_of_reach(void **state)
{
	struct worker_mapping_extent e = extent(0, 1);
	uint64_t text = (uint64_t)(uintptr_t)worker_mapping_add & ~(PAGE - 1),
		 stack = (uint64_t)(uintptr_t)&e & ~(PAGE - 1);

	assert_int_equal(worker_mapping_add(mappings, text, PAGE, 0, true, true, &e, 1), -EADDRNOTAVAIL);
	assert_int_equal(worker_mapping_add(mappings, stack, PAGE, 0, true, true, &e, 1), -EADDRNOTAVAIL);
	assert_int_equal(worker_mapping_add(mappings, 0, PAGE, 0, true, true, &e, 1), -EADDRNOTAVAIL);
	assert_int_equal(worker_mapping_add(mappings, WORKER_ARENA_END + WORKER_OWN_AREAS * WORKER_OWN_BYTES, PAGE, 0,
					    true, true, &e, 1),
			 -EADDRNOTAVAIL);
	assert_int_equal(worker_mapping_add(mappings, AT, 0 - AT, 0, true, true, &e, 1), -EADDRNOTAVAIL);
	assert_int_equal(worker_mapping_add(mappings, AT + 1, PAGE, 0, true, true, &e, 1), -EINVAL);
	assert_int_equal(worker_mapping_add(mappings, AT, PAGE - 1, 0, true, true, &e, 1), -EINVAL);
	assert_int_equal(worker_mapping_add(mappings, AT, 0, 0, true, true, &e, 1), -EINVAL);
}

/* The range that is reserved for a back end that is a guest itself is out of reach as well, and free for it. */
static void nested_back_end_has_room(void **state)
{
	struct worker_mappings *nested;
	struct worker_mapping_extent e = extent(0, 1);
	uint64_t second = AT + WORKER_ARENA_LENGTH;
	void *p;

	worker_mappings_destroy(mappings);
	nested = worker_mappings_create();
	assert_int_equal(worker_mapping_add(nested, second, PAGE, 0, true, true, &e, 1), 0);
	assert_int_equal(worker_mapping_remove(nested, second, PAGE), 0);
	worker_mappings_nest(nested);
	worker_mappings_nest(nested);
	assert_int_equal(worker_mapping_add(nested, second, PAGE, 0, true, true, &e, 1), -EADDRNOTAVAIL);
	assert_int_equal(worker_mapping_add(nested, second - PAGE, 2 * PAGE, 0, true, true, &e, 1), -EADDRNOTAVAIL);
	p = mmap((void *)second, WORKER_ARENA_LENGTH, PROT_NONE,
		 MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED_NOREPLACE, -1, 0);
	assert_ptr_equal(p, (void *)second);
	munmap(p, WORKER_ARENA_LENGTH);
	assert_int_equal(worker_mapping_add(nested, second - PAGE, PAGE, 0, true, true, &e, 1), 0);
	assert_int_equal(worker_mapping_remove(nested, second - PAGE, PAGE), 0);
	worker_mappings_destroy(nested);
	mappings = worker_mappings_create();
}

/* The worker's own memory is where no guest can have a mapping, and beside it is room for other workers'. */
static void own_place_is_out_of_reach(void **state)
{
	struct worker_mapping_extent e = extent(0, 1);
	char *own = worker_mappings_own_area(mappings), *next = own + WORKER_OWN_BYTES;

	assert_non_null(own);
	assert_null(worker_mappings_own_area(mappings));
	for (uint64_t at = 0; at < WORKER_OWN_BYTES; at += WORKER_OWN_BYTES / 4)
		assert_int_equal(worker_mapping_add(mappings, (uintptr_t)own + at, PAGE, 0, true, true, &e, 1),
				 -EADDRNOTAVAIL);
	assert_int_equal(worker_mapping_add(mappings, (uintptr_t)own - PAGE, 2 * PAGE, 0, true, true, &e, 1),
			 -EADDRNOTAVAIL);
	if ((uintptr_t)next == WORKER_ARENA_END + WORKER_OWN_AREAS * WORKER_OWN_BYTES)
		next = own - WORKER_OWN_BYTES;
	assert_int_equal(worker_mapping_add(mappings, (uintptr_t)next, PAGE, 0, true, true, &e, 1), 0);
	assert_int_equal(worker_mapping_remove(mappings, (uintptr_t)next, PAGE), 0);
}

static void mappings_do_not_overlap(void **state)
{
	struct worker_mapping_extent e = extent(0, 2);

	assert_int_equal(worker_mapping_add(mappings, AT, 2 * PAGE, 0, true, true, &e, 1), 0);
	assert_int_equal(worker_mapping_add(mappings, AT + PAGE, 2 * PAGE, 0, true, true, &e, 1), -EEXIST);
	assert_int_equal(worker_mapping_add(mappings, AT, 2 * PAGE, 0, true, true, &e, 1), -EEXIST);
	assert_int_equal(worker_mapping_remove(mappings, AT, PAGE), -ENOENT);
	assert_int_equal(worker_mapping_remove(mappings, AT, 2 * PAGE), 0);
	assert_int_equal(worker_mapping_remove(mappings, AT, 2 * PAGE), -ENOENT);
}

static void parts_make_a_mapping_only_when_complete(void **state)
{
	struct worker_mapping_extent e = extent(0, 2), more = extent(2, 3);

	assert_int_equal(worker_mapping_add(mappings, AT, 4 * PAGE, 0, true, false, &e, 1), 0);
	assert_false(worker_mapping_covers(mappings, (void *)AT, PAGE, false));
	assert_int_equal(worker_mapping_add(mappings, AT, 4 * PAGE, 2 * PAGE, true, true, &e, 1), 0);
	assert_true(worker_mapping_covers(mappings, (void *)AT, 4 * PAGE, true));
	assert_int_equal(worker_mapping_remove(mappings, AT, 4 * PAGE), 0);

	/* too many pages, too few, a part out of place: the mapping is gone each time */
	assert_int_equal(worker_mapping_add(mappings, AT, 4 * PAGE, 0, true, false, &e, 1), 0);
	assert_int_equal(worker_mapping_add(mappings, AT, 4 * PAGE, 2 * PAGE, true, true, &more, 1), -EINVAL);
	assert_int_equal(worker_mapping_remove(mappings, AT, 4 * PAGE), -ENOENT);
	assert_int_equal(worker_mapping_add(mappings, AT, 4 * PAGE, 0, true, true, &e, 1), -EINVAL);
	assert_int_equal(worker_mapping_remove(mappings, AT, 4 * PAGE), -ENOENT);
	assert_int_equal(worker_mapping_add(mappings, AT, 4 * PAGE, 2 * PAGE, true, true, &e, 1), -EINVAL);
}

static void ranges_are_checked(void **state)
{
	struct worker_mapping_extent e = extent(0, 2);
	char prot[5];

	assert_int_equal(worker_mapping_add(mappings, AT, 2 * PAGE, 0, false, true, &e, 1), 0);
	protection(AT, prot);
	assert_string_equal(prot, "r--s");
	assert_true(worker_mapping_covers(mappings, (void *)(AT + 5), 2 * PAGE - 5, false));
	assert_false(worker_mapping_covers(mappings, (void *)AT, 2 * PAGE, true));
	assert_false(worker_mapping_covers(mappings, (void *)AT, 2 * PAGE + 1, false));
	assert_false(worker_mapping_covers(mappings, (void *)(AT + 2 * PAGE), 1, false));
	assert_false(worker_mapping_covers(mappings, (void *)(AT + 1), ~0ull, false));
	assert_int_equal(worker_mapping_remove(mappings, AT, 2 * PAGE), 0);
}

static void registered_mappings_stay(void **state)
{
	struct worker_mapping_extent e = extent(0, 2);

	assert_int_equal(worker_mapping_add(mappings, AT, 2 * PAGE, 0, true, true, &e, 1), 0);
	assert_true(vcuda_mapping_hold(mappings, (void *)AT, 2 * PAGE, true, VCUDA_HOLD_REGISTER));
	assert_false(vcuda_mapping_hold(mappings, (void *)AT, 3 * PAGE, true, VCUDA_HOLD_REGISTER));
	assert_int_equal(worker_mapping_remove(mappings, AT, 2 * PAGE), -EBUSY);
	vcuda_mapping_release(mappings, (void *)AT, VCUDA_HOLD_REGISTER);
	assert_int_equal(worker_mapping_remove(mappings, AT, 2 * PAGE), 0);
}

/* A registration ends only by its own kind of call: addresses tell nothing of who made it. */
static void registrations_have_owners(void **state)
{
	static const enum vcuda_hold_owner owners[] = {VCUDA_HOLD_REGISTER, VCUDA_HOLD_ACCESS, VCUDA_HOLD_MANAGED};
	struct worker_mapping_extent e = extent(0, 1);

	assert_int_equal(worker_mapping_add(mappings, AT, PAGE, 0, true, true, &e, 1), 0);
	assert_int_equal(vcuda_mapping_holder(mappings, (void *)AT), VCUDA_HOLD_NONE);
	for (int i = 0; i < 3; i++) {
		assert_true(vcuda_mapping_hold(mappings, (void *)AT, PAGE, true, owners[i]));
		assert_int_equal(vcuda_mapping_holder(mappings, (void *)AT), owners[i]);
		for (int j = 0; j < 3; j++)
			assert_false(vcuda_mapping_hold(mappings, (void *)AT, PAGE, true, owners[j]));
		vcuda_mapping_release(mappings, (void *)AT, owners[(i + 1) % 3]);
		vcuda_mapping_release(mappings, (void *)AT, owners[(i + 2) % 3]);
		assert_int_equal(worker_mapping_remove(mappings, AT, PAGE), -EBUSY);
		vcuda_mapping_release(mappings, (void *)AT, owners[i]);
	}
	assert_int_equal(worker_mapping_remove(mappings, AT, PAGE), 0);
}

static void neighbours_are_used_together(void **state)
{
	struct worker_mapping_extent one = extent(0, 1), two = extent(1, 2);

	assert_int_equal(worker_mapping_add(mappings, AT, PAGE, 0, true, true, &one, 1), 0);
	assert_int_equal(worker_mapping_add(mappings, AT + PAGE, 2 * PAGE, 0, true, true, &two, 1), 0);
	assert_true(worker_mapping_covers(mappings, (void *)(AT + 9), 3 * PAGE - 9, true));
	assert_false(worker_mapping_covers(mappings, (void *)(AT + 9), 3 * PAGE, false));
	/* two registrations with parts of the first page */
	assert_true(vcuda_mapping_hold(mappings, (void *)(AT + 9), 2 * PAGE, true, VCUDA_HOLD_REGISTER));
	assert_true(vcuda_mapping_hold(mappings, (void *)AT, 9, true, VCUDA_HOLD_REGISTER));
	vcuda_mapping_release(mappings, (void *)(AT + 9), VCUDA_HOLD_REGISTER);
	assert_int_equal(worker_mapping_remove(mappings, AT + PAGE, 2 * PAGE), 0);
	assert_int_equal(worker_mapping_remove(mappings, AT, PAGE), -EBUSY);
	vcuda_mapping_release(mappings, (void *)AT, VCUDA_HOLD_REGISTER);
	assert_int_equal(worker_mapping_remove(mappings, AT, PAGE), 0);
	/* a gap, and a neighbour that is only read */
	assert_int_equal(worker_mapping_add(mappings, AT, PAGE, 0, true, true, &one, 1), 0);
	assert_int_equal(worker_mapping_add(mappings, AT + 2 * PAGE, PAGE, 0, true, true, &one, 1), 0);
	assert_false(worker_mapping_covers(mappings, (void *)AT, 3 * PAGE, false));
	assert_int_equal(worker_mapping_add(mappings, AT + PAGE, PAGE, 0, false, true, &one, 1), 0);
	assert_true(worker_mapping_covers(mappings, (void *)AT, 3 * PAGE, false));
	assert_false(worker_mapping_covers(mappings, (void *)AT, 3 * PAGE, true));
	for (int i = 0; i < 3; i++)
		assert_int_equal(worker_mapping_remove(mappings, AT + (uint64_t)i * PAGE, PAGE), 0);
}

/* Where the back end has memory, of four pages. */
static uint64_t lent;

static void make_lent(void)
{
	void *p = mmap(NULL, 4 * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	assert_ptr_not_equal(p, MAP_FAILED);
	lent = (uintptr_t)p;
}

/* A place of the back end's takes exactly one mapping of exactly its size, and has memory again after that. */
static void places_are_lent(void **state)
{
	struct worker_mapping_extent e = extent(1, 2), one = extent(1, 1);
	char prot[5];

	make_lent();
	assert_int_equal(worker_mapping_add(mappings, lent, 2 * PAGE, 0, true, true, &e, 1), -EADDRNOTAVAIL);
	assert_int_equal(worker_mapping_lend(mappings, lent, 2 * PAGE), 0);
	assert_int_equal(worker_mapping_add(mappings, lent, PAGE, 0, true, true, &one, 1), -EADDRNOTAVAIL);
	assert_int_equal(worker_mapping_add(mappings, lent + PAGE, PAGE, 0, true, true, &one, 1), -EADDRNOTAVAIL);
	assert_int_equal(worker_mapping_add(mappings, lent, 2 * PAGE, 0, true, true, &e, 1), 0);
	assert_true(worker_mapping_covers(mappings, (void *)lent, 2 * PAGE, true));
	assert_int_equal(pwrite(memory, "x", 1, PAGE), 1);
	assert_int_equal(*(char *)lent, 'x');
	assert_int_equal(worker_mapping_remove(mappings, lent, 2 * PAGE), 0);
	protection(lent, prot);
	assert_string_equal(prot, "rw-p");
	assert_int_equal(*(char *)lent, 0);
	/* the loan has ended with the mapping */
	assert_int_equal(worker_mapping_add(mappings, lent, 2 * PAGE, 0, true, true, &e, 1), -EADDRNOTAVAIL);
	munmap((void *)lent, 4 * PAGE);
}

/* A loan that is taken back leaves nothing of the guest's there, whatever the guest does with its mapping. */
static void loans_are_taken_back(void **state)
{
	struct worker_mapping_extent e = extent(1, 2), first = extent(1, 1), second = extent(2, 1);

	make_lent();
	assert_int_equal(worker_mapping_lend(mappings, lent, 2 * PAGE), 0);
	assert_int_equal(worker_mapping_lend(mappings, lent + 2 * PAGE, 2 * PAGE), 0);
	assert_int_equal(worker_mapping_add(mappings, lent, 2 * PAGE, 0, true, true, &e, 1), 0);
	/* half of it is there */
	assert_int_equal(worker_mapping_add(mappings, lent + 2 * PAGE, 2 * PAGE, 0, true, false, &first, 1), 0);
	assert_int_equal(pwrite(memory, "y", 1, PAGE), 1);
	assert_int_equal(worker_mapping_take_back(mappings, lent, 4 * PAGE), 0);
	assert_int_equal(*(char *)lent, 0);
	assert_int_equal(*(char *)(lent + 2 * PAGE), 0);
	assert_false(worker_mapping_covers(mappings, (void *)lent, PAGE, false));
	assert_int_equal(worker_mapping_add(mappings, lent + 2 * PAGE, 2 * PAGE, PAGE, true, true, &second, 1),
			 -EINVAL);
	assert_int_equal(worker_mapping_add(mappings, lent, 2 * PAGE, 0, true, true, &e, 1), -EADDRNOTAVAIL);
	*(char *)lent = 5;
	assert_int_equal(worker_mapping_remove(mappings, lent, 2 * PAGE), 0);
	assert_int_equal(worker_mapping_remove(mappings, lent + 2 * PAGE, 2 * PAGE), 0);
	assert_int_equal(*(char *)lent, 5);
	munmap((void *)lent, 4 * PAGE);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(places_are_lent, setup, teardown),
		cmocka_unit_test_setup_teardown(loans_are_taken_back, setup, teardown),
		cmocka_unit_test_setup_teardown(scattered_pages_become_one_mapping, setup, teardown),
		cmocka_unit_test_setup_teardown(own_memory_is_out_of_reach, setup, teardown),
		cmocka_unit_test_setup_teardown(own_place_is_out_of_reach, setup, teardown),
		cmocka_unit_test_setup_teardown(mappings_do_not_overlap, setup, teardown),
		cmocka_unit_test_setup_teardown(nested_back_end_has_room, setup, teardown),
		cmocka_unit_test_setup_teardown(parts_make_a_mapping_only_when_complete, setup, teardown),
		cmocka_unit_test_setup_teardown(ranges_are_checked, setup, teardown),
		cmocka_unit_test_setup_teardown(registered_mappings_stay, setup, teardown),
		cmocka_unit_test_setup_teardown(registrations_have_owners, setup, teardown),
		cmocka_unit_test_setup_teardown(neighbours_are_used_together, setup, teardown),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
