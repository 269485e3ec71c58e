/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Calls of cuBLAS, cuBLASLt and cuRAND on a stream that is captured. The capture computes nothing, and each launch of
 * the graph computes the calls, in order with the work around them. Also with NVIDIA's libraries in place of ours.
 */
#include "api.h"

enum { N = 32, COUNT = N * N, POINTER_DEVICE = 1, PHILOX = 161, R_32F = 0, COMPUTE_32F = 68 };

int cublasCreate_v2(void **handle);
int cublasDestroy_v2(void *handle);
int cublasSetStream_v2(void *handle, CUstream stream);
int cublasSetPointerMode_v2(void *handle, int mode);
int cublasSscal_v2(void *h, int n, const float *alpha, float *x, int incx);
int cublasSdot_v2(void *h, int n, const float *x, int incx, const float *y, int incy, float *result);
int cublasSgemm_v2(void *h, int ta, int tb, int m, int n, int k, const float *alpha, const float *a, int lda,
		   const float *b, int ldb, const float *beta, float *c, int ldc);
int cublasLtCreate(void **handle);
int cublasLtDestroy(void *handle);
int cublasLtMatmulDescCreate(void **desc, int compute, int scale);
int cublasLtMatmulDescDestroy(void *desc);
int cublasLtMatrixLayoutCreate(void **layout, int type, uint64_t rows, uint64_t columns, int64_t ld);
int cublasLtMatrixLayoutDestroy(void *layout);
int cublasLtMatmul(void *handle, void *desc, const void *alpha, const void *a, void *layout_a, const void *b,
		   void *layout_b, const void *beta, const void *c, void *layout_c, void *d, void *layout_d,
		   const void *algo, void *workspace, size_t bytes, CUstream stream);
int curandCreateGenerator(void **generator, int type);
int curandDestroyGenerator(void *generator);
int curandSetStream(void *generator, CUstream stream);
int curandSetPseudoRandomGeneratorSeed(void *generator, unsigned long long seed);
int curandGenerateUniform(void *generator, float *out, size_t n);

static CUstream stream;
static void *blas, *lt, *generator;
static float *a, *b, *c, *factor;
static float host[COUNT];

static CUdeviceptr at(const float *p)
{
	return (CUdeviceptr)(uintptr_t)p;
}

static float *memory(void)
{
	CUdeviceptr p;

	OK(cuMemAlloc_v2(&p, sizeof(host)));
	return (float *)(uintptr_t)p;
}

static void fill(float *p, float value)
{
	uint32_t word;

	memcpy(&word, &value, sizeof(word));
	OK(cuMemsetD32Async(at(p), word, COUNT, stream));
}

static void expect(const float *p, float value)
{
	OK(cuStreamSynchronize(stream));
	OK(cuMemcpyDtoH_v2(host, at(p), sizeof(host)));
	for (int i = 0; i < COUNT; i++) {
		if (host[i] != value)
			fprintf(stderr, "%d: %g, not %g\n", i, (double)host[i], (double)value);
		CHECK(host[i] == value);
	}
}

/* c = alpha a b, all of ones: N alpha; then c *= *factor. Scalars of the host's are those of the call. */
static CUgraph capture(float alpha)
{
	float none = 0;
	CUgraph graph;

	OK(cuStreamBeginCapture_v2(stream, CU_STREAM_CAPTURE_MODE_GLOBAL));
	fill(a, 1);
	CHECK(!cublasSgemm_v2(blas, 0, 0, N, N, N, &alpha, a, N, b, N, &none, c, N));
	alpha = none = 77;
	CHECK(!cublasSetPointerMode_v2(blas, POINTER_DEVICE));
	CHECK(!cublasSscal_v2(blas, COUNT, factor, c, 1));
	CHECK(!cublasSetPointerMode_v2(blas, 0));
	OK(cuStreamEndCapture(stream, &graph));
	return graph;
}

static bool native; /* NVIDIA's libraries and driver */

static CUgraphNode last(CUgraph graph)
{
	CUgraphNode nodes[16];
	size_t count = 16;

	OK(cuGraphGetNodes(graph, nodes, &count));
	/* Natively a product may be several kernels. */
	if (native)
		printf("%zu nodes\n", count);
	CHECK(native ? count >= 2 : count == 3);
	return nodes[count - 1];
}

