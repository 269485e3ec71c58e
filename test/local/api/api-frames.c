/* SPDX-License-Identifier: Apache-2.0 */
/* Launches as CUDA 1 to 3 had them: a function keeps its block's shape and its parameters. */
#include "test/local/api.h"

enum { THREADS = 32, COUNT = 128, BYTES = 16 /* bytes of the parameters of `step` */ };

static CUdeviceptr memory;

/* All words are `before` now, or up to `changed`, as step() leaves them. */
static void expect(uint32_t before, uint32_t k, uint32_t changed)
{
	uint32_t got[COUNT];

	OK(cuMemcpyDtoH_v2(got, memory, sizeof(got)));
	for (uint32_t i = 0; i < COUNT; i++)
		CHECK(got[i] == (i < changed ? before * k + 1 : before));
	OK(cuMemsetD32Async(memory, 5, COUNT, NULL));
}

static void launches(CUfunction f)
{
	CUstream stream;

	OK(cuStreamCreate(&stream, 0));
	OK(cuMemsetD32Async(memory, 5, COUNT, NULL));
	OK(cuFuncSetBlockShape(f, THREADS, 1, 1));
	OK(cuFuncSetSharedSize(f, 0));
	OK(cuParamSetv(f, 0, &memory, sizeof(memory)));
	OK(cuParamSeti(f, 8, 3));
	OK(cuParamSeti(f, 12, COUNT));
	OK(cuParamSetSize(f, BYTES));
	OK(cuLaunch(f));
	expect(5, 3, THREADS);
	/* settings stay, and can be changed one by one */
	OK(cuLaunchGrid(f, 3, 1));
	expect(5, 3, 3 * THREADS);
	OK(cuParamSeti(f, 8, 7));
	OK(cuLaunchGridAsync(f, 2, 1, stream));
	OK(cuStreamSynchronize(stream));
	expect(5, 7, 2 * THREADS);
	/* the bits of a float */
	OK(cuParamSetf(f, 8, 1.5f));
	OK(cuLaunchGrid(f, 4, 1));
	expect(5, 0x3fc00000, COUNT);
	OK(cuStreamDestroy_v2(stream));
}

static void errors(CUfunction f)
{
	CUfunction fresh = api_function("hold");
	char byte = 0;

	GIVES(cuFuncSetBlockShape(f, 0, 1, 1), CUDA_ERROR_INVALID_VALUE);
	GIVES(cuFuncSetBlockShape(f, 1, -1, 1), CUDA_ERROR_INVALID_VALUE);
	GIVES(cuParamSetv(f, -1, &byte, 1), CUDA_ERROR_INVALID_VALUE);
	GIVES(cuParamSetv(f, 4096, &byte, 1), CUDA_ERROR_INVALID_VALUE);
	GIVES(cuParamSetv(f, 4094, &byte, 0xffffffff), CUDA_ERROR_INVALID_VALUE);
	GIVES(cuParamSetv(f, 0, NULL, 4), CUDA_ERROR_INVALID_VALUE);
	GIVES(cuParamSeti(f, 4093, 1), CUDA_ERROR_INVALID_VALUE);
	GIVES(cuParamSetSize(f, 4097), CUDA_ERROR_INVALID_VALUE);
	GIVES(cuLaunchGrid(f, 0, 1), CUDA_ERROR_INVALID_VALUE);
	GIVES(cuLaunchGrid(f, 1, -1), CUDA_ERROR_INVALID_VALUE);
	/* a launch without its parameters, with too many, and without a block shape */
	OK(cuParamSetSize(f, 0));
	GIVES(cuLaunch(f), CUDA_ERROR_INVALID_VALUE);
	OK(cuParamSetSize(f, BYTES + 1));
	GIVES(cuLaunch(f), CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES);
	OK(cuParamSetSize(fresh, sizeof(memory)));
	OK(cuParamSetv(fresh, 0, &memory, sizeof(memory)));
	GIVES(cuLaunch(fresh), CUDA_ERROR_INVALID_VALUE);
	GIVES(cuFuncSetBlockShape((CUfunction)&byte, 1, 1, 1), CUDA_ERROR_INVALID_HANDLE);
	GIVES(cuLaunch((CUfunction)&byte), CUDA_ERROR_INVALID_HANDLE);
}

void api_frames(void)
{
	CUfunction f = api_function("step");

	OK(cuMemAlloc_v2(&memory, COUNT * 4));
	launches(f);
	errors(f);
	OK(cuMemFree_v2(memory));
}
