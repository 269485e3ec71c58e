/* SPDX-License-Identifier: Apache-2.0 */
/* Streams that wait for values in memory and write them, by themselves and in graphs. */
#include "test/local/api.h"

#include <pthread.h>
#include <unistd.h>

static CUcontext context;
static CUstream a, b;
static uint32_t *host; /* pinned */
static CUdeviceptr at; /* the same, as the device has it */
static CUdeviceptr device;

static CUstreamBatchMemOpParams value_op(CUstreamBatchMemOpType type, CUdeviceptr address, cuuint64_t value,
					 unsigned int flags)
{
	CUstreamBatchMemOpParams op = {.pad = {0}};

	op.waitValue.operation = type;
	op.waitValue.address = address;
	op.waitValue.value64 = value;
	op.waitValue.flags = flags;
	return op;
}

static int attribute(CUdevice_attribute which)
{
	int value;

	OK(cuDeviceGetAttribute(&value, which, 0));
	return value;
}

static uint32_t now(unsigned int i)
{
	return __atomic_load_n(&host[i], __ATOMIC_ACQUIRE);
}

static void put(unsigned int i, uint32_t value)
{
	__atomic_store_n(&host[i], value, __ATOMIC_RELEASE);
}

/* Work behind a wait has not run a while later, and has run once the host has written `value`. */
static void waits_until(uint32_t before, uint32_t value, uint32_t operand, unsigned int flags)
{
	put(0, before);
	put(1, 0);
	OK(cuStreamWaitValue32_v2(a, at, operand, flags));
	OK(cuStreamWriteValue32_v2(a, at + 4, 1, CU_STREAM_WRITE_VALUE_DEFAULT));
	usleep(5000);
	CHECK(now(1) == 0);
	GIVES(cuStreamQuery(a), CUDA_ERROR_NOT_READY);
	put(0, value);
	OK(cuStreamSynchronize(a));
	CHECK(now(1) == 1);
}

static void waits_until_64(uint64_t before, uint64_t value, uint64_t operand, unsigned int flags)
{
	uint64_t *wide = (uint64_t *)(host + 2);

	__atomic_store_n(wide, before, __ATOMIC_RELEASE);
	OK(cuStreamWaitValue64_v2(a, at + 8, operand, flags));
	usleep(5000);
	GIVES(cuStreamQuery(a), CUDA_ERROR_NOT_READY);
	__atomic_store_n(wide, value, __ATOMIC_RELEASE);
	OK(cuStreamSynchronize(a));
}

static void conditions(void)
{
	waits_until(1, 2, 2, CU_STREAM_WAIT_VALUE_GEQ);
	waits_until(0xfffffffe, 1, 1, CU_STREAM_WAIT_VALUE_GEQ); /* numbers go round */
	waits_until(6, 5, 5, CU_STREAM_WAIT_VALUE_EQ);
	waits_until(0xfff0, 0x10008, 0xf, CU_STREAM_WAIT_VALUE_AND);
	if (attribute(CU_DEVICE_ATTRIBUTE_CAN_USE_STREAM_WAIT_VALUE_NOR))
		waits_until(0xffff0000, 0x7fff0000, 0xffff, CU_STREAM_WAIT_VALUE_NOR);
	else
		GIVES(cuStreamWaitValue32_v2(a, at, 0, CU_STREAM_WAIT_VALUE_NOR), CUDA_ERROR_NOT_SUPPORTED);
	if (!attribute(CU_DEVICE_ATTRIBUTE_CAN_USE_64_BIT_STREAM_MEM_OPS)) {
		GIVES(cuStreamWaitValue64_v2(a, at + 8, 0, 0), CUDA_ERROR_NOT_SUPPORTED);
		return;
	}
	waits_until_64(1, 0x100000000, 0x100000000, CU_STREAM_WAIT_VALUE_GEQ);
	waits_until_64(0xffffffff, 0xffffffff00000000, 0x8000000000000000, CU_STREAM_WAIT_VALUE_AND);
	GIVES(cuStreamWriteValue64_v2(a, at + 8, 1, CU_STREAM_WRITE_VALUE_NO_MEMORY_BARRIER), CUDA_ERROR_INVALID_VALUE);
	OK(cuStreamWriteValue64_v2(a, at + 8, 0x123456789abcdef0, CU_STREAM_WRITE_VALUE_DEFAULT));
	OK(cuStreamWaitValue64_v2(a, at + 8, 0x123456789abcdef0, CU_STREAM_WAIT_VALUE_EQ));
	OK(cuStreamSynchronize(a));
	CHECK(*(uint64_t *)(host + 2) == 0x123456789abcdef0);
}

