/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Copies of boxes from or to arrays. The worker's device does them; rows of pageable memory are gathered in staging
 * blocks, as many at a time as form a box of the array: whole slices, rows of one slice, or a part of a row.
 */
#include "copy/copy-array.h"

#include <string.h>

#include "core/request.h"
#include "protocol/guest-calls.h"
#include "core/object.h"
#include "memory/array.h"
#include "ring/ring.h"
#include "guest/client/stage.h"
#include "stream/stream.h"

static bool fits(size_t at, size_t length, size_t size)
{
	return at <= size && length <= size - at;
}

/* Rows and slices of an array: those that its description leaves out are one. */
static size_t at_least_one(size_t n)
{
	return n ? n : 1;
}

static CUresult check_array(const struct libcuda_context *context, struct libcuda_box_side *s, const vcuda_box *box)
{
	struct libcuda_object *o = libcuda_array_find(s->array);
	const vcuda_box_end *e = &s->end;
	size_t texel;

	if (!o)
		return CUDA_ERROR_INVALID_HANDLE;
	texel = libcuda_texel_bytes(o->array.Format, o->array.NumChannels);
	if (!fits(e->x, box->width, o->array.Width * texel) ||
	    !fits(e->y, box->height, at_least_one(o->array.Height)) ||
	    !fits(e->z, box->depth, at_least_one(o->array.Depth)))
		return CUDA_ERROR_INVALID_VALUE;
	/* Whether another context's may be copied the back end says. */
	s->unsure = o->context != context;
	return CUDA_SUCCESS;
}

/* a * b + c; false where that is too much. */
static bool multiply_add(uint64_t a, uint64_t b, uint64_t c, uint64_t *sum)
{
	return !__builtin_mul_overflow(a, b, sum) && !__builtin_add_overflow(*sum, c, sum);
}

/* Finds the kind of the memory, and adds the position to the address. */
static CUresult check_memory(struct libcuda_box_side *s, const vcuda_box *box)
{
	vcuda_box_end *e = &s->end;
	enum libcuda_side side = s->type == CU_MEMORYTYPE_HOST     ? LIBCUDA_SIDE_HOST
				 : s->type == CU_MEMORYTYPE_DEVICE ? LIBCUDA_SIDE_DEVICE
								   : LIBCUDA_SIDE_ANY;
	uint64_t slice, start;
	struct libcuda_operand operand;
	CUresult result;

	e->pitch = e->pitch ? e->pitch : e->x + box->width;
	if ((box->depth > 1 || e->z) ? !fits(e->y, box->height, e->height) : e->height && e->height < box->height)
		return CUDA_ERROR_INVALID_VALUE;
	if (e->height < box->height)
		e->height = box->height;
	if (!fits(e->x, box->width, e->pitch) || !multiply_add(e->pitch, e->height, 0, &slice) ||
	    !multiply_add(e->y, e->pitch, e->x, &start) || !multiply_add(e->z, slice, start, &start) ||
	    __builtin_add_overflow(e->address, start, &e->address) ||
	    !multiply_add(box->height - 1, e->pitch, box->width, &s->extent) ||
	    !multiply_add(box->depth - 1, slice, s->extent, &s->extent))
		return CUDA_ERROR_INVALID_VALUE;
	e->x = e->y = e->z = 0;
	result = libcuda_operand_find(e->address, s->extent, side, &operand);
	s->kind = operand.kind;
	s->unsure = operand.unsure;
	s->seen = operand.seen;
	return result;
}

static CUresult check(const struct libcuda_context *context, struct libcuda_box_side *s, const vcuda_box *box)
{
	switch (s->type) {
	case CU_MEMORYTYPE_ARRAY:
		s->kind = LIBCUDA_MEMORY_DEVICE;
		return check_array(context, s, box);
	case CU_MEMORYTYPE_HOST:
	case CU_MEMORYTYPE_DEVICE:
	case CU_MEMORYTYPE_UNIFIED:
		s->array = NULL;
		return check_memory(s, box);
	default:
		return CUDA_ERROR_INVALID_VALUE;
	}
}

/* ---- pageable memory ---- */

/* The next part of a box: where it begins, from the box's own start, and how large it is. */
struct part {
	uint64_t x, y, z, width, height, depth;
};

static void size_part(const vcuda_box *box, struct part *p)
{
	uint64_t room = VCUDA_STAGE_BLOCK_BYTES, slice = box->width * box->height;

	p->width = box->width - p->x;
	p->height = p->depth = 1;
	if (box->width > room || p->x) {
		p->width = p->width < room ? p->width : room;
	} else if (p->y || slice > room) {
		p->height = room / box->width < box->height - p->y ? room / box->width : box->height - p->y;
	} else {
		p->height = box->height;
		p->depth = room / slice < box->depth - p->z ? room / slice : box->depth - p->z;
	}
}

/* False: that was all. */
static bool next_part(const vcuda_box *box, struct part *p)
{
	p->x += p->width;
	if (p->x >= box->width) {
		p->x = 0;
		p->y += p->height;
	}
	if (p->y >= box->height) {
		p->y = 0;
		p->z += p->depth;
	}
	return p->z < box->depth;
}

