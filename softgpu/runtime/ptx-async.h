/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Copies that a GPU does asynchronously, and the barriers in shared memory that wait for them. Here a copy is done when
 * it is issued, a time that PTX allows; groups of copies are then always complete.
 */
#ifndef VCUDA_BACKEND_CPU_PTX_ASYNC_H
#define VCUDA_BACKEND_CPU_PTX_ASYNC_H

#include "front/ptx-opcodes.h"
#include "runtime/ptx-run.h"

/* The lanes' operand is a count, a state or a parity; `results` gets a state, a flag or a count. */
void ptx_rt_mbarrier(struct ptx_context *ctx, uint32_t site, uint32_t operation, uint32_t mask,
		     const uint64_t *addresses, const uint64_t *operands, uint64_t *results, uint32_t thread);
/* The number of arrivals that a state of ptx_rt_mbarrier() lacks. */
#define PTX_MBARRIER_COUNT_BITS 20

/* The address of `bytes` of shared memory; faults. */
uint8_t *ptx_shared_bytes(struct ptx_context *ctx, uint32_t site, uint64_t address, uint64_t bytes, uint64_t align,
			  bool write, uint32_t thread);
/* Tells an mbarrier of bytes that came. */
void ptx_mbarrier_complete(struct ptx_context *ctx, uint32_t site, uint64_t address, uint64_t bytes, uint32_t thread);

/* `bytes` to shared memory, of which so many as `sizes` says come from the source and the others are 0. */
void ptx_rt_copy_async(struct ptx_context *ctx, uint32_t site, uint32_t mask, const uint64_t *to, const uint64_t *from,
		       const uint64_t *sizes, uint32_t bytes, uint32_t thread);
/* Between shared and global memory; barriers: NULL, or the mbarriers that count the bytes. */
void ptx_rt_copy_bulk(struct ptx_context *ctx, uint32_t site, uint32_t mask, const uint64_t *to, const uint64_t *from,
		      const uint64_t *sizes, const uint64_t *barriers, uint32_t thread);

/* ---- ptx-bulk.c ---- */
/* From shared to global memory, of each 16 bytes those that the lower 16 bits of `which` name. */
void ptx_rt_copy_some(struct ptx_context *ctx, uint32_t site, uint32_t mask, const uint64_t *to, const uint64_t *from,
		      const uint64_t *sizes, const uint64_t *which, uint32_t thread);
/* Within shared memory. */
void ptx_rt_copy_near(struct ptx_context *ctx, uint32_t site, uint32_t mask, const uint64_t *to, const uint64_t *from,
		      const uint64_t *sizes, const uint64_t *barriers, uint32_t thread);
/* Elements of shared memory go into those of global memory; with barriers, of shared memory. */
void ptx_rt_reduce_bulk(struct ptx_context *ctx, uint32_t site, uint32_t mask, const uint64_t *to, const uint64_t *from,
			const uint64_t *sizes, const uint64_t *barriers, uint32_t thread);
/* values: as many lists as the site has elements. A reduction if the site has an operation. */
void ptx_rt_store_async(struct ptx_context *ctx, uint32_t site, uint32_t mask, const uint64_t *to, const uint64_t *values,
			const uint64_t *barriers, uint32_t thread);
/* Zeroes in shared memory; barriers: NULL, or the mbarriers that count the bytes. */
void ptx_rt_fill_bulk(struct ptx_context *ctx, uint32_t site, uint32_t mask, const uint64_t *to, const uint64_t *sizes,
		      const uint64_t *barriers, uint32_t thread);

/* ---- ptx-tensor.c ---- */
/*
 * Boxes of tensors. mode: how many dimensions they have, whether these are boxes of images, and whether those have
 * offsets. coords: lists of two coordinates each, the first below the second; behind three of them one of offsets of 16
 * bits.
 */
enum {
	PTX_TENSOR_MODE_RANK = 7,
	PTX_TENSOR_MODE_IMAGES = 8,
	PTX_TENSOR_MODE_OFFSETS = 16,
	PTX_TENSOR_OFFSETS = 3 /* number of the list of offsets */
};

void ptx_rt_tensor_load(struct ptx_context *ctx, uint32_t site, uint32_t mask, const uint64_t *to, const uint64_t *maps,
			const uint64_t *coords, const uint64_t *barriers, uint32_t mode, uint32_t thread);
void ptx_rt_tensor_store(struct ptx_context *ctx, uint32_t site, uint32_t mask, const uint64_t *from,
			 const uint64_t *maps, const uint64_t *coords, uint32_t mode, uint32_t thread);
void ptx_rt_tensor_reduce(struct ptx_context *ctx, uint32_t site, uint32_t mask, const uint64_t *from,
			  const uint64_t *maps, const uint64_t *coords, uint32_t mode, uint32_t thread);
/* Looks at the map only. */
void ptx_rt_tensor_prefetch(struct ptx_context *ctx, uint32_t site, uint32_t mask, const uint64_t *maps,
			    const uint64_t *coords, uint32_t mode, uint32_t thread);
/* Changes fields of maps (enum ptx_tensor_field). */
void ptx_rt_tensor_replace(struct ptx_context *ctx, uint32_t site, uint32_t mask, const uint64_t *maps,
			   const uint64_t *values, uint32_t field, uint32_t which, uint32_t thread);
/* A map, whatever is in it, from shared to global memory. */
void ptx_rt_tensor_publish(struct ptx_context *ctx, uint32_t site, uint32_t mask, const uint64_t *to,
			   const uint64_t *from, uint32_t thread);

#endif
