/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The end of a primary context, while the guest process goes on. NVIDIA's runtime releases the context when a program
 * exits, and the exit need not wait until the driver has destroyed it. The guest's next command waits for that.
 */
#ifndef VCUDA_RELEASE_H
#define VCUDA_RELEASE_H

#include <stdbool.h>

/* Runs part(argument) on a new thread, unless another release is running. False: it is not run. */
bool worker_release_later(void (*part)(void *argument), void *argument);

/* Waits until the release is complete. From any thread but the release's own. */
void worker_release_wait(void);

#endif
