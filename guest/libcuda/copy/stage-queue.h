/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Copies of host memory through one staging block. To the device they go in pieces that follow one another: the caller
 * fills one while the device reads those before it, and need not wait for the last.
 */
#ifndef VCUDA_STAGE_QUEUE_H
#define VCUDA_STAGE_QUEUE_H

#include <stdbool.h>
#include <stddef.h>

#include "copy/copy-policy.h"

/* The size of a piece, in bytes. */
#define LIBCUDA_STAGE_PIECE ((size_t)64 * 1024)

/*
 * Copies pageable memory. Returns when the stream's earlier work is done, and the bytes have been read from `host` or
 * have arrived there. Thread-safe.
 */
CUresult libcuda_stage_queue_copy(const struct libcuda_transfer *t);

/*
 * Copies at most one piece of memory that the device may write to. Returns false, and does nothing, unless the context
 * is idle (core/context.h) and the block is free. Thread-safe.
 */
bool libcuda_stage_queue_copy_idle(const struct libcuda_transfer *t, CUresult *result);

#endif
