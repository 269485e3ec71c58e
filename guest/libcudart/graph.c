/* SPDX-License-Identifier: Apache-2.0 */
/* Graphs: their nodes' parameters in the runtime's form; the graphs themselves are the driver's. */
#include <string.h>

#include "order.h"
#include "register.h"

_Static_assert(sizeof(struct cudaMemAllocNodeParams) == sizeof(CUDA_MEM_ALLOC_NODE_PARAMS), "one layout");
_Static_assert(sizeof(struct cudaMemsetParams) == sizeof(CUDA_MEMSET_NODE_PARAMS), "one layout");
_Static_assert(sizeof(struct cudaHostNodeParams) == sizeof(CUDA_HOST_NODE_PARAMS), "one layout");
_Static_assert(sizeof(cudaGraphExecUpdateResultInfo) == sizeof(CUgraphExecUpdateResultInfo), "one layout");
_Static_assert(sizeof(cudaGraphInstantiateParams) == sizeof(CUDA_GRAPH_INSTANTIATE_PARAMS), "one layout");
_Static_assert(sizeof(cudaGraphEdgeData) == sizeof(CUgraphEdgeData), "one layout");

#define EDGES(data) ((const CUgraphEdgeData *)(data))

/* The node functions below take a context where they name memory: the current one. */
static CUcontext context(void)
{
	CUcontext c = NULL;

	cuCtxGetCurrent(&c);
	return c;
}

/* ---- graphs ---- */

CUDART_API cudaError_t cudaGraphCreate(cudaGraph_t *graph, unsigned int flags)
{
	CUDART_CALL(cuGraphCreate(graph, flags));
}

CUDART_API cudaError_t cudaGraphDestroy(cudaGraph_t graph)
{
	CUDART_CALL(cuGraphDestroy(graph));
}

CUDART_API cudaError_t cudaGraphClone(cudaGraph_t *clone, cudaGraph_t graph)
{
	CUDART_CALL(cuGraphClone(clone, graph));
}

CUDART_API cudaError_t cudaGraphNodeFindInClone(cudaGraphNode_t *node, cudaGraphNode_t original, cudaGraph_t clone)
{
	CUDART_CALL(cuGraphNodeFindInClone(node, original, clone));
}

CUDART_API cudaError_t cudaGraphDestroyNode(cudaGraphNode_t node)
{
	CUDART_CALL(cuGraphDestroyNode(node));
}

CUDART_API cudaError_t cudaGraphNodeGetType(cudaGraphNode_t node, enum cudaGraphNodeType *type)
{
	CUDART_CALL(cuGraphNodeGetType(node, (CUgraphNodeType *)type));
}

CUDART_API cudaError_t cudaGraphGetNodes(cudaGraph_t graph, cudaGraphNode_t *nodes, size_t *count)
{
	CUDART_CALL(cuGraphGetNodes(graph, nodes, count));
}

CUDART_API cudaError_t cudaGraphGetRootNodes(cudaGraph_t graph, cudaGraphNode_t *nodes, size_t *count)
{
	CUDART_CALL(cuGraphGetRootNodes(graph, nodes, count));
}

CUDART_API cudaError_t cudaGraphGetEdges_v2(cudaGraph_t graph, cudaGraphNode_t *from, cudaGraphNode_t *to,
					    cudaGraphEdgeData *data, size_t *count)
{
	CUDART_CALL(cuGraphGetEdges_v2(graph, from, to, (CUgraphEdgeData *)data, count));
}

CUDART_API cudaError_t cudaGraphNodeGetDependencies_v2(cudaGraphNode_t node, cudaGraphNode_t *nodes,
						       cudaGraphEdgeData *data, size_t *count)
{
	CUDART_CALL(cuGraphNodeGetDependencies_v2(node, nodes, (CUgraphEdgeData *)data, count));
}

CUDART_API cudaError_t cudaGraphNodeGetDependentNodes_v2(cudaGraphNode_t node, cudaGraphNode_t *nodes,
							 cudaGraphEdgeData *data, size_t *count)
{
	CUDART_CALL(cuGraphNodeGetDependentNodes_v2(node, nodes, (CUgraphEdgeData *)data, count));
}

