/* SPDX-License-Identifier: Apache-2.0 */
#include "test-libcuda-fake-graph.h"

#include <string.h>

#include "test-libcuda-fake.h"
#include "test-libcuda-fake-answer.h"

#define FIRST_ID 0x50000000u

struct fake_graphs fake_graphs;

/* The id of the last one that was made, and whether it can be launched; others that live can always be. */
static uint64_t last_id = FIRST_ID;
static bool is_finished;

static bool is_open(vcuda_graph_id id)
{
	bool open = (uintptr_t)id == last_id && !is_finished;

	fake_graphs.misplaced += !open;
	return open;
}

static struct fake_node *add(vcuda_graph_id id, unsigned int op, uint32_t count, const uint32_t *deps)
{
	static struct fake_node nowhere;
	struct fake_node *n = &fake_graphs.node[fake_graphs.nodes];

	if (!is_open(id) || fake_graphs.nodes == FAKE_NODES || count > FAKE_DEPS)
		return &nowhere;
	*n = (struct fake_node){.op = op, .count = count};
	for (uint32_t i = 0; i < count; i++) {
		n->deps[i] = deps[i];
		fake_graphs.misplaced += deps[i] >= fake_graphs.nodes;
	}
	fake_graphs.nodes++;
	return n;
}

static void *memory(uint64_t address)
{
	bool on_device = address >= FAKE_DEVICE_START && address < FAKE_DEVICE_START + FAKE_DEVICE_BYTES;

	return on_device ? fake_memory(address) : (void *)address;
}

/* Copies of the last graph, one row each: what a test can see. */
static void run(vcuda_graph_id id)
{
	if ((uintptr_t)id != last_id)
		return;
	for (unsigned int i = 0; i < fake_graphs.nodes; i++) {
		const vcuda_box *b = &fake_graphs.node[i].copy.box;

		if (fake_graphs.node[i].op == VCUDA_OP_vcudaGraphAddCopy)
			memmove(memory(b->dst.address), memory(b->src.address), b->width);
	}
}

#define NODE(name) struct fake_node *n = add(a.graph, VCUDA_OP_##name, a.count, a.deps);

CUresult fake_graph_answer(const struct vcuda_command *c, struct vcuda_writer *w)
{
	static uint8_t arena_memory[65536];
	struct vcuda_arena arena = {arena_memory, arena_memory + sizeof(arena_memory)};
	struct vcuda_reader r = vcuda_reader_init(c + 1, c->size - sizeof(*c));

	/* clang-format off */
	switch (c->op) {
	CASE(vcudaGraphCreate)
		fake_graphs.created++;
		fake_graphs.nodes = 0;
		is_finished = false;
		a.graph = (vcuda_graph_id)++last_id;
		if (fake_graphs.create_gives == CUDA_SUCCESS)
			vcuda_encode_reply_vcudaGraphCreate(w, &a);
		return (CUresult)fake_graphs.create_gives;
	}
	CASE(vcudaGraphAddEmpty) NODE(vcudaGraphAddEmpty) (void)n; END
	CASE(vcudaGraphAddMemset) NODE(vcudaGraphAddMemset) (void)n; END
	CASE(vcudaGraphAddMemOps) NODE(vcudaGraphAddMemOps) (void)n; END
	CASE(vcudaGraphAddKernel) NODE(vcudaGraphAddKernel)
		n->grid = a.gridDimX;
		n->param_bytes = a.paramBytes;
	END
	CASE(vcudaGraphAddCopy) NODE(vcudaGraphAddCopy)
		n->copy = a;
	END
	CASE(vcudaGraphFinish)
		if (is_open(a.graph) && fake_graphs.finish_gives == CUDA_SUCCESS) {
			fake_graphs.finished++;
			is_finished = true;
		}
		return (CUresult)fake_graphs.finish_gives;
	}
	CASE(vcudaGraphLaunch)
		fake_graphs.misplaced += (uintptr_t)a.graph <= FIRST_ID || (uintptr_t)a.graph > last_id ||
					 ((uintptr_t)a.graph == last_id && !is_finished);
		fake_graphs.launched++;
		fake_graphs.stream = a.hStream;
		run(a.graph);
	END
	CASE(vcudaGraphDestroy)
		fake_graphs.destroyed++;
		is_finished &= (uintptr_t)a.graph != last_id;
	END
	default:
		return CUDA_ERROR_UNKNOWN;
	}
/* clang-format on */
}
