/* SPDX-License-Identifier: Apache-2.0 */
/* Records say what was done. */
#include "cupti.h"

#include <time.h>
#include <unistd.h>

#define SMALL 4096u
#define LARGE (3u << 20)
#define LAUNCHES 5

static void enable(const uint32_t *kinds)
{
	for (; *kinds; kinds++)
		OK(cuptiActivityEnable(*kinds));
}

static uint32_t stream_id(CUstream stream)
{
	uint32_t id;

	OK(cuptiGetStreamId(context, stream, &id));
	return id;
}

static uint32_t context_id(void)
{
	uint32_t id;

	OK(cuptiGetContextId(context, &id));
	return id;
}

/* The call of a record of work. */
static const struct cupti_api_record *check_call(uint32_t correlation, const char *function)
{
	const struct cupti_api_record *call = find_call(correlation);

	CHECK(call && call->id == number_of(function));
	CHECK(call->result == CUDA_SUCCESS && call->start <= call->end);
	CHECK(call->process == (uint32_t)getpid() && call->thread == (uint32_t)gettid());
	return call;
}

static void check_kernels(CUstream streams[2])
{
	uint32_t before[2] = {0};

	CHECK(count_records(CUPTI_KIND_CONCURRENT_KERNEL) == 2 * LAUNCHES);
	for (unsigned int n = 0; n < 2 * LAUNCHES; n++) {
		const struct cupti_kernel_record *k = find_record(CUPTI_KIND_CONCURRENT_KERNEL, n);
		int which = k->stream == stream_id(streams[1]);
		int32_t grid = k->grid_x;

		CHECK(which || k->stream == stream_id(streams[0]));
		CHECK(!strcmp(k->name, which ? "second" : "first"));
		CHECK(grid >= 1 && grid <= LAUNCHES && k->grid_y == 1 && k->grid_z == 1);
		CHECK(k->block_x == (which ? 64 : 32) && k->block_y == 1 && k->block_z == 1);
		CHECK(k->static_shared_memory == (which ? 0 : 512));
		CHECK(k->dynamic_shared_memory == (which ? 0 : 256));
		CHECK(k->device == 0 && k->context == context_id());
		CHECK(k->start && k->start <= k->end && k->completed == k->end);
		check_call(k->correlation, "cuLaunchKernel");
		before[which] |= 1u << grid;
	}
	/* Each launch has its own grid. */
	CHECK(before[0] == ((1u << LAUNCHES) - 1) << 1 && before[1] == before[0]);
}

/* Kernels of one stream run in the order of their launches, which their grids tell. */
static void check_order(CUstream stream)
{
	const struct cupti_kernel_record *k, *ordered[LAUNCHES + 1] = {0};

	for (unsigned int n = 0; (k = find_record(CUPTI_KIND_CONCURRENT_KERNEL, n)); n++)
		if (k->stream == stream_id(stream))
			ordered[k->grid_x] = k;
	for (int i = 2; i <= LAUNCHES; i++) {
		CHECK(ordered[i]->correlation > ordered[i - 1]->correlation);
		CHECK(ordered[i]->start >= ordered[i - 1]->start);
		CHECK(find_call(ordered[i]->correlation)->start >= find_call(ordered[i - 1]->correlation)->end);
	}
}

static void check_memset(uint64_t bytes, uint32_t value, uint32_t stream, uint16_t flags, const char *function)
{
	const struct cupti_memset_record *r;

	for (unsigned int n = 0; (r = find_record(CUPTI_KIND_MEMSET, n)); n++)
		if (r->bytes == bytes)
			break;
	CHECK(r && r->value == value && r->stream == stream && r->flags == flags);
	CHECK(r->memory_kind == CUPTI_MEMORY_DEVICE && r->start <= r->end && r->context == context_id());
	check_call(r->correlation, function);
}

