/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Copies of rectangles from and to arrays, and the older ones that give a count of bytes: these begin at a place in the
 * array and go on row after row.
 */
#include <string.h>

#include "array.h"

/* A rectangle in an array, or in memory. Offsets and width in bytes. */
struct plane {
	CUarray array; /* NULL: memory */
	CUmemorytype type;
	const void *memory;
	size_t x, y, pitch;
};

static CUresult copy(const struct plane *to, const struct plane *from, size_t width, size_t height, struct order order)
{
	CUDA_MEMCPY2D c = {
		.srcXInBytes = from->x,
		.srcY = from->y,
		.srcMemoryType = from->type,
		.srcHost = from->memory,
		.srcDevice = cudart_address(from->memory),
		.srcArray = from->array,
		.srcPitch = from->pitch,
		.dstXInBytes = to->x,
		.dstY = to->y,
		.dstMemoryType = to->type,
		.dstHost = (void *)(uintptr_t)to->memory,
		.dstDevice = cudart_address(to->memory),
		.dstArray = to->array,
		.dstPitch = to->pitch,
		.WidthInBytes = width,
		.Height = height,
	};

	if (order.how == ORDER_DEFAULT)
		return cuMemcpy2DUnaligned_v2(&c);
	return (CUresult)order_finish(order, cuMemcpy2DAsync_v2(&c, order.stream));
}

/* The memory's end; `to_array`: it is the source. */
static cudaError_t memory(const void *address, size_t pitch, enum cudaMemcpyKind kind, bool to_array, struct plane *p)
{
	*p = (struct plane){.memory = address, .pitch = pitch};
	if (kind == cudaMemcpyDefault)
		p->type = CU_MEMORYTYPE_UNIFIED;
	else if (kind == cudaMemcpyDeviceToDevice)
		p->type = CU_MEMORYTYPE_DEVICE;
	else if (kind == (to_array ? cudaMemcpyHostToDevice : cudaMemcpyDeviceToHost))
		p->type = CU_MEMORYTYPE_HOST;
	else
		return cudaErrorInvalidMemcpyDirection;
	return cudaSuccess;
}

static struct plane in_array(cudaArray_const_t array, size_t x, size_t y)
{
	return (struct plane){.array = cudart_array(array), .type = CU_MEMORYTYPE_ARRAY, .x = x, .y = y};
}

static cudaError_t rectangle(cudaArray_const_t array, size_t x, size_t y, const void *address, size_t pitch,
			     size_t width, size_t height, enum cudaMemcpyKind kind, bool to_array, struct order order)
{
	struct plane a = in_array(array, x, y), m;

	CUDART_TRY(cudart_enter());
	/* NVIDIA's runtime does not look at the kind of an empty copy */
	if (!width || !height)
		return cudaSuccess;
	CUDART_TRY(memory(address, pitch, kind, to_array, &m));
	/* the driver checks the pitch of a single row: programs pass 0 */
	if (height > 1 && width > pitch)
		return cudart_record(cudaErrorInvalidPitchValue);
	return cudart_result(to_array ? copy(&a, &m, width, height, order) : copy(&m, &a, width, height, order));
}

/* One step of `count` bytes that begin at (*x, *y): the rest of a row, or as many whole rows as there are. */
static void next_step(size_t row, size_t x, size_t count, size_t *width, size_t *height)
{
	*height = 1;
	*width = row - x < count ? row - x : count;
	if (!x && count >= row)
		*height = count / row;
}

static cudaError_t row_bytes(cudaArray_const_t array, size_t x, size_t *row)
{
	CUDA_ARRAY3D_DESCRIPTOR d;
	size_t element;
	cudaError_t error = cudart_array_info(array, &d, &element);

	*row = error ? 0 : d.Width * element;
	return error ? error : x < *row ? cudaSuccess : cudaErrorInvalidValue;
}

static cudaError_t run_of_bytes(cudaArray_const_t array, size_t x, size_t y, const void *address, size_t count,
				enum cudaMemcpyKind kind, bool to_array, struct order order)
{
	size_t row, width, height;
	struct plane m;

	CUDART_TRY(cudart_enter());
	/* with a kind that there is none of NVIDIA's runtime copies nothing, and says nothing */
	if (!count || (unsigned int)kind > cudaMemcpyDefault)
		return cudaSuccess;
	CUDART_TRY(memory(address, 0, kind, to_array, &m));
	CUDART_TRY(row_bytes(array, x, &row));
	while (count) {
		struct plane a = in_array(array, x, y);

		next_step(row, x, count, &width, &height);
		m.pitch = width;
		CUDART_TRY((cudaError_t)(to_array ? copy(&a, &m, width, height, order)
						  : copy(&m, &a, width, height, order)));
		m.memory = (const char *)m.memory + width * height;
		count -= width * height;
		y += x + width == row ? height : 0;
		x = 0;
	}
	return cudaSuccess;
}

/* ---- the API ---- */

