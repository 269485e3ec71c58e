/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Vectors of 8 and 16 bytes that one block writes and another reads meanwhile: a read gets both halves of the same
 * store. Scans block by block pass such vectors on. An H100 does so with two numbers, and tears four at times
 * (doc/reference/driver-behaviour.md).
 */
#include "test/local/api.h"

enum { ROUNDS = 200000 };

/*
 * The first of two blocks writes ROUNDS vectors of equal numbers to its thread's place, `step` bytes apart. The other
 * block reads as often.
 */
static const char text[] =
	".version 8.0\n.target sm_70\n.address_size 64\n"
	".visible .entry hand_on(.param .u64 places, .param .u64 torn, .param .u32 rounds)\n{\n"
	"	.reg .pred %%p; .reg .u32 %%i, %%n, %%t; .reg .u64 %%a, %%e, %%o; .reg .%1$s %%v<4>;\n"
	"	ld.param.u64 %%a, [places]; ld.param.u64 %%e, [torn]; ld.param.u32 %%n, [rounds];\n"
	"	mov.u32 %%t, %%tid.x; mul.wide.u32 %%o, %%t, %7$u; add.u64 %%a, %%a, %%o;\n"
	"	mov.u32 %%i, 0; mov.u32 %%t, %%ctaid.x; setp.ne.u32 %%p, %%t, 0; @%%p bra READ;\n"
	"WRITE:\n	add.u32 %%i, %%i, 1; cvt.%1$s.u32 %%v0, %%i;\n"
	"	st.%2$s.v%3$u.%1$s [%%a], {%4$s};\n"
	"	setp.lt.u32 %%p, %%i, %%n; @%%p bra WRITE;\n	ret;\n"
	"READ:\n	add.u32 %%i, %%i, 1;\n	ld.%2$s.v%3$u.%1$s {%5$s}, [%%a];\n"
	"	setp.eq.%1$s %%p, %%v0, %%v%6$u; @%%p bra SAME;\n	atom.global.add.u32 %%t, [%%e], 1;\n"
	"SAME:\n	setp.lt.u32 %%p, %%i, %%n; @%%p bra READ;\n	ret;\n}\n";

static void hand_on(const char *type, const char *how, unsigned int count, unsigned int step)
{
	uint32_t rounds = ROUNDS, torn;
	CUdeviceptr places, wrong;
	char ptx[4096];
	void *params[] = {&places, &wrong, &rounds};
	CUmodule module;
	CUfunction f;

	snprintf(ptx, sizeof(ptx), text, type, how, count, count == 4 ? "%v0, %v0, %v0, %v0" : "%v0, %v0",
		 count == 4 ? "%v0, %v1, %v2, %v3" : "%v0, %v1", count - 1, step);
	OK(cuModuleLoadData(&module, ptx));
	OK(cuModuleGetFunction(&f, module, "hand_on"));
	OK(cuMemAlloc_v2(&places, 16 * 32));
	OK(cuMemAlloc_v2(&wrong, 4));
	/* whole warps, some of one, and a lane by itself are compiled differently */
	for (unsigned int threads = 32; threads; threads = threads == 32 ? 5 : threads == 5 ? 1 : 0) {
		OK(cuMemsetD32Async(places, 0, 4 * 32, NULL));
		OK(cuMemsetD32Async(wrong, 0, 1, NULL));
		OK(cuLaunchKernel(f, 2, 1, 1, threads, 1, 1, 0, NULL, params, NULL));
		OK(cuMemcpyDtoH_v2(&torn, wrong, sizeof(torn)));
		if (torn)
			printf("%s.v%u.%s, %u threads %u bytes apart: %u of %u torn\n", how, count, type, threads, step,
			       torn, threads * rounds);
		CHECK(!torn);
	}
	OK(cuMemFree_v2(places));
	OK(cuMemFree_v2(wrong));
	OK(cuModuleUnload(module));
}

void api_vectors(void)
{
	/* each thread at a place of its own, and all at one */
	for (unsigned int step = 0; step <= 16; step += 16) {
		hand_on("u64", "relaxed.gpu", 2, step);
		hand_on("u32", "relaxed.gpu", 4, step);
		hand_on("u32", "relaxed.gpu.global", 2, step);
		hand_on("u64", "volatile.global", 2, step);
		hand_on("u32", "global.cg", 4, step);
	}
}
