/* SPDX-License-Identifier: Apache-2.0 */
/* Rows of commands and of their work, with a device whose clock the test moves. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "common/deadline.h"
#include "protocol/activity-rows.h"
#include "protocol/handlers.h"
#include "session/activity.h"
#include "session/command.h"
#include "session/session.h"

#define EVENTS 70000
#define ROWS 100

/* ---- the device ---- */

static struct {
	bool exists, is_recorded;
	uint64_t ns, context;
} events[EVENTS];

static unsigned int event_count;
static uint64_t device_ns; /* added to the clock */
static bool is_busy;       /* what is recorded has not happened */
static bool has_ended;     /* events mean nothing any more */
static uint64_t first_ns;  /* of the first event since it was 0 */
static CUcontext current;
static CUevent endless, last_recorded; /* endless: does not happen */
static bool refuses_records;           /* the context has failed */

static CUresult create(CUevent *event, unsigned int flags)
{
	assert_int_equal(flags, CU_EVENT_DEFAULT);
	static unsigned int next;

	for (unsigned int n = 1; n < EVENTS; n++) {
		unsigned int i = 1 + next++ % (EVENTS - 1);

		if (!events[i].exists) {
			events[i].exists = true;
			events[i].is_recorded = false;
			events[i].context = (uintptr_t)current;
			event_count++;
			*event = (CUevent)(uintptr_t)i;
			return CUDA_SUCCESS;
		}
	}
	return CUDA_ERROR_OUT_OF_MEMORY;
}

static CUresult destroy(CUevent event)
{
	assert_true(events[(uintptr_t)event].exists);
	events[(uintptr_t)event].exists = false;
	event_count--;
	return CUDA_SUCCESS;
}

static CUresult record(CUevent event, CUstream stream, unsigned int flags)
{
	(void)stream;
	(void)flags;
	assert_true(events[(uintptr_t)event].exists && !has_ended);
	if (refuses_records)
		return CUDA_ERROR_ILLEGAL_ADDRESS;
	events[(uintptr_t)event].is_recorded = true;
	last_recorded = event;
	events[(uintptr_t)event].ns = vcuda_now_ns() + device_ns;
	if (!first_ns)
		first_ns = events[(uintptr_t)event].ns;
	return CUDA_SUCCESS;
}

static CUresult query(CUevent event)
{
	assert_true(events[(uintptr_t)event].is_recorded && !has_ended);
	assert_ptr_equal(current, (CUcontext)(uintptr_t)events[(uintptr_t)event].context);
	return is_busy || event == endless ? CUDA_ERROR_NOT_READY : CUDA_SUCCESS;
}

static CUresult synchronize(CUevent event)
{
	assert_true(events[(uintptr_t)event].is_recorded);
	return CUDA_SUCCESS;
}

static CUresult elapsed(float *ms, CUevent first, CUevent second)
{
	assert_true(events[(uintptr_t)first].is_recorded && events[(uintptr_t)second].is_recorded && !has_ended);
	*ms = (float)(((double)events[(uintptr_t)second].ns - (double)events[(uintptr_t)first].ns) / 1e6);
	return CUDA_SUCCESS;
}

static CUresult create_stream(CUstream *stream, unsigned int flags, int priority)
{
	(void)priority;
	assert_int_equal(flags, CU_STREAM_NON_BLOCKING);
	*stream = (CUstream)8;
	return CUDA_SUCCESS;
}

static CUresult destroy_stream(CUstream stream)
{
	assert_ptr_equal(stream, (CUstream)8);
	return CUDA_SUCCESS;
}

static CUresult get_current(CUcontext *context)
{
	*context = current;
	return CUDA_SUCCESS;
}

static CUresult set_current(CUcontext context)
{
	current = context;
	return CUDA_SUCCESS;
}

/* ---- the session ---- */

static const struct vcuda_backend_ops ops = {
	.cuCtxGetCurrent = get_current,
	.cuCtxSetCurrent = set_current,
	.cuEventCreate = create,
	.cuEventDestroy_v2 = destroy,
	.cuEventRecordWithFlags = record,
	.cuEventQuery = query,
	.cuEventSynchronize = synchronize,
	.cuEventElapsedTime_v2 = elapsed,
	.cuStreamCreateWithPriority = create_stream,
	.cuStreamDestroy_v2 = destroy_stream,
};