#define TO_ARRAY(name, order, ...)                                                                                     \
	CUDART_API cudaError_t name(cudaArray_t to, size_t x, size_t y, const void *from, size_t pitch, size_t width,  \
				    size_t height, enum cudaMemcpyKind kind __VA_ARGS__)                               \
	{                                                                                                              \
		return rectangle(to, x, y, from, pitch, width, height, kind, true, order);                             \
	}
#define FROM_ARRAY(name, order, ...)                                                                                   \
	CUDART_API cudaError_t name(void *to, size_t pitch, cudaArray_const_t from, size_t x, size_t y, size_t width,  \
				    size_t height, enum cudaMemcpyKind kind __VA_ARGS__)                               \
	{                                                                                                              \
		return rectangle(from, x, y, to, pitch, width, height, kind, false, order);                            \
	}
#define BYTES_TO_ARRAY(name, order, ...)                                                                               \
	CUDART_API cudaError_t name(cudaArray_t to, size_t x, size_t y, const void *from, size_t count,                \
				    enum cudaMemcpyKind kind __VA_ARGS__)                                              \
	{                                                                                                              \
		return run_of_bytes(to, x, y, from, count, kind, true, order);                                         \
	}
#define BYTES_FROM_ARRAY(name, order, ...)                                                                             \
	CUDART_API cudaError_t name(void *to, cudaArray_const_t from, size_t x, size_t y, size_t count,                \
				    enum cudaMemcpyKind kind __VA_ARGS__)                                              \
	{                                                                                                              \
		return run_of_bytes(from, x, y, to, count, kind, false, order);                                        \
	}

/* The four entry points of a copy. */
#define STREAM , cudaStream_t stream
#define EACH(X, name)                                                                                                  \
	X(name, order_default)                                                                                         \
	X(name##_ptds, order_per_thread)                                                                               \
	X(name##Async, order_async(stream), STREAM)                                                                    \
	X(name##Async_ptsz, order_async_per_thread(stream), STREAM)

EACH(TO_ARRAY, cudaMemcpy2DToArray)
EACH(FROM_ARRAY, cudaMemcpy2DFromArray)
EACH(BYTES_TO_ARRAY, cudaMemcpyToArray)
EACH(BYTES_FROM_ARRAY, cudaMemcpyFromArray)

static cudaError_t between_arrays(cudaArray_t to, size_t to_x, size_t to_y, cudaArray_const_t from, size_t x, size_t y,
				  size_t width, size_t height, enum cudaMemcpyKind kind, struct order order)
{
	struct plane d = in_array(to, to_x, to_y), s = in_array(from, x, y);

	CUDART_TRY(cudart_enter());
	if (kind != cudaMemcpyDeviceToDevice && kind != cudaMemcpyDefault)
		return cudart_record(cudaErrorInvalidMemcpyDirection);
	if (!width || !height)
		return cudaSuccess;
	return cudart_result(copy(&d, &s, width, height, order));
}

CUDART_API cudaError_t cudaMemcpy2DArrayToArray(cudaArray_t to, size_t to_x, size_t to_y, cudaArray_const_t from,
						size_t x, size_t y, size_t width, size_t height,
						enum cudaMemcpyKind kind)
{
	return between_arrays(to, to_x, to_y, from, x, y, width, height, kind, order_default);
}

CUDART_API cudaError_t cudaMemcpy2DArrayToArray_ptds(cudaArray_t to, size_t to_x, size_t to_y, cudaArray_const_t from,
						     size_t x, size_t y, size_t width, size_t height,
						     enum cudaMemcpyKind kind)
{
	return between_arrays(to, to_x, to_y, from, x, y, width, height, kind, order_per_thread);
}

static cudaError_t bytes_between_arrays(cudaArray_t to, size_t to_x, size_t to_y, cudaArray_const_t from, size_t x,
					size_t y, size_t count, enum cudaMemcpyKind kind, struct order order)
{
	size_t to_row, row;

	CUDART_TRY(cudart_enter());
	if (!count)
		return cudaSuccess;
	CUDART_TRY(row_bytes(to, to_x, &to_row));
	CUDART_TRY(row_bytes(from, x, &row));
	while (count) {
		size_t width = row - x < to_row - to_x ? row - x : to_row - to_x;

		width = width < count ? width : count;
		CUDART_TRY(between_arrays(to, to_x, to_y, from, x, y, width, 1, kind, order));
		count -= width;
		y += (x + width) / row;
		x = (x + width) % row;
		to_y += (to_x + width) / to_row;
		to_x = (to_x + width) % to_row;
	}
	return cudaSuccess;
}

CUDART_API cudaError_t cudaMemcpyArrayToArray(cudaArray_t to, size_t to_x, size_t to_y, cudaArray_const_t from,
					      size_t x, size_t y, size_t count, enum cudaMemcpyKind kind)
{
	return bytes_between_arrays(to, to_x, to_y, from, x, y, count, kind, order_default);
}

CUDART_API cudaError_t cudaMemcpyArrayToArray_ptds(cudaArray_t to, size_t to_x, size_t to_y, cudaArray_const_t from,
						   size_t x, size_t y, size_t count, enum cudaMemcpyKind kind)
{
	return bytes_between_arrays(to, to_x, to_y, from, x, y, count, kind, order_per_thread);
}
