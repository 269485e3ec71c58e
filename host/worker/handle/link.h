/* SPDX-License-Identifier: Apache-2.0 */
/* The driver's linker: links end with their context. Thread-safe. */
#ifndef VCUDA_WORKER_LINK_H
#define VCUDA_WORKER_LINK_H

#include "session/session.h"

/* Before a context ends: destroys its links, once the calls that are at them are through. NULL: there is none. */
void worker_links_end(struct worker_session *s, CUcontext context);

#endif
