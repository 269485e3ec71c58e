/* SPDX-License-Identifier: Apache-2.0 */
/* The NUMA nodes of the machine that this process runs on. Thread-safe. */
#ifndef VCUDA_NODE_H
#define VCUDA_NODE_H

#include <stdbool.h>

/* Numbers are below this. */
#define LIBCUDA_NODES 1024

/* Whether it has the node. A machine without nodes has node 0, as CUDA counts. */
bool libcuda_node_is_here(int node);

/* The node of that number if it is here, else the first one; -1: this machine has no nodes. */
int libcuda_node_near(int wanted);

#endif
