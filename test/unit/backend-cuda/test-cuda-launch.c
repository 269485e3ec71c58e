/* SPDX-License-Identifier: Apache-2.0 */
/* Launches of the cuda back end: when there is a graph, and what ends it. The driver is made up. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "host/backend-cuda/launch.h"

#define MANY 32 /* as in launch.c */
#define FIRST_MANY 256

#define CONTEXT ((CUcontext)0x1000)
#define FUNCTION ((CUfunction)0x2000)
#define OTHER ((CUfunction)0x3000)
#define CLUSTERS ((CUfunction)0x4000)

static struct vcuda_backend_ops ops;
static CUcontext current;
static int plain, by_graph, made, alive, priority;
static bool refuses_params, refuses_graphs;
static CUfunction with_clusters;
static CUfunction in_node[2000]; /* by graph */
static CUresult plain_result;

static CUresult get_current(CUcontext *context)
{
	*context = current;
	return CUDA_SUCCESS;
}

static CUresult get_priority(CUstream stream, int *value)
{
	(void)stream;
	*value = priority;
	return CUDA_SUCCESS;
}

static CUresult get_attribute(int *value, CUfunction_attribute attribute, CUfunction f)
{
	*value = f == with_clusters && attribute == CU_FUNC_ATTRIBUTE_REQUIRED_CLUSTER_WIDTH ? 2 : 0;
	return CUDA_SUCCESS;
}

static CUresult launch(CUfunction f, unsigned int gx, unsigned int gy, unsigned int gz, unsigned int bx, unsigned int by,
		       unsigned int bz, unsigned int shared, CUstream stream, void **params, void **extra)
{
	plain++;
	return plain_result;
}

