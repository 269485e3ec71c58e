/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Copies to the device that leave the staging area while the guest goes on (vcudaStageIn): by the word of the block
 * (struct vcuda_handover) it learns how far the device has read. They are in streams of the worker's own, where nothing
 * that takes long can stand in front of them, and whoever comes behind them finds them done: the dispatcher waits for them
 * before it runs any other command, or has the device wait before it runs a kernel. All that are on their way are of one context. Thread-safe.
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
/* The same, behind all that the default stream has to do now. Returns when that is done. */
CUresult worker_stage_queue_put_behind(struct worker_session *s, const struct worker_staged *copy);

/* A command has copied in the default stream, where that may not be through: what is put next comes behind. Waits for
 * nobody. */
void worker_stage_queue_follow(void);

/* Whether copies may be on their way. The next two do not depend on the current context. */
bool worker_stage_queue_any(void);
/* Tells the guest what is through. */
void worker_stage_queue_look(struct worker_session *s);
/* Waits until all is. */
void worker_stage_queue_drain(struct worker_session *s);
/* In the context that the command is in, which is current: what comes next in the stream finds all done. Waits itself
 * only where the device cannot. */
void worker_stage_queue_precede(struct worker_session *s, CUstream stream);

/*
 * Before a context ends, and when it has or could not; NULL: whichever it is. What others have is left to them: a copy
 * of theirs may wait for its default stream still.
 */
void worker_stage_queue_close(struct worker_session *s, CUcontext context);
void worker_stage_queue_reopen(void);

#endif
