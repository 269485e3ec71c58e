/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Conditional nodes of graphs: IF with ELSE, WHILE, SWITCH, nested, captured, updated. The program knows nothing but
 * CUDA, and counts the probes that fail.
 *
 * usage: conditionals [PROBE...] | conditionals ask [QUESTION | compare FILE] | conditionals endless SHAPE [wait]
 *
 * `ask` prints what the driver does where the documentation does not say it, and may compare it with a file. NVIDIA's
 * driver does not know cudaGraphSetConditional(): CUDADEVRT is then a file libcudadevrt.a of a toolkit, which is
 * linked.
 */
#include <stddef.h>

#include "test/local/conditionals/conditionals.h"

static const char ptx[] =
	".version 7.8\n.target sm_50\n.address_size 64\n"
	".extern .func cudaGraphSetConditional(.param .b64 c, .param .b32 v);\n"
	".visible .entry set(.param .u64 c, .param .u32 v)\n{\n.reg .b32 %r<2>; .reg .b64 %l<2>;\n"
	"ld.param.u64 %l1, [c];\nld.param.u32 %r1, [v];\n"
	"{\n.param .b64 x;\n.param .b32 y;\nst.param.b64 [x], %l1;\nst.param.b32 [y], %r1;\n"
	"call.uni cudaGraphSetConditional, (x, y);\n}\nret;\n}\n"
	".visible .entry from(.param .u64 c, .param .u64 p)\n{\n.reg .b32 %r<2>; .reg .b64 %l<3>;\n"
	"ld.param.u64 %l1, [c];\nld.param.u64 %l2, [p];\nld.global.u32 %r1, [%l2];\n"
	"{\n.param .b64 x;\n.param .b32 y;\nst.param.b64 [x], %l1;\nst.param.b32 [y], %r1;\n"
	"call.uni cudaGraphSetConditional, (x, y);\n}\nret;\n}\n"
	".visible .entry down(.param .u64 c, .param .u64 p)\n{\n.reg .b32 %r<2>; .reg .b64 %l<3>;\n"
	"ld.param.u64 %l1, [c];\nld.param.u64 %l2, [p];\nld.global.u32 %r1, [%l2];\nsub.u32 %r1, %r1, 1;\n"
	"st.global.u32 [%l2], %r1;\n"
	"{\n.param .b64 x;\n.param .b32 y;\nst.param.b64 [x], %l1;\nst.param.b32 [y], %r1;\n"
	"call.uni cudaGraphSetConditional, (x, y);\n}\nret;\n}\n"
	".visible .entry add(.param .u64 p, .param .u32 k)\n{\n.reg .b32 %r<3>; .reg .b64 %l<2>;\n"
	"ld.param.u64 %l1, [p];\nld.param.u32 %r1, [k];\nld.global.u32 %r2, [%l1];\nadd.u32 %r2, %r2, %r1;\n"
	"st.global.u32 [%l1], %r2;\nret;\n}\n"
	".visible .entry hold(.param .u64 p, .param .u32 k)\n{\n.reg .b32 %r<2>; .reg .b64 %l<2>; .reg .pred %q;\n"
	"ld.param.u64 %l1, [p];\nAGAIN:\nld.volatile.global.u32 %r1, [%l1];\nsetp.eq.u32 %q, %r1, 0;\n@%q bra AGAIN;\n"
	"ret;\n}\n"
	".visible .entry wild(.param .u64 p, .param .u32 k)\n{\n.reg .b32 %r<2>; .reg .b64 %l<2>;\n"
	"mov.u64 %l1, 8;\nmov.u32 %r1, 1;\nst.global.u32 [%l1], %r1;\nret;\n}\n";

static CUmodule module;
static CUdeviceptr memory; /* WORDS of 4 bytes */
static bool failed;        /* the probe */

/* `library` has the calls that go to a library. */
static void link_with(CUmodule *to, const char *library)
{
	CUlinkState link;
	size_t bytes;
	void *image;

	OK(cuLinkCreate_v2(0, NULL, NULL, &link));
	OK(cuLinkAddData_v2(link, CU_JIT_INPUT_PTX, (void *)ptx, sizeof(ptx), "ptx", 0, NULL, NULL));
	OK(cuLinkAddFile_v2(link, CU_JIT_INPUT_LIBRARY, library, 0, NULL, NULL));
	OK(cuLinkComplete(link, &image, &bytes));
	OK(cuModuleLoadData(to, image));
	OK(cuLinkDestroy(link));
}

static void load(CUmodule *to)
{
	if (getenv("CUDADEVRT"))
		link_with(to, getenv("CUDADEVRT"));
	else
		OK(cuModuleLoadData(to, ptx));
}

void expect(bool right, const char *what, int line)
{
	if (!right)
		printf("line %d: %s\n", line, what);
	failed |= !right;
}

