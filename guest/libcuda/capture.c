/* SPDX-License-Identifier: Apache-2.0 */
#include "capture.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "call.h"
#include "graph.h"
#include "stream.h"
#include "thread.h"

/* The nodes that what comes next in a stream, or behind an event, depends on. */
struct frontier {
	struct vcuda_node **nodes;
	CUgraphNode *handles; /* the same, for who asks */
	size_t count;
};

struct capture {
	uint64_t id;
	struct vcuda_graph *graph;
	bool given; /* the graph is the application's */
	CUstreamCaptureMode mode;
	struct vcuda_thread *thread;
	CUstream origin; /* resolved, as all streams here */
	bool invalid;
	struct capture *next;
};

struct capturing_stream {
	CUstream stream;
	struct capture *capture;
	struct frontier at;
	struct capturing_stream *next;
};

struct captured_event {
	CUevent event;
	struct capture *capture;
	struct frontier at;
	struct captured_event *next;
};

_Atomic unsigned int vcuda_captures;

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER; /* all below */
static struct capture *captures;
static struct capturing_stream *streams;
static struct captured_event *events;
static uint64_t ids;

static bool is_legacy(CUstream resolved)
{
	return !resolved || resolved == CU_STREAM_LEGACY;
}

static struct capturing_stream *find_stream(CUstream resolved)
{
	struct capturing_stream *s;

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

/* ---- frontiers ---- */

static bool frontier_add(struct frontier *f, struct vcuda_node *n)
{
	struct vcuda_node **nodes;
	CUgraphNode *handles;

	for (size_t i = 0; i < f->count; i++)
		if (f->nodes[i] == n)
			return true;
	nodes = realloc(f->nodes, (f->count + 1) * sizeof(*nodes));
	if (nodes)
		f->nodes = nodes;
	handles = realloc(f->handles, (f->count + 1) * sizeof(*handles));
	if (handles)
		f->handles = handles;
	if (!nodes || !handles)
		return false;
	f->nodes[f->count] = n;
	f->handles[f->count++] = n->handle;
	return true;
}

static bool frontier_join(struct frontier *f, const struct frontier *other)
{
	bool ok = true;

	for (size_t i = 0; i < other->count && ok; i++)
		ok = frontier_add(f, other->nodes[i]);
	return ok;
}

static void frontier_free(struct frontier *f)
{
	free(f->nodes);
	free(f->handles);
	*f = (struct frontier){0};
}

/* ---- captures ---- */

static struct capturing_stream *add_stream(CUstream resolved, struct capture *c)
{
	struct capturing_stream *s = calloc(1, sizeof(*s));

