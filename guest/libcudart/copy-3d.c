/* SPDX-License-Identifier: Apache-2.0 */
/* Copies of rectangles in linear memory, and of boxes in linear memory and arrays. */
#include <string.h>

#include "array.h"

/* The driver's names for the two sides of a copy. */
static cudaError_t sides(enum cudaMemcpyKind kind, CUmemorytype *destination, CUmemorytype *source)
{
	switch (kind) {
	case cudaMemcpyHostToHost:
		*destination = *source = CU_MEMORYTYPE_HOST;
		return cudaSuccess;
	case cudaMemcpyHostToDevice:
		*destination = CU_MEMORYTYPE_DEVICE;
		*source = CU_MEMORYTYPE_HOST;
		return cudaSuccess;
	case cudaMemcpyDeviceToHost:
		*destination = CU_MEMORYTYPE_HOST;
		*source = CU_MEMORYTYPE_DEVICE;
		return cudaSuccess;
	case cudaMemcpyDeviceToDevice:
		*destination = *source = CU_MEMORYTYPE_DEVICE;
		return cudaSuccess;
	case cudaMemcpyDefault:
		*destination = *source = CU_MEMORYTYPE_UNIFIED;
		return cudaSuccess;
	}
	return cudaErrorInvalidMemcpyDirection;
}

static cudaError_t copy_2d(void *destination, size_t to_pitch, const void *source, size_t from_pitch, size_t width,
			   size_t height, enum cudaMemcpyKind kind, struct order order)
{
	CUDA_MEMCPY2D copy;

	CUDART_TRY(cudart_enter());
	memset(&copy, 0, sizeof(copy));
	CUDART_TRY(sides(kind, &copy.dstMemoryType, &copy.srcMemoryType));
	if (!width || !height)
		return cudaSuccess;
	/* the driver checks the pitch of a single row */
	if (height > 1 && (width > to_pitch || width > from_pitch))
		return cudart_record(cudaErrorInvalidPitchValue);
	/* Each side is named both ways; the driver reads the one that its type selects. */
	copy.srcHost = source;
	copy.srcDevice = cudart_address(source);
	copy.srcPitch = from_pitch;
	copy.dstHost = destination;
	copy.dstDevice = cudart_address(destination);
	copy.dstPitch = to_pitch;
	copy.WidthInBytes = width;
	copy.Height = height;
	if (order.how == ORDER_DEFAULT)
		return cudart_result(cuMemcpy2DUnaligned_v2(&copy));
	return cudart_record(order_finish(order, cuMemcpy2DAsync_v2(&copy, order.stream)));
}

CUDART_API cudaError_t cudaMemcpy2D(void *destination, size_t to_pitch, const void *source, size_t from_pitch,
				    size_t width, size_t height, enum cudaMemcpyKind kind)
{
	return copy_2d(destination, to_pitch, source, from_pitch, width, height, kind, order_default);
}

CUDART_API cudaError_t cudaMemcpy2D_ptds(void *destination, size_t to_pitch, const void *source, size_t from_pitch,
					 size_t width, size_t height, enum cudaMemcpyKind kind)
{
	return copy_2d(destination, to_pitch, source, from_pitch, width, height, kind, order_per_thread);
}

CUDART_API cudaError_t cudaMemcpy2DAsync(void *destination, size_t to_pitch, const void *source, size_t from_pitch,
					 size_t width, size_t height, enum cudaMemcpyKind kind, cudaStream_t stream)
{
	return copy_2d(destination, to_pitch, source, from_pitch, width, height, kind, order_async(stream));
}

CUDART_API cudaError_t cudaMemcpy2DAsync_ptsz(void *destination, size_t to_pitch, const void *source, size_t from_pitch,
					      size_t width, size_t height, enum cudaMemcpyKind kind,
					      cudaStream_t stream)
{
	return copy_2d(destination, to_pitch, source, from_pitch, width, height, kind, order_async_per_thread(stream));
}

/* One side of a 3D copy must be an array or linear memory, not both. */
static cudaError_t check_3d(cudaArray_t array, const struct cudaPitchedPtr *linear)
{
	return !array == !linear->ptr ? cudaErrorInvalidValue : cudaSuccess;
}

/*
 * As NVIDIA's runtime: where several rows or slices are to follow one another, the pitch must reach the width, which is
 * not turned into bytes for that, and the rows of a slice the height. All else is the driver's to say.
 */
