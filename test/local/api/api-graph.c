/* SPDX-License-Identifier: Apache-2.0 */
/* Graphs, made by hand and captured. */
#include "test/local/api.h"

#define N 1000u

static unsigned int called, destroyed;
static uint32_t host_values[N];

static void count(void *user)
{
	called += *(unsigned int *)user;
}

static void destroy(void *user)
{
	destroyed += *(unsigned int *)user;
}

static CUDA_KERNEL_NODE_PARAMS step_params(CUdeviceptr *p, unsigned int *k, void **storage)
{
	static unsigned int n = N;

	storage[0] = p;
	storage[1] = k;
	storage[2] = &n;
	return (CUDA_KERNEL_NODE_PARAMS){
		.func = api_function("step"),
		.gridDimX = (N + 63) / 64,
		.gridDimY = 1,
		.gridDimZ = 1,
		.blockDimX = 64,
		.blockDimY = 1,
		.blockDimZ = 1,
		.kernelParams = storage,
	};
}

static CUDA_MEMCPY3D copy_out(void *to, CUdeviceptr from, size_t bytes)
{
	return (CUDA_MEMCPY3D){
		.srcMemoryType = CU_MEMORYTYPE_DEVICE,
		.srcDevice = from,
		.dstMemoryType = CU_MEMORYTYPE_HOST,
		.dstHost = to,
		.WidthInBytes = bytes,
		.Height = 1,
		.Depth = 1,
	};
}

/* memset -> step -> (copy out, host), with the nodes added in another order than they run in. */
/* A program of CUDA 11.0 has 32 bytes for an attribute's value. */
static void old_attributes(CUstream s, CUgraphNode kernel)
{
	static const CUlaunchAttributeID of_streams[] = {CU_LAUNCH_ATTRIBUTE_ACCESS_POLICY_WINDOW,
							 CU_LAUNCH_ATTRIBUTE_SYNCHRONIZATION_POLICY,
							 CU_LAUNCH_ATTRIBUTE_PRIORITY};
	static const CUlaunchAttributeID of_kernels[] = {CU_LAUNCH_ATTRIBUTE_ACCESS_POLICY_WINDOW,
							 CU_LAUNCH_ATTRIBUTE_COOPERATIVE, CU_LAUNCH_ATTRIBUTE_PRIORITY};
	CUlaunchAttributeValue value;

	for (int i = 0; i < 3; i++) {
		memset(&value, 0x5a, sizeof(value));
		OK(cuStreamGetAttribute(s, of_streams[i], &value));
		CHECK(!value.priority && value.pad[32] == 0x5a && value.pad[63] == 0x5a);
		memset(&value, 0x5a, sizeof(value));
		OK(cuGraphKernelNodeGetAttribute(kernel, of_kernels[i], &value));
		CHECK(!value.priority && value.pad[32] == 0x5a && value.pad[63] == 0x5a);
	}
	CHECK(cuGraphKernelNodeGetAttribute(kernel, CU_LAUNCH_ATTRIBUTE_SYNCHRONIZATION_POLICY, &value) ==
	      CUDA_ERROR_INVALID_VALUE);
	CHECK(cuGraphKernelNodeGetAttribute(kernel, (CUlaunchAttributeID)77, &value) == CUDA_ERROR_INVALID_VALUE);
}

