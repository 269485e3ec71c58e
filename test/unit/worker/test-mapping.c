/* SPDX-License-Identifier: Apache-2.0 */
/* The worker's windows: only in reserved ranges, never over something else, complete before use, gone without a trace.
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
#define AT VCUDA_ARENA_START

static struct vcuda_windows *windows;
static int memory;

static int setup(void **state)
{
	windows = vcuda_windows_create();
	memory = memfd_create("test", 0);
	return !windows || memory < 0 || ftruncate(memory, 16 * PAGE);
}

static int teardown(void **state)
{
	vcuda_windows_destroy(windows);
	close(memory);
	return 0;
}

static struct vcuda_window_extent extent(uint64_t page, uint64_t pages)
{
	return (struct vcuda_window_extent){memory, page * PAGE, pages * PAGE};
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

static void scattered_pages_become_one_window(void **state)
{
	struct vcuda_window_extent e[] = {extent(3, 1), extent(0, 2), extent(9, 1)};
	char *backing = mmap(NULL, 16 * PAGE, PROT_READ | PROT_WRITE, MAP_SHARED, memory, 0);
	char prot[5];

	for (int i = 0; i < 16; i++)
		backing[i * PAGE] = (char)i;
	assert_int_equal(vcuda_window_map(windows, AT, 4 * PAGE, 0, true, true, e, 3), 0);
	assert_int_equal(*(char *)AT, 3);
	assert_int_equal(*(char *)(AT + PAGE), 0);
	assert_int_equal(*(char *)(AT + 2 * PAGE), 1);
	assert_int_equal(*(char *)(AT + 3 * PAGE), 9);
	*(char *)(AT + 3 * PAGE) = 77;
	assert_int_equal(backing[9 * PAGE], 77);
	assert_int_equal(vcuda_window_unmap(windows, AT, 4 * PAGE), 0);
	protection(AT, prot);
	assert_string_equal(prot, "---p");
	munmap(backing, 16 * PAGE);
}

static void own_memory_is_out_of_reach(void **state)
{
	struct vcuda_window_extent e = extent(0, 1);
	uint64_t text = (uint64_t)(uintptr_t)vcuda_window_map & ~(PAGE - 1),
		 stack = (uint64_t)(uintptr_t)&e & ~(PAGE - 1);

	assert_int_equal(vcuda_window_map(windows, text, PAGE, 0, true, true, &e, 1), -EADDRNOTAVAIL);
	assert_int_equal(vcuda_window_map(windows, stack, PAGE, 0, true, true, &e, 1), -EADDRNOTAVAIL);
	assert_int_equal(vcuda_window_map(windows, 0, PAGE, 0, true, true, &e, 1), -EADDRNOTAVAIL);
	assert_int_equal(vcuda_window_map(windows, VCUDA_ARENA_END + VCUDA_OWN_PLACES * VCUDA_OWN_BYTES, PAGE, 0, true,
					  true, &e, 1),
			 -EADDRNOTAVAIL);
	assert_int_equal(vcuda_window_map(windows, AT, 0 - AT, 0, true, true, &e, 1), -EADDRNOTAVAIL);
	assert_int_equal(vcuda_window_map(windows, AT + 1, PAGE, 0, true, true, &e, 1), -EINVAL);
	assert_int_equal(vcuda_window_map(windows, AT, PAGE - 1, 0, true, true, &e, 1), -EINVAL);
	assert_int_equal(vcuda_window_map(windows, AT, 0, 0, true, true, &e, 1), -EINVAL);
}

/* What is left to a back end that is a guest itself is out of reach as well, and free for it. */
static void nested_back_end_has_room(void **state)
{
	struct vcuda_windows *nested;
	struct vcuda_window_extent e = extent(0, 1);
	uint64_t second = AT + VCUDA_ARENA_LENGTH;
	void *p;

	vcuda_windows_destroy(windows);
	nested = vcuda_windows_create();
	assert_int_equal(vcuda_window_map(nested, second, PAGE, 0, true, true, &e, 1), 0);
	assert_int_equal(vcuda_window_unmap(nested, second, PAGE), 0);
	vcuda_windows_nest(nested);
	vcuda_windows_nest(nested);
	assert_int_equal(vcuda_window_map(nested, second, PAGE, 0, true, true, &e, 1), -EADDRNOTAVAIL);
	assert_int_equal(vcuda_window_map(nested, second - PAGE, 2 * PAGE, 0, true, true, &e, 1), -EADDRNOTAVAIL);
	p = mmap((void *)second, VCUDA_ARENA_LENGTH, PROT_NONE,
		 MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED_NOREPLACE, -1, 0);
	assert_ptr_equal(p, (void *)second);
	munmap(p, VCUDA_ARENA_LENGTH);
	assert_int_equal(vcuda_window_map(nested, second - PAGE, PAGE, 0, true, true, &e, 1), 0);
	assert_int_equal(vcuda_window_unmap(nested, second - PAGE, PAGE), 0);
	vcuda_windows_destroy(nested);
	windows = vcuda_windows_create();
}

