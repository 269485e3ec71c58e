/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Work in a stream of another context than the current one: what may be there is done there, in its order, and what may
 * not is refused at the call, with no error left for later. "other-context native" is for NVIDIA's driver.
 */
#include "api.h"

#include "protocol/cuda-runtime-abi.h"

cudaError_t cudaMemsetAsync(void *address, int value, size_t bytes, cudaStream_t stream);
cudaError_t cudaMemset2DAsync(void *address, size_t pitch, int value, size_t width, size_t height, cudaStream_t stream);
cudaError_t cudaMemset3DAsync(struct cudaPitchedPtr pitched, int value, struct cudaExtent extent, cudaStream_t stream);

enum { WORDS = 256, BYTES = 4 * WORDS };

/* *p = *p * 10 + k */
static const char ptx[] =
	".version 7.0\n.target sm_52\n.address_size 64\n.visible .entry note(.param .u64 p, .param .u32 k)\n{\n"
	".reg .b32 %r<3>; .reg .b64 %l<2>;\nld.param.u64 %l1, [p];\nld.param.u32 %r1, [k];\n"
	"ld.u32 %r2, [%l1];\nmad.lo.u32 %r2, %r2, 10, %r1;\nst.u32 [%l1], %r2;\nret;\n}\n";

static struct side {
	CUcontext context;
	CUmodule module;
	CUfunction note;
	CUdeviceptr memory;
	CUstream stream;
	CUevent event;
} here, there;

static uint32_t *host; /* pinned; the first word is what streams wait for */
static CUdevice device;

static void make(struct side *s)
{
	OK(cuCtxSetCurrent(s->context));
	OK(cuModuleLoadData(&s->module, ptx));
	OK(cuModuleGetFunction(&s->note, s->module, "note"));
	OK(cuMemAlloc_v2(&s->memory, BYTES));
	OK(cuStreamCreate(&s->stream, CU_STREAM_NON_BLOCKING));
	OK(cuEventCreate(&s->event, CU_EVENT_DISABLE_TIMING));
}

/* Both contexts have done all that was asked of them, and have no error; `here` is the current one. */
static void all_is_well(void)
{
	OK(cuCtxSetCurrent(there.context));
	OK(cuCtxSynchronize());
	OK(cuStreamSynchronize(there.stream));
	OK(cuCtxSetCurrent(here.context));
	OK(cuCtxSynchronize());
	OK(cuStreamSynchronize(here.stream));
}

static uint32_t word(CUdeviceptr p)
{
	uint32_t value;

	OK(cuMemcpyDtoH_v2(&value, p, sizeof(value)));
	return value;
}

static void clear(CUdeviceptr p)
{
	OK(cuMemsetD32Async(p, 0, WORDS, NULL));
	OK(cuCtxSynchronize());
}

/* Holds the side's stream until go(). */
static void hold(struct side *s)
{
	__atomic_store_n(host, 0, __ATOMIC_RELEASE);
	OK(cuStreamWaitValue32_v2(s->stream, (CUdeviceptr)host, 1, CU_STREAM_WAIT_VALUE_EQ));
}

static void go(void)
{
	__atomic_store_n(host, 1, __ATOMIC_RELEASE);
}

static CUresult note(CUfunction f, CUdeviceptr p, uint32_t k, CUstream stream)
{
	void *params[] = {&p, &k};

	return cuLaunchKernel(f, 1, 1, 1, 1, 1, 1, 0, stream, params, NULL);
}

/* ---- launches ---- */

