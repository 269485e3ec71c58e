/* SPDX-License-Identifier: Apache-2.0 */
#include "graph/device-graph.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "copy/copy-array.h"
#include "graph/conditional.h"
#include "core/request.h"
#include "memory/array.h"
#include "protocol/guest-calls.h"
#include "common/log.h"
#include "copy/memset.h"
#include "memory/range.h"
#include "guest/client/session.h"
#include "copy/stream-memory.h"
#include "core/hooks.h"
#include "core/thread.h"

/*
 * After so many launches as it is, a graph is kept. One that was changed and launched again so often that keeping did
 * not pay has to prove itself.
 */
#define LAUNCHES 1
#define CHANGES 4
#define MORE_LAUNCHES 16

#define NODES_A_PLACE 16

#define NO_NODE UINT32_MAX

/* The largest distance of two rows, in bytes, that a driver accepts. */
#define MAX_PITCH 0x7fffffffull

/*
 * A graph that the worker keeps, and the context that it ends with. No record points to an executable graph: a program
 * that destroys one while another thread launches it harms only itself.
 */
struct record {
	vcuda_graph_id id;
	struct libcuda_context *context;
	struct record *next;
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct record *records;
static _Atomic bool impossible; /* the worker has no such calls, or its back end no graphs */

static void find_out(void)
{
	const char *wanted = getenv("VCUDA_GRAPHS");

	impossible = (wanted && !strcmp(wanted, "replay")) ||
		     client_session.transport->host_minor < vcuda_call_table[VCUDA_OP_vcudaGraphCreate].since_minor;
}

static bool is_possible(void)
{
	static pthread_once_t once = PTHREAD_ONCE_INIT;

	pthread_once(&once, find_out);
	return !impossible;
}

/* ---- which nodes the driver's graph does as a replay does ---- */

/* `whole`: the graph is never replayed. */
static bool is_plain(struct libcuda_context *context, const struct libcuda_node *n, bool whole);

/* Another device's memory is a matter of who may reach it, which a copy in a stream finds out. */
static bool is_here(const struct libcuda_context *context, uint64_t address)
{
	struct libcuda_range r;

	return !libcuda_range_find(address, &r) || !r.context || r.context->device == context->device;
}

static bool is_plain_side(const struct libcuda_context *context, const struct libcuda_box_side *side)
{
	const struct libcuda_object *array = side->type == CU_MEMORYTYPE_ARRAY ? libcuda_array_find(side->array) : NULL;

	if (side->type == CU_MEMORYTYPE_ARRAY)
		return array && array->context && array->context->device == context->device;
	if (side->end.pitch > MAX_PITCH || side->kind == LIBCUDA_MEMORY_PAGEABLE)
		return false;
	return side->kind == LIBCUDA_MEMORY_MAPPED || is_here(context, side->end.address);
}

static bool is_plain_copy(const struct libcuda_context *context, const CUDA_MEMCPY3D *description,
			  struct libcuda_box_copy *copy)
{
	if (libcuda_box_copy_check(context, description, copy) != CUDA_SUCCESS)
		return false;
	if (libcuda_box_is_empty(&copy->box))
		return true;
	return is_plain_side(context, &copy->to) && is_plain_side(context, &copy->from) &&
	       (copy->to.kind == LIBCUDA_MEMORY_DEVICE || copy->from.kind == LIBCUDA_MEMORY_DEVICE);
}

static bool is_plain_graph(struct libcuda_context *context, const struct libcuda_graph *g, bool whole)
{
	for (const struct libcuda_node *n = g->first; n; n = n->next)
		if (!is_plain(context, n, whole))
			return false;
	return true;
}

static bool are_plain_bodies(struct libcuda_context *context, const struct libcuda_node *n)
{
	for (unsigned int i = 0; i < n->conditional.params.size; i++)
		if (!is_plain_graph(context, n->conditional.bodies[i], true))
			return false;
	return true;
}

static bool is_plain(struct libcuda_context *context, const struct libcuda_node *n, bool whole)
{
	uint64_t words[VCUDA_MEMORY_OPS_MAX * VCUDA_MEMORY_OP_WORDS];
	struct libcuda_box_copy copy;
	uint32_t bytes;
	bool unsure;

	if (!n->enabled)
		return true;
	switch (n->type) {
	case CU_GRAPH_NODE_TYPE_KERNEL:
		/* A replay finds out what is wrong with a kernel that was never launched. */
		return whole ? libcuda_launch_is_there(context, &n->kernel.launch, &bytes)
			     : libcuda_launch_is_known(context, &n->kernel.launch, &bytes);
	case CU_GRAPH_NODE_TYPE_MEMCPY:
		return is_plain_copy(context, &n->memcpy, &copy);
	case CU_GRAPH_NODE_TYPE_MEMSET:
		return libcuda_memset_is_sound(&n->memset) && is_here(context, n->memset.dst);
	case CU_GRAPH_NODE_TYPE_BATCH_MEM_OP:
		return libcuda_memory_ops_encode(n->mem_ops.paramArray, n->mem_ops.count, words, &unsure) ==
		       CUDA_SUCCESS;
	case CU_GRAPH_NODE_TYPE_GRAPH:
		return is_plain_graph(context, n->child, whole);
	case CU_GRAPH_NODE_TYPE_CONDITIONAL:
		return are_plain_bodies(context, n);
	case CU_GRAPH_NODE_TYPE_EMPTY:
		return true;
	default:
		return false;
	}
}

/* Whether a plain graph does anything. */
static bool has_work(const struct libcuda_graph *g)
{
	bool any = false;

	for (const struct libcuda_node *n = g->first; n && !any; n = n->next)
		if (n->enabled && n->type == CU_GRAPH_NODE_TYPE_GRAPH)
			any = has_work(n->child);
		else
			any = n->enabled && n->type != CU_GRAPH_NODE_TYPE_EMPTY;
	return any;
}

/* ---- what the worker is told ---- */

/* The worker's graph in the making. Its nodes are numbered in the order in which they are sent. */
struct making {
	struct libcuda_context *context;
	struct call_options how; /* calls in the context */
	vcuda_graph_id id;
	uint32_t count;
	uint32_t at_node, at_body; /* the body where nodes go, or NO_NODE */
	uint32_t *deps;            /* of the node that is sent */
	size_t room;
};

static CUresult send_graph(struct making *m, struct libcuda_node *const *order, size_t count, const uint32_t *entry);

static bool want_deps(struct making *m, size_t count)
{
	uint32_t *larger;

	if (count <= m->room)
		return true;
	larger = realloc(m->deps, count * sizeof(*larger));
	if (!larger)
		return false;
	m->deps = larger;
	m->room = count;
	return true;
}

static CUresult send_kernel(struct making *m, const struct libcuda_node *n, uint32_t count)
{
	const struct libcuda_launch *l = &n->kernel.launch;
	uint32_t bytes;

	if (!libcuda_launch_is_there(m->context, l, &bytes))
		return CUDA_ERROR_INVALID_HANDLE;
	return vcuda_call_vcudaGraphAddKernel_with(&m->how, m->id, (uintptr_t)l->function, l->grid[0], l->grid[1],
						   l->grid[2], l->block[0], l->block[1], l->block[2], l->cluster[0],
						   l->cluster[1], l->cluster[2], l->shared, l->cooperative, bytes,
						   n->kernel.packed, count, m->deps);
}

static CUresult send_empty(struct making *m, uint32_t count)
{
	return vcuda_call_vcudaGraphAddEmpty_with(&m->how, m->id, count, m->deps);
}

static CUresult send_memset(struct making *m, const struct libcuda_node *n, uint32_t count)
{
	const CUDA_MEMSET_NODE_PARAMS *s = &n->memset;
	size_t pitch = s->height > 1 ? s->pitch : s->width * s->elementSize;

	if (!s->width || !s->height)
		return send_empty(m, count);
	return vcuda_call_vcudaGraphAddMemset_with(&m->how, m->id, s->dst, pitch, s->value, s->elementSize, s->width,
						   s->height, count, m->deps);
}

static CUresult send_copy(struct making *m, const struct libcuda_node *n, uint32_t count)
{
	struct libcuda_box_copy c;

	if (!is_plain_copy(m->context, &n->memcpy, &c))
		return CUDA_ERROR_INVALID_VALUE;
	if (libcuda_box_is_empty(&c.box))
		return send_empty(m, count);
	return vcuda_call_vcudaGraphAddCopy_with(
		&m->how, m->id, (uintptr_t)c.to.array, c.to.kind == LIBCUDA_MEMORY_MAPPED ? c.to.extent : 0,
		(uintptr_t)c.from.array, c.from.kind == LIBCUDA_MEMORY_MAPPED ? c.from.extent : 0, c.box, count,
		m->deps);
}

static CUresult send_mem_ops(struct making *m, const struct libcuda_node *n, uint32_t count)
{
	uint64_t words[VCUDA_MEMORY_OPS_MAX * VCUDA_MEMORY_OP_WORDS];
	bool unsure;
	CUresult result = libcuda_memory_ops_encode(n->mem_ops.paramArray, n->mem_ops.count, words, &unsure);

	if (result != CUDA_SUCCESS)
		return result;
	return vcuda_call_vcudaGraphAddMemOps_with(&m->how, m->id, n->mem_ops.count * VCUDA_MEMORY_OP_WORDS, words,
						   count, m->deps);
}

/* A child's nodes stand between two empty ones. */
static CUresult send_child(struct making *m, const struct libcuda_node *n, uint32_t count)
{
	uint32_t entry = m->count;
	bool cycle;
	struct libcuda_node **order = libcuda_graph_order(n->child, &cycle);
	CUresult result = order ? send_empty(m, count) : CUDA_ERROR_OUT_OF_MEMORY;

	m->count++;
	if (result == CUDA_SUCCESS)
		result = send_graph(m, order, n->child->count, &entry);
	free(order);
	if (result == CUDA_SUCCESS && !want_deps(m, n->child->count + 1))
		result = CUDA_ERROR_OUT_OF_MEMORY;
	if (result != CUDA_SUCCESS)
		return result;
	count = 0;
	for (const struct libcuda_node *c = n->child->first; c; c = c->next)
		if (c->is_last)
			m->deps[count++] = c->device_index;
	if (!count)
		m->deps[count++] = entry;
	return send_empty(m, count);
}

static CUresult send_conditional(struct making *m, const struct libcuda_node *n, uint32_t count)
{
	const CUDA_CONDITIONAL_NODE_PARAMS *p = &n->conditional.params;

	return vcuda_call_vcudaGraphAddConditional_with(&m->how, m->id, p->handle, (int)p->type, p->size, count,
							m->deps);
}

static CUresult enter(struct making *m, uint32_t node, uint32_t body)
{
	m->at_node = node;
	m->at_body = body;
	return vcuda_call_vcudaGraphEnter_with(&m->how, m->id, node, body);
}

/* The node was sent before. */
static CUresult send_bodies(struct making *m, const struct libcuda_node *n)
{
	const uint32_t node = m->at_node, body = m->at_body;
	CUresult result = CUDA_SUCCESS;
	bool cycle;

	for (unsigned int i = 0; i < n->conditional.params.size && result == CUDA_SUCCESS; i++) {
		struct libcuda_node **order = libcuda_graph_order(n->conditional.bodies[i], &cycle);

		if (!order)
			return cycle ? CUDA_ERROR_INVALID_VALUE : CUDA_ERROR_OUT_OF_MEMORY;
		result = enter(m, n->device_index, i);
		if (result == CUDA_SUCCESS)
			result = send_graph(m, order, n->conditional.bodies[i]->count, NULL);
		free(order);
	}
	return result == CUDA_SUCCESS ? enter(m, node, body) : result;
}

/* `count` of m->deps are what it comes after. */
static CUresult send_one(struct making *m, const struct libcuda_node *n, uint32_t count)
{
	if (!n->enabled)
		return send_empty(m, count);
	switch (n->type) {
	case CU_GRAPH_NODE_TYPE_KERNEL:
		return send_kernel(m, n, count);
	case CU_GRAPH_NODE_TYPE_MEMCPY:
		return send_copy(m, n, count);
	case CU_GRAPH_NODE_TYPE_MEMSET:
		return send_memset(m, n, count);
	case CU_GRAPH_NODE_TYPE_BATCH_MEM_OP:
		return send_mem_ops(m, n, count);
	case CU_GRAPH_NODE_TYPE_GRAPH:
		return send_child(m, n, count);
	case CU_GRAPH_NODE_TYPE_CONDITIONAL:
		return send_conditional(m, n, count);
	default:
		return send_empty(m, count);
	}
}

/* `entry`: the worker's node that those come after that come after nothing else, or NULL. */
static CUresult send_graph(struct making *m, struct libcuda_node *const *order, size_t count, const uint32_t *entry)
{
	CUresult result = CUDA_SUCCESS;

	for (size_t i = 0; i < count && result == CUDA_SUCCESS; i++) {
		struct libcuda_node *n = order[i];
		uint32_t deps = 0;

		if (!want_deps(m, n->dep_count + 1))
			return CUDA_ERROR_OUT_OF_MEMORY;
		n->is_last = true;
		for (; deps < n->dep_count; deps++) {
			n->deps[deps]->is_last = false;
			m->deps[deps] = n->deps[deps]->device_index;
		}
		if (!deps && entry)
			m->deps[deps++] = *entry;
		result = send_one(m, n, deps);
		n->device_index = m->count++;
		if (result == CUDA_SUCCESS && n->type == CU_GRAPH_NODE_TYPE_CONDITIONAL)
			result = send_bodies(m, n);
	}
	return result;
}

/* ---- keeping ---- */

/* Takes out the record of an id, or, without one, a record of the context. NULL: there is none. */
static vcuda_graph_id take_record(vcuda_graph_id id, const struct libcuda_context *c)
{
	struct record **at, *r;

	pthread_mutex_lock(&lock);
	for (at = &records; *at && (id ? (*at)->id != id : (*at)->context != c);)
		at = &(*at)->next;
	r = *at;
	if (r)
		*at = r->next;
	pthread_mutex_unlock(&lock);
	id = r ? r->id : NULL;
	free(r);
	return id;
}

static void destroy(vcuda_graph_id id, struct libcuda_context *c)
{
	const struct call_options how = libcuda_context_options(c);

	vcuda_call_vcudaGraphDestroy_with(&how, id);
}

static CUresult remember(struct libcuda_device_graph *k, vcuda_graph_id id, uint32_t nodes)
{
	struct record *r = malloc(sizeof(*r));

	if (!r)
		return CUDA_ERROR_OUT_OF_MEMORY;
	*r = (struct record){.id = id, .context = k->context};
	pthread_mutex_lock(&lock);
	r->next = records;
	records = r;
	pthread_mutex_unlock(&lock);
	k->credits = nodes / NODES_A_PLACE + 1;
	id = atomic_exchange(&k->id, id);
	/* Another thread has kept it at the same time. */
	if (id && take_record(id, NULL))
		destroy(id, k->context);
	return CUDA_SUCCESS;
}

static CUresult make(struct libcuda_device_graph *k, struct libcuda_context *context, struct libcuda_node *const *order,
		     size_t count)
{
	struct making m = {.context = context, .how = libcuda_context_options(context), .at_node = NO_NODE};
	CUresult result;

	k->context = context;
	k->generation = atomic_load(&k->context->generation);
	result = vcuda_call_vcudaGraphCreate_with(&m.how, &m.id);
	if (result == CUDA_ERROR_NOT_SUPPORTED)
		impossible = true;
	if (result != CUDA_SUCCESS)
		return result;
	result = send_graph(&m, order, count, NULL);
	if (result == CUDA_SUCCESS)
		result = vcuda_call_vcudaGraphFinish_with(&m.how, m.id);
	free(m.deps);
	if (result == CUDA_SUCCESS)
		result = remember(k, m.id, m.count);
	if (result != CUDA_SUCCESS)
		vcuda_call_vcudaGraphDestroy_with(&m.how, m.id);
	return result;
}

static void entry_add(struct libcuda_device_graph *k, struct libcuda_context *context, const struct libcuda_graph *g,
		      struct libcuda_node *const *order)
{
	CUresult result;

