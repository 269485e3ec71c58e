/* SPDX-License-Identifier: Apache-2.0 */
/* Stream capture: there is none yet, and these say so truthfully. Beginning one is refused (unsupported functions). */
#include "call.h"
#include "stream.h"
#include "thread.h"

VCUDA_EXPORT CUresult cuStreamIsCapturing(CUstream stream, CUstreamCaptureStatus *status)
{
	CUresult result = vcuda_stream_enter(&stream);

	if (result != CUDA_SUCCESS)
		return result;
	if (!status)
		return CUDA_ERROR_INVALID_VALUE;
	*status = CU_STREAM_CAPTURE_STATUS_NONE;
	return CUDA_SUCCESS;
}

/* All versions: with no capture only the status is given. */
static CUresult capture_info(CUstream stream, CUstreamCaptureStatus *status)
{
	return cuStreamIsCapturing(stream, status);
}

VCUDA_EXPORT CUresult cuStreamGetCaptureInfo(CUstream stream, CUstreamCaptureStatus *status, cuuint64_t *id)
{
	return capture_info(stream, status);
}

VCUDA_EXPORT CUresult cuStreamGetCaptureInfo_v2(CUstream stream, CUstreamCaptureStatus *status, cuuint64_t *id,
						CUgraph *graph, const CUgraphNode **nodes, size_t *count)
{
	return capture_info(stream, status);
}

VCUDA_EXPORT CUresult cuStreamGetCaptureInfo_v3(CUstream stream, CUstreamCaptureStatus *status, cuuint64_t *id,
						CUgraph *graph, const CUgraphNode **nodes,
						const CUgraphEdgeData **edges, size_t *count)
{
	return capture_info(stream, status);
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

#define PER_THREAD(name, decl, ...)                                                                                    \
	VCUDA_EXPORT CUresult name##_ptsz decl                                                                         \
	{                                                                                                              \
		return name(VCUDA_PER_THREAD(stream), __VA_ARGS__);                                                    \
	}

/* clang-format off */
PER_THREAD(cuStreamIsCapturing, (CUstream stream, CUstreamCaptureStatus *status), status)
PER_THREAD(cuStreamGetCaptureInfo, (CUstream stream, CUstreamCaptureStatus *status, cuuint64_t *id), status, id)
PER_THREAD(cuStreamGetCaptureInfo_v2, (CUstream stream, CUstreamCaptureStatus *status, cuuint64_t *id, CUgraph *graph,
	   const CUgraphNode **nodes, size_t *count), status, id, graph, nodes, count)
PER_THREAD(cuStreamGetCaptureInfo_v3, (CUstream stream, CUstreamCaptureStatus *status, cuuint64_t *id, CUgraph *graph,
	   const CUgraphNode **nodes, const CUgraphEdgeData **edges, size_t *count),
	   status, id, graph, nodes, edges, count)
/* clang-format on */
