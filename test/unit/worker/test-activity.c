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
#include "session/activity-clock.h"
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
static bool is_busy;       /* recorded events have not happened */
static bool has_ended;     /* events mean nothing any more */
static uint64_t first_ns;  /* of the first event since it was 0 */
static CUcontext current;
static CUevent endless, last_recorded; /* endless: does not happen */
static bool refuses_records;           /* the context has failed */
static unsigned int records;           /* so far, for work */

/* The stream in which bases are measured, at any time. */
#define BASE_STREAM ((CUstream)8)

/*
 * The times in ns that an H200 needs for an event, and for the begin and end of a kernel between two events that writes
 * memory.
 */
#define EVENT_NS 1250
#define LAUNCH_NS 1875

/*
 * The device's time when it has done all that it was given, where the test says how long that takes; 0: it does not.
 * The stream for bases has a time of its own.
 */
static uint64_t simulated_ns, base_ns;

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
	uint64_t *ns = stream == BASE_STREAM ? &base_ns : &simulated_ns;

	(void)flags;
	assert_true(events[(uintptr_t)event].exists && !has_ended);
	if (refuses_records)
		return CUDA_ERROR_ILLEGAL_ADDRESS;
	records += stream != BASE_STREAM;
	events[(uintptr_t)event].is_recorded = true;
	last_recorded = event;
	if (simulated_ns)
		*ns += EVENT_NS;
	events[(uintptr_t)event].ns = simulated_ns ? *ns : vcuda_now_ns() + device_ns;
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
	*stream = BASE_STREAM;
	return CUDA_SUCCESS;
}

