/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The limits of vcudad's quotas on a program.
 *
 * - quota fill MIB WAY...: takes 16 MiB at a time until the quota of MIB is used up, in each way, and again after the
 *   program has freed all.
 * - quota hold MIB: says "ready" and keeps the memory until its stdin ends.
 * - quota pairs COUNT BYTES: times allocations with their ends.
 * - quota queue BYTES: is refused at BYTES of queued copies.
 * - quota streams COUNT: is refused at COUNT streams.
 * - quota modules BYTES: is refused at BYTES of modules' text.
 * - quota host MIB: is refused modules, machine code and links, which take the host's memory, at the quota of MIB, and
 *   has all of the quota for device memory once the program has destroyed them.
 * - quota local BYTES: runs a kernel whose threads have BYTES of local memory each, says "ready" and goes on until its
 *   stdin ends. A GPU's driver takes memory for all threads that the GPU runs at a time.
 */
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "guest/libnvidia-ml/nvml-abi.h"
#include "pair.h"

#define MIB (1ull << 20)
#define PIECE (16 * MIB)
#define MOST 256

nvmlReturn_t nvmlInit_v2(void);
nvmlReturn_t nvmlDeviceGetHandleByIndex_v2(unsigned int index, nvmlDevice_t *device);
nvmlReturn_t nvmlDeviceGetMemoryInfo(nvmlDevice_t device, nvmlMemory_t *memory);

struct way {
	const char *name;
	CUresult (*take)(uint64_t *object);
	void (*give)(uint64_t object);
};

/* ---- the ways ---- */

static void give_plain(uint64_t object)
{
	OK(cuMemFree_v2(object));
}

static CUresult take_plain(uint64_t *object)
{
	return cuMemAlloc_v2((CUdeviceptr *)object, PIECE);
}

static CUresult take_pitch(uint64_t *object)
{
	size_t pitch;

	return cuMemAllocPitch_v2((CUdeviceptr *)object, &pitch, 4096, PIECE / 4096, 4);
}

static CUresult take_async(uint64_t *object)
{
	return cuMemAllocAsync((CUdeviceptr *)object, PIECE, NULL);
}

static void give_async(uint64_t object)
{
	CUmemoryPool pool;

	OK(cuMemFreeAsync(object, NULL));
	OK(cuStreamSynchronize(NULL));
	OK(cuDeviceGetDefaultMemPool(&pool, 0));
	OK(cuMemPoolTrimTo(pool, 0));
}

static CUresult take_pool(uint64_t *object)
{
	CUmemPoolProps props = {.allocType = CU_MEM_ALLOCATION_TYPE_PINNED,
				.location = {CU_MEM_LOCATION_TYPE_DEVICE, 0}};
	CUmemoryPool pool;
	CUresult result;

	OK(cuMemPoolCreate(&pool, &props));
	result = cuMemAllocFromPoolAsync((CUdeviceptr *)object, PIECE, pool, NULL);
	OK(cuMemPoolDestroy(pool));
	return result;
}

static CUresult take_array(uint64_t *object)
{
	CUDA_ARRAY3D_DESCRIPTOR d = {2048, 2048, 0, CU_AD_FORMAT_FLOAT, 1, 0};

	return cuArray3DCreate_v2((CUarray *)object, &d);
}

static void give_array(uint64_t object)
{
	OK(cuArrayDestroy((CUarray)object));
}

static CUresult take_mipmap(uint64_t *object)
{
	CUDA_ARRAY3D_DESCRIPTOR d = {2048, 1536, 0, CU_AD_FORMAT_FLOAT, 1, 0};

	return cuMipmappedArrayCreate((CUmipmappedArray *)object, &d, 99);
}

static void give_mipmap(uint64_t object)
{
	OK(cuMipmappedArrayDestroy((CUmipmappedArray)object));
}

static CUresult take_mapped(uint64_t *object)
{
	CUmemAllocationProp prop = {.type = CU_MEM_ALLOCATION_TYPE_PINNED,
				    .location = {CU_MEM_LOCATION_TYPE_DEVICE, 0}};

	return cuMemCreate((CUmemGenericAllocationHandle *)object, PIECE, &prop, 0);
}

