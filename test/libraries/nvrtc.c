/* SPDX-License-Identifier: Apache-2.0 */
/* NVIDIA's run-time compiler, and its linker of intermediate code: what they make is loaded as it is. */
#include "check.h"

#include <cuda.h>
#include <nvrtc.h>

static const char source[] = "template <int k> __global__ void scale(float *a, int n)\n"
			     "{ int i = blockIdx.x * blockDim.x + threadIdx.x; if (i < n) a[i] = a[i] * k + i; }\n";

int main(void)
{
	enum { N = 100 };
	const char *options[] = {"--gpu-architecture=compute_75"}, *name = "scale<3>", *lowered;
	float host[N];
	CUdeviceptr d;
	nvrtcProgram program;
	CUfunction function;
	CUcontext context;
	CUmodule module;
	size_t bytes;
	char *ptx;
	int n = N;
	void *params[] = {&d, &n};

	OK(nvrtcCreateProgram(&program, source, "scale.cu", 0, NULL, NULL));
	OK(nvrtcAddNameExpression(program, name));
	OK(nvrtcCompileProgram(program, 1, options));
	OK(nvrtcGetLoweredName(program, name, &lowered));
	OK(nvrtcGetPTXSize(program, &bytes));
	ptx = malloc(bytes);
	OK(nvrtcGetPTX(program, ptx));
	OK(cuInit(0));
	OK(cuDevicePrimaryCtxRetain(&context, 0));
	OK(cuCtxSetCurrent(context));
	OK(cuModuleLoadData(&module, ptx));
	OK(cuModuleGetFunction(&function, module, lowered));
	for (int i = 0; i < N; i++)
		host[i] = (float)number(i);
	OK(cuMemAlloc(&d, sizeof(host)));
	OK(cuMemcpyHtoD(d, host, sizeof(host)));
	OK(cuLaunchKernel(function, 4, 1, 1, 32, 1, 1, 0, NULL, params, NULL));
	OK(cuMemcpyDtoH(host, d, sizeof(host)));
	for (int i = 0; i < N; i++)
		CHECK(host[i] == (float)number(i) * 3 + (float)i);
	OK(nvrtcDestroyProgram(&program));
	printf("nvrtc: passed\n");
	return 0;
}