CUdeviceptr word(unsigned int i)
{
	return memory + 4u * i;
}

void put(unsigned int i, uint32_t value)
{
	OK(cuMemcpyHtoD_v2(word(i), &value, 4));
}

uint32_t get(unsigned int i)
{
	uint32_t value;

	OK(cuMemcpyDtoH_v2(&value, word(i), 4));
	return value;
}

CUfunction function(const char *name)
{
	CUfunction f;

	OK(cuModuleGetFunction(&f, module, name));
	return f;
}

CUDA_KERNEL_NODE_PARAMS kernel_params(const char *name, uint64_t first, uint64_t second)
{
	static uint64_t values[2];
	static void *params[] = {&values[0], &values[1]};

	values[0] = first;
	values[1] = second;
	return (CUDA_KERNEL_NODE_PARAMS){.func = function(name),
					 .gridDimX = 1,
					 .gridDimY = 1,
					 .gridDimZ = 1,
					 .blockDimX = 1,
					 .blockDimY = 1,
					 .blockDimZ = 1,
					 .kernelParams = params};
}

CUgraphNode kernel(CUgraph g, CUgraphNode after, const char *name, uint64_t first, uint64_t second)
{
	const CUDA_KERNEL_NODE_PARAMS p = kernel_params(name, first, second);
	CUgraphNode n;

	OK(cuGraphAddKernelNode_v2(&n, g, &after, after != NULL, &p));
	return n;
}

CUcontext current(void)
{
	CUcontext c;

	OK(cuCtxGetCurrent(&c));
	return c;
}

CUgraphConditionalHandle condition(CUgraph g, unsigned int value, unsigned int flags)
{
	CUgraphConditionalHandle c;

	OK(cuGraphConditionalHandleCreate(&c, g, current(), value, flags));
	return c;
}

CUgraphNodeParams conditional_params(CUgraphConditionalHandle c, CUgraphConditionalNodeType type, unsigned int size)
{
	CUgraphNodeParams p;

	memset(&p, 0, sizeof(p));
	p.type = CU_GRAPH_NODE_TYPE_CONDITIONAL;
	p.conditional.handle = c;
	p.conditional.type = type;
	p.conditional.size = size;
	p.conditional.ctx = current();
	return p;
}

CUgraph *conditional(CUgraph g, CUgraphNode after, CUgraphConditionalHandle c, CUgraphConditionalNodeType type,
		     unsigned int size, CUgraphNode *node)
{
	CUgraphNodeParams p = conditional_params(c, type, size);
	CUgraphNode n;

	OK(cuGraphAddNode_v2(&n, g, &after, NULL, after != NULL, &p));
	if (node)
		*node = n;
	return p.conditional.phGraph_out;
}

CUgraph new_graph(void)
{
	CUgraph g;

	OK(cuGraphCreate(&g, 0));
	return g;
}

CUgraphExec instantiate(CUgraph g)
{
	CUgraphExec e;

	OK(cuGraphInstantiateWithFlags(&e, g, 0));
	return e;
}

void launch(CUgraphExec e)
{
	OK(cuGraphLaunch(e, NULL));
	OK(cuStreamSynchronize(NULL));
}

void run(CUgraph g, unsigned int times)
{
	CUgraphExec e = instantiate(g);

	for (unsigned int i = 0; i < times; i++)
		launch(e);
	OK(cuGraphExecDestroy(e));
	OK(cuGraphDestroy(g));
}

CUgraph loop(CUgraphNode *node, CUgraph *body)
{
	CUgraph g = new_graph();
	CUgraphConditionalHandle c = condition(g, 0, CU_GRAPH_COND_ASSIGN_DEFAULT);
	CUgraphNode first = kernel(g, NULL, "from", c, word(0));

	*body = conditional(g, first, c, CU_GRAPH_COND_TYPE_WHILE, 1, node)[0];
	kernel(*body, kernel(*body, NULL, "add", word(1), 3), "down", c, word(0));
	return g;
}

/* ---- what conditions choose ---- */

static void if_default(void)
{
	for (unsigned int value = 0; value < 3; value++) {
		CUgraph g = new_graph(), *body;

		body = conditional(g, NULL, condition(g, value, CU_GRAPH_COND_ASSIGN_DEFAULT), CU_GRAPH_COND_TYPE_IF, 1,
				   NULL);
		kernel(body[0], NULL, "add", word(value), 1);
		run(g, 3);
	}
	EXPECT(get(0) == 0 && get(1) == 3 && get(2) == 3);
}

static void if_set(void)
{
	for (unsigned int value = 0; value < 3; value++) {
		CUgraph g = new_graph();
		CUgraphConditionalHandle c = condition(g, 1, CU_GRAPH_COND_ASSIGN_DEFAULT);
		CUgraphNode first = kernel(g, NULL, "set", c, value);

		kernel(conditional(g, first, c, CU_GRAPH_COND_TYPE_IF, 1, NULL)[0], NULL, "add", word(value), 1);
		run(g, 2);
	}
	EXPECT(get(0) == 0 && get(1) == 2 && get(2) == 2);
}

