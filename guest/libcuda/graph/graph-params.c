/* SPDX-License-Identifier: Apache-2.0 */
/* CUDA's functions that add nodes and ask for or change what nodes do, one set a type, on top of the general ones. */
#include <stdlib.h>
#include <string.h>

#include "core/attribute-value.h"
#include "core/init.h"
#include "core/request.h"
#include "launch/computation.h"
#include "graph/graph.h"
#include "graph/graph-exec.h"
#include "protocol/cuda-functions.h"

static CUresult add(CUgraphNode *node, CUgraph graph, const CUgraphNode *deps, size_t count, CUgraphNodeParams *p)
{
	struct libcuda_graph *g = libcuda_graph_find(graph);
	struct libcuda_node **found, *n;
	CUresult result = libcuda_require_init();

	if (result != CUDA_SUCCESS)
		return result;
	if (!node || !g || (count && !deps))
		return CUDA_ERROR_INVALID_VALUE;
	found = malloc((count + 1) * sizeof(*found));
	if (!found)
		return CUDA_ERROR_OUT_OF_MEMORY;
	for (size_t i = 0; i < count && result == CUDA_SUCCESS; i++) {
		found[i] = libcuda_node_find(deps[i]);
		if (!found[i] || found[i]->graph != g)
			result = CUDA_ERROR_INVALID_VALUE;
	}
	if (result == CUDA_SUCCESS)
		result = libcuda_graph_add(g, found, count, libcuda_context_current(), p, &n);
	free(found);
	if (result != CUDA_SUCCESS)
		return result;
	*node = n->handle;
	libcuda_node_get(n, p);
	return CUDA_SUCCESS;
}

/* Computations come from captures only. */
static bool may_be_given(const CUgraphNodeParams *params)
{
	return params && params->type != LIBCUDA_NODE_COMPUTATION;
}

VCUDA_EXPORT CUresult cuGraphAddNode_v2(CUgraphNode *node, CUgraph graph, const CUgraphNode *deps,
					const CUgraphEdgeData *data, size_t count, CUgraphNodeParams *params)
{
	CUgraphNodeParams p;
	CUresult result;

	(void)data;
	if (!may_be_given(params))
		return libcuda_invalid_value();
	p = *params;
	result = add(node, graph, deps, count, &p);
	/* The node sets these fields: the address of its allocation, the bodies that it owns. */
	if (result == CUDA_SUCCESS && p.type == CU_GRAPH_NODE_TYPE_MEM_ALLOC)
		params->alloc.dptr = p.alloc.dptr;
	if (result == CUDA_SUCCESS && p.type == CU_GRAPH_NODE_TYPE_CONDITIONAL)
		params->conditional.phGraph_out = p.conditional.phGraph_out;
	return result;
}

VCUDA_EXPORT CUresult cuGraphAddNode(CUgraphNode *node, CUgraph graph, const CUgraphNode *deps, size_t count,
				     CUgraphNodeParams *params)
{
	return cuGraphAddNode_v2(node, graph, deps, NULL, count, params);
}

VCUDA_EXPORT CUresult cuGraphAddEmptyNode(CUgraphNode *node, CUgraph graph, const CUgraphNode *deps, size_t count)
{
	return add(node, graph, deps, count, &(CUgraphNodeParams){.type = CU_GRAPH_NODE_TYPE_EMPTY});
}

/* ---- of one node ---- */

