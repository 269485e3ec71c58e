/* SPDX-License-Identifier: Apache-2.0 */
/* The table of a local process's mappings, and threads that change it beside each other. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <pthread.h>
#include <search.h>

#include <cmocka.h>

#include "guest/client/mappings-local.h"
#include "guest/client/transport-local.h"

#define THREADS 8u
#define TIMES 2000u
#define BYTES 4096u

static struct client_local session = {.mappings_lock = PTHREAD_MUTEX_INITIALIZER};
static unsigned int nodes;

static void note(size_t address, enum client_mapping_release pages)
{
	client_local_note_mapping(&session, (void *)address, BYTES, pages, &(struct client_file_id){.inode = 1});
}

static void forget(size_t address)
{
	client_local_forget_mapping(&session, (void *)address);
}

static void count(const void *node, VISIT which, int depth)
{
	(void)node;
	(void)depth;
	nodes += which == leaf || which == postorder;
}

static unsigned int known(void)
{
	nodes = 0;
	twalk(session.mappings, count);
	return nodes;
}

static void test_forget(void **state)
{
	note(BYTES, CLIENT_MAPPING_KEEP_PAGES);
	note(2 * BYTES, CLIENT_MAPPING_RESTORE_PAGES);
	note(3 * BYTES, CLIENT_MAPPING_KEEP_PAGES);
	assert_int_equal(known(), 3);
	assert_int_equal(session.unfit, 2);
	forget(BYTES);
	forget(BYTES);
	forget(2 * BYTES);
	assert_int_equal(session.unfit, 1);
	forget(3 * BYTES);
	assert_null(session.mappings);
	assert_int_equal(session.unfit, 0);
}

/* The program may do so, at its own risk: the last one counts. */
static void test_address_twice(void **state)
{
	note(BYTES, CLIENT_MAPPING_KEEP_PAGES);
	note(BYTES, CLIENT_MAPPING_KEEP_PAGES);
	assert_int_equal(session.unfit, 1);
	assert_int_equal(known(), 1);
	note(BYTES, CLIENT_MAPPING_REMOVE_PAGES);
	assert_int_equal(session.unfit, 0);
	note(BYTES, CLIENT_MAPPING_KEEP_PAGES);
	forget(BYTES);
	assert_null(session.mappings);
	assert_int_equal(session.unfit, 0);
}

static void *change(void *first)
{
	for (size_t i = 0; i < TIMES; i++) {
		note((uintptr_t)first + (i & 15) * BYTES,
		     i & 1 ? CLIENT_MAPPING_KEEP_PAGES : CLIENT_MAPPING_REMOVE_PAGES);
		if (i & 8)
			forget((uintptr_t)first + (i & 7) * BYTES);
	}
	for (size_t i = 0; i < 16; i++)
		forget((uintptr_t)first + i * BYTES);
	return NULL;
}

static void test_threads(void **state)
{
	pthread_t threads[THREADS];

	for (size_t i = 0; i < THREADS; i++)
		assert_int_equal(pthread_create(&threads[i], NULL, change, (void *)((i + 1) << 20)), 0);
	for (size_t i = 0; i < THREADS; i++)
		pthread_join(threads[i], NULL);
	assert_null(session.mappings);
	assert_int_equal(session.unfit, 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_forget),
		cmocka_unit_test(test_address_twice),
		cmocka_unit_test(test_threads),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