static void if_else(void)
{
	CUgraph g = new_graph(), *body;
	CUgraphConditionalHandle c = condition(g, 0, 0);
	CUgraphNode node, first = kernel(g, NULL, "from", c, word(0));
	CUgraphExec e;

	body = conditional(g, first, c, CU_GRAPH_COND_TYPE_IF, 2, &node);
	kernel(body[0], NULL, "add", word(1), 1);
	kernel(body[1], NULL, "add", word(2), 1);
	kernel(g, node, "add", word(3), 1);
	e = instantiate(g);
	for (unsigned int i = 0; i < 6; i++) {
		put(0, i % 3);
		launch(e);
	}
	EXPECT(get(1) == 4 && get(2) == 2 && get(3) == 6);
	OK(cuGraphExecDestroy(e));
	OK(cuGraphDestroy(g));
}

static void while_loop(void)
{
	CUgraph body, g = loop(NULL, &body);
	CUgraphExec e = instantiate(g);
	uint32_t times[] = {0, 1, 10, 1000}, all = 0;

	for (unsigned int i = 0; i < 4; i++) {
		put(0, times[i]);
		all += 3 * times[i];
		launch(e);
		EXPECT(get(0) == 0 && get(1) == all);
	}
	OK(cuGraphExecDestroy(e));
	OK(cuGraphDestroy(g));
}

static void switches(void)
{
	CUgraph g = new_graph(), *body;
	CUgraphConditionalHandle c = condition(g, 0, 0);
	CUgraphExec e;

	body = conditional(g, kernel(g, NULL, "from", c, word(0)), c, CU_GRAPH_COND_TYPE_SWITCH, 5, NULL);
	for (unsigned int i = 0; i < 4; i++) /* the fifth body stays empty */
		kernel(body[i], NULL, "add", word(1 + i), i + 1);
	e = instantiate(g);
	for (unsigned int i = 0; i < 8; i++) {
		put(0, i < 7 ? i : UINT32_MAX);
		launch(e);
	}
	EXPECT(get(1) == 1 && get(2) == 2 && get(3) == 3 && get(4) == 4);
	OK(cuGraphExecDestroy(e));
	OK(cuGraphDestroy(g));
}

/* Defaults count at each launch. */
static void defaults(void)
{
	CUgraph g = new_graph(), body;
	CUgraphConditionalHandle c = condition(g, 1, CU_GRAPH_COND_ASSIGN_DEFAULT);

	body = conditional(g, NULL, c, CU_GRAPH_COND_TYPE_WHILE, 1, NULL)[0];
	kernel(body, kernel(body, NULL, "add", word(1), 1), "set", c, 0);
	run(g, 5);
	EXPECT(get(1) == 5);
}

/* Three times a loop of four, whose condition is `inner`'s graph's: the body's or the whole one's. */
static void nest(bool of_body)
{
	CUgraph g = new_graph(), outer, inner;
	CUgraphConditionalHandle a = condition(g, 1, CU_GRAPH_COND_ASSIGN_DEFAULT), b;
	CUgraphNode set, loop_node, last;

	put(0, 3);
	outer = conditional(g, NULL, a, CU_GRAPH_COND_TYPE_WHILE, 1, NULL)[0];
	b = condition(of_body ? outer : g, 0, 0);
	set = kernel(outer, kernel(outer, NULL, "add", word(2), 4), "from", b, word(2));
	inner = conditional(outer, set, b, CU_GRAPH_COND_TYPE_WHILE, 1, &loop_node)[0];
	last = kernel(inner, NULL, "add", word(1), 1);
	kernel(inner, last, "down", b, word(2));
	kernel(outer, loop_node, "down", a, word(0));
	run(g, 1);
	EXPECT(get(0) == 0 && get(1) == 12 && get(2) == 0);
}

static void nested_in_body(void)
{
	nest(true);
}

static void nested_in_whole(void)
{
	nest(false);
}

static void deeply_nested(void)
{
	CUgraph g = new_graph(), at = g;

	for (unsigned int i = 0; i < 8; i++) {
		at = conditional(at, NULL, condition(g, 1, CU_GRAPH_COND_ASSIGN_DEFAULT), CU_GRAPH_COND_TYPE_IF, 1,
				 NULL)[0];
		kernel(at, NULL, "add", word(1), 1);
	}
	run(g, 2);
	EXPECT(get(1) == 16);
}

