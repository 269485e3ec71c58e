/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Calls of the driver API that other programs of the tests do not make, from end to end. usage: api CASE; what a case
 * prints is checked by local.py.
 */
#include "test/local/api.h"

#include <stdlib.h>

CUmodule api_module;

static const struct {
	const char *name;
	void (*run)(void);
} cases[] = {
	{"callbacks", api_callbacks},
	{"output", api_output},
	{"waits", api_waits},
	{"polls", api_polls},
	{"lives", api_lives},
	{"managed", api_managed},
	{"pools", api_pools},
	{"shared_memory", api_shared_memory},
	{"shared_memory_refused", api_shared_memory_refused},
	{"mapped", api_mapped},
	{"graphs", api_graphs},
	{"capture", api_capture},
	{"legacy_capture", api_legacy_capture},
	{"values", api_values},
	{"logs", api_logs},
	{"stuck", api_stuck},
	{"endless", api_endless},
	{"stuck_ends", api_stuck_ends},
	{"contexts", api_contexts},
	{"faults", api_faults},
	{"questions", api_questions},
	{"batches", api_batches},
	{"copies", api_copies},
	{"small_copies", api_small_copies},
	{"frames", api_frames},
	{"vectors", api_vectors},
	{"capture_modes", api_capture_modes},
	{"device_graphs", api_device_graphs},
	{"device_graph_issue", api_device_graph_issue},
};

static const char ptx[] =
	".version 7.0\n.target sm_70\n.address_size 64\n"
	".extern .func (.param .b32 r) vprintf(.param .b64 f, .param .b64 a);\n"
	".global .align 1 .b8 text[13] = {118, 97, 108, 117, 101, 32, 37, 100, 33, 10, 0};\n" /* "value %d!\n" */
	".visible .entry print(.param .u32 v)\n"
	"{\n"
	"	.local .align 8 .b8 depot[8]; .reg .b32 %r<4>; .reg .b64 %rd<8>;\n"
	"	mov.u64 %rd1, depot;\n"
	"	cvta.local.u64 %rd2, %rd1;\n"
	"	ld.param.u32 %r1, [v];\n"
	"	st.local.u32 [%rd1], %r1;\n"
	"	mov.u64 %rd3, text;\n"
	"	cvta.global.u64 %rd4, %rd3;\n"
	"	{\n"
	"	.param .b64 p0;\n"
	"	st.param.b64 [p0], %rd4;\n"
	"	.param .b64 p1;\n"
	"	st.param.b64 [p1], %rd2;\n"
	"	.param .b32 q;\n"
	"	call.uni (q), vprintf, (p0, p1);\n"
	"	ld.param.b32 %r2, [q];\n"
	"	}\n"
	"	ret;\n"
	"}\n"
	/* p[i] = p[i] * k + 1 */
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
	/* while (!*p); ends when the host says so */
	".visible .entry hold(.param .u64 p)\n"
	"{\n"
	"	.reg .pred %p; .reg .b32 %r<2>; .reg .b64 %rd<2>;\n"
	"	ld.param.u64 %rd1, [p];\n"
	"AGAIN:\n"
	"	ld.volatile.u32 %r1, [%rd1];\n"
	"	setp.eq.u32 %p, %r1, 0;\n"
	"	@%p bra AGAIN;\n"
	"	ret;\n"
	"}\n";

CUfunction api_function(const char *name)
{
	CUfunction f;

	OK(cuModuleGetFunction(&f, api_module, name));
	return f;
}

void api_step(CUdeviceptr p, unsigned int k, unsigned int n, CUstream stream)
{
	void *params[] = {&p, &k, &n};

	OK(cuLaunchKernel(api_function("step"), (n + 63) / 64, 1, 1, 64, 1, 1, 0, stream, params, NULL));
}

void api_load(void)
{
	OK(cuModuleLoadData(&api_module, ptx));
}

int main(int argc, char **argv)
{
	CUcontext context;

	OK(cuInit(0));
	OK(cuDevicePrimaryCtxRetain(&context, 0));
	OK(cuCtxSetCurrent(context));
	api_load();
	for (size_t i = 0; argc == 2 && i < sizeof(cases) / sizeof(cases[0]); i++) {
		if (strcmp(argv[1], cases[i].name))
			continue;
		cases[i].run();
		OK(cuCtxSynchronize());
		printf("%s: passed\n", argv[1]);
		return 0;
	}
	fprintf(stderr, "usage: api CASE\n");
	return 2;
}
