/* SPDX-License-Identifier: Apache-2.0 */
/* Modules from end to end: what the compiler makes of PTX, and the driver's linker. */
#include <math.h>

#include "api.h"

#define HEAD ".version 7.0\n.target sm_70\n.address_size 64\n"

static CUdeviceptr memory;

/* Runs `name`(memory, value) with one thread, which has a result for the host. */
static uint32_t result_of(CUmodule module, const char *name, uint32_t value)
{
	void *params[] = {&memory, &value};
	uint32_t out;
	CUfunction f;

	OK(cuModuleGetFunction(&f, module, name));
	OK(cuLaunchKernel(f, 1, 1, 1, 1, 1, 1, 0, NULL, params, NULL));
	OK(cuMemcpyDtoH_v2(&out, memory, sizeof(out)));
	return out;
}

static float float_of(uint32_t bits)
{
	float f;

	memcpy(&f, &bits, sizeof(f));
	return f;
}

#define KERNEL(name, body)                                                                                             \
	".visible .entry " name "(.param .u64 p, .param .u32 v)\n{\n.reg .b32 %r<8>; .reg .f32 %f<8>; .reg .b64 %l;\n" \
	"ld.param.u64 %l, [p];\nld.param.u32 %r1, [v];\ncvt.rn.f32.s32 %f1, %r1;\n" body "st.global.b32 [%l], %r2;\nret;\n}\n"

/* LLVM makes calls of a C library of what it is given: a worker has them all. */
static void library_functions(void)
{
	static const char ptx[] = HEAD
		KERNEL("both", "sin.approx.f32 %f2, %f1;\ncos.approx.f32 %f3, %f1;\nadd.f32 %f2, %f2, %f3;\nmov.b32 %r2, %f2;\n")
		KERNEL("power", "ex2.approx.f32 %f2, %f1;\nmov.b32 %r2, %f2;\n");
	CUmodule module;

	OK(cuModuleLoadData(&module, ptx));
	CHECK(fabsf(float_of(result_of(module, "both", 3)) - sinf(3) - cosf(3)) < 1e-5f);
	CHECK(float_of(result_of(module, "power", (uint32_t)-3)) == 0.125f);
	OK(cuModuleUnload(module));
}

int main(void)
{
	CUcontext context;

	OK(cuInit(0));
	OK(cuDevicePrimaryCtxRetain(&context, 0));
	OK(cuCtxSetCurrent(context));
	OK(cuMemAlloc_v2(&memory, 4096));
	library_functions();
	OK(cuMemFree_v2(memory));
	printf("modules: passed\n");
	return 0;
}
