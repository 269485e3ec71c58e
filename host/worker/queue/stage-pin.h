/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The staging blocks, pinned in the back end. The pinning belongs to the context of the copy that made it, and ends
 * with that context; the next copy pins the blocks again. Copies through blocks that are not pinned are slower, since
 * the driver stages them once more. Thread-safe.
 */
#ifndef VCUDA_STAGE_PIN_H
#define VCUDA_STAGE_PIN_H

#include "session/session.h"

/*
 * Before a copy of so many bytes: pins the blocks in the current context once enough is copied, unless they are pinned.
 */
void worker_stage_pin(struct worker_session *s, size_t bytes);

/* The context has ended, or may have. */
void worker_stage_pin_forget(CUcontext context);

#endif
