/* SPDX-License-Identifier: Apache-2.0 */
/* Device memory of several processes: memory.c tells this file of ends. With the lock held. */
#ifndef VCUDA_CPU_IPC_H
#define VCUDA_CPU_IPC_H

#include <stdbool.h>
#include <stdint.h>

#include "common/share.h"
#include "protocol/cuda-abi.h"

/* The result of a call for an error of vcuda_share_take(). */
CUresult softgpu_ipc_result(int err);

/* A handle carries the number of the device that has the memory. The maker of a handle may have written any number. */
void softgpu_ipc_set_device(struct vcuda_share_handle *handle, CUdevice dev);
CUdevice softgpu_ipc_device(const struct vcuda_share_handle *handle);

/* An allocation is freed: no process can open it any more. */
void softgpu_ipc_freed(uint64_t address);

/* These pages are free: pages that other processes could open become private to this process. */
void softgpu_ipc_unshare(uint64_t start, uint64_t end);

/* Whether another process may have one of these pages open: such pages are in a file. */
bool softgpu_ipc_is_shared(uint64_t start, uint64_t end);

/* Unmaps another process's memory. Its range is off the table, and no work uses it. */
void softgpu_ipc_closed(uint64_t address);

/* Whether memory is imported of the pool that `pool` is an import of. With the lock held. */
bool softgpu_ipc_pool_is_used(const struct CUmemPoolHandle_st *pool);

#endif
