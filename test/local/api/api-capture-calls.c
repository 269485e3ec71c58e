/* SPDX-License-Identifier: Apache-2.0 */
/* The calls beside a capture, each as one that ends what it begins. Which are refused is as an H100 with driver 580 has
 * it. */
#include "api-capture.h"

const char capture_ptx[] = ".version 7.0\n.target sm_70\n.address_size 64\n.visible .entry k()\n{\nret;\n}\n";

struct capture_has has;

/* The objects that a call consumes or creates, for one capture. */
static struct {
	CUdeviceptr memory;
	CUmodule module;
	CUlibrary library;
	CUgraphExec exec;
	CUmemoryPool pool;
	CUarray array;
} once;

/* ---- forbidden ---- */

static CUresult stream_synchronize(void)
{
	return cuStreamSynchronize(has.quiet);
}

static CUresult stream_query(void)
{
	return cuStreamQuery(has.blocking);
}

static CUresult legacy_synchronize(void)
{
	return cuStreamSynchronize(CU_STREAM_LEGACY);
}

static CUresult event_query(void)
{
	return cuEventQuery(has.event);
}

static CUresult event_synchronize(void)
{
	return cuEventSynchronize(has.event);
}

static CUresult allocate(void)
{
	CUdeviceptr p;
	CUresult result = cuMemAlloc_v2(&p, 64);

	return result == CUDA_SUCCESS ? cuMemFree_v2(p) : result;
}

static CUresult allocate_rows(void)
{
	size_t pitch;
	CUdeviceptr p;
	CUresult result = cuMemAllocPitch_v2(&p, &pitch, 64, 2, 4);

	return result == CUDA_SUCCESS ? cuMemFree_v2(p) : result;
}

static CUresult allocate_managed(void)
{
	CUdeviceptr p;
	CUresult result = cuMemAllocManaged(&p, 64, CU_MEM_ATTACH_GLOBAL);

	return result == CUDA_SUCCESS ? cuMemFree_v2(p) : result;
}

static CUresult allocate_pinned(void)
{
	void *p;
	CUresult result = cuMemHostAlloc(&p, 64, 0);

	return result == CUDA_SUCCESS ? cuMemFreeHost(p) : result;
}

static CUresult allocate_in_stream(void)
{
	CUdeviceptr p;
	CUresult result = cuMemAllocAsync(&p, 64, has.quiet);

	return result == CUDA_SUCCESS ? cuMemFreeAsync(p, has.quiet) : result;
}

static CUresult free_nothing(void)
{
	return cuMemFree_v2(0);
}

static CUresult trim(void)
{
	return cuMemPoolTrimTo(has.pool, 0);
}

static CUresult attach(void)
{
	return cuStreamAttachMemAsync(has.quiet, has.managed, 0, CU_MEM_ATTACH_GLOBAL);
}

static CUresult instantiate(void)
{
	CUgraphExec exec;
	CUresult result = cuGraphInstantiateWithFlags(&exec, has.graph, 0);

	return result == CUDA_SUCCESS ? cuGraphExecDestroy(exec) : result;
}

static CUresult new_pool(void)
{
	const CUmemPoolProps props = {
		.allocType = CU_MEM_ALLOCATION_TYPE_PINNED,
		.location = {CU_MEM_LOCATION_TYPE_DEVICE, 0},
	};
	CUmemoryPool pool;
	CUresult result = cuMemPoolCreate(&pool, &props);

	return result == CUDA_SUCCESS ? cuMemPoolDestroy(pool) : result;
}

static CUresult set_pool(void)
{
	return cuDeviceSetMemPool(0, has.pool);
}

static CUresult new_array(void)
{
	const CUDA_ARRAY_DESCRIPTOR d = {16, 0, CU_AD_FORMAT_UNSIGNED_INT8, 1};
	CUarray array;
	CUresult result = cuArrayCreate_v2(&array, &d);

	return result == CUDA_SUCCESS ? cuArrayDestroy(array) : result;
}

