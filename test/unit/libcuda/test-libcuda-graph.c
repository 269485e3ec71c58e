/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The commands to the worker for executable graphs: the graphs that it keeps, their time and nodes, and their launches.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <cmocka.h>

#include <pthread.h>
#include <stdlib.h>

#include "protocol/cuda-functions.h"
#include "test-libcuda-fake-graph.h"
#include "test-libcuda-fake.h"

static CUcontext context;
static CUdeviceptr memory;
static CUfunction kernel;
static CUstream stream;

static void load(void)
{
	CUmodule module;

	OK(cuModuleLoadData(&module, "\n.version 8.0\n.target sm_75\n"));
	OK(cuModuleGetFunction(&kernel, module, "kernel"));
	OK(cuMemAlloc_v2(&memory, 65536));
	OK(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
}

static int setup(void **state)
{
	setenv("VCUDA_TRANSPORT", "local", 1);
	unsetenv("CUDA_VISIBLE_DEVICES");
	OK(cuInit(0));
	OK(cuDevicePrimaryCtxRetain(&context, 0));
	OK(cuCtxSetCurrent(context));
	load();
	return 0;
}

/* ---- graphs ---- */

static CUgraph new_graph(void)
{
	CUgraph g;

	OK(cuGraphCreate(&g, 0));
	return g;
}

static CUDA_KERNEL_NODE_PARAMS kernel_params(unsigned int grid)
{
	static uint64_t a;
	static uint32_t b;
	static void *params[] = {&a, &b};

	return (CUDA_KERNEL_NODE_PARAMS){
		.func = kernel,
		.gridDimX = grid,
		.gridDimY = 1,
		.gridDimZ = 1,
		.blockDimX = 1,
		.blockDimY = 1,
		.blockDimZ = 1,
		.kernelParams = params,
	};
}

static CUgraphNode add_kernel(CUgraph g, unsigned int grid, const CUgraphNode *deps, size_t count)
{
	CUDA_KERNEL_NODE_PARAMS p = kernel_params(grid);
	CUgraphNode n;

	OK(cuGraphAddKernelNode_v2(&n, g, deps, count, &p));
	return n;
}

/* The function of the fake worker takes 512. */
static void too_many_threads(void **state)
{
	CUDA_KERNEL_NODE_PARAMS p = kernel_params(1);
	CUgraphNode n;
	CUgraph g;

	OK(cuGraphCreate(&g, 0));
	p.blockDimX = 513;
	assert_int_equal(cuGraphAddKernelNode_v2(&n, g, NULL, 0, &p), CUDA_ERROR_INVALID_VALUE);
	p.blockDimX = 512;
	OK(cuGraphAddKernelNode_v2(&n, g, NULL, 0, &p));
	OK(cuGraphDestroy(g));
}

/* Two in a row and one beside them; returns the last. */
static CUgraphNode add_three(CUgraph g)
{
	CUgraphNode n = add_kernel(g, 1, NULL, 0);

	add_kernel(g, 1, &n, 1);
	return add_kernel(g, 1, NULL, 0);
}

static CUgraphNode add_copy(CUgraph g, uint64_t dst, uint64_t src, size_t bytes)
{
	CUDA_MEMCPY3D c = {
		.srcMemoryType = CU_MEMORYTYPE_UNIFIED,
		.srcDevice = src,
		.dstMemoryType = CU_MEMORYTYPE_UNIFIED,
		.dstDevice = dst,
		.WidthInBytes = bytes,
		.Height = 1,
		.Depth = 1,
	};
	CUgraphNode n;

	OK(cuGraphAddMemcpyNode(&n, g, NULL, 0, &c, NULL));
	return n;
}

static CUgraphNode add_memset(CUgraph g, const CUgraphNode *dep)
{
	CUDA_MEMSET_NODE_PARAMS p = {.dst = memory, .value = 7, .elementSize = 4, .width = 10, .height = 1};
	CUgraphNode n;

	OK(cuGraphAddMemsetNode(&n, g, dep, dep != NULL, &p, NULL));
	return n;
}

static CUgraphExec instantiate(CUgraph g)
{
	CUgraphExec exec;

	OK(cuGraphInstantiateWithFlags(&exec, g, 0));
	return exec;
}

/* Sees to it that the fake worker has seen everything. */
static void settle(void)
{
	OK(cuCtxSynchronize());
}

static void launch(CUgraphExec exec, unsigned int times)
{
	while (times--)
		OK(cuGraphLaunch(exec, stream));
	settle();
}

static void expect_node(unsigned int i, unsigned int op, uint32_t count, uint32_t first, uint32_t second)
{
	const struct fake_node *n = &fake_graphs.node[i];

	assert_int_equal(n->op, op);
	assert_int_equal(n->count, count);
	if (count > 0)
		assert_int_equal(n->deps[0], first);
	if (count > 1)
		assert_int_equal(n->deps[1], second);
}

#define EXPECT(i, name, ...) expect_node(i, VCUDA_OP_vcudaGraph##name, __VA_ARGS__)

static int counted(void **state)
{
	settle();
	fake_graphs.created = fake_graphs.finished = fake_graphs.launched = fake_graphs.destroyed = 0;
	fake_graphs.create_gives = fake_graphs.finish_gives = CUDA_SUCCESS;
	fake.launches_sync = fake.launches_async = 0;
	fake.event_waits = 0;
	return 0;
}

static int sound(void **state)
{
	assert_int_equal(fake_graphs.misplaced, 0);
	return 0;
}

/* ---- tests ---- */

static void device_graph_at_second_launch(void **state)
{
	CUgraph g = new_graph();
	CUgraphNode a = add_kernel(g, 1, NULL, 0), b = add_kernel(g, 2, &a, 1);
	CUgraphExec exec;
	uint64_t before;

	add_memset(g, &b);
	exec = instantiate(g);
	launch(exec, 1);
	assert_int_equal(fake.launches_sync + fake.launches_async, 2);
	assert_int_equal(fake_graphs.created, 0);
	launch(exec, 1);
	assert_int_equal(fake.launches_sync + fake.launches_async, 2);
	assert_int_equal(fake_graphs.created, 1);
	assert_int_equal(fake_graphs.finished, 1);
	assert_int_equal(fake_graphs.launched, 1);
	assert_ptr_equal(fake_graphs.stream, stream);
	assert_int_equal(fake_graphs.nodes, 3);
	EXPECT(0, AddKernel, 0, 0, 0);
	EXPECT(1, AddKernel, 1, 0, 0);
	EXPECT(2, AddMemset, 1, 1, 0);
	assert_int_equal(fake_graphs.node[0].grid, 1);
	assert_int_equal(fake_graphs.node[1].grid, 2);
	assert_int_equal(fake_graphs.node[1].param_bytes, 12);
	before = fake.commands;
	for (int i = 0; i < 50; i++)
		OK(cuGraphLaunch(exec, i % 2 ? stream : NULL));
	settle();
	assert_int_equal(fake.commands - before, 51);
	assert_int_equal(fake_graphs.launched, 51);
	OK(cuGraphExecDestroy(exec));
	assert_int_equal(fake_graphs.destroyed, 1);
	OK(cuGraphDestroy(g));
}

static void shapes(void **state)
{
	CUgraph g = new_graph(), child = new_graph();
	CUgraphNode top, sides[3], inner, end;
	CUgraphExec exec;

	/* two in a row, and one beside them */
	inner = add_kernel(child, 10, NULL, 0);
	add_kernel(child, 11, &inner, 1);
	add_kernel(child, 12, NULL, 0);
	top = add_kernel(g, 1, NULL, 0);
	sides[0] = add_kernel(g, 2, &top, 1);
	OK(cuGraphAddChildGraphNode(&sides[1], g, &top, 1, child));
	OK(cuGraphAddEmptyNode(&sides[2], g, &top, 1));
	end = add_kernel(g, 3, sides, 2);
	OK(cuGraphDestroy(child));
	exec = instantiate(g);
	OK(cuGraphNodeSetEnabled(exec, sides[0], 0));
	launch(exec, 2);
	assert_int_equal(fake_graphs.launched, 1);
	assert_int_equal(fake_graphs.nodes, 9);
	EXPECT(0, AddKernel, 0, 0, 0);
	EXPECT(1, AddEmpty, 1, 0, 0); /* disabled */
	EXPECT(2, AddEmpty, 1, 0, 0); /* the child begins */
	EXPECT(3, AddKernel, 1, 2, 0);
	EXPECT(4, AddKernel, 1, 3, 0);
	EXPECT(5, AddKernel, 1, 2, 0);
	EXPECT(6, AddEmpty, 2, 4, 5); /* and ends */
	EXPECT(7, AddEmpty, 1, 0, 0);
	EXPECT(8, AddKernel, 2, 1, 6);
	assert_int_equal(fake_graphs.node[4].grid, 11);
	OK(cuGraphNodeSetEnabled(exec, end, 1)); /* enabled again, as before */
	assert_int_equal(fake_graphs.destroyed, 0);
	OK(cuGraphExecDestroy(exec));
	OK(cuGraphDestroy(g));
}

/* Branches of a child without nodes, and what is behind it. */
static void empty_child(void **state)
{
	CUgraph g = new_graph(), child = new_graph();
	CUgraphNode a = add_kernel(g, 1, NULL, 0), n;
	CUgraphExec exec;

	OK(cuGraphAddChildGraphNode(&n, g, &a, 1, child));
	add_kernel(g, 2, &n, 1);
	exec = instantiate(g);
	launch(exec, 2);
	assert_int_equal(fake_graphs.nodes, 4);
	EXPECT(1, AddEmpty, 1, 0, 0);
	EXPECT(2, AddEmpty, 1, 1, 0);
	EXPECT(3, AddKernel, 1, 2, 0);
	OK(cuGraphExecDestroy(exec));
	OK(cuGraphDestroy(child));
	OK(cuGraphDestroy(g));
}

static void copies(void **state)
{
	CUgraph g = new_graph();
	uint32_t *pinned;
	CUgraphExec exec;

	OK(cuMemHostAlloc((void **)&pinned, 8192, 0));
	add_copy(g, memory + 512, (uintptr_t)pinned, 256);
	add_copy(g, memory + 1024, memory + 512, 256);
	add_copy(g, (uintptr_t)pinned + 4096, memory + 1024, 256);
	exec = instantiate(g);
	for (uint32_t i = 0; i < 4; i++) {
		pinned[3] = i + 100;
		launch(exec, 1);
		assert_int_equal(pinned[1024 + 3], i + 100);
	}
	assert_int_equal(fake_graphs.launched, 3);
	assert_int_equal(fake_graphs.node[0].copy.srcBytes, 256);
	assert_int_equal(fake_graphs.node[0].copy.dstBytes, 0);
	assert_int_equal(fake_graphs.node[0].copy.box.src.address, (uintptr_t)pinned);
	assert_int_equal(fake_graphs.node[1].copy.srcBytes + fake_graphs.node[1].copy.dstBytes, 0);
	assert_int_equal(fake_graphs.node[2].copy.dstBytes, 256);
	OK(cuGraphExecDestroy(exec));
	OK(cuGraphDestroy(g));
	OK(cuMemFreeHost(pinned));
}

/* A change costs the worker's graph; who changes it again and again does without. */
static void changed(void **state)
{
	CUDA_KERNEL_NODE_PARAMS p = kernel_params(5);
	CUgraph g = new_graph();
	CUgraphNode n = add_three(g);
	CUgraphExec exec = instantiate(g);
	CUgraphExecUpdateResultInfo info;

	launch(exec, 3);
	assert_int_equal(fake_graphs.launched, 2);
	OK(cuGraphExecKernelNodeSetParams_v2(exec, n, &p));
	assert_int_equal(fake_graphs.destroyed, 1);
	launch(exec, 1);
	assert_int_equal(fake_graphs.launched, 2);
	assert_int_equal(fake.launches_sync + fake.launches_async, 6);
	launch(exec, 1);
	assert_int_equal(fake_graphs.launched, 3);
	assert_int_equal(fake_graphs.node[2].grid, 5);
	OK(cuGraphExecUpdate_v2(exec, g, &info));
	assert_int_equal(fake_graphs.destroyed, 2);
	launch(exec, 2);
	assert_int_equal(fake_graphs.node[2].grid, 1);
	OK(cuGraphNodeSetEnabled(exec, n, 0));
	assert_int_equal(fake_graphs.destroyed, 3);
	launch(exec, 2);
	EXPECT(2, AddEmpty, 0, 0, 0);
	OK(cuGraphNodeSetEnabled(exec, n, 1));
	launch(exec, 2);
	OK(cuGraphExecUpdate_v2(exec, g, &info));
	assert_int_equal(fake_graphs.destroyed, 5);
	assert_int_equal(fake_graphs.created, 5);
	launch(exec, 16);
	assert_int_equal(fake_graphs.created, 5);
	launch(exec, 1);
	assert_int_equal(fake_graphs.created, 6);
	OK(cuGraphExecDestroy(exec));
	/* A program that changes it before each launch. */
	fake_graphs.created = 0;
	exec = instantiate(g);
	for (int i = 0; i < 20; i++) {
		OK(cuGraphExecKernelNodeSetParams_v2(exec, n, &p));
		launch(exec, 1);
	}
	assert_int_equal(fake_graphs.created, 0);
	OK(cuGraphExecDestroy(exec));
	OK(cuGraphDestroy(g));
}

static void nothing(void *unused)
{
}

static void expect_replayed(CUgraph g)
{
	CUgraphExec exec = instantiate(g);

	launch(exec, 3);
	assert_int_equal(fake_graphs.created, 0);
	assert_int_equal(fake_graphs.launched, 0);
	OK(cuGraphExecDestroy(exec));
	OK(cuGraphDestroy(g));
}

static void no_device_graph(void **state)
{
	static uint32_t pageable[64];
	CUDA_HOST_NODE_PARAMS host = {nothing, NULL};
	CUgraph g = new_graph(), child = new_graph();
	CUgraphNode n;

	add_three(g);
	OK(cuGraphAddHostNode(&n, child, NULL, 0, &host));
	OK(cuGraphAddChildGraphNode(&n, g, NULL, 0, child));
	/* The fake worker calls nothing: only what is sent counts. */
	expect_replayed(g);
	OK(cuGraphDestroy(child));
	g = new_graph();
	add_three(g);
	add_copy(g, memory, (uintptr_t)pageable, sizeof(pageable));
	expect_replayed(g);
	g = new_graph();
	add_three(g);
	add_copy(g, (uintptr_t)pageable, memory, sizeof(pageable));
	expect_replayed(g);
	/* There is nothing to launch. */
	g = new_graph();
	OK(cuGraphAddEmptyNode(&n, g, NULL, 0));
	expect_replayed(g);
}

/* A graph that the host's driver refuses goes on as before, and is not tried again as it is. */
static void refused(void **state)
{
	CUgraph g = new_graph();
	CUgraphNode n = add_kernel(g, 1, NULL, 0);
	CUDA_KERNEL_NODE_PARAMS p = kernel_params(5);
	CUgraphExec exec;
	uint32_t value = 5;

	add_copy(g, memory + 512, memory, 4);
	exec = instantiate(g);
	fake_graphs.finish_gives = CUDA_ERROR_INVALID_VALUE;
	for (int i = 0; i < 5; i++) {
		value++;
		OK(cuMemcpyHtoD_v2(memory, &value, 4));
		launch(exec, 1);
		assert_memory_equal(fake_memory(memory + 512), &value, 4);
	}
	assert_int_equal(fake_graphs.created, 1);
	assert_int_equal(fake_graphs.destroyed, 1);
	assert_int_equal(fake_graphs.launched, 0);
	assert_int_equal(fake.launches_sync + fake.launches_async, 5);
	fake_graphs.finish_gives = CUDA_SUCCESS;
	OK(cuGraphExecKernelNodeSetParams_v2(exec, n, &p));
	launch(exec, 2);
	assert_int_equal(fake_graphs.launched, 1);
	OK(cuGraphExecDestroy(exec));
	OK(cuGraphDestroy(g));
}

/* In another stream: the driver orders its own launches, but knows nothing of a replay. */
static void other_streams(void **state)
{
	CUgraph g = new_graph();
	CUgraphNode n = add_three(g);
	CUDA_KERNEL_NODE_PARAMS p = kernel_params(5);
	CUgraphExec exec = instantiate(g);

	launch(exec, 1);
	OK(cuGraphLaunch(exec, NULL));
	settle();
	assert_int_equal(fake_graphs.launched, 1);
	assert_int_equal(fake.event_waits, 1);
	launch(exec, 1);
	OK(cuGraphLaunch(exec, NULL));
	settle();
	assert_int_equal(fake_graphs.launched, 3);
	assert_null(fake_graphs.stream);
	assert_int_equal(fake.event_waits, 1);
	OK(cuGraphExecKernelNodeSetParams_v2(exec, n, &p));
	launch(exec, 1);
	assert_int_equal(fake_graphs.launched, 3);
	assert_int_equal(fake.event_waits, 2);
	OK(cuGraphExecDestroy(exec));
	OK(cuGraphDestroy(g));
}

static void *end_context(void *unused)
{
	return cuDevicePrimaryCtxReset_v2(0) == CUDA_SUCCESS ? NULL : "reset";
}

/* The worker's graphs in a context are destroyed before the context; the application's executable graphs stay. */
static void context_ends(void **state)
{
	CUgraph g = new_graph();
	CUgraphExec exec[3];
	pthread_t thread;
	void *failure;

	add_three(g);
	for (int i = 0; i < 3; i++) {
		exec[i] = instantiate(g);
		launch(exec[i], 2);
	}
	OK(cuGraphExecDestroy(exec[1]));
	assert_int_equal(fake_graphs.destroyed, 1);
	assert_int_equal(pthread_create(&thread, NULL, end_context, NULL), 0);
	pthread_join(thread, &failure);
	assert_null(failure);
	assert_int_equal(fake_graphs.destroyed, 3);
	OK(cuDevicePrimaryCtxRetain(&context, 0));
	load();
	assert_int_equal(cuGraphLaunch(exec[0], NULL), CUDA_ERROR_INVALID_HANDLE);
	OK(cuGraphExecDestroy(exec[0]));
	OK(cuGraphExecDestroy(exec[2]));
	assert_int_equal(fake_graphs.destroyed, 3);
	assert_int_equal(fake_graphs.launched, 3);
	OK(cuGraphDestroy(g));
}

/* The last test: a worker that has no graphs is asked once. */
static void no_graphs(void **state)
{
	CUgraph g = new_graph();
	CUgraphExec exec;

	fake_graphs.create_gives = CUDA_ERROR_NOT_SUPPORTED;
	add_three(g);
	for (int i = 0; i < 2; i++) {
		exec = instantiate(g);
		launch(exec, 3);
		OK(cuGraphExecDestroy(exec));
	}
	assert_int_equal(fake_graphs.created, 1);
	assert_int_equal(fake.launches_sync + fake.launches_async, 18);
	OK(cuGraphDestroy(g));
}

/* VCUDA_GRAPHS=replay */
static void all_replayed(void **state)
{
	CUgraph g = new_graph();

	add_three(g);
	expect_replayed(g);
	assert_int_equal(fake.launches_sync + fake.launches_async, 9);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, counted, sound)

int main(void)
{
	const struct CMUnitTest kept[] = {
		TEST(device_graph_at_second_launch),
		TEST(shapes),
		TEST(empty_child),
		TEST(copies),
		TEST(changed),
		TEST(too_many_threads),
		TEST(no_device_graph),
		TEST(refused),
		TEST(other_streams),
		TEST(context_ends),
		TEST(no_graphs),
	};
	const struct CMUnitTest replayed[] = {TEST(all_replayed)};

	if (getenv("VCUDA_GRAPHS"))
		return cmocka_run_group_tests(replayed, setup, NULL);
	return cmocka_run_group_tests(kept, setup, NULL);
}
