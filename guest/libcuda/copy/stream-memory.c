/* SPDX-License-Identifier: Apache-2.0 */
#include "copy/stream-memory.h"

#include "core/request.h"
#include "core/device.h"
#include "protocol/guest-calls.h"
#include "memory/range.h"
#include "core/thread.h"

static bool is_wide(CUstreamBatchMemOpType type)
{
	return type == CU_STREAM_MEM_OP_WAIT_VALUE_64 || type == CU_STREAM_MEM_OP_WRITE_VALUE_64;
}

static bool has_address(CUstreamBatchMemOpType type)
{
	return type != CU_STREAM_MEM_OP_BARRIER && type != CU_STREAM_MEM_OP_FLUSH_REMOTE_WRITES;
}

static unsigned int flags_of(const CUstreamBatchMemOpParams *p)
{
	/* Waits and writes have one layout, the others one of their own. */
	return has_address(p->operation) ? p->waitValue.flags : p->memoryBarrier.flags;
}

/* ---- what a device can do ---- */

static CUresult require(CUdevice device, CUdevice_attribute attribute)
{
	return libcuda_device_attribute(device, attribute) ? CUDA_SUCCESS : CUDA_ERROR_NOT_SUPPORTED;
}

static CUresult check_wait(unsigned int flags, CUdevice device, bool old)
{
	unsigned int kind = flags & ~(unsigned int)CU_STREAM_WAIT_VALUE_FLUSH;
	CUresult result = CUDA_SUCCESS;

	if (kind > CU_STREAM_WAIT_VALUE_NOR)
		return CUDA_ERROR_INVALID_VALUE;
	if (flags != kind)
		result = require(device, CU_DEVICE_ATTRIBUTE_CAN_FLUSH_REMOTE_WRITES);
	if (result == CUDA_SUCCESS && kind == CU_STREAM_WAIT_VALUE_NOR)
		result = require(device, old ? CU_DEVICE_ATTRIBUTE_CAN_USE_STREAM_WAIT_VALUE_NOR_V1
					     : CU_DEVICE_ATTRIBUTE_CAN_USE_STREAM_WAIT_VALUE_NOR);
	return result;
}

static CUresult check_op(const CUstreamBatchMemOpParams *p, CUdevice device, bool old)
{
	unsigned int flags = flags_of(p);
	CUresult result = CUDA_SUCCESS;

	switch (p->operation) {
	case CU_STREAM_MEM_OP_WAIT_VALUE_32:
	case CU_STREAM_MEM_OP_WAIT_VALUE_64:
		result = check_wait(flags, device, old);
		break;
	case CU_STREAM_MEM_OP_WRITE_VALUE_32:
	case CU_STREAM_MEM_OP_WRITE_VALUE_64:
		/* the second generation has no such writes; measured on an H200 */
		if (flags & ~(old ? (unsigned int)CU_STREAM_WRITE_VALUE_NO_MEMORY_BARRIER : 0u))
			return CUDA_ERROR_INVALID_VALUE;
		break;
	case CU_STREAM_MEM_OP_BARRIER:
		return old || flags > CU_STREAM_MEMORY_BARRIER_TYPE_GPU ? CUDA_ERROR_INVALID_VALUE : CUDA_SUCCESS;
	case CU_STREAM_MEM_OP_FLUSH_REMOTE_WRITES:
		return flags ? CUDA_ERROR_INVALID_VALUE : require(device, CU_DEVICE_ATTRIBUTE_CAN_FLUSH_REMOTE_WRITES);
	default:
		return CUDA_ERROR_INVALID_VALUE;
	}
	if (result == CUDA_SUCCESS && is_wide(p->operation))
		result = require(device, old ? CU_DEVICE_ATTRIBUTE_CAN_USE_64_BIT_STREAM_MEM_OPS_V1
					     : CU_DEVICE_ATTRIBUTE_CAN_USE_64_BIT_STREAM_MEM_OPS);
	return result;
}

CUresult libcuda_memory_ops_check(const CUstreamBatchMemOpParams *ops, unsigned int count, unsigned int flags,
				  CUdevice device, bool old)
{
	CUresult result = old ? require(device, CU_DEVICE_ATTRIBUTE_CAN_USE_STREAM_MEM_OPS_V1) : CUDA_SUCCESS;

	if (result != CUDA_SUCCESS)
		return result;
	if (!ops || !count || count > VCUDA_MEMORY_OPS_MAX || flags)
		return CUDA_ERROR_INVALID_VALUE;
	for (unsigned int i = 0; i < count && result == CUDA_SUCCESS; i++)
		result = check_op(&ops[i], device, old);
	return result;
}

