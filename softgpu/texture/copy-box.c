/* SPDX-License-Identifier: Apache-2.0 */
/* Copies of boxes between arrays and pitched memory. The ranges of a copy are checked at the call. */
#include <stdlib.h>
#include <string.h>

#include "texture/array.h"
#include "device/copy.h"
#include "device/stream.h"

#define PIECE (1u << 20)

/* The begin of the box, and the distances of its rows and slices. */
struct end {
	uint64_t address;
	size_t pitch, slice;
};

struct box_copy {
	struct softgpu_op op;
	struct end to, from;
	size_t width, height, rows; /* height: rows of a slice; rows: of all */
	size_t rows_each;
};

static uint64_t row_address(const struct end *e, const struct box_copy *b, size_t row)
{
	return e->address + row / b->height * e->slice + row % b->height * e->pitch;
}

static void box_run(struct softgpu_op *op, uint64_t unit, uint64_t count)
{
	struct box_copy *b = (struct box_copy *)op;
	size_t row = unit * b->rows_each, end = row + b->rows_each;

	for (; row < end && row < b->rows; row++)
		memmove((void *)(uintptr_t)row_address(&b->to, b, row),
			(const void *)(uintptr_t)row_address(&b->from, b, row), b->width);
}

static void box_finish(struct softgpu_op *op)
{
	free(op);
}

/* One side of CUDA_MEMCPY3D, whose fields have different names for each side. */
struct side {
	size_t x, y, z, lod, pitch, height;
	CUmemorytype type;
	const void *host;
	CUdeviceptr device;
	CUarray array;
};

static bool fits(size_t at, size_t length, size_t size)
{
	return at <= size && length <= size - at;
}

static CUresult array_end(const struct CUctx_st *c, const struct side *s, const CUDA_MEMCPY3D *p, struct end *e)
{
	const struct CUarray_st *a = softgpu_array_find(c, s->array);
	const struct ptx_level *l;

	if (!a)
		return CUDA_ERROR_INVALID_HANDLE;
	l = &a->level;
	if (!fits(s->x, p->WidthInBytes, (size_t)l->width * a->storage->texel_bytes) ||
	    !fits(s->y, p->Height, l->height) || !fits(s->z, p->Depth, l->slices))
		return CUDA_ERROR_INVALID_VALUE;
	*e = (struct end){(uintptr_t)l->data + s->z * l->slice_bytes + s->y * l->pitch + s->x, l->pitch,
			  l->slice_bytes};
	return CUDA_SUCCESS;
}

/* a * b + c, or false where that is too much. */
static bool multiply_add(size_t a, size_t b, size_t c, size_t *sum)
{
	return !__builtin_mul_overflow(a, b, sum) && !__builtin_add_overflow(*sum, c, sum);
}

static CUresult memory_end(const struct side *s, const CUDA_MEMCPY3D *p, bool write, struct end *e)
{
	size_t pitch = s->pitch ? s->pitch : p->WidthInBytes, slice, row, bytes;
	uint64_t start = s->type == CU_MEMORYTYPE_HOST ? (uintptr_t)s->host : s->device;

	if ((s->pitch || p->Height > 1 || p->Depth > 1 || s->y || s->z) && !fits(s->x, p->WidthInBytes, pitch))
		return CUDA_ERROR_INVALID_VALUE;
	if ((p->Depth > 1 || s->z) ? !fits(s->y, p->Height, s->height) : s->height && s->height < p->Height)
		return CUDA_ERROR_INVALID_VALUE;
	/* the first row's offset, then where the last one ends */
	if (!multiply_add(pitch, s->height, 0, &slice) || !multiply_add(s->y, pitch, s->x, &row) ||
	    !multiply_add(s->z, slice, row, &row) || __builtin_add_overflow(start, row, &start) ||
	    !multiply_add(p->Height - 1, pitch, p->WidthInBytes, &bytes) ||
	    !multiply_add(p->Depth - 1, slice, bytes, &bytes))
		return CUDA_ERROR_INVALID_VALUE;
	*e = (struct end){start, pitch, slice};
	if (s->type == CU_MEMORYTYPE_HOST ? !softgpu_copy_host_side(start, bytes, write)
					  : !softgpu_copy_device_side(start, bytes, write))
		return CUDA_ERROR_INVALID_VALUE;
	return CUDA_SUCCESS;
}

static CUresult find_end(const struct CUctx_st *c, const struct side *s, const CUDA_MEMCPY3D *p, bool write,
			 struct end *e)
{
	if (s->lod)
		return CUDA_ERROR_INVALID_VALUE;
	switch (s->type) {
	case CU_MEMORYTYPE_ARRAY:
		return array_end(c, s, p, e);
	case CU_MEMORYTYPE_HOST:
	case CU_MEMORYTYPE_DEVICE:
		return memory_end(s, p, write, e);
	default:
		return CUDA_ERROR_INVALID_VALUE;
	}
}

static CUresult submit(struct CUctx_st *c, struct CUstream_st *stream, const CUDA_MEMCPY3D *p)
{
	struct side from = {p->srcXInBytes, p->srcY,    p->srcZ,      p->srcLOD,  p->srcPitch, p->srcHeight,
			    p->srcMemoryType, p->srcHost, p->srcDevice, p->srcArray};
	struct side to = {p->dstXInBytes, p->dstY,    p->dstZ,      p->dstLOD,  p->dstPitch, p->dstHeight,
			  p->dstMemoryType, p->dstHost, p->dstDevice, p->dstArray};
	struct box_copy *b = calloc(1, sizeof(*b));
	CUresult result;

	if (!b)
		return CUDA_ERROR_OUT_OF_MEMORY;
	result = find_end(c, &from, p, false, &b->from);
	if (result == CUDA_SUCCESS)
		result = find_end(c, &to, p, true, &b->to);
	if (result != CUDA_SUCCESS) {
		free(b);
		return result;
	}
	b->width = p->WidthInBytes;
	b->height = p->Height;
	b->rows = p->Height * p->Depth;
	b->rows_each = b->width < PIECE ? PIECE / b->width : 1;
	b->op.run = box_run;
	b->op.finish = box_finish;
	b->op.copies = true;
	b->op.units = (b->rows + b->rows_each - 1) / b->rows_each;
	softgpu_submit(stream, &b->op, false);
	return CUDA_SUCCESS;
}

CUresult softgpu_cuMemcpy3DAsync_v2(void *pCopy, CUstream hStream)
{
	const CUDA_MEMCPY3D *p = pCopy;
	struct CUstream_st *stream;
	struct CUctx_st *c;
	CUresult result = softgpu_enter(&c);

	if (result != CUDA_SUCCESS)
		return result;
	if (!p)
		return softgpu_leave(CUDA_ERROR_INVALID_VALUE);
	stream = softgpu_stream_find(c, hStream);
	if (!stream)
		return softgpu_leave(CUDA_ERROR_INVALID_HANDLE);
	if (!p->WidthInBytes || !p->Height || !p->Depth)
		return softgpu_leave(CUDA_SUCCESS);
	return softgpu_leave(submit(c, stream, p));
}
