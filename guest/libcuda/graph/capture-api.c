/* SPDX-License-Identifier: Apache-2.0 */
/* The functions of the API that begin, end, ask about and change captures. */
#include "core/request.h"
#include "graph/capture-state.h"
#include "core/capture.h"
#include "graph/graph.h"
#include "stream/stream.h"
#include "core/thread.h"
#include "protocol/cuda-functions.h"

static CUresult check_begin(CUstream *stream, CUstreamCaptureMode mode)
{
	CUresult result = libcuda_stream_enter(stream);

	if (result != CUDA_SUCCESS)
		return result;
	if ((unsigned int)mode > CU_STREAM_CAPTURE_MODE_RELAXED)
		return CUDA_ERROR_INVALID_VALUE;
	return libcuda_capture_is_legacy(*stream) ? CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED : CUDA_SUCCESS;
}

VCUDA_EXPORT CUresult cuStreamBeginCapture_v2(CUstream stream, CUstreamCaptureMode mode)
{
	CUresult result = check_begin(&stream, mode);
	struct libcuda_graph *g;

	if (result != CUDA_SUCCESS)
		return result;
	g = libcuda_graph_new();
	if (!g)
		return CUDA_ERROR_OUT_OF_MEMORY;
	libcuda_capture_lock();
	result = libcuda_capture_begin(stream, g, false, mode, &(struct libcuda_frontier){0});
	libcuda_capture_unlock();
	if (result != CUDA_SUCCESS)
		libcuda_graph_free(g);
	return result;
}

VCUDA_EXPORT CUresult cuStreamBeginCapture(CUstream stream)
{
	return cuStreamBeginCapture_v2(stream, CU_STREAM_CAPTURE_MODE_GLOBAL);
}

/* Nodes of `g` as a frontier. */
static CUresult take_nodes(struct libcuda_graph *g, const CUgraphNode *handles, size_t count,
			   struct libcuda_frontier *f)
{
	if (count && !handles)
		return CUDA_ERROR_INVALID_VALUE;
	for (size_t i = 0; i < count; i++) {
		struct libcuda_node *n = libcuda_node_find(handles[i]);

		if (!n || n->graph != g)
			return CUDA_ERROR_INVALID_VALUE;
		if (!libcuda_frontier_add(f, n))
			return CUDA_ERROR_OUT_OF_MEMORY;
	}
	return CUDA_SUCCESS;
}

VCUDA_EXPORT CUresult cuStreamBeginCaptureToGraph(CUstream stream, CUgraph graph, const CUgraphNode *deps,
						  const CUgraphEdgeData *data, size_t count, CUstreamCaptureMode mode)
{
	struct libcuda_graph *g = libcuda_graph_find(graph);
	CUresult result = check_begin(&stream, mode);
	struct libcuda_frontier at = {0};

	(void)data;
	if (result == CUDA_SUCCESS)
		result = g ? take_nodes(g, deps, count, &at) : CUDA_ERROR_INVALID_VALUE;
	if (result == CUDA_SUCCESS && libcuda_capture_has_graph(g))
		result = CUDA_ERROR_ILLEGAL_STATE;
	if (result == CUDA_SUCCESS) {
		libcuda_capture_lock();
		result = libcuda_capture_begin(stream, g, true, mode, &at);
		libcuda_capture_unlock();
	}
	libcuda_frontier_free(&at);
	return result;
}

VCUDA_EXPORT CUresult cuStreamEndCapture(CUstream stream, CUgraph *graph)
{
	CUresult result = libcuda_stream_enter(&stream);
	CUgraph unasked;

	if (result != CUDA_SUCCESS)
		return result;
	libcuda_capture_lock();
	/* Programs that capture into a graph of theirs do not ask for it. */
	result = graph || libcuda_capture_is_given(stream) ? libcuda_capture_end(stream, graph ? graph : &unasked)
							   : CUDA_ERROR_INVALID_VALUE;
	libcuda_capture_unlock();
	return result;
}

VCUDA_EXPORT CUresult cuStreamGetCaptureInfo_v3(CUstream stream, CUstreamCaptureStatus *status, cuuint64_t *id,
						CUgraph *graph, const CUgraphNode **nodes,
						const CUgraphEdgeData **edges, size_t *count)
{
	CUresult result = libcuda_stream_enter(&stream);
	struct libcuda_capturing *s;

	if (result != CUDA_SUCCESS)
		return result;
	if (!status)
		return CUDA_ERROR_INVALID_VALUE;
	if (edges)
		*edges = NULL;
	libcuda_capture_lock();
	s = libcuda_capturing_find(stream);
	if (!s && libcuda_capture_blocks(libcuda_context_current(), stream)) {
		libcuda_capture_unlock();
		return CUDA_ERROR_STREAM_CAPTURE_IMPLICIT;
	}
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
	libcuda_capture_unlock();
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
	CUresult result = libcuda_stream_enter(&stream);
	struct libcuda_capturing *s;
	struct libcuda_frontier at = {0};

	(void)data;
	if (result != CUDA_SUCCESS)
		return result;
	if (flags > CU_STREAM_SET_CAPTURE_DEPENDENCIES)
		return CUDA_ERROR_INVALID_VALUE;
	libcuda_capture_lock();
	s = libcuda_capturing_find(stream);
	result = s ? take_nodes(s->capture->graph, nodes, count, &at) : CUDA_ERROR_ILLEGAL_STATE;
	if (result == CUDA_SUCCESS) {
		if (flags == CU_STREAM_SET_CAPTURE_DEPENDENCIES) {
			/* So the driver does, even for a node that stays. */
			for (size_t i = 0; i < s->at.count; i++)
				s->at.nodes[i]->must_join = 0;
			libcuda_frontier_free(&s->at);
		}
		if (!libcuda_frontier_join(&s->at, &at))
			result = CUDA_ERROR_OUT_OF_MEMORY;
	}
	libcuda_capture_unlock();
	libcuda_frontier_free(&at);
	return result;
}

VCUDA_EXPORT CUresult cuStreamUpdateCaptureDependencies(CUstream stream, CUgraphNode *nodes, size_t count,
							unsigned int flags)
{
	return cuStreamUpdateCaptureDependencies_v2(stream, nodes, NULL, count, flags);
}

VCUDA_EXPORT CUresult cuThreadExchangeStreamCaptureMode(CUstreamCaptureMode *mode)
{
	struct libcuda_thread *t = libcuda_thread();
	CUresult result = libcuda_require_init();
	CUstreamCaptureMode old = libcuda_capture_thread_mode(t);

	if (result != CUDA_SUCCESS)
		return result;
	if (!mode || (unsigned int)*mode > CU_STREAM_CAPTURE_MODE_RELAXED)
		return CUDA_ERROR_INVALID_VALUE;
	t->slots[LIBCUDA_THREAD_GRAPH] = (void *)(uintptr_t)*mode;
	*mode = old;
	return CUDA_SUCCESS;
}