	if (!s)
		return NULL;
	s->stream = resolved;
	s->capture = c;
	s->next = streams;
	streams = s;
	return s;
}

static void forget_event(struct captured_event **at)
{
	struct captured_event *e = *at;

	*at = e->next;
	frontier_free(&e->at);
	free(e);
}

/* Everything of a capture but its graph is gone. */
static void end(struct capture *c)
{
	for (struct capturing_stream **at = &streams, *s; (s = *at);) {
		if (s->capture != c) {
			at = &s->next;
			continue;
		}
		*at = s->next;
		frontier_free(&s->at);
		free(s);
	}
	for (struct captured_event **at = &events; *at;) {
		if ((*at)->capture == c)
			forget_event(at);
		else
			at = &(*at)->next;
	}
	for (struct capture **at = &captures; *at; at = &(*at)->next) {
		if (*at != c)
			continue;
		*at = c->next;
		break;
	}
	free(c);
	atomic_fetch_sub(&vcuda_captures, 1);
}

/* Whether a capture minds what the calling thread does beside it. */
static bool minds(const struct capture *c)
{
	const struct vcuda_thread *t = vcuda_thread();

	if (c->mode == CU_STREAM_CAPTURE_MODE_RELAXED || t->capture_mode == CU_STREAM_CAPTURE_MODE_RELAXED)
		return false;
	if (c->thread == t)
		return true;
	return c->mode == CU_STREAM_CAPTURE_MODE_GLOBAL && t->capture_mode == CU_STREAM_CAPTURE_MODE_GLOBAL;
}

static bool invalidate(bool (*which)(const struct capture *))
{
	bool any = false;

	for (struct capture *c = captures; c; c = c->next) {
		if (!which(c))
			continue;
		c->invalid = true;
		any = true;
	}
	return any;
}

CUresult vcuda_capture_unsafe(void)
{
	bool any;

	if (!vcuda_capture_any())
		return CUDA_SUCCESS;
	pthread_mutex_lock(&lock);
	any = invalidate(minds);
	pthread_mutex_unlock(&lock);
	return any ? CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED : CUDA_SUCCESS;
}

/* The legacy default stream waits for all blocking streams: work in it would be work of the capture. */
static bool minds_legacy(const struct capture *c)
{
	const struct vcuda_object *o = vcuda_object_find(VCUDA_OBJECT_STREAM, c->origin);

	return minds(c) && !(o && o->flags & CU_STREAM_NON_BLOCKING);
}

static CUresult add_node(struct capturing_stream *s, CUgraphNodeParams *p)
{
	struct vcuda_node *n;
	CUresult result;

	if (s->capture->invalid)
		return CUDA_ERROR_STREAM_CAPTURE_INVALIDATED;
	result = vcuda_graph_add(s->capture->graph, s->at.nodes, s->at.count, p, &n);
	if (result != CUDA_SUCCESS)
		return result;
	/* Where a launch says so: the structure has no member for it. */
	if (p->type == CU_GRAPH_NODE_TYPE_KERNEL)
		n->kernel.launch.cooperative = p->reserved0[0];
	frontier_free(&s->at);
	if (!frontier_add(&s->at, n))
		return CUDA_ERROR_OUT_OF_MEMORY;
	vcuda_node_get(n, p);
	return CUDA_SUCCESS;
}

bool vcuda_capture_takes(CUstream resolved, CUgraphNodeParams *p, CUresult *result)
{
	struct capturing_stream *s;
	bool taken;

	if (!vcuda_capture_any())
		return false;
	pthread_mutex_lock(&lock);
	s = find_stream(resolved);
	taken = s;
	if (s) {
		*result = add_node(s, p);
	} else if (is_legacy(resolved) && invalidate(minds_legacy)) {
		*result = CUDA_ERROR_STREAM_CAPTURE_IMPLICIT;
		taken = true;
	}
	pthread_mutex_unlock(&lock);
	return taken;
}

CUresult vcuda_capture_refuses(CUstream resolved)
{
	struct capturing_stream *s;
	CUresult result = CUDA_SUCCESS;

	if (!vcuda_capture_any())
		return CUDA_SUCCESS;
	pthread_mutex_lock(&lock);
	s = find_stream(resolved);
	if (s) {
		s->capture->invalid = true;
		result = CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
	} else if (is_legacy(resolved) && invalidate(minds_legacy)) {
		result = CUDA_ERROR_STREAM_CAPTURE_IMPLICIT;
	}
	pthread_mutex_unlock(&lock);
	return result;
}

/* ---- events ---- */

CUresult vcuda_capture_event_refuses(CUevent event)
{
	bool captured;

	if (!vcuda_capture_any())
		return CUDA_SUCCESS;
	pthread_mutex_lock(&lock);
	captured = find_event(event);
	pthread_mutex_unlock(&lock);
	return captured ? CUDA_ERROR_CAPTURED_EVENT : CUDA_SUCCESS;
}

static CUresult record(struct capturing_stream *s, CUevent event)
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
	frontier_free(&e->at);
	e->capture = s->capture;
	return frontier_join(&e->at, &s->at) ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
}

bool vcuda_capture_record(CUevent event, CUstream resolved, unsigned int flags, CUresult *result)
{
	CUgraphNodeParams p = {.type = CU_GRAPH_NODE_TYPE_EVENT_RECORD, .eventRecord = {event}};
	struct capturing_stream *s;

	if (!vcuda_capture_any())
		return false;
	if (flags & CU_EVENT_RECORD_EXTERNAL)
		return vcuda_capture_takes(resolved, &p, result);
	pthread_mutex_lock(&lock);
	s = find_stream(resolved);
	if (s)
		*result = record(s, event);
	/* Recorded outside it is an ordinary event again. */
	for (struct captured_event **at = &events; !s && *at; at = &(*at)->next) {
		if ((*at)->event != event)
			continue;
		forget_event(at);
		break;
	}
	pthread_mutex_unlock(&lock);
	return s;
}

static CUresult join(struct captured_event *e, CUstream resolved)
{
	struct capturing_stream *s = find_stream(resolved);

	if (e->capture->invalid)
		return CUDA_ERROR_STREAM_CAPTURE_INVALIDATED;
	if (s && s->capture != e->capture) {
		s->capture->invalid = e->capture->invalid = true;
		return CUDA_ERROR_STREAM_CAPTURE_MERGE;
	}
	if (!s && is_legacy(resolved)) {
		e->capture->invalid = true;
		return CUDA_ERROR_STREAM_CAPTURE_IMPLICIT;
	}
	if (!s)
		s = add_stream(resolved, e->capture);
	return s && frontier_join(&s->at, &e->at) ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
}

