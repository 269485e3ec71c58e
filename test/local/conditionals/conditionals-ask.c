/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Questions about conditional nodes that neither NVIDIA's documentation nor its headers answer. Each is asked in a
 * process of its own, and prints one line: its name, and what the driver did. Codes are CUresults. native.txt has the
 * lines of NVIDIA's driver.
 */
#include <stdarg.h>
#include <unistd.h>

#include "test/local/conditionals/conditionals.h"

/* An answer that does not come within that is none. */
#define SECONDS 20

#define DEFAULT CU_GRAPH_COND_ASSIGN_DEFAULT
#define IF CU_GRAPH_COND_TYPE_IF
#define WHILE CU_GRAPH_COND_TYPE_WHILE
#define SWITCH CU_GRAPH_COND_TYPE_SWITCH

__attribute__((format(printf, 1, 2))) static void say(const char *format, ...)
{
	va_list arguments;

	va_start(arguments, format);
	vprintf(format, arguments);
	va_end(arguments);
}

/* ---- what questions are made of ---- */

static CUgraphConditionalHandle new_condition(CUgraph g, unsigned int value, unsigned int flags)
{
	CUgraphConditionalHandle c = 0;

	OK(cuGraphConditionalHandleCreate(&c, g, current(), value, flags));
	return c;
}

/* The code of a new conditional node; its bodies in `bodies` where there is one. */
static int add(CUgraph g, CUgraphNode after, CUgraphConditionalHandle c, int type, unsigned int size, CUgraph **bodies)
{
	CUgraphNodeParams p = conditional_params(c, (CUgraphConditionalNodeType)type, size);
	CUgraphNode n;
	int code = cuGraphAddNode_v2(&n, g, &after, NULL, after != NULL, &p);

	if (code == CUDA_SUCCESS && bodies)
		*bodies = p.conditional.phGraph_out;
	return code;
}

/* Says the codes of instantiating, and of `times` launches and waits up to the first error. */
static CUgraphExec try(CUgraph g, unsigned int times)
{
	CUDA_GRAPH_INSTANTIATE_PARAMS params = {.flags = 0};
	CUgraphExec e = NULL;
	int code = cuGraphInstantiateWithParams(&e, g, &params);

	say(" instantiate %d", code);
	if (code != CUDA_SUCCESS) {
		say(" why %d", (int)params.result_out);
		return NULL;
	}
	for (unsigned int i = 0; i < times && code == CUDA_SUCCESS; i++) {
		code = cuGraphLaunch(e, NULL);
		say(" launch %d", code);
		if (code == CUDA_SUCCESS)
			code = cuStreamSynchronize(NULL);
		if (code != CUDA_SUCCESS)
			say(" wait %d", code);
	}
	return e;
}

static void words(void)
{
	say(" words");
	for (unsigned int i = 0; i < 4; i++)
		say(" %u", get(i));
}

/* ---- bodies without nodes ---- */

/*
 * With type, size, the default value, and bits for the bodies that have a node. A kernel follows that says that the
 * graph has come to its end.
 */
static void bodies(const unsigned int *with)
{
	const unsigned int size = with[1], filled = with[3];
	const int type = (int)with[0];
	CUgraph g = new_graph(), *body = NULL;
	CUgraphConditionalHandle c = new_condition(g, with[2], DEFAULT);
	CUgraphNodeParams p = conditional_params(c, (CUgraphConditionalNodeType)type, size);
	CUgraphNode n = NULL;
	int code = cuGraphAddNode_v2(&n, g, NULL, NULL, 0, &p);

	say(" add %d", code);
	if (code != CUDA_SUCCESS)
		return;
	body = p.conditional.phGraph_out;
	for (unsigned int i = 0; i < size; i++)
		if (filled >> i & 1)
			kernel(body[i], NULL, "add", word(i), 1);
	kernel(g, n, "add", word(3), 1);
	try(g, 2);
	words();
}

