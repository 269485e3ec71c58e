/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Random numbers: operations of streams, as kernels are. A generator's state goes on from one operation to the next, so
 * each of them has the generator, which lives until the last is done. The memory that the numbers go to is looked for
 * when the operation may start; a stray address ends the context, as a kernel's access would.
 */
#include <stdlib.h>

#include "common/log.h"
#include "device/memory.h"
#include "random/rng.h"
#include "device/stream.h"
#include "math/scrambles.h"

/* The limit for all generators of the process together: a guest may create any number of them. */
#define MOST_BYTES (1ull << 30)

struct vcuda_generator_st {
	struct CUctx_st *context; /* NULL: destroyed, and only operations have it */
	struct softgpu_owned owned;   /* by the context */
	unsigned int refs;
	uint32_t type;
	struct rng *rng;
};

struct generation {
	struct softgpu_op op;
	vcuda_generator generator;
	struct rng_job job;
	vcuda_random random;
	bool begun;
};

static uint64_t bytes_used;

static void put(vcuda_generator g)
{
	if (--g->refs)
		return;
	bytes_used -= rng_bytes(g->type);
	rng_free(g->rng);
	free(g);
}

static void drop(vcuda_generator g)
{
	g->context = NULL;
	vcuda_list_remove(&g->owned.node);
	put(g);
}

static void end_generator(struct softgpu_owned *owned)
{
	drop(container_of(owned, struct vcuda_generator_st, owned));
}

CUresult softgpu_randomCreate(vcuda_generator *generator, uint32_t type)
{
	const uint64_t *scrambles = softgpu_scrambles(type);
	vcuda_generator g;
	struct CUctx_st *c;
	CUresult result = softgpu_enter(&c);

	if (result != CUDA_SUCCESS)
		return result;
	g = bytes_used + rng_bytes(type) <= MOST_BYTES ? calloc(1, sizeof(*g)) : NULL;
	if (!g)
		return softgpu_leave(CUDA_ERROR_OUT_OF_MEMORY);
	g->rng = rng_new(type);
	if (!g->rng) {
		free(g);
		return softgpu_leave(CUDA_ERROR_OUT_OF_MEMORY);
	}
	rng_set_scrambles(g->rng, scrambles);
	bytes_used += rng_bytes(type);
	g->context = c;
	g->refs = 1;
	g->type = type;
	g->owned.end = end_generator;
	vcuda_list_add(&g->owned.node, &c->owned);
	*generator = g;
	return softgpu_leave(CUDA_SUCCESS);
}

static bool belongs(const struct CUctx_st *c, const struct vcuda_generator_st *g)
{
	vcuda_list_for_each (node, &c->owned)
		if (node == &g->owned.node)
			return true;
	return false;
}

CUresult softgpu_randomDestroy(vcuda_generator generator)
{
	struct CUctx_st *c;
	CUresult result = softgpu_enter(&c);

	if (result != CUDA_SUCCESS)
		return result;
	if (!belongs(c, generator))
		return softgpu_leave(CUDA_ERROR_INVALID_HANDLE);
	drop(generator);
	return softgpu_leave(CUDA_SUCCESS);
}

static bool fail(const struct generation *n, CUresult error)
{
	if (softgpu_context_fail(n->op.stream->context, error))
		vcuda_log("random numbers: %s access to memory from 0x%llx on",
			error == CUDA_ERROR_MISALIGNED_ADDRESS ? "misaligned" : "illegal",
			(unsigned long long)n->random.address);
	return false;
}

static bool start(struct softgpu_op *op)
{
	struct generation *n = (struct generation *)op;
	uint64_t size = vcuda_random_bytes(n->random.kind);

	if (n->random.address % size)
		return fail(n, CUDA_ERROR_MISALIGNED_ADDRESS);
	if (!softgpu_is_memory(n->random.address, n->random.count * size, true))
		return fail(n, CUDA_ERROR_ILLEGAL_ADDRESS);
	n->job.cancel = &op->stream->context->cancel;
	if (!rng_begin(n->generator->rng, &n->random, (void *)(uintptr_t)n->random.address, &n->job)) {
		softgpu_context_fail(op->stream->context, CUDA_ERROR_OUT_OF_MEMORY);
		return false;
	}
	n->begun = true;
	op->units = n->job.units;
	return true;
}

static void run(struct softgpu_op *op, uint64_t unit, uint64_t count)
{
	rng_run(&((struct generation *)op)->job, unit);
}

static void finish(struct softgpu_op *op)
{
	struct generation *n = (struct generation *)op;

	if (n->begun)
		rng_end(&n->job);
	if (n->job.failed)
		softgpu_context_fail(op->stream->context, CUDA_ERROR_OUT_OF_MEMORY);
	put(n->generator);
	free(n);
}

static struct generation *make(vcuda_generator generator, const vcuda_random *random)
{
	struct generation *n = calloc(1, sizeof(*n));

	if (!n)
		return NULL;
	n->op.units = 1; /* until it starts */
	n->op.start = start;
	n->op.run = run;
	n->op.finish = finish;
	n->random = *random;
	n->generator = generator;
	generator->refs++;
	return n;
}

CUresult softgpu_random(CUstream handle, vcuda_generator generator, void *random)
{
	struct CUstream_st *stream;
	struct generation *n;
	struct CUctx_st *c;
	CUresult result = softgpu_enter(&c);

	if (result != CUDA_SUCCESS)
		return result;
	stream = softgpu_stream_find(c, handle);
	if (!stream || !belongs(c, generator))
		return softgpu_leave(CUDA_ERROR_INVALID_HANDLE);
	if (generator->type != ((const vcuda_random *)random)->type)
		return softgpu_leave(CUDA_ERROR_INVALID_VALUE);
	n = make(generator, random);
	if (!n)
		return softgpu_leave(CUDA_ERROR_OUT_OF_MEMORY);
	softgpu_submit(stream, &n->op, false);
	return softgpu_leave(CUDA_SUCCESS);
}
