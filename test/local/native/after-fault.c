/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The codes of calls after a kernel's fault: in the context of the kernel, in another one of the process, in the
 * primary one, and in one that is made after the fault. Each kind of fault has a process of its own. The program opens
 * the library by its name and so runs natively as well.
 *
 * usage: after-fault          prints a line for each call: the fault, the context, the call, its code
 *        after-fault FILE     compares with lines that NVIDIA's driver gave; each other one is printed, exit status 1
 */
#include "test/local/native/native.h"

static const char text[] =
	".version 6.3\n.target sm_52\n.address_size 64\n"
	".visible .global .align 4 .u32 variable;\n"
	".extern .func __assertfail(.param .b64 a, .param .b64 b, .param .b32 c, .param .b64 d, .param .b64 e);\n"
	".visible .entry quick()\n{\nret;\n}\n"
	".visible .entry address(.param .u64 a)\n{\n.reg .b64 %a;\nld.param.u64 %a, [a];\nst.global.u32 [%a], "
	"1;\nret;\n}\n"
	".visible .entry trap()\n{\ntrap;\nret;\n}\n"
	".visible .entry claim(.param .u64 a)\n{\n.param .b64 p0;\n.param .b64 p1;\n.param .b32 p2;\n.param .b64 "
	"p3;\n.param .b64 p4;\n"
	".reg .b64 %a;\ncvta.global.u64 %a, variable;\nst.param.b64 [p0], %a;\nst.param.b64 [p1], %a;\nst.param.b32 "
	"[p2], 1;\n"
	"st.param.b64 [p3], %a;\nst.param.b64 [p4], 1;\ncall.uni __assertfail, (p0, p1, p2, p3, p4);\nret;\n}\n";

static const struct fault {
	const char *name, *kernel;
	uint64_t parameter;
} faults[] = {{"null", "address", 0}, {"misaligned", "address", 2}, {"trap", "trap", 0}, {"assert", "claim", 0}};

/* The objects of a context before the fault. */
struct made {
	CUcontext context;
	CUmodule module;
	CUfunction quick;
	CUdeviceptr d;
	void *host;
	CUstream stream, other;
	CUevent event, later;
	CUgraph graph;
	CUgraphExec executable;
	CUmemoryPool pool;
	CUlibrary library;
};

static FILE *expected;
static const char *where, *which;

static void say(const char *what, CUresult code)
{
	char wanted[160] = "", got[160];

	snprintf(got, sizeof(got), "%s %s %s %d", where, which, what, (int)code);
	if (!expected) {
		puts(got);
		return;
	}
	next_line(expected, wanted, sizeof(wanted));
	expect_text(what, got, wanted);
}

#define ASK(name, ...) say(#name, CALL(name, __VA_ARGS__))

static void make(struct made *m)
{
	CUDA_MEMSET_NODE_PARAMS clear = {.elementSize = 1, .width = 16, .height = 1};
	CUgraphNode node;

	NEED(cuCtxSetCurrent, m->context);
	NEED(cuModuleLoadData, &m->module, text);
	NEED(cuModuleGetFunction, &m->quick, m->module, "quick");
	NEED(cuMemAlloc_v2, &m->d, (size_t)4096);
	NEED(cuMemHostAlloc, &m->host, (size_t)4096, 0);
	NEED(cuStreamCreate, &m->stream, CU_STREAM_NON_BLOCKING);
	NEED(cuStreamCreate, &m->other, CU_STREAM_NON_BLOCKING);
	NEED(cuEventCreate, &m->event, 0);
	NEED(cuEventCreate, &m->later, 0);
	NEED(cuEventRecord, m->event, m->stream);
	NEED(cuEventRecord, m->later, m->stream);
	NEED(cuGraphCreate, &m->graph, 0);
	clear.dst = m->d;
	NEED(cuGraphAddMemsetNode, &node, m->graph, NULL, (size_t)0, &clear, m->context);
	NEED(cuGraphInstantiateWithFlags, &m->executable, m->graph, 0ull);
	NEED(cuDeviceGetDefaultMemPool, &m->pool, 0);
	NEED(cuLibraryLoadData, &m->library, text, NULL, NULL, 0, NULL, NULL, 0);
	NEED(cuCtxSynchronize, );
}

static void host_function(void *nothing)
{
	(void)nothing;
}