/* Not launched: it would not end. */
static void while_empty_true(const unsigned int *unused)
{
	CUgraph g = new_graph();

	(void)unused;
	say(" add %d", add(g, NULL, new_condition(g, 1, DEFAULT), WHILE, 1, NULL));
	try(g, 0);
}

/* ---- sizes and types ---- */

static void sizes_of(const unsigned int *type)
{
	static const unsigned int sizes[] = {0, 1, 2, 3, 4, 1000, 100000};

	for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
		CUgraph g = new_graph();

		say(" size %u: %d", sizes[i], add(g, NULL, new_condition(g, 0, DEFAULT), (int)*type, sizes[i], NULL));
		OK(cuGraphDestroy(g));
	}
}

/* ---- conditions that are never set ---- */

/* The value at the begin of a launch without CU_GRAPH_COND_ASSIGN_DEFAULT. */
static void never_set(const unsigned int *value)
{
	CUgraph g = new_graph(), *body = NULL;

	OK(add(g, NULL, new_condition(g, *value, 0), SWITCH, 3, &body));
	for (unsigned int i = 0; i < 3; i++)
		kernel(body[i], NULL, "add", word(i), 1);
	try(g, 3);
	words();
}

/* The loop would be endless if the value counted. */
static void while_never_set(const unsigned int *unused)
{
	CUgraph g = new_graph(), *body = NULL;

	(void)unused;
	OK(add(g, NULL, new_condition(g, 0, 0), WHILE, 1, &body));
	kernel(body[0], NULL, "add", word(0), 1);
	try(g, 2);
	words();
}

/* A launch sets a condition, and the next launch reads it: words 1 and 2 count. */
static void set_before(const unsigned int *flags)
{
	CUgraph g = new_graph(), *body = NULL;
	CUgraphConditionalHandle c = new_condition(g, 1, *flags);
	CUgraphNodeParams p = conditional_params(c, SWITCH, 3);
	CUgraphNode n;

	OK(cuGraphAddNode_v2(&n, g, NULL, NULL, 0, &p));
	body = p.conditional.phGraph_out;
	for (unsigned int i = 0; i < 3; i++)
		kernel(body[i], NULL, "add", word(i), 1);
	kernel(g, n, "set", c, 2);
	try(g, 3);
	words();
}

/* Set by a kernel that is in no graph. */
static void set_outside(const unsigned int *unused)
{
	CUgraph g = new_graph(), *body = NULL;
	CUgraphConditionalHandle c = new_condition(g, 0, 0);
	uint32_t value = 2;
	void *params[] = {&c, &value};
	CUgraphExec e;

	(void)unused;
	OK(add(g, NULL, c, SWITCH, 3, &body));
	for (unsigned int i = 0; i < 3; i++)
		kernel(body[i], NULL, "add", word(i), 1);
	e = try(g, 1);
	say(" kernel %d", (int)cuLaunchKernel(function("set"), 1, 1, 1, 1, 1, 1, 0, NULL, params, NULL));
	say(" wait %d", (int)cuStreamSynchronize(NULL));
	say(" launch %d", e ? (int)cuGraphLaunch(e, NULL) : -1);
	say(" wait %d", (int)cuStreamSynchronize(NULL));
}

/* ---- handles ---- */

static void handles(const unsigned int *unused)
{
	CUgraph g = new_graph();
	CUgraphConditionalHandle c = 0;

	(void)unused;
	say(" no place %d", (int)cuGraphConditionalHandleCreate(NULL, g, current(), 0, 0));
	say(" no graph %d", (int)cuGraphConditionalHandleCreate(&c, NULL, current(), 0, 0));
	say(" no context %d", (int)cuGraphConditionalHandleCreate(&c, g, NULL, 0, 0));
	say(" flags 2 %d", (int)cuGraphConditionalHandleCreate(&c, g, current(), 0, 2));
	say(" flags 3 %d", (int)cuGraphConditionalHandleCreate(&c, g, current(), 0, 3));
	say(" value -1 %d", (int)cuGraphConditionalHandleCreate(&c, g, current(), UINT32_MAX, DEFAULT));
}

