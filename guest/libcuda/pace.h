/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How far a stream may run behind. The queue of a GPU's stream has about a thousand places, and who wants one more waits
 * in the driver. Commands of all threads reach the worker's driver one after the other, so none may have to wait there:
 * the application's thread waits here. Others, with other streams, go on.
 */
#ifndef VCUDA_PACE_H
#define VCUDA_PACE_H

#include "cuda-abi.h"

/*
 * The calling context's stream, one of the worker's, is about to get a command that takes so many places in its queue:
 * waits until there is room. Gives what the waiting thread must learn of: an error of an earlier command. Thread-safe.
 */
CUresult vcuda_pace(CUstream stream, unsigned int places);

/* The stream is gone. */
void vcuda_pace_end(CUstream stream);

#endif
