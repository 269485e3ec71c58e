/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Memory, events and pools of several processes. Any process of the host that knows or guesses a driver's handle can
 * open it. So a guest never gets one, and the driver never gets a guest's: a guest has handles of common/share.h, for
 * which only the workers of that guest get the driver's handles. The driver's descriptors of mapped memory and pools
 * go to the guest's keeper, with its notes of pools' memory: an open descriptor of the driver's keeps the memory, in
 * any process. The functions are thread-safe.
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

/* The exported pool costs `bytes` from now on. Does nothing for a pool that is not exported. */
void backend_share_resize_pool(CUmemoryPool pool, uint64_t bytes);

CUresult backend_share_import(uint64_t *handle, void *shared, uint64_t *bytes, uint64_t *exported);

/* Whether this process has given memory or events to another one, has had some of another one's, or has a peer. */
bool backend_has_shared(void);

/* Replaces the driver's functions in `ops` by those of this part; functions that the driver lacks stay NULL. */
void backend_share(struct vcuda_backend_ops *ops);

#endif
