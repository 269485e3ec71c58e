/* SPDX-License-Identifier: Apache-2.0 */
/* The functions of nodes: a row for each type. */
#include <stdlib.h>
#include <string.h>

#include "core/request.h"
#include "stream/callback.h"
#include "launch/computation.h"
#include "copy/copy.h"
#include "graph/conditional.h"
#include "graph/cross-context.h"
#include "stream/event.h"
#include "graph/graph.h"
#include "protocol/guest-calls.h"
#include "common/log.h"
#include "copy/memset.h"
#include "copy/stream-memory.h"
#include "stream/stream.h"

/* ---- nodes of other contexts than the stream's ---- */

/* Issues a node in its context. NULL: it is of any. */
static CUresult run_in(struct libcuda_context *home, const struct libcuda_node *n, const struct libcuda_graph_run *run,
		       CUresult (*issue)(const struct libcuda_node *n, const struct call_options *how, CUstream stream))
{
	const struct call_options in_home = libcuda_context_options(home);
	struct libcuda_context *here = libcuda_request_context(&run->how);
	struct libcuda_cross_context cross;
	CUresult result;

	if (!home || home == here)
		return issue(n, &run->how, run->resolved);
	result = libcuda_cross_context_begin(&cross, here, run->resolved, home);
	return result == CUDA_SUCCESS ? libcuda_cross_context_end(&cross, issue(n, &in_home, cross.stream)) : result;
}

/* ---- kernels ---- */

static CUresult kernel_set(struct libcuda_node *n, const CUgraphNodeParams *p)
{
	const CUDA_KERNEL_NODE_PARAMS *k = &p->kernel;
	struct libcuda_launch l = {
		.function = k->func ? k->func : (CUfunction)k->kern,
		.grid = {k->gridDimX, k->gridDimY, k->gridDimZ},
		.block = {k->blockDimX, k->blockDimY, k->blockDimZ},
		.shared = k->sharedMemBytes,
		.cooperative = n->kernel.launch.cooperative,
	};
	uint8_t *packed;
	void **params;
	CUresult result;

	memcpy(l.cluster, n->kernel.launch.cluster, sizeof(l.cluster));
	result = libcuda_launch_pack(n->context, &l, k->kernelParams, k->extra, &packed, &params);
	if (result != CUDA_SUCCESS)
		return result;
	free(n->kernel.packed);
	n->kernel.launch = l;
	n->kernel.packed = packed;
	n->kernel.params = params;
	return CUDA_SUCCESS;
}

static void kernel_get(const struct libcuda_node *n, CUgraphNodeParams *p)
{
	const struct libcuda_launch *l = &n->kernel.launch;

	p->kernel = (CUDA_KERNEL_NODE_PARAMS){
		.func = l->function,
		.gridDimX = l->grid[0],
		.gridDimY = l->grid[1],
		.gridDimZ = l->grid[2],
		.blockDimX = l->block[0],
		.blockDimY = l->block[1],
		.blockDimZ = l->block[2],
		.sharedMemBytes = l->shared,
		.kernelParams = n->kernel.params,
	};
}

static void kernel_drop(struct libcuda_node *n)
{
	free(n->kernel.packed);
}

static CUresult issue_kernel(const struct libcuda_node *n, const struct call_options *how, CUstream stream)
{
	return libcuda_launch_issue(how, &n->kernel.launch, stream, n->kernel.packed);
}

static CUresult kernel_run(const struct libcuda_node *n, const struct libcuda_graph_run *run)
{
	const struct libcuda_object *f = libcuda_object_find(LIBCUDA_OBJECT_FUNCTION, n->kernel.launch.function);

	/* A kernel has no context. */
	return run_in(f ? f->context : NULL, n, run, issue_kernel);
}

/* ---- copies, memsets ---- */

static CUresult memcpy_set(struct libcuda_node *n, const CUgraphNodeParams *p)
{
	n->memcpy = p->memcpy.copyParams;
	return CUDA_SUCCESS;
}

