/* SPDX-License-Identifier: Apache-2.0 */
/* __managed__ variables from end to end: the program and kernels use them at one address. */
#include "api.h"

#define HEAD ".version 7.0\n.target sm_70\n.address_size 64\n"

/* step(u32 v): table[tid] += v, total += v; and what `link` points to becomes v */
#define STEP(link)                                                                                                     \
	".visible .entry step(.param .u32 v)\n{\n.reg .b32 %r<6>; .reg .b64 %l<4>;\nld.param.u32 %r1, [v];\n"           \
	"mov.u32 %r2, %tid.x;\nmul.wide.u32 %l1, %r2, 4;\nmov.u64 %l2, table;\nadd.s64 %l1, %l2, %l1;\n"              \
	"ld.global.u32 %r3, [%l1];\nadd.u32 %r3, %r3, %r1;\nst.global.u32 [%l1], %r3;\n"                             \
	"atom.global.add.u32 %r4, [total], %r1;\n" link "ret;\n}\n"

#define LINK "ld.global.u64 %l3, [link];\nst.u32 [%l3], %r1;\n"

#define VARIABLES                                                                                                      \
	HEAD ".visible .global .attribute(.managed) .align 4 .u32 total = 5;\n"                                        \
	     ".visible .global .attribute(.managed) .align 4 .b8 table[4096] = {1, 0, 0, 0, 2};\n"                     \
	     ".visible .global .align 4 .b8 plain[64];\n"

static const char ptx[] = VARIABLES ".global .attribute(.managed) .align 8 .u64 link = generic(plain)+8;\n" STEP(LINK);

/* For several contexts: each has a `plain` of its own, so that a managed variable cannot point to it. */
static const char common[] = VARIABLES STEP("");

static const char declares[] = HEAD ".extern .global .attribute(.managed) .align 4 .u32 total;\n"
	".extern .global .attribute(.managed) .align 4 .b8 table[4096];\n"
	".global .attribute(.managed) .align 8 .u64 link = generic(total);\n" STEP(LINK);
static const char defines[] = HEAD ".visible .global .attribute(.managed) .align 4 .u32 total = 50;\n"
	".visible .global .attribute(.managed) .align 4 .b8 table[4096];\n";

static void step(CUfunction f, uint32_t v)
{
	void *params[] = {&v};

	OK(cuLaunchKernel(f, 1, 1, 1, 4, 1, 1, 0, NULL, params, NULL));
	OK(cuCtxSynchronize());
}

static unsigned int is_managed(CUdeviceptr p)
{
	unsigned int managed = 0;

	return cuPointerGetAttribute(&managed, CU_POINTER_ATTRIBUTE_IS_MANAGED, p) == CUDA_SUCCESS && managed;
}

static uint32_t *global(CUmodule module, const char *name, size_t expected)
{
	CUdeviceptr p;
	size_t bytes;

	OK(cuModuleGetGlobal_v2(&p, &bytes, module, name));
	CHECK(bytes == expected && is_managed(p));
	return (uint32_t *)(uintptr_t)p;
}

/* A managed variable answers all queries like memory of cuMemAllocManaged, but cannot be freed. */
static void is_managed_memory(uint32_t *table)
{
	CUdeviceptr p = (uintptr_t)table, start;
	size_t bytes;
	uint32_t words[2], *host;
	unsigned int type;

	OK(cuPointerGetAttribute(&type, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, p + 8));
	OK(cuPointerGetAttribute(&host, CU_POINTER_ATTRIBUTE_HOST_POINTER, p + 8));
	OK(cuPointerGetAttribute(&start, CU_POINTER_ATTRIBUTE_RANGE_START_ADDR, p + 4095));
	OK(cuPointerGetAttribute(&bytes, CU_POINTER_ATTRIBUTE_RANGE_SIZE, p + 4095));
	CHECK(type == CU_MEMORYTYPE_DEVICE && host == table + 2 && start == p && bytes == 4096);
	OK(cuMemAdvise(p, 4096, CU_MEM_ADVISE_SET_READ_MOSTLY, 0));
	OK(cuStreamAttachMemAsync(NULL, p, 0, CU_MEM_ATTACH_GLOBAL));
	OK(cuMemcpyDtoH_v2(words, p, sizeof(words)));
	CHECK(words[0] == table[0] && words[1] == table[1]);
	OK(cuMemsetD32Async(p + 16, 77, 4, NULL));
	OK(cuCtxSynchronize());
	CHECK(table[3] == 0 && table[4] == 77 && table[7] == 77 && table[8] == 0);
	GIVES(cuMemFree_v2(p), CUDA_ERROR_INVALID_VALUE);
	GIVES(cuMemFreeHost(table), CUDA_ERROR_INVALID_VALUE);
}

