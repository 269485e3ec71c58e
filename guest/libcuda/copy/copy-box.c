/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Two- and three-dimensional copies, row by row. Rows between device and pinned memory are commands of their own. Rows
 * of pageable memory are gathered in staging blocks and sent as one where the device's side has no gaps; where it has,
 * they go through a device buffer without gaps, so that no round trip is made for each row and no byte between the rows
 * is touched.
 */
#include <string.h>

#include "copy/copy-array.h"
#include "core/request.h"
#include "copy/copy.h"
#include "protocol/guest-calls.h"
#include "memory/mapped-host.h"
#include "ring/ring.h"
#include "guest/client/stage.h"
#include "stream/stream.h"

/* The device buffer's cap: a larger box is copied in parts. */
#define BUFFER_BYTES (32ull << 20)

/* Rows [first, first + rows) of a box, counted over all slices. */
struct part {
	const struct libcuda_copy_box *box;
	size_t first, rows;
	const struct call_options *how;
	CUstream stream; /* resolved */
};

static uint64_t row_address(const struct libcuda_copy_end *end, const struct libcuda_copy_box *box, size_t row)
{
	return end->address + row / box->height * end->slice + row % box->height * end->pitch;
}

static size_t row_count(const struct libcuda_copy_box *box)
{
	return box->height * box->depth;
}

/* From the first byte to the last. */
static size_t extent(const struct libcuda_copy_end *end, const struct libcuda_copy_box *box)
{
	return (box->depth - 1) * end->slice + (box->height - 1) * end->pitch + box->width;
}

static bool gapless(const struct libcuda_copy_end *end, const struct libcuda_copy_box *box)
{
	return extent(end, box) == box->width * row_count(box);
}

static CUresult rows_by_command(const struct part *p, enum libcuda_memory_kind to, enum libcuda_memory_kind from)
{
	const struct libcuda_copy_box *b = p->box;
	CUresult result = CUDA_SUCCESS;

	for (size_t row = p->first; row < p->first + p->rows && result == CUDA_SUCCESS; row++) {
		uint64_t dst = row_address(&b->dst, b, row), src = row_address(&b->src, b, row);

		if (to == LIBCUDA_MEMORY_MAPPED)
			result = vcuda_call_cuMemcpyDtoHAsync_v2_with(p->how, (void *)dst, src, b->width, p->stream);
		else if (from == LIBCUDA_MEMORY_MAPPED)
			result = vcuda_call_cuMemcpyHtoDAsync_v2_with(p->how, dst, (const void *)src, b->width,
								      p->stream);
		else
			result = vcuda_call_cuMemcpyDtoDAsync_v2_with(p->how, dst, src, b->width, p->stream);
	}
	return result;
}

/* Rows of pageable memory from or to `device`, where they lie without gaps. `in`: towards the device. Rows fit a
 * staging block. */
static CUresult rows_by_stage(const struct part *p, uint64_t device, bool in)
{
	const struct libcuda_copy_box *b = p->box;
	const struct libcuda_copy_end *host = in ? &b->src : &b->dst;
	size_t each = VCUDA_STAGE_BLOCK_BYTES / b->width;
	CUresult result = CUDA_SUCCESS;
	void *memory;
	uint32_t block = client_stage_take(&memory);

	for (size_t done = 0; done < p->rows && result == CUDA_SUCCESS;) {
		size_t rows = p->rows - done < each ? p->rows - done : each;

		if (!in)
			result = vcuda_call_vcudaStageDtoH_with(p->how, device + done * b->width, block,
								rows * b->width, p->stream, 1);
		for (size_t i = 0; i < rows && result == CUDA_SUCCESS; i++) {
			void *row = (void *)row_address(host, b, p->first + done + i);
			char *packed = (char *)memory + i * b->width;

			if (in)
				memcpy(packed, row, b->width);
			else
				memcpy(row, packed, b->width);
		}
		if (in)
			result = vcuda_call_vcudaStageHtoD_with(p->how, device + done * b->width, block,
								rows * b->width, p->stream, 1);
		done += rows;
	}
	client_stage_give(block);
	return result;
}

