/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Handlers: graphs of the back end's, for executable graphs that the guest launches again and again. The guest adds
 * node after node, has them instantiated, and launches the whole with one command.
 *
 * A back end does not allow two threads to use one graph, but a guest may send such calls: so each graph has a lock. A
 * back end assumes that the objects of a graph exist at each launch, so their handles are checked here.
 */
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "handle/box.h"
#include "handle/device-graph.h"
#include "session/dispatch.h"
#include "protocol/handlers.h"
#include "handle/memory-ops.h"
#include "session/command.h"
#include "session/destroy.h"
#include "session/ledger.h"
#include "session/session.h"

/* Limit for the host memory of all graphs of one guest process, as counted here. */
#define MOST_BYTES (1ull << 30)
#define EDGE_BYTES 16

/* Number of earlier names that are searched for a name. */
#define NAMES_BACK 256

static pthread_mutex_t list_lock = PTHREAD_MUTEX_INITIALIZER;
static struct device_graph *unused;
static uint64_t all_bytes;

/* ---- who is at it ---- */

static struct device_graph *device_graph_new(void)
{
	struct device_graph *k;

	pthread_mutex_lock(&list_lock);
	k = unused;
	if (k) {
		unused = k->next;
		k->users = 1;
	}
	pthread_mutex_unlock(&list_lock);
	if (!k && (k = calloc(1, sizeof(*k)))) {
		pthread_mutex_init(&k->lock, NULL);
		k->users = 1;
	}
	return k;
}

bool worker_graph_take(struct device_graph *k)
{
	bool there;

	pthread_mutex_lock(&list_lock);
	there = k->users;
	k->users += there;
	pthread_mutex_unlock(&list_lock);
	return there;
}

static void empty(const struct vcuda_backend_ops *ops, struct device_graph *k)
{
	/* One that still runs is freed when it has. */
	if (k->exec)
		ops->cuGraphExecDestroy(k->exec);
	if (k->graph)
		ops->cuGraphDestroy(k->graph);
	free(k->nodes);
	free(k->names);
	free(k->ranges);
	free(k->conditions);
	free(k->condition_slots);
	k->graph = k->at = NULL;
	k->exec = NULL;
	k->is_conditional = false;
	k->failure = CUDA_SUCCESS;
	k->nodes = NULL;
	k->names = NULL;
	k->ranges = NULL;
	k->conditions = NULL;
	k->condition_slots = NULL;
	k->node_count = k->node_room = k->name_count = k->name_room = k->range_count = k->range_room = 0;
	k->condition_count = k->condition_room = k->condition_slot_count = 0;
}

void worker_graph_put(struct worker_session *s, struct device_graph *k)
{
	bool last;

	pthread_mutex_lock(&list_lock);
	last = !--k->users;
	pthread_mutex_unlock(&list_lock);
	if (!last)
		return;
	pthread_mutex_lock(&k->lock);
	empty(s->ops, k);
	pthread_mutex_unlock(&k->lock);
	pthread_mutex_lock(&list_lock);
	all_bytes -= k->bytes;
	k->bytes = k->node_bytes = 0;
	k->next = unused;
	unused = k;
	pthread_mutex_unlock(&list_lock);
}

/* ---- what it takes and names; with its lock held ---- */

CUresult worker_graph_account(struct device_graph *k, uint64_t bytes)
{
	bool fits;

	pthread_mutex_lock(&list_lock);
	fits = bytes <= MOST_BYTES && all_bytes <= MOST_BYTES - bytes && worker_ledger_host_room(bytes);
	if (fits) {
		all_bytes += bytes;
		k->bytes += bytes;
	}
	pthread_mutex_unlock(&list_lock);
	return fits ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
}

void worker_graph_unaccount(struct device_graph *k, uint64_t bytes)
{
	pthread_mutex_lock(&list_lock);
	all_bytes -= bytes;
	k->bytes -= bytes;
	pthread_mutex_unlock(&list_lock);
}

bool worker_graph_grow(void **array, uint32_t count, uint32_t *room, size_t size)
{
	uint32_t larger = *room ? *room * 2 : 16;
	void *p;

	if (count < *room)
		return true;
	p = reallocarray(*array, larger, size);
	if (!p)
		return false;
	*array = p;
	*room = larger;
	return true;
}

