/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How far a stream may run behind. The queue of a GPU's stream has about a thousand places, and who wants one more
 * waits in the driver. Commands of all threads reach the worker's driver one after the other, so none should have to
 * wait there: the application's thread waits here. Others, with other streams, go on. That holds while up to some 64
 * streams of a context are behind at once. core/request.h declares vcuda_pace(), which waits.
 */
#ifndef VCUDA_THROTTLE_H
#define VCUDA_THROTTLE_H

#include "core/context.h"
#include "protocol/cuda-abi.h"

/*
 * Waits for a short while until the context's stream has executed all its commands, without an answer of the worker.
 * True: it has, up to the receipt. False: that is not known.
 */
bool vcuda_pace_wait(struct vcuda_context *context, CUstream stream, struct call_receipt *receipt);

/* The context's stream is gone. */
void vcuda_pace_end(struct vcuda_context *context, CUstream stream);

/* The context's life has ended, and its memory is about to: nobody looks at it any more. */
void vcuda_pace_end_context(struct vcuda_context *context);

#endif
