/* SPDX-License-Identifier: Apache-2.0 */
/* Graphs of 1, 10 and 100 empty kernels in a row. */
#include "driver-bench.h"

struct graph {
	CUstream stream;
	CUgraph graph;
	CUgraphExec run;
};

static void capture(struct graph *g, int nodes)
{
	check(cuStreamBeginCapture_v2(g->stream, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL), "cuStreamBeginCapture");
	for (int i = 0; i < nodes; i++)
		driver_launch(KERNEL_EMPTY, g->stream);
	check(cuStreamEndCapture(g->stream, &g->graph), "cuStreamEndCapture");
}

static void instantiate(void *argument)
{
	struct graph *g = argument;

	check(cuGraphInstantiateWithFlags(&g->run, g->graph, 0), "cuGraphInstantiate");
}

static void destroy(void *argument)
{
	struct graph *g = argument;

	if (g->run)
		check(cuGraphExecDestroy(g->run), "cuGraphExecDestroy");
	g->run = NULL;
}

static void wait_for_stream(void *argument)
{
	struct graph *g = argument;

	check(cuStreamSynchronize(g->stream), "cuStreamSynchronize");
}

static void launch(void *argument)
{
	struct graph *g = argument;

	check(cuGraphLaunch(g->run, g->stream), "cuGraphLaunch");
}

static void launch_and_wait(void *argument)
{
	launch(argument);
	wait_for_stream(argument);
}

void bench_graphs(void)
{
	static const int nodes[] = {1, 10, 100};
	struct graph g = {0};
	char name[64];

	check(cuStreamCreate(&g.stream, CU_STREAM_NON_BLOCKING), "cuStreamCreate");
	driver_kernel(KERNEL_EMPTY);
	for (size_t i = 0; i < sizeof(nodes) / sizeof(*nodes); i++) {
		capture(&g, nodes[i]);
		snprintf(name, sizeof(name), "graph_instantiate_%d", nodes[i]);
		report(name, time_call(instantiate, destroy, &g), "us");
		launch_and_wait(&g);
		snprintf(name, sizeof(name), "graph_issue_%d", nodes[i]);
		report(name, time_call(launch, wait_for_stream, &g), "us");
		wait_for_stream(&g);
		snprintf(name, sizeof(name), "graph_sync_%d", nodes[i]);
		report(name, time_call(launch_and_wait, NULL, &g), "us");
		destroy(&g);
		check(cuGraphDestroy(g.graph), "cuGraphDestroy");
	}
}
