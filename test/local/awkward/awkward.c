/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Programs that do what a GPU next door allows and a naive remoting does not survive. usage: awkward CASE. Each case
 * decides by what it reads and in which order things are seen to happen; a pause only gives what is wrong time to show.
 */
#include "awkward.h"

#include <time.h>
#include <unistd.h>

#define DEADLINE_SECONDS 600

CUmodule awkward_module;
CUcontext awkward_context;

enum { UNPREPARED = 1, BROKEN = 2 }; /* begins without a context; ends with one that has failed, or none */

static const struct {
	const char *name;
	void (*run)(void);
	unsigned int flags;
} cases[] = {
	{"wild-event", awkward_wild_event, BROKEN},
	{"wild-stream", awkward_wild_stream, BROKEN},
	{"copies", awkward_copies, 0},
	{"per-thread", awkward_per_thread, 0},
	{"capture", awkward_capture, 0},
	{"graph", awkward_graph, 0},
	{"stalled", awkward_stalled, 0},
	{"backlog", awkward_backlog, 0},
	{"contexts", awkward_contexts, 0},
	{"queues", awkward_queues, 0},
	{"compile", awkward_compile, 0},
	{"list", awkward_list, 0},
	{"handles", awkward_handles, 0},
	{"objects", awkward_objects, 0},
	{"fork", awkward_fork, UNPREPARED},
	{"threads", awkward_threads, 0},
	{"blocking", awkward_blocking, BROKEN},
	{"devices", awkward_devices, UNPREPARED | BROKEN},
};

static const char ptx[] = ".version 7.0\n.target sm_70\n.address_size 64\n"
			  ".visible .entry step(.param .u64 p, .param .u32 k, .param .u32 n)\n"
			  "{\n"
			  "	.reg .pred %p; .reg .b32 %r<8>; .reg .b64 %rd<4>;\n"
			  "	ld.param.u64 %rd1, [p];\n"
			  "	ld.param.u32 %r1, [k];\n"
			  "	ld.param.u32 %r2, [n];\n"
			  "	mov.u32 %r3, %ctaid.x;\n"
			  "	mov.u32 %r4, %ntid.x;\n"
			  "	mov.u32 %r5, %tid.x;\n"
			  "	mad.lo.s32 %r3, %r3, %r4, %r5;\n"
			  "	setp.ge.u32 %p, %r3, %r2;\n"
			  "	@%p bra DONE;\n"
			  "	mul.wide.u32 %rd2, %r3, 4;\n"
			  "	add.s64 %rd1, %rd1, %rd2;\n"
			  "	ld.u32 %r6, [%rd1];\n"
			  "	mad.lo.s32 %r6, %r6, %r1, 1;\n"
			  "	st.u32 [%rd1], %r6;\n"
			  "DONE:\n"
			  "	ret;\n"
			  "}\n"
			  ".visible .entry answer(.param .u64 go, .param .u64 to, .param .u32 v)\n"
			  "{\n"
			  "	.reg .pred %p; .reg .b32 %r<4>; .reg .b64 %rd<3>;\n"
			  "	ld.param.u64 %rd1, [go];\n"
			  "	ld.param.u64 %rd2, [to];\n"
			  "	ld.param.u32 %r1, [v];\n"
			  "AGAIN:\n"
			  "	ld.volatile.u32 %r2, [%rd1];\n"
			  "	setp.eq.u32 %p, %r2, 0;\n"
			  "	@%p bra AGAIN;\n"
			  "	ld.volatile.u32 %r2, [%rd2];\n"
			  "	add.s32 %r2, %r2, %r1;\n"
			  "	st.volatile.u32 [%rd2], %r2;\n"
			  "	ret;\n"
			  "}\n"
			  ".visible .entry sum(.param .u64 head, .param .u64 to)\n"
			  "{\n"
			  "	.reg .pred %p; .reg .b32 %r<4>; .reg .b64 %rd<3>;\n"
			  "	ld.param.u64 %rd1, [head];\n"
			  "	ld.param.u64 %rd2, [to];\n"
			  "	mov.u32 %r1, 0;\n"
			  "AGAIN:\n"
			  "	setp.eq.s64 %p, %rd1, 0;\n"
			  "	@%p bra DONE;\n"
			  "	ld.u32 %r2, [%rd1+8];\n"
			  "	add.s32 %r1, %r1, %r2;\n"
			  "	ld.u64 %rd1, [%rd1];\n"
			  "	bra AGAIN;\n"
			  "DONE:\n"
			  "	st.u32 [%rd2], %r1;\n"
			  "	ret;\n"
			  "}\n"
			  ".visible .entry wild()\n"
			  "{\n"
			  "	.reg .b64 %rd<2>;\n"
			  "	mov.u64 %rd1, 0x123456789000;\n"
			  "	st.global.u64 [%rd1], %rd1;\n"
			  "	ret;\n"
			  "}\n";

