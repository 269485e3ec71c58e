/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Handlers: graphs with conditional nodes. The back end's graph stays while its conditions are wanted, because their
 * handles, which the guest's kernels have as parameters, belong to it.
 */
#include <stdlib.h>

#include "handle/device-graph.h"

CUresult vcuda_handle_vcudaGraphCreateConditional(struct worker_session *s,
						  struct vcuda_args_vcudaGraphCreateConditional *a)
{
	const struct vcuda_backend_ops *ops = s->ops;

	if (!ops->cuGraphCreate || !ops->cuGraphAddEmptyNode || !ops->cuGraphAddKernelNode_v2 ||
	    !ops->cuGraphAddMemsetNode || !ops->cuGraphAddMemcpyNode || !ops->cuGraphAddNode_v2 ||
	    !ops->cuGraphConditionalHandleCreate || !ops->cuGraphInstantiateWithParams || !ops->cuGraphLaunch ||
	    !ops->cuGraphDestroyNode || !ops->cuGraphExecDestroy || !ops->cuGraphDestroy)
		return CUDA_ERROR_NOT_SUPPORTED;
	return worker_graph_create(s, true, &a->graph);
}

/* ---- conditions by their handles, with the graph's lock held ---- */

/* The slot of a handle, or the free one where it would be: there are always some. */
static uint32_t *find_slot(const struct device_graph *k, uint64_t handle)
{
	uint32_t mask = k->condition_slot_count - 1, i = (uint32_t)(handle * 0x9e3779b97f4a7c15ull >> 32) & mask;

	while (k->condition_slots[i] && k->conditions[k->condition_slots[i] - 1].handle != handle)
		i = (i + 1) & mask;
	return &k->condition_slots[i];
}

/* So that one more leaves half of the slots free. */
static bool grow_slots(struct device_graph *k)
{
	uint32_t count = k->condition_slot_count ? 2 * k->condition_slot_count : 16;
	uint32_t *slots;

	if (k->condition_count < k->condition_slot_count / 2)
		return true;
	slots = calloc(count, sizeof(*slots));
	if (!slots)
		return false;
	free(k->condition_slots);
	k->condition_slots = slots;
	k->condition_slot_count = count;
	for (uint32_t i = 0; i < k->condition_count; i++)
		*find_slot(k, k->conditions[i].handle) = i + 1;
	return true;
}

/* The back end may follow a handle that it is given. NULL: it is none of the graph's. */
static struct worker_graph_condition *find_condition(const struct device_graph *k, uint64_t handle)
{
	uint32_t place = k->condition_slot_count ? *find_slot(k, handle) : 0;

	return place ? &k->conditions[place - 1] : NULL;
}

static CUresult add_condition(struct worker_session *s, struct device_graph *k, uint32_t value, uint32_t flags)
{
	CUresult result = k->is_conditional ? worker_graph_account(k, NODE_BYTES) : CUDA_ERROR_INVALID_VALUE;
	struct worker_graph_condition new = {.used = false};

	if (result != CUDA_SUCCESS)
		return result;
	if (!worker_graph_grow((void **)&k->conditions, k->condition_count, &k->condition_room, sizeof(new)) ||
	    !grow_slots(k))
		return CUDA_ERROR_OUT_OF_MEMORY;
	result = s->ops->cuGraphConditionalHandleCreate(&new.handle, k->graph, k->context, value, flags);
	if (result != CUDA_SUCCESS)
		return result;
	k->conditions[k->condition_count++] = new;
	*find_slot(k, new.handle) = k->condition_count;
	return CUDA_SUCCESS;
}

CUresult vcuda_handle_vcudaGraphAddCondition(struct worker_session *s, struct vcuda_args_vcudaGraphAddCondition *a)
{
	struct device_graph *k = (struct device_graph *)a->graph;
	CUresult result;

	if (!worker_graph_take(k))
		return CUDA_ERROR_INVALID_HANDLE;
	pthread_mutex_lock(&k->lock);
	result = add_condition(s, k, a->value, a->flags);
	if (result == CUDA_SUCCESS)
		a->condition = k->conditions[k->condition_count - 1].handle;
	pthread_mutex_unlock(&k->lock);
	worker_graph_put(s, k);
	return result;
}

