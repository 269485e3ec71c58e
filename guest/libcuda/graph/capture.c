/* SPDX-License-Identifier: Apache-2.0 */
#include "core/capture.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "core/request.h"
#include "graph/capture-state.h"
#include "graph/graph.h"
#include "stream/stream.h"
#include "core/thread.h"

struct captured_event {
	CUevent event;
	struct libcuda_capture *capture;
	struct libcuda_frontier at;
	struct captured_event *next;
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER; /* all below */
static struct libcuda_capture *captures;
static struct libcuda_capturing *streams;
static struct captured_event *events;
static uint64_t ids;

void libcuda_capture_lock(void)
{
	pthread_mutex_lock(&lock);
}

void libcuda_capture_unlock(void)
{
	pthread_mutex_unlock(&lock);
}

struct libcuda_capturing *libcuda_capturing_find(CUstream resolved)
{
	struct libcuda_capturing *s;

	for (s = streams; s && s->stream != resolved; s = s->next)
		continue;
	return s;
}

static struct captured_event *find_event(CUevent event)
{
	struct captured_event *e;

	for (e = events; e && e->event != event; e = e->next)
		continue;
	return e;
}

/* ---- captures ---- */

static struct libcuda_capturing *add_stream(CUstream resolved, struct libcuda_capture *c)
{
	const struct libcuda_object *o = libcuda_object_find(LIBCUDA_OBJECT_STREAM, resolved);
	struct libcuda_capturing *s = calloc(1, sizeof(*s));

