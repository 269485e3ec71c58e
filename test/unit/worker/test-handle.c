/* SPDX-License-Identifier: Apache-2.0 */
/* The worker's handle table: ids resolve only while their object lives, by kind, and die with their parents. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "host/worker/session/handle.h"

#define KIND_A 1
#define KIND_B 2
#define ACCEPT(kind) (1u << (kind))

static int objects[8];

static void ids_resolve_by_kind(void **state)
{
	struct worker_handles *h = worker_handles_create();
	uint64_t id = worker_handle_add(h, KIND_A, false, &objects[0], 0, 0);

	assert_true(id > 2);
	assert_ptr_equal(worker_handle_get(h, id, ACCEPT(KIND_A)), &objects[0]);
	assert_ptr_equal(worker_handle_get(h, id, ACCEPT(KIND_A) | ACCEPT(KIND_B)), &objects[0]);
	assert_null(worker_handle_get(h, id, ACCEPT(KIND_B)));
	assert_null(worker_handle_get(h, id ^ (1ull << 24), ACCEPT(KIND_A) | ACCEPT(KIND_B)));
	assert_null(worker_handle_get(h, 0, ~0u));
	assert_null(worker_handle_get(h, ~0ull, ~0u));
	assert_null(worker_handle_get(h, id + 1, ~0u));
	worker_handles_destroy(h);
}

static void stale_ids_do_not_resolve(void **state)
{
	struct worker_handles *h = worker_handles_create();
	uint64_t first = worker_handle_add(h, KIND_A, false, &objects[0], 0, 0), second;

	worker_handle_remove(h, first);
	assert_null(worker_handle_get(h, first, ACCEPT(KIND_A)));
	second = worker_handle_add(h, KIND_A, false, &objects[1], 0, 0);
	assert_int_not_equal(first, second);
	assert_null(worker_handle_get(h, first, ACCEPT(KIND_A)));
	worker_handle_remove(h, first);
	assert_ptr_equal(worker_handle_get(h, second, ACCEPT(KIND_A)), &objects[1]);
	worker_handles_destroy(h);
}

static void shared_objects_keep_their_id(void **state)
{
	struct worker_handles *h = worker_handles_create();
	uint64_t id = worker_handle_add(h, KIND_A, true, &objects[0], 0, 0);

	assert_int_equal(worker_handle_add(h, KIND_A, true, &objects[0], 0, 0), id);
	assert_int_not_equal(worker_handle_add(h, KIND_B, true, &objects[0], 0, 0), id);
	assert_int_not_equal(worker_handle_add(h, KIND_A, false, &objects[0], 0, 0), id);
	worker_handles_destroy(h);
}

static void children_die_with_parent_and_context(void **state)
{
	struct worker_handles *h = worker_handles_create();
	uint64_t context = worker_handle_add(h, KIND_A, false, &objects[0], 0, 0);
	uint64_t module = worker_handle_add(h, KIND_A, false, &objects[1], 0, context);
	uint64_t function = worker_handle_add(h, KIND_B, false, &objects[2], module, context);
	uint64_t stream = worker_handle_add(h, KIND_B, false, &objects[3], 0, context);
	uint64_t other = worker_handle_add(h, KIND_B, false, &objects[4], 0, 0);

	worker_handle_remove(h, module);
	assert_null(worker_handle_get(h, function, ~0u));
	assert_non_null(worker_handle_get(h, stream, ~0u));
	worker_handle_remove_children(h, context);
	assert_null(worker_handle_get(h, stream, ~0u));
	assert_non_null(worker_handle_get(h, context, ~0u));
	assert_non_null(worker_handle_get(h, other, ~0u));
	worker_handles_destroy(h);
}

/* While one thread destroys an object the back end may hand its address out again, to another. */
static void what_is_being_destroyed_is_named_no_more(void **state)
{
	struct worker_handles *h = worker_handles_create();
	uint64_t module = worker_handle_add(h, KIND_A, true, &objects[0], 0, 0);
	uint64_t function = worker_handle_add(h, KIND_B, true, &objects[1], module, 0);
	uint64_t again, function_again;

	assert_null(worker_handle_claim(h, module, ACCEPT(KIND_B)));
	assert_ptr_equal(worker_handle_claim(h, module, ACCEPT(KIND_A)), &objects[0]);
	assert_null(worker_handle_claim(h, module, ACCEPT(KIND_A)));
	assert_null(worker_handle_get(h, module, ~0u));
	assert_null(worker_handle_get(h, function, ~0u));
	again = worker_handle_add(h, KIND_A, true, &objects[0], 0, 0);
	function_again = worker_handle_add(h, KIND_B, true, &objects[1], again, 0);
	assert_int_not_equal(again, module);
	assert_int_not_equal(function_again, function);
	worker_handle_remove(h, module);
	assert_ptr_equal(worker_handle_get(h, again, ~0u), &objects[0]);
	assert_ptr_equal(worker_handle_get(h, function_again, ~0u), &objects[1]);
	worker_handles_destroy(h);
}