static CUresult new_array_3d(void)
{
	const CUDA_ARRAY3D_DESCRIPTOR d = {4, 4, 4, CU_AD_FORMAT_UNSIGNED_INT8, 1, 0};
	CUarray array;
	CUresult result = cuArray3DCreate_v2(&array, &d);

	return result == CUDA_SUCCESS ? cuArrayDestroy(array) : result;
}

static CUresult advise(void)
{
	return cuMemAdvise(has.managed, 4096, CU_MEM_ADVISE_SET_READ_MOSTLY, 0);
}

static CUresult advise_place(void)
{
	const CUmemLocation here = {CU_MEM_LOCATION_TYPE_DEVICE, 0};

	return cuMemAdvise_v2(has.managed, 4096, CU_MEM_ADVISE_SET_READ_MOSTLY, here);
}

static CUresult set_cache(void)
{
	return cuCtxSetCacheConfig(CU_FUNC_CACHE_PREFER_NONE);
}

static CUresult set_limit(void)
{
	return cuCtxSetLimit(CU_LIMIT_STACK_SIZE, 1024);
}

static CUresult start_profiler(void)
{
	return cuProfilerStart();
}

static CUresult stop_profiler(void)
{
	return cuProfilerStop();
}

/* ---- forbidden: what ends something, which goes on after a refusal ---- */

static void make_memory(void)
{
	OK(cuMemAllocAsync(&once.memory, 64, has.quiet));
	OK(cuStreamSynchronize(has.quiet));
}

static void use_memory(void)
{
	OK(cuMemcpyHtoD_v2(once.memory, has.host, 64));
}

static CUresult free_in_stream(void)
{
	return cuMemFreeAsync(once.memory, has.quiet);
}

static CUresult free_in_legacy(void)
{
	return cuMemFreeAsync(once.memory, CU_STREAM_LEGACY);
}

static void make_pool(void)
{
	const CUmemPoolProps props = {
		.allocType = CU_MEM_ALLOCATION_TYPE_PINNED,
		.location = {CU_MEM_LOCATION_TYPE_DEVICE, 0},
	};

	OK(cuMemPoolCreate(&once.pool, &props));
}

static void use_pool(void)
{
	CUdeviceptr p;

	OK(cuMemAllocFromPoolAsync(&p, 64, once.pool, has.quiet));
	OK(cuMemFreeAsync(p, has.quiet));
	OK(cuStreamSynchronize(has.quiet));
}

static CUresult end_pool(void)
{
	return cuMemPoolDestroy(once.pool);
}

static void make_library(void)
{
	OK(cuLibraryLoadData(&once.library, capture_ptx, NULL, NULL, 0, NULL, NULL, 0));
}

static void use_library(void)
{
	CUfunction function;
	CUkernel kernel;

	OK(cuLibraryGetKernel(&kernel, once.library, "k"));
	OK(cuKernelGetFunction(&function, kernel));
}

static CUresult end_library(void)
{
	return cuLibraryUnload(once.library);
}

static void make_module(void)
{
	OK(cuModuleLoadData(&once.module, capture_ptx));
}

static void use_module(void)
{
	CUfunction function;

	OK(cuModuleGetFunction(&function, once.module, "k"));
}

static CUresult end_module(void)
{
	return cuModuleUnload(once.module);
}

static void make_exec(void)
{
	OK(cuGraphInstantiateWithFlags(&once.exec, has.graph, 0));
}

static void use_exec(void)
{
	OK(cuGraphLaunch(once.exec, has.quiet));
	OK(cuStreamSynchronize(has.quiet));
}

static CUresult end_exec(void)
{
	return cuGraphExecDestroy(once.exec);
}

static void make_array(void)
{
	const CUDA_ARRAY3D_DESCRIPTOR d = {16, 0, 0, CU_AD_FORMAT_UNSIGNED_INT8, 1, 0};

	OK(cuArray3DCreate_v2(&once.array, &d));
}

