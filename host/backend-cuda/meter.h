/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Device memory of a GPU, counted for the worker's meter by wrappers of the driver's functions that allocate and free
 * memory. An allocation costs the bytes that the program asks for. For modules, limits and further contexts only the
 * driver knows the cost: it is the growth of this process's memory during the call, by NVIDIA's management library.
 * Where that library does not know the process, the loss of the device's free memory is the cost, which other processes
 * change too. So such calls are measured only where there is a limit. Memory that the driver takes later by itself is
 * not counted: kernels that it loads at their first launch, stacks, work areas of its libraries.
 */
#ifndef VCUDA_CUDA_METER_H
#define VCUDA_CUDA_METER_H

#include "protocol/backend.h"
#include "protocol/meter.h"

/*
 * Called after all other parts that replace functions in `ops`. `nested`: the driver is the guest's library of
 * virtio-cuda.
 */
void backend_meter_init(struct vcuda_backend_ops *ops, void *driver_library, bool nested,
			const struct vcuda_meter *meter);

/* Pools and cuMemCreate() have files of their own, which backend_meter_init() calls. */
void backend_meter_pools(struct vcuda_backend_ops *ops);
void backend_meter_mappings(struct vcuda_backend_ops *ops);

/* An address of a pool's, or another one, was freed. */
void backend_meter_pool_freed(CUdeviceptr address);

/*
 * Between these two calls no other thread makes a pool of this process grow or shrink. The calling thread may reclaim.
 */
void backend_meter_pools_hold(void);
void backend_meter_pools_let_go(void);

/* Gives back the unused memory of pools. */
void backend_meter_reclaim(void);

/* The pools' charges become what the pools have now. */
void backend_meter_settle_pools(void);

/* The number of the current context's device, and of a stream's. */
unsigned int backend_meter_gpu(void);
unsigned int backend_meter_stream_gpu(CUstream stream);

#endif
