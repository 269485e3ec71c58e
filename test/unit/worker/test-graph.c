/* SPDX-License-Identifier: Apache-2.0 */
/* The worker's graphs over a back end that counts: what becomes of a node, of what a guest must not send, of two
 * threads. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <cmocka.h>

#include <pthread.h>
#include <semaphore.h>
#include <stdlib.h>

#include "host/worker/handle/box.h"
#include "host/worker/session/command.h"
#include "host/worker/session/destroy.h"
#include "host/worker/session/dispatch.h"
#include "protocol/handlers.h"
#include "host/worker/handle/memory-ops.h"
#include "host/worker/session/session.h"
#include "fake-host-memory.h"

#define MOST_BYTES (1ull << 30)
#define MAPPED 0x200000000000ull
#define MAPPED_BYTES 4096

static bool mapping_there = true;
static sem_t launching, go_on;

/* ---- what the handlers call ---- */

CUresult worker_resolve(struct worker_session *s, uint32_t kinds, uint64_t specials, void **handle)
{
	uint64_t id = (uint64_t)(uintptr_t)*handle;

	*handle = worker_handle_get(s->handles, id, kinds);
	if (*handle)
		worker_handle_put(s->handles, id);
	return *handle ? CUDA_SUCCESS : CUDA_ERROR_INVALID_HANDLE;
}

void worker_destroy_ready(struct worker_session *s)
{
}

CUresult worker_mapping_check(struct worker_session *s, const void *p, uint64_t bytes, bool writable)
{
	uint64_t at = (uint64_t)(uintptr_t)p;

	return mapping_there && at >= MAPPED && at < MAPPED + MAPPED_BYTES && bytes <= MAPPED + MAPPED_BYTES - at
		       ? CUDA_SUCCESS
		       : CUDA_ERROR_INVALID_VALUE;
}

CUDA_MEMCPY3D worker_box_describe(const vcuda_box *box, CUarray dst, CUarray src)
{
	return (CUDA_MEMCPY3D){.srcMemoryType = src ? CU_MEMORYTYPE_ARRAY : CU_MEMORYTYPE_DEVICE,
			       .dstMemoryType = dst ? CU_MEMORYTYPE_ARRAY : CU_MEMORYTYPE_DEVICE,
			       .dstArray = dst,
			       .srcArray = src,
			       .WidthInBytes = box->width};
}

bool worker_box_fits(const vcuda_box *box, const vcuda_box_end *end, uint64_t bytes)
{
	return box->width <= bytes;
}

static unsigned int waits_noted;

void worker_command_note_wait(void)
{
	waits_noted++;
}

unsigned int worker_memory_ops_read(const uint64_t *words, uint32_t count, CUstreamBatchMemOpParams *ops)
{
	memset(ops, 0, count / VCUDA_MEMORY_OP_WORDS * sizeof(*ops));
	for (uint32_t i = 0; i < count / VCUDA_MEMORY_OP_WORDS; i++)
		ops[i].operation = (CUstreamBatchMemOpType)words[i * VCUDA_MEMORY_OP_WORDS];
	return count / VCUDA_MEMORY_OP_WORDS;
}

/* ---- the back end ---- */

#define NODES 64

/* Nodes are numbers, from 1. */
static struct {
	int graphs, execs; /* live */
	int launches;
	size_t nodes, dep_count[NODES];
	uintptr_t dep[NODES][2]; /* the first two */
	CUDA_KERNEL_NODE_PARAMS kernel;
	uint8_t params[16];
	bool extra;
	int attributes[2];
	CUDA_MEMCPY3D copy;
	CUDA_MEMSET_NODE_PARAMS memset;
	unsigned int ops;
	bool waits; /* in a launch */
} backend;

static CUresult create(void *graph, unsigned int flags)
{
	backend.graphs++;
	backend.nodes = 0;
	*(uintptr_t *)graph = 0x7000;
	return CUDA_SUCCESS;
}

