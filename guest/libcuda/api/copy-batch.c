/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Many copies in one call. They may be done in any order, so they are issued one after the other on the stream; what
 * can be wrong with one is looked for first, in all of them.
 */
#include "core/capture.h"
#include "api/copy.h"
#include "core/request.h"
#include "memory/array.h"
#include "core/object.h"
#include "stream/stream.h"
#include "protocol/cuda-functions.h"

/* Visits the stream, which is none of the default ones that others wait for. */
static CUresult visit(CUstream *stream, struct call_options *how)
{
	CUresult result;

	if (*stream && *stream != CU_STREAM_LEGACY)
		return libcuda_stream_visit(stream, how);
	result = libcuda_require_context();
	return result == CUDA_SUCCESS ? CUDA_ERROR_INVALID_VALUE : result;
}

static bool is_order(CUmemcpySrcAccessOrder order)
{
	return order == CU_MEMCPY_SRC_ACCESS_ORDER_STREAM || order == CU_MEMCPY_SRC_ACCESS_ORDER_DURING_API_CALL ||
	       order == CU_MEMCPY_SRC_ACCESS_ORDER_ANY;
}

static bool are_flags(unsigned int flags)
{
	return !(flags & ~(unsigned int)CU_MEMCPY_FLAG_PREFER_OVERLAP_WITH_COMPUTE);
}

/*
 * Sources that are read before the call returns: pageable memory always is, other memory once the stream has been
 * waited for. A capture has no such thing.
 */
struct sources {
	bool during_call, must_wait;
};

static CUresult check_copy(CUdeviceptr dst, CUdeviceptr src, size_t bytes, CUmemcpySrcAccessOrder order,
			   struct sources *sources)
{
	struct libcuda_operand to, from;
	CUresult result = libcuda_operands_find((struct libcuda_place){dst, LIBCUDA_SIDE_ANY},
						(struct libcuda_place){src, LIBCUDA_SIDE_ANY}, bytes, &to, &from);

	if (result == CUDA_SUCCESS && order == CU_MEMCPY_SRC_ACCESS_ORDER_DURING_API_CALL) {
		sources->during_call = true;
		sources->must_wait |= from.kind != LIBCUDA_MEMORY_PAGEABLE;
	}
	return result;
}

/* ---- from pointer to pointer ---- */

struct batch {
	const CUdeviceptr *dsts, *srcs;
	const size_t *sizes;
	size_t count;
	const CUmemcpyAttributes *attributes;
	const size_t *first; /* the copy that each of them is for, and those behind it */
	size_t attribute_count;
};

static bool is_complete(const struct batch *b)
{
	if (!b->dsts || !b->srcs || !b->sizes || !b->count || !b->attributes || !b->first || !b->attribute_count ||
	    b->attribute_count > b->count || b->first[0])
		return false;
	for (size_t i = 0; i < b->attribute_count; i++)
		if ((i && b->first[i] <= b->first[i - 1]) || b->first[i] >= b->count ||
		    !is_order(b->attributes[i].srcAccessOrder) || !are_flags(b->attributes[i].flags))
			return false;
	return true;
}

static CUresult check_batch(const struct batch *b, struct sources *sources, size_t *fail)
{
	CUresult result = CUDA_SUCCESS;
	size_t a = 0;

	for (size_t i = 0; i < b->count && result == CUDA_SUCCESS; i++) {
		if (a + 1 < b->attribute_count && b->first[a + 1] == i)
			a++;
		result = check_copy(b->dsts[i], b->srcs[i], b->sizes[i], b->attributes[a].srcAccessOrder, sources);
		if (result != CUDA_SUCCESS)
			*fail = i;
	}
	return result;
}

static struct libcuda_copy_end end_at(CUdeviceptr address)
{
	return (struct libcuda_copy_end){.address = address, .side = LIBCUDA_SIDE_ANY};
}