static void memcpy_get(const struct libcuda_node *n, CUgraphNodeParams *p)
{
	p->memcpy.copyParams = n->memcpy;
}

static CUresult memcpy_run(const struct libcuda_node *n, const struct libcuda_graph_run *run)
{
	return libcuda_copy_3d(&n->memcpy, run->stream, true);
}

static CUresult memset_set(struct libcuda_node *n, const CUgraphNodeParams *p)
{
	const CUDA_MEMSET_NODE_PARAMS_v2 *m = &p->memset;

	if (m->elementSize != 1 && m->elementSize != 2 && m->elementSize != 4)
		return CUDA_ERROR_INVALID_VALUE;
	n->memset = (CUDA_MEMSET_NODE_PARAMS){m->dst, m->pitch, m->value, m->elementSize, m->width, m->height};
	return CUDA_SUCCESS;
}

static void memset_get(const struct libcuda_node *n, CUgraphNodeParams *p)
{
	const CUDA_MEMSET_NODE_PARAMS *m = &n->memset;

	p->memset = (CUDA_MEMSET_NODE_PARAMS_v2){
		.dst = m->dst,
		.pitch = m->pitch,
		.value = m->value,
		.elementSize = m->elementSize,
		.width = m->width,
		.height = m->height,
	};
}

static CUresult memset_run(const struct libcuda_node *n, const struct libcuda_graph_run *run)
{
	return libcuda_memset(&n->memset, run->stream);
}

/* ---- host functions, child graphs, events ---- */

static CUresult host_set(struct libcuda_node *n, const CUgraphNodeParams *p)
{
	if (!p->host.fn)
		return CUDA_ERROR_INVALID_VALUE;
	n->host = p->host;
	return CUDA_SUCCESS;
}

static void host_get(const struct libcuda_node *n, CUgraphNodeParams *p)
{
	p->host = n->host;
}

static CUresult host_run(const struct libcuda_node *n, const struct libcuda_graph_run *run)
{
	return libcuda_callback_launch(&run->how, run->resolved, n->host.fn, n->host.userData);
}

static CUresult child_set(struct libcuda_node *n, const CUgraphNodeParams *p)
{
	struct libcuda_graph *g = libcuda_graph_find(p->graph.graph);

	if (!g || g == n->graph)
		return CUDA_ERROR_INVALID_VALUE;
	if (!libcuda_graph_can_be_copied(g))
		return CUDA_ERROR_NOT_SUPPORTED;
	g = libcuda_graph_clone(g, n->context);
	if (!g)
		return CUDA_ERROR_OUT_OF_MEMORY;
	if (n->child)
		libcuda_graph_free(n->child);
	g->owned = true;
	n->child = g;
	return CUDA_SUCCESS;
}

static void child_get(const struct libcuda_node *n, CUgraphNodeParams *p)
{
	p->graph.graph = n->child->handle;
}

static void child_drop(struct libcuda_node *n)
{
	if (n->child)
		libcuda_graph_free(n->child);
}

static CUresult child_run(const struct libcuda_node *n, const struct libcuda_graph_run *run)
{
	CUresult result = CUDA_SUCCESS;
	bool cycle;
	struct libcuda_node **order = libcuda_graph_order(n->child, &cycle);

	if (!order)
		return cycle ? CUDA_ERROR_INVALID_VALUE : CUDA_ERROR_OUT_OF_MEMORY;
	for (size_t i = 0; i < n->child->count && result == CUDA_SUCCESS; i++)
		result = libcuda_node_run(order[i], run);
	free(order);
	return result;
}

static CUresult event_set(struct libcuda_node *n, const CUgraphNodeParams *p)
{
	if (!libcuda_object_find(LIBCUDA_OBJECT_EVENT, p->eventRecord.event))
		return CUDA_ERROR_INVALID_HANDLE;
	n->event = p->eventRecord.event;
	return CUDA_SUCCESS;
}

static void event_get(const struct libcuda_node *n, CUgraphNodeParams *p)
{
	p->eventRecord.event = n->event;
}