/* The object of an id, which must live as long as the graph is launched. */
static CUresult name(struct worker_session *s, struct device_graph *k, uint32_t kinds, uint64_t id, void **object)
{
	CUresult result;

	*object = (void *)(uintptr_t)id;
	result = worker_resolve(s, kinds, 0, object);
	if (result != CUDA_SUCCESS)
		return result;
	for (uint32_t i = k->name_count; i-- > 0 && k->name_count - i <= NAMES_BACK;)
		if (k->names[i] == id)
			return CUDA_SUCCESS;
	if (!worker_graph_grow((void **)&k->names, k->name_count, &k->name_room, sizeof(*k->names)))
		return CUDA_ERROR_OUT_OF_MEMORY;
	k->names[k->name_count++] = id;
	return CUDA_SUCCESS;
}

static CUresult name_array(struct worker_session *s, struct device_graph *k, uint64_t id, CUarray *array)
{
	void *object = NULL;
	CUresult result = id ? name(s, k, WORKER_ACCEPT(VCUDA_KIND_ARRAY), id, &object) : CUDA_SUCCESS;

	*array = object;
	return result;
}

static CUresult name_mapped_range(struct worker_session *s, struct device_graph *k, const struct mapped_range *w)
{
	CUresult result = worker_mapping_check(s, w->start, w->bytes, w->writable);

	if (result != CUDA_SUCCESS)
		return result;
	for (uint32_t i = k->range_count; i-- > 0 && k->range_count - i <= NAMES_BACK;)
		if (k->ranges[i].start == w->start && k->ranges[i].bytes == w->bytes &&
		    k->ranges[i].writable == w->writable)
			return CUDA_SUCCESS;
	if (!worker_graph_grow((void **)&k->ranges, k->range_count, &k->range_room, sizeof(*k->ranges)))
		return CUDA_ERROR_OUT_OF_MEMORY;
	k->ranges[k->range_count++] = *w;
	return CUDA_SUCCESS;
}

static CUresult all_is_mapped(struct worker_session *s, const struct device_graph *k)
{
	CUresult result = CUDA_SUCCESS;

	for (uint32_t i = 0; i < k->range_count && result == CUDA_SUCCESS; i++)
		result = worker_mapping_check(s, k->ranges[i].start, k->ranges[i].bytes, k->ranges[i].writable);
	return result;
}

/* ---- nodes ---- */

CUresult worker_graph_add_at(struct worker_graph_place *p, const uint32_t *deps, uint64_t bytes,
			     CUresult (*make)(const struct worker_graph_place *p, void *arguments), void *arguments)
{
	struct device_graph *k = p->k;
	CUresult result;

	bytes += NODE_BYTES + p->count * EDGE_BYTES;
	result = worker_graph_account(k, bytes);
	if (result != CUDA_SUCCESS)
		return result;
	k->node_bytes += bytes;
	if (!worker_graph_grow((void **)&k->nodes, k->node_count, &k->node_room, sizeof(*k->nodes)))
		return CUDA_ERROR_OUT_OF_MEMORY;
	for (size_t i = 0; i < p->count; i++) {
		if (deps[i] >= k->node_count || k->nodes[deps[i]].home != k->at)
			return CUDA_ERROR_INVALID_VALUE;
		p->deps[i] = k->nodes[deps[i]].node;
	}
	k->nodes[k->node_count] = (struct worker_graph_node){.home = k->at};
	p->node = &k->nodes[k->node_count].node;
	result = make(p, arguments);
	/* A node whose attribute was refused exists nevertheless. */
	k->node_count += *p->node != NULL;
	return result;
}

CUresult worker_graph_add(struct worker_session *s, vcuda_graph_id handle, const uint32_t *deps, uint32_t count,
			  uint64_t bytes, CUresult (*make)(const struct worker_graph_place *p, void *arguments),
			  void *arguments)
{
	struct worker_graph_place p = {.s = s, .k = (struct device_graph *)handle, .count = count};
	CUresult result = CUDA_SUCCESS;

	if (!worker_graph_take(p.k))
		return CUDA_ERROR_INVALID_HANDLE;
	p.deps = malloc((count + 1ull) * sizeof(CUgraphNode));
	pthread_mutex_lock(&p.k->lock);
	if (!p.k->graph || p.k->exec)
		result = CUDA_ERROR_INVALID_VALUE;
	else if (!p.deps)
		p.k->failure = CUDA_ERROR_OUT_OF_MEMORY;
	else if (p.k->failure == CUDA_SUCCESS)
		p.k->failure = worker_graph_add_at(&p, deps, bytes, make, arguments);
	pthread_mutex_unlock(&p.k->lock);
	free(p.deps);
	worker_graph_put(s, p.k);
	return result;
}

