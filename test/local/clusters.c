/* SPDX-License-Identifier: Apache-2.0 */
/* Launches with clusters of blocks: on a device that has them, and the refusal of one that has not. */
#include "api.h"

enum { BLOCKS = 8 };

/* Each block stores how many blocks its cluster has, times 100, and which one it is. */
static const char ptx[] = ".version 7.8\n.target sm_90\n.address_size 64\n.visible .entry rank(.param .u64 p)\n{\n"
			  ".reg .b32 %r<6>; .reg .b64 %l<3>;\nld.param.u64 %l1, [p];\nmov.u32 %r1, %ctaid.x;\n"
			  "mov.u32 %r2, %cluster_nctarank;\nmov.u32 %r3, %cluster_ctarank;\nmul.lo.u32 %r4, %r2, 100;\n"
			  "add.u32 %r4, %r4, %r3;\nmul.wide.u32 %l2, %r1, 4;\nadd.u64 %l1, %l1, %l2;\n"
			  "st.global.u32 [%l1], %r4;\nret;\n}\n";

static CUfunction function;
static CUdeviceptr memory;

static CUresult launch(unsigned int cluster, unsigned int blocks, CUstream stream)
{
	CUlaunchAttribute attribute = {.id = CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION};
	CUlaunchConfig config = {.gridDimX = blocks,
				 .gridDimY = 1,
				 .gridDimZ = 1,
				 .blockDimX = 1,
				 .blockDimY = 1,
				 .blockDimZ = 1,
				 .hStream = stream,
				 .attrs = &attribute,
				 .numAttrs = 1};
	void *params[] = {&memory};

	attribute.value.clusterDim.x = cluster;
	attribute.value.clusterDim.y = attribute.value.clusterDim.z = 1;
	return cuLaunchKernelEx(&config, function, params, NULL);
}

static void check_ranks(unsigned int cluster)
{
	uint32_t ranks[BLOCKS];

	OK(cuMemcpyDtoH_v2(ranks, memory, sizeof(ranks)));
	for (unsigned int i = 0; i < BLOCKS; i++)
		CHECK(ranks[i] == 100 * cluster + i % cluster);
	OK(cuMemsetD32Async(memory, 0, BLOCKS, NULL));
	OK(cuCtxSynchronize());
}

/* A captured launch keeps its clusters. */
static void captures(unsigned int cluster)
{
	CUstream stream;
	CUgraphExec exec;
	CUgraph graph;

	OK(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
	OK(cuStreamBeginCapture_v2(stream, CU_STREAM_CAPTURE_MODE_GLOBAL));
	OK(launch(cluster, BLOCKS, stream));
	OK(cuStreamEndCapture(stream, &graph));
	OK(cuGraphInstantiateWithFlags(&exec, graph, 0));
	OK(cuGraphLaunch(exec, stream));
	OK(cuStreamSynchronize(stream));
	check_ranks(cluster);
}

static void occupancy(bool has)
{
	CUlaunchAttribute attribute = {.id = CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION};
	CUlaunchConfig config = {.gridDimX = BLOCKS,
				 .gridDimY = 1,
				 .gridDimZ = 1,
				 .blockDimX = 32,
				 .blockDimY = 1,
				 .blockDimZ = 1,
				 .attrs = &attribute,
				 .numAttrs = 1};
	int n = 0, size = 0;

	attribute.value.clusterDim.x = has ? 2 : 1;
	attribute.value.clusterDim.y = attribute.value.clusterDim.z = 1;
	OK(cuOccupancyMaxActiveClusters(&n, function, &config));
	CHECK(n > 0);
	config.numAttrs = 0;
	OK(cuOccupancyMaxPotentialClusterSize(&size, function, &config));
	CHECK(has ? size >= 8 : size == 1);
	GIVES(cuOccupancyMaxActiveClusters(NULL, function, &config), CUDA_ERROR_INVALID_VALUE);
	GIVES(cuOccupancyMaxActiveClusters(&n, (CUfunction)(uintptr_t)77, &config), CUDA_ERROR_INVALID_HANDLE);
}

int main(void)
{
	CUcontext context;
	CUmodule module;
	int has;

	OK(cuInit(0));
	OK(cuDevicePrimaryCtxRetain(&context, 0));
	OK(cuCtxSetCurrent(context));
	OK(cuMemAlloc_v2(&memory, 4 * BLOCKS));
	OK(cuDeviceGetAttribute(&has, CU_DEVICE_ATTRIBUTE_CLUSTER_LAUNCH, 0));
	OK(cuModuleLoadData(&module, ptx));
	OK(cuModuleGetFunction(&function, module, "rank"));
	OK(launch(1, BLOCKS, NULL));
	check_ranks(1);
	if (has) {
		OK(launch(2, BLOCKS, NULL));
		check_ranks(2);
		OK(launch(4, BLOCKS, NULL));
		check_ranks(4);
		captures(4);
		GIVES(launch(2, BLOCKS - 1, NULL), CUDA_ERROR_INVALID_VALUE);
	} else {
		GIVES(launch(2, BLOCKS, NULL), CUDA_ERROR_NOT_SUPPORTED);
	}
	occupancy(has);
	printf("clusters: passed\n");
	return 0;
}