static void give_mapped(uint64_t object)
{
	OK(cuMemRelease(object));
}

static CUresult take_module(uint64_t *object)
{
	static const char text[] = ".version 8.0\n.target sm_70\n.address_size 64\n"
				   ".visible .global .align 8 .b8 big[16777216];\n"
				   ".visible .entry f()\n{\n\tret;\n}\n";
	CUdeviceptr p;
	size_t bytes;
	CUresult result = cuModuleLoadData((CUmodule *)object, text);

	if (result == CUDA_SUCCESS)
		OK(cuModuleGetGlobal_v2(&p, &bytes, (CUmodule)*object, "big"));
	return result;
}

static void give_module(uint64_t object)
{
	OK(cuModuleUnload((CUmodule)object));
}

/* An allocation of a graph exists from when the graph is made until the graph ends. */
static CUresult take_graph(uint64_t *object)
{
	CUDA_MEM_ALLOC_NODE_PARAMS params = {
		.poolProps = {.allocType = CU_MEM_ALLOCATION_TYPE_PINNED, .location = {CU_MEM_LOCATION_TYPE_DEVICE, 0}},
		.bytesize = PIECE};
	CUgraphNode alloc, end;
	CUgraphExec exec;
	CUgraph graph;
	CUresult result;

	OK(cuGraphCreate(&graph, 0));
	result = cuGraphAddMemAllocNode(&alloc, graph, NULL, 0, &params);
	if (result == CUDA_SUCCESS)
		OK(cuGraphAddMemFreeNode(&end, graph, &alloc, 1, params.dptr));
	if (result == CUDA_SUCCESS)
		result = cuGraphInstantiateWithFlags(&exec, graph, 0);
	if (result == CUDA_SUCCESS) {
		result = cuGraphLaunch(exec, NULL);
		if (result == CUDA_SUCCESS)
			result = cuCtxSynchronize();
		OK(cuGraphExecDestroy(exec));
	}
	if (result != CUDA_SUCCESS)
		OK(cuGraphDestroy(graph));
	*object = (uint64_t)(uintptr_t)graph;
	return result;
}

static void give_graph(uint64_t object)
{
	OK(cuGraphDestroy((CUgraph)(uintptr_t)object));
	OK(cuDeviceGraphMemTrim(0));
}

static const struct way ways[] = {
	{"plain", take_plain, give_plain},    {"pitch", take_pitch, give_plain},
	{"async", take_async, give_async},    {"pool", take_pool, give_async},
	{"array", take_array, give_array},    {"mipmap", take_mipmap, give_mipmap},
	{"mapped", take_mapped, give_mapped}, {"module", take_module, give_module},
	{"graph", take_graph, give_graph},    {NULL},
};

static const struct way *find_way(const char *name)
{
	const struct way *w = ways;

	while (w->name && strcmp(w->name, name))
		w++;
	CHECK(w->name);
	return w;
}

/* ---- the quota ---- */

static size_t free_memory(size_t quota)
{
	size_t left, total;

	OK(cuMemGetInfo_v2(&left, &total));
	CHECK(total == quota && left <= total);
	return left;
}

static void check_size(size_t quota, size_t taken)
{
	nvmlDevice_t device;
	nvmlMemory_t memory;
	nvmlReturn_t result;
	size_t total;

	OK(cuDeviceTotalMem_v2(&total, 0));
	CHECK(total == quota);
	CHECK(free_memory(quota) <= quota - taken);
	OK(nvmlInit_v2());
	OK(nvmlDeviceGetHandleByIndex_v2(0, &device));
	result = nvmlDeviceGetMemoryInfo(device, &memory);
	/* With a GPU the host's library is asked, and a test of the cuda back end has none. */
	if (result == NVML_ERROR_NOT_SUPPORTED && getenv("VCUDA_TEST_BACKEND"))
		return;
	OK(result);
	CHECK(memory.total == quota && memory.used >= taken && memory.used + memory.free == memory.total);
}