static void check_copy(uint64_t bytes, uint8_t kind, uint8_t from, uint8_t to, uint32_t stream, uint8_t flags,
		       const char *function)
{
	const struct cupti_memcpy_record *r, *found = NULL;

	for (unsigned int n = 0; (r = find_record(CUPTI_KIND_MEMCPY, n)); n++) {
		if (r->bytes != bytes)
			continue;
		CHECK(!found);
		found = r;
	}
	CHECK(found && found->copy_kind == kind && found->source_kind == from && found->destination_kind == to);
	CHECK(found->stream == stream && found->flags == flags && found->start <= found->end);
	CHECK(found->context == context_id() && found->device == 0);
	check_call(found->correlation, function);
}

void test_records(void)
{
	static const uint32_t kinds[] = {CUPTI_KIND_CONCURRENT_KERNEL,
					 CUPTI_KIND_MEMCPY,
					 CUPTI_KIND_MEMSET,
					 CUPTI_KIND_DRIVER,
					 CUPTI_KIND_CONTEXT,
					 CUPTI_KIND_DEVICE,
					 CUPTI_KIND_STREAM,
					 CUPTI_KIND_OVERHEAD,
					 0};
	static char pageable[LARGE];
	const struct cupti_context_record *c;
	const struct cupti_device_record *d;
	const struct cupti_stream_record *s;
	uint64_t begin, end;
	CUstream streams[2];
	CUdeviceptr data;
	void *pinned;
	int value;

	start_client();
	enable(kinds);
	start_device();
	OK(cuStreamCreate(&streams[0], CU_STREAM_NON_BLOCKING));
	OK(cuStreamCreateWithPriority(&streams[1], CU_STREAM_DEFAULT, 0));
	OK(cuMemAlloc_v2(&data, LARGE));
	OK(cuMemAllocHost_v2(&pinned, LARGE));
	OK(cuptiGetTimestamp(&begin));
	for (int i = 1; i <= LAUNCHES; i++) {
		launch(first, (unsigned int)i, 32, 256, data, streams[0]);
		launch(second, (unsigned int)i, 64, 0, data, streams[1]);
	}
	OK(cuMemsetD8_v2(data, 7, 1000));
	OK(cuMemsetD32Async(data, 9, 500, streams[0]));
	OK(cuMemcpyHtoDAsync_v2(data, pinned, SMALL, streams[0]));
	OK(cuMemcpyDtoHAsync_v2(pinned, data, SMALL + 1, streams[1]));
	OK(cuMemcpyDtoDAsync_v2(data, data + LARGE / 2, SMALL + 2, streams[0]));
	OK(cuMemcpyHtoD_v2(data, pageable, SMALL + 3));
	OK(cuMemcpyHtoD_v2(data, pageable, LARGE));
	OK(cuMemcpyDtoH_v2(pageable, data, LARGE - 1));
	GIVES(cuMemFree_v2(data + 1), CUDA_ERROR_INVALID_VALUE);
	OK(cuCtxSynchronize());
	OK(cuptiActivityFlushAll(0));
	OK(cuptiGetTimestamp(&end));

	check_kernels(streams);
	check_order(streams[0]);
	check_order(streams[1]);
	check_memset(1000, 7, stream_id(NULL), 0, "cuMemsetD8_v2");
	check_memset(2000, 9, stream_id(streams[0]), CUPTI_FLAG_ASYNC, "cuMemsetD32Async");
	check_copy(SMALL, CUPTI_COPY_HTOD, CUPTI_MEMORY_PINNED, CUPTI_MEMORY_DEVICE, stream_id(streams[0]),
		   CUPTI_FLAG_ASYNC, "cuMemcpyHtoDAsync_v2");
	check_copy(SMALL + 1, CUPTI_COPY_DTOH, CUPTI_MEMORY_DEVICE, CUPTI_MEMORY_PINNED, stream_id(streams[1]),
		   CUPTI_FLAG_ASYNC, "cuMemcpyDtoHAsync_v2");
	check_copy(SMALL + 2, CUPTI_COPY_DTOD, CUPTI_MEMORY_DEVICE, CUPTI_MEMORY_DEVICE, stream_id(streams[0]),
		   CUPTI_FLAG_ASYNC, "cuMemcpyDtoDAsync_v2");
	check_copy(SMALL + 3, CUPTI_COPY_HTOD, CUPTI_MEMORY_PAGEABLE, CUPTI_MEMORY_DEVICE, stream_id(NULL), 0,
		   "cuMemcpyHtoD_v2");
	check_copy(LARGE, CUPTI_COPY_HTOD, CUPTI_MEMORY_PAGEABLE, CUPTI_MEMORY_DEVICE, stream_id(NULL), 0,
		   "cuMemcpyHtoD_v2");
	check_copy(LARGE - 1, CUPTI_COPY_DTOH, CUPTI_MEMORY_DEVICE, CUPTI_MEMORY_PAGEABLE, stream_id(NULL), 0,
		   "cuMemcpyDtoH_v2");
	CHECK(count_records(CUPTI_KIND_MEMCPY) == 6 && count_records(CUPTI_KIND_MEMSET) == 2);
	CHECK(begin < end);

	CHECK(count_records(CUPTI_KIND_CONTEXT) == 1 && count_records(CUPTI_KIND_DEVICE) == 1);
	c = find_record(CUPTI_KIND_CONTEXT, 0);
	CHECK(c->context == context_id() && c->device == 0 && c->null_stream == stream_id(NULL));
	d = find_record(CUPTI_KIND_DEVICE, 0);
	OK(cuDeviceGetAttribute(&value, CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT, 0));
	CHECK(d->id == 0 && d->multiprocessors == (uint32_t)value && d->warp_size == 32 && *d->name);
	CHECK(count_records(CUPTI_KIND_STREAM) == 2);
	s = find_record(CUPTI_KIND_STREAM, 0);
	CHECK(s->stream == stream_id(streams[0]) && s->flag == CUPTI_STREAM_NON_BLOCKING);
	s = find_record(CUPTI_KIND_STREAM, 1);
	CHECK(s->stream == stream_id(streams[1]) && s->flag == CUPTI_STREAM_DEFAULT);
	CHECK(count_records(CUPTI_KIND_OVERHEAD) == 1);
	/* A call that fails is recorded as such. */
	for (unsigned int n = 0;; n++) {
		const struct cupti_api_record *call = find_record(CUPTI_KIND_DRIVER, n);

		CHECK(call);
		if (call->id == number_of("cuMemFree_v2") && call->result == CUDA_ERROR_INVALID_VALUE)
			break;
	}
}

