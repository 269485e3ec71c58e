/* SPDX-License-Identifier: Apache-2.0 */
/* Access of devices to registered guest memory (vcudaMemHostAccess) across the end of contexts. */
#ifndef VCUDA_HANDLE_HOST_ACCESS_H
#define VCUDA_HANDLE_HOST_ACCESS_H

#include <stdbool.h>

struct worker_session;

/* CUDA has no more devices. */
#define WORKER_MOST_DEVICES 64

/* Whether the back end has what vcudaMemHostAccess needs. Any thread, once the session has its back end. */
bool worker_host_access_is_there(const struct worker_session *s);

/*
 * The primary context of the device ends between these two calls. No context gets access meanwhile. Guest memory that
 * is registered in it is registered again: by the first call in the primary context of another device that has access
 * and a primary context; by the second call if the context is still there (`active`); else when the guest retains the
 * primary context of a device that has access, which it says with worker_host_access_retained(). Until then the guest's
 * pages stay held, and no context has access to them.
 */
void worker_host_access_close(struct worker_session *s, int dev);
void worker_host_access_reopen(struct worker_session *s, int dev, bool active);
void worker_host_access_retained(struct worker_session *s, int dev);

#endif
