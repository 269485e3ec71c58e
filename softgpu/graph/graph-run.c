/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Executable graphs. A launch is one operation of its stream, and has a thread. The thread submits the nodes to a
 * stream of its own, and waits for that stream where a condition decides the next node.
 */
#include <pthread.h>
#include <stdlib.h>

#include "common/log.h"
#include "common/start-thread.h"
#include "module/condition.h"
#include "device/device.h"
#include "device/stream.h"
#include "device/time-limit.h"
#include "graph/graph.h"
#include "module/module.h"

struct CUgraphExec_st {
	struct CUgraph_st *graph;
	unsigned int refs; /* the handle and each launch; with the scheduler's lock, as the next */
	bool running;
};

struct graph_launch {
	struct softgpu_op op;
	struct softgpu_timer timer; /* a loop whose condition stays true counts as a kernel that does not end */
	struct CUgraphExec_st *exec;
	bool started;
	struct graph_launch *next; /* in the queue */
};

/* ---- nodes ---- */

static CUresult run_graph(const struct CUgraph_st *g, CUstream stream);

static CUresult run_fill(const CUDA_MEMSET_NODE_PARAMS *f, CUstream stream)
{
	switch (f->elementSize) {
	case 1:
		return softgpu_cuMemsetD2D8Async(f->dst, f->pitch, (uint8_t)f->value, f->width, f->height, stream);
	case 2:
		return softgpu_cuMemsetD2D16Async(f->dst, f->pitch, (ushort16)f->value, f->width, f->height, stream);
	default:
		return softgpu_cuMemsetD2D32Async(f->dst, f->pitch, f->value, f->width, f->height, stream);
	}
}

/* The body that a condition's value chooses, or NULL. */
static const struct CUgraph_st *choose(const struct CUgraphNode_st *n, uint32_t value)
{
	if (n->decision.type != CU_GRAPH_COND_TYPE_SWITCH)
		value = !value;
	else if (value >= n->decision.size)
		return NULL;
	/* A loop has no body for zero, and IF only with ELSE. */
	return value < n->decision.size ? n->decision.bodies[value] : NULL;
}

/* Reads a condition in its stream, on the stack of the thread that waits for it. */
struct reading {
	struct softgpu_op op;
	uint64_t condition;
	uint32_t value;
};

static void reading_run(struct softgpu_op *op, uint64_t unit, uint64_t count)
{
	struct reading *r = (struct reading *)op;

	(void)unit;
	(void)count;
	softgpu_condition_get(r->condition, &r->value);
}

static void reading_keep(struct softgpu_op *op)
{
	(void)op;
}

/* An operation, because a loop without kernels has its turns like one with kernels. */
static CUresult read_condition(uint64_t condition, CUstream stream, uint32_t *value)
{
	struct reading r = {.op = {.units = 1, .copies = true, .run = reading_run, .finish = reading_keep},
			    .condition = condition};
	struct CUctx_st *c;
	CUresult result = softgpu_enter(&c);

	if (result != CUDA_SUCCESS)
		return result;
	softgpu_submit(stream, &r.op, true);
	result = softgpu_stream_wait(stream);
	*value = r.value;
	return softgpu_leave(result);
}

static CUresult run_decision(const struct CUgraphNode_st *n, CUstream stream)
{
	const struct CUgraph_st *body;
	CUresult result;
	uint32_t value;

	do {
		result = read_condition(n->decision.condition, stream, &value);
		if (result != CUDA_SUCCESS)
			return result;
		body = choose(n, value);
		if (body)
			result = run_graph(body, stream);
	} while (result == CUDA_SUCCESS && body && n->decision.type == CU_GRAPH_COND_TYPE_WHILE);
	return result;
}

static CUresult run_node(const struct CUgraphNode_st *n, CUstream stream)
{
	CUDA_MEMCPY3D copy;

	switch (n->type) {
	case CU_GRAPH_NODE_TYPE_KERNEL:
		return softgpu_launch_packed(n->kernel.function, n->kernel.grid, n->kernel.block, n->kernel.shared,
					     n->kernel.cooperative, stream, n->kernel.params, n->kernel.bytes);
	case CU_GRAPH_NODE_TYPE_MEMCPY:
		copy = n->copy;
		return softgpu_cuMemcpy3DAsync_v2(&copy, stream);
	case CU_GRAPH_NODE_TYPE_MEMSET:
		return run_fill(&n->fill, stream);
	case CU_GRAPH_NODE_TYPE_CONDITIONAL:
		return run_decision(n, stream);
	default:
		return CUDA_SUCCESS;
	}
}

static CUresult run_graph(const struct CUgraph_st *g, CUstream stream)
{
	CUresult result = CUDA_SUCCESS;

	for (const struct CUgraphNode_st *n = g->first; n && result == CUDA_SUCCESS; n = n->next)
		result = run_node(n, stream);
	return result;
}

/* ---- threads that run launches ---- */

static pthread_mutex_t queue_lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t queued = PTHREAD_COND_INITIALIZER;
static struct graph_launch *queue;
static int idle; /* threads, less the launches in the queue */

static struct graph_launch *dequeue(void)
{
	struct graph_launch *l;

	pthread_mutex_lock(&queue_lock);
	idle++;
	while (!queue)
		pthread_cond_wait(&queued, &queue_lock);
	l = queue;
	queue = l->next;
	pthread_mutex_unlock(&queue_lock);
	return l;
}