/* Between devices, or two contexts of one. */
void test_peers(void)
{
	static const uint32_t kinds[] = {CUPTI_KIND_MEMCPY, CUPTI_KIND_MEMCPY2, CUPTI_KIND_DRIVER, 0};
	const struct cupti_peer_record *p;
	CUdeviceptr from, to;
	CUcontext other;
	uint32_t id;
	int devices;

	start_client();
	start_device();
	OK(cuDeviceGetCount(&devices));
	OK(cuMemAlloc_v2(&to, SMALL));
	OK(cuCtxCreate_v2(&other, 0, devices - 1));
	OK(cuMemAlloc_v2(&from, SMALL));
	OK(cuCtxSetCurrent(context));
	enable(kinds);
	OK(cuMemcpyPeer(to, context, from, other, SMALL - 3));
	OK(cuMemcpyDtoD_v2(to, to + SMALL / 2, 16));
	OK(cuCtxSynchronize());
	OK(cuptiActivityFlushAll(0));
	CHECK(count_records(CUPTI_KIND_MEMCPY2) == 1 && count_records(CUPTI_KIND_MEMCPY) == 1);
	p = find_record(CUPTI_KIND_MEMCPY2, 0);
	CHECK(p->copy_kind == CUPTI_COPY_PTOP && p->bytes == SMALL - 3 && p->start <= p->end);
	CHECK(p->source_kind == CUPTI_MEMORY_DEVICE && p->destination_kind == CUPTI_MEMORY_DEVICE);
	CHECK(p->source_device == (uint32_t)devices - 1 && p->destination_device == 0);
	OK(cuptiGetContextId(other, &id));
	CHECK(p->source_context == id && p->destination_context == context_id());
	check_call(p->correlation, "cuMemcpyPeer");
}

