/* SPDX-License-Identifier: Apache-2.0 */
/* How many units of an operation a thread of the software GPU claims at once. */
#include "backend-cpu-test.h"

#include <unistd.h>

#include "schedule.h"

static struct work {
	struct cpu_op op;
	uint64_t done, largest; /* atomic */
	unsigned int pause_us;
} work;

static void run(struct cpu_op *op, uint64_t unit, uint64_t count)
{
	uint64_t largest = __atomic_load_n(&work.largest, __ATOMIC_RELAXED);

	assert_ptr_equal(op, &work.op);
	assert_true(unit + count <= op->units);
	while (count > largest &&
	       !__atomic_compare_exchange_n(&work.largest, &largest, count, false, __ATOMIC_RELAXED, __ATOMIC_RELAXED))
		;
	if (work.pause_us)
		usleep(work.pause_us);
	__atomic_add_fetch(&work.done, count, __ATOMIC_RELAXED);
}

static void finish(struct cpu_op *op)
{
	assert_int_equal(work.done, op->units);
}

static uint64_t largest_of(uint64_t units, uint64_t chunk, uint64_t most, unsigned int pause_us)
{
	CUstream s = stream(CU_STREAM_NON_BLOCKING);

	work = (struct work){.op = {.units = units, .chunk = chunk, .most = most, .run = run, .finish = finish},
			     .pause_us = pause_us};
	cpu_lock();
	cpu_submit(s, &work.op, false);
	cpu_unlock();
	assert_int_equal(cuda->cuStreamSynchronize(s), CUDA_SUCCESS);
	assert_int_equal(work.done, units);
	assert_int_equal(cuda->cuStreamDestroy_v2(s), CUDA_SUCCESS);
	return work.largest;
}

static void test_short(void **state)
{
	(void)state;
	assert_in_range(largest_of(1000000, 2, 64, 0), 3, 64);
}

/* Others are to have their turn, and all threads something to do in the end. */
static void test_long(void **state)
{
	(void)state;
	assert_int_equal(largest_of(200, 2, 64, 100), 2);
}

/* Units that may wait for one another are claimed as it is said. */
static void test_fixed(void **state)
{
	(void)state;
	assert_int_equal(largest_of(1000000, 1, 1, 0), 1);
	assert_int_equal(largest_of(1000000, 3, 0, 0), 3);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		IN_CONTEXT(test_short),
		IN_CONTEXT(test_long),
		IN_CONTEXT(test_fixed),
	};

	init_device();
	return cmocka_run_group_tests(tests, NULL, NULL);
}
