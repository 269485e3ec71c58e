/* SPDX-License-Identifier: Apache-2.0 */
/* Copies of ranges of one-dimensional arrays, which are boxes. */
#include "api/copy.h"
#include "core/request.h"
#include "protocol/cuda-functions.h"
#include "stream/stream.h"

static const CUDA_MEMCPY3D *row_of(CUDA_MEMCPY3D *c, size_t bytes)
{
	c->WidthInBytes = bytes;
	c->Height = c->Depth = 1;
	return c;
}

#define ARRAY_END(which, a, offset)                                                                                    \
	.which##MemoryType = CU_MEMORYTYPE_ARRAY, .which##Array = (a), .which##XInBytes = (offset)
#define HOST_END(which, p) .which##MemoryType = CU_MEMORYTYPE_HOST, .which##Host = (p)
#define DEVICE_END(which, p) .which##MemoryType = CU_MEMORYTYPE_DEVICE, .which##Device = (p)

#define SYNC_COPY(name, decl, dst, src)                                                                                \
	VCUDA_EXPORT CUresult name decl                                                                                \
	{                                                                                                              \
		return libcuda_copy_3d_submit(row_of(&(CUDA_MEMCPY3D){dst, src}, bytes), NULL, false);                 \
	}                                                                                                              \
	VCUDA_EXPORT CUresult name##_ptds decl                                                                         \
	{                                                                                                              \
		return libcuda_copy_3d_submit(row_of(&(CUDA_MEMCPY3D){dst, src}, bytes), CU_STREAM_PER_THREAD, false); \
	}

/* clang-format off */
SYNC_COPY(cuMemcpyDtoA_v2, (CUarray to, size_t at, CUdeviceptr from, size_t bytes), ARRAY_END(dst, to, at), DEVICE_END(src, from))
SYNC_COPY(cuMemcpyAtoD_v2, (CUdeviceptr to, CUarray from, size_t at, size_t bytes), DEVICE_END(dst, to), ARRAY_END(src, from, at))
SYNC_COPY(cuMemcpyHtoA_v2, (CUarray to, size_t at, const void *from, size_t bytes), ARRAY_END(dst, to, at), HOST_END(src, from))
SYNC_COPY(cuMemcpyAtoH_v2, (void *to, CUarray from, size_t at, size_t bytes), HOST_END(dst, to), ARRAY_END(src, from, at))
SYNC_COPY(cuMemcpyAtoA_v2, (CUarray to, size_t to_at, CUarray from, size_t from_at, size_t bytes), ARRAY_END(dst, to, to_at), ARRAY_END(src, from, from_at))
/* clang-format on */

#define ASYNC_COPY(name, decl, dst, src)                                                                               \
	VCUDA_EXPORT CUresult name decl                                                                                \
	{                                                                                                              \
		return libcuda_copy_3d_submit(row_of(&(CUDA_MEMCPY3D){dst, src}, bytes), stream, true);                \
	}

/* clang-format off */
ASYNC_COPY(cuMemcpyHtoAAsync_v2, (CUarray to, size_t at, const void *from, size_t bytes, CUstream stream), ARRAY_END(dst, to, at), HOST_END(src, from))
ASYNC_COPY(cuMemcpyAtoHAsync_v2, (void *to, CUarray from, size_t at, size_t bytes, CUstream stream), HOST_END(dst, to), ARRAY_END(src, from, at))
/* clang-format on */
