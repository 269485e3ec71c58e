/* SPDX-License-Identifier: Apache-2.0 */
/* Graphs: their nodes' parameters in the runtime's form; the graphs themselves are the driver's. */
#include "order.h"
#include "register.h"
#include "twins.h"

/* The node functions below take a context where they name memory: the current one. */
static CUcontext context(void)
{
	CUcontext c = NULL;

	cuCtxGetCurrent(&c);
	return c;
}

/* ---- executable graphs ---- */

CUDART_API cudaError_t cudaGraphInstantiate(cudaGraphExec_t *exec, cudaGraph_t graph, unsigned long long flags)
{
	return cudaGraphInstantiateWithFlags(exec, graph, flags);
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

/* ---- memsets ---- */

#define FILL(params) ((const CUDA_MEMSET_NODE_PARAMS *)(params))

CUDART_API cudaError_t cudaGraphAddMemsetNode(cudaGraphNode_t *node, cudaGraph_t graph, const cudaGraphNode_t *deps,
					      size_t count, const struct cudaMemsetParams *params)
{
	CUDART_CALL(cuGraphAddMemsetNode(node, graph, deps, count, FILL(params), context()));
}

CUDART_API cudaError_t cudaGraphExecMemsetNodeSetParams(cudaGraphExec_t exec, cudaGraphNode_t node,
							const struct cudaMemsetParams *params)
{
	CUDART_CALL(cuGraphExecMemsetNodeSetParams(exec, node, FILL(params), context()));
}
