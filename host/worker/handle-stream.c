/* SPDX-License-Identifier: Apache-2.0 */
/* Handlers: memory operations of streams. */
#include "dispatch.h"
#include "handlers.h"
#include "session.h"

static CUstreamBatchMemOpParams read_op(const uint64_t *word)
{
	CUstreamBatchMemOpParams p = {.pad = {0}};

	p.operation = (CUstreamBatchMemOpType)(uint32_t)word[0];
	switch (p.operation) {
	case CU_STREAM_MEM_OP_BARRIER:
		p.memoryBarrier.flags = (unsigned int)(word[0] >> 32);
		break;
	case CU_STREAM_MEM_OP_FLUSH_REMOTE_WRITES:
		p.flushRemoteWrites.flags = (unsigned int)(word[0] >> 32);
		break;
	default: /* waits and writes have one layout; what is neither, the back end refuses */
		p.waitValue.flags = (unsigned int)(word[0] >> 32);
		p.waitValue.address = word[1];
		p.waitValue.value64 = word[2];
	}
	return p;
}

/*
 * Addresses go to the back end as they are: a stream reaches by them what a kernel of the same process reaches, and no
 * other process's memory.
 */
CUresult vcuda_handle_vcudaStreamMemOps(struct vcuda_session *s, struct vcuda_args_vcudaStreamMemOps *a)
{
	CUstreamBatchMemOpParams params[VCUDA_MEMORY_OPS_MAX];
	uint32_t count = a->words / VCUDA_MEMORY_OP_WORDS;

	if (!s->ops->cuStreamBatchMemOp_v2)
		return vcuda_unsupported(s, VCUDA_OP_vcudaStreamMemOps);
	if (!count || count > VCUDA_MEMORY_OPS_MAX || a->words % VCUDA_MEMORY_OP_WORDS)
		return CUDA_ERROR_INVALID_VALUE;
	for (uint32_t i = 0; i < count; i++)
		params[i] = read_op(a->ops + (size_t)i * VCUDA_MEMORY_OP_WORDS);
	return s->ops->cuStreamBatchMemOp_v2(a->hStream, count, params, 0);
}