#define GRAPH_LAUNCHES 5

/*
 * Two kernels and a memset, which the host's driver may launch as a whole. With `pageable` also two copies, which go in
 * pieces, and with which it may not.
 */
static CUgraph make_graph(CUstream stream, CUdeviceptr data, void *pageable)
{
	CUgraph graph;

	OK(cuStreamBeginCapture_v2(stream, CU_STREAM_CAPTURE_MODE_GLOBAL));
	launch(first, 1, 32, 0, data, stream);
	launch(second, 1, 32, 0, data, stream);
	OK(cuMemsetD8Async(data, 0, 77, stream));
	for (unsigned int i = 0; pageable && i < 2; i++)
		OK(cuMemcpyHtoDAsync_v2(data, pageable, LARGE - i, stream));
	OK(cuStreamEndCapture(stream, &graph));
	return graph;
}

static void run_graph(CUgraphExec exec, CUstream stream)
{
	forget_records();
	for (int i = 0; i < GRAPH_LAUNCHES; i++)
		OK(cuGraphLaunch(exec, stream));
	OK(cuStreamSynchronize(stream));
	OK(cuptiActivityFlushAll(0));
}

/* The members that all records of work have. */
struct node_record {
	uint32_t correlation, context, stream, graph;
	uint64_t node, start, end;
};

#define COMMON(type, r)                                                                                                \
	(struct node_record)                                                                                           \
	{                                                                                                              \
		((type *)(r))->correlation, ((type *)(r))->context, ((type *)(r))->stream, ((type *)(r))->graph,       \
			((type *)(r))->graph_node, ((type *)(r))->start, ((type *)(r))->end                            \
	}

/* All records of the nodes. Each node has one in each launch, and is the same in all launches. */
static void check_nodes(uint32_t exec, CUstream stream, unsigned int nodes)
{
	struct node_record all[5 * GRAPH_LAUNCHES];
	unsigned int count = 0, kernels, memsets, copies;
	const void *r;

	for (kernels = 0; (r = find_record(CUPTI_KIND_KERNEL, kernels)); kernels++)
		all[count++] = COMMON(struct cupti_kernel_record, r);
	for (memsets = 0; (r = find_record(CUPTI_KIND_MEMSET, memsets)); memsets++)
		all[count++] = COMMON(struct cupti_memset_record, r);
	for (copies = 0; (r = find_record(CUPTI_KIND_MEMCPY, copies)); copies++) {
		all[count++] = COMMON(struct cupti_memcpy_record, r);
		CHECK(((struct cupti_memcpy_record *)r)->bytes >= LARGE - 1);
	}
	CHECK(kernels == 2 * GRAPH_LAUNCHES && memsets == GRAPH_LAUNCHES && count == nodes * GRAPH_LAUNCHES);
	for (unsigned int i = 0; i < count; i++) {
		unsigned int same_node = 0, same_launch = 0;

		CHECK(all[i].graph == exec && all[i].node && all[i].start <= all[i].end);
		CHECK(all[i].stream == stream_id(stream) && all[i].context == context_id());
		check_call(all[i].correlation, "cuGraphLaunch");
		for (unsigned int k = 0; k < count; k++) {
			same_node += all[k].node == all[i].node;
			same_launch += all[k].correlation == all[i].correlation;
		}
		CHECK(same_node == GRAPH_LAUNCHES && same_launch == nodes);
	}
}

/* The whole has one record, whatever it is launched as. */
static void check_wholes(uint32_t exec, CUstream stream)
{
	const struct cupti_graph_record *g, *last = NULL;

	CHECK(count_records(CUPTI_KIND_GRAPH_TRACE) == GRAPH_LAUNCHES);
	CHECK(!count_records(CUPTI_KIND_KERNEL) && !count_records(CUPTI_KIND_MEMSET) &&
	      !count_records(CUPTI_KIND_MEMCPY));
	for (unsigned int n = 0; (g = find_record(CUPTI_KIND_GRAPH_TRACE, n)); n++) {
		CHECK(g->graph == exec && g->stream == stream_id(stream) && g->context == context_id());
		CHECK(g->start && g->start < g->end && (!last || last->correlation != g->correlation));
		check_call(g->correlation, "cuGraphLaunch");
		last = g;
	}
}