static struct vcuda_shm shm;
static struct worker_session session = {.ops = &ops, .shm = &shm};
static struct vcuda_command command;

const struct vcuda_command *worker_command(void)
{
	return &command;
}

uint64_t worker_command_context(void)
{
	return command.context;
}

static void begin(unsigned int op, uint64_t context)
{
	command.op = (uint16_t)op;
	command.thread = 7;
	command.context = context;
	command.seq++;
	current = (CUcontext)(uintptr_t)context;
	worker_activity_begin(&session, NULL);
}

static uint64_t rows[ROWS][VCUDA_ACTIVITY_WORDS];
static uint64_t lost_before, pending;

/* Returns how many rows there are; `lost`: since the last time. */
static unsigned int read_rows(uint64_t *lost)
{
	struct vcuda_args_vcudaActivities a = {.words = ROWS * VCUDA_ACTIVITY_WORDS, .rows = &rows[0][0]};

	/* The thread may have another context, or none. */
	current = NULL;
	assert_int_equal(vcuda_handle_vcudaActivities(&session, &a), CUDA_SUCCESS);
	assert_null(current);
	if (lost)
		*lost = a.lost - lost_before;
	lost_before = a.lost;
	pending = a.pending;
	return a.used / VCUDA_ACTIVITY_WORDS;
}

static int set_up(void **state)
{
	is_busy = has_ended = refuses_records = false;
	atomic_store(&shm.profile, VCUDA_PROFILE_ACTIVITIES);
	while (read_rows(NULL))
		continue;
	return 0;
}

/* ---- tests ---- */

static void test_times(void **state)
{
	uint64_t start = vcuda_now_ns(), lost;

	begin(VCUDA_OP_cuMemsetD8Async, 1);
	device_ns += 3000000;
	worker_activity_end(&session, NULL);
	worker_activity_command(&command, 5, 9);
	assert_int_equal(read_rows(&lost), 2);
	assert_int_equal(lost, 0);
	assert_int_equal(rows[0][VCUDA_ACTIVITY_SEQ], command.seq);
	assert_int_equal(rows[0][VCUDA_ACTIVITY_WHAT],
			 VCUDA_OP_cuMemsetD8Async | VCUDA_ACTIVITY_ON_DEVICE | 7ull << 32);
	assert_true(rows[0][VCUDA_ACTIVITY_BEGIN] >= start && rows[0][VCUDA_ACTIVITY_BEGIN] <= vcuda_now_ns());
	assert_true(rows[0][VCUDA_ACTIVITY_END] - rows[0][VCUDA_ACTIVITY_BEGIN] >= 3000000 - 1000);
	assert_int_equal(rows[1][VCUDA_ACTIVITY_WHAT], VCUDA_OP_cuMemsetD8Async | 7ull << 32);
	assert_int_equal(rows[1][VCUDA_ACTIVITY_BEGIN], 5);
	assert_int_equal(rows[1][VCUDA_ACTIVITY_END], 9);
	assert_int_equal(read_rows(&lost), 0);
	device_ns -= 3000000;
}

static void test_not_wanted(void **state)
{
	atomic_store(&shm.profile, VCUDA_PROFILE_COUNTS);
	begin(VCUDA_OP_cuMemsetD8Async, 1);
	worker_activity_end(&session, NULL);
	assert_int_equal(read_rows(NULL), 0);
}

/* A kernel that is compiled by its first launch begins when the driver has it. */
static void test_first_launch(void **state)
{
	first_ns = 0;
	begin(VCUDA_OP_vcudaLaunchKernel, 1);
	while (vcuda_now_ns() < first_ns + 2000000)
		continue;
	worker_activity_end(&session, NULL);
	assert_int_equal(read_rows(NULL), 1);
	assert_true(rows[0][VCUDA_ACTIVITY_BEGIN] >= first_ns + 1000000);
	assert_true(rows[0][VCUDA_ACTIVITY_END] >= rows[0][VCUDA_ACTIVITY_BEGIN]);
}

/* The device's clock runs away from the host's: the times are the host's all the same. */
static void test_drift(void **state)
{
	for (int i = 0; i < 50; i++) {
		uint64_t before;

		device_ns += 10000000;
		usleep(2000);
		before = vcuda_now_ns();
		begin(VCUDA_OP_cuMemsetD8Async, 1);
		worker_activity_end(&session, NULL);
		assert_int_equal(read_rows(NULL), 1);
		assert_true(rows[0][VCUDA_ACTIVITY_BEGIN] + 100000000 > before);
		assert_true(rows[0][VCUDA_ACTIVITY_BEGIN] < vcuda_now_ns() + 100000000);
	}
	/* Older bases are given back. */
	assert_true(event_count < 20);
	device_ns = 0;
	worker_activity_forget(&session, 1);
}