/* Calls in the current context. */
static void ask(struct made *m)
{
	CUdeviceptr e;
	CUstream made;
	CUevent event;
	CUfunction found;
	CUmodule module;
	CUlibrary library;
	CUkernel kernel;
	CUgraph graph, captured;
	CUgraphExec executable;
	CUgraphNode node;
	CUmemoryPool pool;
	CUmemGenericAllocationHandle handle;
	CUcontext current;
	CUdevice device;
	CUstreamCaptureStatus status;
	CUmemAllocationProp prop = {.type = CU_MEM_ALLOCATION_TYPE_PINNED,
				    .location = {CU_MEM_LOCATION_TYPE_DEVICE, 0}};
	CUmemPoolProps pool_props = {.allocType = CU_MEM_ALLOCATION_TYPE_PINNED,
				     .location = {CU_MEM_LOCATION_TYPE_DEVICE, 0}};
	static char bytes[8192] __attribute__((aligned(4096)));
	void *host;
	size_t size, total;
	float ms;
	int number, low;
	unsigned int flags;
	unsigned long long id;

	ASK(cuCtxGetCurrent, &current);
	ASK(cuCtxGetDevice, &device);
	ASK(cuCtxGetFlags, &flags);
	ASK(cuCtxGetApiVersion, m->context, &flags);
	ASK(cuCtxGetLimit, &size, CU_LIMIT_STACK_SIZE);
	ASK(cuCtxSetLimit, CU_LIMIT_STACK_SIZE, (size_t)2048);
	ASK(cuCtxGetCacheConfig, &number);
	ASK(cuCtxGetStreamPriorityRange, &number, &low);
	ASK(cuCtxGetId, m->context, &id);
	ASK(cuCtxSynchronize, );
	ASK(cuStreamQuery, m->stream);
	ASK(cuStreamQuery, m->other);
	ASK(cuStreamQuery, NULL);
	ASK(cuStreamSynchronize, m->stream);
	ASK(cuStreamSynchronize, m->other);
	ASK(cuStreamGetFlags, m->stream, &flags);
	ASK(cuStreamGetPriority, m->stream, &number);
	ASK(cuStreamGetCtx, m->stream, &current);
	ASK(cuStreamGetId, m->stream, &id);
	ASK(cuStreamIsCapturing, m->stream, &status);
	ASK(cuStreamWaitEvent, m->other, m->event, 0);
	ASK(cuStreamCreate, &made, 0);
	ASK(cuStreamBeginCapture_v2, m->other, CU_STREAM_CAPTURE_MODE_RELAXED);
	ASK(cuStreamEndCapture, m->other, &captured);
	ASK(cuEventQuery, m->event);
	ASK(cuEventSynchronize, m->event);
	ASK(cuEventElapsedTime, &ms, m->event, m->later);
	ASK(cuEventRecord, m->event, m->other);
	ASK(cuEventQuery, m->event);
	ASK(cuEventCreate, &event, 0);
	ASK(cuLaunchKernel, m->quick, 1, 1, 1, 1, 1, 1, 0, m->other, NULL, NULL);
	ASK(cuLaunchHostFunc, m->other, host_function, NULL);
	ASK(cuFuncGetAttribute, &number, CU_FUNC_ATTRIBUTE_NUM_REGS, m->quick);
	ASK(cuFuncSetAttribute, m->quick, CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES, 1024);
	ASK(cuOccupancyMaxActiveBlocksPerMultiprocessor, &number, m->quick, 32, (size_t)0);
	ASK(cuModuleGetFunction, &found, m->module, "quick");
	ASK(cuModuleGetGlobal_v2, &e, &size, m->module, "variable");
	ASK(cuModuleLoadData, &module, text);
	ASK(cuLibraryLoadData, &library, text, NULL, NULL, 0, NULL, NULL, 0);
	ASK(cuLibraryGetKernel, &kernel, m->library, "quick");
	ASK(cuKernelGetFunction, &found, kernel);
	ASK(cuMemGetInfo_v2, &size, &total);
	ASK(cuMemAlloc_v2, &e, (size_t)4096);
	ASK(cuMemAllocPitch_v2, &e, &size, (size_t)64, (size_t)4, 4);
	ASK(cuMemAllocManaged, &e, (size_t)4096, CU_MEM_ATTACH_GLOBAL);
	ASK(cuMemAllocAsync, &e, (size_t)4096, m->other);
	ASK(cuMemFreeAsync, e, m->other);
	ASK(cuMemPoolCreate, &pool, &pool_props);
	ASK(cuMemPoolTrimTo, m->pool, (size_t)0);
	ASK(cuMemCreate, &handle, (size_t)(2 << 20), &prop, 0ull);
	ASK(cuMemAddressReserve, &e, (size_t)(2 << 20), (size_t)0, (CUdeviceptr)0, 0ull);
	ASK(cuMemHostAlloc, &host, (size_t)4096, 0);
	ASK(cuMemHostGetDevicePointer_v2, &e, m->host, 0);
	ASK(cuMemHostGetFlags, &flags, m->host);
	ASK(cuMemHostRegister_v2, bytes, (size_t)4096, 0);
	ASK(cuMemHostUnregister, bytes);
	ASK(cuMemGetAddressRange_v2, &e, &size, m->d);
	ASK(cuPointerGetAttribute, &device, CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL, m->d);
	ASK(cuMemcpyHtoD_v2, m->d, bytes, (size_t)16);
	ASK(cuMemcpyDtoH_v2, bytes, m->d, (size_t)16);
	ASK(cuMemcpyDtoD_v2, m->d, m->d + 64, (size_t)16);
	ASK(cuMemcpyHtoDAsync_v2, m->d, bytes, (size_t)16, m->other);
	ASK(cuMemcpyDtoHAsync_v2, m->host, m->d, (size_t)16, m->other);
	ASK(cuMemcpyHtoD_v2, m->d, bytes, (size_t)0);
	ASK(cuMemsetD8_v2, m->d, 0, (size_t)16);
	ASK(cuMemsetD8Async, m->d, 0, (size_t)16, m->other);
	ASK(cuGraphCreate, &graph, 0);
	ASK(cuGraphAddEmptyNode, &node, m->graph, NULL, (size_t)0);
	ASK(cuGraphInstantiateWithFlags, &executable, m->graph, 0ull);
	ASK(cuGraphLaunch, m->executable, m->other);
	ASK(cuGraphExecDestroy, m->executable);
	ASK(cuGraphDestroy, m->graph);
	ASK(cuEventDestroy_v2, m->later);
	ASK(cuStreamDestroy_v2, m->other);
	ASK(cuMemFree_v2, m->d);
	ASK(cuMemFreeHost, m->host);
	ASK(cuLibraryUnload, m->library);
	ASK(cuModuleUnload, m->module);
	ASK(cuCtxSynchronize, );
}

