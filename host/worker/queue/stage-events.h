/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The events of large copies (vcudaStageTurns), kept from one copy to the next of the same context: making and
 * destroying them takes as long as a piece of a copy on its way. One set is kept; copies at the same time make their
 * own. Thread-safe.
 */
#ifndef VCUDA_STAGE_EVENTS_H
#define VCUDA_STAGE_EVENTS_H

#include "ring/ring.h"
#include "session/session.h"

struct worker_stage_events {
	uint64_t context, generation;
	unsigned int count;
	CUevent events[VCUDA_STAGE_BLOCKS];
};

/*
 * At least `count` events of the context that the command is in, which is current. The caller gives the set back even
 * if the call has failed.
 */
CUresult worker_stage_events_take(struct worker_session *s, struct worker_stage_events *set, unsigned int count);
/* `good`: they can be used again. */
void worker_stage_events_give(struct worker_session *s, struct worker_stage_events *set, bool good);

/* Before a context ends, whichever it is. */
void worker_stage_events_drop(struct worker_session *s);

#endif
