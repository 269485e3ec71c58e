/* SPDX-License-Identifier: Apache-2.0 */
/* The graphs that the fake worker keeps: what it was told of the last one, and how it answers. */
#ifndef TEST_LIBCUDA_FAKE_GRAPH_H
#define TEST_LIBCUDA_FAKE_GRAPH_H

#include "protocol/calls.h"
#include "ring/ring.h"

#define FAKE_NODES 256
#define FAKE_DEPS 32

struct fake_node {
	unsigned int op;
	uint32_t count, deps[FAKE_DEPS];
	uint32_t grid, param_bytes; /* of a kernel */
	struct vcuda_args_vcudaGraphAddCopy copy;
};

struct fake_graphs {
	_Atomic unsigned int created, finished, launched, destroyed;
	_Atomic unsigned int misplaced; /* commands that name no graph that could take them */
	_Atomic unsigned int nodes;     /* of the last one */
	struct fake_node node[FAKE_NODES];
	_Atomic CUstream stream;                /* of the last launch */
	_Atomic int create_gives, finish_gives; /* CUresult */
};

extern struct fake_graphs fake_graphs;

CUresult fake_graph_answer(const struct vcuda_command *c, struct vcuda_writer *w);

#endif
