/* SPDX-License-Identifier: Apache-2.0 */
/* Streams that wait for a value in memory, and write one. Every function is a batch, which is one command. */
#include "copy/stream-memory.h"

#include "core/capture.h"
#include "core/request.h"
#include "protocol/cuda-functions.h"
#include "stream/stream.h"

static CUresult batch_resolved(const struct call_options *how, CUstream stream, unsigned int count,
			       CUstreamBatchMemOpParams *ops, unsigned int flags, bool old)
{
	CUgraphNodeParams p = {.type = CU_GRAPH_NODE_TYPE_BATCH_MEM_OP};
	struct libcuda_context *c = libcuda_request_context(how);
	CUresult result = libcuda_memory_ops_check(ops, count, flags, c->device, old);
	bool unsure;

	if (result == CUDA_SUCCESS)
		result = libcuda_memory_ops_check_addresses(ops, count, &unsure);
	if (result != CUDA_SUCCESS)
		return result;
	p.memOp = (CUDA_BATCH_MEM_OP_NODE_PARAMS){libcuda_context_handle(c), count, ops, 0};
	if (libcuda_capture_takes(how, stream, &p, &result))
		return result;
	return libcuda_memory_ops_issue(how, ops, count, stream);
}

static CUresult batch(CUstream stream, unsigned int count, CUstreamBatchMemOpParams *ops, unsigned int flags, bool old)
{
	struct call_options how;
	CUresult result = libcuda_stream_visit(&stream, &how);

	if (result != CUDA_SUCCESS)
		return result;
	return batch_resolved(&how, stream, count, ops, flags, old);
}

static CUresult one(CUstreamBatchMemOpType type, CUstream stream, CUdeviceptr address, cuuint64_t value,
		    unsigned int flags, bool old)
{
	CUstreamBatchMemOpParams op = {.pad = {0}};

	op.waitValue.operation = type;
	op.waitValue.address = address;
	op.waitValue.value64 = value;
	op.waitValue.flags = flags;
	return batch(stream, 1, &op, 0, old);
}

#define VALUE(name, type, value_type)                                                                                  \
	VCUDA_EXPORT CUresult name(CUstream stream, CUdeviceptr address, value_type value, unsigned int flags)         \
	{                                                                                                              \
		return one(type, stream, address, value, flags, true);                                                 \
	}                                                                                                              \
	VCUDA_EXPORT CUresult name##_v2(CUstream stream, CUdeviceptr address, value_type value, unsigned int flags)    \
	{                                                                                                              \
		return one(type, stream, address, value, flags, false);                                                \
	}

/* clang-format off */
VALUE(cuStreamWaitValue32, CU_STREAM_MEM_OP_WAIT_VALUE_32, cuuint32_t)
VALUE(cuStreamWaitValue64, CU_STREAM_MEM_OP_WAIT_VALUE_64, cuuint64_t)
VALUE(cuStreamWriteValue32, CU_STREAM_MEM_OP_WRITE_VALUE_32, cuuint32_t)
VALUE(cuStreamWriteValue64, CU_STREAM_MEM_OP_WRITE_VALUE_64, cuuint64_t)
/* clang-format on */

VCUDA_EXPORT CUresult cuStreamBatchMemOp(CUstream stream, unsigned int count, CUstreamBatchMemOpParams *ops,
					 unsigned int flags)
{
	return batch(stream, count, ops, flags, true);
}

VCUDA_EXPORT CUresult cuStreamBatchMemOp_v2(CUstream stream, unsigned int count, CUstreamBatchMemOpParams *ops,
					    unsigned int flags)
{
	return batch(stream, count, ops, flags, false);
}
