/* SPDX-License-Identifier: Apache-2.0 */
/* Nodes of graphs in the general form, copies of variables, and what is asked and changed of single nodes. */
#include <string.h>

#include "array.h"
#include "order.h"
#include "register.h"

static CUcontext context(void)
{
	CUcontext c = NULL;

	cuCtxGetCurrent(&c);
	return c;
}

/* ---- nodes of any type ---- */

static cudaError_t kernel_params(const struct cudaKernelNodeParams *k, CUDA_KERNEL_NODE_PARAMS *to)
{
	*to = (CUDA_KERNEL_NODE_PARAMS){
		.gridDimX = k->gridDim.x,
		.gridDimY = k->gridDim.y,
		.gridDimZ = k->gridDim.z,
		.blockDimX = k->blockDim.x,
		.blockDimY = k->blockDim.y,
		.blockDimZ = k->blockDim.z,
		.sharedMemBytes = k->sharedMemBytes,
		.kernelParams = k->kernelParams,
		.extra = k->extra,
	};
	return cudart_launchable(k->func, &to->func);
}

/* Kernels and copies are described in another way than the driver's; the rest is the same. */
static cudaError_t node_params(const struct cudaGraphNodeParams *p, CUgraphNodeParams *to)
{
	_Static_assert(sizeof(*p) == sizeof(*to), "one layout but for kernels and copies");

	if (!p)
		return cudaErrorInvalidValue;
	memcpy(to, p, sizeof(*to));
	switch (p->type) {
	case cudaGraphNodeTypeKernel:
		return kernel_params(&p->kernel, &to->kernel);
	case cudaGraphNodeTypeMemcpy:
		memset(&to->memcpy, 0, sizeof(to->memcpy));
		to->memcpy.copyCtx = context();
		return cudart_describe_3d(&p->memcpy.copyParams, &to->memcpy.copyParams);
	case cudaGraphNodeTypeMemset:
		to->memset.ctx = context();
		return cudaSuccess;
	case cudaGraphNodeTypeConditional:
		to->conditional.ctx = context();
		return cudaSuccess;
	default:
		return cudaSuccess;
	}
}

CUDART_API cudaError_t cudaGraphAddNode_v2(cudaGraphNode_t *node, cudaGraph_t graph, const cudaGraphNode_t *deps,
					   const cudaGraphEdgeData *data, size_t count,
					   struct cudaGraphNodeParams *params)
{
	CUgraphNodeParams p;

	CUDART_TRY(cudart_enter());
	CUDART_TRY(node_params(params, &p));
	CUDART_TRY((cudaError_t)cuGraphAddNode_v2(node, graph, deps, (const CUgraphEdgeData *)data, count, &p));
	if (params->type == cudaGraphNodeTypeMemAlloc)
		params->alloc.dptr = (void *)(uintptr_t)p.alloc.dptr;
	if (params->type == cudaGraphNodeTypeConditional)
		params->conditional.phGraph_out = p.conditional.phGraph_out;
	return cudaSuccess;
}

CUDART_API cudaError_t cudaGraphConditionalHandleCreate(cudaGraphConditionalHandle *handle, cudaGraph_t graph,
							unsigned int value, unsigned int flags)
{
	CUDART_TRY(cudart_enter());
	return cudart_result(
		cuGraphConditionalHandleCreate((CUgraphConditionalHandle *)handle, graph, context(), value, flags));
}

/* As CUDA 12 had it: edges without data. */
CUDART_API cudaError_t cudaGraphAddNode_12(cudaGraphNode_t *node, cudaGraph_t graph, const cudaGraphNode_t *deps,
					   size_t count, struct cudaGraphNodeParams *params)
{
	return cudaGraphAddNode_v2(node, graph, deps, NULL, count, params);
}

CUDART_API cudaError_t cudaGraphNodeSetParams(cudaGraphNode_t node, struct cudaGraphNodeParams *params)
{
	CUgraphNodeParams p;

	CUDART_TRY(cudart_enter());
	CUDART_TRY(node_params(params, &p));
	return cudart_result(cuGraphNodeSetParams(node, &p));
}

CUDART_API cudaError_t cudaGraphExecNodeSetParams(cudaGraphExec_t exec, cudaGraphNode_t node,
						  struct cudaGraphNodeParams *params)
{
	CUgraphNodeParams p;