static CUresult destroy_stream(CUstream stream)
{
	assert_ptr_equal(stream, BASE_STREAM);
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

static void begin_in(unsigned int op, uint64_t context, CUstream stream)
{
	command.op = (uint16_t)op;
	command.thread = 7;
	command.context = context;
	command.seq++;
	current = (CUcontext)(uintptr_t)context;
	worker_activity_begin(&session, stream);
}

static void begin(unsigned int op, uint64_t context)
{
	begin_in(op, context, NULL);
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
	simulated_ns = 0;
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

/* The device's clock drifts from the host's: the times are still the host's. */
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

/* ---- the cost of events ---- */

static uint64_t length_of(unsigned int row)
{
	return rows[row][VCUDA_ACTIVITY_END] - rows[row][VCUDA_ACTIVITY_BEGIN];
}

/* The device has done work that takes so long, between two events. Returns how long the row says. */
static uint64_t tell(unsigned int op, uint64_t ns)
{
	is_busy = true;
	command.seq++;
	begin_in(op, 8, (CUstream)16);
	simulated_ns += ns;
	worker_activity_end(&session, (CUstream)16);
	is_busy = false;
	assert_int_equal(read_rows(NULL), 1);
	return length_of(0);
}

#define assert_near(value, expected) assert_in_range(value, (expected)-20, (expected) + 20)

/* Rows tell how long the work took, without the events around it. The begin of a launch depends on how long it took. */
static void test_overhead(void **state)
{
	static const uint64_t lengths[] = {545, 2528, 10592, 100607};

	simulated_ns = 1000000000;
	for (unsigned int i = 0; i < sizeof(lengths) / sizeof(lengths[0]); i++) {
		assert_near(tell(VCUDA_OP_vcudaMatmul, lengths[i] + LAUNCH_NS), lengths[i]);
		assert_near(tell(VCUDA_OP_cuMemcpyHtoDAsync_v2, lengths[i]), lengths[i]);
	}
	/* Nothing takes no time, and nothing takes longer than between its events. */
	assert_near(tell(VCUDA_OP_vcudaMatmul, 0), 500);
	assert_near(tell(VCUDA_OP_cuMemcpyHtoDAsync_v2, 0), 500);
	worker_activity_forget(&session, 8);
}

static void test_shrink(void **state)
{
	struct activity_span span = {.begin = 1000, .end = 9000};

	activity_span_shrink(&span, 1000, 2000);
	assert_true(span.begin == 2000 && span.end == 7000);
	span.end = span.begin + 900;
	activity_span_shrink(&span, 3000, 1000);
	assert_true(span.begin == 2300 && span.end == 2800);
	span.end = span.begin + 100;
	activity_span_shrink(&span, 3000, 1000);
	assert_true(span.begin == 2300 && span.end == 2400);
	span.end = span.begin;
	activity_span_shrink(&span, 0, 0);
	assert_true(span.begin == 2300 && span.end == 2300);
}

/* Times of a stream do not overlap, whatever the clocks did; those of others may. */
static void test_order(void **state)
{
	static struct activity_context context;
	struct activity_span first = {(CUstream)16, 5, 1000, 2000}, second = {(CUstream)16, 6, 1900, 2500},
			     other = {(CUstream)24, 7, 100, 200}, late = {(CUstream)16, 4, 500, 900};

	activity_span_order(&context, &first);
	activity_span_order(&context, &second);
	activity_span_order(&context, &other);
	activity_span_order(&context, &late);
	assert_true(first.begin == 1000 && first.end == 2000);
	assert_true(second.begin == 2000 && second.end == 2600);
	assert_true(other.begin == 100 && other.end == 200);
	assert_true(late.begin == 500 && late.end == 900);
}

/* Returns how many events were recorded. */
static unsigned int give_kernel(CUstream stream, uint64_t ns)
{
	unsigned int before = records;

	begin_in(VCUDA_OP_vcudaMatmul, 9, stream);
	simulated_ns += LAUNCH_NS + ns;
	worker_activity_end(&session, stream);
	return records - before;
}

/* While the device has work in the stream, the end of one kernel is the begin of the next one. */
static void test_chain(void **state)
{
	static const uint64_t lengths[] = {1000, 7000, 3000, 2000, 4000, 5000, 6000};
	uint64_t end = 0;

	simulated_ns = 1000000000;
	/* The context gets its base. */
	give_kernel((CUstream)16, 1);
	assert_int_equal(read_rows(NULL), 1);
	is_busy = true;
	assert_int_equal(give_kernel((CUstream)24, lengths[0]), 2);
	assert_int_equal(give_kernel((CUstream)24, lengths[1]), 1);
	assert_int_equal(give_kernel((CUstream)24, lengths[2]), 1);
	/* Another stream; another command in between; a device that waits. */
	assert_int_equal(give_kernel((CUstream)32, lengths[3]), 2);
	command.seq++;
	assert_int_equal(give_kernel((CUstream)32, lengths[4]), 2);
	assert_int_equal(give_kernel((CUstream)32, lengths[5]), 1);
	is_busy = false;
	assert_int_equal(give_kernel((CUstream)32, lengths[6]), 2);
	assert_int_equal(read_rows(NULL), 7);
	for (unsigned int i = 0; i < 7; i++) {
		/* The last piece of work may have waited for the call, too. */
		if (i < 6)
			assert_near(length_of(i), lengths[i]);
		assert_true(rows[i][VCUDA_ACTIVITY_BEGIN] >= end);
		end = rows[i][VCUDA_ACTIVITY_END];
	}
	/* Events are given back where the context ends, too. */
	is_busy = true;
	give_kernel((CUstream)24, 1);
	give_kernel((CUstream)24, 1);
	is_busy = false;
	worker_activity_forget(&session, 9);
	assert_int_equal(read_rows(NULL), 2);
}

/* An idle device waits for the call that gives it the work, and the row does not count that. */
static void test_waits_for_call(void **state)
{
	uint64_t took;
	int tries = 0;

	/* A thread that sleeps in between is not told from a kernel. */
	do {
		uint64_t before = vcuda_now_ns(), start;

		begin(VCUDA_OP_vcudaLaunchKernel, 10);
		start = vcuda_now_ns();
		while (vcuda_now_ns() < start + 6000)
			continue;
		worker_activity_end(&session, NULL);
		took = vcuda_now_ns() - before;
		assert_int_equal(read_rows(NULL), 1);
	} while (took > 8000 && ++tries < 100000);
	assert_true(tries < 100000 && length_of(0) < 3000);
	worker_activity_forget(&session, 10);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup(test_times, set_up),
		cmocka_unit_test_setup(test_not_wanted, set_up),
		cmocka_unit_test_setup(test_first_launch, set_up),
		cmocka_unit_test_setup(test_drift, set_up),
		cmocka_unit_test_setup(test_context_ends, set_up),
		cmocka_unit_test_setup(test_failed_context, set_up),
		cmocka_unit_test_setup(test_full, set_up),
		cmocka_unit_test_setup(test_endless, set_up),
		cmocka_unit_test_setup(test_overhead, set_up),
		cmocka_unit_test_setup(test_shrink, set_up),
		cmocka_unit_test_setup(test_order, set_up),
		cmocka_unit_test_setup(test_chain, set_up),
		cmocka_unit_test_setup(test_waits_for_call, set_up),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
