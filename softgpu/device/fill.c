/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Memsets: rows of 1-, 2- or 4-byte elements. One row of any length is the plain memset, cut into pieces that several
 * threads run.
 */
#include <stdlib.h>
#include <string.h>

#include "device/memory.h"
#include "device/stream.h"

#define PIECE (4u << 20)

struct fill {
	struct softgpu_op op;
	uint64_t to;
	size_t pitch, width; /* bytes */
	size_t rows;
	size_t rows_each; /* rows a unit */
	uint32_t value;
	unsigned int element; /* bytes */
};

static void fill_row(uint64_t to, size_t bytes, uint32_t value, unsigned int element)
{
	void *p = (void *)(uintptr_t)to;

	if (element == 1 || (element == 2 && (value & 0xff) == value >> 8) ||
	    (element == 4 && value == (value & 0xff) * 0x01010101u)) {
		memset(p, (int)(value & 0xff), bytes);
	} else if (element == 2) {
		for (uint16_t *q = p, *end = q + bytes / 2; q < end; q++)
			*q = (uint16_t)value;
	} else {
		for (uint32_t *q = p, *end = q + bytes / 4; q < end; q++)
			*q = value;
	}
}

static void fill_run(struct softgpu_op *op, uint64_t unit, uint64_t count)
{
	struct fill *fill = (struct fill *)op;
	size_t row = unit * fill->rows_each, end = row + fill->rows_each;

	for (; row < end && row < fill->rows; row++)
		fill_row(fill->to + row * fill->pitch, fill->width, fill->value, fill->element);
}

static void piece_run(struct softgpu_op *op, uint64_t unit, uint64_t count)
{
	struct fill *fill = (struct fill *)op;
	size_t at = unit * PIECE, n = fill->width - at;

	fill_row(fill->to + at, n < PIECE ? n : PIECE, fill->value, fill->element);
}

static void fill_finish(struct softgpu_op *op)
{
	free(op);
}

/* In bytes, or SIZE_MAX where it is too much: more than any range. */
static size_t extent(size_t pitch, size_t width, size_t rows)
{
	size_t bytes;

	if (__builtin_mul_overflow(pitch, rows - 1, &bytes) || __builtin_add_overflow(bytes, width, &bytes))
		return SIZE_MAX;
	return bytes;
}

static CUresult fill(CUdeviceptr to, size_t pitch, uint32_t value, unsigned int element, size_t width, size_t rows,
		     CUstream handle, bool sync)
{
	struct CUstream_st *stream;
	struct CUctx_st *c;
	struct fill *f;
	CUresult result = softgpu_enter(&c);

	if (result != CUDA_SUCCESS)
		return result;
	stream = softgpu_stream_find(c, handle);
	if (!stream)
		return softgpu_leave(CUDA_ERROR_INVALID_HANDLE);
	if (width == 0 || rows == 0)
		return softgpu_leave(CUDA_SUCCESS);
	if (__builtin_mul_overflow(width, element, &width) || to % element ||
	    (rows > 1 && (pitch < width || pitch % element)))
		return softgpu_leave(CUDA_ERROR_INVALID_VALUE);
	if (!softgpu_range_spans(to, extent(pitch, width, rows), true))
		return softgpu_leave(CUDA_ERROR_INVALID_VALUE);
	sync = sync && (softgpu_range_find(to, 1)->kind == SOFTGPU_HOST || softgpu_mapped_is_guest(to));
	f = calloc(1, sizeof(*f));
	if (!f)
		return softgpu_leave(CUDA_ERROR_OUT_OF_MEMORY);
	*f = (struct fill){.to = to, .pitch = pitch, .width = width, .rows = rows, .value = value, .element = element};
	f->op.run = rows == 1 ? piece_run : fill_run;
	f->op.finish = fill_finish;
	f->op.copies = true;
	f->rows_each = width < PIECE ? PIECE / width : 1;
	f->op.units = rows == 1 ? (width + PIECE - 1) / PIECE : (rows + f->rows_each - 1) / f->rows_each;
	/*
	 * As with the driver, a memset is asynchronous to the host, except a synchronous one of the host's memory. A
	 * small memset is done here nevertheless.
	 */
	if (softgpu_submit(stream, &f->op, true) || sync)
		result = softgpu_stream_wait(stream);
	return softgpu_leave(result);
}

CUresult softgpu_cuMemsetD8_v2(CUdeviceptr dstDevice, uint8_t uc, size_t N)
{
	return fill(dstDevice, 0, uc, 1, N, 1, NULL, true);
}

CUresult softgpu_cuMemsetD16_v2(CUdeviceptr dstDevice, ushort16 us, size_t N)
{
	return fill(dstDevice, 0, us, 2, N, 1, NULL, true);
}

CUresult softgpu_cuMemsetD32_v2(CUdeviceptr dstDevice, unsigned ui, size_t N)
{
	return fill(dstDevice, 0, ui, 4, N, 1, NULL, true);
}

CUresult softgpu_cuMemsetD8Async(CUdeviceptr dstDevice, uint8_t uc, size_t N, CUstream hStream)
{
	return fill(dstDevice, 0, uc, 1, N, 1, hStream, false);
}

CUresult softgpu_cuMemsetD16Async(CUdeviceptr dstDevice, ushort16 us, size_t N, CUstream hStream)
{
	return fill(dstDevice, 0, us, 2, N, 1, hStream, false);
}

CUresult softgpu_cuMemsetD32Async(CUdeviceptr dstDevice, unsigned ui, size_t N, CUstream hStream)
{
	return fill(dstDevice, 0, ui, 4, N, 1, hStream, false);
}

CUresult softgpu_cuMemsetD2D8Async(CUdeviceptr dstDevice, size_t dstPitch, uint8_t uc, size_t Width, size_t Height,
			       CUstream hStream)
{
	return fill(dstDevice, dstPitch, uc, 1, Width, Height, hStream, false);
}

CUresult softgpu_cuMemsetD2D16Async(CUdeviceptr dstDevice, size_t dstPitch, ushort16 us, size_t Width, size_t Height,
				CUstream hStream)
{
	return fill(dstDevice, dstPitch, us, 2, Width, Height, hStream, false);
}

CUresult softgpu_cuMemsetD2D32Async(CUdeviceptr dstDevice, size_t dstPitch, unsigned ui, size_t Width, size_t Height,
				CUstream hStream)
{
	return fill(dstDevice, dstPitch, ui, 4, Width, Height, hStream, false);
}
