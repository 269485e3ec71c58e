/* SPDX-License-Identifier: Apache-2.0 */
/* Pools of stream-ordered allocation. All calls with the scheduler's lock held. */
#ifndef VCUDA_CPU_POOL_H
#define VCUDA_CPU_POOL_H

#include <stdbool.h>
#include <stdint.h>

#include "common/share.h"
#include "ops.h"

struct CUmemPoolHandle_st {
	unsigned int refs; /* the handle and each allocation */
	uint64_t threshold, limit;
	uint64_t used, used_high, reserved_high;
	int reuse[3];                   /* policies of which there is nothing to decide here */
	CUdevice device;                /* the device with the memory */
	uint8_t access;                 /* bits of the devices whose kernels may access it */
	bool shareable;                 /* made for several processes */
	bool imported;                  /* another process's: has imported memory only, and allocates nothing */
	bool offered;                   /* this process has exported the pool */
	struct vcuda_share_handle name; /* of an imported or an offered one */
};

/* A new pool of a device. NULL: no memory. */
struct CUmemPoolHandle_st *softgpu_pool_new(CUdevice dev, uint64_t limit);

/* A pool that a handle names, or NULL. */
struct CUmemPoolHandle_st *softgpu_pool_find(struct CUmemPoolHandle_st *handle);

/* An allocation of `bytes` belongs to the pool from now on. */
void softgpu_pool_took(struct CUmemPoolHandle_st *pool, uint64_t bytes);

/* An allocation of `bytes` of this pool is gone. */
void softgpu_pool_freed(struct CUmemPoolHandle_st *pool, uint64_t bytes);

#endif