/* `stream`: as the application named it. */
static CUresult copy_all(const struct call_options *how, const struct batch *b, CUstream stream, CUstream resolved,
			 size_t *fail)
{
	struct sources sources = {0};
	CUresult result = is_complete(b) ? check_batch(b, &sources, fail) : CUDA_ERROR_INVALID_VALUE;

	if (result == CUDA_SUCCESS && sources.during_call)
		result = libcuda_capture_refuses(libcuda_request_context(how), resolved);
	for (size_t i = 0; i < b->count && result == CUDA_SUCCESS; i++) {
		result = libcuda_copy_submit(end_at(b->dsts[i]), end_at(b->srcs[i]), b->sizes[i], stream, true);
		if (result != CUDA_SUCCESS)
			*fail = i;
	}
	return result == CUDA_SUCCESS && sources.must_wait ? libcuda_stream_wait(how, resolved) : result;
}

static CUresult copy_batch(const struct batch *b, CUstream stream, size_t *fail)
{
	CUstream resolved = stream;
	struct call_options how;
	CUresult result = visit(&resolved, &how);

	*fail = SIZE_MAX;
	if (result != CUDA_SUCCESS)
		return result;
	return copy_all(&how, b, stream, resolved, fail);
}

#define BATCH ((const struct batch){dsts, srcs, sizes, count, attributes, first, attribute_count})

VCUDA_EXPORT CUresult cuMemcpyBatchAsync_v2(CUdeviceptr *dsts, CUdeviceptr *srcs, size_t *sizes, size_t count,
					    CUmemcpyAttributes *attributes, size_t *first, size_t attribute_count,
					    CUstream stream)
{
	size_t fail;

	return copy_batch(&BATCH, stream, &fail);
}

/* As CUDA 12.8 had it. */
VCUDA_EXPORT CUresult cuMemcpyBatchAsync(CUdeviceptr *dsts, CUdeviceptr *srcs, size_t *sizes, size_t count,
					 CUmemcpyAttributes *attributes, size_t *first, size_t attribute_count,
					 size_t *fail_index, CUstream stream)
{
	size_t fail;

	return copy_batch(&BATCH, stream, fail_index ? fail_index : &fail);
}

/* ---- boxes ---- */

/* An element's bytes; an operand of plain memory has the other's. 0: not such an operand. */
static size_t element_of(const CUmemcpy3DOperand *o, const CUmemcpy3DOperand *other)
{
	const struct libcuda_object *array;

	if (o->type == CU_MEMCPY_OPERAND_TYPE_POINTER)
		return other && other->type == CU_MEMCPY_OPERAND_TYPE_ARRAY ? element_of(other, NULL) : 1;
	array = o->type == CU_MEMCPY_OPERAND_TYPE_ARRAY ? libcuda_array_find(o->op.array.array) : NULL;
	return array ? libcuda_texel_bytes(array->array.Format, array->array.NumChannels) : 0;
}

/* Rows and layers of plain memory, in elements. */
static bool shape_of(const CUmemcpy3DOperand *o, const CUextent3D *extent, size_t *row, size_t *layer)
{
	*row = extent->width;
	*layer = extent->height;
	if (o->type != CU_MEMCPY_OPERAND_TYPE_POINTER)
		return true;
	if (o->op.ptr.rowLength)
		*row = o->op.ptr.rowLength;
	if (o->op.ptr.layerHeight)
		*layer = o->op.ptr.layerHeight;
	return *row >= extent->width && *layer >= extent->height;
}

/* One end of a copy; CUDA_MEMCPY3D has both ends. */
struct end {
	CUmemorytype type;
	CUdeviceptr device;
	CUarray array;
	size_t x, y, z, pitch, height;
};

static bool describe_end(const CUmemcpy3DOperand *o, const CUextent3D *extent, size_t element, struct end *end)
{
	size_t row;

	*end = (struct end){.type = CU_MEMORYTYPE_UNIFIED};
	if (!shape_of(o, extent, &row, &end->height) || __builtin_mul_overflow(row, element, &end->pitch))
		return false;
	if (o->type == CU_MEMCPY_OPERAND_TYPE_POINTER) {
		end->device = o->op.ptr.ptr;
		return true;
	}
	end->type = CU_MEMORYTYPE_ARRAY;
	end->array = o->op.array.array;
	end->y = o->op.array.offset.y;
	end->z = o->op.array.offset.z;
	return !__builtin_mul_overflow(o->op.array.offset.x, element, &end->x);
}

