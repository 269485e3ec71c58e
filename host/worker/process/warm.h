/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A warm worker loads and initialises the back end before it has a guest process. Then, on a thread of its own, it
 * retains a device's primary context.
 *
 * The guest sees none of it. Until it retains that context itself, calls on the device answer as if it were not there;
 * before it makes another context, or says how that one shall be, the context goes. All functions are thread-safe, and
 * do nothing, or say no, in a worker that was not warmed.
 */
#ifndef VCUDA_WARM_H
#define VCUDA_WARM_H

#include <stdbool.h>

#include "protocol/cuda-abi.h"

/*
 * Returns when the back end is loaded. The software GPU's forks a process (process/compiler.h), so no other thread may
 * be at work. Call it after mappings have their addresses. device: whose context, -1: none. Where something fails while
 * there is no guest process yet, the worker ends with status 1.
 */
void worker_warm_start(int device);
bool worker_warm_started(void);

/* There is a guest process from now on: a failure is told to it. */
void worker_warm_claim(void);

/* Loads worker_loaded unless it is loaded. False: that failed, which is logged. */
bool worker_warm_backend(void);

/* False: the context has failed while it was unused (an error of a GPU ends all contexts on it). */
bool worker_warm_is_sound(void);

/* The context, which is the caller's to release from now on. False: there is none of that device. */
bool worker_warm_take(CUdevice dev, CUcontext *context);

/* Whether there is one that the guest has not retained, and the flags that the context would have were it not active.
 */
bool worker_warm_hides(CUdevice dev, unsigned int *flags);

/* Releases what is not taken. */
void worker_warm_drop(void);

#endif
