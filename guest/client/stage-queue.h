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
#define VCUDA_STAGE_PIECE ((size_t)64 * 1024)

/*
 * What the synchronous function does with the default stream: returns when what that had to do is done, and the bytes
 * are taken. False: nothing has happened, since another thread is at it or there is no block. Thread-safe.
 */
bool vcuda_stage_queue_in(uint64_t dst, const char *src, size_t bytes, CUresult *result);

/* The same with at most one piece, of memory that the device may write to: false as well unless the context is idle
 * (call.h). */
bool vcuda_stage_queue_idle(uint64_t dst, const char *src, size_t bytes, CUresult *result);

#endif