static void what_was_not_destroyed_lives_on(void **state)
{
	struct worker_handles *h = worker_handles_create();
	uint64_t module = worker_handle_add(h, KIND_A, true, &objects[0], 0, 0);
	uint64_t function = worker_handle_add(h, KIND_B, true, &objects[1], module, 0);

	assert_non_null(worker_handle_claim(h, module, ~0u));
	worker_handle_unclaim(h, module);
	assert_ptr_equal(worker_handle_get(h, module, ~0u), &objects[0]);
	assert_ptr_equal(worker_handle_get(h, function, ~0u), &objects[1]);
	assert_int_equal(worker_handle_add(h, KIND_A, true, &objects[0], 0, 0), module);
	worker_handles_destroy(h);
}

static void many_ids_stay_distinct(void **state)
{
	struct worker_handles *h = worker_handles_create();
	static uint64_t ids[5000];

	for (int round = 0; round < 3; round++) {
		for (int i = 0; i < 5000; i++)
			ids[i] = worker_handle_add(h, KIND_A, false, (char *)objects + i, 0, 0);
		for (int i = 0; i < 5000; i++)
			assert_ptr_equal(worker_handle_get(h, ids[i], ACCEPT(KIND_A)), (char *)objects + i);
		for (int i = 0; i < 5000; i++)
			worker_handle_remove(h, ids[i]);
	}
	worker_handles_destroy(h);
}

/* By which the worker sees that somebody has enough: whatever way they went, those that are gone do not count. */
static void live_ids_are_counted_by_kind(void **state)
{
	struct worker_handles *h = worker_handles_create();
	uint64_t context = worker_handle_add(h, KIND_A, false, &objects[0], 0, 0), event;

	for (int i = 0; i < 5; i++)
		worker_handle_add(h, KIND_B, true, &objects[i % 3], 0, context);
	event = worker_handle_add(h, KIND_B, false, &objects[0], 0, 0);
	assert_int_equal(worker_handle_live(h, KIND_A), 1);
	assert_int_equal(worker_handle_live(h, KIND_B), 4);
	worker_handle_remove(h, event);
	worker_handle_remove(h, event);
	assert_int_equal(worker_handle_live(h, KIND_B), 3);
	worker_handle_remove(h, context);
	assert_int_equal(worker_handle_live(h, KIND_A), 0);
	assert_int_equal(worker_handle_live(h, KIND_B), 0);
	worker_handles_destroy(h);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(ids_resolve_by_kind),
		cmocka_unit_test(stale_ids_do_not_resolve),
		cmocka_unit_test(shared_objects_keep_their_id),
		cmocka_unit_test(children_die_with_parent_and_context),
		cmocka_unit_test(what_is_being_destroyed_is_named_no_more),
		cmocka_unit_test(what_was_not_destroyed_lives_on),
		cmocka_unit_test(many_ids_stay_distinct),
		cmocka_unit_test(live_ids_are_counted_by_kind),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