/* Work that has ended is known, other work is lost, and no event is used after the context's end. */
static void test_context_ends(void **state)
{
	uint64_t lost;

	begin(VCUDA_OP_cuMemsetD8Async, 2);
	worker_activity_end(&session, NULL);
	worker_activity_forget(&session, 2);
	begin(VCUDA_OP_cuMemsetD8Async, 3);
	worker_activity_end(&session, NULL);
	begin(VCUDA_OP_cuMemsetD8Async, 3);
	is_busy = true;
	worker_activity_forget(&session, 3);
	worker_activity_end(&session, NULL);
	has_ended = true;
	assert_int_equal(read_rows(&lost), 1);
	assert_int_equal(lost, 2);
	/* Work that began after the first time: the context is forgotten again when no command is in it. */
	is_busy = has_ended = false;
	begin(VCUDA_OP_cuMemsetD8Async, 6);
	worker_activity_end(&session, NULL);
	worker_activity_forget(&session, 6);
	begin(VCUDA_OP_cuMemsetD8Async, 6);
	worker_activity_end(&session, NULL);
	worker_activity_forget(&session, 6);
	has_ended = true;
	assert_int_equal(read_rows(&lost), 2);
	assert_int_equal(lost, 0);
}

/* A piece of work that does not end does not stand in the way of others. */
static void test_endless(void **state)
{
	unsigned int count = 0, n;
	uint64_t lost, all_lost = 0;

	begin(VCUDA_OP_vcudaLaunchKernel, 7);
	worker_activity_end(&session, NULL);
	endless = last_recorded;
	for (int i = 0; i < 40000; i++) {
		begin(VCUDA_OP_cuMemsetD8Async, 7);
		worker_activity_end(&session, NULL);
		if (i % 50 == 0)
			while ((n = read_rows(&lost))) {
				count += n;
				all_lost += lost;
			}
	}
	while ((n = read_rows(&lost))) {
		count += n;
		all_lost += lost;
	}
	assert_int_equal(all_lost, 0);
	assert_int_equal(count, 40000);
	assert_int_equal(pending, 1);
	endless = NULL;
	assert_int_equal(read_rows(NULL), 1);
	assert_int_equal(pending, 0);
}

/* A context that has failed records nothing. */
static void test_failed_context(void **state)
{
	uint64_t lost;

	begin(VCUDA_OP_cuMemsetD8Async, 4);
	refuses_records = true;
	worker_activity_end(&session, NULL);
	begin(VCUDA_OP_cuMemsetD8Async, 4);
	worker_activity_end(&session, NULL);
	assert_int_equal(read_rows(&lost), 0);
	assert_int_equal(lost, 2);
}

/* The device does not come to an end, and the guest reads nothing: rows are counted as lost. */
static void test_full(void **state)
{
	unsigned int count = 0, n;
	uint64_t lost, all_lost = 0;

	is_busy = true;
	for (int i = 0; i < 40000; i++) {
		begin(VCUDA_OP_cuMemsetD8Async, 5);
		worker_activity_end(&session, NULL);
	}
	assert_int_equal(read_rows(&all_lost), 0);
	is_busy = false;
	while ((n = read_rows(&lost))) {
		count += n;
		all_lost += lost;
	}
	assert_true(all_lost > 0);
	assert_int_equal(count + all_lost, 40000);
	/* The events are used again. */
	n = event_count;
	begin(VCUDA_OP_cuMemsetD8Async, 5);
	worker_activity_end(&session, NULL);
	assert_int_equal(read_rows(NULL), 1);
	assert_int_equal(event_count, n);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup(test_times, set_up),        cmocka_unit_test_setup(test_not_wanted, set_up),
		cmocka_unit_test_setup(test_first_launch, set_up), cmocka_unit_test_setup(test_drift, set_up),
		cmocka_unit_test_setup(test_context_ends, set_up), cmocka_unit_test_setup(test_failed_context, set_up),
		cmocka_unit_test_setup(test_full, set_up),         cmocka_unit_test_setup(test_endless, set_up),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
