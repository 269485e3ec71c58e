/* SPDX-License-Identifier: Apache-2.0 */
#include "copy/memset.h"

#include "core/request.h"
#include "memory/allocation.h"
#include "protocol/guest-calls.h"
#include "stream/stream.h"

static CUresult fill_line(const struct call_options *how, CUdeviceptr dst, unsigned int element, unsigned int value,
			  size_t width, CUstream stream)
{
	switch (element) {
	case 1:
		return vcuda_call_cuMemsetD8Async_with(how, dst, (uint8_t)value, width, stream);
	case 2:
		return vcuda_call_cuMemsetD16Async_with(how, dst, (ushort16)value, width, stream);
	default:
		return vcuda_call_cuMemsetD32Async_with(how, dst, value, width, stream);
	}
}

static CUresult fill_rows(const struct call_options *how, CUdeviceptr dst, size_t pitch, unsigned int element,
			  unsigned int value, size_t width, size_t height, CUstream stream)
{
	switch (element) {
	case 1:
		return vcuda_call_cuMemsetD2D8Async_with(how, dst, pitch, (uint8_t)value, width, height, stream);
	case 2:
		return vcuda_call_cuMemsetD2D16Async_with(how, dst, pitch, (ushort16)value, width, height, stream);
	default:
		return vcuda_call_cuMemsetD2D32Async_with(how, dst, pitch, value, width, height, stream);
	}
}

/* As with NVIDIA's driver, what begins in host memory of cuMemMap() must end in the same mapping. */
static bool is_in_one_mapping(CUdeviceptr dst, size_t bytes)
{
	struct libcuda_mapping m;

	return !libcuda_host_mapping_at(dst, &m) || bytes <= m.bytes - (dst - m.start);
}

/* Not called where there is nothing to fill. */
static CUresult check_extent(CUdeviceptr dst, size_t pitch, unsigned int element, size_t width, size_t height,
			     struct libcuda_operand *to)
{
	size_t bytes = width * element;

	if (height > 1 && pitch > (SIZE_MAX - bytes) / (height - 1))
		return CUDA_ERROR_INVALID_VALUE;
	if (height > 1)
		bytes += (height - 1) * pitch;
	if (!is_in_one_mapping(dst, bytes))
		return CUDA_ERROR_INVALID_VALUE;
	return libcuda_operand_find(dst, bytes, LIBCUDA_SIDE_DEVICE, to);
}

static bool is_sound(CUdeviceptr dst, size_t pitch, unsigned int element, size_t width, size_t height)
{
	return width <= SIZE_MAX / element && dst % element == 0 &&
	       (height <= 1 || (pitch >= width * element && pitch % element == 0));
}

CUresult libcuda_memset_check(const CUDA_MEMSET_NODE_PARAMS *m, struct libcuda_operand *to)
{
	if (!is_sound(m->dst, m->pitch, m->elementSize, m->width, m->height))
		return CUDA_ERROR_INVALID_VALUE;
	return m->width ? check_extent(m->dst, m->pitch, m->elementSize, m->width, m->height, to) : CUDA_SUCCESS;
}

bool libcuda_memset_is_sound(const CUDA_MEMSET_NODE_PARAMS *m)
{
	struct libcuda_operand to;

	if (!m->height)
		return is_sound(m->dst, m->pitch, m->elementSize, m->width, m->height);
	return libcuda_memset_check(m, &to) == CUDA_SUCCESS;
}

CUresult libcuda_memset_issue(const struct call_options *how, const CUDA_MEMSET_NODE_PARAMS *m, bool unsure,
			      CUstream resolved)
{
	struct call_options options = *how;

	options.wait = unsure;
	return m->height > 1
		       ? fill_rows(&options, m->dst, m->pitch, m->elementSize, m->value, m->width, m->height, resolved)
		       : fill_line(&options, m->dst, m->elementSize, m->value, m->width, resolved);
}

CUresult libcuda_memset(const CUDA_MEMSET_NODE_PARAMS *m, CUstream stream)
{
	struct call_options how;
	struct libcuda_operand to;
	CUresult result;

	if (!m->height)
		return CUDA_SUCCESS;
	result = libcuda_stream_visit(&stream, &how);
	if (result != CUDA_SUCCESS)
		return result;
	result = libcuda_memset_check(m, &to);
	if (result == CUDA_SUCCESS && m->width)
		result = libcuda_memset_issue(&how, m, to.unsure, stream);
	return result;
}
