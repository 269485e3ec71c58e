/* SPDX-License-Identifier: Apache-2.0 */
#include "core/capture.h"
#include "core/request.h"
#include "stream/callback.h"
#include "protocol/cuda-functions.h"
#include "stream/stream.h"

static CUresult launch_function(CUstream resolved, CUhostFn function, void *user)
{
	CUgraphNodeParams p = {.type = CU_GRAPH_NODE_TYPE_HOST, .host = {function, user}};
	CUresult result;

	if (!function)
		return CUDA_ERROR_INVALID_VALUE;
	return vcuda_capture_takes(resolved, &p, &result) ? result : vcuda_callback_launch(resolved, function, user);
}

VCUDA_EXPORT CUresult cuLaunchHostFunc(CUstream stream, CUhostFn function, void *user)
{
	struct vcuda_context *before;
	CUresult result = vcuda_stream_visit(&stream, &before);

	if (result != CUDA_SUCCESS)
		return result;
	result = launch_function(stream, function, user);
	vcuda_stream_return(before);
	return result;
}