static CUresult make_empty(const struct worker_graph_place *p, void *unused_arguments)
{
	(void)unused_arguments;
	return p->s->ops->cuGraphAddEmptyNode(p->node, p->k->at, p->deps, p->count);
}

CUresult vcuda_handle_vcudaGraphAddEmpty(struct worker_session *s, struct vcuda_args_vcudaGraphAddEmpty *a)
{
	return worker_graph_add(s, a->graph, a->deps, a->count, 0, make_empty, NULL);
}

/* The driver takes a cooperative kernel's parameters one by one only. NULL: they are not as the function has them. */
static void **separate(struct worker_session *s, CUfunction f, const struct vcuda_args_vcudaGraphAddKernel *a,
		       void **params)
{
	size_t offset, size;

	if (!s->ops->cuFuncGetParamInfo)
		return NULL;
	for (size_t i = 0;
	     i < VCUDA_FUNCTION_PARAMS && s->ops->cuFuncGetParamInfo(f, i, &offset, &size) == CUDA_SUCCESS; i++) {
		if (offset > a->paramBytes || size > a->paramBytes - offset)
			return NULL;
		params[i] = a->params + offset;
	}
	return params;
}

static CUresult set_attribute(const struct worker_graph_place *p, CUlaunchAttributeID id,
			      const CUlaunchAttributeValue *value)
{
	CUlaunchAttributeValue v = *value;

	if (!p->s->ops->cuGraphKernelNodeSetAttribute)
		return CUDA_ERROR_NOT_SUPPORTED;
	return p->s->ops->cuGraphKernelNodeSetAttribute(*p->node, (int)id, &v);
}

static CUresult make_kernel(const struct worker_graph_place *p, void *arguments)
{
	const struct vcuda_args_vcudaGraphAddKernel *a = arguments;
	size_t bytes = a->paramBytes;
	void *extra[] = {CU_LAUNCH_PARAM_BUFFER_POINTER, a->params, CU_LAUNCH_PARAM_BUFFER_SIZE, &bytes,
			 CU_LAUNCH_PARAM_END},
	     *params[VCUDA_FUNCTION_PARAMS], *f;
	CUlaunchAttributeValue v = {.pad = {0}};
	CUDA_KERNEL_NODE_PARAMS k = {
		.gridDimX = a->gridDimX,
		.gridDimY = a->gridDimY,
		.gridDimZ = a->gridDimZ,
		.blockDimX = a->blockDimX,
		.blockDimY = a->blockDimY,
		.blockDimZ = a->blockDimZ,
		.sharedMemBytes = a->sharedMemBytes,
		.extra = bytes && !a->cooperative ? extra : NULL,
	};
	CUresult result =
		name(p->s, p->k, WORKER_ACCEPT(VCUDA_KIND_FUNCTION) | WORKER_ACCEPT(VCUDA_KIND_KERNEL), a->f, &f);

	if (result != CUDA_SUCCESS)
		return result;
	k.func = f;
	if (a->cooperative && !(k.kernelParams = separate(p->s, k.func, a, params)))
		return CUDA_ERROR_INVALID_VALUE;
	result = p->s->ops->cuGraphAddKernelNode_v2(p->node, p->k->at, p->deps, p->count, &k);
	if (result == CUDA_SUCCESS && a->cooperative) {
		v.cooperative = 1;
		result = set_attribute(p, CU_LAUNCH_ATTRIBUTE_COOPERATIVE, &v);
	}
	if (result == CUDA_SUCCESS && a->clusterDimX) {
		v = (CUlaunchAttributeValue){.pad = {0}};
		v.clusterDim.x = a->clusterDimX;
		v.clusterDim.y = a->clusterDimY;
		v.clusterDim.z = a->clusterDimZ;
		result = set_attribute(p, CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION, &v);
	}
	return result;
}

CUresult vcuda_handle_vcudaGraphAddKernel(struct worker_session *s, struct vcuda_args_vcudaGraphAddKernel *a)
{
	return worker_graph_add(s, a->graph, a->deps, a->count, a->paramBytes, make_kernel, a);
}

