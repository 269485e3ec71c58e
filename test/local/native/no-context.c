/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The codes of calls with valid arguments in a thread without a current context, and of packed launch parameters of all
 * sizes. The program opens the library by its name and so runs natively as well.
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

static void need(const char *what, CUresult result)
{
	if (result == CUDA_SUCCESS)
		return;
	fprintf(stderr, "%s: %d\n", what, result);
	exit(2);
}

#define NEED(name, ...) need(#name, CALL(name, __VA_ARGS__))
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
	ASK(cuModuleUnload, module);
	ASK(cuEventDestroy_v2, later);
	ASK(cuStreamDestroy_v2, stream);
	ASK(cuMemFreeHost, host);
	ASK(cuMemFree_v2, d);
	ASK(cuDevicePrimaryCtxRelease_v2, 0);
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
	ask_without();
	if (expected)
		printf("%d probes, %d differ\n", probes, different);
	return different != 0;
}