static void use_array(void)
{
	OK(cuMemcpyHtoA_v2(once.array, 0, has.host, 16));
}

static CUresult end_array(void)
{
	return cuArrayDestroy(once.array);
}

/* ---- permitted ---- */

static CUresult copy(void)
{
	return cuMemcpyHtoD_v2(has.memory, has.host, 64);
}

static CUresult copy_in_stream(void)
{
	return cuMemcpyDtoHAsync_v2(has.host, has.memory, 1 << 20, has.quiet);
}

static CUresult set_in_stream(void)
{
	return cuMemsetD32Async(has.memory, 1, 1, has.blocking);
}

static CUresult new_stream(void)
{
	CUstream s;
	CUresult result = cuStreamCreate(&s, CU_STREAM_DEFAULT);

	return result == CUDA_SUCCESS ? cuStreamDestroy_v2(s) : result;
}

static CUresult new_event(void)
{
	CUevent e;
	CUresult result = cuEventCreate(&e, CU_EVENT_DEFAULT);

	return result == CUDA_SUCCESS ? cuEventDestroy_v2(e) : result;
}

static CUresult record(void)
{
	return cuEventRecord(has.event, has.quiet);
}

static CUresult wait(void)
{
	return cuStreamWaitEvent(has.blocking, has.event, 0);
}

static CUresult launch_graph(void)
{
	return cuGraphLaunch(has.exec, has.quiet);
}

static CUresult ask_memory(void)
{
	size_t available, total;

	return cuMemGetInfo_v2(&available, &total);
}

static CUresult another_capture(void)
{
	CUgraph graph;
	CUresult result = cuStreamBeginCapture_v2(has.quiet, CU_STREAM_CAPTURE_MODE_GLOBAL);

	if (result == CUDA_SUCCESS)
		result = cuStreamEndCapture(has.quiet, &graph);
	return result == CUDA_SUCCESS ? cuGraphDestroy(graph) : result;
}

static CUresult ask_handle(void)
{
	CUipcMemHandle handle;

	return cuIpcGetMemHandle(&handle, has.memory);
}

static CUresult load_module(void)
{
	return cuModuleLoadData(&once.module, capture_ptx);
}

static void unload_module(void)
{
	OK(cuModuleUnload(once.module));
}

static CUresult load_library(void)
{
	return cuLibraryLoadData(&once.library, capture_ptx, NULL, NULL, 0, NULL, NULL, 0);
}

static void unload_library(void)
{
	OK(cuLibraryUnload(once.library));
}

static CUresult map(void)
{
	const CUmemAllocationProp prop = {
		.type = CU_MEM_ALLOCATION_TYPE_PINNED,
		.location = {CU_MEM_LOCATION_TYPE_DEVICE, 0},
	};
	const CUmemAccessDesc access = {prop.location, CU_MEM_ACCESS_FLAGS_PROT_READWRITE};
	const size_t bytes = 2 << 20;
	CUmemGenericAllocationHandle handle;
	CUdeviceptr p;

	OK(cuMemCreate(&handle, bytes, &prop, 0));
	OK(cuMemAddressReserve(&p, bytes, 0, 0, 0));
	OK(cuMemMap(p, bytes, 0, handle, 0));
	OK(cuMemSetAccess(p, bytes, &access, 1));
	OK(cuMemUnmap(p, bytes));
	OK(cuMemAddressFree(p, bytes));
	return cuMemRelease(handle);
}

static CUresult upload(void)
{
	return cuGraphUpload(has.exec, has.quiet);
}

static CUresult new_graph(void)
{
	CUgraph graph;
	CUresult result = cuGraphCreate(&graph, 0);

	return result == CUDA_SUCCESS ? cuGraphDestroy(graph) : result;
}

static CUresult prefetch(void)
{
	const CUmemLocation here = {CU_MEM_LOCATION_TYPE_DEVICE, 0};

	return cuMemPrefetchAsync_v2(has.managed, 4096, here, 0, has.quiet);
}