	if (!s)
		return NULL;
	s->stream = resolved;
	/* A thread's own default stream is no object. */
	s->context = o ? o->context : libcuda_context_current();
	s->is_blocking = !o || !(o->flags & CU_STREAM_NON_BLOCKING);
	s->capture = c;
	s->next = streams;
	streams = s;
	return s;
}

static void forget_event(struct captured_event **at)
{
	struct captured_event *e = *at;

	*at = e->next;
	libcuda_frontier_free(&e->at);
	free(e);
}

/* Everything of a capture but its graph is gone. */
static void end(struct libcuda_capture *c)
{
	for (struct libcuda_capturing **at = &streams, *s; (s = *at);) {
		if (s->capture != c) {
			at = &s->next;
			continue;
		}
		*at = s->next;
		libcuda_frontier_free(&s->at);
		free(s);
	}
	for (struct captured_event **at = &events; *at;) {
		if ((*at)->capture == c)
			forget_event(at);
		else
			at = &(*at)->next;
	}
	for (struct libcuda_capture **at = &captures; *at; at = &(*at)->next) {
		if (*at != c)
			continue;
		*at = c->next;
		break;
	}
	free(c);
	if (!captures)
		atomic_store(&libcuda_capture_hook, NULL);
}

/* Whether a capture minds what the calling thread does beside it. */
static bool minds(const struct libcuda_capture *c)
{
	const struct libcuda_thread *t = libcuda_thread();
	CUstreamCaptureMode mode = libcuda_capture_thread_mode(t);

	if (c->mode == CU_STREAM_CAPTURE_MODE_RELAXED || mode == CU_STREAM_CAPTURE_MODE_RELAXED)
		return false;
	if (c->thread == t)
		return true;
	return c->mode == CU_STREAM_CAPTURE_MODE_GLOBAL && mode == CU_STREAM_CAPTURE_MODE_GLOBAL;
}

static CUresult capture_unsafe(void)
{
	bool any = false;

	libcuda_capture_lock();
	for (struct libcuda_capture *c = captures; c; c = c->next) {
		if (!minds(c))
			continue;
		c->invalid = true;
		any = true;
	}
	libcuda_capture_unlock();
	return any ? CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED : CUDA_SUCCESS;
}

/*
 * The legacy default stream waits for all blocking streams of its context: work in it would be work of the capture.
 * The rule holds in every mode and for every thread: modes are about calls that no stream sees.
 */
static bool concerns_legacy(const struct libcuda_context *context, const struct libcuda_capturing *s)
{
	return s->is_blocking && s->context == context;
}

bool libcuda_capture_blocks(const struct libcuda_context *context, CUstream resolved)
{
	struct libcuda_capturing *s = libcuda_capture_is_legacy(resolved) ? streams : NULL;

	while (s && !concerns_legacy(context, s))
		s = s->next;
	return s;
}

/* The stream is used: if it is one that is blocked, all captures that block it are invalid. */
static bool spoils(const struct libcuda_context *context, CUstream resolved)
{
	bool any = libcuda_capture_blocks(context, resolved);

	for (struct libcuda_capturing *s = any ? streams : NULL; s; s = s->next)
		if (concerns_legacy(context, s))
			s->capture->invalid = true;
	return any;
}

static CUresult add_node(struct libcuda_capturing *s, struct libcuda_context *context, CUgraphNodeParams *p)
{
	struct libcuda_node *n;
	CUresult result;

	if (s->capture->invalid)
		return CUDA_ERROR_STREAM_CAPTURE_INVALIDATED;
	result = libcuda_graph_add(s->capture->graph, s->at.nodes, s->at.count, context, p, &n);
	if (result != CUDA_SUCCESS)
		return result;
	/* Where a launch says so: the structure has no member for it. */
	if (p->type == CU_GRAPH_NODE_TYPE_KERNEL) {
		n->kernel.launch.cooperative = p->reserved0[0];
		for (int i = 0; i < 3; i++)
			n->kernel.launch.cluster[i] = (uint8_t)(p->reserved0[1] >> 8 * i);
	}
	n->must_join = s->capture->id;
	libcuda_frontier_free(&s->at);
	if (!libcuda_frontier_add(&s->at, n))
		return CUDA_ERROR_OUT_OF_MEMORY;
	libcuda_node_get(n, p);
	return CUDA_SUCCESS;
}

static bool capture_takes(const struct call_options *how, CUstream resolved, CUgraphNodeParams *p, CUresult *result)
{
	struct libcuda_capturing *s;
	bool taken;

	libcuda_capture_lock();
	s = libcuda_capturing_find(resolved);
	taken = s;
	if (s) {
		*result = add_node(s, libcuda_request_context(how), p);
	} else if (spoils(libcuda_request_context(how), resolved)) {
		*result = CUDA_ERROR_STREAM_CAPTURE_IMPLICIT;
		taken = true;
	}
	libcuda_capture_unlock();
	return taken;
}

static CUresult capture_refuses(const struct libcuda_context *context, CUstream resolved)
{
	struct libcuda_capturing *s;
	CUresult result = CUDA_SUCCESS;

	libcuda_capture_lock();
	s = libcuda_capturing_find(resolved);
	if (s) {
		s->capture->invalid = true;
		result = CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
	} else if (spoils(context, resolved)) {
		result = CUDA_ERROR_STREAM_CAPTURE_IMPLICIT;
	}
	libcuda_capture_unlock();
	return result;
}

static CUresult capture_context_refuses(const struct libcuda_context *context)
{
	CUresult result = CUDA_SUCCESS;

	libcuda_capture_lock();
	for (struct libcuda_capturing *s = streams; s; s = s->next) {
		if (s->context != context)
			continue;
		s->capture->invalid = true;
		result = CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
	}
	libcuda_capture_unlock();
	return result;
}

/* ---- events ---- */

static CUresult capture_event_refuses(CUevent event)
{
	bool captured;

	libcuda_capture_lock();
	captured = find_event(event);
	libcuda_capture_unlock();
	return captured ? CUDA_ERROR_CAPTURED_EVENT : CUDA_SUCCESS;
}

static CUresult capture_event_unsupported(CUevent event)
{
	struct captured_event *e;

	libcuda_capture_lock();
	e = find_event(event);
	if (e)
		e->capture->invalid = true;
	libcuda_capture_unlock();
	return e ? CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED : CUDA_SUCCESS;
}

static CUresult record(struct libcuda_capturing *s, CUevent event)
{
	struct captured_event *e = find_event(event);

	if (s->capture->invalid)
		return CUDA_ERROR_STREAM_CAPTURE_INVALIDATED;
	if (!e) {
		e = calloc(1, sizeof(*e));
		if (!e)
			return CUDA_ERROR_OUT_OF_MEMORY;
		e->event = event;
		e->next = events;
		events = e;
	}
	libcuda_frontier_free(&e->at);
	e->capture = s->capture;
	return libcuda_frontier_join(&e->at, &s->at) ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
}

static bool capture_record(const struct call_options *how, CUevent event, CUstream resolved, unsigned int flags,
			   CUresult *result)
{
	CUgraphNodeParams p = {.type = CU_GRAPH_NODE_TYPE_EVENT_RECORD, .eventRecord = {event}};
	struct libcuda_capturing *s;
	bool taken;

	if (flags & CU_EVENT_RECORD_EXTERNAL)
		return capture_takes(how, resolved, &p, result);
	libcuda_capture_lock();
	s = libcuda_capturing_find(resolved);
	taken = s || spoils(libcuda_request_context(how), resolved);
	if (taken)
		*result = s ? record(s, event) : CUDA_ERROR_STREAM_CAPTURE_IMPLICIT;
	/* Recorded outside it is an ordinary event again. */
	for (struct captured_event **at = &events; !taken && *at; at = &(*at)->next) {
		if ((*at)->event != event)
			continue;
		forget_event(at);
		break;
	}
	libcuda_capture_unlock();
	return taken;
}

static CUresult join(struct captured_event *e, CUstream resolved)
{
	struct libcuda_capturing *s = libcuda_capturing_find(resolved);

	if (e->capture->invalid)
		return CUDA_ERROR_STREAM_CAPTURE_INVALIDATED;
	if (s && s->capture != e->capture) {
		s->capture->invalid = e->capture->invalid = true;
		return CUDA_ERROR_STREAM_CAPTURE_MERGE;
	}
	if (!s && libcuda_capture_is_legacy(resolved)) {
		e->capture->invalid = true;
		return CUDA_ERROR_STREAM_CAPTURE_IMPLICIT;
	}
	if (!s)
		s = add_stream(resolved, e->capture);
	return s && libcuda_frontier_join(&s->at, &e->at) ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
}

static bool capture_wait(const struct call_options *how, CUevent event, CUstream resolved, unsigned int flags,
			 CUresult *result)
{
	CUgraphNodeParams p = {.type = CU_GRAPH_NODE_TYPE_WAIT_EVENT, .eventWait = {event}};
	struct libcuda_capturing *s;
	struct captured_event *e;
	bool taken = true;

	if (flags & CU_EVENT_WAIT_EXTERNAL)
		return capture_takes(how, resolved, &p, result);
	libcuda_capture_lock();
	s = libcuda_capturing_find(resolved);
	e = find_event(event);
	if (e) {
		*result = join(e, resolved);
	} else if (s) {
		/* Work outside is nothing that a graph can wait for. */
		s->capture->invalid = true;
		*result = CUDA_ERROR_STREAM_CAPTURE_ISOLATION;
	} else {
		taken = spoils(libcuda_request_context(how), resolved);
		if (taken)
			*result = CUDA_ERROR_STREAM_CAPTURE_IMPLICIT;
	}
	libcuda_capture_unlock();
	return taken;
}

/* ---- from begin to end ---- */

static const struct libcuda_capture_ops ops = {
	.takes = capture_takes,
	.unsafe = capture_unsafe,
	.refuses = capture_refuses,
	.context_refuses = capture_context_refuses,
	.record = capture_record,
	.wait = capture_wait,
	.event_refuses = capture_event_refuses,
	.event_unsupported = capture_event_unsupported,
};

CUresult libcuda_capture_begin(CUstream resolved, struct libcuda_graph *g, bool given, CUstreamCaptureMode mode,
			       const struct libcuda_frontier *at)
{
	struct libcuda_capturing *s = libcuda_capturing_find(resolved);
	struct libcuda_capture *c;

	if (s) {
		s->capture->invalid = true;
		return CUDA_ERROR_ILLEGAL_STATE;
	}
	c = calloc(1, sizeof(*c));
	if (!c)
		return CUDA_ERROR_OUT_OF_MEMORY;
	*c = (struct libcuda_capture){
		.id = ++ids, .graph = g, .given = given, .mode = mode, .thread = libcuda_thread(), .origin = resolved};
	c->next = captures;
	captures = c;
	atomic_store(&libcuda_capture_hook, &ops);
	s = add_stream(resolved, c);
	if (s && libcuda_frontier_join(&s->at, at))
		return CUDA_SUCCESS;
	end(c);
	return CUDA_ERROR_OUT_OF_MEMORY;
}

bool libcuda_capture_has_graph(const struct libcuda_graph *g)
{
	bool has = false;

	if (!libcuda_capture_any())
		return false;
	libcuda_capture_lock();
	for (const struct libcuda_capture *c = captures; c; c = c->next)
		has |= c->graph == g;
	libcuda_capture_unlock();
	return has;
}

bool libcuda_capture_is_given(CUstream resolved)
{
	const struct libcuda_capturing *s = libcuda_capturing_find(resolved);

	return s && s->capture->given;
}

CUresult libcuda_capture_end(CUstream resolved, CUgraph *graph)
{
	struct libcuda_capturing *s = libcuda_capturing_find(resolved);
	CUresult result = CUDA_SUCCESS;
	struct libcuda_graph *g;
	struct libcuda_capture *c;
	bool given, joined;

	if (!s)
		return CUDA_ERROR_ILLEGAL_STATE;
	c = s->capture;
	if (c->origin != resolved) {
		c->invalid = true;
		return CUDA_ERROR_STREAM_CAPTURE_UNMATCHED;
	}
	if (c->mode != CU_STREAM_CAPTURE_MODE_RELAXED && c->thread != libcuda_thread())
		return CUDA_ERROR_STREAM_CAPTURE_WRONG_THREAD;
	g = c->graph;
	joined = libcuda_graph_is_joined(g, c->id, s->at.nodes, s->at.count);
	if (c->invalid)
		result = CUDA_ERROR_STREAM_CAPTURE_INVALIDATED;
	else if (!joined)
		result = CUDA_ERROR_STREAM_CAPTURE_UNJOINED;
	given = c->given;
	end(c);
	*graph = result == CUDA_SUCCESS ? g->handle : NULL;
	if (result != CUDA_SUCCESS && !given)
		libcuda_graph_free(g);
	return result;
}
