/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The limit of queued commands of a stream. The queue of a GPU's stream has about a thousand credits; a call that needs
 * one more blocks in the driver. The commands of all threads reach the worker's driver one after the other, so none may
 * block there: the application's thread waits here. Threads with other streams go on, while up to some 64 streams of a
 * context are behind at once. core/request.h declares libcuda_throttle_take(), which waits.
 */
#ifndef VCUDA_THROTTLE_H
#define VCUDA_THROTTLE_H

#include "core/context.h"
#include "protocol/cuda-abi.h"

/*
 * Waits for a short while until the context's stream has executed all its commands, without an answer of the worker.
 * True: it has, up to the receipt. False: that is not known.
 */
bool libcuda_throttle_fence_wait(struct libcuda_context *context, CUstream stream, struct call_receipt *receipt);

/* The context's stream is gone. */
void libcuda_throttle_end(struct libcuda_context *context, CUstream stream);

/* The context's generation has ended, and its memory is about to be freed. Afterwards no thread reads the memory. */
void libcuda_throttle_end_context(struct libcuda_context *context);

#endif