static CUresult prepare_function(void)
{
	CUresult result = cuFuncLoad(has.function);

	return result == CUDA_SUCCESS
		       ? cuFuncSetAttribute(has.function, CU_FUNC_ATTRIBUTE_PREFERRED_SHARED_MEMORY_CARVEOUT, 50)
		       : result;
}

static CUresult new_context(void)
{
	CUcontext context;
	CUresult result = cuCtxCreate_v2(&context, 0, 0);

	return result == CUDA_SUCCESS ? cuCtxDestroy_v2(context) : result;
}

static CUresult retain(void)
{
	CUcontext context;
	CUresult result = cuDevicePrimaryCtxRetain(&context, 0);

	return result == CUDA_SUCCESS ? cuDevicePrimaryCtxRelease_v2(0) : result;
}

static CUresult ask_range(void)
{
	return cuMemGetAddressRange_v2(NULL, NULL, has.memory);
}

static CUresult copy_peer(void)
{
	return cuMemcpyPeer(has.memory, has.context, has.memory + 64, has.context, 64);
}

static CUresult new_link(void)
{
	CUlinkState state;
	CUresult result = cuLinkCreate_v2(0, NULL, NULL, &state);

	return result == CUDA_SUCCESS ? cuLinkDestroy(state) : result;
}

#define UNSAFE(call)                                                                                                   \
	{                                                                                                              \
#call, call, true, NULL, NULL, NULL                                                                    \
	}
#define ENDS(call, what)                                                                                               \
	{                                                                                                              \
#call, call, true, make_##what, use_##what, NULL                                                       \
	}
#define LEAVES(call, clear)                                                                                            \
	{                                                                                                              \
#call, call, false, NULL, NULL, clear                                                                  \
	}
#define SAFE(call)                                                                                                     \
	{                                                                                                              \
#call, call, false, NULL, NULL, NULL                                                                   \
	}

const struct beside capture_calls[] = {
	UNSAFE(stream_synchronize),
	UNSAFE(stream_query),
	UNSAFE(legacy_synchronize),
	UNSAFE(event_query),
	UNSAFE(event_synchronize),
	UNSAFE(allocate),
	UNSAFE(allocate_rows),
	UNSAFE(allocate_managed),
	UNSAFE(allocate_pinned),
	UNSAFE(allocate_in_stream),
	UNSAFE(free_nothing),
	UNSAFE(trim),
	UNSAFE(attach),
	UNSAFE(instantiate),
	UNSAFE(new_pool),
	UNSAFE(set_pool),
	UNSAFE(new_array),
	UNSAFE(new_array_3d),
	UNSAFE(advise),
	UNSAFE(advise_place),
	UNSAFE(set_cache),
	UNSAFE(set_limit),
	UNSAFE(start_profiler),
	UNSAFE(stop_profiler),
	ENDS(free_in_stream, memory),
	ENDS(free_in_legacy, memory),
	ENDS(end_pool, pool),
	ENDS(end_library, library),
	ENDS(end_module, module),
	ENDS(end_exec, exec),
	ENDS(end_array, array),
	SAFE(copy),
	SAFE(copy_in_stream),
	SAFE(set_in_stream),
	SAFE(new_stream),
	SAFE(new_event),
	SAFE(record),
	SAFE(wait),
	SAFE(launch_graph),
	SAFE(ask_memory),
	SAFE(another_capture),
	SAFE(ask_handle),
	LEAVES(load_module, unload_module),
	LEAVES(load_library, unload_library),
	SAFE(map),
	SAFE(upload),
	SAFE(new_graph),
	SAFE(prefetch),
	SAFE(prepare_function),
	SAFE(new_context),
	SAFE(retain),
	SAFE(ask_range),
	SAFE(copy_peer),
	SAFE(new_link),
};

const size_t capture_call_count = sizeof(capture_calls) / sizeof(*capture_calls);
