/* SPDX-License-Identifier: Apache-2.0 */
/* The worker's handle table: ids resolve only while their object lives, by kind, and die with their parents; uses
 * count. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <pthread.h>
#include <unistd.h>

#include "host/worker/session/handle.h"

#define KIND_A 1
#define KIND_B 2
#define ACCEPT(kind) (1u << (kind))

static int objects[8];

/* The object of an id. Keeps no reference. */
static void *look(struct worker_handles *h, uint64_t id, uint32_t kinds)
{
	void *object = worker_handle_get(h, id, kinds);

	if (object)
		assert_false(worker_handle_put(h, id));
	return object;
}

static void destroy(struct worker_handles *h, uint64_t id)
{
	if (worker_handle_claim(h, id, ~0u))
		worker_handle_remove(h, id);
}

static void ids_resolve_by_kind(void **state)
{
	struct worker_handles *h = worker_handles_create();
	uint64_t id = worker_handle_add(h, KIND_A, false, &objects[0], 0, 0);

	assert_true(id > 2 && id % 4 == 0);
	assert_ptr_equal(look(h, id, ACCEPT(KIND_A)), &objects[0]);
	assert_ptr_equal(look(h, id, ACCEPT(KIND_A) | ACCEPT(KIND_B)), &objects[0]);
	assert_null(look(h, id, ACCEPT(KIND_B)));
	assert_null(look(h, id ^ (1ull << 24), ACCEPT(KIND_A) | ACCEPT(KIND_B)));
	assert_null(look(h, 0, ~0u));
	assert_null(look(h, ~0ull, ~0u));
	for (unsigned int n = 1; n < 8; n++)
		assert_null(look(h, id + n, ~0u));
	worker_handles_destroy(h);
}

static void stale_ids_do_not_resolve(void **state)
{
	struct worker_handles *h = worker_handles_create();
	uint64_t first = worker_handle_add(h, KIND_A, false, &objects[0], 0, 0), second;

	destroy(h, first);
	assert_null(look(h, first, ACCEPT(KIND_A)));
	second = worker_handle_add(h, KIND_A, false, &objects[1], 0, 0);
	assert_int_not_equal(first, second);
	assert_null(look(h, first, ACCEPT(KIND_A)));
	destroy(h, first);
	assert_ptr_equal(look(h, second, ACCEPT(KIND_A)), &objects[1]);
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

	destroy(h, module);
	assert_null(look(h, function, ~0u));
	assert_non_null(look(h, stream, ~0u));
	worker_handle_remove_children(h, context);
	assert_null(look(h, stream, ~0u));
	assert_non_null(look(h, context, ~0u));
	assert_non_null(look(h, other, ~0u));
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
	assert_null(look(h, module, ~0u));
	assert_null(look(h, function, ~0u));
	again = worker_handle_add(h, KIND_A, true, &objects[0], 0, 0);
	function_again = worker_handle_add(h, KIND_B, true, &objects[1], again, 0);
	assert_int_not_equal(again, module);
	assert_int_not_equal(function_again, function);
	worker_handle_remove(h, module);
	assert_ptr_equal(look(h, again, ~0u), &objects[0]);
	assert_ptr_equal(look(h, function_again, ~0u), &objects[1]);
	worker_handles_destroy(h);
}

static void what_was_not_destroyed_lives_on(void **state)
{
	struct worker_handles *h = worker_handles_create();
	uint64_t module = worker_handle_add(h, KIND_A, true, &objects[0], 0, 0);
	uint64_t function = worker_handle_add(h, KIND_B, true, &objects[1], module, 0);

	assert_non_null(worker_handle_claim(h, module, ~0u));
	worker_handle_unclaim(h, module);
	assert_ptr_equal(look(h, module, ~0u), &objects[0]);
	assert_ptr_equal(look(h, function, ~0u), &objects[1]);
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
			assert_ptr_equal(look(h, ids[i], ACCEPT(KIND_A)), (char *)objects + i);
		for (int i = 0; i < 5000; i++)
			destroy(h, ids[i]);
	}
	worker_handles_destroy(h);
}

