/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The end of a primary context, while the guest process goes on: NVIDIA's runtime releases it when a program exits, and
 * an exit need not wait until the driver has taken it apart. Whatever the guest asks next waits for that.
 */
#ifndef VCUDA_RELEASE_H
#define VCUDA_RELEASE_H

#include <stdbool.h>

/* Runs part(argument) on a thread of its own, where no other is under way. False: it does not. */
bool worker_release_later(void (*part)(void *argument), void *argument);

/* Until it is done. From any thread but its own. */
void worker_release_wait(void);

#endif
