/* SPDX-License-Identifier: Apache-2.0 */
/* The sink of the record, and the calls that it is told of while threads are in them. */
#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <unistd.h>

#include "core/device.h"
#include "core/hooks.h"
#include "core/object.h"
#include "graph/graph-exec.h"
#include "graph/graph.h"
#include "stream/stream.h"
#include "trace/profile.h"
#include "trace/trace.h"

static _Atomic(const struct vcuda_profile_sink *) sink;
static _Atomic uint32_t watched;
static _Atomic uint32_t correlations, copies; /* so far */

const struct vcuda_profile_sink *libcuda_profile_sink(void)
{
	return atomic_load_explicit(&sink, memory_order_acquire);
}

uint32_t libcuda_profile_watched(void)
{
	return atomic_load_explicit(&watched, memory_order_relaxed);
}

bool libcuda_profile_is_on(void)
{
	return libcuda_profile_has_file() || libcuda_profile_watched() & VCUDA_PROFILE_CALLS;
}

/* ---- calls ---- */

/* The first argument that is shown so, where it is no pointer; 0: there is none. */
static uint64_t argument(unsigned int call, enum libcuda_trace_how how, const uint64_t *values)
{
	const struct libcuda_trace_call *c = &libcuda_trace_calls[call];

	for (int i = 0; i < c->count; i++)
		if (c->params[i].how == how && !c->params[i].target)
			return values[i];
	return 0;
}

/* 0 is no number. */
static uint32_t next(_Atomic uint32_t *numbers)
{
	uint32_t number = atomic_fetch_add(numbers, 1) + 1;

	return number ? number : atomic_fetch_add(numbers, 1) + 1;
}

static void fill_in_context(struct vcuda_profile_site *site)
{
	struct libcuda_context *context = libcuda_context_current();

	site->context = context ? (uint32_t)context->number : 0;
	site->handle = libcuda_context_handle(context);
}

bool libcuda_profile_enter_site(struct libcuda_profile_entered *e)
{
	struct libcuda_thread *thread = libcuda_thread();

	e->sink = libcuda_profile_watched() & VCUDA_PROFILE_CALLS ? libcuda_profile_sink() : NULL;
	if (!e->sink)
		return false;
	e->before = thread->recorded;
	/* A call of the driver within one of the runtime has the runtime's. */
	e->site.correlation = e->before.correlation ? e->before.correlation : next(&correlations);
	fill_in_context(&e->site);
	e->sink->enter(&e->site);
	thread->recorded = (struct libcuda_recorded){.correlation = e->site.correlation,
						     .copy = next(&copies),
						     .wanted = e->site.tags.wanted,
						     .detail = e->site.tags.detail};
	return true;
}

bool libcuda_profile_leave_site(struct libcuda_profile_entered *e, const void *result, struct vcuda_profile_note *note)
{
	struct libcuda_thread *thread = libcuda_thread();

	note->is_inner = e->before.correlation;
	note->copy = thread->recorded.copy;
	note->pieces = thread->recorded.pieces;
	note->nodes = thread->recorded.nodes;
	thread->recorded = e->before;
	fill_in_context(&e->site);
	e->site.result = result;
	e->sink->leave(&e->site);
	note->correlation = e->site.correlation;
	note->context = e->site.context;
	note->tags = e->site.tags;
	return e->site.is_noted || note->pieces || note->nodes;
}

void libcuda_profile_enter(struct libcuda_profile_entered *e, unsigned int call, const void *parameters,
			   const uint64_t *values)
{
	e->site = (struct vcuda_profile_site){
		.domain = VCUDA_PROFILE_DRIVER,
		.call = call,
		.name = libcuda_trace_calls[call].name,
		.parameters = parameters,
		.function = argument(call, LIBCUDA_TRACE_FUNCTION, values),
	};
	if (libcuda_profile_enter_site(e))
		libcuda_profile_function_keep(e->site.function, true);
}

static bool leave_sink(struct libcuda_profile_entered *e, const CUresult *result, const uint64_t *values,
		       struct vcuda_profile_note *note)
{
	bool is_wanted = libcuda_profile_leave_site(e, result, note);
	const struct libcuda_object *event;

	note->stream = libcuda_stream_number(libcuda_context_find(e->site.handle),
					     (CUstream)(uintptr_t)argument(note->call, LIBCUDA_TRACE_STREAM, values));
	event = libcuda_object_find(LIBCUDA_OBJECT_EVENT,
				    (void *)(uintptr_t)argument(note->call, LIBCUDA_TRACE_EVENT, values));
	note->event = event ? (uint32_t)event->number : 0;
	return is_wanted;
}