/* Rows between `buffer` on the device, where they lie without gaps, and the device's end of the box. */
static CUresult rows_by_buffer(const struct part *p, uint64_t buffer, bool in)
{
	struct libcuda_copy_box packed = *p->box;
	struct libcuda_copy_end *end = in ? &packed.src : &packed.dst;
	struct part q = *p;

	/* Row `first` of the box is row 0 of the buffer. */
	*end = (struct libcuda_copy_end){
		.address = buffer - p->first * packed.width,
		.pitch = packed.width,
		.slice = packed.width * packed.height,
	};
	q.box = &packed;
	return rows_by_command(&q, LIBCUDA_MEMORY_DEVICE, LIBCUDA_MEMORY_DEVICE);
}

static CUresult through_buffer(const struct part *all, bool in)
{
	const struct libcuda_copy_box *b = all->box;
	size_t each = BUFFER_BYTES / b->width, rows = all->rows < each ? all->rows : each;
	struct part p = *all;
	CUdeviceptr buffer;
	CUresult result = vcuda_call_cuMemAlloc_v2_with(all->how, &buffer, rows * b->width), freed;

	if (result != CUDA_SUCCESS)
		return result;
	for (p.first = 0; p.first < all->rows && result == CUDA_SUCCESS; p.first += p.rows) {
		p.rows = all->rows - p.first < rows ? all->rows - p.first : rows;
		if (in) {
			result = rows_by_stage(&p, buffer, true);
			if (result == CUDA_SUCCESS)
				result = rows_by_buffer(&p, buffer, true);
		} else {
			result = rows_by_buffer(&p, buffer, false);
			if (result == CUDA_SUCCESS)
				result = rows_by_stage(&p, buffer, false);
		}
	}
	if (result == CUDA_SUCCESS)
		result = libcuda_stream_wait(all->how, all->stream);
	freed = vcuda_call_cuMemFree_v2_with(all->how, buffer);
	return result != CUDA_SUCCESS ? result : freed;
}

static CUresult row_by_row(const struct libcuda_copy_box *b, CUstream stream, bool async)
{
	CUresult result = CUDA_SUCCESS;

	for (size_t row = 0; row < row_count(b) && result == CUDA_SUCCESS; row++) {
		struct libcuda_copy_end dst = b->dst, src = b->src;

		dst.address = row_address(&b->dst, b, row);
		src.address = row_address(&b->src, b, row);
		result = libcuda_copy(dst, src, b->width, stream, async);
	}
	return result;
}

static CUresult rows_on_host(const struct call_options *how, const struct libcuda_copy_box *b, CUstream stream)
{
	CUresult result = libcuda_stream_wait(how, stream);

	for (size_t row = 0; row < row_count(b) && result == CUDA_SUCCESS; row++)
		memmove((void *)row_address(&b->dst, b, row), (void *)row_address(&b->src, b, row), b->width);
	return result;
}

static CUresult dispatch(const struct call_options *how, const struct libcuda_copy_box *b, enum libcuda_memory_kind to,
			 enum libcuda_memory_kind from, CUstream stream, bool async)
{
	struct part all = {.box = b, .rows = row_count(b), .how = how, .stream = stream};
	bool in = to == LIBCUDA_MEMORY_DEVICE,
	     pageable = to == LIBCUDA_MEMORY_PAGEABLE || from == LIBCUDA_MEMORY_PAGEABLE;
	const struct libcuda_copy_end *device = in ? &b->dst : &b->src;
	CUresult result;

