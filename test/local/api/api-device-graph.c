/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Executable graphs that are launched again and again, which the worker keeps if its GPU's driver has graphs: what they
 * compute. A graph works on buffers whose elements are all equal, so that one number a buffer says what it must hold.
 */
#include <pthread.h>
#include <unistd.h>

#include "test/local/api.h"
#include "test/seed.h"

#define N 1000u
#define DEVICE_BUFFERS 5
#define BUFFERS 6 /* the last one is pinned memory */
#define MOST_OPS 40
#define PITCH 16 /* elements; as a box a buffer has half of each row */

enum kind { STEP, FILL, COPY, NOTHING, CHILD, KINDS };

struct plan;

/* b[to] = b[to] * k + 1; b[to] = k; b[to] = b[from]; or all that a plan says. */
struct op {
	enum kind kind;
	unsigned int to, from, k;
	struct plan *child;
	CUgraphNode node;
	bool disabled;
};

struct plan {
	unsigned int count;
	struct op ops[MOST_OPS];
};

struct buffers {
	CUdeviceptr p[BUFFERS];
	uint32_t expected[BUFFERS];
};

/* ---- buffers ---- */

static void set_all(struct buffers *b)
{
	for (unsigned int i = 0; i < BUFFERS; i++) {
		b->expected[i] = i + 1;
		OK(cuMemsetD32Async(b->p[i], i + 1, N, NULL));
	}
	OK(cuCtxSynchronize());
}

static void make_buffers(struct buffers *b)
{
	void *pinned;

	for (unsigned int i = 0; i < DEVICE_BUFFERS; i++)
		OK(cuMemAlloc_v2(&b->p[i], N * 4));
	OK(cuMemHostAlloc(&pinned, N * 4, 0));
	b->p[DEVICE_BUFFERS] = (uintptr_t)pinned;
	set_all(b);
}

static void free_buffers(struct buffers *b)
{
	for (unsigned int i = 0; i < DEVICE_BUFFERS; i++)
		OK(cuMemFree_v2(b->p[i]));
	OK(cuMemFreeHost((void *)(uintptr_t)b->p[DEVICE_BUFFERS]));
}

static void check_buffers(const struct buffers *b)
{
	static __thread uint32_t got[N];

	OK(cuCtxSynchronize());
	for (unsigned int i = 0; i < BUFFERS; i++) {
		OK(cuMemcpyDtoH_v2(got, b->p[i], N * 4));
		for (unsigned int n = 0; n < N; n++)
			CHECK(got[n] == b->expected[i]);
	}
}

static void expect(struct buffers *b, const struct plan *p)
{
	for (unsigned int i = 0; i < p->count; i++) {
		const struct op *o = &p->ops[i];

		if (o->disabled)
			continue;
		if (o->kind == STEP)
			b->expected[o->to] = b->expected[o->to] * o->k + 1;
		if (o->kind == FILL)
			b->expected[o->to] = o->k;
		if (o->kind == COPY)
			b->expected[o->to] = b->expected[o->from];
		if (o->kind == CHILD)
			expect(b, o->child);
	}
}

/* ---- graphs of plans ---- */

static CUDA_KERNEL_NODE_PARAMS step_params(const struct buffers *b, const struct op *o)
{
	static __thread CUdeviceptr p;
	static __thread unsigned int k, n;
	static __thread void *storage[3];

	p = b->p[o->to];
	k = o->k;
	n = N;
	storage[0] = &p;
	storage[1] = &k;
	storage[2] = &n;
	return (CUDA_KERNEL_NODE_PARAMS){
		.func = api_function("step"),
		.gridDimX = (N + 63) / 64,
		.gridDimY = 1,
		.gridDimZ = 1,
		.blockDimX = 64,
		.blockDimY = 1,
		.blockDimZ = 1,
		.kernelParams = storage,
	};
}

static CUDA_MEMCPY3D copy_params(const struct buffers *b, const struct op *o)
{
	CUDA_MEMCPY3D c = {
		.srcMemoryType = CU_MEMORYTYPE_DEVICE,
		.srcDevice = b->p[o->from],
		.dstMemoryType = CU_MEMORYTYPE_DEVICE,
		.dstDevice = b->p[o->to],
		.WidthInBytes = N * 4,
		.Height = 1,
		.Depth = 1,
	};

	if (o->from == DEVICE_BUFFERS) {
		c.srcMemoryType = CU_MEMORYTYPE_HOST;
		c.srcHost = (void *)(uintptr_t)b->p[o->from];
	}
	if (o->to == DEVICE_BUFFERS) {
		c.dstMemoryType = CU_MEMORYTYPE_UNIFIED;
		c.dstDevice = b->p[o->to];
	}
	return c;
}

