/* SPDX-License-Identifier: Apache-2.0 */
/* The worker's graphs with conditional nodes over a back end that counts, and what a guest must not send. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <cmocka.h>

#include "host/worker/handle/box.h"
#include "host/worker/session/command.h"
#include "host/worker/session/destroy.h"
#include "host/worker/session/dispatch.h"
#include "protocol/handlers.h"
#include "host/worker/handle/memory-ops.h"
#include "host/worker/session/session.h"
#include "fake-host-memory.h"

#define NO_NODE UINT32_MAX
#define ROOT 0x7000u
#define CONDITION 0x51u /* the first one */

/* ---- what the handlers call, none of which a conditional node needs ---- */

CUresult worker_resolve(struct worker_session *s, uint32_t kinds, uint64_t specials, void **handle)
{
	return CUDA_ERROR_INVALID_HANDLE;
}

void worker_destroy_ready(struct worker_session *s)
{
}

CUresult worker_mapping_check(struct worker_session *s, const void *p, uint64_t bytes, bool writable)
{
	return CUDA_ERROR_INVALID_VALUE;
}

CUDA_MEMCPY3D worker_box_describe(const vcuda_box *box, CUarray dst, CUarray src)
{
	return (CUDA_MEMCPY3D){0};
}

bool worker_box_fits(const vcuda_box *box, const vcuda_box_end *end, uint64_t bytes)
{
	return false;
}

void worker_command_note_wait(void)
{
}

unsigned int worker_memory_ops_read(const uint64_t *words, uint32_t count, CUstreamBatchMemOpParams *ops)
{
	memset(ops, 0, count / VCUDA_MEMORY_OP_WORDS * sizeof(*ops));
	return 0;
}

/* ---- the back end: graphs are numbers, and so are nodes, from 1 ---- */

static struct {
	int graphs, execs, destroyed_nodes;
	uint64_t conditions;
	uintptr_t nodes, last_graph;
	CUgraph bodies[8]; /* of all conditional nodes */
	unsigned int body_count;
	CUDA_CONDITIONAL_NODE_PARAMS conditional;
} backend;

static CUresult create(void *graph, unsigned int flags)
{
	backend.graphs++;
	*(uintptr_t *)graph = ROOT;
	return CUDA_SUCCESS;
}

static CUresult add_node(void *node, void *graph, void *deps, size_t count)
{
	backend.last_graph = (uintptr_t)graph;
	*(uintptr_t *)node = ++backend.nodes;
	return CUDA_SUCCESS;
}

static CUresult add_conditional(void *node, void *graph, void *deps, void *data, size_t count, void *params)
{
	CUDA_CONDITIONAL_NODE_PARAMS *p = &((CUgraphNodeParams *)params)->conditional;

	assert_true(backend.body_count + p->size <= 8);
	p->phGraph_out = &backend.bodies[backend.body_count];
	for (unsigned int i = 0; i < p->size; i++, backend.body_count++)
		backend.bodies[backend.body_count] = (CUgraph)(uintptr_t)(ROOT + 1 + backend.body_count);
	backend.conditional = *p;
	return add_node(node, graph, deps, count);
}

static CUresult add_kernel(void *node, void *graph, void *deps, size_t count, void *params)
{
	return add_node(node, graph, deps, count);
}

static CUresult add_of_context(void *node, void *graph, void *deps, size_t count, void *params, CUcontext context)
{
	return add_node(node, graph, deps, count);
}

static CUresult new_condition(void *handle, void *graph, CUcontext context, unsigned int value, unsigned int flags)
{
	assert_ptr_equal(graph, (void *)(uintptr_t)ROOT);
	*(uint64_t *)handle = CONDITION + backend.conditions++;
	return CUDA_SUCCESS;
}

static CUresult instantiate(void *exec, void *graph, void *params)
{
	backend.execs++;
	*(uintptr_t *)exec = 0x8000;
	return CUDA_SUCCESS;
}

static CUresult launch(void *exec, CUstream stream)
{
	assert_int_equal(backend.execs, 1);
	return CUDA_SUCCESS;
}

static CUresult destroy_exec(void *exec)
{
	backend.execs--;
	return CUDA_SUCCESS;
}

static CUresult destroy_node(void *node)
{
	backend.destroyed_nodes++;
	return CUDA_SUCCESS;
}

static CUresult destroy_graph(void *graph)
{
	backend.graphs--;
	return CUDA_SUCCESS;
}

static CUresult current(CUcontext *context)
{
	*context = (CUcontext)0x9000;
	return CUDA_SUCCESS;
}

