/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Captures of three streams: random scripts of work, forks, joins and changes of dependencies, and the driver's
 * results. The program opens the library by its name and so runs natively as well.
 *
 * usage: captures COUNT          prints a line for each script: the script, `:`, its result
 *        captures COUNT FILE     compares with lines that NVIDIA's driver gave; each other one is printed, exit status
 * 1
 *
 * A step of a script, where a, b are streams (0 began the capture):
 *   wa   work in a                            fab  an event recorded in a, for which b waits
 *   ca   a depends on nothing (SET)           ma   a depends on a new node alone (SET)
 *   na   a depends on a new node alone, which comes after all that a depended on (SET)
 *   oa   a new node comes after all that a depends on, a stays as it is
 *   ea   as oa, and a depends on that node too (ADD)
 *   aab  a depends also on what b does (ADD)  sab  a depends on what b does alone (SET)
 *   da   a is destroyed, and a new stream takes its place
 * A step with a stream that is not captured is left out (`-`), one that fails has its code behind it.
 *
 * The result: for each stream, before the end, the number of nodes that it depends on, or `n` if it is not
 * captured, `i` if its capture is invalid; then the code of cuStreamEndCapture() and the graph's nodes and edges.
 */
#include "test/local/native/native.h"

enum { STREAMS = 3, STEPS = 16, MOST = 64 };

static const char kinds[] = "wwwwffffcmnoeasd";

static CUstream streams[STREAMS];
static CUdeviceptr memory;
static uint64_t seed;

static unsigned int chosen(unsigned int below)
{
	seed = seed * 6364136223846793005u + 1442695040888963407u;
	return (unsigned int)(seed >> 33) % below;
}

struct info {
	CUstreamCaptureStatus status;
	CUgraph graph;
	CUgraphNode nodes[MOST];
	size_t count;
};

static struct info info_of(int s)
{
	struct info i = {.status = CU_STREAM_CAPTURE_STATUS_NONE};
	const CUgraphNode *nodes = NULL;
	const CUgraphEdgeData *edges = NULL;

	NEED(cuStreamGetCaptureInfo_v3, streams[s], &i.status, NULL, &i.graph, &nodes, &edges, &i.count);
	if (i.status != CU_STREAM_CAPTURE_STATUS_ACTIVE || i.count > MOST)
		i.count = 0;
	if (i.count)
		memcpy(i.nodes, nodes, i.count * sizeof(*nodes));
	return i;
}

static CUresult depend(int s, CUgraphNode *nodes, size_t count, unsigned int flags)
{
	return CALL(cuStreamUpdateCaptureDependencies_v2, streams[s], nodes, NULL, count, flags);
}

static CUresult new_node(CUgraphNode *node, struct info *a, size_t after)
{
	return CALL(cuGraphAddEmptyNode, node, a->graph, after ? a->nodes : NULL, after);
}

static CUresult new_dependency(int s, struct info *a, size_t after, unsigned int flags)
{
	CUgraphNode node;
	CUresult result = new_node(&node, a, after);

	return result ? result : depend(s, &node, 1, flags);
}

static CUresult fork_to(int a, int b)
{
	CUevent event;
	CUresult result;

	NEED(cuEventCreate, &event, CU_EVENT_DISABLE_TIMING);
	result = CALL(cuEventRecord, event, streams[a]);
	if (result == CUDA_SUCCESS)
		result = CALL(cuStreamWaitEvent, streams[b], event, 0);
	NEED(cuEventDestroy_v2, event);
	return result;
}

static CUresult renew(int a)
{
	CUresult result = CALL(cuStreamDestroy_v2, streams[a]);

	NEED(cuStreamCreate, &streams[a], CU_STREAM_NON_BLOCKING);
	return result;
}

static CUresult step(char kind, int a, int b, struct info *at, struct info *other)
{
	CUgraphNode node;

	switch (kind) {
	case 'w':
		return CALL(cuMemsetD8Async, memory, 0, (size_t)1, streams[a]);
	case 'f':
		return fork_to(a, b);
	case 'c':
		return depend(a, NULL, 0, CU_STREAM_SET_CAPTURE_DEPENDENCIES);
	case 'm':
		return new_dependency(a, at, 0, CU_STREAM_SET_CAPTURE_DEPENDENCIES);
	case 'n':
		return new_dependency(a, at, at->count, CU_STREAM_SET_CAPTURE_DEPENDENCIES);
	case 'o':
		return new_node(&node, at, at->count);
	case 'e':
		return new_dependency(a, at, at->count, CU_STREAM_ADD_CAPTURE_DEPENDENCIES);
	case 'a':
		return depend(a, other->nodes, other->count, CU_STREAM_ADD_CAPTURE_DEPENDENCIES);
	case 's':
		return depend(a, other->nodes, other->count, CU_STREAM_SET_CAPTURE_DEPENDENCIES);
	default:
		return renew(a);
	}
}

