/* SPDX-License-Identifier: Apache-2.0 */
/* Filling device memory with a byte: 1D, 2D and 3D. */
#include "order.h"

static cudaError_t fill(void *address, int value, size_t bytes, struct order order)
{
	CUdeviceptr device = cudart_address(address);

	CUDART_TRY(cudart_enter());
	if (!bytes)
		return cudaSuccess;
	if (order.how == ORDER_DEFAULT)
		return cudart_result(cuMemsetD8_v2(device, (unsigned char)value, bytes));
	return cudart_result(cuMemsetD8Async(device, (unsigned char)value, bytes, order.stream));
}

static cudaError_t fill_rows(void *address, size_t pitch, int value, size_t width, size_t height, struct order order)
{
	CUdeviceptr device = cudart_address(address);

	if (!width || !height)
		return cudaSuccess;
	if (order.how == ORDER_DEFAULT)
		return (cudaError_t)cuMemsetD2D8_v2(device, pitch, (unsigned char)value, width, height);
	return (cudaError_t)cuMemsetD2D8Async(device, pitch, (unsigned char)value, width, height, order.stream);
}

static cudaError_t fill_2d(void *address, size_t pitch, int value, size_t width, size_t height, struct order order)
{
	CUDART_TRY(cudart_enter());
	return cudart_record(fill_rows(address, pitch, value, width, height, order));
}

static cudaError_t fill_3d(struct cudaPitchedPtr pitched, int value, struct cudaExtent extent, struct order order)
{
	size_t slice, rows;

	CUDART_TRY(cudart_enter());
	if (__builtin_mul_overflow(pitched.pitch, pitched.ysize, &slice) ||
	    __builtin_mul_overflow(extent.height, extent.depth, &rows))
		return cudart_record(cudaErrorInvalidValue);
	if (extent.width && rows > 1 && pitched.pitch < extent.width)
		return cudart_record(cudaErrorInvalidValue);
	if (extent.height == pitched.ysize)
		return cudart_record(fill_rows(pitched.ptr, pitched.pitch, value, extent.width, rows, order));
	for (size_t z = 0; z < extent.depth; z++)
		CUDART_TRY(fill_rows((char *)pitched.ptr + z * slice, pitched.pitch, value, extent.width, extent.height,
				     order));
	return cudaSuccess;
}

CUDART_API cudaError_t cudaMemset(void *address, int value, size_t bytes)
{
	return fill(address, value, bytes, order_default);
}

CUDART_API cudaError_t cudaMemset_ptds(void *address, int value, size_t bytes)
{
	return fill(address, value, bytes, order_per_thread);
}

CUDART_API cudaError_t cudaMemsetAsync(void *address, int value, size_t bytes, cudaStream_t stream)
{
	return fill(address, value, bytes, order_async(stream));
}

CUDART_API cudaError_t cudaMemsetAsync_ptsz(void *address, int value, size_t bytes, cudaStream_t stream)
{
	return fill(address, value, bytes, order_async_per_thread(stream));
}

CUDART_API cudaError_t cudaMemset2D(void *address, size_t pitch, int value, size_t width, size_t height)
{
	return fill_2d(address, pitch, value, width, height, order_default);
}

CUDART_API cudaError_t cudaMemset2D_ptds(void *address, size_t pitch, int value, size_t width, size_t height)
{
	return fill_2d(address, pitch, value, width, height, order_per_thread);
}

CUDART_API cudaError_t cudaMemset2DAsync(void *address, size_t pitch, int value, size_t width, size_t height,
					 cudaStream_t stream)
{
	return fill_2d(address, pitch, value, width, height, order_async(stream));
}

CUDART_API cudaError_t cudaMemset2DAsync_ptsz(void *address, size_t pitch, int value, size_t width, size_t height,
					      cudaStream_t stream)
{
	return fill_2d(address, pitch, value, width, height, order_async_per_thread(stream));
}

CUDART_API cudaError_t cudaMemset3D(struct cudaPitchedPtr pitched, int value, struct cudaExtent extent)
{
	return fill_3d(pitched, value, extent, order_default);
}

CUDART_API cudaError_t cudaMemset3D_ptds(struct cudaPitchedPtr pitched, int value, struct cudaExtent extent)
{
	return fill_3d(pitched, value, extent, order_per_thread);
}

CUDART_API cudaError_t cudaMemset3DAsync(struct cudaPitchedPtr pitched, int value, struct cudaExtent extent,
					 cudaStream_t stream)
{
	return fill_3d(pitched, value, extent, order_async(stream));
}

CUDART_API cudaError_t cudaMemset3DAsync_ptsz(struct cudaPitchedPtr pitched, int value, struct cudaExtent extent,
					      cudaStream_t stream)
{
	return fill_3d(pitched, value, extent, order_async_per_thread(stream));
}