static CUresult find(CUgraphNode node, CUgraphNodeType type, struct libcuda_node **n)
{
	CUresult result = libcuda_require_init();

	if (result != CUDA_SUCCESS)
		return result;
	*n = libcuda_node_find(node);
	return *n && (*n)->type == type ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

static CUresult get(CUgraphNode node, CUgraphNodeType type, CUgraphNodeParams *p)
{
	struct libcuda_node *n;
	CUresult result = find(node, type, &n);

	if (result == CUDA_SUCCESS)
		libcuda_node_get(n, p);
	return result;
}

static CUresult set(CUgraphNode node, const CUgraphNodeParams *p)
{
	struct libcuda_node *n;
	CUresult result = find(node, p->type, &n);

	return result == CUDA_SUCCESS ? libcuda_node_set(n, libcuda_context_current(), p) : result;
}

VCUDA_EXPORT CUresult cuGraphNodeSetParams(CUgraphNode node, CUgraphNodeParams *params)
{
	return may_be_given(params) ? set(node, params) : libcuda_invalid_value();
}

VCUDA_EXPORT CUresult cuGraphExecNodeSetParams(CUgraphExec exec, CUgraphNode node, CUgraphNodeParams *params)
{
	return may_be_given(params) ? libcuda_exec_set(exec, node, params) : libcuda_invalid_value();
}

/* The parameters of a node, as CUDA's functions for one type of node pass them, in a CUgraphNodeParams. */
#define PARAMS(node_type, ...) ((CUgraphNodeParams){.type = node_type, __VA_ARGS__})

#define ADD(name, node_type, decl, valid, ...)                                                                         \
	VCUDA_EXPORT CUresult name(CUgraphNode *node, CUgraph graph, const CUgraphNode *deps, size_t count, decl)      \
	{                                                                                                              \
		if (!(valid))                                                                                          \
			return libcuda_invalid_value();                                                                \
		return add(node, graph, deps, count, &PARAMS(node_type, __VA_ARGS__));                                 \
	}

#define SET(name, node_type, decl, valid, ...)                                                                         \
	VCUDA_EXPORT CUresult name(CUgraphNode node, decl)                                                             \
	{                                                                                                              \
		return (valid) ? set(node, &PARAMS(node_type, __VA_ARGS__)) : libcuda_invalid_value();                 \
	}

#define EXEC_SET(name, node_type, decl, valid, ...)                                                                    \
	VCUDA_EXPORT CUresult name(CUgraphExec exec, CUgraphNode node, decl)                                           \
	{                                                                                                              \
		return (valid) ? libcuda_exec_set(exec, node, &PARAMS(node_type, __VA_ARGS__))                         \
			       : libcuda_invalid_value();                                                              \
	}

#define GET(name, node_type, type, field)                                                                              \
	VCUDA_EXPORT CUresult name(CUgraphNode node, type *params)                                                     \
	{                                                                                                              \
		CUgraphNodeParams p;                                                                                   \
		CUresult result = get(node, node_type, &p);                                                            \
                                                                                                                       \
		if (result != CUDA_SUCCESS || !params)                                                                 \
			return result != CUDA_SUCCESS ? result : CUDA_ERROR_INVALID_VALUE;                             \
		memcpy(params, &p.field, sizeof(*params));                                                             \
		return CUDA_SUCCESS;                                                                                   \
	}

/* clang-format off */
#define KERNEL_DECL const CUDA_KERNEL_NODE_PARAMS *params
ADD(cuGraphAddKernelNode_v2, CU_GRAPH_NODE_TYPE_KERNEL, KERNEL_DECL, params, .kernel = *params)
SET(cuGraphKernelNodeSetParams_v2, CU_GRAPH_NODE_TYPE_KERNEL, KERNEL_DECL, params, .kernel = *params)
EXEC_SET(cuGraphExecKernelNodeSetParams_v2, CU_GRAPH_NODE_TYPE_KERNEL, KERNEL_DECL, params, .kernel = *params)
GET(cuGraphKernelNodeGetParams_v2, CU_GRAPH_NODE_TYPE_KERNEL, CUDA_KERNEL_NODE_PARAMS, kernel)

#define HOST_DECL const CUDA_HOST_NODE_PARAMS *params
ADD(cuGraphAddHostNode, CU_GRAPH_NODE_TYPE_HOST, HOST_DECL, params, .host = *params)
SET(cuGraphHostNodeSetParams, CU_GRAPH_NODE_TYPE_HOST, HOST_DECL, params, .host = *params)
EXEC_SET(cuGraphExecHostNodeSetParams, CU_GRAPH_NODE_TYPE_HOST, HOST_DECL, params, .host = *params)
GET(cuGraphHostNodeGetParams, CU_GRAPH_NODE_TYPE_HOST, CUDA_HOST_NODE_PARAMS, host)

#define CHILD_DECL CUgraph child
ADD(cuGraphAddChildGraphNode, CU_GRAPH_NODE_TYPE_GRAPH, CHILD_DECL, true, .graph.graph = child)
EXEC_SET(cuGraphExecChildGraphNodeSetParams, CU_GRAPH_NODE_TYPE_GRAPH, CHILD_DECL, true, .graph.graph = child)
GET(cuGraphChildGraphNodeGetGraph, CU_GRAPH_NODE_TYPE_GRAPH, CUgraph, graph.graph)

#define EVENT_DECL CUevent event
ADD(cuGraphAddEventRecordNode, CU_GRAPH_NODE_TYPE_EVENT_RECORD, EVENT_DECL, true, .eventRecord.event = event)
SET(cuGraphEventRecordNodeSetEvent, CU_GRAPH_NODE_TYPE_EVENT_RECORD, EVENT_DECL, true, .eventRecord.event = event)
EXEC_SET(cuGraphExecEventRecordNodeSetEvent, CU_GRAPH_NODE_TYPE_EVENT_RECORD, EVENT_DECL, true, .eventRecord.event = event)
GET(cuGraphEventRecordNodeGetEvent, CU_GRAPH_NODE_TYPE_EVENT_RECORD, CUevent, eventRecord.event)
ADD(cuGraphAddEventWaitNode, CU_GRAPH_NODE_TYPE_WAIT_EVENT, EVENT_DECL, true, .eventWait.event = event)
SET(cuGraphEventWaitNodeSetEvent, CU_GRAPH_NODE_TYPE_WAIT_EVENT, EVENT_DECL, true, .eventWait.event = event)
EXEC_SET(cuGraphExecEventWaitNodeSetEvent, CU_GRAPH_NODE_TYPE_WAIT_EVENT, EVENT_DECL, true, .eventWait.event = event)
GET(cuGraphEventWaitNodeGetEvent, CU_GRAPH_NODE_TYPE_WAIT_EVENT, CUevent, eventWait.event)

GET(cuGraphMemAllocNodeGetParams, CU_GRAPH_NODE_TYPE_MEM_ALLOC, CUDA_MEM_ALLOC_NODE_PARAMS, alloc)
#define FREE_DECL CUdeviceptr dptr
ADD(cuGraphAddMemFreeNode, CU_GRAPH_NODE_TYPE_MEM_FREE, FREE_DECL, true, .free.dptr = dptr)
GET(cuGraphMemFreeNodeGetParams, CU_GRAPH_NODE_TYPE_MEM_FREE, CUdeviceptr, free.dptr)

#define OPS_DECL const CUDA_BATCH_MEM_OP_NODE_PARAMS *params
ADD(cuGraphAddBatchMemOpNode, CU_GRAPH_NODE_TYPE_BATCH_MEM_OP, OPS_DECL, params, .memOp = *params)
SET(cuGraphBatchMemOpNodeSetParams, CU_GRAPH_NODE_TYPE_BATCH_MEM_OP, OPS_DECL, params, .memOp = *params)
EXEC_SET(cuGraphExecBatchMemOpNodeSetParams, CU_GRAPH_NODE_TYPE_BATCH_MEM_OP, OPS_DECL, params, .memOp = *params)
GET(cuGraphBatchMemOpNodeGetParams, CU_GRAPH_NODE_TYPE_BATCH_MEM_OP, CUDA_BATCH_MEM_OP_NODE_PARAMS, memOp)

#define COPY_DECL const CUDA_MEMCPY3D *params
SET(cuGraphMemcpyNodeSetParams, CU_GRAPH_NODE_TYPE_MEMCPY, COPY_DECL, params, .memcpy.copyParams = *params)
GET(cuGraphMemcpyNodeGetParams, CU_GRAPH_NODE_TYPE_MEMCPY, CUDA_MEMCPY3D, memcpy.copyParams)

#define FILL_DECL const CUDA_MEMSET_NODE_PARAMS *params
#define FILL_PARAMS .memset = {params->dst, params->pitch, params->value, params->elementSize, params->width,          \
			       params->height, NULL}