static CUresult issue_record(const struct libcuda_node *n, const struct call_options *how, CUstream stream)
{
	struct libcuda_object *event = libcuda_object_find(LIBCUDA_OBJECT_EVENT, n->event);

	return event ? libcuda_event_record(how, event, stream, CU_EVENT_RECORD_DEFAULT) : CUDA_ERROR_INVALID_HANDLE;
}

static CUresult record_run(const struct libcuda_node *n, const struct libcuda_graph_run *run)
{
	struct libcuda_object *event = libcuda_object_find(LIBCUDA_OBJECT_EVENT, n->event);

	return run_in(event ? event->context : NULL, n, run, issue_record);
}

static CUresult wait_run(const struct libcuda_node *n, const struct libcuda_graph_run *run)
{
	const struct libcuda_object *event = libcuda_object_find(LIBCUDA_OBJECT_EVENT, n->event);

	return event ? libcuda_event_wait(&run->how, run->resolved, event, CU_EVENT_WAIT_DEFAULT)
		     : CUDA_ERROR_INVALID_HANDLE;
}

/* ---- memory ---- */

static CUresult alloc_set(struct libcuda_node *n, const CUgraphNodeParams *p)
{
	const CUDA_MEM_ALLOC_NODE_PARAMS *a = &p->alloc;
	CUresult result;

	/* A node keeps its memory: it cannot be set again. */
	if (n->alloc.memory || !a->bytesize || (a->accessDescCount && !a->accessDescs))
		return CUDA_ERROR_INVALID_VALUE;
	result = libcuda_graph_memory_new(n->context, a->bytesize, &n->alloc.memory);
	if (result != CUDA_SUCCESS)
		return result;
	n->alloc.params = *a;
	n->alloc.params.accessDescs = NULL;
	n->alloc.params.accessDescCount = 0;
	n->alloc.params.dptr = libcuda_graph_memory_address(n->alloc.memory);
	return CUDA_SUCCESS;
}

static void alloc_get(const struct libcuda_node *n, CUgraphNodeParams *p)
{
	p->alloc = n->alloc.params;
}

static CUresult alloc_copy(struct libcuda_node *n, const struct libcuda_node *from)
{
	n->alloc = from->alloc;
	libcuda_graph_memory_get(n->alloc.memory);
	return CUDA_SUCCESS;
}

static void alloc_drop(struct libcuda_node *n)
{
	if (n->alloc.memory)
		libcuda_graph_memory_put(n->alloc.memory);
}

static CUresult alloc_run(const struct libcuda_node *n, const struct libcuda_graph_run *run)
{
	return libcuda_graph_memory_allocate(n->alloc.memory, run->frees_first);
}

static CUresult free_set(struct libcuda_node *n, const CUgraphNodeParams *p)
{
	if (!libcuda_graph_memory_exists(p->free.dptr))
		return CUDA_ERROR_INVALID_VALUE;
	n->free = p->free.dptr;
	return CUDA_SUCCESS;
}

static void free_get(const struct libcuda_node *n, CUgraphNodeParams *p)
{
	p->free.dptr = n->free;
}

static CUresult free_run(const struct libcuda_node *n, const struct libcuda_graph_run *run)
{
	CUresult result;

	(void)run;
	return libcuda_graph_memory_free(n->free, &result) ? result : CUDA_ERROR_INVALID_VALUE;
}

/* ---- memory operations of streams ---- */

static CUresult mem_ops_set(struct libcuda_node *n, const CUgraphNodeParams *p)
{
	const CUDA_BATCH_MEM_OP_NODE_PARAMS *m = &p->memOp;
	const struct libcuda_context *c = m->ctx ? libcuda_context_find(m->ctx) : n->context;
	CUstreamBatchMemOpParams *ops;
	CUresult result;

	if (!c)
		return CUDA_ERROR_INVALID_CONTEXT;
	result = libcuda_memory_ops_check(m->paramArray, m->count, m->flags, c->device, false);
	if (result != CUDA_SUCCESS)
		return result;
	ops = malloc(m->count * sizeof(*ops));
	if (!ops)
		return CUDA_ERROR_OUT_OF_MEMORY;
	memcpy(ops, m->paramArray, m->count * sizeof(*ops));
	free(n->mem_ops.paramArray);
	n->mem_ops = *m;
	n->mem_ops.paramArray = ops;
	return CUDA_SUCCESS;
}

