/* SPDX-License-Identifier: Apache-2.0 */
/* Memsets: commands of a stream, or nodes of the graph that the stream captures. */
#include "copy/memset.h"

#include "core/capture.h"
#include "core/init.h"
#include "core/request.h"
#include "protocol/cuda-functions.h"
#include "stream/stream.h"

static CUresult fill_resolved(const struct call_options *how, const CUDA_MEMSET_NODE_PARAMS *m, CUstream stream,
			      struct libcuda_operand *to)
{
	CUgraphNodeParams p = {.type = CU_GRAPH_NODE_TYPE_MEMSET};
	CUresult result = libcuda_memset_check(m, to);

	if (result != CUDA_SUCCESS || !m->width)
		return result;
	p.memset = (CUDA_MEMSET_NODE_PARAMS_v2){
		m->dst, m->pitch, m->value, m->elementSize, m->width, m->height ? m->height : 1, NULL};
	return libcuda_capture_takes(how, stream, &p, &result) ? result
							       : libcuda_memset_issue(how, m, to->unsure, stream);
}

/* `to`: the memory that is filled, if there is something to fill. */
static CUresult fill_to(const CUDA_MEMSET_NODE_PARAMS *m, CUstream stream, struct libcuda_operand *to)
{
	struct call_options how;
	CUresult result = libcuda_stream_visit(&stream, &how);

	return result == CUDA_SUCCESS ? fill_resolved(&how, m, stream, to) : result;
}

static CUresult fill(const CUDA_MEMSET_NODE_PARAMS *m, CUstream stream)
{
	struct libcuda_operand to;

	return fill_to(m, stream, &to);
}

/* Memory that the process can read: there a synchronous memset waits. */
static CUresult fill_sync(const CUDA_MEMSET_NODE_PARAMS *m, CUstream stream)
{
	struct libcuda_operand to;
	CUresult result = fill_to(m, stream, &to);

	if (result != CUDA_SUCCESS || !m->width || (to.kind != LIBCUDA_MEMORY_MAPPED && !to.seen))
		return result;
	result = libcuda_stream_resolve(stream, &stream);
	return result == CUDA_SUCCESS ? libcuda_stream_wait(NULL, stream) : result;
}

#define LINE(bits) (&(CUDA_MEMSET_NODE_PARAMS){dst, 0, value, bits / 8, n, 0})
#define ROWS(bits) (&(CUDA_MEMSET_NODE_PARAMS){dst, pitch, value, bits / 8, width, height})

#define MEMSET(bits, type)                                                                                             \
	VCUDA_EXPORT CUresult cuMemsetD##bits##_v2(CUdeviceptr dst, type value, size_t n)                              \
	{                                                                                                              \
		return fill_sync(LINE(bits), NULL);                                                                    \
	}                                                                                                              \
	VCUDA_EXPORT CUresult cuMemsetD##bits##_v2_ptds(CUdeviceptr dst, type value, size_t n)                         \
	{                                                                                                              \
		return fill_sync(LINE(bits), CU_STREAM_PER_THREAD);                                                    \
	}                                                                                                              \
	VCUDA_EXPORT CUresult cuMemsetD##bits##Async(CUdeviceptr dst, type value, size_t n, CUstream stream)           \
	{                                                                                                              \
		return fill(LINE(bits), stream);                                                                       \
	}

#define MEMSET_2D(bits, type)                                                                                          \
	VCUDA_EXPORT CUresult cuMemsetD2D##bits##_v2(CUdeviceptr dst, size_t pitch, type value, size_t width,          \
						     size_t height)                                                    \
	{                                                                                                              \
		return height ? fill_sync(ROWS(bits), NULL) : libcuda_require_init();                                  \
	}                                                                                                              \
	VCUDA_EXPORT CUresult cuMemsetD2D##bits##_v2_ptds(CUdeviceptr dst, size_t pitch, type value, size_t width,     \
							  size_t height)                                               \
	{                                                                                                              \
		return height ? fill_sync(ROWS(bits), CU_STREAM_PER_THREAD) : libcuda_require_init();                  \
	}                                                                                                              \
	VCUDA_EXPORT CUresult cuMemsetD2D##bits##Async(CUdeviceptr dst, size_t pitch, type value, size_t width,        \
						       size_t height, CUstream stream)                                 \
	{                                                                                                              \
		return height ? fill(ROWS(bits), stream) : libcuda_require_init();                                     \
	}

/* clang-format off */
MEMSET(8, unsigned char)
MEMSET(16, unsigned short)
MEMSET(32, unsigned int)
MEMSET_2D(8, unsigned char)
MEMSET_2D(16, unsigned short)
MEMSET_2D(32, unsigned int)
/* clang-format on */
