/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Graphics APIs. None reaches the GPU from here, so all their calls are refused (refused.txt) but the question which
 * devices draw for the current OpenGL context. NVIDIA's documentation has an answer for a context that is not of
 * NVIDIA's OpenGL, or none: CUDA_ERROR_INVALID_GRAPHICS_CONTEXT. Thread-safe.
 */
#include "core/init.h"
#include "core/request.h"
#include "protocol/cuda-functions.h"

#define LIST_ALL 1
#define LIST_NEXT_FRAME 3

VCUDA_EXPORT CUresult cuGLGetDevices_v2(unsigned int *count, CUdevice *devices, unsigned int room, unsigned int list)
{
	CUresult result = libcuda_require_init();

	if (result)
		return result;
	if (!count || (room && !devices) || list < LIST_ALL || list > LIST_NEXT_FRAME)
		return CUDA_ERROR_INVALID_VALUE;
	return CUDA_ERROR_INVALID_GRAPHICS_CONTEXT;
}

VCUDA_SAME(cuGLGetDevices, cuGLGetDevices_v2);