static void handle_of_body(const unsigned int *unused)
{
	CUgraph g = new_graph(), *body = NULL;
	CUgraphConditionalHandle c = 0;
	int code;

	(void)unused;
	OK(add(g, NULL, new_condition(g, 1, DEFAULT), IF, 1, &body));
	code = cuGraphConditionalHandleCreate(&c, body[0], current(), 1, DEFAULT);
	say(" create %d", code);
	if (code == CUDA_SUCCESS) {
		say(" in whole %d", add(g, NULL, c, IF, 1, NULL));
		say(" in body %d", add(body[0], NULL, c, IF, 1, NULL));
	}
	try(g, 1);
}

static void handle_of_other_graph(const unsigned int *unused)
{
	CUgraph g = new_graph(), other = new_graph();

	(void)unused;
	say(" add %d", add(g, NULL, new_condition(other, 1, DEFAULT), IF, 1, NULL));
}

static void handle_of_none(const unsigned int *unused)
{
	CUgraph g = new_graph();

	(void)unused;
	say(" 0: %d", add(g, NULL, 0, IF, 1, NULL));
	say(" 12345: %d", add(g, NULL, 12345, IF, 1, NULL));
}

static void handle_twice(const unsigned int *unused)
{
	CUgraph g = new_graph();
	CUgraphConditionalHandle c = new_condition(g, 1, DEFAULT);

	(void)unused;
	say(" first %d", add(g, NULL, c, IF, 1, NULL));
	say(" second %d", add(g, NULL, c, IF, 1, NULL));
	try(g, 1);
}

static void handle_after_failure(const unsigned int *unused)
{
	CUgraph g = new_graph();
	CUgraphConditionalHandle c = new_condition(g, 1, DEFAULT);

	(void)unused;
	say(" wrong %d", add(g, NULL, c, IF, 3, NULL));
	say(" right %d", add(g, NULL, c, IF, 1, NULL));
	try(g, 1);
}

static void handle_unused(const unsigned int *unused)
{
	CUgraph g = new_graph();

	(void)unused;
	new_condition(g, 1, DEFAULT);
	kernel(g, NULL, "add", word(0), 1);
	try(g, 1);
	words();
}

static void node_without_context(const unsigned int *unused)
{
	CUgraph g = new_graph();
	CUgraphNodeParams p = conditional_params(new_condition(g, 1, DEFAULT), IF, 1);
	CUgraphNode n;

	(void)unused;
	p.conditional.ctx = NULL;
	say(" add %d", (int)cuGraphAddNode_v2(&n, g, NULL, NULL, 0, &p));
	try(g, 1);
}

/* ---- graphs ---- */

static void instantiate_twice(const unsigned int *unused)
{
	CUgraph body, g = loop(NULL, &body);
	CUgraphExec first = try(g, 1), second = try(g, 1);

	(void)unused;
	if (first)
		say(" destroy %d", (int)cuGraphExecDestroy(first));
	if (second)
		say(" destroy %d", (int)cuGraphExecDestroy(second));
	try(g, 1);
}

static void changed_after(const unsigned int *unused)
{
	CUgraph body, g = loop(NULL, &body);

	(void)unused;
	try(g, 1);
	say(" handle %d", (int)cuGraphConditionalHandleCreate(&(CUgraphConditionalHandle){0}, g, current(), 0, 0));
	kernel(body, NULL, "add", word(2), 1);
	try(g, 1);
}