/* The counts by kind limit a guest's objects: removed ids do not count, in whichever way they were removed. */
static void live_ids_are_counted_by_kind(void **state)
{
	struct worker_handles *h = worker_handles_create();
	uint64_t context = worker_handle_add(h, KIND_A, false, &objects[0], 0, 0), event;

	for (int i = 0; i < 5; i++)
		worker_handle_add(h, KIND_B, true, &objects[i % 3], 0, context);
	event = worker_handle_add(h, KIND_B, false, &objects[0], 0, 0);
	assert_int_equal(worker_handle_live(h, KIND_A), 1);
	assert_int_equal(worker_handle_live(h, KIND_B), 4);
	destroy(h, event);
	destroy(h, event);
	assert_int_equal(worker_handle_live(h, KIND_B), 3);
	destroy(h, context);
	assert_int_equal(worker_handle_live(h, KIND_A), 0);
	assert_int_equal(worker_handle_live(h, KIND_B), 0);
	worker_handles_destroy(h);
}

/* ---- uses ---- */

static void an_object_is_used_until_all_uses_end(void **state)
{
	struct worker_handles *h = worker_handles_create();
	uint64_t id = worker_handle_add(h, KIND_A, false, &objects[0], 0, 0);
	struct worker_deferred d = {.id = id};

	assert_non_null(worker_handle_get(h, id, ~0u));
	assert_non_null(worker_handle_get(h, id, ~0u));
	assert_non_null(worker_handle_claim(h, id, ~0u));
	assert_true(worker_handle_is_used(h, id));
	assert_true(worker_handle_defer(h, &d));
	assert_null(worker_handles_ready(h));
	assert_false(worker_handle_put(h, id));
	assert_true(worker_handle_put(h, id));
	assert_ptr_equal(worker_handles_ready(h), &d);
	assert_null(worker_handles_ready(h));
	assert_int_equal(worker_handle_live(h, KIND_A), 1);
	worker_handle_remove(h, id);
	assert_int_equal(worker_handle_live(h, KIND_A), 0);
	worker_handles_destroy(h);
}

static void an_unused_object_is_not_deferred(void **state)
{
	struct worker_handles *h = worker_handles_create();
	uint64_t id = worker_handle_add(h, KIND_A, false, &objects[0], 0, 0);
	struct worker_deferred d = {.id = id};

	assert_non_null(look(h, id, ~0u));
	assert_non_null(worker_handle_claim(h, id, ~0u));
	assert_false(worker_handle_defer(h, &d));
	assert_null(worker_handles_ready(h));
	worker_handle_remove(h, id);
	worker_handles_destroy(h);
}

/* A child that is used, and one that is being destroyed, keep their context. */
static void a_parent_is_used_with_its_children(void **state)
{
	struct worker_handles *h = worker_handles_create();
	uint64_t context = worker_handle_add(h, KIND_A, false, &objects[0], 0, 0);
	uint64_t module = worker_handle_add(h, KIND_A, false, &objects[1], 0, context);
	uint64_t function = worker_handle_add(h, KIND_B, false, &objects[2], module, 0);
	struct worker_deferred first = {.id = module}, second = {.id = context};

	assert_non_null(worker_handle_get(h, function, ~0u));
	assert_non_null(worker_handle_claim(h, module, ~0u));
	assert_true(worker_handle_defer(h, &first));
	assert_non_null(worker_handle_claim(h, context, ~0u));
	assert_true(worker_handle_defer(h, &second));
	assert_true(worker_handle_put(h, function));
	assert_ptr_equal(worker_handles_ready(h), &first);
	assert_null(worker_handles_ready(h));
	assert_true(worker_handle_remove(h, module));
	assert_ptr_equal(worker_handles_ready(h), &second);
	worker_handle_remove(h, context);
	assert_int_equal(worker_handle_live(h, KIND_A), 0);
	assert_int_equal(worker_handle_live(h, KIND_B), 0);
	worker_handles_destroy(h);
}