static void mem_ops_get(const struct libcuda_node *n, CUgraphNodeParams *p)
{
	p->memOp = n->mem_ops;
}

static void mem_ops_drop(struct libcuda_node *n)
{
	free(n->mem_ops.paramArray);
}

static CUresult mem_ops_run(const struct libcuda_node *n, const struct libcuda_graph_run *run)
{
	return libcuda_memory_ops_issue(&run->how, n->mem_ops.paramArray, n->mem_ops.count, run->resolved);
}

/* ---- computations ---- */

static CUresult computation_set(struct libcuda_node *n, const CUgraphNodeParams *p)
{
	CUgraphNodeParams from = *p;
	struct libcuda_computation *copy = libcuda_computation_copy(*libcuda_computation_of(&from));

	if (!copy)
		return CUDA_ERROR_OUT_OF_MEMORY;
	free(n->computation);
	n->computation = copy;
	return CUDA_SUCCESS;
}

static void computation_get(const struct libcuda_node *n, CUgraphNodeParams *p)
{
	*libcuda_computation_of(p) = n->computation;
}

static void computation_drop(struct libcuda_node *n)
{
	free(n->computation);
}

static CUresult issue_computation(const struct libcuda_node *n, const struct call_options *how, CUstream stream)
{
	return n->computation->issue(n->computation, how, stream);
}

static CUresult computation_run(const struct libcuda_node *n, const struct libcuda_graph_run *run)
{
	return run_in(n->computation->home, n, run, issue_computation);
}

/* ---- conditions ---- */

static void conditional_get(const struct libcuda_node *n, CUgraphNodeParams *p)
{
	p->conditional = n->conditional.params;
}

/* Only the host's driver, or the software GPU, knows a condition when it is due. */
static CUresult conditional_run(const struct libcuda_node *n, const struct libcuda_graph_run *run)
{
	(void)n;
	(void)run;
	return CUDA_ERROR_NOT_SUPPORTED;
}

/* ---- all ---- */

static CUresult empty_set(struct libcuda_node *n, const CUgraphNodeParams *p)
{
	(void)n;
	(void)p;
	return CUDA_SUCCESS;
}

static void empty_get(const struct libcuda_node *n, CUgraphNodeParams *p)
{
	(void)n;
	(void)p;
}

static CUresult empty_run(const struct libcuda_node *n, const struct libcuda_graph_run *run)
{
	(void)n;
	(void)run;
	return CUDA_SUCCESS;
}