/* The buffers, as bits, that an operation reads or writes; what a child's does is taken for writing. */
static unsigned int touched(const struct op *o, bool writes)
{
	unsigned int bits = 0;

	if (o->kind == CHILD)
		for (unsigned int i = 0; i < o->child->count; i++)
			bits |= touched(&o->child->ops[i], true) | touched(&o->child->ops[i], false);
	else if (o->kind == COPY && !writes)
		bits = 1u << o->from;
	else if (o->kind != NOTHING && writes)
		bits = 1u << o->to;
	return bits;
}

static CUgraph build(struct plan *p, const struct buffers *b);

static void add_op(CUgraph g, const struct buffers *b, struct op *o, const CUgraphNode *deps, size_t count)
{
	CUDA_KERNEL_NODE_PARAMS kernel;
	CUDA_MEMSET_NODE_PARAMS fill;
	CUDA_MEMCPY3D copy;
	CUgraph child;

	switch (o->kind) {
	case STEP:
		kernel = step_params(b, o);
		OK(cuGraphAddKernelNode_v2(&o->node, g, deps, count, &kernel));
		break;
	case FILL:
		fill = (CUDA_MEMSET_NODE_PARAMS){
			.dst = b->p[o->to], .value = o->k, .elementSize = 4, .width = N, .height = 1};
		OK(cuGraphAddMemsetNode(&o->node, g, deps, count, &fill, NULL));
		break;
	case COPY:
		copy = copy_params(b, o);
		OK(cuGraphAddMemcpyNode(&o->node, g, deps, count, &copy, NULL));
		break;
	case CHILD:
		child = build(o->child, b);
		OK(cuGraphAddChildGraphNode(&o->node, g, deps, count, child));
		OK(cuGraphDestroy(child));
		break;
	default:
		OK(cuGraphAddEmptyNode(&o->node, g, deps, count));
	}
}

/* Each node comes after those before it that it must not run beside, and no others. */
static CUgraph build(struct plan *p, const struct buffers *b)
{
	CUgraph g;

	OK(cuGraphCreate(&g, 0));
	for (unsigned int i = 0; i < p->count; i++) {
		unsigned int reads = touched(&p->ops[i], false), writes = touched(&p->ops[i], true);
		CUgraphNode deps[MOST_OPS];
		size_t count = 0;

		for (unsigned int j = 0; j < i; j++) {
			unsigned int r = touched(&p->ops[j], false), w = touched(&p->ops[j], true);

			if (w & (reads | writes) || r & writes)
				deps[count++] = p->ops[j].node;
		}
		add_op(g, b, &p->ops[i], deps, count);
	}
	return g;
}

static CUgraphExec instantiate(CUgraph g)
{
	CUgraphExec exec;

	OK(cuGraphInstantiateWithFlags(&exec, g, 0));
	return exec;
}

static void launch(CUgraphExec exec, const struct plan *p, struct buffers *b, CUstream s)
{
	OK(cuGraphLaunch(exec, s));
	expect(b, p);
}

/* ---- shapes ---- */

static struct plan pair = {3, {{STEP, .to = 1, .k = 3}, {STEP, .to = 2, .k = 5}, {COPY, .to = 3, .from = 1}}};

static const struct plan shapes[] = {
	/* a chain */
	{5,
	 {{STEP, .to = 0, .k = 3},
	  {STEP, .to = 0, .k = 2},
	  {STEP, .to = 0, .k = 7},
	  {STEP, .to = 0, .k = 9},
	  {STEP, .to = 0, .k = 2}}},
	/* a diamond: one, two beside each other, one */
	{5,
	 {{STEP, .to = 0, .k = 3},
	  {COPY, .to = 1, .from = 0},
	  {COPY, .to = 2, .from = 0},
	  {STEP, .to = 1, .k = 5},
	  {COPY, .to = 0, .from = 1}}},
	/* two branches that never meet */
	{6,
	 {{STEP, .to = 0, .k = 3},
	  {STEP, .to = 1, .k = 4},
	  {STEP, .to = 0, .k = 5},
	  {STEP, .to = 1, .k = 6},
	  {STEP, .to = 0, .k = 7},
	  {STEP, .to = 1, .k = 8}}},
	/* a child between others, and the same once more */
	{4, {{STEP, .to = 1, .k = 3}, {CHILD, .child = &pair}, {STEP, .to = 2, .k = 4}, {CHILD, .child = &pair}}},
	/* memset, copies in and out, kernel */
	{5,
	 {{STEP, .to = 5, .k = 3},
	  {FILL, .to = 0, .k = 17},
	  {COPY, .to = 1, .from = 5},
	  {STEP, .to = 0, .k = 2},
	  {COPY, .to = 5, .from = 0}}},
	/* nothing */
	{1, {{.kind = NOTHING}}},
};

