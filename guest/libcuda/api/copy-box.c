/* SPDX-License-Identifier: Apache-2.0 */
/* Two- and three-dimensional copies: commands of a stream, or nodes of the graph that the stream captures. */
#include <string.h>

#include "api/copy.h"
#include "core/capture.h"
#include "copy/peer.h"
#include "core/init.h"
#include "core/request.h"
#include "protocol/cuda-functions.h"
#include "stream/stream.h"

/* True: a copy on a capturing stream is a node of its graph. */
static bool captured(const CUDA_MEMCPY3D *c, CUstream stream, bool async, CUresult *result)
{
	CUgraphNodeParams p = {.type = CU_GRAPH_NODE_TYPE_MEMCPY, .memcpy.copyParams = *c};
	struct call_options how;

	*result = libcuda_stream_visit(&stream, &how);
	if (*result == CUDA_SUCCESS && !async)
		*result = libcuda_capture_refuses(libcuda_request_context(&how), stream);
	return *result != CUDA_SUCCESS || (async && libcuda_capture_takes(&how, stream, &p, result));
}

static CUresult copy_2d(const CUDA_MEMCPY2D *c, CUstream stream, bool async)
{
	CUDA_MEMCPY3D box;
	CUresult result;

	if (c && libcuda_capture_any()) {
		box = libcuda_copy_box_of(c);
		if (captured(&box, stream, async, &result))
			return result;
	}
	return libcuda_copy_2d(c, stream, async);
}

CUresult libcuda_copy_3d_submit(const CUDA_MEMCPY3D *c, CUstream stream, bool async)
{
	CUresult result;

	if (c && !c->srcLOD && !c->dstLOD && libcuda_capture_any() && captured(c, stream, async, &result))
		return result;
	return libcuda_copy_3d(c, stream, async);
}

/* The same layout, with contexts where the other has reserved pointers. */
_Static_assert(sizeof(CUDA_MEMCPY3D_PEER) == sizeof(CUDA_MEMCPY3D), "a peer copy is read as a copy");

static CUresult copy_3d_peer(const CUDA_MEMCPY3D_PEER *p, CUstream stream, bool async)
{
	CUDA_MEMCPY3D c;
	CUresult result;

	if (!p)
		return libcuda_invalid_value();
	result = libcuda_peer_begin(p->dstContext, p->srcContext, stream, async);
	memcpy(&c, p, sizeof(c));
	if (result == CUDA_SUCCESS)
		result = libcuda_copy_3d_submit(&c, stream, async);
	return async ? result : libcuda_peer_end(p->dstContext, p->srcContext, stream, result);
}

#define SYNC_COPY(name, type, copy)                                                                                    \
	VCUDA_EXPORT CUresult name(const type *c)                                                                      \
	{                                                                                                              \
		return copy(c, NULL, false);                                                                           \
	}                                                                                                              \
	VCUDA_EXPORT CUresult name##_ptds(const type *c)                                                               \
	{                                                                                                              \
		return copy(c, CU_STREAM_PER_THREAD, false);                                                           \
	}

#define ASYNC_COPY(name, type, copy)                                                                                   \
	VCUDA_EXPORT CUresult name(const type *c, CUstream stream)                                                     \
	{                                                                                                              \
		return copy(c, stream, true);                                                                          \
	}

/* clang-format off */
SYNC_COPY(cuMemcpy2D_v2, CUDA_MEMCPY2D, copy_2d)
SYNC_COPY(cuMemcpy2DUnaligned_v2, CUDA_MEMCPY2D, copy_2d)
SYNC_COPY(cuMemcpy3D_v2, CUDA_MEMCPY3D, libcuda_copy_3d_submit)
SYNC_COPY(cuMemcpy3DPeer, CUDA_MEMCPY3D_PEER, copy_3d_peer)
ASYNC_COPY(cuMemcpy2DAsync_v2, CUDA_MEMCPY2D, copy_2d)
ASYNC_COPY(cuMemcpy3DAsync_v2, CUDA_MEMCPY3D, libcuda_copy_3d_submit)
ASYNC_COPY(cuMemcpy3DPeerAsync, CUDA_MEMCPY3D_PEER, copy_3d_peer)
/* clang-format on */
