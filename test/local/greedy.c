/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A hostile program: greedy ROW... takes as much of the host's memory as it gets in each of these ways, and holds all
 * of it; without a ROW a part of it in all ways, and then as much as it gets in all ways. Then it says "ready" and goes
 * on until its stdin ends. A row ends with a refusal, or at a number that is far above what the host may lend.
 */
#include <fcntl.h>
#include <pthread.h>
#include <unistd.h>

#include "pair.h"

#define MIB (1ull << 20)
#define HEAD ".version 8.0\n.target sm_70\n.address_size 64\n"

/* A row ends where it is refused something. */
#define TRY(call)                                                                                                      \
	do {                                                                                                           \
		if ((call) != CUDA_SUCCESS)                                                                            \
			return;                                                                                        \
	} while (0)

/* The part of each row's objects that the first pass takes, if a program runs all rows. */
#define PART 32

static unsigned int taken, part = 1;
static CUcontext context;
static CUstream waiting; /* for a value that never comes */
static CUdeviceptr word;

/* True: once more. */
static bool go_on(CUresult result, unsigned int most)
{
	taken += result == CUDA_SUCCESS;
	return result == CUDA_SUCCESS && taken < most / part;
}

static void device(void)
{
	CUdeviceptr p;

	while (go_on(cuMemAlloc_v2(&p, 4 * MIB), 1000))
		TRY(cuMemsetD8_v2(p, 1, 4 * MIB));
}

/* Each begins on a huge page where large memory does. */
static void pieces(void)
{
	CUdeviceptr p;

	while (go_on(cuMemAlloc_v2(&p, 2 * MIB), 1000))
		TRY(cuMemsetD8_v2(p, 1, 2 * MIB));
}

static void small(void)
{
	CUdeviceptr p;

	while (go_on(cuMemAlloc_v2(&p, 1), 20000))
		continue;
}

static void streams(void)
{
	CUstream s;

	while (go_on(cuStreamCreateWithPriority(&s, CU_STREAM_NON_BLOCKING, 0), 4096))
		continue;
}

static void events(void)
{
	CUevent e;

	while (go_on(cuEventCreate(&e, 0), 1 << 14))
		continue;
}

static void arrays(void)
{
	CUDA_ARRAY3D_DESCRIPTOR d = {1, 1, 0, CU_AD_FORMAT_FLOAT, 1, 0};
	CUarray a;

	while (go_on(cuArray3DCreate_v2(&a, &d), 1 << 13))
		continue;
}

#define COPIERS 4
#define COPIES 30000
#define STREAMS 256

static CUdeviceptr copied;
static _Atomic unsigned int copies_made;
static _Atomic bool copies_refused;

/* The guest's library has a thread wait that has queued much; a hostile program has more threads. */
static void *copy(void *unused)
{
	static unsigned char block[32 << 10];
	CUstream s[STREAMS];
	CUresult result;

	OK(cuCtxSetCurrent(context));
	for (unsigned int i = 0; i < STREAMS; i++)
		copies_refused |= cuStreamCreateWithPriority(&s[i], CU_STREAM_NON_BLOCKING, 0) != CUDA_SUCCESS ||
				  cuStreamWaitValue32_v2(s[i], word, 1, CU_STREAM_WAIT_VALUE_GEQ) != CUDA_SUCCESS;
	for (unsigned int i = 0; !copies_refused && copies_made < COPIES / part; i++) {
		result = cuMemcpyHtoDAsync_v2(copied, block, sizeof(block), s[i % STREAMS]);
		/* Errors of queued commands come with the next answer. */
		if (result == CUDA_SUCCESS && (result = cuStreamQuery(waiting)) == CUDA_ERROR_NOT_READY)
			result = CUDA_SUCCESS;
		copies_refused |= result != CUDA_SUCCESS;
		copies_made++;
	}
	return unused;
}

static void copies(void)
{
	pthread_t thread;

	TRY(cuMemAlloc_v2(&copied, 32 << 10));
	for (int i = 0; i < COPIERS; i++)
		CHECK(pthread_create(&thread, NULL, copy, NULL) == 0);
	/* One that waits in its library never ends. */
	while (!copies_refused && copies_made < COPIES / part)
		usleep(1000);
	taken = copies_made;
}

