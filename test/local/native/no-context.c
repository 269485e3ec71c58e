/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The codes of calls in a thread without a current context, of packed launch parameters of all sizes, and of captures
 * whose graph changes. The program opens the library by its name and so runs natively as well.
 *
 * usage: no-context          prints a line for each call: its name, its code
 *        no-context FILE     compares with lines that NVIDIA's driver gave; each other one is printed, exit status 1
 */
#include "test/local/native/native.h"

static const char text[] =
	".version 6.3\n.target sm_52\n.address_size 64\n"
	".visible .global .align 4 .u32 variable;\n"
	".visible .entry quick()\n{\nret;\n}\n"
	".visible .entry packed(.param .u64 a, .param .u32 b)\n{\nret;\n}\n"
	".visible .entry spread(.param .u8 a, .param .align 16 .b8 b[20], .param .u16 c)\n{\nret;\n}\n";

static FILE *expected;

static void say(const char *what, CUresult code)
{
	char wanted[128] = "", got[128];

	snprintf(got, sizeof(got), "%s %d", what, (int)code);
	if (!expected) {
		puts(got);
		return;
	}
	next_line(expected, wanted, sizeof(wanted));
	expect_text(what, got, wanted);
}

#define ASK(name, ...) say(#name, CALL(name, __VA_ARGS__))

static CUmodule module;
static CUcontext context;