/* Memsets, copies, empty nodes and child graphs of a body, in order. */
static void other_nodes(void)
{
	CUgraph g = new_graph(), child = new_graph(), body;
	CUDA_MEMSET_NODE_PARAMS fill = {.dst = word(1), .value = 7, .elementSize = 4, .width = 1, .height = 1};
	CUDA_MEMCPY3D copy = {.srcMemoryType = CU_MEMORYTYPE_DEVICE,
			      .srcDevice = word(1),
			      .dstMemoryType = CU_MEMORYTYPE_DEVICE,
			      .dstDevice = word(2),
			      .WidthInBytes = 4,
			      .Height = 1,
			      .Depth = 1};
	CUgraphNode n, m;
	CUcontext c;

	OK(cuCtxGetCurrent(&c));
	body = conditional(g, NULL, condition(g, 1, CU_GRAPH_COND_ASSIGN_DEFAULT), CU_GRAPH_COND_TYPE_IF, 1, NULL)[0];
	OK(cuGraphAddMemsetNode(&n, body, NULL, 0, &fill, c));
	OK(cuGraphAddMemcpyNode(&m, body, &n, 1, &copy, c));
	kernel(child, kernel(child, NULL, "add", word(2), 1), "add", word(2), 2);
	OK(cuGraphAddChildGraphNode(&n, body, &m, 1, child));
	OK(cuGraphDestroy(child));
	OK(cuGraphAddEmptyNode(&m, body, &n, 1));
	kernel(body, m, "add", word(2), 4);
	run(g, 2);
	EXPECT(get(1) == 7 && get(2) == 14);
}

/* The kernels' module goes while the graph runs. */
static void module_goes(void)
{
	CUmodule keep = module;
	CUgraph body, g;
	CUgraphExec e;

	load(&module);
	g = loop(NULL, &body);
	e = instantiate(g);
	put(0, 200);
	OK(cuGraphLaunch(e, NULL));
	OK(cuModuleUnload(module));
	module = keep;
	OK(cuCtxSynchronize());
	EXPECT(get(0) == 0 && get(1) == 600);
	OK(cuGraphExecDestroy(e));
	OK(cuGraphDestroy(g));
}

static const struct {
	const char *name;
	void (*run)(void);
} probes[] = {
	{"if_default", if_default},
	{"if_set", if_set},
	{"if_else", if_else},
	{"while_loop", while_loop},
	{"switches", switches},
	{"defaults", defaults},
	{"nested_in_body", nested_in_body},
	{"nested_in_whole", nested_in_whole},
	{"deeply_nested", deeply_nested},
	{"other_nodes", other_nodes},
	{"asynchronous", asynchronous},
	{"two_streams", two_streams},
	{"side_by_side", side_by_side},
	{"whole_context", whole_context},
	{"changed_between", changed_between},
	{"module_goes", module_goes},
	{"without_its_graph", without_its_graph},
	{"capture_body", capture_body},
	{"capture_around", capture_around},
	{"set_params", set_params},
	{"more_conditions", more_conditions},
	{"update", update},
	{"instantiate_again", instantiate_again},
	{"another_node", another_node},
	{"questions", questions},
	{"wrong_nodes", wrong_nodes},
	{"wrong_uses", wrong_uses},
	{"unused_condition", unused_condition},
	{"fault", fault},
};

/* Names of probes: only these. */
static bool is_wanted(int argc, char **argv, const char *name)
{
	for (int i = 1; i < argc; i++)
		if (!strcmp(argv[i], name))
			return true;
	return argc < 2;
}

int main(int argc, char **argv)
{
	unsigned int bad = 0, count = 0;
	CUcontext context;

	setvbuf(stdout, NULL, _IONBF, 0);
	if (argc == 2 && !strcmp(argv[1], "ask"))
		return ask_all(argv[0], NULL);
	if (argc == 4 && !strcmp(argv[1], "ask") && !strcmp(argv[2], "compare"))
		return ask_all(argv[0], argv[3]);
	OK(cuInit(0));
	OK(cuDevicePrimaryCtxRetain(&context, 0));
	OK(cuCtxSetCurrent(context));
	load(&module);
	OK(cuMemAlloc_v2(&memory, 4u * WORDS));
	if (argc > 2 && !strcmp(argv[1], "endless"))
		return endless(argv[2], argc > 3);
	if (argc > 2 && !strcmp(argv[1], "ask")) {
		OK(cuMemsetD32_v2(memory, 0, WORDS));
		return ask(argv[2]);
	}
	for (size_t i = 0; i < sizeof(probes) / sizeof(probes[0]); i++) {
		if (!is_wanted(argc, argv, probes[i].name))
			continue;
		failed = false;
		OK(cuMemsetD32_v2(memory, 0, WORDS));
		probes[i].run();
		if (failed)
			printf("%s failed\n", probes[i].name);
		bad += failed;
		count++;
	}
	printf("conditionals: %u of %u failed\n", bad, count);
	return bad != 0;
}