static cudaError_t check_box(const struct cudaPitchedPtr *linear, const struct cudaExtent *extent)
{
	if (!linear->ptr)
		return cudaSuccess;
	if ((extent->height > 1 || extent->depth > 1) && linear->pitch < extent->width)
		return cudaErrorInvalidPitchValue;
	if (extent->depth > 1 && linear->ysize < extent->height)
		return cudaErrorInvalidPitchValue;
	return cudaSuccess;
}

/*
 * Where an array takes part, widths and positions in arrays are in its elements, and positions in linear memory are in
 * bytes nevertheless; else all are in bytes.
 */
static cudaError_t widths(cudaArray_t to, cudaArray_t from, size_t *to_x, size_t *from_x, size_t *width)
{
	CUDA_ARRAY3D_DESCRIPTOR d;
	size_t element, other;
	cudaError_t error;

	if (!to && !from)
		return cudaSuccess;
	error = cudart_array_info(to ? to : from, &d, &element);
	if (!error && to && from) {
		error = cudart_array_info(from, &d, &other);
		if (!error && element != other)
			error = cudaErrorInvalidValue;
	}
	if (error)
		return error;
	if (to && __builtin_mul_overflow(*to_x, element, to_x))
		return cudaErrorInvalidValue;
	if (from && __builtin_mul_overflow(*from_x, element, from_x))
		return cudaErrorInvalidValue;
	return __builtin_mul_overflow(*width, element, width) ? cudaErrorInvalidValue : cudaSuccess;
}

static bool is_empty(const struct cudaExtent *extent)
{
	return !extent->width || !extent->height || !extent->depth;
}

static cudaError_t copy_3d(const struct cudaMemcpy3DParms *params, struct order order)
{
	CUDA_MEMCPY3D copy;

	if (!params)
		return cudart_record(cudaErrorInvalidValue);
	CUDART_TRY(cudart_enter());
	memset(&copy, 0, sizeof(copy));
	CUDART_TRY(sides(params->kind, &copy.dstMemoryType, &copy.srcMemoryType));
	if (is_empty(&params->extent))
		return cudaSuccess;
	CUDART_TRY(check_3d(params->srcArray, &params->srcPtr));
	CUDART_TRY(check_3d(params->dstArray, &params->dstPtr));
	copy.srcXInBytes = params->srcPos.x;
	copy.srcY = params->srcPos.y;
	copy.srcZ = params->srcPos.z;
	copy.srcHost = params->srcPtr.ptr;
	copy.srcDevice = cudart_address(params->srcPtr.ptr);
	copy.srcPitch = params->srcPtr.pitch;
	copy.srcHeight = params->srcPtr.ysize;
	copy.dstXInBytes = params->dstPos.x;
	copy.dstY = params->dstPos.y;
	copy.dstZ = params->dstPos.z;
	copy.dstHost = params->dstPtr.ptr;
	copy.dstDevice = cudart_address(params->dstPtr.ptr);
	copy.dstPitch = params->dstPtr.pitch;
	copy.dstHeight = params->dstPtr.ysize;
	copy.WidthInBytes = params->extent.width;
	copy.Height = params->extent.height;
	copy.Depth = params->extent.depth;
	copy.srcArray = cudart_array(params->srcArray);
	copy.dstArray = cudart_array(params->dstArray);
	copy.srcMemoryType = params->srcArray ? CU_MEMORYTYPE_ARRAY : copy.srcMemoryType;
	copy.dstMemoryType = params->dstArray ? CU_MEMORYTYPE_ARRAY : copy.dstMemoryType;
	CUDART_TRY(
		widths(params->dstArray, params->srcArray, &copy.dstXInBytes, &copy.srcXInBytes, &copy.WidthInBytes));
	CUDART_TRY(check_box(&params->srcPtr, &params->extent));
	CUDART_TRY(check_box(&params->dstPtr, &params->extent));
	if (order.how == ORDER_DESCRIBE) {
		*order.description = copy;
		return cudaSuccess;
	}
	if (order.how == ORDER_DEFAULT)
		return cudart_result(cuMemcpy3D_v2(&copy));
	return cudart_record(order_finish(order, cuMemcpy3DAsync_v2(&copy, order.stream)));
}