void api_graphs(void)
{
	unsigned int k = 2, one = 1;
	CUDA_HOST_NODE_PARAMS host = {count, &one};
	CUDA_KERNEL_NODE_PARAMS kernel, got;
	CUDA_MEMSET_NODE_PARAMS fill;
	CUDA_MEMCPY3D copy;
	CUgraphExecUpdateResultInfo info;
	CUgraphNode nodes[8], at_kernel, at_fill, at_copy, at_host, empty, in_clone;
	CUgraph graph, clone, parent;
	CUgraphExec exec, exec2;
	CUuserObject user;
	CUgraphNodeType type;
	CUdeviceptr p;
	CUstream s, t;
	size_t n = 8;
	void *storage[3];

	OK(cuStreamCreate(&s, CU_STREAM_NON_BLOCKING));
	OK(cuStreamCreate(&t, CU_STREAM_NON_BLOCKING));
	OK(cuMemAlloc_v2(&p, N * 4));
	kernel = step_params(&p, &k, storage);
	copy = copy_out(host_values, p, N * 4);
	fill = (CUDA_MEMSET_NODE_PARAMS){.dst = p, .value = 10, .elementSize = 4, .width = N, .height = 1};
	OK(cuGraphCreate(&graph, 0));
	OK(cuGraphAddMemcpyNode(&at_copy, graph, NULL, 0, &copy, NULL));
	OK(cuGraphAddKernelNode_v2(&at_kernel, graph, NULL, 0, &kernel));
	OK(cuGraphAddDependencies(graph, &at_kernel, &at_copy, 1));
	OK(cuGraphAddMemsetNode(&at_fill, graph, NULL, 0, &fill, NULL));
	OK(cuGraphAddDependencies(graph, &at_fill, &at_kernel, 1));
	OK(cuGraphAddHostNode(&at_host, graph, &at_copy, 1, &host));
	OK(cuGraphAddEmptyNode(&empty, graph, &at_host, 1));
	GIVES(cuGraphAddDependencies(graph, &at_fill, &at_kernel, 1), CUDA_ERROR_INVALID_VALUE);
	GIVES(cuGraphAddEmptyNode(&empty, graph, (CUgraphNode *)&graph, 1), CUDA_ERROR_INVALID_VALUE);
	OK(cuGraphGetNodes(graph, nodes, &n));
	CHECK(n == 5 && nodes[0] == at_copy && !nodes[5]);
	OK(cuGraphGetEdges(graph, NULL, NULL, &n));
	CHECK(n == 4);
	OK(cuGraphNodeGetType(at_host, &type));
	CHECK(type == CU_GRAPH_NODE_TYPE_HOST);
	old_attributes(s, at_kernel);
	OK(cuUserObjectCreate(&user, &one, destroy, 1, CU_USER_OBJECT_NO_DESTRUCTOR_SYNC));
	OK(cuGraphRetainUserObject(graph, user, 1, CU_GRAPH_USER_OBJECT_MOVE));
	k = 0; /* was copied */
	OK(cuGraphInstantiateWithFlags(&exec, graph, 0));
	for (int i = 0; i < 3; i++) {
		memset(host_values, 0, sizeof(host_values));
		OK(cuGraphLaunch(exec, i % 2 ? t : s));
		OK(cuStreamSynchronize(i % 2 ? t : s));
		CHECK(host_values[0] == 21 && host_values[N - 1] == 21 && called == (unsigned int)i + 1);
	}
	k = 7;
	OK(cuGraphExecKernelNodeSetParams_v2(exec, at_kernel, &kernel));
	OK(cuGraphLaunch(exec, s));
	OK(cuStreamSynchronize(s));
	CHECK(host_values[5] == 71);
	OK(cuGraphKernelNodeGetParams_v2(at_kernel, &got));
	CHECK(got.gridDimX == kernel.gridDimX && *(unsigned int *)got.kernelParams[1] == 2);
	OK(cuGraphExecUpdate_v2(exec, graph, &info));
	OK(cuGraphNodeSetEnabled(exec, at_fill, 0));
	OK(cuGraphLaunch(exec, s));
	OK(cuGraphLaunch(exec, t));
	OK(cuStreamSynchronize(t));
	CHECK(host_values[5] == (71 * 2 + 1) * 2 + 1 && called == 6);
	OK(cuGraphClone(&clone, graph));
	OK(cuGraphNodeFindInClone(&in_clone, at_kernel, clone));
	CHECK(in_clone != at_kernel);
	OK(cuGraphCreate(&parent, 0));
	OK(cuGraphAddChildGraphNode(&nodes[0], parent, NULL, 0, clone));
	OK(cuGraphAddChildGraphNode(&nodes[1], parent, nodes, 1, clone));
	OK(cuGraphInstantiateWithFlags(&exec2, parent, 0));
	GIVES(cuGraphExecUpdate_v2(exec2, graph, &info), CUDA_ERROR_GRAPH_EXEC_UPDATE_FAILURE);
	CHECK(info.result == CU_GRAPH_EXEC_UPDATE_ERROR_TOPOLOGY_CHANGED);
	OK(cuGraphDestroy(parent));
	OK(cuGraphDestroy(clone));
	OK(cuGraphLaunch(exec2, NULL));
	OK(cuStreamSynchronize(NULL));
	CHECK(called == 8 && host_values[9] == 21);
	/* A cycle, and a conditional node without a condition. */
	OK(cuGraphAddDependencies(graph, &at_host, &at_fill, 1));
	GIVES(cuGraphInstantiateWithFlags(&exec2, graph, 0), CUDA_ERROR_INVALID_VALUE);
	GIVES(cuGraphAddNode_v2(&nodes[0], graph, NULL, NULL, 0,
				&(CUgraphNodeParams){.type = CU_GRAPH_NODE_TYPE_CONDITIONAL}),
	      CUDA_ERROR_INVALID_VALUE);
	OK(cuGraphDestroy(graph));
	CHECK(!destroyed);
	OK(cuGraphExecDestroy(exec));
	OK(cuGraphExecDestroy(exec2));
	CHECK(destroyed == 1);
	GIVES(cuGraphDestroy(graph), CUDA_ERROR_INVALID_VALUE);
	GIVES(cuGraphLaunch(exec, s), CUDA_ERROR_INVALID_VALUE);
	OK(cuMemFree_v2(p));
}

