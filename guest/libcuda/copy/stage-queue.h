/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Host memory on its way to the device through one staging block, in pieces that follow one another: the caller
 * fills one while the device reads those before it, and need not wait for the last.
 */
#ifndef VCUDA_STAGE_QUEUE_H
#define VCUDA_STAGE_QUEUE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "protocol/cuda-abi.h"

/* In one piece. */
#define LIBCUDA_STAGE_PIECE ((size_t)64 * 1024)

struct libcuda_context;

/*
 * The synchronous copy on the default stream of a context: returns once the work before it is done and the bytes are
 * taken. False: nothing has happened, since another thread uses the block or there is none. Thread-safe.
 */
bool libcuda_stage_queue_in(struct libcuda_context *c, uint64_t dst, const char *src, size_t bytes, CUresult *result);

/* The same with at most one piece, of memory that the device may write to: false as well unless the context is idle
 * (call.h). */
bool libcuda_stage_queue_idle(struct libcuda_context *c, uint64_t dst, const char *src, size_t bytes, CUresult *result);

#endif