	k->refused = true;
	if (!is_plain_graph(context, g, false) || !has_work(g))
		return;
	result = make(k, context, order, g->count);
	k->refused = result != CUDA_SUCCESS;
	if (k->refused && !impossible)
		vcuda_log_once(
			"the host's driver does not take a graph as a whole (CUDA error %d): its nodes go one by "
			"one",
			(int)result);
}

static bool is_due(const struct libcuda_device_graph *k)
{
	return !k->refused && k->launches >= (k->changes > CHANGES ? MORE_LAUNCHES : LAUNCHES);
}

static bool is_of(const struct libcuda_device_graph *k, const struct libcuda_context *context)
{
	return k->context == context && k->generation == atomic_load(&k->context->generation);
}

bool libcuda_device_graph_prepare(struct libcuda_device_graph *k, struct libcuda_context *context,
				  const struct libcuda_graph *g, struct libcuda_node *const *order)
{
	if (!atomic_load(&k->id) && is_due(k) && is_possible())
		entry_add(k, context, g, order);
	return atomic_load(&k->id) && is_of(k, context);
}

/* Builds it in the worker's graph of the conditions, in place of what was there. */
static CUresult build(struct libcuda_device_graph *k, const struct libcuda_graph *g, struct libcuda_node *const *order)
{
	struct libcuda_conditions *c = g->conditions;
	struct making m = {
		.context = c->context, .how = libcuda_context_options(c->context), .id = c->id, .at_node = NO_NODE};
	CUresult result = vcuda_call_vcudaGraphClear_with(&m.how, m.id);

	if (result == CUDA_SUCCESS)
		result = send_graph(&m, order, g->count, NULL);
	free(m.deps);
	if (result == CUDA_SUCCESS)
		result = vcuda_call_vcudaGraphFinish_with(&m.how, m.id);
	if (result != CUDA_SUCCESS) {
		vcuda_call_vcudaGraphClear_with(&m.how, m.id);
		return result;
	}
	k->context = c->context;
	k->generation = atomic_load(&c->context->generation);
	k->conditions = c;
	k->credits = m.count / NODES_A_PLACE + 1;
	atomic_store(&k->id, m.id);
	return CUDA_SUCCESS;
}

CUresult libcuda_device_graph_require(struct libcuda_device_graph *k, struct libcuda_context *context,
				      const struct libcuda_graph *g, struct libcuda_node *const *order)
{
	if (atomic_load(&k->id) && is_of(k, context))
		return CUDA_SUCCESS;
	if (g->conditions->context != context || !g->conditions->id) {
		vcuda_log_once("a graph with conditional nodes is launched in another context than its conditions'");
		return CUDA_ERROR_NOT_SUPPORTED;
	}
	if (!is_plain_graph(context, g, true)) {
		vcuda_log_once(
			"a graph with conditional nodes has other nodes than kernels, memsets, graphs, and copies "
			"of device memory and pinned memory, or nodes of several contexts");
		return CUDA_ERROR_NOT_SUPPORTED;
	}
	return build(k, g, order);
}

CUresult libcuda_device_graph_launch(struct libcuda_device_graph *k, const struct call_options *how, CUstream resolved)
{
	CUresult result = libcuda_throttle_take(how, resolved, k->credits);

	return result == CUDA_SUCCESS ? vcuda_call_vcudaGraphLaunch_with(how, atomic_load(&k->id), resolved) : result;
}

void libcuda_device_graph_replayed(struct libcuda_device_graph *k)
{
	if (k->launches < MORE_LAUNCHES)
		k->launches++;
}

/* ---- ends ---- */

void libcuda_device_graph_drop(struct libcuda_device_graph *k)
{
	vcuda_graph_id id = atomic_exchange(&k->id, NULL);
	struct call_options how;

	if (id && k->conditions) {
		how = libcuda_context_options(k->context);
		if (k->conditions->id == id)
			vcuda_call_vcudaGraphClear_with(&how, id);
		return;
	}
	/* Else it went with its context. */
	if (id && take_record(id, NULL))
		destroy(id, k->context);
}

void libcuda_device_graph_changed(struct libcuda_device_graph *k)
{
	k->changes += atomic_load(&k->id) != NULL;
	k->launches = 0;
	k->refused = false;
	libcuda_device_graph_drop(k);
}

/* The context is about to end. */
static void end_context(struct libcuda_context *context)
{
	vcuda_graph_id id;

	while ((id = take_record(NULL, context)))
		destroy(id, context);
}

static struct libcuda_observer observer = {.context_ends = end_context};

__attribute__((constructor)) static void start(void)
{
	libcuda_observe(&observer);
}