static const struct {
	const char *name;
	CUresult (*set)(struct libcuda_node *n, const CUgraphNodeParams *p);
	void (*get)(const struct libcuda_node *n, CUgraphNodeParams *p);
	CUresult (*run)(const struct libcuda_node *n, const struct libcuda_graph_run *run);
	void (*drop)(struct libcuda_node *n);                                      /* NULL: holds nothing */
	CUresult (*copy)(struct libcuda_node *n, const struct libcuda_node *from); /* NULL: set() what get() gives */
} types[] = {
	[CU_GRAPH_NODE_TYPE_KERNEL] = {"kernel", kernel_set, kernel_get, kernel_run, kernel_drop, NULL},
	[CU_GRAPH_NODE_TYPE_MEMCPY] = {"memcpy", memcpy_set, memcpy_get, memcpy_run, NULL, NULL},
	[CU_GRAPH_NODE_TYPE_MEMSET] = {"memset", memset_set, memset_get, memset_run, NULL, NULL},
	[CU_GRAPH_NODE_TYPE_HOST] = {"host", host_set, host_get, host_run, NULL, NULL},
	[CU_GRAPH_NODE_TYPE_GRAPH] = {"graph", child_set, child_get, child_run, child_drop, NULL},
	[CU_GRAPH_NODE_TYPE_EMPTY] = {"empty", empty_set, empty_get, empty_run, NULL, NULL},
	[CU_GRAPH_NODE_TYPE_WAIT_EVENT] = {"event wait", event_set, event_get, wait_run, NULL, NULL},
	[CU_GRAPH_NODE_TYPE_EVENT_RECORD] = {"event record", event_set, event_get, record_run, NULL, NULL},
	[CU_GRAPH_NODE_TYPE_EXT_SEMAS_SIGNAL] = {"external semaphore", NULL, NULL, NULL, NULL, NULL},
	[CU_GRAPH_NODE_TYPE_EXT_SEMAS_WAIT] = {"external semaphore", NULL, NULL, NULL, NULL, NULL},
	[CU_GRAPH_NODE_TYPE_MEM_ALLOC] = {"mem alloc", alloc_set, alloc_get, alloc_run, alloc_drop, alloc_copy},
	[CU_GRAPH_NODE_TYPE_MEM_FREE] = {"mem free", free_set, free_get, free_run, NULL, NULL},
	[CU_GRAPH_NODE_TYPE_BATCH_MEM_OP] = {"batch mem op", mem_ops_set, mem_ops_get, mem_ops_run, mem_ops_drop, NULL},
	[CU_GRAPH_NODE_TYPE_CONDITIONAL] = {"conditional", libcuda_conditional_set, conditional_get, conditional_run,
					    libcuda_conditional_drop, libcuda_conditional_copy},
	[LIBCUDA_NODE_COMPUTATION] = {"computation", computation_set, computation_get, computation_run,
				      computation_drop, NULL},
};

CUresult libcuda_node_set(struct libcuda_node *n, struct libcuda_context *context, const CUgraphNodeParams *p)
{
	CUresult result = libcuda_require_init();

	if (result != CUDA_SUCCESS)
		return result;
	if ((unsigned int)n->type >= sizeof(types) / sizeof(types[0]) || p->type != n->type)
		return CUDA_ERROR_INVALID_VALUE;
	n->context = context;
	if (types[n->type].set)
		return types[n->type].set(n, p);
	vcuda_log_once("graph nodes of type \"%s\" are not supported yet", types[n->type].name);
	return CUDA_ERROR_NOT_SUPPORTED;
}

void libcuda_node_get(const struct libcuda_node *n, CUgraphNodeParams *p)
{
	memset(p, 0, sizeof(*p));
	p->type = n->type;
	types[n->type].get(n, p);
}

bool libcuda_node_may_become(const struct libcuda_node *n, const CUgraphNodeParams *p)
{
	return n->type != CU_GRAPH_NODE_TYPE_BATCH_MEM_OP || p->type != n->type ||
	       libcuda_memory_ops_alike(&n->mem_ops, &p->memOp);
}

CUresult libcuda_node_copy(struct libcuda_node *n, struct libcuda_context *context, const struct libcuda_node *from)
{
	CUgraphNodeParams p;

	n->context = context = context ? context : from->context;
	if (types[from->type].copy)
		return types[from->type].copy(n, from);
	if (from->type == CU_GRAPH_NODE_TYPE_KERNEL)
		n->kernel.launch = from->kernel.launch;
	libcuda_node_get(from, &p);
	return libcuda_node_set(n, context, &p);
}

void libcuda_node_drop(struct libcuda_node *n)
{
	if ((unsigned int)n->type < sizeof(types) / sizeof(types[0]) && types[n->type].drop)
		types[n->type].drop(n);
}

CUresult libcuda_node_run(const struct libcuda_node *n, const struct libcuda_graph_run *run)
{
	if (!n->enabled)
		return CUDA_SUCCESS;
	libcuda_thread()->launched.node = n->ids.node;
	libcuda_thread()->launched.source_graph = n->ids.source_graph;
	libcuda_thread()->launched.source_node = n->ids.source_node;
	return types[n->type].run(n, run);
}

void libcuda_node_set_source(struct libcuda_node *node, const struct libcuda_node *source)
{
	node->ids.source_graph = source->ids.graph;
	node->ids.source_node = source->ids.node;
}