static void refused_launches(void)
{
	uint32_t k = 1;
	void *params[] = {&here.memory, &k};
	CUlaunchConfig config = {.gridDimX = 1,
				 .gridDimY = 1,
				 .gridDimZ = 1,
				 .blockDimX = 1,
				 .blockDimY = 1,
				 .blockDimZ = 1,
				 .hStream = there.stream};

	clear(here.memory);
	for (int i = 0; i < 3; i++) {
		GIVES(note(here.note, here.memory, 1, there.stream), CUDA_ERROR_INVALID_HANDLE);
		GIVES(note(there.note, here.memory, 1, here.stream), CUDA_ERROR_INVALID_HANDLE);
		GIVES(note(there.note, here.memory, 1, NULL), CUDA_ERROR_INVALID_HANDLE);
		GIVES(cuLaunchCooperativeKernel(here.note, 1, 1, 1, 1, 1, 1, 0, there.stream, params),
		      CUDA_ERROR_INVALID_HANDLE);
		GIVES(cuLaunchKernelEx(&config, here.note, params, NULL), CUDA_ERROR_INVALID_HANDLE);
		all_is_well();
		CHECK(word(here.memory) == 0);
		/* The next time the functions have been launched before. */
		OK(note(here.note, here.memory + 4, 1, here.stream));
		OK(cuCtxSetCurrent(there.context));
		OK(note(there.note, there.memory + 4, 1, there.stream));
		all_is_well();
	}
}

/* A function and a stream of the same context, and a kernel, which runs in the stream's. */
static void launches(void)
{
	CUlibrary library;
	CUkernel kernel;
	CUfunction f;
	int threads;

	clear(there.memory);
	OK(cuLibraryLoadData(&library, ptx, NULL, NULL, 0, NULL, NULL, 0));
	OK(cuLibraryGetKernel(&kernel, library, "note"));
	OK(note(there.note, there.memory, 1, there.stream));
	OK(note((CUfunction)kernel, there.memory, 2, there.stream));
	OK(note((CUfunction)kernel, there.memory + 4, 1, here.stream));
	OK(note((CUfunction)kernel, there.memory, 3, there.stream));
	all_is_well();
	CHECK(word(there.memory) == 123 && word(there.memory + 4) == 1);
	/* Queries of a function or module of another context. */
	OK(cuFuncGetAttribute(&threads, CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK, there.note));
	CHECK(threads > 0);
	OK(cuModuleGetFunction(&f, there.module, "note"));
	OK(note(f, there.memory, 4, there.stream));
	GIVES(note(f, there.memory, 4, here.stream), CUDA_ERROR_INVALID_HANDLE);
	all_is_well();
	CHECK(word(there.memory) == 1234);
	OK(cuLibraryUnload(library));
}

/* ---- memsets and copies ---- */

#define BYTE(p, i) (((uint8_t *)(p))[i])

static void expect_bytes(CUdeviceptr p, const uint8_t *expected)
{
	uint8_t got[BYTES];

	OK(cuMemcpyDtoH_v2(got, p, BYTES));
	for (int i = 0; i < BYTES; i++)
		if (got[i] != expected[i]) {
			fprintf(stderr, "byte %d is %#x, not %#x\n", i, got[i], expected[i]);
			exit(1);
		}
}

/* The memsets run behind the work that the stream waits for: memory is unchanged before. */
static void memsets(CUdeviceptr p)
{
	uint8_t expected[BYTES] = {0}, zeros[BYTES] = {0};
	uint32_t *words = (uint32_t *)expected;
	uint16_t *halves = (uint16_t *)expected;

	clear(p);
	hold(&there);
	OK(cuMemsetD8Async(p, 0x11, 16, there.stream));
	OK(cuMemsetD16Async(p + 16, 0x2233, 8, there.stream));
	OK(cuMemsetD32Async(p + 32, 0x44556677, 4, there.stream));
	OK(cuMemsetD2D8Async(p + 64, 16, 0x88, 3, 2, there.stream));
	OK(cuMemsetD2D16Async(p + 128, 16, 0x99aa, 3, 2, there.stream));
	OK(cuMemsetD2D32Async(p + 192, 16, 0xbbccddee, 3, 2, there.stream));
	OK((CUresult)cudaMemsetAsync((void *)(p + 256), 0x21, 16, (cudaStream_t)there.stream));
	OK((CUresult)cudaMemset2DAsync((void *)(p + 320), 16, 0x31, 3, 2, (cudaStream_t)there.stream));
	OK((CUresult)cudaMemset3DAsync((struct cudaPitchedPtr){(void *)(p + 384), 16, 16, 2}, 0x41,
				       (struct cudaExtent){3, 2, 2}, (cudaStream_t)there.stream));
	expect_bytes(p, zeros);
	go();
	OK(cuStreamSynchronize(there.stream));
	for (int i = 0; i < 16; i++) {
		expected[i] = 0x11;
		expected[256 + i] = 0x21;
	}
	for (int i = 0; i < 8; i++)
		halves[8 + i] = 0x2233;
	for (int i = 0; i < 4; i++)
		words[8 + i] = 0x44556677;
	for (int row = 0; row < 2; row++)
		for (int i = 0; i < 3; i++) {
			expected[64 + 16 * row + i] = 0x88;
			halves[64 + 8 * row + i] = 0x99aa;
			words[48 + 4 * row + i] = 0xbbccddee;
			expected[320 + 16 * row + i] = 0x31;
			expected[384 + 16 * row + i] = expected[416 + 16 * row + i] = 0x41;
		}
	expect_bytes(p, expected);
	GIVES(cuMemsetD32Async(p + 1, 0, 1, there.stream), CUDA_ERROR_INVALID_VALUE);
	all_is_well();
}