static void launched(void)
{
	CUgraph graph = capture(2), other = capture(3);
	CUgraphExecUpdateResultInfo info;
	CUgraphExec exec;

	fill(a, 5);
	fill(b, 1);
	fill(c, 9);
	fill(factor, 1);
	expect(c, 9); /* nothing was computed yet */
	OK(cuGraphInstantiateWithFlags(&exec, graph, 0));
	for (int i = 1; i < 5; i++) {
		fill(factor, (float)i);
		OK(cuGraphLaunch(exec, stream));
		expect(c, 2.0f * N * (float)i);
		expect(a, 1);
	}
	OK(cuGraphNodeSetEnabled(exec, last(graph), 0));
	OK(cuGraphLaunch(exec, stream));
	expect(c, 2.0f * N);
	OK(cuGraphNodeSetEnabled(exec, last(graph), 1));
	OK(cuGraphExecUpdate_v2(exec, other, &info));
	OK(cuGraphLaunch(exec, stream));
	expect(c, 3.0f * N * 4);
	OK(cuGraphDestroy(graph));
	OK(cuGraphDestroy(other));
	OK(cuGraphLaunch(exec, stream)); /* has its own of everything */
	expect(c, 3.0f * N * 4);
	OK(cuGraphExecDestroy(exec));
}

/* As a part of another graph, launched from a stream of its own. */
static void inside(void)
{
	CUgraph graph = capture(2), around;
	CUgraphExec exec;
	CUstream elsewhere;

	OK(cuStreamCreate(&elsewhere, CU_STREAM_NON_BLOCKING));
	fill(b, 2);
	fill(factor, 0.5f);
	OK(cuStreamSynchronize(stream));
	OK(cuStreamBeginCapture_v2(stream, CU_STREAM_CAPTURE_MODE_RELAXED));
	OK(cuStreamEndCapture(stream, &around));
	for (int i = 0; i < 2; i++) {
		CUgraphNodeParams child = {.type = CU_GRAPH_NODE_TYPE_GRAPH, .graph.graph = graph};
		CUgraphNode node;

		OK(cuGraphAddNode_v2(&node, around, NULL, NULL, 0, &child));
	}
	OK(cuGraphDestroy(graph));
	OK(cuGraphInstantiateWithFlags(&exec, around, 0));
	OK(cuGraphLaunch(exec, elsewhere));
	OK(cuStreamSynchronize(elsewhere));
	expect(c, 2.0f * N);
	OK(cuGraphExecDestroy(exec));
	OK(cuGraphDestroy(around));
	OK(cuStreamDestroy_v2(elsewhere));
}

static void shown(void)
{
	CUgraph graph = capture(1);
	CUgraphNode node = last(graph);
	CUgraphNodeType type;
	char path[] = "/tmp/computations-XXXXXX", text[4096] = "";
	int fd = mkstemp(path);
	FILE *f;

	OK(cuGraphNodeGetType(node, &type));
	CHECK(type == CU_GRAPH_NODE_TYPE_KERNEL);
	CHECK(fd >= 0);
	OK(cuGraphDebugDotPrint(graph, path, 0));
	f = fdopen(fd, "r");
	CHECK(f && fread(text, 1, sizeof(text) - 1, f) && strstr(text, "KERNEL"));
	fclose(f);
	remove(path);
	OK(cuGraphDestroy(graph));
}

/* virtio-cuda only: captures make computation nodes, and an application's call cannot make or read one. */
static void not_given(void)
{
	CUgraph graph = capture(1);
	CUgraphNode node = last(graph), another;
	CUgraphNodeParams params = {.type = (CUgraphNodeType)(CU_GRAPH_NODE_TYPE_CONDITIONAL + 1)};
	CUDA_KERNEL_NODE_PARAMS kernel;

	GIVES(cuGraphKernelNodeGetParams_v2(node, &kernel), CUDA_ERROR_INVALID_VALUE);
	GIVES(cuGraphNodeSetParams(node, &params), CUDA_ERROR_INVALID_VALUE);
	GIVES(cuGraphAddNode_v2(&another, graph, NULL, NULL, 0, &params), CUDA_ERROR_INVALID_VALUE);
	OK(cuGraphDestroy(graph));
}

