/* SPDX-License-Identifier: Apache-2.0 */
/* Linear copies: between host and device, between devices, to and from device variables. */
#include "order.h"
#include "register.h"

/* With unified addressing the driver tells the sides of a copy apart by their addresses. */
static cudaError_t copy_sync(void *destination, const void *source, size_t bytes, enum cudaMemcpyKind kind)
{
	CUdeviceptr to = cudart_address(destination), from = cudart_address(source);

	switch (kind) {
	case cudaMemcpyHostToDevice:
		return (cudaError_t)cuMemcpyHtoD_v2(to, source, bytes);
	case cudaMemcpyDeviceToHost:
		return (cudaError_t)cuMemcpyDtoH_v2(destination, from, bytes);
	case cudaMemcpyDeviceToDevice:
		return (cudaError_t)cuMemcpyDtoD_v2(to, from, bytes);
	case cudaMemcpyHostToHost:
	case cudaMemcpyDefault:
		return (cudaError_t)cuMemcpy(to, from, bytes);
	}
	return cudaErrorInvalidMemcpyDirection;
}

static CUresult copy_async(void *destination, const void *source, size_t bytes, enum cudaMemcpyKind kind,
			   cudaStream_t stream)
{
	CUdeviceptr to = cudart_address(destination), from = cudart_address(source);

	switch (kind) {
	case cudaMemcpyHostToDevice:
		return cuMemcpyHtoDAsync_v2(to, source, bytes, stream);
	case cudaMemcpyDeviceToHost:
		return cuMemcpyDtoHAsync_v2(destination, from, bytes, stream);
	case cudaMemcpyDeviceToDevice:
		return cuMemcpyDtoDAsync_v2(to, from, bytes, stream);
	case cudaMemcpyHostToHost:
	case cudaMemcpyDefault:
		return cuMemcpyAsync(to, from, bytes, stream);
	}
	return (CUresult)cudaErrorInvalidMemcpyDirection;
}

static cudaError_t copy(void *destination, const void *source, size_t bytes, enum cudaMemcpyKind kind,
			struct order order)
{
	CUDART_TRY(cudart_enter());
	/* NVIDIA's runtime does not look at the kind of an empty copy */
	if (!bytes)
		return cudaSuccess;
	if ((unsigned int)kind > cudaMemcpyDefault)
		return cudart_record(cudaErrorInvalidMemcpyDirection);
	if (order.how == ORDER_DEFAULT)
		return cudart_record(copy_sync(destination, source, bytes, kind));
	return cudart_record(order_finish(order, copy_async(destination, source, bytes, kind, order.stream)));
}

CUDART_API cudaError_t cudaMemcpy(void *destination, const void *source, size_t bytes, enum cudaMemcpyKind kind)
{
	return copy(destination, source, bytes, kind, order_default);
}

CUDART_API cudaError_t cudaMemcpy_ptds(void *destination, const void *source, size_t bytes, enum cudaMemcpyKind kind)
{
	return copy(destination, source, bytes, kind, order_per_thread);
}

CUDART_API cudaError_t cudaMemcpyAsync(void *destination, const void *source, size_t bytes, enum cudaMemcpyKind kind,
				       cudaStream_t stream)
{
	return copy(destination, source, bytes, kind, order_async(stream));
}

CUDART_API cudaError_t cudaMemcpyAsync_ptsz(void *destination, const void *source, size_t bytes,
					    enum cudaMemcpyKind kind, cudaStream_t stream)
{
	return copy(destination, source, bytes, kind, order_async_per_thread(stream));
}

/* The part of a device variable that a copy touches; it must lie inside. An empty part may be anywhere. */
static cudaError_t symbol_part(const void *symbol, size_t bytes, size_t offset, char **address)
{
	CUdeviceptr start;
	size_t size;
	cudaError_t error = cudart_symbol_address(symbol, &start, &size);

	if (error)
		return error;
	if (bytes && (offset > size || bytes > size - offset))
		return cudaErrorInvalidValue;
	*address = (char *)(uintptr_t)start + offset;
	return cudaSuccess;
}

static cudaError_t copy_to_symbol(const void *symbol, const void *source, size_t bytes, size_t offset,
				  enum cudaMemcpyKind kind, struct order order)
{
	char *address;