bool libcuda_memory_ops_alike(const CUDA_BATCH_MEM_OP_NODE_PARAMS *a, const CUDA_BATCH_MEM_OP_NODE_PARAMS *b)
{
	const unsigned int may_change = CU_STREAM_WAIT_VALUE_EQ | CU_STREAM_WAIT_VALUE_AND;

	if (a->count != b->count || a->ctx != b->ctx || !a->paramArray || !b->paramArray)
		return false;
	for (unsigned int i = 0; i < a->count; i++) {
		const CUstreamBatchMemOpParams *p = &a->paramArray[i], *q = &b->paramArray[i];
		bool is_wait = p->operation == CU_STREAM_MEM_OP_WAIT_VALUE_32 ||
			       p->operation == CU_STREAM_MEM_OP_WAIT_VALUE_64;

		if (p->operation != q->operation || (flags_of(p) ^ flags_of(q)) & ~(is_wait ? may_change : 0u))
			return false;
	}
	return true;
}

/* ---- addresses ---- */

/* Managed memory moves between host and device, elsewhere: it is refused as the driver does. */
static CUresult check_address(const CUstreamBatchMemOpParams *p, bool *unsure)
{
	unsigned int bytes = is_wide(p->operation) ? 8 : 4;
	struct libcuda_operand at;
	struct libcuda_range r;
	CUresult result;

	if (!has_address(p->operation))
		return CUDA_SUCCESS;
	if (p->waitValue.address % bytes ||
	    (libcuda_range_find(p->waitValue.address, &r) && r.kind & LIBCUDA_RANGE_ANY_MANAGED))
		return CUDA_ERROR_INVALID_VALUE;
	result = libcuda_operand_find(p->waitValue.address, bytes, LIBCUDA_SIDE_DEVICE, &at);
	*unsure |= at.unsure;
	return result;
}

CUresult libcuda_memory_ops_check_addresses(const CUstreamBatchMemOpParams *ops, unsigned int count, bool *unsure)
{
	CUresult result = CUDA_SUCCESS;

	*unsure = false;
	for (unsigned int i = 0; i < count && result == CUDA_SUCCESS; i++)
		result = check_address(&ops[i], unsure);
	return result;
}

/* The host has the second generation only: a write that needs no barrier gets one. */
static unsigned int host_flags(const CUstreamBatchMemOpParams *p)
{
	bool is_write =
		p->operation == CU_STREAM_MEM_OP_WRITE_VALUE_32 || p->operation == CU_STREAM_MEM_OP_WRITE_VALUE_64;

	return is_write ? 0 : flags_of(p);
}

CUresult libcuda_memory_ops_encode(const CUstreamBatchMemOpParams *ops, unsigned int count, uint64_t *words,
				   bool *unsure)
{
	CUresult result = libcuda_memory_ops_check_addresses(ops, count, unsure);

	for (unsigned int i = 0; i < count; i++) {
		const CUstreamBatchMemOpParams *p = &ops[i];

		*words++ = (uint32_t)p->operation | (uint64_t)host_flags(p) << 32;
		*words++ = has_address(p->operation) ? p->waitValue.address : 0;
		*words++ = !has_address(p->operation) ? 0
			   : is_wide(p->operation)    ? p->waitValue.value64
						      : p->waitValue.value;
	}
	return result;
}

CUresult libcuda_memory_ops_issue(const struct call_options *how, const CUstreamBatchMemOpParams *ops,
				  unsigned int count, CUstream resolved)
{
	struct call_options options = *how;
	uint64_t words[VCUDA_MEMORY_OPS_MAX * VCUDA_MEMORY_OP_WORDS];
	bool unsure;
	CUresult result = libcuda_memory_ops_encode(ops, count, words, &unsure);

	if (result != CUDA_SUCCESS)
		return result;
	options.wait = unsure;
	return vcuda_call_vcudaStreamMemOps_with(&options, resolved, count * VCUDA_MEMORY_OP_WORDS, words);
}
