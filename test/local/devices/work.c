/* SPDX-License-Identifier: Apache-2.0 */
/* Work of several devices: order, kernels that wait for each other, graphs. */
#include "devices.h"

void events(void)
{
	CUevent event, own, theirs;
	float ms;

	open_devices();
	for (int i = 0; i < device_count; i++) {
		int to = (i + 1) % device_count;
		struct device *a = &devices[i], *b = &devices[to];

		use(i);
		fill(a->memory, 7);
		for (uint32_t k = 0; k < 50; k++)
			add(i, a->memory, 1);
		OK(cuEventCreate(&event, CU_EVENT_DISABLE_TIMING));
		OK(cuEventRecord(event, a->stream));
		use(to);
		/* An event is recorded in streams of its own device. */
		GIVES(cuEventRecord(event, b->stream), CUDA_ERROR_INVALID_HANDLE);
		OK(cuStreamWaitEvent(b->stream, event, 0));
		OK(cuMemcpyPeerAsync(b->memory, b->context, a->memory, a->context, BYTES, b->stream));
		add(to, b->memory, 1);
		OK(finish(to));
		expect(b->memory, 58);
		OK(cuEventSynchronize(event));
		OK(cuEventDestroy_v2(event));
	}
	use(0);
	OK(cuEventCreate(&own, 0));
	OK(cuEventRecord(own, devices[0].stream));
	OK(finish(0));
	use(1);
	OK(cuEventCreate(&theirs, 0));
	OK(cuEventRecord(theirs, devices[1].stream));
	OK(finish(1));
	GIVES(cuEventElapsedTime(&ms, own, theirs), CUDA_ERROR_INVALID_HANDLE);
}

/* The parameters of kernels that meet: words that all devices reach, those of the host, and the number of kernels. */
struct meeting {
	CUdeviceptr p;
	uint32_t n, *words;
	void *params[2];
};

static void begin_meeting(struct meeting *m)
{
	void *p;

	open_devices();
	OK(cuMemHostAlloc(&p, 4096, CU_MEMHOSTALLOC_PORTABLE | CU_MEMHOSTALLOC_DEVICEMAP));
	memset(p, 0, 4096);
	*m = (struct meeting){(CUdeviceptr)(uintptr_t)p, (uint32_t)device_count, p, {&m->p, &m->n}};
}

static void expect_meeting(const struct meeting *m)
{
	CHECK(m->words[0] == m->n);
	for (uint32_t i = 0; i < m->n; i++)
		CHECK(m->words[1 + i] == i + 1);
}

/* One cooperative launch a device, of kernels that wait for one another. */
void cooperative(void)
{
	struct meeting m;

	begin_meeting(&m);
	for (int i = 0; i < device_count; i++) {
		use(i);
		OK(cuLaunchCooperativeKernel(devices[i].meet, 1, 1, 1, 1, 1, 1, 0, devices[i].stream, m.params));
	}
	for (int i = 0; i < device_count; i++)
		OK(finish(i));
	expect_meeting(&m);
}

/* The same in one call, which fails as a whole. */
void several_launches(void)
{
	CUDA_LAUNCH_PARAMS all[MOST], bad[MOST];
	struct meeting m;

	begin_meeting(&m);
	for (int i = 0; i < device_count; i++) {
		all[i] = (CUDA_LAUNCH_PARAMS){devices[i].meet, 1, 1, 1, 1, 1, 1, 0, devices[i].stream, m.params};
	}
	use(0);
	memcpy(bad, all, sizeof(all));
	bad[1] = bad[0];
	GIVES(cuLaunchCooperativeKernelMultiDevice(bad, m.n, 0), CUDA_ERROR_INVALID_DEVICE);
	memcpy(bad, all, sizeof(all));
	bad[1].hStream = NULL;
	GIVES(cuLaunchCooperativeKernelMultiDevice(bad, m.n, 0), CUDA_ERROR_INVALID_HANDLE);
	bad[1].hStream = CU_STREAM_PER_THREAD;
	GIVES(cuLaunchCooperativeKernelMultiDevice(bad, m.n, 0), CUDA_ERROR_INVALID_HANDLE);
	memcpy(bad, all, sizeof(all));
	bad[1].gridDimX = 2;
	GIVES(cuLaunchCooperativeKernelMultiDevice(bad, m.n, 0), CUDA_ERROR_INVALID_VALUE);
	GIVES(cuLaunchCooperativeKernelMultiDevice(all, m.n, 77), CUDA_ERROR_INVALID_VALUE);
	GIVES(cuLaunchCooperativeKernelMultiDevice(all, 0, 0), CUDA_ERROR_INVALID_VALUE);
	GIVES(cuLaunchCooperativeKernelMultiDevice(all, m.n + 1, 0), CUDA_ERROR_INVALID_VALUE);
	CHECK(m.words[0] == 0);
	OK(cuLaunchCooperativeKernelMultiDevice(all, m.n, 0));
	/* Afterwards all streams have done all their work. */
	OK(finish(0));
	expect_meeting(&m);
	memset(m.words, 0, 4096);
	OK(cuLaunchCooperativeKernelMultiDevice(all, m.n,
						CUDA_COOPERATIVE_LAUNCH_MULTI_DEVICE_NO_PRE_LAUNCH_SYNC |
							CUDA_COOPERATIVE_LAUNCH_MULTI_DEVICE_NO_POST_LAUNCH_SYNC));
	for (int i = 0; i < device_count; i++)
		OK(finish(i));
	expect_meeting(&m);
}