/* Fewer than two pieces of the quota are left where an allocation fails. */
static void fill(const struct way *w, size_t quota, size_t before)
{
	uint64_t objects[MOST];
	unsigned int count = 0;
	CUresult result;

	while (count < MOST && (result = w->take(&objects[count])) == CUDA_SUCCESS)
		count++;
	CHECK(count < MOST);
	GIVES(result, CUDA_ERROR_OUT_OF_MEMORY);
	if (count * PIECE > before || (count + 2) * PIECE <= before)
		fprintf(stderr, "%s: %u pieces of %zu bytes\n", w->name, count, before);
	CHECK(count * PIECE <= before && (count + 2) * PIECE > before);
	check_size(quota, strcmp(w->name, "graph") ? count * PIECE : 0);
	while (count)
		w->give(objects[--count]);
	CHECK(free_memory(quota) + MIB >= before);
}

static void fill_all(int count, char **names)
{
	size_t quota = strtoull(names[0], NULL, 10) * MIB, before;
	uint64_t object;

	CHECK(take_module(&object) == CUDA_SUCCESS);
	give_module(object);
	before = free_memory(quota);
	/* twice: what is left over by the first way must not add up */
	for (int round = 0; round < 2; round++)
		for (int i = 1; i < count; i++)
			fill(find_way(names[i]), quota, before);
	puts("filled");
}

static void hold(size_t bytes)
{
	CUdeviceptr p;
	char c;

	OK(cuMemAlloc_v2(&p, bytes));
	OK(cuMemsetD8_v2(p, 0x5a, bytes));
	puts("ready");
	fflush(stdout);
	CHECK(read(0, &c, 1) == 0);
	OK(cuMemsetD8_v2(p, 0x5b, bytes));
	OK(cuCtxSynchronize());
	puts("held");
}

static double now(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (double)t.tv_sec * 1e6 + (double)t.tv_nsec / 1e3;
}

/* The fastest of 100 rounds: others use the processors too. */
static void pairs(unsigned int count, size_t bytes)
{
	double least = 1e9, begin;
	CUdeviceptr p;

	for (int round = 0; round < 100; round++) {
		begin = now();
		for (unsigned int i = 0; i < count; i++) {
			OK(cuMemAlloc_v2(&p, bytes));
			OK(cuMemFree_v2(p));
		}
		begin = (now() - begin) / count;
		least = begin < least ? begin : least;
	}
	printf("%.2f us\n", least);
}

/* Enough streams that the guest's library throttles none: it limits the queued work of a stream. */
#define STREAMS 512

/*
 * Copies wait for a value in memory, and nothing runs: what they hold is bounded. The command that writes the value is
 * taken nevertheless, and all copies that were taken are made.
 */
static void queue(size_t bytes)
{
	static unsigned char block[32 << 10];
	unsigned int taken = 0, most = (unsigned int)(bytes / sizeof(block));
	CUstream waits[STREAMS], writes;
	CUresult result = CUDA_SUCCESS;
	CUdeviceptr word, to;

	OK(cuMemAlloc_v2(&word, 4));
	OK(cuMemAlloc_v2(&to, sizeof(block)));
	OK(cuMemsetD32_v2(word, 0, 1));
	OK(cuStreamCreateWithPriority(&writes, CU_STREAM_NON_BLOCKING, 0));
	for (unsigned int i = 0; i < STREAMS; i++) {
		OK(cuStreamCreateWithPriority(&waits[i], CU_STREAM_NON_BLOCKING, 0));
		OK(cuStreamWaitValue32_v2(waits[i], word, 1, CU_STREAM_WAIT_VALUE_GEQ));
	}
	while (taken < 2 * most && result == CUDA_SUCCESS) {
		result = cuMemcpyHtoDAsync_v2(to, block, sizeof(block), waits[taken % STREAMS]);
		/* Errors of queued commands come with the next answer. */
		if (result == CUDA_SUCCESS && ++taken % 16 == 0 &&
		    (result = cuStreamQuery(waits[0])) == CUDA_ERROR_NOT_READY)
			result = CUDA_SUCCESS;
	}
	GIVES(result, CUDA_ERROR_OUT_OF_MEMORY);
	CHECK(taken + 32 >= most && taken <= most + 32);
	OK(cuStreamWriteValue32_v2(writes, word, 1, 0));
	for (unsigned int i = 0; i < STREAMS; i++)
		OK(cuStreamSynchronize(waits[i]));
	/* and there is room again */
	OK(cuMemcpyHtoDAsync_v2(to, block, sizeof(block), waits[0]));
	OK(cuStreamSynchronize(waits[0]));
	puts("bounded");
}