CUDART_API cudaError_t cudaGraphAddDependencies_v2(cudaGraph_t graph, const cudaGraphNode_t *from,
						   const cudaGraphNode_t *to, const cudaGraphEdgeData *data,
						   size_t count)
{
	CUDART_CALL(cuGraphAddDependencies_v2(graph, from, to, EDGES(data), count));
}

CUDART_API cudaError_t cudaGraphRemoveDependencies_v2(cudaGraph_t graph, const cudaGraphNode_t *from,
						      const cudaGraphNode_t *to, const cudaGraphEdgeData *data,
						      size_t count)
{
	CUDART_CALL(cuGraphRemoveDependencies_v2(graph, from, to, EDGES(data), count));
}

/* ---- executable graphs ---- */

CUDART_API cudaError_t cudaGraphInstantiateWithFlags(cudaGraphExec_t *exec, cudaGraph_t graph, unsigned long long flags)
{
	CUDART_CALL(cuGraphInstantiateWithFlags(exec, graph, flags));
}

CUDART_API cudaError_t cudaGraphInstantiate(cudaGraphExec_t *exec, cudaGraph_t graph, unsigned long long flags)
{
	return cudaGraphInstantiateWithFlags(exec, graph, flags);
}

CUDART_API cudaError_t cudaGraphInstantiateWithParams(cudaGraphExec_t *exec, cudaGraph_t graph,
						      cudaGraphInstantiateParams *params)
{
	CUDART_CALL(cuGraphInstantiateWithParams(exec, graph, (CUDA_GRAPH_INSTANTIATE_PARAMS *)params));
}

CUDART_API cudaError_t cudaGraphInstantiateWithParams_ptsz(cudaGraphExec_t *exec, cudaGraph_t graph,
							   cudaGraphInstantiateParams *params)
{
	return cudaGraphInstantiateWithParams(exec, graph, params);
}

CUDART_API cudaError_t cudaGraphLaunch(cudaGraphExec_t exec, cudaStream_t stream)
{
	CUDART_CALL(cuGraphLaunch(exec, stream));
}

CUDART_API cudaError_t cudaGraphLaunch_ptsz(cudaGraphExec_t exec, cudaStream_t stream)
{
	return cudaGraphLaunch(exec, cudart_per_thread(stream));
}

CUDART_API cudaError_t cudaGraphUpload(cudaGraphExec_t exec, cudaStream_t stream)
{
	CUDART_CALL(cuGraphUpload(exec, stream));
}

CUDART_API cudaError_t cudaGraphUpload_ptsz(cudaGraphExec_t exec, cudaStream_t stream)
{
	return cudaGraphUpload(exec, cudart_per_thread(stream));
}

CUDART_API cudaError_t cudaGraphExecDestroy(cudaGraphExec_t exec)
{
	CUDART_CALL(cuGraphExecDestroy(exec));
}

CUDART_API cudaError_t cudaGraphExecGetFlags(cudaGraphExec_t exec, unsigned long long *flags)
{
	CUDART_CALL(cuGraphExecGetFlags(exec, (cuuint64_t *)flags));
}

CUDART_API cudaError_t cudaGraphExecUpdate(cudaGraphExec_t exec, cudaGraph_t graph, cudaGraphExecUpdateResultInfo *info)
{
	CUDART_CALL(cuGraphExecUpdate_v2(exec, graph, (CUgraphExecUpdateResultInfo *)info));
}

CUDART_API cudaError_t cudaGraphNodeSetEnabled(cudaGraphExec_t exec, cudaGraphNode_t node, unsigned int enabled)
{
	CUDART_CALL(cuGraphNodeSetEnabled(exec, node, enabled));
}

CUDART_API cudaError_t cudaGraphNodeGetEnabled(cudaGraphExec_t exec, cudaGraphNode_t node, unsigned int *enabled)
{
	CUDART_CALL(cuGraphNodeGetEnabled(exec, node, enabled));
}

/* ---- kernels ---- */

