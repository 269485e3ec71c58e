/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Device memory of a GPU, counted for the worker's meter: in front of the driver's functions that make and free memory,
 * so that nothing else has to know. What a call costs is what the program asks for; where only the driver knows
 * (modules, limits, further contexts), what this process has before and after, as NVIDIA's management library says.
 * Where that library does not know the process, the device's free memory stands in, which other processes change too.
 * So it is measured only where there is a limit. What the driver takes later by itself is not known here: kernels that
 * it loads when they are first launched, stacks, work areas of its libraries.
 */
#ifndef VCUDA_CUDA_METER_H
#define VCUDA_CUDA_METER_H

#include "protocol/backend.h"
#include "protocol/meter.h"

/* Comes last of what replaces functions in `ops`. `nested`: the driver is the guest's library of virtio-cuda. */
void backend_meter_init(struct vcuda_backend_ops *ops, void *driver_library, bool nested,
			const struct vcuda_meter *meter);

/* Pools and cuMemCreate() have files of their own, which backend_meter_init() calls. */
void backend_meter_pools(struct vcuda_backend_ops *ops);
void backend_meter_mappings(struct vcuda_backend_ops *ops);

/* An address of a pool's, or another one, was freed. */
void backend_meter_pool_freed(CUdeviceptr address);

/* Between them no pool of this process grows or shrinks by another thread. The thread may reclaim. */
void backend_meter_pools_hold(void);
void backend_meter_pools_let_go(void);

/* Gives back what pools have and do not use. */
void backend_meter_reclaim(void);

/* The pools' charges become what the pools have now. */
void backend_meter_settle_pools(void);

/* The number of the current context's device, and of a stream's. */
unsigned int backend_meter_gpu(void);
unsigned int backend_meter_stream_gpu(CUstream stream);

#endif
