/* SPDX-License-Identifier: Apache-2.0 */
/* One-dimensional copies: commands of a stream, or nodes of the graph that the stream captures. */
#include "api/copy.h"

#include "core/capture.h"
#include "copy/peer.h"
#include "core/request.h"
#include "protocol/cuda-functions.h"
#include "stream/stream.h"

/* An end as CUDA describes it. */
static CUmemorytype type_of(enum libcuda_side side)
{
	return side == LIBCUDA_SIDE_HOST     ? CU_MEMORYTYPE_HOST
	       : side == LIBCUDA_SIDE_DEVICE ? CU_MEMORYTYPE_DEVICE
					     : CU_MEMORYTYPE_UNIFIED;
}

static bool captured(const struct call_options *how, struct libcuda_copy_end dst, struct libcuda_copy_end src,
		     size_t bytes, CUstream resolved, CUresult *result)
{
	CUgraphNodeParams p = {.type = CU_GRAPH_NODE_TYPE_MEMCPY};

	p.memcpy.copyParams = (CUDA_MEMCPY3D){
		.srcMemoryType = type_of(src.side),
		.srcHost = (void *)src.address,
		.srcDevice = src.address,
		.dstMemoryType = type_of(dst.side),
		.dstHost = (void *)dst.address,
		.dstDevice = dst.address,
		.WidthInBytes = bytes,
		.Height = 1,
		.Depth = 1,
	};
	return libcuda_capture_takes(how, resolved, &p, result);
}

/* While a stream captures, which need not be this one. */
static CUresult copy_or_capture(struct libcuda_copy_end dst, struct libcuda_copy_end src, size_t bytes, CUstream stream,
				bool async)
{
	CUstream resolved = stream;
	struct call_options how;
	CUresult result = libcuda_stream_visit(&resolved, &how);
	bool taken = false;

	if (result != CUDA_SUCCESS)
		return result;
	if (bytes)
		result = libcuda_copy_check(dst, src, bytes);
	if (bytes && result == CUDA_SUCCESS && async)
		taken = captured(&how, dst, src, bytes, resolved, &result);
	else if (bytes && result == CUDA_SUCCESS)
		result = libcuda_capture_refuses(libcuda_request_context(&how), resolved);
	if (result == CUDA_SUCCESS && !taken)
		result = libcuda_copy(dst, src, bytes, stream, async);
	return result;
}

CUresult libcuda_copy_submit(struct libcuda_copy_end dst, struct libcuda_copy_end src, size_t bytes, CUstream stream,
			     bool async)
{
	return libcuda_capture_any() ? copy_or_capture(dst, src, bytes, stream, async)
				     : libcuda_copy(dst, src, bytes, stream, async);
}

/* ---- the API: each function and its twin with the per-thread default stream ---- */

#define HOST(p) ((struct libcuda_copy_end){.address = (uintptr_t)(p), .side = LIBCUDA_SIDE_HOST})
#define DEVICE(p) ((struct libcuda_copy_end){.address = (p), .side = LIBCUDA_SIDE_DEVICE})
#define ANY(p) ((struct libcuda_copy_end){.address = (p), .side = LIBCUDA_SIDE_ANY})

#define SYNC_COPY(name, dst_type, src_type, to, from)                                                                  \
	VCUDA_EXPORT CUresult name(dst_type dst, src_type src, size_t bytes)                                           \
	{                                                                                                              \
		return libcuda_copy_submit(to(dst), from(src), bytes, NULL, false);                                    \
	}                                                                                                              \
	VCUDA_EXPORT CUresult name##_ptds(dst_type dst, src_type src, size_t bytes)                                    \
	{                                                                                                              \
		return libcuda_copy_submit(to(dst), from(src), bytes, CU_STREAM_PER_THREAD, false);                    \
	}

#define ASYNC_COPY(name, dst_type, src_type, to, from)                                                                 \
	VCUDA_EXPORT CUresult name(dst_type dst, src_type src, size_t bytes, CUstream stream)                          \
	{                                                                                                              \
		return libcuda_copy_submit(to(dst), from(src), bytes, stream, true);                                   \
	}

/* clang-format off */
SYNC_COPY(cuMemcpy, CUdeviceptr, CUdeviceptr, ANY, ANY)
SYNC_COPY(cuMemcpyHtoD_v2, CUdeviceptr, const void *, DEVICE, HOST)
SYNC_COPY(cuMemcpyDtoH_v2, void *, CUdeviceptr, HOST, DEVICE)
SYNC_COPY(cuMemcpyDtoD_v2, CUdeviceptr, CUdeviceptr, DEVICE, DEVICE)
ASYNC_COPY(cuMemcpyAsync, CUdeviceptr, CUdeviceptr, ANY, ANY)
ASYNC_COPY(cuMemcpyHtoDAsync_v2, CUdeviceptr, const void *, DEVICE, HOST)
ASYNC_COPY(cuMemcpyDtoHAsync_v2, void *, CUdeviceptr, HOST, DEVICE)
ASYNC_COPY(cuMemcpyDtoDAsync_v2, CUdeviceptr, CUdeviceptr, DEVICE, DEVICE)
/* clang-format on */

static CUresult copy_peer(CUdeviceptr dst, CUcontext to, CUdeviceptr src, CUcontext from, size_t bytes, CUstream stream,
			  bool async)
{
	CUresult result = libcuda_peer_begin(to, from, stream, async);

	if (result == CUDA_SUCCESS)
		result = libcuda_copy_submit(ANY(dst), ANY(src), bytes, stream, async);
	return async ? result : libcuda_peer_end(to, from, stream, result);
}

VCUDA_EXPORT CUresult cuMemcpyPeer(CUdeviceptr dst, CUcontext to, CUdeviceptr src, CUcontext from, size_t bytes)
{
	return copy_peer(dst, to, src, from, bytes, NULL, false);
}

VCUDA_EXPORT CUresult cuMemcpyPeer_ptds(CUdeviceptr dst, CUcontext to, CUdeviceptr src, CUcontext from, size_t bytes)
{
	return copy_peer(dst, to, src, from, bytes, CU_STREAM_PER_THREAD, false);
}

VCUDA_EXPORT CUresult cuMemcpyPeerAsync(CUdeviceptr dst, CUcontext to, CUdeviceptr src, CUcontext from, size_t bytes,
					CUstream stream)
{
	return copy_peer(dst, to, src, from, bytes, stream, true);
}