static CUresult add_node(void *node, void *graph, void *deps, size_t count)
{
	size_t i = backend.nodes++ % NODES;

	assert_ptr_equal(graph, (void *)0x7000);
	backend.dep_count[i] = count;
	for (size_t d = 0; d < count && d < 2; d++)
		backend.dep[i][d] = ((uintptr_t *)deps)[d];
	*(uintptr_t *)node = backend.nodes;
	return CUDA_SUCCESS;
}

static CUresult add_kernel(void *node, void *graph, void *deps, size_t count, void *params)
{
	void **p;

	backend.kernel = *(CUDA_KERNEL_NODE_PARAMS *)params;
	p = backend.kernel.extra;
	backend.extra = p;
	if (p)
		memcpy(backend.params, p[1], *(size_t *)p[3]);
	else if (backend.kernel.kernelParams)
		for (int i = 0; i < 2; i++)
			memcpy(backend.params + 4 * i, backend.kernel.kernelParams[i], 4);
	return add_node(node, graph, deps, count);
}

static CUresult add_copy(void *node, void *graph, void *deps, size_t count, void *params, CUcontext context)
{
	backend.copy = *(CUDA_MEMCPY3D *)params;
	assert_ptr_equal(context, (CUcontext)0x9000);
	return add_node(node, graph, deps, count);
}

static CUresult add_memset(void *node, void *graph, void *deps, size_t count, void *params, CUcontext context)
{
	backend.memset = *(CUDA_MEMSET_NODE_PARAMS *)params;
	return add_node(node, graph, deps, count);
}

static CUresult add_ops(void *node, void *graph, void *deps, size_t count, void *params)
{
	backend.ops = ((CUDA_BATCH_MEM_OP_NODE_PARAMS *)params)->count;
	return add_node(node, graph, deps, count);
}

static CUresult set_attribute(void *node, int attribute, void *value)
{
	const CUlaunchAttributeValue *v = value;

	assert_int_equal((uintptr_t)node, backend.nodes);
	if (attribute == CU_LAUNCH_ATTRIBUTE_COOPERATIVE)
		backend.attributes[0] = v->cooperative;
	if (attribute == CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION)
		backend.attributes[1] = (int)(v->clusterDim.x * 100 + v->clusterDim.y * 10 + v->clusterDim.z);
	return CUDA_SUCCESS;
}