static cudaError_t kernel_params(const struct cudaKernelNodeParams *p, CUDA_KERNEL_NODE_PARAMS *to)
{
	if (!p)
		return cudaErrorInvalidValue;
	*to = (CUDA_KERNEL_NODE_PARAMS){
		.gridDimX = p->gridDim.x,
		.gridDimY = p->gridDim.y,
		.gridDimZ = p->gridDim.z,
		.blockDimX = p->blockDim.x,
		.blockDimY = p->blockDim.y,
		.blockDimZ = p->blockDim.z,
		.sharedMemBytes = p->sharedMemBytes,
		.kernelParams = p->kernelParams,
		.extra = p->extra,
	};
	return cudart_launchable(p->func, &to->func);
}

CUDART_API cudaError_t cudaGraphAddKernelNode(cudaGraphNode_t *node, cudaGraph_t graph, const cudaGraphNode_t *deps,
					      size_t count, const struct cudaKernelNodeParams *params)
{
	CUDA_KERNEL_NODE_PARAMS p;

	CUDART_TRY(cudart_enter());
	CUDART_TRY(kernel_params(params, &p));
	return cudart_result(cuGraphAddKernelNode_v2(node, graph, deps, count, &p));
}

CUDART_API cudaError_t cudaGraphKernelNodeSetParams(cudaGraphNode_t node, const struct cudaKernelNodeParams *params)
{
	CUDA_KERNEL_NODE_PARAMS p;

	CUDART_TRY(cudart_enter());
	CUDART_TRY(kernel_params(params, &p));
	return cudart_result(cuGraphKernelNodeSetParams_v2(node, &p));
}

CUDART_API cudaError_t cudaGraphExecKernelNodeSetParams(cudaGraphExec_t exec, cudaGraphNode_t node,
							const struct cudaKernelNodeParams *params)
{
	CUDA_KERNEL_NODE_PARAMS p;

	CUDART_TRY(cudart_enter());
	CUDART_TRY(kernel_params(params, &p));
	return cudart_result(cuGraphExecKernelNodeSetParams_v2(exec, node, &p));
}

/* The function is the kernel's handle, which all calls take in a host function's place. */
CUDART_API cudaError_t cudaGraphKernelNodeGetParams(cudaGraphNode_t node, struct cudaKernelNodeParams *params)
{
	CUDA_KERNEL_NODE_PARAMS p;

	CUDART_TRY(cudart_enter());
	CUDART_TRY((cudaError_t)cuGraphKernelNodeGetParams_v2(node, &p));
	if (!params)
		return cudart_record(cudaErrorInvalidValue);
	*params = (struct cudaKernelNodeParams){
		.func = p.func,
		.gridDim = {p.gridDimX, p.gridDimY, p.gridDimZ},
		.blockDim = {p.blockDimX, p.blockDimY, p.blockDimZ},
		.sharedMemBytes = p.sharedMemBytes,
		.kernelParams = p.kernelParams,
		.extra = p.extra,
	};
	return cudaSuccess;
}

CUDART_API cudaError_t cudaGraphKernelNodeSetAttribute(cudaGraphNode_t node, cudaLaunchAttributeID attribute,
						       const cudaLaunchAttributeValue *value)
{
	CUDART_CALL(cuGraphKernelNodeSetAttribute(node, (CUkernelNodeAttrID)attribute,
						  (const CUkernelNodeAttrValue *)value));
}

CUDART_API cudaError_t cudaGraphKernelNodeGetAttribute(cudaGraphNode_t node, cudaLaunchAttributeID attribute,
						       cudaLaunchAttributeValue *value)
{
	CUDART_CALL(cuGraphKernelNodeGetAttribute(node, (CUkernelNodeAttrID)attribute, (CUkernelNodeAttrValue *)value));
}

/* ---- copies ---- */

static cudaError_t copy_1d(void *to, const void *from, size_t bytes, enum cudaMemcpyKind kind, CUDA_MEMCPY3D *copy)
{
	struct cudaMemcpy3DParms p = {
		.srcPtr = {(void *)(uintptr_t)from, bytes, bytes, 1},
		.dstPtr = {to, bytes, bytes, 1},
		.extent = {bytes, 1, 1},
		.kind = kind,
	};

	return cudart_describe_3d(&p, copy);
}

