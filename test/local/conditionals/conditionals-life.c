/* SPDX-License-Identifier: Apache-2.0 */
/* Launches, captures, changes and refusals of graphs with conditional nodes. */
#include "test/local/conditionals/conditionals.h"

/* ---- launches ---- */

/* A launch returns while the stream waits, and reads its condition when it is its turn. */
void asynchronous(void)
{
	CUgraph body, g = loop(NULL, &body);
	CUgraphExec e = instantiate(g);
	CUstream stream, other;
	uint64_t p = word(7);
	uint32_t k = 0;
	void *params[] = {&p, &k};

	OK(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
	OK(cuStreamCreate(&other, CU_STREAM_NON_BLOCKING));
	put(7, 0);
	OK(cuLaunchKernel(function("hold"), 1, 1, 1, 1, 1, 1, 0, stream, params, NULL));
	OK(cuGraphLaunch(e, stream));
	OK(cuMemsetD32Async(word(2), 1, 1, stream));
	EXPECT(cuStreamQuery(stream) == CUDA_ERROR_NOT_READY);
	OK(cuMemsetD32Async(word(0), 6, 1, other));
	OK(cuMemsetD32Async(word(7), 1, 1, other));
	OK(cuStreamSynchronize(stream));
	EXPECT(get(1) == 18 && get(0) == 0 && get(2) == 1);
	OK(cuStreamDestroy_v2(stream));
	OK(cuStreamDestroy_v2(other));
	OK(cuGraphExecDestroy(e));
	OK(cuGraphDestroy(g));
}

/* Launches of one executable graph do not overlap, in whatever streams they are. */
void two_streams(void)
{
	CUgraph g = new_graph(), body;
	CUgraphConditionalHandle c = condition(g, 1, CU_GRAPH_COND_ASSIGN_DEFAULT);
	CUgraphNode first;
	CUstream streams[2];
	CUgraphExec e;

	first = kernel(g, NULL, "add", word(0), 20);
	body = conditional(g, first, c, CU_GRAPH_COND_TYPE_WHILE, 1, NULL)[0];
	kernel(body, kernel(body, NULL, "add", word(1), 1), "down", c, word(0));
	e = instantiate(g);
	OK(cuStreamCreate(&streams[0], CU_STREAM_NON_BLOCKING));
	OK(cuStreamCreate(&streams[1], CU_STREAM_NON_BLOCKING));
	for (unsigned int i = 0; i < 10; i++)
		OK(cuGraphLaunch(e, streams[i % 2]));
	OK(cuCtxSynchronize());
	EXPECT(get(0) == 0 && get(1) == 200);
	OK(cuStreamDestroy_v2(streams[0]));
	OK(cuStreamDestroy_v2(streams[1]));
	OK(cuGraphExecDestroy(e));
	OK(cuGraphDestroy(g));
}

/* Two executable graphs at once, of which one waits until the other has ended. */
void side_by_side(void)
{
	CUgraph g[2] = {new_graph(), new_graph()};
	CUstream streams[2];
	CUgraphExec e[2];

	for (unsigned int i = 0; i < 2; i++) {
		CUgraph body = conditional(g[i], NULL, condition(g[i], 1, CU_GRAPH_COND_ASSIGN_DEFAULT),
					   CU_GRAPH_COND_TYPE_IF, 1, NULL)[0];

		if (i)
			kernel(body, NULL, "add", word(7), 1);
		else
			kernel(body, kernel(body, NULL, "hold", word(7), 0), "add", word(1), 1);
		OK(cuStreamCreate(&streams[i], CU_STREAM_NON_BLOCKING));
		e[i] = instantiate(g[i]);
		OK(cuGraphLaunch(e[i], streams[i]));
	}
	OK(cuCtxSynchronize());
	EXPECT(get(1) == 1);
	for (unsigned int i = 0; i < 2; i++) {
		OK(cuStreamDestroy_v2(streams[i]));
		OK(cuGraphExecDestroy(e[i]));
		OK(cuGraphDestroy(g[i]));
	}
}

/*
 * All that the context is given later waits for the launch, which is submitted in pieces. The graph gets more conditions
 * meanwhile.
 */
void whole_context(void)
{
	CUgraph body, g = loop(NULL, &body);
	CUgraphExec e = instantiate(g);
	CUcontext context;
	CUstream stream;
	CUevent event;

	OK(cuCtxGetCurrent(&context));
	OK(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
	OK(cuEventCreate(&event, 0));
	put(0, 200);
	OK(cuGraphLaunch(e, stream));
	for (unsigned int i = 0; i < 100; i++)
		condition(g, i, 0);
	OK(cuEventRecord(event, stream));
	OK(cuCtxWaitEvent(context, event));
	OK(cuMemsetD32Async(word(2), 1, 1, NULL));
	OK(cuCtxSynchronize());
	EXPECT(get(0) == 0 && get(1) == 600 && get(2) == 1);
	OK(cuEventDestroy_v2(event));
	OK(cuStreamDestroy_v2(stream));
	OK(cuGraphExecDestroy(e));
	OK(cuGraphDestroy(g));
}

/* Launches do not overlap when the executable graph changes in between. */
void changed_between(void)
{
	CUgraph g = new_graph(), body;
	CUgraphConditionalHandle c = condition(g, 1, CU_GRAPH_COND_ASSIGN_DEFAULT);
	CUgraphNode first = kernel(g, NULL, "add", word(0), 200);
	CUDA_KERNEL_NODE_PARAMS params;
	CUstream streams[2];
	CUgraphExec e;

	body = conditional(g, first, c, CU_GRAPH_COND_TYPE_WHILE, 1, NULL)[0];
	kernel(body, kernel(body, NULL, "add", word(1), 1), "down", c, word(0));
	e = instantiate(g);
	OK(cuStreamCreate(&streams[0], CU_STREAM_NON_BLOCKING));
	OK(cuStreamCreate(&streams[1], CU_STREAM_NON_BLOCKING));
	OK(cuGraphLaunch(e, streams[0]));
	params = kernel_params("add", word(0), 30);
	OK(cuGraphExecKernelNodeSetParams_v2(e, first, &params));
	OK(cuGraphLaunch(e, streams[1]));
	OK(cuCtxSynchronize());
	EXPECT(get(0) == 0 && get(1) == 230);
	OK(cuStreamDestroy_v2(streams[0]));
	OK(cuStreamDestroy_v2(streams[1]));
	OK(cuGraphExecDestroy(e));
	OK(cuGraphDestroy(g));
}

void without_its_graph(void)
{
	CUgraph body, g = loop(NULL, &body);
	CUgraphExec e = instantiate(g);

	OK(cuGraphDestroy(g));
	put(0, 4);
	launch(e);
	EXPECT(get(1) == 12);
	OK(cuGraphExecDestroy(e));
}

int endless(const char *shape, bool wait)
{
	CUgraph g = new_graph(), body;

	body = conditional(g, NULL, condition(g, 1, CU_GRAPH_COND_ASSIGN_DEFAULT), CU_GRAPH_COND_TYPE_WHILE, 1, NULL)[0];
	if (!strcmp(shape, "nested"))
		body = conditional(body, NULL, condition(g, 1, CU_GRAPH_COND_ASSIGN_DEFAULT), CU_GRAPH_COND_TYPE_WHILE,
				   1, NULL)[0];
	if (strcmp(shape, "empty"))
		kernel(body, NULL, "add", word(1), 1);
	OK(cuGraphLaunch(instantiate(g), NULL));
	printf("stuck\n");
	if (wait)
		printf("%d\n", (int)cuCtxSynchronize());
	else
		getchar(); /* until its input ends */
	return 0;
}

/* ---- captures ---- */

void capture_body(void)
{
	CUgraph g = new_graph(), body, got;
	CUgraphConditionalHandle c = condition(g, 1, CU_GRAPH_COND_ASSIGN_DEFAULT);
	uint64_t p = word(0);
	void *params[] = {&c, &p};
	CUstream stream;

	put(0, 3);
	OK(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
	body = conditional(g, NULL, c, CU_GRAPH_COND_TYPE_WHILE, 1, NULL)[0];
	OK(cuStreamBeginCaptureToGraph(stream, body, NULL, NULL, 0, CU_STREAM_CAPTURE_MODE_GLOBAL));
	OK(cuMemsetD32Async(word(1), 9, 1, stream));
	OK(cuLaunchKernel(function("down"), 1, 1, 1, 1, 1, 1, 0, stream, params, NULL));
	OK(cuMemcpyDtoDAsync_v2(word(2), word(1), 4, stream));
	OK(cuStreamEndCapture(stream, &got));
	EXPECT(got == body);
	/* A second capture behind the first one, with NULL for the graph. */
	OK(cuStreamBeginCaptureToGraph(stream, body, NULL, NULL, 0, CU_STREAM_CAPTURE_MODE_GLOBAL));
	OK(cuMemsetD32Async(word(4), 5, 1, stream));
	OK(cuStreamEndCapture(stream, NULL));
	run(g, 1);
	EXPECT(get(0) == 0 && get(1) == 9 && get(2) == 9 && get(4) == 5);
	OK(cuStreamDestroy_v2(stream));
}

/* A conditional node in the middle of a capture. */
void capture_around(void)
{
	CUstreamCaptureStatus status;
	const CUgraphNode *deps;
	CUgraphConditionalHandle c;
	uint64_t p = word(0), q = word(3);
	uint32_t k = 1;
	void *params[] = {&c, &p}, *after[] = {&q, &k};
	CUgraphNodeParams np;
	CUgraphNode node;
	CUstream stream;
	CUgraph g;
	size_t count;

	put(0, 1);
	OK(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
	OK(cuStreamBeginCapture_v2(stream, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL));
	OK(cuStreamGetCaptureInfo_v2(stream, &status, NULL, &g, NULL, NULL));
	c = condition(g, 0, 0);
	OK(cuLaunchKernel(function("from"), 1, 1, 1, 1, 1, 1, 0, stream, params, NULL));
	OK(cuStreamGetCaptureInfo_v2(stream, &status, NULL, &g, &deps, &count));
	np = conditional_params(c, CU_GRAPH_COND_TYPE_IF, 1);
	OK(cuGraphAddNode_v2(&node, g, deps, NULL, count, &np));
	kernel(np.conditional.phGraph_out[0], NULL, "add", word(3), 10);
	OK(cuStreamUpdateCaptureDependencies(stream, &node, 1, CU_STREAM_SET_CAPTURE_DEPENDENCIES));
	OK(cuLaunchKernel(function("add"), 1, 1, 1, 1, 1, 1, 0, stream, after, NULL));
	OK(cuStreamEndCapture(stream, &g));
	run(g, 2);
	EXPECT(get(3) == 22);
	OK(cuStreamDestroy_v2(stream));
}

/* ---- changes ---- */

void set_params(void)
{
	CUgraph g = new_graph(), body;
	CUDA_KERNEL_NODE_PARAMS p;
	CUgraphNode n;
	CUgraphExec e;

	body = conditional(g, NULL, condition(g, 1, CU_GRAPH_COND_ASSIGN_DEFAULT), CU_GRAPH_COND_TYPE_IF, 1, NULL)[0];
	n = kernel(body, NULL, "add", word(1), 1);
	e = instantiate(g);
	launch(e);
	p = kernel_params("add", word(1), 10);
	OK(cuGraphExecKernelNodeSetParams_v2(e, n, &p));
	launch(e);
	launch(e);
	EXPECT(get(1) == 21);
	OK(cuGraphExecDestroy(e));
	OK(cuGraphDestroy(g));
}

/* The graph gets conditions that no node has, and its executable graph changes: those are not its own. */
void more_conditions(void)
{
	CUgraph body, g = loop(NULL, &body);
	CUgraphNode first;
	CUDA_KERNEL_NODE_PARAMS p;
	CUgraphExec e = instantiate(g), second;
	size_t count = 1;

	OK(cuGraphGetNodes(body, &first, &count));
	for (unsigned int i = 0; i < 3; i++) {
		condition(g, i, i % 2);
		p = kernel_params("add", word(1), 10 * (i + 1));
		OK(cuGraphExecKernelNodeSetParams_v2(e, first, &p));
		put(0, 2);
		launch(e);
		launch(e);
	}
	EXPECT(get(0) == 0 && get(1) == 2 * (10 + 20 + 30));
	OK(cuGraphExecDestroy(e));
	EXPECT(cuGraphInstantiateWithFlags(&second, g, 0) == CUDA_ERROR_INVALID_VALUE);
	OK(cuGraphDestroy(g));
}

/* An executable graph becomes another graph, with another condition and another default. */
void update(void)
{
	CUgraphExecUpdateResultInfo info;
	CUgraph g[3], *body;
	CUgraphExec e;

	for (unsigned int i = 0; i < 3; i++) {
		g[i] = new_graph();
		body = conditional(g[i], NULL, condition(g[i], i != 1, CU_GRAPH_COND_ASSIGN_DEFAULT),
				   i < 2 ? CU_GRAPH_COND_TYPE_IF : CU_GRAPH_COND_TYPE_SWITCH, 2, NULL);
		kernel(body[0], NULL, "add", word(1), 1 + i);
		kernel(body[1], NULL, "add", word(2), 1 + i);
	}
	e = instantiate(g[0]);
	launch(e);
	OK(cuGraphExecUpdate_v2(e, g[1], &info));
	OK(cuGraphDestroy(g[1]));
	launch(e);
	EXPECT(get(1) == 1 && get(2) == 2);
	EXPECT(cuGraphExecUpdate_v2(e, g[2], &info) == CUDA_ERROR_GRAPH_EXEC_UPDATE_FAILURE);
	EXPECT(info.result == CU_GRAPH_EXEC_UPDATE_ERROR_PARAMETERS_CHANGED);
	OK(cuGraphExecDestroy(e));
	OK(cuGraphDestroy(g[0]));
	OK(cuGraphDestroy(g[2]));
}

void instantiate_again(void)
{
	CUgraphNode node;
	CUgraph body, g = loop(&node, &body);
	CUgraphExec e = instantiate(g), second = NULL;

	put(0, 2);
	launch(e);
	EXPECT(cuGraphInstantiateWithFlags(&second, g, 0) != CUDA_SUCCESS);
	OK(cuGraphExecDestroy(e));
	kernel(body, NULL, "add", word(2), 1);
	kernel(g, node, "add", word(3), 1);
	e = instantiate(g);
	put(0, 2);
	launch(e);
	EXPECT(get(1) == 12 && get(2) == 2 && get(3) == 1);
	OK(cuGraphExecDestroy(e));
	OK(cuGraphDestroy(g));
}

/* A condition whose node is gone may have another one. */
void another_node(void)
{
	CUgraph g = new_graph();
	CUgraphConditionalHandle c = condition(g, 1, CU_GRAPH_COND_ASSIGN_DEFAULT);
	CUgraphNode node;

	kernel(conditional(g, NULL, c, CU_GRAPH_COND_TYPE_IF, 1, &node)[0], NULL, "add", word(1), 1);
	OK(cuGraphDestroyNode(node));
	kernel(conditional(g, NULL, c, CU_GRAPH_COND_TYPE_IF, 2, &node)[0], NULL, "add", word(2), 1);
	run(g, 1);
	EXPECT(get(1) == 0 && get(2) == 1);
}

/* ---- what is asked, and what is refused ---- */

void questions(void)
{
	CUgraph g = new_graph(), *body;
	CUgraphNode node, nodes[2];
	CUgraphNodeType type;
	size_t count = 2;

	body = conditional(g, NULL, condition(g, 1, 0), CU_GRAPH_COND_TYPE_IF, 2, &node);
	kernel(body[1], NULL, "add", word(1), 1);
	OK(cuGraphNodeGetType(node, &type));
	EXPECT(type == CU_GRAPH_NODE_TYPE_CONDITIONAL);
	EXPECT(body[0] && body[1] && body[0] != body[1]);
	OK(cuGraphGetNodes(g, nodes, &count));
	EXPECT(count == 1 && nodes[0] == node);
	OK(cuGraphGetNodes(body[1], NULL, &count));
	EXPECT(count == 1);
	OK(cuGraphGetNodes(body[0], NULL, &count));
	EXPECT(count == 0);
	OK(cuGraphDestroy(g));
}

static bool is_refused(CUgraph g, CUgraphConditionalHandle c, int type, unsigned int size)
{
	CUgraphNodeParams p = conditional_params(c, (CUgraphConditionalNodeType)type, size);
	CUgraphNode n;

	return cuGraphAddNode_v2(&n, g, NULL, NULL, 0, &p) != CUDA_SUCCESS;
}

void wrong_nodes(void)
{
	CUgraph g = new_graph(), other = new_graph();
	CUgraphConditionalHandle c = condition(g, 1, 0), unused;

	EXPECT(is_refused(g, c, CU_GRAPH_COND_TYPE_IF, 0));
	EXPECT(is_refused(g, c, CU_GRAPH_COND_TYPE_IF, 3));
	EXPECT(is_refused(g, c, CU_GRAPH_COND_TYPE_WHILE, 2));
	EXPECT(is_refused(g, c, CU_GRAPH_COND_TYPE_SWITCH, 0));
	EXPECT(is_refused(g, c, CU_GRAPH_COND_TYPE_SWITCH + 1, 1));
	EXPECT(is_refused(other, c, CU_GRAPH_COND_TYPE_IF, 1));
	conditional(g, NULL, c, CU_GRAPH_COND_TYPE_IF, 1, NULL);
	EXPECT(is_refused(g, c, CU_GRAPH_COND_TYPE_IF, 1));
	EXPECT(cuGraphConditionalHandleCreate(NULL, g, current(), 0, 0) == CUDA_ERROR_INVALID_VALUE);
	EXPECT(cuGraphConditionalHandleCreate(&unused, NULL, current(), 0, 0) == CUDA_ERROR_INVALID_VALUE);
	EXPECT(cuGraphConditionalHandleCreate(&unused, g, current(), 0, 2) == CUDA_ERROR_INVALID_VALUE);
	EXPECT(cuGraphConditionalHandleCreate(&unused, g, NULL, 0, 0) == CUDA_ERROR_INVALID_CONTEXT);
	OK(cuGraphDestroy(g));
	OK(cuGraphDestroy(other));
}

/* The documentation: a graph with conditional nodes is not cloned, is no child, and its bodies are its own. */
void wrong_uses(void)
{
	CUgraph body, g = loop(NULL, &body), other = new_graph(), clone;
	CUgraphNode n;

	EXPECT(cuGraphClone(&clone, g) != CUDA_SUCCESS);
	EXPECT(cuGraphAddChildGraphNode(&n, other, NULL, 0, g) != CUDA_SUCCESS);
	EXPECT(cuGraphDestroy(body) != CUDA_SUCCESS);
	OK(cuGraphDestroy(other));
	run(g, 1);
}

void unused_condition(void)
{
	CUDA_GRAPH_INSTANTIATE_PARAMS params = {.flags = 0};
	CUgraph body, g = loop(NULL, &body);
	CUgraphExec e;

	condition(g, 0, 0);
	EXPECT(cuGraphInstantiateWithParams(&e, g, &params) != CUDA_SUCCESS);
	EXPECT(params.result_out == CUDA_GRAPH_INSTANTIATE_CONDITIONAL_HANDLE_UNUSED);
	OK(cuGraphDestroy(g));
}

/* The last one: the context is of no more use. */
void fault(void)
{
	CUgraph body, g = loop(NULL, &body);
	CUgraphExec e;

	put(0, 3);
	kernel(body, NULL, "wild", 0, 0);
	e = instantiate(g);
	OK(cuGraphLaunch(e, NULL));
	EXPECT(cuStreamSynchronize(NULL) == CUDA_ERROR_ILLEGAL_ADDRESS);
	EXPECT(cuGraphLaunch(e, NULL) == CUDA_ERROR_ILLEGAL_ADDRESS);
}
