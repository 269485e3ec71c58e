/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Memsets. On device memory they return before the work is done, the synchronous ones too, as CUDA's do; what can be
 * wrong with one is found here first.
 */
#include "memory/memory.h"

#include "guest/client/call.h"
#include "graph/capture.h"
#include "protocol/guest-calls.h"
#include "copy/operand.h"
#include "stream/stream.h"
#include "core/thread.h"

static CUresult fill_line(CUdeviceptr dst, unsigned int element, unsigned int value, size_t width, CUstream stream)
{
	switch (element) {
	case 1:
		return vcuda_call_cuMemsetD8Async(dst, (uint8_t)value, width, stream);
	case 2:
		return vcuda_call_cuMemsetD16Async(dst, (ushort16)value, width, stream);
	default:
		return vcuda_call_cuMemsetD32Async(dst, value, width, stream);
	}
}

static CUresult fill_rows(CUdeviceptr dst, size_t pitch, unsigned int element, unsigned int value, size_t width,
			  size_t height, CUstream stream)
{
	switch (element) {
	case 1:
		return vcuda_call_cuMemsetD2D8Async(dst, pitch, (uint8_t)value, width, height, stream);
	case 2:
		return vcuda_call_cuMemsetD2D16Async(dst, pitch, (ushort16)value, width, height, stream);
	default:
		return vcuda_call_cuMemsetD2D32Async(dst, pitch, value, width, height, stream);
	}
}

/* height 0: one line, and `pitch` means nothing. Not called where there is nothing to fill. */
static CUresult check(CUdeviceptr dst, size_t pitch, unsigned int element, size_t width, size_t height,
		      struct vcuda_operand *to)
{
	size_t bytes = width * element;

	if (height > 1 && pitch > (SIZE_MAX - bytes) / (height - 1))
		return CUDA_ERROR_INVALID_VALUE;
	return vcuda_operand_find(dst, height > 1 ? (height - 1) * pitch + bytes : bytes, VCUDA_SIDE_DEVICE, to);
}

static bool is_sound(CUdeviceptr dst, size_t pitch, unsigned int element, size_t width, size_t height)
{
	return width <= SIZE_MAX / element && dst % element == 0 &&
	       (height <= 1 || (pitch >= width * element && pitch % element == 0));
}

static CUresult fill_resolved(CUdeviceptr dst, size_t pitch, unsigned int element, unsigned int value, size_t width,
			      size_t height, CUstream stream)
{
	CUgraphNodeParams p = {.type = CU_GRAPH_NODE_TYPE_MEMSET};
	struct vcuda_operand to;
	CUresult result;

	if (!is_sound(dst, pitch, element, width, height))
		return CUDA_ERROR_INVALID_VALUE;
	if (!width)
		return CUDA_SUCCESS;
	result = check(dst, pitch, element, width, height, &to);
	if (result != CUDA_SUCCESS)
		return result;
	p.memset = (CUDA_MEMSET_NODE_PARAMS_v2){dst, pitch, value, element, width, height ? height : 1, NULL};
	if (vcuda_capture_takes(stream, &p, &result))
		return result;
	vcuda_thread()->call_sync = to.unsure;
	if (height > 1)
		result = fill_rows(dst, pitch, element, value, width, height, stream);
	else
		result = fill_line(dst, element, value, width, stream);
	vcuda_thread()->call_sync = false;
	return result;
}

static CUresult fill(CUdeviceptr dst, size_t pitch, unsigned int element, unsigned int value, size_t width,
		     size_t height, CUstream stream)
{
	struct vcuda_context *before;
	CUresult result = vcuda_stream_visit(&stream, &before);

	if (result != CUDA_SUCCESS)
		return result;
	result = fill_resolved(dst, pitch, element, value, width, height, stream);
	vcuda_stream_return(before);
	return result;
}

bool vcuda_memset_is_sound(const CUDA_MEMSET_NODE_PARAMS *m)
{
	struct vcuda_operand to;

	if (!is_sound(m->dst, m->pitch, m->elementSize, m->width, m->height))
		return false;
	if (!m->width || !m->height)
		return true;
	return check(m->dst, m->pitch, m->elementSize, m->width, m->height, &to) == CUDA_SUCCESS;
}

CUresult vcuda_memset(const CUDA_MEMSET_NODE_PARAMS *m, CUstream stream)
{
	return m->height ? fill(m->dst, m->pitch, m->elementSize, m->value, m->width, m->height, stream) : CUDA_SUCCESS;
}

/* Pinned memory is the host's too: there a synchronous memset waits. */
static CUresult fill_sync(CUdeviceptr dst, size_t pitch, unsigned int element, unsigned int value, size_t width,
			  size_t height, CUstream stream)
{
	CUresult result = fill(dst, pitch, element, value, width, height, stream);
	struct vcuda_operand to;

	if (result != CUDA_SUCCESS || !width || vcuda_operand_find(dst, 1, VCUDA_SIDE_DEVICE, &to) != CUDA_SUCCESS ||
	    to.place != VCUDA_PLACE_WINDOW)
		return result;
	result = vcuda_stream_resolve(stream, &stream);
	return result == CUDA_SUCCESS ? vcuda_stream_wait(stream) : result;
}

#define MEMSET(bits, type)                                                                                             \
	VCUDA_EXPORT CUresult cuMemsetD##bits##_v2(CUdeviceptr dst, type value, size_t n)                              \
	{                                                                                                              \
		return fill_sync(dst, 0, bits / 8, value, n, 0, NULL);                                                 \
	}                                                                                                              \
	VCUDA_EXPORT CUresult cuMemsetD##bits##_v2_ptds(CUdeviceptr dst, type value, size_t n)                         \
	{                                                                                                              \
		return fill_sync(dst, 0, bits / 8, value, n, 0, CU_STREAM_PER_THREAD);                                 \
	}                                                                                                              \
	VCUDA_EXPORT CUresult cuMemsetD##bits##Async(CUdeviceptr dst, type value, size_t n, CUstream stream)           \
	{                                                                                                              \
		return fill(dst, 0, bits / 8, value, n, 0, stream);                                                    \
	}

#define MEMSET_2D(bits, type)                                                                                          \
	VCUDA_EXPORT CUresult cuMemsetD2D##bits##_v2(CUdeviceptr dst, size_t pitch, type value, size_t width,          \
						     size_t height)                                                    \
	{                                                                                                              \
		return height ? fill_sync(dst, pitch, bits / 8, value, width, height, NULL) : CUDA_SUCCESS;            \
	}                                                                                                              \
	VCUDA_EXPORT CUresult cuMemsetD2D##bits##_v2_ptds(CUdeviceptr dst, size_t pitch, type value, size_t width,     \
							  size_t height)                                               \
	{                                                                                                              \
		return height ? fill_sync(dst, pitch, bits / 8, value, width, height, CU_STREAM_PER_THREAD)            \
			      : CUDA_SUCCESS;                                                                          \
	}                                                                                                              \
	VCUDA_EXPORT CUresult cuMemsetD2D##bits##Async(CUdeviceptr dst, size_t pitch, type value, size_t width,        \
						       size_t height, CUstream stream)                                 \
	{                                                                                                              \
		return height ? fill(dst, pitch, bits / 8, value, width, height, stream) : CUDA_SUCCESS;               \
	}

/* clang-format off */
MEMSET(8, unsigned char)
MEMSET(16, unsigned short)
MEMSET(32, unsigned int)
MEMSET_2D(8, unsigned char)
MEMSET_2D(16, unsigned short)
MEMSET_2D(32, unsigned int)
/* clang-format on */