static CUresult make_memset(const struct worker_graph_place *p, void *arguments)
{
	const struct vcuda_args_vcudaGraphAddMemset *a = arguments;
	CUDA_MEMSET_NODE_PARAMS m = {a->dst, a->pitch, a->value, a->elementSize, a->width, a->height};

	return p->s->ops->cuGraphAddMemsetNode(p->node, p->k->at, p->deps, p->count, &m, p->k->context);
}

CUresult vcuda_handle_vcudaGraphAddMemset(struct worker_session *s, struct vcuda_args_vcudaGraphAddMemset *a)
{
	return worker_graph_add(s, a->graph, a->deps, a->count, 0, make_memset, a);
}

static CUresult check_host_end(const struct worker_graph_place *p, const vcuda_box *box, const vcuda_box_end *end,
			       uint64_t bytes, bool writable)
{
	const struct mapped_range w = {(const void *)(uintptr_t)end->address, bytes, writable};

	return worker_box_fits(box, end, bytes) ? name_mapped_range(p->s, p->k, &w) : CUDA_ERROR_INVALID_VALUE;
}

static CUresult make_copy(const struct worker_graph_place *p, void *arguments)
{
	const struct vcuda_args_vcudaGraphAddCopy *a = arguments;
	CUDA_MEMCPY3D copy;
	CUarray dst, src;
	CUresult result = name_array(p->s, p->k, a->dst, &dst);

	if (result == CUDA_SUCCESS)
		result = name_array(p->s, p->k, a->src, &src);
	if (result == CUDA_SUCCESS && a->dstBytes)
		result = dst ? CUDA_ERROR_INVALID_VALUE : check_host_end(p, &a->box, &a->box.dst, a->dstBytes, true);
	if (result == CUDA_SUCCESS && a->srcBytes)
		result = src ? CUDA_ERROR_INVALID_VALUE : check_host_end(p, &a->box, &a->box.src, a->srcBytes, false);
	if (result != CUDA_SUCCESS)
		return result;
	copy = worker_box_describe(&a->box, dst, src);
	if (a->dstBytes) {
		copy.dstMemoryType = CU_MEMORYTYPE_HOST;
		copy.dstHost = (void *)(uintptr_t)a->box.dst.address;
	}
	if (a->srcBytes) {
		copy.srcMemoryType = CU_MEMORYTYPE_HOST;
		copy.srcHost = (const void *)(uintptr_t)a->box.src.address;
	}
	return p->s->ops->cuGraphAddMemcpyNode(p->node, p->k->at, p->deps, p->count, &copy, p->k->context);
}

CUresult vcuda_handle_vcudaGraphAddCopy(struct worker_session *s, struct vcuda_args_vcudaGraphAddCopy *a)
{
	return worker_graph_add(s, a->graph, a->deps, a->count, 0, make_copy, a);
}

static CUresult make_mem_ops(const struct worker_graph_place *p, void *arguments)
{
	const struct vcuda_args_vcudaGraphAddMemOps *a = arguments;
	CUstreamBatchMemOpParams ops[VCUDA_MEMORY_OPS_MAX];
	CUDA_BATCH_MEM_OP_NODE_PARAMS m = {.ctx = p->k->context, .paramArray = ops};

	if (!p->s->ops->cuGraphAddBatchMemOpNode)
		return CUDA_ERROR_NOT_SUPPORTED;
	m.count = worker_memory_ops_read(a->ops, a->words, ops);
	if (!m.count)
		return CUDA_ERROR_INVALID_VALUE;
	if (worker_memory_ops_wait(ops, m.count))
		atomic_store(&p->s->has_graph_waits, true);
	return p->s->ops->cuGraphAddBatchMemOpNode(p->node, p->k->at, p->deps, p->count, &m);
}

CUresult vcuda_handle_vcudaGraphAddMemOps(struct worker_session *s, struct vcuda_args_vcudaGraphAddMemOps *a)
{
	return worker_graph_add(s, a->graph, a->deps, a->count, a->words * sizeof(*a->ops), make_mem_ops, a);
}

/* ---- the whole ---- */

/*
 * Functions that not every driver has are looked for when a node wants them. Nothing is said: the guest asks once. The
 * software GPU has no cuGraphInstantiateWithFlags: only graphs with conditional nodes are kept there.
 */
