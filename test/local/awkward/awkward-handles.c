/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Handles and addresses that name nothing: NULL, made up, of another kind, ended. Each call is refused, the program
 * lives, and the context is as good as before.
 */
#include "awkward.h"

#include <stdlib.h>
#include <unistd.h>

static const char *what; /* description of the handle in use */

#define REFUSED(call)                                                                                                  \
	do {                                                                                                           \
		if ((call) == CUDA_SUCCESS) {                                                                          \
			fprintf(stderr, "%s:%d: %s succeeded with a handle that is %s\n", __FILE__, __LINE__, #call,   \
				what);                                                                                 \
			_exit(1);                                                                                      \
		}                                                                                                      \
	} while (0)

static uint64_t out[64]; /* for what no call may write */
static CUstream stream;
static CUevent event;

static void nothing(void *unused)
{
	(void)unused;
}

/* ---- what is done with a bad handle of each kind ---- */

static void use_stream(void *h)
{
	CUDA_MEMCPY3D copy = {.WidthInBytes = 4, .Height = 1, .Depth = 1};

	REFUSED(cuStreamSynchronize(h));
	REFUSED(cuStreamQuery(h));
	REFUSED(cuStreamDestroy_v2(h));
	REFUSED(cuStreamWaitEvent(h, event, 0));
	REFUSED(cuStreamGetFlags(h, (unsigned int *)out));
	REFUSED(cuStreamGetPriority(h, (int *)out));
	REFUSED(cuStreamGetId(h, (unsigned long long *)out));
	REFUSED(cuStreamGetGreenCtx(h, (CUgreenCtx *)out));
	REFUSED(cuStreamGetDevice(h, (CUdevice *)out));
	REFUSED(cuStreamAddCallback(h, (CUstreamCallback)(void *)nothing, NULL, 0));
	REFUSED(cuLaunchHostFunc(h, nothing, NULL));
	REFUSED(cuStreamBeginCapture_v2(h, CU_STREAM_CAPTURE_MODE_RELAXED));
	REFUSED(cuStreamEndCapture(h, (CUgraph *)out));
	REFUSED(cuStreamIsCapturing(h, (CUstreamCaptureStatus *)out));
	REFUSED(cuStreamCopyAttributes(h, stream));
	REFUSED(cuStreamCopyAttributes(stream, h));
	REFUSED(cuEventRecord(event, h));
	REFUSED(cuEventRecordWithFlags(event, h, 0));
	REFUSED(cuMemAllocAsync((CUdeviceptr *)out, 64, h));
	REFUSED(cuMemcpy3DAsync_v2(&copy, h));
	REFUSED(cuLaunchKernel(awkward_function("step"), 1, 1, 1, 1, 1, 1, 0, h, (void *[]){&out[0], &out[1], &out[2]},
			       NULL));
}

static void use_event(void *h)
{
	REFUSED(cuEventQuery(h));
	REFUSED(cuEventSynchronize(h));
	REFUSED(cuEventRecord(h, stream));
	REFUSED(cuEventDestroy_v2(h));
	REFUSED(cuEventElapsedTime_v2((float *)out, h, event));
	REFUSED(cuEventElapsedTime_v2((float *)out, event, h));
	REFUSED(cuStreamWaitEvent(stream, h, 0));
	REFUSED(cuIpcGetEventHandle((CUipcEventHandle *)out, h));
}

static void use_module(void *h)
{
	REFUSED(cuModuleUnload(h));
	REFUSED(cuModuleGetFunction((CUfunction *)out, h, "step"));
	REFUSED(cuModuleGetGlobal_v2((CUdeviceptr *)out, (size_t *)out, h, "step"));
	REFUSED(cuModuleGetFunctionCount((unsigned int *)out, h));
}