static CUresult describe(const CUDA_MEMCPY3D_BATCH_OP *op, CUDA_MEMCPY3D *c)
{
	size_t element = element_of(&op->src, &op->dst), width;
	struct end src, dst;

	if (!element || element != element_of(&op->dst, &op->src) || !op->extent.width || !op->extent.height ||
	    !op->extent.depth || !is_order(op->srcAccessOrder) || !are_flags(op->flags) ||
	    __builtin_mul_overflow(op->extent.width, element, &width) ||
	    !describe_end(&op->src, &op->extent, element, &src) || !describe_end(&op->dst, &op->extent, element, &dst))
		return CUDA_ERROR_INVALID_VALUE;
	*c = (CUDA_MEMCPY3D){
		.srcXInBytes = src.x,
		.srcY = src.y,
		.srcZ = src.z,
		.srcMemoryType = src.type,
		.srcDevice = src.device,
		.srcArray = src.array,
		.srcPitch = src.pitch,
		.srcHeight = src.height,
		.dstXInBytes = dst.x,
		.dstY = dst.y,
		.dstZ = dst.z,
		.dstMemoryType = dst.type,
		.dstDevice = dst.device,
		.dstArray = dst.array,
		.dstPitch = dst.pitch,
		.dstHeight = dst.height,
		.WidthInBytes = width,
		.Height = op->extent.height,
		.Depth = op->extent.depth,
	};
	return CUDA_SUCCESS;
}

static CUresult check_boxes(const CUDA_MEMCPY3D_BATCH_OP *ops, size_t count, struct sources *sources, size_t *fail)
{
	CUresult result = CUDA_SUCCESS;
	struct libcuda_operand from;
	CUDA_MEMCPY3D c;

	for (size_t i = 0; i < count && result == CUDA_SUCCESS; i++) {
		result = describe(&ops[i], &c);
		if (result != CUDA_SUCCESS)
			*fail = i;
		if (result != CUDA_SUCCESS || ops[i].srcAccessOrder != CU_MEMCPY_SRC_ACCESS_ORDER_DURING_API_CALL)
			continue;
		sources->during_call = true;
		sources->must_wait |= c.srcArray || libcuda_operand_find(c.srcDevice, 1, LIBCUDA_SIDE_ANY, &from) ||
				      from.kind != LIBCUDA_MEMORY_PAGEABLE;
	}
	return result;
}

static CUresult copy_all_boxes(const struct call_options *how, const CUDA_MEMCPY3D_BATCH_OP *ops, size_t count,
			       CUstream stream, CUstream resolved, size_t *fail)
{
	struct sources sources = {0};
	CUresult result = check_boxes(ops, count, &sources, fail);
	CUDA_MEMCPY3D c;

	if (result == CUDA_SUCCESS && sources.during_call)
		result = libcuda_capture_refuses(libcuda_request_context(how), resolved);
	for (size_t i = 0; i < count && result == CUDA_SUCCESS; i++) {
		result = describe(&ops[i], &c);
		if (result == CUDA_SUCCESS)
			result = libcuda_copy_3d_submit(&c, stream, true);
		if (result != CUDA_SUCCESS)
			*fail = i;
	}
	return result == CUDA_SUCCESS && sources.must_wait ? libcuda_stream_wait(how, resolved) : result;
}

static CUresult copy_boxes(const CUDA_MEMCPY3D_BATCH_OP *ops, size_t count, unsigned long long flags, CUstream stream,
			   size_t *fail)
{
	CUstream resolved = stream;
	struct call_options how;
	CUresult result = visit(&resolved, &how);

	*fail = SIZE_MAX;
	if (result != CUDA_SUCCESS)
		return result;
	return ops && count && !flags ? copy_all_boxes(&how, ops, count, stream, resolved, fail)
				      : CUDA_ERROR_INVALID_VALUE;
}

VCUDA_EXPORT CUresult cuMemcpy3DBatchAsync_v2(size_t count, CUDA_MEMCPY3D_BATCH_OP *ops, unsigned long long flags,
					      CUstream stream)
{
	size_t fail;

	return copy_boxes(ops, count, flags, stream, &fail);
}

VCUDA_EXPORT CUresult cuMemcpy3DBatchAsync(size_t count, CUDA_MEMCPY3D_BATCH_OP *ops, size_t *fail_index,
					   unsigned long long flags, CUstream stream)
{
	size_t fail;

	return copy_boxes(ops, count, flags, stream, fail_index ? fail_index : &fail);
}