	CUDART_TRY(cudart_enter());
	CUDART_TRY(node_params(params, &p));
	return cudart_result(cuGraphExecNodeSetParams(exec, node, &p));
}

/* ---- copies of variables ---- */

struct line {
	void *to;
	const void *from;
	size_t bytes;
	enum cudaMemcpyKind kind;
};

static cudaError_t describe_line(const struct line *l, CUDA_MEMCPY3D *copy)
{
	struct cudaMemcpy3DParms p = {
		.srcPtr = {(void *)(uintptr_t)l->from, l->bytes, l->bytes, 1},
		.dstPtr = {l->to, l->bytes, l->bytes, 1},
		.extent = {l->bytes, 1, 1},
		.kind = l->kind,
	};

	return cudart_describe_3d(&p, copy);
}

static cudaError_t part_of(const void *symbol, size_t bytes, size_t offset, void **address)
{
	CUdeviceptr start;
	size_t size;
	cudaError_t error = cudart_enter();

	if (error == cudaSuccess)
		error = cudart_symbol_address(symbol, &start, &size);
	if (error == cudaSuccess && (offset > size || bytes > size - offset))
		error = cudaErrorInvalidValue;
	if (error == cudaSuccess)
		*address = (char *)(uintptr_t)start + offset;
	return error;
}

static cudaError_t to_symbol(const void *symbol, const void *from, size_t bytes, size_t offset,
			     enum cudaMemcpyKind kind, CUDA_MEMCPY3D *copy)
{
	struct line l = {.from = from, .bytes = bytes, .kind = kind};
	cudaError_t error = part_of(symbol, bytes, offset, &l.to);

	if (kind == cudaMemcpyHostToHost || kind == cudaMemcpyDeviceToHost)
		return cudaErrorInvalidMemcpyDirection;
	return error != cudaSuccess ? error : describe_line(&l, copy);
}

static cudaError_t from_symbol(void *to, const void *symbol, size_t bytes, size_t offset, enum cudaMemcpyKind kind,
			       CUDA_MEMCPY3D *copy)
{
	struct line l = {.to = to, .bytes = bytes, .kind = kind};
	void *from = NULL;
	cudaError_t error = part_of(symbol, bytes, offset, &from);

	if (kind == cudaMemcpyHostToHost || kind == cudaMemcpyHostToDevice)
		return cudaErrorInvalidMemcpyDirection;
	l.from = from;
	return error != cudaSuccess ? error : describe_line(&l, copy);
}

CUDART_API cudaError_t cudaGraphAddMemcpyNodeToSymbol(cudaGraphNode_t *node, cudaGraph_t graph,
						      const cudaGraphNode_t *deps, size_t dep_count,
						      const void *symbol, const void *from, size_t count, size_t offset,
						      enum cudaMemcpyKind kind)
{
	CUDA_MEMCPY3D copy;

	CUDART_TRY(to_symbol(symbol, from, count, offset, kind, &copy));
	return cudart_result(cuGraphAddMemcpyNode(node, graph, deps, dep_count, &copy, context()));
}

CUDART_API cudaError_t cudaGraphAddMemcpyNodeFromSymbol(cudaGraphNode_t *node, cudaGraph_t graph,
							const cudaGraphNode_t *deps, size_t dep_count, void *to,
							const void *symbol, size_t count, size_t offset,
							enum cudaMemcpyKind kind)
{
	CUDA_MEMCPY3D copy;

	CUDART_TRY(from_symbol(to, symbol, count, offset, kind, &copy));
	return cudart_result(cuGraphAddMemcpyNode(node, graph, deps, dep_count, &copy, context()));
}

CUDART_API cudaError_t cudaGraphMemcpyNodeSetParamsToSymbol(cudaGraphNode_t node, const void *symbol, const void *from,
							    size_t count, size_t offset, enum cudaMemcpyKind kind)
{
	CUDA_MEMCPY3D copy;

	CUDART_TRY(to_symbol(symbol, from, count, offset, kind, &copy));
	return cudart_result(cuGraphMemcpyNodeSetParams(node, &copy));
}

CUDART_API cudaError_t cudaGraphMemcpyNodeSetParamsFromSymbol(cudaGraphNode_t node, void *to, const void *symbol,
							      size_t count, size_t offset, enum cudaMemcpyKind kind)
{
	CUDA_MEMCPY3D copy;

	CUDART_TRY(from_symbol(to, symbol, count, offset, kind, &copy));
	return cudart_result(cuGraphMemcpyNodeSetParams(node, &copy));
}