/* ---- graphs ---- */

static void launch_graph(CUgraph graph, int times)
{
	CUgraphExec exec;

	OK(cuGraphInstantiateWithFlags(&exec, graph, 0));
	for (int i = 0; i < times; i++)
		OK(cuGraphLaunch(exec, devices[0].stream));
	OK(finish(0));
	OK(cuGraphExecDestroy(exec));
	OK(cuGraphDestroy(graph));
}

/* A graph of both devices by capture: device 0 adds, device 1 takes a copy and adds, and device 0 gets it back. */
static void capture(void)
{
	struct device *a = &devices[0], *b = &devices[1];
	CUevent forth, back;
	CUgraph graph;

	use(1);
	OK(cuEventCreate(&back, CU_EVENT_DISABLE_TIMING));
	use(0);
	OK(cuEventCreate(&forth, CU_EVENT_DISABLE_TIMING));
	fill(a->memory, 0);
	OK(cuStreamBeginCapture_v2(a->stream, CU_STREAM_CAPTURE_MODE_RELAXED));
	add(0, a->memory, 1);
	OK(cuEventRecord(forth, a->stream));
	use(1);
	OK(cuStreamWaitEvent(b->stream, forth, 0));
	OK(cuMemcpyAsync(b->memory, a->memory, BYTES, b->stream));
	add(1, b->memory, 10);
	OK(cuEventRecord(back, b->stream));
	use(0);
	OK(cuStreamWaitEvent(a->stream, back, 0));
	OK(cuMemcpyAsync(a->memory, b->memory, BYTES, a->stream));
	OK(cuStreamEndCapture(a->stream, &graph));
	launch_graph(graph, 3);
	expect(a->memory, 33);
}

/* The driver takes no copy between contexts into a graph by its own functions. */
static void refused_copies(void)
{
	struct device *a = &devices[0], *b = &devices[1];
	CUDA_MEMCPY3D_PEER box = {
		.srcMemoryType = CU_MEMORYTYPE_DEVICE,
		.srcDevice = a->memory,
		.srcContext = a->context,
		.dstMemoryType = CU_MEMORYTYPE_DEVICE,
		.dstDevice = b->memory,
		.dstContext = b->context,
		.WidthInBytes = 64,
		.Height = 1,
		.Depth = 1,
	};
	CUgraph graph;

	use(0);
	OK(cuStreamBeginCapture_v2(a->stream, CU_STREAM_CAPTURE_MODE_RELAXED));
	GIVES(cuMemcpyPeerAsync(b->memory, b->context, a->memory, a->context, BYTES, a->stream),
	      CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
	GIVES(cuStreamEndCapture(a->stream, &graph), CUDA_ERROR_STREAM_CAPTURE_INVALIDATED);
	OK(cuStreamBeginCapture_v2(a->stream, CU_STREAM_CAPTURE_MODE_RELAXED));
	GIVES(cuMemcpy3DPeerAsync(&box, a->stream), CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
	GIVES(cuStreamEndCapture(a->stream, &graph), CUDA_ERROR_STREAM_CAPTURE_INVALIDATED);
}

/* The same by nodes, each for a device by its function. */
static void add_nodes(void)
{
	CUgraphNode first, second;
	CUdeviceptr p[2];
	uint32_t k[2] = {3, 5};
	void *params[2][2] = {{&p[0], &k[0]}, {&p[1], &k[1]}};
	CUDA_KERNEL_NODE_PARAMS node[2];
	CUgraph graph;

	for (int i = 0; i < 2; i++) {
		p[i] = devices[i].memory;
		use(i);
		fill(p[i], 0);
		node[i] = (CUDA_KERNEL_NODE_PARAMS){
			.func = devices[i].add,
			.gridDimX = WORDS / 256,
			.gridDimY = 1,
			.gridDimZ = 1,
			.blockDimX = 256,
			.blockDimY = 1,
			.blockDimZ = 1,
			.kernelParams = params[i],
		};
	}
	use(0);
	OK(cuGraphCreate(&graph, 0));
	OK(cuGraphAddKernelNode_v2(&first, graph, NULL, 0, &node[0]));
	use(1);
	OK(cuGraphAddKernelNode_v2(&second, graph, &first, 1, &node[1]));
	launch_graph(graph, 2);
	use(0);
	expect(p[0], 6);
	use(1);
	expect(p[1], 10);
}

void graphs(void)
{
	open_devices();
	capture();
	refused_copies();
	add_nodes();
}