/* While a blocking stream captures the legacy stream's state cannot be asked for, which ends no capture. */
static void legacy_stream(CUstream other)
{
	CUstreamCaptureStatus status = CU_STREAM_CAPTURE_STATUS_NONE;
	CUstream blocking;
	CUgraph graph;

	OK(cuStreamCreate(&blocking, CU_STREAM_DEFAULT));
	for (int mode = CU_STREAM_CAPTURE_MODE_GLOBAL; mode <= CU_STREAM_CAPTURE_MODE_RELAXED; mode++) {
		OK(cuStreamBeginCapture_v2(blocking, (CUstreamCaptureMode)mode));
		GIVES(cuStreamIsCapturing(NULL, &status), CUDA_ERROR_STREAM_CAPTURE_IMPLICIT);
		GIVES(cuStreamGetCaptureInfo_v3(CU_STREAM_LEGACY, &status, NULL, NULL, NULL, NULL, NULL),
		      CUDA_ERROR_STREAM_CAPTURE_IMPLICIT);
		OK(cuStreamIsCapturing(other, &status));
		CHECK(status == CU_STREAM_CAPTURE_STATUS_NONE);
		OK(cuStreamIsCapturing(blocking, &status));
		CHECK(status == CU_STREAM_CAPTURE_STATUS_ACTIVE);
		OK(cuStreamEndCapture(blocking, &graph));
		OK(cuGraphDestroy(graph));
		/* streams that do not wait for the legacy stream do not matter */
		OK(cuStreamBeginCapture_v2(other, (CUstreamCaptureMode)mode));
		OK(cuStreamIsCapturing(NULL, &status));
		CHECK(status == CU_STREAM_CAPTURE_STATUS_NONE);
		OK(cuStreamEndCapture(other, &graph));
		OK(cuGraphDestroy(graph));
	}
	OK(cuStreamDestroy_v2(blocking));
}

