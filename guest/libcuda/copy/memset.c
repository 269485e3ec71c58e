/* SPDX-License-Identifier: Apache-2.0 */
#include "copy/memset.h"

#include "core/request.h"
#include "memory/mapped-host.h"
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

/* A part for each registration of host memory. */
static CUresult fill_pieces(const struct call_options *how, const CUDA_MEMSET_NODE_PARAMS *m, CUdeviceptr dst,
			    CUstream stream)
{
	CUresult result = CUDA_SUCCESS;

	for (size_t done = 0, piece; done < m->width && result == CUDA_SUCCESS; done += piece) {
		CUdeviceptr at = dst + done * m->elementSize;

		piece = libcuda_host_piece(at, (m->width - done) * m->elementSize) / m->elementSize;
		result = fill_line(how, at, m->elementSize, m->value, piece, stream);
	}
	return result;
}

static CUresult fill_row_by_row(const struct call_options *how, const CUDA_MEMSET_NODE_PARAMS *m, CUstream stream)
{
	CUresult result = CUDA_SUCCESS;

	for (size_t row = 0; row < m->height && result == CUDA_SUCCESS; row++)
		result = fill_pieces(how, m, m->dst + row * m->pitch, stream);
	return result;
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

/* Not called where there is nothing to fill. */
static CUresult check_extent(CUdeviceptr dst, size_t pitch, unsigned int element, size_t width, size_t height,
			     struct libcuda_operand *to)
{
	size_t bytes = width * element;

	if (height > 1 && pitch > (SIZE_MAX - bytes) / (height - 1))
		return CUDA_ERROR_INVALID_VALUE;
	return libcuda_operand_find(dst, height > 1 ? (height - 1) * pitch + bytes : bytes, LIBCUDA_SIDE_DEVICE, to);
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
	size_t extent;

	options.wait = unsure;
	if (m->height <= 1)
		return fill_pieces(&options, m, m->dst, resolved);
	extent = (m->height - 1) * m->pitch + m->width * m->elementSize;
	if (libcuda_host_piece(m->dst, extent) < extent)
		return fill_row_by_row(&options, m, resolved);
	return fill_rows(&options, m->dst, m->pitch, m->elementSize, m->value, m->width, m->height, resolved);
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