/* Each function has two parameters of eight bytes. */
static CUresult get_param_info(CUfunction f, size_t index, size_t *offset, size_t *size)
{
	*offset = 8 * index;
	*size = 8;
	return index < 2 ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

static CUresult create(void *graph, unsigned int flags)
{
	if (refuses_graphs)
		return CUDA_ERROR_OUT_OF_MEMORY;
	*(void **)graph = &made;
	return CUDA_SUCCESS;
}

static CUresult add(void *node, void *graph, void *dependencies, size_t count, void *params)
{
	in_node[made] = ((CUDA_KERNEL_NODE_PARAMS *)params)->func;
	*(void **)node = &in_node[made];
	return CUDA_SUCCESS;
}

static CUresult instantiate(void *exec, void *graph, uint64_t flags)
{
	*(void **)exec = &in_node[made++];
	alive++;
	return CUDA_SUCCESS;
}

static CUresult set_params(void *exec, void *node, void *params)
{
	if (refuses_params)
		return CUDA_ERROR_INVALID_VALUE;
	/* A node that gets another kernel would be slow. */
	assert_ptr_equal(((CUDA_KERNEL_NODE_PARAMS *)params)->func, *(CUfunction *)node);
	return CUDA_SUCCESS;
}

static CUresult launch_graph(void *exec, CUstream stream)
{
	by_graph++;
	return CUDA_SUCCESS;
}

static CUresult destroy_exec(void *exec)
{
	alive--;
	return CUDA_SUCCESS;
}

static CUresult done(void *unused)
{
	return CUDA_SUCCESS;
}

static CUresult set_attribute(CUfunction f, CUfunction_attribute attribute, int value)
{
	return CUDA_SUCCESS;
}

static CUresult set_kernel_attribute(CUfunction_attribute attribute, int value, CUkernel kernel, CUdevice device)
{
	return CUDA_SUCCESS;
}

static CUresult set_limit(CUlimit limit, size_t value)
{
	return CUDA_SUCCESS;
}

static int begin(void **state)
{
	(void)state;
	backend_launch_forget();
	ops = (struct vcuda_backend_ops){0};
#define HAS(name, function) ops.name = (__typeof__(ops.name))(function)
	HAS(cuLaunchKernel, launch);
	HAS(cuCtxGetCurrent, get_current);
	HAS(cuStreamGetPriority, get_priority);
	HAS(cuFuncGetAttribute, get_attribute);
	HAS(cuFuncGetParamInfo, get_param_info);
	HAS(cuGraphCreate, create);
	HAS(cuGraphAddKernelNode_v2, add);
	HAS(cuGraphInstantiateWithFlags, instantiate);
	HAS(cuGraphExecKernelNodeSetParams_v2, set_params);
	HAS(cuGraphLaunch, launch_graph);
	HAS(cuGraphExecDestroy, destroy_exec);
	HAS(cuGraphDestroy, done);
	HAS(cuStreamDestroy_v2, done);
	HAS(cuModuleUnload, done);
	HAS(cuLibraryUnload, done);
	HAS(cuFuncSetAttribute, set_attribute);
	HAS(cuKernelSetAttribute, set_kernel_attribute);
	HAS(cuCtxSetLimit, set_limit);
	current = CONTEXT;
	made = alive = priority = 0;
	refuses_params = refuses_graphs = false;
	with_clusters = CLUSTERS;
	backend_launch_init(&ops);
	plain_result = CUDA_SUCCESS;
	plain = by_graph = 0;
	return 0;
}

static void launches(int count, CUfunction f, uintptr_t stream)
{
	while (count--)
		assert_int_equal(ops.cuLaunchKernel(f, 1, 1, 1, 1, 1, 1, 0, (CUstream)stream, NULL, NULL), plain_result);
}

static void launches_with(int count, size_t bytes, uintptr_t stream)
{
	char packed[16] = {0};
	void *extra[] = {CU_LAUNCH_PARAM_BUFFER_POINTER, packed, CU_LAUNCH_PARAM_BUFFER_SIZE, &bytes,
			 CU_LAUNCH_PARAM_END};

	while (count--)
		assert_int_equal(ops.cuLaunchKernel(FUNCTION, 1, 1, 1, 1, 1, 1, 0, (CUstream)stream, NULL, extra),
				 plain_result);
}

static void expect(int plain_now, int by_graph_now, int alive_now)
{
	assert_int_equal(plain, plain_now);
	assert_int_equal(by_graph, by_graph_now);
	assert_int_equal(alive, alive_now);
}

/* The first graph of a process needs FIRST_MANY launches; all other tests come after this one. */
static void the_first_comes_later(void **state)
{
	launches(FIRST_MANY - MANY, FUNCTION, 0x80);
	launches(MANY, FUNCTION, 0x40);
	expect(FIRST_MANY, 0, 0);
	launches(1, FUNCTION, 0x40);
	expect(FIRST_MANY, 1, 1);
}

static void what_is_launched_often_has_one(void **state)
{
	launches(MANY, FUNCTION, 0x40);
	expect(MANY, 0, 0);
	launches(10, FUNCTION, 0x40);
	expect(MANY, 10, 1);
	for (int i = 0; i < 10; i++) {
		launches(1, OTHER, 0x40);
		launches(1, FUNCTION, 0x40);
	}
	expect(MANY + 10, 20, 1);
	launches(MANY, OTHER, 0x40);
	expect(2 * MANY, 30, 2);
	/* The default stream of each context has its own. */
	launches(MANY + 1, FUNCTION, 0);
	expect(3 * MANY, 31, 3);
	current = (CUcontext)0x1100;
	launches(MANY + 1, FUNCTION, 0);
	expect(4 * MANY, 32, 4);
	assert_int_equal(made, 4);
}

static void clusters_and_priorities_have_none(void **state)
{
	launches(MANY + 10, CLUSTERS, 0x40);
	expect(MANY + 10, 0, 0);
	priority = -1;
	launches(MANY + 10, FUNCTION, 0x80);
	expect(2 * MANY + 20, 0, 0);
}

/* A change of an attribute that may give a function clusters drops its graph; other attributes do not. */
static void attributes_are_asked_again(void **state)
{
	launches(MANY + 1, FUNCTION, 0x40);
	ops.cuFuncSetAttribute(FUNCTION, CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES, 60000);
	launches(1, FUNCTION, 0x40);
	expect(MANY, 2, 1);
	with_clusters = FUNCTION;
	ops.cuKernelSetAttribute(CU_FUNC_ATTRIBUTE_REQUIRED_CLUSTER_WIDTH, 2, NULL, 0);
	expect(MANY, 2, 0);
	launches(MANY + 10, FUNCTION, 0x40);
	expect(2 * MANY + 10, 2, 0);
}

/* Nor has what cannot be launched, however often that is tried. */
static void failures_are_not_counted(void **state)
{
	plain_result = CUDA_ERROR_INVALID_HANDLE;
	launches(3 * MANY, FUNCTION, 0x40);
	plain_result = CUDA_SUCCESS;
	launches(MANY, FUNCTION, 0x40);
	expect(4 * MANY, 0, 0);
}

static void a_part_of_the_parameters_has_none(void **state)
{
	launches_with(MANY + 5, 8, 0x40);
	expect(MANY + 5, 0, 0);
	launches_with(MANY + 1, 16, 0x80);
	expect(2 * MANY + 5, 1, 1);
	launches_with(3, 15, 0x80);
	expect(2 * MANY + 8, 1, 1);
	launches_with(3, 16, 0x80);
	expect(2 * MANY + 8, 4, 1);
}

static void refusals_are_launched_as_ever(void **state)
{
	launches(MANY + 1, FUNCTION, 0x40);
	refuses_params = true;
	plain_result = CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES;
	launches(1, FUNCTION, 0x40);
	expect(MANY + 1, 1, 1);
	refuses_params = false;
	plain_result = CUDA_SUCCESS;
	launches(1, FUNCTION, 0x40);
	expect(MANY + 1, 2, 1);
	refuses_graphs = true;
	launches(MANY + 5, FUNCTION, 0x80);
	expect(2 * MANY + 6, 2, 1);
	/* The graph is not tried again at each launch. */
	refuses_graphs = false;
	launches(5, FUNCTION, 0x80);
	expect(2 * MANY + 11, 2, 1);
}

static void ends_with_what_it_names(void **state)
{
	launches(MANY + 1, FUNCTION, 0x40);
	ops.cuStreamDestroy_v2((CUstream)0x80);
	assert_int_equal(alive, 1);
	ops.cuStreamDestroy_v2((CUstream)0x40);
	assert_int_equal(alive, 0);
	launches(MANY + 1, FUNCTION, 0x40);
	ops.cuModuleUnload((CUmodule)0x10);
	assert_int_equal(alive, 0);
	launches(MANY + 1, FUNCTION, 0x40);
	ops.cuLibraryUnload((CUlibrary)0x10);
	assert_int_equal(alive, 0);
	launches(MANY + 1, FUNCTION, 0x40);
	ops.cuCtxSetLimit(CU_LIMIT_STACK_SIZE, 4096);
	assert_int_equal(alive, 0);
	launches(MANY + 1, FUNCTION, 0x40);
	backend_launch_forget();
	assert_int_equal(alive, 0);
}

/* More streams than places: some share one, and only the first of these has a graph. */
static void many_streams(void **state)
{
	for (uintptr_t stream = 1; stream <= 1000; stream++)
		launches(MANY + 1, FUNCTION, stream * 0x40);
	assert_int_equal(plain + by_graph, 1000 * (MANY + 1));
	assert_true(alive > 32 && alive <= 128);
	assert_int_equal(alive, by_graph);
	for (uintptr_t stream = 1; stream <= 1000; stream++)
		ops.cuStreamDestroy_v2((CUstream)(stream * 0x40));
	assert_int_equal(alive, 0);
}

/* An old driver, or one that lacks something. */
static void without_graphs(void **state)
{
	begin(state);
	ops.cuGraphExecKernelNodeSetParams_v2 = NULL;
	ops.cuLaunchKernel = (__typeof__(ops.cuLaunchKernel))launch;
	backend_launch_init(&ops);
	launches(MANY + 10, FUNCTION, 0x40);
	expect(MANY + 10, 0, 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup(the_first_comes_later, begin),
		cmocka_unit_test_setup(what_is_launched_often_has_one, begin),
		cmocka_unit_test_setup(clusters_and_priorities_have_none, begin),
		cmocka_unit_test_setup(attributes_are_asked_again, begin),
		cmocka_unit_test_setup(failures_are_not_counted, begin),
		cmocka_unit_test_setup(a_part_of_the_parameters_has_none, begin),
		cmocka_unit_test_setup(refusals_are_launched_as_ever, begin),
		cmocka_unit_test_setup(ends_with_what_it_names, begin),
		cmocka_unit_test_setup(many_streams, begin),
		cmocka_unit_test_setup(without_graphs, begin),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