void libcuda_profile_leave(struct libcuda_profile_entered *e, unsigned int call, CUresult result, uint64_t start,
			   uint64_t ns, uint64_t waited, const uint64_t *values)
{
	const struct call_thread *thread = &libcuda_thread()->calls;
	struct libcuda_profile_call c = {
		.note = {.start = start,
			 .end = start + ns,
			 .domain = VCUDA_PROFILE_DRIVER,
			 .call = call,
			 .tid = (int)gettid(),
			 .result = (int)result},
		.waited = waited,
		.first = thread->first_seq,
		.last = thread->last_seq,
		.function = argument(call, LIBCUDA_TRACE_FUNCTION, values),
	};
	bool is_wanted = libcuda_profile_has_file();

	if (!is_wanted && !e->sink)
		return;
	if (c.function)
		libcuda_profile_function_keep(c.function, false);
	if (e->sink)
		is_wanted |= leave_sink(e, &result, values, &c.note);
	if (is_wanted)
		libcuda_profile_add(&c);
}

/* ---- the table ---- */

static const char *call_name(uint32_t call)
{
	return call < libcuda_trace_call_count ? libcuda_trace_calls[call].name : NULL;
}

static const char *function_name(uint64_t function)
{
	return libcuda_profile_function_find(function).name;
}

static int attach(const struct vcuda_profile_sink *other)
{
	const struct vcuda_profile_sink *none = NULL;

	if (!libcuda_profile_prepare())
		return -ENOMEM;
	return atomic_compare_exchange_strong(&sink, &none, other) ? 0 : -EBUSY;
}

static void change(uint32_t what)
{
	atomic_store(&watched, what);
	atomic_store(&libcuda_hook_nodes, what & VCUDA_PROFILE_NODES);
	libcuda_trace_refill();
	libcuda_profile_switch_runtime(what & VCUDA_PROFILE_RUNTIME_CALLS);
}

static void watch(uint32_t what)
{
	bool wants_calls = what & (VCUDA_PROFILE_WORK | VCUDA_PROFILE_RUNTIME_CALLS);

	libcuda_profile_change(change, what | (wants_calls ? VCUDA_PROFILE_CALLS : 0));
}

static void detach(void)
{
	watch(0);
	atomic_store(&sink, NULL);
}

static CUresult named(CUcontext handle, struct libcuda_context **context)
{
	*context = handle ? libcuda_context_find(handle) : libcuda_context_current();
	return *context ? CUDA_SUCCESS : CUDA_ERROR_INVALID_CONTEXT;
}

static CUresult context_number(CUcontext handle, uint32_t *number)
{
	struct libcuda_context *context;
	CUresult result = named(handle, &context);

	if (result == CUDA_SUCCESS)
		*number = (uint32_t)context->number;
	return result;
}

static CUresult context_device(CUcontext handle, CUdevice *device)
{
	struct libcuda_context *context;
	CUresult result = named(handle, &context);

	if (result == CUDA_SUCCESS)
		*device = context->device;
	return result;
}

static CUresult stream_number(CUcontext handle, CUstream stream, uint32_t *number)
{
	bool is_default = !stream || stream == CU_STREAM_LEGACY || stream == CU_STREAM_PER_THREAD;
	const struct libcuda_object *o = is_default ? NULL : libcuda_object_find(LIBCUDA_OBJECT_STREAM, stream);
	struct libcuda_context *context = o ? o->context : NULL;
	CUresult result = CUDA_SUCCESS;

	if (!is_default && !o)
		return CUDA_ERROR_INVALID_HANDLE;
	if (handle || is_default)
		result = named(handle, &context);
	if (result != CUDA_SUCCESS)
		return result;
	if (o && context != o->context)
		return CUDA_ERROR_INVALID_HANDLE;
	*number = libcuda_stream_number(context, stream);
	return CUDA_SUCCESS;
}

static uint32_t graph_number(CUgraph handle)
{
	const struct libcuda_graph *g = libcuda_graph_find(handle);

	return g ? g->number : 0;
}

static uint64_t node_number(CUgraphNode handle)
{
	const struct libcuda_node *n = libcuda_node_find(handle);

	return n ? n->ids.node : 0;
}

static const vcuda_device_info *device_info(CUdevice device)
{
	return libcuda_require_device(device) == CUDA_SUCCESS ? libcuda_device_info_of(device) : NULL;
}

static CUresult device_attribute(CUdevice device, CUdevice_attribute which, int *value)
{
	CUresult result = libcuda_require_device(device);

	if (result == CUDA_SUCCESS)
		*value = libcuda_device_attribute(device, which);
	return result;
}

const struct vcuda_profile_table libcuda_profile_table = {
	.bytes = sizeof(libcuda_profile_table),
	.call_name = call_name,
	.function_name = function_name,
	.attach = attach,
	.detach = detach,
	.watch = watch,
	.flush = libcuda_profile_flush,
	.observe_ranges = libcuda_ranges_observe,
	.context_number = context_number,
	.context_device = context_device,
	.stream_number = stream_number,
	.graph_number = graph_number,
	.exec_number = libcuda_exec_number,
	.node_number = node_number,
	.device_info = device_info,
	.device_attribute = device_attribute,
	.is_open = libcuda_trace_is_open,
};