static CUresult param_info(CUfunction f, size_t index, size_t *offset, size_t *size)
{
	*offset = index * 4;
	*size = 4;
	return index < 2 ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

static CUresult instantiate(void *exec, void *graph, uint64_t flags)
{
	backend.execs++;
	*(uintptr_t *)exec = 0x8000;
	return CUDA_SUCCESS;
}

static CUresult launch(void *exec, CUstream stream)
{
	if (backend.waits) {
		sem_post(&launching);
		sem_wait(&go_on);
	}
	assert_int_equal(backend.execs, 1);
	backend.launches++;
	return CUDA_SUCCESS;
}

static CUresult destroy_exec(void *exec)
{
	backend.execs--;
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

static const struct vcuda_backend_ops with_graphs = {
	.cuGraphCreate = create,
	.cuGraphAddEmptyNode = add_node,
	.cuGraphAddKernelNode_v2 = add_kernel,
	.cuGraphAddMemsetNode = add_memset,
	.cuGraphAddMemcpyNode = add_copy,
	.cuGraphAddBatchMemOpNode = add_ops,
	.cuGraphKernelNodeSetAttribute = set_attribute,
	.cuGraphInstantiateWithFlags = instantiate,
	.cuGraphLaunch = launch,
	.cuGraphExecDestroy = destroy_exec,
	.cuGraphDestroy = destroy_graph,
	.cuCtxGetCurrent = current,
	.cuFuncGetParamInfo = param_info,
};
static struct vcuda_backend_ops ops;
static struct worker_session session = {.ops = &ops};
static uint64_t function, array;

static int setup(void **state)
{
	memset(&backend, 0, sizeof(backend));
	ops = with_graphs;
	mapping_there = true;
	session.handles = worker_handles_create();
	function = worker_handle_add(session.handles, VCUDA_KIND_FUNCTION, false, (void *)0xf000, 0, 0);
	array = worker_handle_add(session.handles, VCUDA_KIND_ARRAY, false, (void *)0xa000, 0, 0);
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

static vcuda_graph_id device_graph_new(void)
{
	struct vcuda_args_vcudaGraphCreate a = {0};

	assert_int_equal(vcuda_handle_vcudaGraphCreate(&session, &a), CUDA_SUCCESS);
	return a.graph;
}

static CUresult add_empty(vcuda_graph_id kept, uint32_t count, uint32_t *deps)
{
	return vcuda_handle_vcudaGraphAddEmpty(
		&session, &(struct vcuda_args_vcudaGraphAddEmpty){.graph = kept, .count = count, .deps = deps});
}

static CUresult finish(vcuda_graph_id kept)
{
	return vcuda_handle_vcudaGraphFinish(&session, &(struct vcuda_args_vcudaGraphFinish){.graph = kept});
}

static CUresult launch_it(vcuda_graph_id kept)
{
	return vcuda_handle_vcudaGraphLaunch(&session, &(struct vcuda_args_vcudaGraphLaunch){.graph = kept});
}

static CUresult destroy(vcuda_graph_id kept)
{
	return vcuda_handle_vcudaGraphDestroy(&session, &(struct vcuda_args_vcudaGraphDestroy){.graph = kept});
}

static struct vcuda_args_vcudaGraphAddCopy copy_of(vcuda_graph_id kept)
{
	return (struct vcuda_args_vcudaGraphAddCopy){.graph = kept, .box.width = 64};
}

/* ---- tests ---- */

static void nodes(void **state)
{
	uint8_t params[8] = {1, 2, 3, 4, 5, 6, 7, 8};
	uint32_t deps[] = {1, 0};
	uint64_t words[6] = {0};
	struct vcuda_args_vcudaGraphAddKernel k = {.f = function, .gridDimX = 3, .paramBytes = 8, .params = params};
	struct vcuda_args_vcudaGraphAddCopy c;

	k.graph = device_graph_new();
	assert_int_equal(add_empty(k.graph, 0, NULL), CUDA_SUCCESS);
	assert_int_equal(vcuda_handle_vcudaGraphAddKernel(&session, &k), CUDA_SUCCESS);
	assert_ptr_equal(backend.kernel.func, (CUfunction)0xf000);
	assert_int_equal(backend.kernel.gridDimX, 3);
	assert_true(backend.extra);
	assert_memory_equal(backend.params, params, 8);
	assert_int_equal(backend.attributes[0] + backend.attributes[1], 0);
	assert_int_equal(add_empty(k.graph, 2, deps), CUDA_SUCCESS);
	assert_int_equal(backend.dep_count[2], 2);
	assert_int_equal(backend.dep[2][0], 2);
	assert_int_equal(backend.dep[2][1], 1);
	memset(backend.params, 0, sizeof(backend.params));
	k.cooperative = 1;
	k.clusterDimX = 1;
	k.clusterDimY = 2;
	k.clusterDimZ = 3;
	assert_int_equal(vcuda_handle_vcudaGraphAddKernel(&session, &k), CUDA_SUCCESS);
	assert_false(backend.extra);
	assert_memory_equal(backend.params, params, 8);
	assert_int_equal(backend.attributes[0], 1);
	assert_int_equal(backend.attributes[1], 123);
	c = copy_of(k.graph);
	c.dst = array;
	c.box.src.address = MAPPED;
	c.srcBytes = 64;
	assert_int_equal(vcuda_handle_vcudaGraphAddCopy(&session, &c), CUDA_SUCCESS);
	assert_ptr_equal(backend.copy.dstArray, (CUarray)0xa000);
	assert_int_equal(backend.copy.srcMemoryType, CU_MEMORYTYPE_HOST);
	assert_ptr_equal(backend.copy.srcHost, (void *)MAPPED);
	assert_int_equal(
		vcuda_handle_vcudaGraphAddMemset(&session, &(struct vcuda_args_vcudaGraphAddMemset){.graph = k.graph,
												    .dst = 5,
												    .pitch = 6,
												    .value = 7,
												    .elementSize = 4,
												    .width = 8,
												    .height = 9}),
		CUDA_SUCCESS);
	assert_int_equal(backend.memset.value, 7);
	assert_int_equal(backend.memset.height, 9);
	assert_int_equal(
		vcuda_handle_vcudaGraphAddMemOps(
			&session, &(struct vcuda_args_vcudaGraphAddMemOps){.graph = k.graph, .words = 6, .ops = words}),
		CUDA_SUCCESS);
	assert_int_equal(backend.ops, 2);
	assert_int_equal(finish(k.graph), CUDA_SUCCESS);
	assert_int_equal(backend.graphs, 0);
	assert_int_equal(launch_it(k.graph), CUDA_SUCCESS);
	assert_int_equal(launch_it(k.graph), CUDA_SUCCESS);
	assert_int_equal(backend.launches, 2);
	assert_int_equal(destroy(k.graph), CUDA_SUCCESS);
}

/*
 * An error of a node is reported when the graph is finished: no call waits for the node, and it is no async error of a
 * guest thread.
 */
static void bad_nodes(void **state)
{
	uint32_t ahead[] = {1}, first[] = {0};
	struct vcuda_args_vcudaGraphAddKernel k = {.f = function + 1};
	struct vcuda_args_vcudaGraphAddCopy c;

	for (int i = 0; i < 7; i++) {
		k.graph = device_graph_new();
		c = copy_of(k.graph);
		assert_int_equal(add_empty(k.graph, 0, NULL), CUDA_SUCCESS);
		switch (i) {
		case 0:
			assert_int_equal(add_empty(k.graph, 1, ahead), CUDA_SUCCESS);
			break;
		case 1:
			assert_int_equal(vcuda_handle_vcudaGraphAddKernel(&session, &k), CUDA_SUCCESS);
			break;
		case 2: /* past the mapping's end */
			c.srcBytes = 64;
			c.box.src.address = MAPPED + MAPPED_BYTES - 63;
			break;
		case 3: /* more than it says */
			c.dstBytes = 63;
			c.box.dst.address = MAPPED;
			break;
		case 4: /* a function is no array */
			c.dst = function;
			break;
		case 5: /* an array and memory at once */
			c.src = array;
			c.srcBytes = 64;
			c.box.src.address = MAPPED;
			break;
		default: /* parameters that the function does not have there */
			k.f = function;
			k.cooperative = 1;
			k.paramBytes = 7;
			assert_int_equal(vcuda_handle_vcudaGraphAddKernel(&session, &k), CUDA_SUCCESS);
			break;
		}
		if (i >= 2 && i < 6)
			assert_int_equal(vcuda_handle_vcudaGraphAddCopy(&session, &c), CUDA_SUCCESS);
		assert_int_equal(backend.nodes, 1);
		assert_int_equal(add_empty(k.graph, 1, first), CUDA_SUCCESS);
		assert_int_equal(backend.nodes, 1); /* the rest is not looked at */
		assert_int_equal(finish(k.graph),
				 i == 1 || i == 4 ? CUDA_ERROR_INVALID_HANDLE : CUDA_ERROR_INVALID_VALUE);
		assert_int_equal(launch_it(k.graph), CUDA_ERROR_INVALID_VALUE);
		assert_int_equal(destroy(k.graph), CUDA_SUCCESS);
	}
}

static void bad_order(void **state)
{
	vcuda_graph_id kept = device_graph_new();

	assert_int_equal(launch_it(kept), CUDA_ERROR_INVALID_VALUE);
	assert_int_equal(add_empty(kept, 0, NULL), CUDA_SUCCESS);
	assert_int_equal(finish(kept), CUDA_SUCCESS);
	assert_int_equal(finish(kept), CUDA_ERROR_INVALID_VALUE);
	assert_int_equal(add_empty(kept, 0, NULL), CUDA_ERROR_INVALID_VALUE);
	assert_int_equal(launch_it(kept), CUDA_SUCCESS);
	assert_int_equal(destroy(kept), CUDA_SUCCESS);
	/* As a call that found its handle before another thread's destroyed the graph. */
	assert_int_equal(add_empty(kept, 0, NULL), CUDA_ERROR_INVALID_HANDLE);
	assert_int_equal(finish(kept), CUDA_ERROR_INVALID_HANDLE);
	assert_int_equal(launch_it(kept), CUDA_ERROR_INVALID_HANDLE);
	assert_int_equal(backend.launches, 1);
}

/* The back end never launches what names something that is gone. */
static void gone(void **state)
{
	struct vcuda_args_vcudaGraphAddKernel k = {.f = function, .graph = device_graph_new()};
	struct vcuda_args_vcudaGraphAddCopy c = copy_of(k.graph);

	c.dst = array;
	c.srcBytes = 64;
	c.box.src.address = MAPPED;
	for (int i = 0; i < 3; i++) {
		assert_int_equal(vcuda_handle_vcudaGraphAddKernel(&session, &k), CUDA_SUCCESS);
		assert_int_equal(vcuda_handle_vcudaGraphAddCopy(&session, &c), CUDA_SUCCESS);
	}
	assert_int_equal(finish(k.graph), CUDA_SUCCESS);
	assert_int_equal(launch_it(k.graph), CUDA_SUCCESS);
	mapping_there = false;
	assert_int_equal(launch_it(k.graph), CUDA_ERROR_INVALID_VALUE);
	mapping_there = true;
	worker_handle_claim(session.handles, array, ~0u);
	assert_int_equal(launch_it(k.graph), CUDA_ERROR_INVALID_HANDLE);
	worker_handle_unclaim(session.handles, array);
	assert_int_equal(launch_it(k.graph), CUDA_SUCCESS);
	worker_handle_claim(session.handles, function, ~0u);
	worker_handle_remove(session.handles, function);
	assert_int_equal(launch_it(k.graph), CUDA_ERROR_INVALID_HANDLE);
	assert_int_equal(backend.launches, 2);
	assert_int_equal(destroy(k.graph), CUDA_SUCCESS);
}

static CUresult add_large_kernel(void *node, void *graph, void *deps, size_t count, void *params)
{
	return add_node(node, graph, deps, count);
}

static void limit(void **state)
{
	static uint8_t params[32768];
	struct vcuda_args_vcudaGraphAddKernel k = {.f = function, .paramBytes = sizeof(params), .params = params};
	unsigned int most = MOST_BYTES / sizeof(params), n = 0;
	vcuda_graph_id large, other;

	for (int round = 0; round < 2; round++) {
		k.graph = large = device_graph_new();
		other = device_graph_new();
		ops.cuGraphAddKernelNode_v2 = add_large_kernel;
		for (n = 0; n < most + 1; n++)
			vcuda_handle_vcudaGraphAddKernel(&session, &k);
		assert_in_range(backend.nodes, most / 2, most);
		assert_int_equal(finish(k.graph), CUDA_ERROR_OUT_OF_MEMORY);
		k.graph = other;
		vcuda_handle_vcudaGraphAddKernel(&session, &k);
		assert_int_equal(finish(other), CUDA_ERROR_OUT_OF_MEMORY);
		/* Destroyed graphs do not count any more. */
		assert_int_equal(destroy(large), CUDA_SUCCESS);
		assert_int_equal(destroy(other), CUDA_SUCCESS);
	}
}

static void *launch_in_thread(void *kept)
{
	return (void *)(uintptr_t)launch_it(kept);
}

/* A launch that is under way keeps what it launches. */
static void destroyed_while_launched(void **state)
{
	vcuda_graph_id kept = device_graph_new();
	pthread_t thread;
	void *result;

	assert_int_equal(add_empty(kept, 0, NULL), CUDA_SUCCESS);
	assert_int_equal(finish(kept), CUDA_SUCCESS);
	sem_init(&launching, 0, 0);
	sem_init(&go_on, 0, 0);
	backend.waits = true;
	assert_int_equal(pthread_create(&thread, NULL, launch_in_thread, kept), 0);
	sem_wait(&launching);
	assert_int_equal(destroy(kept), CUDA_SUCCESS);
	assert_int_equal(backend.execs, 1);
	sem_post(&go_on);
	pthread_join(thread, &result);
	assert_int_equal((uintptr_t)result, CUDA_SUCCESS);
	assert_int_equal(backend.execs, 0);
	backend.waits = false;
}

static void launch_with_op(CUstreamBatchMemOpType type)
{
	uint64_t words[2 * VCUDA_MEMORY_OP_WORDS] = {CU_STREAM_MEM_OP_WRITE_VALUE_32};
	vcuda_graph_id graph = device_graph_new();

	words[VCUDA_MEMORY_OP_WORDS] = type;
	assert_int_equal(
		vcuda_handle_vcudaGraphAddMemOps(
			&session, &(struct vcuda_args_vcudaGraphAddMemOps){.graph = graph, .words = 6, .ops = words}),
		CUDA_SUCCESS);
	assert_int_equal(finish(graph), CUDA_SUCCESS);
	assert_int_equal(launch_it(graph), CUDA_SUCCESS);
	assert_int_equal(destroy(graph), CUDA_SUCCESS);
}

/* Graphs may wait for the process from the first node on that waits for a value. A write is no wait. */
static void may_wait(void **state)
{
	waits_noted = 0;
	launch_with_op(CU_STREAM_MEM_OP_WRITE_VALUE_64);
	assert_int_equal(waits_noted, 0);
	launch_with_op(CU_STREAM_MEM_OP_WAIT_VALUE_32);
	assert_int_equal(waits_noted, 1);
	atomic_store(&session.has_graph_waits, false);
	launch_with_op(CU_STREAM_MEM_OP_WAIT_VALUE_64);
	assert_int_equal(waits_noted, 2);
	atomic_store(&session.has_graph_waits, false);
}

/* A back end without graphs, and one whose driver is too old for some kinds of nodes. */
static void not_there(void **state)
{
	uint64_t words[3] = {0};
	struct vcuda_args_vcudaGraphCreate a;
	struct vcuda_args_vcudaGraphAddKernel k = {.f = function, .clusterDimX = 1};
	vcuda_graph_id kept;

	ops.cuGraphInstantiateWithFlags = NULL;
	assert_int_equal(vcuda_handle_vcudaGraphCreate(&session, &a), CUDA_ERROR_NOT_SUPPORTED);
	ops = with_graphs;
	ops.cuGraphAddBatchMemOpNode = NULL;
	ops.cuGraphKernelNodeSetAttribute = NULL;
	kept = device_graph_new();
	assert_int_equal(
		vcuda_handle_vcudaGraphAddMemOps(
			&session, &(struct vcuda_args_vcudaGraphAddMemOps){.graph = kept, .words = 3, .ops = words}),
		CUDA_SUCCESS);
	assert_int_equal(finish(kept), CUDA_ERROR_NOT_SUPPORTED);
	assert_int_equal(destroy(kept), CUDA_SUCCESS);
	k.graph = device_graph_new();
	assert_int_equal(vcuda_handle_vcudaGraphAddKernel(&session, &k), CUDA_SUCCESS);
	assert_int_equal(finish(k.graph), CUDA_ERROR_NOT_SUPPORTED);
	assert_int_equal(destroy(k.graph), CUDA_SUCCESS);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(nodes),     TEST(bad_nodes), TEST(bad_order),
		TEST(gone),      TEST(limit),     TEST(destroyed_while_launched),
		TEST(not_there), TEST(may_wait),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
