/* SPDX-License-Identifier: Apache-2.0 */
#include "copy/peer.h"

#include "core/capture.h"
#include "core/context.h"
#include "core/request.h"
#include "protocol/cuda-functions.h"
#include "stream/stream.h"

CUresult cuCtxSynchronize_v2(CUcontext ctx);
CUresult cuStreamSynchronize(CUstream stream);

static bool is_other(CUcontext handle)
{
	return handle && handle != libcuda_context_handle(libcuda_context_current());
}

static CUresult refuse_capture(CUstream stream)
{
	struct call_options how;
	CUresult result = libcuda_stream_visit(&stream, &how);

	return result == CUDA_SUCCESS ? libcuda_capture_refuses(libcuda_request_context(&how), stream) : result;
}

CUresult libcuda_peer_begin(CUcontext to, CUcontext from, CUstream stream, bool async)
{
	CUresult result = CUDA_SUCCESS;

	if ((to && !libcuda_context_find(to)) || (from && !libcuda_context_find(from)))
		return CUDA_ERROR_INVALID_CONTEXT;
	if (async)
		return libcuda_capture_any() ? refuse_capture(stream) : CUDA_SUCCESS;
	if (is_other(to))
		result = cuCtxSynchronize_v2(to);
	if (result == CUDA_SUCCESS && is_other(from) && from != to)
		result = cuCtxSynchronize_v2(from);
	return result;
}

CUresult libcuda_peer_end(CUcontext to, CUcontext from, CUstream stream, CUresult result)
{
	if (result != CUDA_SUCCESS || (!is_other(to) && !is_other(from)))
		return result;
	return cuStreamSynchronize(stream);
}