static char *text_of(const char *body, size_t comment)
{
	char *text = malloc(strlen(HEAD) + strlen(body) + comment + 16);
	int at = sprintf(text, HEAD "%s\n//", body);

	memset(text + at, 'x', comment);
	strcpy(text + at + comment, "\n");
	return text;
}

#define EMPTY ".visible .entry f()\n{\n\tret;\n}\n"

static void modules(void)
{
	char *text = text_of(EMPTY, MIB);
	CUmodule m;

	while (go_on(cuModuleLoadData(&m, text), 1000))
		continue;
	free(text);
}

static void libraries(void)
{
	char *text = text_of(EMPTY, MIB);
	CUlibrary l;

	while (go_on(cuLibraryLoadData(&l, text, NULL, NULL, 0, NULL, NULL, 0), 500))
		continue;
	free(text);
}

/* Each has machine code. */
static void kernels(void)
{
	char *text = text_of(EMPTY, 0);
	CUfunction f;
	CUmodule m;

	do {
		TRY(cuModuleLoadData(&m, text));
		TRY(cuModuleGetFunction(&f, m, "f"));
	} while (go_on(cuLaunchKernel(f, 1, 1, 1, 32, 1, 1, 0, NULL, NULL, NULL), 4000));
	free(text);
}

/* Much to keep for few characters. */
static void symbols(void)
{
	enum { COUNT = 2000 };
	char *body = malloc(COUNT * 40), *text;
	CUmodule m;
	int at = 0;

	for (int i = 0; i < COUNT; i++)
		at += sprintf(body + at, ".visible .entry f%d(){ret;}\n", i);
	text = text_of(body, 0);
	while (go_on(cuModuleLoadData(&m, text), 800))
		continue;
	free(text);
	free(body);
}

static void links(void)
{
	char *text = text_of(EMPTY, 16 * MIB);
	CUlinkState link;

	TRY(cuLinkCreate_v2(0, NULL, NULL, &link));
	while (go_on(cuLinkAddData_v2(link, CU_JIT_INPUT_PTX, text, strlen(text) + 1, "part", 0, NULL, NULL), 50))
		continue;
	free(text);
}

static void blocks(void)
{
	static const char body[] =
		".visible .entry f(.param .u64 p)\n{\n\t.local .align 8 .b8 all[65536];\n"
		"\t.reg .u64 %p, %i, %a;\n\t.reg .u32 %v;\n\t.reg .pred %c;\n"
		"\tld.param.u64 %p, [p];\n\tmov.u64 %i, 0;\n"
		"fill:\n\tcvt.u32.u64 %v, %i;\n\tmov.u64 %a, all;\n\tadd.u64 %a, %a, %i;\n"
		"\tst.local.u32 [%a], %v;\n\tadd.u64 %i, %i, 64;\n"
		"\tsetp.lt.u64 %c, %i, 65536;\n\t@%c bra fill;\n"
		"wait:\n\tld.volatile.global.u32 %v, [%p];\n\tsetp.eq.u32 %c, %v, 0;\n\t@%c bra wait;\n"
		"\tld.local.u32 %v, [%a];\n\tst.global.u32 [%p + 64], %v;\n\tret;\n}\n";
	void *arguments[] = {&word};
	char *text = text_of(body, 0);
	CUmodule m;
	CUfunction f;
	CUstream s;

	TRY(cuModuleLoadData(&m, text));
	TRY(cuModuleGetFunction(&f, m, "f"));
	do
		TRY(cuStreamCreateWithPriority(&s, CU_STREAM_NON_BLOCKING, 0));
	while (go_on(cuLaunchKernel(f, 64, 1, 1, 256, 1, 1, 0, s, arguments, NULL), 64));
	usleep(1000000);
	free(text);
}