static void use_function(void *h)
{
	CUDA_KERNEL_NODE_PARAMS node = {h, 1, 1, 1, 1, 1, 1, 0, NULL, NULL, NULL, NULL};
	CUgraph graph;

	REFUSED(cuLaunchKernel(h, 1, 1, 1, 1, 1, 1, 0, stream, NULL, NULL));
	REFUSED(cuLaunchCooperativeKernel(h, 1, 1, 1, 1, 1, 1, 0, stream, NULL));
	REFUSED(cuFuncGetAttribute((int *)out, CU_FUNC_ATTRIBUTE_NUM_REGS, h));
	REFUSED(cuFuncSetAttribute(h, CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES, 64));
	REFUSED(cuFuncSetCacheConfig(h, 0));
	REFUSED(cuFuncGetModule((CUmodule *)out, h));
	REFUSED(cuFuncGetName((const char **)out, h));
	REFUSED(cuOccupancyMaxActiveBlocksPerMultiprocessor((int *)out, h, 32, 0));
	REFUSED(cuKernelGetFunction((CUfunction *)out, h));
	REFUSED(cuKernelGetName((const char **)out, h));
	OK(cuGraphCreate(&graph, 0));
	REFUSED(cuGraphAddKernelNode_v2((CUgraphNode *)out, graph, NULL, 0, &node));
	OK(cuGraphDestroy(graph));
}

static void use_library(void *h)
{
	REFUSED(cuLibraryUnload(h));
	REFUSED(cuLibraryGetKernel((CUkernel *)out, h, "step"));
	REFUSED(cuLibraryGetModule((CUmodule *)out, h));
	REFUSED(cuLibraryGetGlobal((CUdeviceptr *)out, (size_t *)out, h, "step"));
	REFUSED(cuLibraryGetKernelCount((unsigned int *)out, h));
}

static void use_context(void *h)
{
	if (h) {
		REFUSED(cuCtxSetCurrent(h)); /* NULL: none is current */
		REFUSED(cuCtxGetApiVersion(h, (unsigned int *)out));
	}
	REFUSED(cuCtxDestroy_v2(h));
	REFUSED(cuCtxPushCurrent_v2(h));
	REFUSED(cuCtxEnablePeerAccess(h, 0));
	REFUSED(cuCtxDisablePeerAccess(h));
}

static void use_graph(void *h)
{
	CUDA_HOST_NODE_PARAMS host = {nothing, NULL};

	REFUSED(cuGraphDestroy(h));
	REFUSED(cuGraphClone((CUgraph *)out, h));
	REFUSED(cuGraphGetNodes(h, NULL, (size_t *)out));
	REFUSED(cuGraphGetRootNodes(h, NULL, (size_t *)out));
	REFUSED(cuGraphInstantiateWithFlags((CUgraphExec *)out, h, 0));
	REFUSED(cuGraphAddEmptyNode((CUgraphNode *)out, h, NULL, 0));
	REFUSED(cuGraphAddHostNode((CUgraphNode *)out, h, NULL, 0, &host));
	REFUSED(cuGraphDebugDotPrint(h, "/dev/null", 0));
}

static void use_node(void *h)
{
	REFUSED(cuGraphDestroyNode(h));
	REFUSED(cuGraphNodeGetType(h, (CUgraphNodeType *)out));
	REFUSED(cuGraphHostNodeGetParams(h, (CUDA_HOST_NODE_PARAMS *)out));
	REFUSED(cuGraphKernelNodeGetParams_v2(h, (CUDA_KERNEL_NODE_PARAMS *)out));
	REFUSED(cuGraphNodeGetDependencies_v2(h, NULL, NULL, (size_t *)out));
	REFUSED(cuGraphChildGraphNodeGetGraph(h, (CUgraph *)out));
}

static void use_exec(void *h)
{
	REFUSED(cuGraphLaunch(h, stream));
	REFUSED(cuGraphUpload(h, stream));
	REFUSED(cuGraphExecDestroy(h));
	REFUSED(cuGraphExecGetFlags(h, (cuuint64_t *)out));
}

