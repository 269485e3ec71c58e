/* SPDX-License-Identifier: Apache-2.0 */
/*
 * An mbarrier is 64 bits of shared memory that PTX calls opaque. Here: arrivals that a phase needs, arrivals that are
 * still missing, bytes that are still missing (signed), and the parity of the phase. A block's shared memory is touched
 * by its own OS thread only, so that plain accesses do.
 */
#include <string.h>

#include "runtime/ptx-async.h"

#define COUNT_MASK ((1ull << PTX_MBARRIER_COUNT_BITS) - 1)
#define BYTES_SHIFT (2 * PTX_MBARRIER_COUNT_BITS)
#define BYTES_BITS 23
#define PHASE (1ull << 63)

struct mbarrier {
	uint64_t needed, missing, phase;
	int64_t bytes;
};

static struct mbarrier unpack(uint64_t word)
{
	return (struct mbarrier){
		.needed = word & COUNT_MASK,
		.missing = word >> PTX_MBARRIER_COUNT_BITS & COUNT_MASK,
		.bytes = (int64_t)(word << 1) >> (64 - BYTES_BITS),
		.phase = word & PHASE,
	};
}

static uint64_t pack(struct mbarrier b)
{
	if (!b.missing && !b.bytes) {
		b.missing = b.needed;
		b.phase ^= PHASE;
	}
	return (b.needed & COUNT_MASK) | (b.missing & COUNT_MASK) << PTX_MBARRIER_COUNT_BITS |
	       ((uint64_t)b.bytes & ((1ull << BYTES_BITS) - 1)) << BYTES_SHIFT | b.phase;
}

/* Applies an operation to the barrier, and gives the word's next value. */
static uint64_t operate(unsigned operation, uint64_t *word, uint64_t operand)
{
	uint64_t old = *word;
	struct mbarrier b = unpack(old);

	switch (operation) {
	case PTX_MBARRIER_INIT:
		b = (struct mbarrier){.needed = operand, .missing = operand};
		break;
	case PTX_MBARRIER_ARRIVE_TX:
	case PTX_MBARRIER_DROP_TX:
		b.bytes += (int64_t)operand;
		operand = 1;
		b.needed -= operation == PTX_MBARRIER_DROP_TX;
		b.missing -= operand;
		break;
	case PTX_MBARRIER_DROP:
		b.needed -= operand;
		b.missing -= operand;
		break;
	case PTX_MBARRIER_ARRIVE:
		b.missing -= operand;
		break;
	case PTX_MBARRIER_EXPECT_TX:
		b.bytes += (int64_t)operand;
		break;
	case PTX_MBARRIER_COMPLETE_TX:
		b.bytes -= (int64_t)operand;
		break;
	case PTX_MBARRIER_TEST:
		return (old ^ operand) >> 63;
	case PTX_MBARRIER_TEST_PARITY:
		return (old >> 63) != (operand & 1);
	default:
		/* inval leaves memory for other uses; copies that have arrived already change nothing */
		return old;
	}
	*word = pack(b);
	return old;
}

void ptx_rt_mbarrier(struct ptx_context *ctx, uint32_t site, uint32_t operation, uint32_t mask,
		     const uint64_t *addresses, const uint64_t *operands, uint64_t *results, uint32_t thread)
{
	for (uint32_t left = mask; left; left &= left - 1) {
		unsigned lane = (unsigned)__builtin_ctz(left);
		uint64_t *word = (uint64_t *)(void *)ptx_check_lane(ctx, site, addresses[lane], thread + lane);

		results[lane] = operate(operation, word, operands[lane]);
	}
}

uint8_t *ptx_shared_bytes(struct ptx_context *ctx, uint32_t number, uint64_t address, uint64_t bytes, uint64_t align,
			  bool write, uint32_t thread)
{
	struct ptx_site site = ctx->binary->sites[number];

	/* nothing: CUB copies that from and to wherever its rounding ends */
	if (!bytes)
		return ctx->shared;
	site.space = PTX_SHARED;
	site.write = write;
	if (address & (align - 1))
		return ptx_stray(ctx, &site, PTX_FAULT_MISALIGNED, address, bytes, thread);
	if (address > ctx->shared_bytes || bytes > ctx->shared_bytes - address)
		return ptx_stray(ctx, &site, PTX_FAULT_ILLEGAL_ADDRESS, address, bytes, thread);
	return ctx->shared + address;
}

void ptx_mbarrier_complete(struct ptx_context *ctx, uint32_t site, uint64_t address, uint64_t bytes, uint32_t thread)
{
	operate(PTX_MBARRIER_COMPLETE_TX, (uint64_t *)(void *)ptx_shared_bytes(ctx, site, address, 8, 8, true, thread), bytes);
}

void ptx_rt_copy_async(struct ptx_context *ctx, uint32_t site, uint32_t mask, const uint64_t *to, const uint64_t *from,
		       const uint64_t *sizes, uint32_t bytes, uint32_t thread)
{
	for (uint32_t left = mask; left; left &= left - 1) {
		unsigned lane = (unsigned)__builtin_ctz(left);
		uint8_t *target = ptx_shared_bytes(ctx, site, to[lane], bytes, bytes, true, thread + lane);
		uint64_t size = sizes[lane] < bytes ? sizes[lane] : bytes;
		const uint8_t *source;

		if (size) {
			source = ptx_check_span(ctx, site, from[lane], size, bytes, thread + lane);
			memmove(target, source, size);
		}
		if (size < bytes)
			memset(target + size, 0, bytes - size);
	}
}

#define BULK_ALIGN 16

void ptx_rt_copy_bulk(struct ptx_context *ctx, uint32_t site, uint32_t mask, const uint64_t *to, const uint64_t *from,
		      const uint64_t *sizes, const uint64_t *barriers, uint32_t thread)
{
	for (uint32_t left = mask; left; left &= left - 1) {
		unsigned lane = (unsigned)__builtin_ctz(left);
		uint64_t size = sizes[lane] & ~(uint64_t)(BULK_ALIGN - 1), global = barriers ? from[lane] : to[lane];
		uint8_t *far, *near = ptx_shared_bytes(ctx, site, barriers ? to[lane] : from[lane], size, BULK_ALIGN,
						   barriers, thread + lane);

		if (size)
			far = ptx_check_span(ctx, site, global, size, BULK_ALIGN, thread + lane);
		if (size)
			memmove(barriers ? near : far, barriers ? far : near, size);
		if (barriers)
			ptx_mbarrier_complete(ctx, site, barriers[lane], size, thread + lane);
	}
}
