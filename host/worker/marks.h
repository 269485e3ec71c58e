/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Whether the guest process may take a stream's mark, which the device writes, for the answer to a wait (the control
 * page's `marks`). A wait brings what kernels have printed as well, which the driver hands out only where it is asked
 * to wait. So it may until code is loaded that may print.
 */
#ifndef VCUDA_MARKS_H
#define VCUDA_MARKS_H

#include <stddef.h>

struct vcuda_session;

/* The back end is there. */
void vcuda_marks_offer(struct vcuda_session *s);

/* Before an image is loaded. */
void vcuda_marks_look_at(struct vcuda_session *s, const void *image, size_t bytes);

#endif
