/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Waits and questions that are answered before the lane gets to them in the ring, where commands of other streams may
 * stand in front of them. All of this is the lane's owner's.
 *
 * Nothing depends on it: what is not answered early is answered when its command's turn comes.
 */
#ifndef VCUDA_EARLY_H
#define VCUDA_EARLY_H

#include "ring.h"

/*
 * One that may be looked at now, since all that it asks about has been taken from the ring and it has not been looked
 * at just before. NULL: none.
 */
const struct vcuda_early *vcuda_early_next(struct vcuda_consumer *c);

/* What became of it: its slot has its answer; it is not done yet; only the command in the ring can say what is the
 * matter. */
void vcuda_early_answered(const struct vcuda_early *early);
void vcuda_early_put_off(const struct vcuda_early *early);
void vcuda_early_leave(const struct vcuda_early *early);

/* A synchronous command was taken from the ring. Returns true if it has its answer and is not to be run. */
bool vcuda_early_was_answered(struct vcuda_consumer *c, const struct vcuda_command *command);

/* Whether the command waits, and by which one can be asked whether it would; 0: it is no wait. */
uint16_t vcuda_early_question(uint16_t op);

#endif
