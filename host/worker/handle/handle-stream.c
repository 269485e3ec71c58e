/* SPDX-License-Identifier: Apache-2.0 */
/* Handlers: memory operations of streams. */
#include "session/dispatch.h"
#include "protocol/handlers.h"
#include "handle/memory-ops.h"
#include "session/command.h"
#include "session/session.h"

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

unsigned int worker_memory_ops_read(const uint64_t *words, uint32_t count, CUstreamBatchMemOpParams *ops)
{
	if (count % VCUDA_MEMORY_OP_WORDS || count / VCUDA_MEMORY_OP_WORDS > VCUDA_MEMORY_OPS_MAX)
		return 0;
	for (uint32_t i = 0; i < count / VCUDA_MEMORY_OP_WORDS; i++)
		ops[i] = read_op(words + (size_t)i * VCUDA_MEMORY_OP_WORDS);
	return count / VCUDA_MEMORY_OP_WORDS;
}

CUresult vcuda_handle_vcudaStreamMemOps(struct worker_session *s, struct vcuda_args_vcudaStreamMemOps *a)
{
	CUstreamBatchMemOpParams params[VCUDA_MEMORY_OPS_MAX];
	unsigned int count = worker_memory_ops_read(a->ops, a->words, params);

	if (!s->ops->cuStreamBatchMemOp_v2)
		return worker_unsupported(s, VCUDA_OP_vcudaStreamMemOps);
	if (!count)
		return CUDA_ERROR_INVALID_VALUE;
	if (worker_memory_ops_wait(params, count))
		worker_command_note_wait();
	return s->ops->cuStreamBatchMemOp_v2(a->hStream, count, params, 0);
}

CUresult vcuda_handle_vcudaStreamMark(struct worker_session *s, struct vcuda_args_vcudaStreamMark *a)
{
	if (!s->ops->cuStreamWriteValue32_v2)
		return worker_unsupported(s, VCUDA_OP_vcudaStreamMark);
	if (worker_command_has_error(s))
		return CUDA_SUCCESS;
	return s->ops->cuStreamWriteValue32_v2(a->hStream, a->address, a->value, CU_STREAM_WRITE_VALUE_DEFAULT);
}
