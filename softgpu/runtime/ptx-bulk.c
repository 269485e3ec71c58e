/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Stores, reductions and fills that a GPU does asynchronously, done at once like ptx-async.c's copies. The shared
 * memory of the cluster is the block's own. No launch is ever cancelled, an answer that PTX allows.
 */
#include <string.h>

#include "runtime/ptx-async.h"

#define ALIGN 16

/* An address as an offset in shared memory, wherever the instruction says that it is. */
static uint64_t offset_of(const struct ptx_context *ctx, uint32_t number, uint64_t address)
{
	return ctx->binary->sites[number].space == PTX_GENERIC ? address - (uintptr_t)ctx->shared : address;
}

/* Copies, of each 16 bytes, those whose bits are set. */
static void copy_some(uint8_t *to, const uint8_t *from, uint64_t bytes, uint64_t which)
{
	for (uint64_t n = 0; n < bytes; n++)
		if (which >> n % ALIGN & 1)
			to[n] = from[n];
}

void ptx_rt_copy_some(struct ptx_context *ctx, uint32_t number, uint32_t mask, const uint64_t *to, const uint64_t *from,
		      const uint64_t *sizes, const uint64_t *which, uint32_t thread)
{
	for (uint32_t left = mask; left; left &= left - 1) {
		unsigned lane = (unsigned)__builtin_ctz(left);
		uint64_t size = sizes[lane] & ~(uint64_t)(ALIGN - 1);
		const uint8_t *source = ptx_shared_bytes(ctx, number, from[lane], size, ALIGN, false, thread + lane);

		if (size)
			copy_some(ptx_check_span(ctx, number, to[lane], size, ALIGN, thread + lane), source, size,
				  which[lane]);
	}
}

void ptx_rt_copy_near(struct ptx_context *ctx, uint32_t number, uint32_t mask, const uint64_t *to, const uint64_t *from,
		      const uint64_t *sizes, const uint64_t *barriers, uint32_t thread)
{
	for (uint32_t left = mask; left; left &= left - 1) {
		unsigned lane = (unsigned)__builtin_ctz(left);
		uint64_t size = sizes[lane] & ~(uint64_t)(ALIGN - 1);
		const uint8_t *source = ptx_shared_bytes(ctx, number, from[lane], size, ALIGN, false, thread + lane);

		memmove(ptx_shared_bytes(ctx, number, to[lane], size, ALIGN, true, thread + lane), source, size);
		ptx_mbarrier_complete(ctx, number, barriers[lane], size, thread + lane);
	}
}

void ptx_rt_reduce_bulk(struct ptx_context *ctx, uint32_t number, uint32_t mask, const uint64_t *to,
			const uint64_t *from, const uint64_t *sizes, const uint64_t *barriers, uint32_t thread)
{
	const struct ptx_site *site = &ctx->binary->sites[number];

	for (uint32_t left = mask; left; left &= left - 1) {
		unsigned lane = (unsigned)__builtin_ctz(left);
		uint64_t size = sizes[lane] & ~(uint64_t)(ALIGN - 1), operand = 0;
		const uint8_t *source = ptx_shared_bytes(ctx, number, from[lane], size, ALIGN, false, thread + lane);
		uint8_t *target = NULL;

		if (barriers)
			target = ptx_shared_bytes(ctx, number, to[lane], size, ALIGN, true, thread + lane);
		else if (size)
			target = ptx_check_span(ctx, number, to[lane], size, ALIGN, thread + lane);
		/* an H100 keeps subnormals here, which it does not in red.global.add.f32 */
		for (uint64_t n = 0; n < size; n += site->size) {
			memcpy(&operand, source + n, site->size);
			ptx_atom_apply(site, target + n, false, operand);
		}
		if (barriers)
			ptx_mbarrier_complete(ctx, number, barriers[lane], size, thread + lane);
	}
}

void ptx_rt_store_async(struct ptx_context *ctx, uint32_t number, uint32_t mask, const uint64_t *to,
			const uint64_t *values, const uint64_t *barriers, uint32_t thread)
{
	const struct ptx_site *site = &ctx->binary->sites[number];
	uint64_t bytes = (uint64_t)site->size * site->count;

	for (uint32_t left = mask; left; left &= left - 1) {
		unsigned lane = (unsigned)__builtin_ctz(left);
		uint8_t *at = ptx_shared_bytes(ctx, number, offset_of(ctx, number, to[lane]), bytes, bytes, true,
					       thread + lane);

		for (unsigned n = 0; n < site->count; n++)
			if (site->operation)
				ptx_atom_apply(site, at, false, values[lane]);
			else
				memcpy(at + n * site->size, &values[n * 32 + lane], site->size);
		ptx_mbarrier_complete(ctx, number, offset_of(ctx, number, barriers[lane]), bytes, thread + lane);
	}
}

void ptx_rt_fill_bulk(struct ptx_context *ctx, uint32_t number, uint32_t mask, const uint64_t *to,
		      const uint64_t *sizes, const uint64_t *barriers, uint32_t thread)
{
	for (uint32_t left = mask; left; left &= left - 1) {
		unsigned lane = (unsigned)__builtin_ctz(left);
		uint64_t at = offset_of(ctx, number, to[lane]);

		memset(ptx_shared_bytes(ctx, number, at, sizes[lane], barriers ? ALIGN : 8, true, thread + lane), 0,
		       sizes[lane]);
		if (barriers)
			ptx_mbarrier_complete(ctx, number, offset_of(ctx, number, barriers[lane]), sizes[lane],
					      thread + lane);
	}
}