static void uses(const unsigned int *unused)
{
	CUgraph body, g = loop(NULL, &body), other = new_graph(), clone = NULL;
	CUgraphNode n;

	(void)unused;
	say(" clone %d", (int)cuGraphClone(&clone, g));
	say(" child %d", (int)cuGraphAddChildGraphNode(&n, other, NULL, 0, g));
	say(" body as child %d", (int)cuGraphAddChildGraphNode(&n, other, NULL, 0, body));
	say(" clone of body %d", (int)cuGraphClone(&clone, body));
	say(" body destroyed %d", (int)cuGraphDestroy(body));
	say(" body instantiated %d", (int)cuGraphInstantiateWithFlags(&(CUgraphExec){NULL}, body, 0));
	say(" for device %d",
	    (int)cuGraphInstantiateWithFlags(&(CUgraphExec){NULL}, g, CUDA_GRAPH_INSTANTIATE_FLAG_DEVICE_LAUNCH));
}

static void node_destroyed(const unsigned int *unused)
{
	CUgraphNode node;
	CUgraph body, g = loop(&node, &body);

	(void)unused;
	say(" destroy %d", (int)cuGraphDestroyNode(node));
	try(g, 1);
}

static void node_set(const unsigned int *unused)
{
	CUgraphNode node;
	CUgraph body, g = loop(&node, &body);
	CUgraphNodeParams p = conditional_params(new_condition(g, 0, DEFAULT), WHILE, 1);
	CUgraphExec e;

	(void)unused;
	say(" other handle %d", (int)cuGraphNodeSetParams(node, &p));
	e = try(g, 1);
	if (e)
		say(" executable %d", (int)cuGraphExecNodeSetParams(e, node, &p));
}

/* ---- what bodies may have ---- */

static void call(void *unused)
{
	(void)unused;
}

/* The codes of adding a node to a body, and of what comes then. */
static CUgraph begin_body(CUgraph *g)
{
	CUgraph *body = NULL;

	*g = new_graph();
	OK(add(*g, NULL, new_condition(*g, 1, DEFAULT), IF, 1, &body));
	return body[0];
}

static void host_node(const unsigned int *unused)
{
	CUDA_HOST_NODE_PARAMS p = {.fn = call};
	CUgraph g, body = begin_body(&g);
	CUgraphNode n;

	(void)unused;
	say(" add %d", (int)cuGraphAddHostNode(&n, body, NULL, 0, &p));
	try(g, 1);
}

static void event_node(const unsigned int *unused)
{
	CUgraph g, body = begin_body(&g);
	CUgraphNode n;
	CUevent event;

	(void)unused;
	OK(cuEventCreate(&event, 0));
	say(" add %d", (int)cuGraphAddEventRecordNode(&n, body, NULL, 0, event));
	try(g, 1);
}

static void pageable_node(const unsigned int *unused)
{
	static uint32_t value = 5;
	CUDA_MEMCPY3D copy = {.srcMemoryType = CU_MEMORYTYPE_HOST,
			      .srcHost = &value,
			      .dstMemoryType = CU_MEMORYTYPE_DEVICE,
			      .dstDevice = word(0),
			      .WidthInBytes = 4,
			      .Height = 1,
			      .Depth = 1};
	CUgraph g, body = begin_body(&g);
	CUgraphNode n;

	(void)unused;
	say(" add %d", (int)cuGraphAddMemcpyNode(&n, body, NULL, 0, &copy, current()));
	try(g, 1);
	words();
}

static void allocation_node(const unsigned int *unused)
{
	CUDA_MEM_ALLOC_NODE_PARAMS p = {
		.poolProps = {.allocType = CU_MEM_ALLOCATION_TYPE_PINNED, .location = {CU_MEM_LOCATION_TYPE_DEVICE, 0}},
		.bytesize = 4096};
	CUgraph g, body = begin_body(&g);
	CUgraphNode n;

	(void)unused;
	say(" add %d", (int)cuGraphAddMemAllocNode(&n, body, NULL, 0, &p));
	try(g, 1);
}