cudaError_t cudart_describe_3d(const struct cudaMemcpy3DParms *params, CUDA_MEMCPY3D *copy)
{
	memset(copy, 0, sizeof(*copy));
	return copy_3d(params, (struct order){ORDER_DESCRIBE, NULL, copy});
}

CUDART_API cudaError_t cudaMemcpy3D(const struct cudaMemcpy3DParms *params)
{
	return copy_3d(params, order_default);
}

CUDART_API cudaError_t cudaMemcpy3D_ptds(const struct cudaMemcpy3DParms *params)
{
	return copy_3d(params, order_per_thread);
}

CUDART_API cudaError_t cudaMemcpy3DAsync(const struct cudaMemcpy3DParms *params, cudaStream_t stream)
{
	return copy_3d(params, order_async(stream));
}

CUDART_API cudaError_t cudaMemcpy3DAsync_ptsz(const struct cudaMemcpy3DParms *params, cudaStream_t stream)
{
	return copy_3d(params, order_async_per_thread(stream));
}

static cudaError_t copy_3d_peer(const struct cudaMemcpy3DPeerParms *params, struct order order)
{
	CUDA_MEMCPY3D_PEER copy;

	if (!params)
		return cudart_record(cudaErrorInvalidValue);
	CUDART_TRY(cudart_enter());
	memset(&copy, 0, sizeof(copy));
	copy.srcMemoryType = copy.dstMemoryType = CU_MEMORYTYPE_DEVICE;
	CUDART_TRY(cudart_primary(params->srcDevice, &copy.srcContext));
	CUDART_TRY(cudart_primary(params->dstDevice, &copy.dstContext));
	if (is_empty(&params->extent))
		return cudaSuccess;
	CUDART_TRY(check_3d(params->srcArray, &params->srcPtr));
	CUDART_TRY(check_3d(params->dstArray, &params->dstPtr));
	copy.srcXInBytes = params->srcPos.x;
	copy.srcY = params->srcPos.y;
	copy.srcZ = params->srcPos.z;
	copy.srcDevice = cudart_address(params->srcPtr.ptr);
	copy.srcPitch = params->srcPtr.pitch;
	copy.srcHeight = params->srcPtr.ysize;
	copy.dstXInBytes = params->dstPos.x;
	copy.dstY = params->dstPos.y;
	copy.dstZ = params->dstPos.z;
	copy.dstDevice = cudart_address(params->dstPtr.ptr);
	copy.dstPitch = params->dstPtr.pitch;
	copy.dstHeight = params->dstPtr.ysize;
	copy.WidthInBytes = params->extent.width;
	copy.Height = params->extent.height;
	copy.Depth = params->extent.depth;
	copy.srcArray = cudart_array(params->srcArray);
	copy.dstArray = cudart_array(params->dstArray);
	copy.srcMemoryType = params->srcArray ? CU_MEMORYTYPE_ARRAY : copy.srcMemoryType;
	copy.dstMemoryType = params->dstArray ? CU_MEMORYTYPE_ARRAY : copy.dstMemoryType;
	CUDART_TRY(
		widths(params->dstArray, params->srcArray, &copy.dstXInBytes, &copy.srcXInBytes, &copy.WidthInBytes));
	CUDART_TRY(check_box(&params->srcPtr, &params->extent));
	CUDART_TRY(check_box(&params->dstPtr, &params->extent));
	if (order.how == ORDER_DEFAULT)
		return cudart_result(cuMemcpy3DPeer(&copy));
	return cudart_record(order_finish(order, cuMemcpy3DPeerAsync(&copy, order.stream)));
}

CUDART_API cudaError_t cudaMemcpy3DPeer(const struct cudaMemcpy3DPeerParms *params)
{
	return copy_3d_peer(params, order_default);
}

CUDART_API cudaError_t cudaMemcpy3DPeer_ptds(const struct cudaMemcpy3DPeerParms *params)
{
	return copy_3d_peer(params, order_per_thread);
}

CUDART_API cudaError_t cudaMemcpy3DPeerAsync(const struct cudaMemcpy3DPeerParms *params, cudaStream_t stream)
{
	return copy_3d_peer(params, order_async(stream));
}

CUDART_API cudaError_t cudaMemcpy3DPeerAsync_ptsz(const struct cudaMemcpy3DPeerParms *params, cudaStream_t stream)
{
	return copy_3d_peer(params, order_async_per_thread(stream));
}