/* The numbers of graphs, executable graphs and their nodes are unique. */
static void check_numbers(CUgraph graph)
{
	CUgraphNode nodes[2][3];
	uint64_t numbers[2][3];
	uint32_t of_graph, of_clone, of_exec;
	size_t count = 3;
	CUgraphExec exec;
	CUgraph clone;

	OK(cuGraphClone(&clone, graph));
	OK(cuGraphInstantiateWithFlags(&exec, graph, 0));
	OK(cuptiGetGraphId(graph, &of_graph));
	OK(cuptiGetGraphId(clone, &of_clone));
	OK(cuptiGetGraphExecId(exec, &of_exec));
	CHECK(of_graph && of_clone && of_exec);
	CHECK(of_graph != of_clone && of_graph != of_exec && of_clone != of_exec);
	OK(cuGraphGetNodes(graph, nodes[0], &count));
	OK(cuGraphGetNodes(clone, nodes[1], &count));
	for (int i = 0; i < 6; i++) {
		OK(cuptiGetGraphNodeId(nodes[i / 3][i % 3], &numbers[i / 3][i % 3]));
		for (int k = 0; k < i; k++)
			CHECK(numbers[k / 3][k % 3] != numbers[i / 3][i % 3]);
	}
	OK(cuGraphDestroy(clone));
	OK(cuGraphExecDestroy(exec));
	GIVES(cuptiGetGraphId(clone, &of_clone), CUPTI_ERROR_INVALID_PARAMETER);
	GIVES(cuptiGetGraphId(graph, NULL), CUPTI_ERROR_INVALID_PARAMETER);
	GIVES(cuptiGetGraphExecId(exec, &of_exec), CUPTI_ERROR_INVALID_PARAMETER);
	GIVES(cuptiGetGraphNodeId(NULL, &numbers[0][0]), CUPTI_ERROR_INVALID_PARAMETER);
}

static void run_graphs(CUgraph graph, CUstream stream, unsigned int nodes)
{
	static const uint32_t kinds[] = {CUPTI_KIND_KERNEL, CUPTI_KIND_MEMCPY, CUPTI_KIND_MEMSET, CUPTI_KIND_DRIVER, 0};
	uint32_t number;
	CUgraphExec exec;

	OK(cuGraphInstantiateWithFlags(&exec, graph, 0));
	OK(cuptiGetGraphExecId(exec, &number));
	/* Without a tool the host's driver gets the whole. */
	run_graph(exec, stream);
	enable(kinds);
	run_graph(exec, stream);
	check_nodes(number, stream, nodes);
	OK(cuptiActivityEnable(CUPTI_KIND_GRAPH_TRACE));
	run_graph(exec, stream);
	check_wholes(number, stream);
	OK(cuptiActivityDisable(CUPTI_KIND_GRAPH_TRACE));
	run_graph(exec, stream);
	check_nodes(number, stream, nodes);
	for (unsigned int i = 0; kinds[i]; i++)
		OK(cuptiActivityDisable(kinds[i]));
}

