/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A kernel of 64 threads whose thread I stores I to word I of an allocation of 16, 256 or more words, and reads it
 * back. stray WORDS [SHARED]: prints the driver's error, and what is in the allocation.
 */
#include <stdio.h>
#include <stdlib.h>

#include "protocol/cuda-functions.h"
#include "test/check.h"

static const char ptx[] =
	".version 8.0\n.target sm_50\n.address_size 64\n"
	".visible .entry fill(.param .u64 p, .param .u32 s)\n{\n"
	"	.reg .b32 %r<8>; .reg .b64 %rd<8>;\n	.shared .align 4 .b8 tile[256];\n"
	"	ld.param.u64 %rd1, [p];\n	ld.param.u32 %r2, [s];\n	mov.u32 %r1, %tid.x;\n"
	"	mul.wide.u32 %rd2, %r1, 4;\n	add.u64 %rd1, %rd1, %rd2;\n	st.global.u32 [%rd1], %r1;\n"
	"	mov.u32 %r3, tile;\n	shl.b32 %r4, %r1, 2;\n	add.u32 %r3, %r3, %r4;\n	add.u32 %r3, %r3, "
	"%r2;\n"
	"	st.shared.u32 [%r3], %r1;\n	ret;\n}\n";

int main(int argc, char **argv)
{
	unsigned words = argc > 1 ? (unsigned)atoi(argv[1]) : 64, shared = argc > 2 ? (unsigned)atoi(argv[2]) : 0;
	unsigned *values = calloc(words, sizeof(*values));
	CUdeviceptr memory;
	CUcontext context;
	CUfunction f;
	CUmodule module;
	CUresult result;
	void *params[] = {&memory, &shared};

	OK(cuInit(0));
	OK(cuDevicePrimaryCtxRetain(&context, 0));
	OK(cuCtxSetCurrent(context));
	OK(cuModuleLoadData(&module, ptx));
	OK(cuModuleGetFunction(&f, module, "fill"));
	OK(cuMemAlloc_v2(&memory, words * sizeof(*values)));
	OK(cuLaunchKernel(f, 1, 1, 1, 64, 1, 1, 0, NULL, params, NULL));
	result = cuCtxSynchronize();
	if (result == CUDA_SUCCESS) {
		OK(cuMemcpyDtoH_v2(values, memory, words * sizeof(*values)));
		for (unsigned n = 0; n < words && n < 64; n++)
			if (values[n] != n)
				result = CUDA_ERROR_UNKNOWN;
	}
	printf("%d\n", (int)result);
	free(values);
	return 0;
}