static void of_a_module(void)
{
	uint32_t *total, *table, word;
	CUdeviceptr plain;
	CUmodule module;
	CUfunction f;
	size_t bytes;

	OK(cuModuleLoadData(&module, ptx));
	total = global(module, "total", 4);
	table = global(module, "table", 4096);
	CHECK(*total == 5 && table[0] == 1 && table[1] == 2 && table[2] == 0);
	is_managed_memory(table);
	OK(cuModuleGetFunction(&f, module, "step"));
	*total += 100;
	table[3] = 30;
	step(f, 10);
	CHECK(*total == 145 && table[0] == 11 && table[1] == 12 && table[2] == 10 && table[3] == 40);
	step(f, 1);
	CHECK(*total == 149 && table[3] == 41);
	OK(cuModuleGetGlobal_v2(&plain, &bytes, module, "plain"));
	CHECK(!is_managed(plain));
	OK(cuMemcpyDtoH_v2(&word, plain + 8, sizeof(word)));
	CHECK(word == 1);
	OK(cuModuleUnload(module));
	CHECK(!is_managed((uintptr_t)total) && !is_managed((uintptr_t)table));
	/* loading and unloading work any number of times */
	for (int i = 0; i < 200; i++) {
		OK(cuModuleLoadData(&module, ptx));
		CHECK(*global(module, "total", 4) == 5);
		OK(cuModuleUnload(module));
	}
}

static CUevent event;
static uint32_t in_callback, *total_of;

static void look(void *unused)
{
	in_callback = *total_of;
}

static void by_stream(CUstream stream)
{
	OK(cuStreamSynchronize(stream));
}

static void by_event(CUstream stream)
{
	OK(cuEventRecord(event, stream));
	OK(cuEventSynchronize(event));
}

static void by_event_query(CUstream stream)
{
	CUresult result;

	OK(cuEventRecord(event, stream));
	while ((result = cuEventQuery(event)) == CUDA_ERROR_NOT_READY)
		continue;
	OK(result);
}

static void by_query(CUstream stream)
{
	CUresult result;

	while ((result = cuStreamQuery(stream)) == CUDA_ERROR_NOT_READY)
		continue;
	OK(result);
}

static void by_callback(CUstream stream)
{
	in_callback = 0;
	OK(cuLaunchHostFunc(stream, look, NULL));
	OK(cuStreamSynchronize(stream));
	CHECK(in_callback == *total_of);
}

static void by_copy(CUstream stream)
{
	uint32_t word;

	OK(cuMemcpyDtoHAsync_v2(&word, (uintptr_t)total_of, 4, stream));
	OK(cuStreamSynchronize(stream));
	CHECK(word == *total_of);
}

/* However a program waits, it sees what kernels did; and they what it did, also beside what another kernel has changed.
 */
static void is_seen_at_every_wait(void)
{
	static void (*const waits[])(CUstream) = {by_stream, by_event, by_event_query, by_query, by_callback, by_copy};
	uint32_t v = 1, expected = 5, *table;
	void *params[] = {&v};
	CUstream streams[2];
	CUmodule module;
	CUfunction f;

	OK(cuModuleLoadData(&module, ptx));
	OK(cuModuleGetFunction(&f, module, "step"));
	total_of = global(module, "total", 4);
	table = global(module, "table", 4096);
	OK(cuEventCreate(&event, CU_EVENT_DISABLE_TIMING));
	OK(cuStreamCreate(&streams[0], CU_STREAM_NON_BLOCKING));
	OK(cuStreamCreate(&streams[1], CU_STREAM_DEFAULT));
	for (unsigned int i = 0; i < 2 * sizeof(waits) / sizeof(waits[0]); i++) {
		OK(cuLaunchKernel(f, 1, 1, 1, 4, 1, 1, 0, streams[i % 2], params, NULL));
		waits[i / 2](streams[i % 2]);
		expected += 4;
		CHECK(*total_of == expected && table[2] == expected / 4 - 1);
		*total_of += 100;
		expected += 100;
		table[2] += 25;
		table[100 + i] = i;
		OK(cuMemsetD32Async((uintptr_t)(table + 200 + i), i, 1, streams[i % 2]));
		waits[i / 2](streams[i % 2]);
		CHECK(table[200 + i] == i && table[100 + i] == i && *total_of == expected);
	}
	OK(cuModuleUnload(module));
}