static void capture_errors(CUstream s, CUstream t, CUevent event)
{
	CUstreamCaptureStatus status;
	CUdeviceptr p;
	CUgraph graph;

	GIVES(cuStreamBeginCapture_v2(NULL, CU_STREAM_CAPTURE_MODE_GLOBAL), CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
	GIVES(cuStreamEndCapture(s, &graph), CUDA_ERROR_ILLEGAL_STATE);
	OK(cuStreamBeginCapture_v2(s, CU_STREAM_CAPTURE_MODE_GLOBAL));
	GIVES(cuMemAlloc_v2(&p, 4), CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
	OK(cuStreamIsCapturing(s, &status));
	CHECK(status == CU_STREAM_CAPTURE_STATUS_INVALIDATED);
	GIVES(cuStreamEndCapture(s, &graph), CUDA_ERROR_STREAM_CAPTURE_INVALIDATED);
	CHECK(!graph);
	OK(cuStreamBeginCapture_v2(s, CU_STREAM_CAPTURE_MODE_RELAXED));
	OK(cuMemAlloc_v2(&p, 4));
	GIVES(cuStreamSynchronize(s), CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
	GIVES(cuStreamEndCapture(s, &graph), CUDA_ERROR_STREAM_CAPTURE_INVALIDATED);
	OK(cuStreamBeginCapture_v2(s, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL));
	OK(cuMemsetD8Async(p, 0, 4, s));
	OK(cuEventRecord(event, s));
	GIVES(cuEventQuery(event), CUDA_ERROR_CAPTURED_EVENT);
	OK(cuStreamWaitEvent(t, event, 0));
	OK(cuMemsetD8Async(p, 0, 4, t));
	GIVES(cuStreamEndCapture(s, &graph), CUDA_ERROR_STREAM_CAPTURE_UNJOINED);
	OK(cuStreamIsCapturing(t, &status));
	CHECK(status == CU_STREAM_CAPTURE_STATUS_NONE);
	OK(cuEventQuery(event));
	OK(cuStreamQuery(s));
	OK(cuMemFree_v2(p));
	legacy_stream(s);
}

/* A fork and a join over two streams, with memory allocated in the graph. */
void api_capture(void)
{
	static uint32_t out[N], in[N];
	unsigned int one = 1;
	CUstreamCaptureStatus status;
	CUevent forked, joined;
	CUdeviceptr p, q, left;
	CUgraphExec exec;
	CUgraph graph;
	uint64_t used;
	CUstream s, t;
	size_t n;

	OK(cuStreamCreate(&s, CU_STREAM_NON_BLOCKING));
	OK(cuStreamCreate(&t, CU_STREAM_NON_BLOCKING));
	OK(cuEventCreate(&forked, CU_EVENT_DISABLE_TIMING));
	OK(cuEventCreate(&joined, CU_EVENT_DISABLE_TIMING));
	OK(cuMemAlloc_v2(&left, N * 4));
	capture_errors(s, t, forked);
	OK(cuStreamBeginCapture_v2(s, CU_STREAM_CAPTURE_MODE_GLOBAL));
	OK(cuMemAllocAsync(&p, N * 4, s));
	OK(cuMemcpyHtoDAsync_v2(p, in, N * 4, s));
	OK(cuEventRecord(forked, s));
	OK(cuStreamWaitEvent(t, forked, 0));
	OK(cuMemAllocAsync(&q, N * 4, t));
	OK(cuMemcpyDtoDAsync_v2(q, p, N * 4, t));
	api_step(q, 100, N, t);
	api_step(p, 3, N, s);
	OK(cuEventRecord(joined, t));
	OK(cuStreamWaitEvent(s, joined, 0));
	OK(cuMemcpyDtoHAsync_v2(out, p, N * 2, s));
	OK(cuMemcpyAsync((uintptr_t)out + N * 2, q, N * 2, s));
	OK(cuMemcpyDtoDAsync_v2(left, q, N * 4, s));
	OK(cuMemFreeAsync(p, s));
	OK(cuMemFreeAsync(q, s));
	OK(cuLaunchHostFunc(s, count, &one));
	OK(cuStreamGetCaptureInfo_v3(s, &status, NULL, NULL, NULL, NULL, &n));
	CHECK(status == CU_STREAM_CAPTURE_STATUS_ACTIVE && n == 1);
	OK(cuStreamEndCapture(s, &graph));
	OK(cuGraphInstantiateWithFlags(&exec, graph, 0));
	OK(cuGraphDestroy(graph));
	called = 0;
	for (unsigned int round = 0; round < 5; round++) {
		/* Read anew at every launch. */
		for (unsigned int i = 0; i < N; i++)
			in[i] = i + round;
		OK(cuGraphLaunch(exec, round % 2 ? t : s));
		OK(cuStreamSynchronize(round % 2 ? t : s));
		for (unsigned int i = 0; i < N; i++)
			CHECK(out[i] == (i < N / 2 ? (i + round) * 3 + 1 : (i - N / 2 + round) * 100 + 1));
		CHECK(called == round + 1);
	}
	OK(cuDeviceGetGraphMemAttribute(0, CU_GRAPH_MEM_ATTR_USED_MEM_CURRENT, &used));
	CHECK(used == 0);
	OK(cuGraphExecDestroy(exec));
	OK(cuDeviceGetGraphMemAttribute(0, CU_GRAPH_MEM_ATTR_RESERVED_MEM_CURRENT, &used));
	CHECK(used == 0);
	GIVES(cuMemFree_v2(p), CUDA_ERROR_INVALID_VALUE);
	/* An allocation that a graph does not free lives on, and is allocated once. */
	OK(cuStreamBeginCapture_v2(s, CU_STREAM_CAPTURE_MODE_GLOBAL));
	OK(cuMemAllocAsync(&p, N * 4, s));
	OK(cuMemsetD8Async(p, 1, N * 4, s));
	OK(cuStreamEndCapture(s, &graph));
	OK(cuGraphInstantiateWithFlags(&exec, graph, 0));
	OK(cuGraphLaunch(exec, s));
	GIVES(cuGraphLaunch(exec, s), CUDA_ERROR_INVALID_VALUE);
	OK(cuGraphExecDestroy(exec));
	OK(cuGraphDestroy(graph));
	OK(cuMemcpyDtoHAsync_v2(out, p, 4, s));
	CHECK(out[0] == 0x01010101);
	OK(cuMemFreeAsync(p, s));
	OK(cuStreamSynchronize(s));
	GIVES(cuMemFree_v2(p), CUDA_ERROR_INVALID_VALUE);
}