/* A place in the table is not used again before the last use of what was there has ended. */
static void a_use_outlives_the_object(void **state)
{
	struct worker_handles *h = worker_handles_create();
	uint64_t context = worker_handle_add(h, KIND_A, false, &objects[0], 0, 0);
	uint64_t stream = worker_handle_add(h, KIND_B, false, &objects[1], 0, context), other;
	struct worker_deferred d = {.id = stream};

	assert_non_null(worker_handle_get(h, stream, ~0u));
	assert_non_null(worker_handle_claim(h, stream, ~0u));
	assert_true(worker_handle_defer(h, &d));
	destroy(h, context);
	assert_true(worker_handle_is_gone(h, stream));
	other = worker_handle_add(h, KIND_B, false, &objects[2], 0, 0);
	assert_int_not_equal(other & 0xffffff, stream & 0xffffff);
	assert_true(worker_handle_put(h, stream));
	assert_ptr_equal(worker_handles_ready(h), &d);
	worker_handle_remove(h, stream);
	other = worker_handle_add(h, KIND_B, false, &objects[2], 0, 0);
	assert_int_equal(other & 0xffffff, stream & 0xffffff);
	assert_int_not_equal(other, stream);
	worker_handles_destroy(h);
}

/* Until its parent lives on. */
static void a_child_of_a_dying_parent_does_not_resolve(void **state)
{
	struct worker_handles *h = worker_handles_create();
	uint64_t context = worker_handle_add(h, KIND_A, false, &objects[0], 0, 0), stream;

	assert_non_null(worker_handle_claim(h, context, ~0u));
	stream = worker_handle_add(h, KIND_B, false, &objects[1], 0, context);
	assert_null(look(h, stream, ~0u));
	worker_handle_unclaim(h, context);
	assert_non_null(look(h, stream, ~0u));
	worker_handles_destroy(h);
}

static void many_are_used_or_none(void **state)
{
	struct worker_handles *h = worker_handles_create();
	uint64_t ids[3];

	for (int i = 0; i < 3; i++)
		ids[i] = worker_handle_add(h, KIND_A, false, &objects[i], 0, 0);
	assert_true(worker_handles_get(h, ids, 3));
	assert_non_null(worker_handle_claim(h, ids[2], ~0u));
	assert_false(worker_handles_get(h, ids, 3));
	worker_handles_put(h, ids, 3);
	assert_non_null(worker_handle_claim(h, ids[0], ~0u));
	assert_false(worker_handle_is_used(h, ids[0]));
	assert_false(worker_handle_is_used(h, ids[2]));
	worker_handles_destroy(h);
}

struct user {
	struct worker_handles *h;
	uint64_t id;
};

static void *end_use(void *argument)
{
	struct user *u = argument;

	usleep(20000);
	worker_handle_put(u->h, u->id);
	return NULL;
}

static void a_wait_ends_with_the_last_use(void **state)
{
	struct user u = {.h = worker_handles_create()};
	uint64_t context = worker_handle_add(u.h, KIND_A, false, &objects[0], 0, 0);
	pthread_t thread;

	u.id = worker_handle_add(u.h, KIND_B, false, &objects[1], 0, context);
	assert_non_null(worker_handle_get(u.h, u.id, ~0u));
	assert_non_null(worker_handle_claim(u.h, context, ~0u));
	assert_false(worker_handle_wait(u.h, context, 0));
	assert_int_equal(pthread_create(&thread, NULL, end_use, &u), 0);
	assert_true(worker_handle_wait(u.h, context, 600));
	pthread_join(thread, NULL);
	worker_handles_destroy(u.h);
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
		cmocka_unit_test(an_object_is_used_until_all_uses_end),
		cmocka_unit_test(an_unused_object_is_not_deferred),
		cmocka_unit_test(a_parent_is_used_with_its_children),
		cmocka_unit_test(a_use_outlives_the_object),
		cmocka_unit_test(a_child_of_a_dying_parent_does_not_resolve),
		cmocka_unit_test(many_are_used_or_none),
		cmocka_unit_test(a_wait_ends_with_the_last_use),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