static void copies(void)
{
	uint32_t pageable[64], back[64] = {0}, *pinned = host + 64;
	CUDA_MEMCPY2D box = {.srcMemoryType = CU_MEMORYTYPE_HOST,
			     .srcHost = pageable,
			     .srcPitch = 16,
			     .dstMemoryType = CU_MEMORYTYPE_DEVICE,
			     .dstDevice = there.memory + 512,
			     .dstPitch = 64,
			     .WidthInBytes = 16,
			     .Height = 4};

	for (uint32_t i = 0; i < 64; i++)
		pageable[i] = pinned[i] = 1000 + i;
	clear(there.memory);
	hold(&there);
	OK(cuMemcpyHtoDAsync_v2(there.memory, pinned, 256, there.stream));
	CHECK(word(there.memory) == 0);
	go();
	OK(cuMemcpyHtoDAsync_v2(there.memory + 256, pageable, 256, there.stream));
	OK(cuMemcpy2DAsync_v2(&box, there.stream));
	OK(cuMemcpyDtoDAsync_v2(here.memory, there.memory, 256, there.stream));
	OK(cuMemcpyDtoHAsync_v2(back, here.memory, 256, there.stream));
	OK(cuStreamSynchronize(there.stream));
	CHECK(!memcmp(back, pageable, sizeof(back)));
	CHECK(word(there.memory + 256 + 4 * 63) == 1063 && word(there.memory + 512 + 64 + 4) == 1005);
	all_is_well();
}

/* An array of another context than the stream's may be refused: then at the call. */
static void arrays(void)
{
	const CUDA_ARRAY3D_DESCRIPTOR shape = {.Width = 64, .Format = CU_AD_FORMAT_UNSIGNED_INT32, .NumChannels = 1};
	CUDA_MEMCPY3D copy = {.srcMemoryType = CU_MEMORYTYPE_DEVICE,
			      .srcDevice = there.memory,
			      .dstMemoryType = CU_MEMORYTYPE_ARRAY,
			      .WidthInBytes = 256,
			      .Height = 1,
			      .Depth = 1},
		      back = {.srcMemoryType = CU_MEMORYTYPE_ARRAY,
			      .dstMemoryType = CU_MEMORYTYPE_DEVICE,
			      .dstDevice = here.memory,
			      .WidthInBytes = 256,
			      .Height = 1,
			      .Depth = 1};
	CUresult result = CUDA_SUCCESS;
	CUarray own, other;

	OK(cuArray3DCreate_v2(&other, &shape));
	OK(cuCtxSetCurrent(there.context));
	OK(cuArray3DCreate_v2(&own, &shape));
	OK(cuCtxSetCurrent(here.context));
	for (int i = 0; i < 2; i++) {
		copy.dstArray = back.srcArray = i ? other : own;
		clear(here.memory);
		OK(cuMemsetD32Async(there.memory, 21, WORDS, there.stream));
		result = cuMemcpy3DAsync_v2(&copy, there.stream);
		if (result == CUDA_SUCCESS)
			OK(cuMemcpy3DAsync_v2(&back, there.stream));
		all_is_well();
		CHECK(result == CUDA_SUCCESS ? word(here.memory + 252) == 21 : i == 1);
	}
	OK(cuArrayDestroy(own));
	OK(cuArrayDestroy(other));
}