SET(cuGraphMemsetNodeSetParams, CU_GRAPH_NODE_TYPE_MEMSET, FILL_DECL, params, FILL_PARAMS)
GET(cuGraphMemsetNodeGetParams, CU_GRAPH_NODE_TYPE_MEMSET, CUDA_MEMSET_NODE_PARAMS, memset)
/* clang-format on */

/* These name the context too: addresses are unique, so that the current one serves. */
VCUDA_EXPORT CUresult cuGraphAddMemcpyNode(CUgraphNode *node, CUgraph graph, const CUgraphNode *deps, size_t count,
					   const CUDA_MEMCPY3D *params, CUcontext ctx)
{
	(void)ctx;
	return params ? add(node, graph, deps, count, &PARAMS(CU_GRAPH_NODE_TYPE_MEMCPY, .memcpy.copyParams = *params))
		      : libcuda_invalid_value();
}

VCUDA_EXPORT CUresult cuGraphExecMemcpyNodeSetParams(CUgraphExec exec, CUgraphNode node, const CUDA_MEMCPY3D *params,
						     CUcontext ctx)
{
	(void)ctx;
	return params ? libcuda_exec_set(exec, node, &PARAMS(CU_GRAPH_NODE_TYPE_MEMCPY, .memcpy.copyParams = *params))
		      : libcuda_invalid_value();
}