static void move_rows(char *packed, const vcuda_box_end *e, const struct part *p, bool in)
{
	for (uint64_t z = 0; z < p->depth; z++)
		for (uint64_t y = 0; y < p->height; y++) {
			char *row =
				(char *)(e->address + (p->z + z) * e->pitch * e->height + (p->y + y) * e->pitch + p->x);

			if (in)
				memcpy(packed, row, p->width);
			else
				memcpy(row, packed, p->width);
			packed += p->width;
		}
}

/* `in`: towards the device. The other end is an array. */
static CUresult by_stage(const struct call_options *how, const vcuda_box *box, CUarray array, CUstream stream, bool in)
{
	const vcuda_box_end *host = in ? &box->src : &box->dst, *device = in ? &box->dst : &box->src;
	struct part p = {0};
	CUresult result;
	void *memory;
	uint32_t block = client_stage_take(&memory);

	do {
		uint64_t bytes;
		vcuda_box b = {0};

		size_part(box, &p);
		b.width = p.width;
		b.height = p.height;
		b.depth = p.depth;
		b.src = b.dst = (vcuda_box_end){.pitch = p.width, .height = p.height};
		*(in ? &b.dst : &b.src) =
			(vcuda_box_end){.x = device->x + p.x, .y = device->y + p.y, .z = device->z + p.z};
		bytes = p.width * p.height * p.depth;
		if (in) {
			move_rows(memory, host, &p, true);
			result = vcuda_call_vcudaStageBoxHtoD_with(how, array, block, bytes, b, stream);
		} else {
			result = vcuda_call_vcudaStageBoxDtoH_with(how, block, bytes, array, b, stream);
			if (result == CUDA_SUCCESS)
				move_rows(memory, host, &p, false);
		}
	} while (result == CUDA_SUCCESS && next_part(box, &p));
	client_stage_give(block);
	return result;
}

/* ---- all ---- */

static CUresult dispatch(const struct call_options *how, const vcuda_box *box, const struct libcuda_box_side *to,
			 const struct libcuda_box_side *from, CUstream stream, bool async)
{
	CUresult result;

	if (from->kind == LIBCUDA_MEMORY_PAGEABLE)
		return by_stage(how, box, to->array, stream, true);
	if (to->kind == LIBCUDA_MEMORY_PAGEABLE)
		return by_stage(how, box, from->array, stream, false);
	if (from->kind == LIBCUDA_MEMORY_MAPPED)
		result = vcuda_call_vcudaBoxHtoD_with(how, to->array, (const void *)from->end.address, from->extent,
						      *box, stream);
	else if (to->kind == LIBCUDA_MEMORY_MAPPED)
		result = vcuda_call_vcudaBoxDtoH_with(how, (void *)to->end.address, to->extent, from->array, *box,
						      stream);
	else
		return vcuda_call_vcudaBoxDtoD_with(how, to->array, from->array, *box, stream);
	return result == CUDA_SUCCESS && !async ? libcuda_stream_wait(how, stream) : result;
}

bool libcuda_box_is_empty(const vcuda_box *box)
{
	return !box->width || !box->height || !box->depth;
}

CUresult libcuda_box_copy_check(const struct libcuda_context *context, const CUDA_MEMCPY3D *c,
				struct libcuda_box_copy *copy)
{
	struct libcuda_box_side *to = &copy->to, *from = &copy->from;
	CUresult result;

	*to = (struct libcuda_box_side){
		.type = c->dstMemoryType,
		.array = c->dstArray,
		.end = {.x = c->dstXInBytes, .y = c->dstY, .z = c->dstZ, .pitch = c->dstPitch, .height = c->dstHeight},
	};
	*from = (struct libcuda_box_side){
		.type = c->srcMemoryType,
		.array = c->srcArray,
		.end = {.x = c->srcXInBytes, .y = c->srcY, .z = c->srcZ, .pitch = c->srcPitch, .height = c->srcHeight},
	};
	copy->box = (vcuda_box){.width = c->WidthInBytes, .height = c->Height, .depth = c->Depth};
	if (libcuda_box_is_empty(&copy->box))
		return CUDA_SUCCESS;
	to->end.address = to->type == CU_MEMORYTYPE_HOST ? (uintptr_t)c->dstHost : c->dstDevice;
	from->end.address = from->type == CU_MEMORYTYPE_HOST ? (uintptr_t)c->srcHost : c->srcDevice;
	result = check(context, to, &copy->box);
	if (result == CUDA_SUCCESS)
		result = check(context, from, &copy->box);
	copy->box.dst = to->end;
	copy->box.src = from->end;
	return result;
}

CUresult libcuda_copy_array(const CUDA_MEMCPY3D *c, CUstream stream, bool async)
{
	struct libcuda_box_copy copy;
	struct call_options how;
	CUresult result = libcuda_stream_visit(&stream, &how);

	if (result != CUDA_SUCCESS)
		return result;
	result = libcuda_box_copy_check(libcuda_request_context(&how), c, &copy);
	if (result == CUDA_SUCCESS && !libcuda_box_is_empty(&copy.box)) {
		how.wait = copy.to.unsure || copy.from.unsure;
		result = dispatch(&how, &copy.box, &copy.to, &copy.from, stream, async);
		if (result == CUDA_SUCCESS && copy.to.seen && !async)
			result = libcuda_stream_wait(&how, stream);
	}
	return result;
}