CUDART_API cudaError_t cudaGraphAddMemcpyNode(cudaGraphNode_t *node, cudaGraph_t graph, const cudaGraphNode_t *deps,
					      size_t count, const struct cudaMemcpy3DParms *params)
{
	CUDA_MEMCPY3D copy;

	CUDART_TRY(cudart_describe_3d(params, &copy));
	return cudart_result(cuGraphAddMemcpyNode(node, graph, deps, count, &copy, context()));
}

CUDART_API cudaError_t cudaGraphAddMemcpyNode1D(cudaGraphNode_t *node, cudaGraph_t graph, const cudaGraphNode_t *deps,
						size_t count, void *to, const void *from, size_t bytes,
						enum cudaMemcpyKind kind)
{
	CUDA_MEMCPY3D copy;

	CUDART_TRY(copy_1d(to, from, bytes, kind, &copy));
	return cudart_result(cuGraphAddMemcpyNode(node, graph, deps, count, &copy, context()));
}

CUDART_API cudaError_t cudaGraphMemcpyNodeSetParams(cudaGraphNode_t node, const struct cudaMemcpy3DParms *params)
{
	CUDA_MEMCPY3D copy;

	CUDART_TRY(cudart_describe_3d(params, &copy));
	return cudart_result(cuGraphMemcpyNodeSetParams(node, &copy));
}

CUDART_API cudaError_t cudaGraphMemcpyNodeSetParams1D(cudaGraphNode_t node, void *to, const void *from, size_t bytes,
						      enum cudaMemcpyKind kind)
{
	CUDA_MEMCPY3D copy;

	CUDART_TRY(copy_1d(to, from, bytes, kind, &copy));
	return cudart_result(cuGraphMemcpyNodeSetParams(node, &copy));
}

CUDART_API cudaError_t cudaGraphExecMemcpyNodeSetParams(cudaGraphExec_t exec, cudaGraphNode_t node,
							const struct cudaMemcpy3DParms *params)
{
	CUDA_MEMCPY3D copy;

	CUDART_TRY(cudart_describe_3d(params, &copy));
	return cudart_result(cuGraphExecMemcpyNodeSetParams(exec, node, &copy, context()));
}

CUDART_API cudaError_t cudaGraphExecMemcpyNodeSetParams1D(cudaGraphExec_t exec, cudaGraphNode_t node, void *to,
							  const void *from, size_t bytes, enum cudaMemcpyKind kind)
{
	CUDA_MEMCPY3D copy;

	CUDART_TRY(copy_1d(to, from, bytes, kind, &copy));
	return cudart_result(cuGraphExecMemcpyNodeSetParams(exec, node, &copy, context()));
}

/* ---- memsets, host functions, child graphs, events, memory ---- */

#define FILL(params) ((const CUDA_MEMSET_NODE_PARAMS *)(params))

CUDART_API cudaError_t cudaGraphAddMemsetNode(cudaGraphNode_t *node, cudaGraph_t graph, const cudaGraphNode_t *deps,
					      size_t count, const struct cudaMemsetParams *params)
{
	CUDART_CALL(cuGraphAddMemsetNode(node, graph, deps, count, FILL(params), context()));
}

CUDART_API cudaError_t cudaGraphMemsetNodeGetParams(cudaGraphNode_t node, struct cudaMemsetParams *params)
{
	CUDART_CALL(cuGraphMemsetNodeGetParams(node, (CUDA_MEMSET_NODE_PARAMS *)params));
}

CUDART_API cudaError_t cudaGraphMemsetNodeSetParams(cudaGraphNode_t node, const struct cudaMemsetParams *params)
{
	CUDART_CALL(cuGraphMemsetNodeSetParams(node, FILL(params)));
}