static void ask_without(void)
{
	CUdeviceptr d, e, variable;
	CUstream stream, made;
	CUevent event, later, new_event;
	CUfunction quick, found;
	CUgraph graph, clone;
	CUgraphExec executable;
	CUgraphNode node;
	CUmemoryPool pool;
	CUstreamCaptureStatus status;
	CUmodule another;
	CUlibrary library;
	CUkernel kernel;
	CUcontext current;
	CUdevice device;
	CUlinkState link;
	void *host, *from, *data;
	char bytes[4096] __attribute__((aligned(4096)));
	size_t size, total;
	float ms;
	int number, low;
	unsigned int flags;
	const char *name;
	unsigned long long id;
	CUdeviceptr managed;
	CUgraph whole;
	CUgraphExec whole_executable;
	CUDA_MEMCPY3D box = {.srcMemoryType = CU_MEMORYTYPE_DEVICE,
			     .dstMemoryType = CU_MEMORYTYPE_DEVICE,
			     .srcPitch = 64,
			     .dstPitch = 64,
			     .srcHeight = 4,
			     .dstHeight = 4,
			     .WidthInBytes = 16,
			     .Height = 2,
			     .Depth = 2};
	CUDA_MEMCPY2D flat = {.srcMemoryType = CU_MEMORYTYPE_DEVICE,
			      .dstMemoryType = CU_MEMORYTYPE_DEVICE,
			      .srcPitch = 64,
			      .dstPitch = 64,
			      .WidthInBytes = 16,
			      .Height = 2};
	CUDA_MEMSET_NODE_PARAMS clear = {.elementSize = 1, .width = 16, .height = 1};
	CUDA_KERNEL_NODE_PARAMS kernel_node = {
		.gridDimX = 1, .gridDimY = 1, .gridDimZ = 1, .blockDimX = 1, .blockDimY = 1, .blockDimZ = 1};

	NEED(cuMemAlloc_v2, &d, (size_t)4096);
	NEED(cuMemHostAlloc, &host, (size_t)4096, 0);
	NEED(cuStreamCreate, &stream, CU_STREAM_NON_BLOCKING);
	NEED(cuEventCreate, &event, 0);
	NEED(cuEventCreate, &later, 0);
	NEED(cuEventRecord, event, stream);
	NEED(cuEventRecord, later, stream);
	NEED(cuModuleGetFunction, &quick, module, "quick");
	NEED(cuGraphCreate, &graph, 0);
	NEED(cuGraphAddEmptyNode, &node, graph, NULL, (size_t)0);
	NEED(cuGraphInstantiateWithFlags, &executable, graph, 0ull);
	NEED(cuLibraryLoadData, &library, text, NULL, NULL, 0, NULL, NULL, 0);
	NEED(cuDeviceGetDefaultMemPool, &pool, 0);
	NEED(cuMemAllocManaged, &managed, (size_t)4096, CU_MEM_ATTACH_GLOBAL);
	box.srcDevice = d;
	box.dstDevice = d + 2048;
	flat.srcDevice = d;
	flat.dstDevice = d + 2048;
	clear.dst = d;
	kernel_node.func = quick;
	NEED(cuGraphCreate, &whole, 0);
	NEED(cuGraphAddMemcpyNode, &node, whole, NULL, (size_t)0, &box, context);
	NEED(cuGraphAddMemsetNode, &node, whole, &node, (size_t)1, &clear, context);
	NEED(cuGraphAddKernelNode_v2, &node, whole, &node, (size_t)1, &kernel_node);
	NEED(cuGraphInstantiateWithFlags, &whole_executable, whole, 0ull);
	NEED(cuCtxSynchronize, );
	NEED(cuCtxSetCurrent, NULL);

	ASK(cuCtxGetCurrent, &current);
	ASK(cuCtxGetDevice, &device);
	ASK(cuCtxSynchronize, );
	ASK(cuCtxGetFlags, &flags);
	ASK(cuCtxGetLimit, &size, CU_LIMIT_STACK_SIZE);
	ASK(cuCtxGetCacheConfig, &number);
	ASK(cuCtxGetStreamPriorityRange, &number, &low);
	ASK(cuCtxGetApiVersion, context, &flags);
	ASK(cuEventQuery, event);
	ASK(cuEventSynchronize, event);
	ASK(cuEventElapsedTime, &ms, event, later);
	ASK(cuEventRecord, event, stream);
	ASK(cuEventRecord, event, NULL);
	ASK(cuEventCreate, &new_event, 0);
	ASK(cuStreamSynchronize, stream);
	ASK(cuStreamQuery, stream);
	ASK(cuStreamQuery, NULL);
	ASK(cuStreamSynchronize, NULL);
	ASK(cuStreamWaitEvent, stream, event, 0);
	ASK(cuStreamWaitEvent, NULL, event, 0);
	ASK(cuStreamGetCtx, stream, &current);
	ASK(cuStreamGetFlags, stream, &flags);
	ASK(cuStreamGetPriority, stream, &number);
	ASK(cuStreamIsCapturing, stream, &status);
	ASK(cuStreamIsCapturing, NULL, &status);
	ASK(cuStreamCreate, &made, 0);
	ASK(cuStreamBeginCapture_v2, stream, CU_STREAM_CAPTURE_MODE_RELAXED);
	ASK(cuStreamEndCapture, stream, &clone);
	ASK(cuLaunchKernel, quick, 1, 1, 1, 1, 1, 1, 0, stream, NULL, NULL);
	ASK(cuLaunchKernel, quick, 1, 1, 1, 1, 1, 1, 0, NULL, NULL, NULL);
	ASK(cuFuncGetAttribute, &number, CU_FUNC_ATTRIBUTE_NUM_REGS, quick);
	ASK(cuFuncGetModule, &another, quick);
	ASK(cuModuleGetFunction, &found, module, "quick");
	ASK(cuModuleGetGlobal_v2, &variable, &size, module, "variable");
	ASK(cuModuleLoadData, &another, text);
	ASK(cuLibraryGetKernel, &kernel, library, "quick");
	ASK(cuLibraryGetModule, &another, library);
	ASK(cuKernelGetFunction, &found, kernel);
	ASK(cuLibraryUnload, library);
	ASK(cuLinkCreate_v2, 0, NULL, NULL, &link);
	ASK(cuOccupancyMaxActiveBlocksPerMultiprocessor, &number, quick, 32, (size_t)0);
	ASK(cuMemGetInfo_v2, &size, &total);
	ASK(cuMemAlloc_v2, &e, (size_t)4096);
	ASK(cuMemAllocManaged, &e, (size_t)4096, CU_MEM_ATTACH_GLOBAL);
	ASK(cuMemAllocAsync, &e, (size_t)4096, stream);
	ASK(cuMemAllocAsync, &e, (size_t)4096, NULL);
	ASK(cuMemAllocFromPoolAsync, &e, (size_t)4096, pool, stream);
	ASK(cuMemFreeAsync, e, stream);
	ASK(cuMemHostAlloc, &from, (size_t)4096, 0);
	ASK(cuMemHostGetDevicePointer_v2, &e, host, 0);
	ASK(cuMemHostGetFlags, &flags, host);
	ASK(cuMemHostRegister_v2, bytes, sizeof(bytes), 0);
	ASK(cuMemHostUnregister, bytes);
	ASK(cuMemGetAddressRange_v2, &e, &size, d);
	ASK(cuPointerGetAttribute, &device, CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL, d);
	ASK(cuMemcpy, d, (CUdeviceptr)(uintptr_t)host, (size_t)16);
	ASK(cuMemcpyAsync, d, (CUdeviceptr)(uintptr_t)host, (size_t)16, stream);
	ASK(cuMemcpyHtoD_v2, d, bytes, (size_t)16);
	ASK(cuMemcpyDtoH_v2, bytes, d, (size_t)16);
	ASK(cuMemcpyDtoD_v2, d, d + 64, (size_t)16);
	ASK(cuMemcpyHtoDAsync_v2, d, bytes, (size_t)16, stream);
	ASK(cuMemcpyDtoHAsync_v2, bytes, d, (size_t)16, stream);
	ASK(cuMemsetD8_v2, d, 0, (size_t)16);
	ASK(cuMemsetD8Async, d, 0, (size_t)16, stream);
	ASK(cuMemPoolTrimTo, pool, (size_t)0);
	ASK(cuMemPrefetchAsync, d, (size_t)16, 0, stream);
	ASK(cuGraphInstantiateWithFlags, &executable, graph, 0ull);
	ASK(cuGraphLaunch, executable, stream);
	ASK(cuGraphLaunch, executable, NULL);
	ASK(cuGraphUpload, executable, stream);
	ASK(cuGraphClone, &clone, graph);
	ASK(cuGraphAddEmptyNode, &node, graph, NULL, (size_t)0);
	ASK(cuGraphExecDestroy, executable);
	ASK(cuGraphDestroy, graph);
	ASK(cuProfilerStart, );
	ASK(cuGetErrorName, CUDA_ERROR_INVALID_CONTEXT, (const char **)&data);
	ASK(cuMemcpy2DAsync_v2, &flat, stream);
	ASK(cuMemcpy3DAsync_v2, &box, stream);
	ASK(cuMemcpy2D_v2, &flat);
	ASK(cuMemcpyPeerAsync, d, context, d + 2048, context, (size_t)16, stream);
	ASK(cuMemsetD2D8Async, d, (size_t)64, 0, (size_t)16, (size_t)2, stream);
	ASK(cuGraphLaunch, whole_executable, stream);
	ASK(cuStreamSynchronize, stream);
	ASK(cuGraphClone, &clone, whole);
	ASK(cuGraphInstantiateWithFlags, &executable, whole, 0ull);
	ASK(cuGraphExecDestroy, whole_executable);
	ASK(cuGraphDestroy, whole);
	ASK(cuFuncSetAttribute, quick, CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES, 1024);
	ASK(cuFuncSetCacheConfig, quick, CU_FUNC_CACHE_PREFER_L1);
	ASK(cuFuncGetName, &name, quick);
	ASK(cuFuncGetParamInfo, quick, (size_t)0, &size, &total);
	ASK(cuFuncIsLoaded, &number, quick);
	ASK(cuFuncLoad, quick);
	ASK(cuStreamGetId, stream, &id);
	ASK(cuStreamGetId, NULL, &id);
	ASK(cuStreamGetDevice, stream, &device);
	ASK(cuStreamWriteValue32_v2, stream, d, 1, 0);
	ASK(cuStreamAttachMemAsync, stream, managed, (size_t)0, CU_MEM_ATTACH_SINGLE);
	ASK(cuEventRecordWithFlags, event, stream, 0);
	ASK(cuMemFree_v2, managed);
	ASK(cuMemFree_v2, (CUdeviceptr)0);
	ASK(cuMemFree_v2, (CUdeviceptr)4096);
	ASK(cuMemFreeHost, NULL);
	ASK(cuMemFreeHost, bytes);
	ASK(cuModuleUnload, module);
	ASK(cuEventDestroy_v2, later);
	ASK(cuStreamDestroy_v2, stream);
	ASK(cuMemFreeHost, host);
	ASK(cuMemFree_v2, d);
	ASK(cuDevicePrimaryCtxRelease_v2, 0);
}

