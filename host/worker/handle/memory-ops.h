/* SPDX-License-Identifier: Apache-2.0 */
/* The decoder of a stream's memory operations (cuStreamBatchMemOp). */
#ifndef VCUDA_MEMORY_OPS_H
#define VCUDA_MEMORY_OPS_H

#include "protocol/types.h"

/*
 * Reads the memory operations of a stream from `count` words of the wire, at most VCUDA_MEMORY_OPS_MAX. Returns their
 * number, 0: malformed. Addresses are not checked: a stream reaches the memory that a kernel of the same process
 * reaches, and no other process's memory.
 */
unsigned int worker_memory_ops_read(const uint64_t *words, uint32_t count, CUstreamBatchMemOpParams *ops);

#endif