static void prints(void)
{
	static const char body[] =
		".extern .func (.param .b32 r) vprintf(.param .b64 f, .param .b64 a);\n"
		".global .align 1 .b8 format[] = {37, 46, 57, 57, 57, 57, 57, 57, 57, 57, 57, 102, 0};\n"
		".visible .entry f()\n{\n\t.local .align 8 .b8 a[8];\n\t.reg .u64 %f, %a;\n"
		"\tmov.u64 %a, a;\n\tst.local.u64 [a], 0;\n\tcvta.local.u64 %a, %a;\n"
		"\tmov.u64 %f, format;\n\tcvta.global.u64 %f, %f;\n"
		"\t{\n\t.param .b64 f;\n\t.param .b64 g;\n\t.param .b32 r;\n\tst.param.b64 [f], %f;\n"
		"\tst.param.b64 [g], %a;\n\tcall.uni (r), vprintf, (f, g);\n\t}\n\tret;\n}\n";
	int null = open("/dev/null", O_WRONLY), out = dup(STDOUT_FILENO);
	char *text = text_of(body, 0);
	CUresult result;
	CUmodule m;
	CUfunction f;

	TRY(cuModuleLoadData(&m, text));
	TRY(cuModuleGetFunction(&f, m, "f"));
	CHECK(dup2(null, STDOUT_FILENO) == STDOUT_FILENO);
	do {
		result = cuLaunchKernel(f, 1, 1, 1, 32, 1, 1, 0, NULL, NULL, NULL);
		if (result == CUDA_SUCCESS)
			result = cuStreamSynchronize(NULL);
	} while (go_on(result, 2));
	CHECK(dup2(out, STDOUT_FILENO) == STDOUT_FILENO);
	free(text);
}

static void graphs(void)
{
	CUDA_MEMSET_NODE_PARAMS params = {.dst = word + 64, .elementSize = 4, .width = 1, .height = 1};
	CUgraphNode node;
	CUgraphExec exec;
	CUgraph graph;
	CUresult result;

	do {
		TRY(cuGraphCreate(&graph, 0));
		for (int i = 0; i < 1000; i++)
			TRY(cuGraphAddMemsetNode(&node, graph, NULL, 0, &params, context));
		result = cuGraphInstantiateWithFlags(&exec, graph, 0);
		for (int i = 0; result == CUDA_SUCCESS && i < 4; i++)
			result = cuGraphLaunch(exec, NULL);
		if (result == CUDA_SUCCESS)
			result = cuStreamSynchronize(NULL);
		TRY(cuGraphDestroy(graph));
	} while (go_on(result, 100));
}

static const struct {
	const char *name;
	bool once;
	void (*run)(void);
} rows[] = {
	/* After `blocks` kernels run that do not end: what waits for their end, or for memory of blocks, would wait for
	   ever. */
	{"prints", true, prints},    {"kernels", false, kernels}, {"graphs", true, graphs},
	{"modules", false, modules}, {"symbols", false, symbols}, {"libraries", false, libraries},
	{"links", false, links},     {"streams", false, streams}, {"events", false, events},
	{"arrays", false, arrays},   {"small", false, small},     {"pieces", false, pieces},
	{"device", false, device},   {"copies", true, copies},    {"blocks", true, blocks},
};

static bool is_wanted(const char *name, int count, char **names)
{
	bool wanted = count < 2;

	for (int i = 1; i < count; i++)
		wanted |= !strcmp(names[i], name);
	return wanted;
}

static void run(bool again, int count, char **names)
{
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		if (!is_wanted(rows[i].name, count, names) || (again && rows[i].once))
			continue;
		taken = 0;
		rows[i].run();
		fprintf(stderr, "%s: %u\n", rows[i].name, taken);
	}
}

int main(int argc, char **argv)
{
	char c;

	start();
	OK(cuCtxGetCurrent(&context));
	OK(cuMemAlloc_v2(&word, 256));
	OK(cuMemsetD8_v2(word, 0, 256));
	OK(cuStreamCreateWithPriority(&waiting, CU_STREAM_NON_BLOCKING, 0));
	OK(cuStreamWaitValue32_v2(waiting, word, 1, CU_STREAM_WAIT_VALUE_GEQ));
	part = argc < 2 ? PART : 1;
	run(false, argc, argv);
	part = 1;
	if (argc < 2)
		run(true, argc, argv);
	puts("ready");
	fflush(stdout);
	/* Endless waits end with the process. */
	CHECK(read(0, &c, 1) == 0);
	_exit(0);
}
