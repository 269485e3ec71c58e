/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Copies to the device that leave the staging area while the guest goes on (vcudaStageIn): the block's word (struct
 * vcuda_handover) tells the guest how far the device has read. The copies are in streams of the worker's own, where no
 * long command is in front of them. Later commands see the copied data: the dispatcher waits for the copies before it
 * runs any other command, or has the device wait before it runs a kernel. All copies in flight are of one context.
 * Thread-safe.
 */
#ifndef VCUDA_STAGE_QUEUE_H
#define VCUDA_STAGE_QUEUE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "session/session.h"

/* A copy: of `bytes` at `from`, which is in `block`. Once the device has read it the block's word is `ticket`. */
struct worker_staged {
	CUdeviceptr to;
	const void *from;
	size_t bytes;
	uint32_t block, ticket;
};

/* In the context that the command is in, which is current. Returns the driver's refusal, with the ticket given all the
 * same. */
CUresult worker_stage_queue_put(struct worker_session *s, const struct worker_staged *copy);
/* The same, behind all present work of the default stream. Returns when that work is complete. */
CUresult worker_stage_queue_put_behind(struct worker_session *s, const struct worker_staged *copy);

/*
 * A command has put a copy into the default stream that may not be complete: the next copy is put behind it. Does not
 * block.
 */
void worker_stage_queue_follow(void);

/* Whether copies may be on their way. The next two do not depend on the current context. */
bool worker_stage_queue_any(void);
/* Tells the guest which copies are complete. */
void worker_stage_queue_look(struct worker_session *s);
/* Waits until all copies are complete. */
void worker_stage_queue_drain(struct worker_session *s);
/*
 * In the context that the command is in, which is current: later work in the stream sees all copies. Blocks only where
 * the device cannot wait.
 */
void worker_stage_queue_precede(struct worker_session *s, CUstream stream);

/*
 * Before a context ends, and after it has ended or failed to; NULL: any context. Copies of other contexts are left
 * alone: they may still wait for their default stream.
 */
void worker_stage_queue_close(struct worker_session *s, CUcontext context);
void worker_stage_queue_reopen(void);

#endif