/* The innermost of so many conditional nodes in one another, or of fewer. */
static CUgraph nest(CUgraph g, unsigned int most, unsigned int *levels)
{
	CUgraph at = g, *body = NULL;

	for (*levels = 0; *levels < most; (*levels)++) {
		if (add(at, NULL, new_condition(g, 1, DEFAULT), IF, 1, &body) != CUDA_SUCCESS)
			break;
		at = body[0];
	}
	return at;
}

/* Launched. */
static void depth(const unsigned int *most)
{
	CUgraph g = new_graph();
	unsigned int levels;

	kernel(nest(g, *most, &levels), NULL, "add", word(0), 1);
	say(" levels %u", levels);
	try(g, 1);
	words();
}

static void depth_up_to_200(const unsigned int *unused)
{
	unsigned int levels;

	(void)unused;
	nest(new_graph(), 200, &levels);
	say(" levels %u", levels);
}

/* ---- all of them ---- */

#define QUESTION(name)                                                                                                 \
	{                                                                                                              \
#name, name,                                                                                           \
		{                                                                                                      \
			0                                                                                              \
		}                                                                                                      \
	}

static const struct {
	const char *name;
	void (*ask)(const unsigned int *with);
	unsigned int with[4];
} questions_asked[] = {
	{"if_empty_true", bodies, {IF, 1, 1, 0}},
	{"if_empty_false", bodies, {IF, 1, 0, 0}},
	{"if_else_both_empty", bodies, {IF, 2, 1, 0}},
	{"if_else_first_empty", bodies, {IF, 2, 1, 2}},
	{"if_else_second_empty", bodies, {IF, 2, 0, 1}},
	{"while_empty_false", bodies, {WHILE, 1, 0, 0}},
	QUESTION(while_empty_true),
	{"switch_all_empty", bodies, {SWITCH, 3, 1, 0}},
	{"switch_chosen_empty", bodies, {SWITCH, 3, 1, 5}},
	{"switch_of_one", bodies, {SWITCH, 1, 0, 1}},
	{"switch_beyond", bodies, {SWITCH, 2, 2, 3}},
	{"sizes_of_if", sizes_of, {IF}},
	{"sizes_of_while", sizes_of, {WHILE}},
	{"sizes_of_switch", sizes_of, {SWITCH}},
	{"sizes_of_type_3", sizes_of, {3}},
	{"sizes_of_type_4", sizes_of, {4}},
	{"never_set_0", never_set, {0}},
	{"never_set_1", never_set, {1}},
	{"never_set_2", never_set, {2}},
	QUESTION(while_never_set),
	{"set_in_launch_before", set_before, {0}},
	{"set_in_launch_before_with_default", set_before, {DEFAULT}},
	QUESTION(set_outside),
	QUESTION(handles),
	QUESTION(handle_of_body),
	QUESTION(handle_of_other_graph),
	QUESTION(handle_of_none),
	QUESTION(handle_twice),
	QUESTION(handle_after_failure),
	QUESTION(handle_unused),
	QUESTION(node_without_context),
	QUESTION(instantiate_twice),
	QUESTION(changed_after),
	QUESTION(uses),
	QUESTION(node_destroyed),
	QUESTION(node_set),
	QUESTION(host_node),
	QUESTION(event_node),
	QUESTION(pageable_node),
	QUESTION(allocation_node),
	{"depth_of_24", depth, {24}},
	{"depth_of_200", depth, {200}},
	QUESTION(depth_up_to_200),
};

#define QUESTIONS (sizeof(questions_asked) / sizeof(questions_asked[0]))

int ask(const char *name)
{
	for (size_t i = 0; i < QUESTIONS; i++) {
		if (strcmp(questions_asked[i].name, name))
			continue;
		alarm(SECONDS);
		questions_asked[i].ask(questions_asked[i].with);
		return 0;
	}
	return 2;
}

const char *question_name(size_t i)
{
	return i < QUESTIONS ? questions_asked[i].name : NULL;
}
