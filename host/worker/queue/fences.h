/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Whether the guest process may treat a stream's fence, which the device writes, as the end of a wait (the control
 * page's `fences`). A real wait also delivers the printf output of kernels, which the driver flushes only there. So
 * fences are allowed until code is loaded that may print. A thread searches each image for such code, since unpacking a
 * small program's code takes 0.1 ms; until it has searched an image, fences are not allowed.
 */
#ifndef VCUDA_FENCES_H
#define VCUDA_FENCES_H

struct worker_session;
struct worker_image;

/* The back end is loaded: fences are allowed from now on, if the driver can write them. */
void worker_fences_offer(struct worker_session *s);

/* Before an image is loaded, which the caller holds; from any thread. */
void worker_fences_inspect(struct worker_session *s, struct worker_image *image);

#endif