/* ---- memory in stream order, values in memory, host functions, events ---- */

static void allocations(void)
{
	CUdeviceptr p;

	hold(&there);
	OK(cuMemAllocAsync(&p, BYTES, there.stream));
	OK(cuMemsetD32Async(p, 7, WORDS, there.stream));
	OK(cuMemcpyDtoDAsync_v2(there.memory, p, BYTES, there.stream));
	OK(cuMemFreeAsync(p, there.stream));
	go();
	OK(cuStreamSynchronize(there.stream));
	CHECK(word(there.memory) == 7 && word(there.memory + BYTES - 4) == 7);
	all_is_well();
}

static void values(void)
{
	CUstreamBatchMemOpParams ops[2] = {{.pad = {0}}, {.pad = {0}}};

	host[1] = host[2] = host[3] = 0;
	hold(&there);
	OK(cuStreamWriteValue32_v2(there.stream, (CUdeviceptr)&host[1], 5, 0));
	for (int i = 0; i < 2; i++) {
		ops[i].writeValue.operation = CU_STREAM_MEM_OP_WRITE_VALUE_32;
		ops[i].writeValue.address = (CUdeviceptr)&host[2 + i];
		ops[i].writeValue.value = 6 + (uint32_t)i;
	}
	OK(cuStreamBatchMemOp_v2(there.stream, 2, ops, 0));
	CHECK(__atomic_load_n(&host[1], __ATOMIC_ACQUIRE) == 0);
	go();
	OK(cuStreamSynchronize(there.stream));
	CHECK(host[1] == 5 && host[2] == 6 && host[3] == 7);
	all_is_well();
}

static int called;

static void function(void *user)
{
	called = called * 10 + *(int *)user;
}

static void callback(CUstream stream, CUresult status, void *user)
{
	function(user);
	if (stream != there.stream || status != CUDA_SUCCESS)
		called = -1;
}

static void host_functions(void)
{
	int one = 1, two = 2;

	hold(&there);
	OK(cuLaunchHostFunc(there.stream, function, &one));
	OK(cuStreamAddCallback(there.stream, callback, &two, 0));
	CHECK(called == 0);
	go();
	OK(cuStreamSynchronize(there.stream));
	CHECK(called == 12);
	all_is_well();
}

/* An event is recorded in its own context's streams, and may be waited for in all. */
static void events(void)
{
	int least, greatest, priority = 77;

	clear(there.memory);
	GIVES(cuEventRecord(here.event, there.stream), CUDA_ERROR_INVALID_HANDLE);
	GIVES(cuEventRecord(there.event, here.stream), CUDA_ERROR_INVALID_HANDLE);
	GIVES(cuEventRecord(there.event, NULL), CUDA_ERROR_INVALID_HANDLE);
	hold(&here);
	OK(cuEventRecord(here.event, here.stream));
	OK(cuStreamWaitEvent(there.stream, here.event, 0));
	OK(cuMemsetD32Async(there.memory, 9, 1, there.stream));
	OK(cuEventRecord(there.event, there.stream));
	GIVES(cuEventQuery(there.event), CUDA_ERROR_NOT_READY);
	CHECK(word(there.memory) == 0);
	go();
	OK(cuEventSynchronize(there.event));
	CHECK(word(there.memory) == 9);
	OK(cuCtxGetStreamPriorityRange(&least, &greatest));
	OK(cuStreamGetPriority(there.stream, &priority));
	CHECK(priority <= least && priority >= greatest);
	all_is_well();
}

/* ---- graphs ---- */

static CUgraphNode add_note(CUgraph graph, const CUgraphNode *after, CUfunction f, CUdeviceptr p, uint32_t k)
{
	void *params[] = {&p, &k};
	CUDA_KERNEL_NODE_PARAMS n = {.func = f,
				     .gridDimX = 1,
				     .gridDimY = 1,
				     .gridDimZ = 1,
				     .blockDimX = 1,
				     .blockDimY = 1,
				     .blockDimZ = 1,
				     .kernelParams = params};
	CUgraphNode node;

	OK(cuGraphAddKernelNode_v2(&node, graph, after, after ? 1 : 0, &n));
	return node;
}