static void refusals(void)
{
	CUstreamBatchMemOpParams ops[2] = {value_op(CU_STREAM_MEM_OP_WRITE_VALUE_32, at + 4, 7, 0),
					   value_op(CU_STREAM_MEM_OP_WRITE_VALUE_32, at + 2, 7, 0)};
	uint32_t pageable = 0;
	CUdeviceptr managed;

	put(1, 0);
	GIVES(cuStreamWaitValue32_v2(a, 0, 0, 0), CUDA_ERROR_INVALID_VALUE);
	GIVES(cuStreamWriteValue32_v2(a, at + 1, 0, 0), CUDA_ERROR_INVALID_VALUE);
	GIVES(cuStreamWaitValue32_v2(a, at, 0, 8), CUDA_ERROR_INVALID_VALUE);
	GIVES(cuStreamWriteValue32_v2(a, at, 0, 2), CUDA_ERROR_INVALID_VALUE);
	GIVES(cuStreamWaitValue32_v2((CUstream)0x77777, at, 0, 0), CUDA_ERROR_INVALID_HANDLE);
	GIVES(cuStreamWriteValue32_v2(a, (CUdeviceptr)&pageable, 1, 0), CUDA_ERROR_INVALID_VALUE);
	GIVES(cuStreamWriteValue32_v2(a, at + 4096, 1, 0), CUDA_ERROR_INVALID_VALUE);
	GIVES(cuStreamWaitValue32_v2(a, at, 0, CU_STREAM_WAIT_VALUE_FLUSH), CUDA_ERROR_NOT_SUPPORTED);
	OK(cuMemAllocManaged(&managed, 4, CU_MEM_ATTACH_GLOBAL));
	GIVES(cuStreamWriteValue32_v2(a, managed, 1, 0), CUDA_ERROR_INVALID_VALUE);
	OK(cuMemFree_v2(managed));
	/* All of a batch or nothing. */
	GIVES(cuStreamBatchMemOp_v2(a, 2, ops, 0), CUDA_ERROR_INVALID_VALUE);
	GIVES(cuStreamBatchMemOp_v2(a, 1, ops, 1), CUDA_ERROR_INVALID_VALUE);
	GIVES(cuStreamBatchMemOp_v2(a, 300, ops, 0), CUDA_ERROR_INVALID_VALUE);
	GIVES(cuStreamBatchMemOp_v2(a, 1, NULL, 0), CUDA_ERROR_INVALID_VALUE);
	ops[1] = value_op((CUstreamBatchMemOpType)77, at, 0, 0);
	GIVES(cuStreamBatchMemOp_v2(a, 2, ops, 0), CUDA_ERROR_INVALID_VALUE);
	OK(cuStreamSynchronize(a));
	CHECK(now(1) == 0);
	/* The functions of before CUDA 12 are there where the device says so. */
	GIVES(cuStreamWaitValue32(a, at + 4, 0, 0),
	      attribute(CU_DEVICE_ATTRIBUTE_CAN_USE_STREAM_MEM_OPS_V1) ? CUDA_SUCCESS : CUDA_ERROR_NOT_SUPPORTED);
	OK(cuStreamSynchronize(a));
}

