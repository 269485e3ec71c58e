/* SPDX-License-Identifier: Apache-2.0 */
/* NVIDIA's run-time compiler, and its linker of intermediate code: what they make is loaded as it is. */
#include "check.h"

#include <cuda.h>
#include <nvrtc.h>
#include <stdbool.h>

enum { N = 100 };

static const char source[] = "template <int k> __global__ void scale(float *a, int n)\n"
			     "{ int i = blockIdx.x * blockDim.x + threadIdx.x; if (i < n) a[i] = a[i] * k + i; }\n";

static void run(CUmodule module, const char *lowered)
{
	float host[N];
	CUdeviceptr d;
	CUfunction function;
	int n = N;
	void *params[] = {&d, &n};

	OK(cuModuleGetFunction(&function, module, lowered));
	for (int i = 0; i < N; i++)
		host[i] = (float)number(i);
	OK(cuMemAlloc(&d, sizeof(host)));
	OK(cuMemcpyHtoD(d, host, sizeof(host)));
	OK(cuLaunchKernel(function, 4, 1, 1, 32, 1, 1, 0, NULL, params, NULL));
	OK(cuMemcpyDtoH(host, d, sizeof(host)));
	for (int i = 0; i < N; i++)
		CHECK(host[i] == (float)number(i) * 3 + (float)i);
	OK(cuMemFree(d));
}

/* Compiles for a target and loads the result unchanged: directly, and through the driver's linker. */
static void compile(const char *option, bool machine_code)
{
	const char *name = "scale<3>", *lowered;
	nvrtcProgram program;
	CUlinkState link;
	CUmodule module;
	size_t bytes;
	void *image;
	char *code;

	OK(nvrtcCreateProgram(&program, source, "scale.cu", 0, NULL, NULL));
	OK(nvrtcAddNameExpression(program, name));
	OK(nvrtcCompileProgram(program, 1, &option));
	OK(nvrtcGetLoweredName(program, name, &lowered));
	OK(machine_code ? nvrtcGetCUBINSize(program, &bytes) : nvrtcGetPTXSize(program, &bytes));
	code = malloc(bytes);
	OK(machine_code ? nvrtcGetCUBIN(program, code) : nvrtcGetPTX(program, code));
	OK(cuModuleLoadData(&module, code));
	run(module, lowered);
	OK(cuModuleUnload(module));
	OK(cuLinkCreate(0, NULL, NULL, &link));
	OK(cuLinkAddData(link, machine_code ? CU_JIT_INPUT_CUBIN : CU_JIT_INPUT_PTX, code, bytes, "a", 0, NULL, NULL));
	OK(cuLinkComplete(link, &image, &bytes));
	OK(cuModuleLoadData(&module, image));
	run(module, lowered);
	OK(cuModuleUnload(module));
	OK(cuLinkDestroy(link));
	free(code);
	OK(nvrtcDestroyProgram(&program));
}

/* NVRTC declares them. */
static const char waiting[] = "extern \"C\" __global__ void turn(int *a, int n)\n"
			      "{ int i = blockIdx.x * blockDim.x + threadIdx.x, x = i; a[i] = x;\n"
			      "  unsigned long long grid = cudaCGGetIntrinsicHandle(cudaCGScopeGrid);\n"
			      "  cudaCGSynchronize(grid, 0); x = a[n - 1 - i];\n"
			      "  cudaCGSynchronize(grid, 0); a[i] = x; }\n";

/* Code that is linked with an archive of object files, NVIDIA's for what kernels call. */
static void link_with_archive(void)
{
	const char *const options[] = {"--gpu-architecture=compute_75", "-rdc=true"};
	nvrtcProgram program;
	CUfunction function;
	CUlinkState link;
	CUmodule module;
	CUdeviceptr d;
	int n = 4 * 32, host[4 * 32];
	void *image, *params[] = {&d, &n};
	size_t bytes;
	char *ptx;

	OK(nvrtcCreateProgram(&program, waiting, "turn.cu", 0, NULL, NULL));
	OK(nvrtcCompileProgram(program, 2, options));
	OK(nvrtcGetPTXSize(program, &bytes));
	ptx = malloc(bytes);
	OK(nvrtcGetPTX(program, ptx));
	OK(nvrtcDestroyProgram(&program));
	OK(cuLinkCreate(0, NULL, NULL, &link));
	OK(cuLinkAddData(link, CU_JIT_INPUT_PTX, ptx, bytes, "turn", 0, NULL, NULL));
	OK(cuLinkAddFile(link, CU_JIT_INPUT_LIBRARY, TOOLKIT "/lib64/libcudadevrt.a", 0, NULL, NULL));
	OK(cuLinkComplete(link, &image, &bytes));
	OK(cuModuleLoadData(&module, image));
	OK(cuLinkDestroy(link));
	OK(cuModuleGetFunction(&function, module, "turn"));
	OK(cuMemAlloc(&d, sizeof(host)));
	OK(cuLaunchCooperativeKernel(function, 4, 1, 1, 32, 1, 1, 0, NULL, params));
	OK(cuMemcpyDtoH(host, d, sizeof(host)));
	for (int i = 0; i < n; i++)
		CHECK(host[i] == n - 1 - i);
	free(ptx);
}

int main(void)
{
	CUcontext context;
	int major, minor;

	OK(cuInit(0));
	OK(cuDevicePrimaryCtxRetain(&context, 0));
	OK(cuCtxSetCurrent(context));
	compile("--gpu-architecture=compute_75", false);
	link_with_archive();
	OK(nvrtcVersion(&major, &minor));
	/* the older ones do not ask the driver for what they compiled before */
	if (major * 10 + minor >= 129)
		compile("--gpu-architecture=sm_80", true);
	printf("nvrtc: passed\n");
	return 0;
}