static const struct vcuda_backend_ops with_conditions = {
	.cuGraphCreate = create,
	.cuGraphAddEmptyNode = add_node,
	.cuGraphAddKernelNode_v2 = add_kernel,
	.cuGraphAddMemsetNode = add_of_context,
	.cuGraphAddMemcpyNode = add_of_context,
	.cuGraphAddNode_v2 = add_conditional,
	.cuGraphConditionalHandleCreate = new_condition,
	.cuGraphInstantiateWithParams = instantiate,
	.cuGraphLaunch = launch,
	.cuGraphExecDestroy = destroy_exec,
	.cuGraphDestroyNode = destroy_node,
	.cuGraphDestroy = destroy_graph,
	.cuCtxGetCurrent = current,
};
static struct vcuda_backend_ops ops;
static struct worker_session session = {.ops = &ops};

static int setup(void **state)
{
	memset(&backend, 0, sizeof(backend));
	ops = with_conditions;
	session.handles = worker_handles_create();
	return 0;
}

/* Nothing is left after any test. */
static int teardown(void **state)
{
	worker_handles_destroy(session.handles);
	assert_int_equal(backend.graphs, 0);
	assert_int_equal(backend.execs, 0);
	return 0;
}

/* ---- calls ---- */

static vcuda_graph_id new_graph(void)
{
	struct vcuda_args_vcudaGraphCreateConditional a = {0};

	assert_int_equal(vcuda_handle_vcudaGraphCreateConditional(&session, &a), CUDA_SUCCESS);
	return a.graph;
}

static uint64_t condition(vcuda_graph_id g)
{
	struct vcuda_args_vcudaGraphAddCondition a = {.graph = g};

	assert_int_equal(vcuda_handle_vcudaGraphAddCondition(&session, &a), CUDA_SUCCESS);
	return a.condition;
}

static void conditional(vcuda_graph_id g, uint64_t handle, int type, unsigned int size)
{
	struct vcuda_args_vcudaGraphAddConditional a = {.graph = g, .condition = handle, .type = type, .size = size};

	assert_int_equal(vcuda_handle_vcudaGraphAddConditional(&session, &a), CUDA_SUCCESS);
}

static void enter(vcuda_graph_id g, uint32_t node, uint32_t body)
{
	struct vcuda_args_vcudaGraphEnter a = {.graph = g, .node = node, .body = body};

	assert_int_equal(vcuda_handle_vcudaGraphEnter(&session, &a), CUDA_SUCCESS);
}

static void empty_behind(vcuda_graph_id g, uint32_t count, uint32_t node)
{
	struct vcuda_args_vcudaGraphAddEmpty a = {.graph = g, .count = count, .deps = &node};

	assert_int_equal(vcuda_handle_vcudaGraphAddEmpty(&session, &a), CUDA_SUCCESS);
}

static CUresult finish(vcuda_graph_id g)
{
	return vcuda_handle_vcudaGraphFinish(&session, &(struct vcuda_args_vcudaGraphFinish){.graph = g});
}

static CUresult launch_it(vcuda_graph_id g)
{
	return vcuda_handle_vcudaGraphLaunch(&session, &(struct vcuda_args_vcudaGraphLaunch){.graph = g});
}

static CUresult clear(vcuda_graph_id g)
{
	return vcuda_handle_vcudaGraphClear(&session, &(struct vcuda_args_vcudaGraphClear){.graph = g});
}

static void destroy(vcuda_graph_id g)
{
	vcuda_handle_vcudaGraphDestroy(&session, &(struct vcuda_args_vcudaGraphDestroy){.graph = g});
}

/* ---- tests ---- */

static void bodies(void **state)
{
	vcuda_graph_id g = new_graph();
	uint64_t first = condition(g), second = condition(g);

	conditional(g, first, CU_GRAPH_COND_TYPE_IF, 2);
	assert_int_equal(backend.conditional.handle, CONDITION);
	assert_ptr_equal(backend.conditional.ctx, (CUcontext)0x9000);
	enter(g, 0, 1);
	conditional(g, second, CU_GRAPH_COND_TYPE_WHILE, 1);
	assert_int_equal(backend.last_graph, ROOT + 2);
	enter(g, 1, 0);
	empty_behind(g, 0, 0);
	assert_int_equal(backend.last_graph, ROOT + 3);
	enter(g, 0, 1);
	empty_behind(g, 1, 1);
	assert_int_equal(backend.last_graph, ROOT + 2);
	enter(g, NO_NODE, 0);
	empty_behind(g, 1, 0);
	assert_int_equal(backend.last_graph, ROOT);
	assert_int_equal(finish(g), CUDA_SUCCESS);
	assert_int_equal(launch_it(g), CUDA_SUCCESS);
	destroy(g);
}

/*
 * Rebuilding destroys the executable graph and the graph's own nodes. Bodies go with their node. The conditions stay.
 */
