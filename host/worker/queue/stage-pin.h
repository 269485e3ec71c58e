/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The staging blocks, pinned in the back end. What is pinned belongs to a context, here to that of the first copy
 * through them that found it worth while, and is pinned no longer when that has ended; the next copy pins them again.
 * Without, copies work, only slower: the driver stages them once more. Thread-safe.
 */
#ifndef VCUDA_STAGE_PIN_H
#define VCUDA_STAGE_PIN_H

#include "session/session.h"

/* Before a copy of so many bytes: pins them in the current context once enough is copied, unless they are. */
void worker_stage_pin(struct worker_session *s, size_t bytes);

/* The context has ended, or may have. */
void worker_stage_pin_forget(CUcontext context);

#endif