/* The library's variables are there for every context, and without one. */
static void of_a_library(void)
{
	CUdeviceptr p, again;
	CUcontext first, other;
	CUlibrary library;
	CUkernel kernel;
	uint32_t *total;
	size_t bytes;

	OK(cuCtxGetCurrent(&first));
	OK(cuCtxSetCurrent(NULL));
	OK(cuLibraryLoadData(&library, common, NULL, NULL, 0, NULL, NULL, 0));
	OK(cuLibraryGetManaged(&p, &bytes, library, "total"));
	GIVES(cuLibraryGetManaged(&again, &bytes, library, "plain"), CUDA_ERROR_NOT_FOUND);
	total = (uint32_t *)(uintptr_t)p;
	CHECK(is_managed(p) && *total == 5);
	OK(cuLibraryGetKernel(&kernel, library, "step"));
	OK(cuCtxSetCurrent(first));
	step((CUfunction)kernel, 1);
	OK(cuCtxCreate_v2(&other, 0, 0));
	OK(cuLibraryGetGlobal(&again, &bytes, library, "total"));
	CHECK(again == p);
	step((CUfunction)kernel, 10);
	OK(cuCtxDestroy_v2(other));
	OK(cuCtxSetCurrent(first));
	step((CUfunction)kernel, 100);
	CHECK(*total == 5 + 4 * 111);
	OK(cuLibraryUnload(library));
	CHECK(!is_managed(p));
}

/* A module's variables go with its context, also after it has failed. */
static void of_a_context(void)
{
	uint32_t *total;
	CUcontext context;
	CUmodule module;
	CUfunction f;

	OK(cuCtxCreate_v2(&context, 0, 0));
	OK(cuModuleLoadData(&module, ptx));
	total = global(module, "total", 4);
	OK(cuCtxDestroy_v2(context));
	CHECK(!is_managed((uintptr_t)total));
	if (!is_software()) /* a GPU's driver may end more than the context */
		return;
	OK(cuCtxCreate_v2(&context, 0, 0));
	OK(cuModuleLoadData(&module, HEAD ".visible .global .attribute(.managed) .u64 wild = 8;\n"
		".visible .entry k()\n{\n.reg .b32 %r; .reg .b64 %l;\nld.global.u64 %l, [wild];\nld.u32 %r, [%l];\n"
		"st.global.u32 [wild], %r;\nret;\n}\n"));
	total = global(module, "wild", 8);
	OK(cuModuleGetFunction(&f, module, "k"));
	OK(cuLaunchKernel(f, 1, 1, 1, 1, 1, 1, 0, NULL, NULL, NULL));
	GIVES(cuCtxSynchronize(), CUDA_ERROR_ILLEGAL_ADDRESS);
	CHECK(*total == 8);
	OK(cuCtxDestroy_v2(context));
	CHECK(!is_managed((uintptr_t)total));
}

static void linked(void)
{
	uint32_t *total;
	CUlinkState link;
	CUmodule module;
	CUfunction f;
	size_t bytes;
	void *image;

	OK(cuLinkCreate_v2(0, NULL, NULL, &link));
	OK(cuLinkAddData_v2(link, CU_JIT_INPUT_PTX, (void *)declares, sizeof(declares), "a", 0, NULL, NULL));
	OK(cuLinkAddData_v2(link, CU_JIT_INPUT_PTX, (void *)defines, sizeof(defines), "b", 0, NULL, NULL));
	OK(cuLinkComplete(link, &image, &bytes));
	OK(cuModuleLoadData(&module, image));
	OK(cuLinkDestroy(link));
	total = global(module, "total", 4);
	CHECK(*total == 50);
	OK(cuModuleGetFunction(&f, module, "step"));
	step(f, 9);
	/* `link` points to it */
	CHECK(*total == 9 && global(module, "table", 4096)[3] == 9);
	OK(cuModuleUnload(module));
}