CUDART_API cudaError_t cudaGraphExecMemcpyNodeSetParamsToSymbol(cudaGraphExec_t exec, cudaGraphNode_t node,
								const void *symbol, const void *from, size_t count,
								size_t offset, enum cudaMemcpyKind kind)
{
	CUDA_MEMCPY3D copy;

	CUDART_TRY(to_symbol(symbol, from, count, offset, kind, &copy));
	return cudart_result(cuGraphExecMemcpyNodeSetParams(exec, node, &copy, context()));
}

CUDART_API cudaError_t cudaGraphExecMemcpyNodeSetParamsFromSymbol(cudaGraphExec_t exec, cudaGraphNode_t node, void *to,
								  const void *symbol, size_t count, size_t offset,
								  enum cudaMemcpyKind kind)
{
	CUDA_MEMCPY3D copy;

	CUDART_TRY(from_symbol(to, symbol, count, offset, kind, &copy));
	return cudart_result(cuGraphExecMemcpyNodeSetParams(exec, node, &copy, context()));
}

/* ---- what a copy is ---- */

/* One end; positions in arrays count texels, elsewhere bytes. */
struct end {
	CUmemorytype type;
	CUarray array;
	const void *host;
	CUdeviceptr device;
	size_t x, y, z, pitch, height;
};

static cudaError_t describe_end(const struct end *e, size_t width, cudaArray_t *array, struct cudaPos *pos,
				struct cudaPitchedPtr *pointer, size_t *element)
{
	CUDA_ARRAY3D_DESCRIPTOR d;
	size_t unit = 1;
	cudaError_t error = cudaSuccess;

	if (e->type == CU_MEMORYTYPE_ARRAY) {
		*array = (cudaArray_t)e->array;
		error = cudart_array_info(*array, &d, &unit);
		if (error == cudaSuccess)
			*element = unit;
	} else {
		*pointer = (struct cudaPitchedPtr){
			e->type == CU_MEMORYTYPE_HOST ? (void *)(uintptr_t)e->host : (void *)(uintptr_t)e->device,
			e->pitch, e->pitch ? e->pitch : width, e->height};
	}
	*pos = (struct cudaPos){e->x / unit, e->y, e->z};
	return error;
}

static enum cudaMemcpyKind kind_of(CUmemorytype to, CUmemorytype from)
{
	if (to == CU_MEMORYTYPE_UNIFIED || from == CU_MEMORYTYPE_UNIFIED)
		return cudaMemcpyDefault;
	if (to == CU_MEMORYTYPE_HOST)
		return from == CU_MEMORYTYPE_HOST ? cudaMemcpyHostToHost : cudaMemcpyDeviceToHost;
	return from == CU_MEMORYTYPE_HOST ? cudaMemcpyHostToDevice : cudaMemcpyDeviceToDevice;
}

CUDART_API cudaError_t cudaGraphMemcpyNodeGetParams(cudaGraphNode_t node, struct cudaMemcpy3DParms *params)
{
	struct end src, dst;
	CUDA_MEMCPY3D c;
	size_t element = 1;

	CUDART_TRY(cudart_enter());
	if (!params)
		return cudart_record(cudaErrorInvalidValue);
	CUDART_TRY((cudaError_t)cuGraphMemcpyNodeGetParams(node, &c));
	src = (struct end){c.srcMemoryType, c.srcArray, c.srcHost, c.srcDevice, c.srcXInBytes,
			   c.srcY,          c.srcZ,     c.srcPitch, c.srcHeight};
	dst = (struct end){c.dstMemoryType, c.dstArray, c.dstHost, c.dstDevice, c.dstXInBytes,
			   c.dstY,          c.dstZ,     c.dstPitch, c.dstHeight};
	*params = (struct cudaMemcpy3DParms){.kind = kind_of(c.dstMemoryType, c.srcMemoryType)};
	CUDART_TRY(describe_end(&src, c.WidthInBytes, &params->srcArray, &params->srcPos, &params->srcPtr, &element));
	CUDART_TRY(describe_end(&dst, c.WidthInBytes, &params->dstArray, &params->dstPos, &params->dstPtr, &element));
	params->extent = (struct cudaExtent){c.WidthInBytes / element, c.Height, c.Depth};
	return cudaSuccess;
}

/* ---- events, kernels ---- */
