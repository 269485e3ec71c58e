/* SPDX-License-Identifier: Apache-2.0 */
/* Events and the queries that programs poll with: each call, of many. */
#include "driver-bench.h"

struct events {
	CUstream stream, other;
	CUevent first, second;
};

static void finish(void *argument)
{
	check(cuCtxSynchronize(), "cuCtxSynchronize");
}

static void record(void *argument)
{
	struct events *e = argument;

	for (int i = 0; i < settings.burst; i++)
		check(cuEventRecord(e->first, e->stream), "cuEventRecord");
}

static void query(void *argument)
{
	struct events *e = argument;

	for (int i = 0; i < settings.burst; i++)
		check(cuEventQuery(e->first), "cuEventQuery");
}

static void synchronize(void *argument)
{
	struct events *e = argument;

	for (int i = 0; i < settings.burst; i++)
		check(cuEventSynchronize(e->first), "cuEventSynchronize");
}

static void elapsed(void *argument)
{
	struct events *e = argument;
	float ms;

	for (int i = 0; i < settings.burst; i++)
		check(cuEventElapsedTime(&ms, e->first, e->second), "cuEventElapsedTime");
}

static void record_and_wait(void *argument)
{
	struct events *e = argument;

	check(cuEventRecord(e->first, e->stream), "cuEventRecord");
	check(cuEventSynchronize(e->first), "cuEventSynchronize");
}

static void stream_query(void *argument)
{
	struct events *e = argument;

	for (int i = 0; i < settings.burst; i++)
		check(cuStreamQuery(e->stream), "cuStreamQuery");
}

static void stream_synchronize(void *argument)
{
	struct events *e = argument;

	for (int i = 0; i < settings.burst; i++)
		check(cuStreamSynchronize(e->stream), "cuStreamSynchronize");
}

static void stream_wait(void *argument)
{
	struct events *e = argument;

	for (int i = 0; i < settings.burst; i++)
		check(cuStreamWaitEvent(e->other, e->first, 0), "cuStreamWaitEvent");
}

static void create(void *argument)
{
	CUevent event;

	check(cuEventCreate(&event, CU_EVENT_DEFAULT), "cuEventCreate");
	check(cuEventDestroy_v2(event), "cuEventDestroy");
}

void bench_events(void)
{
	static const struct {
		const char *name;
		void (*call)(void *);
	} cases[] = {{"event_record", record},           {"event_query", query},
		     {"event_synchronize", synchronize}, {"event_elapsed", elapsed},
		     {"stream_query", stream_query},     {"stream_synchronize", stream_synchronize},
		     {"stream_wait_event", stream_wait}};
	struct events e;

	check(cuStreamCreate(&e.stream, CU_STREAM_NON_BLOCKING), "cuStreamCreate");
	check(cuStreamCreate(&e.other, CU_STREAM_NON_BLOCKING), "cuStreamCreate");
	check(cuEventCreate(&e.first, CU_EVENT_DEFAULT), "cuEventCreate");
	check(cuEventCreate(&e.second, CU_EVENT_DEFAULT), "cuEventCreate");
	check(cuEventRecord(e.first, e.stream), "cuEventRecord");
	check(cuEventRecord(e.second, e.stream), "cuEventRecord");
	/* finish: what is asked about has happened; the price of asking is measured, not of waiting */
	for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++)
		report(cases[i].name, time_call(cases[i].call, finish, &e) / settings.burst, "us");
	finish(NULL);
	report("event_create_destroy", time_call(create, NULL, &e), "us");
	report("event_record_wait", time_call(record_and_wait, NULL, &e), "us");
}
