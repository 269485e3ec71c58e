/* SPDX-License-Identifier: Apache-2.0 */
/* The number of units that a thread of the software GPU claims at once, and of threads that claim units. */
#include "softgpu/test/backend-cpu-test.h"

#include <unistd.h>

#include "softgpu/device/device.h"
#include "softgpu/device/schedule.h"

static struct work {
	struct softgpu_op op;
	uint64_t done, largest, others; /* atomic; others: claims of less than a chunk */
	unsigned int inside, most_inside;
	unsigned int pause_us;
} work;
static bool in_rows;

static void enter(void)
{
	unsigned int most = __atomic_load_n(&work.most_inside, __ATOMIC_RELAXED);
	unsigned int now = __atomic_add_fetch(&work.inside, 1, __ATOMIC_RELAXED);

	while (now > most &&
	       !__atomic_compare_exchange_n(&work.most_inside, &most, now, false, __ATOMIC_RELAXED, __ATOMIC_RELAXED))
		;
}

static void run(struct softgpu_op *op, uint64_t unit, uint64_t count)
{
	uint64_t largest = __atomic_load_n(&work.largest, __ATOMIC_RELAXED);

	assert_ptr_equal(op, &work.op);
	assert_true(unit + count <= op->units);
	while (count > largest &&
	       !__atomic_compare_exchange_n(&work.largest, &largest, count, false, __ATOMIC_RELAXED, __ATOMIC_RELAXED))
		;
	if (count < op->chunk)
		__atomic_add_fetch(&work.others, 1, __ATOMIC_RELAXED);
	enter();
	if (work.pause_us)
		usleep(work.pause_us);
	__atomic_sub_fetch(&work.inside, 1, __ATOMIC_RELAXED);
	__atomic_add_fetch(&work.done, count, __ATOMIC_RELAXED);
}

static void finish(struct softgpu_op *op)
{
	assert_int_equal(work.done, op->units);
}

static uint64_t largest_of(uint64_t units, uint64_t chunk, uint64_t most, unsigned int pause_us)
{
	CUstream s = stream(CU_STREAM_NON_BLOCKING);

	work = (struct work){
		.op = {.units = units, .chunk = chunk, .most = most, .in_rows = in_rows, .run = run, .finish = finish},
		.pause_us = pause_us};
	softgpu_lock();
	softgpu_submit(s, &work.op, false);
	softgpu_unlock();
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

/* Towards the end pieces become smaller than the requested size: the operation waits for its last piece. */
static void test_end(void **state)
{
	unsigned int threads = softgpu_device()->threads;

	(void)state;
	largest_of(64ull * threads, 8, 64, 100);
	assert_in_range(work.others, 2, 64ull * threads);
}

/* Unless small pieces take longer: of the same units fewer are claimed so. */
static void test_rows(void **state)
{
	unsigned int threads = softgpu_device()->threads;
	uint64_t others;

	(void)state;
	largest_of(64ull * threads, 8, 64, 100);
	others = work.others;
	in_rows = true;
	largest_of(64ull * threads, 8, 64, 100);
	in_rows = false;
	assert_in_range(work.others, 2, others / 2);
}

/* Not the workers and who waits as well: there are so many processors. */
static void test_threads(void **state)
{
	(void)state;
	largest_of(400, 1, 1, 200);
	assert_in_range(work.most_inside, 1, softgpu_device()->threads);
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
		IN_CONTEXT(test_short), IN_CONTEXT(test_long),    IN_CONTEXT(test_end),
		IN_CONTEXT(test_rows),  IN_CONTEXT(test_threads), IN_CONTEXT(test_fixed),
	};

	init_device();
	return cmocka_run_group_tests(tests, NULL, NULL);
}