static void run_shapes(CUstream s, CUstream t)
{
	struct buffers b;

	make_buffers(&b);
	for (size_t i = 0; i < sizeof(shapes) / sizeof(shapes[0]); i++) {
		struct plan p = shapes[i];
		CUgraph g = build(&p, &b);
		CUgraphExec exec = instantiate(g);
		const CUstream streams[] = {s, s, t, NULL, CU_STREAM_PER_THREAD, s};

		OK(cuGraphDestroy(g));
		for (int n = 0; n < 30; n++) {
			launch(exec, &p, &b, streams[n % 6]);
			if (n < 6)
				check_buffers(&b);
		}
		/* A launch runs to its end, even if its handle is destroyed. */
		OK(cuGraphExecDestroy(exec));
		check_buffers(&b);
	}
	free_buffers(&b);
}

/* ---- any graph ---- */

static uint32_t dice(uint32_t *state, uint32_t sides)
{
	*state = *state * 1664525 + 1013904223;
	return (*state >> 8) % sides;
}

static void invent(struct plan *p, unsigned int most, struct plan *child, uint32_t *state)
{
	p->count = 1 + dice(state, most);
	for (unsigned int i = 0; i < p->count; i++) {
		struct op *o = &p->ops[i];

		*o = (struct op){.kind = (enum kind)dice(state, child ? KINDS : CHILD),
				 .to = dice(state, BUFFERS),
				 .from = dice(state, DEVICE_BUFFERS),
				 .k = dice(state, 100),
				 .child = child};
		if (o->kind == COPY && o->to == o->from)
			o->from = (o->to + 1) % DEVICE_BUFFERS;
		/* From the pinned one at times. */
		if (o->kind == COPY && o->to < DEVICE_BUFFERS && !dice(state, 4))
			o->from = DEVICE_BUFFERS;
	}
}

/* Changes an executable graph in one of the ways that there are. */
static void change(CUgraphExec exec, CUgraph g, struct plan *p, const struct buffers *b, uint32_t *state)
{
	struct op *o = &p->ops[dice(state, p->count)];
	CUgraphExecUpdateResultInfo info;
	CUDA_KERNEL_NODE_PARAMS kernel;

	if (o->kind == FILL || o->kind == COPY) {
		o->disabled = !o->disabled;
		OK(cuGraphNodeSetEnabled(exec, o->node, !o->disabled));
	}
	if (o->kind != STEP)
		return;
	o->k = dice(state, 100);
	kernel = step_params(b, o);
	OK(cuGraphKernelNodeSetParams_v2(o->node, &kernel));
	if (dice(state, 2))
		OK(cuGraphExecKernelNodeSetParams_v2(exec, o->node, &kernel));
	else
		OK(cuGraphExecUpdate_v2(exec, g, &info));
}

static void run_any(CUstream s, CUstream t, uint32_t seed, unsigned int graphs)
{
	struct buffers b;
	uint32_t state = seed;

	make_buffers(&b);
	for (unsigned int i = 0; i < graphs; i++) {
		static __thread struct plan child, p;
		CUgraphExec exec;
		CUgraph g;

		invent(&child, 6, NULL, &state);
		invent(&p, MOST_OPS, &child, &state);
		g = build(&p, &b);
		exec = instantiate(g);
		for (unsigned int n = 0; n < 12; n++) {
			launch(exec, &p, &b, dice(&state, 2) ? s : t);
			if (!dice(&state, 4))
				change(exec, g, &p, &b, &state);
			if (!dice(&state, 4))
				check_buffers(&b);
		}
		OK(cuGraphExecDestroy(exec));
		OK(cuGraphDestroy(g));
		check_buffers(&b);
	}
	free_buffers(&b);
}