static void built_again(void **state)
{
	vcuda_graph_id g = new_graph();
	uint64_t handle = condition(g);

	for (int i = 0; i < 3; i++) {
		backend.body_count = 0;
		conditional(g, handle, CU_GRAPH_COND_TYPE_IF, 1);
		enter(g, 0, 0);
		empty_behind(g, 0, 0);
		assert_int_equal(finish(g), CUDA_SUCCESS);
		assert_int_equal(finish(g), CUDA_ERROR_INVALID_VALUE);
		assert_int_equal(launch_it(g), CUDA_SUCCESS);
		assert_int_equal(clear(g), CUDA_SUCCESS);
		assert_int_equal(backend.execs, 0);
		assert_int_equal(backend.destroyed_nodes, i + 1);
		assert_int_equal(launch_it(g), CUDA_ERROR_INVALID_VALUE);
	}
	destroy(g);
}

/* After a wrong step a graph cannot be finished, but it can be built again. */
static void wrong_steps(void **state)
{
	vcuda_graph_id g = new_graph();
	uint64_t handle = condition(g);

	for (int step = 0; step < 7; step++) {
		assert_int_equal(clear(g), CUDA_SUCCESS);
		backend.body_count = 0;
		conditional(g, step == 0 ? handle + 1 : handle, step == 1 ? 3 : CU_GRAPH_COND_TYPE_IF,
			    step == 2 ? UINT32_MAX : 1);
		enter(g, 0, step == 3);
		empty_behind(g, step == 4, 0);
		enter(g, NO_NODE, 0);
		empty_behind(g, step == 5, 1);
		assert_int_equal(finish(g), step == 6   ? CUDA_SUCCESS
					    : step == 2 ? CUDA_ERROR_OUT_OF_MEMORY
							: CUDA_ERROR_INVALID_VALUE);
	}
	destroy(g);
}

/* The memory that nodes are counted with is given back when they go. */
static void counted(void **state)
{
	vcuda_graph_id g = new_graph();

	for (int i = 0; i < 300; i++) {
		for (int n = 0; n < 4000; n++)
			empty_behind(g, 0, 0);
		assert_int_equal(finish(g), CUDA_SUCCESS);
		assert_int_equal(clear(g), CUDA_SUCCESS);
	}
	destroy(g);
}

/* ---- many conditions ---- */

#define MANY 150000

static CUresult add_one_of_many(void *node, void *graph, void *deps, void *data, size_t count, void *params)
{
	CUDA_CONDITIONAL_NODE_PARAMS *p = &((CUgraphNodeParams *)params)->conditional;

	p->phGraph_out = backend.bodies;
	return add_node(node, graph, deps, count);
}

/* Handles in no order. */
static CUresult new_of_many(void *handle, void *graph, CUcontext context, unsigned int value, unsigned int flags)
{
	*(uint64_t *)handle = ++backend.conditions * 0x5851f42d4c957f2dull;
	return CUDA_SUCCESS;
}

static double processor_seconds(void)
{
	struct timespec t;

	clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
	return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

/* No message keeps a worker for long: neither the last of many that add nodes, nor the one that adds all the rest. */
static void many_conditions(void **state)
{
	vcuda_graph_id g;
	uint64_t *handles = calloc(MANY, sizeof(*handles));
	double begin;

	ops.cuGraphAddNode_v2 = add_one_of_many;
	ops.cuGraphConditionalHandleCreate = new_of_many;
	assert_non_null(handles);
	g = new_graph();
	begin = processor_seconds();
	for (int i = 0; i < MANY; i++)
		handles[i] = condition(g);
	for (int i = 1; i < MANY / 2; i++)
		conditional(g, handles[MANY - i], CU_GRAPH_COND_TYPE_IF, 1);
	assert_int_equal(finish(g), CUDA_SUCCESS);
	assert_true(processor_seconds() - begin < 3);
	assert_int_equal(backend.nodes, MANY);
	assert_int_equal(clear(g), CUDA_SUCCESS);
	conditional(g, handles[7] + 1, CU_GRAPH_COND_TYPE_IF, 1);
	assert_int_equal(finish(g), CUDA_ERROR_INVALID_VALUE);
	destroy(g);
	free(handles);
}

static void not_there(void **state)
{
	struct vcuda_args_vcudaGraphCreateConditional a;
	vcuda_graph_id g = new_graph();

	ops.cuGraphConditionalHandleCreate = NULL;
	assert_int_equal(vcuda_handle_vcudaGraphCreateConditional(&session, &a), CUDA_ERROR_NOT_SUPPORTED);
	destroy(g);
	/* gone */
	assert_int_equal(clear(g), CUDA_ERROR_INVALID_HANDLE);
	assert_int_equal(
		vcuda_handle_vcudaGraphAddCondition(&session, &(struct vcuda_args_vcudaGraphAddCondition){.graph = g}),
		CUDA_ERROR_INVALID_HANDLE);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(bodies),  TEST(built_again),     TEST(wrong_steps),
		TEST(counted), TEST(many_conditions), TEST(not_there),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