static void streams(unsigned int count)
{
	CUstream first, next;
	unsigned int made = 1;
	CUresult result;

	OK(cuStreamCreateWithPriority(&first, 0, 0));
	while (made <= count && (result = cuStreamCreateWithPriority(&next, 0, 0)) == CUDA_SUCCESS)
		made++;
	CHECK(made == count);
	GIVES(result, CUDA_ERROR_OUT_OF_MEMORY);
	OK(cuStreamDestroy_v2(first));
	OK(cuStreamCreateWithPriority(&first, 0, 0));
	puts("refused");
}

/* Each has 16 KiB of comment. */
static void modules(size_t bytes)
{
	enum { COMMENT = 16 << 10 };
	static char text[COMMENT + 200];
	CUmodule first, next;
	CUresult result;
	size_t taken;
	int at = sprintf(text, ".version 8.0\n.target sm_70\n.address_size 64\n//");

	memset(text + at, 'x', COMMENT);
	strcpy(text + at + COMMENT, "\n.visible .entry f()\n{\n\tret;\n}\n");
	taken = strlen(text);
	OK(cuModuleLoadData(&first, text));
	while (taken <= 2 * bytes && (result = cuModuleLoadData(&next, text)) == CUDA_SUCCESS)
		taken += strlen(text);
	CHECK(taken <= bytes + 1024 && taken + strlen(text) > bytes - 1024);
	GIVES(result, CUDA_ERROR_OUT_OF_MEMORY);
	OK(cuModuleUnload(first));
	OK(cuModuleLoadData(&first, text));
	puts("refused");
}

/* A module with a comment of `comment` bytes. */
static CUresult load(CUmodule *module, size_t comment)
{
	static const char head[] =
		".version 8.0\n.target sm_70\n.address_size 64\n.visible .entry f()\n{\n\tret;\n}\n//";
	char *text = malloc(sizeof(head) + comment + 2);
	CUresult result;

	CHECK(text);
	memcpy(text, head, sizeof(head) - 1);
	memset(text + sizeof(head) - 1, 'x', comment);
	strcpy(text + sizeof(head) - 1 + comment, "\n");
	result = cuModuleLoadData(module, text);
	free(text);
	return result;
}

static CUresult take_text(uint64_t *object)
{
	return load((CUmodule *)object, MIB);
}

static CUresult take_code(uint64_t *object)
{
	CUresult result = load((CUmodule *)object, 0);
	CUfunction f;

	if (result != CUDA_SUCCESS)
		return result;
	OK(cuModuleGetFunction(&f, (CUmodule)*object, "f"));
	result = cuLaunchKernel(f, 1, 1, 1, 1, 1, 1, 0, NULL, NULL, NULL);
	if (result != CUDA_SUCCESS)
		give_module(*object);
	return result;
}

static CUresult take_link(uint64_t *object)
{
	static char text[4 * MIB];
	CUresult result = cuLinkCreate_v2(0, NULL, NULL, (CUlinkState *)object);
	int at = sprintf(text, ".version 8.0\n.target sm_70\n.address_size 64\n//");

	if (result != CUDA_SUCCESS)
		return result;
	memset(text + at, 'x', sizeof(text) - (size_t)at - 2);
	text[sizeof(text) - 2] = '\n';
	result = cuLinkAddData_v2((CUlinkState)*object, CU_JIT_INPUT_PTX, text, sizeof(text), "part", 0, NULL, NULL);
	if (result != CUDA_SUCCESS)
		OK(cuLinkDestroy((CUlinkState)*object));
	return result;
}