static bool has_graphs(const struct vcuda_backend_ops *ops)
{
	return ops->cuGraphCreate && ops->cuGraphAddEmptyNode && ops->cuGraphAddKernelNode_v2 &&
	       ops->cuGraphAddMemsetNode && ops->cuGraphAddMemcpyNode && ops->cuGraphInstantiateWithFlags &&
	       ops->cuGraphLaunch && ops->cuGraphExecDestroy && ops->cuGraphDestroy;
}

CUresult worker_graph_create(struct worker_session *s, bool is_conditional, vcuda_graph_id *graph)
{
	struct device_graph *k = device_graph_new();
	CUresult result;

	if (!k)
		return CUDA_ERROR_OUT_OF_MEMORY;
	/* A guest that guesses its handle's last call may be at it still. */
	pthread_mutex_lock(&k->lock);
	result = worker_graph_account(k, NODE_BYTES);
	if (result == CUDA_SUCCESS)
		result = s->ops->cuCtxGetCurrent(&k->context);
	if (result == CUDA_SUCCESS)
		result = s->ops->cuGraphCreate(&k->graph, 0);
	k->at = k->graph;
	k->is_conditional = is_conditional;
	pthread_mutex_unlock(&k->lock);
	if (result != CUDA_SUCCESS)
		worker_graph_put(s, k);
	*graph = (vcuda_graph_id)k;
	return result;
}

CUresult vcuda_handle_vcudaGraphCreate(struct worker_session *s, struct vcuda_args_vcudaGraphCreate *a)
{
	return has_graphs(s->ops) ? worker_graph_create(s, false, &a->graph) : CUDA_ERROR_NOT_SUPPORTED;
}

static CUresult finish(struct worker_session *s, struct device_graph *k)
{
	CUresult result = k->graph ? k->failure : CUDA_ERROR_INVALID_VALUE;

	if (k->is_conditional && result == CUDA_SUCCESS)
		return worker_graph_instantiate(s, k);
	if (result == CUDA_SUCCESS)
		result = s->ops->cuGraphInstantiateWithFlags(&k->exec, k->graph, 0);
	if (result != CUDA_SUCCESS)
		return result;
	/* The executable graph needs neither the graph nor the list of nodes. */
	s->ops->cuGraphDestroy(k->graph);
	k->graph = k->at = NULL;
	free(k->nodes);
	k->nodes = NULL;
	k->node_count = k->node_room = 0;
	return CUDA_SUCCESS;
}

CUresult vcuda_handle_vcudaGraphFinish(struct worker_session *s, struct vcuda_args_vcudaGraphFinish *a)
{
	struct device_graph *k = (struct device_graph *)a->graph;
	CUresult result;

	if (!worker_graph_take(k))
		return CUDA_ERROR_INVALID_HANDLE;
	pthread_mutex_lock(&k->lock);
	result = finish(s, k);
	pthread_mutex_unlock(&k->lock);
	worker_graph_put(s, k);
	return result;
}

/* The launch uses the objects that the graph names. */
static CUresult launch(struct worker_session *s, const struct device_graph *k, CUstream stream)
{
	CUresult result = k->exec ? all_is_mapped(s, k) : CUDA_ERROR_INVALID_VALUE;

	if (result != CUDA_SUCCESS)
		return result;
	if (!worker_handles_get(s->handles, k->names, k->name_count))
		return CUDA_ERROR_INVALID_HANDLE;
	result = s->ops->cuGraphLaunch(k->exec, stream);
	if (worker_handles_put(s->handles, k->names, k->name_count))
		worker_destroy_ready(s);
	return result;
}

CUresult vcuda_handle_vcudaGraphLaunch(struct worker_session *s, struct vcuda_args_vcudaGraphLaunch *a)
{
	struct device_graph *k = (struct device_graph *)a->graph;
	CUresult result;

	if (!worker_graph_take(k))
		return CUDA_ERROR_INVALID_HANDLE;
	if (atomic_load(&s->has_graph_waits))
		worker_command_note_wait();
	pthread_mutex_lock(&k->lock);
	result = launch(s, k, a->hStream);
	pthread_mutex_unlock(&k->lock);
	worker_graph_put(s, k);
	return result;
}

CUresult vcuda_handle_vcudaGraphDestroy(struct worker_session *s, struct vcuda_args_vcudaGraphDestroy *a)
{
	worker_graph_put(s, (struct device_graph *)a->graph);
	return CUDA_SUCCESS;
}