/* ---- behind a stream that waits ---- */

static void *let_go(void *word)
{
	usleep(500000);
	__atomic_store_n((uint32_t *)word, 1, __ATOMIC_RELEASE);
	return NULL;
}

static void run_behind(CUstream s, unsigned int launches_before, unsigned int launches)
{
	struct plan p = shapes[2];
	struct buffers b;
	CUgraphExec exec;
	pthread_t thread;
	CUgraph g;
	uint32_t *word;
	void *params[] = {&word};

	make_buffers(&b);
	OK(cuMemHostAlloc((void **)&word, 4, 0));
	*word = 0;
	g = build(&p, &b);
	exec = instantiate(g);
	for (unsigned int i = 0; i < launches_before; i++)
		launch(exec, &p, &b, s);
	OK(cuLaunchKernel(api_function("hold"), 1, 1, 1, 1, 1, 1, 0, s, params, NULL));
	CHECK(pthread_create(&thread, NULL, let_go, word) == 0);
	for (unsigned int i = 0; i < launches; i++)
		launch(exec, &p, &b, s);
	OK(cuGraphExecDestroy(exec));
	OK(cuGraphDestroy(g));
	check_buffers(&b);
	CHECK(pthread_join(thread, NULL) == 0);
	OK(cuMemFreeHost(word));
	free_buffers(&b);
}

/* ---- threads: each with graphs of its own, while others wait for all and allocate ---- */

static CUcontext shared;
static _Atomic bool done;

static void *use_graphs(void *seed)
{
	CUstream s, t;

	OK(cuCtxSetCurrent(shared));
	OK(cuStreamCreate(&s, CU_STREAM_NON_BLOCKING));
	OK(cuStreamCreate(&t, CU_STREAM_NON_BLOCKING));
	run_any(s, t, (uint32_t)(uintptr_t)seed, 12);
	OK(cuStreamDestroy_v2(s));
	OK(cuStreamDestroy_v2(t));
	return NULL;
}

static void *disturb(void *unused)
{
	CUdeviceptr p;

	OK(cuCtxSetCurrent(shared));
	while (!done) {
		OK(cuMemAlloc_v2(&p, 4096));
		OK(cuMemsetD32Async(p, 1, 16, NULL));
		OK(cuCtxSynchronize());
		OK(cuMemFree_v2(p));
	}
	return unused;
}

static void run_threads(void)
{
	pthread_t users[3], other;

	uint32_t seed = test_seed();

	OK(cuCtxGetCurrent(&shared));
	CHECK(pthread_create(&other, NULL, disturb, NULL) == 0);
	for (uintptr_t i = 0; i < 3; i++)
		CHECK(pthread_create(&users[i], NULL, use_graphs, (void *)(uintptr_t)(uint32_t)(seed + i)) == 0);
	for (int i = 0; i < 3; i++)
		CHECK(pthread_join(users[i], NULL) == 0);
	done = true;
	CHECK(pthread_join(other, NULL) == 0);
}

/* ---- what a capture makes: boxes, arrays, values, cooperative kernels ---- */

static CUDA_MEMCPY2D box(CUdeviceptr to, CUdeviceptr from)
{
	return (CUDA_MEMCPY2D){
		.srcMemoryType = CU_MEMORYTYPE_DEVICE,
		.srcDevice = from,
		.srcPitch = PITCH * 4,
		.dstMemoryType = CU_MEMORYTYPE_DEVICE,
		.dstDevice = to,
		.dstXInBytes = PITCH * 2,
		.dstPitch = PITCH * 4,
		.WidthInBytes = PITCH * 2,
		.Height = 10,
	};
}