VCUDA_EXPORT CUresult cuGraphAddMemsetNode(CUgraphNode *node, CUgraph graph, const CUgraphNode *deps, size_t count,
					   const CUDA_MEMSET_NODE_PARAMS *params, CUcontext ctx)
{
	(void)ctx;
	return params ? add(node, graph, deps, count, &PARAMS(CU_GRAPH_NODE_TYPE_MEMSET, FILL_PARAMS))
		      : libcuda_invalid_value();
}

VCUDA_EXPORT CUresult cuGraphExecMemsetNodeSetParams(CUgraphExec exec, CUgraphNode node,
						     const CUDA_MEMSET_NODE_PARAMS *params, CUcontext ctx)
{
	(void)ctx;
	return params ? libcuda_exec_set(exec, node, &PARAMS(CU_GRAPH_NODE_TYPE_MEMSET, FILL_PARAMS))
		      : libcuda_invalid_value();
}

VCUDA_EXPORT CUresult cuGraphAddMemAllocNode(CUgraphNode *node, CUgraph graph, const CUgraphNode *deps, size_t count,
					     CUDA_MEM_ALLOC_NODE_PARAMS *params)
{
	CUgraphNodeParams p = {.type = CU_GRAPH_NODE_TYPE_MEM_ALLOC};
	CUresult result;

	if (!params)
		return libcuda_invalid_value();
	p.alloc = *params;
	result = add(node, graph, deps, count, &p);
	if (result == CUDA_SUCCESS)
		params->dptr = p.alloc.dptr;
	return result;
}

/* ---- kernels' older structure, which ends before the CUkernel, and their attributes ---- */

#define OLD_KERNEL_BYTES offsetof(CUDA_KERNEL_NODE_PARAMS, kern)

static CUDA_KERNEL_NODE_PARAMS from_old(const void *old)
{
	CUDA_KERNEL_NODE_PARAMS k = {0};

	memcpy(&k, old, OLD_KERNEL_BYTES);
	return k;
}

VCUDA_EXPORT CUresult cuGraphAddKernelNode(CUgraphNode *node, CUgraph graph, const CUgraphNode *deps, size_t count,
					   const void *params)
{
	CUDA_KERNEL_NODE_PARAMS k;

	if (!params)
		return libcuda_invalid_value();
	k = from_old(params);
	return cuGraphAddKernelNode_v2(node, graph, deps, count, &k);
}

VCUDA_EXPORT CUresult cuGraphKernelNodeSetParams(CUgraphNode node, const void *params)
{
	CUDA_KERNEL_NODE_PARAMS k;

	if (!params)
		return libcuda_invalid_value();
	k = from_old(params);
	return cuGraphKernelNodeSetParams_v2(node, &k);
}

VCUDA_EXPORT CUresult cuGraphExecKernelNodeSetParams(CUgraphExec exec, CUgraphNode node, const void *params)
{
	CUDA_KERNEL_NODE_PARAMS k;

	if (!params)
		return libcuda_invalid_value();
	k = from_old(params);
	return cuGraphExecKernelNodeSetParams_v2(exec, node, &k);
}