bool vcuda_capture_wait(CUevent event, CUstream resolved, unsigned int flags, CUresult *result)
{
	CUgraphNodeParams p = {.type = CU_GRAPH_NODE_TYPE_WAIT_EVENT, .eventWait = {event}};
	struct capturing_stream *s;
	struct captured_event *e;

	if (!vcuda_capture_any())
		return false;
	if (flags & CU_EVENT_WAIT_EXTERNAL)
		return vcuda_capture_takes(resolved, &p, result);
	pthread_mutex_lock(&lock);
	s = find_stream(resolved);
	e = find_event(event);
	if (e) {
		*result = join(e, resolved);
	} else if (s) {
		/* Work outside is nothing that a graph can wait for. */
		s->capture->invalid = true;
		*result = CUDA_ERROR_STREAM_CAPTURE_ISOLATION;
	}
	pthread_mutex_unlock(&lock);
	return e || s;
}

/* ---- the API ---- */

static CUresult begin(CUstream resolved, struct vcuda_graph *g, bool given, CUstreamCaptureMode mode,
		      const struct frontier *at)
{
	struct capturing_stream *s = find_stream(resolved);
	struct capture *c;

	if (s) {
		s->capture->invalid = true;
		return CUDA_ERROR_ILLEGAL_STATE;
	}
	c = calloc(1, sizeof(*c));
	if (!c)
		return CUDA_ERROR_OUT_OF_MEMORY;
	*c = (struct capture){
		.id = ++ids, .graph = g, .given = given, .mode = mode, .thread = vcuda_thread(), .origin = resolved};
	s = add_stream(resolved, c);
	if (!s || !frontier_join(&s->at, at)) {
		free(c);
		return CUDA_ERROR_OUT_OF_MEMORY;
	}
	c->next = captures;
	captures = c;
	atomic_fetch_add(&vcuda_captures, 1);
	return CUDA_SUCCESS;
}

static CUresult check_begin(CUstream *stream, CUstreamCaptureMode mode)
{
	CUresult result = vcuda_stream_enter(stream);

	if (result != CUDA_SUCCESS)
		return result;
	if ((unsigned int)mode > CU_STREAM_CAPTURE_MODE_RELAXED)
		return CUDA_ERROR_INVALID_VALUE;
	return is_legacy(*stream) ? CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED : CUDA_SUCCESS;
}

VCUDA_EXPORT CUresult cuStreamBeginCapture_v2(CUstream stream, CUstreamCaptureMode mode)
{
	CUresult result = check_begin(&stream, mode);
	struct vcuda_graph *g;

	if (result != CUDA_SUCCESS)
		return result;
	g = vcuda_graph_new();
	if (!g)
		return CUDA_ERROR_OUT_OF_MEMORY;
	pthread_mutex_lock(&lock);
	result = begin(stream, g, false, mode, &(struct frontier){0});
	pthread_mutex_unlock(&lock);
	if (result != CUDA_SUCCESS)
		vcuda_graph_free(g);
	return result;
}

VCUDA_EXPORT CUresult cuStreamBeginCapture(CUstream stream)
{
	return cuStreamBeginCapture_v2(stream, CU_STREAM_CAPTURE_MODE_GLOBAL);
}

/* Nodes of `g` as a frontier. */
static CUresult take_nodes(struct vcuda_graph *g, const CUgraphNode *handles, size_t count, struct frontier *f)
{
	if (count && !handles)
		return CUDA_ERROR_INVALID_VALUE;
	for (size_t i = 0; i < count; i++) {
		struct vcuda_node *n = vcuda_node_find(handles[i]);

		if (!n || n->graph != g)
			return CUDA_ERROR_INVALID_VALUE;
		if (!frontier_add(f, n))
			return CUDA_ERROR_OUT_OF_MEMORY;
	}
	return CUDA_SUCCESS;
}