	CUDART_TRY(cudart_enter());
	CUDART_TRY(symbol_part(symbol, bytes, offset, &address));
	if (bytes && (kind == cudaMemcpyHostToHost || kind == cudaMemcpyDeviceToHost))
		return cudart_record(cudaErrorInvalidMemcpyDirection);
	return copy(address, source, bytes, kind, order);
}

static cudaError_t copy_from_symbol(void *destination, const void *symbol, size_t bytes, size_t offset,
				    enum cudaMemcpyKind kind, struct order order)
{
	char *address;

	CUDART_TRY(cudart_enter());
	CUDART_TRY(symbol_part(symbol, bytes, offset, &address));
	if (bytes && (kind == cudaMemcpyHostToHost || kind == cudaMemcpyHostToDevice))
		return cudart_record(cudaErrorInvalidMemcpyDirection);
	return copy(destination, address, bytes, kind, order);
}

CUDART_API cudaError_t cudaMemcpyToSymbol(const void *symbol, const void *source, size_t bytes, size_t offset,
					  enum cudaMemcpyKind kind)
{
	return copy_to_symbol(symbol, source, bytes, offset, kind, order_default);
}

CUDART_API cudaError_t cudaMemcpyToSymbol_ptds(const void *symbol, const void *source, size_t bytes, size_t offset,
					       enum cudaMemcpyKind kind)
{
	return copy_to_symbol(symbol, source, bytes, offset, kind, order_per_thread);
}

CUDART_API cudaError_t cudaMemcpyToSymbolAsync(const void *symbol, const void *source, size_t bytes, size_t offset,
					       enum cudaMemcpyKind kind, cudaStream_t stream)
{
	return copy_to_symbol(symbol, source, bytes, offset, kind, order_async(stream));
}

CUDART_API cudaError_t cudaMemcpyToSymbolAsync_ptsz(const void *symbol, const void *source, size_t bytes, size_t offset,
						    enum cudaMemcpyKind kind, cudaStream_t stream)
{
	return copy_to_symbol(symbol, source, bytes, offset, kind, order_async_per_thread(stream));
}

CUDART_API cudaError_t cudaMemcpyFromSymbol(void *destination, const void *symbol, size_t bytes, size_t offset,
					    enum cudaMemcpyKind kind)
{
	return copy_from_symbol(destination, symbol, bytes, offset, kind, order_default);
}

CUDART_API cudaError_t cudaMemcpyFromSymbol_ptds(void *destination, const void *symbol, size_t bytes, size_t offset,
						 enum cudaMemcpyKind kind)
{
	return copy_from_symbol(destination, symbol, bytes, offset, kind, order_per_thread);
}

CUDART_API cudaError_t cudaMemcpyFromSymbolAsync(void *destination, const void *symbol, size_t bytes, size_t offset,
						 enum cudaMemcpyKind kind, cudaStream_t stream)
{
	return copy_from_symbol(destination, symbol, bytes, offset, kind, order_async(stream));
}

CUDART_API cudaError_t cudaMemcpyFromSymbolAsync_ptsz(void *destination, const void *symbol, size_t bytes,
						      size_t offset, enum cudaMemcpyKind kind, cudaStream_t stream)
{
	return copy_from_symbol(destination, symbol, bytes, offset, kind, order_async_per_thread(stream));
}

CUDART_API cudaError_t cudaMemcpyPeer(void *destination, int to_device, const void *source, int from_device,
				      size_t bytes)
{
	CUcontext to, from;

	CUDART_TRY(cudart_enter());
	if (!bytes)
		return cudaSuccess;
	CUDART_TRY(cudart_primary(to_device, &to));
	CUDART_TRY(cudart_primary(from_device, &from));
	return cudart_result(cuMemcpyPeer(cudart_address(destination), to, cudart_address(source), from, bytes));
}

CUDART_API cudaError_t cudaMemcpyPeerAsync(void *destination, int to_device, const void *source, int from_device,
					   size_t bytes, cudaStream_t stream)
{
	CUcontext to, from;

	CUDART_TRY(cudart_enter());
	if (!bytes)
		return cudaSuccess;
	CUDART_TRY(cudart_primary(to_device, &to));
	CUDART_TRY(cudart_primary(from_device, &from));
	return cudart_result(
		cuMemcpyPeerAsync(cudart_address(destination), to, cudart_address(source), from, bytes, stream));
}