static CUresult make_conditional(const struct worker_graph_place *p, void *arguments)
{
	const struct vcuda_args_vcudaGraphAddConditional *a = arguments;
	struct worker_graph_condition *condition = find_condition(p->k, a->condition);
	struct worker_graph_node *n = &p->k->nodes[p->k->node_count];
	CUgraphNodeParams params = {
		.type = CU_GRAPH_NODE_TYPE_CONDITIONAL,
		.conditional = {.handle = a->condition,
				.type = (CUgraphConditionalNodeType)a->type,
				.size = a->size,
				.ctx = p->k->context},
	};
	CUresult result;

	if (!condition || (unsigned)a->type > CU_GRAPH_COND_TYPE_SWITCH)
		return CUDA_ERROR_INVALID_VALUE;
	result = p->s->ops->cuGraphAddNode_v2(p->node, p->k->at, p->deps, NULL, p->count, &params);
	if (result == CUDA_SUCCESS) {
		condition->used = true;
		n->bodies = params.conditional.phGraph_out;
		n->body_count = a->size;
	}
	return result;
}

CUresult vcuda_handle_vcudaGraphAddConditional(struct worker_session *s, struct vcuda_args_vcudaGraphAddConditional *a)
{
	return worker_graph_add(s, a->graph, a->deps, a->count, (uint64_t)a->size * NODE_BYTES, make_conditional, a);
}

/* The graph that the guest names; NULL: none. A graph with a node that failed takes no others. */
static CUgraph find(const struct device_graph *k, uint32_t node, uint32_t body)
{
	if (node >= k->node_count)
		return k->graph;
	return body < k->nodes[node].body_count ? k->nodes[node].bodies[body] : NULL;
}

CUresult vcuda_handle_vcudaGraphEnter(struct worker_session *s, struct vcuda_args_vcudaGraphEnter *a)
{
	struct device_graph *k = (struct device_graph *)a->graph;

	if (!worker_graph_take(k))
		return CUDA_ERROR_INVALID_HANDLE;
	pthread_mutex_lock(&k->lock);
	if (k->is_conditional && k->failure == CUDA_SUCCESS) {
		k->at = find(k, a->node, a->body);
		if (!k->at) {
			k->at = k->graph;
			k->failure = CUDA_ERROR_INVALID_VALUE;
		}
	}
	pthread_mutex_unlock(&k->lock);
	worker_graph_put(s, k);
	return CUDA_SUCCESS;
}

/*
 * The guest's graph may have got conditions since it was instantiated, which concern its executable graph in no way.
 * But the back end takes no graph with a condition that no node has. So each has a node that does nothing.
 */
static CUresult use_all(struct worker_session *s, struct device_graph *k)
{
	struct worker_graph_place p = {.s = s, .k = k};
	CUresult result = CUDA_SUCCESS;

	k->at = k->graph;
	for (uint32_t i = 0; i < k->condition_count && result == CUDA_SUCCESS; i++) {
		struct vcuda_args_vcudaGraphAddConditional a = {
			.condition = k->conditions[i].handle, .type = CU_GRAPH_COND_TYPE_IF, .size = 1};

		if (!k->conditions[i].used)
			result = worker_graph_add_at(&p, NULL, NODE_BYTES, make_conditional, &a);
	}
	return result;
}

CUresult worker_graph_instantiate(struct worker_session *s, struct device_graph *k)
{
	CUDA_GRAPH_INSTANTIATE_PARAMS params = {.flags = 0};
	CUresult result = k->exec ? CUDA_ERROR_INVALID_VALUE : use_all(s, k);

	return result == CUDA_SUCCESS ? s->ops->cuGraphInstantiateWithParams(&k->exec, k->graph, &params) : result;
}

/* Bodies and their nodes go with the conditional node. */
static void clear(struct worker_session *s, struct device_graph *k)
{
	CUresult result = CUDA_SUCCESS, of_node;

	/* One that still runs is freed when it has. */
	if (k->exec)
		s->ops->cuGraphExecDestroy(k->exec);
	for (uint32_t i = 0; i < k->node_count; i++) {
		if (k->nodes[i].home != k->graph)
			continue;
		of_node = s->ops->cuGraphDestroyNode(k->nodes[i].node);
		result = result == CUDA_SUCCESS ? of_node : result;
	}
	for (uint32_t i = 0; i < k->condition_count; i++)
		k->conditions[i].used = false;
	k->exec = NULL;
	k->at = k->graph;
	k->failure = result;
	k->node_count = k->name_count = k->range_count = 0;
	worker_graph_unaccount(k, k->node_bytes);
	k->node_bytes = 0;
}

CUresult vcuda_handle_vcudaGraphClear(struct worker_session *s, struct vcuda_args_vcudaGraphClear *a)
{
	struct device_graph *k = (struct device_graph *)a->graph;

	if (!worker_graph_take(k))
		return CUDA_ERROR_INVALID_HANDLE;
	pthread_mutex_lock(&k->lock);
	if (k->is_conditional)
		clear(s, k);
	pthread_mutex_unlock(&k->lock);
	worker_graph_put(s, k);
	return CUDA_SUCCESS;
}