static void capture(CUstream s, CUgraph *g, CUarray array, CUdeviceptr p, CUdeviceptr q, uint32_t *pinned)
{
	CUDA_MEMCPY2D c = box(q, p);
	CUDA_MEMCPY3D in = {.srcMemoryType = CU_MEMORYTYPE_HOST,
			    .dstMemoryType = CU_MEMORYTYPE_ARRAY,
			    .WidthInBytes = 64,
			    .Height = 4,
			    .Depth = 1},
		      out = {.srcMemoryType = CU_MEMORYTYPE_ARRAY,
			     .dstMemoryType = CU_MEMORYTYPE_DEVICE,
			     .WidthInBytes = 32,
			     .Height = 2,
			     .Depth = 1};
	unsigned int k = 2, n = 16 * PITCH;
	void *params[] = {&p, &k, &n};

	in.srcHost = pinned;
	in.srcPitch = 64;
	in.dstArray = array;
	out.srcArray = array;
	out.srcXInBytes = 16;
	out.srcY = 1;
	out.dstDevice = q + 1024;
	out.dstPitch = 64;
	OK(cuStreamBeginCapture_v2(s, CU_STREAM_CAPTURE_MODE_GLOBAL));
	OK(cuLaunchCooperativeKernel(api_function("step"), 4, 1, 1, 64, 1, 1, 0, s, params));
	OK(cuMemcpy2DAsync_v2(&c, s));
	OK(cuMemcpy3DAsync_v2(&in, s));
	OK(cuMemcpy3DAsync_v2(&out, s));
	OK(cuStreamWriteValue32_v2(s, q + 2048, 77, 0));
	OK(cuMemcpyDtoHAsync_v2(pinned + 512, q, 4096 - 2048, s));
	OK(cuMemcpyDtoHAsync_v2(pinned + 1024, q + 2048, 4, s));
	OK(cuStreamEndCapture(s, g));
}

static void run_captured(CUstream s)
{
	CUDA_ARRAY3D_DESCRIPTOR d = {.Width = 16, .Height = 4, .Format = CU_AD_FORMAT_UNSIGNED_INT32, .NumChannels = 1};
	uint32_t *pinned, value = 3;
	CUdeviceptr p, q;
	CUgraphExec exec;
	CUarray array;
	CUgraph g;

	OK(cuMemHostAlloc((void **)&pinned, 8192, 0));
	OK(cuMemAlloc_v2(&p, 4096));
	OK(cuMemAlloc_v2(&q, 4096));
	OK(cuArray3DCreate_v2(&array, &d));
	OK(cuMemsetD32Async(p, value, 1024, s));
	capture(s, &g, array, p, q, pinned);
	exec = instantiate(g);
	for (uint32_t round = 0; round < 10; round++) {
		OK(cuMemsetD32Async(q, 1, 1024, s));
		for (uint32_t i = 0; i < 64; i++)
			pinned[i] = round * 1000 + i;
		OK(cuGraphLaunch(exec, s));
		OK(cuStreamSynchronize(s));
		value = value * 2 + 1;
		/* the right half of each row; row 10 is none of them */
		for (uint32_t i = 0; i < 11 * PITCH; i++)
			CHECK(pinned[512 + i] == (i < 10 * PITCH && i % PITCH >= PITCH / 2 ? value : 1));
		/* two rows of eight, from (4, 1) of the array on */
		for (uint32_t i = 0; i < 32; i++)
			CHECK(pinned[512 + 256 + i] ==
			      (i % 16 < 8 ? round * 1000 + (i / 16 + 1) * 16 + 4 + i % 16 : 1));
		CHECK(pinned[1024] == 77);
	}
	OK(cuGraphExecDestroy(exec));
	OK(cuGraphDestroy(g));
	OK(cuArrayDestroy(array));
	OK(cuMemFree_v2(p));
	OK(cuMemFree_v2(q));
	OK(cuMemFreeHost(pinned));
}

/* ---- cases ---- */

void api_device_graphs(void)
{
	CUstream s, t;

	OK(cuStreamCreate(&s, CU_STREAM_NON_BLOCKING));
	OK(cuStreamCreate(&t, CU_STREAM_DEFAULT));
	run_shapes(s, t);
	run_captured(s);
	run_any(s, t, 1, 60);
	for (unsigned int before = 0; before < 3; before++)
		run_behind(s, before, 400);
	run_threads();
}

/* How many commands this takes is counted from outside. */
void api_device_graph_issue(void)
{
	struct plan p = {.count = 10};
	struct buffers b;
	CUgraphExec exec;
	CUgraph g;

	make_buffers(&b);
	for (unsigned int i = 0; i < p.count; i++)
		p.ops[i] = (struct op){.kind = STEP, .to = i % 2, .k = i};
	g = build(&p, &b);
	exec = instantiate(g);
	for (int i = 0; i < 1000; i++)
		launch(exec, &p, &b, NULL);
	check_buffers(&b);
	OK(cuGraphExecDestroy(exec));
	OK(cuGraphDestroy(g));
	free_buffers(&b);
}