	if (to != LIBCUDA_MEMORY_DEVICE && from != LIBCUDA_MEMORY_DEVICE)
		return rows_on_host(how, b, stream);
	if (pageable && gapless(device, b))
		return rows_by_stage(&all, device->address, in);
	if (pageable)
		return through_buffer(&all, in);
	result = rows_by_command(&all, to, from);
	if (result == CUDA_SUCCESS && !async && (to == LIBCUDA_MEMORY_MAPPED || from == LIBCUDA_MEMORY_MAPPED))
		result = libcuda_stream_wait(how, stream);
	return result;
}

/* Whether a command cannot name the whole box. */
static bool is_in_pieces(const struct libcuda_copy_end *end, const struct libcuda_copy_box *b)
{
	return libcuda_host_piece(end->address, extent(end, b)) < extent(end, b);
}

/* `stream`: as the application named it. */
static CUresult copy_box(const struct call_options *how, const struct libcuda_copy_box *b, CUstream stream,
			 CUstream resolved, bool async)
{
	struct libcuda_operand to, from;
	CUresult result;

	if (!b->width || !row_count(b))
		return CUDA_SUCCESS;
	if (gapless(&b->dst, b) && gapless(&b->src, b))
		return libcuda_copy(b->dst, b->src, b->width * row_count(b), stream, async);
	result = libcuda_operand_find(b->dst.address, extent(&b->dst, b), b->dst.side, &to);
	if (result == CUDA_SUCCESS)
		result = libcuda_operand_find(b->src.address, extent(&b->src, b), b->src.side, &from);
	if (result != CUDA_SUCCESS)
		return result;
	if (b->width > VCUDA_STAGE_BLOCK_BYTES || to.unsure || from.unsure || is_in_pieces(&b->dst, b) ||
	    is_in_pieces(&b->src, b))
		return row_by_row(b, stream, async);
	return dispatch(how, b, to.kind, from.kind, resolved, async);
}

CUresult libcuda_copy_box(const struct libcuda_copy_box *b, CUstream stream, bool async)
{
	CUstream resolved = stream;
	struct call_options how;
	CUresult result = libcuda_stream_visit(&resolved, &how);

	return result == CUDA_SUCCESS ? copy_box(&how, b, stream, resolved, async) : result;
}

/* ---- CUDA's descriptions of a box ---- */

static CUresult describe_end(struct libcuda_copy_end *end, CUmemorytype type, const void *host, CUdeviceptr device)
{
	switch (type) {
	case CU_MEMORYTYPE_HOST:
		*end = (struct libcuda_copy_end){.address = (uintptr_t)host, .side = LIBCUDA_SIDE_HOST};
		return CUDA_SUCCESS;
	case CU_MEMORYTYPE_DEVICE:
		*end = (struct libcuda_copy_end){.address = device, .side = LIBCUDA_SIDE_DEVICE};
		return CUDA_SUCCESS;
	case CU_MEMORYTYPE_UNIFIED:
		*end = (struct libcuda_copy_end){.address = device, .side = LIBCUDA_SIDE_ANY};
		return CUDA_SUCCESS;
	default:
		return CUDA_ERROR_INVALID_VALUE;
	}
}

/*
 * Where a copy starts in a pitched end. Pitch 0 and height 0 stand for "as wide, as high as the copy" where there is
 * one row or slice; any other pitch and height must reach, also of a single row or slice.
 */
static CUresult place_end(struct libcuda_copy_end *end, const struct libcuda_copy_box *b, size_t x, size_t y, size_t z,
			  size_t pitch, size_t height)
{
	if ((pitch || row_count(b) > 1 || y || z) && (x > SIZE_MAX - b->width || pitch < x + b->width))
		return CUDA_ERROR_INVALID_VALUE;
	if ((b->depth > 1 || z) ? height < y + b->height : height && height < b->height)
		return CUDA_ERROR_INVALID_VALUE;
	end->pitch = pitch ? pitch : b->width;
	end->slice = end->pitch * height;
	end->address += z * end->slice + y * end->pitch + x;
	return CUDA_SUCCESS;
}