/* Its own memory is nowhere that a guest can have a window, and beside it there are places for others'. */
static void own_place_is_out_of_reach(void **state)
{
	struct vcuda_window_extent e = extent(0, 1);
	char *own = vcuda_windows_own_place(windows), *next = own + VCUDA_OWN_BYTES;

	assert_non_null(own);
	assert_null(vcuda_windows_own_place(windows));
	for (uint64_t at = 0; at < VCUDA_OWN_BYTES; at += VCUDA_OWN_BYTES / 4)
		assert_int_equal(vcuda_window_map(windows, (uintptr_t)own + at, PAGE, 0, true, true, &e, 1),
				 -EADDRNOTAVAIL);
	assert_int_equal(vcuda_window_map(windows, (uintptr_t)own - PAGE, 2 * PAGE, 0, true, true, &e, 1),
			 -EADDRNOTAVAIL);
	if ((uintptr_t)next == VCUDA_ARENA_END + VCUDA_OWN_PLACES * VCUDA_OWN_BYTES)
		next = own - VCUDA_OWN_BYTES;
	assert_int_equal(vcuda_window_map(windows, (uintptr_t)next, PAGE, 0, true, true, &e, 1), 0);
	assert_int_equal(vcuda_window_unmap(windows, (uintptr_t)next, PAGE), 0);
}

static void windows_do_not_overlap(void **state)
{
	struct vcuda_window_extent e = extent(0, 2);

	assert_int_equal(vcuda_window_map(windows, AT, 2 * PAGE, 0, true, true, &e, 1), 0);
	assert_int_equal(vcuda_window_map(windows, AT + PAGE, 2 * PAGE, 0, true, true, &e, 1), -EEXIST);
	assert_int_equal(vcuda_window_map(windows, AT, 2 * PAGE, 0, true, true, &e, 1), -EEXIST);
	assert_int_equal(vcuda_window_unmap(windows, AT, PAGE), -ENOENT);
	assert_int_equal(vcuda_window_unmap(windows, AT, 2 * PAGE), 0);
	assert_int_equal(vcuda_window_unmap(windows, AT, 2 * PAGE), -ENOENT);
}

static void parts_make_a_window_only_when_complete(void **state)
{
	struct vcuda_window_extent e = extent(0, 2), more = extent(2, 3);

	assert_int_equal(vcuda_window_map(windows, AT, 4 * PAGE, 0, true, false, &e, 1), 0);
	assert_false(vcuda_window_covers(windows, (void *)AT, PAGE, false));
	assert_int_equal(vcuda_window_map(windows, AT, 4 * PAGE, 2 * PAGE, true, true, &e, 1), 0);
	assert_true(vcuda_window_covers(windows, (void *)AT, 4 * PAGE, true));
	assert_int_equal(vcuda_window_unmap(windows, AT, 4 * PAGE), 0);

	/* too many pages, too few, a part out of place: the window is gone each time */
	assert_int_equal(vcuda_window_map(windows, AT, 4 * PAGE, 0, true, false, &e, 1), 0);
	assert_int_equal(vcuda_window_map(windows, AT, 4 * PAGE, 2 * PAGE, true, true, &more, 1), -EINVAL);
	assert_int_equal(vcuda_window_unmap(windows, AT, 4 * PAGE), -ENOENT);
	assert_int_equal(vcuda_window_map(windows, AT, 4 * PAGE, 0, true, true, &e, 1), -EINVAL);
	assert_int_equal(vcuda_window_unmap(windows, AT, 4 * PAGE), -ENOENT);
	assert_int_equal(vcuda_window_map(windows, AT, 4 * PAGE, 2 * PAGE, true, true, &e, 1), -EINVAL);
}

static void ranges_are_checked(void **state)
{
	struct vcuda_window_extent e = extent(0, 2);
	char prot[5];

	assert_int_equal(vcuda_window_map(windows, AT, 2 * PAGE, 0, false, true, &e, 1), 0);
	protection(AT, prot);
	assert_string_equal(prot, "r--s");
	assert_true(vcuda_window_covers(windows, (void *)(AT + 5), 2 * PAGE - 5, false));
	assert_false(vcuda_window_covers(windows, (void *)AT, 2 * PAGE, true));
	assert_false(vcuda_window_covers(windows, (void *)AT, 2 * PAGE + 1, false));
	assert_false(vcuda_window_covers(windows, (void *)(AT + 2 * PAGE), 1, false));
	assert_false(vcuda_window_covers(windows, (void *)(AT + 1), ~0ull, false));
	assert_int_equal(vcuda_window_unmap(windows, AT, 2 * PAGE), 0);
}

static void registered_windows_stay(void **state)
{
	struct vcuda_window_extent e = extent(0, 2);

	assert_int_equal(vcuda_window_map(windows, AT, 2 * PAGE, 0, true, true, &e, 1), 0);
	assert_true(vcuda_window_hold(windows, (void *)AT, 2 * PAGE, true));
	assert_false(vcuda_window_hold(windows, (void *)AT, 3 * PAGE, true));
	assert_int_equal(vcuda_window_unmap(windows, AT, 2 * PAGE), -EBUSY);
	vcuda_window_release(windows, (void *)AT);
	assert_int_equal(vcuda_window_unmap(windows, AT, 2 * PAGE), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(scattered_pages_become_one_window, setup, teardown),
		cmocka_unit_test_setup_teardown(own_memory_is_out_of_reach, setup, teardown),
		cmocka_unit_test_setup_teardown(own_place_is_out_of_reach, setup, teardown),
		cmocka_unit_test_setup_teardown(windows_do_not_overlap, setup, teardown),
		cmocka_unit_test_setup_teardown(nested_back_end_has_room, setup, teardown),
		cmocka_unit_test_setup_teardown(parts_make_a_window_only_when_complete, setup, teardown),
		cmocka_unit_test_setup_teardown(ranges_are_checked, setup, teardown),
		cmocka_unit_test_setup_teardown(registered_windows_stay, setup, teardown),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