VCUDA_EXPORT CUresult cuStreamBeginCaptureToGraph(CUstream stream, CUgraph graph, const CUgraphNode *deps,
						  const CUgraphEdgeData *data, size_t count, CUstreamCaptureMode mode)
{
	struct vcuda_graph *g = vcuda_graph_find(graph);
	CUresult result = check_begin(&stream, mode);
	struct frontier at = {0};

	(void)data;
	if (result == CUDA_SUCCESS)
		result = g ? take_nodes(g, deps, count, &at) : CUDA_ERROR_INVALID_VALUE;
	if (result == CUDA_SUCCESS) {
		pthread_mutex_lock(&lock);
		result = begin(stream, g, true, mode, &at);
		pthread_mutex_unlock(&lock);
	}
	frontier_free(&at);
	return result;
}

/* All that other streams of the capture have done must lead back into the one that began it. */
static bool joined(const struct capture *c, const struct capturing_stream *origin)
{
	for (const struct capturing_stream *s = streams; s; s = s->next)
		if (s->capture == c && s != origin &&
		    !vcuda_graph_all_before(c->graph, origin->at.nodes, origin->at.count, s->at.nodes, s->at.count))
			return false;
	return true;
}

static CUresult end_capture(CUstream resolved, CUgraph *graph)
{
	struct capturing_stream *s = find_stream(resolved);
	CUresult result = CUDA_SUCCESS;
	struct vcuda_graph *g;
	struct capture *c;
	bool given;

	if (!s)
		return CUDA_ERROR_ILLEGAL_STATE;
	c = s->capture;
	if (c->origin != resolved) {
		c->invalid = true;
		return CUDA_ERROR_STREAM_CAPTURE_UNMATCHED;
	}
	if (c->mode != CU_STREAM_CAPTURE_MODE_RELAXED && c->thread != vcuda_thread())
		return CUDA_ERROR_STREAM_CAPTURE_WRONG_THREAD;
	if (c->invalid)
		result = CUDA_ERROR_STREAM_CAPTURE_INVALIDATED;
	else if (!joined(c, s))
		result = CUDA_ERROR_STREAM_CAPTURE_UNJOINED;
	g = c->graph;
	given = c->given;
	end(c);
	*graph = result == CUDA_SUCCESS ? g->handle : NULL;
	if (result != CUDA_SUCCESS && !given)
		vcuda_graph_free(g);
	return result;
}

VCUDA_EXPORT CUresult cuStreamEndCapture(CUstream stream, CUgraph *graph)
{
	CUresult result = vcuda_stream_enter(&stream);

	if (result != CUDA_SUCCESS)
		return result;
	if (!graph)
		return CUDA_ERROR_INVALID_VALUE;
	pthread_mutex_lock(&lock);
	result = end_capture(stream, graph);
	pthread_mutex_unlock(&lock);
	return result;
}

VCUDA_EXPORT CUresult cuStreamGetCaptureInfo_v3(CUstream stream, CUstreamCaptureStatus *status, cuuint64_t *id,
						CUgraph *graph, const CUgraphNode **nodes,
						const CUgraphEdgeData **edges, size_t *count)
{
	CUresult result = vcuda_stream_enter(&stream);
	struct capturing_stream *s;

	if (result != CUDA_SUCCESS)
		return result;
	if (!status)
		return CUDA_ERROR_INVALID_VALUE;
	if (edges)
		*edges = NULL;
	pthread_mutex_lock(&lock);
	s = find_stream(stream);
	if (!s)
		*status = CU_STREAM_CAPTURE_STATUS_NONE;
	else
		*status = s->capture->invalid ? CU_STREAM_CAPTURE_STATUS_INVALIDATED : CU_STREAM_CAPTURE_STATUS_ACTIVE;
	if (*status == CU_STREAM_CAPTURE_STATUS_ACTIVE) {
		if (id)
			*id = s->capture->id;
		if (graph)
			*graph = s->capture->graph->handle;
		if (nodes)
			*nodes = s->at.handles;
		if (count)
			*count = s->at.count;
	}
	pthread_mutex_unlock(&lock);
	return CUDA_SUCCESS;
}

VCUDA_EXPORT CUresult cuStreamGetCaptureInfo_v2(CUstream stream, CUstreamCaptureStatus *status, cuuint64_t *id,
						CUgraph *graph, const CUgraphNode **nodes, size_t *count)
{
	return cuStreamGetCaptureInfo_v3(stream, status, id, graph, nodes, NULL, count);
}

VCUDA_EXPORT CUresult cuStreamGetCaptureInfo(CUstream stream, CUstreamCaptureStatus *status, cuuint64_t *id)
{
	return cuStreamGetCaptureInfo_v3(stream, status, id, NULL, NULL, NULL, NULL);
}

