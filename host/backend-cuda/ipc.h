/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Memory, events and pools of several processes. The driver's own handles open in whatever process of the host knows or
 * guesses them, so no guest is ever given one, nor is one of a guest's given to the driver: a guest has handles of
 * common/share.h, behind which the workers of that guest alone get the driver's. The driver's descriptors of mapped
 * memory and pools go to the guest's keeper, and its notes of pools' memory with them: a descriptor of the driver's
 * keeps the memory in whatever process it is open.
 */
#ifndef VCUDA_CUDA_IPC_H
#define VCUDA_CUDA_IPC_H

#include <stdbool.h>

#include "protocol/backend.h"

/*
 * As cuMemExportToShareableHandle() and cuMemImportFromShareableHandle(). Another worker learns how large the
 * allocation is, and the keeper how much it costs on which GPU. *exported: the handle under which this process exports
 * it, 0 where another process does.
 */
CUresult backend_share_export(void *shared, uint64_t handle, unsigned int gpu, uint64_t bytes, uint64_t flags);

/* The same for a pool, whose cost changes. */
CUresult backend_share_export_pool(void *shared, CUmemoryPool pool, unsigned int gpu, uint64_t bytes, uint64_t flags);

/* Of a pool that is not exported, nothing happens. */
void backend_share_resize_pool(CUmemoryPool pool, uint64_t bytes);

CUresult backend_share_import(uint64_t *handle, void *shared, uint64_t *bytes, uint64_t *exported);

/* Whether this process has given memory or events to another one, has had some of another one's, or has a peer. */
bool backend_has_shared(void);

/* Puts that between the worker and the driver's functions in `ops`, which stay NULL where the driver lacks them. */
void backend_share(struct vcuda_backend_ops *ops);

#endif
