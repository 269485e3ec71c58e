/* SPDX-License-Identifier: Apache-2.0 */
/* Graphs and captures as CUDA 10 to 12 had them: edges without data, and other parameters. */
#include "runtime.h"

/* ---- edges ---- */

CUDART_API cudaError_t cudaGraphGetEdges_12(cudaGraph_t graph, cudaGraphNode_t *from, cudaGraphNode_t *to,
					    size_t *count)
{
	CUDART_CALL(cuGraphGetEdges_v2(graph, from, to, NULL, count));
}

CUDART_API cudaError_t cudaGraphNodeGetDependencies_12(cudaGraphNode_t node, cudaGraphNode_t *nodes, size_t *count)
{
	CUDART_CALL(cuGraphNodeGetDependencies_v2(node, nodes, NULL, count));
}

CUDART_API cudaError_t cudaGraphNodeGetDependentNodes_12(cudaGraphNode_t node, cudaGraphNode_t *nodes, size_t *count)
{
	CUDART_CALL(cuGraphNodeGetDependentNodes_v2(node, nodes, NULL, count));
}

CUDART_API cudaError_t cudaGraphAddDependencies_12(cudaGraph_t graph, const cudaGraphNode_t *from,
						   const cudaGraphNode_t *to, size_t count)
{
	CUDART_CALL(cuGraphAddDependencies_v2(graph, from, to, NULL, count));
}

CUDART_API cudaError_t cudaGraphRemoveDependencies_12(cudaGraph_t graph, const cudaGraphNode_t *from,
						      const cudaGraphNode_t *to, size_t count)
{
	CUDART_CALL(cuGraphRemoveDependencies_v2(graph, from, to, NULL, count));
}

/* ---- executable graphs ---- */

/* The log is empty: errors are told by their numbers. */
CUDART_API cudaError_t cudaGraphInstantiate_11(cudaGraphExec_t *exec, cudaGraph_t graph, cudaGraphNode_t *error_node,
					       char *log, size_t log_bytes)
{
	CUDA_GRAPH_INSTANTIATE_PARAMS params = {0};
	CUresult result;

	CUDART_TRY(cudart_enter());
	if (log && log_bytes)
		*log = '\0';
	result = cuGraphInstantiateWithParams(exec, graph, &params);
	if (error_node)
		*error_node = params.hErrNode_out;
	return cudart_result(result);
}

CUDART_API cudaError_t cudaGraphExecUpdate_11(cudaGraphExec_t exec, cudaGraph_t graph, cudaGraphNode_t *error_node,
					      enum cudaGraphExecUpdateResult *update)
{
	CUgraphExecUpdateResultInfo info = {0};
	CUresult result;

	CUDART_TRY(cudart_enter());
	result = cuGraphExecUpdate_v2(exec, graph, &info);
	if (error_node)
		*error_node = info.errorNode;
	if (update)
		*update = (enum cudaGraphExecUpdateResult)info.result;
	return cudart_result(result);
}

/* ---- captures ---- */

/* CUDA 10.0 knew one mode, which is today's global one. */
CUDART_API cudaError_t cudaStreamBeginCapture_10(cudaStream_t stream)
{
	CUDART_CALL(cuStreamBeginCapture_v2(stream, CU_STREAM_CAPTURE_MODE_GLOBAL));
}

CUDART_API cudaError_t cudaStreamBeginCapture_10_ptsz(cudaStream_t stream)
{
	return cudaStreamBeginCapture_10(cudart_per_thread(stream));
}

CUDART_API cudaError_t cudaStreamGetCaptureInfo_v2(cudaStream_t stream, enum cudaStreamCaptureStatus *status,
						   unsigned long long *id, cudaGraph_t *graph,
						   const cudaGraphNode_t **dependencies, size_t *count)
{
	CUDART_CALL(cuStreamGetCaptureInfo_v3(stream, (CUstreamCaptureStatus *)status, (cuuint64_t *)id, graph,
					      dependencies, NULL, count));
}

CUDART_API cudaError_t cudaStreamGetCaptureInfo_v2_ptsz(cudaStream_t stream, enum cudaStreamCaptureStatus *status,
							unsigned long long *id, cudaGraph_t *graph,
							const cudaGraphNode_t **dependencies, size_t *count)
{
	return cudaStreamGetCaptureInfo_v2(cudart_per_thread(stream), status, id, graph, dependencies, count);
}

CUDART_API cudaError_t cudaStreamGetCaptureInfo_12(cudaStream_t stream, enum cudaStreamCaptureStatus *status,
						   unsigned long long *id)
{
	return cudaStreamGetCaptureInfo_v2(stream, status, id, NULL, NULL, NULL);
}

CUDART_API cudaError_t cudaStreamGetCaptureInfo_12_ptsz(cudaStream_t stream, enum cudaStreamCaptureStatus *status,
							unsigned long long *id)
{
	return cudaStreamGetCaptureInfo_12(cudart_per_thread(stream), status, id);
}

CUDART_API cudaError_t cudaStreamUpdateCaptureDependencies_12(cudaStream_t stream, cudaGraphNode_t *nodes, size_t count,
							      unsigned int flags)
{
	CUDART_CALL(cuStreamUpdateCaptureDependencies_v2(stream, nodes, NULL, count, flags));
}

CUDART_API cudaError_t cudaStreamUpdateCaptureDependencies_12_ptsz(cudaStream_t stream, cudaGraphNode_t *nodes,
								   size_t count, unsigned int flags)
{
	return cudaStreamUpdateCaptureDependencies_12(cudart_per_thread(stream), nodes, count, flags);
}
