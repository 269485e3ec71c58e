/* SPDX-License-Identifier: Apache-2.0 */
/* Webs of registers whose pairs have 64-bit values. A program of a few accesses is recorded, and then named. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "softgpu/sass/lift/web.h"

static struct webs *w;
static bool writes, reads; /* what the last calls for a pair said */

static void instruction(uint32_t address)
{
	webs_begin(w, 0, address);
}

static void write_pair(void)
{
	uint32_t number;

	webs_write(w, 2, false);
	webs_write(w, 3, false);
	writes = webs_write_pair(w, 2, &number);
}

static void read_pair(void)
{
	uint32_t number;

	webs_read(w, 2);
	webs_read(w, 3);
	reads = webs_read_pair(w, 2, &number);
}

/* The same accesses are recorded and named. */
static void twice(void (*program)(void), bool is_pair)
{
	w = webs_create();
	program();
	assert_false(writes || reads);
	assert_true(webs_make(w));
	program();
	assert_false(webs_differ(w));
	assert_int_equal(reads, is_pair);
	assert_int_equal(writes, is_pair);
	assert_int_equal(webs_has_pairs(w, 2), is_pair);
	webs_free(w);
	writes = reads = false;
}

/* A pointer that a loop counts up. */
static void loop(void)
{
	instruction(0);
	write_pair();
	instruction(16);
	read_pair();
	write_pair();
	instruction(32);
	webs_jump(w, 0, 16);
	webs_end(w);
}

/* One half is written alone, where the read may come from. */
static void half(void)
{
	instruction(0);
	write_pair();
	instruction(16);
	webs_jump(w, 0, 48);
	instruction(32);
	webs_write(w, 3, false);
	instruction(48);
	read_pair();
	webs_end(w);
}

/* A write that leaves other lanes' values. */
static void guarded(void)
{
	instruction(0);
	write_pair();
	instruction(16);
	webs_write(w, 2, true);
	instruction(32);
	read_pair();
	webs_end(w);
}

/* The pair is read where its lower half is new and its upper half is not. */
static void torn(void)
{
	uint32_t number;

	instruction(0);
	write_pair();
	instruction(16);
	webs_read(w, 2);
	webs_write(w, 2, false);
	instruction(32);
	read_pair();
	instruction(48);
	webs_read(w, 3);
	webs_write(w, 3, false);
	writes = webs_write_pair(w, 2, &number);
	instruction(64);
	webs_jump(w, 0, 16);
	webs_end(w);
}

static void pairs(void **state)
{
	(void)state;
	twice(loop, true);
	twice(half, false);
	twice(guarded, false);
	twice(torn, false);
}

int main(void)
{
	const struct CMUnitTest tests[] = {cmocka_unit_test(pairs)};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