/* Kernels run in their functions' contexts, wherever the graph is launched, and in its order. */
static void graphs(void)
{
	CUgraphExec exec;
	CUgraphNode last;
	CUgraph graph;

	OK(cuGraphCreate(&graph, 0));
	last = add_note(graph, NULL, there.note, there.memory, 1);
	last = add_note(graph, &last, here.note, there.memory, 2);
	last = add_note(graph, &last, there.note, there.memory, 3);
	OK(cuGraphInstantiateWithFlags(&exec, graph, 0));
	for (int i = 0; i < 4; i++) {
		clear(there.memory);
		OK(cuGraphLaunch(exec, i % 2 ? there.stream : here.stream));
		all_is_well();
		CHECK(word(there.memory) == 123);
	}
	/* Two launches of one graph do not overlap, be they in streams of two contexts. */
	clear(there.memory);
	hold(&here);
	OK(cuGraphLaunch(exec, here.stream));
	OK(cuGraphLaunch(exec, there.stream));
	CHECK(word(there.memory) == 0);
	go();
	OK(cuStreamSynchronize(there.stream));
	CHECK(word(there.memory) == 123123);
	all_is_well();
	OK(cuGraphExecDestroy(exec));
	OK(cuGraphDestroy(graph));
}

static void captured(void)
{
	CUgraphExec exec;
	CUgraph graph;

	clear(there.memory);
	OK(cuStreamBeginCapture_v2(there.stream, CU_STREAM_CAPTURE_MODE_RELAXED));
	OK(note(there.note, there.memory, 1, there.stream));
	OK(cuMemsetD32Async(there.memory + 4, 5, 1, there.stream));
	OK(note(there.note, there.memory, 2, there.stream));
	OK(cuStreamEndCapture(there.stream, &graph));
	OK(cuGraphInstantiateWithFlags(&exec, graph, 0));
	for (int i = 0; i < 4; i++)
		OK(cuGraphLaunch(exec, there.stream));
	all_is_well();
	CHECK(word(there.memory) == 12121212 && word(there.memory + 4) == 5);
	OK(cuGraphExecDestroy(exec));
	OK(cuGraphDestroy(graph));
}

/*
 * A graph that was launched last in a stream of a context that is gone; and that stream, which went with it: CUDA says
 * nothing of a handle of what is no more, and NVIDIA's driver reads what it points to. Here it is refused.
 */
static void destroyed(bool native)
{
	CUgraphExec exec;
	CUgraph graph;

	clear(here.memory);
	OK(cuGraphCreate(&graph, 0));
	add_note(graph, NULL, here.note, here.memory, 1);
	OK(cuGraphInstantiateWithFlags(&exec, graph, 0));
	OK(cuGraphLaunch(exec, there.stream));
	all_is_well();
	OK(cuCtxDestroy_v2(there.context));
	OK(cuGraphLaunch(exec, here.stream));
	OK(cuStreamSynchronize(here.stream));
	CHECK(word(here.memory) == 11);
	if (!native) {
		CHECK(cuMemsetD32Async(here.memory, 1, 1, there.stream) != CUDA_SUCCESS);
		CHECK(note(here.note, here.memory, 1, there.stream) != CUDA_SUCCESS);
	}
	OK(cuCtxSynchronize());
}

int main(int argc, char **argv)
{
	OK(cuInit(0));
	OK(cuDeviceGet(&device, 0));
	OK(cuDevicePrimaryCtxRetain(&here.context, device));
	OK(cuCtxCreate_v2(&there.context, 0, device));
	make(&there);
	make(&here);
	OK(cuMemHostAlloc((void **)&host, 4096, CU_MEMHOSTALLOC_PORTABLE));
	all_is_well();
	refused_launches();
	launches();
	memsets(there.memory);
	memsets(here.memory);
	copies();
	arrays();
	allocations();
	values();
	host_functions();
	events();
	graphs();
	captured();
	destroyed(argc > 1 && !strcmp(argv[1], "native"));
	printf("other-context: passed\n");
	return 0;
}