static void use_array(void *h)
{
	REFUSED(cuArrayDestroy(h));
	REFUSED(cuArray3DGetDescriptor_v2((CUDA_ARRAY3D_DESCRIPTOR *)out, h));
	REFUSED(cuMemcpyAtoH_v2(out, h, 0, 4));
	REFUSED(cuMemcpyHtoA_v2(h, 0, out, 4));
	REFUSED(cuMipmappedArrayDestroy(h));
	REFUSED(cuMipmappedArrayGetLevel((CUarray *)out, h, 0));
}

static void use_pool(void *h)
{
	REFUSED(cuMemPoolDestroy(h));
	REFUSED(cuMemPoolTrimTo(h, 0));
	REFUSED(cuMemPoolGetAttribute(h, CU_MEMPOOL_ATTR_USED_MEM_CURRENT, out));
	REFUSED(cuMemAllocFromPoolAsync((CUdeviceptr *)out, 64, h, stream));
	REFUSED(cuDeviceSetMemPool(0, h));
}

static void use_other(void *h)
{
	REFUSED(cuLinkAddData_v2(h, CU_JIT_INPUT_PTX, "", 1, NULL, 0, NULL, NULL));
	REFUSED(cuLinkComplete(h, (void **)out, (size_t *)out));
	REFUSED(cuLinkDestroy(h));
	REFUSED(cuUserObjectRetain(h, 1));
	REFUSED(cuUserObjectRelease(h, 1));
	REFUSED(cuTexObjectGetResourceDesc((CUDA_RESOURCE_DESC *)out, (CUtexObject)(uintptr_t)h));
	REFUSED(cuSurfObjectGetResourceDesc((CUDA_RESOURCE_DESC *)out, (CUsurfObject)(uintptr_t)h));
	REFUSED(cuMemRelease((CUmemGenericAllocationHandle)(uintptr_t)h));
	REFUSED(cuMemMap(0x10000, 2 << 20, 0, (CUmemGenericAllocationHandle)(uintptr_t)h, 0));
	REFUSED(cuMemExportToShareableHandle(out, (CUmemGenericAllocationHandle)(uintptr_t)h, 1, 0));
}

/* An invalid device address; on the host's side an address that is not registered. */
static void use_address(void *h)
{
	CUdeviceptr p = (CUdeviceptr)(uintptr_t)h;

	if (p) {
		REFUSED(cuMemFree_v2(p)); /* NULL: nothing to free */
		REFUSED(cuMemFreeHost(h));
		REFUSED(cuMemFreeAsync(p, stream));
	}
	REFUSED(cuMemcpyHtoD_v2(p, out, 4));
	REFUSED(cuMemcpyDtoH_v2(out, p, 4));
	REFUSED(cuMemcpyDtoD_v2(p, p, 4));
	REFUSED(cuMemsetD32_v2(p, 1, 1));
	REFUSED(cuMemsetD8Async(p, 1, 1, stream));
	REFUSED(cuMemHostUnregister(h));
	REFUSED(cuMemHostGetDevicePointer_v2((CUdeviceptr *)out, h, 0));
	REFUSED(cuMemHostGetFlags((unsigned int *)out, h));
	REFUSED(cuMemGetAddressRange_v2((CUdeviceptr *)out, NULL, p));
	REFUSED(cuPointerGetAttribute(out, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, p));
	REFUSED(cuPointerSetAttribute(out, CU_POINTER_ATTRIBUTE_SYNC_MEMOPS, p));
	REFUSED(cuIpcGetMemHandle((CUipcMemHandle *)out, p));
	REFUSED(cuIpcCloseMemHandle(p));
	REFUSED(cuMemAddressFree(p, 2 << 20));
	REFUSED(cuMemUnmap(p, 2 << 20));
	REFUSED(cuMemPoolExportPointer((CUmemPoolPtrExportData *)out, p));
}