CUDART_API cudaError_t cudaGraphExecMemsetNodeSetParams(cudaGraphExec_t exec, cudaGraphNode_t node,
							const struct cudaMemsetParams *params)
{
	CUDART_CALL(cuGraphExecMemsetNodeSetParams(exec, node, FILL(params), context()));
}

CUDART_API cudaError_t cudaGraphAddHostNode(cudaGraphNode_t *node, cudaGraph_t graph, const cudaGraphNode_t *deps,
					    size_t count, const struct cudaHostNodeParams *params)
{
	CUDART_CALL(cuGraphAddHostNode(node, graph, deps, count, (const CUDA_HOST_NODE_PARAMS *)params));
}

CUDART_API cudaError_t cudaGraphHostNodeGetParams(cudaGraphNode_t node, struct cudaHostNodeParams *params)
{
	CUDART_CALL(cuGraphHostNodeGetParams(node, (CUDA_HOST_NODE_PARAMS *)params));
}

CUDART_API cudaError_t cudaGraphHostNodeSetParams(cudaGraphNode_t node, const struct cudaHostNodeParams *params)
{
	CUDART_CALL(cuGraphHostNodeSetParams(node, (const CUDA_HOST_NODE_PARAMS *)params));
}

CUDART_API cudaError_t cudaGraphExecHostNodeSetParams(cudaGraphExec_t exec, cudaGraphNode_t node,
						      const struct cudaHostNodeParams *params)
{
	CUDART_CALL(cuGraphExecHostNodeSetParams(exec, node, (const CUDA_HOST_NODE_PARAMS *)params));
}

CUDART_API cudaError_t cudaGraphAddChildGraphNode(cudaGraphNode_t *node, cudaGraph_t graph, const cudaGraphNode_t *deps,
						  size_t count, cudaGraph_t child)
{
	CUDART_CALL(cuGraphAddChildGraphNode(node, graph, deps, count, child));
}

CUDART_API cudaError_t cudaGraphChildGraphNodeGetGraph(cudaGraphNode_t node, cudaGraph_t *child)
{
	CUDART_CALL(cuGraphChildGraphNodeGetGraph(node, child));
}

CUDART_API cudaError_t cudaGraphExecChildGraphNodeSetParams(cudaGraphExec_t exec, cudaGraphNode_t node,
							    cudaGraph_t child)
{
	CUDART_CALL(cuGraphExecChildGraphNodeSetParams(exec, node, child));
}

CUDART_API cudaError_t cudaGraphAddEmptyNode(cudaGraphNode_t *node, cudaGraph_t graph, const cudaGraphNode_t *deps,
					     size_t count)
{
	CUDART_CALL(cuGraphAddEmptyNode(node, graph, deps, count));
}

CUDART_API cudaError_t cudaGraphAddEventRecordNode(cudaGraphNode_t *node, cudaGraph_t graph,
						   const cudaGraphNode_t *deps, size_t count, cudaEvent_t event)
{
	CUDART_CALL(cuGraphAddEventRecordNode(node, graph, deps, count, event));
}

CUDART_API cudaError_t cudaGraphAddEventWaitNode(cudaGraphNode_t *node, cudaGraph_t graph, const cudaGraphNode_t *deps,
						 size_t count, cudaEvent_t event)
{
	CUDART_CALL(cuGraphAddEventWaitNode(node, graph, deps, count, event));
}

CUDART_API cudaError_t cudaGraphAddMemAllocNode(cudaGraphNode_t *node, cudaGraph_t graph, const cudaGraphNode_t *deps,
						size_t count, struct cudaMemAllocNodeParams *params)
{
	CUDART_CALL(cuGraphAddMemAllocNode(node, graph, deps, count, (CUDA_MEM_ALLOC_NODE_PARAMS *)params));
}

CUDART_API cudaError_t cudaGraphMemAllocNodeGetParams(cudaGraphNode_t node, struct cudaMemAllocNodeParams *params)
{
	CUDART_CALL(cuGraphMemAllocNodeGetParams(node, (CUDA_MEM_ALLOC_NODE_PARAMS *)params));
}