CUDA_MEMCPY3D libcuda_copy_box_of(const CUDA_MEMCPY2D *c)
{
	return (CUDA_MEMCPY3D){
		.srcXInBytes = c->srcXInBytes,
		.srcY = c->srcY,
		.srcMemoryType = c->srcMemoryType,
		.srcHost = c->srcHost,
		.srcDevice = c->srcDevice,
		.srcArray = c->srcArray,
		.srcPitch = c->srcPitch,
		.srcHeight = c->Height,
		.dstXInBytes = c->dstXInBytes,
		.dstY = c->dstY,
		.dstMemoryType = c->dstMemoryType,
		.dstHost = c->dstHost,
		.dstDevice = c->dstDevice,
		.dstArray = c->dstArray,
		.dstPitch = c->dstPitch,
		.dstHeight = c->Height,
		.WidthInBytes = c->WidthInBytes,
		.Height = c->Height,
		.Depth = 1,
	};
}

CUresult libcuda_copy_2d(const CUDA_MEMCPY2D *c, CUstream stream, bool async)
{
	CUstream resolved = stream;
	CUresult result = libcuda_stream_enter(&resolved);
	struct libcuda_copy_box b;
	CUDA_MEMCPY3D box;

	if (result != CUDA_SUCCESS)
		return result;
	if (!c)
		return CUDA_ERROR_INVALID_VALUE;
	if (c->srcMemoryType == CU_MEMORYTYPE_ARRAY || c->dstMemoryType == CU_MEMORYTYPE_ARRAY) {
		box = libcuda_copy_box_of(c);
		return libcuda_copy_array(&box, stream, async);
	}
	b = (struct libcuda_copy_box){.width = c->WidthInBytes, .height = c->Height, .depth = 1};
	result = describe_end(&b.src, c->srcMemoryType, c->srcHost, c->srcDevice);
	if (result == CUDA_SUCCESS)
		result = describe_end(&b.dst, c->dstMemoryType, c->dstHost, c->dstDevice);
	if (result == CUDA_SUCCESS)
		result = place_end(&b.src, &b, c->srcXInBytes, c->srcY, 0, c->srcPitch, c->Height);
	if (result == CUDA_SUCCESS)
		result = place_end(&b.dst, &b, c->dstXInBytes, c->dstY, 0, c->dstPitch, c->Height);
	return result != CUDA_SUCCESS ? result : libcuda_copy_box(&b, stream, async);
}

CUresult libcuda_copy_3d(const CUDA_MEMCPY3D *c, CUstream stream, bool async)
{
	CUstream resolved = stream;
	CUresult result = libcuda_stream_enter(&resolved);
	struct libcuda_copy_box b;

	if (result != CUDA_SUCCESS)
		return result;
	if (!c || c->srcLOD || c->dstLOD)
		return CUDA_ERROR_INVALID_VALUE;
	if (c->srcMemoryType == CU_MEMORYTYPE_ARRAY || c->dstMemoryType == CU_MEMORYTYPE_ARRAY)
		return libcuda_copy_array(c, stream, async);
	b = (struct libcuda_copy_box){.width = c->WidthInBytes, .height = c->Height, .depth = c->Depth};
	result = describe_end(&b.src, c->srcMemoryType, c->srcHost, c->srcDevice);
	if (result == CUDA_SUCCESS)
		result = describe_end(&b.dst, c->dstMemoryType, c->dstHost, c->dstDevice);
	if (result == CUDA_SUCCESS)
		result = place_end(&b.src, &b, c->srcXInBytes, c->srcY, c->srcZ, c->srcPitch, c->srcHeight);
	if (result == CUDA_SUCCESS)
		result = place_end(&b.dst, &b, c->dstXInBytes, c->dstY, c->dstZ, c->dstPitch, c->dstHeight);
	return result != CUDA_SUCCESS ? result : libcuda_copy_box(&b, stream, async);
}
