/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Executable graphs, for the calls that change one node and for records of tools. graph-exec.c keeps them by handle;
 * an unknown handle is CUDA_ERROR_INVALID_VALUE.
 */
#ifndef VCUDA_GRAPH_EXEC_H
#define VCUDA_GRAPH_EXEC_H

#include "protocol/cuda-abi.h"

/* The number of an executable graph in records of tools; 0: there is no such executable graph. */
uint32_t libcuda_exec_number(CUgraphExec exec);

/* Changes what the copy of `node` in an executable graph does. */
CUresult libcuda_exec_set(CUgraphExec exec, CUgraphNode node, const CUgraphNodeParams *params);

#endif
