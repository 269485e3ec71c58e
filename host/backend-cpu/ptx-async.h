/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Copies that a GPU does beside its threads, and the barriers in shared memory that wait for them. Here a copy is done
 * when it is issued, which is a time that PTX allows; groups of copies are then always complete.
 */
#ifndef VCUDA_BACKEND_CPU_PTX_ASYNC_H
#define VCUDA_BACKEND_CPU_PTX_ASYNC_H

#include "ptx-run.h"

enum ptx_mbarrier_operation {
	PTX_MBARRIER_INIT,
	PTX_MBARRIER_INVAL,
	PTX_MBARRIER_ARRIVE,
	PTX_MBARRIER_DROP,
	PTX_MBARRIER_ARRIVE_TX, /* expects bytes, then arrives */
	PTX_MBARRIER_DROP_TX,
	PTX_MBARRIER_EXPECT_TX,
	PTX_MBARRIER_COMPLETE_TX,
	PTX_MBARRIER_TEST,
	PTX_MBARRIER_TEST_PARITY,
	PTX_MBARRIER_PENDING,
	PTX_MBARRIER_ARRIVE_COPIES, /* cp.async.mbarrier.arrive */
};

/* The lanes' operand is a count, a state or a parity; `results` gets a state, a flag or a count. */
void ptx_rt_mbarrier(struct ptx_context *ctx, uint32_t site, uint32_t operation, uint32_t mask,
		     const uint64_t *addresses, const uint64_t *operands, uint64_t *results, uint32_t thread);
/* The number of arrivals that a state of ptx_rt_mbarrier() lacks. */
#define PTX_MBARRIER_COUNT_BITS 20

/* `bytes` to shared memory, of which so many as `sizes` says come from the source and the others are 0. */
void ptx_rt_copy_async(struct ptx_context *ctx, uint32_t site, uint32_t mask, const uint64_t *to, const uint64_t *from,
		       const uint64_t *sizes, uint32_t bytes, uint32_t thread);
/* Between shared and global memory; barriers: NULL, or what to tell about the bytes that came. */
void ptx_rt_copy_bulk(struct ptx_context *ctx, uint32_t site, uint32_t mask, const uint64_t *to, const uint64_t *from,
		      const uint64_t *sizes, const uint64_t *barriers, uint32_t thread);

#endif
