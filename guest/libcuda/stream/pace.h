/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How far a stream may run behind. The queue of a GPU's stream has about a thousand places, and who wants one more
 * waits in the driver. Commands of all threads reach the worker's driver one after the other, so none should have to
 * wait there: the application's thread waits here. Others, with other streams, go on. That holds while up to some 64
 * streams of a context are behind at once.
 */
#ifndef VCUDA_PACE_H
#define VCUDA_PACE_H

#include "core/context.h"
#include "protocol/cuda-abi.h"

/* How many places a queue has; 0: nobody has to wait. Before the first command. */
void vcuda_pace_start(unsigned int places);

/*
 * The calling context's stream, one of the worker's, is about to get a command that takes so many places in its queue,
 * 0: one for all of its kind that follow one another. Waits until there is room. Gives what the waiting thread must
 * learn of: an error of an earlier command. Thread-safe.
 */
CUresult vcuda_pace(CUstream stream, unsigned int places);

/*
 * Waits for a short while until the calling context's stream has done what it has got so far, without an answer of the
 * worker's. False: that is not known, and everything else is, as if nobody had asked.
 */
bool vcuda_pace_wait(CUstream stream);

/* The stream is gone. */
void vcuda_pace_end(CUstream stream);

/* The context's life has ended, and its memory is about to: nobody looks at it any more. */
void vcuda_pace_end_context(struct vcuda_context *context);

#endif