VCUDA_EXPORT CUresult cuGraphKernelNodeGetParams(CUgraphNode node, void *params)
{
	CUDA_KERNEL_NODE_PARAMS k;
	CUresult result = cuGraphKernelNodeGetParams_v2(node, &k);

	if (result == CUDA_SUCCESS && params)
		memcpy(params, &k, OLD_KERNEL_BYTES);
	return result == CUDA_SUCCESS && !params ? CUDA_ERROR_INVALID_VALUE : result;
}

VCUDA_EXPORT CUresult cuGraphKernelNodeSetAttribute(CUgraphNode node, CUkernelNodeAttrID attribute,
						    const CUkernelNodeAttrValue *value)
{
	struct libcuda_node *n;
	CUresult result = find(node, CU_GRAPH_NODE_TYPE_KERNEL, &n);

	if (result != CUDA_SUCCESS)
		return result;
	if (!value)
		return CUDA_ERROR_INVALID_VALUE;
	switch (attribute) {
	case CU_LAUNCH_ATTRIBUTE_COOPERATIVE:
		n->kernel.launch.cooperative = value->cooperative;
		return CUDA_SUCCESS;
	case CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION:
		result = libcuda_require_context();
		if (result != CUDA_SUCCESS)
			return result;
		return libcuda_launch_set_cluster(&n->kernel.launch, libcuda_context_current()->device,
						  value->clusterDim.x, value->clusterDim.y, value->clusterDim.z);
	case CU_LAUNCH_ATTRIBUTE_ACCESS_POLICY_WINDOW: /* hints */
	case CU_LAUNCH_ATTRIBUTE_PRIORITY:
		return CUDA_SUCCESS;
	default:
		return CUDA_ERROR_NOT_SUPPORTED;
	}
}

VCUDA_EXPORT CUresult cuGraphKernelNodeCopyAttributes(CUgraphNode dst, CUgraphNode src)
{
	struct libcuda_node *to, *from;
	CUresult result = find(dst, CU_GRAPH_NODE_TYPE_KERNEL, &to);

	if (result == CUDA_SUCCESS)
		result = find(src, CU_GRAPH_NODE_TYPE_KERNEL, &from);
	if (result != CUDA_SUCCESS)
		return result;
	to->kernel.launch.cooperative = from->kernel.launch.cooperative;
	memcpy(to->kernel.launch.cluster, from->kernel.launch.cluster, sizeof(to->kernel.launch.cluster));
	return CUDA_SUCCESS;
}

/* The attributes that a kernel's launch can have. Hints, and those that cannot be set, keep their initial values. */
static bool is_kernel_attribute(CUkernelNodeAttrID attribute)
{
	switch (attribute) {
	case CU_LAUNCH_ATTRIBUTE_ACCESS_POLICY_WINDOW:
	case CU_LAUNCH_ATTRIBUTE_COOPERATIVE:
	case CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION:
	case CU_LAUNCH_ATTRIBUTE_CLUSTER_SCHEDULING_POLICY_PREFERENCE:
	case CU_LAUNCH_ATTRIBUTE_PRIORITY:
	case CU_LAUNCH_ATTRIBUTE_MEM_SYNC_DOMAIN_MAP:
	case CU_LAUNCH_ATTRIBUTE_MEM_SYNC_DOMAIN:
		return true;
	default:
		return false;
	}
}

VCUDA_EXPORT CUresult cuGraphKernelNodeGetAttribute(CUgraphNode node, CUkernelNodeAttrID attribute,
						    CUkernelNodeAttrValue *value)
{
	struct libcuda_node *n;
	CUresult result = find(node, CU_GRAPH_NODE_TYPE_KERNEL, &n);

	if (result != CUDA_SUCCESS)
		return result;
	if (!value || !is_kernel_attribute(attribute))
		return CUDA_ERROR_INVALID_VALUE;
	libcuda_attribute_clear(value, attribute);
	if (attribute == CU_LAUNCH_ATTRIBUTE_COOPERATIVE)
		value->cooperative = n->kernel.launch.cooperative;
	if (attribute == CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION) {
		value->clusterDim.x = n->kernel.launch.cluster[0];
		value->clusterDim.y = n->kernel.launch.cluster[1];
		value->clusterDim.z = n->kernel.launch.cluster[2];
	}
	return CUDA_SUCCESS;
}