static int say(char *line, int at, const char *text, int number)
{
	return at + sprintf(line + at, "%s%d", text, number);
}

static int take_step(char *line, int at)
{
	char kind = kinds[chosen(sizeof(kinds) - 1)];
	int a = (int)chosen(STREAMS), b;
	bool two = strchr("fas", kind), of_other = strchr("as", kind);
	struct info of_a, of_b;
	CUresult result;

	/* Mostly a stream that is captured. */
	for (int i = 1; i < STREAMS && info_of(a).status != CU_STREAM_CAPTURE_STATUS_ACTIVE; i++)
		a = (a + 1) % STREAMS;
	b = (a + 1 + (int)chosen(STREAMS - 1)) % STREAMS;
	of_a = info_of(a);
	of_b = info_of(b);
	if (of_a.status != CU_STREAM_CAPTURE_STATUS_ACTIVE ||
	    (of_other && of_b.status != CU_STREAM_CAPTURE_STATUS_ACTIVE) || (kind == 'd' && !a))
		return at + sprintf(line + at, "- ");
	at += sprintf(line + at, two ? "%c%d%d" : "%c%d", kind, a, b);
	result = step(kind, a, b, &of_a, &of_b);
	if (result != CUDA_SUCCESS)
		at = say(line, at, "=", (int)result);
	return at + sprintf(line + at, " ");
}

static void run(char *line, int steps)
{
	CUgraph graph = NULL;
	CUresult result;
	size_t nodes = 0, edges = 0;
	int at = 0;

	for (int s = 0; s < STREAMS; s++)
		NEED(cuStreamCreate, &streams[s], CU_STREAM_NON_BLOCKING);
	NEED(cuStreamBeginCapture_v2, streams[0], CU_STREAM_CAPTURE_MODE_THREAD_LOCAL);
	for (int i = 0; i < steps; i++)
		at = take_step(line, at);
	at += sprintf(line + at, ":");
	for (int s = 0; s < STREAMS; s++) {
		struct info i = info_of(s);

		if (i.status == CU_STREAM_CAPTURE_STATUS_ACTIVE)
			at = say(line, at, " ", (int)i.count);
		else
			at += sprintf(line + at, i.status == CU_STREAM_CAPTURE_STATUS_NONE ? " n" : " i");
	}
	result = CALL(cuStreamEndCapture, streams[0], &graph);
	at = say(line, at, " end ", (int)result);
	if (graph) {
		NEED(cuGraphGetNodes, graph, NULL, &nodes);
		NEED(cuGraphGetEdges_v2, graph, NULL, NULL, NULL, &edges);
		at = say(line, at, " nodes ", (int)nodes);
		say(line, at, " edges ", (int)edges);
		NEED(cuGraphDestroy, graph);
	}
	for (int s = 0; s < STREAMS; s++)
		NEED(cuStreamDestroy_v2, streams[s]);
}

int main(int argc, char **argv)
{
	int count = argc > 1 ? atoi(argv[1]) : 0;
	FILE *expected = argc > 2 ? fopen(argv[2], "r") : NULL;
	CUcontext context;

	cuda = dlopen("libcuda.so.1", RTLD_NOW);
	if (!cuda || count < 1 || argc > 3 || (argc > 2 && !expected)) {
		fprintf(stderr, "usage: captures COUNT [FILE]; a CUDA driver\n");
		return 2;
	}
	NEED(cuInit, 0);
	NEED(cuDevicePrimaryCtxRetain, &context, 0);
	NEED(cuCtxSetCurrent, context);
	NEED(cuMemAlloc_v2, &memory, (size_t)256);
	for (int i = 0; i < count; i++) {
		char line[512] = "", wanted[512] = "";

		seed = (uint64_t)i;
		chosen(2);
		run(line, 1 + i % STEPS);
		if (!expected) {
			puts(line);
			continue;
		}
		next_line(expected, wanted, sizeof(wanted));
		expect_text("capture", line, wanted);
	}
	if (expected)
		printf("%d probes, %d different\n", probes, different);
	return expected && (!probes || different);
}