/* Streams go on for one another; what the other one's kernel did is there. */
static void two_streams(void)
{
	CUstreamBatchMemOpParams ops[4];
	uint32_t result;

	OK(cuMemsetD32Async(device, 0, 64, a));
	OK(cuStreamSynchronize(a));
	for (uint32_t round = 1; round <= 20; round++) {
		OK(cuStreamWaitValue32_v2(b, device + 128, round, CU_STREAM_WAIT_VALUE_GEQ));
		api_step(device, 3, 8, b);
		OK(cuStreamWriteValue32_v2(b, device + 132, round, 0));
		api_step(device, 2, 8, a);
		ops[0] = value_op(CU_STREAM_MEM_OP_WRITE_VALUE_32, device + 128, round, 0);
		memset(&ops[1], 0, sizeof(ops[1]));
		ops[1].operation = CU_STREAM_MEM_OP_BARRIER;
		ops[2] = value_op(CU_STREAM_MEM_OP_WAIT_VALUE_32, device + 132, round, CU_STREAM_WAIT_VALUE_EQ);
		ops[3] = value_op(CU_STREAM_MEM_OP_WRITE_VALUE_32, at + 4, round, 0);
		OK(cuStreamBatchMemOp_v2(a, 4, ops, 0));
	}
	OK(cuStreamSynchronize(a));
	CHECK(now(1) == 20);
	OK(cuMemcpyDtoH_v2(&result, device, 4));
	uint32_t expected = 0;
	for (int i = 0; i < 20; i++)
		expected = (expected * 2 + 1) * 3 + 1;
	CHECK(result == expected);
}

/* A kernel that goes on writes what a stream waits for. */
static void *release_later(void *unused)
{
	usleep(20000);
	put(0, 1);
	return unused;
}

static void host_thread(void)
{
	pthread_t thread;

	put(0, 0);
	OK(cuStreamWaitValue32_v2(a, at, 1, CU_STREAM_WAIT_VALUE_EQ));
	CHECK(!pthread_create(&thread, NULL, release_later, NULL));
	OK(cuStreamSynchronize(a)); /* the other thread goes on while this one waits in the library */
	CHECK(!pthread_join(thread, NULL));
}

static void graph_nodes(void)
{
	CUstreamBatchMemOpParams ops[2] = {value_op(CU_STREAM_MEM_OP_WAIT_VALUE_32, at, 5, CU_STREAM_WAIT_VALUE_EQ),
					   value_op(CU_STREAM_MEM_OP_WRITE_VALUE_32, at + 4, 9, 0)};
	CUDA_BATCH_MEM_OP_NODE_PARAMS p = {context, 2, ops, 0}, got;
	CUgraphNodeParams general = {.type = CU_GRAPH_NODE_TYPE_BATCH_MEM_OP, .memOp = p};
	CUgraphNode node, other;
	CUgraphNodeType type;
	CUgraphExec exec;
	CUgraph graph;

	OK(cuGraphCreate(&graph, 0));
	p.count = 0;
	GIVES(cuGraphAddBatchMemOpNode(&node, graph, NULL, 0, &p), CUDA_ERROR_INVALID_VALUE);
	p.count = 2;
	OK(cuGraphAddBatchMemOpNode(&node, graph, NULL, 0, &p));
	OK(cuGraphAddNode(&other, graph, &node, 1, &general));
	OK(cuGraphNodeGetType(node, &type));
	CHECK(type == CU_GRAPH_NODE_TYPE_BATCH_MEM_OP);
	/* The node has operations of its own. */
	ops[1].writeValue.value = 10;
	OK(cuGraphBatchMemOpNodeGetParams(node, &got));
	CHECK(got.ctx == context && got.count == 2 && got.paramArray != ops && got.paramArray[1].writeValue.value == 9);
	OK(cuGraphBatchMemOpNodeSetParams(other, &p));
	OK(cuGraphInstantiateWithFlags(&exec, graph, 0));
	put(0, 0);
	put(1, 0);
	OK(cuGraphLaunch(exec, a));
	usleep(5000);
	CHECK(now(1) == 0);
	put(0, 5);
	OK(cuStreamSynchronize(a));
	CHECK(now(1) == 10);
	/* Values and comparisons may change, what is done may not. */
	ops[0].waitValue.flags = CU_STREAM_WAIT_VALUE_GEQ;
	ops[1].writeValue.value = 11;
	OK(cuGraphExecBatchMemOpNodeSetParams(exec, other, &p));
	ops[1].operation = CU_STREAM_MEM_OP_WAIT_VALUE_32;
	GIVES(cuGraphExecBatchMemOpNodeSetParams(exec, other, &p), CUDA_ERROR_INVALID_VALUE);
	p.count = 1;
	GIVES(cuGraphExecBatchMemOpNodeSetParams(exec, other, &p), CUDA_ERROR_INVALID_VALUE);
	OK(cuGraphLaunch(exec, a));
	OK(cuStreamSynchronize(a));
	CHECK(now(1) == 11);
	OK(cuGraphExecDestroy(exec));
	OK(cuGraphDestroy(graph));
}