static void give_link(uint64_t object)
{
	OK(cuLinkDestroy((CUlinkState)object));
}

static void host(size_t quota)
{
	static const struct way host_ways[] = {
		{"text", take_text, give_module}, {"code", take_code, give_module}, {"links", take_link, give_link}};
	static uint64_t objects[5000];
	size_t before = free_memory(quota);

	for (size_t i = 0; i < sizeof(host_ways) / sizeof(host_ways[0]); i++) {
		unsigned int count = 0;
		CUresult result;

		while (count < 5000 && (result = host_ways[i].take(&objects[count])) == CUDA_SUCCESS)
			count++;
		fprintf(stderr, "%s: %u\n", host_ways[i].name, count);
		CHECK(count > 0 && count < 5000);
		GIVES(result, CUDA_ERROR_OUT_OF_MEMORY);
		CHECK(free_memory(quota) < PIECE);
		while (count)
			host_ways[i].give(objects[--count]);
		fill(find_way("plain"), quota, before);
	}
	puts("came back");
}

static void local(unsigned int bytes)
{
	CUmodule module;
	CUfunction f;
	CUdeviceptr p;
	unsigned int index = 0;
	void *arguments[] = {&p, &index};
	char text[600], c;

	snprintf(text, sizeof(text),
		 ".version 8.0\n.target sm_70\n.address_size 64\n"
		 ".visible .entry f(.param .u64 p, .param .u32 i)\n{\n\t.local .align 8 .b8 all[%u];\n"
		 "\t.reg .u64 %%p, %%i, %%a;\n\t.reg .u32 %%v;\n"
		 "\tld.param.u64 %%p, [p];\n\tld.param.u32 %%v, [i];\n\tcvt.u64.u32 %%i, %%v;\n"
		 "\tmov.u64 %%a, all;\n\tadd.u64 %%a, %%a, %%i;\n\tst.local.u32 [%%a], %%v;\n"
		 "\tst.local.u32 [all + %u], 7;\n\tld.local.u32 %%v, [%%a + %u];\n"
		 "\tst.global.u32 [%%p], %%v;\n\tret;\n}\n",
		 bytes, bytes - 4, bytes - 4);
	OK(cuMemAlloc_v2(&p, 4));
	OK(cuModuleLoadData(&module, text));
	OK(cuModuleGetFunction(&f, module, "f"));
	OK(cuLaunchKernel(f, 1, 1, 1, 1, 1, 1, 0, NULL, arguments, NULL));
	OK(cuCtxSynchronize());
	puts("ready");
	fflush(stdout);
	CHECK(read(0, &c, 1) == 0);
	OK(cuMemsetD8_v2(p, 0, 4));
	OK(cuCtxSynchronize());
	puts("went on");
}

int main(int argc, char **argv)
{
	CHECK(argc > 2);
	start();
	if (!strcmp(argv[1], "fill"))
		fill_all(argc - 2, argv + 2);
	else if (!strcmp(argv[1], "hold"))
		hold(strtoull(argv[2], NULL, 10) * MIB);
	else if (!strcmp(argv[1], "streams"))
		streams((unsigned int)atoi(argv[2]));
	else if (!strcmp(argv[1], "modules"))
		modules(strtoull(argv[2], NULL, 10));
	else if (!strcmp(argv[1], "host"))
		host(strtoull(argv[2], NULL, 10) * MIB);
	else if (!strcmp(argv[1], "local"))
		local((unsigned int)atoi(argv[2]));
	else if (!strcmp(argv[1], "queue"))
		queue(strtoull(argv[2], NULL, 10));
	else if (argc > 3)
		pairs((unsigned int)atoi(argv[2]), strtoull(argv[3], NULL, 10));
	return 0;
}
