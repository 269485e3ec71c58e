/* SPDX-License-Identifier: Apache-2.0 */
/* A driver that does nothing before it is told to: one list of what all its streams have to do. */
#ifndef TEST_STAGE_QUEUE_H
#define TEST_STAGE_QUEUE_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "protocol/backend.h"
#include "ring/ring.h"

enum { COPY, RECORD, WAIT, OTHER };

struct stream {
	CUcontext context;
};

struct event {
	CUcontext context;
	unsigned int records, done;
};

struct op {
	int kind;
	struct stream *stream;
	void *to;
	const void *from;
	size_t bytes;
	struct event *event;
	unsigned int record;
	void *taken; /* what was there at the call: of memory that is not pinned the driver takes it then */
	bool done;
};

static struct {
	CUcontext current;
	struct op ops[256];
	unsigned int count;
	int streams, events; /* live ones */
	CUresult refuses;    /* copies */
	CUresult refuses_events, refuses_waits;
	unsigned int copies_now;
	struct stream null;
	void (*meanwhile)(void); /* called while the default stream is waited for */
} driver;

static bool may_run(const struct op *o)
{
	for (const struct op *before = driver.ops; before < o; before++)
		if (!before->done && before->stream == o->stream)
			return false;
	return o->kind != WAIT || o->event->done >= o->record;
}

static bool run_one(struct op *o)
{
	if (o->done || !may_run(o))
		return false;
	if (o->kind == COPY)
		memcpy(o->to, o->from, o->bytes);
	if (o->kind == RECORD)
		o->event->done = o->record;
	return o->done = true;
}

/* The first op of all that can run, but of what others do in the default stream. */
static bool run_next(void)
{
	for (unsigned int i = 0; i < driver.count; i++)
		if (driver.ops[i].kind != OTHER && run_one(&driver.ops[i]))
			return true;
	return false;
}

static struct op *issue(int kind, CUstream stream)
{
	struct stream *s = stream ? (struct stream *)stream : &driver.null;

	assert_true(driver.count < 256);
	if (stream)
		assert_ptr_equal(s->context, driver.current);
	driver.ops[driver.count] = (struct op){.kind = kind, .stream = s};
	return &driver.ops[driver.count++];
}

static CUresult get_current(CUcontext *context)
{
	*context = driver.current;
	return CUDA_SUCCESS;
}

static CUresult set_current(CUcontext context)
{
	driver.current = context;
	return CUDA_SUCCESS;
}

static CUresult create_stream(CUstream *stream, unsigned int flags, int priority)
{
	struct stream *s = calloc(1, sizeof(*s));

	assert_int_equal(flags, CU_STREAM_NON_BLOCKING);
	s->context = driver.current;
	driver.streams++;
	*stream = (CUstream)s;
	return CUDA_SUCCESS;
}

static CUresult destroy_stream(CUstream stream)
{
	for (unsigned int i = 0; i < driver.count; i++)
		assert_true(driver.ops[i].done || driver.ops[i].stream != (struct stream *)stream);
	assert_ptr_equal(((struct stream *)stream)->context, driver.current);
	driver.streams--;
	free(stream);
	return CUDA_SUCCESS;
}

static CUresult create_event(CUevent *event, unsigned int flags)
{
	struct event *e = calloc(1, sizeof(*e));

	if (driver.refuses_events) {
		free(e);
		return driver.refuses_events;
	}
	e->context = driver.current;
	driver.events++;
	*event = (CUevent)e;
	return CUDA_SUCCESS;
}

static CUresult destroy_event(CUevent event)
{
	assert_ptr_equal(((struct event *)event)->context, driver.current);
	driver.events--;
	free(event);
	return CUDA_SUCCESS;
}

static CUresult record_event(CUevent event, CUstream stream, unsigned int flags)
{
	struct event *e = (struct event *)event;
	struct op *o;

	if (driver.refuses_events)
		return driver.refuses_events;
	o = issue(RECORD, stream);
	assert_ptr_equal(e->context, driver.current);
	o->event = e;
	o->record = ++e->records;
	return CUDA_SUCCESS;
}

static CUresult wait_event(CUstream stream, CUevent event, unsigned int flags)
{
	struct op *o;

	if (driver.refuses_waits)
		return driver.refuses_waits;
	o = issue(WAIT, stream);
	o->event = (struct event *)event;
	o->record = o->event->records;
	return CUDA_SUCCESS;
}

static CUresult query_event(CUevent event)
{
	struct event *e = (struct event *)event;

	assert_ptr_equal(e->context, driver.current);
	return e->done == e->records ? CUDA_SUCCESS : CUDA_ERROR_NOT_READY;
}

static CUresult synchronize_event(CUevent event)
{
	while (query_event(event) == CUDA_ERROR_NOT_READY)
		assert_true(run_next());
	return CUDA_SUCCESS;
}

/* Ends the work of the default stream, and checks that no later work has ended before. */
static CUresult synchronize_stream(CUstream stream)
{
	assert_null(stream);
	assert_false(run_next());
	if (driver.meanwhile)
		driver.meanwhile();
	for (unsigned int i = 0; i < driver.count; i++)
		if (driver.ops[i].stream == &driver.null)
			run_one(&driver.ops[i]);
	return CUDA_SUCCESS;
}

/* Pinned memory. */
static bool in_stage(const void *p);

static CUresult copy_async(CUdeviceptr to, const void *from, size_t bytes, CUstream stream)
{
	struct op *o;

	if (driver.refuses)
		return driver.refuses;
	o = issue(COPY, stream);
	o->to = (void *)(uintptr_t)to;
	o->taken = in_stage(from) ? NULL : memcpy(malloc(bytes), from, bytes);
	o->from = o->taken ? o->taken : from;
	o->bytes = bytes;
	return CUDA_SUCCESS;
}

static CUresult copy_now(CUdeviceptr to, const void *from, size_t bytes)
{
	driver.copies_now++;
	memcpy((void *)(uintptr_t)to, from, bytes);
	return CUDA_SUCCESS;
}

static struct vcuda_backend_ops ops = {
	.name = "fake",
	.cuCtxGetCurrent = get_current,
	.cuCtxSetCurrent = set_current,
	.cuStreamCreateWithPriority = create_stream,
	.cuStreamDestroy_v2 = destroy_stream,
	.cuStreamSynchronize = synchronize_stream,
	.cuStreamWaitEvent = wait_event,
	.cuEventCreate = create_event,
	.cuEventDestroy_v2 = destroy_event,
	.cuEventRecordWithFlags = record_event,
	.cuEventQuery = query_event,
	.cuEventSynchronize = synchronize_event,
	.cuMemcpyHtoDAsync_v2 = copy_async,
	.cuMemcpyHtoD_v2 = copy_now,
};

#endif
