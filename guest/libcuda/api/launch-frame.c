/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Launches as CUDA 1 to 3 had them, which NVIDIA's driver still has: a function keeps its block's shape and its
 * parameters, byte by byte, from call to call. As there, two threads that set up the same function are in each other's
 * way.
 */
#include <stdlib.h>
#include <string.h>

#include "core/request.h"
#include "module/function.h"
#include "protocol/cuda-functions.h"

/* CUDA's bound of a kernel's parameters in its time. */
#define FRAME_BYTES 4096

struct libcuda_frame {
	unsigned int block[3], shared;
	size_t bytes; /* of the parameters */
	uint8_t params[FRAME_BYTES];
};

static CUresult find(CUfunction function, struct libcuda_frame **frame)
{
	struct libcuda_function_entry *e;
	struct libcuda_frame *none = NULL, *new;
	CUresult result = libcuda_require_context();

	if (result == CUDA_SUCCESS)
		result = libcuda_function_lookup(libcuda_context_current(), function, &e);
	if (result != CUDA_SUCCESS)
		return result;
	*frame = atomic_load(&e->frame);
	if (*frame)
		return CUDA_SUCCESS;
	new = calloc(1, sizeof(*new));
	if (!new)
		return CUDA_ERROR_OUT_OF_MEMORY;
	if (!atomic_compare_exchange_strong(&e->frame, &none, new))
		free(new);
	*frame = none ? none : new;
	return CUDA_SUCCESS;
}

VCUDA_EXPORT CUresult cuFuncSetBlockShape(CUfunction function, int x, int y, int z)
{
	struct libcuda_frame *f;
	CUresult result = find(function, &f);

	if (result != CUDA_SUCCESS)
		return result;
	if (x <= 0 || y <= 0 || z <= 0)
		return CUDA_ERROR_INVALID_VALUE;
	f->block[0] = (unsigned int)x;
	f->block[1] = (unsigned int)y;
	f->block[2] = (unsigned int)z;
	return CUDA_SUCCESS;
}

VCUDA_EXPORT CUresult cuFuncSetSharedSize(CUfunction function, unsigned int bytes)
{
	struct libcuda_frame *f;
	CUresult result = find(function, &f);

	if (result == CUDA_SUCCESS)
		f->shared = bytes;
	return result;
}

VCUDA_EXPORT CUresult cuParamSetSize(CUfunction function, unsigned int bytes)
{
	struct libcuda_frame *f;
	CUresult result = find(function, &f);

	if (result != CUDA_SUCCESS)
		return result;
	if (bytes > FRAME_BYTES)
		return CUDA_ERROR_INVALID_VALUE;
	f->bytes = bytes;
	return CUDA_SUCCESS;
}

VCUDA_EXPORT CUresult cuParamSetv(CUfunction function, int offset, void *from, unsigned int bytes)
{
	struct libcuda_frame *f;
	CUresult result = find(function, &f);

	if (result != CUDA_SUCCESS)
		return result;
	if (offset < 0 || (!from && bytes) || bytes > FRAME_BYTES || (unsigned int)offset > FRAME_BYTES - bytes)
		return CUDA_ERROR_INVALID_VALUE;
	if (bytes)
		memcpy(f->params + offset, from, bytes);
	return CUDA_SUCCESS;
}

VCUDA_EXPORT CUresult cuParamSeti(CUfunction function, int offset, unsigned int value)
{
	return cuParamSetv(function, offset, &value, sizeof(value));
}

VCUDA_EXPORT CUresult cuParamSetf(CUfunction function, int offset, float value)
{
	return cuParamSetv(function, offset, &value, sizeof(value));
}

VCUDA_EXPORT CUresult cuLaunchGridAsync(CUfunction function, int width, int height, CUstream stream)
{
	CUresult cuLaunchKernel(CUfunction, unsigned int, unsigned int, unsigned int, unsigned int, unsigned int,
				unsigned int, unsigned int, CUstream, void **, void **);
	struct libcuda_frame *f;
	CUresult result = find(function, &f);

	if (result != CUDA_SUCCESS)
		return result;
	if (width <= 0 || height <= 0)
		return CUDA_ERROR_INVALID_VALUE;
	return cuLaunchKernel(function, (unsigned int)width, (unsigned int)height, 1, f->block[0], f->block[1],
			      f->block[2], f->shared, stream, NULL,
			      (void *[]){CU_LAUNCH_PARAM_BUFFER_POINTER, f->params, CU_LAUNCH_PARAM_BUFFER_SIZE,
					 &f->bytes, CU_LAUNCH_PARAM_END});
}

VCUDA_EXPORT CUresult cuLaunchGrid(CUfunction function, int width, int height)
{
	return cuLaunchGridAsync(function, width, height, NULL);
}

VCUDA_EXPORT CUresult cuLaunch(CUfunction function)
{
	return cuLaunchGrid(function, 1, 1);
}
