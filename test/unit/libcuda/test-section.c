/* SPDX-License-Identifier: Apache-2.0 */
/* Sections that are closed, and staging blocks, whose holders are in one. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <pthread.h>
#include <stdlib.h>
#include <unistd.h>

#include <cmocka.h>

#include "guest/client/section.h"
#include "guest/client/stage.h"
#include "ring/ring.h"

static bool is_empty(void)
{
	bool empty;

	client_section_close();
	empty = client_section_is_empty();
	client_section_open();
	return empty;
}

static void test_depth(void **state)
{
	unsigned int depth;

	assert_true(is_empty());
	client_section_enter();
	client_section_enter();
	assert_false(is_empty());
	depth = client_section_suspend();
	assert_int_equal(depth, 2);
	assert_true(is_empty());
	assert_int_equal(client_section_suspend(), 0);
	client_section_resume(0);
	client_section_resume(depth);
	assert_false(is_empty());
	client_section_leave();
	assert_false(is_empty());
	client_section_leave();
	assert_true(is_empty());
}

static _Atomic int begun, entered;

static void *enter(void *unused)
{
	atomic_store(&begun, 1);
	client_section_enter();
	atomic_store(&entered, 1);
	client_section_leave();
	return unused;
}

static void test_closed(void **state)
{
	pthread_t thread;

	client_section_close();
	assert_int_equal(pthread_create(&thread, NULL, enter, NULL), 0);
	while (!atomic_load(&begun))
		usleep(100);
	usleep(50000);
	assert_false(atomic_load(&entered));
	assert_true(client_section_is_empty());
	client_section_open();
	pthread_join(thread, NULL);
	assert_true(atomic_load(&entered));
	assert_true(is_empty());
}

/* A thread that keeps a block for long is in no section. */
static void test_blocks(void **state)
{
	void *shm = calloc(1, VCUDA_SHM_BYTES), *memory;
	uint32_t block;

	assert_non_null(shm);
	client_stage_attach(shm, VCUDA_STAGE_BLOCKS);
	block = client_stage_take(&memory);
	assert_false(is_empty());
	client_stage_give(block);
	assert_true(is_empty());
	block = client_stage_take_kept(&memory);
	assert_ptr_equal(memory, vcuda_shm_stage(shm, block));
	assert_true(is_empty());
	assert_true(client_stage_try() != 0);
	assert_true(is_empty());
	free(shm);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_depth),
		cmocka_unit_test(test_closed),
		cmocka_unit_test(test_blocks),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
