/* SPDX-License-Identifier: Apache-2.0 */
#ifndef VCUDA_MEMORY_OPS_H
#define VCUDA_MEMORY_OPS_H

#include "protocol/types.h"

/*
 * Memory operations of a stream from `count` words of the wire into at most VCUDA_MEMORY_OPS_MAX. Returns how many they
 * are, 0: not a sound number. Addresses go to the back end as they are: a stream reaches by them what a kernel of the
 * same process reaches, and no other process's memory.
 */
unsigned int worker_memory_ops_read(const uint64_t *words, uint32_t count, CUstreamBatchMemOpParams *ops);

#endif
