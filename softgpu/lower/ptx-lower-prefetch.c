/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Prefetches of what will be accessed soon. They never fault, so that nothing here need be right. Processors follow one
 * array that is walked through by themselves. Measured, they lose track in two cases:
 *
 * - Blocks of several rows. A warp's neighbour is in another row, and the row goes on in the next block. How far an
 *   address moves from one block to the next is known for each register (analysis/ptx-prefetch.c).
 * - With one lane, loops that walk through arrays and look up what they find there in others.
 */
#include "lower/ptx-lower-access.h"

/* The warps that run between the prefetch and the access: the most that a block can have. */
#define PREFETCH_WARPS 32
#define PREFETCH_BYTES 1024
/* The rounds of a loop that moves less go on in the same line, those of one that moves more are too few. */
#define LEAST_STEP 16
#define MOST_STEP 256
#define LINE 64

void prefetch(struct lower *l, LLVMValueRef pointer, int64_t from, uint64_t bytes, bool write, int caches)
{
	LLVMValueRef fn =
		LLVMGetIntrinsicDeclaration(l->m, LLVMLookupIntrinsicID("llvm.prefetch", 13), &l->type.ptr, 1);

	for (uint64_t at = 0; at < bytes; at += LINE) {
		LLVMValueRef args[4] = {field(l, pointer, (uint64_t)from + at), scalar_const(l->type.i32, write),
					scalar_const(l->type.i32, (uint64_t)caches), scalar_const(l->type.i32, 1)};

		LLVMBuildCall2(l->b, LLVMGlobalGetValueType(fn), fn, args, 4, "");
	}
}

static bool is_leader(const struct lower *l, const struct access *a)
{
	return !is_partial(l) && !l->version.quick && !l->own.access.covered[l->at.instr] && a->o->reg >= 0 &&
	       (a->i->space == PTX_GLOBAL || a->i->space == PTX_GENERIC);
}

/* Only where the row goes on in the next block just where this one's ends. */
static void look_along(struct lower *l, const struct access *a, LLVMValueRef pointer)
{
	const struct ptx_along *along = &l->body->along[a->o->reg];
	uint32_t row = l->body->blockdim[0] * a->size, blocks = PTX_LANES * PREFETCH_WARPS / l->body->threads;

	if (along->kind != PTX_ALONG_KNOWN || along->by != row || l->body->blockdim[0] == l->body->threads ||
	    !access_is_in_order(a) || ptx_body_in_loop(l->body, l->at.block))
		return;
	prefetch(l, pointer, a->offsets[0] + (int64_t)row * blocks, PTX_LANES * a->size, a->write, ALL_CACHES);
}

static void look_on(struct lower *l, const struct access *a, LLVMValueRef pointer)
{
	int64_t step =
		a->indexed ? counted_loop_step(l, a->x.index) * (1ll << a->x.shift) : counted_loop_step(l, a->o->reg);

	if (a->write || step > MOST_STEP || step < -MOST_STEP || (step < LEAST_STEP && step > -LEAST_STEP))
		return;
	prefetch(l, pointer, step < 0 ? -PREFETCH_BYTES : PREFETCH_BYTES, 1, false, ALL_CACHES);
}

void prefetch_access(struct lower *l, const struct access *a, LLVMValueRef pointer)
{
	if (!is_leader(l, a))
		return;
	if (l->version.width > 1)
		look_along(l, a, pointer);
	else
		look_on(l, a, pointer);
}