VCUDA_EXPORT CUresult cuStreamIsCapturing(CUstream stream, CUstreamCaptureStatus *status)
{
	return cuStreamGetCaptureInfo_v3(stream, status, NULL, NULL, NULL, NULL, NULL);
}

VCUDA_EXPORT CUresult cuStreamUpdateCaptureDependencies_v2(CUstream stream, CUgraphNode *nodes,
							   const CUgraphEdgeData *data, size_t count,
							   unsigned int flags)
{
	CUresult result = vcuda_stream_enter(&stream);
	struct capturing_stream *s;
	struct frontier at = {0};

	(void)data;
	if (result != CUDA_SUCCESS)
		return result;
	if (flags > CU_STREAM_SET_CAPTURE_DEPENDENCIES)
		return CUDA_ERROR_INVALID_VALUE;
	pthread_mutex_lock(&lock);
	s = find_stream(stream);
	result = s ? take_nodes(s->capture->graph, nodes, count, &at) : CUDA_ERROR_ILLEGAL_STATE;
	if (result == CUDA_SUCCESS) {
		if (flags == CU_STREAM_SET_CAPTURE_DEPENDENCIES)
			frontier_free(&s->at);
		if (!frontier_join(&s->at, &at))
			result = CUDA_ERROR_OUT_OF_MEMORY;
	}
	pthread_mutex_unlock(&lock);
	frontier_free(&at);
	return result;
}

VCUDA_EXPORT CUresult cuStreamUpdateCaptureDependencies(CUstream stream, CUgraphNode *nodes, size_t count,
							unsigned int flags)
{
	return cuStreamUpdateCaptureDependencies_v2(stream, nodes, NULL, count, flags);
}

VCUDA_EXPORT CUresult cuThreadExchangeStreamCaptureMode(CUstreamCaptureMode *mode)
{
	struct vcuda_thread *t = vcuda_thread();
	CUresult result = vcuda_require_init();
	CUstreamCaptureMode old = t->capture_mode;

	if (result != CUDA_SUCCESS)
		return result;
	if (!mode || (unsigned int)*mode > CU_STREAM_CAPTURE_MODE_RELAXED)
		return CUDA_ERROR_INVALID_VALUE;
	t->capture_mode = *mode;
	*mode = old;
	return CUDA_SUCCESS;
}

VCUDA_EXPORT CUresult cuStreamBeginCapture_ptsz(CUstream stream)
{
	return cuStreamBeginCapture(VCUDA_PER_THREAD(stream));
}

#define PER_THREAD(name, decl, ...)                                                                                    \
	VCUDA_EXPORT CUresult name##_ptsz decl                                                                         \
	{                                                                                                              \
		return name(VCUDA_PER_THREAD(stream), __VA_ARGS__);                                                    \
	}

/* clang-format off */
PER_THREAD(cuStreamBeginCapture_v2, (CUstream stream, CUstreamCaptureMode mode), mode)
PER_THREAD(cuStreamBeginCaptureToGraph, (CUstream stream, CUgraph graph, const CUgraphNode *deps,
	   const CUgraphEdgeData *data, size_t count, CUstreamCaptureMode mode), graph, deps, data, count, mode)
PER_THREAD(cuStreamEndCapture, (CUstream stream, CUgraph *graph), graph)
PER_THREAD(cuStreamUpdateCaptureDependencies, (CUstream stream, CUgraphNode *nodes, size_t count, unsigned int flags),
	   nodes, count, flags)
PER_THREAD(cuStreamUpdateCaptureDependencies_v2, (CUstream stream, CUgraphNode *nodes, const CUgraphEdgeData *data,
	   size_t count, unsigned int flags), nodes, data, count, flags)
PER_THREAD(cuStreamIsCapturing, (CUstream stream, CUstreamCaptureStatus *status), status)
PER_THREAD(cuStreamGetCaptureInfo, (CUstream stream, CUstreamCaptureStatus *status, cuuint64_t *id), status, id)
PER_THREAD(cuStreamGetCaptureInfo_v2, (CUstream stream, CUstreamCaptureStatus *status, cuuint64_t *id, CUgraph *graph,
	   const CUgraphNode **nodes, size_t *count), status, id, graph, nodes, count)
PER_THREAD(cuStreamGetCaptureInfo_v3, (CUstream stream, CUstreamCaptureStatus *status, cuuint64_t *id, CUgraph *graph,
	   const CUgraphNode **nodes, const CUgraphEdgeData **edges, size_t *count),
	   status, id, graph, nodes, edges, count)
/* clang-format on */