CUDART_API cudaError_t cudaGraphAddMemFreeNode(cudaGraphNode_t *node, cudaGraph_t graph, const cudaGraphNode_t *deps,
					       size_t count, void *address)
{
	CUDART_CALL(cuGraphAddMemFreeNode(node, graph, deps, count, cudart_address(address)));
}

CUDART_API cudaError_t cudaGraphMemFreeNodeGetParams(cudaGraphNode_t node, void *address)
{
	CUDART_CALL(cuGraphMemFreeNodeGetParams(node, address));
}

CUDART_API cudaError_t cudaDeviceGetGraphMemAttribute(int device, int attribute, void *value)
{
	CUDART_TRY(cudart_check_device(device));
	return cudart_result(cuDeviceGetGraphMemAttribute(device, (CUgraphMem_attribute)attribute, value));
}

CUDART_API cudaError_t cudaDeviceSetGraphMemAttribute(int device, int attribute, void *value)
{
	CUDART_TRY(cudart_check_device(device));
	return cudart_result(cuDeviceSetGraphMemAttribute(device, (CUgraphMem_attribute)attribute, value));
}

CUDART_API cudaError_t cudaDeviceGraphMemTrim(int device)
{
	CUDART_TRY(cudart_check_device(device));
	return cudart_result(cuDeviceGraphMemTrim(device));
}

/* ---- user objects ---- */

CUDART_API cudaError_t cudaUserObjectCreate(cudaUserObject_t *object, void *data, cudaHostFn_t destroy,
					    unsigned int refs, unsigned int flags)
{
	CUDART_CALL(cuUserObjectCreate(object, data, destroy, refs, flags));
}

CUDART_API cudaError_t cudaUserObjectRetain(cudaUserObject_t object, unsigned int count)
{
	CUDART_CALL(cuUserObjectRetain(object, count));
}

CUDART_API cudaError_t cudaUserObjectRelease(cudaUserObject_t object, unsigned int count)
{
	CUDART_CALL(cuUserObjectRelease(object, count));
}

CUDART_API cudaError_t cudaGraphRetainUserObject(cudaGraph_t graph, cudaUserObject_t object, unsigned int count,
						 unsigned int flags)
{
	CUDART_CALL(cuGraphRetainUserObject(graph, object, count, flags));
}

CUDART_API cudaError_t cudaGraphReleaseUserObject(cudaGraph_t graph, cudaUserObject_t object, unsigned int count)
{
	CUDART_CALL(cuGraphReleaseUserObject(graph, object, count));
}

/* ---- capture into graphs ---- */

CUDART_API cudaError_t cudaStreamBeginCaptureToGraph(cudaStream_t stream, cudaGraph_t graph,
						     const cudaGraphNode_t *deps, const cudaGraphEdgeData *data,
						     size_t count, enum cudaStreamCaptureMode mode)
{
	CUDART_CALL(cuStreamBeginCaptureToGraph(stream, graph, deps, EDGES(data), count, (CUstreamCaptureMode)mode));
}

CUDART_API cudaError_t cudaStreamUpdateCaptureDependencies_v2(cudaStream_t stream, cudaGraphNode_t *nodes,
							      const cudaGraphEdgeData *data, size_t count,
							      unsigned int flags)
{
	CUDART_CALL(cuStreamUpdateCaptureDependencies_v2(stream, nodes, EDGES(data), count, flags));
}

CUDART_API cudaError_t cudaStreamBeginCaptureToGraph_ptsz(cudaStream_t stream, cudaGraph_t graph,
							  const cudaGraphNode_t *deps, const cudaGraphEdgeData *data,
							  size_t count, enum cudaStreamCaptureMode mode)
{
	return cudaStreamBeginCaptureToGraph(cudart_per_thread(stream), graph, deps, data, count, mode);
}

CUDART_API cudaError_t cudaStreamUpdateCaptureDependencies_v2_ptsz(cudaStream_t stream, cudaGraphNode_t *nodes,
								   const cudaGraphEdgeData *data, size_t count,
								   unsigned int flags)
{
	return cudaStreamUpdateCaptureDependencies_v2(cudart_per_thread(stream), nodes, data, count, flags);
}
