/* SPDX-License-Identifier: Apache-2.0 */
#include "core/capture.h"
#include "core/request.h"
#include "stream/callback.h"
#include "protocol/cuda-functions.h"
#include "stream/stream.h"

static CUresult launch_function(const struct call_options *how, CUstream resolved, CUhostFn function, void *user)
{
	CUgraphNodeParams p = {.type = CU_GRAPH_NODE_TYPE_HOST, .host = {function, user}};
	CUresult result;

	if (!function)
		return CUDA_ERROR_INVALID_VALUE;
	return libcuda_capture_takes(how, resolved, &p, &result)
		       ? result
		       : libcuda_callback_launch(how, resolved, function, user);
}

VCUDA_EXPORT CUresult cuLaunchHostFunc(CUstream stream, CUhostFn function, void *user)
{
	struct call_options how;
	CUresult result = libcuda_stream_visit(&stream, &how);

	if (result != CUDA_SUCCESS)
		return result;
	return launch_function(&how, stream, function, user);
}
