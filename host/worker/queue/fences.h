/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Whether the guest process may take a stream's fence, which the device writes, for the answer to a wait (the control
 * page's `fences`). A wait brings what kernels have printed as well, which the driver hands out only where it is asked
 * to wait. So it may until code is loaded that may print. A thread looks for that, as to unpack a small program's code
 * takes 0.1 ms; until it has looked at an image the guest may not.
 */
#ifndef VCUDA_FENCES_H
#define VCUDA_FENCES_H

struct worker_session;
struct worker_image;

/* The back end is there. */
void worker_fences_offer(struct worker_session *s);

/* Before an image is loaded, which the caller holds; from any thread. */
void worker_fences_inspect(struct worker_session *s, struct worker_image *image);

#endif
