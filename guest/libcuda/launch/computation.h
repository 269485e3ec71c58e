/* SPDX-License-Identifier: Apache-2.0 */
/* Computations that the guest's libcublas, libcublasLt and libcurand ask for: commands of a stream, or nodes of a
 * graph. */
#ifndef VCUDA_COMPUTATION_H
#define VCUDA_COMPUTATION_H

#include "guest/client/call.h"
#include "protocol/cuda-abi.h"
#include "protocol/guest-calls.h"

struct libcuda_computation {
	CUresult (*issue)(const struct libcuda_computation *what, const struct call_options *how, CUstream resolved);
	struct libcuda_context *home; /* of a computation that a node keeps */
	union {
		struct {
			unsigned int function, flags, count;
			const uint64_t *words;
		} blas;
		vcuda_matmul matmul;
		vcuda_transform transform;
		struct {
			vcuda_generator generator;
			vcuda_random random;
		} random;
	};
};

/*
 * The type of graph nodes that are computations, beside CUDA's types. The application sees kernels, as natively.
 */
#define LIBCUDA_NODE_COMPUTATION ((CUgraphNodeType)(CU_GRAPH_NODE_TYPE_CONDITIONAL + 1))

static inline CUgraphNodeType libcuda_node_type_shown(CUgraphNodeType type)
{
	return type == LIBCUDA_NODE_COMPUTATION ? CU_GRAPH_NODE_TYPE_KERNEL : type;
}

/* The computation in the parameters of such a node. Code that keeps the parameters copies the computation. */
static inline const struct libcuda_computation **libcuda_computation_of(CUgraphNodeParams *params)
{
	return (const struct libcuda_computation **)params->reserved1;
}

/* Values of `issue`: each queues its kind of computation. */
CUresult libcuda_issue_blas(const struct libcuda_computation *what, const struct call_options *how, CUstream resolved);
CUresult libcuda_issue_matmul(const struct libcuda_computation *what, const struct call_options *how,
			      CUstream resolved);
CUresult libcuda_issue_transform(const struct libcuda_computation *what, const struct call_options *how,
				 CUstream resolved);
CUresult libcuda_issue_random(const struct libcuda_computation *what, const struct call_options *how,
			      CUstream resolved);

/* A deep copy, for free(). NULL: no memory. */
struct libcuda_computation *libcuda_computation_copy(const struct libcuda_computation *what);

#endif
