/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Loads PTX of as many bytes as one likes, and says what its kernel writes.
 *
 * usage: image-cache VALUE BYTES [library]
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "protocol/cuda-functions.h"

#define NEED(call) need(call, #call)

static void need(CUresult result, const char *what)
{
	if (result == CUDA_SUCCESS)
		return;
	printf("%s: CUDA error %d\n", what, (int)result);
	exit(1);
}

/* A comment fills it up. */
static char *write_text(unsigned int value, size_t bytes)
{
	char *text = malloc(bytes + 1024);
	int n = sprintf(text,
			".version 6.3\n.target sm_50\n.address_size 64\n"
			".visible .entry k(.param .u64 p)\n{\n.reg .u64 %%p;\n.reg .u32 %%x;\nld.param.u64 %%p, [p];\n"
			"mov.u32 %%x, %-10u;\nst.global.u32 [%%p], %%x;\nret;\n}\n//",
			value);

	memset(text + n, '-', bytes - (size_t)n - 1);
	text[bytes - 1] = 0;
	return text;
}

static CUfunction load(const char *text, int library)
{
	CUlibrary loaded;
	CUfunction function;
	CUkernel kernel;
	CUmodule module;

	if (!library) {
		NEED(cuModuleLoadData(&module, text));
		NEED(cuModuleGetFunction(&function, module, "k"));
		return function;
	}
	NEED(cuLibraryLoadData(&loaded, text, NULL, NULL, 0, NULL, NULL, 0));
	NEED(cuLibraryGetKernel(&kernel, loaded, "k"));
	NEED(cuKernelGetFunction(&function, kernel));
	return function;
}

int main(int argc, char **argv)
{
	CUcontext context;
	CUdeviceptr memory;
	CUfunction function;
	unsigned int value;
	char *text;

	if (argc < 3)
		return 2;
	NEED(cuInit(0));
	NEED(cuDevicePrimaryCtxRetain(&context, 0));
	NEED(cuCtxSetCurrent(context));
	text = write_text((unsigned int)atoi(argv[1]), (size_t)atol(argv[2]));
	function = load(text, argc > 3);
	free(text);
	NEED(cuMemAlloc_v2(&memory, sizeof(value)));
	NEED(cuLaunchKernel(function, 1, 1, 1, 1, 1, 1, 0, NULL, (void *[]){&memory}, NULL));
	NEED(cuMemcpyDtoH_v2(&value, memory, sizeof(value)));
	printf("%u\n", value);
	return 0;
}
