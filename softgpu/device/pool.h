/* SPDX-License-Identifier: Apache-2.0 */
/* Pools of stream-ordered allocation. All calls with the scheduler's lock held. */
#ifndef VCUDA_CPU_POOL_H
#define VCUDA_CPU_POOL_H

#include <stdint.h>

struct CUmemPoolHandle_st;

/* An allocation of `bytes` of this pool is gone. */
void softgpu_pool_freed(struct CUmemPoolHandle_st *pool, uint64_t bytes);

#endif