static void matmul(void)
{
	void *desc, *layout;
	float alpha = 0.5f, none = 0;
	CUgraph graph;
	CUgraphExec exec;

	CHECK(!cublasLtMatmulDescCreate(&desc, COMPUTE_32F, R_32F) &&
	      !cublasLtMatrixLayoutCreate(&layout, R_32F, N, N, N));
	fill(a, 1);
	fill(b, 1);
	/* Which algorithm there is, is known before. */
	CHECK(!cublasLtMatmul(lt, desc, &alpha, a, layout, b, layout, &none, c, layout, c, layout, NULL, NULL, 0,
			      stream));
	fill(c, 9);
	expect(c, 9);
	OK(cuStreamBeginCapture_v2(stream, CU_STREAM_CAPTURE_MODE_GLOBAL));
	CHECK(!cublasLtMatmul(lt, desc, &alpha, a, layout, b, layout, &none, c, layout, c, layout, NULL, NULL, 0,
			      stream));
	OK(cuStreamEndCapture(stream, &graph));
	alpha = 77;
	CHECK(!cublasLtMatmulDescDestroy(desc) && !cublasLtMatrixLayoutDestroy(layout));
	expect(c, 9);
	OK(cuGraphInstantiateWithFlags(&exec, graph, 0));
	OK(cuGraphDestroy(graph));
	OK(cuGraphLaunch(exec, stream));
	expect(c, 0.5f * N);
	OK(cuGraphExecDestroy(exec));
}

static void expect_uniform(const float *p)
{
	float sum = 0;

	OK(cuMemcpyDtoH_v2(host, at(p), sizeof(host)));
	for (int i = 0; i < COUNT; i++) {
		CHECK(host[i] > 0 && host[i] <= 1);
		sum += host[i] / COUNT;
	}
	CHECK(sum > 0.45f && sum < 0.55f);
}

/* The generator's context is not that of the stream that the graph is launched in. */
static void in_another_context(CUgraphExec exec)
{
	CUcontext here, other;
	CUstream elsewhere;

	OK(cuCtxGetCurrent(&here));
	OK(cuCtxCreate_v2(&other, 0, 0));
	OK(cuStreamCreate(&elsewhere, CU_STREAM_NON_BLOCKING));
	OK(cuCtxSetCurrent(here));
	fill(c, -1);
	expect(c, -1);
	OK(cuGraphLaunch(exec, elsewhere));
	OK(cuStreamSynchronize(elsewhere));
	expect_uniform(c);
	OK(cuCtxSetCurrent(other));
	OK(cuCtxSynchronize());
	OK(cuCtxDestroy_v2(other));
	OK(cuCtxSetCurrent(here));
}

static void numbers(void)
{
	CUgraph graph;
	CUgraphExec exec;

	/* The generator's first call may allocate. */
	CHECK(!curandGenerateUniform(generator, c, COUNT));
	fill(c, -1);
	expect(c, -1);
	OK(cuStreamBeginCapture_v2(stream, CU_STREAM_CAPTURE_MODE_GLOBAL));
	CHECK(!curandGenerateUniform(generator, c, COUNT));
	OK(cuStreamEndCapture(stream, &graph));
	expect(c, -1);
	OK(cuGraphInstantiateWithFlags(&exec, graph, 0));
	OK(cuGraphDestroy(graph));
	OK(cuGraphLaunch(exec, stream));
	OK(cuStreamSynchronize(stream));
	expect_uniform(c);
	in_another_context(exec);
	OK(cuGraphExecDestroy(exec));
}

/* A result in the host's memory has to be waited for. */
static void waited_for(void)
{
	CUgraph graph = NULL;
	float result;

	OK(cuStreamBeginCapture_v2(stream, CU_STREAM_CAPTURE_MODE_GLOBAL));
	CHECK(cublasSdot_v2(blas, N, a, 1, b, 1, &result));
	GIVES(cuStreamEndCapture(stream, &graph), CUDA_ERROR_STREAM_CAPTURE_INVALIDATED);
	CHECK(!graph);
}

int main(int argc, char **argv)
{
	CUcontext context;

	OK(cuInit(0));
	OK(cuDevicePrimaryCtxRetain(&context, 0));
	OK(cuCtxSetCurrent(context));
	OK(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
	a = memory(), b = memory(), c = memory(), factor = memory();
	CHECK(!cublasCreate_v2(&blas) && !cublasSetStream_v2(blas, stream) && !cublasLtCreate(&lt));
	CHECK(!curandCreateGenerator(&generator, PHILOX) && !curandSetStream(generator, stream));
	CHECK(!curandSetPseudoRandomGeneratorSeed(generator, 5));
	launched();
	inside();
	shown();
	native = argc > 1 && !strcmp(argv[1], "native");
	if (!native)
		not_given();
	matmul();
	numbers();
	waited_for();
	CHECK(!curandDestroyGenerator(generator) && !cublasLtDestroy(lt) && !cublasDestroy_v2(blas));
	puts("computations: passed");
	return 0;
}