/* Runs each kernel once that others run beside a held one: a driver may wait for all that runs to load a kernel. */
CUmodule awkward_load(void)
{
	_Atomic uint32_t *words = awkward_pinned(64);
	uint32_t k = 0, n = 0;
	void *params[] = {&words, &k, &n};
	CUmodule module;
	CUfunction step;

	OK(cuModuleLoadData(&module, ptx));
	OK(cuModuleGetFunction(&step, module, "step"));
	OK(cuLaunchKernel(step, 1, 1, 1, 32, 1, 1, 0, NULL, params, NULL));
	words[0] = 1;
	awkward_launch_answer(module, words, (CUdeviceptr)(uintptr_t)(words + 1), 1, NULL);
	OK(cuCtxSynchronize());
	OK(cuMemFreeHost((void *)words));
	return module;
}

CUfunction awkward_function(const char *name)
{
	CUfunction f;

	OK(cuModuleGetFunction(&f, awkward_module, name));
	return f;
}

void awkward_launch_answer(CUmodule module, _Atomic uint32_t *go, CUdeviceptr to, uint32_t value, CUstream stream)
{
	CUfunction f;
	void *params[] = {&go, &to, &value};

	OK(cuModuleGetFunction(&f, module, "answer"));
	OK(cuLaunchKernel(f, 1, 1, 1, 1, 1, 1, 0, stream, params, NULL));
}

void *awkward_pinned(size_t bytes)
{
	void *p;

	OK(cuMemHostAlloc(&p, bytes, 0));
	memset(p, 0, bytes);
	return p;
}

CUdeviceptr awkward_zeroed(size_t bytes)
{
	CUdeviceptr p;

	OK(cuMemAlloc_v2(&p, bytes));
	OK(cuMemsetD8_v2(p, 0, bytes));
	OK(cuCtxSynchronize());
	return p;
}

CUstream awkward_stream(unsigned int flags)
{
	CUstream s;

	OK(cuStreamCreate(&s, flags));
	return s;
}

uint32_t awkward_read(CUdeviceptr p)
{
	uint32_t value;

	OK(cuMemcpyDtoH_v2(&value, p, sizeof(value)));
	return value;
}

static double now(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

struct awkward_deadline awkward_deadline(const char *what)
{
	return (struct awkward_deadline){now() + DEADLINE_SECONDS, what};
}

void awkward_pause(const struct awkward_deadline *d)
{
	if (now() > d->until) {
		fprintf(stderr, "after %d seconds: %s\n", DEADLINE_SECONDS, d->what);
		_exit(1);
	}
	usleep(200);
}

void awkward_start(pthread_t *thread, void *(*run)(void *), void *argument)
{
	CHECK(!pthread_create(thread, NULL, run, argument));
}

void awkward_join(pthread_t thread)
{
	CHECK(!pthread_join(thread, NULL));
}

static void *set_later(void *go)
{
	usleep(50000);
	*(_Atomic uint32_t *)go = 1;
	return NULL;
}

void awkward_later(pthread_t *thread, _Atomic uint32_t *go)
{
	awkward_start(thread, set_later, (void *)(uintptr_t)go);
}

int main(int argc, char **argv)
{
	for (size_t i = 0; argc == 2 && i < sizeof(cases) / sizeof(cases[0]); i++) {
		if (strcmp(argv[1], cases[i].name))
			continue;
		if (!(cases[i].flags & UNPREPARED)) {
			OK(cuInit(0));
			OK(cuDevicePrimaryCtxRetain(&awkward_context, 0));
			OK(cuCtxSetCurrent(awkward_context));
			awkward_module = awkward_load();
		}
		cases[i].run();
		if (!(cases[i].flags & BROKEN))
			OK(cuCtxSynchronize());
		printf("%s: passed\n", argv[1]);
		return 0;
	}
	fprintf(stderr, "usage: awkward CASE\n");
	return 2;
}