/* Packed parameters of kernel nodes. */
static void ask_packed_nodes(void)
{
	static const size_t sizes[] = {0, 1, 12, 13};
	char buffer[64] = {0}, what[64];
	CUDA_KERNEL_NODE_PARAMS p = {
		.gridDimX = 1, .gridDimY = 1, .gridDimZ = 1, .blockDimX = 1, .blockDimY = 1, .blockDimZ = 1};
	CUgraph graph;
	CUgraphNode node;

	NEED(cuGraphCreate, &graph, 0);
	NEED(cuModuleGetFunction, &p.func, module, "packed");
	for (size_t i = 0; i < sizeof(sizes) / sizeof(*sizes); i++) {
		size_t size = sizes[i];

		p.extra = (void *[]){CU_LAUNCH_PARAM_BUFFER_POINTER, buffer, CU_LAUNCH_PARAM_BUFFER_SIZE, &size,
				     CU_LAUNCH_PARAM_END};
		snprintf(what, sizeof(what), "node %zu", size);
		say(what, CALL(cuGraphAddKernelNode_v2, &node, graph, NULL, (size_t)0, &p));
	}
	NEED(cuGraphDestroy, graph);
}

/* Captures whose graph is changed while they last. */
static void ask_captures(void)
{
	CUstreamCaptureStatus status;
	CUstream first, second;
	CUgraph graph, given;
	CUgraphNode nodes[8];
	const CUgraphNode *at;
	const CUgraphEdgeData *edges;
	CUdeviceptr d;
	size_t count;

	NEED(cuMemAlloc_v2, &d, (size_t)4096);
	NEED(cuStreamCreate, &first, CU_STREAM_NON_BLOCKING);
	NEED(cuStreamCreate, &second, CU_STREAM_NON_BLOCKING);

	NEED(cuStreamBeginCapture_v2, first, CU_STREAM_CAPTURE_MODE_RELAXED);
	NEED(cuMemsetD8Async, d, 0, (size_t)16, first);
	NEED(cuMemsetD8Async, d, 0, (size_t)16, first);
	NEED(cuStreamGetCaptureInfo_v3, first, &status, NULL, &graph, &at, &edges, &count);
	say("destroy the last captured node", CALL(cuGraphDestroyNode, at[0]));
	say("more work", CALL(cuMemsetD8Async, d, 0, (size_t)16, first));
	say("end", CALL(cuStreamEndCapture, first, &graph));

	NEED(cuGraphCreate, &given, 0);
	NEED(cuStreamBeginCaptureToGraph, first, given, NULL, NULL, (size_t)0, CU_STREAM_CAPTURE_MODE_RELAXED);
	NEED(cuMemsetD8Async, d, 0, (size_t)16, first);
	say("second capture into a graph",
	    CALL(cuStreamBeginCaptureToGraph, second, given, NULL, NULL, (size_t)0, CU_STREAM_CAPTURE_MODE_RELAXED));
	say("work in it", CALL(cuMemsetD8Async, d, 0, (size_t)16, second));
	say("end of the first", CALL(cuStreamEndCapture, first, &graph));
	say("end of the second", CALL(cuStreamEndCapture, second, &graph));
	count = 8;
	say("nodes", CALL(cuGraphGetNodes, given, nodes, &count));
	say("so many", (CUresult)count);

	NEED(cuStreamBeginCapture_v2, first, CU_STREAM_CAPTURE_MODE_RELAXED);
	say("peer copy of no bytes", CALL(cuMemcpyPeerAsync, d, context, d, context, (size_t)0, first));
	say("end", CALL(cuStreamEndCapture, first, &graph));
	NEED(cuStreamBeginCapture_v2, first, CU_STREAM_CAPTURE_MODE_RELAXED);
	say("copy of no bytes", CALL(cuMemcpyAsync, d, d + 64, (size_t)0, first));
	say("end", CALL(cuStreamEndCapture, first, &graph));
	NEED(cuStreamDestroy_v2, first);
	NEED(cuStreamDestroy_v2, second);
	NEED(cuMemFree_v2, d);
}