/* Reports a launch that failed. The code of a node that does not start is not an error that a context keeps. */
static void report(struct graph_launch *l, CUresult result)
{
	softgpu_lock();
	if (softgpu_timer_expired(&l->timer))
		vcuda_log("a launch of a graph with conditional nodes ran for longer than %g s, which is the limit",
			  (double)softgpu_device()->time_limit_ns * 1e-9);
	else if (result != CUDA_SUCCESS && result != CUDA_ERROR_CONTEXT_IS_DESTROYED &&
		 softgpu_context_fail(l->op.stream->context, CUDA_ERROR_LAUNCH_FAILED))
		vcuda_log("a node of a graph with conditions could not run: CUDA error %d", (int)result);
	softgpu_unlock();
}

static void run_launch(struct graph_launch *l)
{
	const struct softgpu_conditions *conditions = l->exec->graph->conditions;
	struct CUctx_st *context = l->op.stream->context;
	CUresult result = softgpu_cuCtxSetCurrent(context);
	CUstream stream;

	softgpu_timer_touch(&l->timer);
	if (result == CUDA_SUCCESS)
		result = softgpu_cuStreamCreateWithPriority(&stream, CU_STREAM_NON_BLOCKING, l->op.stream->priority);
	if (result == CUDA_SUCCESS) {
		softgpu_lock();
		stream->inner = true;
		softgpu_unlock();
		for (uint32_t i = 0; i < conditions->count; i++)
			if (conditions->list[i].assign)
				softgpu_condition_set(conditions->list[i].handle, conditions->list[i].value);
		result = run_graph(l->exec->graph, stream);
		if (result == CUDA_SUCCESS)
			result = softgpu_cuStreamSynchronize(stream);
		softgpu_cuStreamDestroy_v2(stream);
	}
	report(l, result);
}

static void *run(void *unused)
{
	softgpu_enter_at_once();
	for (;;) {
		struct graph_launch *l = dequeue();

		run_launch(l);
		softgpu_lock();
		softgpu_op_done(&l->op);
		softgpu_unlock();
	}
	return unused;
}

/* A launch that is due waits for no other's thread: a graph may run until another stream's work lets it end. */
static bool enqueue(struct graph_launch *l)
{
	struct graph_launch **at = &queue;
	bool ok;

	pthread_mutex_lock(&queue_lock);
	ok = idle > 0 || vcuda_thread_start_with(NULL, vcuda_faults, run, NULL);
	if (ok) {
		idle--;
		while (*at)
			at = &(*at)->next;
		*at = l;
		pthread_cond_signal(&queued);
	}
	pthread_mutex_unlock(&queue_lock);
	return ok;
}

/* ---- launches ---- */

/* With the scheduler's lock held. */
static void put_exec(struct CUgraphExec_st *e)
{
	if (--e->refs)
		return;
	softgpu_graph_free(e->graph);
	free(e);
}

/* Limit for launches that run at once, as many as grids of a GPU. Each has a thread. */
#define MOST_LAUNCHES 128

static unsigned int launches; /* number of running launches; with the scheduler's lock */

/* Two launches of one executable graph do not overlap. */
static bool launch_due(const struct softgpu_op *op)
{
	return !((const struct graph_launch *)op)->exec->running && launches < MOST_LAUNCHES;
}

static bool launch_start(struct softgpu_op *op)
{
	struct graph_launch *l = (struct graph_launch *)op;

	softgpu_timer_start(&l->timer, op->stream->context);
	if (!enqueue(l)) {
		softgpu_timer_stop(&l->timer);
		softgpu_context_fail(op->stream->context, CUDA_ERROR_OUT_OF_MEMORY);
		return false;
	}
	l->exec->running = l->started = true;
	launches++;
	return true;
}

static void launch_finish(struct softgpu_op *op)
{
	struct graph_launch *l = (struct graph_launch *)op;

	if (l->started) {
		softgpu_timer_stop(&l->timer);
		l->exec->running = false;
		launches--;
	}
	put_exec(l->exec);
	free(l);
}

CUresult softgpu_cuGraphInstantiateWithParams(void *phGraphExec, void *hGraph, void *params)
{
	CUDA_GRAPH_INSTANTIATE_PARAMS *p = params;
	struct CUgraphExec_st *e = calloc(1, sizeof(*e));

	p->result_out = CUDA_GRAPH_INSTANTIATE_ERROR;
	if (e)
		e->graph = softgpu_graph_copy(hGraph);
	if (!e || !e->graph) {
		free(e);
		return CUDA_ERROR_OUT_OF_MEMORY;
	}
	e->refs = 1;
	*(CUgraphExec *)phGraphExec = e;
	p->result_out = CUDA_GRAPH_INSTANTIATE_SUCCESS;
	return CUDA_SUCCESS;
}

CUresult softgpu_cuGraphExecDestroy(void *hGraphExec)
{
	softgpu_lock();
	put_exec(hGraphExec);
	return softgpu_leave(CUDA_SUCCESS);
}

CUresult softgpu_cuGraphLaunch(void *hGraphExec, CUstream hStream)
{
	struct CUgraphExec_st *e = hGraphExec;
	struct CUstream_st *stream;
	struct graph_launch *l;
	struct CUctx_st *c;
	CUresult result = softgpu_enter_with(&c, sizeof(*l));

	if (result != CUDA_SUCCESS)
		return result;
	stream = softgpu_stream_find(c, hStream);
	if (!stream)
		return softgpu_leave(CUDA_ERROR_INVALID_HANDLE);
	l = calloc(1, sizeof(*l));
	if (!l)
		return softgpu_leave(CUDA_ERROR_OUT_OF_MEMORY);
	l->op.external = true;
	l->op.bytes = sizeof(*l);
	l->op.due = launch_due;
	l->op.start = launch_start;
	l->op.finish = launch_finish;
	l->exec = e;
	e->refs++;
	softgpu_submit(stream, &l->op, false);
	return softgpu_leave(CUDA_SUCCESS);
}