static void captured(void)
{
	CUgraphExec exec;
	CUgraph graph;

	put(0, 0);
	put(1, 0);
	OK(cuStreamBeginCapture_v2(a, CU_STREAM_CAPTURE_MODE_GLOBAL));
	OK(cuStreamWaitValue32_v2(a, at, 3, CU_STREAM_WAIT_VALUE_EQ));
	OK(cuStreamWriteValue32_v2(a, at + 4, 4, 0));
	OK(cuStreamEndCapture(a, &graph));
	OK(cuGraphInstantiateWithFlags(&exec, graph, 0));
	CHECK(now(1) == 0);
	for (int i = 0; i < 3; i++) {
		put(0, 0);
		put(1, 0);
		OK(cuGraphLaunch(exec, a));
		put(0, 3);
		OK(cuStreamSynchronize(a));
		CHECK(now(1) == 4);
	}
	OK(cuGraphExecDestroy(exec));
	OK(cuGraphDestroy(graph));
}

static void set_up(void)
{
	OK(cuCtxGetCurrent(&context));
	OK(cuStreamCreate(&a, CU_STREAM_NON_BLOCKING));
	OK(cuStreamCreate(&b, CU_STREAM_NON_BLOCKING));
	OK(cuMemHostAlloc((void **)&host, 64, 0));
	OK(cuMemHostGetDevicePointer_v2(&at, host, 0));
	OK(cuMemAlloc_v2(&device, 256));
	/* the first launch of a kernel may wait for all streams */
	api_step(device, 3, 8, a);
	api_step(device, 3, 8, b);
	OK(cuCtxSynchronize());
}

void api_values(void)
{
	set_up();
	conditions();
	refusals();
	two_streams();
	host_thread();
	graph_nodes();
	captured();
}

/* Ends, in two ways, while a stream waits for ever: local.py sees what becomes of the worker. */
void api_stuck(void)
{
	set_up();
	put(0, 0);
	OK(cuStreamWaitValue32_v2(a, at, 1, CU_STREAM_WAIT_VALUE_EQ));
	api_step(device, 3, 8, a);
	api_step(device, 3, 8, b);
	OK(cuStreamSynchronize(b));
	GIVES(cuStreamQuery(a), CUDA_ERROR_NOT_READY);
	printf("stuck\n");
	fflush(stdout);
	getchar(); /* until its input ends */
	exit(0);
}

/* Contexts with pinned memory end although their streams wait for ever. The work behind the waits is not done. */
void api_stuck_ends(void)
{
	uint32_t *own_memory;
	CUcontext own;
	CUstream s;

	set_up();
	put(0, 0);
	put(1, 0);
	OK(cuCtxCreate_v2(&own, 0, 0));
	OK(cuMemHostAlloc((void **)&own_memory, 64, 0));
	OK(cuMemHostAlloc((void **)&own_memory, 1 << 20, 0));
	*own_memory = 0;
	OK(cuStreamCreate(&s, CU_STREAM_NON_BLOCKING));
	OK(cuStreamWaitValue32_v2(s, (CUdeviceptr)own_memory, 1, CU_STREAM_WAIT_VALUE_EQ));
	OK(cuStreamWriteValue32_v2(s, at + 4, 1, 0));
	OK(cuCtxDestroy_v2(own));
	CHECK(now(1) == 0);
	OK(cuCtxSetCurrent(context));
	OK(cuCtxSynchronize());
	/* the primary context, in both ways; each gives it another life */
	for (int reset = 0; reset < 2; reset++) {
		OK(cuStreamWaitValue32_v2(a, at, 1, CU_STREAM_WAIT_VALUE_EQ));
		OK(cuMemsetD32Async(at, 1, 1, a));
		GIVES(cuStreamQuery(a), CUDA_ERROR_NOT_READY);
		OK(reset ? cuDevicePrimaryCtxReset_v2(0) : cuDevicePrimaryCtxRelease_v2(0));
		OK(cuDevicePrimaryCtxRetain(&context, 0));
		OK(cuStreamCreate(&a, CU_STREAM_NON_BLOCKING));
		OK(cuMemHostAlloc((void **)&host, 64, 0));
		OK(cuMemHostGetDevicePointer_v2(&at, host, 0));
		put(0, 0);
	}
}