void test_graphs(void)
{
	static char pageable[LARGE];
	CUdeviceptr data;
	CUstream stream;
	CUgraph graph;

	start_client();
	start_device();
	OK(cuMemAlloc_v2(&data, LARGE));
	OK(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
	graph = make_graph(stream, data, NULL);
	check_numbers(graph);
	run_graphs(graph, stream, 3);
	run_graphs(make_graph(stream, data, pageable), stream, 5);
}

static bool has_external(uint32_t correlation, uint32_t kind, uint64_t id)
{
	const struct cupti_external_record *e;

	for (unsigned int n = 0; (e = find_record(CUPTI_KIND_EXTERNAL_CORRELATION, n)); n++)
		if (e->correlation == correlation && e->external_kind == kind)
			return e->external == id;
	return false;
}

static uint32_t correlation_of_grid(int32_t grid)
{
	const struct cupti_kernel_record *k;

	for (unsigned int n = 0; (k = find_record(CUPTI_KIND_KERNEL, n)); n++)
		if (k->grid_x == grid)
			return k->correlation;
	CHECK(!"there is a kernel of that grid");
	return 0;
}

void test_externals(void)
{
	static const uint32_t kinds[] = {CUPTI_KIND_KERNEL, CUPTI_KIND_EXTERNAL_CORRELATION, 0};
	CUdeviceptr data;
	uint64_t last;

	start_client();
	start_device();
	OK(cuMemAlloc_v2(&data, SMALL));
	enable(kinds);
	OK(cuptiActivityEnableDriverApi(number_of("cuLaunchKernel"), 1));
	GIVES(cuptiActivityPopExternalCorrelationId(3, &last), CUPTI_ERROR_QUEUE_EMPTY);
	OK(cuptiActivityPushExternalCorrelationId(3, 0));
	OK(cuptiActivityPushExternalCorrelationId(5, 1ull << 40));
	launch(first, 1, 32, 0, data, NULL);
	OK(cuptiActivityPushExternalCorrelationId(3, 77));
	launch(first, 2, 32, 0, data, NULL);
	OK(cuptiActivityPopExternalCorrelationId(3, &last));
	CHECK(last == 77);
	OK(cuptiActivityPopExternalCorrelationId(5, NULL));
	launch(first, 3, 32, 0, data, NULL);
	OK(cuptiActivityPopExternalCorrelationId(3, &last));
	CHECK(last == 0);
	GIVES(cuptiActivityPopExternalCorrelationId(3, &last), CUPTI_ERROR_QUEUE_EMPTY);
	launch(first, 4, 32, 0, data, NULL);
	OK(cuMemsetD8_v2(data, 0, 8));
	OK(cuCtxSynchronize());
	OK(cuptiActivityFlushAll(CUPTI_FLAG_FLUSH_FORCED));
	CHECK(has_external(correlation_of_grid(1), 3, 0) && has_external(correlation_of_grid(1), 5, 1ull << 40));
	CHECK(has_external(correlation_of_grid(2), 3, 77) && has_external(correlation_of_grid(2), 5, 1ull << 40));
	CHECK(has_external(correlation_of_grid(3), 3, 0));
	CHECK(count_records(CUPTI_KIND_EXTERNAL_CORRELATION) == 5);
	/* Only launches were asked for. */
	CHECK(count_records(CUPTI_KIND_DRIVER) == 4 && count_records(CUPTI_KIND_MEMSET) == 0);
}

void test_synchronization(void)
{
	static const uint32_t kinds[] = {CUPTI_KIND_SYNCHRONIZATION, CUPTI_KIND_CUDA_EVENT, 0};
	const struct cupti_synchronization_record *s;
	const struct cupti_event_record *e;
	CUstream streams[2];
	CUevent event;

	start_client();
	start_device();
	OK(cuStreamCreate(&streams[0], CU_STREAM_NON_BLOCKING));
	OK(cuStreamCreate(&streams[1], CU_STREAM_NON_BLOCKING));
	OK(cuEventCreate(&event, CU_EVENT_DEFAULT));
	enable(kinds);
	OK(cuEventRecord(event, streams[0]));
	OK(cuStreamWaitEvent(streams[1], event, 0));
	OK(cuEventSynchronize(event));
	OK(cuStreamSynchronize(streams[1]));
	OK(cuCtxSynchronize());
	OK(cuptiActivityFlushAll(0));
	CHECK(count_records(CUPTI_KIND_CUDA_EVENT) == 1 && count_records(CUPTI_KIND_SYNCHRONIZATION) == 4);
	e = find_record(CUPTI_KIND_CUDA_EVENT, 0);
	CHECK(e->stream == stream_id(streams[0]) && e->context == context_id() && e->event_sync);
	s = find_record(CUPTI_KIND_SYNCHRONIZATION, 0);
	CHECK(s->type == CUPTI_SYNC_STREAM_WAIT_EVENT && s->stream == stream_id(streams[1]));
	CHECK(s->event == e->event && s->event_sync == e->event_sync && s->correlation > e->correlation);
	s = find_record(CUPTI_KIND_SYNCHRONIZATION, 1);
	CHECK(s->type == CUPTI_SYNC_EVENT && s->event == e->event && s->start <= s->end);
	s = find_record(CUPTI_KIND_SYNCHRONIZATION, 2);
	CHECK(s->type == CUPTI_SYNC_STREAM && s->stream == stream_id(streams[1]) && s->event == CUPTI_SYNC_NONE);
	s = find_record(CUPTI_KIND_SYNCHRONIZATION, 3);
	CHECK(s->type == CUPTI_SYNC_CONTEXT && s->stream == CUPTI_SYNC_NONE && s->result == CUDA_SUCCESS);
}

/* ---- times ---- */

static uint64_t monotonic(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (uint64_t)now.tv_sec * 1000000000 + (uint64_t)now.tv_nsec;
}

/* A clock of another unit. */
static uint64_t ticks(void)
{
	return 12345 + 3 * monotonic();
}

/* Calls lie between looks at the client's clock. */
void test_clock(void)
{
	const uint64_t slack = 3 * 1000000; /* a thread may have to wait between two looks at clocks */
	uint64_t before[20], after[20], now;
	CUdevice device;

	start_client();
	OK(cuptiActivityRegisterTimestampCallback(ticks));
	start_device();
	OK(cuptiActivityEnable(CUPTI_KIND_DRIVER));
	for (int i = 0; i < 20; i++) {
		before[i] = ticks();
		OK(cuCtxGetDevice(&device));
		after[i] = ticks();
		usleep(3000);
	}
	OK(cuptiGetTimestamp(&now));
	CHECK(now >= after[19] && now <= ticks());
	OK(cuptiActivityFlushAll(0));
	CHECK(count_records(CUPTI_KIND_DRIVER) == 20);
	for (unsigned int i = 0; i < 20; i++) {
		const struct cupti_api_record *r = find_record(CUPTI_KIND_DRIVER, i);

		CHECK(r->start + slack >= before[i] && r->end <= after[i] + slack && r->start <= r->end);
	}
}

/* A copy that goes in pieces is one record, also where it ends while it is read. */
void test_pieces(void)
{
	static const uint32_t kinds[] = {CUPTI_KIND_MEMCPY, 0};
	static char pageable[24 << 20];
	uint64_t bytes[] = {1, 100, 70000, 1 << 20, (9 << 20) + 5, sizeof(pageable)};
	unsigned int count = sizeof(bytes) / sizeof(bytes[0]);
	CUdeviceptr data;

	start_client();
	start_device();
	OK(cuMemAlloc_v2(&data, sizeof(pageable)));
	enable(kinds);
	for (unsigned int i = 0; i < count; i++) {
		OK(cuMemcpyHtoD_v2(data, pageable, bytes[i]));
		OK(cuptiActivityFlushAll(0));
		OK(cuMemcpyDtoHAsync_v2(pageable, data, bytes[i], NULL));
	}
	OK(cuCtxSynchronize());
	OK(cuptiActivityFlushAll(0));
	CHECK(count_records(CUPTI_KIND_MEMCPY) == 2 * count);
	for (unsigned int i = 0; i < 2 * count; i++) {
		const struct cupti_memcpy_record *r = find_record(CUPTI_KIND_MEMCPY, i);
		unsigned int n = 0;

		while (n < count && bytes[n] != r->bytes)
			n++;
		CHECK(n < count);
		CHECK(r->copy_kind == CUPTI_COPY_HTOD ? r->destination_kind == CUPTI_MEMORY_DEVICE
						      : r->flags == CUPTI_FLAG_ASYNC);
	}
}