static void ask_new(struct made *m)
{
	CUdeviceptr d;

	ASK(cuCtxCreate_v2, &m->context, 0, 0);
	ASK(cuCtxSynchronize, );
	ASK(cuMemAlloc_v2, &d, (size_t)4096);
	ASK(cuMemHostAlloc, &m->host, (size_t)4096, 0);
	ASK(cuModuleLoadData, &m->module, text);
	ASK(cuStreamCreate, &m->stream, 0);
}

static void fault(const struct fault *f)
{
	struct made own = {0}, other = {0}, primary = {0}, late = {0};
	void *parameters[] = {(void *)&f->parameter};
	CUfunction bad;
	unsigned int flags;
	int active, count;

	where = f->name;
	NEED(cuInit, 0);
	NEED(cuDevicePrimaryCtxRetain, &primary.context, 0);
	make(&primary);
	NEED(cuCtxCreate_v2, &other.context, 0, 0);
	make(&other);
	NEED(cuCtxCreate_v2, &own.context, 0, 0);
	make(&own);
	NEED(cuModuleGetFunction, &bad, own.module, f->kernel);
	which = "fault";
	ASK(cuLaunchKernel, bad, 1, 1, 1, 1, 1, 1, 0, own.stream, parameters, NULL);
	ASK(cuStreamSynchronize, own.stream);
	which = "own";
	ask(&own);
	which = "other";
	ASK(cuCtxSetCurrent, other.context);
	ask(&other);
	which = "primary";
	ASK(cuCtxSetCurrent, primary.context);
	ask(&primary);
	which = "new";
	ask_new(&late);
	which = "device";
	ASK(cuDeviceGetCount, &count);
	ASK(cuDevicePrimaryCtxGetState, 0, &flags, &active);
	ASK(cuDevicePrimaryCtxRetain, &primary.context, 0);
	ASK(cuDevicePrimaryCtxRelease_v2, 0);
	ASK(cuCtxPushCurrent_v2, own.context);
	ASK(cuCtxPopCurrent_v2, &late.context);
	ASK(cuCtxDestroy_v2, own.context);
	ASK(cuCtxDestroy_v2, other.context);
	ASK(cuDevicePrimaryCtxReset_v2, 0);
	ASK(cuCtxSetCurrent, NULL);
	which = "after reset";
	ask_new(&late);
	ASK(cuDevicePrimaryCtxRetain, &primary.context, 0);
	ASK(cuCtxSetCurrent, primary.context);
	ASK(cuCtxSynchronize, );
	ASK(cuMemAlloc_v2, &primary.d, (size_t)4096);
}

/* Counts of a process that has ended, and how far it has read the file. */
struct counted {
	int probes, different;
	long place;
};

static void fault_and_count(const void *with, void *data)
{
	struct counted *counted = data;

	fault(with);
	fflush(stdout);
	*counted = (struct counted){probes, different, expected ? ftell(expected) : 0};
}

int main(int argc, char **argv)
{
	struct counted counted;
	char rest[160];

	cuda = dlopen("libcuda.so.1", RTLD_NOW);
	expected = argc > 1 ? fopen(argv[1], "r") : NULL;
	if (!cuda || argc > 2 || (argc > 1 && !expected)) {
		fprintf(stderr, "usage: after-fault [FILE]; a CUDA driver\n");
		return 2;
	}
	setvbuf(stdout, NULL, _IOLBF, 0);
	for (size_t i = 0; i < sizeof(faults) / sizeof(*faults); i++) {
		if (!in_child(fault_and_count, &faults[i], &counted, sizeof(counted))) {
			printf("%s: the process ended\n", faults[i].name);
			return 1;
		}
		probes = counted.probes;
		different = counted.different;
		if (expected)
			fseek(expected, counted.place, SEEK_SET);
	}
	if (!expected)
		return 0;
	next_line(expected, rest, sizeof(rest));
	expect_text("the end", "", rest);
	printf("%d probes, %d differ\n", probes, different);
	return !probes || different;
}