/* Sizes of packed parameters that are too small, right and too large. */
static void ask_packed(void)
{
	static const struct {
		const char *name;
		size_t sizes[12];
	} kernels[] = {{"quick", {0, 1, 4, 8, 4096}},
		       {"packed", {0, 1, 4, 8, 9, 11, 12, 13, 16, 32, 4096}},
		       {"spread", {0, 1, 15, 16, 17, 35, 36, 37, 38, 40, 48, 64}}};
	char buffer[4096] = {0}, what[64];
	CUfunction f;
	CUresult code;

	for (size_t k = 0; k < sizeof(kernels) / sizeof(*kernels); k++) {
		NEED(cuModuleGetFunction, &f, module, kernels[k].name);
		for (size_t i = 0; i < 12 && (!i || kernels[k].sizes[i]); i++) {
			size_t size = kernels[k].sizes[i];
			void *extra[] = {CU_LAUNCH_PARAM_BUFFER_POINTER, buffer, CU_LAUNCH_PARAM_BUFFER_SIZE, &size,
					 CU_LAUNCH_PARAM_END};

			code = CALL(cuLaunchKernel, f, 1, 1, 1, 1, 1, 1, 0, NULL, NULL, extra);
			snprintf(what, sizeof(what), "%s %zu", kernels[k].name, size);
			say(what, code);
		}
	}
	NEED(cuCtxSynchronize, );
}

int main(int argc, char **argv)
{
	char rest[128];

	cuda = dlopen("libcuda.so.1", RTLD_NOW);
	expected = argc > 1 ? fopen(argv[1], "r") : NULL;
	if (!cuda || argc > 2 || (argc > 1 && !expected)) {
		fprintf(stderr, "usage: no-context [FILE]; a CUDA driver\n");
		return 2;
	}
	setvbuf(stdout, NULL, _IOLBF, 0);
	NEED(cuInit, 0);
	NEED(cuDevicePrimaryCtxRetain, &context, 0);
	NEED(cuCtxSetCurrent, context);
	NEED(cuModuleLoadData, &module, text);
	ask_packed();
	ask_packed_nodes();
	ask_captures();
	ask_without();
	if (!expected)
		return 0;
	next_line(expected, rest, sizeof(rest));
	expect_text("the end", "", rest);
	printf("%d probes, %d differ\n", probes, different);
	return !probes || different;
}
