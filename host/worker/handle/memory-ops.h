/* SPDX-License-Identifier: Apache-2.0 */
/* The decoder of a stream's memory operations (cuStreamBatchMemOp). */
#ifndef VCUDA_MEMORY_OPS_H
#define VCUDA_MEMORY_OPS_H

#include <stdbool.h>

#include "protocol/types.h"

/*
 * Reads the memory operations of a stream from `count` words of the wire, at most VCUDA_MEMORY_OPS_MAX. Returns their
 * number, 0: malformed. Addresses are not checked: a stream reaches the memory that a kernel of the same process
 * reaches, and no other process's memory.
 */
unsigned int worker_memory_ops_read(const uint64_t *words, uint32_t count, CUstreamBatchMemOpParams *ops);

/* Whether one of them waits for a value. */
static inline bool worker_memory_ops_wait(const CUstreamBatchMemOpParams *ops, unsigned int count)
{
	for (unsigned int i = 0; i < count; i++)
		if (ops[i].operation == CU_STREAM_MEM_OP_WAIT_VALUE_32 ||
		    ops[i].operation == CU_STREAM_MEM_OP_WAIT_VALUE_64)
			return true;
	return false;
}

#endif