static void refused(void)
{
	CUmodule module;

	GIVES(cuModuleLoadData(&module, HEAD ".global .attribute(.managed) .align 4 .b8 large[60000000000];\n"),
	      CUDA_ERROR_OUT_OF_MEMORY);
	GIVES(cuModuleLoadData(&module, HEAD ".global .attribute(.managed) .align 65536 .b8 wide[4];\n"),
	      CUDA_ERROR_NOT_SUPPORTED);
}

/* count(u32 *p, u32 n): each thread adds 1 to p[0] n times, and to p[1] by compare and swap. */
static const char count_ptx[] =
	".version 7.0\n.target sm_70\n.address_size 64\n.visible .entry count(.param .u64 p, .param .u32 n)\n{\n"
	".reg .b32 %r<6>; .reg .b64 %l<2>; .reg .pred %q;\nld.param.u64 %l1, [p];\nld.param.u32 %r1, [n];\n"
	"NEXT:\nred.global.sys.add.u32 [%l1], 1;\n"
	"AGAIN:\nld.volatile.global.u32 %r2, [%l1+4];\nadd.u32 %r3, %r2, 1;\n"
	"atom.global.sys.cas.b32 %r4, [%l1+4], %r2, %r3;\nsetp.ne.u32 %q, %r4, %r2;\n@%q bra AGAIN;\n"
	"sub.u32 %r1, %r1, 1;\nsetp.ne.u32 %q, %r1, 0;\n@%q bra NEXT;\nret;\n}\n";

/* Atomics of kernels and of the processor on the same words, at the same time. */
static void atomics_of_both(bool managed)
{
	const uint32_t threads = 4 * 64;
	uint32_t n = 1, mine = 0, *p;
	void *params[] = {&p, &n};
	CUmodule module;
	CUdeviceptr d;
	CUfunction f;

	OK(cuModuleLoadData(&module, count_ptx));
	OK(cuModuleGetFunction(&f, module, "count"));
	if (managed) {
		OK(cuMemAllocManaged(&d, 8, CU_MEM_ATTACH_GLOBAL));
		p = (uint32_t *)(uintptr_t)d;
	} else {
		OK(cuMemHostAlloc((void **)&p, 8, CU_MEMHOSTALLOC_DEVICEMAP));
	}
	/* compiled once, so that the next launch runs at once */
	OK(cuLaunchKernel(f, 4, 1, 1, 64, 1, 1, 0, NULL, params, NULL));
	OK(cuCtxSynchronize());
	p[0] = p[1] = 0;
	n = 500;
	OK(cuLaunchKernel(f, 4, 1, 1, 64, 1, 1, 0, NULL, params, NULL));
	do {
		__atomic_fetch_add(&p[0], 1, __ATOMIC_SEQ_CST);
		__atomic_fetch_add(&p[1], 1, __ATOMIC_SEQ_CST);
		mine++;
	} while (mine < 1000 || cuStreamQuery(NULL) == CUDA_ERROR_NOT_READY);
	OK(cuCtxSynchronize());
	CHECK(p[0] == threads * n + mine && p[1] == threads * n + mine);
	OK(managed ? cuMemFree_v2(d) : cuMemFreeHost(p));
	OK(cuModuleUnload(module));
}

int main(void)
{
	CUcontext context;

	OK(cuInit(0));
	OK(cuDevicePrimaryCtxRetain(&context, 0));
	OK(cuCtxSetCurrent(context));
	of_a_module();
	is_seen_at_every_wait();
	of_a_library();
	of_a_context();
	linked();
	if (is_software()) { /* a GPU's driver decides that */
		refused();
		atomics_of_both(true);
		atomics_of_both(false);
	}
	printf("managed: passed\n");
	return 0;
}
