/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Structures that both APIs have, under two names: they have one layout, so a function of the runtime passes a pointer
 * to one on to its twin in the driver (twins.txt).
 */
#ifndef CUDART_LAYOUT_H
#define CUDART_LAYOUT_H

#include "runtime.h"

_Static_assert(sizeof(void *) == sizeof(CUdeviceptr), "one layout");
_Static_assert(sizeof(struct cudaMemcpyAttributes) == sizeof(CUmemcpyAttributes), "one layout");
_Static_assert(sizeof(struct cudaMemLocation) == sizeof(CUmemLocation), "one layout");
_Static_assert(sizeof(struct cudaMemPoolProps) == sizeof(CUmemPoolProps), "one layout");
_Static_assert(sizeof(struct cudaMemAccessDesc) == sizeof(CUmemAccessDesc), "one layout");
_Static_assert(sizeof(struct cudaMemAllocNodeParams) == sizeof(CUDA_MEM_ALLOC_NODE_PARAMS), "one layout");
_Static_assert(sizeof(struct cudaMemsetParams) == sizeof(CUDA_MEMSET_NODE_PARAMS), "one layout");
_Static_assert(sizeof(struct cudaHostNodeParams) == sizeof(CUDA_HOST_NODE_PARAMS), "one layout");
_Static_assert(sizeof(cudaGraphExecUpdateResultInfo) == sizeof(CUgraphExecUpdateResultInfo), "one layout");
_Static_assert(sizeof(cudaGraphInstantiateParams) == sizeof(CUDA_GRAPH_INSTANTIATE_PARAMS), "one layout");
_Static_assert(sizeof(cudaGraphEdgeData) == sizeof(CUgraphEdgeData), "one layout");

/* The runtime only passes pointers to these on. */
struct cudaArrayMemoryRequirements;
struct cudaArraySparseProperties;
struct cudaMemcpy3DBatchOp;

#endif
