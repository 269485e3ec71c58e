/* SPDX-License-Identifier: Apache-2.0 */
/* Streams that wait for a value in memory, and write one. */
#ifndef VCUDA_STREAM_MEMORY_H
#define VCUDA_STREAM_MEMORY_H

#include <stdbool.h>
#include <stdint.h>

#include "guest/client/call.h"
#include "protocol/cuda-abi.h"

/*
 * Whether a device can do what a batch says, addresses left out. `old`: as the functions of before CUDA 12 have it.
 * CUDA_ERROR_NOT_SUPPORTED where the device's attributes say that it does not.
 */
CUresult libcuda_memory_ops_check(const CUstreamBatchMemOpParams *ops, unsigned int count, unsigned int flags,
				  CUdevice device, bool old);

/* Checks the addresses of a batch that was checked. `unsure`: only the worker knows what is at one of them. */
CUresult libcuda_memory_ops_check_addresses(const CUstreamBatchMemOpParams *ops, unsigned int count, bool *unsure);

/* Checks the addresses of a batch that was checked, and writes it as VCUDA_MEMORY_OP_WORDS words for each operation.
 * `unsure`: only the worker knows what is at one of them. */
CUresult libcuda_memory_ops_encode(const CUstreamBatchMemOpParams *ops, unsigned int count, uint64_t *words,
				   bool *unsure);

/* The same, and issues it. */
CUresult libcuda_memory_ops_issue(const struct call_options *how, const CUstreamBatchMemOpParams *ops,
				  unsigned int count, CUstream resolved);

/* Whether an executable graph's node may change from one into the other: in addresses, values and kinds of comparison.
 */
bool libcuda_memory_ops_alike(const CUDA_BATCH_MEM_OP_NODE_PARAMS *a, const CUDA_BATCH_MEM_OP_NODE_PARAMS *b);

#endif