/* ---- handles that were good ---- */

static void *ended_stream(void)
{
	CUstream s = awkward_stream(0);

	OK(cuStreamDestroy_v2(s));
	return s;
}

static void *ended_event(void)
{
	CUevent e;

	OK(cuEventCreate(&e, 0));
	OK(cuEventDestroy_v2(e));
	return e;
}

static void *ended_module(void)
{
	CUmodule m = awkward_load();

	OK(cuModuleUnload(m));
	return m;
}

static void *ended_function(void)
{
	CUmodule m = awkward_load();
	CUfunction f;

	OK(cuModuleGetFunction(&f, m, "wild"));
	OK(cuModuleUnload(m));
	return f;
}

static void *ended_context(void)
{
	CUcontext c;

	OK(cuCtxCreate_v2(&c, 0, 0));
	OK(cuCtxDestroy_v2(c));
	OK(cuCtxSetCurrent(awkward_context));
	return c;
}

static void *ended_graph(void)
{
	CUgraph g;

	OK(cuGraphCreate(&g, 0));
	OK(cuGraphDestroy(g));
	return g;
}

static void *ended_node(void)
{
	CUgraphNode n;
	CUgraph g;

	OK(cuGraphCreate(&g, 0));
	OK(cuGraphAddEmptyNode(&n, g, NULL, 0));
	OK(cuGraphDestroy(g));
	return n;
}

static void *ended_exec(void)
{
	CUgraphExec e;
	CUgraph g;

	OK(cuGraphCreate(&g, 0));
	OK(cuGraphInstantiateWithFlags(&e, g, 0));
	OK(cuGraphExecDestroy(e));
	OK(cuGraphDestroy(g));
	return e;
}

static void *ended_array(void)
{
	CUDA_ARRAY3D_DESCRIPTOR d = {16, 16, 0, CU_AD_FORMAT_FLOAT, 1, 0};
	CUarray a;

	OK(cuArray3DCreate_v2(&a, &d));
	OK(cuArrayDestroy(a));
	return a;
}

static void *ended_pool(void)
{
	const CUmemPoolProps props = {.allocType = CU_MEM_ALLOCATION_TYPE_PINNED,
				      .location = {CU_MEM_LOCATION_TYPE_DEVICE, 0}};
	CUmemoryPool p;

	OK(cuMemPoolCreate(&p, &props));
	OK(cuMemPoolDestroy(p));
	return p;
}

static void *freed_memory(void)
{
	CUdeviceptr p = awkward_zeroed(3 << 20);

	OK(cuMemFree_v2(p));
	return (void *)(uintptr_t)p;
}

static void *freed_pinned(void)
{
	void *p = awkward_pinned(4096);

	OK(cuMemFreeHost(p));
	return p;
}

static const struct {
	void (*use)(void *handle);
	void *(*ended)(void); /* may be NULL */
	bool null_is_good;
} kinds[] = {
	{use_stream, ended_stream, true},      {use_event, ended_event, false},    {use_module, ended_module, false},
	{use_function, ended_function, false}, {use_library, NULL, false},         {use_context, ended_context, false},
	{use_graph, ended_graph, false},       {use_node, ended_node, false},      {use_exec, ended_exec, false},
	{use_array, ended_array, false},       {use_pool, ended_pool, false},      {use_other, NULL, false},
	{use_address, freed_memory, false},    {use_address, freed_pinned, false},
};

/* No place for the result. */
static void no_results(void)
{
	what = "good, and nowhere to put the result";
	REFUSED(cuMemAlloc_v2(NULL, 4));
	REFUSED(cuMemHostAlloc(NULL, 4, 0));
	REFUSED(cuMemAllocManaged(NULL, 4, 1));
	REFUSED(cuStreamCreate(NULL, 0));
	REFUSED(cuEventCreate(NULL, 0));
	REFUSED(cuModuleLoadData(NULL, "x"));
	REFUSED(cuModuleLoadData((CUmodule *)out, NULL));
	REFUSED(cuModuleGetFunction(NULL, awkward_module, "step"));
	REFUSED(cuModuleGetFunction((CUfunction *)out, awkward_module, NULL));
	REFUSED(cuCtxCreate_v2(NULL, 0, 0));
	REFUSED(cuDeviceGet(NULL, 0));
	REFUSED(cuDeviceGetCount(NULL));
	REFUSED(cuDeviceGetName(NULL, 10, 0));
	REFUSED(cuDeviceGetAttribute(NULL, CU_DEVICE_ATTRIBUTE_WARP_SIZE, 0));
	REFUSED(cuGraphCreate(NULL, 0));
	REFUSED(cuArray3DCreate_v2(NULL, NULL));
	REFUSED(cuMemPoolCreate(NULL, NULL));
	REFUSED(cuTexObjectCreate(NULL, NULL, NULL, NULL));
	REFUSED(cuMemcpy3D_v2(NULL));
	REFUSED(cuGetExportTable(NULL, NULL));
	REFUSED(cuGetErrorName(CUDA_SUCCESS, NULL));
	REFUSED(cuIpcOpenMemHandle_v2((CUdeviceptr *)out, (CUipcMemHandle){"of nobody"}, 1));
	REFUSED(cuIpcOpenEventHandle((CUevent *)out, (CUipcEventHandle){"of nobody"}));
}

void awkward_handles(void)
{
	static uint64_t memory[512]; /* memory of the program that CUDA does not know */
	CUdeviceptr p = awkward_zeroed(4);
	unsigned int k = 2, n = 1;
	void *params[] = {&p, &k, &n};

	stream = awkward_stream(CU_STREAM_NON_BLOCKING);
	OK(cuEventCreate(&event, 0));
	OK(cuEventRecord(event, stream));
	for (size_t i = 0; i < sizeof(kinds) / sizeof(kinds[0]); i++) {
		what = "NULL";
		if (!kinds[i].null_is_good)
			kinds[i].use(NULL);
		what = "made up";
		kinds[i].use((void *)0x777777);
		kinds[i].use((void *)-16);
		what = "memory of the program";
		kinds[i].use(memory);
		what = "ended";
		if (kinds[i].ended)
			kinds[i].use(kinds[i].ended());
	}
	what = "of another kind";
	use_stream(event);
	use_event(stream);
	use_module(stream);
	use_function(awkward_module);
	use_graph(awkward_module);
	use_context(stream);
	no_results();
	/* All is well. */
	OK(cuCtxSynchronize());
	OK(cuLaunchKernel(awkward_function("step"), 1, 1, 1, 32, 1, 1, 0, stream, params, NULL));
	OK(cuStreamSynchronize(stream));
	CHECK(awkward_read(p) == 1);
	for (size_t i = 0; i < sizeof(memory) / sizeof(memory[0]); i++)
		CHECK(!memory[i]);
}

/* More objects than any program has: the worker's memory is limited. Destroyed objects make room for new ones. */
void awkward_objects(void)
{
	enum { MOST = 1 << 20 };
	CUstream *streams = calloc(MOST, sizeof(*streams));
	CUresult result = CUDA_SUCCESS;
	size_t count = 0;

	CHECK(streams);
	while (count < MOST && (result = cuStreamCreate(&streams[count], CU_STREAM_NON_BLOCKING)) == CUDA_SUCCESS)
		count++;
	CHECK(result == CUDA_ERROR_OUT_OF_MEMORY);
	printf("%zu streams\n", count);
	OK(cuEventCreate(&event, 0));
	OK(cuStreamDestroy_v2(streams[0]));
	OK(cuStreamCreate(&streams[0], CU_STREAM_NON_BLOCKING));
	for (size_t i = 0; i < count; i++)
		OK(cuStreamDestroy_v2(streams[i]));
	free(streams);
}
